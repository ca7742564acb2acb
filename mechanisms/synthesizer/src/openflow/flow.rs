//! Flows in the syntax of `ovs-ofctl` (ovs-ofctl(8), ovs-fields(7), ovs-actions(7)), and the contents of
//! the metadata.

use std::fmt;
use std::net::Ipv4Addr;

use classify::IntervalSet;
use wire::ip_protocol;

use super::cube::{Cube, Field};
use super::ranges::{Ranges, prefixes};

/// The maximum number of flows of one cube.
const MOST_MATCHES: usize = 4096;
/// The mask for a host address.
const WHOLE: u32 = u32::MAX;
/// The bit for the presence of a VLAN tag (OpenFlow Switch Specification 1.3, 7.2.3.7, OFPVID_PRESENT).
const PRESENT: u16 = 0x1000;

/// A part of the metadata, which is written and matched separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The state: the number of the residual program.
    State,
    /// The outcome of a list of rules.
    Outcome,
    /// The ranges that contain the source port, one bit each.
    SourceRanges,
    /// The ranges that contain the destination port, one bit each.
    DestinationRanges,
}

impl Part {
    fn shift(self) -> u32 {
        16 * self as u32
    }

    /// Returns the instruction that writes a value.
    pub fn write(self, value: u64) -> String {
        format!("write_metadata:{:#x}/{:#x}", value << self.shift(), 0xffff_u64 << self.shift())
    }
}

/// A value of the metadata under a mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    value: u64,
    mask: u64,
}

impl Metadata {
    /// Returns the metadata with the value of a part added.
    #[must_use]
    pub fn with(self, part: Part, value: u64) -> Metadata {
        self.with_bits(value << part.shift(), 0xffff << part.shift())
    }

    /// Returns the metadata with a bit of a part added.
    #[must_use]
    pub fn with_bit(self, part: Part, bit: usize) -> Metadata {
        let bit = 1 << (part.shift() as usize + bit);
        self.with_bits(bit, bit)
    }

    fn with_bits(self, value: u64, mask: u64) -> Metadata {
        Metadata { value: self.value | value, mask: self.mask | mask }
    }
}

/// A flow entry of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The number of the table.
    pub table: u8,
    /// The priority; the matching flow with the highest priority applies.
    pub priority: u16,
    /// The match.
    pub matched: String,
    /// The instructions.
    pub instructions: String,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table={},priority={}", self.table, self.priority)?;
        if !self.matched.is_empty() {
            write!(f, ",{}", self.matched)?;
        }
        write!(f, ",actions={}", self.instructions)
    }
}

/// Returns the instructions that send a packet to the software with the tag of a class.
pub fn tagged(class: u16, port: &str) -> String {
    format!("push_vlan:0x8100,set_field:{}->vlan_vid,output:{port}", PRESENT | class)
}

/// Returns the match of packets with a VLAN tag.
pub fn with_tag() -> String {
    format!("vlan_vid={PRESENT:#x}/{PRESENT:#x}")
}

/// Returns the matches of a cube of IPv4 packets, together with a match of metadata. `None` if there are
/// too many.
pub fn matches(cube: &Cube, metadata: Metadata, ranges: &[Ranges; 2]) -> Option<Vec<String>> {
    let mut all = vec![(metadata, String::new())];
    let ports = [(Part::SourceRanges, Field::SourcePort), (Part::DestinationRanges, Field::DestinationPort)];
    for ((part, field), ranges) in ports.into_iter().zip(ranges) {
        if let Some(bit) = ranges.bit(cube.set(field)) {
            all[0].0 = all[0].0.with_bit(part, bit);
        }
    }
    for field in Field::ALL.into_iter().filter(|field| cube.asks(*field) && *field != Field::Protocol) {
        let side = &ranges[usize::from(field == Field::DestinationPort)];
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
        all.iter().map(move |(Metadata { value, mask }, text)| {
            let metadata = if *mask == 0 { String::new() } else { format!(",metadata={value:#x}/{mask:#x}") };
            format!("{protocol}{metadata}{text}")
        })
    });
    Some(all.collect())
}

fn protocols(cube: &Cube) -> Vec<String> {
    if !cube.asks(Field::Protocol) {
        return vec!["ip".into()];
    }
    let numbers =
        cube.set(Field::Protocol).intervals().iter().flat_map(|&(low, high)| low as u8..=high as u8);
    numbers.map(protocol).collect()
}

/// Returns the match of a protocol over IPv4.
pub fn protocol(number: u8) -> String {
    match number {
        ip_protocol::TCP => "tcp".into(),
        ip_protocol::UDP => "udp".into(),
        ip_protocol::SCTP => "sctp".into(),
        number => format!("ip,nw_proto={number}"),
    }
}

/// Returns the matches of a field, one for each prefix.
fn values(field: Field, set: &IntervalSet) -> Vec<String> {
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
        Field::TypeOfService => prefixes.flat_map(types_of_service).collect(),
        Field::Protocol => Vec::new(),
        Field::Source => prefixes.map(address("nw_src")).collect(),
        Field::Destination => prefixes.map(address("nw_dst")).collect(),
        Field::SourcePort => prefixes.map(masked("tp_src")).collect(),
        Field::DestinationPort => prefixes.map(masked("tp_dst")).collect(),
    }
}

/// Returns the matches of a type of service. OpenFlow has DSCP and ECN as fields without masks.
fn types_of_service((value, mask): (u32, u32)) -> Vec<String> {
    let size = 8 - (mask as u8).leading_ones();
    let (first, last) = (value, value + (1 << size) - 1);
    if size >= 2 {
        return (first >> 2..=last >> 2).map(|dscp| format!("ip_dscp={dscp}")).collect();
    }
    (first..=last).map(|byte| format!("ip_dscp={},ip_ecn={}", byte >> 2, byte & 3)).collect()
}
