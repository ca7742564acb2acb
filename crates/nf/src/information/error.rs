//! # Error
//! Prevents the configuration that contains it from running.
//!
//! Error has any number of ports and takes any arguments, so it can replace an element that does not exist.
//!
//! ## Usage
//! `Error(...)`
//!
//! ## Arguments
//! - `ANYTHING`: ignored.
//!
//! ## Example
//! ```click
//! // As long as nobody uses the compound, all is well.
//! elementclass Unsupported { input -> Error(not written yet) -> output };
//! InfiniteSource(LIMIT 1) -> Discard
//! ```
//!
//! ## See also
//! Message

use element::class::ArgInfo;
use element::effects::{Case, Filter, Target};
use element::{Class, Cx, DropReason, Effects, Element, manual};

/// The element class `Error`.
pub static CLASS: Class = Class {
    name: "Error",
    ports: "-/-",
    flow: "x/y",
    manual: manual!("error.rs"),
    args: &[ArgInfo::rest("ANYTHING", "text")],
    // No samples for the generic tests, because the element never runs.
    samples: &[],
    build: |args| {
        args.rest();
        args.finish()?;
        Ok(Box::new(Failure))
    },
    ..Class::DEFAULT
};

struct Failure;

impl Element for Failure {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Drop(DropReason::Inactive))])
    }

    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Err("the configuration has an Error element".into())
    }
}
