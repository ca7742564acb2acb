//! # ScheduleInfo
//! Sets the rates at which the tasks of elements run, relative to other tasks.
//!
//! The number of a compound multiplies the numbers of the elements in it, unless an outer ScheduleInfo
//! names these elements themselves. An element that no ScheduleInfo names has the number 1. With 0, a task
//! never runs; numbers above 32 count as 32. An element's handler `tickets` shows the result times 1024.
//!
//! ## Usage
//! `ScheduleInfo(ELEMENT PARAM, ...)`
//!
//! ## Arguments
//! - `ELEMENT`: an element, or a compound for all elements in it, and a number.
//!
//! ## Example
//! ```click
//! s :: InfiniteSource(LIMIT 1) -> Discard; ScheduleInfo(s 2)
//! ```
//!
//! ## See also
//! StaticThreadSched

use element::args::parse_real;
use element::class::{ArgInfo, ConfigurePhase};
use element::setup::{TICKETS_OF_ONE, scope_of};
use element::{Class, Effects, Element, manual};

/// The element class `ScheduleInfo`.
pub static CLASS: Class = Class {
    name: "ScheduleInfo",
    ports: "0/0",
    manual: manual!("schedule_info.rs"),
    args: &[ArgInfo::rest("ELEMENT", "element number")],
    phase: ConfigurePhase::Information,
    build: |args| {
        let scope = scope_of(&args.setup.elements[args.id()].0).to_string();
        args.each_of_rest(|args, _, text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let entry = match words[..] {
                [] => return,
                [name, number] => parse_real(number).filter(|&n| n >= 0.0).map(|number| (name, number)),
                _ => None,
            };
            match entry {
                Some((name, number)) => {
                    let tickets = (number * f64::from(TICKETS_OF_ONE)).round() as u32;
                    args.setup.schedule.push((scope.clone(), name.to_string(), tickets));
                }
                None => args.error(format!("expected 'ELEMENTNAME PARAM', got '{text}'")),
            }
        });
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
