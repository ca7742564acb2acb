//! # PathSelector
//! Chooses one of several paths per flow, per block of a flow or per packet, as load-balancing switches do.
//!
//! Each output is a path. Per flow, packets are distributed by a hash of addresses, protocol and ports
//! (equal-cost multipath, ECMP), so that the packets of a flow keep their order; only fragments, which are
//! distributed without ports, may take another path. Per block, up to BLOCK consecutive bytes of a flow take
//! the same path; this is how Presto sends the segments that TSO makes of one large send. A new block begins
//! when BLOCK is reached, after a PSH flag, where TCP's sequence numbers jump, and after a pause of GAP. A
//! packet of more than BLOCK bytes is a block of its own. Per packet, each packet takes its own path. Packets
//! that are not IP go to output 0 unless the mode is PACKET.
//!
//! If there is no room for the flow of a block, its packets are distributed by the hash.
//!
//! ## Usage
//! `PathSelector([MODE, KEYWORDS])`
//!
//! ## Arguments
//! - `MODE`: FLOW, TSO (per block) or PACKET.
//! - `CHOICE`: the choice of the path for each block or packet: RANDOM or ROUND_ROBIN.
//! - `BLOCK`: the maximum length of a block in bytes, without headers.
//! - `GAP`: the pause that ends a block.
//! - `FLOWS`: the maximum number of flows whose blocks are tracked at a time, in about 110 bytes each;
//!   flows without packets for a second make room.
//! - `SEED`: selects the hash. Consecutive selectors need different seeds, otherwise each sends all of its
//!   flows to the same output.
//!
//! ## Handlers
//! - `packets`: lines with the number of an output and the number of packets that were sent to it.
//! - `blocks`: the number of blocks that have begun.
//! - `flows`: the number of flows whose blocks are tracked.
//! - `overflows`: the number of packets for whose flow there was no room.
//! - `reset_counts`: sets the counts to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> s :: PathSelector(PACKET);
//! s[0] -> sink :: Discard; s[1] -> sink
//! ```
//!
//! ## See also
//! RandomPath, RandomSwitch, RoundRobinSwitch, HashSwitch

use std::any::Any;

use element::args::{ArgType, Scope};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Predicate, State, StateAccess, Target};
use element::{
    Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};
use flow::{FiveTupleKey, FlowTable, InsertError, KeyHasher};
use wire::tcp::flags;

use crate::tcp_header::{LocatedSegment, READS, TcpHeader, locate};

/// The element class `PathSelector`.
pub static CLASS: Class = Class {
    name: "PathSelector",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("path_selector.rs"),
    args: &[
        ArgInfo::positional("MODE", "FLOW|TSO|PACKET", "FLOW"),
        ArgInfo::keyword("CHOICE", "RANDOM|ROUND_ROBIN", "RANDOM"),
        ArgInfo::keyword("BLOCK", "unsigned", "65536"),
        ArgInfo::keyword("GAP", "seconds", "500us"),
        ArgInfo::keyword("FLOWS", "unsigned", "65536"),
        ArgInfo::keyword("SEED", "unsigned", ""),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["packets", "blocks", "overflows"]),
        StatePart::lost("blocks", "each flow begins a new block", &["flows"]),
    ],
    samples: &[
        " -> 1/3",
        "TSO -> 1/2",
        "TSO, CHOICE ROUND_ROBIN, FLOWS 2, BLOCK 100 -> 1/3",
        "PACKET -> 1/2",
        "PACKET, CHOICE ROUND_ROBIN -> 1/2",
        "",
    ],
    reconfigures: true,
    build: |args| {
        let (mode, choice) = (args.value("MODE"), args.value("CHOICE"));
        let (block, gap): (u32, _) = (args.value("BLOCK"), args.value("GAP"));
        let (flows, seed): (u32, Option<u64>) = (args.value("FLOWS"), args.get("SEED"));
        args.finish()?;
        // Only the mode TSO tracks flows, so other modes reserve no memory for them.
        let capacity = if mode == Mode::Tso { flows as usize } else { 1 };
        let table = match FlowTable::new(capacity) {
            Ok(table) => table,
            Err(error) => {
                args.error(format!("FLOWS: {error}"));
                return Err(element::Invalid);
            }
        };
        let outputs = args.outputs();
        Ok(Box::new(PathSelector {
            mode,
            choice,
            most: block,
            gap,
            seed,
            hasher: KeyHasher::default(),
            table,
            // At most 65,536 entries are reserved at once: for more flows, the vector grows when they appear.
            blocks: Vec::with_capacity(capacity.min(65_536)),
            next: 0,
            sorted: (0..outputs).map(|_| Batch::new()).collect(),
            packets: vec![0; outputs],
            begun: 0,
            overflows: 0,
        }))
    },
    ..Class::DEFAULT
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Flow,
    Tso,
    Packet,
}

impl ArgType for Mode {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Mode, String> {
        match text.trim() {
            "FLOW" => Ok(Mode::Flow),
            "TSO" => Ok(Mode::Tso),
            "PACKET" => Ok(Mode::Packet),
            _ => Err("must be FLOW, TSO or PACKET".into()),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    #[default]
    Random,
    RoundRobin,
}

impl ArgType for Choice {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Choice, String> {
        match text.trim() {
            "RANDOM" => Ok(Choice::Random),
            "ROUND_ROBIN" => Ok(Choice::RoundRobin),
            _ => Err("must be RANDOM or ROUND_ROBIN".into()),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// The current block of a flow: consecutive bytes that take the same output.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    output: usize,
    /// The number of payload bytes in the block so far.
    bytes: u64,
    /// The sequence number after the last byte of the block; `None` if the block's last packet has no TCP
    /// header.
    next: Option<u32>,
    /// True if the last packet had PSH, so that the next packet begins a new block.
    ended: bool,
}

impl Block {
    /// True if a packet continues the block: the block has not ended, the packet follows it in sequence
    /// (TCP), and the block does not become longer than `most` bytes. The caller has checked GAP.
    fn goes_on(&self, packet: &LocatedSegment, most: u32) -> bool {
        let follows = match (packet.tcp, self.next) {
            (Some(tcp), Some(next)) => tcp.sequence == next,
            _ => true,
        };
        !self.ended && follows && self.bytes + u64::from(packet.length) <= most.into()
    }

    fn add(&mut self, packet: &LocatedSegment) {
        self.bytes += u64::from(packet.length);
        self.next = packet.tcp.map(|tcp| behind(tcp, packet.length));
        self.ended = packet.tcp.is_some_and(|tcp| tcp.flags & flags::PSH != 0);
    }
}

/// Returns the sequence number after a segment with `length` bytes of data; SYN and FIN count as one byte
/// each.
fn behind(tcp: TcpHeader, length: u32) -> u32 {
    let ends = (tcp.flags & (flags::SYN | flags::FIN)).count_ones();
    tcp.sequence.wrapping_add(length).wrapping_add(ends)
}

/// The time after which a flow without packets expires, if there is no room for a new flow.
const MEMORY: Timestamp = Timestamp::from_secs(1);
/// The number of flow entries that are checked for expiry when there is no room for a new flow.
const SEARCH: usize = 64;

struct PathSelector {
    mode: Mode,
    choice: Choice,
    /// The maximum number of payload bytes in a block.
    most: u32,
    gap: Timestamp,
    /// The seed of the hash; `None` if it was not configured.
    seed: Option<u64>,
    hasher: KeyHasher,
    table: FlowTable<FiveTupleKey>,
    /// The current block of each flow, by the index of the flow's id.
    blocks: Vec<Block>,
    /// For ROUND_ROBIN, the output of the next block or packet.
    next: usize,
    /// A batch for each output, filled while packets are distributed; empty between calls.
    sorted: Vec<Batch>,
    /// The number of packets sent to each output.
    packets: Vec<u64>,
    begun: u64,
    overflows: u64,
}

impl PathSelector {
    fn output_of(&mut self, cx: &mut Cx<'_>, packet: &Packet) -> usize {
        if self.mode == Mode::Packet {
            return self.choose(cx);
        }
        let Some(located) = locate(packet) else { return 0 };
        let key = FiveTupleKey::new(&located.flow, 0);
        let hash = self.hasher.hash(&key);
        match self.mode {
            Mode::Tso => self.output_of_block(cx, &located, &key, hash),
            _ => self.output_by(hash),
        }
    }

    /// Returns the output for a hash, by its upper bits, so that any number of outputs gets equal shares.
    fn output_by(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.sorted.len() as u64) >> 32) as usize
    }

    fn choose(&mut self, cx: &mut Cx<'_>) -> usize {
        let outputs = self.sorted.len();
        match self.choice {
            Choice::Random => cx.random().between(0, outputs as u32 - 1) as usize,
            Choice::RoundRobin => {
                let output = self.next;
                self.next = (output + 1) % outputs;
                output
            }
        }
    }

    fn output_of_block(
        &mut self,
        cx: &mut Cx<'_>,
        packet: &LocatedSegment,
        key: &FiveTupleKey,
        hash: u32,
    ) -> usize {
        let now = cx.now();
        let mut inserted = self.table.insert(key, hash, now);
        if inserted == Err(InsertError::Full) {
            self.table.expire(now, MEMORY, SEARCH, |_, _| ());
            inserted = self.table.insert(key, hash, now);
        }
        let Ok(inserted) = inserted else {
            self.overflows += 1;
            return self.output_by(hash);
        };
        let (id, is_new) = (inserted.id(), matches!(inserted, flow::Inserted::New(_)));
        let paused = self.table.last_seen(id).is_none_or(|last| now - last >= self.gap);
        self.table.touch(id, now);
        let place = id.index() as usize;
        if place >= self.blocks.len() {
            if self.blocks.try_reserve(place + 1 - self.blocks.len()).is_err() {
                self.table.remove(id);
                self.overflows += 1;
                return self.output_by(hash);
            }
            self.blocks.resize(place + 1, Block::default());
        }
        if is_new || paused || !self.blocks[place].goes_on(packet, self.most) {
            let output = self.choose(cx);
            self.blocks[place] = Block { output, ..Block::default() };
            self.begun += 1;
        }
        self.blocks[place].add(packet);
        self.blocks[place].output
    }
}

impl Element for PathSelector {
    fn effects(&self) -> Effects {
        let any = Case::new(Filter::TRUE, Target::SomeOutput);
        let by_flow = Filter::Leaf(Predicate::Opaque { about: "hash of the flow", reads: READS.to_vec() });
        let effects = match self.mode {
            Mode::Flow => Effects::cases(vec![Case::new(by_flow, Target::SomeOutput), any]),
            Mode::Packet => Effects::cases(vec![any]),
            Mode::Tso => {
                let access = StateAccess::EveryPacket;
                let table = State { table: "blocks", key: READS.to_vec(), both_directions: false, access };
                Effects { state: vec![table], ..Effects::cases(vec![any]) }.depending_on(Depends::Time)
            }
        };
        match (self.mode, self.choice) {
            (Mode::Flow, _) => effects,
            (_, Choice::Random) => effects.depending_on(Depends::Random),
            (_, Choice::RoundRobin) => effects.depending_on(Depends::Counter),
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.hasher = crate::hasher_of(cx, self.seed);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            let output = self.output_of(cx, &packet);
            self.packets[output] += 1;
            // The push does not fail, because all packets come from one batch.
            if let Err(packet) = self.sorted[output].push(packet) {
                cx.emit_one(output, packet, DropReason::NoOutput);
            }
        }
        cx.recycle(batch);
        for (output, sorted) in self.sorted.iter_mut().enumerate().filter(|(_, sorted)| !sorted.is_empty()) {
            let full = std::mem::replace(sorted, cx.batch());
            cx.emit(output, full);
        }
        None
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.packets), self.begun, self.overflows)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state =
            state.downcast::<(Vec<u64>, u64, u64)>().map_err(|_| "not the state of a PathSelector")?;
        // Only the counts are taken over; each flow begins a new block in the new instance.
        let (packets, begun, overflows) = *state;
        self.packets.iter_mut().zip(packets).for_each(|(count, before)| *count = before);
        (self.begun, self.overflows) = (begun, overflows);
        Ok(())
    }
}

const HANDLERS: &[Handler<PathSelector>] = &[
    Handler::<PathSelector>::get("packets", |e| {
        e.packets.iter().enumerate().map(|(n, packets)| format!("{n} {packets}\n")).collect()
    })
    .summed(),
    Handler::count("blocks", |e| e.begun),
    Handler::<PathSelector>::read("flows", |e, _, _| {
        let flows = if e.mode == Mode::Tso { e.table.stats().entries } else { 0 };
        Ok(flows.to_string())
    })
    .summed(),
    Handler::count("overflows", |e| e.overflows),
    Handler::act("reset_counts", |e| {
        e.packets.fill(0);
        (e.begun, e.overflows) = (0, 0);
    }),
];
