//! Traffic with the properties that the Reframer paper measured in the traffic of a campus (section 3).
//!
//! The paper's numbers are in [`paper`]. Its trace is not public, and its text gives no number for some
//! properties; these are the constants of this file that name no figure.
//!
//! Flows have the sizes of Figure 6 and Table 1 (`law`). A flow sends its packets in trains. Within a
//! train, packets follow each other back to back, after a short time, or after a longer time. The time
//! between two trains depends on the number of packets of the flow and on the time that it is alive. So the
//! number of flows that are alive changes only the time between trains, and neither the sizes of flows nor
//! what a window of some microseconds holds.
//!
//! The sizes of all flows are known from the number of packets. Flows of similar size form a group, which
//! begins its flows at regular times. Memory grows with the number of flows that are alive, not with the
//! number of packets.

mod law;
pub mod paper;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use fastrand::Rng;
use wire::build::Builder;
use wire::tcp::flags;

use self::law::{Law, Shape, exponential};
use self::paper::{PaperFacts, Server};
use super::{Generated, MOST_FLOWS, SEGMENT_SIZE, START, mac, padded};

/// The direction of the traffic of a trace. Each trace has packets of one direction only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampusDirection {
    /// From the Internet to the campus.
    Rx,
    /// From the campus to the Internet.
    Tx,
}

impl CampusDirection {
    /// Returns the paper's numbers for this direction.
    pub fn facts(self) -> PaperFacts {
        match self {
            CampusDirection::Rx => paper::RX,
            CampusDirection::Tx => paper::TX,
        }
    }

    /// Returns the paper's rate in packets per second.
    pub fn rate(self) -> f64 {
        self.facts().packets / paper::SECONDS
    }
}

/// The requested properties of a trace like the campus's.
#[derive(Debug, Clone, PartialEq)]
pub struct Campus {
    /// The direction of the packets.
    pub direction: CampusDirection,
    /// The number of packets, up to rounding to whole flows.
    pub packets: u64,
    /// The mean number of flows that are alive at a time: between their first and their last packet. By
    /// default a thousandth of the packets, as far as possible.
    pub alive: Option<u32>,
    /// The seed of all random decisions.
    pub seed: u64,
}

/// The smallest number of packets of a trace. With fewer, there are too few flows for any distribution.
pub const FEWEST_PACKETS: u64 = 100_000;
/// The largest number of packets of a trace.
pub const MOST_PACKETS: u64 = 1 << 32;

/// Reasons for which a trace cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CampusError {
    /// The number of packets is not between [`FEWEST_PACKETS`] and [`MOST_PACKETS`].
    Packets(u64),
    /// The requested number of flows cannot be alive at a time in a trace of this number of packets.
    Alive {
        /// The requested number of flows alive.
        alive: u64,
        /// The smallest possible number of flows alive at a time. With fewer, flows would live so short that
        /// they would send faster than the flows of the campus.
        least: u64,
        /// The largest possible number of flows alive at a time: half of the flows of the trace that have
        /// more than one packet.
        most: u64,
    },
    /// The trace would have more than [`MOST_FLOWS`] flows; this is their number.
    Flows(u64),
}

impl fmt::Display for CampusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CampusError::Packets(packets) => write!(
                f,
                "traffic like a campus's with {packets} packets is not possible: ask for {FEWEST_PACKETS} to \
                 {MOST_PACKETS}"
            ),
            CampusError::Alive { alive, least, most } => write!(
                f,
                "{alive} flows cannot be alive at a time in a trace of this number of packets: ask for {least} to {most} flows, \
                 or for more packets"
            ),
            CampusError::Flows(flows) => {
                write!(
                    f,
                    "the packets would make {flows} flows: ask for fewer packets, so that at most {MOST_FLOWS} flows are made"
                )
            }
        }
    }
}

impl std::error::Error for CampusError {}

/// The share of the flows that have a single packet, over the whole trace, for RX and TX. The paper gives no
/// number. RX has twice as many flows as TX, so about half of the flows of RX have no flow in the other
/// direction. Such flows are likely to be SYNs without an answer.
const SINGLE: [f64; 2] = [0.4, 0.15];
/// The share of the flows of a cloud that have a single packet. The paper gives no number. In Table 1, the
/// smallest flow of nearly each address has one packet.
const SINGLE_OF_CLOUD: f64 = 0.05;
/// The share of a cloud's packets that its largest flow has at least. With far fewer flows than in Table 1,
/// its mean and its median could not be met otherwise.
const LARGEST_OF_CLOUD: f64 = 0.35;
/// The median number of packets of a flow that is not a cloud's, for RX and TX. The paper gives no number.
/// The medians of Table 1 are 8 to 56.
const MEDIAN: [f64; 2] = [6.0, 11.0];

/// The sizes of frames in bytes: `FULL` of a full frame, `EMPTY` of a TCP frame without payload, and `SHORT`
/// of the shortest frame with payload, which ends a message.
const FULL: usize = 1514;
const EMPTY: usize = 66;
const SHORT: usize = 100;
/// The share of the frames with payload that have the size `FULL`. The sizes of all other frames with payload
/// are uniformly distributed from `SHORT` to `FULL`.
const FULL_SHARE: f64 = 0.9;

/// The bandwidth of the link in bits per second. It determines the time between two packets of a train that
/// are back to back.
const LINK_BITS_PER_S: f64 = 100e9;

/// A way of sending: the lengths of its trains, in packets, and the times within them, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Sending {
    /// The share of the trains that have one packet.
    single: f64,
    /// The exponent of the power law of the lengths of trains with several packets.
    exponent: f64,
    /// The smallest length, in packets, of trains that follow the power law (`exponent`).
    shortest: f64,
    /// The share of the packets within a train that are back to back with the packet before.
    close: f64,
    /// The share of the packets within a train that follow the packet before after a mean time of `soon_ns`,
    /// drawn from an exponential law. Packets that are neither back to back (`close`) nor `soon` follow after
    /// a mean time of `later_ns`: half of it is fixed, the rest drawn from an exponential law.
    soon: f64,
    soon_ns: f64,
    later_ns: f64,
}

/// The largest length of a train in packets, so that a window of Figure 23 has up to 300 packets of a flow.
const LONGEST_TRAIN: f64 = 290.0;

/// The ways of sending, for RX and then TX: of flows of no cloud, of flows of the first cloud, and of flows
/// of the second cloud.
const SENDING: [[Sending; 3]; 2] = [
    [
        Sending {
            single: 0.43,
            exponent: 1.8,
            shortest: 2.5,
            close: 0.07,
            soon: 0.56,
            soon_ns: 0.8e3,
            later_ns: 30e3,
        },
        Sending {
            single: 0.3,
            exponent: 1.8,
            shortest: 5.0,
            close: 0.3,
            soon: 0.5,
            soon_ns: 1e3,
            later_ns: 30e3,
        },
        Sending {
            single: 0.43,
            exponent: 1.8,
            shortest: 2.5,
            close: 0.07,
            soon: 0.56,
            soon_ns: 0.8e3,
            later_ns: 30e3,
        },
    ],
    [
        Sending {
            single: 0.48,
            exponent: 1.8,
            shortest: 2.0,
            close: 0.03,
            soon: 0.67,
            soon_ns: 6e3,
            later_ns: 30e3,
        },
        Sending {
            single: 0.48,
            exponent: 1.8,
            shortest: 2.0,
            close: 0.03,
            soon: 0.67,
            soon_ns: 6e3,
            later_ns: 30e3,
        },
        Sending {
            single: 0.4,
            exponent: 1.8,
            shortest: 4.0,
            close: 0.1,
            soon: 0.6,
            soon_ns: 4e3,
            later_ns: 30e3,
        },
    ],
];

/// The length in packets from which on all packets of a train are back to back.
const FAST_TRAIN: f64 = 64.0;

/// The shortest mean time in nanoseconds between the beginnings of two trains of a flow. A flow that would
/// need a shorter time to send its packets has longer trains instead.
const PERIOD_NS: f64 = 250e3;

/// The mean number of trains of a round, and the mean time in nanoseconds from a train to the next of the
/// same round. The trains of a round follow each other closely, as in the round trips of a connection that is
/// active.
const TRAINS_PER_ROUND: f64 = 5.0;
const ROUND_NS: f64 = 600e3;

impl Sending {
    /// Draws the length of a train in packets. The mean is `factor` times [`mean_length`](Self::mean_length),
    /// except that no train is longer than `LONGEST_TRAIN`.
    fn length(&self, random: &mut Rng, factor: f64) -> f64 {
        let is_single = random.f64() < self.single;
        let long = self.shortest * (1.0 - random.f64()).powf(-1.0 / self.exponent);
        let length = factor * if is_single { 1.0 } else { long.floor() };
        length.min(LONGEST_TRAIN).round()
    }

    /// Draws the time from a packet of a train to the next packet, in nanoseconds. The next packet has
    /// `bytes` bytes; `is_fast` is true if all packets of the train are back to back.
    fn gap(&self, random: &mut Rng, bytes: usize, is_fast: bool) -> f64 {
        let drawn = random.f64();
        let wire = bytes as f64 * 8e9 / LINK_BITS_PER_S;
        if drawn < self.close || is_fast {
            return wire;
        }
        wire + match drawn < self.close + self.soon {
            true => exponential(random, self.soon_ns),
            false => self.later_ns / 2.0 + exponential(random, self.later_ns / 2.0),
        }
    }

    /// Returns the mean time from the first to the last packet of a train, in nanoseconds, without the time
    /// that packets take on the link.
    fn mean_time(&self) -> f64 {
        let later = 1.0 - self.close - self.soon;
        (self.mean_length() - 1.0) * (self.soon * self.soon_ns + later * self.later_ns)
    }

    /// Returns the mean length of a train, in packets.
    fn mean_length(&self) -> f64 {
        // The mean of whole lengths is about half a packet below the mean of the power law.
        let (a, low) = (self.exponent, self.shortest);
        let cut = (low / LONGEST_TRAIN).powf(a - 1.0);
        self.single + (1.0 - self.single) * (low * (a - cut) / (a - 1.0) - 0.5)
    }
}

/// The kinds of flows. Each has its own sizes, way of sending, and servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Cloud1,
    Cloud2,
    Udp,
}

const KINDS: [Kind; 4] = [Kind::Tcp, Kind::Cloud1, Kind::Cloud2, Kind::Udp];

impl Kind {
    fn servers(self) -> &'static [Server] {
        match self {
            Kind::Cloud1 => &paper::CLOUD_1,
            Kind::Cloud2 => &paper::CLOUD_2,
            Kind::Tcp | Kind::Udp => &[],
        }
    }

    fn sending(self, direction: CampusDirection) -> &'static Sending {
        let place = match self {
            Kind::Tcp | Kind::Udp => 0,
            Kind::Cloud1 => 1,
            Kind::Cloud2 => 2,
        };
        &SENDING[direction as usize][place]
    }
}

/// Returns the third byte of the addresses of a cloud's servers, 1 or 2; 0 for all other servers. The first
/// two bytes are 198.19.
const fn network(kind: Kind) -> u8 {
    match kind {
        Kind::Cloud1 => 1,
        Kind::Cloud2 => 2,
        Kind::Tcp | Kind::Udp => 0,
    }
}

/// Returns the number of flows of a cloud, and the mean, median and largest number of packets of a flow, over
/// all addresses of the cloud. The median is the median of the flows' medians by address.
pub fn pooled(servers: &[Server], direction: CampusDirection) -> [f64; 4] {
    let place = direction as usize;
    let flows: f64 = servers.iter().map(|server| f64::from(server.flows[place])).sum();
    let packets: f64 = servers.iter().map(|server| f64::from(server.flows[place]) * server.mean[place]).sum();
    let mut medians: Vec<_> =
        servers.iter().map(|server| (server.median[place], server.flows[place])).collect();
    medians.sort_unstable();
    let mut before = 0.0;
    let median = medians.iter().find(|(_, count)| {
        before += f64::from(*count);
        before >= flows / 2.0
    });
    let largest = servers.iter().map(|server| server.max[place]).max().unwrap_or(0);
    [flows, packets / flows, f64::from(median.map_or(1, |median| median.0)), f64::from(largest)]
}

/// A group of flows of one kind and of similar size, which begin at regular times.
struct Group {
    kind: Kind,
    /// The smallest rank of the group's flows, and the number of its flows.
    first: u64,
    count: u64,
    begun: u64,
    /// The step from the rank of a flow to the rank of the flow that begins next, modulo `count`. It has no
    /// common divisor with `count`, so that each rank has its turn once, but not in order.
    stride: u64,
    /// The planned time from the first packet of a flow to its last packet, and the mean time between the
    /// first packets of two consecutive flows of the group; both in nanoseconds.
    lasts: f64,
    every: f64,
}

impl Group {
    /// Returns the rank in the middle of the group.
    fn middle(&self) -> f64 {
        self.first as f64 + (self.count - 1) as f64 / 2.0
    }
}

/// A flow that is alive.
#[derive(Clone, Default)]
struct Flow {
    number: u32,
    kind: u8,
    /// The number of packets that are still to be sent: of the flow, and of its current train.
    left: u64,
    train: u64,
    /// True if the packets of the current train have payload.
    has_payload: bool,
    /// True if all packets of the current train are back to back.
    is_fast: bool,
    /// The planned time of the last packet of the flow, in nanoseconds.
    end: f64,
    /// The number of packets that the flow has sent, and the TCP sequence and acknowledgment numbers of its
    /// next packet.
    sent: u32,
    sequence: u32,
    acknowledged: u32,
    /// The frame size of the next packet.
    bytes: u16,
}

/// An event: the group with this index in `groups` begins its next flow, or the flow with this index in
/// `flows` sends its next packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin(u32),
    Send(u32),
}

/// An iterator over the packets of a trace like the campus's, in the order of their times.
pub struct CampusGenerator {
    campus: Campus,
    random: Rng,
    laws: Vec<Law>,
    groups: Vec<Group>,
    /// The number of packets of the whole trace, and the number of flows that have begun so far.
    packets: u64,
    begun: u32,
    flows: Vec<Flow>,
    free: Vec<u32>,
    /// The next event of each group and of each flow that is alive. Times are in nanoseconds.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    payload: Vec<u8>,
    /// The share of the trains whose packets have payload.
    with_payload: f64,
}

/// Returns the number of flows of each kind, and the shape of their sizes.
fn shapes(direction: CampusDirection, packets: f64) -> [(u64, Shape); 4] {
    let place = direction as usize;
    let facts = direction.facts();
    let scale = packets / facts.packets;
    let clouds = [&paper::CLOUD_1[..], &paper::CLOUD_2].map(|servers| pooled(servers, direction));
    let of_clouds: f64 = clouds.iter().map(|[flows, mean, ..]| flows * mean).sum();
    let rest = facts.tcp_flows - clouds.iter().map(|cloud| cloud[0]).sum::<f64>();
    let in_tcp = facts.tcp_flows * facts.mean_flow_packets;
    let shape = |flows, mean: f64, largest: f64| Shape {
        single: SINGLE[place],
        median: MEDIAN[place],
        mean,
        largest: largest / flows,
    };
    let cloud = |[flows, mean, median, largest]: [f64; 4]| {
        let largest = (largest / flows).max(LARGEST_OF_CLOUD * mean);
        let shape = Shape { single: SINGLE_OF_CLOUD, median, mean, largest };
        (flows, shape)
    };
    // The paper says nothing about UDP. Its packets are those that are not in TCP flows, in flows of the same
    // mean size. Its largest flow has a tenth of the packets of the largest TCP flow.
    let udp = (facts.packets - in_tcp) / facts.mean_flow_packets;
    let all = [
        (rest, shape(rest, (in_tcp - of_clouds) / rest, facts.largest_flow_packets)),
        cloud(clouds[0]),
        cloud(clouds[1]),
        (udp, shape(udp, facts.mean_flow_packets, facts.largest_flow_packets / 10.0)),
    ];
    all.map(|(flows, shape)| (((flows * scale).round() as u64).max(1), shape))
}

/// The mean time from the first to the last packet of a flow, divided by the time that is planned for the
/// flow. It is below 1, because the last train of a flow comes at a random time before the planned end.
const KEPT: f64 = 0.9;

/// Returns the mean number of trains of a flow of this group.
fn trains(law: &Law, group: &Group, direction: CampusDirection) -> f64 {
    law.size(group.middle()) / group.kind.sending(direction).mean_length()
}

/// The exponent by which the time that a flow is alive grows with its number of packets.
const LIFETIME_POWER: f64 = 0.5;

impl CampusGenerator {
    /// Prepares the generation of a trace. Packets are made when the iterator is advanced.
    ///
    /// # Errors
    /// If the number of packets or of flows alive is out of range.
    pub fn new(campus: Campus) -> Result<CampusGenerator, CampusError> {
        if !(FEWEST_PACKETS..=MOST_PACKETS).contains(&campus.packets) {
            return Err(CampusError::Packets(campus.packets));
        }
        let direction = campus.direction;
        // A law with few flows cannot have all requested properties, so that the trace would have too many or
        // too few packets. The assumed number of packets, from which the numbers of flows follow, is
        // therefore adapted in a few steps.
        let mut assumed = campus.packets as f64;
        let mut laws: Vec<Law> = Vec::new();
        for _ in 0..5 {
            let shapes = shapes(direction, assumed);
            let flows: u64 = shapes.iter().map(|shape| shape.0).sum();
            if flows > u64::from(MOST_FLOWS) {
                return Err(CampusError::Flows(flows));
            }
            laws = shapes.iter().map(|&(flows, shape)| Law::new(flows, shape)).collect();
            assumed *= campus.packets as f64 / laws.iter().map(Law::packets).sum::<f64>().max(1.0);
        }
        let nanoseconds = campus.packets as f64 * 1e9 / direction.rate();
        let mut groups = Vec::new();
        for (kind, law) in KINDS.into_iter().zip(&laws) {
            for (first, count) in law.groups() {
                let mut group =
                    Group { kind, first, count, begun: 0, stride: stride(count), lasts: 0.0, every: 0.0 };
                let size = law.size(group.middle());
                group.lasts = if size < 2.0 { 0.0 } else { size.powf(LIFETIME_POWER) };
                groups.push(group);
            }
        }
        // A flow lasts at least as long as its trains need, and at most as long as the trace. The search
        // below finds the factor for the times of all flows with which the requested number of flows is
        // alive.
        let needs = |group: &Group| match group.lasts > 0.0 {
            true => trains(&laws[group.kind as usize], group, direction) * ROUND_NS,
            false => 0.0,
        };
        let lasts = |group: &Group, factor: f64| (group.lasts * factor).max(needs(group)).min(nanoseconds);
        let alive = |factor: f64| -> f64 {
            groups.iter().map(|group| lasts(group, factor) * group.count as f64).sum::<f64>() / nanoseconds
        };
        let least = alive(0.0).ceil() as u64;
        let most = groups.iter().filter(|group| group.lasts > 0.0).map(|group| group.count).sum::<u64>() / 2;
        let requested = campus.alive.map_or(least.max(campus.packets / 1000).min(most), u64::from);
        if !(least..=most).contains(&requested) {
            return Err(CampusError::Alive { alive: requested, least, most });
        }
        let (mut low, mut high) = (0.0, nanoseconds);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if alive(middle) * KEPT < requested as f64 { low = middle } else { high = middle }
        }
        let lengths: Vec<f64> = groups.iter().map(|group| lasts(group, high)).collect();
        let mut events = BinaryHeap::new();
        for ((place, group), length) in groups.iter_mut().enumerate().zip(lengths) {
            // If n rounds begin at uniformly distributed times, the last of them begins on average after n /
            // (n + 1) of the whole time. The time of a flow is lengthened by the factor (n + 1) / n to make
            // up for this.
            let rounds = (trains(&laws[group.kind as usize], group, direction) / TRAINS_PER_ROUND).max(1.0);
            group.lasts = (length * (1.0 + 1.0 / rounds)).min(nanoseconds);
            group.every = (nanoseconds - group.lasts) / group.count as f64;
            events.push(Reverse(((group.every * 0.5) as u64, Event::Begin(place as u32))));
        }
        let mut random = Rng::with_seed(campus.seed);
        let payload = (0..FULL).map(|_| random.u8(..)).collect();
        let payload_mean = FULL_SHARE * FULL as f64 + (1.0 - FULL_SHARE) * (SHORT + FULL) as f64 / 2.0;
        let with_payload =
            (direction.facts().mean_packet_bytes - EMPTY as f64) / (payload_mean - EMPTY as f64);
        let packets = groups
            .iter()
            .map(|group| {
                let law = &laws[group.kind as usize];
                (group.first..group.first + group.count).map(|rank| law.size(rank as f64) as u64).sum::<u64>()
            })
            .sum();
        Ok(CampusGenerator {
            campus,
            random,
            laws,
            groups,
            packets,
            begun: 0,
            flows: Vec::new(),
            free: Vec::new(),
            events,
            payload,
            with_payload,
        })
    }

    /// Returns the number of packets of the trace. It is the requested number up to rounding to whole flows.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Begins the next flow of the group with index `place` in `groups`. `now` is the time in nanoseconds.
    fn begin(&mut self, place: u32, now: u64) {
        let group = &mut self.groups[place as usize];
        let rank = group.first + group.begun * group.stride % group.count;
        group.begun += 1;
        if group.begun < group.count {
            let next = (group.begun as f64 + self.random.f64()) * group.every;
            self.events.push(Reverse(((next as u64).max(now), Event::Begin(place))));
        }
        let flow = Flow {
            number: self.begun,
            kind: group.kind as u8,
            left: self.laws[group.kind as usize].size(rank as f64) as u64,
            // The first train is the SYN.
            train: 1,
            end: now as f64 + group.lasts,
            sequence: self.random.u32(..),
            bytes: EMPTY as u16,
            ..Flow::default()
        };
        self.begun += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.flows[place as usize] = flow;
                place
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        self.events.push(Reverse((now, Event::Send(place))));
    }

    /// Returns the next packet of the flow with index `place` in `flows`, and draws the time of the packet
    /// after it. `now` is the time in nanoseconds.
    fn send(&mut self, place: u32, now: u64) -> Vec<u8> {
        let mut flow = std::mem::take(&mut self.flows[place as usize]);
        let kind = KINDS[usize::from(flow.kind)];
        let frame = self.frame(&mut flow, kind);
        flow.left -= 1;
        flow.train -= 1;
        if flow.left == 0 {
            self.free.push(place);
            return frame;
        }
        let sending = kind.sending(self.campus.direction);
        let begins = flow.train == 0;
        let mean = sending.mean_length();
        let rest = (flow.end - now as f64).max(1.0);
        let factor = (flow.left as f64 * PERIOD_NS / rest / mean).max(1.0);
        let quiet = if begins && flow.is_fast { PERIOD_NS } else { 0.0 };
        if begins {
            let train = sending.length(&mut self.random, factor);
            flow.is_fast = train >= FAST_TRAIN;
            flow.train = (train as u64).max(1);
            flow.has_payload = self.random.f64() < self.with_payload;
        }
        flow.bytes = match flow.has_payload {
            false => EMPTY as u16,
            true if self.random.f64() < FULL_SHARE => FULL as u16,
            true => self.random.u16(SHORT as u16..FULL as u16),
        };
        let gap = match begins {
            false => sending.gap(&mut self.random, usize::from(flow.bytes), flow.is_fast),
            true => {
                let trains = (flow.left as f64 / mean / factor).max(1.0);
                let rest = (rest - trains * factor * sending.mean_time()).max(0.0);
                if rest / trains > ROUND_NS && self.random.f64() > 1.0 / TRAINS_PER_ROUND {
                    ROUND_NS / 2.0 + exponential(&mut self.random, ROUND_NS / 2.0)
                } else {
                    // The next train begins a round. The remaining rounds of the flow begin at uniformly
                    // distributed times in the remaining time; the draw gives the earliest of these times.
                    let rounds = match rest / trains > ROUND_NS {
                        true => (trains / TRAINS_PER_ROUND).max(1.0),
                        false => trains,
                    };
                    rest * (1.0 - self.random.f64().powf(1.0 / rounds))
                }
            }
        };
        // After a long burst, a flow pauses.
        let next = now + gap.max(quiet) as u64;
        self.flows[place as usize] = flow;
        self.events.push(Reverse((next, Event::Send(place))));
        frame
    }

    /// Returns the source and the destination of the flow with this number.
    fn ends(&self, number: u32, kind: Kind) -> (SocketAddr, SocketAddr) {
        let scattered = number.wrapping_mul(0x02c1_b3c7) & (MOST_FLOWS - 1);
        let (host, port) = (scattered & 0xffff, 1024 + (scattered >> 16) as u16);
        let noise = Rng::with_seed(self.campus.seed ^ u64::from(number) << 20).u64(..);
        let servers = kind.servers();
        let chosen = match servers.is_empty() {
            true => (noise & 0xff) as u8,
            false => {
                let flows = servers.iter().map(|server| server.flows[self.campus.direction as usize]);
                let mut left = (noise >> 32) as u32 % flows.clone().sum::<u32>().max(1);
                let passes = |flows: &u32| {
                    let passes = left >= *flows;
                    left = left.wrapping_sub(*flows);
                    passes
                };
                1 + flows.take_while(passes).count() as u8
            }
        };
        let service = [80, 443, 443, 8080][(noise >> 8 & 3) as usize];
        let client: SocketAddr = (Ipv4Addr::from_bits(198 << 24 | 18 << 16 | host), port).into();
        let server: SocketAddr = (Ipv4Addr::new(198, 19, network(kind), chosen), service).into();
        match self.campus.direction {
            CampusDirection::Rx => (server, client),
            CampusDirection::Tx => (client, server),
        }
    }

    /// Makes the next packet of a flow.
    fn frame(&mut self, flow: &mut Flow, kind: Kind) -> Vec<u8> {
        /// The lengths in bytes of headers: `LOWER` of Ethernet and IPv4 together, `TCP` of TCP with time
        /// stamps, `UDP` of UDP.
        const LOWER: usize = 34;
        const TCP: usize = 32;
        const UDP: usize = 8;
        let (from, to) = self.ends(flow.number, kind);
        let bytes = usize::from(flow.bytes);
        let is_first = flow.sent == 0;
        let (builder, payload) = if kind == Kind::Udp {
            (Builder::udp(from, to), bytes.saturating_sub(LOWER + UDP))
        } else if is_first {
            (Builder::tcp(from, to, flags::SYN).options(&SEGMENT_SIZE).sequence(flow.sequence, 0), 0)
        } else {
            let payload = bytes.saturating_sub(LOWER + TCP);
            let push = if payload > 0 && bytes < FULL { flags::PSH } else { 0 };
            let fin = if flow.left == 1 { flags::FIN } else { 0 };
            if payload == 0 {
                // An ACK without payload acknowledges two full segments.
                flow.acknowledged = flow.acknowledged.wrapping_add(2 * (FULL - LOWER - TCP) as u32);
            }
            let builder = Builder::tcp(from, to, flags::ACK | push | fin);
            (builder.options(&time_stamps(flow.sent)).sequence(flow.sequence, flow.acknowledged), payload)
        };
        let is_last = !is_first && flow.left == 1;
        let length = payload as u32 + u32::from(kind != Kind::Udp && (is_first || is_last));
        let builder = builder.ethernet(mac(1), mac(2)).id(flow.sent as u16);
        flow.sequence = flow.sequence.wrapping_add(length);
        flow.sent = flow.sent.saturating_add(1);
        padded(builder, self.payload.get(..payload).unwrap_or_default())
    }
}

/// Returns the TCP option with time stamps (RFC 7323), behind two bytes that align it.
fn time_stamps(value: u32) -> [u8; 12] {
    let [a, b, c, d] = value.to_be_bytes();
    [1, 1, 8, 10, a, b, c, d, 0, 0, 0, 0]
}

/// Returns a number near 0.618 times `count` (the golden ratio) that has no common divisor with `count`.
fn stride(count: u64) -> u64 {
    let coprime = |&candidate: &u64| {
        let (mut a, mut b) = (count, candidate);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    ((count as f64 * 0.618) as u64 + 1..).find(coprime).unwrap_or(1)
}

impl Iterator for CampusGenerator {
    type Item = Generated;

    fn next(&mut self) -> Option<Generated> {
        loop {
            let Reverse((now, event)) = self.events.pop()?;
            match event {
                Event::Begin(group) => self.begin(group, now),
                Event::Send(flow) => {
                    let frame = self.send(flow, now);
                    return Some(Generated { time: START * 1_000_000_000 + now as i64, frame });
                }
            }
        }
    }
}
