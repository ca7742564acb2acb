//! Builds a running worker from a graph, and runs it.
//!
//! 1. [`Plan::new`] finds the classes, counts ports, resolves push and pull, and lays out the connections.
//! 2. [`Plan::configure`] builds the elements and reads their effects.
//! 3. [`Worker::new`] gives them a packet pool, a clock and a sink for text. [`Worker::initialize`]
//!    initialises the elements, [`Worker::run`] runs the graph until the run ends, and [`Worker::finish`]
//!    drains and closes the elements. The caller calls all three, in this order; after a failed
//!    initialization, it calls none of the other two.
//! 4. [`Worker::report`] returns a [`RunReport`], which accounts for every packet.
//!
//! [`Workers`] does the same with several workers, each with a copy of the graph and, except under the trace
//! clock, a thread. The files by subject:
//!
//! | subject | files |
//! | --- | --- |
//! | checking a graph and building its elements | `plan`, `configure`, `problem` |
//! | facts that follow from all declarations | `graph_facts`, `flow_marks`, `runs`, `element_order` |
//! | a packet's path through one worker: the work list | `worker` |
//! | the parts of a worker | `graph_copy`, `wakeups`, `control`, `exchange` |
//! | what elements ask for while they are called | `host` |
//! | elements that act in place of others | `stand_ins` |
//! | choosing what runs next, and the end of a run | `driver`, `trace_time`, `requests` |
//! | time and sleep | `clock`, `sleep`, `lateness` |
//! | reading and writing handlers | `handlers`, `merge` |
//! | changing a running graph | `reconfigure`; the whole graph: `reload`, `generation` |
//! | composing programs again after a change | `recompose`, `worker_recomposing` |
//! | following single packets, and capturing packets | `tracing`, `capturing`, `watched_calls` |
//! | answering the questions of other threads | `inspect`, `snapshot`, `worker_inspect` |
//! | saving state for a restart | `saving`, `worker_saving` |
//! | several workers: who does what, and what they share | `workers`, `placement`, `team`, `quiet` |
//! | several workers: handing packets over, and their order | `exchange`; for benchmarks `exchange_bench` |
//! | what the user of the crate gives and gets | `options`, `streams`, `report`, `worker_report`, `former` |
//!
//! Modules use each other in one direction, but for those that call the worker or are a part of it: `team`
//! and `reload/mod.rs` say why.
//!
//! The engine knows elements only through the contract of the `element` crate, and names none of them except
//! in hints for the user.
#![allow(unsafe_code)]

mod capturing;
mod checksums;
mod clock;
mod configure;
mod control;
mod driver;
mod element_order;
mod exchange;
pub mod exchange_bench;
mod flow_marks;
mod former;
mod generation;
mod graph_copy;
mod graph_facts;
mod handlers;
mod host;
mod inspect;
mod lateness;
mod merge;
mod options;
mod packet_starts;
mod placement;
mod plan;
mod problem;
mod quiet;
mod recompose;
mod reconfigure;
mod reload;
mod report;
mod requests;
mod runs;
mod saving;
mod sleep;
mod snapshot;
mod stand_ins;
mod streams;
mod team;
mod trace_time;
mod tracing;
mod wakeups;
mod watch;
mod watched_calls;
mod worker;
mod worker_inspect;
mod worker_recomposing;
mod worker_report;
mod worker_saving;
mod workers;

pub use capturing::{CaptureFile, CapturedPacket, Captures, MakeCapture};
pub use clock::ClockKind;
pub use configure::Configured;
pub use control::End;
pub use handlers::runs_script;
pub use inspect::{HandlerCall, Inspector, Refused, Reply, SnapshotPart, WorkerState};
pub use options::{Options, Rebuild, RebuildRequest, Rebuilt, Render, Requests, Tell};
pub use placement::{ElementWorkers, Placement};
pub use plan::Plan;
pub use problem::Problem;
pub use recompose::{Compose, Declarations, Programs, Recomposer};
pub use report::{ElementReport, PacketTotals, RunReport, WorkerReport};
pub use saving::{Collected, Continued, SavedElement, SavedPiece, SavedRun, Saver, Saving, saving};
pub use snapshot::{MetricValue, Snapshot, SnapshotObject};
pub use streams::{Sink, Stamp, StandardStreams};
pub use tracing::{CaseTaken, StepOutcome, TraceOrder, TraceStep, Traces, trace_text};
pub use worker::Worker;
pub use workers::{ThreadWork, Workers};
