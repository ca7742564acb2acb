//! Traces: what is in them, and making new ones.
//!
//! An analysis is one pass over captures of any size. Each [`analysis::Accumulator`] measures one thing, in a file of
//! its own, and holds a fixed amount of memory for each flow, none for each packet; what they find is a
//! [`Report`] of plain numbers that serialises. What depends on how large flows turn out to be needs a second,
//! cheaper pass ([`analysis::SecondPass`]). A packet is taken apart once ([`Dissected`]), and its flow has a dense number
//! ([`Flows`]) that accumulators index their arrays with. Packets are looked at some at a time, so that memory is asked for
//! all their flows at once.
//!
//! | module | holds |
//! | --- | --- |
//! | [`analysis`] | the accumulators, [`Analyzer`] |
//! | `read` | [`analyze`]: captures to a report |
//! | [`report`] | [`Report`]: the results |
//! | [`text`] | the results for people: `Report` is `Display` |
//! | [`html`] | the results as a page with plots |
//! | [`generate`] | [`generate::Generator`]: traces made to measure |
//! | [`flood`] | [`flood::Flood`]: frames that fill tables |
//! | [`multiply`](mod@multiply) | [`multiply()`]: several parts of a capture at the same time |
//! | `packet`, `flows`, `filter` | what is looked at in a packet; flows by number; which packets count |
//! | [`histogram`] | distributions in constant memory |

pub mod analysis;
mod filter;
pub mod flood;
mod flows;
pub mod generate;
pub mod histogram;
pub mod html;
pub mod multiply;
mod packet;
mod read;
pub mod report;
pub mod text;

pub use analysis::{Analyzer, Options};
pub use filter::Selection;
pub use flows::Flows;
pub use multiply::multiply;
pub use packet::{Dissected, Kind, Member, Packet, Segment, Transport, tuple};
pub use read::{Error, analyze};
pub use report::Report;
