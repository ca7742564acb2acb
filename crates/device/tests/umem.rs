//! Tests that the kernel accepts the packet pool as the memory of an AF_XDP socket (UMEM). The pool's slots
//! are an odd number of cache lines apart, which only unaligned chunks allow. Needs root; skipped
//! otherwise.
#![allow(unsafe_code)]

use std::io::Error;

use packet::{Pool, SLOT_STRIDE};

#[test]
fn the_pool_is_a_umem() {
    // SAFETY: the call only returns the number of the user.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: registering a UMEM needs root");
        return;
    }
    // SAFETY: plain system call without pointers.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        println!("skipped: no AF_XDP sockets here: {}", Error::last_os_error());
        return;
    }
    let mut pool = Pool::new(64 << 20).unwrap();
    let packet = pool.packet(b"in a UMEM").unwrap();
    let (start, length) = pool.slot_area();
    let umem = libc::xdp_umem_reg {
        addr: start as u64,
        len: length as u64,
        chunk_size: SLOT_STRIDE as u32,
        headroom: 0,
        flags: libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        tx_metadata_len: 0,
    };
    // SAFETY: the structure is valid for the call, and the pool's memory outlives the socket.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_XDP,
            libc::XDP_UMEM_REG,
            (&raw const umem).cast(),
            size_of_val(&umem) as libc::socklen_t,
        )
    };
    let error = Error::last_os_error();
    // SAFETY: the descriptor is ours and is not used afterwards.
    unsafe { libc::close(socket) };
    pool.free(packet);
    assert_eq!(result, 0, "the kernel refused the pool as a UMEM: {error}");
}
