//! A writer of classic pcap files. They are little-endian on every machine, so that the same packets give
//! the same bytes everywhere.

use std::fs::File;
use std::io::{self, Write};

use wire::LinkType;

use crate::MAX_CAPTURED;
use crate::classic::{MICROSECONDS, NANOSECONDS};
use crate::gzip::GzipWriter;

/// Creates the file of a capture. If its name ends with `.gz`, the file is compressed, and can be unpacked
/// completely each time that the returned stream has been flushed, and after it has been dropped.
///
/// # Errors
///
/// If the file cannot be created.
pub fn create(path: &str) -> io::Result<Box<dyn Write + Send>> {
    let file = File::create(path)?;
    Ok(match path.ends_with(".gz") {
        true => Box::new(GzipWriter::new(file)),
        false => Box::new(file),
    })
}

/// The number of bytes after which the buffer is written to the stream.
const BUFFER: usize = 256 * 1024;

/// The size of the file header in bytes. A record header has `RECORD` bytes.
const HEADER: usize = 24;
const RECORD: usize = 16;

/// The capacity of a buffer in bytes: a record of the longest packet can be added when the buffer is nearly
/// full.
const ROOM: usize = BUFFER + MAX_CAPTURED + 16;

/// Allocates a buffer for [`Writer::with_buffer`], so that the writer itself need not allocate memory. The
/// stream may allocate, for example to compress.
///
/// # Errors
///
/// If the memory cannot be allocated.
pub fn buffer() -> Result<Vec<u8>, std::collections::TryReserveError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(ROOM)?;
    Ok(buffer)
}

/// The values of the file header that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// True for time stamps in nanoseconds; false for microseconds, to which times are rounded down.
    pub nanoseconds: bool,
    /// The largest number of bytes written of each packet. 0, or more than [`MAX_CAPTURED`], means
    /// [`MAX_CAPTURED`].
    pub snap_length: u32,
    /// The type of the header with which packets start.
    pub link: LinkType,
}

/// Returns options for microseconds, no limit below [`MAX_CAPTURED`], and Ethernet.
impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { nanoseconds: false, snap_length: 0, link: LinkType::Ethernet }
    }
}

/// A writer of a pcap file to any stream. It gathers packets in a buffer, which is written once it has 256
/// KiB.
///
/// Call [`Writer::flush`] at the end. Dropping the writer also writes the contents of the buffer, but
/// cannot report an error.
#[derive(Debug)]
pub struct Writer<W: Write> {
    inner: W,
    buffer: Vec<u8>,
    nanoseconds: bool,
    snap_length: usize,
    clamped: u64,
    /// The number of packets whose records are in the buffer as a whole. A packet whose record the stream has
    /// already taken in part does not count: only the last bytes of its record are in the buffer, at its
    /// start.
    gathered: u64,
    /// The number of bytes in the buffer ahead of the first whole record: the file header until it is
    /// written, or the last bytes of a header or record that the stream has taken in part.
    front: usize,
    /// The number (0 or 1) of packets of which the stream has taken only a part: 1 if the first `front` bytes
    /// of the buffer are the end of a record. This packet counts as lost until these bytes are written.
    cut: u64,
    written: u64,
    /// The number of packets that had been written at the last successful flush.
    flushed: u64,
    lost: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a file. The file header goes into the buffer, and is written with the first packets or by
    /// [`Writer::flush`].
    pub fn new(inner: W, options: WriterOptions) -> Self {
        Writer::with_buffer(inner, options, Vec::new())
    }

    /// Starts a file as [`new`](Self::new) does, with an empty buffer that [`buffer`] allocated before.
    pub fn with_buffer(inner: W, options: WriterOptions, mut buffer: Vec<u8>) -> Self {
        let snap_length = match options.snap_length {
            0 => MAX_CAPTURED as u32,
            length => length.min(MAX_CAPTURED as u32),
        };
        let magic = if options.nanoseconds { NANOSECONDS } else { MICROSECONDS };
        buffer.reserve_exact(ROOM);
        // The magic number, version 2.4 in two 16-bit fields, time zone and accuracy (always zero), snap
        // length and link type.
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
            cut: 0,
            written: 0,
            flushed: 0,
            lost: 0,
        }
    }

    /// Adds a packet to the buffer. If the buffer then has at least 256 KiB, writes it to the stream.
    ///
    /// `time` is in nanoseconds since 1970. `wire_len` is the number of bytes that the packet had on the
    /// wire; if more bytes are given, their number is written. `chunks` are the bytes of the packet, in any
    /// number of pieces. Bytes beyond the snap length are left out.
    ///
    /// A time that the format cannot represent, before 1970 or after 2106, becomes the nearest time that it
    /// can, and [`clamped`](Self::clamped) counts it.
    ///
    /// # Errors
    ///
    /// If the stream fails. Packets in the buffer that could not be written are lost, and
    /// [`lost`](Self::lost) counts them.
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
        // The record header is filled in now that the captured length is known, which is at most
        // `MAX_CAPTURED`.
        let words = [seconds, fraction, captured as u32, wire_len.max(given)];
        for (place, word) in self.buffer.get_mut(header..).unwrap_or_default().chunks_exact_mut(4).zip(words)
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.gathered += 1;
        if self.buffer.len() >= BUFFER { self.write_out() } else { Ok(()) }
    }

    /// Writes the contents of the buffer, and flushes the stream.
    ///
    /// # Errors
    ///
    /// If the stream fails. If flushing the stream fails, packets that were written since the last flush
    /// count as lost, too.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_out()?;
        let result = self.inner.flush();
        match result {
            Ok(()) => self.flushed = self.written,
            // A compressing stream has taken the packets since the last flush, but could not write their
            // compressed bytes, so that they count as lost.
            Err(_) => {
                self.lost += self.written - self.flushed;
                self.written = self.flushed;
            }
        }
        result
    }

    /// Returns the number of packets whose time the format cannot represent and which were written with the
    /// nearest time.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Returns the number of packets that the stream has taken. Packets in the buffer do not count.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of packets that were lost because the stream failed.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the stream. The bytes that are still in the writer's buffer have not been written to the
    /// stream.
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

    /// Writes the buffer to the stream. If the stream fails, records of which the stream has taken no byte
    /// are lost. The rest of the file header, or of a record that the stream has taken in part, stays in the
    /// buffer. This rest is written first once the stream works again, because otherwise a reader could not
    /// find the records after it.
    fn write_out(&mut self) -> io::Result<()> {
        let (taken, result) = write_all(&mut self.inner, &self.buffer);
        let began = self.buffer.get(self.front..taken).unwrap_or_default();
        let (whole, length) = match &result {
            Ok(()) => (self.gathered, began.len()),
            Err(_) => whole_records(began),
        };
        let completed = if taken >= self.front { self.cut } else { 0 };
        self.written += whole + completed;
        self.lost += self.gathered - whole;
        self.lost -= completed;
        self.gathered = 0;
        // The offset, in the buffer, of the end of the header or record that the stream has taken in part. If
        // there is no such header or record, the offset of the end of the bytes that the stream has taken.
        let end = match taken.checked_sub(self.front) {
            None => self.front,
            Some(began) if began == length => taken,
            Some(_) => self.front + length + self.buffer.get(self.front + length..).map_or(0, record_length),
        };
        self.cut = if taken < self.front { self.cut } else { u64::from(end > taken) };
        self.buffer.truncate(end);
        self.buffer.drain(..taken);
        self.front = self.buffer.len();
        result
    }
}

/// Writes bytes until the stream has taken all of them or fails. Returns the number of bytes taken.
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

/// Returns the number of records at the start of `bytes` that are complete, and the number of their bytes.
fn whole_records(bytes: &[u8]) -> (u64, usize) {
    let (mut records, mut length) = (0, 0);
    while let Some(rest) = bytes.get(length..).filter(|rest| rest.len() >= RECORD)
        && record_length(rest) <= rest.len()
    {
        (records, length) = (records + 1, length + record_length(rest));
    }
    (records, length)
}

/// Returns the length of the record that starts with these bytes, with its header; 0 if the header is not
/// complete.
fn record_length(bytes: &[u8]) -> usize {
    let captured = bytes.get(8..RECORD).and_then(|rest| rest.first_chunk());
    captured.map_or(0, |captured| RECORD + u32::from_le_bytes(*captured) as usize)
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        // An error is ignored when the writer is dropped, as in `BufWriter`. A caller that needs the error
        // calls `flush` before.
        let _ = self.write_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with space for the given number of bytes, which fails when it is full.
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
            assert_eq!(whole_records(file.get(HEADER..).unwrap_or_default()).0, whole, "{room}");
        }
    }

    /// The disk is full after a number of bytes (every seventh number, in headers and in records), and later
    /// has room again. A header or record that was written only in part is completed then.
    #[test]
    fn a_disk_that_has_room_again_gets_a_file_that_can_be_read() {
        let record = RECORD + 100;
        for room in (0..HEADER + 4 * record).step_by(7) {
            let mut writer = Writer::new(Full(Vec::new(), room), WriterOptions::default());
            let packet = |writer: &mut Writer<Full>, byte: u8| {
                writer.write(0, 100, [&[byte; 100][..]]).unwrap();
            };
            (0..5).for_each(|_| packet(&mut writer, 1));
            assert!(
                writer.flush().is_err()
                    && writer.flush().is_err() == (room < HEADER || !(room - HEADER).is_multiple_of(record))
            );
            writer.inner.1 = 1 << 20;
            (0..5).for_each(|_| packet(&mut writer, 2));
            writer.flush().unwrap();
            let begun = (room.saturating_sub(HEADER)).div_ceil(record) as u64;
            assert_eq!((writer.written(), writer.lost()), (begun + 5, 5 - begun), "{room}");
            let file = std::mem::take(&mut writer.inner.0);
            assert_eq!(file[..4], MICROSECONDS.to_le_bytes(), "{room}");
            assert_eq!(whole_records(&file[HEADER..]), (begun + 5, file.len() - HEADER), "{room}");
        }
    }
}
