//! Flow entries of a switch, for `ovs-ofctl add-flows`: one table, with the priority of a rule by its place.

use classify::IntervalSet;
use synthesizer::openflow::cube::{Cube, MatchField, WITH_PORTS};
use synthesizer::openflow::flow::{FlowEntry, MetadataMatch, matches};
use synthesizer::openflow::ranges::Ranges;

use super::{lines_of, reads_later_fragments};
use crate::fields::PacketField;
use crate::model::{RuleAction, RulePlace, RuleSet};
use crate::phrase::{first_fragments, flags_of, whole_packets};
use crate::product::FieldSets;
use crate::read::RuleError;

/// The highest priority of a flow entry.
const HIGHEST: usize = 0xffff;

/// Writes a rule set as flow entries. Packets that are accepted are forwarded as by a usual switch
/// (`normal`).
///
/// # Errors
/// If rules have actions or conditions that a switch does not have, or there are more than priorities.
pub fn write(set: &RuleSet) -> Result<String, Vec<RuleError>> {
    let error = |text: String| {
        let place = RulePlace { file: set.name.clone(), ..RulePlace::default() };
        vec![RuleError { place, text }]
    };
    if set.rules.len() >= HIGHEST {
        return Err(error(format!(
            "a switch has {HIGHEST} priorities, and there are {} rules",
            set.rules.len()
        )));
    }
    let mut lines = lines_of(set, |rule, index| {
        let instructions = instructions(&rule.action)?;
        let priority = (HIGHEST - index) as u16;
        let mut lines = Vec::new();
        for product in &rule.products {
            let entry =
                |matched| FlowEntry { table: 0, priority, matched, instructions: instructions.clone() };
            lines.extend(matches_of(product)?.into_iter().map(|matched| entry(matched).to_string()));
        }
        Ok(lines)
    })?;
    // Other packets than those of IPv4, such as ARP, pass as without rules.
    let rest = FlowEntry {
        table: 0,
        priority: 1,
        matched: "ip".into(),
        instructions: instructions(&set.default).map_err(error)?,
    };
    lines.push(rest.to_string());
    lines.push(
        FlowEntry { table: 0, priority: 0, matched: String::new(), instructions: "normal".into() }
            .to_string(),
    );
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

fn instructions(action: &RuleAction) -> Result<String, String> {
    Ok(match action {
        RuleAction::Accept => "normal".into(),
        RuleAction::Drop => "drop".into(),
        RuleAction::Output(number) => format!("output:{number}"),
        other => return Err(format!("a switch has no action '{other}'; it can forward and drop")),
    })
}

/// Returns the matches of a product.
fn matches_of(product: &FieldSets) -> Result<Vec<String>, String> {
    if reads_later_fragments(product) {
        return Err("a switch compares ports only in first fragments, and the rule in all".into());
    }
    let mut cube = Cube::all(true);
    let mut suffixes = vec![String::new()];
    let mut add = |words: Vec<String>| {
        let all = suffixes.iter().flat_map(|suffix| words.iter().map(move |word| format!("{suffix},{word}")));
        suffixes = all.collect();
    };
    let is_icmp = product.set(PacketField::Protocol) == Some(&IntervalSet::one(1, 1));
    let mut has_ports = false;
    for (field, set) in product.sets() {
        let mut with = |field| cube = cube.clone().with(field, set.clone());
        match field {
            PacketField::TypeOfService => with(MatchField::TypeOfService),
            PacketField::Protocol => with(MatchField::Protocol),
            PacketField::Source => with(MatchField::Source),
            PacketField::Destination => with(MatchField::Destination),
            PacketField::SourcePort if is_icmp => add(icmp(set)?),
            PacketField::SourcePort | PacketField::DestinationPort => {
                has_ports = true;
                let is_source = *field == PacketField::SourcePort;
                with(if is_source { MatchField::SourcePort } else { MatchField::DestinationPort });
            }
            PacketField::TcpFlags => {
                let (value, mask) = flags_of(set).ok_or("a switch matches TCP flags under a mask only")?;
                add(vec![format!("tcp_flags={value:#x}/{mask:#x}")]);
            }
            PacketField::Fragment => add(vec![format!("nw_frag={}", fragments(set)?)]),
            PacketField::TimeToLive => {
                let values = set.intervals().iter().flat_map(|&(low, high)| low..=high);
                add(values.map(|value| format!("nw_ttl={value}")).collect());
            }
            PacketField::TotalLength => return Err("a switch does not match the length of packets".into()),
            PacketField::InInterface | PacketField::OutInterface => {
                return Err("a switch does not know the names of interfaces".into());
            }
            PacketField::ConnectionState => {
                return Err("the entries are without states of connections".into());
            }
        }
    }
    let protocols = cube.set(MatchField::Protocol).clone();
    let cubes = if has_ports {
        let with: IntervalSet = WITH_PORTS.into_iter().map(|number| (number.into(), number.into())).collect();
        if protocols.intersection(&with) != protocols {
            return Err("a switch has ports of TCP, UDP and SCTP only; name the protocol in the rule".into());
        }
        let each = protocols.intervals().iter().flat_map(|&(low, high)| low..=high);
        each.map(|number| cube.clone().with(MatchField::Protocol, IntervalSet::one(number, number))).collect()
    } else {
        vec![cube]
    };
    let mut all = Vec::new();
    for cube in cubes {
        let ranges = [Ranges::default(), Ranges::default()];
        let matched = matches(&cube, MetadataMatch::default(), &ranges)
            .ok_or("the rule needs too many flow entries")?;
        all.extend(
            matched.iter().flat_map(|one| suffixes.iter().map(move |suffix| format!("{one}{suffix}"))),
        );
    }
    Ok(all)
}

fn fragments(set: &IntervalSet) -> Result<&'static str, String> {
    let other = |set: &IntervalSet| PacketField::Fragment.complement(set);
    match set {
        set if *set == first_fragments() => Ok("not_later"),
        set if *set == whole_packets() => Ok("no"),
        set if *set == other(&first_fragments()) => Ok("later"),
        set if *set == other(&whole_packets()) => Ok("yes"),
        _ => Err("a switch tells first, later and no fragments apart, and nothing else of them".into()),
    }
}

fn icmp(set: &IntervalSet) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for kind in 0..=255u128 {
        let codes = set.intersection(&IntervalSet::one(kind << 8, kind << 8 | 255));
        match codes.intervals() {
            [] => {}
            [(low, high)] if high - low == 255 => words.push(format!("icmp_type={kind}")),
            intervals => {
                let codes = intervals.iter().flat_map(|&(low, high)| low..=high).map(|code| code & 255);
                words.extend(codes.map(|code| format!("icmp_type={kind},icmp_code={code}")));
            }
        }
    }
    Ok(words)
}
