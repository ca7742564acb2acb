//! # AggregateIPFlows
//! Sets the aggregate annotation to the number of the packet's TCP or UDP flow.
//!
//! Flows are numbered from 1 in the order of their first packets; both directions have the same number. The
//! paint annotation is set to 0 for packets in the direction of the first packet and to 1 for packets in
//! the other direction. A flow ends when no packet of it arrives for a time (see the timeouts below); its
//! next packet then gets a new number. A SYN that opens a closed connection again gets a new number, too.
//! Time is the time stamp of packets; a packet without a time stamp gets the current time.
//!
//! Packets without a flow go to output 1, or are dropped. They have no IPv4 header, another protocol, two
//! addresses of zero, or fewer than 8 bytes after the IPv4 header. Packets for which the table of flows or
//! the queue of waiting packets has no room have no flow either. The header annotations must be set.
//!
//! Fragments wait until FRAGMENT_TIMEOUT has passed. They then get the number of their first fragment, or
//! are dropped if the first fragment did not arrive. Later packets of the same protocol between the same two
//! hosts wait until all fragments ahead of them have left. If FRAGMENTS is false, no packet waits, and of
//! the fragments of a datagram only the first has a flow.
//!
//! A reload keeps the flows if CAPACITY, ICMP, FRAGMENTS, SYMETRIC and TRACEINFO stay the same. Otherwise all
//! flows end and are written to the old TRACEINFO; later flows get numbers that were not in use. TRACEINFO is
//! continued if it stays the same.
//!
//! ## Usage
//! `AggregateIPFlows([KEYWORDS])`
//!
//! ## Arguments
//! - `TCP_TIMEOUT`: the seconds after which an idle TCP flow ends.
//! - `TCP_DONE_TIMEOUT`: the seconds after which an idle TCP flow ends that was closed in both directions,
//!   or reset.
//! - `UDP_TIMEOUT`: the seconds after which an idle UDP flow ends.
//! - `FRAGMENT_TIMEOUT`: the seconds for which fragments wait.
//! - `REAP`: the seconds between two searches for flows that have ended.
//! - `ICMP`: if true, ICMP errors belong to the flow of the packet that they quote; their paint is 2 or 3.
//! - `FRAGMENTS`: if true, later fragments are numbered, too; true in push context, false in pull context,
//!   where it cannot be true.
//! - `SYMETRIC`: if false, the two directions are separate flows.
//! - `TRACEINFO`: the name of an XML file about flows that have ended; `-` is standard output. On a live
//!   run, text is written to the file within a second.
//! - `SOURCE`: an element whose handlers `filename` and `packet_filepos` give the capture and the position
//!   of packets in it, for TRACEINFO.
//! - `CAPACITY`: the maximum number of flows; memory for them is reserved at the start, and used (about 140
//!   bytes each) when they arrive. Packets of further flows have no flow.
//! - `FRAGMENT_CAPACITY`: the maximum number of packets that wait, about 560 bytes each in addition to the
//!   packet's slot; further packets that would have to wait have no flow.
//!
//! ## Handlers
//! - `clear`: ends the wait of all packets that wait for fragments, and then ends all flows.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> MarkIPHeader -> AggregateIPFlows -> AggregateCounter -> Discard
//! ```
//!
//! ## See also
//! AggregateIP, AggregateCounter, AggregateFirst, AggregateLast

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::editing::refused;
use classify::IntervalSet;
use element::args::ElementRef;
use element::class::ArgInfo;
use element::effects::{
    Action, Case, Depends, Field, Filter, Hold, Order, PAINT, State, StateAccess, Target, Value, wire_field,
};
use element::{
    Base, Batch, Call, Class, Cx, DropReason, Effects, Element, ElementId, Handler, Packet, Severity,
    StatePart, Timestamp, manual,
};
use flow::{FiveTupleKey, FlowId, FlowTable, KeyHasher};
use packet::{Annotations, BATCH_CAPACITY};
use wire::{FiveTuple, FromBytes, icmp, ip_protocol, ipv4, tcp};

use super::AGGREGATE;
use super::fragments::{Fragments, Pair, Waiting};
use super::notifier::Notifier;
use super::trace_info::{Record, TraceInfo};
use crate::memory::{refusal, reserved};
use crate::report_file::ReportFile;

/// The element class `AggregateIPFlows`.
pub static CLASS: Class = Class {
    name: "AggregateIPFlows",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("aggregate_ip_flows.rs"),
    args: &[
        ArgInfo::keyword("TCP_TIMEOUT", "seconds", "86400"),
        ArgInfo::keyword("TCP_DONE_TIMEOUT", "seconds", "30"),
        ArgInfo::keyword("UDP_TIMEOUT", "seconds", "60"),
        ArgInfo::keyword("FRAGMENT_TIMEOUT", "seconds", "30"),
        ArgInfo::keyword("REAP", "seconds", "1200"),
        ArgInfo::keyword("ICMP", "bool", "false"),
        ArgInfo::keyword("FRAGMENTS", "bool", ""),
        ArgInfo::keyword("SYMETRIC", "bool", "true"),
        ArgInfo::keyword("TRACEINFO", "file", ""),
        ArgInfo::keyword("SOURCE", "element", ""),
        ArgInfo::keyword("CAPACITY", "unsigned", "1048576"),
        ArgInfo::keyword("FRAGMENT_CAPACITY", "unsigned", "4096"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("flows", &[]), StatePart::kept("numbers", &[]), StatePart::kept("packets", &[])],
    samples: &[
        "",
        "ICMP true, FRAGMENTS false, UDP_TIMEOUT 3, REAP 10 -> 1/2",
        "SYMETRIC false, TRACEINFO $OUTPUT",
    ],
    build: |args| {
        let mut seconds = |name| args.value::<Timestamp>(name).parts().0;
        let limits = Limits {
            tcp: seconds("TCP_TIMEOUT"),
            done: seconds("TCP_DONE_TIMEOUT"),
            udp: seconds("UDP_TIMEOUT"),
            fragment: seconds("FRAGMENT_TIMEOUT"),
        };
        let reap = seconds("REAP");
        let given = args.get("FRAGMENTS");
        let capacity = args.value::<u32>("CAPACITY") as usize;
        let fragment_capacity = args.value::<u32>("FRAGMENT_CAPACITY") as usize;
        let table = FlowTable::new(capacity).map_err(|error| args.error(format!("CAPACITY: {error}")));
        let notifier = Arc::<Notifier>::default();
        let path = args.get("TRACEINFO");
        let source = args.get("SOURCE").map(|ElementRef(element)| element);
        let (icmp, symmetric) = (args.value::<bool>("ICMP"), args.value::<bool>("SYMETRIC"));
        if !args.pushes() && given == Some(true) {
            args.error("'FRAGMENTS true' is incompatible with pull; run this element in a push context");
        }
        args.finish()?;
        let fragments = given.unwrap_or(args.pushes());
        let flows = reserved(capacity).map_err(|error| args.error(refusal("CAPACITY", "flows", &error)));
        args.finish()?;
        let (Ok(table), Ok(flows)) = (table, flows) else { return Err(element::Invalid) };
        args.setup.publish(args.id(), Arc::clone(&notifier));
        Ok(Box::new(AggregateIpFlows {
            limits,
            reap,
            icmp,
            fragments,
            symmetric,
            path,
            source,
            notifier,
            info: None,
            table,
            hasher: KeyHasher::default(),
            flows,
            fragment_capacity,
            waiting: Fragments::default(),
            next: 1,
            second: 0,
            reap_at: None,
            warned: false,
        }))
    },
    ..Class::DEFAULT
};

/// The idle times after which flows end, and for which fragments wait, in whole seconds.
struct Limits {
    tcp: i64,
    done: i64,
    udp: i64,
    fragment: i64,
}

/// The value of [`Flow::over`] for a TCP flow that is closed in both directions, or reset.
const OVER: u8 = 3;

struct Flow {
    id: FlowId,
    aggregate: u32,
    is_tcp: bool,
    /// True if the first packet went in the direction opposite to that of the flow's key in the table.
    reverse: bool,
    /// Bit 0 if the direction of the first packet has sent a FIN, bit 1 if the other direction has;
    /// [`OVER`] after a reset.
    over: u8,
    first: Timestamp,
    last: Timestamp,
    packets: [u64; 2],
    position: Option<u64>,
}

/// The state that an AggregateIPFlows hands on to the element that replaces it when the configuration
/// changes.
struct Kept {
    settings: Settings,
    table: FlowTable<FiveTupleKey>,
    hasher: KeyHasher,
    flows: Vec<Option<Flow>>,
    waiting: Fragments,
    info: Option<TraceInfo>,
    next: u32,
    times: (i64, Option<i64>, bool),
}

/// The settings with which the flows of an element can be continued: the capacity, ICMP, FRAGMENTS, SYMETRIC
/// and TRACEINFO.
type Settings = (usize, bool, bool, bool, Option<String>);

struct AggregateIpFlows {
    limits: Limits,
    reap: i64,
    icmp: bool,
    fragments: bool,
    symmetric: bool,
    path: Option<String>,
    source: Option<ElementId>,
    notifier: Arc<Notifier>,
    info: Option<TraceInfo>,
    table: FlowTable<FiveTupleKey>,
    hasher: KeyHasher,
    /// The flows, at the index of their ids in `table`; `None` for flows that have ended.
    flows: Vec<Option<Flow>>,
    waiting: Fragments,
    /// The maximum number of packets that wait for fragments, in the queues `waiting` (FRAGMENT_CAPACITY).
    fragment_capacity: usize,
    next: u32,
    /// The time stamp, in seconds, of the last packet that was forwarded or began to wait. Timeouts are
    /// measured with it.
    second: i64,
    /// The time, in seconds, of the next search for idle flows; `None` before the first packet.
    reap_at: Option<i64>,
    warned: bool,
}

/// The decision about a packet.
enum Fate {
    Emit,
    /// Holds the packet in the queue of its protocol and two hosts. The fields: the queue, the IP
    /// identification, true for a fragment, and the flow's key and the paint if they are known.
    Wait(Pair, u16, bool, Option<(FiveTupleKey, u8)>),
    /// Sends the packet to output 1, or drops it for this reason, because it has no flow.
    Leave(DropReason),
}

/// The header fields that determine a packet's flow. They are from the packet's own header, or from the
/// header that an ICMP error quotes.
struct Seen {
    source: u32,
    target: u32,
    protocol: u8,
    id: u16,
    is_first: bool,
    is_fragment: bool,
    ports: Option<(u16, u16)>,
    is_quoted: bool,
    /// The TCP flags. `None` for packets that do not change the state of a connection: packets that are not
    /// TCP or too short for flags, later fragments and quoted packets.
    flags: Option<u8>,
}

impl Seen {
    fn of(ip: &ipv4::Header, transport: &[u8], is_quoted: bool) -> Seen {
        let whole = transport.first_chunk::<4>();
        let is_first = ip.fragment_offset() == 0;
        let is_tcp = ip.protocol == ip_protocol::TCP;
        Seen {
            source: ip.source_addr().to_bits(),
            target: ip.destination_addr().to_bits(),
            protocol: ip.protocol,
            id: ip.id.get(),
            is_first,
            is_fragment: ip.is_fragment(),
            ports: whole.map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]]))),
            is_quoted,
            flags: transport.get(13).copied().filter(|_| is_first && is_tcp && !is_quoted),
        }
    }

    /// Reads the header fields of a packet; if `icmp` is true and the packet is an ICMP error, the fields of
    /// the packet that it quotes.
    ///
    /// # Errors
    /// The reason why the packet has no flow.
    fn look(packet: &Packet, icmp: bool) -> Result<Seen, DropReason> {
        let network = packet.header(Base::Network).ok_or(DropReason::NoHeader)?;
        let (ip, _) = ipv4::Header::ref_from_prefix(network).map_err(|_| DropReason::NoHeader)?;
        let transport = packet.header(Base::Transport).unwrap_or_default();
        let seen = if ip.protocol == ip_protocol::ICMP && icmp && ip.fragment_offset() == 0 {
            let (message, quoted) =
                icmp::Header::ref_from_prefix(transport).map_err(|_| DropReason::TooShort)?;
            let inner = ipv4::Header::ref_from_prefix(quoted).ok().filter(|_| message.is_error());
            let (inner, _) = inner.ok_or(DropReason::NoMatch)?;
            let length = inner.header_len();
            let behind = quoted.get(length..).filter(|_| length >= ipv4::Header::LEN);
            Seen::of(inner, behind.ok_or(DropReason::NoMatch)?, true)
        } else {
            Seen::of(ip, transport, false)
        };
        let right = matches!(seen.protocol, ip_protocol::TCP | ip_protocol::UDP);
        if !right || (seen.source == 0 && seen.target == 0) {
            return Err(DropReason::NoMatch);
        }
        if seen.is_first && seen.ports.is_none() {
            return Err(DropReason::TooShort);
        }
        Ok(seen)
    }

    fn pair(&self) -> Pair {
        (self.protocol, self.source.min(self.target), self.source.max(self.target))
    }

    /// Returns the key of the flow, and true if the packet's direction is opposite to the key's. If
    /// `symmetric` is true, both directions of a connection have the same key; otherwise the key always has
    /// the packet's direction.
    fn key(&self, symmetric: bool) -> (FiveTupleKey, bool) {
        let (sport, dport) = self.ports.unwrap_or_default();
        let ends = [(self.source, sport), (self.target, dport)];
        let reverse = symmetric && ends[0] > ends[1];
        let [a, b] = ends.map(|(address, port)| (Ipv4Addr::from_bits(address), port));
        let tuple = FiveTuple::v4(a, b, self.protocol);
        (FiveTupleKey::new(&if reverse { tuple.reversed() } else { tuple }, 0), reverse)
    }
}

/// A packet of a flow, with the key under which the table has the flow.
struct Arrival<'a> {
    seen: &'a Seen,
    key: FiveTupleKey,
    /// True if the packet's direction is opposite to that of the flow's key in the table.
    reverse: bool,
    time: Timestamp,
}

impl AggregateIpFlows {
    /// Opens the file TRACEINFO, if it is given.
    fn open_file(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(path) = &self.path {
            let call = |element| Call::new(Some(element), "filename", "");
            let name = self.source.and_then(|element| cx.handlers().read(&call(element)).ok());
            let name = name.as_deref().map(str::trim).filter(|name| !name.is_empty());
            self.info = Some(TraceInfo::create(path, name)?);
        }
        Ok(())
    }

    /// Writes the buffered text to the file TRACEINFO, if there is one. Must be called when the file comes
    /// from the replaced element, because the timer of that element does not come with it.
    fn write_out(&mut self) {
        if let Some(info) = &mut self.info {
            info.write_out();
        }
    }

    fn timeout(&self, flow: &Flow) -> i64 {
        match (flow.is_tcp, flow.over) {
            (false, _) => self.limits.udp,
            (true, OVER) => self.limits.done,
            (true, _) => self.limits.tcp,
        }
    }

    /// Returns the index of the packet's flow in `flows`. Begins the flow if it is not in the table. If the
    /// flow has timed out or is reopened, ends it and begins a new flow with a new number. `None` if the
    /// table has no room for the flow.
    fn place(&mut self, cx: &mut Cx<'_>, arrival: &Arrival<'_>) -> Option<usize> {
        let Arrival { seen, key, time, .. } = arrival;
        let hash = self.hasher.hash(key);
        let Some(id) = self.table.lookup(key, hash) else { return self.open(cx, arrival) };
        let place = id.index() as usize;
        let flow = self.flows.get(place)?.as_ref()?;
        let age = time.parts().0 - flow.last.parts().0;
        let is_opened = seen.flags.is_some_and(|flags| flags & tcp::flags::SYN != 0);
        if age > self.timeout(flow) || (flow.over == OVER && is_opened) {
            self.end(place);
            let fresh = self.fresh(cx, id, arrival);
            self.flows[place] = Some(fresh);
        }
        Some(place)
    }

    fn open(&mut self, cx: &mut Cx<'_>, arrival: &Arrival<'_>) -> Option<usize> {
        let Arrival { key, time, .. } = arrival;
        let hash = self.hasher.hash(key);
        let id = self.table.insert(key, hash, *time).ok()?.id();
        let place = id.index() as usize;
        if self.flows.len() <= place {
            if self.flows.try_reserve(place + 1 - self.flows.len()).is_err() {
                self.table.remove(id);
                return None;
            }
            self.flows.resize_with(place + 1, || None);
        }
        let fresh = self.fresh(cx, id, arrival);
        self.flows[place] = Some(fresh);
        Some(place)
    }

    fn fresh(&mut self, cx: &mut Cx<'_>, id: FlowId, arrival: &Arrival<'_>) -> Flow {
        let &Arrival { seen, reverse, time, .. } = arrival;
        let aggregate = self.next;
        self.next = self.next.wrapping_add(1);
        let is_tcp = seen.protocol == ip_protocol::TCP;
        let position = if self.info.is_some() { self.position(cx) } else { None };
        Flow { id, aggregate, is_tcp, reverse, over: 0, first: time, last: time, packets: [0; 2], position }
    }

    /// Returns the position of the current packet in its capture, as the handler `packet_filepos` of SOURCE
    /// gives it; `None` if it is unknown.
    fn position(&self, cx: &mut Cx<'_>) -> Option<u64> {
        let call = Call::new(Some(self.source?), "packet_filepos", "");
        cx.handlers().read(&call).ok()?.trim().parse().ok().filter(|&position| position > 0)
    }

    /// Ends the flow at an index: notifies listeners, writes it to the TRACEINFO file, and returns its id.
    /// The entry in the table stays, for the caller to remove or to use for a new flow. `None` if there is
    /// no flow at the index.
    fn end(&mut self, place: usize) -> Option<FlowId> {
        let flow = self.flows.get_mut(place)?.take()?;
        self.notifier.ended(flow.aggregate);
        report(&mut self.info, &self.table, &flow);
        Some(flow.id)
    }

    /// Starts a timer if the TRACEINFO file has buffered text, so that flows that have ended are in the
    /// file within a second.
    fn set_timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(info) = &mut self.info {
            info.set_timer(cx, 0);
        }
    }

    /// Decides about a packet. Sets its aggregate and paint, unless it has to wait or has no flow.
    fn handle(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Fate {
        if !packet.time().is_set() {
            if !std::mem::replace(&mut self.warned, true) {
                let name = cx.declaration();
                let text = format_args!("{name}: warning: packet received without timestamp");
                cx.messages().remark(Severity::Warning, text);
            }
            packet.set_time(cx.now());
        }
        let seen = match Seen::look(packet, self.icmp) {
            Ok(seen) => seen,
            Err(reason) => return Fate::Leave(reason),
        };
        let mut flow = None;
        if seen.is_first {
            let (key, reverse) = seen.key(self.symmetric);
            let arrival = Arrival { seen: &seen, key, reverse, time: packet.time() };
            let Some(place) = self.place(cx, &arrival) else {
                return Fate::Leave(DropReason::TableFull);
            };
            let first_way = self.flows[place].as_ref().is_some_and(|flow| flow.reverse == reverse);
            flow = Some((place, key, u8::from(seen.is_quoted) * 2 + u8::from(!first_way)));
        }
        let waits = (self.fragments && seen.is_fragment) || self.waiting.has(seen.pair());
        match flow {
            _ if waits && self.waiting.len() >= self.fragment_capacity => Fate::Leave(DropReason::QueueFull),
            _ if waits => {
                let known = flow.map(|(_, key, paint)| (key, paint));
                Fate::Wait(seen.pair(), seen.id, seen.is_fragment, known)
            }
            Some((place, _, paint)) => {
                self.second = packet.time().parts().0;
                self.mark(packet, place, paint, seen.flags);
                Fate::Emit
            }
            None => Fate::Leave(DropReason::NoMatch),
        }
    }

    /// Counts a packet of the flow at index `place`, unless it is an ICMP error. Updates the state of the
    /// connection by the TCP flags, and sets the packet's aggregate and paint.
    fn mark(&mut self, packet: &mut Packet, place: usize, paint: u8, flags: Option<u8>) {
        let Some(flow) = self.flows.get_mut(place).and_then(Option::as_mut) else { return };
        flow.last = packet.time();
        if let Some(count) = flow.packets.get_mut(usize::from(paint)) {
            *count += 1;
        }
        if let Some(flags) = flags {
            match flags {
                _ if flags & tcp::flags::RST != 0 => flow.over = OVER,
                _ if flags & tcp::flags::FIN != 0 => flow.over |= 1 << paint,
                _ if flags & tcp::flags::SYN != 0 => flow.over = 0,
                _ => {}
            }
        }
        let annotations = packet.annotations_mut();
        annotations.set_u32(Annotations::AGGREGATE, flow.aggregate);
        annotations.set_u8(Annotations::PAINT, paint);
    }

    /// Emits packets from the front of one queue, up to the first fragment whose time stamp is not before
    /// `second`. Packets whose flow is not known, or has ended, are dropped.
    fn release(&mut self, cx: &mut Cx<'_>, pair: Pair, second: i64) {
        while let Some(Waiting { mut packet, flow, .. }) = self.waiting.pop_due(pair, second) {
            let known =
                flow.and_then(|(key, paint)| Some((self.table.lookup(&key, self.hasher.hash(&key))?, paint)));
            let Some((id, paint)) = known else {
                cx.drop(packet, DropReason::NoMatch);
                continue;
            };
            let flags = Seen::look(&packet, self.icmp).ok().and_then(|seen| seen.flags);
            self.mark(&mut packet, id.index() as usize, paint, flags);
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
    }

    /// Sends on fragments that have waited for FRAGMENT_TIMEOUT. Ends idle flows, if the time for the next
    /// search has come.
    fn reap(&mut self, cx: &mut Cx<'_>) {
        let second = self.second.saturating_sub(self.limits.fragment);
        while let Some(pair) = self.waiting.next_due(second) {
            self.release(cx, pair, second);
            self.waiting.wait_on(pair);
        }
        match self.reap_at {
            Some(at) if self.second < at => return,
            Some(_) => self.reap_at_time(cx, self.second),
            None => {}
        }
        self.reap_at = Some(self.second.saturating_add(self.reap));
    }

    fn reap_at_time(&mut self, cx: &mut Cx<'_>, second: i64) {
        for pair in self.waiting.pairs() {
            self.release(cx, pair, second.saturating_sub(self.limits.fragment));
        }
        for place in 0..self.flows.len() {
            let Some(flow) = &self.flows[place] else { continue };
            let is_old = flow.last.parts().0 < second.saturating_sub(self.timeout(flow));
            if !is_old || self.has_waiting(flow.id) {
                continue;
            }
            if let Some(id) = self.end(place) {
                self.table.remove(id);
            }
        }
    }

    /// True if packets of this flow's protocol between its two hosts wait; the flow must then not end,
    /// because they may belong to it.
    fn has_waiting(&self, id: FlowId) -> bool {
        let Some(key) = self.table.key(id).filter(|_| self.waiting.len() > 0) else { return false };
        let tuple = key.tuple();
        let bits = |address| match address {
            std::net::IpAddr::V4(address) => Ipv4Addr::to_bits(address),
            std::net::IpAddr::V6(_) => 0,
        };
        let (a, b) = (bits(tuple.source()), bits(tuple.destination()));
        self.waiting.has((tuple.protocol(), a.min(b), a.max(b)))
    }
}

/// Writes a flow that has ended to the file TRACEINFO, if there is one.
fn report(info: &mut Option<TraceInfo>, table: &FlowTable<FiveTupleKey>, flow: &Flow) {
    let (Some(info), Some(key)) = (info, table.key(flow.id)) else { return };
    let tuple = key.tuple();
    let from = SocketAddr::new(tuple.source(), tuple.source_port());
    let to = SocketAddr::new(tuple.destination(), tuple.destination_port());
    info.write(&Record {
        aggregate: flow.aggregate,
        ends: if flow.reverse { (to, from) } else { (from, to) },
        begin: flow.first,
        end: flow.last,
        position: flow.position,
        packets: flow.packets,
    });
}

impl Element for AggregateIpFlows {
    fn effects(&self) -> Effects {
        let flags = Field::Bytes { base: Base::Transport, offset: 13, length: 1 };
        let key = vec![
            wire_field::IP_PROTOCOL,
            wire_field::IP_SRC,
            wire_field::IP_DST,
            wire_field::SRC_PORT,
            wire_field::DST_PORT,
        ];
        let mut reads = key.clone();
        let headers = [Base::Network, Base::Transport].map(Field::HeaderOffset);
        reads.extend(headers.into_iter().chain([
            wire_field::IP_FRAGMENT,
            flags,
            Field::TimeStamp,
            Field::Length,
        ]));
        if self.icmp {
            reads.push(Field::Payload);
        }
        let set = IntervalSet::one(1, u32::MAX.into());
        let number = Value::Choose { set, key: key.clone() };
        let lacks_reads = reads.clone();
        let paint = Value::Pure { name: "direction", reads };
        let stamp = Action::Set(Field::TimeStamp, Value::Now);
        let lacks = |reason: DropReason| refused(reason.as_str(), &lacks_reads, reason).with(stamp.clone());
        let to = |output| if self.fragments { Target::Hold(output) } else { Target::Output(output) };
        let cases = vec![
            lacks(DropReason::NoHeader),
            lacks(DropReason::TooShort),
            lacks(DropReason::TableFull),
            lacks(DropReason::QueueFull),
            lacks(DropReason::NoMatch),
            Case::new(Filter::TRUE, to(0))
                .with(Action::Set(AGGREGATE, number))
                .with(Action::Set(PAINT, paint))
                .with(stamp),
        ];
        let state =
            State { table: "flows", key, both_directions: self.symmetric, access: StateAccess::EveryPacket };
        let mut effects = Effects { state: vec![state], ..Effects::cases(cases) }
            .depending_on(Depends::Counter)
            .sharing("numbers");
        if self.fragments {
            effects.hold = Hold::PerFlow;
            effects.order = Order::MayReorder;
            effects.opaque = Some("only fragments, and what follows them, wait");
        }
        effects
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.hasher = cx.key_hasher();
        let path = self.path.as_deref();
        let is_handed_over =
            path.map(|path| ReportFile::is_handed_over(cx, "TRACEINFO", path)).transpose()?;
        match is_handed_over {
            Some(true) => Ok(()),
            Some(false) | None => self.open_file(cx),
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for mut packet in batch.drain() {
            let fate = self.handle(cx, &mut packet);
            match fate {
                Fate::Emit | Fate::Leave(_) => {}
                Fate::Wait(pair, id, is_fragment, flow) => {
                    self.second = packet.time().parts().0;
                    let waiting = Waiting { packet, id, is_fragment, flow };
                    if let Err(packet) = self.waiting.push(pair, waiting) {
                        cx.emit_one(1, packet, DropReason::QueueFull);
                    }
                    self.release(cx, pair, self.second - self.limits.fragment);
                    self.reap(cx);
                    continue;
                }
            }
            self.reap(cx);
            match fate {
                Fate::Leave(reason) => cx.emit_one(1, packet, reason),
                _ => cx.emit_one(0, packet, DropReason::NoOutput),
            }
        }
        cx.recycle(batch);
        self.set_timer(cx);
        None
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        // On a pull path, FRAGMENTS is false, so no packet waits.
        let mut left = cx.batch();
        let mut reasons = [DropReason::NoMatch; BATCH_CAPACITY];
        batch.sift(
            |packet| {
                let fate = self.handle(cx, packet);
                self.reap(cx);
                match fate {
                    Fate::Leave(reason) => Err(reason),
                    _ => Ok(()),
                }
            },
            // The packets in `left` come from one batch, and `left` is a batch itself, so there is room for
            // all.
            |packet, reason| {
                reasons[left.len()] = reason;
                drop(left.push(packet));
            },
        );
        for (packet, reason) in left.drain().zip(reasons) {
            cx.emit_one(1, packet, reason);
        }
        cx.recycle(left);
        self.set_timer(cx);
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.write_out();
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        for packet in self.waiting.drain() {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        // Sort by aggregate in place, because there may be no memory for a second copy.
        let mut left = std::mem::take(&mut self.flows);
        if self.info.is_some() {
            left.sort_unstable_by_key(|flow| flow.as_ref().map(|flow| flow.aggregate));
            left.iter().flatten().for_each(|flow| report(&mut self.info, &self.table, flow));
        }
        self.info.take().map_or(Ok(()), TraceInfo::close)
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let (capacity, table) = (self.table.stats().capacity, FlowTable::new(1).ok()?);
        Some(Box::new(Kept {
            settings: (capacity, self.icmp, self.fragments, self.symmetric, self.path.clone()),
            table: std::mem::replace(&mut self.table, table),
            hasher: std::mem::take(&mut self.hasher),
            flows: std::mem::take(&mut self.flows),
            waiting: std::mem::take(&mut self.waiting),
            info: self.info.take(),
            next: self.next,
            times: (self.second, self.reap_at, self.warned),
        }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let mut kept: Kept = *state.downcast().map_err(|_| "the state of another class")?;
        let capacity = self.table.stats().capacity;
        let settings = (capacity, self.icmp, self.fragments, self.symmetric, self.path.clone());
        // The numbers of new flows differ from all earlier numbers, even if no flow is continued.
        (self.next, (self.second, self.reap_at, self.warned)) = (kept.next, kept.times);
        if kept.settings == settings {
            cx.dispose(std::mem::replace(&mut self.table, kept.table));
            (self.hasher, self.flows) = (kept.hasher, kept.flows);
            (self.waiting, self.info) = (kept.waiting, kept.info);
            self.write_out();
            return Ok(());
        }
        kept.waiting.drain().for_each(|packet| cx.emit_one(1, packet, DropReason::Stop));
        let mut flows: Vec<Flow> = kept.flows.into_iter().flatten().collect();
        flows.sort_unstable_by_key(|flow| flow.aggregate);
        flows.iter().for_each(|flow| report(&mut kept.info, &kept.table, flow));
        let (.., path) = kept.settings;
        if path == self.path {
            self.info = kept.info.take();
            self.write_out();
        }
        let closed = kept.info.map_or(Ok(()), TraceInfo::close);
        // The new TRACEINFO file is opened even if the old file could not be closed without an error.
        let opened = if self.info.is_none() { self.open_file(cx) } else { Ok(()) };
        closed.and(opened)?;
        Err("it tells flows apart in another way now, so all flows have ended".into())
    }
}

const HANDLERS: &[Handler<AggregateIpFlows>] = &[Handler::set("clear", |e, cx, _| {
    e.reap_at_time(cx, i64::MAX);
    Ok(())
})];
