//! The benchmark `trains`: measures the Reframer paper's chain of network functions with flows that send
//! packets in trains, without and with a Reframer in the chain.
//!
//! A train has [`LENGTH`] packets. The trains of [`TOGETHER`] flows are interleaved, packet by packet, so
//! that no two neighbouring packets belong to one flow. Then trains of other flows follow. All packets of a
//! train arrive within the Reframer's delay, so a Reframer makes runs of nearly this length. The paper's
//! trace has runs of 2.9 packets after 64 µs (Figure 12).

use crate::frames::{Start, trains};
use crate::functions::functions_behind;
use crate::runner::{drive, measure_in_turns, worker_of};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// The number of packets of a train.
pub(crate) const LENGTH: usize = 3;
/// The number of flows whose trains are interleaved.
pub(crate) const TOGETHER: usize = 200;

/// Measures the chain for several numbers of flows, without and with a Reframer. A row with a Reframer has
/// the mean number of packets per run (SLF) downstream of it.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for flows in [10_000, 100_000, 1_000_000] {
        // A small run has fewer packets than flows.
        let packets = if settings.repeats > 1 { 2 * flows * LENGTH } else { settings.packets };
        let mut contenders = Vec::new();
        for held in ["no", "flows"] {
            let front = if held == "no" { String::new() } else { reframer("64us") };
            let frames = trains(packets, flows, (LENGTH, TOGETHER));
            let mut worker = worker_of(&frames, Start::Ethernet, &functions_behind(&front))?;
            // Packets of all flows pass before the measurement, so that elements know all flows.
            drive(&mut worker, packets)?;
            let mut params = vec![("flows", Param::Number(flows as u64)), ("held", Param::Word(held))];
            if held != "no" {
                // The Reframer's counts are reset, because the first packets of flows take longer, so that
                // their trains do not arrive within the Reframer's delay.
                let reframer = worker.plan().graph.find("reframer");
                worker.write(reframer, "reset", "")?;
                drive(&mut worker, settings.per_run)?;
                let text = worker.read(reframer, "slf_out", "")?;
                let slf = text.parse().map_err(|_| format!("slf_out: {text} is no number"))?;
                params.push(("slf_out", Param::Mean(slf)));
            }
            contenders.push((params, worker));
        }
        let settings = Settings { per_run: settings.per_run.max(packets), ..settings.clone() };
        rows.extend(measure_in_turns("trains", &settings, 64, contenders)?);
    }
    Ok(rows)
}

/// Returns a Reframer that holds packets for `delay`, with an arrow after it.
pub(crate) fn reframer(delay: &str) -> String {
    format!("reframer :: Reframer({delay}, BYPASS none, CAPACITY 1250000) -> ")
}
