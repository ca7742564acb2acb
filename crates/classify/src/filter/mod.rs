//! Click's language of conditions on IP packets: `src net 10.0.0.0/8 && (tcp port 80 or icmp type echo)`.
//!
//! [`parse`] turns a text into an [`Expression`] whose leaves are [`Primitive`]s. [`condition()`] turns the
//! expression into a [`Condition`] whose leaves are tests of header bytes. A [`Matcher`] is made of a list of
//! conditions, and finds the first that holds for a packet. [`Primitive::holds`] evaluates a primitive
//! without any of these steps; tests compare all compiled forms with its results.
//!
//! For packets that lack a header or bytes:
//! - A comparison with bytes that the packet does not have is false, also with `!=` and `<`. An unset header
//!   annotation counts as a header without bytes.
//! - A question about a transport header (ports, flags, `icmp type`, `tcp[...]`) is false for packets of
//!   another protocol and for IPv4 fragments other than the first. IPv6 fragments count as packets of another
//!   protocol.
//! - `not` inverts any result: `not port 80` holds for ICMP, `port != 80` does not.

mod classbench;
mod condition;
mod draft;
mod evaluate;
mod listing;
mod matcher;
mod names;
mod parse;
mod primitive;
mod recent;
mod shadow;
mod space;
#[cfg(test)]
mod tests;
mod words;

pub use classbench::{classbench, is_classbench};
pub use condition::{Condition, HeaderLayer, Test};
pub use listing::Listing;
pub use matcher::Matcher;
pub use names::{NameLookup, ip_protocol, well_known_port};
pub use parse::{DEEPEST, DEEPEST_CONDITION, Expression, Issue, parse};
pub use primitive::{FieldPlace, Primitive, Protocol, Relation, Sides, Sign, Version};
pub use recent::Recent;
pub use shadow::{Shadows, shadows};

/// The bytes of a packet as a filter sees them: for each header a slice from its start to the end of the
/// packet. The slice is empty if the packet does not have the header, or its position is not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeaderSlices<'p> {
    /// The bytes from the link-layer header to the end of the packet.
    pub mac: &'p [u8],
    /// The bytes from the IP header to the end of the packet.
    pub network: &'p [u8],
    /// The bytes from the transport header to the end of the packet.
    pub transport: &'p [u8],
}

impl<'p> HeaderSlices<'p> {
    /// Returns the bytes from `header` to the end of the packet.
    #[inline]
    pub fn of(&self, header: HeaderLayer) -> &'p [u8] {
        match header {
            HeaderLayer::Mac => self.mac,
            HeaderLayer::Network => self.network,
            HeaderLayer::Transport => self.transport,
        }
    }
}

/// Translates an expression into tests of header bytes, and simplifies it: constant subexpressions are left
/// out.
pub fn condition(expression: &Expression) -> Condition {
    expression.replace(&mut Primitive::condition).simplified()
}

/// Splits a rule such as `allow tcp` into its first word, the action, and the rest, the pattern. Both are
/// empty for an empty text.
pub fn action(text: &str) -> (&str, &str) {
    let text = text.trim();
    match words::split(text).first() {
        Some(word) => text.split_at(word.span().end),
        None => (text, ""),
    }
}
