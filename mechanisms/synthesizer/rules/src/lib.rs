//! Answers about rule sets of packet filters, such as access lists and firewalls.
//!
//! - [`lint`]: rules that never decide, needless rules, and conflicts
//! - [`merge`]: a shorter rule set, with the proof that it does the same
//! - [`diff`]: the packets that two rule sets treat differently
//! - [`ask`]: the rules that decide about given packets
//! - [`read`]: the readers of rule sets, one per format
//! - [`mod@write`]: the writers
//!
//! A rule set ([`model`]) is a list of rules, each a union of products: a set of values for each field
//! ([`fields`], [`product`]). The analyses turn products into the decision diagrams of the verifier
//! ([`space`]), and diagrams back into few products ([`regions`]), which [`phrase`] puts into words.
//!
//! Invariants:
//! - Packets are IPv4 packets with complete headers. About these, a rule of the model says exactly what the
//!   rule of the input says; what cannot be said exactly, the readers refuse.
//! - Each statement about rules is a proof. Random packets only show quickly that a rule is needed.
//! - Diagrams are made of rules that overlap with the packets in question, never of all rules.

pub mod ask;
pub mod conditions;
#[allow(clippy::mutable_key_type, reason = "diagrams are counted inside, and their identity never changes")]
pub mod diff;
pub mod fields;
pub mod lint;
pub mod merge;
pub mod model;
pub mod overlap;
pub mod phrase;
pub mod product;
pub mod question;
pub mod read;
#[allow(clippy::mutable_key_type, reason = "as in the verifier")]
pub mod regions;
#[allow(clippy::mutable_key_type, reason = "as in the verifier")]
pub mod space;
pub mod write;
