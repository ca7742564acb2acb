//! Names that configurations give to addresses, ports and annotations (AddressInfo, PortInfo,
//! AnnotationInfo). A name is visible in the compound element that declares it and in everything inside that
//! compound.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ethernet::MacAddr;

use crate::addresses::Addresses;
use crate::args::{Ipv4Prefix, Ipv6Prefix};
use crate::interfaces;

/// All names of a graph.
#[derive(Clone, Debug, Default)]
pub struct Names {
    addresses: BTreeMap<String, Addresses>,
    /// The port of each name, by name and IP protocol.
    ports: BTreeMap<(String, u8), u16>,
    /// The offset and the size in bytes of each name's annotation; the size is 0 for any size.
    annotations: BTreeMap<String, (usize, usize)>,
}

/// Returns the compound `scope` and the compounds around it, the innermost first, up to the whole
/// configuration (empty). A compound is its name with a slash at the end, such as `a/b/`.
fn scopes(scope: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(scope), |scope| {
        let inner = scope.strip_suffix('/')?;
        Some(inner.rfind('/').map_or("", |slash| &inner[..=slash]))
    })
}

impl Names {
    /// Returns the addresses of `name` as declared in the compound `scope` (empty, or with a slash at the
    /// end), to change them. A new name has no addresses.
    pub fn entry(&mut self, scope: &str, name: &str) -> &mut Addresses {
        self.addresses.entry(format!("{scope}{name}")).or_default()
    }

    /// Returns what `pick` selects of the addresses of `name`, as seen from the compound `scope`. Of several
    /// declarations of the name it takes the innermost for which `pick` returns a value.
    pub fn find<T>(&self, scope: &str, name: &str, pick: impl Fn(&Addresses) -> Option<T>) -> Option<T> {
        scopes(scope).find_map(|scope| self.addresses.get(&format!("{scope}{name}")).and_then(&pick))
    }

    /// Gives a port of an IP protocol the name `name` in the compound `scope`.
    pub fn set_port(&mut self, scope: &str, name: &str, protocol: u8, port: u16) {
        self.ports.insert((format!("{scope}{name}"), protocol), port);
    }

    /// Returns the port of an IP protocol that `name` means, as seen from the compound `scope`. Of
    /// several declarations it takes the innermost.
    pub fn port(&self, scope: &str, name: &str, protocol: u8) -> Option<u16> {
        scopes(scope).find_map(|scope| self.ports.get(&(format!("{scope}{name}"), protocol)).copied())
    }

    /// Gives the annotation at the offset `offset` the name `name` in the compound `scope`. `size` is its
    /// size in bytes, or 0 for any size.
    pub fn set_annotation(&mut self, scope: &str, name: &str, offset: usize, size: usize) {
        self.annotations.insert(format!("{scope}{name}"), (offset, size));
    }

    /// Returns offset and size of the annotation that `name` means, as seen from the compound `scope`. Of
    /// several declarations it takes the innermost. The size is 0 for any size.
    pub fn annotation(&self, scope: &str, name: &str) -> Option<(usize, usize)> {
        scopes(scope).find_map(|scope| self.annotations.get(&format!("{scope}{name}")).copied())
    }

    /// Returns what `pick` selects of the addresses of `name`, like [`find`](Self::find). If no declaration
    /// has such an address, it selects from the addresses of the network interface with this name.
    fn find_or_interface<T>(
        &self,
        scope: &str,
        name: &str,
        pick: impl Fn(&Addresses) -> Option<T>,
    ) -> Option<T> {
        self.find(scope, name, &pick).or_else(|| interfaces::find(name).and_then(pick))
    }

    /// Returns the IPv4 address that `text` means in the compound `scope`:
    ///
    /// - `name`, `name:ip` or `name:ip4`: the address of the name.
    /// - `name:bcast`: the broadcast address of its prefix.
    /// - `name:gw`: its gateway. It is the address that is declared under the name `name:gw`, otherwise the
    ///   first address of the declared prefix. If the name is an interface, it is the gateway of the
    ///   interface's default route, otherwise the first address of the interface's prefix.
    pub fn ipv4(&self, scope: &str, text: &str) -> Option<Ipv4Addr> {
        let first = |net: Ipv4Prefix| Ipv4Addr::from_bits(net.network().to_bits() | 1);
        match suffix(text) {
            (name, "" | "ip" | "ip4") => self.find_or_interface(scope, name, |a| a.ip),
            (name, "bcast") => self.find_or_interface(scope, name, |a| a.net).map(|net| net.broadcast()),
            (name, "gw") => self
                .find(scope, text, |a| a.ip)
                .or_else(|| self.find(scope, name, |a| a.net).map(first))
                .or_else(|| interfaces::gateway(name))
                .or_else(|| interfaces::find(name).and_then(|a| a.net).map(first)),
            _ => None,
        }
    }

    /// Returns the IPv4 prefix that `text` means: `name`, `name:net`, `name:ipnet` or `name:ip4net`.
    pub fn ipv4_prefix(&self, scope: &str, text: &str) -> Option<Ipv4Prefix> {
        match suffix(text) {
            (name, "" | "net" | "ipnet" | "ip4net") => self.find_or_interface(scope, name, |a| a.net),
            _ => None,
        }
    }

    /// Returns the IPv6 address that `text` means: `name` or `name:ip6`.
    pub fn ipv6(&self, scope: &str, text: &str) -> Option<Ipv6Addr> {
        match suffix(text) {
            (name, "" | "ip6") => self.find(scope, name, |a| a.ip6),
            _ => None,
        }
    }

    /// Returns the IPv6 prefix that `text` means: `name` or `name:ip6net`.
    pub fn ipv6_prefix(&self, scope: &str, text: &str) -> Option<Ipv6Prefix> {
        match suffix(text) {
            (name, "" | "ip6net") => self.find(scope, name, |a| a.net6),
            _ => None,
        }
    }

    /// Returns the name in a text such as `eth0:eth`, which is a name and a kind of address, whether or not
    /// the name is known.
    pub fn name_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (name, kind) = suffix(text);
        (!kind.is_empty() && !name.is_empty()).then_some(name)
    }

    /// Returns the Ethernet address that `text` means: `name`, `name:eth`, `name:ether` or
    /// `name:ethernet`.
    pub fn mac(&self, scope: &str, text: &str) -> Option<MacAddr> {
        match suffix(text) {
            (name, "" | "eth" | "ether" | "ethernet") => self.find_or_interface(scope, name, |a| a.mac),
            _ => None,
        }
    }
}

/// Splits a text such as `name:ip` into the name and the kind of address, in lower case. If the part after
/// the last colon is no kind of address, the whole text is the name and the kind is empty.
fn suffix(text: &str) -> (&str, &'static str) {
    const KINDS: [&str; 12] =
        ["ip", "ip4", "bcast", "gw", "net", "ipnet", "ip4net", "ip6", "ip6net", "eth", "ether", "ethernet"];
    let Some((name, kind)) = text.rsplit_once(':') else { return (text, "") };
    match KINDS.iter().find(|known| known.eq_ignore_ascii_case(kind)) {
        Some(known) => (name, known),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_hide_outer_ones() {
        let mut names = Names::default();
        names.entry("", "gw").ip = Some(Ipv4Addr::new(1, 0, 0, 1));
        names.entry("a/", "gw").ip = Some(Ipv4Addr::new(2, 0, 0, 1));
        names.entry("a/", "gw").mac = None;
        let ip = |scope| names.ipv4(scope, "gw").map(|ip| ip.octets()[0]);
        assert_eq!((ip(""), ip("a/"), ip("a/b/"), ip("c/")), (Some(1), Some(2), Some(2), Some(1)));
        assert!(names.mac("a/", "gw").is_none());
    }

    #[test]
    fn suffixes_choose() {
        let mut names = Names::default();
        let entry = names.entry("", "x");
        entry.ip = Some(Ipv4Addr::new(10, 1, 2, 3));
        entry.net = "10.1.2.3/16".parse().ok();
        let ip = |text| names.ipv4("", text).map(|ip| ip.to_string());
        assert_eq!(ip("x:IP"), Some("10.1.2.3".into()));
        assert_eq!(ip("x:bcast"), Some("10.1.255.255".into()));
        assert_eq!(ip("x:gw"), Some("10.1.0.1".into()));
        assert_eq!((ip("x:eth"), ip("x:foo")), (None, None));
        assert!(names.ipv4_prefix("", "x:Ip4Net").is_some() && names.ipv6("", "x").is_none());
        names.entry("", "x:gw").ip = Some(Ipv4Addr::new(10, 1, 9, 9));
        assert_eq!(names.ipv4("", "x:gw"), Some(Ipv4Addr::new(10, 1, 9, 9)));
    }
}
