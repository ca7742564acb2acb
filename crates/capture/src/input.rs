//! The byte stream of a capture: plain, gzip or zstd, which is detected by the first bytes.

use std::io::{self, BufRead, BufReader, Read};

use crate::error::ErrorKind;
use crate::gzip::GzipReader;
use crate::zstd::ZstdReader;

/// The number of compressed bytes that are read from the file at once.
const COMPRESSED_READ: usize = 256 * 1024;

/// The compression of a file; plain files have none.
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

/// The bytes of a file, after decompression if it is compressed.
pub(crate) trait Stream: Read + Send {
    /// True if the compressed data are followed by bytes that are neither zeros nor compressed data. The
    /// stream ends before them.
    fn ignores_rest(&self) -> bool {
        false
    }
}

impl Stream for io::Empty {}
impl Stream for io::Chain<io::Cursor<Vec<u8>>, Box<dyn Read + Send>> {}

pub(crate) type Input = Box<dyn Stream>;

/// Returns the warning that the file `name` has bytes after its compressed data, which are ignored.
pub(crate) fn warning(name: &str, compression: Compression) -> String {
    let format = compression.name();
    format!(
        "{name}: warning: bytes after the end of the {format} data are not {format} data; they are ignored, and the \
         data before them are complete"
    )
}

/// Skips the zeros that follow compressed data, because tapes and disks pad files with zeros. Returns up to
/// `most` of the bytes after them, and consumes these; none at the end of the file.
pub(crate) fn behind_end(source: &mut impl BufRead, most: usize) -> io::Result<Vec<u8>> {
    loop {
        let bytes = match source.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let goes_on = zeros > 0 && zeros == bytes.len();
        source.consume(zeros);
        if goes_on {
            continue;
        }
        let mut start = Vec::with_capacity(most);
        source.take(most as u64).read_to_end(&mut start)?;
        return Ok(start);
    }
}

/// Detects the compression by the first four bytes, and returns the stream of decompressed bytes. Fails if
/// the file is empty, is a folder or cannot be read.
pub(crate) fn decompressed(mut raw: Box<dyn Read + Send>) -> Result<(Input, Option<Compression>), ErrorKind> {
    let mut start = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut start).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => ErrorKind::Folder,
        _ => ErrorKind::Read(error),
    })?;
    if start.is_empty() {
        return Err(ErrorKind::Empty);
    }
    let compression = Compression::detect(&start);
    let whole = io::Cursor::new(start).chain(raw);
    let buffered = |whole| BufReader::with_capacity(COMPRESSED_READ, whole);
    let input: Input = match compression {
        None => Box::new(whole),
        Some(Compression::Gzip) => Box::new(GzipReader::new(buffered(whole))),
        Some(Compression::Zstd) => Box::new(ZstdReader::new(buffered(whole))),
    };
    Ok((input, compression))
}
