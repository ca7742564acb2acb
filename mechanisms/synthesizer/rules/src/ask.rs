//! Answers the question which rules decide about given packets.

use verify::model::diagrams::Bit;

use crate::model::RuleSet;
use crate::overlap::RuleBounds;
use crate::product::FieldSets;
use crate::regions::{PacketRegions, cover};
use crate::space::{DiagramsExhausted, PacketSpace};

/// The packets of a question about which one rule decides, or the default.
pub struct DecidedPart {
    /// The index of the rule; `None` for the default.
    pub rule: Option<usize>,
    /// The packets.
    pub packets: Bit,
}

/// Divides packets between the rules of a set: returns each rule that decides about some of them, in order,
/// and at the end the default if it does.
///
/// # Errors
/// If time or memory is not enough.
pub fn decided(
    set: &RuleSet,
    bounds: &RuleBounds,
    space: &PacketSpace,
    products: &[FieldSets],
) -> Result<Vec<DecidedPart>, DiagramsExhausted> {
    let d = space.diagrams();
    let mut rest = space.union(products);
    let mut parts = Vec::new();
    for rule in bounds.overlapping(&set.rules, products, 0..set.rules.len()) {
        if d.is_never(&rest) {
            break;
        }
        let matched = space.union(&set.rules[rule].products);
        let packets = d.and(&rest, &matched);
        if !d.is_never(&packets) {
            rest = d.and_not(&rest, &matched);
            parts.push(DecidedPart { rule: Some(rule), packets });
        }
    }
    if !d.is_never(&rest) {
        parts.push(DecidedPart { rule: None, packets: rest });
    }
    space.check()?;
    Ok(parts)
}

/// The answer to a question for the packets that one rule decides about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleAnswer {
    /// The index of the rule; `None` for the default.
    pub rule: Option<usize>,
    /// The packets; `None` if they are all packets of the question.
    pub regions: Option<PacketRegions>,
}

/// Returns the rules that decide about the packets of a question, each with its packets as at most `most`
/// regions.
///
/// # Errors
/// If time or memory is not enough.
pub fn ask(
    set: &RuleSet,
    space: &PacketSpace,
    question: &[FieldSets],
    most: usize,
) -> Result<Vec<RuleAnswer>, DiagramsExhausted> {
    let parts = decided(set, &RuleBounds::new(&set.rules), space, question)?;
    let is_one = parts.len() == 1;
    let answer = |part: DecidedPart| {
        if is_one {
            return Ok(RuleAnswer { rule: part.rule, regions: None });
        }
        let products = part.rule.map(|rule| &set.rules[rule].products[..]).unwrap_or_default();
        let seeds: Vec<FieldSets> = products
            .iter()
            .flat_map(|product| question.iter().filter_map(|asked| product.and(asked)))
            .collect();
        // A region may leave the question where another rule decides, so it is kept within the question.
        let regions = cover(space, &part.packets, &seeds, most)?;
        Ok(RuleAnswer { rule: part.rule, regions: Some(regions) })
    };
    parts.into_iter().map(answer).collect()
}
