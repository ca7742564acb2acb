//! A record of a capture in two forms: as the reader returns it, and as the parser of a file format finds it.

use wire::LinkType;

/// A packet of a capture, with its data borrowed from the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number of the packet in the file, counted from 1.
    pub number: u64,
    /// The number of bytes before the record, in the file as it is without compression.
    pub position: u64,
    /// The time stamp in nanoseconds since 1970-01-01 00:00 UTC. It is as in the file, so that it may be
    /// earlier than the time stamp of the packet before. 0 if the packet has no time stamp (simple packet
    /// blocks of pcapng).
    pub time: i64,
    /// The captured bytes: the start of the packet, at most [`crate::MAX_CAPTURED`] bytes.
    pub data: &'a [u8],
    /// The number of bytes that the packet had on the wire; never less than the number of captured bytes.
    pub wire_len: u32,
    /// The type of the header with which the data start.
    pub link: LinkType,
}

/// A record that the parser of a file format has found at the start of the read buffer, with its header
/// parsed.
pub(crate) struct Found {
    pub(crate) time: i64,
    pub(crate) wire_len: u32,
    pub(crate) link: LinkType,
    /// The number of bytes from the start of the record to the data.
    pub(crate) data_offset: usize,
    /// The number of captured bytes; `data_offset + captured <= total`.
    pub(crate) captured: usize,
    /// The size of the record or block in bytes, up to the next one. All of it is in the buffer.
    pub(crate) total: usize,
}
