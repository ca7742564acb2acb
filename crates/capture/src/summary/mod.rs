//! IP summary dumps: packets as lines of text, or binary records, of chosen fields.
//!
//! A file starts with directives, lines that begin with `!`: `!IPSummaryDump 1.3`, `!data FIELD...` and
//! others. A line that begins with `#` is a comment. Then there is a line for each packet with the values of
//! the fields, or `-` for a field that the packet does not have. After `!binary` there are records of a
//! four-byte length (with the highest bit set for a line of text) and the values of the fields, big-endian.
//!
//! | file | holds |
//! | --- | --- |
//! | `field.rs` | [`SummaryField`]: names, synonyms, widths |
//! | `describe.rs` | [`View`]: writes a packet as a line or record |
//! | `parse.rs` | [`Parser`]: makes packets from lines and records |
//! | `build.rs` | builds packets from values |
//! | `field_names.rs` | names of ICMP types and codes |
//! | `options.rs` | IP and TCP options as text |

mod build;
mod describe;
mod field;
mod field_names;
mod options;
mod parse;

use std::io::{self, BufRead, BufReader, Read};

use crate::content::Compression;
use crate::error::ErrorKind;
use crate::input;
use crate::stream::Input;

pub use build::BuiltPacket;
pub use describe::{Fault, View};
pub use field::{SummaryField, fields};
pub use parse::{FlowDefaults, Parsed, Parser};

/// Values that accompany a packet but are not part of its bytes; in Click they are annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketInfo {
    /// The time stamp of the packet, in nanoseconds since 1970.
    pub time: i64,
    /// The time stamp, in nanoseconds since 1970, of the first of the packets that this packet represents.
    /// Zero if it is not known.
    pub first_time: i64,
    /// The number of other packets that this packet represents, so that 0 means an ordinary packet.
    pub extra_packets: u32,
    /// The number of bytes that were on the wire but are not in the packet's bytes.
    pub extra_length: u32,
    /// The paint annotation, whose value the fields `link` (the number of a link) and `direction` also show
    /// and set.
    pub paint: u8,
    /// The number of the aggregate (flow or other group) to which the packet belongs.
    pub aggregate: u32,
}

/// The version of the format that is written, and the newest that is read: major, minor.
pub const VERSION: (u32, u32) = (1, 3);

/// A dump as a stream of decompressed bytes; the file may be compressed with gzip or zstd.
pub struct Dump {
    lines: BufReader<Input>,
    compression: Option<Compression>,
}

impl Dump {
    /// Opens a dump, and detects its compression. An empty file is a dump without lines.
    ///
    /// # Errors
    ///
    /// If the dump cannot be read.
    pub fn open(raw: Box<dyn Read + Send>) -> io::Result<Dump> {
        let (input, compression): (Input, _) = match input::decompressed(raw) {
            Ok(opened) => opened,
            Err(ErrorKind::Empty) => (Box::new(io::empty()), None),
            Err(ErrorKind::Read(error)) => return Err(error),
            Err(other) => return Err(io::Error::other(other.to_string())),
        };
        Ok(Dump { lines: BufReader::new(input), compression })
    }

    /// Returns a warning for file `name` if other bytes follow the compressed data and have been ignored; all
    /// lines in the compressed data have been read. `None` for other files, and before the end has been read.
    pub fn warning(&self, name: &str) -> Option<String> {
        let compression = self.compression.filter(|_| self.lines.get_ref().ignores_rest())?;
        Some(input::warning(name, compression))
    }
}

impl Read for Dump {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.lines.read(target)
    }
}

impl BufRead for Dump {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.lines.fill_buf()
    }

    fn consume(&mut self, length: usize) {
        self.lines.consume(length);
    }
}
