//! The fields that a switch can match, and the conditions of rules in terms of these fields.
//!
//! A flow entry of a switch matches a conjunction, so a condition becomes several cubes, each with one set of
//! values per field. If a condition tests something that a switch cannot match, its cube says that the
//! condition *may* hold. For these packets, the software evaluates the rules itself. All of this assumes IPv4
//! packets without options that are no fragments. The switch cannot see options; the software detects such
//! packets, and runs the whole program for them.

use classify::IntervalSet;
use classify::Tree;
use classify::filter::{Condition, HeaderLayer, Test};
use wire::{ether_type, ip_protocol};

use program::question::preimage;

/// The maximum number of cubes of a condition. A condition with more is left to the software.
const MOST_CUBES: usize = 64;

/// A field that OpenFlow 1.3 matches (OpenFlow Switch Specification 1.3, 7.2.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchField {
    /// The type of service byte, which consists of DSCP and ECN.
    TypeOfService,
    /// The protocol number of the IPv4 header.
    Protocol,
    /// The IPv4 source address.
    Source,
    /// The IPv4 destination address.
    Destination,
    /// The source port of TCP, UDP or SCTP.
    SourcePort,
    /// The destination port of TCP, UDP or SCTP.
    DestinationPort,
}

impl MatchField {
    /// All fields, in the order in which [`Cube::sets`] has them.
    pub const ALL: [MatchField; 6] = [
        MatchField::TypeOfService,
        MatchField::Protocol,
        MatchField::Source,
        MatchField::Destination,
        MatchField::SourcePort,
        MatchField::DestinationPort,
    ];

    /// Returns the width of the field in bits.
    pub fn bits(self) -> u32 {
        match self {
            MatchField::TypeOfService | MatchField::Protocol => 8,
            MatchField::Source | MatchField::Destination => 32,
            MatchField::SourcePort | MatchField::DestinationPort => 16,
        }
    }

    /// True if only packets of some protocols have the field.
    pub fn is_port(self) -> bool {
        matches!(self, MatchField::SourcePort | MatchField::DestinationPort)
    }

    /// Returns the header that has the field, and the offset of the field in bytes from the header's start.
    fn place(self) -> (HeaderLayer, u32) {
        match self {
            MatchField::TypeOfService => (HeaderLayer::Network, 1),
            MatchField::Protocol => (HeaderLayer::Network, 9),
            MatchField::Source => (HeaderLayer::Network, 12),
            MatchField::Destination => (HeaderLayer::Network, 16),
            MatchField::SourcePort => (HeaderLayer::Transport, 0),
            MatchField::DestinationPort => (HeaderLayer::Transport, 2),
        }
    }

    /// Returns the field that contains all `length` bytes at the offset `offset` of a header, and the number
    /// of bits of the field after these bytes; `None` if no field contains them.
    fn of(header: HeaderLayer, offset: u32, length: u32) -> Option<(MatchField, u32)> {
        MatchField::ALL.into_iter().find_map(|field| {
            let (own, first) = field.place();
            let end = (first * 8 + field.bits()).checked_sub((offset + length) * 8)?;
            (own == header && first <= offset).then_some((field, end))
        })
    }
}

/// Converts a test of header bytes into a test of a field: returns the field that contains the bytes, and the
/// set of values of the field for which the bytes under `mask` are in `set`. Returns `None` if a switch does
/// not match such a field, or if the values form too many intervals.
pub fn values(
    header: HeaderLayer,
    offset: u32,
    length: u32,
    mask: u128,
    set: &IntervalSet,
) -> Option<(MatchField, IntervalSet)> {
    let (field, shift) = MatchField::of(header, offset, length)?;
    let moved =
        set.intervals().iter().map(|&(low, high)| (low << shift, (high << shift) | ((1 << shift) - 1)));
    let mask = (mask & ((1 << (8 * length)) - 1)) << shift;
    preimage(mask, &moved.collect(), field.bits()).map(|values| (field, values))
}

/// A set of packets that a conjunction describes: for each field, the values that it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cube {
    /// The possible values of each field, in the order of [`MatchField::ALL`].
    pub sets: [IntervalSet; 6],
    /// True if the condition that the cube was made for holds for all packets of the cube; false if it may
    /// hold for some.
    pub is_certain: bool,
}

impl Cube {
    /// Returns the cube of all packets; `is_certain` is true if the condition that the cube is made for holds
    /// for them, false if it only may hold.
    pub fn all(is_certain: bool) -> Cube {
        Cube { sets: MatchField::ALL.map(|field| IntervalSet::full(field.bits())), is_certain }
    }

    /// Returns the possible values of a field.
    pub fn set(&self, field: MatchField) -> &IntervalSet {
        &self.sets[field as usize]
    }

    /// True if the cube restricts a field: some value of the field is not possible.
    pub fn asks(&self, field: MatchField) -> bool {
        *self.set(field) != IntervalSet::full(field.bits())
    }

    /// Returns the cube with the possible values of a field replaced.
    #[must_use]
    pub fn with(mut self, field: MatchField, set: IntervalSet) -> Cube {
        self.sets[field as usize] = set;
        self
    }

    /// Returns the cube of packets that are in both cubes; `None` if there are none. Its condition holds for
    /// certain only if both conditions do.
    fn and(&self, other: &Cube) -> Option<Cube> {
        let mut both = self.clone();
        for (set, other) in both.sets.iter_mut().zip(&other.sets) {
            *set = set.intersection(other);
            if set.is_empty() {
                return None;
            }
        }
        both.is_certain &= other.is_certain;
        Some(both)
    }
}

/// Returns the cubes of a condition. The condition holds for packets of certain cubes, may hold for packets
/// of the other cubes, and does not hold for any other packet. Certain cubes come first. A condition with too
/// many cubes becomes one cube of all packets, which is not certain.
pub fn cubes(condition: &Condition) -> Vec<Cube> {
    let mut cubes = said(condition, true).unwrap_or_else(|| vec![Cube::all(false)]);
    cubes = cubes.into_iter().flat_map(by_protocol).collect();
    // A packet that is in a certain cube and in another cube meets the condition, so certain cubes take
    // precedence.
    cubes.sort_by_key(|cube| !cube.is_certain);
    cubes
}

/// Returns the cubes of a condition (`positive`), or of its negation; `None` if there are too many.
fn said(condition: &Condition, positive: bool) -> Option<Vec<Cube>> {
    match condition {
        Tree::Constant(value) => Some(if *value == positive { vec![Cube::all(true)] } else { Vec::new() }),
        Tree::Leaf(test) => Some(tested(test, positive)),
        Tree::Not(inner) => said(inner, !positive),
        Tree::All(parts) if positive => all(parts.iter().map(|part| said(part, true))),
        Tree::All(parts) => one(parts.iter().map(|part| said(part, false))),
        Tree::Any(parts) if positive => one(parts.iter().map(|part| said(part, true))),
        Tree::Any(parts) => all(parts.iter().map(|part| said(part, false))),
        Tree::Choose(parts) => {
            let [asked, then, otherwise] = &**parts;
            let yes = all([said(asked, true), said(then, positive)].into_iter());
            let no = all([said(asked, false), said(otherwise, positive)].into_iter());
            one([yes, no].into_iter())
        }
    }
}

fn all(parts: impl Iterator<Item = Option<Vec<Cube>>>) -> Option<Vec<Cube>> {
    let mut all = vec![Cube::all(true)];
    for part in parts {
        let part = part?;
        let mut both: Vec<Cube> = Vec::new();
        for cube in all.iter().flat_map(|cube| part.iter().filter_map(|other| cube.and(other))) {
            if !both.contains(&cube) {
                both.push(cube);
            }
        }
        all = Some(both).filter(|cubes| cubes.len() <= MOST_CUBES)?;
    }
    Some(all)
}

fn one(parts: impl Iterator<Item = Option<Vec<Cube>>>) -> Option<Vec<Cube>> {
    let mut one: Vec<Cube> = Vec::new();
    for part in parts {
        for cube in part? {
            if !one.contains(&cube) {
                one.push(cube);
            }
        }
    }
    Some(one).filter(|cubes| cubes.len() <= MOST_CUBES)
}

fn tested(test: &Test, positive: bool) -> Vec<Cube> {
    let is_outside = test.outside == positive;
    if let Some(number) = known(test) {
        let is_inside = (test.low..=test.high).contains(&number);
        return if is_inside != is_outside { vec![Cube::all(true)] } else { Vec::new() };
    }
    let set = IntervalSet::one(test.low.into(), test.high.into());
    let set = if is_outside { set.complement(32) } else { set };
    // The values of the tested bytes, of which there are at most four, cannot be larger than these bytes can
    // express.
    let set = set.intersection(&IntervalSet::full(8 * u32::from(test.length)));
    match values(test.header, test.offset.into(), test.length.into(), test.mask.into(), &set) {
        Some((_, set)) if set.is_empty() => Vec::new(),
        Some((field, set)) => vec![Cube::all(true).with(field, set)],
        None => vec![Cube::all(false)],
    }
}

/// Returns the number that a test reads, if it is equal in all packets of the layout that the switch assumes;
/// otherwise `None`.
fn known(test: &Test) -> Option<u32> {
    let mut number = 0;
    for offset in test.offset..test.offset + u16::from(test.length) {
        let (mask, byte) = known_byte(test.header, offset);
        let counts = (test.mask >> (8 * u32::from(test.offset + u16::from(test.length) - 1 - offset))) as u8;
        if counts & !mask != 0 {
            return None;
        }
        number = number << 8 | u32::from(byte & counts);
    }
    Some(number)
}

/// Returns the bits of a header byte that are equal in all packets of the layout that the switch assumes:
/// their mask, and their values.
pub fn known_byte(header: HeaderLayer, offset: u16) -> (u8, u8) {
    match (header, offset) {
        (HeaderLayer::Mac, 12) => (0xff, ether_type::IPV4.to_be_bytes()[0]),
        (HeaderLayer::Mac, 13) => (0xff, ether_type::IPV4.to_be_bytes()[1]),
        (HeaderLayer::Network, 0) => (0xff, 0x45),
        // Packets are no fragments, so the fragment offset and the more-fragments flag are zero.
        (HeaderLayer::Network, 6) => (0x3f, 0),
        (HeaderLayer::Network, 7) => (0xff, 0),
        _ => (0, 0),
    }
}

/// The protocols whose ports a switch parses: TCP, UDP and SCTP.
pub const WITH_PORTS: [u8; 3] = [ip_protocol::TCP, ip_protocol::UDP, ip_protocol::SCTP];

/// Splits a cube that restricts ports: into one cube for each protocol with ports, and one for all other
/// protocols. Of packets with other protocols, the switch knows no bytes after the IP header, so the last
/// cube is not certain.
fn by_protocol(cube: Cube) -> Vec<Cube> {
    if !MatchField::ALL.into_iter().any(|field| field.is_port() && cube.asks(field)) {
        return vec![cube];
    }
    let protocols = cube.set(MatchField::Protocol).clone();
    let with = WITH_PORTS.into_iter().filter(|protocol| protocols.contains((*protocol).into()));
    let mut cubes: Vec<Cube> = with
        .map(|protocol| {
            cube.clone().with(MatchField::Protocol, IntervalSet::one(protocol.into(), protocol.into()))
        })
        .collect();
    let with: IntervalSet =
        WITH_PORTS.into_iter().map(|protocol| (protocol.into(), protocol.into())).collect();
    let others = protocols.intersection(&with.complement(8));
    if !others.is_empty() {
        let mut rest = Cube::all(false);
        for field in [MatchField::TypeOfService, MatchField::Source, MatchField::Destination] {
            rest = rest.with(field, cube.set(field).clone());
        }
        cubes.push(rest.with(MatchField::Protocol, others));
    }
    cubes
}
