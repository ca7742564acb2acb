//! A table of nftables with one chain, for `nft -f`.

use std::net::Ipv4Addr;

use classify::IntervalSet;

use super::lines_of;
use crate::fields::{FRAGMENT_MASK, OFFSET_MASK, PacketField, STATES, name_of};
use crate::model::{REJECTS, RuleAction, RuleSet};
use crate::phrase::{PROTOCOLS, addresses, first_fragments, flags_of, names, whole_packets};
use crate::product::FieldSets;
use crate::read::RuleError;

/// The table and the chain that are written.
#[derive(Clone, Debug)]
pub struct NftTable {
    /// The family of the table, such as `ip`, `inet` or `bridge`.
    pub family: String,
    /// The name of the table.
    pub table: String,
    /// The hook at which the chain is called.
    pub hook: String,
    /// True if each rule counts its packets.
    pub counts: bool,
}

impl Default for NftTable {
    fn default() -> NftTable {
        NftTable { family: "ip".into(), table: "tidegate".into(), hook: "forward".into(), counts: true }
    }
}

/// Writes a rule set as a table of nftables. For nftables, the bytes after the IP header of later fragments
/// are ports, too, so rules about ports have a condition for first fragments. Each product of a rule becomes
/// a rule of nftables, with the place of the original rule as its comment.
///
/// # Errors
/// If rules have actions or conditions that nftables does not have.
pub fn write(set: &RuleSet, table: &NftTable) -> Result<String, Vec<RuleError>> {
    let policy = match &set.default {
        RuleAction::Accept | RuleAction::Drop => set.default.to_string(),
        _ => "drop".into(),
    };
    let counter = if table.counts { "counter " } else { "" };
    let mut lines = lines_of(set, |rule, _| {
        let action = action(&rule.action)?;
        let comment = comment(&rule.place.to_string());
        let line = |product| {
            let mut words = matches(product)?;
            words.push(format!("{counter}{action} comment \"{comment}\""));
            Ok(words.join(" "))
        };
        rule.products.iter().map(line).collect()
    })?;
    if !matches!(set.default, RuleAction::Accept | RuleAction::Drop) {
        let place = crate::model::RulePlace { file: set.name.clone(), ..Default::default() };
        lines.push(action(&set.default).map_err(|text| vec![RuleError { place, text }])?);
    }
    let NftTable { family, table, hook, .. } = table;
    let mut text = format!(
        "table {family} {table} {{\n\tchain {hook} {{\n\t\ttype filter hook {hook} priority 0; policy {policy};\n"
    );
    lines.iter().for_each(|line| text += &format!("\t\t{line}\n"));
    text += "\t}\n}\n";
    Ok(text)
}

/// Returns a comment that nftables accepts: without quotes, and of at most 128 bytes.
fn comment(text: &str) -> String {
    let plain: String = text.chars().filter(|letter| *letter != '"' && !letter.is_control()).collect();
    // The end of a place is the line, which matters most.
    let skipped = plain.char_indices().map(|(at, _)| at).find(|at| plain.len() - at <= 120);
    plain[skipped.unwrap_or_default()..].to_string()
}

fn action(action: &RuleAction) -> Result<String, String> {
    Ok(match action {
        RuleAction::Accept => "accept".into(),
        RuleAction::Drop => "drop".into(),
        RuleAction::Reject(with) if with == "tcp-reset" => "reject with tcp reset".into(),
        RuleAction::Reject(with) if with == "icmp-proto-unreachable" => {
            "reject with icmp type prot-unreachable".into()
        }
        RuleAction::Reject(with) => match with.strip_prefix("icmp-") {
            Some(error) if REJECTS.contains(&with.as_str()) => format!("reject with icmp type {error}"),
            _ => return Err(format!("nftables has no error '{with}' for rejected packets")),
        },
        RuleAction::Other(name) if name == "queue" => "queue".into(),
        other => return Err(format!("nftables has no action '{other}'; it has accept, drop and reject")),
    })
}

/// Returns the matches of a product.
fn matches(product: &FieldSets) -> Result<Vec<String>, String> {
    let protocols = product.set(PacketField::Protocol).map(IntervalSet::intervals);
    let protocol = match protocols {
        Some(&[(low, high)]) if low == high => {
            PROTOCOLS.iter().find(|(_, number)| u128::from(*number) == low)
        }
        _ => None,
    };
    let protocol = protocol.map(|(name, _)| *name);
    let with_ports = protocol.filter(|name| ["tcp", "udp", "sctp", "dccp", "udplite"].contains(name));
    let is_transport = |field: &PacketField| field.is_transport();
    let reads_transport = product.sets().iter().any(|(field, _)| is_transport(field));
    let is_implied = with_ports.is_some() && reads_transport;
    let mut words = Vec::new();
    for (field, set) in product.sets() {
        let word = match field {
            PacketField::Protocol if is_implied => continue,
            PacketField::Protocol => format!("ip protocol {}", values(*field, set, protocol_names)),
            PacketField::Source => format!("ip saddr {}", values(*field, set, addresses_of)),
            PacketField::Destination => format!("ip daddr {}", values(*field, set, addresses_of)),
            PacketField::SourcePort | PacketField::DestinationPort => {
                let is_source = *field == PacketField::SourcePort;
                let name = match (with_ports, protocol) {
                    (Some(protocol), _) => {
                        format!("{protocol} {}", if is_source { "sport" } else { "dport" })
                    }
                    (None, Some("icmp")) if is_source && is_whole(set) => {
                        let kinds = set.intervals().iter().map(|(low, high)| (low >> 8, high >> 8)).collect();
                        words.push(format!(
                            "icmp type {}",
                            values(PacketField::TypeOfService, &kinds, numbers)
                        ));
                        continue;
                    }
                    _ => format!("@th,{},16", if is_source { 0 } else { 16 }),
                };
                format!("{name} {}", values(*field, set, numbers))
            }
            PacketField::TcpFlags => {
                let inside = flags_of(set).map(|flags| (flags, "=="));
                let flags = inside.or_else(|| flags_of(&field.complement(set)).map(|flags| (flags, "!=")));
                match (flags, protocol) {
                    (Some(((value, mask), sign)), Some("tcp")) => {
                        // nftables prints names that are joined by bars.
                        let names = |flags: u8| match flags {
                            0 => "0x0".to_string(),
                            flags => names(flags).replace(',', "|"),
                        };
                        format!("tcp flags & ({}) {sign} {}", names(mask), names(value))
                    }
                    _ => format!("@th,104,8 {}", values(*field, set, numbers)),
                }
            }
            PacketField::Fragment => match set {
                set if *set == first_fragments() => format!("ip frag-off & {OFFSET_MASK:#x} == 0"),
                set if *set == whole_packets() => format!("ip frag-off & {FRAGMENT_MASK:#x} == 0"),
                set if *set == field.complement(&first_fragments()) => {
                    format!("ip frag-off & {OFFSET_MASK:#x} != 0")
                }
                set if *set == field.complement(&whole_packets()) => {
                    format!("ip frag-off & {FRAGMENT_MASK:#x} != 0")
                }
                set => format!("ip frag-off {}", values(*field, set, numbers)),
            },
            PacketField::TypeOfService => format!("@nh,8,8 {}", values(*field, set, numbers)),
            PacketField::TimeToLive => format!("ip ttl {}", values(*field, set, numbers)),
            PacketField::TotalLength => format!("ip length {}", values(*field, set, numbers)),
            PacketField::InInterface => format!("iifname {}", interfaces(*field, set)?),
            PacketField::OutInterface => format!("oifname {}", interfaces(*field, set)?),
            PacketField::ConnectionState => format!("ct state {}", states(set)),
        };
        words.push(word);
    }
    Ok(words)
}

/// True if a set of ICMP types and codes has all codes of each type.
fn is_whole(set: &IntervalSet) -> bool {
    set.intervals().iter().all(|(low, high)| low & 255 == 0 && high & 255 == 255)
}

/// Returns the right side of a match: one value or a set, or the negation of one if that is shorter.
fn values(field: PacketField, set: &IntervalSet, words: impl Fn(&IntervalSet) -> Vec<String>) -> String {
    let (inside, outside) = (words(set), words(&field.complement(set)));
    let braced = |values: Vec<String>| match &values[..] {
        [only] => only.clone(),
        _ => format!("{{ {} }}", values.join(", ")),
    };
    if outside.len() < inside.len() { format!("!= {}", braced(outside)) } else { braced(inside) }
}

fn numbers(set: &IntervalSet) -> Vec<String> {
    let number =
        |&(low, high): &(u128, u128)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    set.intervals().iter().map(number).collect()
}

fn addresses_of(set: &IntervalSet) -> Vec<String> {
    let all = set.intervals().iter().flat_map(|&interval| addresses(interval));
    // The set of all addresses is never written, so no prefix has the length 0.
    all.map(|word| if word.is_empty() { Ipv4Addr::UNSPECIFIED.to_string() } else { word }).collect()
}

fn protocol_names(set: &IntervalSet) -> Vec<String> {
    let name = |number: u128| {
        let known = PROTOCOLS.iter().take(5).find(|(_, known)| u128::from(*known) == number);
        known
            .filter(|(name, _)| *name != "ipip")
            .map_or_else(|| number.to_string(), |(name, _)| name.to_string())
    };
    let word = |&(low, high): &(u128, u128)| if low == high { name(low) } else { format!("{low}-{high}") };
    set.intervals().iter().map(word).collect()
}

/// Returns the names of interfaces, or all names but some.
fn interfaces(field: PacketField, set: &IntervalSet) -> Result<String, String> {
    let all = |set: &IntervalSet| {
        let names = set.intervals().iter().map(|&(low, high)| name_of(low, high));
        names.collect::<Option<Vec<String>>>()
    };
    let (names, sign) = match (all(set), all(&field.complement(set))) {
        (Some(names), _) => (names, ""),
        (None, Some(names)) => (names, "!= "),
        (None, None) => return Err("the names of interfaces are no list".into()),
    };
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    Ok(match &quoted[..] {
        [only] => format!("{sign}{only}"),
        _ => format!("{sign}{{ {} }}", quoted.join(", ")),
    })
}

fn states(set: &IntervalSet) -> String {
    let states = STATES.iter().zip(0..).filter(|(_, number)| set.contains(*number));
    states.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}
