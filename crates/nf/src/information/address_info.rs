//! # AddressInfo
//! Gives names to addresses.
//!
//! Each argument is a name and the addresses that it stands for: IPv4 and IPv6 addresses and prefixes, and
//! Ethernet addresses. `10.0.0.1/24` is both an address and a prefix, `10.0.0.0/24` only a prefix. The name can be
//! used wherever an address can, in the compound element where it is declared and inside it, also as `name:ip`,
//! `name:net`, `name:ip6`, `name:ip6net`, `name:eth`, `name:bcast` (the broadcast address of its prefix) and
//! `name:gw` (the first address of its prefix).
//!
//! ## Usage
//! `AddressInfo(NAME ADDRESS ..., ...)`
//!
//! ## Arguments
//! - `NAME`: a name and its addresses, separated by spaces.
//!
//! ## Example
//! ```click
//! AddressInfo(gw 10.0.0.1/24 0:1:2:3:4:5);
//! InfiniteSource(LIMIT 1) -> EtherEncap(0x0800, gw, gw:eth) -> Discard
//! ```
//!
//! ## See also
//! EtherEncap

use std::net::Ipv4Addr;

use element::args::{Ipv4Prefix, Ipv6Prefix};
use element::class::{ArgInfo, Phase};
use element::names::Addresses;
use element::setup::scope_of;
use element::{Class, Effects, Element, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "AddressInfo",
    ports: "0/0",
    manual: manual!("address_info.rs"),
    args: &[ArgInfo::rest("NAME", "name address ...")],
    phase: Phase::Information,
    samples: &["", "a 10.0.0.1/24 1:2:3:4:5:6, b fe80::1/64"],
    build: |args| {
        let scope = scope_of(&args.name()).to_string();
        for text in args.rest() {
            let mut words = text.split_whitespace();
            let Some(name) = words.next() else { continue };
            let addresses: Vec<&str> = words.collect();
            if addresses.is_empty() {
                args.error("expected 'NAME [ADDRS]'");
            }
            for address in addresses {
                let known = args.setup.names.find(&scope, address, |a| Some(*a));
                let entry = args.setup.names.entry(&scope, name);
                if !define(entry, address, known) {
                    args.error(format!("'{address}' is not a recognizable address"));
                }
            }
        }
        args.finish()?;
        Ok(Box::new(AddressInfo))
    },
    ..Class::DEFAULT
};

/// Adds one address to a name, from its text or from a name that is already known, which only fills gaps.
fn define(entry: &mut Addresses, text: &str, known: Option<Addresses>) -> bool {
    // An address with a mask is a prefix, and an address too if it says more than the prefix.
    if let Ok(net) = text.parse::<Ipv4Prefix>() {
        if net.address != net.network() || net.mask == Ipv4Addr::BROADCAST {
            entry.ip = Some(net.address);
        }
        entry.net = Some(net);
    } else if let Ok(net) = text.parse::<Ipv6Prefix>() {
        let rest = net.address.to_bits().checked_shl(net.length.into()).unwrap_or(0);
        if rest != 0 || net.length == 128 {
            entry.ip6 = Some(net.address);
        }
        entry.net6 = Some(net);
    } else if let Ok(ip) = text.parse() {
        entry.ip = Some(ip);
    } else if let Ok(ip) = text.parse() {
        entry.ip6 = Some(ip);
    } else if let Ok(mac) = text.parse() {
        entry.mac = Some(mac);
    } else if let Some(known) = known {
        entry.ip = entry.ip.or(known.ip);
        entry.net = entry.net.or(known.net);
        entry.ip6 = entry.ip6.or(known.ip6);
        entry.net6 = entry.net6.or(known.net6);
        entry.mac = entry.mac.or(known.mac);
    } else {
        return false;
    }
    true
}

struct AddressInfo;

impl Element for AddressInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
