//! The destination connection id of QUIC packets to a server (RFC 8999, RFC 9000).

use element::args::{ArgType, Scope};
use wire::{Layers, ip_protocol};

/// The UDP port of servers.
pub(crate) const PORT: u16 = 443;
/// The length in bytes of a UDP header.
const UDP: usize = 8;
/// The maximum length in bytes of a connection id.
const LONGEST: usize = 20;

/// The part of an IP packet that concerns QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quic {
    /// The packet has a short header with this destination connection id, which is filled up to 24 bytes with
    /// zeros.
    Id([u64; 3]),
    /// The packet is another UDP datagram to the port of QUIC servers, such as one with a long header.
    Other,
    /// No datagram to this port.
    Nothing,
}

/// Finds the destination connection id, of `length` bytes, in an IP packet. Only short headers count: the id
/// in a long header may be the random number with which a connection begins.
pub(crate) fn id(ip: &[u8], layers: &Layers, length: usize) -> Quic {
    // The bits of the first byte of a QUIC packet: `LONG` is set if the header is long, and `FIXED` is set in
    // each QUIC packet.
    const LONG: u8 = 0x80;
    const FIXED: u8 = 0x40;
    let (Some(l4), None, Some(ip_protocol::UDP)) = (layers.l4, layers.fragment, layers.protocol) else {
        return Quic::Nothing;
    };
    let Some(data) = ip.get(l4..layers.end) else { return Quic::Nothing };
    if data.get(2..4) != Some(&PORT.to_be_bytes()) {
        return Quic::Nothing;
    }
    let id = match data.get(UDP..) {
        Some([first, rest @ ..]) if first & (LONG | FIXED) == FIXED => rest.get(..length),
        _ => None,
    };
    let mut bytes = [0; 24];
    match id.zip(bytes.get_mut(..length)) {
        Some((id, place)) => place.copy_from_slice(id),
        None => return Quic::Other,
    }
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let [i, j, k, l, m, n, o, p, last @ ..] = rest;
    Quic::Id([[a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p], last].map(u64::from_le_bytes))
}

/// The argument QUIC_ID: the length in bytes of connection ids, 1 to 20; 0, written `off`, for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicId(pub usize);

impl ArgType for QuicId {
    fn parse(text: &str, place: &Scope<'_>) -> Result<QuicId, String> {
        if text.trim() == "off" {
            return Ok(QuicId(0));
        }
        match u32::parse(text, place)? as usize {
            length @ 1..=LONGEST => Ok(QuicId(length)),
            _ => Err(format!("must be between 1 and {LONGEST}, or off")),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

impl QuicId {
    /// Returns the length as a user writes it, or `off`.
    pub fn show(self) -> String {
        if self.0 == 0 { "off".into() } else { self.0.to_string() }
    }
}
