//! # AddressInfo
//! Gives names to addresses.
//!
//! Each argument is a name and its addresses: IPv4 and IPv6 addresses and prefixes, and Ethernet addresses.
//! `10.0.0.1/24` is both an address and a prefix, `10.0.0.0/24` only a prefix. The name can be used wherever
//! an address is expected, in the compound element where it is declared and inside it. `name:ip`, `name:net`,
//! `name:ip6`, `name:ip6net` and `name:eth` denote one kind of its addresses. `name:bcast` is the broadcast
//! address of its prefix, and `name:gw` the first address of its prefix.
//!
//! Names that are not declared can be the names of network interfaces: `eth0:eth`, `eth0:ip`, `eth0:gw`.
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

use element::addresses::Addresses;
use element::args::{ArgType, Ipv4Prefix, Ipv6Prefix, Scope};
use element::class::{ArgInfo, ConfigurePhase};
use element::setup::scope_of;
use element::{Class, Effects, Element, manual};
use wire::ethernet::MacAddr;

/// The element class `AddressInfo`.
pub static CLASS: Class = Class {
    name: "AddressInfo",
    ports: "0/0",
    manual: manual!("address_info.rs"),
    args: &[ArgInfo::rest("NAME", "name address ...")],
    phase: ConfigurePhase::Information,
    samples: &["", "a 10.0.0.1/24 1:2:3:4:5:6, b fe80::1/64"],
    build: |args| {
        let scope = scope_of(&args.name()).to_string();
        args.each_of_rest(|args, _, text| {
            let mut words = text.split_whitespace();
            let Some(name) = words.next() else { return };
            let addresses: Vec<&str> = words.collect();
            if addresses.is_empty() {
                args.error("expected 'NAME [ADDRS]'");
            }
            let mut seen = Addresses::default();
            for address in addresses {
                let found = meaning(address, &args.place());
                if found == Addresses::default() {
                    args.error(format!("'{address}' is not a recognizable address"));
                }
                define(args.setup.names.entry(&scope, name), &mut seen, found);
            }
        });
        args.finish()?;
        Ok(Box::new(AddressInfo))
    },
    ..Class::DEFAULT
};

/// Returns all addresses and prefixes that a text denotes: the text is an address or prefix itself, or a name
/// that was declared before.
fn meaning(text: &str, place: &Scope<'_>) -> Addresses {
    let mut found = Addresses { mac: MacAddr::parse(text, place).ok(), ..Addresses::default() };
    // A text with a mask (`10.0.0.1/24`) is a prefix. The text is also an address if the address has bits
    // outside of the mask, or if the mask covers all bits.
    match (Ipv4Addr::parse(text, place), Ipv4Prefix::parse(text, place)) {
        (Ok(ip), _) => found.ip = Some(ip),
        (Err(_), Ok(net)) => {
            let says_more = net.address != net.network() || net.mask == Ipv4Addr::BROADCAST;
            (found.ip, found.net) = (says_more.then_some(net.address), Some(net));
        }
        _ => {}
    }
    match (Ipv6Addr::parse(text, place), Ipv6Prefix::parse(text, place)) {
        (Ok(ip), _) => found.ip6 = Some(ip),
        (Err(_), Ok(net)) => {
            let rest = net.address.to_bits().checked_shl(net.length.into()).unwrap_or(0);
            let says_more = rest != 0 || net.length == 128;
            (found.ip6, found.net6) = (says_more.then_some(net.address), Some(net));
        }
        _ => {}
    }
    found
}

/// Adds the addresses `found`, which one text of an argument denotes, to a name's `entry`; `seen` has the
/// addresses that earlier texts of the same argument have added. If the text denotes one kind of address
/// (such as IPv4), this address replaces the entry's address of the same kind. If the text denotes several
/// kinds, only the kinds that are not in `seen` are set.
fn define(entry: &mut Addresses, seen: &mut Addresses, found: Addresses) {
    let Addresses { ip, net, ip6, net6, mac } = found;
    let things = [ip.is_some(), net.is_some(), ip6.is_some(), net6.is_some(), mac.is_some()];
    let one = things.iter().filter(|&&is| is).count() == 1;
    /// Puts `found`, the address of one kind (such as IPv4) in the text, into the name's entry; `one` is true
    /// if the text denotes no other kind.
    fn put<T: Copy>(entry: &mut Option<T>, seen: &mut Option<T>, found: Option<T>, one: bool) {
        if found.is_some() && (one || seen.is_none()) {
            *entry = found;
        }
        *seen = seen.or(found);
    }
    put(&mut entry.ip, &mut seen.ip, ip, one);
    put(&mut entry.net, &mut seen.net, net, one);
    put(&mut entry.ip6, &mut seen.ip6, ip6, one);
    put(&mut entry.net6, &mut seen.net6, net6, one);
    put(&mut entry.mac, &mut seen.mac, mac, one);
}

struct AddressInfo;

impl Element for AddressInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::{Args, Setup};

    /// Configures an AddressInfo with these arguments; returns the setup with the names that it has
    /// declared, and the error messages.
    fn declared(arguments: &[&str]) -> (Setup, Vec<String>) {
        let mut setup = Setup::default();
        let given = arguments.iter().map(|text| text.to_string()).collect();
        let mut args = Args::new(&mut setup, &CLASS, 0, (0, 0), true, given);
        let _ = (CLASS.build)(&mut args);
        let errors = args.into_reports().0.into_iter().map(|error| error.text).collect();
        (setup, errors)
    }

    #[test]
    fn names_may_stand_for_addresses_of_other_names() {
        let (setup, errors) =
            declared(&["a 10.0.0.1/24 1:2:3:4:5:6 fe80::1/64", "b a:ip", "c a:net", "d a", "e a:eth a:gw"]);
        assert!(errors.is_empty(), "{errors:?}");
        let names = &setup.names;
        let a: Option<Ipv4Addr> = Some([10, 0, 0, 1].into());
        assert_eq!((names.ipv4("", "b"), names.mac("", "b"), names.ipv4_prefix("", "b")), (a, None, None));
        assert_eq!(names.ipv4("", "c"), a, "the prefix has host bits");
        assert!(names.ipv4_prefix("", "c").is_some() && names.mac("", "c").is_none());
        // In the argument `d a`, the text `a` denotes the addresses of the name `a`, but not its prefixes. So
        // the name `d` gets no prefix.
        assert!(
            names.ipv4("", "d") == a && names.mac("", "d").is_some() && names.ipv4_prefix("", "d").is_none()
        );
        assert!(names.ipv6("", "d").is_some());
        assert!(names.ipv4("", "e") == a && names.mac("", "e").is_some());
    }

    #[test]
    fn one_thing_replaces_and_several_fill_gaps() {
        let (setup, errors) =
            declared(&["a 10.0.0.1 10.0.0.2", "b 10.0.0.1/24 10.0.0.2/16", "c 10.0.0.1 a x:ip"]);
        assert_eq!(errors, ["'x:ip' is not a recognizable address"]);
        let last = |name| setup.names.ipv4("", name).map(|ip| ip.octets()[3]);
        assert_eq!((last("a"), last("b"), last("c")), (Some(2), Some(1), Some(2)));
        assert_eq!(setup.names.ipv4_prefix("", "b").map(|net| net.mask.octets()[2]), Some(255));
    }

    #[test]
    fn interfaces_have_names() {
        let (setup, _) = declared(&["mine lo:ip", "lo2 10.0.0.1"]);
        // The machine may have no loopback interface.
        if let Some(ip) = setup.names.ipv4("", "lo") {
            assert!(ip.is_loopback() && setup.names.ipv4("", "mine") == Some(ip));
            assert!(setup.names.ipv4_prefix("", "lo:net").is_some_and(|net| net.contains(ip)));
            assert_eq!(setup.names.mac("", "lo"), None);
        }
        let (setup, _) = declared(&["lo 10.0.0.1"]);
        assert_eq!(setup.names.ipv4("", "lo"), Some([10, 0, 0, 1].into()), "declared names go first");
    }
}
