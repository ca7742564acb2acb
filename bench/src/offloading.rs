//! The benchmark `offload`: the chain of network functions of the Reframer paper on one worker and on two,
//! without a Reframer, with a Reframer in the chain, and with a Reframer on a worker of its own
//! (`--offload Reframer`; Figures 17 and 21 of the paper have it on a network card's processor).
//!
//! The packets are those of the benchmark `trains`. They come from an InMemoryNic: with two workers and no
//! offloading, each worker receives the packets of its flows, as it would with receive-side scaling.

use crate::floor::Floor;
use crate::functions::functions_behind;
use crate::runner::{offloading, registry};
use crate::serde_params::Param;
use crate::trains::{LENGTH, TOGETHER, reframer};
use crate::workers::{Finished, run_to_the_end};
use crate::{Pair, Row, Settings, median, source};

/// A way to distribute the chain over workers.
struct Variant {
    /// The place of the Reframer: `none`, in the `chain`, or on a worker of its own (`own worker`).
    reframer: &'static str,
    threads: usize,
}

const VARIANTS: [Variant; 5] = [
    Variant { reframer: "none", threads: 1 },
    Variant { reframer: "chain", threads: 1 },
    Variant { reframer: "own worker", threads: 2 },
    Variant { reframer: "none", threads: 2 },
    Variant { reframer: "chain", threads: 2 },
];

/// Measures each variant with several numbers of flows.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for flows in [10_000, 100_000] {
        // A run without repeats takes the number of packets from the settings, which may be smaller than the
        // number of flows.
        let packets = if settings.repeats > 1 { 2 * flows * LENGTH } else { settings.packets };
        let file = tempfile::NamedTempFile::with_suffix(".pcap").map_err(|e| e.to_string())?;
        let number = |place| source::in_trains(place, LENGTH, TOGETHER);
        let frames = (0..packets).map(|place| source::frame(number(place), flows, FRAME));
        source::write_frames(file.as_file(), frames).map_err(|e| e.to_string())?;
        let loops = (RUNS * settings.per_run).div_ceil(packets).max(2);
        let text = |held| {
            let front = if held == "none" { String::new() } else { reframer("64us") };
            let path = file.path().display();
            format!("nic :: InMemoryNic({path}, LOOPS {loops}) -> {}", functions_behind(&front))
        };
        let mut floor = Floor::new(settings.packets, FRAME).map_err(|e| e.to_string())?;
        let mut measured = VARIANTS.map(|_| (Vec::new(), Vec::new()));
        for _ in 0..settings.repeats {
            let beside = floor.measure(settings.per_run);
            for (variant, (pairs, busy)) in VARIANTS.iter().zip(&mut measured) {
                let finished = once(&text(variant.reframer), variant)?;
                pairs.push(Pair { cost: finished.cost, floor: beside });
                busy.push(finished.busy);
            }
        }
        for (variant, (pairs, busy)) in VARIANTS.iter().zip(measured) {
            let mut params = vec![
                ("flows", Param::Number(flows as u64)),
                ("reframer", Param::Word(variant.reframer)),
                ("threads", Param::Number(variant.threads as u64)),
            ];
            if variant.threads > 1 {
                params.push(("chain_ns", Param::Mean(median(busy))));
            }
            rows.push(Row::new("offload", &params, &pairs));
        }
    }
    Ok(rows)
}

/// The factor by which a run has more packets than `per_run` of the settings. At the start of a run, the
/// elements do not know the flows, and memory has not been used; with more packets, this start matters less.
const RUNS: usize = 5;

/// The size of a frame in bytes.
const FRAME: usize = 64;

/// Runs a configuration, whose source is named `nic`, until the run ends.
fn once(text: &str, variant: &Variant) -> Result<Finished, String> {
    let offloaded: &[&str] = if variant.reframer == "own worker" { &["Reframer"] } else { &[] };
    let (plan, copies) = offloading(text.to_string(), variant.threads, None, &registry(), offloaded)?;
    run_to_the_end(&plan, copies)
}
