//! Names that configurations give to addresses (AddressInfo), visible in the compound that declares them and
//! in everything inside it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ethernet::MacAddr;

/// What one name stands for; a name may have an address of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// An IPv4 address and the length of its prefix, if one was given.
    pub ip: Option<(Ipv4Addr, Option<u8>)>,
    /// An IPv6 address and the length of its prefix, if one was given.
    pub ip6: Option<(Ipv6Addr, Option<u8>)>,
    /// An Ethernet address.
    pub mac: Option<MacAddr>,
}

/// All names of a graph.
#[derive(Clone, Debug, Default)]
pub struct Names {
    addresses: BTreeMap<String, Addresses>,
}

impl Names {
    /// The entry of `name` in the compound `scope` (empty, or ending in a slash), made if it is new.
    pub fn entry(&mut self, scope: &str, name: &str) -> &mut Addresses {
        self.addresses.entry(format!("{scope}{name}")).or_default()
    }

    /// What `name` stands for in the compound `scope`: the innermost declaration that has what `pick` wants.
    pub fn find<T>(&self, scope: &str, name: &str, pick: impl Fn(&Addresses) -> Option<T>) -> Option<T> {
        let mut scope = scope;
        loop {
            if let Some(found) = self.addresses.get(&format!("{scope}{name}")).and_then(&pick) {
                return Some(found);
            }
            if scope.is_empty() {
                return None;
            }
            let inner = scope.trim_end_matches('/');
            scope = inner.rfind('/').map_or("", |slash| &inner[..=slash]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_hide_outer_ones() {
        let mut names = Names::default();
        names.entry("", "gw").ip = Some((Ipv4Addr::new(1, 0, 0, 1), None));
        names.entry("a/", "gw").ip = Some((Ipv4Addr::new(2, 0, 0, 1), None));
        names.entry("a/", "gw").mac = None;
        let ip = |scope| names.find(scope, "gw", |a| a.ip).map(|(ip, _)| ip.octets()[0]);
        assert_eq!((ip(""), ip("a/"), ip("a/b/"), ip("c/")), (Some(1), Some(2), Some(2), Some(1)));
        assert!(names.find("a/", "gw", |a| a.mac).is_none());
    }
}
