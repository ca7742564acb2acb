//! Tracing: the way of single packets through the graph, recorded at each element.
//!
//! While packets are traced, each worker's copy of the graph has a [`Tracer`], and the engine calls
//! elements by the functions in `watched_calls.rs` instead of directly. They pass a traced packet to an
//! element alone, in a batch of its own, so that everything that the element does in this call is about
//! this packet: the outputs by which the packet and its copies leave, and the drops that are counted.
//! Without a tracer, tracing costs one comparison per call of an element.
//!
//! A packet is recognised by its slot, which it keeps until it is freed. All workers share the [`Traces`], so
//! that packets can be followed from one worker to another.
//!
//! ```text
//! Traces::begin ──▶ each worker: Tracer ──▶ arrive ── call of an element ──▶ leave ──▶ Traces: steps
//!  order: how many     in its GraphCopy     packets as they came     who left, is held, has ended
//! ```

mod case;
mod order;
mod record;
mod text;
mod tracer;

pub(crate) use case::Candidates;
pub use order::TraceOrder;
pub(crate) use order::{FOLLOW, STOP};
pub(crate) use record::Alive;
pub use record::{CaseTaken, StepOutcome, TraceStep, Traces};
pub use text::trace_text;
pub(crate) use tracer::{ActiveCall, Arrived, Leaving, Other, Out, Tracer};
