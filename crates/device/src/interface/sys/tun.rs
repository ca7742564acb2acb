//! Queues of TUN and TAP interfaces (tuntap.rst). Such an interface is a network interface of the kernel at
//! one end, and a file at the other end.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_uint};
use packet::VirtioNet;

use super::link::{ioctl, name, request};
use super::{VIRTIO, checked, virtio_bytes};

/// The offloads that are requested. The kernel may leave checksums and the segmentation of TCP over IPv4 and
/// IPv6 (also with ECN) to Tidegate (`OFFLOADS`), and the segmentation of UDP (`UDP_OFFLOADS`).
const OFFLOADS: c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const UDP_OFFLOADS: c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// An open queue of a TUN or TAP interface.
pub(crate) struct Tun {
    file: OwnedFd,
    /// The interface's name, possibly chosen by the kernel.
    pub(crate) name: String,
}

impl Tun {
    /// Creates an interface, or attaches a queue to an interface that exists. If `wanted` is empty, the
    /// kernel chooses the name. `tap` selects TAP, whose packets have Ethernet headers, in place of TUN. With
    /// `queues`, the interface can have several queues. The kernel removes the interface when its last queue
    /// is closed, unless another program has made it persistent. On an error, returns the name of the step
    /// that failed and the reason.
    pub(crate) fn open(wanted: &str, tap: bool, queues: bool) -> Result<Tun, (&'static str, io::Error)> {
        let step = |what: &'static str| move |error| (what, error);
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: the path ends with a zero byte; the descriptor that comes back has no other owner.
        let file = unsafe {
            let fd = checked(libc::open(c"/dev/net/tun".as_ptr(), flags)).map_err(step("/dev/net/tun"))?;
            OwnedFd::from_raw_fd(fd)
        };
        let mut request = match wanted {
            "" => request("tun%d").map(|mut request| {
                request.ifr_name[1] = if tap { b'a' } else { b'u' } as libc::c_char;
                request.ifr_name[2] = if tap { b'p' } else { b'n' } as libc::c_char;
                request
            }),
            name => request(name),
        }
        .map_err(step("TUNSETIFF"))?;
        let mut flags = libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        flags |= if tap { libc::IFF_TAP } else { libc::IFF_TUN };
        if queues {
            flags |= libc::IFF_MULTI_QUEUE;
        }
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        ioctl(file.as_fd(), libc::TUNSETIFF, &mut request).map_err(step("TUNSETIFF"))?;
        let tun = Tun { file, name: name(&request) };
        // Segmentation of UDP is a recent feature of the kernel. Without it, the kernel cuts large
        // datagrams itself.
        tun.set_offloads(OFFLOADS | UDP_OFFLOADS)
            .or_else(|_| tun.set_offloads(OFFLOADS))
            .map_err(step("TUNSETOFFLOAD"))?;
        Ok(tun)
    }

    fn set_offloads(&self, offloads: c_uint) -> io::Result<()> {
        // SAFETY: the request's argument is a number, not a pointer.
        let result = unsafe {
            libc::ioctl(self.file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads))
        };
        checked(result).map(drop)
    }

    /// True if the interface has not been deleted, even if it has been moved to another namespace.
    pub(crate) fn is_attached(&self) -> bool {
        name_of_file(self.file.as_raw_fd()).is_some()
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Reads a packet, preceded by its virtio-net header, into `to`. Returns the number of bytes.
    pub(crate) fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most `to.len()` bytes.
        let n = unsafe { libc::read(self.file.as_raw_fd(), to.as_mut_ptr().cast(), to.len()) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
    }

    /// Writes a packet, whose bytes are in several memory areas, to the interface. Its virtio-net header
    /// precedes it.
    pub(crate) fn write<'a>(
        &self,
        virtio: &VirtioNet,
        chunks: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        let header = virtio_bytes(virtio);
        let mut pieces = [IoSlice::new(&[]); MOST_PIECES];
        pieces[0] = IoSlice::new(&header);
        let mut used = 1;
        for chunk in chunks {
            // This does not happen: a packet of the largest size has fewer memory areas. An error is better
            // than sending a part of a packet.
            let piece = pieces.get_mut(used).ok_or_else(|| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
            *piece = IoSlice::new(chunk);
            used += 1;
        }
        // SAFETY: `IoSlice` has the layout of `iovec`, and the slices live through the call.
        let n = unsafe { libc::writev(self.file.as_raw_fd(), pieces.as_ptr().cast(), used as c_int) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// The file descriptors in this process that belong to a TUN or TAP interface and were opened by other code
/// (a DPDK driver).
#[cfg(feature = "dpdk")]
#[derive(Debug)]
pub(crate) struct Attached(Vec<c_int>);

#[cfg(feature = "dpdk")]
impl Attached {
    /// Finds the file descriptors in this process that belong to the interface with this name.
    pub(crate) fn to(name: &str) -> Attached {
        let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let of_tun =
            files.filter(|file| std::fs::read_link(file.path()).is_ok_and(|path| path.ends_with("net/tun")));
        let numbers = of_tun.filter_map(|file| file.file_name().to_str()?.parse().ok());
        Attached(numbers.filter(|&file| name_of_file(file).is_some_and(|other| other == name)).collect())
    }

    /// True if the process had file descriptors of the interface and the interface was deleted; false if the
    /// interface has only been moved to another namespace.
    pub(crate) fn is_gone(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|&file| name_of_file(file).is_none())
    }
}

fn name_of_file(file: c_int) -> Option<String> {
    // SAFETY: the structure is plain data, for which all zeros are a valid value.
    let mut answer: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes an `ifreq`, which lives through the call; the kernel refuses a descriptor
    // that is no TUN or TAP file.
    let result = unsafe { libc::ioctl(file, libc::TUNGETIFF as _, &raw mut answer) };
    (result == 0).then(|| name(&answer))
}

/// The largest number of memory areas of a packet with its virtio-net header.
const MOST_PIECES: usize = packet::MAX_PACKET.div_ceil(packet::SLOT_CAPACITY) + 2;

const _: () = assert!(MOST_PIECES < 1024 && VIRTIO == 10);
