//! Finds the flow of a packet as the arguments say: by its own header ([`crate::key`]), by the header inside
//! of a tunnel (TUNNELS), or by the connection id of QUIC (QUIC_ID).
//!
//! The key of a flow in a tunnel has the addresses and VLANs of the outer packet, the kind of the tunnel with
//! its VNI, TEID or GRE key, and what identifies the inner flow, VLANs included. So equal addresses of two
//! tenants are two flows. The ports of the outer UDP header are not part of the key. In a key with IPv6
//! addresses, two hashes of 64 bits stand for the outer and for the inner addresses; if two flows had the
//! same hashes, they would be held as one flow, in order.
//!
//! All packets of one inner flow have one key, or else leave in order for another reason:
//! - A fragment inside of a tunnel, or a packet whose inner ports cannot be read, has the pair key of the
//!   inner addresses in this tunnel. While such a packet is held, all packets of the tunnel between these
//!   inner addresses wait with it ([`Finder::pairs`]).
//! - A fragment of the outer packet, or a packet whose tunnel header cannot be read, has the pair key of the
//!   outer addresses: all packets between these wait with it, in tunnels or not. If an inner pair and then
//!   the outer pair hold packets, new packets join the outer pair, whose list began later, so that it also
//!   leaves later: both wait for the same time, and of two such lists the older leaves first.
//! - A packet with a sequence number of GRE or GTP-U must neither overtake packets of its tunnel nor be
//!   overtaken, because receivers put packets in order, or drop late ones, and because a sender may number
//!   some packets of an inner flow only. So it has the pair key of its tunnel: all packets of the tunnel wait
//!   with it. This is simpler than one flow for the tunnel from the first such packet on, for which the
//!   element would have to remember tunnels; the price is that MAX_BURST does not end its bursts.
//!
//! The pair keys of a packet are those of the outer addresses, of the tunnel, and of the inner addresses. If
//! several of their lists hold packets, each began later than those of the keys after it, because a packet
//! joins the first list that it finds. So the argument above holds for all three.
//!
//! In GTP-U, content that is no plausible IP packet, such as Ethernet, is one flow per tunnel. What is not
//! plausible in an inner flow, such as a packet with a wrong checksum, may change places with the flow.
//!
//! The key of a flow of QUIC has the five-tuple and the destination connection id. A connection may show
//! several ids, one after the other: a random one in the first long headers, then ids that the server chose.
//! Its order across ids holds because long headers, and the first packet with an id, have or use the pair key
//! of the five-tuple: while such a packet is held, all packets of the five-tuple wait with it, and those that
//! came before it have left when it leaves. Only packets of ids that are both in use already may overtake
//! each other.

use element::{Base, Packet};
use flow::{Key, KeyHasher};
use wire::layers::FLOW_HEADERS;
use wire::{Layers, LinkType};
use zerocopy::FromZeros;

use crate::key::{self, Addresses, FlowKey, FlowKind, Identity, Located, ShortKey};
use crate::quic::{self, Quic};
use crate::tunnel::{self, Inside, Tunnel};

/// Finds flows, and hashes their keys.
#[derive(Clone, Debug)]
pub struct Finder {
    /// The hasher of flow keys.
    pub hasher: KeyHasher,
    tunnels: bool,
    /// The length in bytes of connection ids of QUIC; 0 if flows of QUIC are not told apart by connection
    /// ids.
    quic_id: usize,
    /// The values of [`ShortKey::destination`] of packets whose headers after UDP must be read to find the
    /// flow. Each value is at the index that its lowest bits give; unused indices have [`NOTHING`].
    watched: [u32; PLACES],
}

const PLACES: usize = 8;
/// A value that [`ShortKey::destination`] never returns, because no flow has the kind 0.
const NOTHING: u32 = 0;

impl Finder {
    /// Makes a finder that looks into tunnels if `tunnels` is true, and for connection ids of QUIC of
    /// `quic_id` bytes if this is not 0.
    pub fn new(hasher: KeyHasher, tunnels: bool, quic_id: usize) -> Finder {
        let mut watched = [NOTHING; PLACES];
        let ports = [
            (tunnel::VXLAN, tunnels),
            (tunnel::GENEVE, tunnels),
            (tunnel::GTP, tunnels),
            (quic::PORT, quic_id > 0),
        ];
        for (port, _) in ports.into_iter().filter(|(_, is_watched)| *is_watched) {
            let value = u32::from(port.swap_bytes()) | (FlowKind::Udp as u32) << 20 | 4 << 16;
            watched[value as usize % PLACES] = value;
        }
        Finder { hasher, tunnels, quic_id, watched }
    }

    /// True if [`watches`](Self::watches) must be asked about each packet.
    #[inline(always)]
    pub(crate) fn is_watching(&self) -> bool {
        self.tunnels || self.quic_id > 0
    }

    /// True if a packet of this key, as [`key::usual`] returns it, may be in a tunnel or of
    /// QUIC.
    #[inline(always)]
    pub(crate) fn watches(&self, key: ShortKey) -> bool {
        let value = key.destination();
        self.watched[value as usize % PLACES] == value
    }

    /// Returns the flow of a packet; `None` if the packet belongs to no flow that can be identified.
    #[inline]
    pub fn locate(&self, packet: &Packet) -> Option<Located> {
        match self.is_watching() {
            true => self.locate_inner(packet).or_else(|| key::locate(packet)),
            false => key::locate(packet),
        }
    }

    /// Returns the pair keys of a packet. While the list of a pair key holds packets, which are packets whose
    /// flow is unknown and those that wait with them, the packet must wait in the same list. The first pair
    /// key is that of the outer addresses, the second that of the tunnel, and the third that of the inner
    /// addresses of a packet in a tunnel, or of the five-tuple of a QUIC packet.
    pub fn pairs(&self, packet: &Packet) -> [Option<FlowKey>; 3] {
        let [tunnel, inner] =
            if self.is_watching() { self.inner_pairs(packet).unwrap_or_default() } else { [None; 2] };
        [key::pair(packet), tunnel, inner]
    }

    /// Finds what a packet carries in a tunnel, if TUNNELS is set; otherwise the result is
    /// [`Inside::Nothing`].
    fn inside<'p>(&self, ip: &'p [u8], layers: &Layers, packet: &Packet) -> Inside<'p> {
        if self.tunnels { tunnel::inside(ip, layers, is_cut(packet, layers)) } else { Inside::Nothing }
    }

    /// Finds the QUIC connection id of a packet, if QUIC_ID is set; otherwise the result is
    /// [`Quic::Nothing`].
    fn quic(&self, ip: &[u8], layers: &Layers) -> Quic {
        if self.quic_id > 0 { quic::id(ip, layers, self.quic_id) } else { Quic::Nothing }
    }

    /// Returns the flow of a packet by the headers inside its tunnel, or by the connection id of QUIC. `None`
    /// if the outer headers alone identify the flow.
    #[inline(never)]
    fn locate_inner(&self, packet: &Packet) -> Option<Located> {
        let frame = key::frame(packet)?;
        let outer = Outer { addresses: key::addresses(frame.ip)?, vlans: frame.vlans };
        let layers = Layers::locate(frame.ip, LinkType::RawIp);
        match self.inside(frame.ip, &layers, packet) {
            Inside::Packet { tunnel, ip, vlans } => {
                let inner = Inner::of(ip, vlans, is_cut(packet, &layers))?;
                let Identity { kind, flags, .. } = inner.identity;
                let key = self.key(outer, tunnel, inner);
                Some(Located { key, kind, flags })
            }
            Inside::Whole(tunnel) => {
                let key = self.key(outer, tunnel, Inner::NONE);
                Some(Located { key, kind: FlowKind::Tunnel, flags: 0 })
            }
            Inside::Numbered(tunnel) => {
                let key = self.key(outer, tunnel, Inner::ALL);
                Some(Located { key, kind: FlowKind::Pair, flags: 0 })
            }
            Inside::Unknown => {
                let key = outer.pair(0);
                Some(Located { key, kind: FlowKind::Pair, flags: 0 })
            }
            Inside::Nothing => {
                let (key, kind) = match self.quic(frame.ip, &layers) {
                    Quic::Id(id) => (self.quic_key(outer, ports(frame.ip, &layers)?, id), FlowKind::Quic),
                    Quic::Other => (outer.pair(ports(frame.ip, &layers)?), FlowKind::Pair),
                    Quic::Nothing => return None,
                };
                Some(Located { key, kind, flags: 0 })
            }
        }
    }

    /// Returns the pair keys of a packet after the first ([`pairs`](Self::pairs)).
    #[inline(never)]
    fn inner_pairs(&self, packet: &Packet) -> Option<[Option<FlowKey>; 2]> {
        let frame = key::frame(packet)?;
        let outer = Outer { addresses: key::addresses(frame.ip)?, vlans: frame.vlans };
        let layers = Layers::locate(frame.ip, LinkType::RawIp);
        match self.inside(frame.ip, &layers, packet) {
            Inside::Packet { tunnel, ip, vlans } => {
                let inner = Inner::of(ip, vlans, is_cut(packet, &layers))?;
                let inner = Inner { identity: PAIR, protocol: 0, ..inner };
                Some([self.key(outer, tunnel, Inner::ALL), self.key(outer, tunnel, inner)].map(Some))
            }
            Inside::Whole(tunnel) | Inside::Numbered(tunnel) => {
                Some([Some(self.key(outer, tunnel, Inner::ALL)), None])
            }
            Inside::Nothing if self.quic(frame.ip, &layers) != Quic::Nothing => {
                Some([None, Some(outer.pair(ports(frame.ip, &layers)?))])
            }
            _ => None,
        }
    }

    fn quic_key(&self, outer: Outer, ports: u32, [a, b, c]: [u64; 3]) -> FlowKey {
        let (exact, addresses) = match outer.addresses {
            Addresses::V4(both) => (true, both),
            all => (false, self.digest(all)),
        };
        FlowKey::inside((ports, FlowKind::Quic, outer.vlans), exact, [addresses, a, b, c])
    }

    /// Returns the key of a flow in a tunnel.
    fn key(&self, outer: Outer, tunnel: Tunnel, inner: Inner) -> FlowKey {
        let Inner { identity, addresses, vlans, protocol } = inner;
        // Bits 0 to 34 are the number of the tunnel, bits 35 to 58 the two VLAN identifiers of the inner
        // packet.
        let word = tunnel.number() | u64::from(vlans) << 35;
        let start = (identity.number, identity.kind, outer.vlans);
        match (outer.addresses, addresses) {
            (Addresses::V4(a), Addresses::V4(b)) => {
                FlowKey::inside(start, true, [b, a, word, protocol.into()])
            }
            (a, b) => FlowKey::inside(start, false, [self.digest(b), self.digest(a), word, protocol.into()]),
        }
    }

    /// Returns a hash of addresses in 64 bits.
    fn digest(&self, addresses: Addresses) -> u64 {
        let [a, b, c, d] = match addresses {
            Addresses::V4(both) => [both, 0, 0, 0],
            Addresses::V6(words) => words,
        };
        let is_ipv4 = matches!(addresses, Addresses::V4(_));
        let half =
            |half: u64| u64::from(self.hasher.hash(&Part([a, b, c, d, half << 1 | u64::from(is_ipv4)])));
        half(1) << 32 | half(0)
    }
}

/// The input of one hash in [`Finder::digest`]: the addresses, and a word that says which half of the result
/// the hash gives and whether the addresses are IPv4.
#[derive(Clone, Copy, FromZeros)]
struct Part([u64; 5]);

impl Key for Part {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

/// True if the headers of a packet may go on after the bytes in which they are searched: the packet has more
/// than [`FLOW_HEADERS`] bytes, or more than one slot, or it was truncated. `layers` are its outer headers.
fn is_cut(packet: &Packet, layers: &Layers) -> bool {
    let bytes = packet.header(Base::Network).unwrap_or(packet.data());
    layers.missing > 0 || bytes.len() > FLOW_HEADERS.into() || packet.len() > packet.data().len()
}

/// The addresses and VLANs of the outer packet, for packets in tunnels and QUIC packets.
#[derive(Clone, Copy)]
struct Outer {
    addresses: Addresses,
    vlans: u32,
}

impl Outer {
    /// Returns the pair key of all packets with these addresses or, if `ports` is not 0, with this
    /// five-tuple.
    fn pair(self, ports: u32) -> FlowKey {
        FlowKey::new(self.addresses, ports, FlowKind::Pair, self.vlans)
    }
}

/// Returns both ports of a UDP datagram as one number; `None` if the datagram ends before them.
fn ports(ip: &[u8], layers: &Layers) -> Option<u32> {
    Some(u32::from_le_bytes(*ip.get(layers.l4?..)?.first_chunk()?))
}

/// The packet in a tunnel.
#[derive(Clone, Copy)]
struct Inner {
    identity: Identity,
    addresses: Addresses,
    vlans: u32,
    protocol: u8,
}

const PAIR: Identity = Identity { number: 0, kind: FlowKind::Pair, flags: 0 };
/// The identity of an inner packet that is told apart by addresses and protocol only, because it has no
/// ports.
const PLAIN: Identity = Identity { number: 0, kind: FlowKind::Tunnel, flags: 0 };

impl Inner {
    /// The values that stand for the inner packet in the key of a flow that consists of all packets of a
    /// tunnel.
    const NONE: Inner = Inner { identity: PLAIN, addresses: Addresses::V4(0), vlans: 0, protocol: 0 };
    /// The values that stand for the inner packet in the pair key of a tunnel.
    const ALL: Inner = Inner { identity: PAIR, ..Inner::NONE };

    /// Finds the flow of a packet in a tunnel. Packets without a flow of their own are told apart by
    /// addresses and protocol.
    fn of(ip: &[u8], vlans: u32, is_cut: bool) -> Option<Inner> {
        // The number of bytes of the transport header that are needed at most: a TCP header up to its flags.
        const LONGEST: usize = 14;
        let addresses = key::addresses(ip)?;
        let layers = Layers::locate(ip, LinkType::RawIp);
        let is_short = layers.l4.is_none_or(|l4| ip.len() < l4 + LONGEST);
        let found = key::identify(ip, &layers, addresses);
        let (identity, protocol) = match found {
            Some(Identity { kind: FlowKind::Pair, .. }) => (PAIR, 0),
            None if is_cut && is_short => (PAIR, 0),
            None => (PLAIN, layers.protocol.unwrap_or_default()),
            Some(Identity { kind, .. }) => {
                let is_counted = matches!(kind, FlowKind::Tcp | FlowKind::Udp);
                let kind = if is_counted { FlowKind::Inner } else { FlowKind::Tunnel };
                (Identity { kind, ..found? }, layers.protocol?)
            }
        };
        Some(Inner { identity, addresses, vlans, protocol })
    }
}
