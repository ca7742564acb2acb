//! The flow of the packet before: a cache of one entry, for traffic that comes in bursts.

use super::matcher::Place;
use super::space::{Space, V4, V6, is_six};
use super::{Header, Headers};
use crate::cuts::NONE;

/// What packets of one flow have in common: addresses, ports, protocol, and whether they are later fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Four([u32; 6]),
    Six([u32; 11]),
}

impl Flow {
    /// Packets without ports have none.
    #[inline]
    fn of(headers: &Headers<'_>) -> Option<Flow> {
        if headers.of(Header::Transport).len() < 4 {
            return None;
        }
        if is_six(headers) { V6::point(headers).map(Flow::Six) } else { V4::point(headers).map(Flow::Four) }
    }
}

/// The last flow, and what was found for it.
#[derive(Clone)]
pub struct Recent {
    flow: Option<Flow>,
    pub(super) place: Place,
    /// Packets of the same flow as the one before.
    pub hits: u64,
    /// Other packets.
    pub misses: u64,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { flow: None, place: Place::Known(NONE), hits: 0, misses: 0 }
    }
}

impl Recent {
    /// Looks at the next packet; one without a flow leaves the flow as it is.
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

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The same as before.
    Again,
    /// Another one.
    New,
}
