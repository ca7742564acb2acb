//! The rights of the caller of a handler.

use crate::files::Files;

/// The rights of the caller of a write handler. They belong to the call, even if an element keeps the call
/// for later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The place where the caller may have files written.
    pub files: Files,
    /// The origin of the call's value.
    pub origin: Origin,
}

/// The origin of a call's value, which decides if the value is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The configuration, or the user who started the program.
    #[default]
    Configuration,
    /// A client on this machine that the permissions of a Unix socket's file allow.
    UnixClient,
    /// Any other origin: a client of another socket, or a value that a script has composed at run time.
    Anybody,
}
