//! The rewriting of plain packets: whole TCP and UDP packets with an IPv4 header of 20 bytes.
//!
//! Addresses, ports and checksum changes are the same for all packets of a run, so they are prepared once for
//! the run. Most packets do not change the state of their mapping; they are rewritten in a loop of their own,
//! without access to the mapping.

use element::{Base, Packet};
use wire::checksum::FoldedDelta;
use wire::{ip_protocol, tcp};

use super::change::Packed;
use super::flavour::{Flavour, PLAIN, PLAIN_TCP};
use super::state::{Kind, State, Told};

/// The TCP flags with which a segment can change the state of its direction of a mapping even if this state
/// is final, so that other segments do not change it.
const WATCHED: u8 = tcp::flags::SYN | tcp::flags::FIN | tcp::flags::RST;

/// The addresses and ports that are written into the plain packets (whole TCP or UDP packets without IPv4
/// options) of one direction of a mapping, and the changes of the IP checksum and of the transport checksum.
pub(super) struct Rewriting {
    /// The new source and destination address.
    addresses: [[u8; 4]; 2],
    /// The new source and destination port.
    ports: [u8; 4],
    of_addresses: FoldedDelta,
    of_transport: FoldedDelta,
}

impl Rewriting {
    /// Returns the bytes to write and the checksum changes of a packed change.
    #[inline(always)]
    pub(super) fn of(change: &Packed) -> Rewriting {
        Rewriting {
            addresses: change.addresses(),
            ports: change.ports(),
            of_addresses: change.of_addresses(),
            of_transport: change.of_transport(),
        }
    }

    /// Writes the new addresses, ports and IP checksum into a plain packet, but not its transport checksum.
    #[inline(always)]
    fn readdress<const N: usize>(&self, bytes: &mut [u8; N]) {
        [bytes[10], bytes[11]] = self.of_addresses.apply([bytes[10], bytes[11]]);
        bytes[12..20].copy_from_slice(self.addresses.as_flattened());
        bytes[20..24].copy_from_slice(&self.ports);
    }

    #[inline(always)]
    fn write_udp(&self, bytes: &mut [u8; PLAIN]) {
        self.readdress(bytes);
        [bytes[26], bytes[27]] = self.of_transport.apply_udp([bytes[26], bytes[27]]);
    }

    #[inline(always)]
    fn write_tcp(&self, bytes: &mut [u8; PLAIN_TCP]) {
        self.readdress(bytes);
        [bytes[36], bytes[37]] = self.of_transport.apply([bytes[36], bytes[37]]);
    }
}

/// True if a plain TCP packet has payload.
#[inline]
fn has_payload(bytes: &[u8; PLAIN_TCP]) -> bool {
    let headers = usize::from(bytes[0] & 15) * 4 + usize::from(bytes[32] >> 4) * 4;
    headers < usize::from(u16::from_be_bytes([bytes[2], bytes[3]]))
}

impl Flavour {
    /// Writes the new addresses, ports and checksums into a plain packet. Returns the information that the
    /// packet gives about its mapping, for the mapping's state.
    #[inline]
    pub(super) fn apply_plain(self, packet: &mut Packet, rewriting: &Rewriting) -> Told {
        let Some(bytes) = packet.header_chunk_mut::<PLAIN>(Base::Network) else { return Told::Nothing };
        if bytes[9] == ip_protocol::UDP {
            rewriting.write_udp(bytes);
            return Told::Datagram;
        }
        let Some(bytes) = packet.header_chunk_mut::<PLAIN_TCP>(Base::Network) else { return Told::Nothing };
        rewriting.write_tcp(bytes);
        self.told(bytes)
    }

    /// Rewrites packets of a plain run, up to the first packet that may change `state`, the state of their
    /// direction of the mapping. Returns the number of packets that were rewritten.
    #[inline(always)]
    pub(super) fn apply_to_run(self, run: &mut [Packet], rewriting: &Rewriting, state: State) -> usize {
        let first = run.first_mut().and_then(|packet| packet.header_chunk_mut::<PLAIN>(Base::Network));
        let Some(first) = first else { return 0 };
        let counts = self == Flavour::Udp;
        let is_udp = first[9] == ip_protocol::UDP;
        let kind = if is_udp || counts { Kind::Datagrams } else { Kind::Connection };
        if !state.is_final(kind) {
            return 0;
        }
        if is_udp {
            for (number, packet) in run.iter_mut().enumerate() {
                let Some(bytes) = packet.header_chunk_mut::<PLAIN>(Base::Network) else { return number };
                rewriting.write_udp(bytes);
            }
            return run.len();
        }
        let watched = if counts { 0 } else { WATCHED };
        for (number, packet) in run.iter_mut().enumerate() {
            match packet.header_chunk_mut::<PLAIN_TCP>(Base::Network) {
                Some(bytes) if bytes[33] & watched == 0 => rewriting.write_tcp(bytes),
                _ => return number,
            }
        }
        run.len()
    }

    /// Rewrites the segments at the start of a plain TCP run that do not change `state`, the state of their
    /// direction of the mapping, because neither the direction nor they have carried data, as in a direction
    /// that only acknowledges. Returns the number of segments that were rewritten.
    #[inline]
    pub(super) fn apply_without_data(self, run: &mut [Packet], rewriting: &Rewriting, state: State) -> usize {
        if state != State::default() || self == Flavour::Udp {
            return 0;
        }
        for (number, packet) in run.iter_mut().enumerate() {
            match packet.header_chunk_mut::<PLAIN_TCP>(Base::Network) {
                Some(bytes)
                    if bytes[9] == ip_protocol::TCP && bytes[33] & WATCHED == 0 && !has_payload(bytes) =>
                {
                    rewriting.write_tcp(bytes);
                }
                _ => return number,
            }
        }
        run.len()
    }

    /// Returns the information that a plain TCP packet gives about its mapping: flags and presence of
    /// payload. For UDPRewriter, TCP packets count as datagrams.
    #[inline]
    fn told(self, bytes: &[u8; PLAIN_TCP]) -> Told {
        if self == Flavour::Udp {
            return Told::Datagram;
        }
        Told::Segment { flags: bytes[33], has_payload: has_payload(bytes) }
    }

    /// Returns the information that a plain packet gives about its mapping, without changing the packet.
    /// Returns `None` if the packet is too short.
    #[inline]
    pub(super) fn tells(self, packet: &mut Packet) -> Option<Told> {
        if packet.header_chunk_mut::<PLAIN>(Base::Network)?[9] == ip_protocol::UDP {
            return Some(Told::Datagram);
        }
        packet.header_chunk_mut::<PLAIN_TCP>(Base::Network).map(|bytes| self.told(bytes))
    }
}
