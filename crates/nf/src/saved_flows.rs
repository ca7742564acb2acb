//! Flows that an earlier run has saved: the worker to which the packets of such a flow come in this run.

use element::Cx;
use wire::{FiveTuple, ip_protocol};

/// The largest number of entries of a flow table, used or unused, that are examined in one call that saves a
/// part of the table.
pub(crate) const LOOKS: usize = 4096;

/// The worker to which the packets of a flow come, as seen from the worker that loads the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// This worker.
    Here,
    /// Another worker.
    Elsewhere,
    /// Perhaps any worker: the five-tuple does not determine the worker. The packets of an ICMP query come to
    /// a worker that also depends on the query's identifier.
    Anywhere,
}

impl Home {
    /// Returns the worker to which the packets of a flow with this five-tuple come. The flow is state of the
    /// element whose context is `cx`.
    pub(crate) fn of(cx: &Cx<'_>, tuple: &FiveTuple) -> Home {
        let between = cx
            .workers()
            .between((tuple.source(), tuple.source_port()), (tuple.destination(), tuple.destination_port()));
        match between == cx.worker().0 {
            // An element that has only one copy keeps all flows in this copy.
            _ if cx.workers().copies(cx.id()) == 1 => Home::Here,
            _ if [ip_protocol::ICMP, ip_protocol::ICMPV6].contains(&tuple.protocol()) => Home::Anywhere,
            true => Home::Here,
            false => Home::Elsewhere,
        }
    }
}
