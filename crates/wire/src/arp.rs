//! ARP for IPv4 over Ethernet (RFC 826).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Layer, MacAddr, U16, U32, ether_type};

/// The [`Header::operation`] of a request for a hardware address.
pub const REQUEST: u16 = 1;
/// The [`Header::operation`] of a reply with a hardware address.
pub const REPLY: u16 = 2;

/// The hardware type of Ethernet: a value of [`Header::hardware_type`].
pub const ETHERNET: u16 = 1;

/// The first 8 bytes of any ARP packet, whatever kinds of addresses follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FixedPart {
    /// The kind of hardware addresses; 1 is Ethernet.
    pub hardware_type: U16,
    /// The kind of protocol addresses, as an EtherType.
    pub protocol_type: U16,
    /// The length of a hardware address in bytes.
    pub hardware_length: u8,
    /// The length of a protocol address in bytes.
    pub protocol_length: u8,
    /// The operation: [`REQUEST`], [`REPLY`] or another number.
    pub operation: U16,
}

impl FixedPart {
    /// The length of this first part of an ARP packet in bytes.
    pub const LEN: usize = size_of::<FixedPart>();

    /// Returns the first 8 bytes of the ARP packet at the start of `bytes`; `None` if `bytes` is shorter.
    pub fn of(bytes: &[u8]) -> Option<&FixedPart> {
        FixedPart::ref_from_prefix(bytes).ok().map(|(lengths, _)| lengths)
    }

    /// Returns the length of the whole ARP packet in bytes: the first 8 bytes, and the hardware and protocol
    /// addresses of sender and target, with the lengths that the first 8 bytes give.
    pub fn total(&self) -> usize {
        FixedPart::LEN + 2 * usize::from(self.hardware_length) + 2 * usize::from(self.protocol_length)
    }
}

/// An ARP packet with Ethernet and IPv4 addresses: 28 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// The kind of hardware addresses; 1 is Ethernet.
    pub hardware_type: U16,
    /// The kind of protocol addresses, as an EtherType; 0x0800 is IPv4.
    pub protocol_type: U16,
    /// The length of a hardware address in bytes; 6 for Ethernet.
    pub hardware_length: u8,
    /// The length of a protocol address in bytes; 4 for IPv4.
    pub protocol_length: u8,
    /// The operation: [`REQUEST`], [`REPLY`] or another number.
    pub operation: U16,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender.
    pub sender_ip: U32,
    /// Hardware address of the target; usually zero in a request (RFC 826 leaves it open).
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: U32,
}

impl Header {
    /// The length of the packet in bytes.
    pub const LEN: usize = size_of::<Header>();

    /// Makes an ARP packet for Ethernet and IPv4 with this operation; all addresses are zero.
    pub fn new(operation: u16) -> Header {
        Header {
            hardware_type: U16::new(1),
            protocol_type: U16::new(ether_type::IPV4),
            hardware_length: 6,
            protocol_length: 4,
            operation: U16::new(operation),
            sender_mac: MacAddr::default(),
            sender_ip: U32::new(0),
            target_mac: MacAddr::default(),
            target_ip: U32::new(0),
        }
    }
}

/// Parses the ARP packet at the start of `bytes`, which begin after the link header.
///
/// # Errors
///
/// `Truncated` below 28 bytes; `Format`, with the type of the addresses, if hardware addresses are not
/// Ethernet's or protocol addresses are not IPv4's; `Length`, with the length of an address, if it is not 6
/// or 4 bytes.
pub fn parse(bytes: &[u8]) -> Result<&Header, Error> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Error::Truncated {
        layer: Layer::Arp,
        need: Header::LEN,
        have: bytes.len(),
    })?;
    let addresses = [
        (header.hardware_type, ETHERNET, header.hardware_length, 6),
        (header.protocol_type, ether_type::IPV4, header.protocol_length, 4),
    ];
    for (kind, own, length, own_length) in addresses {
        if kind.get() != own {
            return Err(Error::Format { layer: Layer::Arp, found: kind.get().into() });
        }
        if length != own_length {
            return Err(Error::Length { layer: Layer::Arp, found: length.into() });
        }
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use etherparse::{ArpHardwareId, ArpOperation, ArpPacket, EtherType};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_etherparse(mac1: [u8; 6], ip1: [u8; 4], mac2: [u8; 6], ip2: [u8; 4], operation: u16) {
            let packet = ArpPacket::new(
                ArpHardwareId::ETHERNET, EtherType::IPV4, ArpOperation(operation), &mac1, &ip1, &mac2, &ip2,
            ).unwrap();
            let bytes = packet.to_bytes();
            let header = parse(&bytes).unwrap();
            prop_assert_eq!(header.sender_mac, MacAddr(mac1));
            prop_assert_eq!(header.target_mac, MacAddr(mac2));
            prop_assert_eq!(header.sender_ip.get(), u32::from_be_bytes(ip1));
            prop_assert_eq!(header.target_ip.get(), u32::from_be_bytes(ip2));
            prop_assert_eq!(header.operation.get(), operation);
            let mut own = Header::new(operation);
            own.sender_mac = MacAddr(mac1);
            own.sender_ip = header.sender_ip;
            own.target_mac = MacAddr(mac2);
            own.target_ip = header.target_ip;
            prop_assert_eq!(own.as_bytes(), &bytes[..]);
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if parse(&bytes).is_ok() {
                prop_assert!(bytes.len() >= Header::LEN);
                prop_assert_eq!(&bytes[..6], &[0, 1, 8, 0, 6, 4]);
            }
        }
    }

    #[test]
    fn other_address_kinds_are_refused() {
        let refused = |at: usize, value: u8| {
            let mut header = Header::new(REQUEST);
            header.as_mut_bytes()[at] = value;
            parse(header.as_bytes()).unwrap_err()
        };
        assert_eq!(refused(1, 6), Error::Format { layer: Layer::Arp, found: 6 });
        assert_eq!(refused(3, 1), Error::Format { layer: Layer::Arp, found: 0x0801 });
        assert_eq!(refused(4, 8), Error::Length { layer: Layer::Arp, found: 8 });
        assert_eq!(refused(5, 16), Error::Length { layer: Layer::Arp, found: 16 });
    }
}
