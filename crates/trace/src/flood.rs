//! Floods: sequences of frames, each of which makes some table (of flows, neighbours, fragments, ...) store a
//! new entry. Frame `number` of a flood depends only on its number and a seed. Its varying bits are distinct
//! for 2^39 consecutive numbers; a [`Flood::Gap`] has the same bits in two frames. An IPv4 address alone
//! holds only 24 of these bits, so that it occurs again earlier.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::build::Builder;
use wire::tcp::flags::{ACK, SYN};
use wire::{IntoBytes, MacAddr, arp, ether_type, icmpv6, neighbor};

/// A kind of flood, by the frames that it has. The comments say what differs in each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// The first segment of a TCP connection, from a different address and port each time.
    Syn,
    /// A datagram from a different sender each time.
    Udp,
    /// A datagram from a different sender each time, with 600 bytes of payload.
    Payload,
    /// A datagram to a different receiver each time.
    Receiver,
    /// A datagram over IPv6 to a different receiver each time.
    Receiver6,
    /// The first fragment of a datagram, without the other fragments.
    Fragment,
    /// The last fragment of a datagram, without the other fragments.
    LastFragment,
    /// Two segments of a TCP connection with a missing segment between them, so that a reassembler holds
    /// the second; then two segments of another connection.
    Gap,
    /// An echo request from a different sender each time.
    Ping,
    /// An ARP reply with a different address each time.
    Arp,
    /// A neighbour advertisement with a different address each time.
    Neighbor,
    /// A frame from a different Ethernet address each time.
    Mac,
}

/// The number of varying bits in a frame. Only the low 39 bits of a frame number matter; for [`Flood::Gap`],
/// which uses each number twice, 40 bits.
const BITS: u32 = 39;
const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// The source of the varying fields of a frame: addresses, ports and identifiers.
struct Keys {
    /// The varying bits, [`BITS`] of them. Each field takes a part of them.
    all: u64,
}

impl Keys {
    /// Makes the keys of a frame number. Multiplication by an odd constant keeps the keys of different
    /// numbers distinct, if the numbers differ in their low [`BITS`] bits. It also makes the keys of
    /// consecutive numbers look random.
    fn of(seed: u64, number: u64) -> Keys {
        let mixed = (number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Keys { all: mixed & ((1 << BITS) - 1) }
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(0x0a00_0000 | (self.all >> 15) as u32)
    }

    fn address6(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(self.all) + 0x100)
    }

    fn port(&self) -> u16 {
        0x8000 | self.all as u16
    }

    fn service(&self) -> u16 {
        (self.all >> 20) as u16 % 64
    }

    fn mac(&self) -> MacAddr {
        let [_, _, _, bytes @ ..] = self.all.to_be_bytes();
        let mut address = [2; 6];
        address[1..].copy_from_slice(&bytes);
        MacAddr(address)
    }
}

impl Flood {
    /// All kinds of floods.
    pub const ALL: [Flood; 12] = [
        Flood::Syn,
        Flood::Udp,
        Flood::Payload,
        Flood::Receiver,
        Flood::Receiver6,
        Flood::Fragment,
        Flood::LastFragment,
        Flood::Gap,
        Flood::Ping,
        Flood::Arp,
        Flood::Neighbor,
        Flood::Mac,
    ];

    /// Returns the name of the flood that is shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Flood::Syn => "SYN",
            Flood::Udp => "flows",
            Flood::Payload => "payloads",
            Flood::Receiver => "receivers",
            Flood::Receiver6 => "receivers (IPv6)",
            Flood::Fragment => "first fragments",
            Flood::LastFragment => "last fragments",
            Flood::Gap => "gaps",
            Flood::Ping => "pings",
            Flood::Arp => "ARP replies",
            Flood::Neighbor => "neighbours",
            Flood::Mac => "MAC addresses",
        }
    }

    /// Returns the IP address that a router looks up for frame `number`: the announced address of a
    /// [`Flood::Neighbor`], the server's address for a [`Flood::Arp`], and otherwise the destination.
    pub fn receiver(self, seed: u64, number: u64) -> IpAddr {
        let keys = Keys::of(seed, number);
        match self {
            Flood::Receiver => keys.address().into(),
            Flood::Receiver6 | Flood::Neighbor => keys.address6().into(),
            _ => SERVER.into(),
        }
    }

    /// Returns frame `number` of the flood for a seed, without the Ethernet check sequence.
    pub fn frame(self, seed: u64, number: u64) -> Vec<u8> {
        let keys = Keys::of(seed, if self == Flood::Gap { number / 2 } else { number });
        let from = SocketAddr::new(keys.address().into(), keys.port());
        let end = |port| SocketAddr::new(SERVER.into(), port);
        let own = MacAddr([2, 0, 0, 0, 0, 1]);
        let (packet, payload) = match self {
            // The server's port varies, too, because a translator has a limited number of ports for each
            // port of a server.
            Flood::Syn => (Builder::tcp(from, end(80 + keys.service()), SYN), 0),
            Flood::Udp => (Builder::udp(from, end(53 + keys.service())), 18),
            Flood::Payload => (Builder::udp(from, end(53)), 600),
            Flood::Receiver => (Builder::udp(end(1024), from), 18),
            Flood::Receiver6 => {
                let ends = [Ipv6Addr::from_bits(0x2001_0db9 << 96 | 1), keys.address6()];
                let [from, to] = ends.map(|address| SocketAddr::new(address.into(), keys.port()));
                (Builder::udp(from, to), 18)
            }
            Flood::Fragment => (Builder::udp(from, end(53)).id(keys.port()).fragment(0x2000), 16),
            Flood::LastFragment => (Builder::udp(from, end(53)).id(keys.port()).fragment(3), 16),
            Flood::Gap => {
                let sequence = 1 + 3000 * (number % 2) as u32;
                (Builder::tcp(from, end(80), ACK).sequence(sequence, 1), 64)
            }
            Flood::Ping => (Builder::icmp(from.ip(), SERVER.into(), 8, 0, [keys.port(), 1]), 18),
            Flood::Mac => (Builder::udp(end(1024), end(53)), 18),
            Flood::Arp => return arp_reply(&keys),
            Flood::Neighbor => return advertisement(&keys),
        };
        let source = if self == Flood::Mac { keys.mac() } else { own };
        // Building fails only for packets that are too long or mix IP versions, which none of these does.
        packet.ethernet(source, ROUTER).build(&[0; 600][..payload]).unwrap_or_default()
    }
}

fn frame(source: MacAddr, of: u16, payload: &[u8]) -> Vec<u8> {
    [&ROUTER.0[..], &source.0, &of.to_be_bytes(), payload].concat()
}

fn arp_reply(keys: &Keys) -> Vec<u8> {
    let header = arp::Header {
        sender_mac: keys.mac(),
        sender_ip: keys.address().to_bits().into(),
        target_mac: ROUTER,
        target_ip: SERVER.to_bits().into(),
        ..arp::Header::new(arp::REPLY)
    };
    frame(keys.mac(), ether_type::ARP, header.as_bytes())
}

fn advertisement(keys: &Keys) -> Vec<u8> {
    let host = keys.address6();
    let own = Ipv6Addr::from_bits(0x2001_0db8 << 96 | 1);
    let flags = neighbor::flag::SOLICITED | neighbor::flag::OVERRIDE;
    let message = neighbor::build(
        icmpv6::kind::NEIGHBOR_ADVERTISEMENT,
        flags,
        [host, own, host],
        (neighbor::option::TARGET, keys.mac()),
    );
    frame(keys.mac(), ether_type::IPV6, &message)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_frame_comes_twice_and_each_seed_has_its_own() {
        for flood in Flood::ALL {
            let frames: HashSet<_> = (0..1000).map(|number| flood.frame(1, number)).collect();
            assert_eq!(frames.len(), 1000, "{flood:?}");
            assert!(frames.iter().all(|frame| frame.len() >= 42), "{flood:?}");
            assert_ne!(flood.frame(1, 5), flood.frame(2, 5));
            assert_eq!(flood.frame(1, 5), flood.frame(1, 5));
        }
    }

    #[test]
    fn headers_are_sound() {
        for flood in Flood::ALL {
            let frame = flood.frame(3, 7);
            let packet = &frame[14..];
            match frame[12..14] {
                [8, 0] => assert!(wire::ipv4::parse(packet).is_ok(), "{flood:?}"),
                [0x86, 0xdd] => assert!(wire::ipv6::parse(packet).is_ok(), "{flood:?}"),
                _ => assert_eq!(flood, Flood::Arp),
            }
        }
        assert!(neighbor::parse(&Flood::Neighbor.frame(3, 7)[14..]).is_some());
    }
}
