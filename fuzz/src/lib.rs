//! Fuzz targets: each target is a function that takes any bytes and panics if the product does.
//!
//! A target also checks invariants for all inputs: written values read back, compiled results agree with
//! their parts, offsets lie within the frame, no packet is lost.
//!
//! | file | targets |
//! | --- | --- |
//! | `captures.rs` | [`capture()`], [`capture_round_trip`] |
//! | `text.rs` | [`language`], [`arguments`], [`argument_types`], [`patterns`], [`filters`],
//! | | [`configuration`] |
//! | `traces.rs` | [`analysis`], [`multiplying`] |
//! | `frames.rs` | [`headers`], [`layers`] |
//! | `chain.rs` | [`packets`] |
//! | `slicing.rs` | [`slicing()`] |
//! | `programs.rs` | [`program()`] |
//! | `attack/` | no target, but random configurations and packets of its own |
//! | `seeds.rs` | [`seeds`]: inputs to start from |
//!
//! `fuzz/run` fuzzes them with libFuzzer, with a binary for each target (`targets/`); `tests/corpora.rs`
//! runs seeds and found inputs as ordinary tests. See also `docs/fuzz.md`.

pub mod attack;
mod captures;
mod chain;
mod frames;
mod programs;
pub mod seeds;
mod slicing;
mod text;
mod traces;

pub use captures::{capture, capture_round_trip};
pub use chain::packets;
pub use frames::{headers, layers};
pub use programs::program;
pub use slicing::slicing;
pub use text::{argument_types, arguments, configuration, filters, language, patterns};
pub use traces::{analysis, multiplying};

/// A fuzz target: takes any bytes, and panics if the product has a fault.
pub type Target = fn(&[u8]);

/// All targets, each with its name. The corpus of a target has that name, too, and its binary has it after
/// `fuzz_`.
pub const TARGETS: &[(&str, Target)] = &[
    ("capture", capture),
    ("capture_round_trip", capture_round_trip),
    ("analysis", analysis),
    ("multiplying", multiplying),
    ("language", language),
    ("arguments", arguments),
    ("argument_types", argument_types),
    ("patterns", patterns),
    ("filters", filters),
    ("configuration", configuration),
    ("program", program),
    ("headers", headers),
    ("layers", layers),
    ("packets", packets),
    ("slicing", slicing),
];
