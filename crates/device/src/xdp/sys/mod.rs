//! System calls for AF_XDP (af_xdp.rst, bpf(2)) over libc.
#![allow(unsafe_code)]

pub(super) mod program;
pub(super) mod ring;
pub(super) mod socket;
