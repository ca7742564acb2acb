//! The facts that the flow cache knows about the flow of a packet, and the classification of a packet with
//! these facts.

use element::Packet;

use super::Residual;
use crate::ask::Ask;
use crate::graph::{CompiledGraph, OTHERWISE};
use program::Next;

/// The facts that hold for all packets of one flow: the residual program, and the rules that match.
#[derive(Clone, Copy, Debug)]
pub struct KnownFlow<'f> {
    pub(super) residual: &'f Residual,
    /// The rule that matches all packets of the flow in the residual program's first list.
    pub(super) rule: u32,
}

impl KnownFlow<'_> {
    /// Returns the node of the compiled graph at which packets of the flow start, or their class.
    #[inline]
    pub fn start(&self) -> Next {
        self.residual.start
    }

    /// Returns the index of the rule of a list that matches all packets of the flow; `None` if it is not
    /// known.
    #[inline]
    pub fn rule_of(&self, list: u32) -> Option<u32> {
        if self.residual.first == Some(list) {
            return Some(self.rule);
        }
        self.residual.others.iter().find(|(other, _)| *other == list).map(|(_, rule)| *rule)
    }
}

/// Calls `hold` with the list and the rule of this list that matches all packets of the flow `known`. Does
/// nothing if that rule is not known.
#[inline]
pub fn count(known: Option<KnownFlow<'_>>, list: u32, hold: &mut impl FnMut(u32, u32)) {
    if let Some(rule) = known.and_then(|known| known.rule_of(list)) {
        hold(list, rule);
    }
}

/// Returns the class of one packet. `known` has the facts about the packet's flow. Calls `hold` with list and
/// rule for each rule that decides. Returns [`OTHERWISE`] if the program refers to a list that does not
/// exist.
pub(super) fn class_of(
    graph: &CompiledGraph,
    packet: &Packet,
    known: Option<KnownFlow<'_>>,
    hold: &mut impl FnMut(u32, u32),
) -> u32 {
    let mut next = known.map_or(graph.start(), |known| known.start());
    loop {
        let number = match graph.follow(next, packet, &mut |list| count(known, list, hold)) {
            Ok(class) => return class,
            Err(number) => number,
        };
        let Ask::List(list) = graph.node(number).ask else { return OTHERWISE };
        let Some((rule, outcome)) = graph.rule_of(list, packet) else { return OTHERWISE };
        hold(list, rule);
        next = graph.after(number, outcome);
    }
}
