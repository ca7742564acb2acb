//! Finds out which elements can rely on the run numbers of packets. A run is a sequence of consecutive
//! packets of one flow in a batch.
//!
//! The first element that finds runs numbers them in the packets' metadata. The numbers are right at an
//! element downstream if no element between them may change what `element::runs::same_flow` compares, or hold
//! packets. A packet that is held may leave together with packets whose run has got the same number, because
//! numbers repeat. An element that finds runs numbers them again if they may be wrong.

use element::effects::{Action, Effects, Field, Hold, Target};
use element::{Base, ElementId};

use crate::flow_marks::tells_apart;

/// The reliability of the run numbers on the packets that come to an element. The order of the variants is
/// that of [`Ord`]: at an element to which packets come from several elements, the greatest variant applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Coming {
    /// The packets have no runs.
    Without,
    /// Each packet has the right run number, or no run number.
    Right,
    /// The packets may have wrong runs.
    Wrong,
}

/// Returns, for each element that finds runs, true if the run numbers of the packets that come to it are
/// right, and `None` for the other elements. Returns an empty vector if no element finds runs.
pub(crate) fn known(effects: &[Effects], forward: &[Vec<Vec<(ElementId, usize)>>]) -> Vec<Option<bool>> {
    let finds = |id: ElementId| effects[id].support.finds_runs;
    if !(0..effects.len()).any(finds) {
        return Vec::new();
    }
    let mut receives = vec![false; effects.len()];
    forward.iter().flatten().flatten().for_each(|&(to, _)| receives[to] = true);
    let mut coming = vec![Coming::Without; effects.len()];
    let mut open: Vec<ElementId> = (0..effects.len()).collect();
    while let Some(id) = open.pop() {
        let leaving = match coming[id] {
            _ if finds(id) => Coming::Right,
            // An element that does not keep runs makes them wrong even if packets come to it without runs:
            // after a reload, it may emit packets that came to its predecessor in the old graph, with runs of
            // that graph. A source makes packets without runs.
            _ if receives[id] && !keeps(&effects[id]) => Coming::Wrong,
            coming => coming,
        };
        for &(to, _) in forward[id].iter().flatten() {
            // The value in `coming` for an element changes at most twice, each time to a greater variant, so
            // the loop ends.
            if leaving > coming[to] {
                coming[to] = leaving;
                open.push(to);
            }
        }
    }
    (0..effects.len()).map(|id| finds(id).then(|| coming[id] != Coming::Wrong)).collect()
}

/// True if packets that have the right run number when they come to an element also have it when they leave.
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

#[cfg(test)]
mod tests {
    use element::effects::{Case, Filter, Support, Value, wire_field};

    use super::*;

    fn finds() -> Effects {
        Effects { support: Support { finds_runs: true, ..Support::default() }, ..Effects::pass() }
    }

    fn with(action: Action) -> Effects {
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(action)])
    }

    fn setting(field: Field) -> Effects {
        with(Action::Set(field, Value::Constant(vec![0])))
    }

    /// Returns, for each element of a chain that finds runs, true if the run numbers of the packets that come
    /// to it are right.
    fn in_chain(chain: &[Effects]) -> Vec<bool> {
        let mut forward: Vec<_> = (1..chain.len()).map(|next| vec![vec![(next, 0)]]).collect();
        forward.push(Vec::new());
        known(chain, &forward).into_iter().flatten().collect()
    }

    #[test]
    fn runs_are_known_until_the_flow_may_change_or_packets_are_held() {
        assert!(in_chain(&[Effects::pass()]).is_empty());
        for keeps in [Effects::pass(), setting(wire_field::IP_TTL), setting(Field::TimeStamp)] {
            assert_eq!(in_chain(&[finds(), keeps.clone(), finds()]), [true, true], "{keeps:?}");
        }
        for ends in [
            setting(wire_field::IP_SRC),
            setting(wire_field::DST_PORT),
            setting(Field::HeaderOffset(Base::Mac)),
            setting(Field::Length),
            with(Action::Strip(14)),
            with(Action::Strip(-14)),
            Effects { hold: Hold::Delay, ..Effects::pass() },
            Effects { opaque: Some("unknown"), ..Effects::pass() },
            Effects { emits: Effects::source("answer").emits, ..Effects::pass() },
        ] {
            let chain = [finds(), ends.clone(), Effects::pass(), finds(), Effects::pass(), finds()];
            assert_eq!(in_chain(&chain), [true, false, true], "{ends:?}");
            // Packets that a source makes have no run numbers, so none can be wrong.
            assert_eq!(in_chain(&[ends.clone(), finds()]), [true]);
            // After a reload, the second element may emit packets with run numbers of the old graph.
            assert_eq!(in_chain(&[Effects::pass(), ends, Effects::pass(), finds()]), [false]);
        }
    }

    #[test]
    fn runs_are_known_where_they_are_right_on_all_ways() {
        let to = |id| vec![vec![(id, 0)]];
        // Element 0 leads to element 3 directly, and by element 1, which changes the flow.
        let all = [finds(), setting(wire_field::IP_SRC), Effects::pass(), finds()];
        let forward = [vec![vec![(1, 0)], vec![(3, 0)]], to(3), to(3), Vec::new()];
        assert_eq!(known(&all, &forward), [Some(true), None, None, Some(false)]);
        // In a circle, packets come to the first element again, with a changed flow.
        let forward = [to(1), to(0), to(3), Vec::new()];
        assert_eq!(known(&all, &forward)[0], Some(false));
    }
}
