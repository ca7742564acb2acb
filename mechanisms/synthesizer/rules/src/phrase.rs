//! Packets in words: `tcp from 10.0.0.0/8 to any port 22`. [`phrase`] writes a product in these words, and
//! [`question`](super::question) reads them.
//!
//! ```text
//! words = protocols { "from" addresses | "to" addresses | "port" ports | "icmp type" numbers
//!                   | "flags" flags | "fragment" kind | "tos" numbers | "ttl" numbers | "length" numbers
//!                   | "in" names | "out" names | "state" states }
//! list  = value | "{" value { "," value } "}" | "any" [ "but" list ]
//! ```

use std::fmt::Write;
use std::net::Ipv4Addr;

use classify::IntervalSet;
use synthesizer::openflow::ranges::prefixes;
use wire::ip_protocol;

use crate::fields::{FRAGMENT_MASK, OFFSET_MASK, PacketField, STATES, name_of};
use crate::product::FieldSets;

/// The most values of a list that [`phrase`] writes.
const MOST_VALUES: usize = 12;

/// The names of the TCP flags from the least significant bit of byte 13 of the header on.
pub const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];

/// The words for protocols, with their numbers.
pub const PROTOCOLS: [(&str, u8); 11] = [
    ("icmp", ip_protocol::ICMP),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", ip_protocol::TCP),
    ("udp", ip_protocol::UDP),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("sctp", ip_protocol::SCTP),
    ("udplite", 136),
];

/// Further names of protocols, as nftables and iptables print them.
const OTHER_PROTOCOLS: [(&str, u8); 14] = [
    ("ipencap", 4),
    ("egp", 8),
    ("ipv6", 41),
    ("rsvp", 46),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("ospfigp", 89),
    ("pim", 103),
    ("comp", 108),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
];

/// Returns the number of a protocol with this name; `None` if it is not known.
pub fn protocol_number(name: &str) -> Option<u8> {
    let mut known = PROTOCOLS.iter().chain(&OTHER_PROTOCOLS);
    known.find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Returns the set of fragment fields of packets that are no fragments other than the first.
pub fn first_fragments() -> IntervalSet {
    fragments(OFFSET_MASK)
}

/// Returns the set of fragment fields of packets that are no fragments.
pub fn whole_packets() -> IntervalSet {
    fragments(FRAGMENT_MASK)
}

/// Returns the set of fragment fields whose bits under a mask of low bits are zero.
fn fragments(mask: u128) -> IntervalSet {
    (0..=PacketField::Fragment.top() / (mask + 1))
        .map(|high| high * (mask + 1))
        .map(|one| (one, one))
        .collect()
}

/// Returns a product in words. Lists of many values end with the number of the others.
pub fn phrase(product: &FieldSets) -> String {
    written(product, MOST_VALUES)
}

/// Returns a product in words, with all values of each list.
pub fn whole_phrase(product: &FieldSets) -> String {
    written(product, usize::MAX)
}

fn written(product: &FieldSets, most: usize) -> String {
    let list = |field, set: &IntervalSet| list(field, set, most);
    let mut text = match product.set(PacketField::Protocol) {
        None => "ip".to_string(),
        Some(set) => list(PacketField::Protocol, set),
    };
    let is_icmp = product.set(PacketField::Protocol) == Some(&IntervalSet::one(1, 1));
    let types =
        product.set(PacketField::SourcePort).filter(|_| is_icmp).and_then(|set| icmp_types(set, most));
    let ends = [
        ("from", PacketField::Source, PacketField::SourcePort),
        ("to", PacketField::Destination, PacketField::DestinationPort),
    ];
    for (word, address, port) in ends {
        let addresses = product.set(address).map_or("any".into(), |set| list(address, set));
        let _ = write!(text, " {word} {addresses}");
        if let Some(set) = product.set(port).filter(|_| types.is_none() || port != PacketField::SourcePort) {
            let _ = write!(text, " port {}", list(port, set));
        }
    }
    if let Some(types) = types {
        let _ = write!(text, " {types}");
    }
    let reads_transport = product.sets().iter().any(|(field, _)| field.is_transport());
    if let Some(set) = product.set(PacketField::Fragment)
        && !(reads_transport && *set == first_fragments())
    {
        let _ = write!(text, " fragment {}", fragment_words(set));
    }
    // Where nothing is left out, ports of all fragments are told from those of first fragments.
    if most == usize::MAX && reads_transport && product.set(PacketField::Fragment).is_none() {
        text += " fragment all";
    }
    for (word, field) in [
        ("flags", PacketField::TcpFlags),
        ("tos", PacketField::TypeOfService),
        ("ttl", PacketField::TimeToLive),
        ("length", PacketField::TotalLength),
        ("in", PacketField::InInterface),
        ("out", PacketField::OutInterface),
        ("state", PacketField::ConnectionState),
    ] {
        if let Some(set) = product.set(field) {
            let _ = write!(text, " {word} {}", list(field, set));
        }
    }
    text
}

/// Returns a set of values of a field as a list, or as all values but a list, whichever is shorter.
fn list(field: PacketField, set: &IntervalSet, most: usize) -> String {
    if field == PacketField::TcpFlags
        && let Some(words) = flag_words(set)
    {
        return words;
    }
    let (inside, outside) = (values(field, set), values(field, &field.complement(set)));
    match outside.len() < inside.len() {
        true => format!("any but {}", braced(outside, most)),
        false => braced(inside, most),
    }
}

fn braced(mut values: Vec<String>, most: usize) -> String {
    if let [only] = &values[..] {
        return only.clone();
    }
    let more = values.len().saturating_sub(most);
    if more > 0 {
        values.truncate(most);
        values.push(format!("and {more} more"));
    }
    format!("{{{}}}", values.join(", "))
}

/// Returns the values of a set as words, one per value, range or prefix.
fn values(field: PacketField, set: &IntervalSet) -> Vec<String> {
    let intervals = set.intervals().iter().copied();
    let number =
        |(low, high): (u128, u128)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    match field {
        PacketField::Source | PacketField::Destination => intervals.flat_map(addresses).collect(),
        PacketField::Protocol => {
            intervals
                .flat_map(|(low, high)| {
                    if high - low < 8 { (low..=high).map(|p| (p, p)).collect() } else { vec![(low, high)] }
                })
                .map(protocol)
                .collect()
        }
        PacketField::InInterface | PacketField::OutInterface => intervals
            .map(|(low, high)| name_of(low, high).unwrap_or_else(|| "(other names)".into()))
            .collect(),
        PacketField::ConnectionState => {
            let states = intervals.flat_map(|(low, high)| low..=high);
            states.filter_map(|state| STATES.get(state as usize)).map(|state| state.to_string()).collect()
        }
        _ => intervals.map(number).collect(),
    }
}

/// Returns a range of protocols in words.
fn protocol((low, high): (u128, u128)) -> String {
    let name = PROTOCOLS.iter().find(|(_, number)| u128::from(*number) == low && low == high);
    match name {
        Some((name, _)) => (*name).to_string(),
        None if low == high => format!("protocol {low}"),
        None => format!("protocol {low}-{high}"),
    }
}

/// Returns a range of addresses as a few prefixes, or as a range if it would be more than a few.
pub fn addresses((low, high): (u128, u128)) -> Vec<String> {
    let address = |number: u128| Ipv4Addr::from(number as u32);
    let prefixes = prefixes(&IntervalSet::one(low, high), 32);
    if prefixes.len() > 2 {
        return vec![format!("{}-{}", address(low), address(high))];
    }
    let word = |(value, mask): (u128, u128)| match (mask as u32).count_ones() {
        32 => address(value).to_string(),
        length => format!("{}/{length}", address(value)),
    };
    prefixes.into_iter().map(word).collect()
}

/// Returns ICMP types, and codes of one type, in words; `None` if a set of the first two bytes of the header
/// is neither.
fn icmp_types(set: &IntervalSet, most: usize) -> Option<String> {
    let name = |kind: u128| {
        wire::icmp_names::kind_name(kind as u8).map_or_else(|| kind.to_string(), |name| name.to_string())
    };
    if let [(low, high)] = set.intervals()
        && low >> 8 == high >> 8
        && high - low < 255
    {
        let codes =
            if low == high { (low & 255).to_string() } else { format!("{}-{}", low & 255, high & 255) };
        return Some(format!("icmp type {} code {codes}", name(low >> 8)));
    }
    let is_whole = set.intervals().iter().all(|(low, high)| low & 255 == 0 && high & 255 == 255);
    let kinds: IntervalSet = set.intervals().iter().map(|(low, high)| (low >> 8, high >> 8)).collect();
    let words = |kinds: &IntervalSet| {
        let each = kinds.intervals().iter();
        let word = |&(low, high): &(u128, u128)| match high - low {
            0..4 => (low..=high).map(name).collect(),
            _ => vec![format!("{low}-{high}")],
        };
        each.flat_map(word).collect::<Vec<_>>()
    };
    let (inside, outside) = (words(&kinds), words(&kinds.complement(8)));
    is_whole.then(|| match outside.len() < inside.len() {
        true => format!("icmp type any but {}", braced(outside, most)),
        false => format!("icmp type {}", braced(inside, most)),
    })
}

fn fragment_words(set: &IntervalSet) -> String {
    let later = PacketField::Fragment.complement(&first_fragments());
    let any = PacketField::Fragment.complement(&whole_packets());
    match set {
        set if *set == first_fragments() => "first".into(),
        set if *set == whole_packets() => "none".into(),
        set if *set == later => "later".into(),
        set if *set == any => "any".into(),
        set if *set == first_fragments().intersection(&any) => "start".into(),
        set => braced(values(PacketField::Fragment, set), MOST_VALUES),
    }
}

/// A set of flags that is described by the flags that count, and those of them that are set: `syn/syn,ack`.
/// The set, or its complement (`not`).
fn flag_words(set: &IntervalSet) -> Option<String> {
    let (value, mask) = flags_of(set)
        .map(|flags| (flags, false))
        .or_else(|| flags_of(&PacketField::TcpFlags.complement(set)).map(|flags| (flags, true)))
        .map(|((value, mask), is_not)| {
            (if is_not { format!("not {}", names(value)) } else { names(value) }, mask)
        })?;
    Some(format!("{value}/{}", names(mask)))
}

/// Returns the value and the mask of flags if a set has exactly the bytes with this value under this mask.
pub fn flags_of(set: &IntervalSet) -> Option<(u8, u8)> {
    let first = set.intervals().first()?.0;
    let matters = |bit: &u32| (0..=255u128).any(|byte| set.contains(byte) != set.contains(byte ^ 1 << bit));
    let mask: u128 = (0..8).filter(matters).map(|bit| 1 << bit).sum();
    let is_so = (0..=255u128).all(|byte| set.contains(byte) == (byte & mask == first & mask));
    is_so.then_some(((first & mask) as u8, mask as u8))
}

/// Returns the names of the flags whose bits are set, separated by commas.
pub fn names(flags: u8) -> String {
    let set = TCP_FLAGS.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    if names.is_empty() { "none".into() } else { names.join(",") }
}
