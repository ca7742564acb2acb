//! # ToDump
//! Writes packets to a capture.
//!
//! The file is a pcap file in little-endian order, so that the same packets give the same bytes on any
//! machine. Packets without a time stamp are written with the current time, unless FORCE_TS is true. With an
//! output, packets are passed on after they were written; with a pull input and no output, the element pulls
//! by itself.
//!
//! All packets of a pcap file start with the same kind of header. Unless ENCAP or USE_ENCAP_FROM is given,
//! the first packet determines the link type. Packets from captures or interfaces of another link type are
//! then left out. A packet that is left out is dropped (`another link type`) or, with an output, passed on.
//! In both cases the run ends with an error that says how many packets were left out. Packets of several link
//! types need several files.
//!
//! On a live run, the file's header is written with the first packet, or at the start if ENCAP or
//! USE_ENCAP_FROM is given; packets are in the file within a second. When the run ends, also by SIGINT or
//! SIGTERM, all packets are in the file.
//!
//! If the disk is full, the run continues. Further packets are dropped (`write error`) or, with an output,
//! passed on without being written. A message says how many of the packets that had been taken before are not
//! in the file; `count` is the number of packets that are in the file.
//!
//! A reload continues the file if FILENAME, SNAPLEN, NANO and a given link type stay the same. Otherwise the
//! file is completed, and FILENAME is created again.
//!
//! ## Usage
//! `ToDump(FILENAME [, SNAPLEN, ENCAP, KEYWORDS])`
//!
//! ## Arguments
//! - `FILENAME`: the file; `-` for standard output. A name that ends with `.gz` is written compressed.
//! - `SNAPLEN`: bytes to write of each packet; 0 for all.
//! - `ENCAP`: the header that all packets start with (`ETHER`, `IP`, `SLL`, `#NUMBER`, ...). If not given,
//!   the link type of the first packet, or Ethernet if it has none. Packets that elements have made have no
//!   link type, and are taken for packets of the file's type.
//! - `USE_ENCAP_FROM`: elements whose `encap` handlers give the value of ENCAP.
//! - `EXTRA_LENGTH`: true to add the extra length annotation to the length on the wire.
//! - `NANO`: true for time stamps in nanoseconds.
//! - `UNBUFFERED`: true to write every batch at once, which makes compressed files large.
//! - `BURST`: packets to pull per turn.
//! - `FORCE_TS`: true to write a time stamp of zero as it is.
//! - `PER_NODE`: accepted for FastClick's sake, without effect.
//!
//! ## Handlers
//! - `count`: packets written; all of them are in the file.
//! - `filename`: the file.
//! - `reset_counts`: sets the count to zero.
//! - `flush`: writes the packets that are still in memory.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> ToDump(out.pcap, SNAPLEN 0)
//! ```
//!
//! ## See also
//! FromDump

use std::any::Any;
use std::io::{self, Write};

use capture::{Writer, WriterOptions};
use element::args::Raw;
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Counting, EXTRA_LENGTH, Field, Filter, Target};
use element::{
    Base, Batch, Call, Class, Cx, DropReason, Effects, Element, Handler, Packet, Severity, StatePart,
    WriteTimer, manual,
};
use packet::Annotations;
use wire::LinkType;

use crate::handover::is_handed_over;
use crate::sink::Sink;
use crate::{encapsulation, reason};

/// The element class ToDump.
pub static CLASS: Class = Class {
    name: "ToDump",
    aliases: &["ToTcpdump"],
    ports: "1/0-1",
    manual: manual!("to_dump.rs"),
    notes: Notes { is_outside: true, task: Task::WherePulling, ..Notes::NONE },
    args: &[
        ArgInfo::required("FILENAME", "file"),
        ArgInfo::positional("SNAPLEN", "unsigned", "2000"),
        ArgInfo::positional("ENCAP", "word", ""),
        ArgInfo::keyword("USE_ENCAP_FROM", "elements", ""),
        ArgInfo::keyword("EXTRA_LENGTH", "bool", "true"),
        ArgInfo::keyword("NANO", "bool", "true"),
        ArgInfo::keyword("UNBUFFERED", "bool", "false"),
        ArgInfo::keyword("BURST", "unsigned", "").burst_of_run("1"),
        ArgInfo::keyword("FORCE_TS", "bool", "false"),
        ArgInfo::keyword("PER_NODE", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("file", &["count"])],
    samples: &["$OUTPUT", "$OUTPUT, SNAPLEN 0, NANO false -> 1/1", "$OUTPUT, 60, ENCAP IP"],
    build: |args| {
        let filename: String = args.required("FILENAME");
        let snap_length = args.value::<u32>("SNAPLEN");
        let encap = args.get::<String>("ENCAP");
        let link = encap.as_deref().map(encapsulation::parse);
        if link == Some(None) {
            args.error("bad encapsulation type");
        }
        let from = args.get::<Raw>("USE_ENCAP_FROM").map(|Raw(text)| text);
        if encap.is_some() && from.is_some() {
            args.error("specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'");
        }
        let to_dump = ToDump {
            filename,
            snap_length,
            link_from: from.unwrap_or_default().split_whitespace().map(String::from).collect(),
            extra_length: args.value("EXTRA_LENGTH"),
            nanoseconds: args.value("NANO"),
            unbuffered: args.value("UNBUFFERED"),
            burst: args.value::<usize>("BURST").clamp(1, packet::BATCH_CAPACITY),
            force_time: args.value("FORCE_TS"),
            passes_on: args.outputs() > 0,
            is_given: false,
            out: Output { link: link.flatten(), ..Output::default() },
            timer: WriteTimer::default(),
        };
        args.value::<bool>("PER_NODE");
        args.finish()?;
        Ok(Box::new(to_dump))
    },
    ..Class::DEFAULT
};

type Stream = Box<dyn Write + Send>;

/// The file, with the counts of its packets. The element that replaces this element continues with it.
#[derive(Default)]
struct Output {
    /// The open file, until the link type is known and `writer` begins the file with its header.
    file: Option<Stream>,
    /// The write buffer, allocated at the start, until `writer` takes it.
    buffer: Vec<u8>,
    writer: Option<Writer<Stream>>,
    /// The number of packets that were left out because they start with another kind of header than the
    /// file's packets.
    left_out: u64,
    fault: Option<String>,
    /// The number of packets that are in the file, as of the last flush; packets in the buffer do not
    /// count.
    written: u64,
    /// The number of packets that were in the file when `reset_counts` was last called. The handler `count`
    /// subtracts it.
    reset_at: u64,
    /// The link type of the file, once it is known.
    link: Option<LinkType>,
    /// The number of the file's link type. A packet with this link type has the right kind of header, so
    /// that it needs no further check.
    number: u16,
}

/// The settings that must be the same if a new element is to continue the file: FILENAME, SNAPLEN, NANO and
/// the link type, if ENCAP or USE_ENCAP_FROM gives it.
type Settings = (String, u32, bool, Option<LinkType>);

struct ToDump {
    filename: String,
    snap_length: u32,
    /// True if ENCAP or USE_ENCAP_FROM gives the link type. Then no packet is left out.
    is_given: bool,
    link_from: Vec<String>,
    extra_length: bool,
    nanoseconds: bool,
    unbuffered: bool,
    burst: usize,
    force_time: bool,
    passes_on: bool,
    out: Output,
    timer: WriteTimer,
}

impl ToDump {
    fn settings(&self) -> Settings {
        let link = self.out.link.filter(|_| self.is_given);
        (self.filename.clone(), self.snap_length, self.nanoseconds, link)
    }

    /// Opens the file. On a live run with a given link type, also writes its header.
    fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.out.file = Some(match self.filename.as_str() {
            "-" => Box::new(io::stdout()),
            path => capture::create(path).map_err(|error| format!("{path}: {}", reason(&error)))?,
        });
        self.out.buffer =
            capture::writer_buffer().map_err(|error| format!("no memory for a buffer: {error}"))?;
        if let Some(link) = self.out.link.filter(|_| !cx.follows_captures()) {
            self.begin(link);
            self.write_out(cx);
        }
        Ok(())
    }

    /// Writes the header, if no packet has come, and the buffered packets, and closes the file.
    fn finish(&mut self) -> Result<(), String> {
        if self.out.writer.is_none() && self.out.file.is_some() {
            self.begin(self.out.link.unwrap_or(LinkType::Ethernet));
        }
        let result = self.flush().map_err(|error| self.text_of(&error));
        self.out.writer = None;
        match (self.out.fault.take(), result) {
            (Some(fault), _) => Err(fault),
            (None, Err(text)) => Err(text),
            (None, Ok(())) if self.out.left_out > 0 => Err(format!(
                "ToDump({}): {} packets with another link header than the file's were left out",
                self.filename, self.out.left_out
            )),
            (None, Ok(())) => Ok(()),
        }
    }

    /// Creates the writer of packets, with the file's header in its buffer. `link` is the link type in the
    /// header.
    fn begin(&mut self, link: LinkType) {
        let options = WriterOptions { nanoseconds: self.nanoseconds, snap_length: self.snap_length, link };
        (self.out.link, self.out.number) = (Some(link), link.number());
        let buffer = std::mem::take(&mut self.out.buffer);
        self.out.writer = self.out.file.take().map(|file| Writer::with_buffer(file, options, buffer));
    }

    /// Returns the packet's link type if the packet has to be left out, and `None` if it can be written.
    #[inline]
    fn other_link(&self, packet: &Packet) -> Option<LinkType> {
        if packet.link() == self.out.number { None } else { self.judge(packet) }
    }

    /// Returns the packet's link type if the packet has to be left out: it comes from a capture or interface
    /// of another link type than the file's. Never the case if ENCAP or USE_ENCAP_FROM is given.
    fn judge(&self, packet: &Packet) -> Option<LinkType> {
        let (own, link) = (self.out.link?, LinkType::from_number(packet.link()));
        // Ethernet is also the link type of packets that elements have made. Only a packet whose MAC header
        // annotation points to its start is known to be an Ethernet frame.
        let says = link != LinkType::Ethernet || packet.offset(Base::Mac) == Some(0);
        (says && !self.is_given && link != own).then_some(link)
    }

    #[cold]
    fn leave_out(&mut self, cx: &mut Cx<'_>, link: LinkType) {
        self.out.left_out += 1;
        if self.out.left_out == 1 {
            let own = self.out.link.map_or(String::new(), encapsulation::name);
            let other = encapsulation::name(link);
            cx.warn(format_args!(
                "packets of encapsulation {other} are left out of a file of encapsulation {own}; give them a \
                 file of their own"
            ));
        }
    }

    /// Writes the buffered packets to the file, and updates the number of packets that are in the file.
    fn flush(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.out.writer else { return Ok(()) };
        let result = writer.flush();
        self.out.written = writer.written();
        result
    }

    /// Writes the buffered packets to the file while the run continues. The first error is reported to the
    /// user at once, and the run ends as failed.
    fn write_out(&mut self, cx: &mut Cx<'_>) {
        if let Err(error) = self.flush()
            && self.out.fault.is_none()
        {
            self.fail(cx, &error);
        }
    }

    fn write_packet(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> io::Result<()> {
        let time = if packet.time().is_set() || self.force_time { packet.time() } else { cx.now() };
        let extra = if self.extra_length { packet.annotations().u32(Annotations::EXTRA_LENGTH) } else { 0 };
        let length = (packet.len() as u32).saturating_add(extra);
        match &mut self.out.writer {
            Some(writer) => writer.write(time.0, length, packet.chunks()),
            None => Ok(()),
        }
    }

    /// Returns the message for an error, with the number of packets that were taken and are not in the
    /// file.
    fn text_of(&self, error: &io::Error) -> String {
        let text = format!("ToDump({}): {}", self.filename, reason(error));
        match self.out.writer.as_ref().map_or(0, Writer::lost) {
            0 => text,
            lost => format!("{text}; {lost} packets that were taken are not in the file"),
        }
    }

    #[cold]
    fn fail(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        let text = self.text_of(error);
        cx.messages().remark(Severity::Error, format_args!("{text}"));
        self.out.fault = Some(text);
    }
}

impl Sink for ToDump {
    fn has_failed(&self) -> bool {
        self.out.fault.is_some()
    }

    fn write_batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if let Some(first) = batch.iter().next()
            && self.out.writer.is_none()
        {
            self.begin(self.out.link.unwrap_or(LinkType::from_number(first.link())));
            // On a live run, the header is written at once, for programs that read the file meanwhile.
            if !cx.follows_captures() {
                self.write_out(cx);
            }
        }
        let (mut failed, mut others) = (cx.batch(), cx.batch());
        batch.sift(
            |packet| {
                if let Some(link) = self.other_link(packet) {
                    self.leave_out(cx, link);
                    return if self.passes_on { Ok(()) } else { Err(DropReason::OtherLinkType) };
                }
                if self.out.fault.is_none() {
                    match self.write_packet(cx, packet) {
                        Ok(()) => return Ok(()),
                        Err(error) => self.fail(cx, &error),
                    }
                }
                if self.passes_on { Ok(()) } else { Err(DropReason::WriteError) }
            },
            // The push does not fail, because each of these batches has the capacity of the batch that the
            // packets come from.
            |packet, reason| match reason {
                DropReason::WriteError => drop(failed.push(packet)),
                _ => drop(others.push(packet)),
            },
        );
        cx.drop_all(failed, DropReason::WriteError);
        cx.drop_all(others, DropReason::OtherLinkType);
        if self.unbuffered {
            self.write_out(cx);
        } else {
            self.timer.start(cx, 0);
        }
    }
}

impl Element for ToDump {
    fn effects(&self) -> Effects {
        let (to, counts) = match self.passes_on {
            true => (Target::Output(0), Counting::Own),
            false => (Target::Send, Counting::None),
        };
        let mac = Field::HeaderOffset(Base::Mac);
        let seen = [Field::Length, Field::Payload, Field::TimeStamp, EXTRA_LENGTH, mac];
        Effects::cases(vec![Case::new(Filter::TRUE, to)]).observing(&seen).counting(counts)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for element in std::mem::take(&mut self.link_from) {
            let id = cx.place().element(&element).ok_or_else(|| format!("no element named '{element}'"))?;
            let call = Call::new(Some(id), "encap", "");
            let value = cx.handlers().read(&call)?;
            let link = encapsulation::parse(&value)
                .ok_or_else(|| format!("'{element}.encap' did not return a valid encapsulation type"))?;
            if self.out.link.is_some_and(|before| before != link) {
                return Err("source encapsulation types disagree".into());
            }
            self.out.link = Some(link);
        }
        self.is_given = self.out.link.is_some();
        if !is_handed_over(cx, &self.filename) {
            cx.check_unwritten(&self.filename)?;
            self.open(cx)?;
        }
        if !cx.graph().input_is_push(0) && !self.passes_on {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.take(cx, batch, self.passes_on)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.write_batch(cx, batch);
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        self.turn(cx, self.burst, false)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.timer.end();
        self.write_out(cx);
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.finish()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.settings(), std::mem::take(&mut self.out))))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (settings, out): (Settings, Output);
        (settings, out) = *state.downcast().map_err(|_| "the state of another class")?;
        if settings == self.settings() {
            self.out = out;
            self.write_out(cx);
            return Ok(());
        }
        let is_open = self.out.file.is_some() || self.out.writer.is_some();
        let own = std::mem::replace(&mut self.out, out);
        let result = self.finish();
        self.out = own;
        if !is_open {
            self.open(cx)?;
        }
        result
    }
}

const HANDLERS: &[Handler<ToDump>] = &[
    Handler::<ToDump>::read("count", |e, cx, _| {
        // Writes the buffer first, so that the count is true of the file even if the program is killed
        // afterwards.
        e.write_out(cx);
        Ok(e.out.written.saturating_sub(e.out.reset_at).to_string())
    })
    .summed(),
    Handler::get("filename", |e| if e.filename == "-" { "<stdout>".into() } else { e.filename.clone() }),
    Handler::set("reset_counts", |e, cx, _| {
        e.write_out(cx);
        e.out.reset_at = e.out.written;
        Ok(())
    }),
    Handler::set("flush", |e, cx, _| {
        e.write_out(cx);
        e.out.fault.clone().map_or(Ok(()), Err)
    }),
];
