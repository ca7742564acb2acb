use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Returns the first rule that has a box containing the point and that holds there, by a linear search, with
/// which results of the trees are compared.
fn first_of<const D: usize>(areas: &[Area<D>], point: &[u32; D], holds: impl Fn(u32) -> bool) -> u32 {
    let inside = |area: &&Area<D>| {
        area.ranges.iter().zip(point).all(|(range, value)| range.0 <= *value && *value <= range.1)
            && (area.exact || holds(area.rule))
    };
    areas.iter().filter(inside).map(|area| area.rule).min().unwrap_or(NONE)
}

fn all_agree<const D: usize>(areas: &[Area<D>], all: &[[u32; D]]) {
    let cuts = Cuts::new(areas);
    for chunk in all.chunks(GROUP) {
        let mut points = Points::default();
        for (i, point) in chunk.iter().enumerate() {
            points.set(i, point);
        }
        // A formula decides if a rule that is not exact holds at a point. The answer is arbitrary, but the
        // same in each call.
        let holds = |point: usize, rule: u32| !(chunk[point][0] ^ rule).is_multiple_of(3);
        let found = cuts.first(&points, chunk.len(), holds);
        assert_eq!(found, cuts.first_plainly(&points, chunk.len(), holds));
        for (i, point) in chunk.iter().enumerate() {
            assert_eq!(found[i], first_of(areas, point, |rule| holds(i, rule)), "{point:?}");
        }
        assert!(found[chunk.len()..].iter().all(|&rule| rule == NONE));
    }
}

/// Generates ranges: all values, single values, prefixes, and arbitrary ranges, from few values so that
/// they overlap.
fn range() -> impl Strategy<Value = Range> {
    let value = || prop_oneof![0..40u32, Just(u32::MAX), any::<u8>().prop_map(|high| u32::from(high) << 24)];
    prop_oneof![
        2 => Just(ALL),
        2 => value().prop_map(|value| (value, value)),
        2 => (value(), 0..32u32).prop_map(|(value, free)| {
            let free = (1 << free) - 1;
            (value & !free, value | free)
        }),
        2 => (value(), value()).prop_map(|(a, b)| (a.min(b), a.max(b))),
    ]
}

fn areas<const D: usize>(most: usize) -> impl Strategy<Value = Vec<Area<D>>> {
    let area = (0..1000u32, any::<bool>(), vec(range(), D));
    let area = area.prop_map(|(rule, exact, ranges)| Area {
        rule,
        exact,
        ranges: std::array::from_fn(|i| ranges[i]),
    });
    vec(area, 0..most)
}

/// Returns points whose fields are ends of boxes' ranges, values next to these ends, or arbitrary values.
fn corners<const D: usize>(areas: &[Area<D>], choices: &[u32]) -> Vec<[u32; D]> {
    let corner = |choices: &[u32]| {
        std::array::from_fn(|field| {
            let choice = choices[field % choices.len()] as usize;
            let Some(area) = areas.get(choice % (areas.len() + 1)) else { return choice as u32 };
            let (low, high) = area.ranges[field];
            [low, high, low.wrapping_sub(1), high.wrapping_add(1)][choice / 7 % 4]
        })
    };
    choices.windows(D).map(corner).collect()
}

proptest! {
    #[test]
    fn the_first_rule_is_found(areas in areas::<3>(120), choices in vec(any::<u32>(), 3..200)) {
        all_agree(&areas, &corners(&areas, &choices));
    }

    #[test]
    fn the_first_rule_is_found_in_one_field(areas in areas::<1>(200), choices in vec(any::<u32>(), 1..200)) {
        all_agree(&areas, &corners(&areas, &choices));
    }

    #[test]
    fn the_first_rule_is_found_in_many_fields(areas in areas::<11>(60), choices in vec(any::<u32>(), 11..80)) {
        all_agree(&areas, &corners(&areas, &choices));
    }
}

#[test]
fn without_boxes_nothing_is_found() {
    all_agree::<2>(&[], &[[0, 0], [u32::MAX, 7]]);
}

/// Makes 1000 equal boxes, which no branch can separate. They must be stored only once, and rules that do not
/// hold everywhere in their box must still be tried in their order.
#[test]
fn equal_boxes_do_not_take_room() {
    let areas: Vec<Area<2>> =
        (0..1000).map(|rule| Area { rule, exact: rule > 990, ranges: [(5, 9), ALL] }).collect();
    all_agree(&areas, &[[5, 0], [9, 9], [4, 0], [10, 0]]);
    let size = Cuts::new(&areas).size();
    assert!(size < 1000 * 64, "{size}");
}
