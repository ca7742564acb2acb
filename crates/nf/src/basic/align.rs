//! # Align
//! Asks for packets whose data starts at an address with a given remainder; passes packets unchanged.
//!
//! No element of Tidegate needs aligned packets, so Align moves nothing.
//!
//! ## Usage
//! `Align(MODULUS, OFFSET)`
//!
//! ## Arguments
//! - `MODULUS`: 2, 4 or 8.
//! - `OFFSET`: the remainder, smaller than the modulus.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Align(4, 2) -> Discard
//! ```
//!
//! ## See also
//! Null

use element::class::ArgInfo;
use element::{Class, Effects, Element, manual};

/// The element class `Align`.
pub static CLASS: Class = Class {
    name: "Align",
    manual: manual!("align.rs"),
    args: &[ArgInfo::required("MODULUS", "2, 4 or 8"), ArgInfo::required("OFFSET", "unsigned")],
    samples: &["4, 2"],
    build: |args| {
        let (modulus, offset): (u32, u32) = (args.required("MODULUS"), args.required("OFFSET"));
        args.finish()?;
        if !matches!(modulus, 2 | 4 | 8) {
            args.error("MODULUS must be 2, 4, or 8");
        } else if offset >= modulus {
            args.error("OFFSET must be smaller than MODULUS");
        }
        args.finish()?;
        Ok(Box::new(Align))
    },
    ..Class::DEFAULT
};

struct Align;

impl Element for Align {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}
