//! The metadata of a packet, as numbered bytes.

use element::effects::{Field, Header};

/// The index of a metadata byte of a packet: Click's 48 annotation bytes, then the bytes below.
pub type Metadata = u8;

/// The first of the eight bytes of the time stamp.
pub const TIME: Metadata = 48;
/// The packet type.
pub const KIND: Metadata = 56;
/// The number of the input or device.
pub const INPUT: Metadata = 57;

/// Returns the first metadata byte of a field and the number of bytes; `None` for fields that are not
/// metadata.
pub fn metadata_of(field: &Field) -> Option<(Metadata, Metadata)> {
    Some(match *field {
        Field::Annotation { offset, length } => (offset, length),
        Field::TimeStamp => (TIME, 8),
        Field::Kind => (KIND, 1),
        Field::InputPort => (INPUT, 1),
        Field::Bytes { .. } | Field::HeaderOffset(_) | Field::Length | Field::Payload => return None,
    })
}

/// Returns the offsets of the headers of a packet that an element makes, given its first header.
pub fn headers_of(starts: Option<Header>) -> [Option<i32>; 3] {
    match starts {
        Some(Header::Ethernet) | None => [Some(0), None, None],
        Some(Header::Ipv4) => [None, Some(0), Some(20)],
        Some(Header::Ipv6) => [None, Some(0), Some(40)],
        Some(_) => [None; 3],
    }
}
