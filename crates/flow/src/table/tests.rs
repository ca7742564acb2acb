//! Tests of [`FlowTable`] against a plain map, of its internal invariants, and of its limits.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use proptest::prelude::*;
use wire::FiveTuple;

use super::entries::OVERFLOW_LIMIT;
use super::*;
use crate::bucket::position;
use crate::hash::KeyHasher;
use crate::key::{AddressKey, Directed, FiveTupleKey};

/// A key of one word. Tests pass any hash for it and so choose which keys collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromZeros)]
struct TestKey([u64; 1]);

impl Key for TestKey {
    fn words(&self) -> &[u64] {
        &self.0
    }
}

fn key(n: u64) -> TestKey {
    TestKey([n])
}

/// Returns a hash of `n` whose upper and lower bits are both spread, so that few test keys collide.
fn spread(n: u64) -> u32 {
    (n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn insert(table: &mut FlowTable<TestKey>, n: u64, now: i64) -> FlowId {
    match table.insert(&key(n), spread(n), Timestamp(now)) {
        Ok(Inserted::New(id)) => id,
        other => panic!("{n}: {other:?}"),
    }
}

fn expire<K: Key>(table: &mut FlowTable<K>, now: i64, timeout: i64, at_most: usize) -> Vec<FlowId> {
    let mut ended = Vec::new();
    table.expire(Timestamp(now), Timestamp(timeout), at_most, |id, _| ended.push(id));
    ended
}

impl<K: Key> FlowTable<K> {
    /// Checks the invariants of the table: each flow in it is reachable from exactly one bucket, chains
    /// exist only on full buckets, pairs are mutual, and the counts in `stats` agree.
    fn check(&self) {
        let mut reached = HashSet::new();
        for (at, bucket) in self.buckets.iter().enumerate() {
            let slots: Vec<Link> = (1..=255).flat_map(|tag| bucket.candidates(tag)).collect();
            assert!(bucket.overflow == Link::NONE || slots.len() == SLOTS);
            let chain =
                std::iter::successors(bucket.overflow.index(), |&at| self.entries[at as usize].next.index());
            for index in slots.into_iter().filter_map(Link::index).chain(chain) {
                assert!(reached.insert(index), "entry {index} is reached twice");
                let entry = &self.entries[index as usize];
                assert_eq!(position(entry.hash, self.buckets.len()), at);
                assert_ne!(entry.generation, 0);
                assert_eq!(self.holds[index as usize] & REMOVED, 0);
                if let Some(reverse) = entry.reverse.index() {
                    assert_eq!(self.entries[reverse as usize].reverse, Link::to(index));
                }
            }
        }
        assert_eq!(reached.len(), self.stats.entries);
        let free = std::iter::successors(self.free.index(), |&at| self.entries[at as usize].next.index());
        let free: HashSet<u32> = free.collect();
        assert!(free.iter().all(|&index| self.entries[index as usize].generation == 0));
        let removed = (0..self.used).filter(|&n| self.holds[n as usize] & REMOVED != 0).count();
        assert_eq!(removed, self.stats.held);
        assert_eq!(free.len() + reached.len() + removed, self.used as usize, "an entry was lost");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Lookup(u64),
    Touch(usize),
    Remove(usize),
    Retain(usize),
    Release(usize),
    Pair(usize, usize),
    Expire { timeout: i64, at_most: usize },
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let flow = 0..60u64;
    // Steps choose among all ids that were ever assigned, so most of the chosen ids are stale.
    let id = 0..1000usize;
    let step = prop_oneof![
        6 => flow.clone().prop_map(Step::Insert),
        2 => flow.prop_map(Step::Lookup),
        2 => id.clone().prop_map(Step::Touch),
        3 => id.clone().prop_map(Step::Remove),
        1 => id.clone().prop_map(Step::Retain),
        2 => id.clone().prop_map(Step::Release),
        1 => (id.clone(), id).prop_map(|(a, b)| Step::Pair(a, b)),
        1 => (0..30i64, 0..60usize).prop_map(|(timeout, at_most)| Step::Expire { timeout, at_most }),
    ];
    proptest::collection::vec((0..3i64, step), 1..400)
}

/// The model's data about a flow that is in the table, or was removed and is still held.
struct Known {
    key: TestKey,
    last: i64,
    holds: u32,
    removed: bool,
    reverse: Option<FlowId>,
}

#[derive(Default)]
struct Model {
    flows: HashMap<FlowId, Known>,
    by_key: HashMap<TestKey, FlowId>,
}

impl Model {
    fn unpair(&mut self, id: FlowId) {
        let reverse = self.flows.get_mut(&id).and_then(|flow| flow.reverse.take());
        if let Some(other) = reverse.and_then(|id| self.flows.get_mut(&id)) {
            other.reverse = None;
        }
    }

    fn remove(&mut self, id: FlowId) -> Option<TestKey> {
        let flow = self.flows.get_mut(&id).filter(|flow| !flow.removed)?;
        flow.removed = true;
        let (key, held) = (flow.key, flow.holds > 0);
        self.unpair(id);
        self.by_key.remove(&key);
        if !held {
            self.flows.remove(&id);
        }
        Some(key)
    }
}

const CAPACITY: usize = 40;

/// Runs the steps on a table and on a model, and compares all results. `hash` determines how many keys
/// share a bucket or a tag. Generations repeat after three reuses of an index, so a stale id becomes valid
/// again. The model compares ids by value, so it shows the same.
fn agrees(steps: Vec<(i64, Step)>, hash: fn(u64) -> u32) {
    let mut table = FlowTable::with_generations(CAPACITY, 3).unwrap();
    let (mut model, mut ids, mut now) = (Model::default(), Vec::<FlowId>::new(), 0);
    let pick = |ids: &[FlowId], n: usize| (!ids.is_empty()).then(|| ids[n % ids.len()]);
    for (pause, step) in steps {
        now += pause;
        match step {
            Step::Insert(n) => {
                let full = model.flows.len() == CAPACITY;
                match (table.insert(&key(n), hash(n), Timestamp(now)), model.by_key.get(&key(n))) {
                    (Ok(Inserted::Present(id)), Some(&known)) => assert_eq!(id, known),
                    (Err(InsertError::Full), None) => assert!(full),
                    (Ok(Inserted::New(id)), None) => {
                        assert!(!full && id.generation() <= 3 && (id.index() as usize) < CAPACITY);
                        assert!(model.flows.keys().all(|other| other.index != id.index), "{id:?} is in use");
                        let flow = Known { key: key(n), last: now, holds: 0, removed: false, reverse: None };
                        model.flows.insert(id, flow);
                        model.by_key.insert(key(n), id);
                        ids.push(id);
                    }
                    other => panic!("insert {n}: {other:?}"),
                }
            }
            Step::Lookup(n) => {
                assert_eq!(table.lookup(&key(n), hash(n)), model.by_key.get(&key(n)).copied());
            }
            Step::Touch(n) => {
                let Some(id) = pick(&ids, n) else { continue };
                let flow = model.flows.get_mut(&id);
                assert_eq!(table.touch(id, Timestamp(now)), flow.is_some());
                flow.into_iter().for_each(|flow| flow.last = now);
            }
            Step::Remove(n) => {
                let Some(id) = pick(&ids, n) else { continue };
                assert_eq!(table.remove(id), model.remove(id));
            }
            Step::Retain(n) => {
                let Some(id) = pick(&ids, n) else { continue };
                let flow = model.flows.get_mut(&id);
                assert_eq!(table.retain(id), flow.is_some());
                flow.into_iter().for_each(|flow| flow.holds += 1);
            }
            Step::Release(n) => {
                let Some(id) = pick(&ids, n) else { continue };
                let flow = model.flows.get_mut(&id).filter(|flow| flow.holds > 0);
                assert_eq!(table.release(id), flow.is_some());
                if let Some(flow) = flow {
                    flow.holds -= 1;
                    if flow.holds == 0 && flow.removed {
                        model.flows.remove(&id);
                    }
                }
            }
            Step::Pair(a, b) => {
                let (Some(a), Some(b)) = (pick(&ids, a), pick(&ids, b)) else { continue };
                let live = |id| model.flows.get(&id).is_some_and(|flow| !flow.removed);
                let both = live(a) && live(b);
                assert_eq!(table.pair(a, b), both);
                if both {
                    model.unpair(a);
                    model.unpair(b);
                    model.flows.entry(a).and_modify(|flow| flow.reverse = Some(b));
                    model.flows.entry(b).and_modify(|flow| flow.reverse = Some(a));
                }
            }
            Step::Expire { timeout, at_most } => {
                let before = table.stats().expirations;
                let mut ended = Vec::new();
                let count = table
                    .expire(Timestamp(now), Timestamp(timeout), at_most, |id, key| ended.push((id, *key)));
                assert_eq!((ended.len(), table.stats().expirations), (count, before + count as u64));
                assert!(count <= at_most);
                for (id, key) in ended {
                    let flow = &model.flows[&id];
                    assert!(flow.last + timeout <= now && flow.holds == 0, "{id:?} expired too early");
                    assert_eq!(model.remove(id), Some(key));
                }
            }
        }
        table.check();
        for &id in &ids {
            let flow = model.flows.get(&id);
            assert_eq!(table.key(id), flow.map(|flow| &flow.key));
            assert_eq!(table.last_seen(id), flow.map(|flow| Timestamp(flow.last)));
            assert_eq!(table.reverse(id), flow.and_then(|flow| flow.reverse));
        }
    }
    let keys: Vec<TestKey> = (0..60).map(key).collect();
    let hashes: Vec<u32> = (0..60).map(hash).collect();
    let mut found = vec![None; 60];
    table.lookup_batch(&keys, &hashes, &mut found);
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found, model.by_key.get(key).copied());
    }
}

proptest! {
    #[test]
    fn agrees_with_a_map(steps in steps()) {
        agrees(steps, spread);
    }

    #[test]
    fn agrees_with_a_map_if_hashes_are_equal(steps in steps()) {
        agrees(steps, |_| 0);
    }

    #[test]
    fn agrees_with_a_map_if_tags_are_equal(steps in steps()) {
        agrees(steps, |n| spread(n) & !0xff);
    }

    #[test]
    fn a_batch_finds_what_single_look_ups_find(
        present in proptest::collection::vec(0..3000u64, 0..1000),
        asked in proptest::collection::vec(0..3000u64, 0..200),
        lengths in (0..200usize, 0..200usize),
    ) {
        let mut table = FlowTable::new(1000).unwrap();
        for n in present {
            table.insert(&key(n), spread(n), Timestamp(0)).unwrap();
        }
        let keys: Vec<TestKey> = asked.iter().map(|&n| key(n)).collect();
        let mut hashes: Vec<u32> = asked.iter().map(|&n| spread(n)).collect();
        hashes.truncate(lengths.0);
        let untouched = FlowId { index: 9999, generation: NonZeroU32::MAX };
        let mut found = vec![Some(untouched); lengths.1];
        table.lookup_batch(&keys, &hashes, &mut found);
        let both = keys.len().min(hashes.len());
        for (at, found) in found.into_iter().enumerate() {
            let expected = if at < both { table.lookup(&keys[at], hashes[at]) } else { Some(untouched) };
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn flows_expire_in_time(
        flows in 1..300usize,
        timeout in 1..2000i64,
        pace in 0..4000i64,
        at_most in 1..400usize,
        pause in 1..50i64,
        touches in proptest::collection::vec((0..300usize, 0..3000i64), 0..100),
    ) {
        let mut table = FlowTable::new(300).unwrap();
        let ids: Vec<FlowId> = (0..flows).map(|n| insert(&mut table, n as u64, 0)).collect();
        let mut last = vec![0; flows];
        let turn = flows.div_ceil(at_most) as i64 * pause;
        let pace = pace.min(timeout);
        let latest = timeout + pace / SLACK + 2 * turn;
        let mut touches = touches;
        touches.sort_by_key(|&(_, time)| time);
        let mut touches = touches.into_iter().peekable();
        let (mut now, mut gone) = (0, HashSet::new());
        while gone.len() < flows {
            while let Some((n, time)) = touches.next_if(|&(_, time)| time <= now) {
                if let Some(last) = last.get_mut(n) && table.touch(ids[n], Timestamp(time)) {
                    *last = time;
                }
            }
            let mut ended = Vec::new();
            let [at, idle, pace] = [now, timeout, pace].map(Timestamp);
            table.expire_paced(at, idle, pace, at_most, |id, _| ended.push(id));
            for id in ended {
                prop_assert!(gone.insert(id), "{:?} expired twice", id);
            }
            for (id, last) in ids.iter().zip(&last) {
                let idle = now - last;
                prop_assert!(idle >= timeout || !gone.contains(id), "{:?} expired after {}", id, idle);
                prop_assert!(idle <= latest || gone.contains(id), "{:?} is there after {}", id, idle);
            }
            now += pause;
        }
        prop_assert_eq!(table.stats().entries, 0);
        prop_assert_eq!(table.stats().expirations, flows as u64);
        table.check();
    }
}

#[test]
fn every_entry_can_be_used() {
    const FLOWS: usize = 100_000;
    let hasher = KeyHasher::new(3);
    let keys: Vec<FiveTupleKey> = (0..=FLOWS as u32)
        .map(|n| (Ipv4Addr::from_bits(0x0a00_0000 + n / 16), 1024 + (n % 16) as u16))
        .map(|client| FiveTupleKey::new(&FiveTuple::v4(client, (Ipv4Addr::LOCALHOST, 80), 6), 0))
        .collect();
    let mut table = FlowTable::new(FLOWS).unwrap();
    for (n, key) in keys[..FLOWS].iter().enumerate() {
        let inserted = table.insert(key, hasher.hash(key), Timestamp(0)).unwrap();
        assert_eq!((inserted.id().index() as usize, inserted.id().generation()), (n, 1));
    }
    let more = &keys[FLOWS];
    assert_eq!(table.insert(more, hasher.hash(more), Timestamp(0)), Err(InsertError::Full));
    let again = table.insert(&keys[7], hasher.hash(&keys[7]), Timestamp(0));
    assert!(matches!(again, Ok(Inserted::Present(id)) if id.index() == 7), "{again:?}");
    let stats = TableStats { capacity: FLOWS, entries: FLOWS, insert_failures: 1, ..TableStats::default() };
    assert_eq!(table.stats(), stats);
    table.check();
    for (n, key) in keys[..FLOWS].iter().enumerate() {
        assert_eq!(table.lookup(key, hasher.hash(key)).map(|id| id.index() as usize), Some(n));
        assert_eq!(table.lookup(&key.reversed(), hasher.hash(&key.reversed())), None);
    }
    assert_eq!(expire(&mut table, 10, 10, usize::MAX).len(), FLOWS);
    assert!(keys[..FLOWS].iter().all(|key| table.lookup(key, hasher.hash(key)).is_none()));
    table.check();
    for key in &keys[..FLOWS] {
        assert_eq!(table.insert(key, hasher.hash(key), Timestamp(0)).unwrap().id().generation(), 2);
    }
}

#[test]
fn equal_hashes_fill_one_bucket_and_its_chain() {
    let mut table = FlowTable::new(1000).unwrap();
    let room = (SLOTS + OVERFLOW_LIMIT) as u64;
    let ids: Vec<FlowId> = (0..room).map(|n| table.insert(&key(n), 77, Timestamp(0)).unwrap().id()).collect();
    assert_eq!(table.insert(&key(room), 77, Timestamp(0)), Err(InsertError::Crowded));
    assert_eq!(table.insert(&key(3), 77, Timestamp(0)), Ok(Inserted::Present(ids[3])));
    assert!(table.insert(&key(room), 1 << 31, Timestamp(0)).is_ok(), "other buckets are not concerned");
    assert_eq!(table.stats().insert_failures, 1);
    let keys: Vec<TestKey> = (0..room + 5).map(key).collect();
    let mut found = vec![None; keys.len()];
    table.lookup_batch(&keys, &vec![77; keys.len()], &mut found);
    assert!(found.iter().take(ids.len()).eq(ids.iter().map(|&id| Some(id)).collect::<Vec<_>>().iter()));
    assert!(found.iter().skip(ids.len()).all(Option::is_none));
    table.check();
    // Flows are removed from the middle of the order of insertion outwards, so that links are removed at the
    // beginning of the chain, within it and at its end.
    for n in 0..room {
        let at = if n % 2 == 0 { room / 2 + n / 2 } else { room / 2 - n / 2 - 1 };
        assert_eq!(table.remove(ids[at as usize]), Some(key(at)));
        assert_eq!(table.lookup(&key(at), 77), None);
        table.check();
    }
}

#[test]
fn stale_ids_are_told_until_generations_come_round() {
    let mut table = FlowTable::with_generations(1, 4).unwrap();
    let first = insert(&mut table, 0, 0);
    table.remove(first);
    for n in 1..=3 {
        let id = insert(&mut table, n, 0);
        assert_eq!((id.index(), u64::from(id.generation())), (first.index(), n + 1));
        assert!(
            !table.is_current(first) && !table.touch(first, Timestamp(5)) && table.remove(first).is_none()
        );
        assert!(!table.retain(first) && !table.release(first) && !table.pair(first, id));
        assert_eq!((table.key(first), table.last_seen(first), table.reverse(first)), (None, None, None));
        table.remove(id);
        assert!(!table.is_current(first), "no id stands for a free entry");
    }
    assert_eq!(insert(&mut table, 9, 0), first, "four generations are used up");
    let foreign = FlowId { index: 1, generation: NonZeroU32::MIN };
    assert!(!table.is_current(foreign) && table.remove(foreign).is_none());
}

#[test]
fn holders_keep_flow_and_id() {
    let mut table = FlowTable::new(2).unwrap();
    let (held, other) = (insert(&mut table, 1, 0), insert(&mut table, 2, 0));
    assert!(table.retain(held) && table.retain(held));
    assert_eq!(expire(&mut table, 100, 10, 10), [other]);
    assert_eq!(table.lookup(&key(1), spread(1)), Some(held), "a held flow does not expire");
    assert!(table.release(held));
    assert_eq!(expire(&mut table, 200, 10, 10), []);

    assert_eq!(table.remove(held), Some(key(1)));
    assert_eq!((table.lookup(&key(1), spread(1)), table.remove(held)), (None, None));
    assert!(table.is_current(held) && table.key(held) == Some(&key(1)));
    let successor = insert(&mut table, 1, 300);
    assert_ne!(successor.index(), held.index(), "the same flow gets another id");
    assert_eq!((table.stats().entries, table.stats().held), (1, 1));
    assert_eq!(table.insert(&key(3), spread(3), Timestamp(300)), Err(InsertError::Full));
    assert!(table.touch(held, Timestamp(0)), "nor does a late touch bring a removed flow back");
    assert_eq!(expire(&mut table, 305, 10, 10), []);

    assert!(table.release(held) && !table.is_current(held) && !table.release(held));
    assert_eq!(insert(&mut table, 3, 300).index(), held.index());
    assert_eq!(table.stats().held, 0);
}

#[test]
fn a_reverse_flow_goes_with_its_end() {
    let mut table = FlowTable::new(4).unwrap();
    let [a, b, c] = [1, 2, 3].map(|n| insert(&mut table, n, 0));
    assert!(table.pair(a, b));
    assert_eq!((table.reverse(a), table.reverse(b), table.reverse(c)), (Some(b), Some(a), None));
    assert!(table.pair(a, c), "a new pair parts the old one");
    assert_eq!((table.reverse(a), table.reverse(b), table.reverse(c)), (Some(c), None, Some(a)));
    assert!(table.pair(b, b));
    assert_eq!(table.reverse(b), Some(b));
    table.touch(b, Timestamp(50));
    table.touch(c, Timestamp(50));
    assert_eq!(expire(&mut table, 55, 10, 10), [a]);
    assert_eq!(table.reverse(c), None);
    table.remove(b);
    assert_eq!(insert(&mut table, 4, 60).index(), b.index());
    table.check();
}

#[test]
fn a_later_time_stays_whoever_sees_the_flow() {
    let mut table = FlowTable::new(4).unwrap();
    let [a, b] = [1, 2].map(|n| insert(&mut table, n, 0));
    assert!(table.touch(a, Timestamp(i64::MAX)));
    assert!(table.touch_later(a, Timestamp(5)) && table.touch_later(b, Timestamp(5)));
    assert_eq!([a, b].map(|id| table.last_seen(id).unwrap().0), [i64::MAX, 5]);
    assert_eq!(expire(&mut table, 100, 10, 10), [b]);
    assert!(!table.touch_later(b, Timestamp(200)), "it is no more");
    table.check();
}

#[test]
fn expiry_works_little_and_survives_a_clock_set_back() {
    let mut table = FlowTable::new(1000).unwrap();
    let ids: Vec<FlowId> = (0..1000).map(|n| insert(&mut table, n, 0)).collect();
    assert_eq!(expire(&mut table, 500, 100, 0), []);
    assert_eq!(expire(&mut table, 500, 100, 7), ids[..7]);
    assert_eq!(expire(&mut table, 500, 100, 70), ids[7..77]);
    assert_eq!(expire(&mut table, 500, 100, usize::MAX), ids[77..]);
    let late = insert(&mut table, 1, 300);
    assert_eq!(expire(&mut table, 511, 100, 1000), [], "a turn begins at most every eighth of the time-out");
    assert_eq!(expire(&mut table, 512, 100, 1000), [late]);
    let back = insert(&mut table, 2, 20);
    assert_eq!(expire(&mut table, 130, 100, 1000), [back]);
    let (long, rest) = (insert(&mut table, 3, i64::MAX), insert(&mut table, 4, 140));
    assert_eq!(
        expire(&mut table, 140, 0, 1000),
        [rest],
        "a time-out of 0 ends all but those seen in the future"
    );
    assert!(table.is_current(long));
    assert_eq!(expire(&mut table, i64::MAX, i64::MAX, 1000), []);
    assert_eq!(expire(&mut table, i64::MIN, i64::MAX, 1000), []);
    assert_eq!(expire(&mut table, i64::MIN, -5, 1000), []);
}

#[test]
fn capacities_out_of_range_are_refused() {
    for capacity in [0, MAX_CAPACITY + 1, usize::MAX] {
        let error = FlowTable::<TestKey>::new(capacity).err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("ask for 1 to")), "{capacity}");
    }
    let mut smallest = FlowTable::new(1).unwrap();
    insert(&mut smallest, 1, 0);
    assert_eq!(smallest.insert(&key(2), spread(2), Timestamp(0)), Err(InsertError::Full));
}

#[test]
fn keys_of_three_words_work_too() {
    let (hasher, mut table) = (KeyHasher::new(0), FlowTable::new(5000).unwrap());
    let keys = || (0..5000).map(|n| AddressKey::new(Ipv4Addr::from_bits(n / 5).into(), (n % 5) as u16));
    let ids: Vec<FlowId> =
        keys().map(|key| table.insert(&key, hasher.hash(&key), Timestamp(0)).unwrap().id()).collect();
    assert!(keys().zip(ids).all(|(key, id)| table.lookup(&key, hasher.hash(&key)) == Some(id)));
    table.check();
}

#[test]
fn ids_of_a_following_table_differ_from_those_before() {
    let hasher = KeyHasher::new(3);
    let keys: Vec<_> = (0..50).map(|n| AddressKey::new(Ipv4Addr::from_bits(n).into(), 0)).collect();
    let mut seen = HashSet::new();
    let mut table = FlowTable::new(64).unwrap();
    table.set_first_generation(7);
    for round in 0..4 {
        for key in &keys {
            let id = table.insert(key, hasher.hash(key), Timestamp::ZERO).unwrap().id();
            assert!(seen.insert(id.to_bits()), "{id:?}");
            if round % 2 == 0 {
                table.remove(id);
            }
        }
        let next = table.next_generation();
        table = FlowTable::new(64).unwrap();
        table.set_first_generation(next);
    }
}

#[test]
fn iteration_shows_what_look_ups_find() {
    let mut table = FlowTable::new(8).unwrap();
    let ids: Vec<FlowId> = (0..6).map(|n| insert(&mut table, n, 0)).collect();
    table.remove(ids[1]);
    // A flow that was removed while it is held: its id is still current, but the iteration must not show
    // it.
    assert!(table.retain(ids[3]));
    table.remove(ids[3]);
    let shown: Vec<_> = table.iter().map(|(id, key)| (id, key.0[0])).collect();
    assert_eq!(shown, [(ids[0], 0), (ids[2], 2), (ids[4], 4), (ids[5], 5)]);
}

#[test]
fn flows_whose_times_are_recorded_elsewhere_stay_until_they_are_due() {
    let mut table = FlowTable::<TestKey>::new(100).unwrap();
    let ids: Vec<FlowId> = (0..40).map(|n| insert(&mut table, n, 0)).collect();
    // The element's own times: each second flow was seen at 50.
    let seen = |id: FlowId| if id.index().is_multiple_of(2) { 50 } else { 0 };
    let expire = |table: &mut FlowTable<TestKey>, now: i64| {
        let mut ended = Vec::new();
        let count =
            table.expire_unless(Timestamp(now), Timestamp(60), Timestamp(8), usize::MAX, |id, key| {
                assert_eq!(key.0[0], u64::from(id.index()));
                if seen(id) > now - 60 {
                    return Some(Timestamp(seen(id)));
                }
                ended.push(id);
                None
            });
        assert_eq!(count, ended.len());
        table.check();
        ended
    };
    assert_eq!(expire(&mut table, 59), []);
    let (even, odd): (Vec<FlowId>, Vec<FlowId>) = ids.iter().partition(|id| seen(**id) == 50);
    assert_eq!(expire(&mut table, 60), odd);
    assert!(even.iter().all(|&id| table.last_seen(id) == Some(Timestamp(50))));
    assert_eq!(expire(&mut table, 109), []);
    assert_eq!(expire(&mut table, 110), even);
    assert_eq!((table.stats().entries, table.stats().expirations), (0, 40));
}
