//! The configuration of the Reframer that the figures use, and runs on the trace clock that read captures,
//! write captures in Reframer's order, and return values of handlers.

use std::path::{Path, PathBuf};

use crate::evaluation::trace_time;

/// Returns a Reframer that holds for `micros` microseconds, has room for all flows of the measured captures,
/// and has the further arguments `more`.
pub(super) fn reframer(micros: u64, more: &str) -> String {
    format!("Reframer({micros}us, MIN_BURST 0, CAPACITY 2000000{more})")
}

/// Runs a configuration on the trace clock to the end of its capture. Returns the values of handlers
/// (element, handler), which must be numbers.
pub(super) fn read_after(text: String, handlers: &[(&str, &str)]) -> Result<Vec<f64>, String> {
    let values = trace_time::read_after(text, handlers)?;
    values.iter().map(|value| value.trim().parse().map_err(|_| format!("{value} is no number"))).collect()
}

/// Returns the number of flows and the SLF of a capture.
pub(super) fn flows_and_slf(capture: &Path) -> Result<[f64; 2], String> {
    let text = format!(
        "FromDump({}, STOP true) -> MarkIPHeader(14) -> f :: FlowCounter(CAPACITY 2000000, TIMEOUT 0)
            -> r :: {} -> Discard",
        capture.display(),
        reframer(0, "")
    );
    let values = read_after(text, &[("f", "count"), ("r", "slf_in")])?;
    Ok([values[0], values[1]])
}

/// Writes the packets of a capture to `output`, in the order in which a Reframer that holds packets for
/// `micros` microseconds sends them, as if it were on another machine. Returns the written file and its SLF.
pub(super) fn held(capture: &Path, micros: u64, output: PathBuf) -> Result<(PathBuf, f64), String> {
    let text = format!(
        "FromDump({}, STOP true) -> r :: {} -> ToDump({}, SNAPLEN 0)",
        capture.display(),
        reframer(micros, ""),
        output.display()
    );
    let values = read_after(text, &[("r", "slf_out")])?;
    Ok((output, values[0]))
}

pub(super) fn frames(capture: &Path) -> String {
    format!("FromDump({})", capture.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::figures::reframer::misses;

    #[test]
    fn flows_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("runs.pcap");
        misses::write(&capture, 600, 50, 4).unwrap();
        let [flows, slf] = flows_and_slf(&capture).unwrap();
        assert_eq!(flows, 50.0);
        assert!((3.5..=4.5).contains(&slf), "{slf}");
    }
}
