//! # AnnotationInfo
//! Gives names to annotations.
//!
//! The names can be used wherever an annotation is expected, in the compound element where they are declared
//! and inside it. Names that are known everywhere, such as `PAINT`, cannot be declared. An argument that
//! starts with `#` is a comment.
//!
//! ## Usage
//! `AnnotationInfo(NAME OFFSET [SIZE], ..., CHECK_OVERLAP NAME ...)`
//!
//! ## Arguments
//! - `NAME`: a name, the offset of the annotation in bytes or another annotation, and its size in bytes, if
//!   it can be used only as an annotation of this size. After `CHECK_OVERLAP`, annotations: it is an error if
//!   two of them overlap.
//!
//! ## Example
//! ```click
//! AnnotationInfo(COLOUR 20 1, OTHER 21 1, CHECK_OVERLAP COLOUR OTHER PAINT);
//! InfiniteSource(LIMIT 1) -> Paint(2, COLOUR) -> CheckPaint(2, COLOUR) -> Discard
//! ```
//!
//! ## See also
//! Paint, SetAnnoByte, AddressInfo, PortInfo

use std::ops::Range;

use element::args::{AnyAnnotation, ArgType, parse_integer};
use element::class::{ArgInfo, ConfigurePhase};
use element::setup::scope_of;
use element::{Args, Class, Cx, Effects, Element, manual};
use packet::Annotations;

/// The element class `AnnotationInfo`.
pub static CLASS: Class = Class {
    name: "AnnotationInfo",
    ports: "0/0",
    manual: manual!("annotation_info.rs"),
    args: &[ArgInfo::rest("NAME", "name offset size")],
    phase: ConfigurePhase::Information,
    samples: &["", "a 20 4, b a, CHECK_OVERLAP a PAINT"],
    build: |args| {
        let scope = scope_of(&args.name()).to_string();
        let mut apart = Vec::new();
        args.each_of_rest(|args, _, text| {
            let mut words = text.split_whitespace().map(String::from);
            let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { return };
            let words: Vec<String> = words.collect();
            if name == "CHECK_OVERLAP" {
                apart.push(words);
            } else if AnyAnnotation::is_known(&name) {
                args.error(format!("bad NAME '{name}'"));
            } else if let Some((offset, size)) = entry(&words, args) {
                args.setup.names.set_annotation(&scope, &name, offset, size);
            } else {
                args.error(format!("bad entry for '{name}'"));
            }
        });
        args.finish()?;
        Ok(Box::new(AnnotationInfo { apart }))
    },
    ..Class::DEFAULT
};

/// Returns the offset and the size of an entry from the words after its name. `None` if they are not valid.
fn entry(words: &[String], args: &Args<'_>) -> Option<(usize, usize)> {
    let (at, size) = match words {
        [at] => (at, 0),
        [at, size] => (at, parse_integer(size).ok().and_then(|size| usize::try_from(size).ok())?),
        _ => return None,
    };
    let at = AnyAnnotation::parse(at, &args.place()).ok()?;
    let is_sound = size == 0 || at.size == 0 || size == at.size;
    let fits = at.offset.checked_add(size).is_some_and(|end| end <= Annotations::SIZE);
    (is_sound && fits).then_some((at.offset, size))
}

struct AnnotationInfo {
    /// The annotations of each CHECK_OVERLAP, which must not overlap.
    apart: Vec<Vec<String>>,
}

impl Element for AnnotationInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut errors = Vec::new();
        for names in &self.apart {
            let mut found: Vec<(&str, Range<usize>)> = Vec::new();
            for name in names {
                match AnyAnnotation::parse(name, &cx.place()) {
                    Ok(AnyAnnotation { offset, size }) => found.push((name, offset..offset + size.max(1))),
                    Err(_) => errors.push(format!("bad ANNO '{name}'")),
                }
            }
            for (number, (name, bytes)) in found.iter().enumerate() {
                let conflicts =
                    |other: &&(&str, Range<usize>)| bytes.start < other.1.end && other.1.start < bytes.end;
                let others = found[number + 1..].iter().filter(conflicts);
                errors
                    .extend(others.map(|(other, _)| format!("annotations '{name}' and '{other}' conflict")));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }
}
