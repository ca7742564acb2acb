//! Sets addresses and routes of interfaces by ioctl (netdevice(7)), the older interface that rtnetlink(7)
//! has replaced.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use libc::{in6_addr, rtentry, sockaddr, sockaddr_in};

use super::link::{index, ioctl, request};
use super::{checked, socket};

/// Returns an IPv4 address, without a port, as `sockaddr` in a request to the kernel.
fn raw(address: Ipv4Addr) -> sockaddr {
    let octets = address.octets().map(|byte| byte as libc::c_char);
    let mut data = [0; 14];
    // The address follows the two bytes of the port.
    data[2..6].copy_from_slice(&octets);
    sockaddr { sa_family: libc::AF_INET as u16, sa_data: data }
}

/// Sets the IPv4 address and the network mask of an interface. On an error, returns the name of the step
/// that failed and the reason.
pub(crate) fn set(name: &str, address: Ipv4Addr, mask: Ipv4Addr) -> Result<(), (&'static str, io::Error)> {
    let tell = |what: u64, step: &'static str, address: Ipv4Addr| -> Result<(), (&'static str, io::Error)> {
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map_err(|error| ("socket", error))?;
        let mut request = request(name).map_err(|error| (step, error))?;
        request.ifr_ifru.ifru_addr = raw(address);
        ioctl(socket.as_fd(), what, &mut request).map_err(|error| (step, error))
    };
    tell(libc::SIOCSIFADDR, "SIOCSIFADDR", address)?;
    tell(libc::SIOCSIFNETMASK, "SIOCSIFNETMASK", mask)
}

/// The structure `in6_ifreq`: a request to set an IPv6 address.
#[repr(C)]
struct Request6 {
    address: in6_addr,
    prefix: u32,
    index: libc::c_int,
}

/// Adds an IPv6 address to an interface; `prefix` is the length of its network's prefix in bits.
pub(crate) fn set6(name: &str, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
    let socket = socket(libc::AF_INET6, libc::SOCK_DGRAM, 0)?;
    let address = in6_addr { s6_addr: address.octets() };
    let request = Request6 { address, prefix: prefix.into(), index: index(name)? };
    // SAFETY: on an IPv6 socket, this request takes an `in6_ifreq`, which lives through the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR as _, &raw const request) };
    checked(result).map(drop)
}

/// Adds a default route by a gateway to the machine's routes. The kernel removes the route with the interface
/// by which the gateway is reached.
pub(crate) fn set_default_route(gateway: Ipv4Addr) -> io::Result<()> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: the structure is plain data and one pointer, for which all zeros are a valid value.
    let mut route: rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = raw(Ipv4Addr::UNSPECIFIED);
    route.rt_genmask = raw(Ipv4Addr::UNSPECIFIED);
    route.rt_gateway = raw(gateway);
    route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
    // SAFETY: the structure lives through the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT as _, &raw const route) };
    checked(result).map(drop)
}

const _: () = assert!(size_of::<sockaddr>() == size_of::<sockaddr_in>());
