//! # FromIPSummaryDump
//! Makes packets from the lines of an IP summary dump, as ToIPSummaryDump writes them.
//!
//! A packet has an IPv4 header and, if it has one of these protocols and is not a later fragment, a header of
//! TCP, UDP, UDP-Lite, DCCP or ICMP. If the dump has Ethernet fields, the packet starts with an Ethernet
//! header; with another Ethernet type than IPv4, it has no IP header. Header fields that the dump does not
//! contain are zero, except for versions and types, lengths, the time to live (100), the fields that PROTO
//! and FLOWID give and, with CHECKSUM, checksums. Packets are usually shorter than their headers say, and the
//! extra length annotation is the number of missing bytes. The annotations for the network and transport
//! header, destination address, time stamp, paint, aggregate, extra packets and first time stamp are set.
//! Files may be compressed with gzip or zstd. The fields `thread`, `payload_md5` and `payload_md5_hex` of
//! ToIPSummaryDump are not read.
//!
//! ## Usage
//! `FromIPSummaryDump(FILENAME [, KEYWORDS])`
//!
//! ## Arguments
//! - `FILENAME`: the file; `-` for standard input.
//! - `DATA`: the dump itself, instead of a file.
//! - `STOP`: true to stop the driver at the end.
//! - `ACTIVE`: true to make packets.
//! - `ZERO`: accepted; fields that the dump does not contain are always filled in as described above.
//! - `TIMING`: true to send packets at the pace of their time stamps.
//! - `CHECKSUM`: true to make packets with their whole length and right checksums.
//! - `PROTO`: the protocol of packets whose line has none.
//! - `MULTIPACKET`: true to make as many packets of a line as its `count` says.
//! - `TIMESTAMP`: if false, all packets of a line have the time stamp of the line, and not times from its
//!   first time stamp on.
//! - `TIMES`: the number of times that the dump is read from its start; 0 for ever. Standard input is read
//!   once.
//! - `SAMPLE`: the probability with which a packet is made.
//! - `FIELDS`, `CONTENTS`, `DEFAULT_FIELDS`, `DEFAULT_CONTENTS`: the fields, until a line `!data` sets
//!   them.
//! - `FLOWID`, `DEFAULT_FLOWID`: source address and port, destination address and port, and optionally
//!   protocol of packets whose line has none, until a line `!flowid` sets them.
//! - `ALLOW_NONEXISTENT`: true to treat a missing file as an empty file.
//! - `BURST`: the largest number of packets per turn.
//! - `MIGRATE`: accepted for FastClick's sake, without effect.
//!
//! ## Handlers
//! - `active`: true if packets are made.
//! - `sampling_prob`: the value of SAMPLE.
//! - `encap`: `IP`.
//! - `filename`: the file.
//! - `filesize`: the file's size in bytes, or `-`.
//! - `filepos`: bytes read so far, after decompression.
//! - `stop`: stops making packets, and the driver.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(DATA "10.0.0.1 10.0.0.2 T 80", FIELDS ip_src ip_dst ip_proto sport, STOP true) ->
//! Discard
//! ```
//!
//! ## See also
//! ToIPSummaryDump, FromDump

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use capture::summary::{BuiltPacket, Dump, Parsed, Parser};
use element::args::{Bytes, Raw, parse_bool};
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Action, Case, DST_IP, EXTRA_LENGTH, Field, Filter, PAINT, Target, Value};
use element::{
    Base, Batch, Class, Cx, Effects, Element, Handler, Packet, Signal, StatePart, Timestamp, manual,
};
use packet::{Annotations, BATCH_CAPACITY};
use wire::LinkType;

use crate::pace::{Pace, begin};
use crate::{probability, reason};

/// The element class FromIPSummaryDump.
pub static CLASS: Class = Class {
    name: "FromIPSummaryDump",
    ports: "0/1",
    manual: manual!("from_ip_summary_dump.rs"),
    args: &[
        ArgInfo::positional("FILENAME", "file", ""),
        ArgInfo::keyword("DATA", "string", ""),
        ArgInfo::keyword("STOP", "bool", "false"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("ZERO", "bool", "true"),
        ArgInfo::keyword("TIMING", "bool", "false"),
        ArgInfo::keyword("CHECKSUM", "bool", "false"),
        ArgInfo::keyword("PROTO", "byte", "6"),
        ArgInfo::keyword("MULTIPACKET", "bool", "false"),
        ArgInfo::keyword("SAMPLE", "probability", "1"),
        ArgInfo::keyword("FIELDS", "field names", ""),
        ArgInfo::keyword("CONTENTS", "field names", ""),
        ArgInfo::keyword("DEFAULT_FIELDS", "field names", ""),
        ArgInfo::keyword("DEFAULT_CONTENTS", "field names", ""),
        ArgInfo::keyword("FLOWID", "flow", ""),
        ArgInfo::keyword("DEFAULT_FLOWID", "flow", ""),
        ArgInfo::keyword("ALLOW_NONEXISTENT", "bool", "false"),
        ArgInfo::keyword("BURST", "unsigned", "").computed("the burst of the run"),
        ArgInfo::keyword("MIGRATE", "bool", "false"),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("TIMES", "unsigned", "1"),
    ],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, follows_captures: true, task: Task::WherePushing, ..Notes::NONE },
    state: &[StatePart::lost("position", "the file is read again from its start", &["filepos", "active"])],
    samples: &[
        "DATA \"1.0.0.1 T 5\\n2.0.0.2 U 1\\n\", FIELDS ip_src ip_proto count",
        "DATA \"!data ts src dst sport payload\\n1 1.1.1.1 2.2.2.2 9 abc\\n2 - - - d\", CHECKSUM true, STOP true",
        "DATA \"1.0.0.1 300 3\", FIELDS ip_src ip_len count, MULTIPACKET true, FLOWID 1.1.1.1 2 3.3.3.3 4 U",
        "DATA \"1.0.0.1 300 3\", FIELDS ip_src ip_len count, MULTIPACKET true, TIMESTAMP false, TIMES 3",
    ],
    build: |args| {
        let filename = args.get::<String>("FILENAME");
        let data = args.get::<Bytes>("DATA").map(|Bytes(data)| Arc::from(data));
        let sample = probability(args);
        let mut parser = Parser::new(args.value::<u8>("PROTO"), args.value("CHECKSUM"));
        let mut issues = Vec::new();
        for name in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            if let Some(Raw(fields)) = args.get(name) {
                parser.set_fields(&fields, &mut issues);
            }
        }
        for name in ["DEFAULT_FLOWID", "FLOWID"] {
            if let Some(Raw(flow)) = args.get(name) {
                parser.set_flow(&flow, &mut issues);
            }
        }
        issues.into_iter().for_each(|issue| args.warn(issue));
        match (&filename, &data) {
            (Some(_), Some(_)) => args.error("FILENAME and DATA conflict"),
            (None, None) => args.error("FILENAME: required argument missing"),
            _ => {}
        }
        let element = FromIpSummaryDump {
            filename: filename.unwrap_or_else(|| "<data>".into()),
            data,
            stop: args.value("STOP"),
            active: args.value("ACTIVE"),
            pace: Pace::new(args.value("TIMING")),
            multipacket: args.value("MULTIPACKET"),
            is_timed: args.value("TIMESTAMP"),
            times: args.value("TIMES"),
            has_packets: false,
            sample,
            allow_nonexistent: args.value("ALLOW_NONEXISTENT"),
            burst: args.get::<usize>("BURST").map(|n| n.clamp(1, BATCH_CAPACITY)),
            parser,
            dump: None,
            binary: false,
            place: 0,
            position: 0,
            line: Vec::new(),
            issues: Vec::new(),
            record: BuiltPacket::default(),
            copies: Copies::default(),
            ended: false,
            fault: None,
        };
        args.value::<bool>("ZERO");
        args.value::<bool>("MIGRATE");
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

/// The largest number of successive lines without a packet that are read before the turn ends, so that other
/// elements are not delayed.
const MOST_SKIPPED: usize = 1024;

/// The largest length of a line or record in bytes. Without a limit, a damaged file could fill the memory.
const MOST_BYTES: usize = 1 << 20;

struct FromIpSummaryDump {
    filename: String,
    data: Option<Arc<[u8]>>,
    stop: bool,
    active: bool,
    pace: Pace,
    multipacket: bool,
    /// True if the packets of a line have times from its first time stamp on.
    is_timed: bool,
    /// The number of times that the dump is still read, with the present time; 0 for ever.
    times: u32,
    /// True if the dump has had a packet since it was opened.
    has_packets: bool,
    sample: f64,
    allow_nonexistent: bool,
    burst: Option<usize>,
    parser: Parser,
    dump: Option<Dump>,
    /// True if the dump continues with binary records, after a line `!binary`.
    binary: bool,
    /// The number of the present line, or since `!binary` of the present record; for messages.
    place: u64,
    position: u64,
    line: Vec<u8>,
    issues: Vec<String>,
    record: BuiltPacket,
    copies: Copies,
    ended: bool,
    fault: Option<String>,
}

/// The packets that are still to be made of a record, with MULTIPACKET possibly several.
#[derive(Default)]
struct Copies {
    left: u32,
    /// `length` is the length in bytes on the wire of each packet but the last, and `last` is the length of
    /// the last packet. A `length` of 0 means that the record is a single packet.
    length: u32,
    last: u32,
    step: i64,
    end: i64,
}

/// The result of looking for the next record that describes a packet.
enum Next {
    Ready,
    /// `MOST_SKIPPED` lines without a packet have been read. Another turn continues.
    Later,
    End,
}

impl FromIpSummaryDump {
    fn open(&mut self) -> Result<(), String> {
        (self.binary, self.place, self.position, self.has_packets) = (false, 0, 0, false);
        let raw: Box<dyn Read + Send> = match (self.data.clone(), self.filename.as_str()) {
            (Some(data), _) => Box::new(io::Cursor::new(data)),
            (None, "-") => Box::new(io::stdin()),
            (None, path) => match File::open(path) {
                Ok(file) => Box::new(file),
                Err(error) if self.allow_nonexistent && error.kind() == io::ErrorKind::NotFound => {
                    Box::new(io::empty())
                }
                Err(error) => return Err(format!("{path}: {}", reason(&error))),
            },
        };
        let dump = Dump::open(raw).map_err(|error| format!("{}: {}", self.filename, reason(&error)))?;
        self.dump = Some(dump);
        Ok(())
    }

    /// Reads the next line or binary record into `line`. For a binary record, a further byte at its end is 1
    /// if the record is text. Returns false at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read or ends within a binary record, if a line or record is longer than
    /// [`MOST_BYTES`], or if a binary record is too short: its length includes the 4 bytes of the length
    /// field, so that it must not be less than 4, and 4 is valid only for a record that is text.
    fn read_piece(&mut self) -> io::Result<bool> {
        let Some(dump) = &mut self.dump else { return Ok(false) };
        self.line.clear();
        self.place += 1;
        if !self.binary {
            let read = dump.take(MOST_BYTES as u64 + 1).read_until(b'\n', &mut self.line)?;
            if read > MOST_BYTES {
                return Err(io::Error::other("a line of more than 1 MiB; this is no IP summary dump"));
            }
            self.position += read as u64;
            return Ok(read > 0);
        }
        let is_cut = || io::Error::other("the file ends within a binary record");
        let mut length = [0; 4];
        let mut begun = 0;
        while begun < length.len() {
            match dump.read(&mut length[begun..]) {
                Ok(0) if begun == 0 => return Ok(false),
                Ok(0) => return Err(is_cut()),
                Ok(n) => begun += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let word = u32::from_be_bytes(length);
        let Some(rest) = (word & 0x7fff_ffff).checked_sub(4) else {
            return Err(io::Error::other("binary record too short"));
        };
        if rest as usize > MOST_BYTES {
            return Err(io::Error::other("a binary record of more than 1 MiB"));
        }
        let is_text = word >> 31 == 1;
        let read = dump.take(rest.into()).read_to_end(&mut self.line)?;
        self.position += read as u64 + 4;
        self.line.push(u8::from(is_text));
        if read < rest as usize {
            return Err(is_cut());
        }
        if rest == 0 && !is_text {
            return Err(io::Error::other("empty binary record"));
        }
        Ok(true)
    }

    /// Reads lines or records until one describes a packet, at most `MOST_SKIPPED`; none if packets of the
    /// last record are still to be made. Reports problems in lines; a fault in the file ends the dump.
    fn read_record(&mut self, cx: &mut Cx<'_>) -> Next {
        if self.copies.left > 0 {
            return Next::Ready;
        }
        for _ in 0..MOST_SKIPPED {
            let parsed = match self.read_piece() {
                Ok(false) if self.begin_again(cx) => continue,
                Ok(false) => return Next::End,
                Err(error) => {
                    self.dump = None;
                    self.complain(cx, reason(&error));
                    self.fault =
                        Some(format!("{}: only the packets before the fault were read", self.filename));
                    return Next::End;
                }
                // The byte that `read_piece` has appended is 0 for a binary record and 1 for text.
                Ok(true) if self.binary && self.line.pop() == Some(0) => {
                    self.parser.binary(&self.line, &mut self.record, &mut self.issues)
                }
                Ok(true) => {
                    let line = String::from_utf8_lossy(&self.line);
                    if self.place == 1 && !self.parser.has_fields() && !looks_like_a_dump(&line) {
                        self.issues.push("missing banner line; is this an IP summary dump?".into());
                    }
                    self.parser.line(&line, &mut self.record, &mut self.issues)
                }
            };
            while let Some(issue) = self.issues.pop() {
                self.complain(cx, issue);
            }
            match parsed {
                Parsed::Nothing => {}
                Parsed::Binary => (self.binary, self.place) = (true, 0),
                Parsed::Packet => {
                    self.has_packets = true;
                    self.copies = Copies::of(&mut self.record, self.multipacket, self.is_timed);
                    return Next::Ready;
                }
            }
        }
        Next::Later
    }

    /// Opens the dump again at its end, if it is to be read several times. A dump without packets is not: its
    /// repetition would never end. Returns true if the dump starts again.
    #[cold]
    fn begin_again(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.times == 1 || !self.has_packets || (self.filename == "-" && self.data.is_none()) {
            return false;
        }
        self.times = self.times.saturating_sub(1);
        self.pace.restart();
        let opened = self.open();
        if let Err(reason) = &opened {
            cx.messages().message(format_args!("{reason}\n"));
            self.fault = Some(reason.clone());
        }
        opened.is_ok()
    }

    #[cold]
    fn complain(&mut self, cx: &mut Cx<'_>, issue: String) {
        let unit = if self.binary { "record " } else { "" };
        cx.messages().message(format_args!("{}:{unit}{}: {issue}\n", self.filename, self.place));
    }

    /// Makes the next packet of the record. Returns `None` if SAMPLE skips it or there is no memory for it.
    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.copies.next(&mut self.record);
        if self.sample < 1.0 && !cx.random().chance(self.sample) {
            return None;
        }
        let record = &self.record;
        let mut packet = cx.packet(&record.bytes)?;
        let info = record.info;
        packet.set_time(Timestamp(info.time));
        let link = if record.mac.is_some() { LinkType::Ethernet } else { LinkType::RawIp };
        packet.set_link(link.number());
        packet.set_offset(Base::Mac, record.mac.map(|at| at as isize));
        packet.set_offset(Base::Network, record.network.map(|at| at as isize));
        packet.set_offset(Base::Transport, record.transport().map(|at| at as isize));
        let destination = record.network.and_then(|at| record.bytes.get(at + 16..)?.first_chunk());
        let annotations = packet.annotations_mut();
        annotations.set_array4(Annotations::DST_IP, destination.copied().unwrap_or_default());
        annotations.set_u8(Annotations::PAINT, info.paint);
        annotations.set_u32(Annotations::AGGREGATE, info.aggregate);
        annotations.set_u32(Annotations::EXTRA_PACKETS, info.extra_packets);
        annotations.set_u32(Annotations::EXTRA_LENGTH, info.extra_length);
        annotations.bytes_mut()[FIRST].copy_from_slice(&info.first_time.to_ne_bytes());
        Some(packet)
    }

    /// Takes packets that are due, at most `most`. The second value is true if the element should be called
    /// again without waiting for a timer.
    fn take(&mut self, cx: &mut Cx<'_>, most: usize) -> (Batch, bool) {
        let mut batch = cx.batch();
        let mut stamp = None;
        let mut left_out = 0;
        while batch.len() < most && left_out < MOST_SKIPPED && self.active && !self.ended {
            match self.read_record(cx) {
                Next::Ready if !cx.has_room() => break,
                Next::Ready => {}
                Next::Later => break,
                Next::End => {
                    // If there are packets, they are emitted first, and the end of the dump is acted on in
                    // the next turn.
                    if batch.is_empty() {
                        self.end(cx);
                    }
                    break;
                }
            }
            let time = self.copies.time(&self.record);
            if !self.pace.is_due(cx, time) {
                cx.set_signal(Signal::Packets, false);
                return (batch, false);
            }
            // Under the trace clock, all packets of a batch must have the same time stamp.
            if cx.follows_captures() && *stamp.get_or_insert(time) != time {
                break;
            }
            if let Some(packet) = self.make(cx) {
                // The push does not fail, because `most` is at most the capacity of a batch.
                let _ = batch.push(packet).map_err(|packet| cx.drop(packet, element::DropReason::NoBuffer));
            } else {
                left_out += 1;
            }
        }
        (batch, self.active && !self.ended)
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        self.ended = true;
        if let Some(warning) = self.dump.take().and_then(|dump| dump.warning(&self.filename)) {
            cx.messages().message(format_args!("{warning}\n"));
        }
        cx.set_signal(Signal::Packets, false);
        if self.stop {
            cx.stop();
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if !self.active || self.ended {
            return;
        }
        begin(cx);
    }
}

impl Copies {
    /// Returns the packets to make of a record: a single packet, or with `multipacket` as many as the
    /// record describes. If the record describes several and has a first time stamp (`is_timed`), their
    /// times are evenly spaced: the record's time is set to one interval before the first packet, because
    /// `next` adds an interval for each packet. Otherwise all have the record's time.
    fn of(record: &mut BuiltPacket, multipacket: bool, is_timed: bool) -> Copies {
        let info = &mut record.info;
        if !multipacket || info.extra_packets == 0 {
            return Copies { left: 1, ..Copies::default() };
        }
        let count = info.extra_packets.saturating_add(1);
        let own = record.bytes.len() as u32;
        let total = own.saturating_add(info.extra_length);
        let length = (total / count).max(own);
        let last = u64::from(total).saturating_sub(u64::from(length) * u64::from(count - 1)).max(own.into());
        let end = info.time;
        let mut step = 0;
        if info.first_time != 0 && is_timed {
            step = (info.time - info.first_time) / i64::from(count - 1);
            info.time = info.first_time - step;
        }
        info.extra_packets = 0;
        Copies { left: count, length, last: last as u32, step, end }
    }

    /// Returns the time stamp that the next packet of the record will have.
    fn time(&self, record: &BuiltPacket) -> Timestamp {
        match (self.length, self.left) {
            (0, _) => Timestamp(record.info.time),
            (_, 1) => Timestamp(self.end),
            _ => Timestamp(record.info.time + self.step),
        }
    }

    /// Counts one packet as made. If the record describes several packets, sets length and time stamp of
    /// `record` to those of this packet.
    fn next(&mut self, record: &mut BuiltPacket) {
        self.left -= 1;
        if self.length == 0 {
            return;
        }
        let length = if self.left == 0 { self.last } else { self.length };
        record.set_length(length);
        record.info.extra_length = length - record.bytes.len() as u32;
        record.info.time = if self.left == 0 { self.end } else { record.info.time + self.step };
    }
}

/// The range of bytes of the first time stamp annotation in a packet's annotations.
pub(crate) const FIRST: std::ops::Range<usize> =
    Annotations::FIRST_TIMESTAMP..Annotations::FIRST_TIMESTAMP + 8;

fn looks_like_a_dump(line: &str) -> bool {
    let starts = ["!IPSummaryDump", "!creator", "!data", "!contents", "!proto", "!flowid"];
    starts.iter().any(|start| line.starts_with(start))
}

impl Element for FromIpSummaryDump {
    fn effects(&self) -> Effects {
        // The case matches no input packet, because the packets are new. It tells other elements which fields
        // of the new packets are set.
        let pure = |name| Value::Pure { name, reads: Vec::new() };
        let anno = |offset, length| Field::Annotation { offset: offset as u8, length };
        let case = [
            (EXTRA_LENGTH, "length on the wire"),
            (DST_IP, "destination"),
            (PAINT, "link"),
            (anno(Annotations::AGGREGATE, 4), "aggregate"),
            (anno(Annotations::EXTRA_PACKETS, 4), "packets"),
            (anno(Annotations::FIRST_TIMESTAMP, 8), "first time stamp"),
            (Field::HeaderOffset(Base::Network), "where IP starts"),
            (Field::HeaderOffset(Base::Transport), "after the IP header"),
        ]
        .into_iter()
        .fold(Case::new(Filter::FALSE, Target::Output(0)), |case, (field, name)| {
            case.with(Action::Set(field, pure(name)))
        });
        Effects { cases: vec![case], ..Effects::source("summarised packet") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.open()?;
        if cx.follows_captures() && self.active {
            // The trace clock starts with the first packet, so the record of the first packet is read now.
            let _ = self.read_record(cx);
        }
        self.start(cx);
        Ok(())
    }

    fn next_time(&self) -> Option<Timestamp> {
        // If no record has been read ahead, the element has work at once: to read a record or to act on the
        // end of the dump. The earliest possible time stands for "at once".
        let time = if self.copies.left > 0 { self.copies.time(&self.record) } else { Timestamp(i64::MIN) };
        (self.active && !self.ended && self.dump.is_some()).then_some(time)
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let most = self.burst.unwrap_or(cx.burst());
        let (batch, more) = self.take(cx, most);
        let worked = !batch.is_empty() || more;
        cx.emit(0, batch);
        if more || (cx.follows_captures() && self.active && !self.ended) {
            cx.schedule();
        }
        if cx.follows_captures() && self.active && !self.ended {
            // Under the trace clock, the time of the next record is the time of this element's next turn, so
            // the record is read now. If the end of the dump was reached, the next turn acts on it.
            let _ = self.read_record(cx);
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.start(cx);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        self.take(cx, max).0
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.dump = None;
        self.fault.take().map_or(Ok(()), Err)
    }
}

const HANDLERS: &[Handler<FromIpSummaryDump>] = &[
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("type mismatch")?;
            if e.active {
                e.start(cx);
            } else {
                cx.set_signal(Signal::Packets, false);
            }
            Ok(())
        },
    ),
    Handler::get("sampling_prob", |e| e.sample.clamp(0.0, 1.0).to_string()),
    Handler::get("encap", |_| "IP".into()),
    Handler::get("filename", |e| if e.filename == "-" { "<stdin>".into() } else { e.filename.clone() }),
    Handler::get("filesize", |e| {
        std::fs::metadata(&e.filename).map_or("-".into(), |metadata| metadata.len().to_string())
    }),
    Handler::get("filepos", |e| e.position.to_string()),
    Handler::set("stop", |e, cx, _| {
        e.active = false;
        cx.stop();
        Ok(())
    }),
];
