//! Finds elements in a wrong order. Some need the payloads of packets where an element has parked the
//! payloads in a table (Slicer). Some park payloads which are never joined with their packets again, or join
//! payloads which are never parked. Some may reorder packets whose order was restored.

use std::collections::BTreeSet;

use element::effects::{Hold, Order, Target};
use element::obstacles::to_sliced;
use element::{Effects, ElementId};

use crate::packet_starts::{Forward, starts_of_packets};

/// The offset of the start of an Ethernet frame from its IP header, in bytes.
const ETHERNET: i32 = -14;

/// Returns the elements that get packets without their payloads and need the payloads: each with the element
/// that has parked the payloads in a table (Slicer), and the reason. Each element is in the result once.
pub(crate) fn misplaced(effects: &[Effects], forward: &Forward) -> Vec<(ElementId, ElementId, String)> {
    let parking = (0..effects.len()).filter_map(|id| Some((id, effects[id].support.sliced.parks?)));
    let mut parking = parking.peekable();
    if parking.peek().is_none() {
        return Vec::new();
    }
    let starts = starts_of_packets(effects, forward);
    let mut found = Vec::new();
    for (id, (output, table)) in parking {
        let marks = effects[id].support.sliced.marks;
        let mut seen = BTreeSet::new();
        let mut open = forward[id].get(output).cloned().unwrap_or_default();
        while let Some((to, input)) = open.pop() {
            // A path ends at the element that joins the payloads which the element `id` has parked. An
            // element that joins payloads of another table does not end it.
            if effects[to].support.sliced.joins == Some((input, table)) || !seen.insert((to, input)) {
                continue;
            }
            // An element that acts for other elements (a stand-in) may test fields in another order than
            // these elements, but it decides by the same fields. So the elements that it acts for are
            // examined in its place.
            let stood_for = &effects[to].replaces;
            let asked = if stood_for.is_empty() { std::slice::from_ref(&to) } else { stood_for };
            let why = |&id: &ElementId| {
                let ethernet = starts[id].is_empty().then_some(ETHERNET);
                let mut places = starts[id].iter().copied().chain(ethernet);
                places.find_map(|start| to_sliced(&effects[id], start, marks))
            };
            if let Some(why) = asked.iter().find_map(why) {
                found.push((to, id, why));
                continue;
            }
            open.extend(forward[to].iter().flatten().copied());
        }
    }
    found.sort();
    found.dedup_by_key(|(to, ..)| *to);
    found
}

/// Returns the elements that park payloads which no element joins, or join payloads that no element parks.
/// With each element comes the text of the error and a hint.
pub(crate) fn unjoined(
    effects: &[Effects],
    forward: &Forward,
) -> Vec<(ElementId, &'static str, &'static str)> {
    let parks = |table: usize| {
        effects.iter().any(|e| e.support.sliced.parks.is_some_and(|(_, parks)| parks == table))
    };
    let mut found = Vec::new();
    for (id, effect) in effects.iter().enumerate() {
        let sliced = effect.support.sliced;
        match (sliced.parks, sliced.joins) {
            // An element that both parks and joins is accepted: its packets may come back by any way, also
            // outside of this graph.
            (Some((output, table)), None) if !reaches_joint(effects, forward, (id, output), table) => found
                .push((
                    id,
                    "parks payloads, and no path leads to an element that joins them again",
                    "put a Splice with the same PayloadTable downstream, or where the sent packets return",
                )),
            (None, Some((_, table))) if !parks(table) => found.push((
                id,
                "joins payloads that no element parks",
                "put a Slice with the same PayloadTable upstream",
            )),
            _ => {}
        }
    }
    found
}

/// True if packets of an output come to an element that joins payloads of `table`. Also true if they are
/// sent out of the graph and such an element exists somewhere, because they may come back to it.
fn reaches_joint(
    effects: &[Effects],
    forward: &Forward,
    (id, output): (ElementId, usize),
    table: usize,
) -> bool {
    let joins = |effects: &Effects| effects.support.sliced.joins.is_some_and(|(_, joins)| joins == table);
    let is_somewhere = effects.iter().any(joins);
    let sends = |effects: &Effects| {
        effects.opaque.is_some() || effects.cases.iter().any(|case| case.to == Target::Send)
    };
    let mut seen = vec![false; effects.len()];
    let mut open: Vec<ElementId> = forward[id].get(output).into_iter().flatten().map(|&(to, _)| to).collect();
    while let Some(to) = open.pop() {
        if std::mem::replace(&mut seen[to], true) {
            continue;
        }
        if joins(&effects[to]) || is_somewhere && sends(&effects[to]) {
            return true;
        }
        open.extend(forward[to].iter().flatten().map(|&(next, _)| next));
    }
    false
}

/// Returns the elements that may reorder packets whose order an element upstream has restored: each with
/// that upstream element.
pub(crate) fn reordered(effects: &[Effects], forward: &Forward) -> Vec<(ElementId, ElementId)> {
    let mut found = Vec::new();
    for id in (0..effects.len()).filter(|&id| effects[id].order == Order::Restores) {
        let mut seen = vec![false; effects.len()];
        let mut open = vec![id];
        while let Some(from) = open.pop() {
            for &(to, _) in forward[from].iter().flatten() {
                match effects[to].order {
                    Order::Restores => {}
                    _ if std::mem::replace(&mut seen[to], true) => {}
                    // An element that holds packets per flow changes the order within a flow only by the
                    // packets' own sequence numbers, so it does no harm. Nor does it if its flows are those
                    // in tunnels, or connections of QUIC: other elements restore the order of TCP, outside
                    // of tunnels.
                    Order::MayReorder if effects[to].hold != Hold::PerFlow => found.push((to, id)),
                    _ => open.push(to),
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use element::effects::{
        Action, Case, EXTRA_LENGTH, Field, Filter, Number, Predicate, Sliced, Support, Target, Value,
        wire_field,
    };

    use super::*;

    fn chain(between: Effects, marks: bool) -> Vec<String> {
        let parks = Effects {
            support: Support {
                sliced: Sliced { parks: Some((0, 7)), joins: None, marks },
                ..Support::default()
            },
            ..Effects::pass()
        };
        let joins = Effects {
            support: Support {
                sliced: Sliced { parks: None, joins: Some((0, 7)), marks },
                ..Support::default()
            },
            ..Effects::pass()
        };
        let deep = Effects::cases(vec![
            Case::new(Filter::TRUE, Target::Output(0))
                .with(Action::Set(Field::Payload, Value::Constant(vec![1]))),
        ]);
        let all = [Effects::source("test"), parks, between, joins, deep];
        let next = |to: usize| if to < 5 { vec![vec![(to, 0)]] } else { vec![Vec::new()] };
        let forward: Vec<_> = (1..=5).map(next).collect();
        misplaced(&all, &forward).into_iter().map(|(_, _, why)| why).collect()
    }

    fn reading(fields: &[Field]) -> Effects {
        let reads = fields.to_vec();
        Effects::cases(vec![
            Case::new(Filter::Leaf(Predicate::Opaque { about: "something", reads }), Target::Output(0)),
            Case::new(Filter::TRUE, Target::Output(0)),
        ])
    }

    #[test]
    fn what_needs_the_payload_stands_outside() {
        assert_eq!(chain(Effects::pass(), true), Vec::<String>::new());
        assert_eq!(chain(reading(&[wire_field::IP_DST]), true), Vec::<String>::new());
        assert_eq!(chain(reading(&[Field::Payload]), true), ["reads the payload"]);
        assert_eq!(chain(Effects::pass().observing(&[Field::Payload]), true), Vec::<String>::new());
    }

    #[test]
    fn who_stands_for_others_is_asked_about_them() {
        // The chain's element 0 does not use the payload, and element 4, downstream of the element that
        // joins, writes it.
        let standing_for = |replaces: Vec<ElementId>| Effects { replaces, ..reading(&[Field::Length]) };
        assert_eq!(chain(standing_for(vec![0]), true), Vec::<String>::new());
        assert_eq!(chain(standing_for(vec![0, 4]), true), ["writes the payload"]);
    }

    #[test]
    fn payloads_have_to_come_back() {
        let parks = Effects {
            support: Support {
                sliced: Sliced { parks: Some((0, 7)), joins: None, marks: true },
                ..Support::default()
            },
            ..Effects::pass()
        };
        let joins = |table| Effects {
            support: Support {
                sliced: Sliced { parks: None, joins: Some((0, table)), marks: true },
                ..Support::default()
            },
            ..Effects::pass()
        };
        let ends = |to: Target| Effects::cases(vec![Case::new(Filter::TRUE, to)]);
        let drops = || ends(Target::Drop(element::DropReason::Discard));
        let row = |elements: [Effects; 4]| {
            let forward: Vec<_> =
                (1..=4).map(|to: usize| if to < 4 { vec![vec![(to, 0)]] } else { Vec::new() }).collect();
            unjoined(&elements, &forward).into_iter().map(|(id, ..)| id).collect::<Vec<_>>()
        };
        let source = || Effects::source("test");
        assert_eq!(row([source(), parks.clone(), joins(7), drops()]), [0; 0]);
        assert_eq!(row([source(), parks.clone(), joins(8), drops()]), [1, 2]);
        assert_eq!(row([source(), joins(7), parks.clone(), drops()]), [2]);
        // Packets that are sent may come back to an element that joins payloads, so parking is accepted
        // only if such an element exists.
        assert_eq!(row([source(), joins(7), parks.clone(), ends(Target::Send)]), [0; 0]);
        assert_eq!(row([source(), source(), parks, ends(Target::Send)]), [2]);
    }

    #[test]
    fn what_was_put_in_order_stays_so() {
        let of = |order| Effects { order, ..Effects::pass() };
        let row = |orders: [Order; 3]| {
            let effects = orders.map(of);
            let forward = vec![vec![vec![(1, 0)]], vec![vec![(2, 0)]], Vec::new()];
            reordered(&effects, &forward)
        };
        assert_eq!(row([Order::Restores, Order::Keeps, Order::MayReorder]), [(2, 0)]);
        assert!(row([Order::MayReorder, Order::Restores, Order::Keeps]).is_empty());
        assert_eq!(row([Order::Restores, Order::Restores, Order::MayReorder]), [(2, 1)]);
    }

    #[test]
    fn lengths_are_for_those_who_know_of_the_rest() {
        assert_eq!(chain(reading(&[Field::Length]), true), ["reads the length"]);
        assert_eq!(chain(reading(&[Field::Length, EXTRA_LENGTH]), true), Vec::<String>::new());
        let long = Predicate::at_most(Number::of(Field::Length), Number::constant(1000));
        let cases = vec![Case::new(long, Target::Output(0)), Case::new(Filter::TRUE, Target::Output(0))];
        assert_eq!(chain(Effects::cases(cases), true), ["reads the length"]);
    }

    #[test]
    fn the_dscp_is_the_packets_own_without_a_mark() {
        assert_eq!(chain(reading(&[wire_field::IP_TOS]), true), ["reads the DSCP"]);
        assert_eq!(chain(reading(&[wire_field::IP_TOS]), false), Vec::<String>::new());
    }
}
