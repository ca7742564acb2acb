//! # StoreIP6Address
//! Writes an IPv6 address, or the destination address annotation, into the packet.
//!
//! The network header annotation must be set; offsets count from the network header. An annotation of zero
//! is not written. Checksums are not updated: put SetTransportChecksumIP6 downstream to correct them.
//! Packets that are too short for the address, or whose annotation is zero, leave by output 1, or are
//! dropped.
//!
//! ## Usage
//! `StoreIP6Address(OFFSET)`, `StoreIP6Address(ADDR, OFFSET)`
//!
//! ## Arguments
//! - `ADDR`: the address; if it is left out, the destination address annotation is written.
//! - `OFFSET`: the offset in bytes from the IPv6 header, or `src` or `dst` for the header's fields.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIP6Header(14) -> StoreIP6Address(2001:db8::1, src) -> Discard
//! ```
//!
//! ## See also
//! GetIP6Address, SetIP6Address, StoreIPAddress, SetTransportChecksumIP6

use std::net::Ipv6Addr;

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Action, DST_IP6, Predicate, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};
use packet::Annotations;

use super::store_ip_address::address_and_place;
use crate::editing::{bytes, checked, each_or_aside};

/// The element class `StoreIP6Address`.
pub static CLASS: Class = Class {
    name: "StoreIP6Address",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("store_ip6_address.rs"),
    args: &[
        ArgInfo::positional("ADDR", "IPv6 address", ""),
        ArgInfo::positional("OFFSET", "unsigned, src or dst", ""),
    ],
    samples: &["8", "2001:db8::1, 30 -> 1/2", "2001:db8::9, src", "DST -> 1/2"],
    build: |args| {
        let (address, offset) = address_and_place::<Ipv6Addr>(args)?;
        let offset = match offset.to_ascii_lowercase().as_str() {
            "src" => Ok(8),
            "dst" => Ok(24),
            number => u16::parse(number, &args.place()),
        };
        if offset.is_err() {
            args.error("type mismatch: OFFSET requires integer");
        }
        args.finish()?;
        Ok(Box::new(StoreIp6Address {
            address: address.map(|a| a.octets()),
            offset: offset.unwrap_or_default().into(),
        }))
    },
    ..Class::DEFAULT
};

struct StoreIp6Address {
    /// The address that is written; `None` to write the destination address annotation.
    address: Option<[u8; 16]>,
    /// The offset from the network header, in bytes.
    offset: usize,
}

impl Element for StoreIp6Address {
    fn effects(&self) -> Effects {
        let place = bytes(Base::Network, self.offset, 16);
        let there = Predicate::reaches(Base::Network, self.offset as i32, 16);
        let value = match self.address {
            Some(address) => Value::Constant(address.to_vec()),
            None => Value::Copy(DST_IP6),
        };
        let given = self.address.is_none().then(|| Predicate::equals(DST_IP6, 0).not());
        let given = given.map(|given| (given, DropReason::Unsuitable));
        let sound = given.into_iter().chain([(there, DropReason::TooShort)]).collect();
        checked(sound, vec![Action::Set(place, value)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (given, offset) = (self.address, self.offset);
        each_or_aside(cx, batch, |packet| {
            let address = given.unwrap_or_else(|| packet.annotations().array(Annotations::DST_IP));
            if given.is_none() && address == [0; 16] {
                return Err(DropReason::Unsuitable);
            }
            let header = packet.header_mut(Base::Network).and_then(|header| header.get_mut(offset..));
            *header.and_then(|place| place.first_chunk_mut()).ok_or(DropReason::TooShort)? = address;
            Ok(())
        });
    }
}
