//! Reads and writes gzip files: any number of members (RFC 1952), whose checksums are verified, and the
//! bytes after the last member.

use std::io::{self, BufRead, Chain, Cursor, Read, Write};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;

use crate::input::{Stream, behind_end};

const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The input of a member: the bytes by which the member was detected, followed by the source.
type Member<R> = GzDecoder<Chain<Cursor<Vec<u8>>, R>>;

/// Decompresses all members of a source.
pub(crate) struct GzipReader<R> {
    /// The current member. `None` after the last member.
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
            let start = behind_end(&mut source, MAGIC.len())?;
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

/// Compresses the bytes that are written to it. Each flush ends a member, so that the file is complete, and
/// returns errors.
pub(crate) struct GzipWriter<W: Write> {
    target: W,
    /// The current member. `None` after a flush, until more bytes are written.
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
        // Errors are ignored here. A caller that needs them calls `flush`.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for a limited number of bytes.
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
            // The writer must not write anything when it is dropped.
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
