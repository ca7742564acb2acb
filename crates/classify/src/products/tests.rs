use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cuts::{ALL, Area, Cuts, Range};

/// Generates ranges of a field of `bits` bits: all values, single values, prefixes, and arbitrary ranges.
fn range(bits: u32) -> impl Strategy<Value = Range> {
    let top = u32::MAX >> (32 - bits);
    let value = move || {
        prop_oneof![0..6u32, Just(top), any::<u32>().prop_map(move |value| value & top & 0x8181_8181)]
    };
    prop_oneof![
        2 => Just(ALL),
        2 => value().prop_map(|value| (value, value)),
        2 => (value(), 0..bits).prop_map(|(value, free)| {
            let free = (1u32 << free) - 1;
            (value & !free, value | free)
        }),
        1 => (value(), value()).prop_map(|(a, b)| (a.min(b), a.max(b))),
    ]
}

fn area() -> impl Strategy<Value = Area<FIELDS>> {
    let ranges = (range(32), range(32), range(16), range(16), range(8), range(1));
    (0..1000u32, prop::bool::weighted(0.9), ranges).prop_map(|(rule, exact, (a, b, c, d, e, f))| Area {
        rule,
        exact,
        ranges: [a, b, c, d, e, f],
    })
}

/// Returns a point whose fields are ends of boxes' ranges, values next to these ends, or arbitrary values; a
/// port may be the value for packets without ports.
fn corner(areas: &[Area<FIELDS>], choice: u32) -> [u32; FIELDS] {
    let mut random = fastrand::Rng::with_seed(choice.into());
    std::array::from_fn(|field| {
        let top = [u32::MAX, u32::MAX, 1 << 16, 1 << 16, 255, 1][field];
        let Some(area) = areas.get(random.usize(..=areas.len())) else { return random.u32(..=top) };
        let (low, high) = area.ranges[field];
        [low, high, low.wrapping_sub(1), high.wrapping_add(1)][random.usize(..4)].min(top)
    })
}

/// Checks that [`Products`] and [`Cuts`] find the same rules. [`Products`] may return [`ASK`] only where the
/// first rule need not hold everywhere in its box.
fn agree(areas: &[Area<FIELDS>], all: &[[u32; FIELDS]]) {
    let products = Products::new(areas).unwrap();
    let cuts = Cuts::new(areas);
    for chunk in all.chunks(GROUP) {
        let mut points = Points::default();
        for (number, point) in chunk.iter().enumerate() {
            points.set(number, point);
        }
        let found = products.first(&points, chunk.len());
        let [all_hold, none_holds] =
            [true, false].map(|holds| cuts.first(&points, chunk.len(), |_, _| holds));
        for (number, &found) in found.iter().enumerate() {
            if found == ASK {
                let asked = |area: &&Area<FIELDS>| area.rule == all_hold[number] && !area.exact;
                assert!(areas.iter().any(|area| asked(&area)), "{:?}", chunk.get(number));
            } else {
                assert_eq!([found; 2], [all_hold[number], none_holds[number]], "{:?}", chunk.get(number));
            }
        }
    }
}

proptest! {
    #[test]
    fn tables_agree_with_cuts(areas in vec(area(), 0..80), choices in vec(any::<u32>(), 1..200)) {
        let points: Vec<_> = choices.iter().map(|&choice| corner(&areas, choice)).collect();
        agree(&areas, &points);
    }
}

#[test]
fn sets_whose_tables_would_be_large_have_none() {
    let address = |number: u32| (number << 12, number << 12 | 0xfff);
    let area =
        |rule| Area { rule, exact: true, ranges: [address(rule), address(rule ^ 1), ALL, ALL, ALL, ALL] };
    let areas: Vec<_> = (0..6000).map(area).collect();
    assert!(Products::new(&areas).is_none());
    assert!(Products::new(&areas[..2000]).is_some());
}

/// Checks that sets of boxes have no tables if making the tables would take too much time or memory,
/// although the tables would be small.
#[test]
fn sets_whose_tables_would_take_long_to_make_have_none() {
    let host = |number: u32| (number, number);
    let all = |rule: u32, exact: bool, ranges: [Range; FIELDS]| Area { rule, exact, ranges };
    let pair = |rule: u32| all(rule, true, [host(rule), host(rule), ALL, ALL, ALL, ALL]);
    let wide = |rule: u32| all(rule, false, [ALL; FIELDS]);
    let areas = |wides: u32, pairs: u32| -> Vec<_> {
        (0..wides).map(wide).chain((wides..wides + pairs).map(pair)).collect()
    };
    assert!(Products::new(&areas(5000, 2800)).is_none(), "each pair meets all the others' words");
    assert!(Products::new(&areas(100, 2000)).is_some());
    // The ranges of destination ports are nested, with a different start for each 16 boxes. Each start gives
    // another set of boxes, and most of these sets have many boxes.
    let ports = |rule: u32| all(rule / 16, true, [ALL, ALL, host(rule % 16), (rule / 16, 0xffff), ALL, ALL]);
    assert!(Products::new(&(0..16 * 4000).map(ports).collect::<Vec<_>>()).is_none());
    assert!(Products::new(&(0..16 * 200).map(ports).collect::<Vec<_>>()).is_some());
}
