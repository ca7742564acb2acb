//! From a graph to a running worker.
//!
//! 1. [`Plan::new`] finds the classes, counts ports, resolves push and pull, and lays out the connections.
//! 2. [`Plan::configure`] builds the elements and reads their declarations.
//! 3. [`Worker::new`] gives them a pool, a clock and a place to write to; [`Worker::run`] initialises them, runs
//!    them to the end, drains and closes them.
//! 4. [`Report`] says what became of every packet.
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
pub mod way;
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
