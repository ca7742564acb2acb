//! The packet that an ICMP error quotes (its IP header and at least 8 bytes after it): parsing, and
//! translation of its addresses and ports. The IP, TCP, UDP and ICMP checksums that cover them are updated.
//! The checksum of a quoted DCCP packet is not updated.

use wire::checksum::Delta;
use wire::{FromBytes, icmp, ip_protocol, ipv4};

/// The meaning of the quoted bytes after the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// The source and destination port of TCP, UDP or DCCP.
    Ports,
    /// The identifier of an ICMP echo request or another ICMP query.
    Identifier,
    /// No field that distinguishes flows: another protocol, an ICMP message that is no query, a later
    /// fragment, or too few bytes.
    Nothing,
}

/// The fields of the packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quotation {
    pub(crate) protocol: u8,
    pub(crate) source: u32,
    pub(crate) destination: u32,
    /// The source and destination port; or the identifier and 0; or zeros, as `behind` says.
    pub(crate) ports: (u16, u16),
    /// The meaning of `ports`, and of the quoted bytes after the IP header.
    pub(crate) behind: Behind,
    /// The offset of the transport header from the start of the quoted IP header.
    transport: usize,
}

impl Quotation {
    /// Parses an ICMP error; `message` starts with the ICMP header. Returns `None` for other ICMP messages,
    /// and for errors that do not quote an IPv4 header.
    #[inline]
    pub(crate) fn read(message: &[u8]) -> Option<Quotation> {
        let (head, quoted) = icmp::Header::ref_from_prefix(message).ok()?;
        if !head.is_error() {
            return None;
        }
        let (ip, _) = ipv4::Header::ref_from_prefix(quoted).ok()?;
        let transport = ip.header_len();
        if ip.version() != 4 || transport < ipv4::Header::LEN {
            return None;
        }
        let rest = quoted.get(transport..).unwrap_or_default();
        let number = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        let is_first = ip.fragment_offset() == 0;
        let (behind, ports) = match ip.protocol {
            ip_protocol::TCP | ip_protocol::UDP | ip_protocol::DCCP if is_first && rest.len() >= 8 => {
                (Behind::Ports, (number(0), number(2)))
            }
            ip_protocol::ICMP if is_first && rest.len() >= 6 && is_query(rest[0]) => {
                (Behind::Identifier, (number(4), 0))
            }
            _ => (Behind::Nothing, (0, 0)),
        };
        let (source, destination) = (ip.source.get(), ip.destination.get());
        Some(Quotation { protocol: ip.protocol, source, destination, ports, behind, transport })
    }

    /// Sets the addresses of the quoted packet, and its ports or its identifier, in the ICMP error from which
    /// this quotation was read. Updates the quoted IP checksum, the quoted TCP, UDP or ICMP checksum if it is
    /// there, and the checksum of the ICMP error.
    pub(crate) fn change(&self, message: &mut [u8], source: u32, destination: u32, ports: (u16, u16)) {
        let Some((head, quoted)) = message.split_at_mut_checked(icmp::Header::LEN) else { return };
        let Ok((ip, _)) = ipv4::Header::mut_from_prefix(quoted) else { return };
        let addresses = Delta::u32(ip.source.get(), source) + Delta::u32(ip.destination.get(), destination);
        ip.source.set(source);
        ip.destination.set(destination);
        let old = ip.checksum.get();
        let new = addresses.apply(old);
        ip.checksum.set(new);
        let mut change = addresses + Delta::u16(old, new);
        let rest = quoted.get_mut(self.transport..).unwrap_or_default();
        match self.behind {
            Behind::Ports => {
                let both = exchange(rest, 0, ports.0) + exchange(rest, 2, ports.1);
                let all = addresses + both;
                change = change + both;
                match self.protocol {
                    ip_protocol::TCP => change = change + sum_in(rest, 16, all, Delta::apply),
                    ip_protocol::UDP => change = change + sum_in(rest, 6, all, Delta::apply_udp),
                    _ => {}
                }
            }
            Behind::Identifier => {
                let identifier = exchange(rest, 4, ports.0);
                change = change + identifier + sum_in(rest, 2, identifier, Delta::apply);
            }
            Behind::Nothing => {}
        }
        sum_in(head, 2, change, Delta::apply);
    }
}

/// True if an ICMP message of type `kind` is a query with an identifier, which is at offset 4 (RFC 792, RFC
/// 950).
fn is_query(kind: u8) -> bool {
    use icmp::kind::{ADDRESS_MASK, ECHO, INFORMATION, TIME_STAMP};
    [ECHO, TIME_STAMP, INFORMATION, ADDRESS_MASK].contains(&kind)
}

/// Writes the 16-bit number `new` at the offset `at` of `bytes`. Returns the change of a checksum that covers
/// the bytes. Writes nothing if there are not two bytes at this offset.
fn exchange(bytes: &mut [u8], at: usize, new: u16) -> Delta {
    let Some(place) = bytes.get_mut(at..at + 2) else { return Delta::default() };
    let old = u16::from_be_bytes([place[0], place[1]]);
    place.copy_from_slice(&new.to_be_bytes());
    Delta::u16(old, new)
}

/// Updates the checksum field at the offset `at` of `bytes`, if it is there, after the data that it covers
/// have changed by `change`. Returns the change of the field itself, which an outer checksum over data and
/// field must add. `apply` computes the new value of the field; for UDP, it keeps zero, which means no
/// checksum.
fn sum_in(bytes: &mut [u8], at: usize, change: Delta, apply: impl Fn(Delta, u16) -> u16) -> Delta {
    let Some(&[a, b]) = bytes.get(at..at + 2).and_then(|place| place.first_chunk()) else {
        return Delta::default();
    };
    exchange(bytes, at, apply(change, u16::from_be_bytes([a, b])))
}
