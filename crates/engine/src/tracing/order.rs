//! The order of packets to trace: how many, and which.

use element::args::Scope;
use element::view::PacketFilter;
use element::{Packet, Setup};

/// The most packets that one order traces.
const MOST_PACKETS: u64 = 1_000;

/// The value of the handler that has a worker follow the packets which another worker has ordered.
pub(crate) const FOLLOW: &str = "follow";

/// The value of the handler that ends tracing.
pub(crate) const STOP: &str = "stop";

/// An order of packets to trace: those that enter the graph next, and match a condition.
pub struct TraceOrder {
    left: u64,
    /// The number of packets to leave out before.
    skipped: u64,
    /// The element at which the packets enter the graph; `None` for any element.
    element: Option<String>,
    filter: Option<PacketFilter>,
}

impl TraceOrder {
    /// Orders the packet that enters the graph as number `number`, counted from 1, at an element.
    pub fn one(element: &str, number: u64) -> TraceOrder {
        TraceOrder {
            left: 1,
            skipped: number.saturating_sub(1),
            element: Some(element.to_string()),
            filter: None,
        }
    }

    /// Orders the first packets that enter the graph at any element, as many as one order can have.
    pub fn first() -> TraceOrder {
        TraceOrder { left: MOST_PACKETS, skipped: 0, element: None, filter: None }
    }

    /// Parses an order as users write it: `N`, or `N PATTERN` for packets that match a pattern of IPFilter's
    /// language.
    ///
    /// # Errors
    /// If the text has another form: a message for the user.
    pub(crate) fn parse(text: &str, setup: &Setup) -> Result<TraceOrder, String> {
        let (number, pattern) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let left = number.parse().ok().filter(|n| (1..=MOST_PACKETS).contains(n));
        let left = left.ok_or_else(|| {
            format!("'{number}' is no number of packets to trace: expected 1 to {MOST_PACKETS}, then a filter if wanted")
        })?;
        // Names in the pattern are resolved as outside of all compounds.
        let place = Scope::new(setup, usize::MAX);
        let filter = match pattern.trim() {
            "" => None,
            pattern => Some(PacketFilter::parse(pattern, place)?),
        };
        Ok(TraceOrder { left, skipped: 0, element: None, filter })
    }

    /// Returns the number of packets that are still wanted.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// True if the packet, which enters the graph at an element, is to be traced. Then one packet less is
    /// wanted.
    pub(crate) fn wants(&mut self, element: &str, packet: &Packet) -> bool {
        let is_meant = self.left > 0
            && self.element.as_deref().is_none_or(|wanted| wanted == element)
            && self.filter.as_ref().is_none_or(|filter| filter.matches(packet));
        if !is_meant {
            return false;
        }
        if self.skipped > 0 {
            self.skipped -= 1;
            return false;
        }
        self.left -= 1;
        true
    }
}
