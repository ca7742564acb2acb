//! # GREEncap
//! Prepends a GRE header (RFC 2784, RFC 2890) to each packet.
//!
//! The outer IP header is not part of it: IPEncap with protocol 47 prepends it.
//!
//! ## Usage
//! `GREEncap(PROTOCOL [, KEYWORDS])`
//!
//! ## Arguments
//! - `PROTOCOL`: the EtherType of the packets, such as 0x0800 for IPv4.
//! - `CHECKSUM`: if true, the header has a checksum over header and packet.
//! - `KEY`: the key in the header; 0 for a header without key.
//! - `SEQUENCE`: if true, the header has a sequence number, which begins at 1.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53) -> GREEncap(0x0800, KEY 7)
//!     -> IPEncap(47, 192.0.2.1, 192.0.2.2) -> Discard
//! ```
//!
//! ## See also
//! CheckGREHeader, StripGREHeader, IPEncap

use element::class::ArgInfo;
use element::effects::{Action, Depends};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, StatePart, manual};

use super::gre;
use crate::editing::{bytes, constant, each, otherwise, pure};

/// The element class `GREEncap`.
pub static CLASS: Class = Class {
    name: "GREEncap",
    manual: manual!("gre_encap.rs"),
    args: &[
        ArgInfo::required("PROTOCOL", "0-65535"),
        ArgInfo::keyword("CHECKSUM", "bool", "false"),
        ArgInfo::keyword("KEY", "unsigned", "0"),
        ArgInfo::keyword("SEQUENCE", "bool", "false"),
    ],
    state: &[StatePart::kept("sequence number", &[])],
    samples: &["0x0800", "0x6558, CHECKSUM true, KEY 9, SEQUENCE true"],
    reconfigures: true,
    build: |args| {
        let protocol: u16 = args.required("PROTOCOL");
        let checksum = args.value::<bool>("CHECKSUM");
        let key = args.value::<u32>("KEY");
        let sequence = args.value::<bool>("SEQUENCE");
        args.finish()?;
        let mut flags = 0;
        for (is_set, flag) in [(checksum, gre::CHECKSUM), (key != 0, gre::KEY), (sequence, gre::SEQUENCE)] {
            flags |= if is_set { flag } else { 0 };
        }
        let mut header = [0; gre::LONGEST];
        header[0] = flags;
        header[2..4].copy_from_slice(&protocol.to_be_bytes());
        if key != 0 {
            let (place, _) = gre::offsets(flags);
            header[place..place + gre::OPTION].copy_from_slice(&key.to_be_bytes());
        }
        Ok(Box::new(GreEncap { header, sent: 0 }))
    },
    ..Class::DEFAULT
};

struct GreEncap {
    /// The header that packets get, except for checksum and sequence number, with zeros after it.
    header: [u8; gre::LONGEST],
    /// The sequence number of the last packet.
    sent: u32,
}

impl Element for GreEncap {
    fn effects(&self) -> Effects {
        let flags = self.header[0];
        let length = gre::length(flags);
        let mut actions = vec![
            Action::Strip(-(length as i32)),
            constant(bytes(Base::Data, 0, length as u16), &self.header[..length]),
        ];
        if flags & gre::CHECKSUM != 0 {
            actions.push(pure(bytes(Base::Data, gre::LEN, 2), "checksum", &gre::reads(0)));
        }
        if flags & gre::SEQUENCE == 0 {
            return Effects::cases(vec![otherwise(actions)]);
        }
        let (_, place) = gre::offsets(flags);
        actions.push(pure(bytes(Base::Data, place, gre::OPTION as u16), "sequence number", &[]));
        Effects::cases(vec![otherwise(actions)]).depending_on(Depends::Counter).sharing("sequence number")
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let flags = self.header[0];
        let length = gre::length(flags);
        let (_, place) = gre::offsets(flags);
        each(cx, batch, |packet| {
            if !packet.unstrip(length) {
                return Err(DropReason::NoHeadroom);
            }
            if flags & gre::SEQUENCE != 0 {
                self.sent = self.sent.wrapping_add(1);
                self.header[place..place + gre::OPTION].copy_from_slice(&self.sent.to_be_bytes());
            }
            packet.write_at(0, &self.header[..length]);
            if flags & gre::CHECKSUM != 0 {
                let checksum = gre::checksum(packet, 0);
                packet.write_at(gre::LEN, &checksum.to_be_bytes());
            }
            Ok(())
        });
    }

    element::keeps!(sent);
}
