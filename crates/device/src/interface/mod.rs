//! Elements on network interfaces of the machine.
//!
//! - [`from_device`], [`to_device`]: frames from and to an interface, by packet sockets
//! - [`kernel_tun`], [`kernel_tap`], [`from_host`], [`to_host`]: packets from and to the machine's own network stack
//! - [`incoming`]: from the bytes that came to packets, and what was left to a device done where it must be
//! - [`sys`]: the system calls

pub mod from_device;
pub mod from_host;
mod host;
mod incoming;
pub mod kernel_tap;
pub mod kernel_tun;
pub(crate) mod sys;
pub mod to_device;
pub mod to_host;

use std::io;

use element::Args;

use crate::reason;

/// Ways to reach interfaces that Click knows. We have one, which is none of the others.
const METHODS: [&str; 5] = ["LINUX", "PCAP", "NETMAP", "DEVBPF", "PCAPFD"];

/// Reads METHOD, or an older name for it, which may be any that Click knows.
fn read_method(args: &mut Args<'_>, name: &'static str) -> Option<String> {
    let method: String = args.get(name)?;
    if !METHODS.contains(&method.as_str()) {
        args.error("bad METHOD");
    } else if method != "LINUX" {
        args.warn(format!("METHOD {method} is not there, using LINUX"));
    }
    Some(method)
}

/// What went wrong when an interface was opened, and what to do.
pub(crate) fn cannot(device: &str, step: &str, error: &io::Error) -> String {
    let what = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; this needs root, or the capabilities CAP_NET_RAW and CAP_NET_ADMIN"
        }
        Some(libc::ENODEV | libc::ENXIO) => "; `ip link` shows which interfaces there are",
        Some(libc::ENOMEM) => "; there is not enough memory for it, or `ulimit -l` does not allow it",
        Some(libc::ENOPROTOOPT | libc::EAFNOSUPPORT) => "; the kernel has been built without it",
        Some(libc::EBUSY) => "; another program has it, or it is of another kind",
        _ => "",
    };
    format!("{device}: {step}: {}{what}", reason(error))
}
