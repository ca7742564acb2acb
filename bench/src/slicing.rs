//! The benchmark `slicer`: the cost of parking payloads and joining them again, within one program. The gain
//! of parking is measured in `devices/boundary.rs`.

use crate::frames::Start;
use crate::juggling::counted;
use crate::runner::{measure_worker, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// The sizes of frames in bytes. The cost of parking should not depend on them, because payloads are not
/// copied.
const FRAMES: [usize; 4] = [64, 512, 1024, 1514];

/// A chain that parks the payloads of packets and joins them again at once.
pub(crate) const SLICER: &str = "Slice(t) -> Splice(t) -> Discard; t :: PayloadTable(ENTRIES 512)";

/// The elements under test: the name in rows, and the elements.
const VARIANTS: &[(&str, &str)] = &[("nothing", "Discard"), ("both", SLICER)];

/// Chains in which a Juggler merges full frames of one flow into large segments: the name in rows, and the
/// name in the benchmark `juggler`.
const MERGED: &[(&str, &str)] = &[("juggler", "juggler"), ("juggler and both", "juggler-sliced")];

/// Measures a row for each size of frames, with and without parking, and for large segments.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for frame in FRAMES {
        for &(way, chain) in VARIANTS {
            let worker = worker_with(settings.packets, (10_000, 1), frame, Start::Frame, chain)?;
            let params = [("frame", Param::Number(frame as u64)), ("through", Param::Word(way))];
            rows.push(measure_worker("slicer", settings, frame, worker, &params)?);
        }
    }
    for &(way, name) in MERGED {
        let worker = counted(name, settings.packets).ok_or_else(|| format!("no chain '{name}'"))??;
        let params = [("frame", Param::Number(1514)), ("through", Param::Word(way))];
        rows.push(measure_worker("slicer", settings, 1514, worker, &params)?);
    }
    Ok(rows)
}
