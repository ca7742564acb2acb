//! Packet sockets that share the packets of an interface, and other settings of theirs (packet(7)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, packet_mreq, sock_filter, sock_fprog, tpacket_stats_v3};

use super::{checked, option, set_option};

/// How packets are spread over the sockets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// By a hash of addresses and ports; fragments by addresses alone, because putting them together first would leave
    /// packets that no interface takes.
    Hash,
    /// By bits of the TCP checksum.
    Spray,
}

/// Joins the group of this process's element; sockets of other processes are in others.
pub(crate) fn join(socket: BorrowedFd<'_>, element: usize, spread: Spread) -> io::Result<()> {
    // 16 bits for a group that the kernel knows by number only: neighbouring processes must not meet.
    let group = (std::process::id().wrapping_mul(251).wrapping_add(element as u32)) as u16;
    let kind = match spread {
        Spread::Hash => libc::PACKET_FANOUT_HASH,
        Spread::Spray => libc::PACKET_FANOUT_CBPF,
    };
    let value = (u32::from(group) | kind << 16) as c_int;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &value)?;
    if spread == Spread::Spray { attach(socket, &SPRAY) } else { Ok(()) }
}

const fn step(code: u32, if_true: u8, if_false: u8, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: if_true, jf: if_false, k: value }
}

/// The lower byte of the TCP checksum, of IPv4 and IPv6 without extension headers; packets start with the IP header. The
/// kernel takes the remainder by the number of sockets.
static SPRAY: [sock_filter; 8] = [
    step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 0),
    step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf0),
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 2, 0x60),
    step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 40 + 17),
    step(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
    step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, 0, 0, 17),
    step(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
];

/// Gives a group the program that chooses.
fn attach(socket: BorrowedFd<'_>, program: &'static [sock_filter]) -> io::Result<()> {
    let program = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let length = size_of::<sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel copies the program, which is static, and does not write to it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_FANOUT_DATA,
            (&raw const program).cast(),
            length,
        )
    };
    checked(result).map(drop)
}

/// Receives what is for every group, and in promiscuous mode for every host; ends with the socket.
pub(crate) fn join_groups(socket: BorrowedFd<'_>, index: c_int, promiscuous: bool) -> io::Result<()> {
    let kind = if promiscuous { libc::PACKET_MR_PROMISC } else { libc::PACKET_MR_ALLMULTI };
    let request = packet_mreq { mr_ifindex: index, mr_type: kind as u16, mr_alen: 0, mr_address: [0; 8] };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Packets for which there was no room since the last time.
pub(crate) fn drops(socket: BorrowedFd<'_>) -> u32 {
    option::<tpacket_stats_v3>(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS).map_or(0, |s| s.tp_drops)
}
