//! # SetAnnoByte
//! Sets one byte of the annotation area, as Paint does.
//!
//! ## Usage
//! `SetAnnoByte(ANNO, VALUE)`
//!
//! ## Arguments
//! - `ANNO`: the annotation, by name or offset.
//! - `VALUE`: 0 to 255.
//!
//! ## Handlers
//! - `anno`: the annotation's offset.
//! - `value`: the value.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetAnnoByte(PAINT, 3) -> Discard
//! ```
//!
//! ## See also
//! Paint

use element::args::{AnnotationOffset, Raw, read_value};
use element::class::ArgInfo;
use element::effects::Depends;
use element::{Batch, Class, Complaint, Cx, Effects, Element, Handler, manual};

use crate::editing::{annotation, constant, otherwise, value};

/// The element class `SetAnnoByte`.
pub static CLASS: Class = Class {
    name: "SetAnnoByte",
    manual: manual!("set_anno_byte.rs"),
    args: &[ArgInfo::required("ANNO", "annotation"), ArgInfo::required("VALUE", "0-255")],
    table: &HANDLERS,
    samples: &["PAINT, 3", "20, 255"],
    reconfigures: true,
    build: |args| {
        let AnnotationOffset::<1>(place) = args.required("ANNO");
        let Raw(text) = args.required("VALUE");
        args.finish()?;
        let parsed: Result<u8, Complaint> = read_value("VALUE", &text, &args.place());
        match &parsed {
            Ok(byte) => args.warn(Complaint::new(
                format!("SetAnnoByte({place}, {byte}) is obsolete, use Paint({byte}, {place}) instead"),
                "SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead",
            )),
            Err(complaint) => args.error(complaint.clone()),
        }
        args.finish()?;
        Ok(Box::new(SetAnnoByte { place, byte: parsed.unwrap_or_default() }))
    },
    ..Class::DEFAULT
};

struct SetAnnoByte {
    place: usize,
    byte: u8,
}

impl Element for SetAnnoByte {
    fn effects(&self) -> Effects {
        let set = constant(annotation(self.place, 1), &[self.byte]);
        Effects::cases(vec![otherwise(vec![set])]).depending_on(Depends::Handler)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.annotations_mut().set_u8(self.place, self.byte));
    }
}

const HANDLERS: &[Handler<SetAnnoByte>] = &[
    Handler::get("anno", |e| e.place.to_string()),
    Handler::data(
        "value",
        |e| e.byte.to_string(),
        |e, cx, text| {
            e.byte = value(cx, text, "expected uint8_t")?;
            Ok(())
        },
    ),
];
