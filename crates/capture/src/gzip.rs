//! Reads gzip files: any number of members (RFC 1952), their checksums verified, and what lies behind the last one.

use std::io::{self, BufRead, Chain, Cursor, Read};

use flate2::bufread::GzDecoder;

use crate::input::{Stream, behind_end};

const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The input of a member: the bytes that showed that it is one, and the source.
type Member<R> = GzDecoder<Chain<Cursor<Vec<u8>>, R>>;

/// Decompresses all members of a source.
pub(crate) struct GzipReader<R> {
    /// `None` behind the last member.
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
