//! Detection of what a file contains, from its first bytes.

/// The content of a file, according to its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A pcap or pcapng file.
    Capture,
    /// A compressed file from which captures can be read; the value is the name of the compression, `gzip`
    /// or `zstd`.
    Compressed(&'static str),
    /// A compressed file that cannot be read before it is unpacked.
    Unread {
        /// The name of the compression, for example `xz`.
        format: &'static str,
        /// The command that unpacks the file, for example `xz -d`.
        command: &'static str,
    },
}

/// Returns the content of a file that begins with these bytes; four bytes are enough. `None` for text and
/// unknown formats.
pub fn content(start: &[u8]) -> Option<Content> {
    let unread = |format, command| Some(Content::Unread { format, command });
    match start {
        // pcap with microseconds, with nanoseconds and with longer record headers, each in both byte
        // orders; pcapng.
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

/// The compression of a compressed file. There is no value for plain files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    pub(crate) fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            // A zstd frame, or a skippable frame, which can come before it (RFC 8878, 3.1).
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Compression::Zstd),
            _ => None,
        }
    }
}
