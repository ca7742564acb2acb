//! Fanout groups, by which packet sockets share the packets of an interface, and other settings of packet
//! sockets (packet(7)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;

use libc::{c_int, packet_mreq, sock_filter, sock_fprog, tpacket_stats_v3};

use super::{checked, option, set_option};

/// A fanout group: the kernel gives each packet of an interface to one socket of the group, which a program
/// chooses.
#[derive(Debug, Default)]
pub(crate) struct Group(Mutex<Joined>);

#[derive(Debug, Default)]
struct Joined {
    /// The number of the group, and in the upper 16 bits the group's type and flags. The kernel chooses the
    /// number: a number of our choice could belong to another program, even to one that this process cannot
    /// see.
    group: Option<u32>,
    /// The workers whose sockets have joined, in this order. After the interface was down, the kernel adds
    /// the sockets again in the same order.
    workers: Vec<usize>,
    /// The index of the interface to which the group's sockets are bound.
    index: c_int,
}

impl Group {
    /// Adds a worker's socket, which is bound to the interface with this index, to the group. The first
    /// socket creates the group; so does the first socket at an interface with another index, because the
    /// last interface was removed. `program` makes the program that chooses a socket, from the workers that
    /// have joined in order. Without `outbound`, packets that the machine itself sends do not reach the
    /// group, unless the kernel is too old for this setting of the group.
    ///
    /// # Errors
    /// If the kernel refuses the group or the program.
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
                    // The type without the flag that ignores outgoing packets, if outgoing packets are wanted
                    // or the kernel is too old for the flag.
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

/// Keeps packets that the machine itself sends out of a socket. Kernels before 4.20 cannot do this, so a
/// reader has to check each packet as well.
pub(crate) fn ignore_outgoing(socket: BorrowedFd<'_>) {
    let _ = set_option::<c_int>(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
}

/// Blocks all packets at a socket by a filter, until [`unshut`].
pub(crate) fn shut(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &NOTHING)
}

/// Removes the filter of [`shut`], so that the socket gets packets.
pub(crate) fn unshut(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option::<c_int>(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// A flag of a group's type: the kernel is to choose a number for the group that is not in use.
const UNIQUE: u32 = 0x2000;

/// A socket filter that keeps no byte of any packet, so that the socket gets none.
static NOTHING: [sock_filter; 1] =
    [sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];

/// Attaches a socket filter: a program whose result is the number of bytes of each packet that the socket
/// gets.
#[cfg(test)]
pub(crate) fn filter(socket: BorrowedFd<'_>, program: &[sock_filter]) -> io::Result<()> {
    attach(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// Attaches a BPF program to a socket by the socket option `name` of the given level.
fn attach(socket: BorrowedFd<'_>, level: c_int, name: c_int, program: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let length = size_of::<sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel copies the program, which lives through the call, and does not write to it.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const program).cast(), length) };
    checked(result).map(drop)
}

/// Puts an interface into all-multicast mode or, if `promiscuous`, into promiscuous mode, until the socket is
/// closed.
pub(crate) fn join_groups(socket: BorrowedFd<'_>, index: c_int, promiscuous: bool) -> io::Result<()> {
    let kind = if promiscuous { libc::PACKET_MR_PROMISC } else { libc::PACKET_MR_ALLMULTI };
    let request = packet_mreq { mr_ifindex: index, mr_type: kind as u16, mr_alen: 0, mr_address: [0; 8] };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Returns the kernel's counts at a socket since the last call: the number of packets that have arrived,
/// and the number among them that were lost because the ring was full.
pub(crate) fn counts(socket: BorrowedFd<'_>) -> (u32, u32) {
    let counts = option::<tpacket_stats_v3>(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS);
    counts.map_or((0, 0), |counts| (counts.tp_packets, counts.tp_drops))
}
