//! The interface to DPDK. A small C file, `shim.c`, wraps DPDK's functions, many of which are inline
//! functions in C.
#![allow(unsafe_code)]

pub(super) mod memory;
pub(super) mod port;
pub(super) mod start;
