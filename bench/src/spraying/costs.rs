//! The measurement of the costs that are the input of the simulation: the costs of packets at the worker that
//! owns their connection and at another worker, of handing packets over, and of the decisions of policies.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use element::steering::{Rss, Spread, Spreading, Work, WorkerLoad};
use element::{Batch, Timestamp};
use packet::Pool;
use sprayer::{Policy, SpreadSettings as Spray};
use wire::tcp::flags::ACK;

use super::CLASSES;
use super::ring::Handing;
use super::simulation::Costs;
use super::traffic::{self, segment};
use crate::workers::once;
use crate::{Settings, median};

/// Measures the costs that the simulation needs. `handing` is the cost of passing packets through the ring
/// between two cores, which `ring.rs` measures.
pub(super) fn measure(settings: &Settings, handing: Handing) -> Result<Costs, String> {
    // The traffic is two connections, each owned by one of two workers, and a packet has no work besides that
    // of the chain.
    let connections = 2;
    let file = tempfile::NamedTempFile::with_suffix(".pcap").map_err(|e| e.to_string())?;
    let packets = settings.packets.min(20_000);
    traffic::write(file.as_file(), packets, connections)?;
    let loops = settings.per_run.div_ceil(packets) as u64;
    let spray = Spray::default().spreading();
    let whole = traffic::configuration;
    let source = |capture: &Path, loops, queues: &str, _: u64| traffic::source(capture, loops, queues);
    type Chain<'a> = &'a dyn Fn(&Path, u64, &str, u64) -> String;
    let ways: [(&str, Option<_>, Chain); 4] = [
        ("rss", None, &whole),
        ("rss", None, &source),
        ("next", None, &whole),
        ("spray", Some(&spray), &whole),
    ];
    let mut all = ways.map(|_| Vec::new());
    for _ in 0..settings.repeats {
        for ((queues, spreading, chain), all) in ways.into_iter().zip(&mut all) {
            let text = chain(file.path(), loops, queues, 0);
            // The sum of the times of both workers.
            all.push(2.0 * once(CLASSES, &text, 2, spreading)?);
        }
    }
    let [own, source, handed, mixed] = all.map(median);
    let (spray, _) = decisions(Policy::Spray)?;
    let (auto, rest) = decisions(Policy::Auto)?;
    Ok(Costs {
        own,
        source: source.min(own),
        // With `spray`, half of the packets are processed by a worker that does not own their connection. So
        // the additional cost of such a packet is twice the difference. Noise may make the difference
        // negative, so the cost is at least 1.
        foreign: (2.0 * (mixed - own)).max(1.0),
        give: handing.give,
        // The cost of handing over without the part of the giving worker. It includes that the packets are in
        // the other core's caches, and that their slots return to the pool of the worker that owns them.
        take: (handed - own - handing.give).max(handing.take),
        spray,
        auto,
        rest,
    })
}

/// The number of packets in a batch (`BATCH`), and the number of calls over which a time is averaged
/// (`ROUNDS`).
const BATCH: usize = 32;
const ROUNDS: usize = 2_000;

/// Returns two costs of a policy in nanoseconds: for its decision about each packet while it spreads packets,
/// and for its look at each batch while it does not spread packets.
fn decisions(policy: Policy) -> Result<(f64, f64), String> {
    let mut pool = Pool::new(64 << 20).map_err(|error| error.to_string())?;
    let owner = Rss::new(2);
    let loads: Arc<[WorkerLoad]> = (0..2).map(|_| WorkerLoad::default()).collect();
    let mut spread = Spray { policy, ..Spray::default() }.spread(0, &loads);
    let mut batch = Batch::new();
    for connection in 0..BATCH as u16 {
        let frame = segment(connection, ACK, 0).map_err(|error| error.to_string())?;
        if let Some(Err(packet)) = pool.packet(&frame).map(|packet| batch.push(packet)) {
            pool.free(packet);
        }
    }
    let mut now = Timestamp::from_secs(1);
    let rest = time(|| spread.look(&batch, now, &owner));
    // The first worker is reported as fully loaded and the other one as idle, until the policy spreads
    // packets.
    for millisecond in 1..100 {
        let nanoseconds = millisecond * 1_000_000;
        now = Timestamp::from_secs(1) + Timestamp(nanoseconds as i64);
        let packets = nanoseconds / 1_000;
        loads[0].say(Work { busy: nanoseconds, packets, waiting: 0 }, now);
        (0..8).for_each(|_| _ = spread.look(&batch, now, &owner));
    }
    let ask = |spread: &mut dyn Spread| {
        spread.look(&batch, now, &owner);
        batch.iter().map(|packet| spread.worker_of(packet, now, &owner)).sum::<usize>()
    };
    let each = time(|| ask(&mut *spread)) / BATCH as f64;
    batch.drain().for_each(|packet| pool.free(packet));
    Ok((each, rest))
}

/// Returns the nanoseconds of a call of `call`: the median of seven means over many calls.
fn time<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut one = || {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| _ = std::hint::black_box(call()));
        start.elapsed().as_nanos() as f64 / ROUNDS as f64
    };
    median((0..7).map(|_| one()).collect())
}
