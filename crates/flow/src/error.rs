//! Errors of flow tables. Each text says what the user can do.

use std::fmt;

/// The largest capacity of a table, in flows.
pub const MAX_CAPACITY: usize = 1 << 30;

/// The error of creating a flow table.
#[derive(Debug)]
pub enum TableError {
    /// The requested capacity, which is 0 or above [`MAX_CAPACITY`], or was requested for too many cores
    /// ([`CoreStates::new`](crate::CoreStates::new)).
    Capacity(usize),
    /// The kernel refused to reserve the memory.
    Refused {
        /// The requested number of flows.
        capacity: usize,
        /// The error that the kernel returned.
        source: std::io::Error,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Capacity(asked) => {
                write!(f, "a flow table of {asked} entries is not possible; ask for 1 to {MAX_CAPACITY}")
            }
            TableError::Refused { capacity, source } => {
                write!(f, "cannot reserve memory for {capacity} flows: {source}; try a smaller table")
            }
        }
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TableError::Capacity(_) => None,
            TableError::Refused { source, .. } => Some(source),
        }
    }
}

/// The reason for which a flow was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The table holds as many flows as its capacity allows; ids of removed flows that are still held count
    /// too. Also if [`CoreStates`](crate::CoreStates) get no memory for another flow.
    Full,
    /// The bucket of the flow's hash and its overflow chain are full: too many flows have nearly the same
    /// hash.
    Crowded,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InsertError::Full => "the flow table is full; expire flows sooner or give it a larger capacity",
            InsertError::Crowded => {
                "too many flows share one bucket; their hashes are not spread, use another seed"
            }
        })
    }
}

impl std::error::Error for InsertError {}
