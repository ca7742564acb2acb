//! Packets in tunnels, made by hand.

use std::net::{IpAddr, SocketAddr};

use testkit::timed::frame;
use wire::MacAddr;
use wire::build::Builder;

/// The kinds of tunnels, and their variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vxlan,
    /// GENEVE with this number of four-byte words of options. The tunnel carries Ethernet if the number is
    /// odd, otherwise IP.
    Geneve(u8),
    Gtp,
    /// GTP-U with this number of extension headers.
    GtpExtended(u8),
    GtpNumbered,
    /// GTP-U with an extension header of this type, which contains a sequence number.
    GtpSequence(u8),
    Gre,
    GreChecked,
    GreKeyed,
    GreBridged,
    GreNumbered,
    InIp,
}

pub(crate) const ALL: [Kind; 18] = [
    Kind::Vxlan,
    Kind::Geneve(0),
    Kind::Geneve(1),
    Kind::Geneve(62),
    Kind::Geneve(63),
    Kind::Gtp,
    Kind::GtpExtended(1),
    Kind::GtpExtended(3),
    Kind::GtpNumbered,
    Kind::GtpSequence(0xc0),
    Kind::GtpSequence(0x82),
    Kind::GtpSequence(0x84),
    Kind::Gre,
    Kind::GreChecked,
    Kind::GreKeyed,
    Kind::GreBridged,
    Kind::InIp,
    Kind::GreNumbered,
];

impl Kind {
    /// True if the header of the tunnel has a number that identifies the tenant, such as a VNI.
    pub(crate) fn has_id(self) -> bool {
        !matches!(self, Kind::Gre | Kind::GreChecked | Kind::GreBridged | Kind::GreNumbered | Kind::InIp)
    }

    /// True if packets have sequence numbers.
    pub(crate) fn is_numbered(self) -> bool {
        matches!(self, Kind::GtpNumbered | Kind::GtpSequence(_) | Kind::GreNumbered)
    }

    fn is_bridged(self) -> bool {
        match self {
            Kind::Vxlan | Kind::GreBridged => true,
            Kind::Geneve(words) => words % 2 == 1,
            _ => false,
        }
    }
}

/// A tunnel: its kind, whether its outer addresses are IPv6, the number of the tenant, and the outer UDP
/// source port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunnel {
    pub(crate) kind: Kind,
    pub(crate) outer_v6: bool,
    pub(crate) id: u32,
    pub(crate) port: u16,
}

impl Tunnel {
    pub(crate) fn new(kind: Kind, outer_v6: bool, id: u32) -> Tunnel {
        Tunnel { kind, outer_v6, id, port: 5000 }
    }

    pub(crate) fn ends(self) -> (IpAddr, IpAddr) {
        match self.outer_v6 {
            true => ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into()),
            false => ([192, 0, 2, 1].into(), [192, 0, 2, 2].into()),
        }
    }

    /// Returns a frame with a packet of `inner` in the tunnel.
    pub(crate) fn wrap(self, inner: &Builder, payload: &[u8]) -> Vec<u8> {
        let bytes = match self.kind.is_bridged() {
            true => inner.clone().ethernet(MacAddr([6; 6]), MacAddr([8; 6])).build(payload).unwrap(),
            false => inner.build(payload).unwrap(),
        };
        self.wrap_bytes(&bytes)
    }

    /// Returns a frame with an inner packet or frame in the tunnel.
    pub(crate) fn wrap_bytes(self, bytes: &[u8]) -> Vec<u8> {
        let (builder, payload) = self.outer(bytes);
        frame(builder, &payload)
    }

    /// Returns a frame with a fragment of an outer packet.
    pub(crate) fn outer_fragment(self) -> Vec<u8> {
        let (a, b) = self.ends();
        frame(Builder::udp(SocketAddr::new(a, 1), SocketAddr::new(b, 2)).fragment(0x2000), &[1; 30])
    }

    /// Returns the builder of the outer packet, and its payload.
    pub(crate) fn outer(self, bytes: &[u8]) -> (Builder, Vec<u8>) {
        let (a, b) = self.ends();
        let is_v6 = bytes.first().is_some_and(|first| first >> 4 == 6);
        let kind = if self.kind.is_bridged() {
            0x6558u16
        } else if is_v6 {
            0x86dd
        } else {
            0x0800
        };
        let [k, l] = kind.to_be_bytes();
        let [w, x, y, z] = self.id.to_be_bytes();
        let udp = |port: u16| Builder::udp(SocketAddr::new(a, self.port), SocketAddr::new(b, port));
        let gre = || Builder::ip(a, b, 47);
        let length = (bytes.len() as u16).to_be_bytes();
        let (builder, header) = match self.kind {
            Kind::Vxlan => (udp(4789), vec![8, 0, 0, 0, x, y, z, 0]),
            Kind::Geneve(words) => {
                let mut header = vec![words, 0, k, l, x, y, z, 0];
                header.resize(8 + 4 * usize::from(words), 9);
                (udp(6081), header)
            }
            Kind::Gtp => (udp(2152), vec![0x30, 255, length[0], length[1], w, x, y, z]),
            Kind::GtpExtended(count) => {
                let mut header = vec![0x34, 255, length[0], length[1], w, x, y, z, 0, 0, 0, 0x85];
                for number in 1..=count {
                    let next = if number == count { 0 } else { 0x85 };
                    header.extend([1, 16, 5, next]);
                }
                (udp(2152), header)
            }
            Kind::GtpNumbered => (udp(2152), vec![0x32, 255, length[0], length[1], w, x, y, z, 0, 1, 0, 0]),
            Kind::GtpSequence(kind) => {
                let header = vec![0x34, 255, length[0], length[1], w, x, y, z, 0, 0, 0, kind, 1, 0, 5, 0];
                (udp(2152), header)
            }
            Kind::Gre | Kind::GreBridged => (gre(), vec![0, 0, k, l]),
            Kind::GreChecked => (gre(), vec![0x80, 0, k, l, 1, 2, 0, 0]),
            Kind::GreKeyed => (gre(), vec![0xa0, 0, k, l, 1, 2, 0, 0, w, x, y, z]),
            Kind::GreNumbered => (gre(), vec![0x10, 0, k, l, 0, 0, 0, 1]),
            Kind::InIp => (Builder::ip(a, b, if is_v6 { 41 } else { 4 }), vec![]),
        };
        (builder, [&header, bytes].concat())
    }
}
