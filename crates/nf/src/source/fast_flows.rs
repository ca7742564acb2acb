//! Common parts of FastUDPFlows, FastTCPFlows and FastUDPSource: sources of packets of one or many flows.
//! The headers of each flow are built in advance, so that a packet is made by copying.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use element::args::{ArgType, parse_bool};
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, DST_IP, Filter, Target};
use element::{
    Args, Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, Random, Signal,
    Timestamp,
};
use wire::build::Builder;
use wire::checksum::Delta;
use wire::{MacAddr, ethernet, ipv4, tcp, udp};

use super::{limit_of, show_limit};
use crate::editing::{constant, header_at};
use crate::rate::bucket::Bucket;

// The arguments that several of the classes FastUDPFlows, FastTCPFlows and FastUDPSource have.
pub(super) const RATE: ArgInfo = ArgInfo::required("RATE", "unsigned");
pub(super) const LIMIT: ArgInfo = ArgInfo::required("LIMIT", "int");
pub(super) const LENGTH: ArgInfo = ArgInfo::required("LENGTH", "unsigned");
pub(super) const SRCETH: ArgInfo = ArgInfo::required("SRCETH", "Ethernet address");
pub(super) const SRCIP: ArgInfo = ArgInfo::required("SRCIP", "IP address");
pub(super) const DSTETH: ArgInfo = ArgInfo::required("DSTETH", "Ethernet address");
pub(super) const DSTIP: ArgInfo = ArgInfo::required("DSTIP", "IP address");
const FLOWS: ArgInfo = ArgInfo::required("FLOWS", "unsigned");
const FLOWSIZE: ArgInfo = ArgInfo::required("FLOWSIZE", "unsigned");

/// Returns the `N` arguments of a source with many flows: the arguments that FastUDPFlows and FastTCPFlows
/// share, followed by `more`.
pub(super) const fn flow_args<const N: usize>(more: &[ArgInfo]) -> [ArgInfo; N] {
    let first = [RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE];
    let mut all = [RATE; N];
    let mut place = 0;
    while place < N {
        all[place] = if place < first.len() { first[place] } else { more[place - first.len()] };
        place += 1;
    }
    all
}

/// The properties that FastUDPFlows, FastTCPFlows and FastUDPSource share.
pub(super) const COMMON: Class = Class {
    ports: "0/1",
    table: &HANDLERS,
    notes: Notes { signals_packets: true, task: Task::WherePushing, ..Notes::NONE },
    ..Class::DEFAULT
};

/// The protocol of a source's packets, and the way in which the ports of its flows change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// UDP; a flow gets new random ports after FLOWSIZE packets.
    Udp,
    /// UDP with a single flow, whose ports increase by one after INTERVAL packets.
    UdpInterval,
    /// TCP; the first of FLOWSIZE packets is a SYN, the last a FIN, and the flow then gets new random ports.
    Tcp,
}

/// The minimum length of packets in bytes.
const LEAST: usize = 60;
/// The offset of the IP header in bytes.
const NETWORK: usize = ethernet::Header::LEN;
/// The offset of the TCP or UDP header in bytes.
const TRANSPORT: usize = NETWORK + ipv4::Header::LEN;
/// The total length of the Ethernet, IP and TCP headers in bytes.
const HEADERS: usize = TRANSPORT + tcp::Header::LEN;
/// The total length of the Ethernet, IP and UDP headers in bytes.
const UDP_HEADERS: usize = TRANSPORT + udp::Header::LEN;
/// The maximum length of packets in bytes: the longest IP packet and the Ethernet header.
const MOST: usize = NETWORK + u16::MAX as usize;

// Offsets of 16-bit words from the start of the packet: the UDP checksum, the TCP checksum, and the word with
// the TCP flags.
const UDP_SUM: usize = TRANSPORT + 6;
const TCP_FLAGS: usize = TRANSPORT + 12;
const TCP_SUM: usize = TRANSPORT + 16;

/// Replaces the 16-bit word at an offset by the result of `new`, which gets the old word.
fn set_word(header: &mut [u8; HEADERS], at: usize, new: impl FnOnce(u16) -> u16) {
    let word = u16::from_be_bytes([header[at], header[at + 1]]);
    header[at..at + 2].copy_from_slice(&new(word).to_be_bytes());
}

/// The source and destination addresses of all packets. `checksum` is true if UDP packets have a checksum.
#[derive(Clone, Copy)]
struct Ends {
    ether: (MacAddr, MacAddr),
    ip: (Ipv4Addr, Ipv4Addr),
    checksum: bool,
}

struct Flow {
    /// The source and the destination port.
    ports: (u16, u16),
    /// The Ethernet, IP and TCP or UDP headers of the flow's packets, ready to be copied.
    header: [u8; HEADERS],
    /// The number of packets that have been sent since the flow got its ports, or since the source was reset;
    /// without the FIN packets that follow the limit.
    sent: u32,
}

/// The element of FastUDPFlows, FastTCPFlows and FastUDPSource: a source of packets that differ only in
/// their headers.
pub(super) struct FastFlows {
    kind: Kind,
    ends: Ends,
    flows: Vec<Flow>,
    /// The number of packets after which a flow gets new ports (the argument FLOWSIZE, or INTERVAL of
    /// FastUDPSource).
    size: u32,
    /// The number of consecutive packets of a flow before the next flow is chosen.
    burst: u32,
    /// True if flows are chosen in turn, in the order of their indexes; false if the flow is chosen at
    /// random.
    sequential: bool,
    /// The index of the current flow, and the number of packets that it still sends before another flow is
    /// chosen.
    current: (usize, u32),
    /// The bytes of a whole packet. The headers of each packet that is sent are copied into it, and the
    /// payload stays.
    packet: Vec<u8>,
    /// The headers of a packet whose ports and TCP sequence numbers are zero, from which the headers of all
    /// flows are made.
    template: [u8; HEADERS],
    bucket: Option<Bucket>,
    limit: u64,
    active: bool,
    stop: bool,
    count: u64,
    first: Option<Timestamp>,
    last: Timestamp,
    /// The index of the flow at which the search for the next TCP flow to close with a FIN continues; `None`
    /// until LIMIT packets have been sent.
    closing: Option<usize>,
    /// True if all packets have been sent.
    over: bool,
}

impl FastFlows {
    /// Parses the arguments of the class that `kind` stands for, and makes its element.
    pub(super) fn build(args: &mut Args<'_>, kind: Kind) -> Result<Box<dyn Element>, Invalid> {
        let rate: u32 = args.required("RATE");
        let limit = limit_of(args.required("LIMIT"));
        let mut length: u32 = args.required("LENGTH");
        let (from, source): (MacAddr, Ipv4Addr) = (args.required("SRCETH"), required_ip(args, "SRCIP"));
        let single = kind == Kind::UdpInterval;
        let sport: u16 = if single { args.required("SPORT") } else { 0 };
        let (to, target): (MacAddr, Ipv4Addr) = (args.required("DSTETH"), required_ip(args, "DSTIP"));
        let (mut flows, mut size, mut dport) = (1, 0, 0);
        if single {
            dport = args.required("DPORT");
        } else {
            flows = args.required::<u32>("FLOWS");
            size = args.required("FLOWSIZE");
        }
        let checksum = if kind == Kind::Tcp { true } else { args.value("CHECKSUM") };
        if single {
            size = args.value("INTERVAL");
        }
        let active = args.value::<bool>("ACTIVE");
        let (mut burst, mut sequential) = (1, false);
        if kind == Kind::Udp {
            burst = args.value::<u32>("FLOWBURST").max(1);
            sequential = args.value("SEQUENTIAL");
            args.value::<bool>("DUPLICATE");
        }
        let stop = args.value::<bool>("STOP");
        if (length as usize) < LEAST {
            args.warn("packet length < 60, defaulting to 60");
            length = LEAST as u32;
        }
        if length as usize > MOST {
            args.too_large("LENGTH", MOST);
            length = LEAST as u32;
        }
        if kind == Kind::Tcp && size < 3 {
            args.warn("flow size < 3, defaulting to 3");
            size = 3;
        }
        if flows == 0 && args.was_given("FLOWS") {
            args.error_as("FLOWS: 0 is too small; the least is 1", "FLOWS: out of range, bound 1");
        } else if flows > MOST_FLOWS {
            args.too_large("FLOWS", MOST_FLOWS);
        }
        args.finish()?;
        let flow = || Flow { ports: (sport, dport), header: [0; HEADERS], sent: 0 };
        Ok(Box::new(FastFlows {
            kind,
            ends: Ends { ether: (from, to), ip: (source, target), checksum },
            flows: (0..flows).map(|_| flow()).collect(),
            size,
            burst,
            sequential,
            current: (0, 0),
            packet: vec![0; length as usize],
            template: [0; HEADERS],
            bucket: bucket(u64::from(rate)),
            limit,
            active,
            stop,
            count: 0,
            first: None,
            last: Timestamp::ZERO,
            closing: None,
            over: false,
        }))
    }

    /// Gives a flow new headers: new random ports, except for FastUDPSource, and new TCP sequence numbers.
    /// `place` is the index of the flow, whose count of packets starts again.
    fn renew(&mut self, place: usize, random: &mut Random) {
        let flow = &mut self.flows[place];
        flow.sent = 0;
        if self.kind != Kind::UdpInterval {
            // The same ports as in Click, which writes the numbers in the machine's byte order.
            let mut port = || ((random.bits() >> 2) % u32::from(u16::MAX)) as u16;
            flow.ports = (port().swap_bytes(), port().swap_bytes());
        }
        let mut header = self.template;
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        // Ports and TCP sequence numbers are zero in the template, so its checksum is updated for them (RFC
        // 1624).
        let ports = u32::from(flow.ports.0) << 16 | u32::from(flow.ports.1);
        put(TRANSPORT, &ports.to_be_bytes());
        let mut delta = Delta::u32(0, ports);
        if self.kind == Kind::Tcp {
            let numbers = [random.u32(), random.u32()];
            put(TRANSPORT + 4, &numbers[0].to_be_bytes());
            put(TRANSPORT + 8, &numbers[1].to_be_bytes());
            delta = delta + Delta::u32(0, numbers[0]) + Delta::u32(0, numbers[1]);
            set_word(&mut header, TCP_SUM, |sum| delta.apply(sum));
        } else {
            set_word(&mut header, UDP_SUM, |sum| delta.apply_udp(sum));
        }
        flow.header = header;
    }

    /// Builds `template`: the headers of a packet whose ports and TCP sequence numbers are zero.
    fn write_template(&mut self) {
        let Ends { ether, ip, checksum } = self.ends;
        let [from, to] = [ip.0, ip.1].map(|ip| SocketAddr::new(IpAddr::V4(ip), 0));
        let (builder, length) = match self.kind {
            Kind::Tcp => (Builder::tcp(from, to, tcp::flags::SYN).window(65_535), HEADERS),
            _ => (Builder::udp(from, to), UDP_HEADERS),
        };
        let payload = vec![0; self.packet.len() - length];
        // Building fails only for packets that are too long, which arguments and handlers exclude.
        let built = builder.ethernet(ether.0, ether.1).ttl(250).build(&payload).unwrap_or_default();
        self.template = built.first_chunk().copied().unwrap_or([0; HEADERS]);
        if !checksum {
            set_word(&mut self.template, UDP_SUM, |_| 0);
        }
    }

    /// Sets the TCP flags in the headers of a flow, by its index, and updates the TCP checksum.
    fn set_flags(&mut self, place: usize, flags: u8) {
        let header = &mut self.flows[place].header;
        let mut delta = Delta::default();
        set_word(header, TCP_FLAGS, |word| {
            let new = word & 0xff00 | u16::from(flags);
            delta = Delta::u16(word, new);
            new
        });
        set_word(header, TCP_SUM, |sum| delta.apply(sum));
    }

    /// Chooses the flow of the next packet, and returns its index.
    fn choose(&mut self, random: &mut Random) -> usize {
        let (place, left) = &mut self.current;
        if *left == 0 {
            *left = self.burst;
            *place = if self.sequential {
                (*place + 1) % self.flows.len()
            } else {
                (random.bits() >> 2) as usize % self.flows.len()
            };
        }
        *left -= 1;
        *place
    }

    /// Chooses the flow of the next packet and prepares its headers: new ports if the flow is complete, and
    /// the TCP flags. Counts the packet for the flow, and returns the index of the flow.
    fn next(&mut self, random: &mut Random) -> usize {
        let place = self.choose(random);
        let sent = self.flows[place].sent;
        match self.kind {
            Kind::UdpInterval if self.size > 0 && sent == self.size => {
                let (sport, dport) = self.flows[place].ports;
                self.flows[place].ports = (sport.wrapping_add(1), dport.wrapping_add(1));
                self.renew(place, random);
            }
            Kind::UdpInterval => {}
            _ if sent > 0 && sent >= self.size => self.renew(place, random),
            _ => {}
        }
        if self.kind == Kind::Tcp {
            let flags = match self.flows[place].sent {
                0 => tcp::flags::SYN,
                sent if sent + 1 == self.size => tcp::flags::FIN,
                _ => tcp::flags::PSH | tcp::flags::ACK,
            };
            self.set_flags(place, flags);
        }
        self.flows[place].sent += 1;
        place
    }

    /// Returns the index of the next TCP flow that must be closed after LIMIT packets have been sent, and
    /// puts the flag FIN into its headers. A flow must be closed unless it has sent all its packets; flows
    /// without packets get a FIN, too, as in Click. Returns `None` if no flow is left to close, and for UDP.
    fn next_to_close(&mut self) -> Option<usize> {
        if self.kind != Kind::Tcp {
            return None;
        }
        let start = self.closing.unwrap_or(0);
        let place = (start..self.flows.len()).find(|&place| self.flows[place].sent != self.size);
        self.closing = Some(place.map_or(self.flows.len(), |place| place + 1));
        let place = place?;
        self.set_flags(place, tcp::flags::FIN);
        Some(place)
    }

    fn make_one(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let place = if self.count < self.limit { self.next(cx.random()) } else { self.next_to_close()? };
        let length = if self.kind == Kind::Tcp { HEADERS } else { UDP_HEADERS };
        self.packet[..length].copy_from_slice(&self.flows[place].header[..length]);
        let mut packet = cx.packet(&self.packet)?;
        packet.set_headers(NETWORK, TRANSPORT);
        packet.set_offset(Base::Mac, Some(0));
        packet.set_destination(self.ends.ip.1.octets());
        self.count += 1;
        self.last = cx.now();
        self.first.get_or_insert(cx.now());
        Some(packet)
    }

    fn make(&mut self, cx: &mut Cx<'_>, most: usize) -> Batch {
        let tokens = self.bucket.as_mut().map_or(u64::MAX, |bucket| bucket.fill(cx.now()));
        let mut batch = cx.batch();
        while (batch.len() as u64) < tokens.min(most as u64) && !batch.is_full() && cx.has_room() {
            let Some(packet) = self.make_one(cx) else {
                self.over = true;
                break;
            };
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        if let Some(bucket) = &mut self.bucket {
            bucket.take(batch.len() as u64);
        }
        batch
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.over &= self.count >= self.limit;
        let ready = self.active && !self.over;
        if !cx.graph().output_is_push(0) {
            cx.set_signal(Signal::Packets, ready);
        } else if ready {
            cx.schedule();
        }
    }

    /// Decides what to do when no packet could be made. If all packets have been sent, stops the driver if
    /// STOP is true. Otherwise sets a timer for the arrival of the next token or, without a rate, schedules
    /// the task of a push source.
    fn wait(&mut self, cx: &mut Cx<'_>) {
        if self.over {
            if self.stop {
                cx.stop();
            }
            return;
        }
        match self.bucket.as_ref().and_then(|bucket| bucket.when(1, cx.now())) {
            Some(at) => cx.set_timer(0, at),
            None if cx.graph().output_is_push(0) => cx.schedule(),
            None => {}
        }
    }

    fn reset(&mut self) {
        (self.count, self.first, self.last) = (0, None, Timestamp::ZERO);
        (self.closing, self.over, self.current) = (None, false, (0, 0));
        self.flows.iter_mut().for_each(|flow| flow.sent = 0);
    }

    /// Builds the headers of all flows, at the start and after a change of length or Ethernet addresses.
    /// Except for FastUDPSource, all flows get new ports.
    fn renew_all(&mut self, cx: &mut Cx<'_>) {
        self.write_template();
        for place in 0..self.flows.len() {
            self.renew(place, cx.random());
        }
    }
}

/// The maximum number of flows of a source.
const MOST_FLOWS: u32 = 1 << 24;

fn required_ip(args: &mut Args<'_>, name: &'static str) -> Ipv4Addr {
    // `Args::required` needs a type with a default value, which `Ipv4Addr` does not have.
    let given = args.get(name);
    if given.is_none() {
        args.error(format!("{name}: required argument missing"));
    }
    given.unwrap_or(Ipv4Addr::UNSPECIFIED)
}

/// Returns the token bucket for a rate in packets per second; `None` for a rate of 0, which is no limit.
/// The bucket holds two tokens, or a hundredth of the rate if that is more, and has one token now.
fn bucket(rate: u64) -> Option<Bucket> {
    (rate > 0).then(|| Bucket::new(rate, if rate < 200 { 2 } else { rate / 100 }, 1))
}

impl Element for FastFlows {
    fn effects(&self) -> Effects {
        // No packet arrives, so this case never applies. It declares the fields that are set in new
        // packets, for elements downstream.
        let case = Case::new(Filter::FALSE, Target::Output(0))
            .with(header_at(Base::Mac, 0))
            .with(header_at(Base::Network, NETWORK))
            .with(header_at(Base::Transport, TRANSPORT))
            .with(constant(DST_IP, &self.ends.ip.1.octets()));
        Effects { cases: vec![case], ..Effects::source("packet") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.renew_all(cx);
        self.start(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active || self.over {
            return false;
        }
        let burst = cx.burst();
        let batch = self.make(cx, burst);
        if batch.is_empty() {
            cx.recycle(batch);
            self.wait(cx);
            return false;
        }
        cx.emit(0, batch);
        cx.schedule();
        true
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.start(cx);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let ready = self.active && !self.over;
        let batch = if ready { self.make(cx, max) } else { cx.batch() };
        if batch.is_empty() {
            cx.set_signal(Signal::Packets, false);
        }
        if ready && batch.is_empty() {
            self.wait(cx);
        }
        batch
    }
}

const HANDLERS: &[Handler<FastFlows>] = &[
    Handler::count("count", |e| e.count),
    Handler::data(
        "rate",
        |e| {
            let span = (e.last - e.first.unwrap_or(e.last)).0 / 1_000_000;
            let finished = e.count >= e.limit && span > 0;
            if finished { (e.count * 1_000 / span.cast_unsigned()).to_string() } else { "0".into() }
        },
        |e, cx, value| {
            let rate = i64::parse(value, &cx.place()).ok().and_then(|rate| u64::try_from(rate).ok());
            e.bucket = bucket(rate.ok_or("rate parameter must be integer >= 0")?);
            e.start(cx);
            Ok(())
        },
    ),
    Handler::set("reset", |e, cx, _| {
        e.reset();
        e.start(cx);
        Ok(())
    }),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("active parameter must be boolean")?;
            if e.active {
                e.reset();
            }
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "limit",
        |e| show_limit(e.limit),
        |e, cx, value| {
            let limit = i64::parse(value, &cx.place());
            e.limit = limit_of(limit.map_err(|_| "limit parameter must be integer >= 0")?);
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "length",
        |e| e.packet.len().to_string(),
        |e, cx, value| {
            let length = i64::parse(value, &cx.place()).map_err(|_| "length parameter must be integer")?;
            e.packet = vec![0; usize::try_from(length).unwrap_or(0).clamp(LEAST, MOST)];
            e.renew_all(cx);
            e.start(cx);
            Ok(())
        },
    ),
    Handler::set("srceth", |e, cx, value| {
        e.ends.ether.0 = MacAddr::parse(value, &cx.place()).map_err(|_| "Invalid argument")?;
        e.renew_all(cx);
        e.start(cx);
        Ok(())
    }),
    Handler::set("dsteth", |e, cx, value| {
        e.ends.ether.1 = MacAddr::parse(value, &cx.place()).map_err(|_| "Invalid argument")?;
        e.renew_all(cx);
        e.start(cx);
        Ok(())
    }),
    Handler::data(
        "stop",
        |e| e.stop.to_string(),
        |e, cx, value| {
            e.stop = parse_bool(value).ok_or("expected boolean")?;
            e.start(cx);
            Ok(())
        },
    ),
];
