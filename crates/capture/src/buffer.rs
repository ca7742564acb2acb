//! The read buffer of a capture file; records are slices of it. It is filled in large reads. Before a read,
//! the few bytes that are left at its end are moved to its start.

use std::io::{self, Read};

use crate::content::Compression;
use crate::error::ErrorKind;
use crate::stream::Input;

/// The size of the buffer in bytes, which is also the size of the largest record or block that is parsed.
/// Many records fit into the buffer, and the buffer fits into a second-level cache.
pub(crate) const CAPACITY: usize = 1024 * 1024;

/// A part of the input stream in memory, which moves forward through the stream.
pub(crate) struct Buffer {
    input: Input,
    compression: Option<Compression>,
    bytes: Box<[u8]>,
    /// The bytes `bytes[start..end]` have been read, but not consumed; `start <= end <= CAPACITY`.
    start: usize,
    end: usize,
    /// The offset in the (decompressed) stream of the byte at `start`.
    offset: u64,
    /// `Ok` after the end of the input, or the error with which it failed; `None` while it can be read. The
    /// error is returned only when a caller needs more bytes than were read before the error.
    ended: Option<Result<(), ErrorKind>>,
}

impl Buffer {
    pub(crate) fn new(input: Input, compression: Option<Compression>) -> Self {
        Buffer {
            input,
            compression,
            bytes: vec![0; CAPACITY].into_boxed_slice(),
            start: 0,
            end: 0,
            offset: 0,
            ended: None,
        }
    }

    /// Returns the offset in the (decompressed) stream of the first byte that has not been consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// True if compressed data ended and other bytes followed, which are ignored.
    pub(crate) fn ignores_rest(&self) -> bool {
        self.input.ignores_rest()
    }

    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Returns the next `length` bytes (at most [`CAPACITY`]) without consuming them, or fewer if the
    /// stream ends before.
    ///
    /// # Errors
    ///
    /// If the input fails before `length` bytes have been read. The error is returned once; after it, the
    /// stream counts as ended.
    #[inline]
    pub(crate) fn peek(&mut self, length: usize) -> Result<&[u8], ErrorKind> {
        if self.end - self.start < length {
            self.fill(length)?;
        }
        let end = self.end.min(self.start.saturating_add(length));
        Ok(self.bytes.get(self.start..end).unwrap_or_default())
    }

    /// Consumes the next `length` bytes and returns them. Only bytes that are already in the buffer are
    /// consumed, so the caller has to call [`peek`](Self::peek) for these bytes before.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> &[u8] {
        let start = self.start;
        self.start = self.end.min(start.saturating_add(length));
        self.offset += (self.start - start) as u64;
        self.bytes.get(start..self.start).unwrap_or_default()
    }

    /// Consumes `length` bytes, which may be more than the capacity, and returns the number of bytes
    /// consumed. If the stream ends before, fewer bytes are consumed, and [`offset`](Self::offset) stays at
    /// the first skipped byte, so that errors name the start of the block that is cut.
    ///
    /// # Errors
    ///
    /// If the input fails before `length` bytes have been read.
    pub(crate) fn skip(&mut self, length: u64) -> Result<u64, ErrorKind> {
        let position = self.offset;
        let mut skipped = 0;
        while skipped < length {
            let available = self.peek(1).map(<[u8]>::len);
            if !matches!(available, Ok(1)) {
                self.offset = position;
                return available.map(|_| skipped);
            }
            let step = usize::try_from(length - skipped).unwrap_or(CAPACITY);
            skipped += self.take(step).len() as u64;
        }
        Ok(skipped)
    }

    /// Reads until the buffer has `length` bytes (at most the capacity) or the input ends. Fails if the
    /// input fails before.
    #[cold]
    fn fill(&mut self, length: usize) -> Result<(), ErrorKind> {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < length.min(CAPACITY) && self.ended.is_none() {
            let free = self.bytes.get_mut(self.end..).unwrap_or_default();
            match self.input.read(free) {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = Some(Err(match self.compression {
                        None => ErrorKind::Read(error),
                        Some(compression) => ErrorKind::Decompress { format: compression.name(), error },
                    }));
                }
            }
        }
        if self.end < length && matches!(self.ended, Some(Err(_))) {
            return self.ended.replace(Ok(())).unwrap_or(Ok(()));
        }
        Ok(())
    }
}
