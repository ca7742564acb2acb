//! Finds out which elements can rely on the flow marks of packets.
//!
//! An element that has looked up a packet's flow marks the packet, so that elements downstream need not look
//! the flow up again. A mark is reliable if it comes from one element only, and no element between makes it
//! invalid. Elements do so that change fields which distinguish flows, strip or resize packets, make packets
//! of their own, or are opaque. Elements that hold packets do so, too, because the number of a flow may be
//! given to another flow meanwhile.

use element::effects::{Action, Effects, Field, FlowMarks, Hold, Target};
use element::{Base, ElementId};

/// The origin of the flow marks on the packets that come to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    /// The packets have no marks.
    Without,
    /// Each packet has a mark of this one element, or no mark.
    Of(ElementId),
    /// The marks may be out of date, or come from several elements.
    Unreliable,
}

impl Coming {
    fn or(self, other: Coming) -> Coming {
        match (self, other) {
            (Coming::Without, one) | (one, Coming::Without) => one,
            (one, other) if one == other => one,
            _ => Coming::Unreliable,
        }
    }
}

/// Returns a bool for each element. For an element that takes flow marks, it is true if the element may rely
/// on them. For an element that gives marks, it is true if some element relies on them. Returns an empty
/// vector if no element relies on marks.
pub(crate) fn used(effects: &[Effects], forward: &[Vec<Vec<(ElementId, usize)>>]) -> Vec<bool> {
    let mut coming = vec![Coming::Without; effects.len()];
    let mut open: Vec<ElementId> =
        (0..effects.len()).filter(|&id| effects[id].support.marks == FlowMarks::Gives).collect();
    while let Some(id) = open.pop() {
        let leaving = match (effects[id].support.marks, coming[id]) {
            (FlowMarks::Gives, _) => Coming::Of(id),
            (_, Coming::Without) => Coming::Without,
            _ if keeps(&effects[id]) => coming[id],
            _ => Coming::Unreliable,
        };
        for &(to, _) in forward[id].iter().flatten() {
            let now = coming[to].or(leaving);
            // The origin of the marks at an element changes at most twice (to one element, then to
            // unreliable), so the loop ends.
            if std::mem::replace(&mut coming[to], now) != now {
                open.push(to);
            }
        }
    }
    let takes =
        |id: ElementId| effects[id].support.marks == FlowMarks::Takes && matches!(coming[id], Coming::Of(_));
    let mut used: Vec<bool> = (0..effects.len()).map(takes).collect();
    for id in 0..effects.len() {
        if let (true, Coming::Of(giver)) = (used[id], coming[id]) {
            used[giver] = true;
        }
    }
    if used.contains(&true) { used } else { Vec::new() }
}

/// True if a mark that a packet has at an element's input is still valid when the packet leaves the
/// element.
fn keeps(effects: &Effects) -> bool {
    let holds = effects.hold != Hold::None || !effects.emits.is_empty() || effects.opaque.is_some();
    let cases = effects.cases.iter().all(|case| {
        let keeps = |action: &Action| match action {
            Action::Set(field, _) => !tells_apart(field),
            Action::Strip(n) => *n <= 0,
            Action::Start(_) | Action::Resize(_) => false,
        };
        case.actions.iter().all(keeps) && !matches!(case.to, Target::Hold(_))
    });
    !holds && cases
}

/// True if a field may distinguish flows (addresses, protocol, ports) or determine the offsets of such
/// fields. Also true for bytes that are not known to be harmless, such as payload.
pub(crate) fn tells_apart(field: &Field) -> bool {
    let within = |offset: i32, length: u16, free: &[(i32, i32)]| {
        let (start, end) = (offset, offset + i32::from(length));
        free.iter().any(|&(from, to)| from <= start && end <= to)
    };
    match *field {
        // Bytes of the network header that distinguish no flows in IPv4: the type of service, the time to
        // live, the checksum.
        Field::Bytes { base: Base::Network, offset, length } => {
            !within(offset, length, &[(1, 2), (8, 9), (10, 12)])
        }
        Field::Bytes { base: Base::Transport, offset, length } => !within(offset, length, &[(4, i32::MAX)]),
        Field::Bytes { .. } | Field::Payload | Field::Length => true,
        Field::HeaderOffset(base) => matches!(base, Base::Network | Base::Transport),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use element::effects::{Case, Filter, Support, Value, wire_field};

    use super::*;

    fn marks(marks: FlowMarks) -> Effects {
        Effects { support: Support { marks, ..Support::default() }, ..Effects::pass() }
    }

    fn setting(field: Field) -> Effects {
        let action = Action::Set(field, Value::Constant(vec![0]));
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(action)])
    }

    /// True if marks are relied on in a chain: an element that gives marks, `between`, an element that
    /// takes marks.
    fn chain(between: Vec<Effects>) -> bool {
        let mut all = vec![marks(FlowMarks::Gives)];
        all.extend(between);
        all.push(marks(FlowMarks::Takes));
        let mut forward: Vec<_> = (1..all.len()).map(|next| vec![vec![(next, 0)]]).collect();
        forward.push(Vec::new());
        let used = used(&all, &forward);
        assert_eq!(used.first(), used.last());
        used.first() == Some(&true)
    }

    #[test]
    fn marks_are_relied_on_behind_what_leaves_flows_alone() {
        assert!(chain(vec![]));
        assert!(chain(vec![Effects::pass(), setting(wire_field::IP_TTL), setting(Field::TimeStamp)]));
        assert!(chain(vec![setting(Field::Bytes { base: Base::Transport, offset: 16, length: 2 })]));
        for breaks in [
            setting(wire_field::IP_SRC),
            setting(wire_field::DST_PORT),
            setting(wire_field::IP_PROTOCOL),
            setting(Field::Bytes { base: Base::Network, offset: 6, length: 2 }),
            setting(Field::Bytes { base: Base::Data, offset: 0, length: 6 }),
            setting(Field::HeaderOffset(Base::Network)),
            Effects { hold: Hold::Delay, ..Effects::pass() },
            Effects { opaque: Some("unknown"), ..Effects::pass() },
            Effects { emits: Effects::source("answer").emits, ..Effects::pass() },
        ] {
            assert!(!chain(vec![breaks.clone()]), "{breaks:?}");
            // A further element downstream that only passes packets on does not make unreliable marks
            // reliable again.
            assert!(!chain(vec![breaks.clone(), Effects::pass()]));
        }
    }

    #[test]
    fn marks_of_two_elements_are_not_relied_on() {
        let all =
            [marks(FlowMarks::Gives), marks(FlowMarks::Gives), Effects::pass(), marks(FlowMarks::Takes)];
        let to = |id| vec![vec![(id, 0)]];
        assert!(used(&all, &[to(2), to(2), to(3), Vec::new()]).is_empty());
        // In a chain, the second element that gives marks replaces the marks of the first.
        assert_eq!(used(&all, &[to(1), to(2), to(3), Vec::new()]), [false, true, false, true]);
        // In a circle of two elements, all marks come from the one element that leads into it.
        assert_eq!(used(&all, &[to(2), Vec::new(), to(3), to(2)]), [true, false, false, true]);
    }
}
