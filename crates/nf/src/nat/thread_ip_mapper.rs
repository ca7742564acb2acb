//! # ThreadIPMapper
//! Lets each worker of a translator use a pattern of its own.
//!
//! A translator that names this element in an input's specification calls it for each new flow. The first
//! worker uses the first pattern, the second worker the second, and so on; workers beyond the number of
//! patterns begin again with the first.
//!
//! ## Usage
//! `ThreadIPMapper(PATTERN FOUTPUT ROUTPUT, ...)`
//!
//! ## Arguments
//! - `PATTERN`: a pattern, or the name of one, and the outputs for the flow and its reply, as in IPRewriter.
//!
//! ## Example
//! ```click
//! threads :: ThreadIPMapper(10.0.0.1 1024-32767 - - 0 1, 10.0.0.1 32768-65535 - - 0 1);
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPRewriter(threads); rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, RoundRobinIPMapper, SourceIPHashMapper

use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Effects, Element, manual};

use super::mapper::{self, Choice};

/// The element class `ThreadIPMapper`.
pub static CLASS: Class = Class {
    name: "ThreadIPMapper",
    ports: "0/0",
    manual: manual!("thread_ip_mapper.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern")],
    phase: ConfigurePhase::Service,
    samples: &["10.0.0.1 1024-32767 - - 0 1, 10.0.0.1 32768-65535 - - 0 1"],
    build: |args| {
        let texts = args.rest();
        match texts.len() {
            0 => args.error("no patterns given"),
            1 => args.warn("only one pattern given"),
            _ => {}
        }
        let targets = mapper::targets(args, &texts);
        mapper::publish(args, "ThreadIPMapper", targets, Choice::ByWorker)?;
        Ok(Box::new(ThreadIpMapper))
    },
    ..Class::DEFAULT
};

struct ThreadIpMapper;

impl Element for ThreadIpMapper {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
