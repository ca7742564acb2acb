//! The reader of captures in all supported formats.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use wire::LinkType;

use crate::buffer::Buffer;
use crate::classic::Classic;
use crate::error::{Error, ErrorKind};
use crate::input;
use crate::pcapng::Pcapng;
use crate::record::{Found, Record};

/// A reader that returns the packets of a capture one after the other.
///
/// The reader supports pcap and pcapng, plain or compressed with gzip or zstd, and detects the format by
/// the first bytes. Pcap can have microseconds or nanoseconds, either byte order, and the longer record
/// headers of magic 0xa1b2cd34. Pcapng can have several sections and interfaces.
///
/// The memory is constant: about 1 MiB, and the memory for decompression (for zstd the window, up to 100
/// MiB).
pub struct Reader {
    name: String,
    input: Buffer,
    format: Format,
    /// The number of packets that have been returned so far.
    packets: u64,
    /// True after the end of the file or an error: `next` then returns `None`.
    done: bool,
}

enum Format {
    Classic(Classic),
    Pcapng(Pcapng),
}

impl Reader {
    /// Opens a capture file, and reads its header.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is empty, has an unknown format, or has a header that is truncated or
    /// malformed. See [`ErrorKind`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_read(file, name),
            Err(error) => {
                Err(Error { name, packet: 0, offset: 0, compression: None, kind: ErrorKind::Open(error) })
            }
        }
    }

    /// Reads a capture from any stream, whose errors and warnings call it `name`.
    ///
    /// # Errors
    ///
    /// As for [`Reader::open`].
    pub fn from_read(stream: impl Read + Send + 'static, name: impl Into<String>) -> Result<Self, Error> {
        Self::from_input(Box::new(stream), name.into())
    }

    fn from_input(stream: Box<dyn Read + Send>, name: String) -> Result<Self, Error> {
        let (input, compression) = match input::decompressed(stream) {
            Ok(opened) => opened,
            Err(kind) => return Err(Error { name, packet: 0, offset: 0, compression: None, kind }),
        };
        let mut input = Buffer::new(input, compression);
        match Format::open(&mut input) {
            Ok(format) => Ok(Reader { name, input, format, packets: 0, done: false }),
            Err(kind) => Err(Error { name, packet: 0, offset: input.offset(), compression, kind }),
        }
    }

    /// Returns the next packet, or `None` at the end of the file. The packet's data are valid until the
    /// next call.
    ///
    /// # Errors
    ///
    /// At the first fault in the file, after all packets before it have been returned. Later calls return
    /// `None`.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its items")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        if self.done {
            return Ok(None);
        }
        match self.format.find(&mut self.input) {
            Ok(Some(found)) => {
                self.packets += 1;
                let position = self.input.offset();
                let record = self.input.take(found.total);
                let data =
                    record.get(found.data_offset..found.data_offset + found.captured).unwrap_or_default();
                Ok(Some(Record {
                    number: self.packets,
                    position,
                    time: found.time,
                    data,
                    // The cast is safe: `MAX_CAPTURED` fits into 32 bits. Some captures claim a wire length
                    // below the captured length.
                    wire_len: found.wire_len.max(data.len() as u32),
                    link: found.link,
                }))
            }
            Ok(None) => {
                self.done = true;
                Ok(None)
            }
            Err(kind) => Err(self.fault(kind)),
        }
    }

    /// Returns the number of bytes that have been read, up to a record or another part of the file, without
    /// compression.
    pub fn position(&self) -> u64 {
        self.input.offset()
    }

    /// Passes over all packets that begin before `position`, a number of bytes as
    /// [`position`](Self::position) returns it.
    ///
    /// # Errors
    ///
    /// As for [`Reader::next`].
    pub fn skip_to(&mut self, position: u64) -> Result<(), Error> {
        while !self.done {
            // A record that was found stays in the buffer until it is taken.
            match self.format.find(&mut self.input) {
                Ok(Some(_)) if self.input.offset() >= position => return Ok(()),
                Ok(Some(found)) => {
                    self.packets += 1;
                    self.input.take(found.total);
                }
                Ok(None) => self.done = true,
                Err(kind) => return Err(self.fault(kind)),
            }
        }
        Ok(())
    }

    /// Returns a warning if other bytes follow the compressed data of the file and have been ignored; the
    /// compressed data before them are complete. `None` for other files, and until [`next`](Self::next) has
    /// reached the end or a fault.
    pub fn warning(&self) -> Option<String> {
        let compression = self.input.compression().filter(|_| self.done && self.input.ignores_rest())?;
        Some(input::warning(&self.name, compression))
    }

    /// Returns the link type of the file; in pcapng, of its first interface. Each [`Record`] has its own
    /// link type. Ethernet if a pcapng file describes no interface before its first packet.
    pub fn link(&self) -> LinkType {
        match &self.format {
            Format::Classic(classic) => classic.link,
            Format::Pcapng(pcapng) => pcapng.first.map_or(LinkType::Ethernet, |interface| interface.link),
        }
    }

    /// True if the file is in pcapng, where each interface has a link type of its own.
    pub fn is_pcapng(&self) -> bool {
        matches!(self.format, Format::Pcapng(_))
    }

    /// True if the time stamps of the file are finer than microseconds; in pcapng, those of its first
    /// interface.
    pub fn nanoseconds(&self) -> bool {
        match &self.format {
            Format::Classic(classic) => classic.nanoseconds,
            Format::Pcapng(pcapng) => pcapng.nanoseconds(),
        }
    }

    /// Returns the largest number of bytes that were captured of a packet, according to the file; in
    /// pcapng, on its first interface. 0 means no limit. Records can be longer all the same.
    pub fn snap_length(&self) -> u32 {
        match &self.format {
            Format::Classic(classic) => classic.snap_length,
            Format::Pcapng(pcapng) => pcapng.first.map_or(0, |interface| interface.snap_length),
        }
    }

    /// Returns the name of the file, as it was given to the reader.
    pub fn name(&self) -> &str {
        &self.name
    }

    #[cold]
    fn fault(&mut self, kind: ErrorKind) -> Error {
        self.done = true;
        Error {
            name: self.name.clone(),
            packet: self.packets + 1,
            offset: self.input.offset(),
            compression: self.input.compression(),
            kind,
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.name)
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}

impl Format {
    /// Finds the next record, and leaves it in the buffer.
    #[inline]
    fn find(&mut self, input: &mut Buffer) -> Result<Option<Found>, ErrorKind> {
        match self {
            Format::Classic(classic) => classic.find(input),
            Format::Pcapng(pcapng) => pcapng.find(input),
        }
    }

    fn open(input: &mut Buffer) -> Result<Self, ErrorKind> {
        if let Some(classic) = Classic::open(input)? {
            return Ok(Format::Classic(classic));
        }
        if let Some(pcapng) = Pcapng::open(input)? {
            return Ok(Format::Pcapng(pcapng));
        }
        match input.peek(4)? {
            [] => Err(ErrorKind::Empty),
            &[a, b, c, d] => Err(ErrorKind::UnknownFormat { magic: [a, b, c, d] }),
            short => Err(ErrorKind::Truncated { need: 24, have: short.len() as u64 }),
        }
    }
}
