//! # RoundRobinIPMapper
//! Lets translators use several patterns in turn, for example to balance load.
//!
//! A translator that names this element in an input's specification calls it for each new flow. The pattern
//! after the last pattern that was tried is tried first; patterns without a free port or address are
//! skipped.
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

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Cx, Effects, Element, StatePart, manual};

use super::mapper::{self, Choice, Mapper};

/// The element class `RoundRobinIPMapper`.
pub static CLASS: Class = Class {
    name: "RoundRobinIPMapper",
    ports: "0/0",
    manual: manual!("round_robin_ip_mapper.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern")],
    phase: ConfigurePhase::Service,
    state: &[StatePart::kept("turn", &[])],
    samples: &["- - 10.0.0.1 80 0 1, - - 10.0.0.2 80 0 1"],
    build: |args| {
        let texts = args.rest();
        match texts.len() {
            0 => args.error("no patterns given"),
            1 => args.warn("only one pattern given"),
            _ => {}
        }
        let targets = mapper::targets(args, &texts);
        let mapper =
            mapper::publish(args, "RoundRobinIPMapper", targets, Choice::InTurn(AtomicUsize::new(0)))?;
        Ok(Box::new(RoundRobinIpMapper(mapper)))
    },
    ..Class::DEFAULT
};

struct RoundRobinIpMapper(Arc<Mapper>);

/// The state that a mapper hands to the mapper that replaces it when the configuration changes: the text of
/// the next pattern in turn.
struct Next(String);

impl Element for RoundRobinIpMapper {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Next(self.0.turn()?)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Next(pattern) = *state.downcast().map_err(|_| "not the state of a RoundRobinIPMapper")?;
        self.0.set_turn(&pattern);
        Ok(())
    }
}
