//! Elements on network interfaces of the machine.
//!
//! - [`from_device`], [`to_device`]: frames from and to an interface, by packet sockets
//! - [`kernel_tun`], [`kernel_tap`], [`from_host`], [`to_host`]: packets from and to the machine's own network stack
//! - `awaited`: the interfaces that elements wait for
//! - `claim`: keeps a second program from receiving from an interface
//! - `budget`: how much sources take per turn
//! - `incoming`: from the bytes that came to packets, and what was left to a device done where it must be
//! - `steering`: to which worker the kernel gives a packet; `cbpf` and `ebpf`: the languages that it is told in
//! - `sys`: the system calls

pub(crate) mod awaited;
mod budget;
mod cbpf;
pub(crate) mod claim;
mod ebpf;
pub mod from_device;
pub mod from_host;
mod host;
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

/// What has become of an interface that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Up,
    Down,
    /// Removed; another one of its name is not the same.
    Gone,
}

impl Presence {
    /// That of the interface that had this number. One that cannot be asked about now is to be looked at again.
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

    /// What whoever receives from the interface says when it is up or down.
    pub(crate) fn text(self, device: &str) -> String {
        match self {
            Presence::Up => "is up again".into(),
            Presence::Down => format!("is down; waiting for it (`ip link set {device} up`)"),
            Presence::Gone => "is gone".into(),
        }
    }

    /// The severity of this message.
    pub(crate) fn severity(self) -> Severity {
        if self == Presence::Up { Severity::Note } else { Severity::Warning }
    }
}

/// How often to look whether there is another interface of the name of one that was removed.
pub(crate) const LOOK_AGAIN: Timestamp = Timestamp(100_000_000);

/// What becomes of a run when an interface is removed: the argument GONE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It waits for another one of the same name.
    #[default]
    Wait,
    /// It ends, and fails.
    Stop,
}

impl Gone {
    /// Reads the argument.
    pub(crate) fn read(args: &mut Args<'_>) -> Gone {
        match args.get::<String>("GONE").as_deref() {
            None | Some("wait") => Gone::Wait,
            Some("stop") => Gone::Stop,
            Some(other) => {
                args.error(format!("GONE: '{other}' is neither wait nor stop"));
                Gone::Wait
            }
        }
    }

    /// The message about an interface that is gone.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Gone::Wait => "is gone; waiting for another one of its name",
            Gone::Stop => "is gone, and the run ends (GONE stop)",
        }
    }

    /// The end of an element: an error if its interface was removed and it had to stop.
    ///
    /// # Errors
    /// The interface was removed.
    pub(crate) fn end(self, device: &str, is_gone: bool) -> Result<(), String> {
        match self {
            Gone::Stop if is_gone => Err(format!("{device}: the interface was removed (GONE stop)")),
            _ => Ok(()),
        }
    }
}

/// What went wrong when an interface was opened, and what to do.
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
