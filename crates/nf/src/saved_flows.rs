//! Flows in saved state: the worker to which the packets of a flow come in a later run.

use element::Cx;
use wire::{FiveTuple, ip_protocol};

/// The largest number of entries of a flow table that are examined, used or not, for one piece of the saved
/// state.
pub(crate) const LOOKS: usize = 4096;

/// The worker to which the packets of a flow come, as seen from the worker that loads the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// This worker.
    Here,
    /// Another worker.
    Elsewhere,
    /// Any worker: the five-tuple does not say which. The packets of an ICMP query come to a worker that
    /// also depends on the query's identifier.
    Anywhere,
}

impl Home {
    /// Returns the home of a flow with this five-tuple, which the element of the context keeps.
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
