//! Generated traces with a given number of flows, locality, skew, packet sizes, rate and protocols. The
//! same specification gives the same bytes on every machine.
//!
//! Packets come in runs of one flow. The mean length of a run is the requested SLF, up to rounding. Each run
//! has one of the two whole lengths next to the mean. Flows are directed. A TCP flow starts with a SYN, and
//! its sequence numbers follow its payload. Its last packet has a FIN if the flow has more than one packet.
//!
//! If TCP is answered, each TCP run is followed, some runs later, by a run of acknowledgments in the opposite
//! flow. This run has as many packets, so that the locality stays the same.

pub mod campus;
mod runs;
mod sizes;

use std::collections::VecDeque;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use fastrand::Rng;
use wire::build::Builder;
use wire::tcp::flags;
use wire::{MacAddr, ethernet, ipv4, ipv6, tcp, udp};

use self::runs::Runs;
pub use self::sizes::{LONGEST, SHORTEST, SizeMix, SizeMixError};

/// The largest number of flows: each has a source address and port of its own, from 2^16 addresses and 2^10
/// ports.
pub const MOST_FLOWS: u32 = 1 << 26;

/// The time of the first packet of a trace, in seconds since 1970.
pub const START: i64 = 1_700_000_000;

/// The requested properties of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    /// The number of directed flows, without the flows of answers. Each flow has at least one packet.
    pub flows: u32,
    /// The number of packets, without the packets of answers.
    pub packets: u64,
    /// The requested SLF, at least 1: the mean length of a run, in packets.
    pub slf: f64,
    /// The exponent of Zipf's law, 0 to 10, for the share of the runs that each flow has; 0 means equal
    /// shares.
    pub zipf: f64,
    /// The frame sizes and their weights. A frame whose headers need more bytes than its size is as long as
    /// its headers. SYNs and answers have no payload and the shortest size that holds their headers.
    pub sizes: SizeMix,
    /// The number of packets per second, including answers. Packets are evenly spaced in time.
    pub rate: f64,
    /// The protocols of the flows.
    pub protocol: Protocols,
    /// The share of the flows that are IPv6, 0 to 1.
    pub ipv6: f64,
    /// True if each TCP packet is acknowledged by a packet in the opposite flow.
    pub answers: bool,
    /// The seed of all random decisions.
    pub seed: u64,
}

/// The transport protocols of the flows of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocols {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// TCP or UDP, chosen at random for each flow with equal probability.
    Mix,
}

/// Reasons for which a specification is rejected.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SpecificationError {
    /// The number of flows is 0 or larger than [`MOST_FLOWS`].
    Flows(u32),
    /// A value of the specification is out of its range.
    Range {
        /// The name of the value, for the message.
        what: &'static str,
        /// The requested value.
        value: f64,
        /// The allowed range.
        range: &'static str,
    },
    /// The packets make fewer runs than there are flows, but each flow needs at least one run.
    TooFewPackets {
        /// The number of runs: packets divided by SLF.
        runs: u64,
        /// The number of flows.
        flows: u32,
    },
    /// A single flow was requested with an SLF that needs several runs, but a single flow always forms a
    /// single run.
    OneFlow,
}

impl fmt::Display for SpecificationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecificationError::Flows(flows) => {
                write!(f, "{flows} flows are not possible: ask for 1 to {MOST_FLOWS}")
            }
            SpecificationError::Range { what, value, range } => {
                write!(f, "{what} is {value}, but has to be {range}")
            }
            SpecificationError::TooFewPackets { runs, flows } => write!(
                f,
                "packets by SLF makes {runs} runs, but {flows} flows need one each: ask for more packets, fewer flows \
                 or a lower SLF"
            ),
            SpecificationError::OneFlow => f.write_str(
                "one flow makes one run, so its SLF is its number of packets: ask for at least 2 flows",
            ),
        }
    }
}

impl std::error::Error for SpecificationError {}

/// The state of a flow: the number of packets sent, and the next TCP sequence number.
#[derive(Clone, Copy, Default)]
struct Sender {
    sent: u32,
    sequence: u32,
}

/// The number of runs that follow a TCP run before its answer is sent; fewer at the end of the trace.
const ROUND_TRIP: usize = 8;

/// The answer to a run: the index of the answered flow, and for each packet of the answer its TCP flags and
/// its acknowledgment number.
type Answer = (usize, VecDeque<(u8, u32)>);

/// An iterator over the packets of a generated trace, in the order of their times.
pub struct Generator {
    specification: Specification,
    random: Rng,
    schedule: Runs,
    runs: u64,
    /// `begun` is the number of runs that have begun; `made` is the number of packets that have been made,
    /// without answers.
    begun: u64,
    made: u64,
    /// The number of packets that have been made, including answers. It determines the time of the next
    /// packet.
    all: u64,
    /// The answers that are not sent yet, oldest first. The last one belongs to the current run and is
    /// still growing.
    answers: VecDeque<Answer>,
    /// The answer that is being sent, with the packets that remain.
    answer: Answer,
    /// `flow` is the index of the flow of the current run; `end` is the value of `made` at which the run
    /// ends.
    flow: usize,
    end: u64,
    senders: Vec<Sender>,
    payload: Vec<u8>,
}

/// A packet of a generated trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The time in nanoseconds since 1970.
    pub time: i64,
    /// The Ethernet frame, without its check sequence.
    pub frame: Vec<u8>,
}

impl Generator {
    /// Prepares the generation of a trace. Packets are made when the iterator is advanced.
    ///
    /// # Errors
    /// If the specification is invalid.
    pub fn new(specification: Specification) -> Result<Generator, SpecificationError> {
        let s = &specification;
        let check = |good: bool, what, value, range| match good {
            true => Ok(()),
            false => Err(SpecificationError::Range { what, value, range }),
        };
        if !(1..=MOST_FLOWS).contains(&s.flows) {
            return Err(SpecificationError::Flows(s.flows));
        }
        let most = 1u64 << 40;
        check((1..=most).contains(&s.packets), "the number of packets", s.packets as f64, "1 to 2^40")?;
        check(s.slf >= 1.0 && s.slf.is_finite(), "the SLF", s.slf, "at least 1")?;
        check((0.0..=10.0).contains(&s.zipf), "the exponent of Zipf's law", s.zipf, "0 to 10")?;
        check((0.001..=1e9).contains(&s.rate), "the rate", s.rate, "0.001 to 1e9 packets per second")?;
        check((0.0..=1.0).contains(&s.ipv6), "the share of IPv6", s.ipv6, "0 to 1")?;
        let runs = ((s.packets as f64 / s.slf).round() as u64).clamp(1, s.packets);
        if runs < u64::from(s.flows) {
            return Err(SpecificationError::TooFewPackets { runs, flows: s.flows });
        }
        if s.flows == 1 && runs > 1 {
            return Err(SpecificationError::OneFlow);
        }
        let flows = s.flows as usize;
        let mut random = Rng::with_seed(s.seed);
        let payload = (0..LONGEST).map(|_| random.u8(..)).collect();
        let schedule = Runs::new(flows, runs, s.zipf);
        let senders = vec![Sender::default(); flows];
        Ok(Generator {
            specification,
            random,
            schedule,
            runs,
            begun: 0,
            made: 0,
            all: 0,
            answers: VecDeque::new(),
            answer: Answer::default(),
            flow: 0,
            end: 0,
            senders,
            payload,
        })
    }

    /// Returns the source and the destination of a flow, and true if the flow is TCP.
    fn ends(&self, flow: usize) -> (SocketAddr, SocketAddr, bool) {
        let s = &self.specification;
        // Multiplication by an odd factor maps distinct flows to distinct numbers and scatters consecutive
        // flows. The address ranges are reserved for tests and documentation by RFC 2544 and RFC 3849.
        let number = (flow as u32).wrapping_mul(0x02c1_b3c7) & (MOST_FLOWS - 1);
        let (host, port) = (number & 0xffff, 1024 + (number >> 16) as u16);
        let noise = Rng::with_seed(s.seed ^ (flow as u64) << 20).u64(..);
        let (server, service) = ((noise & 0xff) as u32, [80, 443, 443, 8080][(noise >> 8 & 3) as usize]);
        let is_tcp = match s.protocol {
            Protocols::Tcp => true,
            Protocols::Udp => false,
            Protocols::Mix => noise >> 10 & 1 == 1,
        };
        let count = |flows: usize| (flows as f64 * s.ipv6).floor();
        if count(flow + 1) > count(flow) {
            let address = |kind: u128, host: u32| {
                Ipv6Addr::from_bits(0x2001_0db8 << 96 | kind << 64 | u128::from(host))
            };
            return ((address(1, host), port).into(), (address(2, server), service).into(), is_tcp);
        }
        let address = |base: [u8; 4], host: u32| Ipv4Addr::from_bits(u32::from_be_bytes(base) | host);
        let (from, to) = (address([198, 18, 0, 0], host), address([198, 19, 0, 0], server));
        ((from, port).into(), (to, service).into(), is_tcp)
    }

    /// Makes the next packet of a flow. If TCP is answered, adds the acknowledgment of a TCP packet to the
    /// answer of the current run. With `is_last`, a TCP packet has a FIN, unless it is also the first packet
    /// of the flow.
    fn frame(&mut self, flow: usize, is_last: bool) -> Vec<u8> {
        let (from, to, is_tcp) = self.ends(flow);
        let size = usize::from(self.specification.sizes.draw(&mut self.random));
        let ip = if from.is_ipv4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        let mut sender = self.senders[flow];
        let is_last = is_last && sender.sent > 0;
        let room = |transport: usize| size.saturating_sub(ethernet::Header::LEN + ip + transport);
        let (builder, payload) = if !is_tcp {
            (Builder::udp(from, to), room(udp::Header::LEN))
        } else if sender.sent == 0 {
            sender.sequence = self.random.u32(..);
            let syn = Builder::tcp(from, to, flags::SYN).options(&SEGMENT_SIZE);
            (syn.sequence(sender.sequence, 0), 0)
        } else {
            let payload = room(tcp::Header::LEN);
            let push = if payload > 0 { flags::PSH } else { 0 };
            let fin = if is_last { flags::FIN } else { 0 };
            (Builder::tcp(from, to, flags::ACK | push | fin).sequence(sender.sequence, 1), payload)
        };
        let is_first = sender.sent == 0;
        let length = payload as u32 + u32::from(is_tcp && (is_first || is_last));
        let builder = builder.ethernet(mac(1), mac(2)).id(sender.sent as u16);
        sender.sequence = sender.sequence.wrapping_add(length);
        sender.sent = sender.sent.saturating_add(1);
        self.senders[flow] = sender;
        if let Some((_, answer)) = self.answers.back_mut().filter(|_| is_tcp) {
            let with = match (is_first, is_last) {
                (true, _) => flags::SYN,
                (_, true) => flags::FIN,
                _ => 0,
            };
            answer.push_back((flags::ACK | with, sender.sequence));
        }
        padded(builder, &self.payload[..payload])
    }

    /// Makes the packet of an answer that has these flags and this acknowledgment number. The answering end
    /// sends no data: its sequence number is 0 in the SYN and 1 afterwards.
    fn acknowledgment(&self, flow: usize, (flags, acknowledged): (u8, u32)) -> Vec<u8> {
        let (from, to, _) = self.ends(flow);
        let is_syn = flags & flags::SYN != 0;
        let builder = Builder::tcp(to, from, flags).sequence(u32::from(!is_syn), acknowledged);
        let builder = if is_syn { builder.options(&SEGMENT_SIZE) } else { builder };
        padded(builder.ethernet(mac(2), mac(1)), &[])
    }

    /// Makes the next packet, which may belong to an answer; `None` after the last packet.
    fn advance(&mut self) -> Option<Vec<u8>> {
        if let Some(packet) = self.answer.1.pop_front() {
            return Some(self.acknowledgment(self.answer.0, packet));
        }
        let packets = self.specification.packets;
        if self.made == self.end {
            // Sends the oldest answer if more than ROUND_TRIP answers wait. After the last run, sends all
            // answers.
            let is_over = self.made == packets;
            while self.answers.len() > if is_over { 0 } else { ROUND_TRIP } {
                self.answer = self.answers.pop_front().unwrap_or_default();
                if let Some(packet) = self.answer.1.pop_front() {
                    return Some(self.acknowledgment(self.answer.0, packet));
                }
            }
            if is_over {
                return None;
            }
            self.flow = self.schedule.next(&mut self.random)?;
            self.begun += 1;
            // The product needs up to 80 bits, as there may be 2^40 packets and as many runs.
            self.end = (u128::from(self.begun) * u128::from(packets) / u128::from(self.runs)) as u64;
            if self.specification.answers {
                self.answers.push_back((self.flow, VecDeque::new()));
            }
        }
        self.made += 1;
        let is_last = self.made == self.end && !self.schedule.has_more(self.flow);
        Some(self.frame(self.flow, is_last))
    }
}

/// A TCP option: a maximum segment size of 1460 bytes, for IPv4 packets of 1500 bytes (RFC 9293).
const SEGMENT_SIZE: [u8; 4] = [2, 4, 0x05, 0xb4];

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

/// Builds a frame, padded with zeros to the minimum length of Ethernet, [`SHORTEST`].
fn padded(builder: Builder, payload: &[u8]) -> Vec<u8> {
    // Building cannot fail, because both addresses have the same IP version and the payload is short
    // enough.
    let mut frame = builder.build(payload).unwrap_or_default();
    if frame.len() < usize::from(SHORTEST) {
        frame.resize(SHORTEST.into(), 0);
    }
    frame
}

impl Iterator for Generator {
    type Item = Generated;

    fn next(&mut self) -> Option<Generated> {
        let frame = self.advance()?;
        let since = self.all as f64 * 1e9 / self.specification.rate;
        self.all += 1;
        Some(Generated { time: (START * 1_000_000_000).saturating_add(since as i64), frame })
    }
}
