//! Reads zstd files: any number of frames, with skippable frames between them (RFC 8878). Content checksums
//! are verified.
//!
//! The decoder of a frame holds back as many bytes of output as its window has, because later blocks may
//! refer to it. If a file is damaged or cut short, the bytes held back are good data, so the reader returns
//! them before the error.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::content::Compression;
use crate::stream::{Stream, bytes_after_zeros};

/// A complete frame without content. The decoder checks the window size of all frames except its first, so
/// this frame is decoded before the frames of the file.
const EMPTY_FRAME: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];

/// A last block without content, and room for the checksum. It is decoded in place of a damaged block, so
/// that the decoder returns the output that it holds back.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// The number of bytes by which a frame is detected.
const MAGIC_LENGTH: usize = 4;

/// A reader that decompresses all frames of `source`, one after the other.
pub(crate) struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    /// An error during decoding, which is returned after all data that were decoded before it.
    fault: Option<io::Error>,
    /// True if the decoder has a frame of `source` whose checksum has not been compared yet. False while the
    /// decoder has [`EMPTY_FRAME`], which is not part of `source`.
    frame: bool,
    ignores_rest: bool,
}

impl<R: BufRead> ZstdReader<R> {
    pub(crate) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        let mut empty = &EMPTY_FRAME[..];
        let ready = decoder
            .init(&mut empty)
            .and_then(|()| decoder.decode_blocks(&mut empty, BlockDecodingStrategy::All));
        ZstdReader {
            source,
            decoder,
            fault: ready.err().map(io::Error::other),
            frame: false,
            ignores_rest: false,
        }
    }

    /// Decodes the next block of the current frame. After an error, makes the decoder return the output
    /// that it holds back.
    fn decode(&mut self) {
        if let Err(error) = self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
        {
            self.fault = Some(io::Error::other(error));
            // An error here is ignored: then the decoder holds back no output. The error to report is already
            // in `fault`.
            let _ = self.decoder.decode_blocks(&LAST_BLOCK[..], BlockDecodingStrategy::UptoBlocks(1));
        }
    }

    /// Compares the checksum of the current frame, all of whose content has been returned. Fails if it is
    /// wrong.
    fn verify(&mut self) -> io::Result<()> {
        let stored = self.decoder.get_checksum_from_data();
        if std::mem::take(&mut self.frame)
            && stored.is_some()
            && stored != self.decoder.get_calculated_checksum()
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "content checksum does not match"));
        }
        Ok(())
    }

    /// Starts the next frame, and skips skippable frames before it. Returns false if no frame follows.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.ignores_rest {
            let start = bytes_after_zeros(&mut self.source, MAGIC_LENGTH)?;
            if start.is_empty() {
                return Ok(false);
            }
            if Compression::detect(&start) != Some(Compression::Zstd) {
                self.ignores_rest = true;
                break;
            }
            match self.decoder.reset((&start[..]).chain(&mut self.source)) {
                Ok(()) => {
                    self.frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if target.is_empty() {
            return Ok(0);
        }
        loop {
            let read = self.decoder.read(target)?;
            if read > 0 {
                return Ok(read);
            }
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            if !self.decoder.is_finished() {
                self.decode();
                continue;
            }
            self.verify()?;
            if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

impl<R: BufRead + Send> Stream for ZstdReader<R> {
    fn ignores_rest(&self) -> bool {
        self.ignores_rest
    }
}
