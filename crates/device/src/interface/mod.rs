//! Elements on network interfaces of the machine.
//!
//! - [`from_device`], [`to_device`]: frames from and to an interface, by packet sockets
//! - [`kernel_tun`], [`kernel_tap`], [`from_host`], [`to_host`]: packets from and to the machine's own
//!   network stack
//! - `awaited`: the interfaces that elements wait for
//! - `claim`: keeps a second program from receiving from an interface
//! - `budget`: the limit of sources per turn
//! - `incoming`: makes packets from received bytes, and does the work that was left to a device if it has
//!   to be done
//! - `steering`: the choice of the worker for a packet by the kernel; `cbpf` and `ebpf`: the languages of
//!   its programs
//! - `sys`: the system calls

pub(crate) mod awaited;
mod budget;
mod cbpf;
pub(crate) mod claim;
mod ebpf;
pub mod from_device;
pub mod from_host;
mod host;
mod host_interface;
mod incoming;
pub mod kernel_tap;
pub mod kernel_tun;
mod large;
pub(crate) mod out_link;
pub(crate) mod steering;
pub(crate) mod sys;
pub mod to_device;
pub mod to_host;

use std::io;

use element::{Args, Severity, Timestamp};

use crate::reason;

/// The methods by which Click can reach interfaces. Tidegate has its own method, which is equivalent to
/// none of them.
const METHODS: [&str; 5] = ["LINUX", "PCAP", "NETMAP", "DEVBPF", "PCAPFD"];

/// Reports a METHOD that is none of Click's values, or that means the same as another.
fn check_method(args: &mut Args<'_>, method: &str) {
    if !METHODS.contains(&method) {
        args.error("bad METHOD");
    } else if method != "LINUX" {
        args.warn(format!("METHOD {method} is not supported, using LINUX"));
    }
}

/// The state of an interface that existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Up,
    Down,
    /// Removed; another interface of its name is a different interface.
    Gone,
}

impl Presence {
    /// Returns the state of the interface that had this index. An interface that cannot be queried now
    /// counts as down, so that it is checked again.
    pub(crate) fn of(device: &str, index: libc::c_int) -> Presence {
        match sys::link::index(device) {
            Ok(now) if now == index => match sys::link::is_up(device) {
                Ok(true) => Presence::Up,
                _ => Presence::Down,
            },
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => Presence::Down,
            _ => Presence::Gone,
        }
    }

    /// Returns the message of a receiving element about an interface that is up or down.
    pub(crate) fn text(self, device: &str) -> String {
        match self {
            Presence::Up => "is up again".into(),
            Presence::Down => format!("is down; waiting for it (`ip link set {device} up`)"),
            Presence::Gone => "is gone".into(),
        }
    }

    /// Returns the severity of this message.
    pub(crate) fn severity(self) -> Severity {
        if self == Presence::Up { Severity::Note } else { Severity::Warning }
    }
}

/// The interval between looks for another interface of the name of a removed interface.
pub(crate) const LOOK_AGAIN: Timestamp = Timestamp(100_000_000);

/// The reaction of a run to the removal of an interface: the argument GONE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The run waits for another interface of the same name.
    #[default]
    Wait,
    /// The run ends, and fails.
    Stop,
}

impl Gone {
    /// Reads the argument.
    pub(crate) fn read(args: &mut Args<'_>) -> Gone {
        match args.value::<String>("GONE").as_str() {
            "wait" => Gone::Wait,
            "stop" => Gone::Stop,
            other => {
                args.error(format!("GONE: '{other}' is neither wait nor stop"));
                Gone::Wait
            }
        }
    }

    /// Returns the message about an interface that is gone.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Gone::Wait => "is gone; waiting for another one of its name",
            Gone::Stop => "is gone, and the run ends (GONE stop)",
        }
    }

    /// Returns the result of an element's end: an error if its interface was removed and the run had to
    /// stop.
    ///
    /// # Errors
    /// If the interface was removed.
    pub(crate) fn end(self, device: &str, is_gone: bool) -> Result<(), String> {
        match self {
            Gone::Stop if is_gone => Err(format!("{device}: the interface was removed (GONE stop)")),
            _ => Ok(()),
        }
    }
}

/// Returns the message for an error when an interface was opened, with advice.
pub(crate) fn cannot(device: &str, step: &str, error: &io::Error) -> String {
    let what = match error.raw_os_error() {
        _ if device.len() >= libc::IFNAMSIZ => "; names of interfaces have at most 15 letters",
        Some(libc::EINVAL) if step == "TUNSETIFF" => {
            "; there is an interface of this name of another kind, or made for another number of queues (multi_queue)"
        }
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
