//! Conditions on packets in declarations.

use classify::{IntervalSet, Tree};
use packet::Base;

use super::{Field, HeaderKind, Number};

/// A condition on a packet. It selects the packets to which a [`Case`](super::Case) applies.
///
/// ```
/// use element::effects::{HeaderKind, Predicate, wire_field};
///
/// let expired = Predicate::equals(wire_field::IP_TTL, 0);
/// let filter = Predicate::present(HeaderKind::Ipv4).and([expired.not()]);
/// assert_eq!(filter.leaves().count(), 2);
/// ```
pub type Filter = Tree<Predicate>;

/// A question about a packet, which is either true or false.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// True if the field, as a big-endian number and under the mask, lies in the set. False if the packet
    /// is too short to have the field.
    In {
        /// The field that is compared.
        field: Field,
        /// The bits of the field that are compared; all bits set for the whole field.
        mask: u128,
        /// The values that are accepted, after the mask.
        set: IntervalSet,
    },
    /// True if the header annotation of the header is set, and the fixed part of the header lies inside the
    /// packet.
    Present(HeaderKind),
    /// True if the header's checksum is right. It is computed over the length that the header itself gives.
    /// Other predicates of the case have to check this length: for an invalid length the result is
    /// undefined.
    RightChecksum {
        /// The kind of header whose checksum is checked.
        header: HeaderKind,
        /// The packet's start or the header annotation from which the offset of the header counts.
        base: Base,
        /// The offset of the header from `base`, in bytes.
        offset: i32,
    },
    /// True if the first number is at most as large as the second. False if the packet is too short to have
    /// one of the fields in the numbers.
    AtMost(Number, Number),
    /// True if the element's state has an entry for the packet's key (if `hit` is true), or has none (if
    /// `hit` is false).
    State {
        /// The table of the state ([`State::table`](super::State::table)).
        table: &'static str,
        /// True to select packets with an entry, false to select packets without.
        hit: bool,
    },
    /// A decision that only the element itself can take. It depends on the fields in `reads`, but the
    /// declaration does not say how the element decides.
    Opaque {
        /// The subject of the decision, as a phrase for the user. All decisions of one element with the same
        /// subject are one decision: the result for a packet is the same in all cases.
        about: &'static str,
        /// The fields that the decision depends on.
        reads: Vec<Field>,
    },
}

impl From<Predicate> for Filter {
    fn from(predicate: Predicate) -> Filter {
        Filter::Leaf(predicate)
    }
}

impl Predicate {
    /// Returns the filter of the packets that have this header: see [`Present`](Self::Present).
    pub fn present(header: HeaderKind) -> Filter {
        Filter::Leaf(Predicate::Present(header))
    }

    /// Returns a filter that is true if the first number is at most as large as the second: see
    /// [`AtMost`](Self::AtMost).
    pub fn at_most(number: Number, most: Number) -> Filter {
        Filter::Leaf(Predicate::AtMost(number, most))
    }

    /// Returns a filter that is true if the packet has at least `offset + length` bytes from `base` on, and
    /// `base` is set.
    pub fn reaches(base: Base, offset: i32, length: u16) -> Filter {
        let set = IntervalSet::one(0, 0);
        Filter::Leaf(Predicate::In { field: Field::Bytes { base, offset, length }, mask: 0, set })
    }

    /// Returns a filter that is true if the field, as a big-endian number, equals `value`.
    pub fn equals(field: Field, value: u128) -> Filter {
        let set = IntervalSet::one(value, value);
        Filter::Leaf(Predicate::In { field, mask: u128::MAX, set })
    }

    /// Adds the fields that the predicate reads to `reads`.
    pub fn collect_reads(&self, reads: &mut Vec<Field>) {
        match self {
            Predicate::State { .. } => {}
            Predicate::In { field, .. } => reads.push(field.clone()),
            Predicate::Present(header) => reads.extend([Field::Length, Field::HeaderOffset(header.base())]),
            Predicate::RightChecksum { header: HeaderKind::Ipv4, base, offset } => {
                reads.push(Field::Bytes { base: *base, offset: *offset, length: 60 });
            }
            // Transport checksums cover everything after the header, and most of them addresses in the IP
            // header.
            Predicate::RightChecksum { base, .. } => {
                reads.extend([Field::Payload, Field::Length, Field::HeaderOffset(*base)]);
            }
            Predicate::AtMost(a, b) => reads.extend(a.variables().chain(b.variables()).cloned()),
            Predicate::Opaque { reads: more, .. } => reads.extend_from_slice(more),
        }
    }
}
