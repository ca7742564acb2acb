//! Monitoring of a running graph over HTTP: metrics for Prometheus, and an interface in JSON.
//!
//! ```text
//!   scraper, browser          thread "http"                         workers
//!   ────────────────          ─────────────                         ───────
//!   GET /metrics ──▶ server ──▶ guard ──▶ routes ──▶ questions ────▶ one part each, between two rounds
//!                ◀── text.rs, families.rs ◀── snapshot (kept for a moment) ◀──┘
//! ```
//!
//! | file | subject |
//! | --- | --- |
//! | `server.rs` | the thread, its connections and their limits |
//! | `guard.rs` | the requests that are answered at all: names of the host, origins, the token |
//! | `routes.rs` | the answer to each path |
//! | `questions.rs` | snapshots and handler calls, which the workers answer |
//! | `families.rs` | every metric: name, help text, labels, value |
//! | `text.rs` | OpenMetrics and Prometheus' text format |
//! | `api.rs` | the objects in JSON |
//! | `process.rs` | memory, processor time and files of the process |
//! | `limits.rs` | the limits of clients |
//! | `address.rs`, `token.rs` | the values of the command line |
//!
//! Nothing here is on a packet's path. The workers are asked at most ten times per second for a snapshot,
//! however many clients there are.

mod address;
mod api;
pub mod families;
mod guard;
mod limits;
mod process;
mod questions;
mod routes;
mod server;
mod text;
mod token;

pub use address::HttpAddress;
pub use limits::HttpLimits;
pub use server::{HttpServer, Running};
pub use token::Token;

use element::Class;

/// The facts about the program and its run that do not change.
#[derive(Clone)]
pub struct About {
    /// The version of the program.
    pub version: String,
    /// The commit from which the program was built; empty if it is not known.
    pub commit: String,
    /// The name of the configuration, usually a file.
    pub configuration: String,
    /// The function that returns the manual page of a class.
    pub manual: fn(&Class) -> String,
}
