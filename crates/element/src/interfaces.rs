//! The addresses of the machine's network interfaces. An argument that expects an IPv4 or Ethernet address
//! may name an interface, if the configuration does not declare such an address under the name.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use nix::ifaddrs::getifaddrs;
use wire::ethernet::MacAddr;

use crate::addresses::Addresses;
use crate::args::Ipv4Prefix;

/// The hardware type of Ethernet (ARPHRD_ETHER, netdevice(7)).
const ETHERNET: u16 = 1;
/// The file with the routes of the machine (proc(5)).
const ROUTES: &str = "/proc/net/route";

/// The names of the machine's interfaces, with their IPv4 and Ethernet addresses, read at the first use. If
/// an interface has several addresses of a kind, only the first is used.
static INTERFACES: LazyLock<Vec<(String, Addresses)>> = LazyLock::new(read);

fn read() -> Vec<(String, Addresses)> {
    let mut interfaces: Vec<(String, Addresses)> = Vec::new();
    for entry in getifaddrs().into_iter().flatten() {
        let place = interfaces.iter().position(|(name, _)| *name == entry.interface_name);
        let place = place.unwrap_or_else(|| {
            interfaces.push((entry.interface_name.clone(), Addresses::default()));
            interfaces.len() - 1
        });
        let known = &mut interfaces[place].1;
        let Some(address) = entry.address else { continue };
        if let Some(ip) = address.as_sockaddr_in().map(|address| address.ip()) {
            known.ip = known.ip.or(Some(ip));
            let mask = entry.netmask.as_ref().and_then(|mask| mask.as_sockaddr_in()).map(|mask| mask.ip());
            known.net = known.net.or(mask.map(|mask| Ipv4Prefix { address: ip, mask }));
        } else if let Some(link) = address.as_link_addr().filter(|link| link.hatype() == ETHERNET) {
            known.mac = known.mac.or(link.addr().map(MacAddr));
        }
    }
    interfaces
}

/// Returns the addresses of the interface `name`; `None` if there is none.
pub(crate) fn find(name: &str) -> Option<&'static Addresses> {
    INTERFACES.iter().find(|(known, _)| known == name).map(|(_, addresses)| addresses)
}

/// Returns the gateway of the default route over the interface `name`; `None` if there is no such route or
/// interface.
pub(crate) fn gateway(name: &str) -> Option<Ipv4Addr> {
    find(name)?;
    gateway_in(&std::fs::read_to_string(ROUTES).ok()?, name)
}

/// Finds the gateway of an interface's default route in the text of `/proc/net/route`. Each line has
/// interface, destination, gateway, flags, three counts and mask; numbers are hexadecimal, in the machine's
/// byte order.
fn gateway_in(routes: &str, name: &str) -> Option<Ipv4Addr> {
    routes.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, "00000000", gateway, _, _, _, _, "00000000", ..] = words[..] else { return None };
        let gateway = u32::from_str_radix(gateway, 16).ok().filter(|&gateway| gateway != 0)?;
        (interface == name).then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_ethernet_address() {
        // The check is skipped on machines without a loopback interface.
        if let Some(Addresses { ip: Some(ip), net: Some(net), mac, .. }) = find("lo") {
            assert!(ip.is_loopback() && net.contains(*ip) && mac.is_none());
        }
        assert!(find("no such interface").is_none());
    }

    #[test]
    fn the_gateway_is_that_of_the_default_route() {
        let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask\n\
                      eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
                      eth1 00000000 00000000 0001 0 0 0 00000000 0 0 0\n\
                      eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n";
        let expected = u32::from_str_radix("010200C0", 16).map(|n| Ipv4Addr::from(n.to_ne_bytes()));
        assert_eq!(gateway_in(routes, "eth0"), expected.ok());
        assert_eq!((gateway_in(routes, "eth1"), gateway_in(routes, "eth2")), (None, None));
    }
}
