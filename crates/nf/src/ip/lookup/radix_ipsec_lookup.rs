//! # RadixIPsecLookup
//! Sends IP packets by the longest route that their destination annotation matches, into and out of tunnels
//! of IPsec.
//!
//! The first byte of each packet is that of its IP header. Routes are those of RadixIPLookup; a route to a
//! tunnel has an SPI and keys in addition, and makes a security association for both directions:
//!
//! - Output 1 is for packets that go into tunnels. They are marked with the SPI and the association of their
//!   route. IPsecESPEncap and the elements after it need the mark.
//! - Output 0 is for packets to this machine. ESP packets are marked with the association of their SPI, among
//!   the associations of this element; those with another SPI, and fragments, are dropped. Packets of other
//!   protocols leave by output 2, or are dropped without such an output. Click drops most of them there, too,
//!   because it takes bytes of them for an SPI.
//! - Other outputs are for other routes.
//!
//! Both ends of a tunnel need the same SPI and keys. Keys are exactly 16 bytes, such as
//! `\<0183a9471abe01fffa04103bb1020304>`. The handlers `table` and `config` show them, so that everybody who
//! can read handlers can decrypt the packets. If a route is removed, its association stays, as in Click:
//! incoming packets with its SPI are accepted until a reload. A reload continues the sequence numbers of
//! associations whose SPI and keys are the same.
//!
//! ## Usage
//! `RadixIPsecLookup(ROUTE, ...)`
//!
//! ## Arguments
//! - `ROUTE`: `ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPTION_KEY AUTHENTICATION_KEY REPLAY OOSIZE]`. REPLAY is
//!   the first sequence number, OOSIZE the number of latest sequence numbers that may arrive out of order.
//!
//! ## Handlers
//! - `table`: all routes, one per line, with the SPIs and keys of tunnels.
//! - `lookup`: for an address: output and gateway of its route; -1 if there is none.
//! - `add`, `set`: add a route; `add` fails if there is a route for the prefix, `set` replaces it.
//! - `remove`: `ADDR/MASK`, or a whole route.
//! - `ctrl`: lines of `add ROUTE`, `set ROUTE`, `remove ROUTE`; if a line fails, nothing changes.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 fa010000 0a000001 0a010001 0800f7ff 00000000>, LIMIT 1)
//!   -> CheckIPHeader(CHECKSUM false)
//!   -> rt :: RadixIPsecLookup(10.9.0.1 0, 10.0.0.0/16 2,
//!     10.1.0.0/16 10.9.0.2 1 1234 \<000102030405060708090a0b0c0d0e0f>
//!     \<101112131415161718191a1b1c1d1e1f> 1 32);
//! rt[0] -> StripIPHeader -> IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> Discard;
//! rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> Discard;
//! rt[2] -> Discard
//! ```
//!
//! ## See also
//! RadixIPLookup, IPsecESPEncap, IPsecESPUnencap, IPsecAES, IPsecAuthHMACSHA1, IPsecEncap

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::{ArgType, Scope};
use element::class::ArgInfo;
use element::effects::{Case, DST_IP, Field, Filter, Number, Predicate, Target};
use element::{Base, Class, Cx, DropReason, ElementId, Handler, Packet, Severity, StatePart, manual};
use lang::args::unquote_bytes;
use wire::ip_protocol;

use super::gateway::Gateway;
use super::route::{Onward, to_gateway};
use super::{COMPLAINTS, Kind, Listing, RouteLookup, build_for};
use crate::editing::{bytes, constant, ipv4_header_length, pure, within};
use crate::ipsec::associations::{Association, Associations, KEY, Terms};
use crate::ipsec::{ASSOCIATION, SPI, association_field, spi_field};
use crate::sorting::{Fate, Sorter};

/// The element class `RadixIPsecLookup`.
pub static CLASS: Class = Class {
    name: "RadixIPsecLookup",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("radix_ipsec_lookup.rs"),
    args: &[ArgInfo::rest("ROUTE", "route")],
    table: &HANDLERS,
    state: &[
        StatePart::lost("changed routes", "the new configuration lists its own routes", &["table"]),
        StatePart::kept("sequence numbers", &[]),
    ],
    samples: &[
        "0/0 0 -> 1/1",
        "10/8 0, 0/0 10.0.0.1 1 7 \\<000102030405060708090a0b0c0d0e0f> 0123456789abcdef 1 32 -> 1/3",
        "0/1 2, 128/1 1 -> 1/3",
        "",
    ],
    build: |args| {
        let desk = Desk { associations: Associations::of_graph(args), owner: args.id(), complaints: 0 };
        build_for::<Tunnel>(args, &KIND, desk)
    },
    ..Class::DEFAULT
};

static KIND: Kind = Kind {
    listing: Listing::LastFreed,
    complaint: Some(|address| format!("IPsecRouteTable: no route for {address}")),
    changes: true,
};

/// The output for packets to this machine.
const INTO_HOST: usize = 0;
/// The output for packets that go into tunnels.
const INTO_TUNNEL: usize = 1;
/// The output for packets to this machine that are not ESP.
const OTHERS: usize = 2;
/// The length in bytes of an SPI.
const SPI_LENGTH: usize = 4;

/// A gateway at the other end of a tunnel, or one without tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Tunnel {
    address: Ipv4Addr,
    spi: u32,
    /// The number of the security association; 0 without a tunnel.
    association: u32,
}

/// The table of security associations, and the element's use of it.
struct Desk {
    associations: Arc<Associations>,
    /// The element itself.
    owner: ElementId,
    /// The number of messages about packets that cannot be tunnelled.
    complaints: u32,
}

/// Returns the number of the association with which a packet is marked.
fn mark(association: u32) -> [u8; 8] {
    u64::from(association).to_ne_bytes()
}

impl Desk {
    fn complain(&mut self, cx: &mut Cx<'_>, text: std::fmt::Arguments<'_>) {
        if self.complaints < COMPLAINTS {
            self.complaints += 1;
            cx.messages().remark(Severity::Warning, text);
        }
    }

    /// Marks a packet to this machine with its association, and decides where it goes.
    fn take_in(&mut self, cx: &mut Cx<'_>, packet: &mut Packet) -> Fate {
        // The longest IPv4 header and an SPI.
        let mut front = [0; 60 + SPI_LENGTH];
        let length = packet.read_at(0, &mut front);
        let front = &front[..length];
        let Some(ip) = front.first_chunk::<20>() else { return Fate::Drop(DropReason::BadIpHeader) };
        if ip[9] != ip_protocol::ESP {
            return Fate::Output(OTHERS);
        }
        // Fragments are put together before (RFC 4303, section 3.4.1).
        if u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0 {
            return Fate::Drop(DropReason::Unsuitable);
        }
        let header = usize::from(ip[0] & 0x0f) * 4;
        let Some(spi) = front.get(header..).and_then(<[u8]>::first_chunk::<SPI_LENGTH>) else {
            return Fate::Drop(DropReason::TooShort);
        };
        let spi = u32::from_be_bytes(*spi);
        let Some(association) = self.associations.read().incoming(self.owner, spi) else {
            self.complain(cx, format_args!("Invalid SPI {spi}, Dropping packet"));
            return Fate::Drop(DropReason::NoAssociation);
        };
        packet.annotations_mut().set_array(ASSOCIATION, mark(association));
        Fate::Output(INTO_HOST)
    }
}

impl Gateway for Tunnel {
    type Desk = Desk;

    fn direct(
        self,
        desk: &mut Desk,
        cx: &mut Cx<'_>,
        output: usize,
        packets: &mut [Packet],
        sorter: &mut Sorter,
    ) {
        for packet in packets {
            let fate = match output {
                INTO_HOST => desk.take_in(cx, packet),
                INTO_TUNNEL => {
                    if self.association == 0 {
                        let to = Ipv4Addr::from(packet.destination());
                        desk.complain(cx, format_args!("No Ipsec tunnel for {to}. Wrong tunnel setup"));
                    }
                    let annotations = packet.annotations_mut();
                    annotations.set_u32(SPI, self.spi);
                    annotations.set_array(ASSOCIATION, mark(self.association));
                    Fate::Output(output)
                }
                _ => Fate::Output(output),
            };
            sorter.note(fate, 1);
            if !self.address.is_unspecified() {
                packet.set_destination(self.address.octets());
            }
        }
    }
}

impl Onward for Tunnel {
    const FORM: &str = "ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPTION_KEY AUTHENTICATION_KEY REPLAY OOSIZE]', with \
        keys of 16 bytes and an SPI other than 0, as in '10/8 1 7 \\<000102030405060708090a0b0c0d0e0f> \
        \\<101112131415161718191a1b1c1d1e1f> 1 32";

    fn complete(address: Ipv4Addr, words: &[String], place: &Scope<'_>, desk: &Desk) -> Option<Tunnel> {
        let [spi, encryption_key, authentication_key, replay, window] = words else {
            return words.is_empty().then_some(Tunnel { address, spi: 0, association: 0 });
        };
        let key = |word: &String| -> Option<[u8; KEY]> { unquote_bytes(word).try_into().ok() };
        let terms = Terms {
            spi: u32::parse(spi, place).ok().filter(|&spi| spi != 0)?,
            encryption_key: key(encryption_key)?,
            authentication_key: key(authentication_key)?,
            first: u32::parse(replay, place).ok()?.max(1),
            window: u8::parse(window, place).ok()?,
        };
        Some(Tunnel { address, spi: terms.spi, association: desk.associations.number_of(desk.owner, terms) })
    }

    fn added(self, desk: &Desk) {
        if self.association != 0 {
            desk.associations.receive_with(desk.owner, self.spi, self.association);
        }
    }

    fn address(self) -> Ipv4Addr {
        self.address
    }

    fn show_more(self, desk: &Desk) -> String {
        let table = desk.associations.read();
        let Some(terms) = table.get(self.association.into()).map(Association::terms) else {
            return String::new();
        };
        let hex = |key: [u8; KEY]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let keys = [terms.encryption_key, terms.authentication_key].map(hex).join("| |");
        format!("  |TUNNELED CONNECTION| \n|SPI| |ENC KEY| |AUTH KEY| ||\n |{}| |{keys}|\n", self.spi)
    }

    fn cases(self, when: Filter, output: usize) -> Vec<Case> {
        let case = |also: Option<Filter>, to| to_gateway(self.address, Case::new(when.clone().and(also), to));
        match output {
            INTO_HOST => {
                let header = ipv4_header_length(Base::Data, 0).plus_constant(SPI_LENGTH as i64);
                let has_spi = Predicate::at_most(header, Number::of(Field::Length));
                let front = [bytes(Base::Data, 0, 64), Field::Length];
                let unknown = Predicate::Opaque { about: "unknown SPI", reads: front.to_vec() };
                let protocol = Predicate::equals(bytes(Base::Data, 9, 1), ip_protocol::ESP.into());
                let whole = within(bytes(Base::Data, 6, 2), 0x3fff, 0, 0);
                vec![
                    case(
                        Some(Predicate::reaches(Base::Data, 0, 20).not()),
                        Target::Drop(DropReason::BadIpHeader),
                    ),
                    case(Some(protocol.not()), Target::Output(OTHERS)),
                    case(Some(whole.not()), Target::Drop(DropReason::Unsuitable)),
                    case(Some(has_spi.not()), Target::Drop(DropReason::TooShort)),
                    case(Some(unknown.into()), Target::Drop(DropReason::NoAssociation)).shown(),
                    case(None, Target::Output(INTO_HOST)).with(pure(
                        association_field(),
                        "association of the SPI",
                        &front,
                    )),
                ]
            }
            INTO_TUNNEL => {
                let marked = case(None, Target::Output(output))
                    .with(constant(spi_field(), &self.spi.to_ne_bytes()))
                    // The number says nothing about the keys, which are arguments of the element.
                    .with(pure(association_field(), "association of the route", &[DST_IP]));
                vec![if self.association == 0 { marked.shown() } else { marked }]
            }
            _ => vec![case(None, Target::Output(output))],
        }
    }

    fn take_state(desk: &Desk) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(desk.associations.of(desk.owner)))
    }

    fn put_state(desk: &mut Desk, state: Box<dyn Any + Send>) -> Result<(), String> {
        let earlier: Box<Vec<(u32, Arc<Association>)>> =
            state.downcast().map_err(|_| "the state of another class")?;
        desk.associations.go_on_with(desk.owner, &earlier);
        Ok(())
    }
}

const HANDLERS: &[Handler<RouteLookup<Tunnel>>] = <RouteLookup<Tunnel>>::HANDLERS;
