//! The compiled form of questions about packets, and their answers.

use element::Packet;
use wire::FromBytes;
use wire::checksum::{ipv4_plain_valid, ipv4_valid};
use wire::ipv4;

use program::question::{AnswerSum, Question};

/// The compiled form of a question. `Byte`, `Half` and `Word` read 1, 2 or 4 bytes at an offset; `List` has
/// the index of a rule list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    Byte(u16),
    Half(u16),
    Word(u16),
    Length,
    Kind,
    /// An annotation byte at this offset.
    Annotation(u8),
    /// A question that needs computation or several reads: an index in `others` of the compiled graph.
    Other(u32),
    /// A question whose answer has more than 64 bits, or whose offset does not fit into 16 bits: an index in
    /// `wide` of the compiled graph.
    Wide(u32),
    List(u32),
    /// A rule list of which the matching rule is known for the packet's flow: the index of the list. Its
    /// rules are not evaluated; the known rule is counted.
    Counted(u32),
}

impl Ask {
    /// Returns the compiled form of a question that can be answered by a single read of the packet or its
    /// metadata; `None` for other questions, and for offsets that do not fit into 16 bits.
    pub(super) fn plain(question: &Question) -> Option<Ask> {
        let place = |offset: i32| u16::try_from(offset).ok();
        Some(match *question {
            Question::Bytes { offset, length: 1 } => Ask::Byte(place(offset)?),
            Question::Bytes { offset, length: 2 } => Ask::Half(place(offset)?),
            Question::Bytes { offset, length: 4 } => Ask::Word(place(offset)?),
            Question::Length => Ask::Length,
            Question::Kind => Ask::Kind,
            Question::Annotation { offset, length: 1 } => Ask::Annotation(offset),
            _ => return None,
        })
    }

    /// Returns the offset and the number of the packet bytes that the question reads; `None` for a question
    /// other than `Byte`, `Half` or `Word`.
    pub(super) fn place(self) -> Option<(usize, usize)> {
        match self {
            Ask::Byte(place) => Some((place.into(), 1)),
            Ask::Half(place) => Some((place.into(), 2)),
            Ask::Word(place) => Some((place.into(), 4)),
            _ => None,
        }
    }
}

/// Returns the answer to a question that a single read answers. The answer is zero if the packet does not
/// have all of the bytes.
#[inline(always)]
pub(super) fn plain(ask: Ask, data: &[u8], packet: &Packet) -> u64 {
    match ask {
        Ask::Byte(offset) => match data.get(usize::from(offset)) {
            Some(byte) => u64::from(*byte),
            None => slow(packet, offset, 1),
        },
        Ask::Half(offset) => match data.get(usize::from(offset)..usize::from(offset) + 2) {
            Some(bytes) => u64::from(u16::from_be_bytes([bytes[0], bytes[1]])),
            None => slow(packet, offset, 2),
        },
        Ask::Word(offset) => match data.get(usize::from(offset)..usize::from(offset) + 4) {
            Some(bytes) => u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            None => slow(packet, offset, 4),
        },
        Ask::Kind => packet.kind() as u64,
        Ask::Counted(_) => 0,
        Ask::Annotation(offset) => {
            packet.annotations().bytes().get(usize::from(offset)).map_or(0, |byte| u64::from(*byte))
        }
        _ => packet.len() as u64,
    }
}

/// Reads bytes that do not all lie in the packet's first slot, as a big-endian number. Returns zero if the
/// packet does not have all of them.
#[cold]
fn slow(packet: &Packet, offset: u16, length: usize) -> u64 {
    let mut bytes = [0; 8];
    match packet.read_at(offset.into(), &mut bytes[8 - length..]) {
        found if found == length => u64::from_be_bytes(bytes),
        _ => 0,
    }
}

/// Returns the answer to a question by its definition, without a compiled form; zero for questions about
/// lists and leases.
pub(super) fn answer(question: &Question, packet: &Packet) -> u128 {
    match question {
        Question::Length => packet.len() as u128,
        Question::Kind => packet.kind() as u128,
        Question::Bytes { offset, length } => {
            let mut bytes = [0; 16];
            let length = usize::from(*length).min(16);
            let Ok(offset) = usize::try_from(*offset) else { return 0 };
            match packet.read_at(offset, &mut bytes[16 - length..]) {
                found if found == length => u128::from_be_bytes(bytes),
                _ => 0,
            }
        }
        Question::Annotation { offset, length } => {
            let bytes = packet.annotations().bytes().iter().skip((*offset).into()).take((*length).into());
            bytes.fold(0, |number, &byte| number << 8 | u128::from(byte))
        }
        Question::AtLeastZero(sum) => u128::from(value(sum, packet) >= 0),
        Question::RightChecksum { offset } => {
            let header = usize::try_from(*offset).ok().and_then(|start| packet.data().get(start..));
            u128::from(header.is_some_and(is_right))
        }
        Question::List(_) | Question::Leased { .. } => 0,
    }
}

pub(super) fn value(sum: &AnswerSum, packet: &Packet) -> i64 {
    sum.value(|question| answer(question, packet))
}

/// True if the checksum of an IPv4 header is correct over the length that the header itself states. False if
/// `header` is shorter than that length.
#[inline]
pub(super) fn is_right(header: &[u8]) -> bool {
    match ipv4::Header::ref_from_prefix(header) {
        Ok((plain, _)) if plain.header_len() == ipv4::Header::LEN => ipv4_plain_valid(plain),
        _ => {
            let length = header.first().map_or(0, |first| usize::from(first & 15) * 4);
            header.get(..length).is_some_and(ipv4_valid)
        }
    }
}
