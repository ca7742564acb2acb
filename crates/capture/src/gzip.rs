//! Gzip files, read and written. A file has any number of members (RFC 1952), whose checksums are verified.
//! Zeros after a member are skipped; other bytes after the last member are ignored, and reported
//! ([`Stream::ignores_rest`]).

use std::io::{self, BufRead, Chain, Cursor, Read, Write};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;

use crate::stream::{Stream, bytes_after_zeros};

const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A decoder of one member of a gzip file. Its input is the bytes by which the member was detected, which
/// have been read already, followed by the unread bytes of the file.
type Member<R> = GzDecoder<Chain<Cursor<Vec<u8>>, R>>;

/// A reader that decompresses all members of a gzip file, one after the other.
pub(crate) struct GzipReader<R> {
    /// The member that is being decompressed; `None` after the last one.
    member: Option<Member<R>>,
    ignores_rest: bool,
}

impl<R: BufRead> GzipReader<R> {
    pub(crate) fn new(source: R) -> Self {
        GzipReader { member: Some(member(Vec::new(), source)), ignores_rest: false }
    }
}

fn member<R: BufRead>(start: Vec<u8>, source: R) -> Member<R> {
    GzDecoder::new(Cursor::new(start).chain(source))
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if target.is_empty() {
            return Ok(0);
        }
        while let Some(current) = &mut self.member {
            let read = current.read(target)?;
            if read > 0 {
                return Ok(read);
            }
            let Some((_, mut source)) = self.member.take().map(|member| member.into_inner().into_inner())
            else {
                break;
            };
            let start = bytes_after_zeros(&mut source, MAGIC.len())?;
            if start == MAGIC {
                self.member = Some(member(start, source));
            } else {
                self.ignores_rest = !start.is_empty();
            }
        }
        Ok(0)
    }
}

impl<R: BufRead + Send> Stream for GzipReader<R> {
    fn ignores_rest(&self) -> bool {
        self.ignores_rest
    }
}

/// A writer that compresses bytes. Each flush ends a gzip member, so that the file can be unpacked
/// completely, and returns an error if the member cannot be written to its end.
pub(crate) struct GzipWriter<W: Write> {
    target: W,
    /// The member that is being written. `None` after a flush, until more bytes are written.
    member: Option<GzEncoder<Vec<u8>>>,
}

impl<W: Write> GzipWriter<W> {
    pub(crate) fn new(target: W) -> Self {
        GzipWriter { target, member: Some(encoder()) }
    }
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::fast())
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let member = self.member.get_or_insert_with(encoder);
        let taken = member.write(bytes)?;
        self.target.write_all(member.get_ref())?;
        member.get_mut().clear();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(member) = self.member.take() {
            self.target.write_all(&member.finish()?)?;
        }
        self.target.flush()
    }
}

impl<W: Write> Drop for GzipWriter<W> {
    fn drop(&mut self) {
        // An error of writing the last member is ignored when the writer is dropped. A caller that needs the
        // error calls `flush` before.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for `room` bytes, which fails when it is full.
    struct Disk<'d> {
        bytes: &'d mut Vec<u8>,
        room: usize,
    }

    impl Write for Disk<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = (self.room - self.bytes.len()).min(bytes.len());
            self.bytes.extend(&bytes[..room]);
            if room == 0 && !bytes.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(room) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn unpacked(file: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        GzipReader::new(file).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_file_that_was_flushed_is_whole_or_there_was_an_error() {
        let data: Vec<u8> = (0..3000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let write = |room: usize| {
            let mut file = Vec::new();
            let mut writer = GzipWriter::new(Disk { bytes: &mut file, room });
            let result = data.chunks(1000).try_for_each(|part| {
                writer.write_all(part)?;
                writer.flush()
            });
            // The writer is not dropped, because its drop would write more bytes. So the test file has only
            // the bytes that were written up to the last `flush`, whose result is checked.
            std::mem::forget(writer);
            (file, result)
        };
        let (file, result) = write(usize::MAX);
        assert!(result.is_ok() && unpacked(&file).unwrap() == data);
        for room in 0..file.len() {
            assert!(write(room).1.is_err(), "{room} bytes of {}", file.len());
        }
        assert!(write(file.len()).1.is_ok());
    }

    #[test]
    fn a_file_without_bytes_is_whole_too() {
        let mut file = Vec::new();
        drop(GzipWriter::new(&mut file));
        assert!(!file.is_empty() && unpacked(&file).unwrap().is_empty());
    }
}
