use std::collections::HashSet;

use element::steering::Rss;
use packet::Pool;
use wire::MacAddr;
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN};

use super::*;
use crate::Classes;

const WORKERS: usize = 4;
/// The number of batches after which the model advances time and the workers report. Until then, the times of
/// workers can differ.
const TOGETHER: usize = 10;

/// A model of workers in virtual time. All packets arrive at the first worker, whose policy is tested.
struct Bench {
    pool: Pool,
    auto: Auto,
    loads: Arc<[WorkerLoad]>,
    work: [Work; WORKERS],
    now: i64,
    /// The nanoseconds that any worker needs to process a packet.
    cost: f64,
    /// The nanoseconds that the first worker needs to hand over a packet.
    give: f64,
    /// For each worker, the part of its time that other work takes, from 0 to 1.
    other: [f64; WORKERS],
    /// The nanoseconds without work that are added after every `TOGETHER` batches.
    pause: f64,
}

impl Bench {
    fn new(cost: f64) -> Bench {
        let loads: Arc<[WorkerLoad]> = (0..WORKERS).map(|_| WorkerLoad::default()).collect();
        let spray = Spray::new(0, WORKERS, WORKERS, Classes::default());
        Bench {
            pool: Pool::new(64 << 20).unwrap(),
            auto: Auto::new(spray, Arc::clone(&loads)),
            loads,
            work: [Work::default(); WORKERS],
            now: 1,
            cost,
            give: 50.0,
            other: [0.0; WORKERS],
            pause: 0.0,
        }
    }

    /// Runs batches of 32 packets, whose connection and flags `next` returns. After every `TOGETHER` batches,
    /// time advances by what the slowest worker needs, and by `pause`. Returns the connection and the worker
    /// of each packet.
    fn run(&mut self, batches: usize, mut next: impl FnMut() -> (u16, u8)) -> Vec<(u16, usize)> {
        let owner = Rss::new(WORKERS);
        let mut all = Vec::new();
        let mut workers = [0; WORKERS];
        for number in 1..=batches {
            let (mut batch, mut connections) = (Batch::new(), Vec::new());
            for _ in 0..32 {
                let (connection, flags) = next();
                connections.push(connection);
                batch.push(self.pool.packet(&segment(connection, flags)).unwrap()).unwrap();
            }
            let now = Timestamp(self.now);
            let is_spread = self.auto.look(&batch, now, &owner);
            for (packet, connection) in batch.iter().zip(connections) {
                let home = owner.worker_of(packet);
                let worker = if is_spread { self.auto.worker_of(packet, now, &owner) } else { home };
                assert!(worker == home || self.auto.may_stay(packet), "what goes elsewhere may be there");
                workers[worker] += 1;
                all.push((connection, worker));
            }
            batch.drain().for_each(|packet| self.pool.free(packet));
            if number % TOGETHER > 0 {
                continue;
            }
            let given = (1..WORKERS).map(|worker| f64::from(workers[worker])).sum::<f64>() * self.give;
            let work = |worker: usize| {
                f64::from(workers[worker]) * self.cost + if worker == 0 { given } else { 0.0 }
            };
            let time = |worker: usize| work(worker) / (1.0 - self.other[worker]);
            let passed = (0..WORKERS).map(time).fold(0.0, f64::max) + self.pause;
            self.now += passed as i64;
            for (worker, count) in std::mem::take(&mut workers).into_iter().enumerate() {
                let other = self.other[worker] * passed;
                let done = &mut self.work[worker];
                done.busy += (f64::from(count) * self.cost + other) as u64;
                done.busy += if worker == 0 { given as u64 } else { 0 };
                done.packets += count as u64 + (other / self.cost) as u64;
                self.loads[worker].say(*done, Timestamp(self.now));
            }
        }
        all
    }
}

fn segment(connection: u16, flags: u8) -> Vec<u8> {
    let from = ([10, 0, (connection >> 8) as u8, connection as u8], 1024 + connection);
    let builder = Builder::tcp(from.into(), ([10, 9, 0, 1], 443).into(), flags);
    builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(b"payload").unwrap()
}

/// Iterates over the numbers of the connections that a worker owns.
fn of(worker: usize) -> impl Iterator<Item = u16> {
    let home = |n: u16| Rss::new(WORKERS).worker_of_frame(&segment(n, ACK), wire::LinkType::Ethernet);
    (1..).filter(move |&connection| home(connection) == worker)
}

fn shares(all: &[(u16, usize)]) -> [f64; WORKERS] {
    let part = |worker| all.iter().filter(|(_, to)| *to == worker).count() as f64 / all.len() as f64;
    std::array::from_fn(part)
}

fn moved(all: &[(u16, usize)]) -> HashSet<u16> {
    all.iter().filter(|(_, worker)| *worker != 0).map(|(connection, _)| *connection).collect()
}

/// Returns a source of packets of `count` connections of the first worker, in rotation.
fn even(count: usize) -> impl FnMut() -> (u16, u8) {
    let mut turn = of(0).take(count).collect::<Vec<_>>().into_iter().cycle();
    move || (turn.next().unwrap(), ACK)
}

#[test]
fn one_connection_goes_to_all_workers_evenly() {
    let mut bench = Bench::new(2_000.0);
    let mut one = even(1);
    bench.run(50, &mut one);
    let after = shares(&bench.run(500, &mut one));
    assert!(after.iter().all(|share| (share - 0.25).abs() < 0.02), "{after:?}");
}

#[test]
fn others_get_what_they_have_time_for() {
    let mut bench = Bench::new(2_000.0);
    bench.other = [0.0, 0.6, 0.0, 0.2];
    let mut next = even(10);
    bench.run(200, &mut next);
    let all = bench.run(1_000, &mut next);
    // Of four workers, the second has 40 % of its time free and the fourth 80 %, so that all together have
    // the time of 3.2 workers. The first worker takes a little less than its part of the packets, because it
    // also hands over packets.
    let wanted = [0.96, 0.41, 1.02, 0.81].map(|time| time / 3.2);
    let after = shares(&all);
    assert!(after.iter().zip(wanted).all(|(share, wanted)| (share - wanted).abs() < 0.03), "{after:?}");
    assert!(moved(&all).len() < 10, "no more connections than are needed");
}

#[test]
fn as_few_connections_as_will_do() {
    // The other workers have little time, so that the first must give away less than a third: a few of its
    // ten connections.
    let mut bench = Bench::new(2_000.0);
    bench.other = [0.0, 0.85, 0.85, 0.85];
    let mut next = even(10);
    bench.run(200, &mut next);
    let all = bench.run(1_000, &mut next);
    assert!((1..=5).contains(&moved(&all).len()), "{:?}", moved(&all));
    assert!((shares(&all)[0] - 1.0 / 1.45).abs() < 0.03, "{:?}", shares(&all));
    // The chosen connections are the same in both halves of the run.
    assert_eq!(moved(&all[..all.len() / 2]), moved(&all[all.len() / 2..]));
}

#[test]
fn the_largest_connection_goes_first() {
    let mut random = fastrand::Rng::with_seed(4);
    let small: Vec<u16> = of(0).skip(1).take(300).collect();
    let large = of(0).next().unwrap();
    let mut next = || (if random.u8(0..3) > 0 { large } else { small[random.usize(0..300)] }, ACK);
    let mut bench = Bench::new(2_000.0);
    bench.other = [0.0, 0.5, 0.5, 0.5];
    bench.run(300, &mut next);
    let all = bench.run(500, &mut next);
    assert!(shares(&all)[0] < 0.5);
    assert_eq!(moved(&all), HashSet::from([large]));
}

#[test]
fn nothing_is_spread_that_need_not_be() {
    // Nothing is spread if processing packets takes less time than handing them over.
    assert_eq!(shares(&Bench::new(45.0).run(2_000, even(1)))[0], 1.0);
    // Nothing is spread if the worker is not busy all the time.
    let mut bench = Bench::new(2_000.0);
    bench.pause = 600_000.0;
    assert_eq!(shares(&bench.run(500, even(1)))[0], 1.0);
    // Nothing is spread if the other workers have no free time.
    let mut bench = Bench::new(2_000.0);
    bench.other = [0.0, 0.97, 0.98, 0.97];
    assert_eq!(shares(&bench.run(500, even(4)))[0], 1.0);
    // Nothing is spread if the workers own about equal parts of the packets, so that no worker is busier than
    // another.
    let mut bench = Bench::new(2_000.0);
    let mut random = fastrand::Rng::with_seed(4);
    let all = bench.run(500, || (random.u16(0..256), ACK));
    let home = |connection| segment(connection, ACK);
    let owner = Rss::new(WORKERS);
    let stays = |&(connection, worker): &(u16, usize)| {
        worker == owner.worker_of_frame(&home(connection), wire::LinkType::Ethernet)
    };
    assert!(all.iter().all(stays));
}

#[test]
fn what_brings_nothing_is_tried_rarely() {
    let mut bench = Bench::new(90.0);
    bench.give = 100.0;
    let all = bench.run(50_000, even(1));
    assert!(!moved(&all).is_empty() && shares(&all)[0] > 0.95, "{:?}", shares(&all));
    // Where spreading saves a little time only, it must continue all the same.
    let mut bench = Bench::new(150.0);
    bench.give = 100.0;
    bench.run(2_000, even(1));
    assert!(shares(&bench.run(2_000, even(1)))[0] < 0.4);
}

#[test]
fn connections_come_home_when_their_worker_has_time() {
    let mut bench = Bench::new(2_000.0);
    let mut one = even(1);
    bench.run(100, &mut one);
    bench.pause = 4_000_000.0;
    bench.run(200, &mut one);
    assert_eq!(shares(&bench.run(100, &mut one))[0], 1.0);
}

#[test]
fn what_closes_a_connection_goes_home() {
    let mut bench = Bench::new(2_000.0);
    let (mut one, mut number) = (even(1), 0);
    let mut next = || {
        number += 1;
        (one().0, if number % 5 == 0 { FIN | ACK } else { ACK })
    };
    bench.run(100, &mut next);
    // `run` has checked that packets with FIN go to their owner; more of the other packets go to other
    // workers, so that all workers have equal parts.
    let after = shares(&bench.run(500, &mut next));
    assert!(after.iter().all(|share| (share - 0.25).abs() < 0.02), "{after:?}");
}

#[test]
fn parts_are_even_over_short_regions() {
    let usage = |busy, packets| Usage { busy, nanoseconds: busy * 1e6, packets };
    let mut balance = Balance::new(64);
    let usages: Vec<Usage> =
        (0..64).map(|worker| if worker == 7 { usage(1.0, 500.0) } else { usage(0.0, 0.0) }).collect();
    balance.adjust(7, 500.0, 1e6, &usages);
    balance.apply(7, 1.0);
    let mut counts = [0; 64];
    (0..640).for_each(|_| counts[balance.next(7)] += 1);
    assert!(counts.iter().all(|count| (8..=12).contains(count)), "{counts:?}");
}
