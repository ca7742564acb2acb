//! Click's language for IP packets: `src net 10.0.0.0/8 && (tcp port 80 or icmp type echo)`.
//!
//! A text becomes an expression of [`Primitive`]s ([`parse`]), that becomes a [`Condition`] over header bytes
//! ([`Primitive::condition`]), and a list of conditions becomes a [`Matcher`] that finds the first one that holds.
//! [`Primitive::holds`] evaluates the expression straightforwardly; tests hold everything else against it.
//!
//! What holds of packets that lack something:
//! - A question about bytes that the packet does not have is false, also with `!=` and `<`. An unset header
//!   annotation counts as a header without bytes.
//! - A question about a transport header (ports, flags, `icmp type`, `tcp[...]`) is false for another protocol and
//!   for all fragments but the first.
//! - `not` turns over whatever comes out: `not port 80` holds for ICMP, `port != 80` does not.

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
mod tree;
mod words;

pub use classbench::{classbench, is_classbench};
pub use condition::{Condition, Header, Test};
pub use listing::Listing;
pub use matcher::Matcher;
pub use names::{Names, ip_protocol, well_known_port};
pub use parse::{DEEPEST, DEEPEST_CONDITION, Expression, Issue, parse};
pub use primitive::{Ends, Place, Primitive, Protocol, Relation, Sign, Version};
pub use recent::Recent;
pub use shadow::{Shadows, shadows};
pub use tree::Tree;

/// The bytes of a packet, from each of its headers to its end; empty where a header is not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'p> {
    /// From the link-layer header.
    pub mac: &'p [u8],
    /// From the IP header.
    pub network: &'p [u8],
    /// From the transport header.
    pub transport: &'p [u8],
}

impl<'p> Headers<'p> {
    /// From one of them.
    #[inline]
    pub fn of(&self, header: Header) -> &'p [u8] {
        match header {
            Header::Mac => self.mac,
            Header::Network => self.network,
            Header::Transport => self.transport,
        }
    }
}

/// The condition of an expression, without parts that can only come out one way.
pub fn condition(expression: &Expression) -> Condition {
    expression.replace(&Primitive::condition).simplified()
}

/// Cuts the first word off a text: an action and the pattern behind it.
pub fn action(text: &str) -> (&str, &str) {
    let text = text.trim();
    match words::split(text).first() {
        Some(word) => text.split_at(word.span().end),
        None => (text, ""),
    }
}
