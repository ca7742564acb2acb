//! A benchmark of [`FlowTable`] in comparison with hashbrown and foldhash, for full tables of 1k to 10M
//! flows, in nanoseconds per operation.
//!
//! `cargo run --release -p tidegate-flow --example flow_bench [FLOWS ...]`
//!
//! Look-ups are made for packets of random flows, half of them IPv6; times include hashing. The keys are in
//! an array that is read in order, so that the benchmark measures the tables and not the access to keys.
//! All variants of look-ups are measured in each of 15 rounds, and the median of the rounds is printed; the
//! other columns are measured once. Misses look for flows that are not in the table.
//!
//! The columns: `batch` and `single` are look-ups, in bursts of 32 and one by one; `hashbrown` the same
//! look-ups in a hashbrown map, one by one. `touch` is a batch look-up and a touch of each flow. `insert`
//! fills memory that was never accessed, `again` fills memory that was in use. `scan` examines flows that
//! stay, `expire` ends them.

use std::hash::{BuildHasher, Hash, Hasher};
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use flow::{FiveTupleKey, FlowId, FlowTable, Key, KeyHasher};
use packet::Timestamp;
use wire::FiveTuple;

const BURST: usize = 32;
const ROUNDS: usize = 15;
const LOOKUPS: usize = 1 << 18;

/// The wrapper of a key for the hashbrown map.
#[derive(Clone, Copy, Eq)]
struct Plain(FiveTupleKey);

/// Compares keys like `FlowTable`, without branches; the derived implementation would call `bcmp`.
impl PartialEq for Plain {
    fn eq(&self, other: &Self) -> bool {
        self.0.words().iter().zip(other.0.words()).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

impl Hash for Plain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.words().iter().for_each(|&word| state.write_u64(word));
    }
}

type Map = hashbrown::HashMap<Plain, FlowId, foldhash::fast::FixedState>;

fn key(n: usize) -> FiveTupleKey {
    let (client, port) = (n as u32 >> 4, 1024 + (n as u16 & 15));
    let tuple = if n.is_multiple_of(2) {
        let (client, server) = (Ipv4Addr::from_bits(0x0a00_0000 + client), Ipv4Addr::new(192, 168, 0, 1));
        FiveTuple::v4((client, port), (server, 443), 6)
    } else {
        let client = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, (client >> 16) as u16, client as u16);
        FiveTuple::v6((client, port), (Ipv6Addr::LOCALHOST, 443), 6)
    };
    FiveTupleKey::new(&tuple, 0)
}

struct Bench {
    hasher: KeyHasher,
    table: FlowTable<FiveTupleKey>,
    map: Map,
}

impl Bench {
    fn batch<const TOUCH: bool>(&mut self, keys: &[FiveTupleKey]) -> usize {
        let mut found = 0;
        for keys in keys.chunks(BURST) {
            let mut hashes = [0; BURST];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hasher.hash(key);
            }
            let mut ids = [None; BURST];
            self.table.lookup_batch(keys, &hashes, &mut ids);
            for id in ids.into_iter().flatten() {
                found += 1;
                if TOUCH {
                    self.table.touch(id, Timestamp(2));
                }
            }
        }
        found
    }

    fn single(&mut self, keys: &[FiveTupleKey]) -> usize {
        keys.iter().filter(|&key| self.table.lookup(key, self.hasher.hash(key)).is_some()).count()
    }

    fn hashbrown(&mut self, keys: &[FiveTupleKey]) -> usize {
        keys.iter().filter(|key| self.map.contains_key(&Plain(**key))).count()
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn time(keys: &[FiveTupleKey], run: impl FnOnce(&[FiveTupleKey]) -> usize) -> f64 {
    let start = Instant::now();
    black_box(run(black_box(keys)));
    start.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn tables(flows: usize) -> Result<(), Box<dyn std::error::Error>> {
    let hasher = KeyHasher::new(1);
    let mut table = FlowTable::new(flows)?;
    let start = Instant::now();
    for n in 0..flows {
        let key = key(n);
        table.insert(&key, hasher.hash(&key), Timestamp(1))?;
    }
    let insert = start.elapsed().as_nanos() as f64 / flows as f64;
    let mut map = Map::with_capacity_and_hasher(flows, foldhash::fast::FixedState::with_seed(1));
    for n in 0..flows {
        let key = key(n);
        if let Some(id) = table.lookup(&key, hasher.hash(&key)) {
            map.insert(Plain(key), id);
        }
    }
    assert_eq!(map.len(), flows);
    let mut bench = Bench { hasher, table, map };
    let mut times: [Vec<f64>; 7] = Default::default();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..ROUNDS {
        let hits: Vec<_> = (0..LOOKUPS).map(|_| key(random.usize(..flows))).collect();
        let misses: Vec<_> = (0..LOOKUPS).map(|_| key(flows + random.usize(..flows))).collect();
        let round = [
            time(&hits, |keys| bench.batch::<false>(keys)),
            time(&hits, |keys| bench.batch::<true>(keys)),
            time(&hits, |keys| bench.single(keys)),
            time(&hits, |keys| bench.hashbrown(keys)),
            time(&misses, |keys| bench.batch::<false>(keys)),
            time(&misses, |keys| bench.single(keys)),
            time(&misses, |keys| bench.hashbrown(keys)),
        ];
        times.iter_mut().zip(round).for_each(|(times, time)| times.push(time));
    }
    let [batch, touch, single, map, batch_miss, single_miss, map_miss] = times.map(median);
    let start = Instant::now();
    let ended = bench.table.expire(Timestamp(2), Timestamp(10), usize::MAX, |_, _| ());
    let scan = start.elapsed().as_nanos() as f64 / flows as f64;
    assert_eq!(ended, 0);
    let start = Instant::now();
    let ended = bench.table.expire(Timestamp(30), Timestamp(10), usize::MAX, |_, _| ());
    let end = start.elapsed().as_nanos() as f64 / flows as f64;
    assert_eq!(ended, flows);
    let start = Instant::now();
    for n in 0..flows {
        let key = key(n);
        bench.table.insert(&key, bench.hasher.hash(&key), Timestamp(40))?;
    }
    let again = start.elapsed().as_nanos() as f64 / flows as f64;
    println!(
        "{flows:>9} {batch:>7.1} {touch:>7.1} {single:>7.1} {map:>9.1} | {batch_miss:>7.1} {single_miss:>7.1} \
         {map_miss:>9.1} | {insert:>7.1} {again:>7.1} {scan:>7.1} {end:>7.1}"
    );
    Ok(())
}

/// Measures and prints the time of hashing alone, in ns per key.
fn hashes() {
    let hasher = KeyHasher::new(1);
    let fold = foldhash::fast::FixedState::with_seed(1);
    let keys: Vec<_> = (0..4096).map(key).collect();
    let quality = foldhash::quality::FixedState::with_seed(1);
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..200 {
        let round = [
            time(&keys, |keys| keys.iter().fold(0, |sum, key| sum ^ hasher.hash(key) as usize)),
            time(&keys, |keys| keys.iter().fold(0, |sum, key| sum ^ hasher.symmetric(key) as usize)),
            time(&keys, |keys| keys.iter().fold(0, |sum, key| sum ^ fold.hash_one(Plain(*key)) as usize)),
            time(&keys, |keys| keys.iter().fold(0, |sum, key| sum ^ quality.hash_one(Plain(*key)) as usize)),
        ];
        times.iter_mut().zip(round).for_each(|(times, time)| times.push(time));
    }
    let [own, symmetric, fold, quality] = times.map(median);
    println!(
        "ns per hash: own {own:.2}, symmetric {symmetric:.2}; foldhash fast {fold:.2}, quality {quality:.2}"
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = std::env::args().skip(1).map(|flows| flows.parse()).collect::<Result<Vec<usize>, _>>()?;
    let sizes = if asked.is_empty() { vec![1_000, 10_000, 100_000, 1_000_000, 10_000_000] } else { asked };
    hashes();
    println!(
        "          | ------------- hit ------------- | ---------- miss --------- | ------------ flow -------------"
    );
    println!(
        "    flows   batch   touch  single hashbrown |   batch  single hashbrown |  insert   again    scan  expire"
    );
    for flows in sizes {
        tables(flows)?;
    }
    Ok(())
}
