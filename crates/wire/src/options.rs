//! The format of option lists that IPv4 and TCP share. An option has a kind byte, a length byte, and data;
//! the length counts all three. Kind 0 ends the list; kind 1 is a single byte of padding.

use crate::{Error, Layer};

/// An iterator over the kind and the data of each option. It ends at the end of the list, and after the
/// first malformed option, which it yields as an error.
#[derive(Debug, Clone)]
pub(crate) struct RawOptions<'a> {
    rest: &'a [u8],
    layer: Layer,
}

impl<'a> RawOptions<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], layer: Layer) -> Self {
        RawOptions { rest: bytes, layer }
    }
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = Result<(u8, &'a [u8]), Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // `rest` is empty from now on, so that the iterator ends, unless a valid option sets `rest` again.
        let bytes = std::mem::take(&mut self.rest);
        let layer = self.layer;
        match *bytes {
            [] | [0, ..] => None,
            [1, ref rest @ ..] => {
                self.rest = rest;
                Some(Ok((1, &[])))
            }
            [_] => Some(Err(Error::Truncated { layer, need: 2, have: 1 })),
            [_, length @ (0 | 1), ..] => Some(Err(Error::Length { layer, found: length.into() })),
            [kind, length, ref rest @ ..] => match rest.split_at_checked(usize::from(length) - 2) {
                Some((data, rest)) => {
                    self.rest = rest;
                    Some(Ok((kind, data)))
                }
                None => Some(Err(Error::Truncated { layer, need: length.into(), have: bytes.len() })),
            },
        }
    }
}

impl std::iter::FusedIterator for RawOptions<'_> {}
