//! Finds the rules of a list that overlap with given packets, by comparing bounds of a few fields first.

use std::ops::Range;

use crate::fields::PacketField;
use crate::model::FilterRule;
use crate::product::FieldSets;

/// The fields whose bounds are compared. They have at most 32 bits.
const COMPARED: [PacketField; 5] = [
    PacketField::Source,
    PacketField::Destination,
    PacketField::DestinationPort,
    PacketField::SourcePort,
    PacketField::Protocol,
];

/// The lowest and the highest value of each compared field in a product.
type Bounds = [(u32, u32); COMPARED.len()];

/// The bounds of the products of all rules of a list.
pub struct RuleBounds {
    bounds: Vec<Bounds>,
    /// For each rule, the index of its first product in `bounds`; at the end, the number of products.
    starts: Vec<usize>,
}

impl RuleBounds {
    /// Collects the bounds of rules.
    pub fn new(rules: &[FilterRule]) -> RuleBounds {
        let mut starts = vec![0];
        let mut all = Vec::new();
        for rule in rules {
            all.extend(rule.products.iter().map(bounds));
            starts.push(all.len());
        }
        RuleBounds { bounds: all, starts }
    }

    /// Returns the indices of the rules in a range that match any packet of a union of products. `rules` is
    /// the list from which the bounds were made.
    pub fn overlapping<'a>(
        &'a self,
        rules: &'a [FilterRule],
        products: &'a [FieldSets],
        range: Range<usize>,
    ) -> impl Iterator<Item = usize> + 'a {
        let own: Vec<Bounds> = products.iter().map(bounds).collect();
        range.filter(move |&rule| {
            let first = self.starts[rule];
            let others = self.bounds[first..self.starts[rule + 1]].iter().zip(&rules[rule].products);
            others.into_iter().any(|(other_bounds, other)| {
                let mut pairs = own.iter().zip(products);
                pairs.any(|(bounds, product)| {
                    may_overlap(bounds, other_bounds) && product.and(other).is_some()
                })
            })
        })
    }
}

fn bounds(product: &FieldSets) -> Bounds {
    COMPARED.map(|field| {
        let intervals = product.set(field).map(|set| set.intervals()).unwrap_or_default();
        match (intervals.first(), intervals.last()) {
            (Some(first), Some(last)) => (first.0 as u32, last.1 as u32),
            _ => (0, u32::MAX),
        }
    })
}

#[inline]
fn may_overlap(one: &Bounds, other: &Bounds) -> bool {
    one.iter().zip(other).all(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
}

/// True if each packet of the products of `inner` is in a single product of `outer`. If this is false, the
/// products of `outer` together may still contain them.
pub fn contains_each(outer: &[FieldSets], inner: &[FieldSets]) -> bool {
    inner.iter().all(|inner| outer.iter().any(|outer| outer.contains(inner)))
}
