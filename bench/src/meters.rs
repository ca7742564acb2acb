//! The benchmark `meter`: meters by rate and by colour.

use crate::runner::measure_flows;
use crate::serde_params::Param;
use crate::{Row, Settings};

/// Measures meters by rate, and meters that colour packets. Packets of all outputs are discarded, because
/// the packets of the replay may exceed the limits.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let meters = [
        ("Meter", "m :: Meter(4000000); m[0], m[1] => Discard, Discard"),
        ("BandwidthMeter", "m :: BandwidthMeter(4MBps); m[0], m[1] => Discard, Discard"),
        ("SrTCM", "m :: SrTCM(1GBps, 100000, 100000); m[0], m[1], m[2] => Discard, Discard, Discard"),
        ("TrTCM", "m :: TrTCM(1GBps, 100000, 2GBps, 100000); m[0], m[1], m[2] => Discard, Discard, Discard"),
    ];
    meters
        .into_iter()
        .map(|(class, chain)| measure_flows("meter", settings, 10_000, chain, ("class", Param::Word(class))))
        .collect()
}
