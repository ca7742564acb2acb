//! # ToIPSummaryDump
//! Writes a line of chosen fields for each packet.
//!
//! Fields are `timestamp`, `ntimestamp`, `ts_sec`, `ts_usec`, `ts_usec1`, `first_timestamp`,
//! `first_ntimestamp`, `count`, `link`, `paint`, `direction`, `aggregate`, `wire_len`, `thread`; `eth_src`,
//! `eth_dst`, `eth_type`; `ip_src`, `ip_dst`, `ip_frag`, `ip_fragoff`, `ip_len`, `ip_proto`, `ip_hl`,
//! `ip_id`, `ip_tos`, `ip_dscp`, `ip_ecn`, `ip_ttl`, `ip_sum`, `ip_opt`, `ip_capture_len`; `sport`, `dport`;
//! `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_flags`, `tcp_opt`, `tcp_ntopt`, `tcp_sack`, `tcp_window`, `tcp_urp`;
//! `udp_len`; `icmp_type`, `icmp_code`, `icmp_type_name`, `icmp_code_name`, `icmp_flowid`, `icmp_seq`,
//! `icmp_nextmtu`; `payload`, `payload_len`, `payload_md5`, `payload_md5_hex`. Instead of underscores there
//! may be spaces, with quotes around the name. `ip_` can be left out, except from `ip_capture_len`. A packet
//! that does not have a field gets `-`, in binary records zeros.
//!
//! With an output, packets are pushed on after their line was written, as in FastClick, also if the input is
//! pull: the element then pulls by itself. On a live run, lines are in the file within a second; when the run
//! ends, also by SIGINT or SIGTERM, all lines are in the file.
//!
//! If the disk is full, the run continues. Further packets are dropped (`write error`) or, with an output,
//! passed on without being written.
//!
//! A reload continues the file if FILENAME, BINARY and the fields stay the same. Otherwise the file is
//! completed, and FILENAME is created again.
//!
//! ## Usage
//! `ToIPSummaryDump(FILENAME [, KEYWORDS])`
//!
//! ## Arguments
//! - `FILENAME`: the file; `-` for standard output.
//! - `FIELDS`, `CONTENTS`, `DATA`: names of fields, separated by spaces.
//! - `HEADER`: true to begin the file with lines that start with `!` and describe the file.
//! - `VERBOSE`: true to add the host and the time to these lines.
//! - `BANNER`: a text for a line `!creator`.
//! - `BINARY`: true to write binary records.
//! - `MULTIPACKET`: true to write one line for each of the packets that a packet stands for: its extra
//!   packets annotation plus one. Without effect if `count` is one of the fields.
//! - `BAD_PACKETS`: true to write a line `!bad` before packets with bad headers.
//! - `CAREFUL_TRUNC`: true to treat packets that are shorter than their IP header says as bad, too.
//! - `EXTRA_LENGTH`: true to add the extra length annotation to lengths.
//!
//! ## Handlers
//! - `flush`: writes the lines that are still in memory.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> CheckIPHeader(14)
//!     -> ToIPSummaryDump(out.dump, FIELDS timestamp ip_src sport ip_dst dport ip_proto)
//! ```
//!
//! ## See also
//! FromIPSummaryDump, ToDump

use std::any::Any;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use capture::summary::{self, PacketInfo, SummaryField as Summary, View};
use element::args::Raw;
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Counting, EXTRA_LENGTH, Field, Filter, PAINT, Target};
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, Severity, StatePart, WriteTimer,
    manual,
};
use packet::Annotations;

use crate::from_ip_summary_dump::FIRST;
use crate::handover::is_handed_over;
use crate::reason;
use crate::sink::Sink;

/// The element class ToIPSummaryDump.
pub static CLASS: Class = Class {
    name: "ToIPSummaryDump",
    ports: "1/0-1",
    processing: "a/h",
    manual: manual!("to_ip_summary_dump.rs"),
    notes: Notes { is_outside: true, task: Task::WherePulling, ..Notes::NONE },
    args: &[
        ArgInfo::required("FILENAME", "file"),
        ArgInfo::keyword("FIELDS", "field names", "timestamp ip_src"),
        ArgInfo::keyword("CONTENTS", "field names", "").computed("FIELDS"),
        ArgInfo::keyword("DATA", "field names", "").computed("FIELDS"),
        ArgInfo::keyword("HEADER", "bool", "true"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
        ArgInfo::keyword("BANNER", "string", ""),
        ArgInfo::keyword("BINARY", "bool", "false"),
        ArgInfo::keyword("MULTIPACKET", "bool", "false"),
        ArgInfo::keyword("BAD_PACKETS", "bool", "false"),
        ArgInfo::keyword("CAREFUL_TRUNC", "bool", "true"),
        ArgInfo::keyword("EXTRA_LENGTH", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("file", &[])],
    samples: &[
        "$OUTPUT",
        "$OUTPUT, FIELDS ip_len payload tcp_opt \"icmp type\", BAD_PACKETS true -> 1/1",
        "$OUTPUT, FIELDS timestamp sport eth_src ip_opt, BINARY true, BAD_PACKETS true, VERBOSE true",
    ],
    build: |args| {
        let filename: String = args.required("FILENAME");
        let Raw(mut text) = args.value("FIELDS");
        for name in ["CONTENTS", "DATA"] {
            if let Some(Raw(fields)) = args.get(name) {
                text = fields;
            }
        }
        let binary = args.value::<bool>("BINARY");
        let mut fields = Vec::new();
        for field in summary::fields(&text) {
            match field {
                Ok(field) if binary && field.width().is_err() => {
                    args.error(format!("cannot use field {} with BINARY", field.name()));
                }
                Ok(field) => fields.push(field),
                Err(name) => args.error(format!("unknown content type '{name}'")),
            }
        }
        if fields.is_empty() {
            args.error("no contents specified");
        }
        let multipacket = args.value::<bool>("MULTIPACKET") && !fields.contains(&Summary::Count);
        let element = ToIpSummaryDump {
            filename,
            header: args.value("HEADER"),
            verbose: args.value("VERBOSE"),
            banner: args.get("BANNER").unwrap_or_default(),
            fields,
            binary,
            multipacket,
            bad_packets: args.value("BAD_PACKETS"),
            careful: args.value("CAREFUL_TRUNC"),
            extra_length: args.value("EXTRA_LENGTH"),
            passes_on: args.outputs() > 0,
            file: None,
            text: String::new(),
            record: Vec::new(),
            timer: WriteTimer::default(),
            fault: None,
        };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct ToIpSummaryDump {
    filename: String,
    header: bool,
    verbose: bool,
    banner: String,
    fields: Vec<Summary>,
    binary: bool,
    multipacket: bool,
    bad_packets: bool,
    careful: bool,
    extra_length: bool,
    passes_on: bool,
    file: Option<BufWriter<Box<dyn Write + Send>>>,
    /// A buffer for the line of a packet or, in a binary file, for the message about a bad packet. The buffer
    /// is kept to reuse its memory.
    text: String,
    /// A buffer for the binary record of a packet. The buffer is kept to reuse its memory.
    record: Vec<u8>,
    timer: WriteTimer,
    fault: Option<String>,
}

/// The settings that must be the same if a new element is to continue the file: FILENAME, BINARY and the
/// fields.
type Settings = (String, bool, Vec<Summary>);

impl ToIpSummaryDump {
    fn settings(&self) -> Settings {
        (self.filename.clone(), self.binary, self.fields.clone())
    }

    /// Opens the file, and with HEADER writes the lines at its start.
    fn open(&mut self, cx: &Cx<'_>) -> Result<(), String> {
        let file: Box<dyn Write + Send> = match self.filename.as_str() {
            "-" => Box::new(io::stdout()),
            path => Box::new(File::create(path).map_err(|error| format!("{path}: {}", reason(&error)))?),
        };
        let mut file = BufWriter::new(file);
        if self.header {
            let head = self.head(cx);
            file.write_all(head.as_bytes())
                .map_err(|error| format!("{}: {}", self.filename, reason(&error)))?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Returns the lines at the start of the file (HEADER), which begin with `!` and name the fields.
    fn head(&self, cx: &Cx<'_>) -> String {
        let (major, minor) = summary::VERSION;
        let mut head = format!("!IPSummaryDump {major}.{minor}\n");
        if !self.banner.is_empty() {
            head += &format!("!creator \"{}\"\n", self.banner.replace('\\', "\\\\").replace('"', "\\\""));
        }
        if self.verbose {
            if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
                head += &format!("!host {}\n", host.trim());
            }
            head += &format!("!runtime {}\n", cx.now());
        }
        let names: Vec<&str> = self.fields.iter().map(|field| self.shown(*field)).collect();
        head += &format!("!data {}\n", names.join(" "));
        if self.binary {
            head += "!binary\n";
        }
        head
    }

    /// Returns the name of a field for the line `!data`. In a text file, time stamps in nanoseconds are
    /// called `timestamp` like those in microseconds, because their digits show the precision.
    fn shown(&self, field: Summary) -> &'static str {
        if field == Summary::NanoTimestamp && !self.binary { "timestamp" } else { field.name() }
    }

    fn info(&self, packet: &Packet) -> PacketInfo {
        let annotations = packet.annotations();
        let first = annotations.bytes()[FIRST].try_into().map_or(0, i64::from_ne_bytes);
        PacketInfo {
            time: packet.time().0,
            first_time: first,
            extra_packets: annotations.u32(Annotations::EXTRA_PACKETS),
            extra_length: if self.extra_length { annotations.u32(Annotations::EXTRA_LENGTH) } else { 0 },
            paint: annotations.u8(Annotations::PAINT),
            aggregate: annotations.u32(Annotations::AGGREGATE),
        }
    }

    fn write_packet(&mut self, packet: &Packet) -> io::Result<()> {
        let info = self.info(packet);
        if !self.multipacket || info.extra_packets == 0 {
            return self.write_one(packet, info);
        }
        let count = info.extra_packets.saturating_add(1);
        let own = packet.len() as u64;
        let mut total = (own + u64::from(info.extra_length)).max(own * u64::from(count));
        let mut time = info.time;
        let mut step = 0;
        if info.first_time != 0 {
            step = (info.time - info.first_time) / i64::from(count - 1);
            time = info.first_time;
        }
        for left in (1..=count).rev() {
            let length = total / u64::from(left);
            total -= length;
            let extra_length = (length - own).min(u32::MAX.into()) as u32;
            self.write_one(packet, PacketInfo { time, extra_packets: 0, extra_length, ..info })?;
            time = if left == 2 { info.time } else { time + step };
        }
        Ok(())
    }

    fn write_one(&mut self, packet: &Packet, info: PacketInfo) -> io::Result<()> {
        let view = View {
            data: packet.data(),
            mac: packet.offset(Base::Mac),
            network: packet.offset(Base::Network),
            transport: packet.offset(Base::Transport),
            info,
            thread: 0,
        };
        let Some(file) = &mut self.file else { return Ok(()) };
        self.text.clear();
        self.record.clear();
        let bad = match self.binary {
            true => view.describe_binary(&self.fields, self.careful, &mut self.record),
            false => view.describe(&self.fields, self.careful, &mut self.text),
        };
        if let Some(bad) = bad.filter(|_| self.bad_packets) {
            if self.binary {
                // In a binary file, `text` is not in use for a line.
                self.text.push_str("!bad ");
                // Writing to a string cannot fail.
                let _ = std::fmt::Write::write_fmt(&mut self.text, format_args!("{bad}\n"));
                let length = (self.text.len() as u32 + 4) | 1 << 31;
                file.write_all(&length.to_be_bytes())?;
                file.write_all(self.text.as_bytes())?;
            } else {
                writeln!(file, "!bad {bad}")?;
            }
        }
        if self.binary {
            return file.write_all(&self.record);
        }
        self.text.push('\n');
        file.write_all(self.text.as_bytes())
    }

    fn flush(&mut self) -> Result<(), String> {
        let result = self.file.as_mut().map_or(Ok(()), Write::flush);
        result.map_err(|error| format!("ToIPSummaryDump({}): {}", self.filename, reason(&error)))
    }
}

impl Sink for ToIpSummaryDump {
    fn has_failed(&self) -> bool {
        self.fault.is_some()
    }

    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut failed = cx.batch();
        batch.sift(
            |packet| {
                if self.fault.is_none() {
                    let Err(error) = self.write_packet(packet) else { return Ok(()) };
                    let text = format!("ToIPSummaryDump({}): {}", self.filename, reason(&error));
                    cx.messages().remark(Severity::Error, format_args!("{text}"));
                    self.fault = Some(text);
                }
                if self.passes_on { Ok(()) } else { Err(()) }
            },
            // The push does not fail, because this batch has the capacity of the batch that the packets come
            // from.
            |packet, ()| drop(failed.push(packet)),
        );
        cx.drop_all(failed, DropReason::WriteError);
        self.timer.start(cx, 0);
    }
}

impl Element for ToIpSummaryDump {
    fn effects(&self) -> Effects {
        let (to, counts) = match self.passes_on {
            true => (Target::Output(0), Counting::Own),
            false => (Target::Send, Counting::None),
        };
        let anno = |offset, length| Field::Annotation { offset: offset as u8, length };
        let seen = [
            Field::Length,
            Field::Payload,
            Field::HeaderOffset(Base::Network),
            Field::HeaderOffset(Base::Transport),
            Field::TimeStamp,
            EXTRA_LENGTH,
            PAINT,
            anno(Annotations::AGGREGATE, 4),
            anno(Annotations::EXTRA_PACKETS, 4),
            anno(Annotations::FIRST_TIMESTAMP, 8),
        ];
        Effects::cases(vec![Case::new(Filter::TRUE, to)]).observing(&seen).counting(counts)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !is_handed_over(cx, &self.filename) {
            cx.check_unwritten(&self.filename)?;
            self.open(cx)?;
        }
        if !cx.graph().input_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.take(cx, batch, self.passes_on)
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let burst = cx.burst();
        self.turn(cx, burst, self.passes_on)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.timer.end();
        if let Err(text) = self.flush()
            && self.fault.is_none()
        {
            cx.messages().remark(Severity::Error, format_args!("{text}"));
            self.fault = Some(text);
        }
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        let flushed = self.flush();
        self.file = None;
        self.fault.take().map_or(flushed, Err)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        // The buffer is written now, because the element that replaces this one may have no timer that writes
        // it later.
        let flushed = self.flush();
        let fault = self.fault.take().or(flushed.err());
        Some(Box::new((self.settings(), self.file.take(), fault)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (settings, file, fault): (Settings, _, Option<String>);
        (settings, file, fault) = *state.downcast().map_err(|_| "the state of another class")?;
        if settings == self.settings() {
            (self.file, self.fault) = (file, fault);
        } else {
            if self.file.is_none() {
                self.open(cx)?;
            }
            return fault.map_or(Ok(()), Err);
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<ToIpSummaryDump>] = &[Handler::set("flush", |e, _, _| e.flush())];
