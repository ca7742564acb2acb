//! A run of one packet through a chain. The entry is replaced by an element that emits the packet, and
//! exits by elements that record the packets that arrive. No file or device is opened.

use std::collections::{BTreeMap, BTreeSet};

use element::class::{ArgInfo, Notes, Task};
use element::effects::{Case, Field, Filter, Target};
use element::{
    Args, Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, Timestamp,
};
use lang::Graph;
use packet::PacketKind;

use program::chain::{Chain, ChainNode};
use program::hex::{bytes, digits};

use crate::example::Example;

/// The element classes that replace the entries and exits of a chain in a run: the source of the packet, a
/// source that emits nothing for all other entries, and a sink that records packets.
pub static CLASSES: &[&Class] = &[&SOURCE, &SILENCE, &SINK];

/// The read handler of a recording sink. It returns the recorded packets, one line each, which
/// [`Came::read`] parses.
pub const PACKETS: &str = "packets";

/// A packet that arrived at an exit during a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Came {
    /// The bytes of the packet.
    pub bytes: Vec<u8>,
    /// The values of the annotation bytes that the exit reads, in the order of [`ChainExit::annotations`].
    pub annotations: Vec<u8>,
}

impl Came {
    /// Parses one line of the handler [`PACKETS`]; `None` if it has another form.
    pub fn read(line: &str) -> Option<Came> {
        let (packet, annotations) = line.split_once(' ')?;
        Some(Came { bytes: bytes(packet)?, annotations: bytes(annotations)? })
    }
}

/// An exit of a chain, as it is recorded and compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainExit {
    /// The name of the exit in reports. Corresponding exits of two chains have equal names; all other names
    /// differ.
    pub name: String,
    /// The indices of the annotation bytes that this exit, or its counterpart in the other chain, reads.
    pub annotations: Vec<u8>,
}

/// Returns the exits of each of two chains, by the number of the element. Exits are paired, so that
/// corresponding exits have the same name and record the same annotations.
pub fn exits(chains: [&Chain; 2]) -> [BTreeMap<usize, ChainExit>; 2] {
    let [a, b] = chains;
    let of = |chain: &Chain| (0..chain.nodes.len()).filter(|&n| chain.is_exit(n)).collect::<Vec<_>>();
    let (pairs, only_a, only_b) = a.pair(&of(a), b, &of(b));
    let mut exits: [BTreeMap<usize, ChainExit>; 2] = Default::default();
    let mut add = |chain: usize, node: usize, name: &str, nodes: &[&ChainNode]| {
        // Exits without a name of their own may have equal titles; the second is called "TITLE #2".
        let same = exits[chain].values().filter(|other| other.name.split(" #").next() == Some(name)).count();
        let name = if same == 0 { name.to_string() } else { format!("{name} #{}", same + 1) };
        exits[chain].insert(node, ChainExit { name, annotations: annotations(nodes) });
    };
    for (x, y) in pairs {
        let both = [&a.nodes[x], &b.nodes[y]];
        add(0, x, both[0].title(), &both);
        add(1, y, both[0].title(), &both);
    }
    only_a.into_iter().for_each(|x| add(0, x, a.nodes[x].title(), &[&a.nodes[x]]));
    only_b.into_iter().for_each(|y| add(1, y, b.nodes[y].title(), &[&b.nodes[y]]));
    exits
}

/// Returns the indices of the annotation bytes that at least one of these elements reads, in ascending
/// order.
fn annotations(nodes: &[&ChainNode]) -> Vec<u8> {
    let fields = nodes.iter().flat_map(|node| node.looks_at());
    let places = fields.flat_map(|field| match field {
        Field::Annotation { offset, length } => offset..offset.saturating_add(length),
        _ => 0..0,
    });
    places.collect::<BTreeSet<u8>>().into_iter().collect()
}

static SOURCE: Class = Class {
    name: "VerifySource",
    // The replaced element may have inputs; packets that arrive there are dropped.
    ports: "-/-",
    processing: "h/a",
    // `follows_captures` makes the run end when the packet has been handled, even if timers are pending.
    notes: Notes { task: Task::WherePushing, follows_captures: true, ..Notes::NONE },
    args: &[
        ArgInfo::required("DATA", "hexadecimal digits"),
        ArgInfo::required("KIND", "unsigned"),
        ArgInfo::required("ANNOTATIONS", "hexadecimal digits"),
    ],
    build: |args| build_source(args, true),
    ..Class::DEFAULT
};

/// The class that replaces entries which emit nothing. It has no arguments.
pub static SILENCE: Class = Class {
    name: "VerifySilence",
    // The replaced element may have inputs; packets that arrive there are dropped.
    ports: "-/-",
    processing: "h/a",
    notes: Notes { task: Task::WherePushing, ..Notes::NONE },
    build: |args| build_source(args, false),
    ..Class::DEFAULT
};

/// The class that replaces exits, and records packets. Its argument lists the annotations that are
/// recorded, as hexadecimal digits.
pub static SINK: Class = Class {
    name: "VerifySink",
    ports: "-/-",
    processing: "a/h",
    notes: Notes { task: Task::WherePulling, ..Notes::NONE },
    args: &[ArgInfo::required("ANNOTATIONS", "hexadecimal digits")],
    table: &HANDLERS,
    build: |args| {
        let annotations = bytes(&args.required::<String>("ANNOTATIONS")).unwrap_or_default();
        args.finish()?;
        Ok(Box::new(Sink { annotations, packets: String::new() }))
    },
    ..Class::DEFAULT
};

/// Returns the configuration with other classes at its ends: `example` enters at the element `entry`, all
/// other entries emit nothing, and the elements of `exits` record packets.
pub fn prepare(
    graph: &Graph,
    chain: &Chain,
    entry: usize,
    example: &Example,
    exits: &BTreeMap<usize, ChainExit>,
) -> Graph {
    let mut graph = graph.clone();
    let entries = chain.entries();
    for (number, element) in graph.elements.iter_mut().enumerate() {
        if number == entry {
            element.class = SOURCE.name.into();
            let annotations: Vec<u8> =
                example.annotations.iter().flat_map(|&(place, byte)| [place, byte]).collect();
            // An empty string has to be quoted, because without quotes it would be no argument.
            element.config =
                format!("\"{}\", {}, \"{}\"", digits(&example.bytes), example.kind, digits(&annotations));
        } else if entries.contains(&number) {
            element.class = SILENCE.name.into();
            element.config.clear();
        } else if let Some(exit) = exits.get(&number) {
            element.class = SINK.name.into();
            element.config = format!("\"{}\"", digits(&exit.annotations));
        }
    }
    graph
}

fn build_source(args: &mut Args<'_>, speaks: bool) -> Result<Box<dyn Element>, Invalid> {
    let mut packet = None;
    if speaks {
        let text: String = args.get("DATA").unwrap_or_default();
        let kind: u32 = args.required("KIND");
        let annotations = bytes(&args.get::<String>("ANNOTATIONS").unwrap_or_default());
        match (bytes(&text), annotations) {
            (Some(bytes), Some(annotations)) => packet = Some((bytes, kind as u8, annotations)),
            _ => args.error("hexadecimal digits"),
        }
    }
    args.finish()?;
    Ok(Box::new(Source { packet }))
}

struct Source {
    /// The bytes of the packet, its type, and annotations as pairs of index and value. `None` if the packet
    /// was emitted already, or if the source emits nothing.
    packet: Option<(Vec<u8>, u8, Vec<u8>)>,
}

impl Source {
    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let (bytes, kind, annotations) = self.packet.take()?;
        let mut packet = cx.packet(&bytes)?;
        packet.set_offset(Base::Mac, Some(0));
        packet.set_kind(PacketKind::from_number(kind));
        for pair in annotations.chunks_exact(2) {
            packet.annotations_mut().set_u8(pair[0].into(), pair[1]);
        }
        Some(packet)
    }
}

impl Element for Source {
    fn effects(&self) -> Effects {
        let ends = Case::new(Filter::TRUE, Target::Drop(DropReason::Discard));
        Effects { cases: vec![ends], ..Effects::source("packet") }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        cx.drop_all(batch, DropReason::Discard);
        None
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.outputs() > 0 && cx.graph().output_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let packet = self.make(cx);
        let worked = packet.is_some();
        if let Some(packet) = packet {
            let mut batch = cx.batch();
            if batch.push(packet).is_ok() {
                cx.emit(0, batch);
            }
        }
        worked
    }

    fn next_time(&self) -> Option<Timestamp> {
        self.packet.as_ref().map(|_| Timestamp(i64::MIN))
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _max: usize) -> Batch {
        let mut batch = cx.batch();
        if let Some(packet) = self.make(cx)
            && let Err(packet) = batch.push(packet)
        {
            cx.drop(packet, DropReason::NoBuffer);
        }
        batch
    }
}

struct Sink {
    /// The indices of the annotation bytes that are recorded for each packet.
    annotations: Vec<u8>,
    packets: String,
}

impl Sink {
    fn keep(&mut self, cx: &mut Cx<'_>, batch: Batch) {
        for packet in batch.iter() {
            let annotations = self.annotations.iter().map(|&place| packet.annotations().u8(place.into()));
            let annotations: Vec<u8> = annotations.collect();
            let bytes = packet.chunks().collect::<Vec<_>>().concat();
            self.packets.push_str(&format!("{} {}\n", digits(&bytes), digits(&annotations)));
        }
        cx.sent(batch);
    }
}

impl Element for Sink {
    fn effects(&self) -> Effects {
        let mut effects = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]);
        let seen = self.annotations.iter().map(|&offset| Field::Annotation { offset, length: 1 });
        effects.observes.extend(seen);
        effects
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !cx.graph().input_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.keep(cx, batch);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let batch = cx.pull(0, cx.burst());
        let worked = !batch.is_empty();
        self.keep(cx, batch);
        if worked || cx.may_pull(0) {
            cx.schedule();
        }
        worked
    }
}

const HANDLERS: &[Handler<Sink>] = &[Handler::get(PACKETS, |e| e.packets.clone())];
