//! What leaving payloads aside costs, and what it saves where packets cross something that copies them.

use crate::graph::{Start, measure_worker, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// Bytes of frames: the cost of slicing is not to grow with them.
const FRAMES: [usize; 4] = [64, 512, 1024, 1514];

/// What packets go through, by its name in rows.
const WAYS: &[(&str, &str)] =
    &[("nothing", "Discard"), ("both", "Slice(t) -> Splice(t) -> Discard; t :: PayloadTable(ENTRIES 512)")];

/// A row for each size and way, in memory.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for frame in FRAMES {
        for &(way, chain) in WAYS {
            let worker = worker_with(settings.packets, (10_000, 1), frame, Start::Frame, chain)?;
            let params = [("frame", Param::Number(frame as u64)), ("through", Param::Word(way))];
            rows.push(measure_worker("slicer", settings, frame, worker, &params)?);
        }
    }
    Ok(rows)
}
