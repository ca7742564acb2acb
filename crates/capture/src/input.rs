//! Opens the byte stream of a capture: plain, gzip or zstd, told apart by the first bytes.

use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::error::ErrorKind;
use crate::zstd::ZstdReader;

/// How much compressed data is read at once.
const COMPRESSED_READ: usize = 256 * 1024;

/// How the file is compressed.
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

    fn detect(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            // A frame, or a skippable frame before it (RFC 8878, 3.1).
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// The bytes of a capture after decompression.
pub(crate) type Input = Box<dyn Read + Send>;

/// Looks at the first bytes and puts a decompressor in between if needed.
pub(crate) fn decompressed(mut raw: Input) -> Result<(Input, Option<Compression>), ErrorKind> {
    let mut start = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut start).map_err(ErrorKind::Read)?;
    if start.is_empty() {
        return Err(ErrorKind::Empty);
    }
    let compression = Compression::detect(&start);
    let whole = io::Cursor::new(start).chain(raw);
    let buffered = |whole| BufReader::with_capacity(COMPRESSED_READ, whole);
    let input: Input = match compression {
        None => Box::new(whole),
        Some(Compression::Gzip) => Box::new(MultiGzDecoder::new(buffered(whole))),
        Some(Compression::Zstd) => Box::new(ZstdReader::new(buffered(whole))),
    };
    Ok((input, compression))
}
