//! The element of the classes that encrypt and decrypt ESP packets: block ciphers with chained blocks.

use std::sync::Arc;

use element::class::ArgInfo;
use element::effects::{Action, Case, Counting, Depends, Field, Target};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet};

use super::associations::{Association, Associations};
use super::{HEADER, ICV, VECTOR, association_field, reject, without_association};
use crate::editing::{otherwise, pure, when};

/// The fields that both classes have in common.
pub(super) const CLASS: Class =
    Class { args: &[ArgInfo::required("ENCRYPT", "0 or 1")], samples: &["1", "0"], ..Class::DEFAULT };

/// A block cipher with blocks of `N` bytes.
pub(super) trait BlockCipher<const N: usize>: Send + 'static {
    /// The name of the computation in declarations.
    const NAME: &'static str;
    /// The number of bytes that are covered in addition if the payload has no whole number of blocks.
    const MORE: usize;

    fn encrypt(association: &Association, block: &mut [u8; N]);
    fn decrypt(association: &Association, block: &mut [u8; N]);
}

/// Makes the element that encrypts packets with a cipher, or decrypts them.
pub(super) fn build<C: BlockCipher<N>, const N: usize>(
    args: &mut Args<'_>,
) -> Result<Box<dyn Element>, Invalid> {
    let encrypts = args.required::<i32>("ENCRYPT");
    args.finish()?;
    let associations = Associations::of_graph(args);
    // As in Click, only 0 decrypts.
    Ok(Box::new(Cipher {
        associations,
        encrypts: encrypts != 0,
        is_told: false,
        cipher: std::marker::PhantomData::<C>,
    }))
}

struct Cipher<C, const N: usize> {
    associations: Arc<Associations>,
    encrypts: bool,
    /// True if the message about packets without association was written.
    is_told: bool,
    cipher: std::marker::PhantomData<C>,
}

/// Returns the number of blocks of a packet of this length that are encrypted.
///
/// # Errors
/// [`DropReason::TooShort`] if the packet has not enough bytes for headers, ICV and whole blocks.
fn blocks<C: BlockCipher<N>, const N: usize>(length: usize) -> Result<usize, DropReason> {
    let payload = length.checked_sub(HEADER).ok_or(DropReason::TooShort)?;
    let covered = payload.checked_sub(ICV).ok_or(DropReason::TooShort)?;
    let more = if covered.is_multiple_of(N) { 0 } else { C::MORE };
    let blocks = (covered + more).div_ceil(N);
    if blocks * N <= payload { Ok(blocks) } else { Err(DropReason::TooShort) }
}

impl<C: BlockCipher<N>, const N: usize> Cipher<C, N> {
    /// Encrypts or decrypts the payload of a packet in place. The initialization vector, or the first bytes
    /// of the encrypted block ahead, are added to the first bytes of each block.
    fn apply(association: &Association, encrypts: bool, packet: &mut Packet) -> Result<(), DropReason> {
        let blocks = blocks::<C, N>(packet.len())?;
        let mut chain = [0; VECTOR];
        packet.read_at(HEADER - VECTOR, &mut chain);
        let mut step = |block: &mut [u8; N]| {
            let before = *block;
            if !encrypts {
                C::decrypt(association, block);
            }
            block.iter_mut().zip(chain).for_each(|(byte, link)| *byte ^= link);
            if encrypts {
                C::encrypt(association, block);
            }
            chain.copy_from_slice(&if encrypts { *block } else { before }[..VECTOR]);
        };
        if let Some(payload) = packet.data_mut().get_mut(HEADER..HEADER + blocks * N) {
            payload.as_chunks_mut().0.iter_mut().for_each(step);
            return Ok(());
        }
        // The packet has several slots, and blocks may lie in two of them.
        for place in (0..blocks).map(|index| HEADER + index * N) {
            let mut block = [0; N];
            packet.read_at(place, &mut block);
            step(&mut block);
            packet.write_at(place, &block);
        }
        Ok(())
    }
}

impl<C: BlockCipher<N>, const N: usize> Element for Cipher<C, N> {
    fn effects(&self) -> Effects {
        let short = when("too few blocks", &[Field::Length], Target::Drop(DropReason::TooShort));
        let payload = pure(Field::Payload, C::NAME, &[Field::Payload, Field::Length, association_field()]);
        let cases: Vec<Case> = vec![without_association(), short, otherwise(vec![payload as Action])];
        Effects::cases(cases).depending_on(Depends::Handler).counting(Counting::None)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Cipher { associations, encrypts, is_told, .. } = self;
        let table = associations.read();
        batch.sift(
            |packet| {
                let association = table.of(packet).ok_or(DropReason::NoAssociation)?;
                Cipher::<C, N>::apply(association, *encrypts, packet)
            },
            |packet, reason| reject(cx, packet, reason, is_told),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::ipsec_aes::Aes;
    use super::super::ipsec_des::Des;
    use super::*;

    #[test]
    fn only_whole_blocks_inside_the_packet_are_covered() {
        for length in 0..400 {
            for (n, blocks) in [(16, blocks::<Aes, 16>(length)), (8, blocks::<Des, 8>(length))] {
                match blocks {
                    Ok(blocks) => {
                        assert!(length >= HEADER + ICV && HEADER + n * blocks <= length, "{length}")
                    }
                    Err(reason) => assert_eq!(reason, DropReason::TooShort),
                }
            }
            // Packets of IPsecESPEncap with an ICV: a multiple of 8 bytes is padded to blocks with the first
            // 8 bytes of the ICV.
            if length >= HEADER + 8 + ICV && (length - HEADER - ICV).is_multiple_of(8) {
                let eights = (length - HEADER - ICV) / 8;
                assert_eq!(blocks::<Aes, 16>(length), Ok(eights.div_ceil(2)), "{length}");
                assert_eq!(blocks::<Des, 8>(length), Ok(eights), "{length}");
            }
        }
    }
}
