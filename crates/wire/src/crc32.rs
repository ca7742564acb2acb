//! CRC-32/MPEG-2: polynomial 0x04c11db7, most significant bit first, initial value all ones, no final
//! complement.
//!
//! The frame check sequence of Ethernet is another CRC of the same polynomial: least significant bit first,
//! and complemented.

/// The value of the register before the first byte.
pub const START: u32 = u32::MAX;

const POLYNOMIAL: u32 = 0x04c1_1db7;

/// The change of the register for each value of the byte that is shifted out of it: the number that is XORed
/// into the shifted register. The value is the top byte of the register, XORed with the next byte of the
/// data.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            let carry = register >> 31;
            register = (register << 1) ^ (carry * POLYNOMIAL);
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
};

/// Returns the register after `bytes`, given the register before them: [`START`], or the result for earlier
/// bytes. The last result is the CRC.
pub fn update(register: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(register, |register, &byte| {
        let top = (register >> 24) as u8 ^ byte;
        (register << 8) ^ TABLE[usize::from(top)]
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(update(START, b"123456789"), 0x0376_e6e7);
    }

    proptest! {
        #[test]
        fn bit_by_bit_gives_the_same(bytes: Vec<u8>, cut: prop::sample::Index) {
            let mut register = START;
            for byte in &bytes {
                for bit in (0..8).rev() {
                    let carry = (register >> 31) as u8 ^ (byte >> bit & 1);
                    register = (register << 1) ^ if carry == 1 { POLYNOMIAL } else { 0 };
                }
            }
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(update(update(START, first), second), register);
        }
    }
}
