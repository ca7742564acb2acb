//! A cache with one entry: the flow of the last packet that had a flow (an IP header and ports), and the
//! matcher's result for this flow. It saves look-ups if packets of a flow follow each other in runs.

use super::space::{Space, V4, V6, is_six};
use super::{HeaderLayer, HeaderSlices};
use crate::cuts::NONE;

/// The fields by which a matcher distinguishes flows: addresses, ports, protocol, and for IPv4 a field that
/// is 1 for fragments other than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Four([u32; 6]),
    Six([u32; 11]),
}

impl Flow {
    /// Returns the flow of a packet; `None` if the packet has fewer than four bytes from the transport header
    /// on, and so no ports, or an incomplete IP header.
    #[inline]
    fn of(headers: &HeaderSlices<'_>) -> Option<Flow> {
        if headers.of(HeaderLayer::Transport).len() < 4 {
            return None;
        }
        if is_six(headers) { V6::point(headers).map(Flow::Six) } else { V4::point(headers).map(Flow::Four) }
    }
}

/// The flow of the last packet that had a flow, and the matcher's result for this flow, kept between calls of
/// [`Matcher::first_of_each`](super::Matcher::first_of_each).
#[derive(Clone)]
pub struct Recent {
    flow: Option<Flow>,
    pub(super) place: Lookup,
    /// The number of packets so far whose flow was the remembered flow: that of the last packet that had a
    /// flow.
    pub hits: u64,
    /// The number of packets so far that had no flow, or another flow than the remembered one.
    pub misses: u64,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { flow: None, place: Lookup::Known(NONE), hits: 0, misses: 0 }
    }
}

impl Recent {
    /// Compares the flow of the next packet with the remembered flow, counts the result, and remembers the
    /// packet's flow. Returns `None` for a packet without a flow; the remembered flow does not change then.
    #[inline]
    pub(super) fn see(&mut self, headers: &HeaderSlices<'_>) -> Option<Seen> {
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

/// The result of comparing a packet's flow with the remembered flow: that of the last packet that had a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The packet's flow is the remembered flow.
    Again,
    /// The packet's flow differs from the remembered flow.
    New,
}

/// For one of several packets that are looked up together: the matcher's result, if it is known already.
/// Otherwise the point to look up for the packet, by its index among the IPv4 points or the IPv6 points.
#[derive(Clone, Copy)]
pub(super) enum Lookup {
    Four(usize),
    Six(usize),
    Known(u32),
}
