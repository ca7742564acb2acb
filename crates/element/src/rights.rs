//! What whoever calls a handler may have done.

use crate::files::Files;

/// What whoever calls a write handler may have done. It goes with the call, also with one that an element keeps for
/// later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The place where it may have files written.
    pub files: Files,
    /// Where the value of the call comes from.
    pub origin: Origin,
}

/// Where the value of a call comes from, and so how far it is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The configuration, or whoever has started the program.
    #[default]
    Configuration,
    /// A client on this machine, which the rights of a Unix socket's file have let in.
    UnixClient,
    /// Anybody: a client of another socket, or what a script has put together at run time.
    Anybody,
}
