//! # ClickyInfo
//! Holds styles for Clicky, the graphical interface of Click; accepted, without effect.
//!
//! ## Usage
//! `ClickyInfo(STYLE, ...)`
//!
//! ## Arguments
//! - `STYLE`: a style; any text is accepted, any number of times.
//!
//! ## Example
//! ```click
//! ClickyInfo(#x { color: red }); Idle -> Discard
//! ```
//!
//! ## See also
//! AlignmentInfo, DevirtualizeInfo

use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Effects, Element, manual};

/// The element class `ClickyInfo`.
pub static CLASS: Class = Class {
    name: "ClickyInfo",
    ports: "0/0",
    manual: manual!("clicky_info.rs"),
    args: &[ArgInfo::rest("STYLE", "any text")],
    phase: ConfigurePhase::Information,
    samples: &["", "#x { color: red }", "STYLE #x { color: red }, STYLE .y { margin: 0 }"],
    build: |args| {
        args.each_of("STYLE", |_, _| ());
        args.finish()?;
        Ok(Box::new(Ignored))
    },
    ..Class::DEFAULT
};

/// The element of classes that hold information for other programs only.
pub(super) struct Ignored;

impl Element for Ignored {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
