//! # TSCClock
//! Takes the place of a clock of FastClick; passes packets unchanged.
//!
//! FastClick's element makes its clock read the time stamp counter of the processor. Here, each worker reads
//! its clock once per round of its loop, and time stamps are always in nanoseconds, so there is nothing to
//! install and nothing to convert.
//!
//! ## Usage
//! `TSCClock([KEYWORDS])`
//!
//! ## Arguments
//! - `INSTALL`, `NOWAIT`, `CONVERT_STEADY`, `VERBOSE`: accepted.
//! - `BASE`, `SOURCE`: the name of an element; accepted.
//! - `READY_CALL`: the write handler to call when the graph starts, because the clock is ready then.
//!
//! ## Example
//! ```click
//! TSCClock; InfiniteSource(LIMIT 1) -> Discard
//! ```
//!
//! ## See also
//! JiffieClock, SetTimestamp

use std::sync::Arc;

use element::args::Raw;
use element::class::ArgInfo;
use element::{Call, Class, Cx, Effects, Element, manual};

/// The element class `TSCClock`.
pub static CLASS: Class = Class {
    name: "TSCClock",
    ports: "0-1/=",
    processing: "h",
    manual: manual!("tsc_clock.rs"),
    args: &[
        ArgInfo::keyword("INSTALL", "bool", "true"),
        ArgInfo::keyword("NOWAIT", "bool", "false"),
        ArgInfo::keyword("CONVERT_STEADY", "bool", "false"),
        ArgInfo::keyword("VERBOSE", "int", "1"),
        ArgInfo::keyword("BASE", "element", ""),
        ArgInfo::keyword("SOURCE", "element", ""),
        ArgInfo::keyword("READY_CALL", "HANDLER [VALUE]", ""),
    ],
    samples: &["", "INSTALL false, NOWAIT true -> 1/1"],
    build: |args| {
        for name in ["INSTALL", "NOWAIT", "CONVERT_STEADY"] {
            args.value::<bool>(name);
        }
        args.value::<i32>("VERBOSE");
        for name in ["BASE", "SOURCE"] {
            args.get::<Raw>(name);
        }
        let ready_call = args.get::<Raw>("READY_CALL").map(|Raw(text)| text);
        let has_packets = args.inputs() > 0;
        args.finish()?;
        Ok(Box::new(TscClock { has_packets, ready_call }))
    },
    ..Class::DEFAULT
};

struct TscClock {
    /// True if the element has ports.
    has_packets: bool,
    /// The handler to call when the graph starts, with its value (READY_CALL).
    ready_call: Option<String>,
}

impl Element for TscClock {
    fn effects(&self) -> Effects {
        let effects = if self.has_packets { Effects::pass() } else { Effects::none() };
        Effects { calls: self.ready_call.is_some(), ..effects }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(text) = &self.ready_call {
            let call = Arc::new(Call::parse(text, cx, |_| None)?);
            cx.handlers().call_later(&call);
        }
        Ok(())
    }
}
