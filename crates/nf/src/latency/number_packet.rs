//! # NumberPacket
//! Writes a consecutive number of 8 bytes into each packet.
//!
//! Packets that are too short are extended with zeros, or dropped if their slot has no room. If the network
//! header annotation of an extended packet is set, the total length of the IPv4 header there becomes the
//! offset plus 8.
//!
//! ## Usage
//! `NumberPacket([OFFSET, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the number in bytes.
//! - `NET_ORDER`: if true, the number is in network byte order; otherwise in the machine's.
//!
//! ## Handlers
//! - `count`: the next number.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, LENGTH 60) -> NumberPacket -> CheckNumberPacket(COUNT 3) -> Discard
//! ```
//!
//! ## See also
//! CheckNumberPacket, RecordTimestamp, TimestampDiff

use std::sync::Arc;

use element::class::{ArgInfo, ConfigurePhase};
use element::effects::{
    Action, Case, Depends, Field, Filter, HeaderKind, Predicate, Target, Value, wire_field,
};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, manual};
use packet::SLOT_CAPACITY;

use super::{ByteOrder, SIZE, number_field};

/// The element class `NumberPacket`.
pub static CLASS: Class = Class {
    name: "NumberPacket",
    manual: manual!("number_packet.rs"),
    args: &[ArgInfo::positional("OFFSET", "int", "40"), ArgInfo::keyword("NET_ORDER", "bool", "false")],
    table: &HANDLERS,
    state: &[StatePart::kept("numbers", &["count"])],
    samples: &["", "10, NET_ORDER true"],
    // RecordTimestamp, which publishes a service itself, asks for the byte order.
    phase: ConfigurePhase::Information,
    build: |args| {
        let offset = args.value::<i32>("OFFSET");
        let net_order = args.value::<bool>("NET_ORDER");
        if offset < 0 {
            args.error("Offset must be >= 0");
        } else if offset as usize + SIZE > SLOT_CAPACITY {
            args.too_large("OFFSET", SLOT_CAPACITY - SIZE);
        }
        args.finish()?;
        args.setup.publish(args.id(), Arc::new(ByteOrder { is_network: net_order }));
        Ok(Box::new(NumberPacket { offset: offset as usize, net_order, count: 0 }))
    },
    ..Class::DEFAULT
};

struct NumberPacket {
    offset: usize,
    net_order: bool,
    count: u64,
}

/// Extends a packet with zeros to a length in bytes. If the network header annotation is set, also sets
/// bytes 2 and 3 of this header, the total length of IPv4, to the length.
///
/// # Errors
/// [`DropReason::TooLong`] if the packet's slot has no room.
#[cold]
fn lengthen(packet: &mut Packet, length: usize) -> Result<(), DropReason> {
    let before = packet.len();
    if !packet.extend(length - before) {
        return Err(DropReason::TooLong);
    }
    packet.data_mut()[before..].fill(0);
    if let Some(header) = packet.header_mut(Base::Network)
        && let Some(total) = header.get_mut(2..4)
    {
        total.copy_from_slice(&(length as u16).to_be_bytes());
    }
    Ok(())
}

impl NumberPacket {
    fn number(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        let end = self.offset + SIZE;
        if packet.len() < end {
            lengthen(packet, end)?;
        }
        let place = packet.data_mut().get_mut(self.offset..end).ok_or(DropReason::HeadersSplit)?;
        let number = self.count;
        self.count += 1;
        place.copy_from_slice(&if self.net_order { number.to_be_bytes() } else { number.to_ne_bytes() });
        Ok(())
    }
}

impl Element for NumberPacket {
    fn effects(&self) -> Effects {
        let number =
            Action::Set(number_field(self.offset), Value::Pure { name: "number", reads: Vec::new() });
        let length = Value::Pure { name: "length", reads: vec![Field::Length] };
        let ip = Action::Set(wire_field::IP_LENGTH, length);
        let ends_before = Filter::Leaf(Predicate::Opaque { about: "too short", reads: vec![Field::Length] });
        let header = Field::HeaderOffset(HeaderKind::Ipv4.base());
        // A packet that is too short gets zeros between its end and the number.
        let longer = Case::new(ends_before, Target::Output(0))
            .with(Action::Resize(vec![Field::Length, header]))
            .with(ip)
            .with(number.clone());
        let effects = Effects::cases(vec![longer, Case::new(Filter::TRUE, Target::Output(0)).with(number)]);
        effects.depending_on(Depends::Counter).sharing("numbers")
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.sift(|packet| self.number(packet), |packet, reason| cx.drop(packet, reason));
    }

    element::keeps!(count);
}

const HANDLERS: &[Handler<NumberPacket>] = &[Handler::count("count", |e| e.count)];
