//! The benchmark `nat`: a translator of addresses and ports.

use crate::frames::Start;
use crate::runner::{measure_worker, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// The chain of the translator.
pub(crate) const NAT: &str = "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> Discard";

/// Measures a translator for several numbers of flows. After the first round of the replay, the translator
/// knows all flows, and none of them ends.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    [1_000, 10_000, 100_000, 1_000_000]
        .into_iter()
        .map(|flows| {
            let packets = if settings.repeats > 1 { settings.packets.max(flows) } else { settings.packets };
            let worker = worker_with(packets, (flows, 1), 64, Start::Ethernet, NAT)?;
            let params = [("flows", Param::Number(flows as u64))];
            measure_worker("nat", settings, 64, worker, &params)
        })
        .collect()
}
