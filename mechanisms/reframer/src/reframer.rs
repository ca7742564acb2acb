//! # Reframer
//! Holds packets for microseconds so that each flow leaves in bursts.
//!
//! Packets wait in a list of their flow until the list holds MAX_BURST packets or MAX_BYTES bytes, or the
//! first packet has waited for DELAY. Flows that leave together leave in the order of PRIORITY. Flows are
//! TCP, UDP and SCTP by addresses and ports over IPv4 and IPv6, ICMP queries by identifier and ESP by SPI,
//! each in its VLANs; other packets pass at once. The order of packets within a flow is kept, and at the end
//! of a run no packet is lost. Where there is no room for a flow, its packets pass; where there is none for a
//! packet, it leaves at once, after the packets that its flow holds.
//!
//! The flow of two kinds of packets is not known: fragments, and IPv6 packets whose extension headers are
//! truncated, or have more than 256 bytes, or are more than 16. Such a packet waits for DELAY, or for the
//! longest delay if there are several (DELAYS, SLO). All packets that arrive from the same source address to
//! the same destination address in the same VLANs wait with it. These packets leave together, in order of
//! arrival, even if MAX_BURST, MAX_BYTES, BYPASS, ELEPHANTS or SLO would release some of them sooner. So
//! fragments keep their place in their flow, in any order of arrival, and no packet overtakes a fragment.
//! Packets between other hosts are not affected. An IPv6 fragment that is the whole packet (RFC 6946) counts
//! as an unfragmented packet of its flow.
//!
//! With TUNNELS, the flow of a packet in a tunnel is the inner flow: its addresses and ports, its VLANs, the
//! outer addresses, and the VNI, TEID or GRE key. This holds for VXLAN (UDP port 4789), GENEVE (6081), GTP-U
//! (2152), GRE with IP or Ethernet, and IP in IP, for one tunnel: what an inner packet itself carries does
//! not count. Inner packets without ports are told apart by addresses and protocol. If the inner flow is not
//! known, the rule above holds for the packets of this tunnel between the inner addresses. Other packets in
//! VXLAN and GENEVE, and other messages of GTP-U, belong to their UDP flow; other contents of tunnels, such
//! as Ethernet in GTP-U, belong to the tunnel. Receivers of GRE and GTP-U drop or sort packets by sequence
//! numbers, so all packets of a tunnel wait with one that has such a number, in the header or in an extension
//! header (PDCP, NR RAN container). If a tunnel gets another TEID or key without an end marker, new packets
//! may overtake those of the old one. The filters of BYPASS and DELAYS look at the outer headers; the default
//! of BYPASS means an inner SYN. REORDER and COMPRESS leave packets in tunnels alone. The default is false,
//! because packets of one outer flow may change places, and because elements that see only the outer headers
//! gain nothing.
//!
//! With QUIC_ID, a flow of QUIC to a server is a five-tuple with a destination connection id, so that
//! connections that share a five-tuple, as those of a proxy may, leave in bursts of their own. The id is read
//! in short headers, which do not contain its length. Packets of different ids may change places, which does
//! no harm, because connections that share a five-tuple do not know of each other. Packets of one connection
//! do not change places when its id changes to one that is not remembered: datagrams with long headers,
//! whose first id is a random number of the client, and the first datagram with any id, are packets whose
//! flow is unknown, and all packets of the five-tuple wait with them. A connection that returns to an id
//! within ten seconds, or uses two in turn, may be reordered. All other datagrams to port 443 without the
//! form of QUIC, such as those of a VPN, have an unknown flow too: they wait for the longest delay, without
//! MAX_BURST, BYPASS and ELEPHANTS. The two directions are separate flows; datagrams from servers are told
//! apart by five-tuple. After a migration the five-tuple is another one, and so is the flow. A length that is
//! too small joins flows; one that is too large gives each packet a flow, so that packets wait for DELAY and
//! fill the memory of flows. Each id is a flow of CAPACITY; datagrams with forged ids can fill it.
//!
//! A flow takes memory while it holds packets. PRIORITY SHORTEST_FLOW and OLDEST_FLOW, COMPRESS, SLO and
//! QUIC_ID also need to remember flows between their bursts: then a flow is forgotten after ten seconds
//! without a burst, or sooner if there is no room for new flows.
//!
//! ## Usage
//! `Reframer([DELAY, KEYWORDS])`
//!
//! ## Arguments
//! - `DELAY`: the maximum time that a packet waits, unless DELAYS or SLO gives another; a number without a
//!   unit is microseconds.
//! - `DELAYS`: delays for classes of traffic, in quotes if there are several: filters in the language of
//!   IPFilter, each with a delay after it, separated by commas, or `none`. A number without a unit is
//!   microseconds. The delay may be longer than DELAY. A packet waits for the delay of the first filter that
//!   it matches, or otherwise as DELAY or SLO says. The first packet of a burst decides for the burst. So the
//!   order within a flow is kept, and with a filter that looks at more than the flow, a packet may wait for
//!   the delay of another class. Packets whose flow is unknown wait for the longest of all delays. At most 8
//!   filters.
//! - `MAX_BURST`: the maximum number of packets of a flow that leave together.
//! - `MAX_BYTES`: the number of bytes of a flow's packets from which on they leave together. A burst may have
//!   more bytes, by less than one packet. `off` for no limit.
//! - `MAX_TX_BURST`: the maximum number of packets per batch that leaves, of one or several flows, up to 256.
//! - `PRIORITY`: the flow that goes first of the flows that leave together: SHORTEST_FLOW (the flow that has
//!   sent the fewest packets that were held), OLDEST_FLOW (the flow that was seen first) or LONGEST_WAIT (the
//!   flow whose first packet has waited longest).
//! - `REORDER`: true to sort TCP segments that leave together into the order in which they were sent.
//! - `COMPRESS`: true to drop ACKs without data that the next ACK of their burst makes superfluous.
//! - `MAX_ACKS`: with COMPRESS, the maximum number of ACKs for which one ACK stands, itself included. A
//!   sender that gets fewer ACKs sends in larger bursts, and opens its window more slowly (RFC 3449).
//! - `BYPASS`: packets that are not held, as a filter in the language of IPFilter, or `none`. Packets that
//!   the flow holds leave before them.
//! - `ELEPHANTS`: the number of packets from which on a flow is held; packets of smaller flows pass. The
//!   weight of packets is halved each second. A sketch of fixed size counts them: it misses no heavy flow and
//!   mistakes few other flows for heavy flows. `off` holds packets of all flows.
//! - `SLO`: the upper bound of the delay that waiting adds. It replaces DELAY by a delay for each flow:
//!   packets wait up to seven eighths of this time if the packets of the flow have followed each other that
//!   closely so far, and otherwise not at all. `off` holds all packets for DELAY.
//! - `MIN_BURST`: the mean number of packets per burst below which the element pauses, because holding
//!   packets costs more than it saves. If 1024 bursts have fewer packets on average, the next 65,536 packets
//!   pass at once, without a look-up of their flows; they do not count for ELEPHANTS and SLO. Then the
//!   element holds packets again, and counts the next 1024 bursts. Packets that bypass and leave alone do not
//!   count as bursts, nor do bursts whose delay is 0 by DELAYS or DELAY. With 1 or less the element never
//!   pauses; nor does it with REORDER or COMPRESS, or if packets do not wait. Writing to a handler of an
//!   argument ends a pause.
//! - `TUNNELS`: true to tell flows in VXLAN, GENEVE, GTP-U, GRE and IP in IP apart by the inner headers.
//! - `QUIC_ID`: the length in bytes, 1 to 20, of the connection ids that servers of QUIC choose, by which
//!   datagrams to UDP port 443 are told apart further than by five-tuple; `off` for the five-tuple alone. The
//!   length is in a server's configuration, and in the long headers that it sends, as that of its source id.
//! - `CAPACITY`: the maximum number of flows that hold packets at a time, in about 120 bytes each, and the
//!   maximum number of flows that are remembered, in about 100 bytes each. Packets of further flows pass at
//!   once, and are counted as `overflows`; those of further flows of QUIC wait with their five-tuple.
//! - `MAX_HELD`: the maximum number of packets that are held at a time, each in its slot of the packet pool.
//!   A flow also leaves early when more bursts of flows of equal delay have begun since its first packet than
//!   65,536, and than four times the number of held packets.
//!
//! ## Handlers
//! - `delay`, `max_burst`, `max_bytes`, `max_tx_burst`, `reorder`, `compress`, `bypass`: the arguments.
//! - `priority`: the argument. Writing it releases all packets first.
//! - `elephants`, `slo`, `max_held`, `min_burst`, `max_acks`: the arguments.
//! - `tunnels`, `quic_id`: the arguments. Writing them releases all packets first. Checks of the order of
//!   elements, and verification, rely on the arguments, not on values that are written later.
//! - `delays`: the argument. Writing it releases all packets first, and sets `burst_sizes` and `burst_times`
//!   to zero.
//! - `capacity`: the argument. Writing it releases all packets first.
//! - `slf_in`, `slf_out`: the spatial locality factor of the packets that arrived and of the packets that
//!   left: TCP and UDP packets per run of packets of one flow.
//! - `mean_batch`: the mean number of packets per burst of a flow.
//! - `hold_times`: the distribution of the times for which packets were held: lines with a power of two, and
//!   the number of packets with times from half of it to below it. The times are too long if packets of one
//!   burst arrived more than four seconds after each other.
//! - `burst_sizes`: the distribution of the numbers of packets per burst, for each class of DELAYS: lines
//!   with the class (the number of its filter, or `rest` for what no filter matches and for packets whose
//!   flow is unknown, whatever matches), a power of two, and the number of bursts with numbers from half of
//!   it to below it.
//! - `burst_times`: with DELAYS, in the same form, the distribution of the times for which the first packets
//!   of bursts waited.
//! - `releases`: the number of bursts for each reason to leave.
//! - `waited_in_vain`: the mean time that bursts waited after their last packet had arrived.
//! - `flows`: the number of flows that are remembered, or, if no argument needs that, that hold packets.
//! - `active`: the number of flows that hold packets.
//! - `held`: the number of packets that are held.
//! - `paused`: the number of packets that passed in pauses (MIN_BURST). No other count includes them.
//! - `passed`: the number of packets that were not held because they belong to no flow, there was no room, or
//!   they bypass and their flow holds no packets.
//! - `overflows`: the number of these packets for which there was no room, plus the packets that left at once
//!   because MAX_HELD was reached.
//! - `reordered`: the number of bursts in which REORDER moved segments.
//! - `mended`: the number of segments that arrived after later segments of their burst, and left before them.
//! - `coalesced`: the number of ACKs that COMPRESS dropped.
//! - `flush`: releases all packets.
//! - `reset`: sets all counts to zero, and begins a new sample (MIN_BURST).
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Reframer(64us, BYPASS none) -> Discard
//! ```
//!
//! DNS does not wait, TCP waits for 100 us, and all else for 20 us:
//!
//! ```click
//! InfiniteSource(LIMIT 100) -> Reframer(20us, DELAYS "udp port 53 0us, tcp 100us") -> Discard
//! ```
//!
//! ## See also
//! SFMaker, Batcher, IPFilter, DelayUnqueue

mod decisions;
mod handlers;
mod holding;
mod unknown;

use std::any::Any;

use element::class::ArgInfo;
use element::effects::{
    Case, Depends, Field, Filter, Hold, Order, Predicate, State, StateAccess, Support, Target,
};
use element::runs::PlainLayout;
use element::{
    Args, Base, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, StatePart, Timestamp, manual,
};
use flow::{KeyHasher, Sketch};
use packet::BATCH_CAPACITY;
use wire::layers::FLOW_HEADERS;

use crate::delays::Delays;
use crate::finder::Finder;
use crate::lists::{Flow, Lists, ReleaseReason, UNKNOWN_FLOWS};
use crate::memory::Memory;
use crate::outgoing::{Outgoing, Sorting, StateCollector, send};
use crate::pause::Pause;
use crate::quic::QuicId;
use crate::settings::{Bypass, Count, Limit, Micros, ReframerSettings, SPARSE, Slo, batch_length};
use crate::statistics::{Burst, Statistics};
use handlers::HANDLERS;
pub(crate) use handlers::OF_SF_MAKER;
use holding::Found;

/// The element class `Reframer`.
pub static CLASS: Class = Class {
    name: "Reframer",
    processing: "h/h",
    manual: manual!("reframer.rs"),
    args: &[
        ArgInfo::positional("DELAY", "microseconds", "64us"),
        ArgInfo::keyword("DELAYS", "pattern", Delays::NONE),
        ArgInfo::keyword("MAX_BURST", "unsigned", "32"),
        ArgInfo::keyword("MAX_BYTES", "unsigned", "off"),
        ArgInfo::keyword("MAX_TX_BURST", "unsigned", "32"),
        ArgInfo::keyword("PRIORITY", "SHORTEST_FLOW|OLDEST_FLOW|LONGEST_WAIT", "LONGEST_WAIT"),
        ArgInfo::keyword("REORDER", "bool", "false"),
        ArgInfo::keyword("COMPRESS", "bool", "false"),
        ArgInfo::keyword("MAX_ACKS", "unsigned", "8"),
        ArgInfo::keyword("BYPASS", "pattern", Bypass::SYN),
        ArgInfo::keyword("ELEPHANTS", "unsigned", "off"),
        ArgInfo::keyword("SLO", "microseconds", "off"),
        ArgInfo::keyword("MIN_BURST", "real", "1.1"),
        ArgInfo::keyword("TUNNELS", "bool", "false"),
        ArgInfo::keyword("QUIC_ID", "unsigned", "off"),
        ArgInfo::keyword("CAPACITY", "unsigned", "65536"),
        ArgInfo::keyword("MAX_HELD", "unsigned", "65536"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::drained(
            "packets",
            &[
                "held",
                "active",
                "releases",
                "hold_times",
                "burst_times",
                "burst_sizes",
                "mean_batch",
                "slf_out",
                "waited_in_vain",
            ],
        ),
        StatePart::lost("flows", "each flow is known again with its next packet", &["flows"]),
        StatePart::kept(
            "counts",
            &["slf_in", "passed", "paused", "overflows", "mended", "coalesced", "reordered"],
        ),
    ],
    samples: &[
        "",
        "BYPASS none, MAX_BURST 2, PRIORITY SHORTEST_FLOW",
        "DELAY 5us, BYPASS udp or icmp, PRIORITY OLDEST_FLOW, MAX_TX_BURST 3",
        "REORDER true, COMPRESS true, BYPASS none",
        "COMPRESS true, MAX_ACKS 2, BYPASS none",
        "CAPACITY 2, MAX_HELD 3, DELAY 1",
        "DELAY 0",
        "ELEPHANTS 2, BYPASS none",
        "SLO 20us, BYPASS none",
        "MIN_BURST 40, BYPASS none",
        "MAX_BYTES 100, BYPASS none",
        "TUNNELS true, MAX_BURST 3",
        "QUIC_ID 8, TUNNELS true, BYPASS none",
        "DELAYS \"udp 0us, ip dscp 46 5us\", BYPASS none",
        "DELAYS tcp 5us, MAX_BURST 3",
    ],
    reconfigures: true,
    build: |args| {
        let settings = ReframerSettings {
            delay: args.value::<Micros>("DELAY").0,
            delays: args.value("DELAYS"),
            max_burst: args.value::<Count>("MAX_BURST").0,
            max_bytes: args.value::<Limit>("MAX_BYTES").0,
            max_tx_burst: batch_length(args.value::<Count>("MAX_TX_BURST").0),
            priority: args.value("PRIORITY"),
            reorder: args.value("REORDER"),
            compress: args.value("COMPRESS"),
            bypass: args.value("BYPASS"),
            elephants: args.value::<Limit>("ELEPHANTS").0,
            slo: args.value::<Slo>("SLO").0,
            min_burst: args.value("MIN_BURST"),
            max_acks: args.value::<Count>("MAX_ACKS").0,
            tunnels: args.value("TUNNELS"),
            quic_id: args.value::<QuicId>("QUIC_ID").0,
            capacity: args.value::<Count>("CAPACITY").0,
            max_held: args.value::<Count>("MAX_HELD").0,
            first_passes: false,
            flush_ends: false,
            bypass_after: 0,
        };
        build(args, settings)
    },
    ..Class::DEFAULT
};

/// Makes an element from its settings, for Reframer and SFMaker. Errors are reported to `args`.
pub(crate) fn build(args: &mut Args<'_>, settings: ReframerSettings) -> Result<Box<dyn Element>, Invalid> {
    args.finish()?;
    match Reframer::new(settings) {
        Ok(reframer) => Ok(Box::new(reframer)),
        Err(text) => {
            args.error(format!("CAPACITY: {text}"));
            Err(Invalid)
        }
    }
}

/// The element behind both classes, Reframer and SFMaker; they differ in arguments and handlers.
pub struct Reframer {
    settings: ReframerSettings,
    finder: Finder,
    lists: Lists<Packet>,
    /// The offsets of headers of most packets: a packet with them has the trait
    /// [`IN_LAYOUT`](crate::outgoing::IN_LAYOUT). `None` until a packet has a layout.
    layout: Option<PlainLayout>,
    /// The flows of the packets of a batch, by their place in it.
    found: Box<[Found; BATCH_CAPACITY]>,
    /// The memory of flows, in use if `remembers` is true.
    memory: Memory,
    sorting: Sorting,
    statistics: Statistics,
    pause: Pause,
    /// True if [`asks_about`](Reframer::asks_about) and [`has_failed`](Reframer::has_failed) must be called
    /// for each packet, because the settings use more than TCP flags to decide which packets are held.
    asks: bool,
    /// True if the settings need [`Memory`].
    remembers: bool,
    /// True if the settings allow that a burst whose packets are alike is only counted, numbered and sent.
    is_plain: bool,
    /// The TCP flags that make a packet bypass: a packet with any of them is not held.
    bypassed_flags: u8,
    /// The number of bytes in each list, by the number of the list, if MAX_BYTES is set. Lists with numbers
    /// from the length on have none.
    bytes: Vec<u32>,
    /// The packet counts of all flows (a sketch), present if only heavy flows are held; `halved` is the
    /// time of the last halving of the counts.
    sketch: Option<Box<Sketch>>,
    halved: Timestamp,
    /// The time for which the timer is set; `None` if it is not set.
    armed: Option<Timestamp>,
}

/// The interval after which the counts of the sketch are halved.
const HALF_LIFE: Timestamp = Timestamp::from_secs(1);
/// The number of cache lines of the sketch: 256 KiB.
const SKETCH: usize = 4096;

fn sketch_for(settings: &ReframerSettings) -> Option<Box<Sketch>> {
    (settings.elephants > 0).then(|| Box::new(Sketch::new(SKETCH)))
}

fn finder_for(settings: &ReframerSettings, hasher: KeyHasher) -> Finder {
    Finder::new(hasher, settings.tunnels, settings.quic_id)
}

fn lists_for(settings: &ReframerSettings) -> Result<Lists<Packet>, String> {
    Lists::new(settings.capacity, &settings.all_delays()).map_err(|error| error.to_string())
}

impl Reframer {
    fn new(settings: ReframerSettings) -> Result<Reframer, String> {
        let memory = Memory::new(settings.capacity).map_err(|error| error.to_string())?;
        let longest = settings.max_burst.min(1024) + 1;
        let mut reframer = Reframer {
            finder: finder_for(&settings, KeyHasher::default()),
            lists: lists_for(&settings)?,
            layout: None,
            found: Box::new([Found::NONE; BATCH_CAPACITY]),
            memory,
            sorting: Sorting::new(longest),
            statistics: Statistics::default(),
            pause: Pause::default(),
            bytes: Vec::new(),
            sketch: sketch_for(&settings),
            halved: Timestamp::ZERO,
            armed: None,
            asks: false,
            remembers: false,
            is_plain: false,
            bypassed_flags: 0,
            settings,
        };
        reframer.note_settings();
        Ok(reframer)
    }

    /// Derives `asks`, `remembers`, `is_plain` and `bypassed_flags` from the settings, to save work for each
    /// packet, and ends a pause. Must follow each change of the settings.
    fn note_settings(&mut self) {
        let ReframerSettings { slo, bypass_after, bypass, .. } = &self.settings;
        self.asks = slo.is_set() || *bypass_after > 0 || bypass.looks_anywhere() || self.sketch.is_some();
        if self.remembers
            && !self.settings.needs_memory()
            && let Ok(memory) = Memory::new(self.settings.capacity)
        {
            // What is remembered now would be out of date when it is needed again.
            self.memory = memory;
        }
        self.remembers = self.settings.needs_memory();
        self.is_plain = self.settings.leave_plainly();
        self.bypassed_flags = bypass.flags();
        self.pause.restart(&self.statistics);
    }

    /// Forwards a packet at once. The caller knows that its flow holds no packets that it could overtake.
    /// `hash` is the hash of the flow for the SLF, `None` if the packet does not count.
    #[inline(never)]
    fn pass(&mut self, cx: &mut Cx<'_>, out: &mut Batch, mut packet: Packet, hash: Option<u32>) {
        self.statistics.passed += 1;
        if let Some(hash) = hash {
            self.statistics.locality_out.see(hash.into(), 1);
        }
        cx.number_run(out.last(), &mut packet);
        send(cx, out, self.settings.max_tx_burst, packet);
    }

    /// Forwards the packets of a batch in a pause, when no packets are held. Returns the last batch.
    #[inline(never)]
    fn pass_all(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        self.statistics.paused += batch.len() as u64;
        cx.skip_runs(&mut batch);
        if batch.len() <= self.settings.max_tx_burst {
            return batch;
        }
        let mut out = cx.batch();
        batch.drain().for_each(|packet| send(cx, &mut out, self.settings.max_tx_burst, packet));
        cx.recycle(batch);
        out
    }

    /// Sends the packets that were released and the packets that are due, into `batch` and further batches.
    #[inline]
    fn let_go(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        let Reframer { settings, lists, statistics, sorting, finder, memory, .. } = self;
        let (_, before) = statistics.waiting();
        let priority = settings.priority;
        let is_plain = self.is_plain;
        let mut out = Outgoing { cx, batch, now, is_plain, settings, statistics, sorting, finder, memory };
        lists.send_due(now, priority, &mut out);
        statistics.rounds += u64::from(statistics.waiting().1 > before);
    }

    /// Releases and sends all held packets, with [`ReleaseReason::Drain`].
    fn flush(&mut self, cx: &mut Cx<'_>) {
        self.lists.release_all(ReleaseReason::Drain, self.settings.priority);
        self.finish_round(cx);
    }

    /// Sends the packets that are released or due outside of a push: by a timer or a handler. Sets the
    /// timer.
    fn finish_round(&mut self, cx: &mut Cx<'_>) {
        let mut out = cx.batch();
        self.let_go(cx, &mut out);
        cx.emit(0, out);
        self.arm(cx);
    }

    /// Sets the timer for the time at which the next flow is due. A timer that is set for an earlier time
    /// stays: when it runs, it sets the next timer.
    #[inline]
    fn arm(&mut self, cx: &mut Cx<'_>) {
        if let Some(due) = self.lists.next_due()
            && self.armed.is_none_or(|armed| due < armed)
        {
            cx.set_timer(0, due);
            self.armed = Some(due);
        }
    }

    /// True if filters of the settings may read any byte of a packet.
    fn looks_anywhere(&self) -> bool {
        self.settings.bypass.looks_anywhere() || self.settings.delays.exist()
    }

    /// Returns the packet fields from which the element determines flow and bypass, for its declaration.
    fn reads(&self) -> Vec<Field> {
        let bytes = |base| Field::Bytes { base, offset: 0, length: FLOW_HEADERS };
        let mut reads = vec![bytes(Base::Data), bytes(Base::Mac), bytes(Base::Network), Field::Length];
        reads.extend([Base::Data, Base::Mac, Base::Network].map(Field::HeaderOffset));
        if self.settings.reorder || self.settings.compress || self.looks_anywhere() {
            reads.push(Field::Payload);
        }
        reads
    }
}

/// The state that a new instance takes over when the graph is changed: the held packets, which it emits at
/// once, and the counts.
struct Inherited {
    packets: Vec<(Packet, Timestamp)>,
    /// The bursts of `packets`.
    bursts: Vec<Burst>,
    statistics: Statistics,
    /// The argument DELAYS of the old instance: its filters are the classes by which bursts are counted.
    delays: String,
}

impl Element for Reframer {
    fn effects(&self) -> Effects {
        let mut cases = vec![Case::new(Filter::TRUE, Target::Hold(0))];
        if self.settings.compress {
            let superfluous =
                Filter::Leaf(Predicate::Opaque { about: "superfluous ACK", reads: self.reads() });
            cases.insert(0, Case::new(superfluous, Target::Drop(DropReason::Coalesced)));
        }
        let table = State {
            table: "flows",
            key: self.reads(),
            both_directions: false,
            access: StateAccess::EveryPacket,
        };
        let effects = Effects {
            support: Support { finds_runs: true, ..Support::default() },
            hold: Hold::PerFlow,
            state: vec![table],
            // Like all of the declaration, the order is that of the settings when the graph is built, even if
            // a handler changes them later (`Depends::Handler`).
            order: if self.settings.reorder || self.finder.is_watching() {
                // With TUNNELS or QUIC_ID, the flows that are kept in order are not those of the five-tuple.
                Order::MayReorder
            } else {
                Order::KeepsPerFlow
            },
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.finder = finder_for(&self.settings, cx.key_hasher());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        let length = batch.len();
        if self.pause.passes(length) {
            return Some(self.pass_all(cx, batch));
        }
        if let Some(sketch) = &mut self.sketch {
            let seconds = (cx.now() - self.halved).0 / HALF_LIFE.0;
            if seconds > 0 {
                // The counts are halved once for each whole second since they were last halved, so that old
                // packets lose their weight after a pause of any length.
                sketch.halve(seconds.try_into().unwrap_or(u32::MAX));
                self.halved = self.halved + Timestamp(seconds * HALF_LIFE.0);
            }
        }
        let mut out = cx.batch();
        let now = cx.now();
        let (priority, max_burst, bypassed) =
            (self.settings.priority, self.settings.max_burst, self.bypassed_flags);
        let begins = !self.remembers && !self.settings.delays.exist();
        // Lists know of their packets only whether all have the layout, so it cannot change while they exist.
        if (self.layout.is_none() || self.lists.held() == 0)
            && let Some(layout) = batch.iter().find_map(PlainLayout::of)
        {
            self.layout = Some(layout);
        }
        self.find_usual(&mut batch);
        let mut counted = self.statistics.locality_in;
        let mut is_simple = self.is_simple(length);
        for (place, packet) in batch.drain().enumerate() {
            let found = self.found[place % BATCH_CAPACITY];
            let Found { key, hash, kind, flags, traits } = found;
            if is_simple && found.is_usual() && flags & bypassed == 0 {
                let list = self.lists.find_short(key, hash);
                counted.see(hash.into(), 1);
                if list.is_some() || begins {
                    let (list, count) = match list {
                        Some(list) => (list, self.lists.hold(list, packet, traits, now)),
                        None => {
                            let flow = Flow { kind, traits, delay_class: SPARSE as u8, remembered: None };
                            (self.lists.begin_short(key, hash, flow, packet, now), 1)
                        }
                    };
                    if count >= max_burst {
                        self.lists.release(list, ReleaseReason::Full, priority);
                    }
                } else {
                    self.take_known(cx, &mut out, &found.known(), None, packet, now);
                    is_simple = self.is_simple(length);
                }
                continue;
            }
            self.statistics.locality_in = counted;
            self.take(cx, &mut out, &found, packet, now);
            counted = self.statistics.locality_in;
            is_simple = self.is_simple(length);
        }
        self.statistics.locality_in = counted;
        cx.recycle(batch);
        self.let_go(cx, &mut out);
        if self.pause.begins(&self.statistics, self.settings.least_burst()) {
            self.lists.release_all(ReleaseReason::Drain, self.settings.priority);
            self.let_go(cx, &mut out);
            // The bursts that the pause has cut short do not count in the next sample.
            self.pause.begin_sample(&self.statistics);
        }
        if self.remembers {
            self.memory.forget_old(now, self.lists.delay(UNKNOWN_FLOWS), length);
        }
        self.arm(cx);
        Some(out)
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.armed = None;
        self.finish_round(cx);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
    }

    fn held(&self) -> usize {
        self.lists.held()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        self.lists.release_all(ReleaseReason::Drain, self.settings.priority);
        let (statistics, finder) = (&mut self.statistics, &self.finder);
        let mut legacy = StateCollector { packets: Vec::new(), bursts: Vec::new(), statistics, finder };
        self.lists.let_go(&mut legacy);
        let StateCollector { packets, bursts, .. } = legacy;
        let statistics = std::mem::take(&mut self.statistics);
        let delays = self.settings.delays.text().into();
        Some(Box::new(Inherited { packets, bursts, statistics, delays }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = state.downcast::<Inherited>().map_err(|_| "not the state of a Reframer")?;
        self.statistics = state.statistics;
        // The release is counted here, because the packets leave only now and the old element could not
        // know this time.
        let now = cx.now();
        let is_same = self.settings.delays.text() == state.delays;
        if !is_same {
            self.statistics.classes = Default::default();
        }
        for Burst { length, delay_class, came: [first, last] } in state.bursts {
            self.statistics.release(ReleaseReason::Drain, length, now - last);
            match self.settings.delays.exist() {
                true => self.statistics.see_class(if is_same { delay_class } else { 0 }, length, now - first),
                false => self.statistics.see_burst(length),
            }
        }
        for (mut packet, came) in state.packets {
            self.statistics.holds.see(now - came);
            packet.set_run(0);
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
        self.pause.restart(&self.statistics);
        Ok(())
    }
}
