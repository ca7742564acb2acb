//! Rules of IPFilter: one line per product, for `IPFilter(file NAME)`.

use std::net::Ipv4Addr;

use classify::IntervalSet;
use synthesizer::openflow::ranges::prefixes;

use super::{lines_of, reads_later_fragments};
use crate::fields::{FRAGMENT_MASK, OFFSET_MASK, PacketField};
use crate::model::{RuleAction, RuleSet};
use crate::phrase::{first_fragments, flags_of, whole_packets};
use crate::product::FieldSets;
use crate::read::RuleError;

/// Writes a rule set as rules of IPFilter.
///
/// # Errors
/// If rules have actions or conditions that IPFilter does not have.
pub fn write(set: &RuleSet) -> Result<String, Vec<RuleError>> {
    let mut lines = lines_of(set, |rule, _| {
        let action = action(&rule.action)?;
        rule.products.iter().map(|product| Ok(format!("{action} {}", expression(product)?))).collect()
    })?;
    if set.default != RuleAction::Drop {
        let place = crate::model::RulePlace { file: set.name.clone(), ..Default::default() };
        let action = action(&set.default).map_err(|text| vec![RuleError { place, text }])?;
        lines.push(format!("{action} all"));
    }
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

fn action(action: &RuleAction) -> Result<String, String> {
    Ok(match action {
        RuleAction::Accept => "allow".into(),
        RuleAction::Drop => "deny".into(),
        RuleAction::Output(number) => number.to_string(),
        other => return Err(format!("IPFilter has no action '{other}'; it has allow, deny and outputs")),
    })
}

/// Returns an expression of the filter language for a product.
fn expression(product: &FieldSets) -> Result<String, String> {
    let mut parts = Vec::new();
    let protocols = product.set(PacketField::Protocol);
    let is_icmp = protocols == Some(&IntervalSet::one(1, 1));
    // The word for the protocol that precedes `port`; `None` if the first bytes after the IP header are
    // compared for any protocol.
    let of = |numbers: &[u128]| protocols == Some(&numbers.iter().map(|&number| (number, number)).collect());
    let port_word = [("tcp port", &[6][..]), ("udp port", &[17]), ("port", &[6, 17])]
        .into_iter()
        .find(|(_, numbers)| of(numbers))
        .map(|(word, _)| word);
    let reads_transport = product.sets().iter().any(|(field, _)| field.is_transport());
    let has_port = port_word.is_some()
        && [PacketField::SourcePort, PacketField::DestinationPort].iter().any(|f| product.set(*f).is_some());
    for (field, set) in product.sets() {
        let number = |name: &str| comparisons(name, *field, set);
        parts.push(match field {
            PacketField::Protocol if has_port => continue,
            PacketField::Protocol => protocol(set),
            PacketField::Source => addresses("src net", set),
            PacketField::Destination => addresses("dst net", set),
            PacketField::SourcePort if is_icmp => icmp(set),
            PacketField::SourcePort => match port_word {
                Some(word) => number(&format!("src {word}")),
                None => number("transp[0:2]"),
            },
            PacketField::DestinationPort => match port_word {
                Some(word) => number(&format!("dst {word}")),
                None => number("transp[2:2]"),
            },
            PacketField::TcpFlags => match flags_of(set) {
                Some((value, mask)) => format!("transp[13] & {mask} == {value}"),
                None => number("transp[13]"),
            },
            PacketField::Fragment => match set {
                set if *set == first_fragments() && reads_transport => continue,
                set if *set == first_fragments() => format!("ip[6:2] & {OFFSET_MASK} == 0"),
                set if *set == whole_packets() => format!("ip[6:2] & {FRAGMENT_MASK} == 0"),
                set if *set == field.complement(&first_fragments()) => {
                    format!("ip[6:2] & {OFFSET_MASK} != 0")
                }
                set if *set == field.complement(&whole_packets()) => {
                    format!("ip[6:2] & {FRAGMENT_MASK} != 0")
                }
                _ => number("ip[6:2]"),
            },
            PacketField::TypeOfService => number("ip tos"),
            PacketField::TimeToLive => number("ip ttl"),
            PacketField::TotalLength => number("ip len"),
            PacketField::InInterface | PacketField::OutInterface => {
                return Err("IPFilter does not know the names of interfaces".into());
            }
            PacketField::ConnectionState => {
                return Err("IPFilter does not know the states of connections".into());
            }
        });
    }
    // Fields after the IP header are compared in first fragments only.
    if reads_later_fragments(product) {
        return Err("IPFilter compares ports only in first fragments, and the rule in all".into());
    }
    Ok(if parts.is_empty() { "all".into() } else { parts.join(" && ") })
}

/// Joins alternatives; several of them are put in parentheses.
fn any(mut parts: Vec<String>) -> String {
    match parts.len() {
        1 => parts.remove(0),
        _ => format!("({})", parts.join(" || ")),
    }
}

fn addresses(word: &str, set: &IntervalSet) -> String {
    let prefix = |(value, mask): (u128, u128)| {
        format!("{word} {}/{}", Ipv4Addr::from(value as u32), (mask as u32).count_ones())
    };
    any(prefixes(set, 32).into_iter().map(prefix).collect())
}

fn protocol(set: &IntervalSet) -> String {
    let outside = set.complement(8);
    let list = |set: &IntervalSet| {
        let numbers = set.intervals().iter().flat_map(|&(low, high)| low..=high);
        numbers.map(|number| format!("ip proto {number}")).collect::<Vec<_>>()
    };
    let (inside, outside) = (list(set), list(&outside));
    if outside.len() < inside.len() { format!("not {}", any(outside)) } else { any(inside) }
}

fn icmp(set: &IntervalSet) -> String {
    let is_whole = set.intervals().iter().all(|(low, high)| low & 255 == 0 && high & 255 == 255);
    let kinds: IntervalSet = set.intervals().iter().map(|(low, high)| (low >> 8, high >> 8)).collect();
    match is_whole {
        true => comparisons("icmp type", PacketField::TypeOfService, &kinds),
        false => comparisons("transp[0:2]", PacketField::SourcePort, set),
    }
}

/// Returns comparisons of a number that are true for the values of a set.
fn comparisons(name: &str, field: PacketField, set: &IntervalSet) -> String {
    let outside = field.complement(set);
    if let ([(low, high)], 2..) = (outside.intervals(), set.intervals().len())
        && low == high
    {
        return format!("{name} != {low}");
    }
    let comparison = |&(low, high): &(u128, u128)| match (low, high) {
        (low, high) if low == high => format!("{name} == {low}"),
        (0, high) => format!("{name} <= {high}"),
        (low, high) if high == field.top() => format!("{name} >= {low}"),
        (low, high) => format!("{name} >= {low} && {name} <= {high}"),
    };
    let several = set.intervals().len() > 1;
    let parts = set.intervals().iter().map(comparison);
    any(parts.map(|part| if several && part.contains("&&") { format!("({part})") } else { part }).collect())
}
