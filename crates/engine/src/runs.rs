//! Finds out which elements can rely on the runs of packets.
//!
//! The first element that finds runs numbers them in the packets' metadata. The numbers are right at an
//! element downstream if no element between them may change what `element::runs::same_flow` compares, or hold
//! packets. A packet that is held may leave together with packets whose run has got the same number, because
//! numbers repeat. An element that finds runs numbers them again if they may be wrong.

use element::effects::{Action, Effects, Field, Hold, Target};
use element::{Base, ElementId};

use crate::flow_marks::tells_apart;

/// The runs of the packets that come to an element. The order of the variants is that of [`Ord`]: at an
/// element to which packets come from several elements, the greatest variant applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Coming {
    /// The packets have no runs.
    Without,
    /// Each packet has the right run, or none.
    Right,
    /// The packets may have wrong runs.
    Wrong,
}

/// Returns, for each element that finds runs, true if the runs of the packets that come to it are right, and
/// `None` for the other elements. Returns an empty vector if no element finds runs.
pub(crate) fn known(effects: &[Effects], forward: &[Vec<Vec<(ElementId, usize)>>]) -> Vec<Option<bool>> {
    let mut coming = vec![Coming::Without; effects.len()];
    let finds = |id: ElementId| effects[id].support.finds_runs;
    let mut open: Vec<ElementId> = (0..effects.len()).filter(|&id| finds(id)).collect();
    if open.is_empty() {
        return Vec::new();
    }
    while let Some(id) = open.pop() {
        let leaving = match coming[id] {
            _ if finds(id) => Coming::Right,
            Coming::Right if !keeps(&effects[id]) => Coming::Wrong,
            coming => coming,
        };
        for &(to, _) in forward[id].iter().flatten() {
            // The runs at an element change at most twice, and only to a greater variant, so the loop ends.
            if leaving > coming[to] {
                coming[to] = leaving;
                open.push(to);
            }
        }
    }
    (0..effects.len()).map(|id| finds(id).then(|| coming[id] != Coming::Wrong)).collect()
}

/// True if packets that have the right run when they come to an element also have it when they leave.
fn keeps(effects: &Effects) -> bool {
    let holds = effects.hold != Hold::None || !effects.emits.is_empty() || effects.opaque.is_some();
    let keeps = |action: &Action| match action {
        Action::Set(Field::Bytes { base: Base::Mac | Base::Data, .. } | Field::HeaderOffset(_), _) => false,
        Action::Set(field, _) => !tells_apart(field),
        Action::Strip(n) => *n == 0,
        Action::Start(_) | Action::Resize(_) => false,
    };
    let keep =
        |case: &element::effects::Case| case.actions.iter().all(keeps) && !matches!(case.to, Target::Hold(_));
    !holds && effects.cases.iter().all(keep)
}
