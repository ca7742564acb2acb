//! Sets of packets as decision diagrams, over the fields of packets.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Instant;

use classify::IntervalSet;
use classify::filter::HeaderLayer;
use verify::model::diagrams::{Bit, Diagrams, Symbol};

use crate::fields::{FIELDS, FieldValues, PacketField};
use crate::product::FieldSets;

/// The offset of the transport header from the IP header in the diagrams' variables.
const TRANSPORT: i32 = 20;

/// The indices of the metadata bytes that stand for the properties of a packet that are not in its bytes: its
/// connection's state, and the names of its interfaces.
const STATE: u8 = 200;
const INTERFACES: [u8; 2] = [210, 230];

/// The most intervals of values that are told apart.
const MOST_INTERVALS: usize = 1 << 15;

/// The error that the time or the memory for decision diagrams was not enough. All results since then are
/// invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagramsExhausted;

impl fmt::Display for DiagramsExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time or the memory for decision diagrams was not enough")
    }
}

/// The diagrams of one analysis of rules. Their variables are the bits of the fields of one packet.
pub struct PacketSpace {
    diagrams: Diagrams,
    deadline: Option<Instant>,
    /// For each field, its bits from the most significant one.
    bits: [Vec<Bit>; FIELDS],
    /// For each field, the position of its first variable in the order of variables.
    first: [u32; FIELDS],
    sets: RefCell<HashMap<(PacketField, IntervalSet), Bit>>,
}

impl PacketSpace {
    /// Makes an empty set of diagrams with room for `nodes` nodes. An operation after the deadline is
    /// aborted.
    pub fn new(nodes: usize, deadline: Option<Instant>) -> PacketSpace {
        let diagrams = Diagrams::new(nodes).until(deadline);
        let mut next = 0;
        let mut first = [0; FIELDS];
        let bits = PacketField::ALL.map(|field| {
            first[field as usize] = next;
            next += field.bits();
            (0..field.bits()).rev().map(|weight| diagrams.symbol(symbol(field, weight))).collect()
        });
        PacketSpace { diagrams, deadline, bits, first, sets: RefCell::default() }
    }

    /// Returns the diagrams themselves, for operations on sets of packets.
    pub fn diagrams(&self) -> &Diagrams {
        &self.diagrams
    }

    /// Checks that no operation ran out of nodes or time, and that the deadline has not passed.
    ///
    /// # Errors
    /// If one did, so that all results since then are invalid, or if the deadline has passed.
    pub fn check(&self) -> Result<(), DiagramsExhausted> {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        if is_late || self.diagrams.exhausted() { Err(DiagramsExhausted) } else { Ok(()) }
    }

    /// Returns the packets of a product.
    pub fn product(&self, product: &FieldSets) -> Bit {
        // The fields are joined from the last to the first, so that each conjunction adds nodes at the top.
        let sets = product.sets().iter().rev();
        sets.fold(self.diagrams.yes(), |all, (field, set)| self.diagrams.and(&self.set(*field, set), &all))
    }

    /// Returns the packets of a union of products.
    pub fn union(&self, products: &[FieldSets]) -> Bit {
        self.any(products.iter().map(|product| self.product(product)).collect())
    }

    /// Returns the disjunction of all conditions, which are joined in pairs to keep the operands small.
    fn any(&self, mut all: Vec<Bit>) -> Bit {
        while all.len() > 1 {
            all = all
                .chunks(2)
                .map(|pair| if let [a, b] = pair { self.diagrams.or(a, b) } else { pair[0].clone() })
                .collect();
        }
        all.pop().unwrap_or_else(|| self.diagrams.no())
    }

    fn set(&self, field: PacketField, set: &IntervalSet) -> Bit {
        let key = (field, set.clone());
        if let Some(bit) = self.sets.borrow().get(&key) {
            return bit.clone();
        }
        // The numbers above the largest value of a field count as this value, so that all numbers together
        // are all values.
        let largest = (1u128 << field.bits()) - 1;
        let end = |high: u128| if high >= field.top() { largest } else { high };
        let intervals = set.intervals().iter().map(|&(low, high)| self.interval(field, low, end(high)));
        let bit = self.any(intervals.collect());
        self.sets.borrow_mut().insert(key, bit.clone());
        bit
    }

    /// Returns the packets whose field is at least `low` and at most `high`.
    fn interval(&self, field: PacketField, low: u128, high: u128) -> Bit {
        let d = &self.diagrams;
        let bits = &self.bits[field as usize];
        let is_set = |value: u128, index: usize| value >> (bits.len() - 1 - index) & 1 == 1;
        let same = (0..bits.len()).find(|&index| is_set(low, index) != is_set(high, index));
        let same = same.unwrap_or(bits.len());
        let mut inside = d.yes();
        if let Some(split) = bits.get(same) {
            // Below the first bit in which they differ, `low` is a bound for zero and `high` for one.
            let rest = same + 1..bits.len();
            let at_least = rest.clone().rev().fold(d.yes(), |rest, index| match is_set(low, index) {
                true => d.and(&bits[index], &rest),
                false => d.or(&bits[index], &rest),
            });
            let at_most = rest.rev().fold(d.yes(), |rest, index| match is_set(high, index) {
                true => d.or(&d.not(&bits[index]), &rest),
                false => d.and(&d.not(&bits[index]), &rest),
            });
            inside = d.choose(split, &at_most, &at_least);
        }
        (0..same).rev().fold(inside, |rest, index| match is_set(low, index) {
            true => d.and(&bits[index], &rest),
            false => d.and_not(&rest, &bits[index]),
        })
    }

    /// Returns a packet of a set; `None` if the set is empty. Fields that do not matter are zero.
    pub fn packet(&self, set: &Bit) -> Option<FieldValues> {
        let values = self.diagrams.witness(set, &mut || false)?;
        Some(PacketField::ALL.map(|field| {
            let first = self.first[field as usize] as usize;
            let bits = values.iter().skip(first).take(field.bits() as usize);
            bits.fold(0u128, |value, &bit| value << 1 | u128::from(bit)).min(field.top())
        }))
    }

    /// Returns the fields that a set of packets depends on.
    pub fn fields_of(&self, set: &Bit) -> Vec<PacketField> {
        let mut depends = [false; FIELDS];
        let mut seen = HashSet::new();
        let mut work = vec![set.clone()];
        while let Some(bit) = work.pop() {
            let Some((level, with, without)) = self.diagrams.branches(&bit) else { continue };
            if seen.insert(bit) {
                depends[self.field_at(level) as usize] = true;
                work.extend([with, without]);
            }
        }
        PacketField::ALL.into_iter().filter(|field| depends[*field as usize]).collect()
    }

    fn field_at(&self, level: u32) -> PacketField {
        let after = self.first.partition_point(|first| *first <= level);
        PacketField::ALL[after.saturating_sub(1)]
    }

    /// Returns the values that a field has in the packets of a set. If they would be more than
    /// `MOST_INTERVALS` intervals, the result also has other values.
    pub fn values(&self, set: &Bit, field: PacketField) -> IntervalSet {
        let start = self.first[field as usize];
        let mut seen = HashSet::new();
        let mut work = vec![set.clone()];
        let mut intervals = Vec::new();
        while let Some(bit) = work.pop() {
            if !seen.insert(bit.clone()) {
                continue;
            }
            match self.diagrams.branches(&bit) {
                Some((level, with, without)) if level < start => work.extend([with, without]),
                _ => self.values_below(&bit, field, 0, 0, &mut intervals),
            }
        }
        let all: IntervalSet = intervals.into_iter().collect();
        // The numbers above the largest value stand for this value.
        let above =
            all.intervals().last().filter(|last| last.1 > field.top()).map(|_| (field.top(), field.top()));
        all.intersection(&field.all()).intervals().iter().copied().chain(above).collect()
    }

    /// Adds the values of a field in the packets of a set to `intervals`, as far as the first `known` bits of
    /// the field have the value `value`. The set does not depend on these bits or on fields before the field.
    fn values_below(
        &self,
        set: &Bit,
        field: PacketField,
        known: u32,
        value: u128,
        intervals: &mut Vec<(u128, u128)>,
    ) {
        if self.diagrams.is_never(set) {
            return;
        }
        let rest = field.bits() - known;
        let next = self.first[field as usize] + known;
        let is_many = intervals.len() >= MOST_INTERVALS;
        match self.diagrams.branches(set).filter(|_| !is_many) {
            Some((level, with, without)) if rest > 0 && level == next => {
                self.values_below(&without, field, known + 1, value << 1, intervals);
                self.values_below(&with, field, known + 1, value << 1 | 1, intervals);
            }
            Some((level, ..)) if level < self.first[field as usize] + field.bits() => {
                self.values_below(set, field, known + 1, value << 1, intervals);
                self.values_below(set, field, known + 1, value << 1 | 1, intervals);
            }
            _ => {
                let low = value << rest;
                intervals.push((low, low | ((1u128 << rest) - 1)));
            }
        }
    }
}

/// Returns the meaning of the variable for a bit of a field.
fn symbol(field: PacketField, weight: u32) -> Symbol {
    let bit = (weight % 8) as u8;
    let from_end = weight / 8;
    let byte = field.bits().div_ceil(8) - 1 - from_end;
    match field.place() {
        Some((HeaderLayer::Transport, offset)) => Symbol::Input(TRANSPORT + (offset + byte) as i32, bit),
        Some((_, offset)) => Symbol::Input((offset + byte) as i32, bit),
        None => Symbol::Metadata(
            match field {
                PacketField::InInterface => INTERFACES[0] + byte as u8,
                PacketField::OutInterface => INTERFACES[1] + byte as u8,
                _ => STATE,
            },
            bit,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::name_range;
    use proptest::prelude::*;

    fn product(parts: &[(PacketField, u128, u128)]) -> FieldSets {
        let with = |product: FieldSets, &(field, low, high): &(PacketField, u128, u128)| {
            product.with(field, &IntervalSet::one(low, high)).unwrap()
        };
        parts.iter().fold(FieldSets::ALL, with)
    }

    proptest! {
        #[test]
        fn diagrams_are_the_products(a: [u16; 4], b: [u16; 4], seed: u64) {
            let space = PacketSpace::new(1 << 16, None);
            let range = |a: u16, b: u16| (u128::from(a.min(b)), u128::from(a.max(b)));
            let products = [(a, b), (b, a)].map(|(a, b)| {
                let (ports, state) = (range(a[0], b[1]), range(a[2] % 5, b[3] % 5));
                product(&[
                    (PacketField::DestinationPort, ports.0, ports.1),
                    (PacketField::Source, ports.0 << 7, ports.1 << 9),
                    (PacketField::ConnectionState, state.0, state.1),
                ])
            });
            let union = space.union(&products);
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..20 {
                let packet = products[random.usize(0..2)].random_packet(&mut random);
                let packet = PacketField::ALL.map(|field| {
                    if random.u8(0..4) == 0 { random.u128(0..=field.top()) } else { packet[field as usize] }
                });
                let single = PacketField::ALL.iter().fold(FieldSets::ALL, |one, field| {
                    let value = packet[*field as usize];
                    one.with(*field, &IntervalSet::one(value, value)).unwrap()
                });
                let inside = products.iter().any(|product| product.has(&packet));
                prop_assert_eq!(space.diagrams().overlap(&union, &space.product(&single)), inside);
            }
            for field in [PacketField::DestinationPort, PacketField::Source, PacketField::ConnectionState] {
                let set = products.iter().map(|product| product.set(field).cloned().unwrap_or(field.all()));
                let set = set.reduce(|a, b| a.union(&b)).unwrap();
                prop_assert_eq!(space.values(&union, field), set);
            }
            let packet = space.packet(&union).unwrap();
            prop_assert!(products.iter().any(|product| product.has(&packet)));
        }
    }

    #[test]
    fn names_of_interfaces_are_values() {
        let space = PacketSpace::new(1 << 16, None);
        let (low, high) = name_range("eth", true).unwrap();
        let set = space.product(&product(&[(PacketField::InInterface, low, high)]));
        assert_eq!(space.values(&set, PacketField::InInterface), IntervalSet::one(low, high));
        assert_eq!(space.fields_of(&set), [PacketField::InInterface]);
        assert_eq!(space.values(&set, PacketField::Protocol), PacketField::Protocol.all());
    }

    #[test]
    fn exhausted_diagrams_are_an_error() {
        let space = PacketSpace::new(1 << 10, None);
        let mut random = fastrand::Rng::with_seed(7);
        let products: Vec<FieldSets> = (0..500)
            .map(|_| {
                let [a, b, c] = std::array::from_fn(|_| random.u128(0..60_000));
                product(&[
                    (PacketField::Source, a << 9, (a << 9) + b),
                    (PacketField::DestinationPort, b, b + 5000),
                    (PacketField::Destination, c << 7, (c << 7) + a),
                ])
            })
            .collect();
        space.union(&products);
        assert_eq!(space.check(), Err(DiagramsExhausted));
    }
}
