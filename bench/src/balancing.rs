//! The benchmark `balancer`: a load balancer.

use crate::runner::measure_flows;
use crate::serde_params::Param;
use crate::{Row, Settings};

/// Measures the cost per packet of a load balancer for several numbers of flows. The packets are replayed
/// again and again, so after the first round all flows are known to the balancer.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    [1_000, 10_000, 100_000]
        .into_iter()
        .map(|flows| {
            let chain =
                "FlowIPLoadBalancer(VIP 11.0.0.1, DST 10.2.0.1, DST 10.2.0.2, DST 10.2.0.3) -> Discard";
            measure_flows("balancer", settings, flows, chain, ("flows", Param::Number(flows as u64)))
        })
        .collect()
}
