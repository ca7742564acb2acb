//! Writes classic pcap files. They are little-endian on every machine, so that the same packets give the
//! same bytes.

use std::fs::File;
use std::io::{self, Write};

use wire::LinkType;

use crate::MAX_CAPTURED;
use crate::classic::{MICROSECONDS, NANOSECONDS};
use crate::gzip::GzipWriter;

/// Creates a file for a capture. A file whose name ends with `.gz` is compressed, and is complete when it
/// is flushed or dropped.
///
/// # Errors
/// If the file cannot be created.
pub fn create(path: &str) -> io::Result<Box<dyn Write + Send>> {
    let file = File::create(path)?;
    Ok(match path.ends_with(".gz") {
        true => Box::new(GzipWriter::new(file)),
        false => Box::new(file),
    })
}

/// The number of bytes that are collected before they are written.
const BUFFER: usize = 256 * 1024;

/// The sizes in bytes of the file's header and of a record's header.
const HEADER: usize = 24;
const RECORD: usize = 16;

/// The size of a buffer in bytes: room for the longest record when the buffer is nearly full.
const ROOM: usize = BUFFER + MAX_CAPTURED + 16;

/// Allocates a buffer for [`Writer::with_buffer`], so that writing allocates nothing.
///
/// # Errors
/// If the buffer cannot be allocated.
pub fn buffer() -> Result<Vec<u8>, std::collections::TryReserveError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(ROOM)?;
    Ok(buffer)
}

/// The values of the file header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// True for time stamps in nanoseconds. False for microseconds, rounded down.
    pub nanoseconds: bool,
    /// The number of bytes to keep of each packet, at most [`MAX_CAPTURED`]. 0 means that limit.
    pub snap_length: u32,
    /// The type of the header that the packets start with.
    pub link: LinkType,
}

/// Returns microseconds, no limit below [`MAX_CAPTURED`], and Ethernet.
impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { nanoseconds: false, snap_length: 0, link: LinkType::Ethernet }
    }
}

/// Writes a pcap file to any stream, through a buffer of its own.
///
/// Call [`Writer::flush`] at the end: dropping the writer also writes the rest of the buffer, but cannot
/// report an error.
#[derive(Debug)]
pub struct Writer<W: Write> {
    inner: W,
    buffer: Vec<u8>,
    nanoseconds: bool,
    snap_length: usize,
    clamped: u64,
    /// The number of packets in the buffer, and the number of bytes before them: the file's header.
    gathered: u64,
    front: usize,
    written: u64,
    /// The number of packets written at the last flush.
    flushed: u64,
    lost: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a file. Its header is written with the first packets or by [`Writer::flush`].
    pub fn new(inner: W, options: WriterOptions) -> Self {
        Writer::with_buffer(inner, options, Vec::new())
    }

    /// Like [`new`](Self::new), with a [`buffer`] that was allocated before.
    pub fn with_buffer(inner: W, options: WriterOptions, mut buffer: Vec<u8>) -> Self {
        let snap_length = match options.snap_length {
            0 => MAX_CAPTURED as u32,
            length => length.min(MAX_CAPTURED as u32),
        };
        let magic = if options.nanoseconds { NANOSECONDS } else { MICROSECONDS };
        buffer.reserve_exact(ROOM);
        // Version 2.4 in two halves. Time zone and accuracy are always zero.
        for word in [magic, 2 | 4 << 16, 0, 0, snap_length, options.link.number().into()] {
            buffer.extend_from_slice(&word.to_le_bytes());
        }
        let snap_length = snap_length as usize;
        Writer {
            inner,
            buffer,
            nanoseconds: options.nanoseconds,
            snap_length,
            clamped: 0,
            gathered: 0,
            front: HEADER,
            written: 0,
            flushed: 0,
            lost: 0,
        }
    }

    /// Adds a packet. `time` is in nanoseconds since the epoch. `wire_len` is the number of bytes that the
    /// packet had on the wire; it is raised to the number of bytes given, if that is larger. `chunks` are
    /// the bytes of the packet, in any number of pieces. Bytes beyond the snap length are left out.
    ///
    /// A time that the format cannot represent, before 1970 or after 2106, becomes the nearest time that it
    /// can, and is counted.
    ///
    /// # Errors
    /// If the stream returns an error. The packets that could not be written are lost.
    pub fn write<'a>(
        &mut self,
        time: i64,
        wire_len: u32,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> io::Result<()> {
        let (seconds, fraction) = self.split_time(time);
        let header = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 16]);
        let mut given = 0usize;
        let mut captured = 0usize;
        for chunk in chunks {
            given = given.saturating_add(chunk.len());
            let kept = chunk.get(..self.snap_length - captured).unwrap_or(chunk);
            self.buffer.extend_from_slice(kept);
            captured += kept.len();
        }
        let given = u32::try_from(given).unwrap_or(u32::MAX);
        // The length is known only now. `captured` is at most MAX_CAPTURED.
        let words = [seconds, fraction, captured as u32, wire_len.max(given)];
        for (place, word) in self.buffer.get_mut(header..).unwrap_or_default().chunks_exact_mut(4).zip(words)
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.gathered += 1;
        if self.buffer.len() >= BUFFER { self.write_out() } else { Ok(()) }
    }

    /// Writes the contents of the buffer and flushes the stream.
    ///
    /// # Errors
    /// If the stream returns an error.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_out()?;
        let result = self.inner.flush();
        match result {
            Ok(()) => self.flushed = self.written,
            // A stream that compresses has taken packets that the file does not have.
            Err(_) => {
                self.lost += self.written - self.flushed;
                self.written = self.flushed;
            }
        }
        result
    }

    /// Returns the number of packets with a time that the format cannot represent.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Returns the number of packets that the stream has taken, without packets in the buffer.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of packets that the stream has not taken although they were in the buffer.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the stream, without the bytes that are still in the buffer.
    pub fn get_ref(&self) -> &W {
        &self.inner
    }

    #[inline]
    fn split_time(&mut self, time: i64) -> (u32, u32) {
        let nanoseconds = time.rem_euclid(1_000_000_000) as u32;
        let (seconds, nanoseconds) = match u32::try_from(time.div_euclid(1_000_000_000)) {
            Ok(seconds) => (seconds, nanoseconds),
            Err(_) => {
                self.clamped += 1;
                if time < 0 { (0, 0) } else { (u32::MAX, 999_999_999) }
            }
        };
        (seconds, if self.nanoseconds { nanoseconds } else { nanoseconds / 1_000 })
    }

    fn write_out(&mut self) -> io::Result<()> {
        let (taken, result) = write_all(&mut self.inner, &self.buffer);
        let whole = match &result {
            Ok(()) => self.gathered,
            Err(_) => whole_records(self.buffer.get(self.front..taken).unwrap_or_default()),
        };
        self.written += whole;
        self.lost += self.gathered.saturating_sub(whole);
        (self.gathered, self.front) = (0, 0);
        // Also after an error: part of the buffer may have been written, so writing it again would damage
        // the file.
        self.buffer.clear();
        result
    }
}

/// Writes bytes. Returns the number of bytes that the stream has taken.
fn write_all(to: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
        match to.write(rest) {
            Ok(0) => return (taken, Err(io::ErrorKind::WriteZero.into())),
            Ok(n) => taken += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, Ok(()))
}

/// Returns the number of complete records.
fn whole_records(mut bytes: &[u8]) -> u64 {
    let mut records = 0;
    while let Some(length) = bytes.get(8..).and_then(|rest| rest.first_chunk())
        && let Some(rest) = bytes.get(RECORD + u32::from_le_bytes(*length) as usize..)
    {
        (records, bytes) = (records + 1, rest);
    }
    records
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        // Errors are ignored, as in BufWriter. A caller that needs them calls `flush`.
        let _ = self.write_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with space for this number of bytes.
    struct Full(Vec<u8>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.1 - self.0.len());
            self.0.extend_from_slice(&bytes[..n]);
            if n == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_has_taken_is_counted() {
        let record = RECORD + 100;
        for (room, whole) in [
            (0, 0),
            (HEADER + record - 1, 0),
            (HEADER + record, 1),
            (HEADER + 5 * record + RECORD, 5),
            (HEADER + 10 * record, 10),
        ] {
            let mut writer = Writer::new(Full(Vec::new(), room), WriterOptions::default());
            for _ in 0..10 {
                writer.write(0, 100, [&[7; 100][..]]).unwrap();
            }
            assert_eq!(writer.flush().is_ok(), whole == 10, "{room}");
            assert_eq!((writer.written(), writer.lost()), (whole, 10 - whole), "{room}");
            let file = std::mem::take(&mut writer.inner.0);
            assert_eq!(whole_records(file.get(HEADER..).unwrap_or_default()), whole, "{room}");
        }
    }
}
