//! The benchmark `meter`: elements that measure the rate of packets, and elements that colour packets by
//! their rate.

use crate::frames::Start;
use crate::runner::{measure_of, worker_with};
use crate::serde_params::Param;
use crate::{Row, Settings};

/// Measures meters of rates (Meter, BandwidthMeter), and meters that colour packets (SrTCM, TrTCM). The
/// limits of SrTCM and TrTCM are above the rate of the replay, so that all packets leave by their first
/// output. Meter and BandwidthMeter take no rate above 4,194,303 per second, as in Click, so the replay may
/// exceed their rate.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let meters = [
        ("Meter", "Meter(4194303)"),
        ("BandwidthMeter", "BandwidthMeter(4MBps)"),
        ("SrTCM", "SrTCM(4GBps, 1000000, 1000000)"),
        ("TrTCM", "TrTCM(4GBps, 1000000, 4GBps, 1000000)"),
    ];
    meters.into_iter().map(|(class, meter)| measure(settings, class, meter)).collect()
}

fn measure(settings: &Settings, class: &'static str, meter: &str) -> Result<Row, String> {
    let chain = format!("m :: {meter} -> Discard; over :: Counter -> Discard; m[1] -> over");
    let colours = class.ends_with("TCM");
    let chain = if colours { chain + "; m[2] -> over" } else { chain };
    let mut worker = worker_with(settings.packets, (10_000, 1), 64, Start::Ethernet, &chain)?;
    let row = measure_of("meter", settings, 64, &mut worker, &[("class", Param::Word(class))])?;
    let over = worker.plan().graph.find("over");
    let count = worker.read(over, "count", "")?;
    worker.finish().map_err(|errors| errors.join("; "))?;
    match colours && count != "0" {
        false => Ok(row),
        true => Err(format!("{meter}: {count} packets were above its limit; choose a higher one")),
    }
}
