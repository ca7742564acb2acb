//! The rights with which a write handler is called.

use crate::files::FileScope;

/// The rights with which a write handler is called. They are part of the call, so they also hold if an
/// element keeps the call and makes it later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The part of the file system in which the handler may create files for the caller.
    pub files: FileScope,
    /// The origin of the value that the call writes.
    pub origin: CallOrigin,
}

/// The origin of the value that a call writes. It decides whether the handler may trust the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallOrigin {
    /// The configuration, or the user who started the program.
    #[default]
    Configuration,
    /// A client on this machine that the permissions of a Unix socket's file allow.
    UnixClient,
    /// An origin that is not trusted: a client of another socket, or a script that has composed the value at
    /// run time.
    Anybody,
}
