//! Sets of packets as products: a set of values for each field. Unions of products are lists.

use std::fmt;

use classify::IntervalSet;

use crate::fields::{FieldValues, PacketField};

/// The most products of one rule or question.
pub const MOST_PRODUCTS: usize = 4096;

/// A set of packets: all packets whose fields each have a value in the field's set. It is never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldSets {
    /// The sets of those fields that have not all values, in the order of the fields.
    sets: Vec<(PacketField, IntervalSet)>,
}

/// The error that a set of packets would be a union of more than [`MOST_PRODUCTS`] products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyProducts;

impl fmt::Display for TooManyProducts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its condition is a union of more than {MOST_PRODUCTS} products; divide it into several rules"
        )
    }
}

impl FieldSets {
    /// The set of all packets.
    pub const ALL: FieldSets = FieldSets { sets: Vec::new() };

    /// Returns the set of packets whose field has a value in the set; `None` if there are none.
    pub fn of(field: PacketField, set: IntervalSet) -> Option<FieldSets> {
        FieldSets::ALL.with(field, &set)
    }

    /// Returns the fields that do not have all values, with their sets.
    pub fn sets(&self) -> &[(PacketField, IntervalSet)] {
        &self.sets
    }

    /// Returns the set of a field; `None` if it has all values.
    pub fn set(&self, field: PacketField) -> Option<&IntervalSet> {
        self.sets.iter().find(|(own, _)| *own == field).map(|(_, set)| set)
    }

    /// Returns the set of packets without a restriction of one field.
    #[must_use]
    pub fn without(&self, field: PacketField) -> FieldSets {
        FieldSets { sets: self.sets.iter().filter(|(own, _)| *own != field).cloned().collect() }
    }

    /// Returns the packets of the set whose field is also in another set; `None` if there are none.
    #[must_use]
    pub fn with(&self, field: PacketField, set: &IntervalSet) -> Option<FieldSets> {
        let set = self.set(field).map_or_else(|| set.intersection(&field.all()), |own| own.intersection(set));
        if set.is_empty() {
            return None;
        }
        let mut product = self.without(field);
        if set != field.all() {
            let at = product.sets.partition_point(|(own, _)| *own < field);
            product.sets.insert(at, (field, set));
        }
        Some(product)
    }

    /// Returns the packets that are in both sets; `None` if there are none.
    #[must_use]
    pub fn and(&self, other: &FieldSets) -> Option<FieldSets> {
        other.sets.iter().try_fold(self.clone(), |product, (field, set)| product.with(*field, set))
    }

    /// True if all packets of `other` are in this set.
    pub fn contains(&self, other: &FieldSets) -> bool {
        self.sets.iter().all(|(field, set)| {
            other.set(*field).is_some_and(|inner| inner == set || inner.intersection(set) == *inner)
        })
    }

    /// Returns the packets of both sets if these are a product: if one set contains the other, or they differ
    /// in one field only.
    pub fn joined(&self, other: &FieldSets) -> Option<FieldSets> {
        if self.contains(other) {
            return Some(self.clone());
        }
        if other.contains(self) {
            return Some(other.clone());
        }
        if self.sets.len() != other.sets.len() {
            return None;
        }
        let mut different = (0..self.sets.len()).filter(|&at| self.sets[at] != other.sets[at]);
        let (at, None) = (different.next()?, different.next()) else { return None };
        let ((field, own), (other_field, set)) = (&self.sets[at], &other.sets[at]);
        if field != other_field {
            return None;
        }
        self.without(*field).with(*field, &own.union(set))
    }

    /// True if a packet, given by the values of its fields, is in the set.
    pub fn has(&self, packet: &FieldValues) -> bool {
        self.sets.iter().all(|(field, set)| set.contains(packet[*field as usize]))
    }

    /// Returns the packets that are not in the set, as disjoint products.
    pub fn complement(&self) -> Vec<FieldSets> {
        let mut inside = FieldSets::ALL;
        let mut outside = Vec::new();
        for (field, set) in &self.sets {
            outside.extend(inside.with(*field, &field.complement(set)));
            if let Some(next) = inside.with(*field, set) {
                inside = next;
            }
        }
        outside
    }

    /// Returns a packet of the set. The values of fields that the set restricts are chosen by `random`,
    /// mostly at the ends of intervals, because neighbouring rules begin there.
    pub fn random_packet(&self, random: &mut fastrand::Rng) -> FieldValues {
        PacketField::ALL.map(|field| match self.set(field) {
            None => random.u128(0..=field.top()),
            Some(set) => {
                let intervals = set.intervals();
                let (low, high) = intervals[random.usize(0..intervals.len())];
                match random.u8(0..4) {
                    0 => low,
                    1 => high,
                    _ => random.u128(low..=high),
                }
            }
        })
    }
}

/// Returns the packets that are in both unions of products.
///
/// # Errors
/// If there would be too many products.
pub fn meet(one: &[FieldSets], other: &[FieldSets]) -> Result<Vec<FieldSets>, TooManyProducts> {
    let pairs = one.iter().flat_map(|one| other.iter().filter_map(|other| one.and(other)));
    bounded(pairs)
}

/// Returns the packets that are in a union of products, and not in another one.
///
/// # Errors
/// If there would be too many products.
pub fn minus(from: &[FieldSets], removed: &[FieldSets]) -> Result<Vec<FieldSets>, TooManyProducts> {
    removed.iter().try_fold(from.to_vec(), |rest, one| {
        let complement = one.complement();
        // A product that has nothing in common with the removed one stays whole.
        let parts = rest.iter().flat_map(|product| match product.and(one) {
            None => vec![product.clone()],
            Some(_) => complement.iter().filter_map(|part| product.and(part)).collect(),
        });
        bounded(parts)
    })
}

/// The number of products up to which all pairs are compared, to leave out and join products. It takes long
/// for more.
const MOST_COMPARED: usize = 64;

/// Returns the packets of products as few products: without those that another one contains, and with those
/// joined that differ in one field only.
///
/// # Errors
/// If there are too many products.
pub fn bounded(products: impl IntoIterator<Item = FieldSets>) -> Result<Vec<FieldSets>, TooManyProducts> {
    let mut kept: Vec<FieldSets> = Vec::new();
    for mut product in products {
        if kept.len() <= MOST_COMPARED {
            // A joined product may be joined with another one.
            while let Some((at, joined)) = kept
                .iter()
                .enumerate()
                .find_map(|(at, other)| other.joined(&product).map(|joined| (at, joined)))
            {
                kept.remove(at);
                product = joined;
            }
        }
        kept.push(product);
        if kept.len() > MOST_PRODUCTS {
            return Err(TooManyProducts);
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn protocols(low: u128, high: u128) -> FieldSets {
        FieldSets::of(PacketField::Protocol, IntervalSet::one(low, high)).unwrap()
    }

    /// Generates a product that restricts at most three fields to small ranges.
    fn product() -> impl Strategy<Value = FieldSets> {
        let fields = [PacketField::Protocol, PacketField::TimeToLive, PacketField::ConnectionState];
        prop::collection::vec((0usize..3, 0u128..6, 0u128..4), 0..4).prop_map(move |ranges| {
            ranges.into_iter().fold(FieldSets::ALL, |product, (field, low, size)| {
                product.with(fields[field], &IntervalSet::one(low, low + size)).unwrap_or(product)
            })
        })
    }

    fn packet([protocol, ttl, state]: [u8; 3]) -> FieldValues {
        let mut packet = [0; crate::fields::FIELDS];
        packet[PacketField::Protocol as usize] = u128::from(protocol % 8);
        packet[PacketField::TimeToLive as usize] = u128::from(ttl % 8);
        packet[PacketField::ConnectionState as usize] = u128::from(state % 5);
        packet
    }

    proptest! {
        #[test]
        fn unions_of_products_are_sets_of_packets(
            a in prop::collection::vec(product(), 0..4),
            b in prop::collection::vec(product(), 0..4),
            packets: [[u8; 3]; 30],
        ) {
            let has = |union: &[FieldSets], packet: &FieldValues| union.iter().any(|product| product.has(packet));
            let (both, rest) = (meet(&a, &b).unwrap(), minus(&a, &b).unwrap());
            for packet in packets.map(packet) {
                let (in_a, in_b) = (has(&a, &packet), has(&b, &packet));
                prop_assert_eq!(has(&both, &packet), in_a && in_b);
                prop_assert_eq!(has(&rest, &packet), in_a && !in_b);
            }
            for (a, b) in a.iter().zip(&b) {
                let outside = b.complement().iter().any(|part| part.and(a).is_some());
                prop_assert_eq!(b.contains(a), !outside);
                for packet in packets.map(packet) {
                    let joined = a.joined(b).map(|joined| joined.has(&packet));
                    prop_assert!(joined.is_none_or(|has| has == (a.has(&packet) || b.has(&packet))));
                }
                let mut random = fastrand::Rng::with_seed(1);
                prop_assert!(a.has(&a.random_packet(&mut random)));
            }
        }
    }

    #[test]
    fn a_field_with_all_values_is_no_restriction() {
        assert_eq!(protocols(0, 255), FieldSets::ALL);
        assert_eq!(FieldSets::of(PacketField::ConnectionState, IntervalSet::one(0, 9)), Some(FieldSets::ALL));
        assert_eq!(protocols(6, 6).and(&protocols(17, 17)), None);
        assert!(FieldSets::ALL.complement().is_empty());
    }
}
