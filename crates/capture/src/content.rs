//! What a file is, by its first bytes.

use crate::input::Compression;

/// What the first bytes of a file say that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A pcap or pcapng file.
    Capture,
    /// Compressed in a way that captures are read in, by the name of the format.
    Compressed(&'static str),
    /// Compressed in another way.
    Unread {
        /// The name of the format.
        format: &'static str,
        /// The command that unpacks such a file.
        command: &'static str,
    },
}

/// What a file is that begins with these bytes: `None` for text, and for all else that is not known here.
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
