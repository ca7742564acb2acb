//! # RoundRobinIPMapper
//! Lets translators use several patterns in turn, as for balancing load.
//!
//! A translator that names this element as an input's specification asks it for each new flow. The pattern behind the
//! one that was tried last is tried first; one without a free port or address is passed over.
//!
//! ## Usage
//! `RoundRobinIPMapper(PATTERN FOUTPUT ROUTPUT, ...)`
//!
//! ## Arguments
//! - `PATTERN`: a pattern, or the name of one, and the outputs for the flow and its reply, as in IPRewriter.
//!
//! ## Example
//! ```click
//! balancer :: RoundRobinIPMapper(- - 10.0.0.1 80 0 1, - - 10.0.0.2 80 0 1);
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPRewriter(balancer); rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, SourceIPHashMapper, IPRewriterPatterns

use std::sync::atomic::AtomicUsize;

use element::class::{ArgInfo, Phase};
use element::{Class, manual};

use super::mapper::{self, Choice};

/// The class.
pub static CLASS: Class = Class {
    name: "RoundRobinIPMapper",
    ports: "0/0",
    manual: manual!("round_robin_ip_mapper.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern")],
    phase: Phase::Service,
    samples: &["- - 10.0.0.1 80 0 1, - - 10.0.0.2 80 0 1"],
    build: |args| {
        let texts = args.rest();
        match texts.len() {
            0 => args.error("no patterns given"),
            1 => args.warn("only one pattern given"),
            _ => {}
        }
        let targets = mapper::targets(args, &texts);
        mapper::finish(args, "RoundRobinIPMapper", targets, Choice::InTurn(AtomicUsize::new(0)))
    },
    ..Class::DEFAULT
};
