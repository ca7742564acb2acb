//! The software side of a switch: the number of a packet's switch class selects the residual program.
//!
//! If the number is in a VLAN tag, a VLANDecap removes the tag and stores the number in the VLAN
//! annotation, which the program tests first. If each class has a port of its own, a SetVLANAnno after the
//! source at each port stores the number.

use classify::IntervalSet;
use lang::{Connection, Graph};
use packet::Annotations;
use wire::{ether_type, ethernet, ipv4};

use super::{Division, REST};
use crate::compose::diagram::Diagram;
use program::location::ByteLocation;
use program::question::Question;
use program::{Exit, Next, Program, Write, WrittenValue};

/// The class of the element that removes VLAN tags.
const DECAP: &str = "VLANDecap";
/// The class of the element that sets the VLAN annotation to a number.
const NUMBER: &str = "SetVLANAnno";
const NETWORK: i32 = ethernet::Header::LEN as i32;

impl Division {
    /// Returns the program that the software runs. Its packets arrive without a tag, and with the number of
    /// their class in the VLAN annotation. If a VLANDecap has removed a tag, it has marked the network header
    /// after the Ethernet header. Packets with a number that is no switch class go through the whole program.
    pub fn software_program(&self) -> Program {
        let mut diagram = Diagram::default();
        let (nodes, whole) = self.diagram.finish(self.whole);
        let whole = diagram.load(&nodes, whole);
        let mut ways = vec![(IntervalSet::one(0, REST.into()), whole)];
        for (number, left) in (u128::from(REST) + 1..).zip(&self.pipeline.classes) {
            let (nodes, left) = self.diagram.finish(*left);
            let left = diagram.load(&nodes, left);
            ways.push((IntervalSet::one(number, number), usual(&mut diagram, left, whole)));
        }
        ways.push((IntervalSet::one(u128::from(REST) + ways.len() as u128, u16::MAX.into()), whole));
        let number = Question::Annotation { offset: Annotations::VLAN_TCI as u8, length: 2 };
        let start = diagram.switch(&number, ways);
        let (nodes, start) = diagram.finish(start);
        let mut program = Program { nodes, start, ..self.program.clone() };
        if !self.is_by_port {
            program.layout[1] = Some(NETWORK);
        }
        for class in program.classes.iter_mut().filter(|class| matches!(class.exit, Exit::Output(_))) {
            // Packets leave as if they had arrived without a tag: with a VLAN annotation of zero, and
            // without a mark of the network header, which a VLANDecap may have set. An annotation or a mark
            // that the class itself sets is kept.
            class.headers[1].get_or_insert(None);
            for place in
                [Annotations::VLAN_TCI as u8, Annotations::VLAN_TCI as u8 + 1].map(ByteLocation::Annotation)
            {
                let is_there = |write: &Write| {
                    (0..write.value.length() as i32).any(|byte| write.place.after(byte) == place)
                };
                if !class.writes.iter().any(is_there) {
                    class.writes.push(Write { place, value: WrittenValue::Constant(vec![0]) });
                }
            }
        }
        program
    }
}

/// Returns a graph that checks the layout of packets. Packets with the layout that the switch assumes
/// continue at `left`, the start of a residual program; all others at `whole`, the start of the whole
/// program.
fn usual(diagram: &mut Diagram, left: Next, whole: Next) -> Next {
    let mut next = left;
    for (offset, length, value) in [(NETWORK, 1, 0x45), (NETWORK - 2, 2, u128::from(ether_type::IPV4))] {
        let question = Question::Bytes { offset, length };
        let is = IntervalSet::one(value, value);
        let others = is.complement(question.bits());
        next = diagram.switch(&question, vec![(is, next), (others, whole)]);
    }
    let short = NETWORK as u128 + ipv4::Header::LEN as u128 - 1;
    let lengths =
        vec![(IntervalSet::one(0, short), whole), (IntervalSet::one(short + 1, u32::MAX.into()), next)];
    diagram.switch(&Question::Length, lengths)
}

/// Inserts a VLANDecap upstream of an element: all connections to the element lead to the VLANDecap instead.
pub fn take_tags(graph: &mut Graph, element: usize) {
    let number = graph.elements.len();
    let span = graph.elements[element].span;
    graph.add("untagged", DECAP, "", span);
    for connection in graph.connections.iter_mut().filter(|connection| connection.to.0 == element) {
        connection.to = (number, 0);
    }
    graph.connections.push(Connection { from: (number, 0), to: (element, 0), span });
}

/// Changes a configuration so that each switch class arrives at a port of its own. Copies the source that
/// feeds an element, once for each interface in `interfaces`. After each source, inserts an element that
/// stores the number of the source's class. The existing source has the number [`REST`], the copies have the
/// following numbers.
pub fn number_ports(graph: &mut Graph, element: usize, interfaces: &[String]) {
    let Some(place) = graph.connections.iter().position(|connection| connection.to.0 == element) else {
        return;
    };
    let (from, span) = (graph.connections[place].from, graph.connections[place].span);
    let source = graph.elements[from.0].clone();
    for (number, interface) in (REST..).zip(std::iter::once(None).chain(interfaces.iter().map(Some))) {
        let at = match interface {
            None => from,
            Some(interface) => {
                let args = lang::args::split(&source.config).into_iter().skip(1).map(|arg| arg.text);
                let config = lang::args::join(std::iter::once(lang::args::quote(interface)).chain(args));
                graph.add(
                    &format!("{}_{number}", source.name.replace('@', "_")),
                    &source.class,
                    &config,
                    span,
                );
                (graph.elements.len() - 1, from.1)
            }
        };
        graph.add(&format!("class_{number}"), NUMBER, &number.to_string(), span);
        let said = graph.elements.len() - 1;
        match interface {
            None => graph.connections[place].to = (said, 0),
            Some(_) => graph.connections.push(Connection { from: at, to: (said, 0), span }),
        }
        graph.connections.push(Connection { from: (said, 0), to: (element, 0), span });
    }
}
