//! Detects the content of a file by its first bytes.

use crate::input::Compression;

/// The content of a file, as its first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A pcap or pcapng file.
    Capture,
    /// A compressed file in a format in which captures can be read, by its name.
    Compressed(&'static str),
    /// A compressed file in another format.
    Unread {
        /// The name of the format.
        format: &'static str,
        /// The command that unpacks such a file.
        command: &'static str,
    },
}

/// Returns the content of a file that begins with these bytes. `None` for text, and for any unknown format.
pub fn content(start: &[u8]) -> Option<Content> {
    let unread = |format, command| Some(Content::Unread { format, command });
    match start {
        // Micro- and nanoseconds, and longer record headers, in either byte order; pcapng.
        [0xa1, 0xb2, 0xc3, 0xd4, ..]
        | [0xd4, 0xc3, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0x3c, 0x4d, ..]
        | [0x4d, 0x3c, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0xcd, 0x34, ..]
        | [0x34, 0xcd, 0xb2, 0xa1, ..]
        | [0x0a, 0x0d, 0x0d, 0x0a, ..] => Some(Content::Capture),
        [0xfd, b'7', b'z', b'X', ..] => unread("xz", "xz -d"),
        [b'B', b'Z', b'h', ..] => unread("bzip2", "bzip2 -d"),
        [0x04, 0x22, 0x4d, 0x18, ..] => unread("lz4", "lz4 -d"),
        [b'P', b'K', 0x03, 0x04, ..] => unread("zip", "unzip"),
        _ => {
            let start = start.get(..4).unwrap_or(start);
            Compression::detect(start).map(|compression| Content::Compressed(compression.name()))
        }
    }
}
