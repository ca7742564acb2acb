use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::hash::KeyHasher;
use crate::key::AddressKey;

type States = CoreStates<AddressKey, [u64; 3]>;

fn key(n: u32) -> AddressKey {
    AddressKey::new(Ipv4Addr::from_bits(n).into(), 0)
}

fn hash(n: u32) -> u32 {
    KeyHasher::new(7).hash(&key(n))
}

fn secs(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

/// Returns the states of two cores: by convention of the tests the first writes and the second reads.
fn two(capacity: usize) -> [States; 2] {
    States::new(2, capacity).unwrap().try_into().ok().unwrap()
}

#[test]
fn others_see_what_one_writes() {
    let [mut one, other] = two(10);
    let opened = one.insert_local(&key(5), hash(5), &[1, 2, 3], secs(1)).unwrap();
    let Opened::New(id) = opened else { panic!("{opened:?}") };
    assert_eq!((id.core(), one.len()), (0, 1));
    assert_eq!(other.get(0, &key(5), hash(5)), Some((id, [1, 2, 3])));
    assert_eq!((other.get_local(&key(5), hash(5)), other.get(0, &key(6), hash(6))), (None, None));
    assert_eq!(other.get(9, &key(5), hash(5)), None, "there is no such core");
    assert!(one.update_local(id, &[4, 5, 6]));
    assert_eq!(other.get(0, &key(5), hash(5)), Some((id, [4, 5, 6])));
    // The second core is not the designated core of the flow, so its writes are refused.
    let mut other = other;
    assert!(!other.update_local(id, &[0; 3]) && other.remove_local(id).is_none());
    assert_eq!(one.insert_local(&key(5), hash(5), &[0; 3], secs(2)), Ok(Opened::Present(id)));
    assert_eq!(one.remove_local(id), Some([4, 5, 6]));
    assert_eq!((other.get(0, &key(5), hash(5)), one.remove_local(id), one.len()), (None, None, 0));
    assert!(!one.update_local(id, &[7; 3]));
    // The freed entry is assigned to the next flow, with another generation, so the first id is stale.
    let next = one.insert_local(&key(6), hash(6), &[9; 3], secs(3)).unwrap().id();
    assert_eq!(next.flow().index(), id.flow().index());
    assert_ne!(next.flow().generation(), id.flow().generation());
    assert!(one.remove_local(id).is_none() && one.len() == 1);
    assert!(other.get(0, &key(6), hash(6)).is_some());
    drop(one);
    assert!(other.get(0, &key(6), hash(6)).is_none());
}

#[test]
fn a_flow_that_only_other_cores_see_survives_its_time_out() {
    // The time starts soon after 1970, and then at a time in 2025.
    for start in [100, 1_763_800_000] {
        let [mut one, other] = two(10);
        let id = one.insert_local(&key(1), hash(1), &[0; 3], secs(start)).unwrap().id();
        let lost = one.insert_local(&key(2), hash(2), &[2; 3], secs(start)).unwrap().id();
        let mut ended = Vec::new();
        for second in start..start + 100 {
            let (id, _) = other.get(0, &key(1), hash(1)).unwrap();
            other.see(id, secs(second));
            one.expire_local(secs(second), secs(30), 10, |id, value| ended.push((id, value, second)));
        }
        let [(who, value, when)] = ended[..] else { panic!("{ended:?}") };
        assert_eq!((who, value), (lost, [2; 3]));
        assert!((start + 30..start + 36).contains(&when), "{when}");
        let last = one.last_seen(id);
        assert!(last >= Some(secs(start + 99)) && last <= Some(secs(start + 100)), "{last:?}");
        assert_eq!(one.last_seen(lost), None);
    }
}

#[test]
fn what_was_closed_stays_readable_for_a_while() {
    let [mut one, other] = two(10);
    let mut open = |n| one.insert_local(&key(n), hash(n), &[n.into(); 3], secs(100)).unwrap().id();
    let [closed, again, twice] = [open(1), open(2), open(3)];
    for id in [closed, again, twice, twice] {
        one.close_local(id, secs(100));
    }
    assert_eq!(one.insert_local(&key(2), hash(2), &[8; 3], secs(101)), Ok(Opened::Present(again)));
    one.insert_local(&key(3), hash(3), &[8; 3], secs(101)).unwrap();
    one.close_local(twice, secs(104));
    let mut ended = |now| {
        let mut ended = Vec::new();
        one.expire_local(now, secs(1000), 10, |id, _| ended.push(id));
        ended
    };
    assert_eq!(ended(secs(109)), []);
    assert_eq!(other.get(0, &key(1), hash(1)), Some((closed, [1; 3])));
    assert_eq!(ended(secs(110)), [closed]);
    assert_eq!(other.get(0, &key(1), hash(1)), None);
    assert_eq!(ended(secs(113)), []);
    assert_eq!(ended(secs(114)), [twice]);
    assert!(other.get(0, &key(2), hash(2)).is_some());
}

proptest! {
    /// Opens, closes and removes connections in any order, at times that ascend: connections that stay closed
    /// for [`LINGER`] end in the order in which they were closed, and no others.
    #[test]
    fn closed_connections_end_in_order(steps in prop::collection::vec((0u32..6, 0u8..5, 0i64..4), 0..60)) {
        let [mut one, _] = two(6);
        let mut now = secs(100);
        // The open connections; and the closed ones in the order in which they were closed, each with the
        // time at which it ends.
        let (mut opened, mut closed) = (Vec::<u32>::new(), Vec::<(Timestamp, u32)>::new());
        for (n, step, later) in steps {
            now = now + secs(later);
            let id = one.get_local(&key(n), hash(n)).map(|(id, _)| id);
            prop_assert_eq!(id.is_some(), opened.contains(&n) || closed.iter().any(|(_, other)| *other == n));
            match (step, id) {
                (0 | 1, Some(id)) => {
                    one.close_local(id, now);
                    if opened.contains(&n) {
                        closed.push((now + LINGER, n));
                    }
                    opened.retain(|other| *other != n);
                }
                (2, Some(id)) => {
                    prop_assert_eq!(one.remove_local(id), Some([n.into(); 3]));
                    opened.retain(|other| *other != n);
                    closed.retain(|(_, other)| *other != n);
                }
                _ => {
                    one.insert_local(&key(n), hash(n), &[n.into(); 3], now).unwrap();
                    closed.retain(|(_, other)| *other != n);
                    opened.retain(|other| *other != n);
                    opened.push(n);
                }
            }
            let mut ended = Vec::new();
            one.expire_local(now, secs(10_000), 10, |_, [value, ..]| ended.push(value as u32));
            let expected: Vec<u32> =
                closed.iter().filter(|(due, _)| *due <= now).map(|(_, n)| *n).collect();
            prop_assert_eq!(ended, expected);
            closed.retain(|(due, _)| *due > now);
            prop_assert_eq!(one.len(), opened.len() + closed.len());
        }
    }
}

/// Opens two flows at very different times since 1970 and has another core see one of them 40 s later: the
/// recorded time is less than a second too late, and only the flow that was not seen expires.
#[test]
fn stamps_are_of_all_times() {
    for start in [0, 1_000_000_000, 1_795_000_000, 8_000_000_000] {
        let [mut one, other] = two(10);
        let open = |one: &mut States, n| {
            one.insert_local(&key(n), hash(n), &[n.into(); 3], secs(start)).unwrap().id()
        };
        let [id, lost] = [open(&mut one, 1), open(&mut one, 2)];
        other.see(id, secs(start + 40));
        let seen = one.last_seen(id).unwrap();
        assert!(seen >= secs(start + 40) && seen < secs(start + 41), "{seen:?}");
        let mut ended = Vec::new();
        assert_eq!(one.expire_local(secs(start + 20), secs(30), 10, |id, _| ended.push(id)), 0);
        assert_eq!(one.expire_local(secs(start + 50), secs(30), 10, |id, _| ended.push(id)), 1);
        assert_eq!(ended, [lost]);
    }
}

#[test]
fn pairs_live_together() {
    let [mut one, mut other] = two(10);
    let mut open = |n| one.insert_local(&key(n), hash(n), &[n.into(); 3], secs(100)).unwrap().id();
    let [there, back, third] = [open(1), open(2), open(3)];
    assert!(one.pair_local(there, back) && one.pair_of(there) == Some(back) && one.pair_of(third).is_none());
    assert!(!one.pair_local(there, third) && !one.pair_local(third, third));
    assert!(!other.pair_local(there, third), "they are not its own");
    // Only one flow of the pair has packets, and only on the other core: neither flow of the pair expires,
    // but the third flow does.
    let mut ended = Vec::new();
    for second in 100..200 {
        other.see(back, secs(second));
        one.expire_local(secs(second), secs(30), 10, |id, _| ended.push(id));
    }
    assert_eq!(ended, [third]);
    // Closing either flow of the pair closes both; inserting either again opens both.
    let mut expire = |one: &mut States, now| {
        ended.clear();
        let count = one.expire_local(now, secs(30), 10, |id, _| ended.push(id));
        assert_eq!(count, ended.len());
        ended.clone()
    };
    one.close_local(there, secs(200));
    one.close_local(back, secs(201));
    one.insert_local(&key(2), hash(2), &[9; 3], secs(205)).unwrap();
    assert_eq!(expire(&mut one, secs(212)), []);
    one.close_local(back, secs(212));
    one.close_local(there, secs(215));
    assert_eq!(expire(&mut one, secs(221)), []);
    assert_eq!(expire(&mut one, secs(222)), [back, there]);
    assert_eq!(expire(&mut one, secs(230)), []);
    // Removing one flow of the pair removes the other, too.
    let mut open = |n| one.insert_local(&key(n), hash(n), &[n.into(); 3], secs(300)).unwrap().id();
    let [there, back] = [open(4), open(5)];
    assert!(one.pair_local(there, back));
    assert_eq!((one.remove_local(back), one.remove_local(there), one.len()), (Some([5; 3]), None, 0));
}

#[test]
fn a_full_table_says_so() {
    assert!(States::new(2, 0).is_err() && States::new(1 << 17, 8).is_err());
    let [mut one, _] = two(3);
    for n in 0..3 {
        one.insert_local(&key(n), hash(n), &[0; 3], secs(1)).unwrap();
    }
    assert_eq!(one.insert_local(&key(3), hash(3), &[0; 3], secs(1)), Err(InsertError::Full));
    // All 200 flows have the same hash, so they are in one bucket: seven in its slots, 64 on its chain. The
    // next is refused.
    let [mut one, other] = two(200);
    let inserted = (0..200).map(|n| one.insert_local(&key(n), 5, &[n.into(); 3], secs(1)));
    let results: Vec<_> = inserted.collect();
    let good = results.iter().take_while(|result| result.is_ok()).count();
    assert_eq!((good, results[good]), (7 + 64, Err(InsertError::Crowded)));
    for n in 0..good as u32 {
        assert_eq!(other.get(0, &key(n), 5).unwrap().1, [u64::from(n); 3]);
    }
}

#[test]
fn many_are_found_together() {
    let mut cores = States::new(3, 1000).unwrap();
    for n in 0..500 {
        for (core, states) in cores.iter_mut().enumerate().take(2) {
            states.insert_local(&key(n), hash(n), &[n.into(), core as u64, 7], secs(1)).unwrap();
        }
    }
    let numbers: Vec<u32> = (0..1000).step_by(7).collect();
    let keys: Vec<_> = numbers.iter().map(|&n| key(n)).collect();
    let hashes: Vec<_> = numbers.iter().map(|&n| hash(n)).collect();
    let whose: Vec<_> = numbers.iter().map(|n| (n % 3) as usize).collect();
    let mut states = vec![None; numbers.len()];
    cores[2].get_batch(&whose, &keys, &hashes, &mut states);
    for ((n, core), state) in numbers.into_iter().zip(whose).zip(states) {
        let expected = (core < 2 && n < 500).then(|| [u64::from(n), core as u64, 7]);
        assert_eq!(state.map(|(_, value)| value), expected, "{n}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64),
    Update(u32, u64),
    Remove(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..60u32;
    prop_oneof![
        3 => (key.clone(), any::<u64>()).prop_map(|(n, value)| Step::Insert(n, value)),
        1 => (key.clone(), any::<u64>()).prop_map(|(n, value)| Step::Update(n, value)),
        2 => key.prop_map(Step::Remove),
    ]
}

proptest! {
    /// Inserts, updates and removes flows at random: the table contains the same states as a map. With few
    /// hash `bits`, many flows share a bucket and some are on chains.
    #[test]
    fn it_does_what_a_map_does(steps in prop::collection::vec(step(), 0..400), bits in 0u32..32) {
        let [mut one, other] = two(40);
        let hash = |n| hash(n) & !(u32::MAX >> bits);
        let mut map: HashMap<u32, (StateId, [u64; 3])> = HashMap::new();
        for step in steps {
            match step {
                Step::Insert(n, value) => match one.insert_local(&key(n), hash(n), &[value; 3], secs(1)) {
                    Ok(Opened::New(id)) => prop_assert!(map.insert(n, (id, [value; 3])).is_none()),
                    Ok(Opened::Present(id)) => prop_assert_eq!(map.get(&n).map(|known| known.0), Some(id)),
                    Err(error) => prop_assert!(error == InsertError::Full && map.len() == 40),
                },
                Step::Update(n, value) => if let Some((id, known)) = map.get_mut(&n) {
                    *known = [value; 3];
                    prop_assert!(one.update_local(*id, known));
                },
                Step::Remove(n) => if let Some((id, known)) = map.remove(&n) {
                    prop_assert_eq!(one.remove_local(id), Some(known));
                },
            }
            prop_assert_eq!(one.len(), map.len());
        }
        for n in 0..60 {
            prop_assert_eq!(other.get(0, &key(n), hash(n)), map.get(&n).copied());
        }
    }
}

/// Two cores read, as fast as they can, the states that a third core changes. A state that is read never
/// mixes words of two changes, and never belongs to another flow. Each state contains the number of its
/// flow, so that the readers can check this.
#[test]
fn nobody_sees_half_of_a_change() {
    const KEYS: u32 = 64;
    let mut cores = States::new(3, 24).unwrap();
    let mut writer = cores.remove(0);
    // The words of a state: the number of the flow, the number of the change, and the complement of the
    // change.
    let state = |n: u32, change: u64| [u64::from(n), change, !change];
    let (over, found) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in &cores {
            let (over, found) = (&over, &found);
            scope.spawn(move || {
                let mut last = [0; KEYS as usize];
                let mut n = 0;
                while !over.load(Ordering::Relaxed) {
                    n = (n + 1) % KEYS;
                    if let Some((id, [flow, change, check])) = reader.get(0, &key(n), hash(n)) {
                        assert_eq!((flow, change), (u64::from(n), !check));
                        assert!(change >= last[n as usize], "time goes on");
                        last[n as usize] = change;
                        reader.see(id, secs(1));
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(3);
        let mut ids = HashMap::new();
        let mut change = 0;
        // The test is bounded by work instead of time: it ends when the readers have found 10,000 states
        // and the writer has made 2,000,000 changes.
        while change < 2_000_000 || found.load(Ordering::Relaxed) < 10_000 {
            let n = random.u32(0..KEYS);
            change += 1;
            match (ids.get(&n).copied(), random.bool()) {
                (Some(id), true) => assert!(writer.update_local(id, &state(n, change))),
                (Some(id), false) => {
                    writer.remove_local(id).unwrap();
                    ids.remove(&n);
                }
                (None, _) => {
                    if let Ok(opened) = writer.insert_local(&key(n), hash(n), &state(n, change), secs(1)) {
                        ids.insert(n, opened.id());
                    }
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}
