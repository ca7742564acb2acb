//! The network interface of this machine that a port uses, by which a removal of the port is noticed.

use std::sync::OnceLock;

use super::sys::port;
use crate::interface::sys::link;
use crate::interface::sys::tun::Attached;

/// The network interface of this machine that a port uses. Some drivers do not report that it was removed.
pub(super) enum End {
    /// The port uses no interface. Only its driver can report a removal.
    None,
    /// An interface that exists independently of the driver, by its index in the kernel.
    Interface(i32),
    /// A TAP interface that the driver has created. The interface is watched by the driver's file
    /// descriptors, because it may have been moved to another namespace. The descriptors are looked up when
    /// the port has been started.
    Tap(OnceLock<Attached>),
}

impl End {
    pub(super) fn of(info: &port::Info) -> End {
        match info.interface {
            _ if info.driver == "net_tap" => End::Tap(OnceLock::new()),
            Some(index) => End::Interface(index),
            None => End::None,
        }
    }

    /// Looks up the file descriptors of a TAP interface, once the port has been started and the driver has
    /// opened them.
    pub(super) fn settle(&self, info: &port::Info) {
        if let (End::Tap(files), Some(index)) = (self, info.interface)
            && let Ok(name) = link::name_of(index)
        {
            files.get_or_init(|| Attached::to(&name));
        }
    }

    /// True if the interface was removed. False if no interface has to be watched.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            End::None => false,
            End::Interface(index) => {
                link::name_of(*index).is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
            }
            End::Tap(files) => files.get().is_some_and(Attached::is_gone),
        }
    }
}
