//! Errors of capture files: the file, the packet and byte offset, the fault, and what the user can do.

use std::fmt;
use std::io;

use crate::MAX_CAPTURED;
use crate::content::{Compression, Content, content};

/// An error in a capture file: the file, the packet, the offset, and the kind of error.
#[derive(Debug)]
pub struct Error {
    pub(crate) name: String,
    /// The number of the packet that could not be read, counted from 1; 0 while the file header is read.
    pub(crate) packet: u64,
    pub(crate) offset: u64,
    pub(crate) compression: Option<Compression>,
    pub(crate) kind: ErrorKind,
}

impl Error {
    /// Returns the name of the file, as it was given to the reader.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the packet that could not be read, counted from 1. `None` if the file could not
    /// be opened, or the error is in the file header.
    pub fn packet(&self) -> Option<u64> {
        (self.packet > 0).then_some(self.packet)
    }

    /// Returns the offset of the record, block or file header that could not be read, in bytes from the start
    /// of the file. In a compressed file, it counts decompressed bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the kind of the error, with its details.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        // Errors of these kinds concern the whole file, so that no packet is named. The texts of most of them
        // are Click's.
        if matches!(
            self.kind,
            ErrorKind::Open(_) | ErrorKind::Folder | ErrorKind::Empty | ErrorKind::UnknownFormat { .. }
        ) {
            return write!(f, "{}", self.kind);
        }
        match self.packet {
            0 => f.write_str("file header")?,
            packet => write!(f, "packet {packet}")?,
        }
        write!(f, ", byte {}", self.offset)?;
        if self.compression.is_some() {
            f.write_str(" of the decompressed data")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Open(error) | ErrorKind::Read(error) | ErrorKind::Decompress { error, .. } => {
                Some(error)
            }
            _ => None,
        }
    }
}

/// The kind of an error in a capture file. Its text says what is wrong and, except for `Open` and `Empty`,
/// what the user can do, or that the packets ahead of the fault are intact.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file cannot be opened, for the reason that the operating system gives.
    Open(io::Error),
    /// The file is a folder; a capture was expected.
    Folder,
    /// The operating system reports an error while reading.
    Read(io::Error),
    /// Compressed data are damaged or end early.
    Decompress {
        /// The compression: `gzip` or `zstd`.
        format: &'static str,
        /// The error of the decompressor, or of reading its input.
        error: io::Error,
    },
    /// The file is empty.
    Empty,
    /// The file starts with a magic number of no known format.
    UnknownFormat {
        /// The first four bytes of the file.
        magic: [u8; 4],
    },
    /// The file has a version of its format that does not exist.
    Version {
        /// The major version in the file header.
        major: u16,
        /// The minor version in the file header.
        minor: u16,
    },
    /// The file ends in the middle of a header, record or block.
    Truncated {
        /// The number of bytes that the header, record or block needs.
        need: u64,
        /// The number of bytes from the start of the header, record or block to the end of the file.
        have: u64,
    },
    /// A pcap record or pcapng packet claims more captured bytes than the limit, [`MAX_CAPTURED`].
    TooLong {
        /// The number of captured bytes that the record claims.
        captured: u32,
    },
    /// A pcapng block is malformed: its lengths contradict each other, it is too long or too short, its
    /// byte-order magic is wrong, or it describes too many interfaces.
    Block {
        /// The type number of the block.
        kind: u32,
        /// The total length in bytes, from the block's header.
        length: u32,
        /// The fault, as a phrase in English.
        what: &'static str,
    },
    /// A pcapng packet refers to an interface that the section has not described.
    Interface {
        /// The number of the interface to which the packet refers, counted from 0.
        id: u32,
        /// The number of interfaces that the section has described so far.
        known: usize,
    },
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Open(error) => {
                // The message of the operating system, as other programs print it: without the number that
                // Rust adds.
                let text = error.to_string();
                f.write_str(text.split(" (os error").next().unwrap_or_default())
            }
            ErrorKind::Read(error) => write!(f, "cannot be read: {error}; check disk, pipe or mount"),
            ErrorKind::Decompress { format, error } => {
                write!(
                    f,
                    "the {format} data are damaged or end early: {error}; copy the file again from its source"
                )
            }
            ErrorKind::Empty => f.write_str("empty file"),
            ErrorKind::Folder => f.write_str("this is a folder; name a capture"),
            ErrorKind::UnknownFormat { magic }
                if let Some(Content::Unread { format, command }) = content(magic) =>
            {
                write!(f, "compressed with {format}, which is not read; unpack it first: {command} FILE")
            }
            ErrorKind::UnknownFormat { magic: [a, b, c, d] } => write!(
                f,
                "not a tcpdump file (bad magic number {a:02x} {b:02x} {c:02x} {d:02x}), nor a pcapng file; convert \
                 it first, e.g. with editcap -F pcap"
            ),
            ErrorKind::Version { major, minor } => write!(
                f,
                "format version {major}.{minor} does not exist; the file is damaged, or convert it with \
                 editcap -F pcap"
            ),
            ErrorKind::Truncated { need, have } => write!(
                f,
                "the file ends here, {need} bytes are needed and {have} are there; the capture was cut off, \
                 everything before is intact"
            ),
            ErrorKind::TooLong { captured } => write!(
                f,
                "the record claims {captured} captured bytes, the limit is {MAX_CAPTURED}; the file is damaged here, \
                 everything before is intact"
            ),
            ErrorKind::Block { kind, length, what } => write!(
                f,
                "pcapng block of type {kind:#x} and length {length}: {what}; the file is damaged here, everything \
                 before is intact"
            ),
            ErrorKind::Interface { id, known } => write!(
                f,
                "the packet belongs to interface {id}, but the file has described {known} so far; repair it \
                 with editcap"
            ),
        }
    }
}
