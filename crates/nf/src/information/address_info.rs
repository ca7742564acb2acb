//! # AddressInfo
//! Gives names to addresses.
//!
//! Each argument is a name and the addresses that it stands for: IPv4 and IPv6 addresses and prefixes, and
//! Ethernet addresses. The name can be used wherever an address can, in the compound element where it is
//! declared and inside it, also as `name:ip`, `name:net`, `name:ip6` and `name:eth`.
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

use std::net::{Ipv4Addr, Ipv6Addr};

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

/// Adds one address to a name, from its text or from a name that is already known.
fn define(entry: &mut Addresses, text: &str, known: Option<Addresses>) -> bool {
    let (plain, length) = match text.split_once('/') {
        Some((plain, length)) => match length.parse::<u8>() {
            Ok(length) => (plain, Some(length)),
            Err(_) => return false,
        },
        None => (text, None),
    };
    if let Ok(ip) = plain.parse::<Ipv4Addr>() {
        entry.ip = Some((ip, length));
        length.is_none_or(|n| n <= 32)
    } else if let Ok(ip) = plain.parse::<Ipv6Addr>() {
        entry.ip6 = Some((ip, length));
        length.is_none_or(|n| n <= 128)
    } else if let Ok(mac) = text.parse() {
        entry.mac = Some(mac);
        true
    } else if let Some(known) = known {
        entry.ip = entry.ip.or(known.ip);
        entry.ip6 = entry.ip6.or(known.ip6);
        entry.mac = entry.mac.or(known.mac);
        true
    } else {
        false
    }
}

struct AddressInfo;

impl Element for AddressInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
