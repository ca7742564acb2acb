//! The benchmarks `forward`, `edit`, `tee`, `queue` and `working-sets`: chains of few and cheap elements.

use crate::runner::{measure, measure_chain};
use crate::serde_params::Param;
use crate::{Row, Settings};

pub(crate) const FORWARD: &str = "Classifier(12/0800) -> CheckIPHeader(14) -> Counter -> Discard";

pub(crate) const EDIT: &str = "Classifier(12/0800) -> CheckIPHeader(14) -> DecIPTTL -> SetTimestamp
    -> EtherRewrite(2:0:0:0:0:3, 2:0:0:0:0:4) -> Counter -> Discard";

pub(crate) const TEE: &str = "t :: Tee; t[0] -> Discard; t[1] -> Discard";

pub(crate) const QUEUE: &str = "Queue(1024) -> Unqueue(32) -> Discard";

pub(crate) fn forward(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("forward", settings, FORWARD)
}

pub(crate) fn edit(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("edit", settings, EDIT)
}

pub(crate) fn tee(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("tee", settings, TEE)
}

pub(crate) fn queue(settings: &Settings) -> Result<Vec<Row>, String> {
    both_frames("queue", settings, QUEUE)
}

/// The sizes of the packets in memory, in MB: small enough for most last-level caches, the size in all other
/// benchmarks, and too large for most last-level caches.
const WORKING_SETS: [usize; 3] = [20, 230, 1000];

/// The size of a packet in memory in bytes: its slot, its metadata and its saved state.
const PACKET: usize = 2368 + 64 + 64;

/// Measures `forward` and `edit`, beside the floor, with different numbers of packets in memory.
pub(crate) fn working_sets(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for megabytes in WORKING_SETS {
        let packets = match settings.repeats {
            1 => settings.packets,
            _ => megabytes * 1_000_000 / PACKET,
        };
        let settings = Settings { packets, ..settings.clone() };
        for (chain, text) in [("forward", FORWARD), ("edit", EDIT)] {
            let params = [("chain", Param::Word(chain)), ("memory-mb", Param::Number(megabytes as u64))];
            rows.push(measure("working-sets", &settings, 64, text, &params)?);
        }
    }
    Ok(rows)
}

fn both_frames(name: &'static str, settings: &Settings, chain: &str) -> Result<Vec<Row>, String> {
    [64, 1024].into_iter().map(|frame| measure_chain(name, settings, frame, chain)).collect()
}
