//! # AnonymizeIPAddr
//! Replaces IPv4 addresses by pseudonyms that keep common prefixes.
//!
//! If two addresses have exactly their first n bits in common, so have the addresses that replace them. The
//! replacements depend on a random key. 0.0.0.0 and 255.255.255.255 are not replaced; these two, and the
//! addresses that would be replaced by them, are exceptions to the rule. The IP header checksum is updated.
//! In ICMP errors, the addresses and the checksum of the quoted IP header, and the gateway of a redirect, are
//! replaced, too, and the ICMP checksum is updated. Checksums of TCP and UDP are not updated, and addresses
//! in IP options and in payloads stay. Packets without an IPv4 header leave by output 1, or are dropped.
//!
//! ## Usage
//! `AnonymizeIPAddr([KEYWORDS])`
//!
//! ## Arguments
//! - `CLASS`: the number of leading bits in which an address keeps its class (the bits up to the first
//!   zero); 99 for all.
//! - `PRESERVE_8`: values of the first byte of addresses, separated by spaces: an address that begins with
//!   such a byte keeps this byte.
//! - `SEED`: accepted; replacements follow the seed of all random numbers.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> CheckIPHeader(14) -> AnonymizeIPAddr(CLASS 4) -> Discard
//! ```
//!
//! ## See also
//! AggregateIP

use crate::editing::aside;
use element::args::{Raw, parse_integer};
use element::class::ArgInfo;
use element::effects::{
    Action, Case, Depends, Field, Filter, HeaderKind, Predicate, Target, Value, wire_field,
};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::checksum::Delta;
use wire::{FromBytes, icmp, ip_protocol, ipv4};

/// The element class `AnonymizeIPAddr`.
pub static CLASS: Class = Class {
    name: "AnonymizeIPAddr",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("anonymize_ip_addr.rs"),
    args: &[
        ArgInfo::keyword("CLASS", "0-32", "0"),
        ArgInfo::keyword("PRESERVE_8", "bytes", ""),
        ArgInfo::keyword("SEED", "bool", "true"),
    ],
    samples: &["", "CLASS 4, PRESERVE_8 10 -> 1/2"],
    build: |args| {
        let class = match args.value::<u32>("CLASS") {
            99 => 32,
            class => class,
        };
        if class > 32 {
            args.error("CLASS must be between 0 and 32");
        }
        let Raw(list) = args.get("PRESERVE_8").unwrap_or_default();
        args.value::<bool>("SEED");
        let mut kept = Vec::new();
        for word in list.split_whitespace() {
            match parse_integer(word).ok().and_then(|byte| u8::try_from(byte).ok()) {
                Some(byte) => kept.push(byte),
                None => args.error("PRESERVE_8 expects integer between 0 and 255"),
            }
        }
        args.finish()?;
        Ok(Box::new(AnonymizeIpAddr { map: Map { class, kept, key: 0 } }))
    },
    ..Class::DEFAULT
};

/// A prefix-preserving permutation of IPv4 addresses.
struct Map {
    class: u32,
    /// The values of the first byte of addresses whose first byte stays.
    kept: Vec<u8>,
    key: u64,
}

impl Map {
    /// True if the bit after a prefix of `length` bits is inverted. Apart from the settings and the key, this
    /// depends on the prefix only, so that addresses with a common prefix keep a common prefix (Xu et al.,
    /// "Prefix-Preserving IP Address Anonymization", 2002).
    fn flips(&self, prefix: u32, length: u32) -> bool {
        let starts = |byte: u8| u32::from(byte) >> (8 - length) == prefix;
        if length < 8 && self.kept.iter().any(|&byte| starts(byte)) {
            return false;
        }
        // The bits that give the class of an address end with the first zero: up to there, the prefix has
        // only ones.
        if length < self.class && prefix == (1u32.checked_shl(length).unwrap_or(0)).wrapping_sub(1) {
            return false;
        }
        // The mixing steps of SplitMix64 (Steele, Lea, Flood, 2014).
        let mut mixed = self.key ^ (u64::from(prefix) << 8 | u64::from(length));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed.wrapping_mul(self.key | 1) >> 63) == 1
    }

    fn step(&self, address: u32) -> u32 {
        let flip = |length: u32| {
            let prefix = address.checked_shr(32 - length).unwrap_or(0);
            u32::from(self.flips(prefix, length)) << (31 - length)
        };
        (0..32).map(flip).fold(address, |mapped, flip| mapped ^ flip)
    }

    fn address(&self, address: u32) -> u32 {
        let stays = |address| address == 0 || address == u32::MAX;
        if stays(address) {
            return address;
        }
        let mut mapped = self.step(address);
        // No other address may be replaced by 0.0.0.0 or 255.255.255.255, which are not replaced themselves.
        // If the permutation gives one of the two, it is applied again to the result, so that the map stays a
        // permutation.
        while stays(mapped) {
            mapped = self.step(mapped);
        }
        mapped
    }
}

struct AnonymizeIpAddr {
    map: Map,
}

impl AnonymizeIpAddr {
    fn replace(map: &Map, packet: &mut Packet) -> Result<(), DropReason> {
        let bytes = packet.header_mut(Base::Network).ok_or(DropReason::NoHeader)?;
        let (ip, _) = ipv4::Header::mut_from_prefix(bytes).map_err(|_| DropReason::NoHeader)?;
        for field in [&mut ip.source, &mut ip.destination] {
            let (old, new) = (field.get(), map.address(field.get()));
            field.set(new);
            ip.checksum.set(Delta::u32(old, new).apply(ip.checksum.get()));
        }
        if ip.protocol == ip_protocol::ICMP && ip.fragment_offset() == 0 {
            let transport = packet.header_mut(Base::Transport).unwrap_or_default();
            let Ok((message, quoted)) = icmp::Header::mut_from_prefix(transport) else { return Ok(()) };
            if !message.is_error() {
                return Ok(());
            }
            let mut change = Delta::default();
            if message.kind == icmp::kind::REDIRECT {
                let old = u32::from(message.identifier.get()) << 16 | u32::from(message.sequence.get());
                let new = map.address(old);
                message.identifier.set((new >> 16) as u16);
                message.sequence.set(new as u16);
                change = change + Delta::u32(old, new);
            }
            if let Ok((inner, _)) = ipv4::Header::mut_from_prefix(quoted)
                && inner.header_len() >= ipv4::Header::LEN
            {
                let before = inner.checksum.get();
                for field in [&mut inner.source, &mut inner.destination] {
                    let (old, new) = (field.get(), map.address(field.get()));
                    field.set(new);
                    change = change + Delta::u32(old, new);
                    inner.checksum.set(Delta::u32(old, new).apply(inner.checksum.get()));
                }
                change = change + Delta::u16(before, inner.checksum.get());
            }
            message.checksum.set(change.apply(message.checksum.get()));
        }
        Ok(())
    }
}

impl Element for AnonymizeIpAddr {
    fn effects(&self) -> Effects {
        let transport = |offset, length| Field::Bytes { base: Base::Transport, offset, length };
        let (sum, gateway, quoted) = (transport(2, 2), transport(4, 4), transport(18, 10));
        let set = |field: Field, name| Action::Set(field.clone(), Value::Pure { name, reads: vec![field] });
        let message = vec![
            wire_field::IP_PROTOCOL,
            wire_field::IP_FRAGMENT,
            Field::HeaderOffset(Base::Transport),
            Field::Length,
            transport(0, 1),
            transport(8, 1),
            sum.clone(),
            gateway.clone(),
            quoted.clone(),
        ];
        let in_message = |field| {
            Action::Set(
                field,
                Value::Pure { name: "anonymous address in an ICMP error", reads: message.clone() },
            )
        };
        let missing = Filter::Not(Box::new(Predicate::present(HeaderKind::Ipv4)));
        let replaced = Case::new(Filter::TRUE, Target::Output(0))
            .with(set(wire_field::IP_SRC, "anonymous address"))
            .with(set(wire_field::IP_DST, "anonymous address"))
            .with(in_message(sum))
            .with(in_message(gateway))
            .with(in_message(quoted))
            .updating(&[HeaderKind::Ipv4]);
        Effects::cases(vec![aside(missing, DropReason::NoHeader), replaced]).depending_on(Depends::Random)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.map.key = cx.random().u64();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let map = &self.map;
        batch.sift(
            |packet| AnonymizeIpAddr::replace(map, packet),
            |packet, reason| cx.emit_one(1, packet, reason),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn common_prefixes_stay_as_long(key: u64, a: u32, b: u32, bits in 0u32..32) {
            let map = Map { class: 0, kept: vec![], key };
            let b = a ^ (b | 1 << 31) >> bits;
            prop_assert_eq!((map.step(a) ^ map.step(b)).leading_zeros(), (a ^ b).leading_zeros());
        }

        #[test]
        fn what_is_to_stay_stays(key: u64, rest in 1u32..1 << 24, other: u32) {
            let map = Map { class: 4, kept: vec![10, 192], key };
            prop_assert_eq!(map.address(10 << 24 | rest) >> 24, 10);
            prop_assert_eq!(map.address(192 << 24 | rest) >> 24, 192);
            prop_assert_eq!(map.step(other).leading_ones().min(4), other.leading_ones().min(4));
            prop_assert_eq!((map.address(0), map.address(u32::MAX)), (0, u32::MAX));
        }
    }

    #[test]
    fn addresses_change() {
        let map = Map { class: 0, kept: vec![], key: 0x1234_5678_9abc_def1 };
        let same = (1..1000u32).map(|i| i * 4_000_037).filter(|&a| map.address(a) == a).count();
        assert!(same < 5, "{same}");
    }
}
