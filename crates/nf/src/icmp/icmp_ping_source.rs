//! # ICMPPingSource
//! Sends ICMP echo requests at intervals, and measures the round-trip times of replies.
//!
//! The first request leaves one interval after the start. Identifications and sequence numbers count up from
//! 1; the time to live is 200. Replies arrive on the input, if there is one; the element drops all packets
//! that arrive there. With an input there are more handlers: `summary`, a text, and `rtt_min`, `rtt_avg` and
//! `rtt_max`, in seconds. With a pull output, a request is made for each packet that is pulled, without
//! intervals.
//!
//! ## Usage
//! `ICMPPingSource(SRC, DST [, KEYWORDS])`
//!
//! ## Arguments
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//! - `INTERVAL`: the time between requests.
//! - `IDENTIFIER`: the identifier of the requests.
//! - `DATA`: the data of the requests.
//! - `LIMIT`: the number of requests; negative for no limit.
//! - `ACTIVE`: if true, requests are sent.
//! - `VERBOSE`: if true and the element has an input, each reply is reported, and a summary at the end.
//! - `STOP`: if true, the driver is stopped one interval after the last request; with a pull output, by the
//!   first pull after the last request.
//!
//! ## Handlers
//! - `active`: true if requests are sent; when true is written and no request is due, a request leaves at
//!   once.
//! - `src`, `dst`: the addresses.
//! - `count`: requests so far.
//! - `limit`: the number of requests.
//! - `interval`: the time between requests.
//! - `reset_counts`: resets the counts of requests and replies.
//!
//! ## Example
//! ```click
//! p :: ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 3, INTERVAL 0.01, STOP true) -> ICMPPingResponder -> p
//! ```
//!
//! ## See also
//! ICMPPingResponder, ICMPPingEncap

use std::any::Any;
use std::net::Ipv4Addr;

use element::args::{Bytes, parse_bool, parse_seconds};
use element::class::ArgInfo;
use element::effects::{Action, Case, DST_IP, Depends, Emit, Field, Filter, HeaderKind, Target, Value};
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};
use wire::icmp::kind;
use wire::{FromBytes, IntoBytes, U16, U32, checksum, icmp, ip_protocol, ipv4};

use crate::editing::{ipv4_with_options, missing, value};
use crate::fixed;

/// The element class `ICMPPingSource`.
pub static CLASS: Class = Class {
    name: "ICMPPingSource",
    aliases: &["ICMPSendPings"],
    ports: "0-1/1",
    processing: "h/a",
    manual: manual!("icmp_ping_source.rs"),
    args: &[
        ArgInfo::required("SRC", "address"),
        ArgInfo::required("DST", "address"),
        ArgInfo::keyword("INTERVAL", "time", "1"),
        ArgInfo::keyword("IDENTIFIER", "0-0xffff", "0"),
        ArgInfo::keyword("DATA", "bytes", ""),
        ArgInfo::keyword("LIMIT", "integer", "-1"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("VERBOSE", "bool", "true"),
        ArgInfo::keyword("STOP", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("echo requests", &["count", "summary", "rtt_min", "rtt_avg", "rtt_max"])],
    samples: &["10.0.0.1, 10.0.0.2, LIMIT 3, INTERVAL 0.001, STOP true, VERBOSE false -> 1/1"],
    build: |args| {
        let (source, destination): (Option<Ipv4Addr>, Option<Ipv4Addr>) = (args.get("SRC"), args.get("DST"));
        let interval = args.value::<Timestamp>("INTERVAL");
        let identifier = args.value::<u16>("IDENTIFIER");
        let Bytes(data) = args.get("DATA").unwrap_or_default();
        let limit = args.value::<i32>("LIMIT");
        let active = args.value::<bool>("ACTIVE");
        let verbose = args.value::<bool>("VERBOSE");
        let stop = args.value::<bool>("STOP");
        let Some(source) = source else { return missing(args, "SRC") };
        let Some(destination) = destination else { return missing(args, "DST") };
        if data.len() > LONGEST {
            args.error(format!("DATA: longer than {LONGEST} bytes"));
        }
        let interval = whole_milliseconds(interval);
        if interval == Timestamp::ZERO {
            args.warn("INTERVAL so small that it is zero");
        }
        if !args.pushes() && interval != Timestamp::from_secs(1) {
            args.warn("element is pull, INTERVAL parameter will be ignored");
        }
        args.finish()?;
        let receiver = (args.inputs() > 0).then(Receiver::new);
        let mut bytes = vec![0; HEADERS];
        bytes.extend_from_slice(&data);
        Ok(Box::new(IcmpPingSource {
            source,
            destination,
            interval,
            identifier,
            bytes,
            limit,
            active,
            verbose,
            stop,
            count: 0,
            waits: false,
            receiver,
        }))
    },
    ..Class::DEFAULT
};

const HEADERS: usize = ipv4::Header::LEN + icmp::Header::LEN;
/// The largest number of bytes of data that fit into an IPv4 packet after both headers.
const LONGEST: usize = u16::MAX as usize - HEADERS;

/// Rounds an interval down to whole milliseconds, and a negative interval up to zero.
fn whole_milliseconds(time: Timestamp) -> Timestamp {
    Timestamp(time.0.max(0) / 1_000_000 * 1_000_000)
}

struct IcmpPingSource {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    interval: Timestamp,
    identifier: u16,
    /// The bytes of each request: the headers, which are overwritten per request, and the data.
    bytes: Vec<u8>,
    limit: i32,
    active: bool,
    verbose: bool,
    stop: bool,
    count: u32,
    /// True if the timer for the next request, or for the stop after the last, is set.
    waits: bool,
    receiver: Option<Receiver>,
}

/// The counts and round-trip times (in microseconds) of replies.
struct Receiver {
    /// At the index of each sequence number, the time at which the last request with this number was sent,
    /// and true if a reply to it has arrived.
    sent: Vec<(Timestamp, bool)>,
    received: u64,
    duplicates: u64,
    least: u64,
    most: u64,
    sum: u64,
    sum_of_squares: u128,
}

impl Receiver {
    fn new() -> Receiver {
        Receiver {
            sent: vec![(Timestamp::ZERO, false); 1 << 16],
            received: 0,
            duplicates: 0,
            least: 0,
            most: 0,
            sum: 0,
            sum_of_squares: 0,
        }
    }

    /// Counts a reply that arrived at `time`, as a duplicate if it is not the first. Returns its round-trip
    /// time in microseconds, 0 if the packet has no time stamp. Returns `None`, and counts nothing, if no
    /// request had this sequence number.
    fn note(&mut self, sequence: u16, time: Timestamp) -> Option<u64> {
        let (sent, answered) = &mut self.sent[usize::from(sequence)];
        if !sent.is_set() {
            return None;
        }
        self.duplicates += u64::from(std::mem::replace(answered, true));
        let mut took = 0;
        if time.is_set() {
            took = ((time - *sent).0.max(0) / 1_000) as u64;
            let first = self.received == 0;
            self.least = if first { took } else { self.least.min(took) };
            self.most = self.most.max(took);
            self.sum += took;
            self.sum_of_squares += u128::from(took) * u128::from(took);
        }
        self.received += 1;
        Some(took)
    }

    fn average(&self) -> u64 {
        self.sum / self.received.max(1)
    }

    fn summary(&self, count: u32) -> String {
        let mut text = format!("{count} packets transmitted, {} received", self.received - self.duplicates);
        if self.duplicates > 0 {
            text += &format!(", +{} duplicates", self.duplicates);
        }
        if count > 0 {
            let answered = i64::try_from(self.received - self.duplicates).unwrap_or(i64::MAX);
            let lost = (i64::from(count) - answered).max(0);
            text += &format!(", {}% packet loss\n", lost * 100 / i64::from(count));
        }
        if self.received > 0 {
            let average = self.average();
            let square = self.sum_of_squares / u128::from(self.received);
            let deviation = square.saturating_sub(u128::from(average) * u128::from(average)).isqrt() as u64;
            let [least, average, most, deviation] =
                [self.least, average, self.most, deviation].map(milliseconds);
            text += &format!("rtt min/avg/max/mdev = {least}/{average}/{most}/{deviation}\n");
        }
        text
    }
}

/// Formats a time in microseconds as a number of milliseconds.
fn milliseconds(time: u64) -> String {
    format!("{}.{:03}", time / 1_000, time % 1_000)
}

/// Formats a time in microseconds as a number of seconds, or of microseconds if it is less than 1 ms, with
/// the unit.
fn seconds(time: u64) -> String {
    match time {
        1..1_000 => format!("{time}us"),
        _ => format!("{}s", fixed::quotient(time, 1_000_000)),
    }
}

impl IcmpPingSource {
    /// Returns the text that `text` makes from the counts and round-trip times of the replies; an empty text
    /// if the element has no input for replies.
    fn of_replies(&self, text: impl FnOnce(&Receiver) -> String) -> String {
        self.receiver.as_ref().map(text).unwrap_or_default()
    }

    fn may_send(&self) -> bool {
        self.active && (self.limit < 0 || i64::from(self.count) < i64::from(self.limit))
    }

    /// Makes and counts the next request, and records its time if the element has an input for replies.
    /// Returns `None` if there is no memory for the packet.
    fn request(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let id = (self.count % 0xffff) as u16 + 1;
        let total = self.bytes.len() as u16;
        let ip = ipv4::Header {
            version_ihl: 0x45,
            tos: 0,
            total_length: U16::new(total),
            id: U16::new(id),
            fragment: U16::new(0),
            ttl: 200,
            protocol: ip_protocol::ICMP,
            checksum: U16::new(0),
            source: U32::new(self.source.to_bits()),
            destination: U32::new(self.destination.to_bits()),
        };
        let icmp = icmp::Header {
            kind: kind::ECHO,
            code: 0,
            checksum: U16::new(0),
            // Click writes the identifier in host byte order, which is little-endian on nearly all
            // machines.
            identifier: U16::from_bytes(self.identifier.to_le_bytes()),
            sequence: U16::new(id),
        };
        let (header, message) = self.bytes.split_at_mut(ipv4::Header::LEN);
        header.copy_from_slice(ip.as_bytes());
        message[..icmp::Header::LEN].copy_from_slice(icmp.as_bytes());
        checksum::fill_ipv4(header).ok()?;
        checksum::fill_icmp(message).ok()?;
        let now = cx.now();
        let mut packet = cx.packet(&self.bytes)?;
        packet.set_headers(0, ipv4::Header::LEN);
        packet.set_destination(self.destination.octets());
        packet.set_time(now);
        if let Some(receiver) = &mut self.receiver {
            receiver.sent[usize::from(id)] = (now, false);
        }
        self.count = self.count.wrapping_add(1);
        Some(packet)
    }

    /// Sets the timer so that the next request is sent after `time`. Does nothing if the timer is already
    /// set, or if the output is pull, because requests are then made without intervals.
    fn wait(&mut self, cx: &mut Cx<'_>, time: Timestamp) {
        if !self.waits && cx.graph().output_is_push(0) {
            self.waits = true;
            let now = cx.now();
            cx.set_timer(0, now + time);
        }
    }

    /// Counts a packet on the input if it is the reply to a request of this element, and reports it if
    /// VERBOSE is set.
    fn receive(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        let Some((ip, _)) = ipv4_with_options(packet) else { return };
        let Some(Ok((icmp, _))) = packet.header(Base::Transport).map(icmp::Header::ref_from_prefix) else {
            return;
        };
        let expected = icmp.kind == kind::ECHO_REPLY
            && ip.protocol == ip_protocol::ICMP
            && icmp.identifier.to_bytes() == self.identifier.to_le_bytes();
        if !expected {
            return;
        }
        let sequence = icmp.sequence.get();
        let Some(took) = self.receiver.as_mut().and_then(|r| r.note(sequence, packet.time())) else { return };
        if self.verbose {
            let length = i64::from(ip.total_length.get()) - ip.header_len() as i64 - icmp::Header::LEN as i64;
            let (from, ttl, took) = (ip.source_addr(), ip.ttl, milliseconds(took));
            cx.note(format_args!("{length} bytes from {from}: icmp_seq={sequence} ttl={ttl} time={took} ms"));
        }
    }
}

impl Element for IcmpPingSource {
    fn effects(&self) -> Effects {
        // No packet passes from the input to the output, so this case never applies. It declares to
        // analyses that the packets that the element makes have a destination annotation.
        let address = Value::Pure { name: "destination of echo requests", reads: Vec::new() };
        let made = Case::new(Filter::FALSE, Target::Output(0)).with(Action::Set(DST_IP, address));
        let answered = Case::new(Filter::TRUE, Target::Drop(DropReason::Answered));
        let mut effects = Effects::cases(vec![made, answered]);
        effects.emits = vec![Emit {
            name: "ICMP echo request",
            input: None,
            reads: Vec::new(),
            output: Some(0),
            starts: Some(HeaderKind::Ipv4),
            when: Filter::TRUE,
        }];
        effects
            .observing(&[Field::Payload, Field::TimeStamp])
            .depending_on(Depends::Time)
            .depending_on(Depends::Counter)
            .depending_on(Depends::Handler)
            .sharing("echo requests")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.may_send() {
            self.wait(cx, self.interval);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.waits = false;
        if self.may_send() {
            if let Some(packet) = self.request(cx) {
                cx.emit_one(0, packet, DropReason::NoOutput);
            }
            if self.may_send() || self.stop {
                self.wait(cx, self.interval);
            }
        } else if self.stop && self.active {
            cx.stop();
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        for packet in batch.iter() {
            self.receive(cx, packet);
        }
        cx.drop_all(batch, DropReason::Answered);
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let mut batch = cx.batch();
        while batch.len() < max && !batch.is_full() && self.may_send() {
            let Some(packet) = self.request(cx) else { break };
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        // With STOP, the driver stops at the first pull that gets no packet because the limit has been
        // reached.
        if max > 0 && batch.is_empty() && self.active && !self.may_send() && std::mem::take(&mut self.stop) {
            cx.stop();
        }
        batch
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(receiver) = self.receiver.as_ref().filter(|_| self.verbose) {
            let declaration = cx.declaration();
            for line in receiver.summary(self.count).lines() {
                cx.messages().message(format_args!("{declaration}: {line}\n"));
            }
        }
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.count, self.receiver.take())))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let receiver: Option<Receiver>;
        (self.count, receiver) = *state.downcast().map_err(|_| "the state of another class")?;
        self.receiver = self.receiver.take().map(|new| receiver.unwrap_or(new));
        Ok(())
    }
}

const HANDLERS: &[Handler<IcmpPingSource>] = &[
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, text| {
            e.active = parse_bool(text).ok_or("type mismatch")?;
            if e.active {
                e.wait(cx, Timestamp::ZERO);
            } else {
                e.waits = false;
                cx.clear_timer(0);
            }
            Ok(())
        },
    ),
    Handler::data(
        "src",
        |e| e.source.to_string(),
        |e, cx, text| {
            e.source = value(cx, text, "syntax error")?;
            Ok(())
        },
    ),
    Handler::data(
        "dst",
        |e| e.destination.to_string(),
        |e, cx, text| {
            e.destination = value(cx, text, "syntax error")?;
            Ok(())
        },
    ),
    Handler::count("count", |e| e.count.into()),
    Handler::set("limit", |e, cx, text| {
        e.limit = value(cx, text, "'limit' should be integer")?;
        if e.may_send() {
            e.wait(cx, e.interval);
        }
        Ok(())
    }),
    Handler::set("interval", |e, _, text| {
        let time = parse_seconds(text).ok_or("'interval' should be an interval")?;
        e.interval = whole_milliseconds(time);
        Ok(())
    }),
    Handler::set("reset_counts", |e, cx, _| {
        e.count = 0;
        e.receiver = e.receiver.take().map(|_| Receiver::new());
        if e.may_send() {
            e.wait(cx, e.interval);
        }
        Ok(())
    }),
    about_replies("summary", |e| e.of_replies(|receiver| receiver.summary(e.count))),
    about_replies("rtt_min", |e| e.of_replies(|receiver| seconds(receiver.least))),
    about_replies("rtt_avg", |e| e.of_replies(|receiver| seconds(receiver.average()))),
    about_replies("rtt_max", |e| e.of_replies(|receiver| seconds(receiver.most))),
];

/// Describes a read handler about replies, which exists if the element has an input for them.
const fn about_replies(name: &'static str, get: fn(&IcmpPingSource) -> String) -> Handler<IcmpPingSource> {
    Handler::<IcmpPingSource>::get(name, get).only_if(|e| e.receiver.is_some())
}
