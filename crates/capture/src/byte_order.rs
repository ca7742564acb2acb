//! The byte order of a capture file: usually that of the machine that wrote the file.

/// The byte order of the numbers in the headers of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    pub(crate) fn other(self) -> Self {
        match self {
            ByteOrder::Little => ByteOrder::Big,
            ByteOrder::Big => ByteOrder::Little,
        }
    }

    /// Returns the first `N` words of `bytes` as numbers; `None` if `bytes` has fewer.
    #[inline]
    pub(crate) fn words<const N: usize>(self, bytes: &[u8]) -> Option<[u32; N]> {
        let words: &[[u8; 4]; N] = bytes.as_chunks().0.first_chunk()?;
        Some(words.map(|word| match self {
            ByteOrder::Little => u32::from_le_bytes(word),
            ByteOrder::Big => u32::from_be_bytes(word),
        }))
    }

    /// Returns the two 16-bit fields of a word: first the field that comes first in the file.
    #[inline]
    pub(crate) fn halves(self, word: u32) -> (u16, u16) {
        let (upper, lower) = ((word >> 16) as u16, word as u16);
        match self {
            ByteOrder::Little => (lower, upper),
            ByteOrder::Big => (upper, lower),
        }
    }

    /// Returns the 64-bit number in the first 8 bytes of `bytes`; `None` if there are fewer.
    pub(crate) fn long(self, bytes: &[u8]) -> Option<u64> {
        let [first, second] = self.words(bytes)?.map(u64::from);
        Some(match self {
            ByteOrder::Little => second << 32 | first,
            ByteOrder::Big => first << 32 | second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_read_what_was_written() {
        let number = 0x0102_0304_0506_0708u64;
        for (order, bytes) in
            [(ByteOrder::Little, number.to_le_bytes()), (ByteOrder::Big, number.to_be_bytes())]
        {
            assert_eq!(order.long(&bytes), Some(number));
            assert_eq!(order.long(&bytes[..7]), None);
        }
        assert_eq!(ByteOrder::Big.words(&[1, 2, 3, 4, 5]), Some([0x0102_0304]));
        assert_eq!(ByteOrder::Little.words(&[1, 2, 3, 4]), Some([0x0403_0201]));
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let [word] = order.words(&[1, 0, 0, 2]).unwrap();
            let read = |bytes| {
                if order == ByteOrder::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
            };
            assert_eq!(order.halves(word), (read([1, 0]), read([0, 2])));
        }
    }
}
