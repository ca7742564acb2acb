//! The writers of rule sets, one per format.

pub mod ipfilter;
pub mod nftables;
pub mod openflow;
pub mod p4;

use classify::IntervalSet;

use crate::fields::PacketField;
use crate::model::{RuleAction, RulePlace, RuleSet};
use crate::phrase::first_fragments;
use crate::product::FieldSets;
use crate::read::RuleError;

/// A format in which rule sets are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenFormat {
    /// Rules of IPFilter, one per line ([`ipfilter`]).
    IpFilter,
    /// A table for `nft -f` ([`nftables`]).
    Nftables,
    /// Flow entries for `ovs-ofctl add-flows` ([`openflow`]).
    OpenFlow,
    /// Table entries for P4Runtime, as JSON ([`p4`]).
    P4,
}

/// Writes a rule set in a format. Rules without an action of their own accept, and their default drops.
///
/// # Errors
/// If rules cannot be said in the format: all of them.
pub fn write(set: &RuleSet, format: WrittenFormat) -> Result<String, Vec<RuleError>> {
    let set = with_actions(set);
    match format {
        WrittenFormat::IpFilter => ipfilter::write(&set),
        WrittenFormat::Nftables => {
            let mut table = nftables::NftTable::default();
            if let Some(hook) = &set.hook {
                if !HOOKS.contains(&hook.as_str()) {
                    let place = RulePlace { file: set.name.clone(), ..RulePlace::default() };
                    let text = format!(
                        "the chain is called at '{hook}', where a table of the family ip has none; there are: {}",
                        HOOKS.join(", ")
                    );
                    return Err(vec![RuleError { place, text }]);
                }
                table.hook.clone_from(hook);
            }
            nftables::write(&set, &table)
        }
        WrittenFormat::OpenFlow => openflow::write(&set),
        WrittenFormat::P4 => p4::write(&set),
    }
}

/// The hooks of a table of nftables for IPv4.
const HOOKS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];

/// True if a product tests fields after the IP header, and also in later fragments.
fn reads_later_fragments(product: &FieldSets) -> bool {
    let covers = |set: &IntervalSet| first_fragments().intersection(set) == *set;
    product.sets().iter().any(|(field, _)| field.is_transport())
        && !product.set(PacketField::Fragment).is_some_and(covers)
}

/// True if no rule of a set has an action of its own, as in ClassBench's format.
pub fn lacks_actions(set: &RuleSet) -> bool {
    set.default == RuleAction::Other("no rule".into())
}

/// Returns the rule set in which rules without an action of their own accept, and the default drops.
#[must_use]
pub fn with_actions(set: &RuleSet) -> RuleSet {
    let mut set = set.clone();
    if lacks_actions(&set) {
        set.default = RuleAction::Drop;
        set.rules.iter_mut().for_each(|rule| rule.action = RuleAction::Accept);
    }
    set
}

/// Writes the lines of all rules, each from `line`. Collects the errors.
fn lines_of(
    set: &RuleSet,
    mut line: impl FnMut(&crate::model::FilterRule, usize) -> Result<Vec<String>, String>,
) -> Result<Vec<String>, Vec<RuleError>> {
    let mut lines = Vec::new();
    let mut errors = Vec::new();
    for (index, rule) in set.rules.iter().enumerate() {
        match line(rule, index) {
            Ok(written) => lines.extend(written),
            Err(text) => errors.push(RuleError { place: rule.place.clone(), text }),
        }
    }
    if errors.is_empty() { Ok(lines) } else { Err(errors) }
}

#[cfg(test)]
mod tests;
