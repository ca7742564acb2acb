//! Replacement of the addresses of a packet: in its IP header or ARP message, and in the packet that an
//! ICMP error quotes. Checksums are updated by the change: right checksums stay right, and wrong checksums
//! stay wrong by the same difference.

use std::net::IpAddr;

use wire::checksum::{Delta, PseudoHeader};
use wire::layers::Network;
use wire::{FromBytes, Layers, LinkType, icmp, icmpv6, ip_protocol, ipv4, ipv6};

/// The offset in bytes of the checksum in an IPv4 header.
const IPV4_SUM: usize = 10;

/// Replaces each address of a packet by the address that `other` returns for it. Addresses that were not
/// captured stay as they are.
pub(super) fn rewrite(frame: &mut [u8], link: LinkType, other: &mut dyn FnMut(IpAddr) -> IpAddr) {
    let layers = Layers::locate(frame, link);
    let Some(l3) = layers.l3 else { return };
    match layers.network {
        Network::Arp => arp(&mut frame[l3..], other),
        Network::Ipv4 | Network::Ipv6 => packet(frame, l3, &layers, other),
        Network::Other => {}
    }
}

/// Replaces the sender's and the target's address of an ARP message for Ethernet and IPv4 (RFC 826).
/// Messages for other networks are not changed.
fn arp(message: &mut [u8], other: &mut dyn FnMut(IpAddr) -> IpAddr) {
    const FIXED: [u8; 4] = [8, 0, 6, 4];
    if message.get(2..6) == Some(&FIXED) {
        let _ = address(message, 14, false, other);
        let _ = address(message, 24, false, other);
    }
}

fn packet(frame: &mut [u8], l3: usize, layers: &Layers, other: &mut dyn FnMut(IpAddr) -> IpAddr) {
    let six = layers.network == Network::Ipv6;
    let summed = summed(&frame[l3..], six);
    let (first, length) = if six { (8, 16) } else { (12, 4) };
    let source = address(frame, l3 + first, six, other);
    let destination = address(frame, l3 + first + length, six, other);
    let (Some(source), Some(destination)) = (source, destination) else { return };
    if !six {
        update(frame, l3 + IPV4_SUM, source + destination, Delta::apply);
    }
    let Some(l4) = layers.l4 else { return };
    let ends = match summed {
        (true, true) => source + destination,
        (true, false) => source,
        (false, true) => destination,
        (false, false) => Delta::default(),
    };
    match layers.protocol {
        Some(ip_protocol::TCP) => update(frame, l4 + 16, ends, Delta::apply),
        Some(ip_protocol::UDP | ip_protocol::UDP_LITE | ip_protocol::DCCP) => {
            update(frame, l4 + 6, ends, Delta::apply_udp);
        }
        Some(ip_protocol::ICMP) => {
            let is_error =
                |bytes| icmp::Header::ref_from_prefix(bytes).is_ok_and(|(icmp, _)| icmp.is_error());
            if is_error(&frame[l4..layers.end]) {
                let quote = quoted(&mut frame[..layers.end], l4, other);
                update(frame, l4 + 2, quote, Delta::apply);
            }
        }
        Some(ip_protocol::ICMPV6) => {
            let is_error =
                |bytes| icmpv6::Header::ref_from_prefix(bytes).is_ok_and(|(icmp, _)| icmp.is_error());
            let quote = match is_error(&frame[l4..layers.end]) {
                true => quoted(&mut frame[..layers.end], l4, other),
                false => Delta::default(),
            };
            update(frame, l4 + 2, ends + quote, Delta::apply);
        }
        _ => {}
    }
}

/// Replaces the addresses in the packet that an ICMP error at offset `l4` quotes. Returns the change of the
/// error's checksum.
fn quoted(frame: &mut [u8], l4: usize, other: &mut dyn FnMut(IpAddr) -> IpAddr) -> Delta {
    const HEADER: usize = 8;
    let Some(quote) = frame.get_mut(l4 + HEADER..) else { return Delta::default() };
    let before = quote.to_vec();
    let layers = Layers::locate(quote, LinkType::RawIp);
    // An ICMP error is not answered with an error, so the quoted packet does not quote another one. If it
    // is ICMP, only its IP header is changed.
    let is_error = matches!(layers.protocol, Some(ip_protocol::ICMP | ip_protocol::ICMPV6));
    let layers = if is_error { Layers { l4: None, ..layers } } else { layers };
    if let (Some(0), Network::Ipv4 | Network::Ipv6) = (layers.l3, layers.network) {
        packet(quote, 0, &layers, other);
    }
    Delta::bytes(&before, quote)
}

/// Returns (true, true) if the checksum of TCP or UDP covers the source and the destination of the IP
/// header. A value is false if the checksum covers another address in its place, which is not replaced: a
/// home address, or the final destination of a source route.
fn summed(ip: &[u8], six: bool) -> (bool, bool) {
    if six {
        let Ok((header, rest)) = ipv6::Header::ref_from_prefix(ip) else { return (true, true) };
        let Some((source, destination)) = ipv6::checksum_addresses(header, rest) else {
            return (true, false);
        };
        return (source == header.source_addr(), destination == header.destination_addr());
    }
    let Ok((header, rest)) = ipv4::Header::ref_from_prefix(ip) else { return (true, true) };
    let options = rest.get(..header.header_len().saturating_sub(ipv4::Header::LEN)).unwrap_or_default();
    (true, PseudoHeader::routed(header, options) == header.into())
}

/// Replaces the address at offset `place` by the result of `other`. Returns the change of checksums that
/// cover the address; `None` if the address was not captured.
fn address(
    frame: &mut [u8],
    place: usize,
    six: bool,
    other: &mut dyn FnMut(IpAddr) -> IpAddr,
) -> Option<Delta> {
    let bytes = frame.get_mut(place..place + if six { 16 } else { 4 })?;
    let old = match six {
        true => IpAddr::from(<[u8; 16]>::try_from(&*bytes).ok()?),
        false => IpAddr::from(<[u8; 4]>::try_from(&*bytes).ok()?),
    };
    match (old, other(old)) {
        (IpAddr::V4(old), IpAddr::V4(new)) => {
            bytes.copy_from_slice(&new.octets());
            Some(Delta::bytes(&old.octets(), &new.octets()))
        }
        (IpAddr::V6(old), IpAddr::V6(new)) => {
            bytes.copy_from_slice(&new.octets());
            Some(Delta::bytes(&old.octets(), &new.octets()))
        }
        _ => None,
    }
}

/// Updates the checksum at offset `place`, if it was captured. `apply` computes the new checksum from
/// `change` and the old checksum.
fn update(frame: &mut [u8], place: usize, change: Delta, apply: impl Fn(Delta, u16) -> u16) {
    let Some([high, low]) = frame.get_mut(place..place + 2) else { return };
    if !change.is_nothing() {
        [*high, *low] = apply(change, u16::from_be_bytes([*high, *low])).to_be_bytes();
    }
}
