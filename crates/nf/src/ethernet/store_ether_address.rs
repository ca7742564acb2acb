//! # StoreEtherAddress
//! Writes an Ethernet address into the packet.
//!
//! Packets that are too short go to output 1, or are dropped.
//!
//! ## Usage
//! `StoreEtherAddress(ADDR, OFFSET)`, `StoreEtherAddress(OFFSET o, ANNO a)`
//!
//! ## Arguments
//! - `ADDR`: the address.
//! - `OFFSET`: the offset of the address from the start of the packet, or `src` (6) or `dst` (0) for an
//!   Ethernet header there.
//! - `ANNO`: the offset of the annotation that holds the address, instead of `ADDR`.
//!
//! ## Handlers
//! - `addr`: the address; zeros with ANNO, where writing has no effect.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> StoreEtherAddress(1:2:3:4:5:6, src) -> Discard
//! ```
//!
//! ## See also
//! EtherRewrite, StoreIPAddress

use element::args::{AnnotationOffset, ArgType, Raw};
use element::class::ArgInfo;
use element::effects::{Action, Depends, Predicate, Value};
use element::{Args, Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, manual};
use wire::MacAddr;

use crate::editing::{annotation, bytes, each_or_aside, or_aside, value};

/// The element class `StoreEtherAddress`.
pub static CLASS: Class = Class {
    name: "StoreEtherAddress",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("store_ether_address.rs"),
    args: &[
        ArgInfo::positional("ADDR", "Ethernet address", ""),
        ArgInfo::required("OFFSET", "unsigned, src or dst"),
        ArgInfo::keyword("ANNO", "annotation", ""),
    ],
    table: &HANDLERS,
    samples: &["1:2:3:4:5:6, src", "1:2:3:4:5:6, 30 -> 1/2", "OFFSET dst, ANNO 20"],
    build: |args| {
        let address: Option<MacAddr> = args.get("ADDR");
        let annotation: Option<AnnotationOffset<6>> = args.get("ANNO");
        let offset = read_offset(args)?;
        let from = match (address, annotation) {
            (Some(address), None) => From::Constant(address),
            (None, Some(AnnotationOffset(place))) => From::Annotation(place),
            _ => {
                args.error("must specify exactly one of ADDR/ANNO");
                From::Constant(MacAddr::default())
            }
        };
        args.finish()?;
        Ok(Box::new(StoreEtherAddress { from, offset }))
    },
    ..Class::DEFAULT
};

/// Reads the argument OFFSET: the offset of an Ethernet address from the start of the packet, or `src` or
/// `dst`. A wrong number is reported, and 0 returned.
///
/// # Errors
/// If this argument is missing, or an earlier argument is wrong.
pub(super) fn read_offset(args: &mut Args<'_>) -> Result<usize, Invalid> {
    let Raw(offset) = args.required("OFFSET");
    args.finish()?;
    let offset = match offset.as_str() {
        "src" => Ok(6),
        "dst" => Ok(0),
        number => u32::parse(number, &args.place()),
    };
    if offset.is_err() {
        args.error("type mismatch: bad OFFSET");
    }
    Ok(offset.unwrap_or_default() as usize)
}

#[derive(Clone, Copy)]
enum From {
    Constant(MacAddr),
    Annotation(usize),
}

impl From {
    fn address(self, packet: &Packet) -> [u8; 6] {
        match self {
            From::Constant(address) => address.0,
            From::Annotation(place) => {
                let bytes = packet.annotations().bytes().get(place..place + 6);
                bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
            }
        }
    }
}

struct StoreEtherAddress {
    from: From,
    offset: usize,
}

impl Element for StoreEtherAddress {
    fn effects(&self) -> Effects {
        let value = match self.from {
            From::Constant(address) => Value::Constant(address.0.to_vec()),
            From::Annotation(place) => Value::Copy(annotation(place, 6)),
        };
        let room = Predicate::reaches(Base::Data, i32::try_from(self.offset).unwrap_or(i32::MAX), 6);
        let store = Action::Set(bytes(Base::Data, self.offset, 6), value);
        or_aside(room, DropReason::TooShort, vec![store]).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (from, offset) = (self.from, self.offset);
        each_or_aside(cx, batch, |packet| {
            let address = from.address(packet);
            let room = packet.data_mut().get_mut(offset..).and_then(|data| data.first_chunk_mut());
            *room.ok_or(DropReason::TooShort)? = address;
            Ok(())
        });
    }
}

const HANDLERS: &[Handler<StoreEtherAddress>] = &[Handler::<StoreEtherAddress>::read("addr", |e, _, _| {
    let From::Constant(address) = e.from else { return Ok(format!("{:#}", MacAddr::default())) };
    Ok(format!("{address:#}"))
})
.and_set(|e, cx, text| {
    let address = value(cx, text, "expected Ethernet address")?;
    // If the address comes from an annotation, a written address has no effect.
    if let From::Constant(own) = &mut e.from {
        *own = address;
    };
    Ok(())
})];
