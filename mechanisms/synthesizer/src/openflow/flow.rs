//! Flow entries in the syntax of `ovs-ofctl` (ovs-ofctl(8), ovs-fields(7), ovs-actions(7)), and the division
//! of the 64 bits of metadata that a switch keeps with a packet.

use std::fmt;
use std::net::Ipv4Addr;

use classify::IntervalSet;
use wire::ip_protocol;

use super::cube::{Cube, MatchField};
use super::ranges::{Ranges, prefixes};

/// The maximum number of flow entries for one cube.
const MOST_MATCHES: usize = 4096;
/// The mask of a single IPv4 address.
const WHOLE: u32 = u32::MAX;
/// The bit of the VLAN field that is set if a packet has a VLAN tag (OpenFlow Switch Specification 1.3,
/// 7.2.3.7, OFPVID_PRESENT).
const PRESENT: u16 = 0x1000;

/// A group of 16 of the 64 bits of metadata that a switch keeps with a packet. Each group is written and
/// matched separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The packet's state in the pipeline of tables: the number of its residual program after the answers so
    /// far.
    State,
    /// The outcome of the list of rules that was evaluated last.
    Outcome,
    /// The ranges that contain the source port: bit `n` is set for range `n`.
    SourceRanges,
    /// The ranges that contain the destination port: bit `n` is set for range `n`.
    DestinationRanges,
}

impl Part {
    fn shift(self) -> u32 {
        16 * self as u32
    }

    /// Returns the instruction that writes a value to this part of the metadata.
    pub fn write(self, value: u64) -> String {
        format!("write_metadata:{:#x}/{:#x}", value << self.shift(), 0xffff_u64 << self.shift())
    }
}

/// A match on the metadata: a value under a mask. The default matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataMatch {
    value: u64,
    mask: u64,
}

impl MetadataMatch {
    /// Returns the match that also requires that `part` of the metadata has the value `value`.
    #[must_use]
    pub fn with(self, part: Part, value: u64) -> MetadataMatch {
        self.with_bits(value << part.shift(), 0xffff << part.shift())
    }

    /// Returns the match that also requires that the bit `bit` of `part` of the metadata is set.
    #[must_use]
    pub fn with_bit(self, part: Part, bit: usize) -> MetadataMatch {
        let bit = 1 << (part.shift() as usize + bit);
        self.with_bits(bit, bit)
    }

    fn with_bits(self, value: u64, mask: u64) -> MetadataMatch {
        MetadataMatch { value: self.value | value, mask: self.mask | mask }
    }
}

/// A flow entry of a switch; formatted as a line for `ovs-ofctl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// The number of the table that the entry is in.
    pub table: u8,
    /// The priority. In a table, the matching entry with the highest priority applies.
    pub priority: u16,
    /// The match in the syntax of `ovs-ofctl`; empty if all packets match.
    pub matched: String,
    /// The instructions, in the syntax of `ovs-ofctl`.
    pub instructions: String,
}

impl fmt::Display for FlowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table={},priority={}", self.table, self.priority)?;
        if !self.matched.is_empty() {
            write!(f, ",{}", self.matched)?;
        }
        write!(f, ",actions={}", self.instructions)
    }
}

/// Returns the instructions that send a packet to the port `port`, with the number of its switch class in a
/// VLAN tag.
pub fn tagged(class: u16, port: &str) -> String {
    format!("push_vlan:0x8100,set_field:{}->vlan_vid,output:{port}", PRESENT | class)
}

/// Returns the match for packets with any VLAN tag.
pub fn with_tag() -> String {
    format!("vlan_vid={PRESENT:#x}/{PRESENT:#x}")
}

/// Returns the matches for the IPv4 packets of a cube whose metadata matches `metadata`, too; each match
/// needs a flow entry. Sets of ports that are in `ranges` are matched by their bits in the metadata. Returns
/// `None` if there would be more than `MOST_MATCHES` matches.
pub fn matches(cube: &Cube, metadata: MetadataMatch, ranges: &[Ranges; 2]) -> Option<Vec<String>> {
    let mut all = vec![(metadata, String::new())];
    let ports = [
        (Part::SourceRanges, MatchField::SourcePort),
        (Part::DestinationRanges, MatchField::DestinationPort),
    ];
    for ((part, field), ranges) in ports.into_iter().zip(ranges) {
        if let Some(bit) = ranges.bit(cube.set(field)) {
            all[0].0 = all[0].0.with_bit(part, bit);
        }
    }
    for field in
        MatchField::ALL.into_iter().filter(|field| cube.asks(*field) && *field != MatchField::Protocol)
    {
        let side = &ranges[usize::from(field == MatchField::DestinationPort)];
        if field.is_port() && side.bit(cube.set(field)).is_some() {
            continue;
        }
        let values = values(field, cube.set(field));
        if all.len() * values.len() > MOST_MATCHES {
            return None;
        }
        let pairs = all.iter().flat_map(|(metadata, text)| {
            values.iter().map(move |value| (*metadata, format!("{text},{value}")))
        });
        all = pairs.collect();
    }
    let protocols = protocols(cube);
    if all.len() * protocols.len() > MOST_MATCHES {
        return None;
    }
    let all = protocols.iter().flat_map(|protocol| {
        all.iter().map(move |(MetadataMatch { value, mask }, text)| {
            let metadata = if *mask == 0 { String::new() } else { format!(",metadata={value:#x}/{mask:#x}") };
            format!("{protocol}{metadata}{text}")
        })
    });
    Some(all.collect())
}

fn protocols(cube: &Cube) -> Vec<String> {
    if !cube.asks(MatchField::Protocol) {
        return vec!["ip".into()];
    }
    let numbers =
        cube.set(MatchField::Protocol).intervals().iter().flat_map(|&(low, high)| low as u8..=high as u8);
    numbers.map(protocol).collect()
}

/// Returns the match for packets of a protocol over IPv4.
pub fn protocol(number: u8) -> String {
    match number {
        ip_protocol::TCP => "tcp".into(),
        ip_protocol::UDP => "udp".into(),
        ip_protocol::SCTP => "sctp".into(),
        number => format!("ip,nw_proto={number}"),
    }
}

/// Returns the matches for a set of values of a field: one match for each prefix of the set, or several for a
/// prefix of type of service bytes. Returns none for the protocol, which `protocols` matches.
fn values(field: MatchField, set: &IntervalSet) -> Vec<String> {
    let prefixes = prefixes(set, field.bits()).into_iter().map(|(value, mask)| (value as u32, mask as u32));
    let masked = |name: &'static str| {
        move |(value, mask): (u32, u32)| match mask {
            0xffff => format!("{name}={value}"),
            mask => format!("{name}={value:#x}/{mask:#x}"),
        }
    };
    let address = |name: &'static str| {
        move |(value, mask): (u32, u32)| match mask {
            WHOLE => format!("{name}={}", Ipv4Addr::from(value)),
            mask => format!("{name}={}/{}", Ipv4Addr::from(value), mask.leading_ones()),
        }
    };
    match field {
        MatchField::TypeOfService => prefixes.flat_map(types_of_service).collect(),
        MatchField::Protocol => Vec::new(),
        MatchField::Source => prefixes.map(address("nw_src")).collect(),
        MatchField::Destination => prefixes.map(address("nw_dst")).collect(),
        MatchField::SourcePort => prefixes.map(masked("tp_src")).collect(),
        MatchField::DestinationPort => prefixes.map(masked("tp_dst")).collect(),
    }
}

/// Returns the matches for type of service bytes under a prefix mask. OpenFlow has DSCP and ECN as separate
/// fields without masks, so there is one match for each DSCP value, or for each byte if the prefix restricts
/// ECN.
fn types_of_service((value, mask): (u32, u32)) -> Vec<String> {
    let size = 8 - (mask as u8).leading_ones();
    let (first, last) = (value, value + (1 << size) - 1);
    if size >= 2 {
        return (first >> 2..=last >> 2).map(|dscp| format!("ip_dscp={dscp}")).collect();
    }
    (first..=last).map(|byte| format!("ip_dscp={},ip_ecn={}", byte >> 2, byte & 3)).collect()
}
