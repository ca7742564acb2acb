//! # PaintTee
//! Passes all packets to output 0, and sends a copy of the packets whose paint annotation is COLOR to
//! output 1.
//!
//! Routers use PaintTee for redirects: a packet that leaves by the interface at which it arrived could have
//! reached its next hop directly, and ICMPError sends a redirect to its sender.
//!
//! ## Usage
//! `PaintTee(COLOR [, ANNO])`
//!
//! ## Arguments
//! - `COLOR`: the colour, 0 to 255.
//! - `ANNO`: the annotation to compare, by name or offset.
//!
//! ## Handlers
//! - `color`: the colour.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(2) -> t :: PaintTee(2) -> Discard; t[1] -> Discard
//! ```
//!
//! ## See also
//! Paint, CheckPaint, PaintSwitch, IPOutputCombo

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{Depends, Emit, Predicate};
use element::{Batch, Class, Cx, Effects, Element, Handler, Packet, manual};

use crate::basic::tee::emit_copies_of;
use crate::editing::{annotation, value};

/// The element class `PaintTee`.
pub static CLASS: Class = Class {
    name: "PaintTee",
    ports: "1/2",
    processing: "a/ah",
    manual: manual!("paint_tee.rs"),
    args: &[ArgInfo::required("COLOR", "0-255"), ArgInfo::positional("ANNO", "annotation", "PAINT")],
    table: &HANDLERS,
    samples: &["2", "1, 20"],
    build: |args| {
        let colour = args.required("COLOR");
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.finish()?;
        Ok(Box::new(PaintTee { colour, place }))
    },
    ..Class::DEFAULT
};

struct PaintTee {
    colour: u8,
    place: usize,
}

/// Returns the declaration that packets whose paint annotation, at offset `place`, is `colour` are copied
/// to output 1.
pub(crate) fn copies_of(colour: u8, place: usize) -> Emit {
    Emit { when: Predicate::equals(annotation(place, 1), colour.into()), ..Emit::copies(Some(1)) }
}

impl Element for PaintTee {
    fn effects(&self) -> Effects {
        let effects = Effects { emits: vec![copies_of(self.colour, self.place)], ..Effects::pass() };
        effects.depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let is_meant = |packet: &Packet| packet.annotations().u8(self.place) == self.colour;
        emit_copies_of(cx, 1, batch, is_meant);
    }
}

const HANDLERS: &[Handler<PaintTee>] = &[Handler::data(
    "color",
    |e| e.colour.to_string(),
    |e, cx, text| {
        e.colour = value(cx, text, "expected uint8_t")?;
        Ok(())
    },
)];
