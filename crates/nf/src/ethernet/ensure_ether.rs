//! # EnsureEther
//! Prepends an Ethernet header to IP packets that have none.
//!
//! Packets that already have an Ethernet header ahead of their network header pass unchanged. So do packets
//! without a network header annotation, and packets whose network header was stripped. If the Ethernet header
//! was stripped and its bytes are still in the headroom, it is restored. A header counts as an Ethernet
//! header if its EtherType is IPv4 or IPv6 and it ends at the network header. Other bytes ahead of the
//! network header are removed.
//!
//! ## Usage
//! `EnsureEther([ETHERTYPE, SRC, DST])`
//!
//! ## Arguments
//! - `ETHERTYPE`: the EtherType of a new header.
//! - `SRC`: the source address of a new header.
//! - `DST`: the destination address of a new header.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Strip(14) -> CheckIPHeader -> EnsureEther -> Discard
//! ```
//!
//! ## See also
//! EtherEncap, Strip

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Action, Case, Field, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{FromBytes, IntoBytes, LinkType, MacAddr, ether_type, ethernet};

use crate::editing::{Fate, bytes, each, otherwise, pure, when};

/// The element class `EnsureEther`.
pub static CLASS: Class = Class {
    name: "EnsureEther",
    manual: manual!("ensure_ether.rs"),
    args: &[
        ArgInfo::positional("ETHERTYPE", "0-0xffff", "0x0800"),
        ArgInfo::positional("SRC", "Ethernet address", "1:1:1:1:1:1"),
        ArgInfo::positional("DST", "Ethernet address", "2:2:2:2:2:2"),
    ],
    samples: &["", "0x86dd, 1:2:3:4:5:6, 6:5:4:3:2:1"],
    build: |args| {
        let Type(ether_type) = args.value("ETHERTYPE");
        let source = args.value::<MacAddr>("SRC");
        let destination = args.value::<MacAddr>("DST");
        args.finish()?;
        let header = ethernet::Header { destination, source, ether_type: ether_type.into() };
        let mut bytes = [0; ethernet::Header::LEN];
        bytes.copy_from_slice(header.as_bytes());
        Ok(Box::new(EnsureEther { header: bytes }))
    },
    ..Class::DEFAULT
};

/// The argument ETHERTYPE. It has a type of its own, because Click's error text for a number that is too
/// large differs from the text for other arguments.
#[derive(Default)]
struct Type(u16);

impl ArgType for Type {
    fn parse(text: &str, place: &element::args::Scope<'_>) -> Result<Type, String> {
        let number = u32::parse(text, place)?;
        let large = "argument 1 (Ethernet encapsulation type) must be <= 0xFFFF";
        u16::try_from(number).map(Type).map_err(|_| large.into())
    }

    fn clicks_words(text: &str) -> Option<String> {
        u32::clicks_words(text)
    }
}

struct EnsureEther {
    header: [u8; ethernet::Header::LEN],
}

const LENGTH: usize = ethernet::Header::LEN;

/// True if the bytes can be an Ethernet header of an IP packet: their EtherType is IPv4 or IPv6.
fn is_header(bytes: &[u8]) -> bool {
    ethernet::Header::ref_from_prefix(bytes)
        .is_ok_and(|(header, _)| matches!(header.ether_type.get(), ether_type::IPV4 | ether_type::IPV6))
}

impl EnsureEther {
    fn ensure(&self, packet: &mut Packet) -> Fate {
        let offset = match packet.offset(Base::Network).map(usize::try_from) {
            Some(Ok(offset)) => offset,
            _ => return Ok(()),
        };
        if offset == LENGTH && is_header(packet.data()) {
            return Ok(());
        }
        if offset == 0 && packet.stripped() >= LENGTH && packet.unstrip(LENGTH) {
            if is_header(packet.data()) {
                packet.set_offset(Base::Mac, Some(0));
                return Ok(());
            }
            // The bytes in the headroom are not an Ethernet header, so a new header overwrites them.
            packet.data_mut()[..LENGTH].copy_from_slice(&self.header);
        } else if !packet.strip(offset) {
            return Err(DropReason::HeadersSplit);
        } else if !packet.prepend(&self.header) {
            return Err(DropReason::NoHeadroom);
        }
        packet.set_offset(Base::Mac, Some(0));
        packet.set_link(LinkType::Ethernet.number());
        Ok(())
    }
}

impl Element for EnsureEther {
    fn effects(&self) -> Effects {
        let network = Field::HeaderOffset(Base::Network);
        let before = bytes(Base::Data, 0, LENGTH as u16);
        let reads = [network, Field::Length, before];
        let has: Case = when("Ethernet header, or nothing marked", &reads, Target::Output(0));
        let header = pure(Field::Payload, "Ethernet header", &reads);
        let mac = pure(Field::HeaderOffset(Base::Mac), "before the network header", &[]);
        let mut effects =
            Effects::cases(vec![has, otherwise(vec![Action::Strip(-(LENGTH as i32)), header, mac])]);
        effects.opaque = Some("reads stripped bytes before the packet");
        effects
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| self.ensure(packet));
    }
}
