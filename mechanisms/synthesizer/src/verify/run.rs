//! Running one packet through a chain: its entry gives that packet, its exits keep what comes, and nothing is
//! opened.

use element::class::{ArgInfo, HandlerInfo, Notes, Phase, Task};
use element::effects::{Case, Filter, Target};
use element::{Args, Base, Batch, Class, Cx, Effects, Element, Invalid, Packet};
use lang::Graph;
use packet::PacketKind;

use super::example::Example;
use crate::model::chain::Chain;

/// Classes that stand for the ends of a chain while a packet runs through it.
pub static CLASSES: &[&Class] = &[&SOURCE, &SILENCE, &SINK];

/// The handler of exits: what came, a line for each packet, in hexadecimal digits.
pub const PACKETS: &str = "packets";

static SOURCE: Class = Class {
    name: "VerifySource",
    ports: "0/-",
    processing: "a",
    notes: Notes { task: Task::WherePushing, ..Notes::NONE },
    args: &[ArgInfo::required("DATA", "hexadecimal digits"), ArgInfo::required("KIND", "unsigned")],
    build: |args| build_source(args, true),
    ..Class::DEFAULT
};

static SILENCE: Class = Class {
    name: "VerifySilence",
    ports: "0/-",
    processing: "a",
    notes: Notes { task: Task::WherePushing, ..Notes::NONE },
    build: |args| build_source(args, false),
    ..Class::DEFAULT
};

static SINK: Class = Class {
    name: "VerifySink",
    ports: "-/-",
    processing: "a/h",
    notes: Notes { task: Task::WherePulling, ..Notes::NONE },
    handlers: &[HandlerInfo::read(PACKETS)],
    build: |args| {
        args.finish()?;
        Ok(Box::new(Sink { packets: String::new() }))
    },
    ..Class::DEFAULT
};

/// The configuration in which the packet comes in at `entry` and ends of the chain keep what comes; the second part
/// has the numbers of these ends.
pub fn prepare(graph: &Graph, chain: &Chain, entry: usize, example: &Example) -> (Graph, Vec<usize>) {
    let mut graph = graph.clone();
    let mut exits = Vec::new();
    let entries = chain.entries();
    for (number, element) in graph.elements.iter_mut().enumerate() {
        if number == entry {
            element.class = SOURCE.name.into();
            // An empty packet is a word too.
            element.config = format!("\"{}\", {}", digits(&example.bytes), example.kind);
        } else if entries.contains(&number) {
            element.class = SILENCE.name.into();
            element.config.clear();
        } else if chain.is_exit(number) {
            element.class = SINK.name.into();
            element.config.clear();
            exits.push(number);
        }
    }
    (graph, exits)
}

/// Elements that neither pass packets on nor tell others anything before the run: scripts and sockets, which have no
/// part in what becomes of a packet. They are left out.
pub fn is_bystander(class: &Class, ports: (usize, usize)) -> bool {
    ports == (0, 0) && class.phase == Phase::Ordinary
}

/// Leaves out elements of a graph. Gives the new numbers of those that stay.
pub fn without(graph: &Graph, out: &[bool]) -> (Graph, Vec<Option<usize>>) {
    let mut graph = graph.clone();
    let mut next = 0;
    let numbers: Vec<Option<usize>> = out
        .iter()
        .map(|&out| {
            let number = (!out).then_some(next);
            next += usize::from(!out);
            number
        })
        .collect();
    let mut place = 0;
    graph.elements.retain(|_| {
        place += 1;
        !out[place - 1]
    });
    graph.connections.retain_mut(|connection| match (numbers[connection.from.0], numbers[connection.to.0]) {
        (Some(from), Some(to)) => {
            (connection.from.0, connection.to.0) = (from, to);
            true
        }
        _ => false,
    });
    (graph, numbers)
}

/// Bytes as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits.
pub fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

fn build_source(args: &mut Args<'_>, speaks: bool) -> Result<Box<dyn Element>, Invalid> {
    let mut packet = None;
    if speaks {
        let text: String = args.or("DATA", String::new());
        let kind: u32 = args.required("KIND");
        match bytes(&text) {
            Some(bytes) => packet = Some((bytes, kind as u8)),
            None => args.error("DATA: hexadecimal digits"),
        }
    }
    args.finish()?;
    Ok(Box::new(Source { packet }))
}

struct Source {
    packet: Option<(Vec<u8>, u8)>,
}

impl Source {
    fn make(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let (bytes, kind) = self.packet.take()?;
        let mut packet = cx.packet(&bytes)?;
        packet.set_offset(Base::Mac, Some(0));
        packet.set_kind(kind_of(kind));
        Some(packet)
    }
}

/// The packet type of a number: that of Click's annotation.
pub fn kind_of(number: u8) -> PacketKind {
    match number {
        1 => PacketKind::Broadcast,
        2 => PacketKind::Multicast,
        3 => PacketKind::OtherHost,
        4 => PacketKind::Outgoing,
        5 => PacketKind::Loopback,
        _ => PacketKind::Host,
    }
}

impl Element for Source {
    fn effects(&self) -> Effects {
        Effects::source("packet")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.outputs() > 0 && cx.output_is_push(0) {
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

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _max: usize) -> Batch {
        let mut batch = cx.batch();
        if let Some(packet) = self.make(cx)
            && let Err(packet) = batch.push(packet)
        {
            cx.drop(packet, element::DropReason::NoBuffer);
        }
        batch
    }
}

struct Sink {
    packets: String,
}

impl Sink {
    fn keep(&mut self, cx: &mut Cx<'_>, batch: Batch) {
        for packet in batch.iter() {
            self.packets.push_str(&digits(&packet.chunks().collect::<Vec<_>>().concat()));
            self.packets.push('\n');
        }
        cx.sent(batch);
    }
}

impl Element for Sink {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Send)])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !cx.input_is_push(0) {
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

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.packets.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_are_the_same() {
        assert_eq!(bytes(&digits(&[0, 1, 0xfe])), Some(vec![0, 1, 0xfe]));
        assert_eq!(bytes("1"), None);
        assert_eq!(bytes("zz"), None);
    }
}
