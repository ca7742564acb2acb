//! # IPsecESPEncap
//! Prepends an ESP header to each packet, and appends padding, pad length and next header (RFC 2406).
//!
//! SPI and sequence number are those of the packet's security association: RadixIPsecLookup has marked the
//! packet with it. Packets without association are dropped. The header ends with an initialization vector of
//! 8 bytes for IPsecAES or IPsecDES. It cannot be predicted without the key: it is the sequence number
//! and a random number, encrypted with AES and the encryption key.
//!
//! The packet is padded to a multiple of 8 bytes, with the bytes 1, 2, 3 and so on. The next header is the
//! protocol in the IPv4 header at the network header annotation, or 0 without this annotation. Click does so,
//! too, even if the whole packet with its IP header becomes the payload (tunnel mode), for which RFC 2406 has
//! the number 4; IPsecESPUnencap does not look at it.
//!
//! Sequence numbers start with the REPLAY of the route (0 means 1), and start again after the largest number.
//! Routes with the same SPI and keys share one sequence; in Click each has its own, so that the other end
//! drops packets as replayed. A reload continues the sequence.
//!
//! ## Usage
//! `IPsecESPEncap([SPI])`
//!
//! ## Arguments
//! - `SPI`: without effect, as in Click; any text is accepted. The SPI is that of the route.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 fa010000 0a000001 0a010001 0800f7ff 00000000>, LIMIT 1)
//!   -> CheckIPHeader(CHECKSUM false) -> rt :: RadixIPsecLookup(10.0.0.0/16 0,
//!     10.1.0.0/16 1 1234 \<000102030405060708090a0b0c0d0e0f> \<101112131415161718191a1b1c1d1e1f> 1 32);
//! rt[0] -> Discard;
//! rt[1] -> IPsecESPEncap -> IPsecEncap(50) -> Discard
//! ```
//!
//! ## See also
//! IPsecESPUnencap, IPsecEncap, IPsecAES, IPsecAuthHMACSHA1, RadixIPsecLookup

use std::sync::Arc;

use aes::cipher::BlockEncrypt;
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, State, StateAccess, Target, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, StatePart, manual};

use super::associations::{Association, Associations};
use super::{HEADER, TRAILER, VECTOR, association_field, reject, spi_field, without_association};
use crate::editing::{bytes, pure};

/// The element class `IPsecESPEncap`.
pub static CLASS: Class = Class {
    name: "IPsecESPEncap",
    manual: manual!("ipsec_esp_encap.rs"),
    args: &[ArgInfo::rest("SPI", "any text")],
    state: &[StatePart::kept("sequence numbers", &[])],
    samples: &["", "SPI 12345678"],
    build: |args| {
        args.each_of("SPI", |_, _| ());
        args.finish()?;
        Ok(Box::new(EspEncap { associations: Associations::of_graph(args), is_told: false }))
    },
    ..Class::DEFAULT
};

/// The number of bytes to a multiple of which packets are padded.
const BLOCK: usize = 8;
/// The offset of the protocol in the IPv4 header.
const PROTOCOL: usize = 9;

struct EspEncap {
    associations: Arc<Associations>,
    /// True if the message about packets without association was written.
    is_told: bool,
}

/// Returns the initialization vector for a packet. It cannot be predicted, as it is an encrypted number that
/// does not repeat (NIST SP 800-38A, appendix C).
fn vector(association: &Association, number: u32, random: u64) -> [u8; VECTOR] {
    let mut block = [0; 16];
    block[..4].copy_from_slice(&number.to_be_bytes());
    block[4..12].copy_from_slice(&random.to_be_bytes());
    association.aes().encrypt_block((&mut block).into());
    let mut vector = [0; VECTOR];
    vector.copy_from_slice(&block[..VECTOR]);
    vector
}

/// Encapsulates a packet. Returns `None` if it was dropped, because there is no room for header or padding.
fn encapsulate(cx: &mut Cx<'_>, packet: Packet, association: &Association) -> Option<Packet> {
    let protocol = packet.header(Base::Network).and_then(|header| header.get(PROTOCOL)).copied().unwrap_or(0);
    let padding = BLOCK - 1 - (packet.len() + TRAILER + BLOCK - 1) % BLOCK;
    let trailer: [u8; BLOCK - 1 + TRAILER] = std::array::from_fn(|index| match index {
        _ if index < padding => index as u8 + 1,
        _ if index == padding => padding as u8,
        _ => protocol,
    });
    let random = cx.random().u64();
    let mut packet = cx.append(packet, &trailer[..padding + TRAILER])?;
    let number = association.next_number();
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&association.terms().spi.to_be_bytes());
    header[4..HEADER - VECTOR].copy_from_slice(&number.to_be_bytes());
    header[HEADER - VECTOR..].copy_from_slice(&vector(association, number, random));
    if !packet.prepend(&header) {
        cx.drop(packet, DropReason::NoHeadroom);
        return None;
    }
    Some(packet)
}

impl Element for EspEncap {
    fn effects(&self) -> Effects {
        let reads = [Field::Length, wire_field::IP_PROTOCOL, association_field(), spi_field()];
        let encapsulated = Case::new(Filter::TRUE, Target::Output(0))
            .with(pure(Field::Payload, "append padding", &reads))
            .with(Action::Resize(vec![Field::Length]))
            .with(Action::Strip(-(HEADER as i32)))
            .with(pure(bytes(Base::Data, 0, HEADER as u16), "ESP header", &[association_field()]));
        let numbers = State {
            table: "sequence numbers",
            key: vec![association_field()],
            both_directions: false,
            access: StateAccess::Shared,
        };
        let effects = Effects::cases(vec![without_association(), encapsulated]);
        Effects { state: vec![numbers], ..effects }
            .depending_on(Depends::Counter)
            .depending_on(Depends::Random)
            .depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let EspEncap { associations, is_told } = self;
        let table = associations.read();
        batch.replace_each(|packet| match table.of(&packet) {
            Some(association) => encapsulate(cx, packet, association),
            None => {
                reject(cx, packet, DropReason::NoAssociation, is_told);
                None
            }
        });
    }
}
