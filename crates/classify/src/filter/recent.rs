//! A cache with one entry: the flow of the previous packet. It helps if packets of a flow come in runs.

use super::matcher::Place;
use super::space::{Space, V4, V6, is_six};
use super::{Header, Headers};
use crate::cuts::NONE;

/// The fields that packets of one flow have in common: addresses, ports, protocol, and 1 for a later
/// fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Four([u32; 6]),
    Six([u32; 11]),
}

impl Flow {
    /// Returns the flow of a packet. `None` if the packet has no ports.
    #[inline]
    fn of(headers: &Headers<'_>) -> Option<Flow> {
        if headers.of(Header::Transport).len() < 4 {
            return None;
        }
        if is_six(headers) { V6::point(headers).map(Flow::Six) } else { V4::point(headers).map(Flow::Four) }
    }
}

/// The last flow, and the result for it.
#[derive(Clone)]
pub struct Recent {
    flow: Option<Flow>,
    pub(super) place: Place,
    /// The number of packets of the same flow as the packet before.
    pub hits: u64,
    /// The number of other packets.
    pub misses: u64,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { flow: None, place: Place::Known(NONE), hits: 0, misses: 0 }
    }
}

impl Recent {
    /// Looks at the next packet. A packet without a flow does not replace the last flow.
    #[inline]
    pub(super) fn see(&mut self, headers: &Headers<'_>) -> Option<Seen> {
        let flow = Flow::of(headers);
        if flow.is_some() && flow == self.flow {
            self.hits += 1;
            return Some(Seen::Again);
        }
        self.misses += 1;
        self.flow = flow.or(self.flow);
        flow.map(|_| Seen::New)
    }
}

/// The result of comparing a packet's flow with the last flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The flow is the last flow.
    Again,
    /// The flow is another flow.
    New,
}
