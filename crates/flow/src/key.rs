//! Keys: the data of a packet by which a [`FlowTable`](crate::FlowTable) identifies its flow.
//!
//! A key is one to five 64-bit words without padding, so it hashes and compares as plain numbers, the same
//! on every machine. Keys of three or five words end in a word with the IP version and the VLAN. So an IPv4
//! address never equals an IPv6 address, and a flow in one VLAN never equals a flow in another. VLAN 0
//! means that a packet is in no VLAN: it has no VLAN tag, or a priority tag (IEEE 802.1Q).

use std::net::IpAddr;

use wire::{FiveTuple, IntoBytes, MacAddr};
use zerocopy::FromZeros;

/// A key of a flow table, of fixed size. Two keys are equal if their [`words`](Self::words) are equal.
///
/// The types of this module are sufficient for the data path; elements may implement the trait for further
/// types.
pub trait Key: Copy + FromZeros {
    /// Returns the key as words. Their number is the same for all keys of one type, at most [`MAX_WORDS`].
    fn words(&self) -> &[u64];

    /// Returns the addresses and ports of a flow with this key; ports are 0 if the protocol has none. The
    /// default is `None`, for key types without ports and for types that do not override this function.
    fn addresses_and_ports(&self) -> Option<AddressesAndPorts> {
        None
    }
}

/// The addresses and ports of a flow: of each pair, the source is first and the destination second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressesAndPorts {
    /// IPv4 addresses and ports, in host order.
    V4([u32; 2], [u16; 2]),
    /// IPv6 addresses and ports, in host order.
    V6([u128; 2], [u16; 2]),
}

impl AddressesAndPorts {
    /// Returns a 32-bit hash of addresses and ports, seeded with `seed`. The hash depends on the direction of
    /// the flow. The hash is cheaper than the hash of a [`KeyHasher`](crate::KeyHasher).
    /// [`KnownFlows`](crate::KnownFlows) counts flows by it.
    #[inline]
    pub fn number(&self, seed: u64) -> u32 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(32);
        let (addresses, [p, q]) = match *self {
            AddressesAndPorts::V4([a, b], ports) => (mix(seed, u64::from(a) << 32 | u64::from(b)), ports),
            AddressesAndPorts::V6([a, b], ports) => {
                let words = [(a >> 64) as u64, a as u64, (b >> 64) as u64, b as u64];
                (words.into_iter().fold(seed, mix), ports)
            }
        };
        mix(addresses, u64::from(p) << 16 | u64::from(q)) as u32
    }
}

/// A key that carries a value next to the words that are compared. Equality ignores the value, so the value
/// may change while the key is in a table, and a look-up needs no second memory access to reach it.
pub trait Valued: Key {
    /// The type of the value that the key carries.
    type Value;

    /// Returns the value by mutable reference.
    fn value_mut(&mut self) -> &mut Self::Value;
}

/// A key with a source and a destination, which can be exchanged.
pub trait Directed: Key {
    /// Returns the key of the packets in the opposite direction: source and destination are exchanged.
    #[must_use]
    fn reversed(&self) -> Self;
}

/// The largest number of 64-bit words of a key.
pub const MAX_WORDS: usize = 5;

/// The key of a flow: addresses, ports, protocol and VLAN, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct FiveTupleKey([u64; 5]);

impl FiveTupleKey {
    /// A key that no packet has, because it has no IP version: a placeholder for packets without
    /// five-tuple.
    pub const NONE: FiveTupleKey = FiveTupleKey([0; 5]);

    /// Makes the key of a flow from its five-tuple and its VLAN (0 for none).
    #[inline]
    pub fn new(tuple: &FiveTuple, vlan: u16) -> Self {
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(tuple.as_bytes().as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        // The last two bytes of a five-tuple are always zero, so the VLAN is stored there.
        words[4] |= u64::from(vlan) << 48;
        FiveTupleKey(words)
    }

    /// Returns the five-tuple, without the VLAN.
    pub fn tuple(&self) -> FiveTuple {
        let mut bytes = [0; 40];
        let [a, b, c, d, e] = self.0;
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip([a, b, c, d, e & (u64::MAX >> 16)]) {
            *bytes = word.to_le_bytes();
        }
        zerocopy::transmute!(bytes)
    }

    /// Returns the VLAN; 0 for packets in no VLAN.
    pub fn vlan(&self) -> u16 {
        (self.0[4] >> 48) as u16
    }
}

impl Key for FiveTupleKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }

    fn addresses_and_ports(&self) -> Option<AddressesAndPorts> {
        let tuple = self.tuple();
        let ports = [tuple.source_port(), tuple.destination_port()];
        match (tuple.source(), tuple.destination()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => Some(AddressesAndPorts::V4([a.to_bits(), b.to_bits()], ports)),
            (IpAddr::V6(a), IpAddr::V6(b)) => Some(AddressesAndPorts::V6([a.to_bits(), b.to_bits()], ports)),
            _ => None,
        }
    }
}

impl Directed for FiveTupleKey {
    #[inline]
    fn reversed(&self) -> Self {
        let [a, b, c, d, rest] = self.0;
        // The two ports are the lower half of the last word.
        let ports = (rest as u32).rotate_left(16);
        FiveTupleKey([c, d, a, b, rest >> 32 << 32 | u64::from(ports)])
    }
}

/// The key of a host: one IP address and the VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct AddressKey([u64; 3]);

impl AddressKey {
    /// Makes the key of a host from its IP address and its VLAN (0 for none).
    #[inline]
    pub fn new(address: IpAddr, vlan: u16) -> Self {
        let [a, b] = address_words(address);
        AddressKey([a, b, last_word(address, 0, 0, vlan)])
    }
}

impl Key for AddressKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

/// The key of all packets from one IP address to another: source, destination and VLAN, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct AddressPairKey([u64; 5]);

impl AddressPairKey {
    /// Makes the key of packets from `source` to `destination` in a VLAN. Both addresses have the same IP
    /// version; the key records only the version of `source`.
    #[inline]
    pub fn new(source: IpAddr, destination: IpAddr, vlan: u16) -> Self {
        let ([a, b], [c, d]) = (address_words(source), address_words(destination));
        AddressPairKey([a, b, c, d, last_word(source, 0, 0, vlan)])
    }
}

impl Key for AddressPairKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

impl Directed for AddressPairKey {
    #[inline]
    fn reversed(&self) -> Self {
        let [a, b, c, d, rest] = self.0;
        AddressPairKey([c, d, a, b, rest])
    }
}

/// The key of an IPsec security association: destination, protocol, security parameters index (SPI; RFC
/// 4301, section 4.1) and VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct SpiKey([u64; 3]);

impl SpiKey {
    /// Makes the key of a security association; `protocol` is 50 for ESP or 51 for AH.
    #[inline]
    pub fn new(destination: IpAddr, protocol: u8, spi: u32, vlan: u16) -> Self {
        let [a, b] = address_words(destination);
        SpiKey([a, b, last_word(destination, spi, protocol, vlan)])
    }
}

impl Key for SpiKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

/// The key of the fragments of one IP packet: addresses, protocol, identification (RFC 791, section 2.3;
/// RFC 8200, section 4.5) and VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct FragmentKey([u64; 5]);

impl FragmentKey {
    /// Makes the key of a fragmented packet. Both addresses have the same IP version. For IPv6 `protocol`
    /// is 0, because only the first fragment has the upper-layer protocol and RFC 8200 does not compare it.
    #[inline]
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8, identification: u32, vlan: u16) -> Self {
        let ([a, b], [c, d]) = (address_words(source), address_words(destination));
        FragmentKey([a, b, c, d, last_word(source, identification, protocol, vlan)])
    }
}

impl Key for FragmentKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

/// The key of an IPv4 flow in one direction, in two words. It is shorter than a [`FiveTupleKey`]. A table
/// of [`MappedKey`]s is searched by it, because the words of a `MappedKey` are the words of an
/// `Ipv4FlowKey`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct Ipv4FlowKey([u64; 2]);

impl Ipv4FlowKey {
    /// A placeholder for packets without a key. All bits are set, so its space, the part that
    /// [`new`](Self::new) takes besides addresses and ports, is `u32::MAX`. Keys of flows must not have this
    /// space.
    pub const NONE: Ipv4FlowKey = Ipv4FlowKey([u64::MAX; 2]);

    /// Makes a key from source and destination, each an address and a port in host order, and from `space`.
    /// The space distinguishes flows with equal addresses and ports: it is a protocol, a VLAN, or any other
    /// number that the caller defines.
    #[inline]
    pub fn new(source: (u32, u16), destination: (u32, u16), space: u32) -> Self {
        let addresses = u64::from(source.0) | u64::from(destination.0) << 32;
        let ports = u64::from(source.1) | u64::from(destination.1) << 16;
        Ipv4FlowKey([addresses, ports | u64::from(space) << 32])
    }

    /// Returns source and destination, each an address and a port in host order.
    #[inline]
    pub fn ends(&self) -> [(u32, u16); 2] {
        let [addresses, ports] = self.0;
        [(addresses as u32, ports as u16), ((addresses >> 32) as u32, (ports >> 16) as u16)]
    }

    /// Returns the space: the number that distinguishes flows with equal addresses and ports, as passed to
    /// [`new`](Self::new).
    #[inline]
    pub fn space(&self) -> u32 {
        (self.0[1] >> 32) as u32
    }
}

impl Key for Ipv4FlowKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }

    fn addresses_and_ports(&self) -> Option<AddressesAndPorts> {
        let [(a, p), (b, q)] = self.ends();
        Some(AddressesAndPorts::V4([a, b], [p, q]))
    }
}

/// An [`Ipv4FlowKey`] with a value of 24 bytes, for example a translated flow's new addresses. With it, the
/// key is as long as a [`FiveTupleKey`], so an entry of the table still fills one cache line. A look-up of
/// the flow thus finds the value in the line that it reads anyway.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct MappedKey {
    ends: Ipv4FlowKey,
    value: [u32; 6],
}

impl MappedKey {
    /// Makes a key with a value. Equality ignores the value, so a look-up may use any value.
    #[inline]
    pub fn new(ends: Ipv4FlowKey, value: [u32; 6]) -> Self {
        MappedKey { ends, value }
    }

    /// Returns the key without its value: the addresses, the ports and the space, by which keys are compared.
    #[inline]
    pub fn ends(&self) -> Ipv4FlowKey {
        self.ends
    }

    /// Returns the value that the key carries; keys are not compared by it.
    #[inline]
    pub fn value(&self) -> &[u32; 6] {
        &self.value
    }
}

impl Key for MappedKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        self.ends.words()
    }
}

impl Valued for MappedKey {
    type Value = [u32; 6];

    #[inline(always)]
    fn value_mut(&mut self) -> &mut [u32; 6] {
        &mut self.value
    }
}

/// The key of an Ethernet host: its MAC address, with a value of 64 bits, for example the port of a switch
/// at which the host is.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct HostKey {
    address: [u64; 1],
    value: u64,
}

impl HostKey {
    /// Makes a key with a value. Equality ignores the value, so a look-up may use any value.
    #[inline]
    pub fn new(address: MacAddr, value: u64) -> Self {
        HostKey { address: [address.to_bits()], value }
    }

    /// Returns the MAC address.
    pub fn address(&self) -> MacAddr {
        let [_, _, bytes @ ..] = self.address[0].to_be_bytes();
        MacAddr(bytes)
    }

    /// Returns the value that the key carries; keys are not compared by it.
    #[inline]
    pub fn value(&self) -> u64 {
        self.value
    }
}

impl Key for HostKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.address
    }
}

impl Valued for HostKey {
    type Value = u64;

    #[inline(always)]
    fn value_mut(&mut self) -> &mut u64 {
        &mut self.value
    }
}

/// Returns the bytes of an address as two little-endian words; an IPv4 address fills the first four of the
/// 16 bytes, the others are 0.
#[inline]
fn address_words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [u64::from(u32::from_le_bytes(v4.octets())), 0],
        IpAddr::V6(v6) => {
            let all = u128::from_le_bytes(v6.octets());
            [all as u64, (all >> 64) as u64]
        }
    }
}

/// Returns the last word of a key, laid out as in a five-tuple: from the lowest bit 32 bits of `number` (0,
/// an SPI or an identification), 8 bits of protocol, 8 bits of IP version, 16 bits of VLAN.
#[inline]
fn last_word(address: IpAddr, number: u32, protocol: u8, vlan: u16) -> u64 {
    let version = if address.is_ipv4() { 4 } else { 6 };
    u64::from(number) | u64::from(protocol) << 32 | version << 40 | u64::from(vlan) << 48
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_part_counts() {
        let [a, b, c] = [1, 2, 3].map(|n| IpAddr::from(Ipv4Addr::new(10, 0, 0, n)));
        let six = IpAddr::from(Ipv6Addr::from_octets([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        let addresses = [(a, 0), (b, 0), (a, 7), (six, 0)].map(|(a, vlan)| AddressKey::new(a, vlan).0);
        assert_eq!(HashSet::from(addresses).len(), 4);
        let pairs = [(a, b, 0), (b, a, 0), (a, c, 0), (c, b, 0), (a, b, 1), (six, six, 0), (a, a, 0)];
        let pairs = pairs.map(|(a, b, vlan)| AddressPairKey::new(a, b, vlan).0);
        assert_eq!(HashSet::from(pairs).len(), 7);
        let spis = [(a, 50, 1, 0), (b, 50, 1, 0), (a, 51, 1, 0), (a, 50, 1 << 31, 0), (a, 50, 1, 1)];
        let spis = spis.map(|(a, protocol, spi, vlan)| SpiKey::new(a, protocol, spi, vlan).0);
        assert_eq!(HashSet::from(spis).len(), 5);
        let fragments =
            [(a, b, 6, 1, 0), (b, a, 6, 1, 0), (a, b, 17, 1, 0), (a, b, 6, 2, 0), (a, b, 6, 1, 9)];
        let fragments =
            fragments.map(|(a, b, protocol, id, vlan)| FragmentKey::new(a, b, protocol, id, vlan).0);
        assert_eq!(HashSet::from(fragments).len(), 5);
    }

    #[test]
    fn a_mapped_key_is_told_apart_by_all_but_its_value() {
        let key = |a, b, space, value| MappedKey::new(Ipv4FlowKey::new(a, b, space), [value; 6]);
        let all = [((1, 2), (3, 4), 5), ((9, 2), (3, 4), 5), ((1, 9), (3, 4), 5), ((1, 2), (9, 4), 5)];
        let more = [((1, 2), (3, 9), 5), ((1, 2), (3, 4), 9), ((3, 4), (1, 2), 5)];
        let words = all.iter().chain(&more).map(|&(a, b, space)| key(a, b, space, 7).ends.0);
        assert_eq!(words.collect::<HashSet<_>>().len(), 7);
        let one = key((u32::MAX, 1), (2, u16::MAX), u32::MAX, 7);
        assert_eq!(one.words(), key((u32::MAX, 1), (2, u16::MAX), u32::MAX, 8).words());
        assert_eq!((one.ends().ends(), one.ends().space()), ([(u32::MAX, 1), (2, u16::MAX)], u32::MAX));
        assert_eq!(one.value(), &[7; 6]);
    }

    proptest! {
        #[test]
        fn a_five_tuple_comes_back(four: bool, a: [u8; 16], b: [u8; 16], ports: (u16, u16), protocol: u8, vlan: u16) {
            let tuple = if four {
                let short = |all: [u8; 16]| Ipv4Addr::new(all[0], all[1], all[2], all[3]);
                FiveTuple::v4((short(a), ports.0), (short(b), ports.1), protocol)
            } else {
                FiveTuple::v6((a.into(), ports.0), (b.into(), ports.1), protocol)
            };
            let key = FiveTupleKey::new(&tuple, vlan);
            prop_assert_eq!((key.tuple(), key.vlan()), (tuple, vlan));
            prop_assert_eq!(key.reversed(), FiveTupleKey::new(&tuple.reversed(), vlan));
            let pair = AddressPairKey::new(tuple.source(), tuple.destination(), vlan);
            prop_assert_eq!(pair.reversed(), AddressPairKey::new(tuple.destination(), tuple.source(), vlan));
        }
    }
}
