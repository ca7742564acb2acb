//! The benchmarks `forward`, `edit`, `tee` and `queue`: chains of few and cheap elements.

use crate::runner::measure_chain;
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

fn both_frames(name: &'static str, settings: &Settings, chain: &str) -> Result<Vec<Row>, String> {
    [64, 1024].into_iter().map(|frame| measure_chain(name, settings, frame, chain)).collect()
}
