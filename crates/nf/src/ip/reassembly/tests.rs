use packet::Pool;
use proptest::prelude::*;

use super::*;

/// A store, and a pool for its packets.
struct Bench {
    store: Store,
    pool: Pool,
}

fn key(source: u32, id: u16) -> Key {
    Key { source, destination: 1, id, protocol: 17, vlans: [0; 2] }
}

impl Bench {
    fn new(fragments: usize) -> Bench {
        let bytes = fragments * FRAGMENT_BYTES * FOR_IDLE / (FOR_IDLE - 1) + FRAGMENT_BYTES;
        Bench { store: Store::new(bytes, KeyHasher::default()).unwrap(), pool: Pool::new(64 << 20).unwrap() }
    }

    /// Adds a fragment to the set of a datagram. Returns true if the fragment's bytes are now in the store.
    fn add(&mut self, key: Key, from: u32, bytes: &[u8], is_last: bool, overlaps: bool) -> bool {
        let set = self.store.find(&key).unwrap_or_else(|| self.store.open(&key, Timestamp::ZERO).unwrap());
        // The packet has three bytes ahead of the fragment's payload, which the store must ignore.
        let packet = self.pool.packet(&[&[0xee; 3], bytes].concat()).unwrap();
        let piece = Piece { packet, from, to: from + bytes.len() as u32, at: 3 };
        let mut covered = Vec::new();
        let fit = self.store.add(set, piece, is_last, overlaps, |packet| covered.push(packet));
        covered.into_iter().for_each(|packet| self.pool.free(packet));
        match fit {
            Fit::Held(_) => true,
            Fit::Known(packet) => {
                self.pool.free(packet);
                true
            }
            Fit::Contradiction(packet) => {
                self.pool.free(packet);
                false
            }
        }
    }

    /// Removes all fragments of a set, closes the set, and returns its payload bytes, each with its offset in
    /// the datagram's payload.
    fn end(&mut self, set: u32, is_complete: bool) -> Vec<(u32, u8)> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.store.pop(set) {
            let of_piece = piece.bytes().flatten().copied().collect::<Vec<u8>>();
            assert_eq!(of_piece.len() as u32, piece.length());
            bytes.extend((piece.from..).zip(of_piece));
            self.pool.free(piece.packet);
        }
        self.store.close(set, is_complete);
        bytes
    }

    fn end_all(&mut self) {
        while let Some((set, _)) = self.store.oldest() {
            self.end(set, false);
        }
        assert_eq!((self.store.held(), self.store.slots, self.store.memory()), (0, 0, 0));
        assert_eq!((self.store.table.stats().entries, self.store.pairs.stats().entries), (0, 0));
        assert!(self.store.victim().is_none());
        assert_eq!(self.pool.stats().leaked, 0);
    }
}

proptest! {
    /// Adds fragments with random offsets to one set, and compares the set's bytes with a model that has one
    /// optional byte for each offset of the datagram's payload.
    #[test]
    fn a_set_has_what_has_come(
        parts in prop::collection::vec((0u32..60, 1usize..20, prop::bool::weighted(0.1)), 0..12),
        overlaps: bool,
    ) {
        let mut bench = Bench::new(64);
        let mut model: [Option<u8>; 80] = [None; 80];
        let mut end = None;
        for (number, &(from, length, is_last)) in parts.iter().enumerate() {
            let to = from as usize + length;
            let place = from as usize..to;
            // The bytes have only two values, so that some fragments arrive twice with the same bytes.
            let bytes = vec![(number % 2) as u8; length];
            let extent = model.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            let contradicts = end.is_some_and(|end| to > end || is_last && to != end) || is_last && extent > to;
            let is_free = model[place.clone()].iter().all(Option::is_none);
            let held = bench.add(key(1, 1), from, &bytes, is_last, overlaps);
            if contradicts {
                prop_assert!(!held);
            } else if overlaps || is_free {
                prop_assert!(held);
            }
            if !contradicts && (overlaps || is_free) {
                model[place].fill(Some((number % 2) as u8));
                if is_last {
                    end = Some(to);
                }
            }
        }
        if let Some(set) = bench.store.find(&key(1, 1)) {
            let whole = end.is_some_and(|end| model[..end].iter().all(Option::is_some));
            prop_assert_eq!(bench.store.is_complete(set), whole);
            let there: Vec<_> = (0..).zip(&model).filter_map(|(at, byte)| Some((at, (*byte)?))).collect();
            prop_assert_eq!(bench.end(set, true), there);
        }
        bench.end_all();
    }

    /// Checks the store's counts and the set to evict after datagrams arrived, were completed and were
    /// evicted in random order.
    #[test]
    fn nothing_is_lost_or_counted_twice(
        steps in prop::collection::vec((0u32..6, 0u16..12, 0u32..5, 0u8..8), 0..200),
    ) {
        let mut bench = Bench::new(16);
        for (source, id, place, what) in steps {
            let key = key(source, id);
            match what {
                0 => {
                    if let Some(set) = bench.store.find(&key) {
                        bench.end(set, true);
                    }
                }
                1 => {
                    if let Some((set, _)) = bench.store.oldest() {
                        bench.end(set, false);
                    }
                }
                _ => {
                    bench.add(key, place * 8, &[what; 8], false, false);
                    while bench.store.is_over_full() {
                        let set = bench.store.victim().unwrap();
                        bench.end(set, false);
                    }
                }
            }
            let held = bench.store.iter().map(|(_, pieces)| pieces.count()).sum::<usize>();
            prop_assert_eq!(bench.store.held(), held);
            prop_assert_eq!(bench.store.slots, held);
            prop_assert!(held <= bench.store.limit);
            prop_assert_eq!(bench.store.victim().is_some(), held > 0);
        }
        bench.end_all();
    }
}

/// Returns the source of the set that would be evicted next.
fn source_of_victim(store: &Store) -> u32 {
    store.sets[store.victim().unwrap() as usize].key.source
}

#[test]
fn who_holds_most_gives_way() {
    let mut bench = Bench::new(64);
    for source in 0..8 {
        bench.add(key(source, 0), 0, &[0; 8], false, false);
    }
    // If several sources hold the same amount, the source that has held it longest loses its sets first.
    assert_eq!(source_of_victim(&bench.store), 0);
    for id in 0..4 {
        bench.add(key(7, id), 8, &[0; 8], false, false);
    }
    assert_eq!(source_of_victim(&bench.store), 7);
    bench.end_all();
}

#[test]
fn who_has_completed_packets_gives_way_last() {
    let mut bench = Bench::new(64);
    for id in 0..6 {
        bench.add(key(1, id), 0, &[0; 8], true, false);
        let set = bench.store.find(&key(1, id)).unwrap();
        bench.end(set, true);
    }
    for id in 0..20 {
        bench.add(key(1, id), 0, &[0; 8], false, false);
    }
    bench.add(key(2, 0), 0, &[0; 8], false, false);
    assert_eq!(source_of_victim(&bench.store), 2);
    // Each evicted set lowers the trust that completed datagrams gave.
    for id in 0..2 {
        let set = bench.store.find(&key(1, id)).unwrap();
        bench.end(set, false);
    }
    bench.end_all();
}

/// Completes a datagram of each of very many sources: the table must not become full, because sources that
/// hold nothing are forgotten in the order in which they became idle.
#[test]
fn few_idle_sources_are_remembered() {
    let mut bench = Bench::new(64);
    let most = bench.store.limit * 100;
    for source in 0..most as u32 {
        bench.add(key(source, 0), 0, &[0; 8], true, false);
        let set = bench.store.find(&key(source, 0)).unwrap();
        bench.end(set, true);
    }
    bench.end_all();
}

#[test]
fn vlans_tell_packets_apart() {
    let of = |vlans| Key { vlans, ..key(1, 1) }.fragment();
    assert_ne!(of([1, 0]), of([0, 1]));
    assert_ne!(of([1, 2]), of([1, 3]));
    assert_ne!(of([0, 0]), of([1, 0]));
}
