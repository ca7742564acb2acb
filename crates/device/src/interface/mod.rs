//! Elements that receive from and send to network interfaces of the machine by the kernel's own means.
//!
//! - [`from_device`], [`to_device`]: frames from and to an interface, by packet sockets
//! - [`kernel_tun`], [`kernel_tap`], [`from_host`], [`to_host`]: packets from and to the machine's own
//!   network stack; `host`: their common parts; `host_interface`: the interface that FromHost shares with
//!   ToHost
//! - `incoming`: makes packets from received frames, and finishes checksums and segmentation if necessary;
//!   `large`: prepares large segments for sending
//! - `out_link`: the state of an interface to which an element sends
//! - `awaited`: the removed interfaces for which elements wait
//! - `seat`: the place of a FromDevice at its interface, which a reload passes on
//! - `claim`: keeps a second process from receiving from an interface
//! - `budget`: the limit on the number of packets per turn
//! - `steering`: the program by which the kernel chooses the worker of a packet; `cbpf` and `ebpf`: the two
//!   languages of such programs
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
mod seat;
pub(crate) mod steering;
pub(crate) mod sys;
pub mod to_device;
pub mod to_host;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use element::{Args, Severity, Timestamp};

use crate::reason;

/// The values of METHOD in Click: the ways in which Click reaches interfaces. Tidegate accepts them, but
/// has a single way of its own.
const METHODS: [&str; 5] = ["LINUX", "PCAP", "NETMAP", "DEVBPF", "PCAPFD"];

/// Registers an error for a METHOD that Click does not know, and a warning for each but LINUX, because all
/// mean the same here.
fn check_method(args: &mut Args<'_>, method: &str) {
    if !METHODS.contains(&method) {
        args.error("bad METHOD");
    } else if method != "LINUX" {
        args.warn(format!("METHOD {method} is not supported, using LINUX"));
    }
}

/// The state of an interface that existed when the element opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Up,
    Down,
    /// The interface was removed. Another interface of its name is a different interface.
    Gone,
}

impl Presence {
    /// Returns the state of the interface that had the name `device` and the index `index`. An interface
    /// that cannot be queried counts as down, so that it will be checked again.
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

    /// Returns the text by which a receiving element reports that an interface has come into this state.
    pub(crate) fn text(self, device: &str) -> String {
        match self {
            Presence::Up => "is up again".into(),
            Presence::Down => format!("is down; waiting for it (`ip link set {device} up`)"),
            Presence::Gone => "is gone".into(),
        }
    }

    /// Returns the severity of the message with [`text`](Self::text).
    pub(crate) fn severity(self) -> Severity {
        if self == Presence::Up { Severity::Note } else { Severity::Warning }
    }
}

/// The shortest time between two searches for an interface with the name of a removed interface.
pub(crate) const LOOK_AGAIN: Timestamp = Timestamp(100_000_000);

/// The argument GONE: what happens when an interface is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The element waits for another interface of the same name.
    #[default]
    Wait,
    /// The run ends with an error.
    Stop,
}

impl Gone {
    /// Reads the argument GONE, and registers an error if its value is neither `wait` nor `stop`.
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

    /// Returns the text by which an element reports that its interface was removed.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Gone::Wait => "is gone; waiting for another one of its name",
            Gone::Stop => "is gone, and the run ends (GONE stop)",
        }
    }

    /// Returns the result of closing an element whose interface is `device`; `is_gone` is true if the
    /// interface was removed.
    ///
    /// # Errors
    /// If the interface was removed, with GONE stop, so that the run counts as failed.
    pub(crate) fn end(self, device: &str, is_gone: bool) -> Result<(), String> {
        match self {
            Gone::Stop if is_gone => Err(format!("{device}: the interface was removed (GONE stop)")),
            _ => Ok(()),
        }
    }
}

/// True if this process has given up rights.
static HAS_GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Notes that this process has given up rights, so that messages advise a restart.
pub fn give_up_rights() {
    HAS_GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Returns the message that the step `step` of opening an interface failed, with advice for common errors.
pub(crate) fn cannot(device: &str, step: &str, error: &io::Error) -> String {
    let what = match error.raw_os_error() {
        _ if device.len() >= libc::IFNAMSIZ => "; names of interfaces have at most 15 letters",
        Some(libc::EINVAL) if step == "TUNSETIFF" => {
            "; there is an interface of this name of another kind, or made for another number of queues (multi_queue)"
        }
        Some(libc::EPERM | libc::EACCES) if HAS_GIVEN_UP.load(Ordering::Relaxed) => {
            "; the run has given up its rights (--sandbox, --user): restart it"
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
