//! A set of packets as few products, for people to read.

use verify::model::diagrams::Bit;

use crate::fields::PacketField;
use crate::product::FieldSets;
use crate::space::{DiagramsExhausted, PacketSpace};

/// Products that together are a set of packets, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketRegions {
    /// The products. Each is as large as possible, so they may overlap.
    pub products: Vec<FieldSets>,
    /// True if the set has packets that are in none of the products, because there would be too many.
    pub has_more: bool,
}

/// The orders in which the fields of a packet are extended to all values that stay in the set. The order
/// decides which product a packet becomes; the largest of them is kept.
const ORDERS: [[PacketField; 6]; 3] = [
    [
        PacketField::Source,
        PacketField::SourcePort,
        PacketField::Fragment,
        PacketField::Destination,
        PacketField::DestinationPort,
        PacketField::Protocol,
    ],
    [
        PacketField::Protocol,
        PacketField::Fragment,
        PacketField::SourcePort,
        PacketField::DestinationPort,
        PacketField::Source,
        PacketField::Destination,
    ],
    [
        PacketField::Fragment,
        PacketField::Destination,
        PacketField::SourcePort,
        PacketField::Source,
        PacketField::Protocol,
        PacketField::DestinationPort,
    ],
];

/// Covers a set of packets by few products, at most `most`. Each product is in the set, and as large as
/// possible: no field can have more values. `seeds` are products that may be good starts, such as the
/// products of the rules that made the set.
///
/// # Errors
/// If time or memory is not enough.
pub fn cover(
    space: &PacketSpace,
    set: &Bit,
    seeds: &[FieldSets],
    most: usize,
) -> Result<PacketRegions, DiagramsExhausted> {
    let d = space.diagrams();
    let outside = d.not(set);
    let fields = space.fields_of(set);
    let mut rest = set.clone();
    let mut products: Vec<FieldSets> = Vec::new();
    let mut seeds: Vec<FieldSets> = seeds.iter().filter_map(|seed| inside(space, &outside, seed)).collect();
    seeds.sort();
    seeds.dedup();
    while !d.is_never(&rest) && products.len() < most {
        seeds.retain(|seed| d.overlap(&space.product(seed), &rest));
        let starts = if seeds.is_empty() { vec![single(space, &rest, &fields)] } else { seeds.clone() };
        let mut best: Option<(f64, FieldSets, Bit)> = None;
        for start in starts.iter().take(MOST_STARTS) {
            for order in ORDERS {
                let product = extended(space, &outside, start, &fields, &order);
                let packets = space.product(&product);
                let gained = d.share(&d.and(&rest, &packets));
                if best.as_ref().is_none_or(|(share, ..)| gained > *share) {
                    best = Some((gained, product, packets));
                }
            }
        }
        space.check()?;
        let Some((_, product, packets)) = best else { break };
        rest = d.and_not(&rest, &packets);
        products.push(product);
    }
    let has_more = !d.is_never(&rest);
    let products = without_covered(space, products);
    space.check()?;
    Ok(PacketRegions { products, has_more })
}

/// The most products that are extended to choose the best of them.
const MOST_STARTS: usize = 8;

/// Returns the seed if all its packets are in the set whose complement is `outside`.
fn inside(space: &PacketSpace, outside: &Bit, seed: &FieldSets) -> Option<FieldSets> {
    let is_inside = !space.diagrams().overlap(&space.product(seed), outside);
    is_inside.then(|| seed.clone())
}

/// Returns a product that is one packet of a set, as far as the given fields are concerned.
fn single(space: &PacketSpace, set: &Bit, fields: &[PacketField]) -> FieldSets {
    let Some(packet) = space.packet(set) else { return FieldSets::ALL };
    fields.iter().fold(FieldSets::ALL, |product, field| {
        let value = packet[*field as usize];
        product.with(*field, &[(value, value)].into_iter().collect()).unwrap_or(product)
    })
}

/// Returns a product in the set whose complement is `outside`, with as many values of each field as possible.
/// `start` is a product in the set. The fields of `order` are extended last, in this order.
fn extended(
    space: &PacketSpace,
    outside: &Bit,
    start: &FieldSets,
    fields: &[PacketField],
    order: &[PacketField],
) -> FieldSets {
    let d = space.diagrams();
    let others = fields.iter().filter(|field| !order.contains(field));
    let mut product = start.clone();
    for field in others.chain(order.iter().filter(|field| fields.contains(field))) {
        let free = product.without(*field);
        let leaving = space.values(&d.and(outside, &space.product(&free)), *field);
        // The present values are added because `leaving` may have too many values.
        let staying = field.complement(&leaving);
        let staying = product.set(*field).map_or_else(|| field.all(), |present| staying.union(present));
        product = free.with(*field, &staying).unwrap_or(product);
    }
    // Fields that the set does not depend on need no restriction.
    let is_needless = |(field, _): &&(PacketField, _)| !fields.contains(field);
    let needless: Vec<PacketField> =
        product.sets().iter().filter(is_needless).map(|(field, _)| *field).collect();
    needless.into_iter().fold(product, |product, field| product.without(field))
}

/// Returns the products without those that the others together contain.
fn without_covered(space: &PacketSpace, mut products: Vec<FieldSets>) -> Vec<FieldSets> {
    let d = space.diagrams();
    let mut at = 0;
    while at < products.len() {
        let others = products.iter().enumerate().filter(|(other, _)| *other != at);
        let all = space.product(&products[at]);
        let rest = others.fold(all, |rest, (_, other)| d.and_not(&rest, &space.product(other)));
        if products.len() > 1 && d.is_never(&rest) {
            products.remove(at);
        } else {
            at += 1;
        }
    }
    products
}

#[cfg(test)]
mod tests {
    use super::*;
    use classify::IntervalSet;
    use proptest::prelude::*;

    fn product(source: (u128, u128), port: (u128, u128)) -> FieldSets {
        let sources = FieldSets::of(PacketField::Source, IntervalSet::one(source.0, source.1)).unwrap();
        sources.with(PacketField::DestinationPort, &IntervalSet::one(port.0, port.1)).unwrap()
    }

    proptest! {
        #[test]
        fn regions_are_the_set(ranges in prop::collection::vec((0u128..90, 0u128..40, 0u128..90, 0u128..40), 1..7)) {
            let space = PacketSpace::new(1 << 18, None);
            let d = space.diagrams();
            let products: Vec<FieldSets> =
                ranges.iter().map(|&(a, b, c, e)| product((a, a + b), (c, c + e))).collect();
            // The set is not simply the union: the first product is taken out again.
            let set = d.and_not(&space.union(&products[1..]), &space.product(&products[0]));
            for seeds in [&products[..], &[]] {
                let regions = cover(&space, &set, seeds, 100).unwrap();
                prop_assert!(!regions.has_more);
                prop_assert!(space.union(&regions.products) == set);
            }
            let few = cover(&space, &set, &[], 1).unwrap();
            prop_assert!(few.products.len() <= 1);
            prop_assert!(!d.overlap(&space.union(&few.products), &d.not(&set)));
        }
    }

    #[test]
    fn overlapping_products_stay_few() {
        let space = PacketSpace::new(1 << 18, None);
        let cross = [product((0, 999), (22, 22)), product((7, 7), (0, 65535))];
        let regions = cover(&space, &space.union(&cross), &[], 9).unwrap();
        assert_eq!(regions.products.len(), 2, "{regions:?}");
        assert!(regions.products.iter().all(|product| cross.contains(product)));
    }
}
