//! Reads and sets properties of network interfaces by ioctl (netdevice(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, ifreq};
use wire::ethernet::MacAddr;

use super::checked;

const ETHTOOL_GLINK: u32 = 0x0a;

/// Creates a request about the interface with this name.
///
/// # Errors
/// `ENODEV` if no interface can have this name.
pub(super) fn request(name: &str) -> io::Result<ifreq> {
    // SAFETY: the structure is plain data, for which all zeros are a valid value.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '\0']) {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    Ok(request)
}

/// Returns the name of the interface that a request contains.
pub(super) fn name(request: &ifreq) -> String {
    let bytes = request.ifr_name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// Executes a request; the kernel writes its answer into the request.
pub(super) fn ioctl(file: BorrowedFd<'_>, what: u64, request: &mut ifreq) -> io::Result<()> {
    // SAFETY: every request for which this function is called takes an `ifreq`, which lives through the call,
    // as does the memory that it points to.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), what as _, &raw mut *request) };
    checked(result).map(drop)
}

/// Opens a socket for requests. The kernel takes them by a socket of any family. A Unix socket can be made
/// in a sandbox, too, in which no others can.
fn socket() -> io::Result<OwnedFd> {
    super::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)
}

fn ask(name: &str, what: u64) -> io::Result<ifreq> {
    let socket = socket()?;
    let mut request = request(name)?;
    ioctl(socket.as_fd(), what, &mut request)?;
    Ok(request)
}

fn tell(request: &mut ifreq, what: u64) -> io::Result<()> {
    ioctl(socket()?.as_fd(), what, request)
}

/// Returns the index of the interface with this name.
pub(crate) fn index(name: &str) -> io::Result<c_int> {
    let answer = ask(name, libc::SIOCGIFINDEX)?;
    // SAFETY: the kernel has written this member of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_ifindex })
}

/// Returns the name of the interface that has this index.
pub(crate) fn name_of(index: c_int) -> io::Result<String> {
    let socket = socket()?;
    // SAFETY: the structure is plain data, for which all zeros are a valid value.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = index;
    ioctl(socket.as_fd(), libc::SIOCGIFNAME, &mut request)?;
    Ok(name(&request))
}

/// Returns the MTU: the length in bytes of the longest packet that the interface carries, without link
/// header.
pub(crate) fn mtu(name: &str) -> io::Result<usize> {
    let answer = ask(name, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel has written this member of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu }.max(0) as usize)
}

/// Returns the interface's type of hardware (ARPHRD_*), such as ARPHRD_ETHER.
pub(crate) fn hardware(name: &str) -> io::Result<u16> {
    let answer = ask(name, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel has written this member of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_hwaddr.sa_family })
}

fn flags(name: &str) -> io::Result<c_int> {
    let answer = ask(name, libc::SIOCGIFFLAGS)?;
    // SAFETY: the kernel has written this member of the union.
    Ok(c_int::from(unsafe { answer.ifr_ifru.ifru_flags }))
}

/// True if the interface has been brought up, whether or not it has a carrier.
pub(crate) fn is_up(name: &str) -> io::Result<bool> {
    Ok(flags(name)? & libc::IFF_UP != 0)
}

/// True if the interface is up and connected to another end at this moment. (The flag IFF_RUNNING may be a
/// second late.)
///
/// # Errors
/// If the driver does not know, or there is no such interface.
pub(crate) fn has_carrier(name: &str) -> io::Result<bool> {
    // The words of `struct ethtool_value` (`linux/ethtool.h`): command and answer.
    let mut value = [ETHTOOL_GLINK, 0u32];
    ethtool(name, &mut value)?;
    Ok(value[1] != 0)
}

/// Executes a request of `linux/ethtool.h` about an interface. `words` holds the request's structure, into
/// which the kernel writes its answer.
pub(super) fn ethtool(name: &str, words: &mut [u32]) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // The kernel writes at most the words that the structure declares. The words live through the call.
    tell(&mut request, libc::SIOCETHTOOL)
}

/// Returns the number of send queues in use.
///
/// # Errors
/// If the driver does not report the number.
pub(crate) fn send_queues(name: &str) -> io::Result<u32> {
    channels(name).map(|channels| channels.send + channels.combined)
}

/// Returns the number of receive queues in use.
///
/// # Errors
/// If the driver does not report the number.
pub(crate) fn receive_queues(name: &str) -> io::Result<u32> {
    channels(name).map(|channels| channels.receive + channels.combined)
}

fn channels(name: &str) -> io::Result<Channels> {
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // The kernel writes the structure that the request points to, which lives through the call.
    tell(&mut request, libc::SIOCETHTOOL)?;
    Ok(channels)
}

/// The command ETHTOOL_GCHANNELS of `linux/ethtool.h`, which returns the largest and the present numbers of
/// queues.
const GET_CHANNELS: u32 = 0x3c;

#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// Sets the interface flags (IFF_*) in `on`, and clears the flags in `off`.
pub(crate) fn set_flags(name: &str, on: c_int, off: c_int) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = ((flags(name)? | on) & !off) as libc::c_short;
    tell(&mut request, libc::SIOCSIFFLAGS)
}

/// Sets the MTU of an interface: the length in bytes of its longest packet, without link header.
pub(crate) fn set_mtu(name: &str, mtu: c_int) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = mtu;
    tell(&mut request, libc::SIOCSIFMTU)
}

/// Sets the Ethernet address of an interface.
pub(crate) fn set_mac(name: &str, address: MacAddr) -> io::Result<()> {
    let mut request = request(name)?;
    let mut raw = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
    for (to, byte) in raw.sa_data.iter_mut().zip(address.0) {
        *to = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = raw;
    tell(&mut request, libc::SIOCSIFHWADDR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_names_and_numbers() {
        assert_eq!(name_of(index("lo").unwrap()).unwrap(), "lo");
        assert!(has_carrier("no-such-device").is_err());
        assert_eq!(name_of(0).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn names_that_no_interface_can_have_are_no_devices() {
        for name in ["", "a/b", "sixteen letters!", "no-such-device"] {
            assert_eq!(index(name).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }
}
