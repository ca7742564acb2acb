//! Finds out where the packets that come to an element start: the distance of their first byte from their IP
//! header, as the declarations of the elements upstream change it.

use std::collections::BTreeSet;

use element::effects::{Action, Case, Effects, Field, Target};
use element::{Base, ElementId};

/// For each element and output, the elements and inputs that the output is connected to.
pub(crate) type Forward = [Vec<Vec<(ElementId, usize)>>];

/// The distance in bytes, from the IP header or from the packet's start at its source, beyond which the start
/// of packets is not followed. Beyond it, a circle is assumed, because no header is that long.
pub(crate) const FAR: i32 = 256;

/// The offset of the start of an Ethernet frame from its IP header, in bytes.
pub(crate) const ETHERNET: i32 = -14;

/// Returns, for each element, the possible starts of the packets that come to it, as offsets from their IP
/// header in bytes. The start of an Ethernet frame is assumed if a source does not declare the start, or if
/// the start cannot be followed. The set is empty for sources, and for elements that no packets reach.
pub(crate) fn starts_of_packets(effects: &[Effects], forward: &Forward) -> Vec<BTreeSet<i32>> {
    let mut starts = vec![BTreeSet::new(); effects.len()];
    let mut is_source = vec![true; effects.len()];
    forward.iter().flatten().flatten().for_each(|&(to, _)| is_source[to] = false);
    let sources = (0..effects.len()).filter(|&id| is_source[id]);
    let mut open: Vec<(ElementId, i32)> =
        sources.map(|id| (id, effects[id].support.offloads.unwrap_or(ETHERNET))).collect();
    while let Some((id, start)) = open.pop() {
        if start.abs() > FAR || !is_source[id] && !starts[id].insert(start) {
            continue;
        }
        for (output, next) in forward[id].iter().enumerate() {
            for moved in moves(&effects[id], output) {
                let start = moved.map_or(ETHERNET, |moved| start.saturating_add(moved));
                open.extend(next.iter().map(|&(to, _)| (to, start)));
            }
        }
    }
    starts
}

/// Returns the number of bytes that a case of an element's effects strips from the start of a packet
/// (negative: adds). `None` if the number differs from packet to packet.
pub(crate) fn moved(case: &Case) -> Option<i32> {
    let moves = case.actions.iter().map(|action| match action {
        Action::Strip(n) => Some(*n),
        Action::Start(_) | Action::Set(Field::HeaderOffset(Base::Data), _) => None,
        _ => Some(0),
    });
    moves.sum()
}

/// Returns the numbers of bytes that the cases for an output strip from the start of a packet. The set
/// contains `None` if a number differs from packet to packet.
pub(crate) fn moves(effects: &Effects, output: usize) -> BTreeSet<Option<i32>> {
    // An element without cases leaves the start of packets unchanged.
    if effects.cases.is_empty() {
        return BTreeSet::from([Some(0)]);
    }
    let leaves = |case: &&Case| match case.to {
        Target::Output(to) | Target::Hold(to) => to == output,
        Target::AllOutputs | Target::SomeOutput => true,
        Target::Drop(_) | Target::Send => false,
    };
    let by_output: BTreeSet<_> = effects.cases.iter().filter(leaves).map(moved).collect();
    // An output that no case leads to may get packets of any case.
    if by_output.is_empty() { effects.cases.iter().map(moved).collect() } else { by_output }
}
