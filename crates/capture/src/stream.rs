//! The byte stream of a file, plain or decompressed, and a function that the decompressors share.

use std::io::{self, BufRead, Read};

/// The bytes of a file, after decompression if it is compressed.
pub(crate) trait Stream: Read + Send {
    /// True if the compressed data are followed by bytes that are neither zeros nor compressed data. The
    /// stream ends before these bytes; until its end has been read, the result is false.
    fn ignores_rest(&self) -> bool {
        false
    }
}

impl Stream for io::Empty {}
impl Stream for io::Chain<io::Cursor<Vec<u8>>, Box<dyn Read + Send>> {}

pub(crate) type Input = Box<dyn Stream>;

/// Skips the zeros that follow compressed data, because tapes and disks pad files with zeros. Returns up to
/// `most` of the bytes after them, and consumes these; none at the end of the file.
pub(crate) fn bytes_after_zeros(source: &mut impl BufRead, most: usize) -> io::Result<Vec<u8>> {
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
