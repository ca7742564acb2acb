//! Analysis of captures, and generation of traces. A trace is a sequence of packets: of one or several
//! captures, or generated.
//!
//! An analysis reads captures of any size in a single pass. Each [`analysis::Accumulator`] measures one
//! property and has its own file. It holds a bounded amount of memory per flow, and none per packet. The
//! results form a [`TraceReport`] of plain numbers, which can be serialised. Measurements that need the final
//! sizes of flows need a second, cheaper pass ([`passes::SecondPass`]).
//!
//! The headers of a packet are dissected once ([`Dissected`]). Its flow has a dense number ([`FlowNumbers`]),
//! which accumulators use as an array index. Packets are processed in groups, so that the memory accesses
//! for their flows overlap.
//!
//! | module | holds |
//! | --- | --- |
//! | [`analysis`] | the accumulators |
//! | [`passes`] | [`Analyzer`]: the passes that run all accumulators |
//! | `read` | [`analyze`]: captures to a report |
//! | [`report`] | [`TraceReport`]: the results |
//! | [`text`] | the results as text: `TraceReport` is `Display` |
//! | [`html`] | the results as a page with plots |
//! | [`generate`] | [`generate::Generator`]: traces by specification |
//! | [`flood`] | [`flood::Flood`]: frames that fill tables |
//! | [`multiply`](mod@multiply) | [`multiply()`]: several parts of a capture at the same time |
//! | `packet`, `flows`, `filter` | analyzed fields of a packet; flows by number; selection of packets |
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
pub mod passes;
mod read;
pub mod report;
pub mod text;

pub use filter::Selection;
pub use flows::FlowNumbers;
pub use multiply::multiply;
pub use packet::{Dissected, FlowlessKind, Member, TcpFields, TracePacket, Transport, tuple};
pub use passes::{Analyzer, Options};
pub use read::{Error, analyze};
pub use report::TraceReport;
