//! The benchmark `reframer`: a Reframer alone.

use crate::frames::Start;
use crate::runner::{measure_worker, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// The chain with which the instructions of a Reframer are counted; its capacity is the default.
pub(crate) const REFRAMER: &str = "Reframer(64us, BYPASS none, MIN_BURST 0) -> Discard";

/// Measures a Reframer alone, over the number of flows and the SLF.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for flows in [1_000, 10_000, 100_000, 1_000_000] {
        for slf in [1, 2, 4] {
            // Unless the run is small, there are enough packets in memory for a run of `slf` packets of each
            // flow.
            let packets = if settings.repeats > 1 { flows * slf } else { 0 };
            let packets = settings.packets.max(packets);
            let chain = format!(
                "Reframer(64us, BYPASS none, MIN_BURST 0, CAPACITY {}) -> Discard",
                flows + flows / 4
            );
            let worker = worker_with(packets, (flows, slf), 64, Start::Frame, &chain)?;
            let params = [("flows", Param::Number(flows as u64)), ("slf", Param::Number(slf as u64))];
            rows.push(measure_worker("reframer", settings, 64, worker, &params)?);
        }
    }
    Ok(rows)
}
