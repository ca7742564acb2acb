//! The buffer that records are slices of. It reads in large pieces, and copies only the rest that is left
//! at the end of the buffer before a read.

use std::io::{self, Read};

use crate::error::ErrorKind;
use crate::input::{Compression, Input};

/// The size of the buffer in bytes, and so of the largest record or block. Many records fit into it, and it
/// fits into a second-level cache.
pub(crate) const CAPACITY: usize = 1024 * 1024;

/// A window on the stream that moves forward.
pub(crate) struct Buffer {
    input: Input,
    compression: Option<Compression>,
    bytes: Box<[u8]>,
    /// The bytes `bytes[start..end]` have been read and not consumed; `start <= end <= CAPACITY`.
    start: usize,
    end: usize,
    /// The offset of `start` in the stream.
    offset: u64,
    /// The end of the input, or the error with which it failed, which is reported when more bytes are
    /// needed.
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

    /// Returns the offset in the stream of the first byte that has not been consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// True if the input has ended before other bytes, which are ignored.
    pub(crate) fn ignores_rest(&self) -> bool {
        self.input.ignores_rest()
    }

    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Returns the next `length` bytes, or fewer if the stream ends before.
    ///
    /// # Errors
    /// If the input fails before `length` bytes have been read. The bytes that were read are then lost.
    #[inline]
    pub(crate) fn peek(&mut self, length: usize) -> Result<&[u8], ErrorKind> {
        if self.end - self.start < length {
            self.fill(length)?;
        }
        let end = self.end.min(self.start.saturating_add(length));
        Ok(self.bytes.get(self.start..end).unwrap_or_default())
    }

    /// Consumes up to `length` bytes that have been peeked at, and returns them.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> &[u8] {
        let start = self.start;
        self.start = self.end.min(start.saturating_add(length));
        self.offset += (self.start - start) as u64;
        self.bytes.get(start..self.start).unwrap_or_default()
    }

    /// Consumes `length` bytes, which may be more than the capacity. Returns the number of bytes consumed.
    /// If there were fewer than `length`, the offset stays, because it is reported as the place of the
    /// error.
    ///
    /// # Errors
    /// If the input fails before.
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

    /// Reads until there are `length` bytes (at most the capacity) or the input ends.
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
