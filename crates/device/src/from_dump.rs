//! # FromDump
//! Reads packets from a capture.
//!
//! The formats are pcap (micro- and nanoseconds, either byte order) and pcapng, also compressed with gzip or
//! zstd. The file is read while the run goes on, so that it can have any size. Each packet gets the time
//! stamp of its record. The MAC header annotation points to the packet's start (or the network header
//! annotation, if packets start with IP). The extra length annotation is the number of bytes that were on the
//! wire but are not in the capture. A fault in the file ends the capture with a message, after the packets
//! before the fault have been emitted. Zeros after compressed data, as tapes and disks leave them, are
//! ignored; other bytes there are ignored with a warning.
//!
//! With a push output, the element emits at most BURST packets per turn. Under the trace clock, the packets
//! of a turn all have the same time stamp, and time advances with them. The output can also be a pull output.
//!
//! A reload continues at the same packet if FILENAME, FILEPOS, SAMPLE and the arguments about START and END
//! stay the same. Otherwise the file is read from its start.
//!
//! ## Usage
//! `FromDump(FILENAME [, TIMING, KEYWORDS])`
//!
//! ## Arguments
//! - `FILENAME`: the capture; `-` for standard input.
//! - `TIMING`: true to send packets at the pace of their time stamps.
//! - `ACCELERATION`: with TIMING, the speed in percent: with 200, the time between packets is half of that of
//!   their time stamps.
//! - `TIMING_FNT`: the same as ACCELERATION, in quotes. FastClick's expressions of the time (`x`) are not
//!   supported.
//! - `STOP`: true to stop the driver at the end.
//! - `ACTIVE`: true to read.
//! - `SAMPLE`: the probability with which each packet is read rather than skipped.
//! - `FORCE_IP`: true to emit IP packets only, with network and transport header annotations and, for IPv4,
//!   the destination annotation set; other packets go to output 1 or are dropped.
//! - `START`, `END`: skip packets before START, stop at packets at or after END.
//! - `START_AFTER`, `END_AFTER`: like `START` and `END`, relative to the first packet.
//! - `INTERVAL`: the length of time to read, from START, START_AFTER or the first packet on.
//! - `END_CALL`: the write handler to call at the end.
//! - `BURST`: the largest number of packets per turn.
//! - `FILEPOS`: the position in the file from which packets are read, in bytes; packets before it are passed
//!   over. 0 for the first packet. Positions in compressed files are those in the uncompressed data.
//! - `FORCE_LEN`: the length of all packets in bytes, from 60 to 9000; of packets without a link header, 14
//!   bytes less. 0 for the length on the wire, for captures that have only the first bytes of packets. -1
//!   for the bytes in the capture. Packets become longer by zeros, or are cut. With a length from 60
//!   to 9000, the total length and the checksum of IPv4 headers are adapted.
//! - `MMAP`, `PRELOAD`: accepted for the sake of Click and FastClick, without effect.
//!
//! ## Handlers
//! - `count`: packets sent.
//! - `active`: true if it reads.
//! - `stop`: stops reading, and the driver.
//! - `encap`: the encapsulation of packets.
//! - `filename`: the file.
//! - `filesize`: the file's length in bytes, or `-`.
//! - `filepos`: the position in the file, in bytes. Writing a position continues with the first packet at or
//!   after it, also after the end of the file; `active` has to be set again if the element has become
//!   inactive. Writing takes as long as reading up to the position. With TIMING, write `reset_timing`, too.
//! - `packet_filepos`: the position at which the last packet that was emitted begins. Elements downstream
//!   that read it for each packet, as AggregateIPFlows does for TRACEINFO, need `BURST 1`.
//! - `sampling_prob`: the value of SAMPLE.
//! - `extend_interval`: moves the end by a time, and continues to read.
//! - `reset_counts`: sets the count to zero.
//! - `reset_timing`: restarts TIMING with the next packet.
//!
//! ## Example
//! ```click
//! FromDump(capture.pcap, STOP true) -> Counter -> Discard
//! ```
//!
//! ## See also
//! ToDump, ReplayUnqueue

use std::any::Any;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use capture::Reader;
use element::args::{Raw, parse_bool, parse_real, parse_seconds};
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Action, Case, EXTRA_LENGTH, Filter, Target, Value};
use element::{
    Base, Batch, Call, Class, Cx, DropReason, Effects, Element, Handler, Packet, Severity, Signal, StatePart,
    Timestamp, manual,
};
use packet::{Annotations, BATCH_CAPACITY, MAX_PACKET};
use wire::checksum::Delta;
use wire::layers::Network;
use wire::{FromBytes, Layers, LinkType, ethernet, ipv4};

use crate::force_ip::{mark_ip, marking_ip};
use crate::handover::is_handed_over;
use crate::pace::{Pace, begin};
use crate::{encapsulation, probability};

/// The element class FromDump.
pub static CLASS: Class = Class {
    name: "FromDump",
    ports: "0/1-2",
    processing: "a/ah",
    manual: manual!("from_dump.rs"),
    args: &[
        ArgInfo::required("FILENAME", "file"),
        ArgInfo::positional("TIMING", "bool", "false"),
        ArgInfo::keyword("ACCELERATION", "unsigned", "100"),
        ArgInfo::keyword("TIMING_FNT", "number", ""),
        ArgInfo::keyword("STOP", "bool", "false"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("SAMPLE", "probability", "1"),
        ArgInfo::keyword("FORCE_IP", "bool", "false"),
        ArgInfo::keyword("START", "time", ""),
        ArgInfo::keyword("START_AFTER", "seconds", ""),
        ArgInfo::keyword("END", "time", ""),
        ArgInfo::keyword("END_AFTER", "seconds", ""),
        ArgInfo::keyword("INTERVAL", "seconds", ""),
        ArgInfo::keyword("END_CALL", "HANDLER [VALUE]", ""),
        ArgInfo::keyword("BURST", "unsigned", "").computed("the burst of the run"),
        ArgInfo::keyword("FILEPOS", "offset", "0"),
        ArgInfo::keyword("MMAP", "bool", "true"),
        ArgInfo::keyword("PRELOAD", "int", "0"),
        ArgInfo::keyword("FORCE_LEN", "int", "-1"),
    ],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, follows_captures: true, task: Task::WherePushing, ..Notes::NONE },
    state: &[StatePart::kept("position", &["count", "active", "filepos", "packet_filepos"])],
    samples: &[
        "$CAPTURE",
        "$CAPTURE, true, ACCELERATION 1000, TIMING_FNT \"5000\"",
        "$CAPTURE, FORCE_IP true, STOP true -> 0/2",
        "$CAPTURE, SAMPLE 0.5",
        "$CAPTURE, FORCE_LEN 0",
        "$CAPTURE, FORCE_LEN 200",
    ],
    build: |args| {
        let filename: String = args.required("FILENAME");
        let given = |args: &mut element::Args<'_>, name| args.get::<Timestamp>(name);
        let (start, start_after) = (given(args, "START"), given(args, "START_AFTER"));
        let ends = [given(args, "END"), given(args, "END_AFTER"), given(args, "INTERVAL")];
        if start.is_some() && start_after.is_some() {
            args.error("START and START_AFTER are mutually exclusive");
        }
        if ends.iter().flatten().count() > 1 {
            args.error("END, END_AFTER, and INTERVAL are mutually exclusive");
        }
        let stop = args.value::<bool>("STOP");
        let end_call = args.get::<Raw>("END_CALL").map(|Raw(text)| text);
        if stop && end_call.is_some() {
            args.error("END_CALL and STOP are mutually exclusive");
        }
        let mut percent = args.value::<u32>("ACCELERATION");
        if let Some(text) = args.get::<String>("TIMING_FNT").filter(|text| !text.is_empty()) {
            match parse_real(&text).filter(|percent| (0.0..=f64::from(u32::MAX)).contains(percent)) {
                Some(number) => percent = number as u32,
                None => args.error("TIMING_FNT: only a number of percent is supported; give ACCELERATION"),
            }
        }
        let sample = probability(args);
        let length = match args.value::<i64>("FORCE_LEN") {
            -1 => Length::Captured,
            0 => Length::OnWire,
            length if LENGTHS.contains(&length) => Length::Fixed(length as usize),
            _ => {
                args.error("FORCE_LEN requires a valid frame size: 60 to 9000 bytes, 0 or -1");
                Length::Captured
            }
        };
        let from_dump = FromDump {
            filename,
            pace: Pace::new(args.value("TIMING")).accelerated(percent),
            stop,
            active: args.value("ACTIVE"),
            sample,
            force_ip: args.value("FORCE_IP"),
            length,
            window: Window { start, start_after, ends, fixed: None },
            end_text: end_call,
            end_call: None,
            begin: args.value::<i64>("FILEPOS").max(0) as u64,
            burst: args.get::<usize>("BURST").map(|n| n.clamp(1, BATCH_CAPACITY)),
            reader: None,
            link: LinkType::Ethernet,
            next: None,
            next_position: 0,
            last_position: 0,
            waiting: false,
            ended: false,
            fault: None,
            drained: false,
            skipped: false,
            warned: false,
            count: 0,
        };
        args.value::<i64>("PRELOAD");
        args.value::<bool>("MMAP");
        args.finish()?;
        Ok(Box::new(from_dump))
    },
    ..Class::DEFAULT
};

/// The lengths in bytes that FORCE_LEN may give to packets, as in FastClick.
const LENGTHS: RangeInclusive<i64> = 60..=9000;

/// The length that packets get (FORCE_LEN).
#[derive(Clone, Copy)]
enum Length {
    /// The number of bytes in the capture.
    Captured,
    /// The number of bytes on the wire.
    OnWire,
    /// This number of bytes, with the link header; of packets without one, the length of an Ethernet header
    /// less.
    Fixed(usize),
}

impl Length {
    /// Gives a packet, which had `on_wire` bytes on the wire, its length. Returns the packet; `None`, with
    /// the packet freed, if there is no room for a longer one.
    fn apply(self, cx: &mut Cx<'_>, link: LinkType, on_wire: usize, mut packet: Packet) -> Option<Packet> {
        static ZEROS: [u8; 4096] = [0; 4096];
        let start = if link == LinkType::RawIp { 0 } else { ethernet::Header::LEN };
        let wanted = match self {
            Length::Captured => return Some(packet),
            Length::OnWire => on_wire.min(MAX_PACKET),
            Length::Fixed(length) => length - ethernet::Header::LEN + start,
        };
        packet.truncate(wanted);
        while packet.len() < wanted {
            let more = (wanted - packet.len()).min(ZEROS.len());
            packet = cx.append(packet, &ZEROS[..more])?;
        }
        let layers = Layers::locate(packet.data(), link);
        if let (Length::Fixed(_), Some(l3), Network::Ipv4) = (self, layers.l3, layers.network) {
            let total = wanted.saturating_sub(l3).min(u16::MAX.into()) as u16;
            if let Ok((header, _)) = ipv4::Header::mut_from_prefix(packet.data_mut().get_mut(l3..)?) {
                let before = header.total_length.get();
                header.checksum.set(Delta::u16(before, total).apply(header.checksum.get()));
                header.total_length.set(total);
            }
        }
        Some(packet)
    }
}

/// The largest number of successive records that are skipped before the turn ends. Without the limit, a long
/// gap before START would delay other elements.
const MOST_SKIPPED: usize = 1024;

struct FromDump {
    filename: String,
    pace: Pace,
    stop: bool,
    active: bool,
    sample: f64,
    force_ip: bool,
    length: Length,
    window: Window,
    end_text: Option<String>,
    end_call: Option<Arc<Call>>,
    /// The position from which packets are read (FILEPOS).
    begin: u64,
    burst: Option<usize>,
    reader: Option<Reader>,
    link: LinkType,
    /// The next packet of the capture: it has been read, and has not been emitted.
    next: Option<Packet>,
    /// The positions in the file at which the packet in `next` and the packet that was emitted last begin.
    next_position: u64,
    last_position: u64,
    /// True while a timer is set for the time at which the next packet is due.
    waiting: bool,
    /// True if the end of the file or of the time window (END, END_AFTER, INTERVAL) has been reached and has
    /// been acted on (STOP, END_CALL).
    ended: bool,
    fault: Option<String>,
    /// True if the element was active until it was drained. The element that replaces it stays active.
    drained: bool,
    /// True if `MOST_SKIPPED` records were skipped in this turn, so that the turn did work even if it emitted
    /// no packet.
    skipped: bool,
    /// True if the user has been warned that the packet pool is full, so that the warning is not repeated.
    warned: bool,
    count: u64,
}

/// FILENAME, START and START_AFTER, the ends of the time window (END, END_AFTER and INTERVAL), SAMPLE, and
/// FILEPOS.
type Settings = (String, [Option<Timestamp>; 2], [Option<Timestamp>; 3], f64, u64);

/// The state that an element passes to the element that replaces it: the position in the capture, and the
/// settings that must be the same.
struct Position {
    settings: Settings,
    reader: Option<Reader>,
    link: LinkType,
    next: Option<Packet>,
    window: Option<(Timestamp, Option<Timestamp>)>,
    pace: Pace,
    /// `next_position` and `last_position`.
    positions: (u64, u64),
    state: (bool, bool, u64),
    fault: Option<String>,
}

/// The time window in which packets of the capture are emitted (START, END and related arguments).
struct Window {
    start: Option<Timestamp>,
    start_after: Option<Timestamp>,
    /// The values of END, END_AFTER and INTERVAL; the first that is given determines the end.
    ends: [Option<Timestamp>; 3],
    /// The first time of the time window, and the first time after it (`None` for no end). Both are known
    /// once the first record has been read.
    fixed: Option<(Timestamp, Option<Timestamp>)>,
}

impl Window {
    fn has_end(&self) -> bool {
        self.ends.iter().any(Option::is_some)
    }

    /// True if a time is at or after the end of the window.
    fn is_over(&self, time: Timestamp) -> bool {
        self.fixed.and_then(|(_, to)| to).is_some_and(|to| time >= to)
    }

    fn bounds(&mut self, first: Timestamp) -> (Timestamp, Option<Timestamp>) {
        *self.fixed.get_or_insert_with(|| {
            let start = self.start.or(self.start_after.map(|after| first + after));
            let from = start.unwrap_or(Timestamp(i64::MIN));
            let [end, after, interval] = self.ends;
            let interval = interval.map(|interval| start.unwrap_or(first) + interval);
            (from, end.or(after.map(|after| first + after)).or(interval))
        })
    }
}

/// The result of reading the next packet into `next`.
enum Ahead {
    Ready,
    /// There is no packet yet, because `MOST_SKIPPED` records have been skipped. Another turn continues.
    Skipped,
    /// There is no packet yet, because the packet pool is full.
    NoRoom,
    End,
}

impl FromDump {
    /// Returns the settings that two elements must have in common if one of them continues at the position of
    /// the other one.
    fn settings(&self) -> Settings {
        let Window { start, start_after, ends, .. } = self.window;
        (self.filename.clone(), [start, start_after], ends, self.sample, self.begin)
    }

    fn open(&mut self) -> Result<(), String> {
        let reader = match self.filename.as_str() {
            "-" => Reader::from_read(io::stdin(), "<stdin>"),
            path => Reader::open(path),
        };
        let mut reader = reader.map_err(|error| error.to_string())?;
        if self.begin > 0 {
            reader.skip_to(self.begin).map_err(|error| error.to_string())?;
        }
        self.link = reader.link();
        if self.force_ip && !self.link.is_known() && !reader.is_pcapng() {
            return Err(format!("unknown {}; can't force IP packets", self.link));
        }
        self.reader = Some(reader);
        Ok(())
    }

    /// Continues at a position of the file.
    ///
    /// # Errors
    /// If the file cannot be read again, or not up to the position.
    fn seek(&mut self, position: u64) -> Result<(), String> {
        match &mut self.reader {
            Some(reader) if reader.position() <= position && !self.ended => {
                reader.skip_to(position).map_err(|error| error.to_string())?;
            }
            _ if self.filename == "-" => return Err("standard input cannot be read again".into()),
            _ => {
                let begin = std::mem::replace(&mut self.begin, position);
                let opened = self.open();
                self.begin = begin;
                opened?;
            }
        }
        self.ended = false;
        Ok(())
    }

    /// Reads records until `next` holds a packet of the time window, at most `MOST_SKIPPED`; none if `next`
    /// holds a packet already. Returns `End` at the end of the file or window, or at a fault in the file,
    /// which is reported. At the end of the window, `next` may hold the first packet after it (END_CALL).
    fn read_ahead(&mut self, cx: &mut Cx<'_>) -> Ahead {
        if let Some(packet) = &self.next {
            return if self.window.is_over(packet.time()) { Ahead::End } else { Ahead::Ready };
        }
        let Some(reader) = &mut self.reader else { return Ahead::End };
        for _ in 0..MOST_SKIPPED {
            if !cx.has_room() {
                if !std::mem::replace(&mut self.warned, true) {
                    cx.warn(format_args!("packet memory is full, waiting; --memory gives more"));
                }
                return Ahead::NoRoom;
            }
            let record = match reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => return Ahead::End,
                Err(error) => {
                    cx.messages().remark(Severity::Error, format_args!("{error}"));
                    self.fault =
                        Some(format!("{}: only the packets before the fault were read", self.filename));
                    return Ahead::End;
                }
            };
            let time = Timestamp(record.time);
            let (from, to) = self.window.bounds(time);
            let over = to.is_some_and(|to| time >= to);
            // The handler that END_CALL calls may move the end of the time window, so that the first packet
            // after the window is still needed.
            if over && self.end_call.is_none() {
                return Ahead::End;
            }
            if time < from || (self.sample < 1.0 && !cx.random().chance(self.sample)) {
                continue;
            }
            let position = record.position;
            let (link, on_wire) = (record.link, record.wire_len);
            let Some(packet) = cx.packet(record.data) else { continue };
            let Some(mut packet) = self.length.apply(cx, link, on_wire as usize, packet) else { continue };
            let missing = on_wire.saturating_sub(packet.len() as u32);
            packet.set_time(time);
            packet.set_link(link.number());
            let base = if link == LinkType::RawIp { Base::Network } else { Base::Mac };
            packet.set_offset(base, Some(0));
            if missing > 0 {
                packet.annotations_mut().set_u32(Annotations::EXTRA_LENGTH, missing);
            }
            (self.next, self.next_position) = (Some(packet), position);
            return if over { Ahead::End } else { Ahead::Ready };
        }
        Ahead::Skipped
    }

    /// True if there is a next packet and it is due. If it is not due yet, sets a timer for the time when it
    /// will be.
    fn is_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(packet) = &self.next else { return false };
        let due = self.pace.is_due(cx, packet.time());
        self.waiting |= !due;
        due
    }

    /// Acts on the end of the file or of the time window, once: reports a warning about the file, stops the
    /// driver (STOP), or calls END_CALL.
    fn end(&mut self, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        cx.set_signal(Signal::Packets, false);
        if let Some(warning) = self.reader.as_ref().and_then(Reader::warning) {
            cx.messages().remark(Severity::Warning, format_args!("{warning}"));
        }
        // The element becomes inactive with STOP, and also without END_CALL if its window has an end.
        self.active &= !self.stop && (self.end_call.is_some() || !self.window.has_end());
        if self.stop {
            cx.stop();
        } else if let Some(call) = &self.end_call {
            cx.handlers().call_later(call);
        }
    }

    /// Takes packets that are due, at most `most`. Under the trace clock, all of them have the same time
    /// stamp. The second value is true if the element should be called again without waiting for a timer.
    fn take(&mut self, cx: &mut Cx<'_>, most: usize) -> (Batch, bool) {
        let mut batch = cx.batch();
        let mut time = None;
        while batch.len() < most && self.active {
            match self.read_ahead(cx) {
                Ahead::Ready => {}
                Ahead::Skipped => {
                    self.skipped = true;
                    return (batch, true);
                }
                Ahead::NoRoom => return (batch, true),
                Ahead::End => {
                    // If there are packets, they are emitted first, and the end of the capture is acted on in
                    // the next turn.
                    if batch.is_empty() {
                        self.end(cx);
                    }
                    return (batch, !self.ended);
                }
            }
            if !self.is_due(cx) {
                return (batch, false);
            }
            let Some(packet) = self.next.take() else { break };
            if cx.follows_captures() && time.is_some_and(|time| time != packet.time()) {
                self.next = Some(packet);
                break;
            }
            time = Some(packet.time());
            self.last_position = self.next_position;
            let Some(packet) = self.prepare(cx, packet) else { continue };
            if let Err(packet) = batch.push(packet) {
                self.next = Some(packet);
                break;
            }
            self.count += 1;
        }
        (batch, true)
    }

    /// With FORCE_IP, sets the header annotations of an IP packet. A packet that is not IP is emitted at
    /// output 1 or dropped, and `None` is returned.
    fn prepare(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        if !self.force_ip {
            return Some(packet);
        }
        if !mark_ip(&mut packet) {
            cx.emit_one(1, packet, DropReason::BadIpHeader);
            return None;
        }
        Some(packet)
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if !self.active || self.ended {
            return;
        }
        begin(cx);
    }
}

impl Element for FromDump {
    fn effects(&self) -> Effects {
        // The case matches no input packet, because the packets are new. It tells other elements which fields
        // of the new packets are set.
        let pure = |name| Value::Pure { name, reads: Vec::new() };
        let mut case = Case::new(Filter::FALSE, Target::Output(0))
            .with(Action::Set(EXTRA_LENGTH, pure("length on the wire")));
        if self.force_ip {
            case = marking_ip(case);
        }
        let calls = self.end_text.is_some();
        Effects { cases: vec![case], calls, ..Effects::source("captured packet") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !is_handed_over(cx, &self.filename) {
            self.open()?;
        }
        if let Some(text) = &self.end_text {
            let own = |name: &str| CLASS.each_handler().any(|h| h.name == name).then_some(cx.id());
            self.end_call = Some(Arc::new(Call::parse(text, cx, own)?));
        }
        if cx.follows_captures() && self.active {
            // The trace clock starts with the first packet, so the first packet is read now.
            let _ = self.read_ahead(cx);
        }
        self.start(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let most = self.burst.unwrap_or(cx.burst());
        let (batch, more) = self.take(cx, most);
        let worked = !batch.is_empty() || std::mem::take(&mut self.skipped);
        cx.emit(0, batch);
        if self.active && !self.ended && (more || cx.follows_captures()) {
            cx.schedule();
        }
        if cx.follows_captures() {
            // Under the trace clock, the time stamp of the next packet is the time of this element's next
            // turn, so the packet is read now. If the end of the capture was reached, the next turn acts on
            // it.
            let _ = self.read_ahead(cx);
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.waiting = false;
        self.start(cx);
    }

    fn next_time(&self) -> Option<Timestamp> {
        let time = self.next.as_ref().map(Packet::time);
        // If no packet has been read ahead, the element has work at once: to read a packet or to act on the
        // end of the capture. The earliest possible time stands for "at once".
        (self.active && !self.ended && self.reader.is_some()).then(|| time.unwrap_or(Timestamp(i64::MIN)))
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        if self.ended || !self.active {
            cx.set_signal(Signal::Packets, false);
            return cx.batch();
        }
        let (batch, _) = self.take(cx, max);
        if self.waiting && !cx.follows_captures() {
            cx.set_signal(Signal::Packets, false);
        }
        batch
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.drained |= self.active;
        self.active = false;
        if let Some(packet) = self.next.take() {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.reader = None;
        self.fault.take().map_or(Ok(()), Err)
    }

    fn held(&self) -> usize {
        usize::from(self.next.is_some())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let pace = self.pace;
        Some(Box::new(Position {
            settings: self.settings(),
            reader: self.reader.take(),
            link: self.link,
            next: self.next.take(),
            window: self.window.fixed,
            pace,
            positions: (self.next_position, self.last_position),
            state: (self.active || self.drained, self.ended, self.count),
            fault: self.fault.take(),
        }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let old: Position = *state.downcast().map_err(|_| "the state of another class")?;
        if old.settings != self.settings() {
            old.next.into_iter().for_each(|packet| cx.drop(packet, DropReason::Stop));
            if self.reader.is_none() {
                self.open()?;
            }
            return old.fault.map_or(Ok(()), Err);
        }
        if let Some(packet) = std::mem::replace(&mut self.next, old.next) {
            cx.drop(packet, DropReason::Stop);
        }
        (self.reader, self.link, self.window.fixed) = (old.reader, old.link, old.window);
        (self.active, self.ended, self.count) = old.state;
        (self.next_position, self.last_position) = old.positions;
        (self.pace, self.fault) = (self.pace.go_on(old.pace), old.fault);
        Ok(())
    }
}

const HANDLERS: &[Handler<FromDump>] = &[
    Handler::count("count", |e| e.count),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("type mismatch")?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::set("stop", |e, cx, _| {
        e.active = false;
        cx.stop();
        Ok(())
    }),
    Handler::get("encap", |e| encapsulation::name(e.link)),
    Handler::get("filename", |e| if e.filename == "-" { "<stdin>".into() } else { e.filename.clone() }),
    Handler::get("filesize", |e| {
        std::fs::metadata(&e.filename).map_or("-".into(), |metadata| metadata.len().to_string())
    }),
    Handler::data(
        "filepos",
        |e| match &e.reader {
            // A packet that was read ahead is still to come.
            Some(_) if e.next.is_some() => e.next_position.to_string(),
            reader => reader.as_ref().map_or(e.begin, Reader::position).to_string(),
        },
        |e, cx, value| {
            let position = value.trim().parse().map_err(|_| "argument must be file position")?;
            e.seek(position)?;
            if let Some(packet) = e.next.take() {
                cx.drop(packet, DropReason::Stop);
            }
            e.start(cx);
            Ok(())
        },
    ),
    Handler::get("packet_filepos", |e| e.last_position.to_string()),
    Handler::get("sampling_prob", |e| e.sample.clamp(0.0, 1.0).to_string()),
    Handler::set("extend_interval", |e, cx, value| {
        let by = parse_seconds(value).ok_or("'extend_interval' takes a time interval")?;
        if let Some((_, Some(to))) = &mut e.window.fixed {
            *to = *to + by;
        }
        (e.active, e.ended) = (true, false);
        e.start(cx);
        Ok(())
    }),
    Handler::act("reset_counts", |e| e.count = 0),
    Handler::act("reset_timing", |e| e.pace.restart()),
];
