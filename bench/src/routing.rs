//! The benchmarks `router` and `router-flows`: a router over the number of routes and of flows.

use std::net::Ipv4Addr;

use crate::frames::Start;
use crate::runner::{measure, measure_worker, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// Measures a router with four interfaces, for several numbers of routes. The routes and the destinations of
/// the packets are in the same part of the address space.
pub(crate) fn router(settings: &Settings) -> Result<Vec<Row>, String> {
    [200, 100_000]
        .into_iter()
        .map(|count| {
            let params = [("frame", Param::Number(64)), ("routes", Param::Number(count.into()))];
            measure("router", settings, 64, &router_of(count), &params)
        })
        .collect()
}

fn router_of(count: u32) -> String {
    format!(
        "Classifier(12/0800) -> CheckIPHeader(14) -> rt :: RadixIPLookup({}0/0 10.0.0.1 0);
        rt[0], rt[1], rt[2], rt[3] => DecIPTTL, DecIPTTL, DecIPTTL, DecIPTTL
        => Discard, Discard, Discard, Discard",
        routes(count, 4)
    )
}

/// Measures a router with 200 routes for several numbers of flows.
pub(crate) fn router_flows(settings: &Settings) -> Result<Vec<Row>, String> {
    [1, 100, 10_000, 1_000_000]
        .into_iter()
        .map(|flows| {
            let packets = if settings.repeats > 1 { settings.packets.max(flows) } else { settings.packets };
            let worker = worker_with(packets, (flows, 1), 64, Start::Ethernet, &router_of(200))?;
            measure_worker("router-flows", settings, 64, worker, &[("flows", Param::Number(flows as u64))])
        })
        .collect()
}

/// Returns arguments of a route look-up: `count` routes with prefixes of 16 to 28 bits, to the outputs in
/// turn, in the address range of the flows' destinations. Some routes may repeat a prefix: of 200 routes none
/// does, of 100,000 routes nearly half do.
pub(crate) fn routes(count: u32, outputs: u32) -> String {
    let route = |number: u32| {
        let address = 0x0b00_0000 | number.wrapping_mul(0x9e37_79b1) >> 8;
        let (length, output) = (16 + number % 13, number % outputs);
        format!("{}/{length} 10.0.{output}.1 {output}, ", Ipv4Addr::from_bits(address))
    };
    (0..count).map(route).collect()
}
