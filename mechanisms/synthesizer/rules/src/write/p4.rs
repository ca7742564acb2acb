//! Entries of a table of a P4 program, as the JSON from which controllers of P4Runtime fill tables.
//!
//! The table has ternary keys for addresses, protocol and TCP flags, and ranges for ports. The ports are the
//! first four bytes after the IP header, so type and code of ICMP are the source port. A key that an
//! entry does not name matches anything. An entry with a higher priority comes first (P4Runtime
//! specification, 9.1).

use serde_json::{Map, Value, json};
use synthesizer::openflow::ranges::prefixes;

use super::{lines_of, reads_later_fragments};
use crate::fields::{FRAGMENT_MASK, OFFSET_MASK, PacketField};
use crate::model::{RuleAction, RuleSet};
use crate::phrase::{first_fragments, flags_of, whole_packets};
use crate::product::FieldSets;
use crate::read::RuleError;

/// The name of the table, and the beginning of the names of its actions.
const TABLE: &str = "ingress.acl";

/// The most entries of one product.
const MOST_ENTRIES: usize = 4096;

/// Writes a rule set as entries of a table.
///
/// # Errors
/// If rules have actions or conditions that the table does not have.
pub fn write(set: &RuleSet) -> Result<String, Vec<RuleError>> {
    let mut entries = Vec::new();
    lines_of(set, |rule, index| {
        let action = action(&rule.action)?;
        for product in &rule.products {
            for matched in matches(product)? {
                let mut entry = json!({
                    "table": TABLE,
                    "priority": set.rules.len() - index,
                    "match": matched,
                });
                entry["action_name"] = action.0.clone().into();
                entry["action_params"] = action.1.clone();
                entries.push(entry);
            }
        }
        Ok(Vec::new())
    })?;
    let place = || crate::model::RulePlace { file: set.name.clone(), ..Default::default() };
    let default = action(&set.default).map_err(|text| vec![RuleError { place: place(), text }])?;
    entries.push(json!({
        "table": TABLE, "default_action": true, "action_name": default.0, "action_params": default.1,
    }));
    let text = serde_json::to_string_pretty(&json!({ "target": "bmv2", "table_entries": entries }));
    text.map(|text| text + "\n").map_err(|error| vec![RuleError { place: place(), text: error.to_string() }])
}

fn action(action: &RuleAction) -> Result<(String, Value), String> {
    let (name, parameters) = match action {
        RuleAction::Accept => ("accept", json!({})),
        RuleAction::Drop => ("drop", json!({})),
        RuleAction::Output(number) => ("forward", json!({ "port": number })),
        other => return Err(format!("the table has no action '{other}'; it has accept, drop and forward")),
    };
    Ok((format!("ingress.{name}"), parameters))
}

/// Returns the matches of a product: the keys with their values, for each entry.
fn matches(product: &FieldSets) -> Result<Vec<Map<String, Value>>, String> {
    if reads_later_fragments(product) {
        return Err("the table has ports of first fragments only, and the rule compares all".into());
    }
    let mut all = vec![Map::new()];
    for (field, set) in product.sets() {
        let masked = |name: &str| {
            let values = prefixes(set, field.bits()).into_iter();
            (
                name.to_string(),
                values.map(|(value, mask)| json!([value as u64, mask as u64])).collect::<Vec<_>>(),
            )
        };
        let ranges = |name: &str| {
            let ranges = set.intervals().iter().map(|&(low, high)| json!([low as u64, high as u64]));
            (name.to_string(), ranges.collect::<Vec<_>>())
        };
        let (name, values) = match field {
            PacketField::Source => masked("hdr.ipv4.srcAddr"),
            PacketField::Destination => masked("hdr.ipv4.dstAddr"),
            PacketField::Protocol => masked("hdr.ipv4.protocol"),
            PacketField::TypeOfService => masked("hdr.ipv4.diffserv"),
            PacketField::TimeToLive => masked("hdr.ipv4.ttl"),
            PacketField::TotalLength => masked("hdr.ipv4.totalLen"),
            PacketField::SourcePort => ranges("meta.l4_src_port"),
            PacketField::DestinationPort => ranges("meta.l4_dst_port"),
            PacketField::TcpFlags => match flags_of(set) {
                Some((value, mask)) => ("hdr.tcp.flags".into(), vec![json!([value, mask])]),
                None => masked("hdr.tcp.flags"),
            },
            PacketField::Fragment => {
                let mask = if *set == first_fragments() { OFFSET_MASK } else { FRAGMENT_MASK };
                if *set != first_fragments() && *set != whole_packets() {
                    return Err(
                        "the table tells whole packets and first fragments from later ones, no more".into()
                    );
                }
                ("hdr.ipv4.flagsOffset".into(), vec![json!([0, mask as u64])])
            }
            PacketField::InInterface | PacketField::OutInterface => {
                return Err("the table does not know the names of interfaces".into());
            }
            PacketField::ConnectionState => {
                return Err("the table does not know the states of connections".into());
            }
        };
        if all.len() * values.len() > MOST_ENTRIES {
            return Err(format!("the rule needs more than {MOST_ENTRIES} entries"));
        }
        let with = |entry: &Map<String, Value>, value: &Value| {
            let mut entry = entry.clone();
            entry.insert(name.clone(), value.clone());
            entry
        };
        all = all.iter().flat_map(|entry| values.iter().map(move |value| with(entry, value))).collect();
    }
    Ok(all)
}
