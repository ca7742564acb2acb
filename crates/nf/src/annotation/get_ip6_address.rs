//! # GetIP6Address
//! Copies an IPv6 address from the packet into the destination address annotation.
//!
//! Packets that are too short to contain the address are dropped.
//!
//! ## Usage
//! `GetIP6Address(OFFSET)`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the address from the start of the packet: 24 for the destination of an IPv6
//!   packet.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetIP6Address(24) -> Discard
//! ```
//!
//! ## See also
//! LookupIP6Route, GetIPAddress

use classify::IntervalSet;
use element::class::ArgInfo;
use element::effects::{Action, Case, DST_IP6, Filter, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};
use packet::Annotations;

use crate::editing::{bytes, each, otherwise};

/// The element class `GetIP6Address`.
pub static CLASS: Class = Class {
    name: "GetIP6Address",
    manual: manual!("get_ip6_address.rs"),
    args: &[ArgInfo::required("OFFSET", "unsigned")],
    samples: &["24", "60"],
    build: |args| {
        let offset: u32 = args.required("OFFSET");
        args.finish()?;
        Ok(Box::new(GetIp6Address { offset: offset as usize }))
    },
    ..Class::DEFAULT
};

struct GetIp6Address {
    offset: usize,
}

impl Element for GetIp6Address {
    fn effects(&self) -> Effects {
        let field = bytes(Base::Data, self.offset, 16);
        let there =
            Filter::Leaf(Predicate::In { field: field.clone(), mask: 0, set: IntervalSet::one(0, 0) });
        let lacks = Case::new(there.not(), Target::Drop(DropReason::TooShort));
        Effects::cases(vec![lacks, otherwise(vec![Action::Set(DST_IP6, Value::Copy(field))])])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let offset = self.offset;
        each(cx, batch, |packet| {
            let mut address = [0; 16];
            if packet.read_at(offset, &mut address) < address.len() {
                return Err(DropReason::TooShort);
            }
            packet.annotations_mut().set_array(Annotations::DST_IP, address);
            Ok(())
        });
    }
}
