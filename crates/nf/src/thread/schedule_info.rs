//! # ScheduleInfo
//! Says how often tasks of elements run in relation to others; accepted, without effect.
//!
//! All scheduled tasks run in turn here, each once per round.
//!
//! ## Usage
//! `ScheduleInfo(ELEMENT PARAM, ...)`
//!
//! ## Arguments
//! - `ELEMENT`: an element, or a compound that stands for all elements in it, and a number; others have 1.
//!
//! ## Example
//! ```click
//! s :: InfiniteSource(LIMIT 1) -> Discard; ScheduleInfo(s 2)
//! ```
//!
//! ## See also
//! StaticThreadSched

use element::args::parse_real;
use element::class::{ArgInfo, Phase};
use element::{Class, Effects, Element, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "ScheduleInfo",
    ports: "0/0",
    manual: manual!("schedule_info.rs"),
    args: &[ArgInfo::rest("ELEMENT", "element number")],
    phase: Phase::Information,
    build: |args| {
        for text in args.rest() {
            let words: Vec<&str> = text.split_whitespace().collect();
            let right = match words[..] {
                [] => true,
                [_, number] => parse_real(number).is_some_and(|number| number >= 0.0),
                _ => false,
            };
            if !right {
                args.error(format!("expected 'ELEMENTNAME PARAM', got '{text}'"));
            }
        }
        args.finish()?;
        Ok(Box::new(ScheduleInfo))
    },
    ..Class::DEFAULT
};

struct ScheduleInfo;

impl Element for ScheduleInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
