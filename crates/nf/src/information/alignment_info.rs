//! # AlignmentInfo
//! Declares the alignment of packets at elements' inputs; accepted, without effect.
//!
//! No element of Tidegate depends on the alignment of packets.
//!
//! ## Usage
//! `AlignmentInfo(ELEMENT [CHUNK OFFSET ...], ...)`
//!
//! ## Arguments
//! - `ELEMENT`: an element, and for each of its inputs a chunk and an offset.
//!
//! ## Example
//! ```click
//! c :: Classifier(12/0800, -); AlignmentInfo(c 4 2);
//! InfiniteSource(LIMIT 1) -> c -> Discard; c[1] -> Discard
//! ```
//!
//! ## See also
//! ScheduleInfo

use element::args::parse_integer;
use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Effects, Element, manual};

/// The element class `AlignmentInfo`.
pub static CLASS: Class = Class {
    name: "AlignmentInfo",
    ports: "0/0",
    manual: manual!("alignment_info.rs"),
    args: &[ArgInfo::rest("ELEMENT", "element chunk offset ...")],
    phase: ConfigurePhase::Information,
    samples: &["", "e 4 2"],
    build: |args| {
        // Wrong arguments have no effect, so they are reported as warnings and not as errors, as in Click.
        args.each_of_rest(|args, number, text| {
            let mut words = text.split_whitespace();
            if words.next().is_none() {
                args.warn(format!("empty configuration argument {number}"));
            }
            let is_number = |word: &str| parse_integer(word).is_ok_and(|n| n >= 0);
            let numbers: Vec<bool> = words.map(is_number).collect();
            match numbers.iter().position(|right| !right) {
                Some(place) if place % 2 == 0 => args.warn("expected CHUNK"),
                Some(_) => args.warn("expected OFFSET"),
                None if numbers.len() % 2 == 1 => {
                    args.warn("expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'");
                }
                None => {}
            }
        });
        args.finish()?;
        Ok(Box::new(AlignmentInfo))
    },
    ..Class::DEFAULT
};

struct AlignmentInfo;

impl Element for AlignmentInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
