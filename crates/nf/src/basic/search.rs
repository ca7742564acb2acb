//! # Search
//! Moves the start of each packet to the first occurrence of a pattern, or to the byte after the pattern.
//!
//! The number of removed bytes is added to an annotation, for UnstripAnno. Packets without the pattern go
//! to output 1 unchanged, or are dropped. In packets that are longer than a slot, only the first slot is
//! searched.
//!
//! ## Usage
//! `Search(PATTERN [, KEYWORDS])`
//!
//! ## Arguments
//! - `PATTERN`: the bytes to look for.
//! - `STRIP_AFTER`: if true, the pattern is removed, too.
//! - `ANNO`: the offset of the annotation for the number of removed bytes, 2 bytes long.
//! - `SET_ANNO`: accepted, without effect; the annotation is always set.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA "GET / HTTP", LIMIT 1) -> s :: Search("HTTP") -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! UnstripAnno, Strip

use element::args::{AnnotationOffset, Bytes};
use element::class::ArgInfo;
use element::effects::Field;
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};

use crate::editing::{annotation, each_or_aside, otherwise, pure, refused};

/// The element class `Search`.
pub static CLASS: Class = Class {
    name: "Search",
    ports: "1/1-2",
    processing: "h",
    manual: manual!("search.rs"),
    args: &[
        ArgInfo::required("PATTERN", "bytes"),
        ArgInfo::keyword("STRIP_AFTER", "bool", "true"),
        ArgInfo::keyword("ANNO", "annotation", "16"),
        ArgInfo::keyword("SET_ANNO", "bool", "true"),
    ],
    samples: &["\\<0800> -> 1/2", "\\<45>, STRIP_AFTER false, ANNO 20"],
    build: |args| {
        let Bytes(pattern) = args.required("PATTERN");
        let strip_after = args.value::<bool>("STRIP_AFTER");
        let AnnotationOffset::<2>(place) = args.value("ANNO");
        args.value::<bool>("SET_ANNO");
        args.finish()?;
        if pattern.is_empty() {
            args.error("Cannot search for an empty string!");
        }
        args.finish()?;
        Ok(Box::new(Search { pattern, strip_after, place }))
    },
    ..Class::DEFAULT
};

struct Search {
    pattern: Vec<u8>,
    strip_after: bool,
    place: usize,
}

/// Returns the 2-byte number at offset `place` of the annotation area, in the machine's byte order.
pub(super) fn annotated_length(packet: &Packet, place: usize) -> u16 {
    let annotations = packet.annotations();
    u16::from_ne_bytes([annotations.u8(place), annotations.u8(place + 1)])
}

/// Returns the offset of the first occurrence of the pattern in the data; `None` if there is none. The
/// pattern must not be empty.
fn find(data: &[u8], pattern: &[u8]) -> Option<usize> {
    let last = data.len().checked_sub(pattern.len())?;
    let mut from = 0;
    loop {
        // Find the next occurrence of the first byte, then compare the rest.
        from += data.get(from..=last)?.iter().position(|byte| byte == &pattern[0])?;
        if data[from..].starts_with(pattern) {
            return Some(from);
        }
        from += 1;
    }
}

impl Element for Search {
    fn effects(&self) -> Effects {
        let reads = vec![Field::Payload, Field::Length];
        let lacks = |reason: DropReason| refused(reason.as_str(), &reads, reason);
        let lacks = [DropReason::NoMatch, DropReason::HeadersSplit].map(lacks);
        let annotation = annotation(self.place, 2);
        let mut sum = reads.clone();
        sum.push(annotation.clone());
        let found = otherwise(vec![
            pure(Field::HeaderOffset(Base::Data), "to the pattern", &reads),
            pure(Field::Length, "from the pattern", &reads),
            pure(annotation, "add bytes removed", &sum),
        ]);
        Effects::cases(lacks.into_iter().chain([found]).collect())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Self { pattern, strip_after, place } = self;
        each_or_aside(cx, batch, |packet| {
            let at = find(packet.data(), pattern).ok_or(DropReason::NoMatch)?;
            let removed = at + if *strip_after { pattern.len() } else { 0 };
            if !packet.strip(removed) {
                return Err(DropReason::HeadersSplit);
            }
            let sum = annotated_length(packet, *place).wrapping_add(removed as u16).to_ne_bytes();
            let annotations = packet.annotations_mut();
            annotations.set_u8(*place, sum[0]);
            annotations.set_u8(*place + 1, sum[1]);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_windows_find(data in prop::collection::vec(0u8..3, 0..60), pattern in prop::collection::vec(0u8..3, 1..5)) {
            let expected = data.windows(pattern.len()).position(|window| window == pattern);
            prop_assert_eq!(find(&data, &pattern), expected);
        }
    }
}
