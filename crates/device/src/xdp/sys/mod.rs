//! The system calls for AF_XDP (af_xdp.rst, bpf(2)): `socket` and `ring` for sockets and their rings,
//! `program` for the XDP program.
#![allow(unsafe_code)]

pub(super) mod program;
pub(super) mod ring;
pub(super) mod socket;
