//! Measures only the handing over of packets: packets pass the ring between two workers in batches of 32, by
//! the code that workers use. It runs on one core, whose caches have all lines of the ring, and on two cores,
//! between which the lines move.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use element::{Batch, Packet};
use engine::exchange_bench::{self, Giver, Taker};
use packet::Pool;

use crate::floor::Floor;
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

const BATCH: usize = 32;
/// The number of packets that pass the ring in each round. It is smaller than the ring, so that the ring
/// never becomes full.
const PACKETS: usize = 1024;

/// The nanoseconds to give a packet to the ring, and to take a packet out of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handing {
    pub(super) give: f64,
    pub(super) take: f64,
}

/// Measures handing over on one core and on two. Returns the rows, and the costs of giving and taking, first
/// on one core, then between two cores.
pub(super) fn run(settings: &Settings, floor: &mut Floor) -> Result<(Vec<Row>, [Handing; 2]), String> {
    let mut pool = Pool::new(64 << 20).map_err(|error| error.to_string())?;
    let mut packets: Vec<Packet> = (0..PACKETS).filter_map(|_| pool.packet(&[0; 64])).collect();
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..settings.repeats {
        let beside = floor.measure(settings.per_run / 8);
        let rounds = (settings.per_run / PACKETS).max(1);
        all[0].push((alone(&mut packets, rounds)?, beside));
        all[1].push((between(&mut packets, rounds)?, beside));
    }
    packets.into_iter().for_each(|packet| pool.free(packet));
    let mut rows = Vec::new();
    let mut costs = [Handing { give: 0.0, take: 0.0 }; 2];
    for ((cores, all), costs) in [1, 2].into_iter().zip(&all).zip(&mut costs) {
        let part = |of: fn(&Handing) -> f64| -> Vec<Pair> {
            all.iter().map(|(handing, floor)| Pair { cost: of(handing), floor: *floor }).collect()
        };
        let sides = [
            ("give and take", part(|handing| handing.give + handing.take)),
            ("give", part(|handing| handing.give)),
            ("take", part(|handing| handing.take)),
        ];
        for (side, pairs) in sides {
            let params = [("cores", Param::Number(cores)), ("side", Param::Word(side))];
            rows.push(Row { excludes_floor: true, ..Row::new("handover-ring", &params, &pairs) });
        }
        let [_, give, take] = &rows[rows.len() - 3..] else { continue };
        *costs = Handing { give: give.ns_per_packet, take: take.ns_per_packet };
    }
    Ok((rows, costs))
}

/// Passes all packets through the ring `rounds` times on one core. Returns the costs of giving and of taking.
fn alone(packets: &mut Vec<Packet>, rounds: usize) -> Result<Handing, String> {
    let (mut giver, mut taker) = exchange_bench::new()?;
    let mut sides = [0.0; 2];
    for _ in 0..rounds {
        sides[0] += give_all(&mut giver, packets);
        sides[1] += take_all(&mut taker, packets, PACKETS);
    }
    let each = |time: f64| time / (rounds * PACKETS) as f64;
    Ok(Handing { give: each(sides[0]), take: each(sides[1]) })
}

/// Measures as [`alone`] does, with one thread that gives and another thread that takes. Each thread waits
/// while the other one works, so that giving and taking are timed separately. So each thread finds all lines
/// of the ring in the cache of the other core.
fn between(packets: &mut Vec<Packet>, rounds: usize) -> Result<Handing, String> {
    let (mut giver, mut taker) = exchange_bench::new()?;
    let (mut back, mut home) = exchange_bench::new()?;
    let is_there = AtomicBool::new(false);
    let is_back = AtomicBool::new(false);
    let mut give = 0.0;
    let take = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let (mut packets, mut time) = (Vec::with_capacity(PACKETS), 0.0);
            for _ in 0..rounds {
                wait(&is_there);
                time += take_all(&mut taker, &mut packets, PACKETS);
                give_all(&mut back, &mut packets);
                is_back.store(true, Ordering::Release);
            }
            time
        });
        for _ in 0..rounds {
            give += give_all(&mut giver, packets);
            is_there.store(true, Ordering::Release);
            wait(&is_back);
            take_all(&mut home, packets, PACKETS);
        }
        other.join().map_err(|_| "the other side has panicked".to_string())
    })?;
    let each = |time: f64| time / (rounds * PACKETS) as f64;
    Ok(Handing { give: each(give), take: each(take) })
}

/// Waits until a flag is set, and clears it. Yields now and then, because the other thread may need the
/// same core.
fn wait(sign: &AtomicBool) {
    let mut looks = 0u32;
    while !sign.swap(false, Ordering::AcqRel) {
        looks += 1;
        if looks.is_multiple_of(4096) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// Gives all packets to the ring. Returns the time in nanoseconds, without the time to fill batches.
fn give_all(giver: &mut Giver, packets: &mut Vec<Packet>) -> f64 {
    let (mut batch, mut time) = (Batch::new(), 0.0);
    while !packets.is_empty() {
        while batch.len() < BATCH
            && let Some(packet) = packets.pop()
        {
            if let Err(packet) = batch.push(packet) {
                packets.push(packet);
            }
        }
        let start = Instant::now();
        giver.give(&mut batch, |packet| packets.push(packet));
        time += start.elapsed().as_nanos() as f64;
    }
    time
}

/// Takes packets until there are `count`. Returns the time in nanoseconds, without the time to empty
/// batches.
fn take_all(taker: &mut Taker, packets: &mut Vec<Packet>, count: usize) -> f64 {
    let (mut batch, mut time) = (Batch::new(), 0.0);
    while packets.len() < count {
        let start = Instant::now();
        taker.take(BATCH, &mut batch);
        time += start.elapsed().as_nanos() as f64;
        packets.extend(batch.drain());
    }
    time
}
