//! What may stand where payloads have been left aside: between an element that parks them and those that put them back.

use std::collections::BTreeSet;

use element::obstacles::to_sliced;
use element::{Effects, ElementId};

use crate::facts::{Forward, starts_of_packets};

/// Where payloads start in Ethernet frames.
const ETHERNET: i32 = -14;

/// Elements that must not stand where they do: which, the one that has left the payloads aside, and why.
pub(crate) fn misplaced(effects: &[Effects], forward: &Forward) -> Vec<(ElementId, ElementId, String)> {
    let parking = (0..effects.len()).filter_map(|id| Some((id, effects[id].sliced.parks?)));
    let mut parking = parking.peekable();
    if parking.peek().is_none() {
        return Vec::new();
    }
    let starts = starts_of_packets(effects, forward);
    let mut found = Vec::new();
    for (id, (output, table)) in parking {
        let marks = effects[id].sliced.marks;
        let mut seen = BTreeSet::new();
        let mut open = forward[id].get(output).cloned().unwrap_or_default();
        while let Some((to, input)) = open.pop() {
            // Another table's payloads are not put back here.
            if effects[to].sliced.joins == Some((input, table)) || !seen.insert((to, input)) {
                continue;
            }
            // Who stands for others may ask in another order than they, but decides by nothing else.
            let stood_for = &effects[to].stands_for;
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

#[cfg(test)]
mod tests {
    use element::effects::{
        Action, Case, EXTRA_LENGTH, Field, Filter, Number, Sliced, Target, Value, wire_field,
    };

    use super::*;

    fn chain(between: Effects, marks: bool) -> Vec<String> {
        let parks = Effects { sliced: Sliced { parks: Some((0, 7)), joins: None, marks }, ..Effects::pass() };
        let joins = Effects { sliced: Sliced { parks: None, joins: Some((0, 7)), marks }, ..Effects::pass() };
        let deep = Effects::cases(vec![
            Case::new(Filter::Any, Target::Output(0))
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
            Case::new(Filter::Opaque { about: "something", reads }, Target::Output(0)),
            Case::new(Filter::Any, Target::Output(0)),
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
        // Behind the joint there is one that reads the payload, and one that does not.
        let standing_for = |stands_for: Vec<ElementId>| Effects { stands_for, ..reading(&[Field::Length]) };
        assert_eq!(chain(standing_for(vec![0]), true), Vec::<String>::new());
        assert_eq!(chain(standing_for(vec![0, 4]), true), ["writes the payload"]);
    }

    #[test]
    fn lengths_are_for_those_who_know_of_the_rest() {
        assert_eq!(chain(reading(&[Field::Length]), true), ["reads the length"]);
        assert_eq!(chain(reading(&[Field::Length, EXTRA_LENGTH]), true), Vec::<String>::new());
        let long = Filter::AtMost(Number::of(Field::Length), Number::constant(1000));
        let cases = vec![Case::new(long, Target::Output(0)), Case::new(Filter::Any, Target::Output(0))];
        assert_eq!(chain(Effects::cases(cases), true), ["reads the length"]);
    }

    #[test]
    fn the_dscp_is_the_packets_own_without_a_mark() {
        assert_eq!(chain(reading(&[wire_field::IP_TOS]), true), ["reads the DSCP"]);
        assert_eq!(chain(reading(&[wire_field::IP_TOS]), false), Vec::<String>::new());
    }
}
