//! Fuzz targets: one function each that takes any bytes and panics if the product does.
//!
//! A target also checks what has to hold whatever the input: what is written reads back, what was compiled
//! agrees with its parts, offsets lie within the frame, no packet is lost.
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
//! | `attack/` | no target, but random configurations and packets of its own |
//! | `seeds.rs` | [`seeds`]: inputs to start from |
//!
//! `fuzz/run` fuzzes them with libFuzzer, one binary each (`targets/`); `tests/corpora.rs` runs seeds and found
//! inputs as ordinary tests. `docs/fuzz.md` says more.

pub mod attack;
mod captures;
mod chain;
mod frames;
pub mod seeds;
mod slicing;
mod text;
mod traces;

pub use captures::{capture, capture_round_trip};
pub use chain::packets;
pub use frames::{headers, layers};
pub use slicing::slicing;
pub use text::{argument_types, arguments, configuration, filters, language, patterns};
pub use traces::{analysis, multiplying};

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// Every target with its name, which is also that of its corpus and, behind `fuzz_`, of its binary.
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
    ("headers", headers),
    ("layers", layers),
    ("packets", packets),
    ("slicing", slicing),
];
