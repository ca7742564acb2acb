//! The table against a plain map, its invariants, and its limits.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::bucket::{SLOTS, position};

/// A key that chooses its hash: tests decide what collides.
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

/// Spreads well enough for tests.
fn spread(n: u64) -> u32 {
    (n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn new(table: &mut FlowTable<TestKey>, n: u64, now: i64) -> FlowId {
    match table.insert(&key(n), spread(n), Timestamp(now)) {
        Ok(Inserted::New(id)) => id,
        other => panic!("{n}: {other:?}"),
    }
}

impl<K: Key> FlowTable<K> {
    /// Every live entry is reachable once, chains hang on full buckets only, pairs are mutual, counts agree.
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
    // Ids are picked among all that were ever given out, so most of them are stale.
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

/// What the model knows of a flow whose id is in use.
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
    fn part(&mut self, id: FlowId) {
        let reverse = self.flows.get_mut(&id).and_then(|flow| flow.reverse.take());
        if let Some(other) = reverse.and_then(|id| self.flows.get_mut(&id)) {
            other.reverse = None;
        }
    }

    fn remove(&mut self, id: FlowId) -> Option<TestKey> {
        let flow = self.flows.get_mut(&id).filter(|flow| !flow.removed)?;
        flow.removed = true;
        let (key, held) = (flow.key, flow.holds > 0);
        self.part(id);
        self.by_key.remove(&key);
        if !held {
            self.flows.remove(&id);
        }
        Some(key)
    }
}

const CAPACITY: usize = 40;

/// Runs the steps on a table and on the model. `hash` decides how crowded the buckets are; generations
/// repeat after three reuses, so old ids come back to life, in the model too: it knows ids by value.
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
                    model.part(a);
                    model.part(b);
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
}
