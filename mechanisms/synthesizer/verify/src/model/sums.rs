//! Symbolic checksums, represented by the words that they account for instead of by sums.
//!
//! A decision diagram of a sum over a header would be larger than any memory. Only the history of a checksum
//! is kept. The history consists of the checksum's origin and of the words for which it has been updated
//! since. The origin is the input packet, a computation over the header, or ordinary data. Two checksums with
//! equal origins that account for equal words are equal. The two representations of zero are treated as equal
//! here (RFC 1624).

use std::collections::BTreeMap;
use std::ops::Range;

use element::effects::HeaderKind;

use super::diagrams::{Bit, Diagrams, Term};

/// The identity of a checksum in a packet: the protocol of its header, and the offset of that header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SumKey {
    pub(super) kind: u8,
    /// The offset in the frame at which the header with the checksum starts.
    pub(super) at: i32,
    /// The offset in the frame of the IP header whose addresses the checksum covers (pseudo-header). Equal
    /// to `at` if the checksum covers no addresses.
    pub(super) network: i32,
}

/// The origin of a checksum: the source of its value before all updates.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The value comes from the input packet.
    Input,
    /// The checksum was computed over the packet. `Some` has the number of the function that had made the
    /// packet's unwritten bytes; `None` if they came from the input packet.
    Computed(Option<u32>),
    /// An element wrote these 16 bits into the field like ordinary data.
    Written(Vec<Bit>),
}

/// The history of a checksum.
#[derive(Clone, PartialEq, Eq)]
pub struct ChecksumHistory {
    pub(super) origin: Origin,
    /// The words that the checksum accounts for, by offset, if they differ from the words of the unwritten
    /// packet; words with their original value are left out. A vector has the 16 bits of the word. For a
    /// checksum of origin `Written` it has 32 bits: the present word, then the word before the first update.
    pub(super) accounted: BTreeMap<i32, Vec<Bit>>,
    /// The condition for which zero has only one representation, because the checksum was computed or
    /// updated: 0000 (RFC 1624, section 4), or ffff in UDP. A checksum of the input packet may have either of
    /// the two.
    pub(super) single_zero: Bit,
}

pub(super) const IPV4: u8 = 0;
pub(super) const TCP: u8 = 1;
pub(super) const UDP: u8 = 2;
pub(super) const ICMP: u8 = 3;

impl SumKey {
    /// Makes the key of the checksum of `header`, which starts at offset `at`, after an IP header at offset
    /// `network`.
    pub fn new(header: HeaderKind, at: i32, network: i32) -> SumKey {
        let (kind, network) = match header {
            HeaderKind::Tcp => (TCP, network),
            HeaderKind::Udp => (UDP, network),
            HeaderKind::Icmpv6 => (ICMP, network),
            HeaderKind::Icmp => (ICMP, at),
            _ => (IPV4, at),
        };
        SumKey { kind, at, network }
    }

    /// Returns the offsets of the checksum's two bytes.
    pub fn field(self) -> Range<i32> {
        let offset = match self.kind {
            IPV4 => 10,
            TCP => 16,
            UDP => 6,
            _ => 2,
        };
        self.at + offset..self.at + offset + 2
    }

    /// Returns the offset of the 16-bit word with the byte `place`, if the checksum covers the byte in its
    /// own header, the data after it, or the pseudo-header; else `None`.
    pub(super) fn word_of(self, place: i32) -> Option<i32> {
        let in_header = place >= self.at && (self.kind != IPV4 || place < self.at + 60);
        // The pseudo-header has the addresses, the protocol, and the length, which follows from lengths in
        // the IP header. The time to live is in one word with the protocol, but is not covered.
        let behind = place - self.network;
        let in_pseudo = self.kind != IPV4 && matches!(behind, 0 | 2 | 3 | 9 | 12..20);
        let word = if in_header { place - (place - self.at) % 2 } else { place - behind % 2 };
        ((in_header || in_pseudo) && !self.field().contains(&place)).then_some(word)
    }

    /// True if the checksum covers the word at offset `place` in every packet, and the word does not affect
    /// which other words are covered (as a length field does). Always false for ICMP.
    pub(super) fn always_covers(self, place: i32) -> bool {
        let behind = place - self.at;
        match self.kind {
            IPV4 => (2..20).contains(&behind),
            // The fixed part of the header. UDP's length is excluded, and so are fields of the IP header
            // other than addresses.
            TCP => (0..20).contains(&behind) || (12..20).contains(&(place - self.network)),
            UDP => (0..4).contains(&behind) || (12..20).contains(&(place - self.network)),
            _ => false,
        }
    }

    pub(super) fn numbers(self) -> Vec<i64> {
        vec![self.kind.into(), self.at.into(), self.network.into()]
    }
}

impl ChecksumHistory {
    /// Returns the 16 bits of the checksum. If no word has been changed by an update, a checksum of the input
    /// packet, or one that was written as data, has the bits of its origin; where `single_zero` holds, ffff
    /// becomes 0000 (except in UDP). Any other checksum is an uninterpreted function of its origin and the
    /// words that it accounts for.
    pub fn bits(&self, d: &Diagrams, key: SumKey) -> Vec<Bit> {
        let found = match &self.origin {
            Origin::Input => key.field().flat_map(|place| d.input(place)).collect(),
            Origin::Written(bits) => bits.clone(),
            Origin::Computed(_) => Vec::new(),
        };
        let is_found = self.accounted.is_empty() && !found.is_empty();
        let mut numbers = key.numbers();
        numbers.push(match self.origin {
            Origin::Computed(version) => 1 + version.map_or(-1, i64::from),
            _ => -1,
        });
        numbers.extend(self.accounted.keys().map(|&place| i64::from(place)));
        let bits = found.iter().cloned().chain(self.accounted.values().flatten().cloned()).collect();
        let term = Term { name: "checksum".into(), numbers, bits };
        if is_found {
            // An update that changes no word still turns ffff into 0000.
            let is_other_zero =
                if key.kind == UDP { d.no() } else { d.and(&self.single_zero, &d.all(&found)) };
            return found.iter().map(|bit| d.and_not(bit, &is_other_zero)).collect();
        }
        // The model may compute one checksum value twice: under the assumption that zero has a single
        // representation, and without it. The two values are treated as equal; `note_single_zero` records
        // this, so that the verdict names it as an assumption.
        let single_zero =
            Term { name: "settled".into(), numbers: Vec::new(), bits: vec![self.single_zero.clone()] };
        d.note_single_zero(d.term(term.clone()), d.term(single_zero));
        d.value(term, 16)
    }
}
