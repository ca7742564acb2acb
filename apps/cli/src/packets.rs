//! Describes packets for people in a few words.

use packet::PacketKind;
use wire::layers::{Layers, Network};
use wire::{LinkType, checksum, ether_type, ip_protocol};

/// Describes an Ethernet frame: its protocol and addresses, its length, and unusual properties of its
/// headers, such as a wrong checksum of the IPv4 header. `kind` is its packet type (to this host, broadcast,
/// ...).
pub(crate) fn describe(frame: &[u8], kind: PacketKind) -> String {
    let layers = Layers::locate(frame, LinkType::Ethernet);
    let mut words = if layers.vlan_tags > 0 { "VLAN ".to_string() } else { String::new() };
    match layers.five_tuple(frame) {
        Some(tuple) => {
            let protocol = tuple.protocol();
            match ip_protocol::name(protocol) {
                Some(_) if protocol == ip_protocol::NO_NEXT => words.push_str("IPv6"),
                Some(name) => words.push_str(&name.to_uppercase()),
                None => words.push_str(&format!("protocol {protocol}")),
            }
            let (mut source, mut destination) = (tuple.source().to_string(), tuple.destination().to_string());
            if ip_protocol::has_ports(protocol) && layers.l4.is_some() {
                source.push_str(&format!(":{}", tuple.source_port()));
                destination.push_str(&format!(":{}", tuple.destination_port()));
            }
            words.push_str(&format!(" {source} > {destination}"));
            ip_details(&mut words, frame, &layers);
        }
        None => match layers.ether_type {
            None => words.push_str("a short frame"),
            Some(ether_type::ARP) => words.push_str("ARP"),
            Some(ether_type::IPV4) => words.push_str("IPv4"),
            Some(ether_type::IPV6) => words.push_str("IPv6"),
            Some(length) if length < ether_type::MIN => words.push_str("an 802.3 frame"),
            Some(other) => words.push_str(&format!("Ethernet type {other:#06x}")),
        },
    }
    if let Some(fault) = layers.fault {
        let layer = fault.layer().to_string();
        words.push_str(&format!(", bad {} header", layer.trim_end_matches(" header")));
    }
    match kind {
        PacketKind::Broadcast => words.push_str(", to everybody"),
        PacketKind::Multicast => words.push_str(", to a group"),
        PacketKind::OtherHost => words.push_str(", to another host"),
        PacketKind::Outgoing => words.push_str(", outgoing"),
        PacketKind::Host | PacketKind::Loopback => {}
    }
    format!("{words}, {} bytes", frame.len())
}

fn ip_details(words: &mut String, frame: &[u8], layers: &Layers) {
    let Some(header) = layers.l3.and_then(|l3| frame.get(l3..layers.l4.unwrap_or(l3 + 20))) else { return };
    if let Some(fragment) = layers.fragment {
        words.push_str(&format!(", fragment at {}", fragment.offset));
    }
    if layers.network == Network::Ipv4 {
        if let Some(&ttl @ ..=1) = header.get(8) {
            words.push_str(&format!(", TTL {ttl}"));
        }
        if header.get(6).is_some_and(|flags| flags & 0x40 != 0) {
            words.push_str(", not to be fragmented");
        }
        let total = header.get(2..4).map_or(0, |bytes| usize::from(bytes[0]) << 8 | usize::from(bytes[1]));
        if total < header.len() {
            words.push_str(&format!(", IP length {total}"));
        }
        if layers.missing > 0 {
            words.push_str(&format!(", {} bytes shorter than it says", layers.missing));
        }
        if header.len() > 20 {
            words.push_str(", IP options");
        }
        if !checksum::ipv4_valid(header) {
            words.push_str(", wrong IP checksum");
        }
    }
}

#[cfg(test)]
mod tests {
    fn describe(frame: &[u8]) -> String {
        super::describe(frame, packet::PacketKind::Host)
    }

    #[test]
    fn what_stands_out_is_said() {
        let mut frame = vec![0; 60];
        assert_eq!(describe(&frame), "an 802.3 frame, 60 bytes");
        frame[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(describe(&frame), "ARP, 60 bytes");
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..42].copy_from_slice(&[4, 210, 0, 80, 0, 26, 0, 0]);
        assert_eq!(describe(&frame), "UDP 10.0.0.1:1234 > 10.0.0.2:80, TTL 1, wrong IP checksum, 60 bytes");
        frame[16..18].copy_from_slice(&[0, 50]);
        frame[22] = 64;
        let text =
            "UDP 10.0.0.1:1234 > 10.0.0.2:80, 4 bytes shorter than it says, wrong IP checksum, 60 bytes";
        assert_eq!(describe(&frame), text);
        assert_eq!(describe(&[]), "a short frame, bad link header, 0 bytes");
    }
}
