//! Leases during path exploration. Packets of flows that a stateful element knows get values, such as new
//! addresses, which the compiler does not know. Each of these values has a location of its own
//! ([`ByteLocation::Leased`]). The decision of the element becomes a single question, whose answer belongs
//! to the flow (Properties 1 and 2 of the SNF paper).

use classify::IntervalSet;
use element::effects::{Action, Field, Filter, Predicate, Target, wire_field};

use super::{Full, Path, Walk};
use crate::compose::formula::{AnswerTest, Formula, PathCondition};
use crate::compose::packet::SymbolicPacket;
use crate::compose::step::{Stop, carry_out};
use program::Next;
use program::chain::Port;
use program::location::{ByteLocation, ByteValue};
use program::question::{self, Question};

/// The maximum number of steps of a program. At further stateful elements, packets are handed over.
const MOST_STEPS: usize = 64;

/// A step under construction: a stateful element on a path of packets of a known flow.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedStep {
    /// The element and the input at which packets would arrive.
    pub port: Port,
    /// The case of the element's declaration that applies to packets of known flows.
    pub case: usize,
    /// The step before this step on the path; `None` if no stateful element precedes.
    pub after: Option<u16>,
    /// The symbolic packet as it would arrive at the element.
    pub packet: SymbolicPacket,
}

/// True if a case applies only to packets of flows that the element knows.
pub fn is_for_known_flows(when: &Filter) -> bool {
    match when {
        Filter::Leaf(Predicate::State { hit, .. }) => *hit,
        Filter::All(parts) => parts.iter().any(is_for_known_flows),
        _ => false,
    }
}

/// Returns the bytes of a packet's flow key with their locations: addresses, protocol and ports, in this
/// order. Returns `None` if a header is not marked.
pub fn key(packet: &SymbolicPacket) -> Option<Vec<(ByteLocation, ByteValue)>> {
    let fields = [
        wire_field::IP_SRC,
        wire_field::IP_DST,
        wire_field::IP_PROTOCOL,
        wire_field::SRC_PORT,
        wire_field::DST_PORT,
    ];
    let mut key = Vec::with_capacity(13);
    for field in fields {
        let (first, length) = packet.whereabouts(&field)?;
        let places = (0..length).map(|more| first.after(more.into()));
        key.extend(places.map(|place| (place, packet.byte(place))));
    }
    Some(key)
}

impl Walk<'_> {
    /// Returns the filter of packets that belong to flows which the element `node` knows, but which have to
    /// go through the element itself. Returns `None` if flows cannot be leased from the element.
    pub(super) fn leases(&self, node: usize) -> Option<&Filter> {
        let element = &self.chain.nodes[node];
        // On a loop, packets come back to a translator after it has given them values, and the verifier could
        // not prove the program. So no flows are leased from an element on a loop.
        element.effects.support.leases.as_ref().filter(|_| self.limits.leases && element.loop_id.is_none())
    }

    /// Continues a path at an element that leases flows, after its case `number` for packets of known
    /// flows. The path forks by the output that the element has chosen for the flow. Packets for which the
    /// element does not lease the flow are handed over to it.
    pub(super) fn lease(
        &mut self,
        port: Port,
        way: &Path,
        known: &PathCondition,
        number: usize,
    ) -> Result<Next, Full> {
        let chain = self.chain;
        let element = &chain.nodes[port.0];
        let case = &element.effects.cases[number];
        let why = "keeps state; flows that it knows are leased";
        let excluded = self.leases(port.0).map(|excluded| known.remaining(&way.packet.condition(excluded)));
        match excluded {
            Some(Formula::Constant(false)) => {}
            None | Some(Formula::Constant(true) | Formula::Leaf(AnswerTest::Unknown)) => {
                return self.hand_over(port, way, why);
            }
            Some(other) => return self.part(port, way, known, number, other.not()),
        }
        if !self.is_looked_up_alike(way) || self.steps.len() >= MOST_STEPS {
            return self.hand_over(port, way, why);
        }
        let step = LeasedStep { port, case: number, after: way.step, packet: way.packet.clone() };
        let number_of_step = match self.steps.iter().position(|other| *other == step) {
            Some(there) => there,
            None => {
                self.steps.push(step);
                self.steps.len() - 1
            }
        } as u16;
        let mut packet = match carry_out(&way.packet, case, known, Some(number_of_step)) {
            Err(Stop::Alone) => return self.hand_over(port, way, why),
            Err(Stop::Needs(condition)) => return self.part(port, way, known, number, condition),
            Ok(packet) => packet,
        };
        for action in &case.actions {
            if let Action::Set(Field::Annotation { offset, length }, _) = action {
                packet.rewritten.extend(*offset..offset.saturating_add(*length));
            }
        }
        let mut path = way.path.clone();
        let (start, cut) = (way.packet.start, crate::compose::leaf::end(&way.packet).is_some());
        path.push(crate::compose::leaf::PathElement {
            node: port.0,
            input: port.1,
            case: number,
            start,
            cut,
        });
        let behind = Path { packet, path, step: Some(number_of_step), ..way.clone() };
        let outputs = match case.to {
            Target::Output(output) => output..output + 1,
            Target::SomeOutput => 0..element.forward.len(),
            _ => return self.hand_over(port, way, why),
        };
        let question = Question::Leased { step: number_of_step, what: question::LeasedProperty::Output };
        let mut nexts = Vec::with_capacity(outputs.len() + 1);
        if way.step.is_none() {
            nexts.push((IntervalSet::one(0, 0), self.hand_over(port, way, why)?));
        }
        for output in outputs {
            let answer = IntervalSet::one(output as u128 + 1, output as u128 + 1);
            let known = known.with(&question, answer.clone());
            let to = (Target::Output(output), case.otherwise);
            nexts.push((answer, self.leave(port, way, &known, to, behind.clone())?));
        }
        Ok(self.diagram.switch(&question, nexts))
    }

    /// True if a single look-up per packet in the flow cache suffices for the element at the end of path
    /// `way` to know the packet's flow. For this, the flow's key at the element has to follow from the input
    /// packet and earlier leases. If the element is the first that leases flows on the path, its key must lie
    /// at the same offsets of the input packet as for the first such elements of all other paths.
    fn is_looked_up_alike(&self, way: &Path) -> bool {
        let Some(here) = key(&way.packet) else { return false };
        let known = |byte: &ByteValue| {
            matches!(
                byte,
                ByteValue::Constant(_) | ByteValue::Came(ByteLocation::Byte(_) | ByteLocation::Leased(..))
            )
        };
        if way.step.is_some() {
            return here.iter().all(|(_, byte)| known(byte));
        }
        let came = here.iter().all(|(place, byte)| {
            *byte == ByteValue::Came(*place) && matches!(place, ByteLocation::Byte(0..))
        });
        let mut firsts = self.steps.iter().filter(|step| step.after.is_none());
        came && firsts.all(|first| key(&first.packet).as_ref() == Some(&here))
    }
}
