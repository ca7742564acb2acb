//! Opens the byte stream of a capture: plain, gzip or zstd, which is detected by the first bytes.

use std::io::{self, BufReader, Read};

use crate::content::Compression;
use crate::error::ErrorKind;
use crate::gzip::GzipReader;
use crate::stream::Input;
use crate::zstd::ZstdReader;

/// The number of compressed bytes that are read from the file at once.
const COMPRESSED_READ: usize = 256 * 1024;

/// Returns the warning that the file `name` has bytes after its compressed data, which are ignored.
pub(crate) fn warning(name: &str, compression: Compression) -> String {
    let format = compression.name();
    format!(
        "{name}: warning: bytes after the end of the {format} data are not {format} data; they are ignored, and the \
         data before them are complete"
    )
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
