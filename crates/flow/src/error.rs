//! Errors of tables, with advice for the user.

use std::fmt;

/// The largest table, in entries.
pub const MAX_CAPACITY: usize = 1 << 30;

/// The error of making a table.
#[derive(Debug)]
pub enum TableError {
    /// The capacity is 0 or above [`MAX_CAPACITY`].
    Capacity(usize),
    /// The system refused the memory.
    Refused {
        /// The requested number of entries.
        capacity: usize,
        /// The system's reason.
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

/// The error of inserting a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// All ids that the capacity allows are in use.
    Full,
    /// Too many flows have nearly the same hash.
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
