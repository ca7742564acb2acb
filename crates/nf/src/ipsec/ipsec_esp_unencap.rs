//! # IPsecESPUnencap
//! Removes ESP header and padding (RFC 2406), and drops replayed packets.
//!
//! The packet begins with its ESP header, and RadixIPsecLookup has marked it with its security association.
//! Packets without association, packets that are too short, and packets whose padding is not the bytes 1, 2,
//! 3 and so on are dropped. The next header is not used.
//!
//! A packet is dropped as replayed if its sequence number has come before, is 0, or lies before the window:
//! the OOSIZE latest numbers (1 to 32; a larger OOSIZE counts as 32, and 0 as 1). The window moves only for
//! packets that are otherwise right. So put the element after the one that verifies the digest. After nearly
//! all numbers have been used, the first number is accepted again. In Click it always is, so that a single
//! replayed packet opens the window for all others.
//!
//! ## Usage
//! `IPsecESPUnencap`
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 fa010000 0a000001 0a010001 0800f7ff 00000000>, LIMIT 1)
//!   -> CheckIPHeader(CHECKSUM false) -> rt :: RadixIPsecLookup(10.0.0.0/16 0,
//!     10.1.0.0/16 1 1234 \<000102030405060708090a0b0c0d0e0f> \<101112131415161718191a1b1c1d1e1f> 1 32);
//! rt[0] -> Discard;
//! rt[1] -> IPsecESPEncap -> IPsecESPUnencap -> CheckIPHeader(CHECKSUM false) -> Discard
//! ```
//!
//! ## See also
//! IPsecESPEncap, IPsecAES, IPsecAuthHMACSHA1, RadixIPsecLookup

use std::sync::Arc;

use element::effects::{Action, Depends, Field, State, StateAccess, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, Severity, StatePart, manual};

use super::associations::{Associations, Reader};
use super::replay_window::Refusal;
use super::{HEADER, TRAILER, association_field, reject, without_association};
use crate::editing::{bytes, otherwise, when};

/// The element class `IPsecESPUnencap`.
pub static CLASS: Class = Class {
    name: "IPsecESPUnencap",
    manual: manual!("ipsec_esp_unencap.rs"),
    state: &[StatePart::kept("replay window", &[])],
    samples: &[""],
    build: |args| {
        args.finish()?;
        Ok(Box::new(EspUnencap { associations: Associations::of_graph(args), is_told: false, complaints: 0 }))
    },
    ..Class::DEFAULT
};

/// The offset of the sequence number in the ESP header.
const NUMBER: usize = 4;
/// The largest number of messages about bad packets that one element writes, so that packets cannot fill
/// a log.
const COMPLAINTS: u32 = 5;

struct EspUnencap {
    associations: Arc<Associations>,
    /// True if the message about packets without association was written.
    is_told: bool,
    /// The number of messages about bad packets.
    complaints: u32,
}

/// The reason for which a packet is dropped, and the message about it if it gets one.
struct Fault(DropReason, &'static str);

/// Returns the number of padding bytes at the end of an ESP packet.
fn padding(packet: &Packet) -> Result<usize, Fault> {
    let short = Fault(DropReason::TooShort, "");
    let Some(body) = packet.len().checked_sub(HEADER + TRAILER) else { return Err(short) };
    let mut pads = [0; u8::MAX as usize + 1];
    let Some((length, pads)) = pads.split_last_mut() else { return Err(short) };
    packet.read_at(HEADER + body, std::slice::from_mut(length));
    let pads = &mut pads[..usize::from(*length)];
    let Some(start) = body.checked_sub(pads.len()) else {
        return Err(Fault(DropReason::BadPadding, "Invalid padding length"));
    };
    packet.read_at(HEADER + start, pads);
    match pads.iter().zip(1..=u8::MAX).all(|(&pad, expected)| pad == expected) {
        true => Ok(pads.len()),
        false => Err(Fault(DropReason::BadPadding, "Corrupt padding")),
    }
}

/// Removes ESP header and padding from a packet.
fn unwrap(table: &Reader<'_>, packet: &mut Packet) -> Result<(), Fault> {
    let association = table.of(packet).ok_or(Fault(DropReason::NoAssociation, ""))?;
    let padding = padding(packet)?;
    let mut number = [0; 4];
    packet.read_at(NUMBER, &mut number);
    if packet.data().len() < HEADER {
        return Err(Fault(DropReason::HeadersSplit, ""));
    }
    association.receive(u32::from_be_bytes(number)).map_err(|refusal| {
        let message = match refusal {
            Refusal::Zero => "",
            Refusal::Old => "Replay protection: This packet is too old to be accepted",
            Refusal::Seen => "Replay protection: This packet is already seen...",
        };
        Fault(DropReason::Replayed, message)
    })?;
    packet.truncate(packet.len() - padding - TRAILER);
    // The first slot has the header, as checked above.
    if packet.strip(HEADER) { Ok(()) } else { Err(Fault(DropReason::HeadersSplit, "")) }
}

impl Element for EspUnencap {
    fn effects(&self) -> Effects {
        let length = [Field::Length];
        let pads = [Field::Payload, Field::Length];
        let number = [bytes(Base::Data, NUMBER, 4), association_field()];
        let cases = vec![
            without_association(),
            when("too short for ESP", &length, Target::Drop(DropReason::TooShort)),
            when("bad padding", &pads, Target::Drop(DropReason::BadPadding)).shown(),
            when("replayed", &number, Target::Drop(DropReason::Replayed)).shown(),
            otherwise(vec![Action::Resize(pads.to_vec()), Action::Strip(HEADER as i32)]),
        ];
        let numbers = State {
            table: "replay window",
            key: vec![association_field()],
            both_directions: false,
            access: StateAccess::Shared,
        };
        let effects = Effects { state: vec![numbers], ..Effects::cases(cases) };
        effects.depending_on(Depends::Counter).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let EspUnencap { associations, is_told, complaints } = self;
        let table = associations.read();
        batch.sift(
            |packet| unwrap(&table, packet),
            |packet, Fault(reason, message)| {
                if !message.is_empty() && *complaints < COMPLAINTS {
                    *complaints += 1;
                    cx.messages().remark(Severity::Warning, format_args!("{message}"));
                }
                reject(cx, packet, reason, is_told);
            },
        );
    }
}
