//! DPDK itself, through a small file of C (`shim.c`).
#![allow(unsafe_code)]

pub(super) mod memory;
pub(super) mod port;
pub(super) mod start;
