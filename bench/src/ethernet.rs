//! The benchmark `l2`: elements that forward by Ethernet addresses.

use crate::runner::measure_flows;
use crate::serde_params::Param;
use crate::{Row, Settings};

/// Measures elements that forward by Ethernet addresses. Packets pass the EtherSwitch in both directions,
/// because it learns an address only from a packet that a host sends.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let forwarders = [
        ("EtherMirror", "EtherMirror -> Discard"),
        ("EtherSwitch", "[0] s :: EtherSwitch; s[1] -> EtherMirror -> [1] s; s[0] -> Discard"),
    ];
    forwarders
        .into_iter()
        .map(|(class, chain)| measure_flows("l2", settings, 10_000, chain, ("class", Param::Word(class))))
        .collect()
}
