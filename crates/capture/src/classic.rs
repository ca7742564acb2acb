//! The classic pcap format (draft-ietf-opsawg-pcap): a file header of 24 bytes, then for each packet a
//! record header of 16 bytes and the captured data.

use wire::LinkType;

use crate::MAX_CAPTURED;
use crate::buffer::Buffer;
use crate::byte_order::ByteOrder;
use crate::error::ErrorKind;
use crate::record::Found;

/// The magic number of files with time stamps in microseconds.
pub(crate) const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// The magic number of files with time stamps in nanoseconds.
pub(crate) const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The magic number of files from A. Kuznetzov's patched libpcap, which have microseconds and 8 more bytes
/// in each record header.
const MODIFIED: u32 = 0xa1b2_cd34;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const MODIFIED_RECORD_HEADER: usize = 24;

/// The values of the file header that reading records needs.
#[derive(Debug)]
pub(crate) struct Classic {
    order: ByteOrder,
    record_header: usize,
    pub(crate) nanoseconds: bool,
    pub(crate) snap_length: u32,
    pub(crate) link: LinkType,
}

impl Classic {
    /// Reads the file header. Returns `None`, and consumes nothing, if the file does not begin with a magic
    /// number of this format.
    pub(crate) fn open(input: &mut Buffer) -> Result<Option<Self>, ErrorKind> {
        let header = input.peek(FILE_HEADER)?;
        let Some((order, magic)) = [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let [magic] = order.words(header)?;
            matches!(magic, MICROSECONDS | NANOSECONDS | MODIFIED).then_some((order, magic))
        }) else {
            return Ok(None);
        };
        let Some([_, version, _zone, _accuracy, snap_length, link]) = order.words(header) else {
            return Err(ErrorKind::Truncated { need: FILE_HEADER as u64, have: header.len() as u64 });
        };
        let (major, minor) = order.halves(version);
        if major != 2 {
            return Err(ErrorKind::Version { major, minor });
        }
        input.take(FILE_HEADER);
        Ok(Some(Classic {
            order,
            record_header: if magic == MODIFIED { MODIFIED_RECORD_HEADER } else { RECORD_HEADER },
            nanoseconds: magic == NANOSECONDS,
            snap_length,
            // The upper 16 bits describe the frame check sequences in the data.
            link: LinkType::from_number(link as u16),
        }))
    }

    /// Finds the next record, which stays in the buffer. Returns `None` at the end of the file.
    #[inline]
    pub(crate) fn find(&self, input: &mut Buffer) -> Result<Option<Found>, ErrorKind> {
        let header = input.peek(self.record_header)?;
        if header.is_empty() {
            return Ok(None);
        }
        let Some([seconds, fraction, captured, wire_len]) =
            self.order.words(header).filter(|_| header.len() == self.record_header)
        else {
            return Err(ErrorKind::Truncated { need: self.record_header as u64, have: header.len() as u64 });
        };
        if captured as usize > MAX_CAPTURED {
            return Err(ErrorKind::TooLong { captured });
        }
        let total = self.record_header + captured as usize;
        let have = input.peek(total)?.len();
        if have < total {
            return Err(ErrorKind::Truncated { need: total as u64, have: have as u64 });
        }
        let unit = if self.nanoseconds { 1 } else { 1_000 };
        Ok(Some(Found {
            time: i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit,
            wire_len,
            link: self.link,
            data_offset: self.record_header,
            captured: captured as usize,
            total,
        }))
    }
}
