//! Builds a running worker from a graph, and runs it.
//!
//! 1. [`Plan::new`] finds the classes, counts ports, resolves push and pull, and lays out the connections.
//! 2. [`Plan::configure`] builds the elements and reads their effects.
//! 3. [`Worker::new`] gives them a packet pool, a clock and a sink for text. [`Worker::run`] runs the graph
//!    until it ends; before and after it, the elements are initialised, drained and closed.
//! 4. [`Report`] accounts for every packet.
//!
//! [`Workers`] does the same with several workers, each with a thread and a copy of the graph. The module
//! `worker` describes the path of a packet, `driver` the order of tasks and timers, `placement` the workers
//! that do an element's work, `handover` the rings between workers, and `order` the order of packets from
//! different workers.
//!
//! The engine knows elements only through the contract of the `element` crate, and names none of them.
#![allow(unsafe_code)]

mod asking;
mod calls;
mod clock;
mod configure;
mod displacement;
mod driver;
mod facts;
mod flow_marks;
mod handlers;
mod handover;
mod host;
mod hotconfig;
mod merge;
mod order;
mod os_signals;
pub mod path_bench;
mod placement;
mod plan;
mod problem;
mod reconfigure;
mod report;
mod requests;
mod rest;
mod signals;
mod sliced;
mod stand_ins;
mod streams;
mod tasks;
mod team;
mod timers;
mod trace_time;
mod unknown;
mod watch;
mod worker;
mod workers;

pub use clock::ClockKind;
pub use configure::Configured;
pub use driver::End;
pub use hotconfig::{Rebuild, Rebuilt, Tell};
pub use placement::{Place, Placement};
pub use plan::Plan;
pub use problem::Problem;
pub use report::{ElementReport, Report, Totals, WorkerReport};
pub use requests::{Render, Requests};
pub use streams::{Sink, Stamp, StandardStreams};
pub use worker::{Options, Worker};
pub use workers::Workers;
