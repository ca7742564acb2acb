//! # FlowCounter
//! Counts the packets and bytes of each flow, with the time stamps of its first and last packet.
//!
//! A flow is all packets with the same IPv4 or IPv6 addresses, protocol and ports, in one direction; with
//! BIDIRECTIONAL, in both. Ports are 0 for protocols that have none and for fragments; put IPReassembler
//! upstream if fragments are to count for their flow. The network header annotation says where the IP
//! header starts; without it, the packet is expected to start with a header of its link type. The number of
//! bytes is the packet's length at this element. Packets that are not IP pass and are counted separately.
//!
//! A flow without packets for TIMEOUT has ended: its next packet begins a new flow, handlers no longer show
//! it, and it is written to FILE. It is written when a later packet arrives (on a live run, the file is
//! written a second after that), or at the end of the run. When the table holds CAPACITY flows, the element
//! examines 64 of them, and a new flow replaces a flow among these that has ended. If none has ended, packets
//! of the new flow pass and are counted as overflows. TIMEOUT is measured by the clock; the time stamps in
//! reports are the packets' own (or the clock's, for packets without one).
//!
//! As CSV, a flow is a line: source, source_port, destination, destination_port, protocol (its number),
//! packets, bytes, first, last and, with BIDIRECTIONAL, reply_packets and reply_bytes; the first line has
//! these names. As JSON, flows are objects with the same names in one array. With BIDIRECTIONAL, a flow has
//! the direction of its first packet.
//!
//! A reload keeps the flows if CAPACITY, BIDIRECTIONAL, FILE and FORMAT stay the same. Otherwise all flows
//! end and are written to the old FILE. If FILE stays the same, it is continued; with another BIDIRECTIONAL
//! or FORMAT, a second document follows the first one in it.
//!
//! ## Usage
//! `FlowCounter([KEYWORDS])`
//!
//! ## Arguments
//! - `CAPACITY`: the largest number of flows at a time, about 145 bytes of memory each once they exist.
//!   Packets of further flows are counted as `overflows`.
//! - `TIMEOUT`: seconds after which an idle flow ends; 0 for never.
//! - `BIDIRECTIONAL`: true to count the two directions of a connection as one flow.
//! - `FILE`: a file to which every flow is written when it ends, or at the end of the run; `-` is standard
//!   output.
//! - `FORMAT`: the format of FILE, `csv` or `json`; if not given, `json` for a name that ends in `.json`,
//!   else `csv`.
//!
//! ## Handlers
//! - `count`: flows that have begun.
//! - `open`: flows that have not ended.
//! - `expired`: flows that have ended by TIMEOUT.
//! - `average`, `median`: the mean and the median of the numbers of packets of all flows, also of those that
//!   have ended. For the median, a flow of more than 65,535 packets counts as one of 65,535.
//! - `dump`: a line `PACKETS: FLOWS` for each number of packets that a flow has.
//! - `packets`: packets that were counted for a flow.
//! - `bytes`: bytes of the packets that were counted for a flow.
//! - `overflows`: packets of flows for which the table had no room.
//! - `overflow_bytes`: bytes of the packets in `overflows`.
//! - `others`: packets without a flow.
//! - `csv`: the flows that have not ended, in the order of their first packets; with `K [packets|bytes]`
//!   the K flows with the most packets or, if `packets` is not given, bytes.
//! - `json`: the flows of `csv`, as JSON.
//! - `top`: the largest flows as lines `SOURCE > DESTINATION PROTOCOL PACKETS BYTES`, ten unless
//!   `K [packets|bytes]` says otherwise; with BIDIRECTIONAL, packets and bytes of the replies follow.
//! - `clear`: ends all flows, and sets all counts to zero.
//!
//! ## Example
//! ```click
//! FastUDPFlows(RATE 0, LIMIT 1000, LENGTH 100, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2,
//! DSTIP 10.0.0.2,
//!         FLOWS 5, FLOWSIZE 10)
//!     -> flows :: FlowCounter(TIMEOUT 60)
//!     -> Discard;
//! DriverManager(pause, print "$(flows.count) flows, the largest: $(flows.top 1)", stop)
//! ```
//!
//! ## See also
//! AggregateIPFlows, AggregateCounter, IPRateMonitor, Counter

mod save;

use std::any::Any;
use std::fmt::Write as _;

use element::args::Args;
use element::class::ArgInfo;
use element::effects::{self, Field, FlowMarks, State, StateAccess, Support};
use element::five_tuple::{READS, five_tuple};
use element::metrics;
use element::runs::{RunList, Runs};
use element::{
    Batch, Class, Cx, Damaged, Effects, Element, Handler, Loaded, Packet, SavedState, StatePart, StateWriter,
    Timestamp, manual,
};
use flow::{FiveTupleKey, FlowId, FlowNotes, Inserted};
use packet::prefetch_line;

use super::record::{Form, Layout, Record, Row, Start, Wanted};
use crate::five_tuple::{Flows, Known, LOOKED_AT};
use crate::fixed::quotient;
use crate::memory::{refusal, reserved};
use crate::meter::histogram::Histogram;
use crate::report_file::ReportFile;

/// The element class `FlowCounter`.
pub static CLASS: Class = Class {
    name: "FlowCounter",
    manual: manual!("flow_counter.rs"),
    args: &[
        ArgInfo::keyword("CAPACITY", "unsigned", "1048576"),
        ArgInfo::keyword("TIMEOUT", "seconds", "300"),
        ArgInfo::keyword("BIDIRECTIONAL", "bool", "false"),
        ArgInfo::keyword("FILE", "file", ""),
        ArgInfo::keyword("FORMAT", "csv or json", ""),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("flows", &["open", "csv", "json", "top"]).on_disk(),
        StatePart::kept(
            "counts",
            &[
                "count",
                "average",
                "median",
                "dump",
                "packets",
                "bytes",
                "overflows",
                "overflow_bytes",
                "others",
                "expired",
            ],
        ),
        StatePart::kept("file", &[]).with_tables(&["report"]),
    ],
    saved_form: save::FORM,
    samples: &["", "CAPACITY 3, TIMEOUT 1ms, BIDIRECTIONAL true", "FILE $OUTPUT, FORMAT json, TIMEOUT 2us"],
    build: |args| {
        let capacity: usize = args.value("CAPACITY");
        let timeout: Timestamp = args.value("TIMEOUT");
        let replies = args.value::<bool>("BIDIRECTIONAL");
        let path: Option<String> = args.get("FILE");
        let layout = layout(args, path.as_deref());
        if timeout.0 < 0 {
            args.error("TIMEOUT: must not be negative");
        }
        args.finish()?;
        let flows = Flows::new(capacity).map_err(|error| args.error(format!("CAPACITY: {error}")));
        args.finish()?;
        let flows = flows.map_err(|()| element::Invalid)?;
        let room = reserved(capacity).and_then(|records| Ok((records, reserved(capacity)?)));
        let room = room.map_err(|error| args.error(refusal("CAPACITY", "flows", &error)));
        args.finish()?;
        let (records, starts) = room.map_err(|()| element::Invalid)?;
        let counts = Counts::default();
        let lengths = Histogram::new(MOST_PACKETS);
        let book = Book { records, starts, lengths, written: Form { layout, replies }, rows: 0, file: None };
        let notes = FlowNotes::default();
        let spare = Flows::new(1).ok();
        Ok(Box::new(FlowCounter { timeout, replies, path, flows, spare, book, counts, notes }))
    },
    ..Class::DEFAULT
};

/// Returns the format of FILE: the argument FORMAT or, without it, JSON if the name of the file ends in
/// `.json` and CSV otherwise.
fn layout(args: &mut Args<'_>, path: Option<&str>) -> Layout {
    let given: Option<String> = args.get("FORMAT");
    match given.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some("csv") => Layout::Csv,
        Some("json") => Layout::Json,
        Some(_) => {
            args.error("FORMAT: should be 'csv' or 'json'");
            Layout::Csv
        }
        None if path.is_some_and(|path| path.ends_with(".json")) => Layout::Json,
        None => Layout::Csv,
    }
}

/// The largest number of packets of a flow that the median and `dump` tell apart.
const MOST_PACKETS: usize = 65_535;

/// Returns the number of packets of a flow, of both directions.
fn length(record: &Record) -> usize {
    usize::try_from(record.packets.iter().sum::<u64>()).unwrap_or(usize::MAX)
}

/// The element's counts over all flows, which the handlers show (`flows` as `count`).
#[derive(Default)]
struct Counts {
    flows: u64,
    packets: u64,
    bytes: u64,
    overflows: u64,
    overflow_bytes: u64,
    others: u64,
    expired: u64,
}

/// The counts of the flows that have not ended, and the report file to which flows are written when they end.
struct Book {
    /// The record of each flow, at the index of the flow's id in the flow table.
    records: Vec<Record>,
    /// The start of each flow, at the index of its record.
    starts: Vec<Start>,
    /// The numbers of packets of the flows that have ended.
    lengths: Histogram,
    written: Form,
    /// The number of flows that have been written to the report file.
    rows: u64,
    file: Option<ReportFile>,
}

impl Book {
    /// Continues the report file of the book of the replaced element. If that book wrote another form
    /// (format, or packets of replies), its document is completed, and the document of this book follows in
    /// the same file.
    fn continue_file(&mut self, old: &mut Book) {
        let Some(mut file) = old.file.take() else { return };
        self.rows = old.rows;
        if self.written != old.written {
            write!(file, "{}{}", old.written.tail(old.rows == 0), self.written.head());
            self.rows = 0;
        }
        self.file = Some(file);
    }

    /// Completes and closes the report file, if there is one.
    fn close(&mut self) -> Result<(), String> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        write!(file, "{}", self.written.tail(self.rows == 0));
        file.close()
    }

    /// Ends a flow: marks its record as unused, and writes the record to the report file if there is one. The
    /// entry of the flow in the flow table stays.
    #[inline]
    fn end(&mut self, id: FlowId, key: &flow::FiveTupleKey) {
        let place = id.index() as usize;
        let Some(record) = self.records.get_mut(place) else { return };
        record.id = None;
        self.lengths.add(length(record));
        if let Some((file, start)) = self.file.as_mut().zip(self.starts.get(place)) {
            let row = Row { form: self.written, tuple: key.tuple(), flow: (record, start) };
            write!(file, "{}{row}", self.written.before(self.rows == 0));
            self.rows += 1;
        }
    }

    /// Returns the id, the record and the start of each flow that has not ended.
    fn open(&self) -> impl Iterator<Item = (FlowId, &Record, &Start)> {
        let flows = self.records.iter().zip(&self.starts);
        flows.filter_map(|(record, start)| Some((record.id?, record, start)))
    }

    /// Returns true if the id is the id of a flow that has not ended.
    #[inline]
    fn has(&self, id: FlowId) -> bool {
        self.records.get(id.index() as usize).is_some_and(|record| record.id == Some(id))
    }
}

/// The state that a FlowCounter hands to the element that replaces it in a reload.
struct Kept {
    settings: Settings,
    flows: Flows,
    book: Book,
    counts: Counts,
}

/// The settings of a FlowCounter: capacity, BIDIRECTIONAL, FILE and its format. Only with equal settings can
/// a new element continue with the flows of the replaced element.
type Settings = (usize, bool, Option<String>, Layout);

impl Kept {
    /// Ends all flows.
    fn end_flows(&mut self) {
        let mut open: Vec<(u64, FlowId)> =
            self.book.open().map(|(id, _, start)| (start.number, id)).collect();
        open.sort_unstable();
        for (_, id) in open {
            if let Some(key) = self.flows.table.key(id) {
                self.book.end(id, key);
            }
        }
    }
}

struct FlowCounter {
    /// The time without packets after which a flow ends; zero for never.
    timeout: Timestamp,
    replies: bool,
    path: Option<String>,
    flows: Flows,
    /// An empty table, which takes the place of `flows` when the element that replaces this element takes the
    /// flows over. It is made in advance, because no packet should wait until memory is mapped.
    spare: Option<Flows>,
    book: Book,
    counts: Counts,
    /// The flows by the flow marks that an upstream element has put on packets; a packet with a known mark
    /// needs no look-up.
    notes: FlowNotes<Note>,
}

/// The flow that belongs to a flow mark, and true if packets with the mark go in the direction opposite to
/// the flow's key. `None` if the mark is not known.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    flow: Option<(FlowId, bool)>,
}

impl FlowCounter {
    fn settings(&self) -> Settings {
        let capacity = self.flows.table.stats().capacity;
        (capacity, self.replies, self.path.clone(), self.book.written.layout)
    }

    /// Creates the report file, if FILE is given, and writes the start of its document.
    fn open(&mut self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = ReportFile::create(path)?;
        write!(file, "{}", self.book.written.head());
        self.book.file = Some(file);
        Ok(())
    }

    /// Writes the buffered text to the file, if there is one. Must be called when the file comes from the
    /// replaced element, because the timer of that element does not come with it.
    fn write_out(&mut self) {
        if let Some(file) = &mut self.book.file {
            file.write_out();
        }
    }

    /// Returns the id of the flow of a packet that was looked up with the result `known`; begins the flow if
    /// it is not in the table. `None` if the table has no room for a new flow.
    #[inline]
    fn find(&mut self, known: &Known, now: Timestamp) -> Option<FlowId> {
        let Known { key, hash, id, turned } = *known;
        match id.filter(|&id| self.book.has(id)) {
            Some(id) => self.see(id, turned, now),
            None => match self.insert(&key, hash, now)? {
                Inserted::Present(id) => self.see(id, turned, now),
                Inserted::New(id) => self.begin(id, turned, now),
            },
        }
        .into()
    }

    /// Records that a packet of a flow has arrived at `now`. If the flow has timed out, ends it and begins
    /// a new flow with the same id. Returns the id.
    #[inline]
    fn see(&mut self, id: FlowId, turned: bool, now: Timestamp) -> FlowId {
        let Some(record) = self.book.records.get_mut(id.index() as usize) else { return id };
        let seen = std::mem::replace(&mut record.seen, now);
        if self.timeout.is_set() && now - seen >= self.timeout {
            if let Some(&key) = self.flows.table.key(id) {
                self.book.end(id, &key);
            }
            self.counts.expired += 1;
            self.begin(id, turned, now);
        }
        id
    }

    /// Returns the flow that is stored under a packet's flow mark, if it is still in the table, and true if
    /// the packet goes in the direction opposite to the key of the flow.
    #[inline]
    fn noted(&self, packet: &Packet) -> Option<(FlowId, bool)> {
        let note = self.notes.get(packet.flow_mark()?)?;
        note.flow.filter(|&(id, _)| self.book.has(id))
    }

    /// Prefetches the flows of a batch's runs by their flow marks. Returns true if a flow is stored under the
    /// mark of each run; the flow may have ended.
    #[inline]
    fn prefetch_marked(&self, batch: &Batch, runs: &impl RunList) -> bool {
        let mut are_known = true;
        for packet in runs.of(batch, 0).filter_map(<[Packet]>::first) {
            let note = packet.flow_mark().and_then(|mark| self.notes.get(mark)).and_then(|note| note.flow);
            let Some((id, _)) = note else {
                are_known = false;
                continue;
            };
            prefetch_line(self.book.records.as_ptr().wrapping_add(id.index() as usize).cast());
        }
        are_known
    }

    /// Counts the packets of a batch. `runs` are the runs of the batch (consecutive packets of one flow), and
    /// `with_marks` is true if packets have flow marks.
    #[inline]
    fn count_all(&mut self, batch: &Batch, runs: &impl RunList, with_marks: bool, now: Timestamp) {
        if with_marks && self.prefetch_marked(batch, runs) {
            for run in runs.of(batch, 0) {
                self.count_run(run, now, |this, packet| this.flow_by_mark(packet, now));
            }
            return;
        }
        let FlowCounter { flows, notes, replies, .. } = self;
        let is_noted = |packet: &Packet| packet.flow_mark().is_some_and(|mark| notes.get(mark).is_some());
        flows.look_up(runs.of(batch, 0).filter_map(<[Packet]>::first), *replies, |packet| {
            if with_marks && is_noted(packet) { None } else { five_tuple(packet) }
        });
        for (number, run) in runs.of(batch, 0).enumerate() {
            self.count_run(run, now, |this, packet| match this.flows.known(number) {
                Some(known) if with_marks => Some((this.remember(packet, &known, now), known.turned)),
                Some(known) => Some((this.find(&known, now), known.turned)),
                None if with_marks => this.flow_by_mark(packet, now),
                None => None,
            });
        }
    }

    /// Counts the packets of a run. `flow` returns the flow of a packet, and true if the packet goes in the
    /// direction opposite to the key of the flow. It returns `None` if the packet has no five-tuple, and
    /// `None` in place of the flow if the table has no room for it. `flow` is called for the first packet,
    /// whose flow then counts for the whole run. Only if the table has no room, it is called for the next
    /// packet, too.
    #[inline(always)]
    fn count_run(
        &mut self,
        run: &[Packet],
        now: Timestamp,
        mut flow: impl FnMut(&mut FlowCounter, &Packet) -> Option<(Option<FlowId>, bool)>,
    ) {
        let mut rest = run;
        while let Some((first, others)) = rest.split_first() {
            let Some((id, turned)) = flow(self, first) else {
                self.counts.others += rest.len() as u64;
                return;
            };
            let Some(record) = id.and_then(|id| self.book.records.get_mut(id.index() as usize)) else {
                self.counts.overflows += 1;
                self.counts.overflow_bytes += first.len() as u64;
                rest = others;
                continue;
            };
            let time = |packet: &Packet| if packet.time().is_set() { packet.time() } else { now };
            let (mut bytes, mut times) = (first.len() as u64, (time(first), time(first)));
            for packet in others {
                bytes += packet.len() as u64;
                times = (times.0.min(time(packet)), times.1.max(time(packet)));
            }
            if record.may_be_first(times.0)
                && let Some(start) = id.and_then(|id| self.book.starts.get_mut(id.index() as usize))
            {
                start.first = start.first.min(times.0);
            }
            let packets = rest.len() as u64;
            record.add((packets, bytes), turned, times.1);
            self.counts.packets += packets;
            self.counts.bytes += bytes;
            return;
        }
    }

    /// Returns the flow of a packet by its flow mark or, if no flow that is still in the table is stored
    /// under the mark, by its five-tuple. The result is that of `flow` in [`count_run`](Self::count_run).
    #[inline(always)]
    fn flow_by_mark(&mut self, packet: &Packet, now: Timestamp) -> Option<(Option<FlowId>, bool)> {
        match self.noted(packet) {
            Some((id, turned)) => Some((Some(self.see(id, turned, now)), turned)),
            None => self.flow_by_tuple(packet, now),
        }
    }

    /// Looks up the flow of one packet by its five-tuple, and stores it under the packet's flow mark.
    #[cold]
    #[inline(never)]
    fn flow_by_tuple(&mut self, packet: &Packet, now: Timestamp) -> Option<(Option<FlowId>, bool)> {
        let known = self.flows.look_up_one(&five_tuple(packet)?, self.replies);
        Some((self.remember(packet, &known, now), known.turned))
    }

    /// Returns the flow of a packet as [`find`](Self::find) does, and stores it under the packet's flow
    /// mark, so that later packets of the flow need no look-up.
    fn remember(&mut self, packet: &Packet, known: &Known, now: Timestamp) -> Option<FlowId> {
        let id = self.find(known, now)?;
        if let Some(mark) = packet.flow_mark() {
            self.notes.set(mark, Note { flow: Some((id, known.turned)) });
        }
        Some(id)
    }

    /// Inserts a flow into the table. If the table is full, first ends flows that have timed out, among the
    /// [`LOOKED_AT`] entries that it examines. `None` if there is no room nevertheless.
    fn insert(&mut self, key: &FiveTupleKey, hash: u32, now: Timestamp) -> Option<Inserted> {
        if let Ok(inserted) = self.flows.table.insert(key, hash, now) {
            return Some(inserted);
        }
        self.expire(now, LOOKED_AT);
        self.flows.table.insert(key, hash, now).ok()
    }

    fn begin(&mut self, id: FlowId, turned: bool, now: Timestamp) -> FlowId {
        let place = id.index() as usize;
        let Book { records, starts, .. } = &mut self.book;
        if records.len() <= place {
            // Memory was reserved for the capacity of the table, so this does not allocate.
            records.resize(place + 1, Record::NONE);
            starts.resize(place + 1, Start::NONE);
        }
        records[place] = Record { id: Some(id), seen: now, turned, ..Record::NONE };
        starts[place] = Start { number: self.counts.flows, ..Start::NONE };
        self.counts.flows += 1;
        id
    }

    /// Ends flows that have timed out, among the next `at_most` entries of the table.
    #[inline]
    fn expire(&mut self, now: Timestamp, at_most: usize) {
        if self.timeout.is_set() {
            let (book, timeout) = (&mut self.book, self.timeout);
            let ended = self.flows.table.expire_unless(now, timeout, timeout, at_most, |id, key| {
                // Packets record their time in the record alone, so the table's time may be too early.
                let record = book.records.get(id.index() as usize)?;
                if now - record.seen < timeout {
                    return Some(record.seen);
                }
                book.end(id, key);
                None
            });
            self.counts.expired += ended as u64;
        }
    }

    /// Ends all flows for which `is_over` is true of the time of their last packet, and removes them from
    /// the table. Flows end in the order in which they began or, if there is no memory for a list of them,
    /// in the order of the table. Returns the number of flows that have ended.
    fn end_where(&mut self, is_over: impl Fn(Timestamp) -> bool) -> u64 {
        let (book, table) = (&mut self.book, &mut self.flows.table);
        let count = table.stats().entries;
        let mut over: Vec<(u64, FlowId)> = reserved(count).unwrap_or_default();
        let has_room = over.capacity() >= count;
        let mut ended = 0;
        for place in 0..book.records.len() {
            let Record { id: Some(id), seen, .. } = book.records[place] else { continue };
            if !is_over(seen) {
                continue;
            }
            ended += 1;
            if has_room {
                over.push((book.starts[place].number, id));
            } else if let Some(key) = table.remove(id) {
                book.end(id, &key);
            }
        }
        over.sort_unstable_by_key(|&(number, _)| number);
        for (_, id) in over {
            if let Some(key) = table.remove(id) {
                book.end(id, &key);
            }
        }
        ended
    }

    /// Ends all flows that have timed out, so that handlers do not show them.
    fn catch_up(&mut self, now: Timestamp) {
        let timeout = self.timeout;
        if timeout.is_set() {
            self.counts.expired += self.end_where(|seen| now - seen >= timeout);
        }
    }

    /// Returns a document for a handler: the flows that have not ended and that `wanted` asks for, in the
    /// format `layout`.
    fn document(&self, layout: Layout, wanted: Wanted) -> String {
        let form = Form { layout, replies: self.replies };
        let mut text = form.head().to_string();
        let chosen = wanted.choose(self.book.open().map(|(_, record, start)| (record, start)));
        for (number, &flow) in chosen.iter().enumerate() {
            let key = flow.0.id.and_then(|id| self.flows.table.key(id));
            let Some(tuple) = key.map(FiveTupleKey::tuple) else { continue };
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{}", form.before(number == 0), Row { form, tuple, flow });
        }
        text.push_str(form.tail(chosen.is_empty()));
        text
    }
}

impl Element for FlowCounter {
    fn effects(&self) -> Effects {
        let state = State {
            table: "flows",
            key: READS.to_vec(),
            both_directions: self.replies,
            access: StateAccess::Soft,
        };
        let (state, counts) = (vec![state], effects::Counting::Own);
        let pass = Effects {
            state,
            counts,
            support: Support { marks: FlowMarks::Takes, finds_runs: true, ..Support::default() },
            ..Effects::pass()
        };
        let effects = pass.observing(&READS).observing(&[Field::TimeStamp]);
        // All flows are written to a single file, so with FILE one worker must handle all packets of the
        // element.
        if self.path.is_some() { effects.sharing("report") } else { effects }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.flows.seed(cx.hash_seed());
        let path = self.path.as_deref();
        let is_handed_over = path.map(|path| ReportFile::is_handed_over(cx, "FILE", path)).transpose()?;
        match is_handed_over {
            Some(true) => Ok(()),
            Some(false) | None => self.open(),
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        let mut runs = Runs::default();
        cx.find_runs(batch, &mut runs);
        let with_marks = cx.graph().uses_flow_marks();
        match runs.as_singles() {
            Some(singles) => self.count_all(batch, &singles, with_marks, now),
            None => self.count_all(batch, &runs, with_marks, now),
        }
        self.expire(now, batch.len());
        if let Some(file) = &mut self.book.file {
            file.set_timer(cx, 0);
        }
    }

    fn timer(&mut self, _cx: &mut Cx<'_>, _token: u32) {
        self.write_out();
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        self.end_where(|_| true);
        self.book.close()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let flows = self.spare.take().or_else(|| Flows::new(1).ok())?;
        let (records, starts) = (Vec::new(), Vec::new());
        let lengths = Histogram::new(0);
        let book = Book { records, starts, lengths, written: self.book.written, rows: 0, file: None };
        Some(Box::new(Kept {
            settings: self.settings(),
            flows: std::mem::replace(&mut self.flows, flows),
            book: std::mem::replace(&mut self.book, book),
            counts: std::mem::take(&mut self.counts),
        }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let mut kept: Kept = *state.downcast().map_err(|_| "the state of another class")?;
        if kept.settings == self.settings() {
            cx.dispose(std::mem::replace(&mut self.flows, kept.flows));
            cx.dispose(std::mem::replace(&mut self.book, kept.book));
            self.counts = kept.counts;
            self.write_out();
            return Ok(());
        }
        kept.end_flows();
        let (_, _, path, _) = &kept.settings;
        if *path == self.path {
            self.book.continue_file(&mut kept.book);
        }
        self.write_out();
        let closed = kept.book.close();
        // The new file is opened even if closing the old file has failed, so that flows are reported.
        let opened = if self.book.file.is_none() { self.open() } else { Ok(()) };
        closed.and(opened)?;
        Err("it counts other flows now, so all flows have ended".into())
    }

    fn save_state(&mut self, _cx: &mut Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        self.save(from, out)
    }

    fn load_state(&mut self, cx: &mut Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        self.load(cx, state)
    }
}

const HANDLERS: &[Handler<FlowCounter>] = &[
    Handler::count("count", |e| e.counts.flows),
    Handler::<FlowCounter>::read("open", |e, cx, _| {
        e.catch_up(cx.now());
        Ok(e.flows.table.stats().entries.to_string())
    })
    .summed(),
    Handler::<FlowCounter>::read("expired", |e, cx, _| {
        e.catch_up(cx.now());
        Ok(e.counts.expired.to_string())
    })
    .summed(),
    Handler::get("average", |e| quotient(e.counts.packets, e.counts.flows)),
    Handler::read("median", |e, _, _| Ok(e.lengths().median().to_string())),
    Handler::<FlowCounter>::read("dump", |e, _, _| Ok(e.lengths().dump())).summed(),
    // The handler `packets` does not first end flows that have timed out, as other handlers do: the number of
    // packets does not depend on them.
    Handler::count("packets", |e| e.counts.packets),
    Handler::<FlowCounter>::count("bytes", |e| e.counts.bytes).metric(metrics::BYTES),
    Handler::<FlowCounter>::count("overflows", |e| e.counts.overflows).metric(metrics::OVERFLOWS),
    Handler::count("overflow_bytes", |e| e.counts.overflow_bytes),
    Handler::count("others", |e| e.counts.others),
    Handler::<FlowCounter>::read_param("csv", |e, cx, param| e.list(cx, Layout::Csv, param, None)).listed(),
    Handler::<FlowCounter>::read_param("json", |e, cx, param| e.list(cx, Layout::Json, param, None)).listed(),
    Handler::<FlowCounter>::read_param("top", |e, cx, param| e.list(cx, Layout::Lines, param, Some(10)))
        .listed(),
    Handler::act("clear", |e| {
        e.end_where(|_| true);
        e.counts = Counts::default();
        e.book.lengths = Histogram::new(MOST_PACKETS);
    }),
];

impl FlowCounter {
    /// Returns the numbers of packets of all flows.
    fn lengths(&self) -> Histogram {
        let mut lengths = self.book.lengths.clone();
        self.book.open().for_each(|(_, record, _)| lengths.add(length(record)));
        lengths
    }

    fn list(
        &mut self,
        cx: &Cx<'_>,
        layout: Layout,
        param: &str,
        usual: Option<usize>,
    ) -> Result<String, String> {
        self.catch_up(cx.now());
        Ok(self.document(layout, Wanted::parse(param, usual)?))
    }
}
