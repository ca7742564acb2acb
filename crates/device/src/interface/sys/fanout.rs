//! Packet sockets that share the packets of an interface, and other settings of packet sockets (packet(7)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;

use libc::{c_int, packet_mreq, sock_filter, sock_fprog, tpacket_stats_v3};

use super::{checked, option, set_option};

/// A group of sockets.
#[derive(Debug, Default)]
pub(crate) struct Group(Mutex<Joined>);

#[derive(Debug, Default)]
struct Joined {
    /// The number of the group, which the kernel chooses: a number of our choice could belong to another
    /// program, even to a program that this process cannot see. The upper 16 bits are the kind of the group.
    group: Option<u32>,
    /// The workers whose sockets have joined, in this order; the kernel adds the sockets again in this
    /// order when the interface has been down.
    workers: Vec<usize>,
    /// The index of the sockets' interface.
    index: c_int,
}

impl Group {
    /// Adds a worker's socket at the interface with this index. If the index differs from the last
    /// interface's index, the last interface has been removed, and a new group is created. The program for
    /// the workers that have joined chooses the worker of a packet. Packets that the machine itself sends
    /// reach the group only with `outbound`; the group has this setting, not its sockets.
    pub(crate) fn join(
        &self,
        socket: BorrowedFd<'_>,
        (worker, index): (usize, c_int),
        outbound: bool,
        program: impl Fn(&[usize]) -> Vec<sock_filter>,
    ) -> io::Result<()> {
        let kind = libc::PACKET_FANOUT_CBPF;
        let join = |value: u32| {
            set_option::<c_int>(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &(value as c_int))
        };
        let mut joined = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if joined.index != index {
            *joined = Joined { index, ..Joined::default() };
        }
        match joined.group {
            Some(group) => join(group)?,
            None => {
                let quiet = kind | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
                let kind = match outbound {
                    false if join((quiet | UNIQUE) << 16).is_ok() => quiet,
                    // Or the kernel is older than that flag.
                    _ => join((kind | UNIQUE) << 16).map(|()| kind)?,
                };
                let number = option::<u32>(socket, libc::SOL_PACKET, libc::PACKET_FANOUT)? as u16;
                joined.group = Some(u32::from(number) | kind << 16);
            }
        }
        joined.workers.push(worker);
        attach(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &program(&joined.workers))
    }
}

/// Prevents the kernel from copying packets that the machine itself sends into a socket. Kernels before
/// 4.20 cannot; the reader has to check as well.
pub(crate) fn ignore_outgoing(socket: BorrowedFd<'_>) {
    let _ = set_option::<c_int>(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
}

/// Blocks all packets at a socket until the filter is removed.
pub(crate) fn shut(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &NOTHING)
}

/// Removes the filter of [`shut`].
pub(crate) fn unshut(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option::<c_int>(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// A bit of the kind of a group: the kernel is to choose an unused number.
const UNIQUE: u32 = 0x2000;

/// A program that keeps no byte of any packet.
static NOTHING: [sock_filter; 1] =
    [sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];

/// Attaches a program whose result is the number of bytes of each packet that a socket gets.
#[cfg(test)]
pub(crate) fn filter(socket: BorrowedFd<'_>, program: &[sock_filter]) -> io::Result<()> {
    attach(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// Attaches a program to a socket.
fn attach(socket: BorrowedFd<'_>, level: c_int, name: c_int, program: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let length = size_of::<sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel copies the program, which lives through the call, and does not write to it.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const program).cast(), length) };
    checked(result).map(drop)
}

/// Receives packets for all multicast groups, and in promiscuous mode for all hosts, until the socket is
/// closed.
pub(crate) fn join_groups(socket: BorrowedFd<'_>, index: c_int, promiscuous: bool) -> io::Result<()> {
    let kind = if promiscuous { libc::PACKET_MR_PROMISC } else { libc::PACKET_MR_ALLMULTI };
    let request = packet_mreq { mr_ifindex: index, mr_type: kind as u16, mr_alen: 0, mr_address: [0; 8] };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Returns the kernel's counts at a socket since the last call: packets that have arrived, and packets
/// among them for which there was no room.
pub(crate) fn counts(socket: BorrowedFd<'_>) -> (u32, u32) {
    let counts = option::<tpacket_stats_v3>(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
    counts.map_or((0, 0), |counts| (counts.tp_packets, counts.tp_drops))
}
