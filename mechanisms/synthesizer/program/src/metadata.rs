//! The metadata of a packet (annotations, time stamp, packet type, input port) as bytes with consecutive
//! indices, so that analyses treat annotations and other metadata alike.

use element::effects::{Field, HeaderKind};

/// The index of a metadata byte of a packet: 0 to 47 are Click's annotation bytes; the constants below have
/// the others.
pub type Metadata = u8;

/// The index, among the metadata bytes, of the first of the eight bytes of the time stamp.
pub const TIME: Metadata = 48;
/// The index, among the metadata bytes, of the packet type.
pub const KIND: Metadata = 56;
/// The index, among the metadata bytes, of the number of the input port or device that the packet came from.
pub const INPUT: Metadata = 57;

/// Returns the index of a field's first metadata byte, and its number of bytes; `None` for fields of the
/// packet's data, its length, and header marks.
pub fn metadata_of(field: &Field) -> Option<(Metadata, Metadata)> {
    Some(match *field {
        Field::Annotation { offset, length } => (offset, length),
        Field::TimeStamp => (TIME, 8),
        Field::Kind => (KIND, 1),
        Field::InputPort => (INPUT, 1),
        Field::Bytes { .. } | Field::HeaderOffset(_) | Field::Length | Field::Payload => return None,
    })
}

/// Returns the offsets of the link, network and transport header that are marked on a packet that an element
/// makes. `starts` is the header with which the packet starts. Without a declared header, the packet counts
/// as an Ethernet frame. No header is marked if the packet starts with another header than Ethernet, IPv4 or
/// IPv6.
pub fn headers_of(starts: Option<HeaderKind>) -> [Option<i32>; 3] {
    match starts {
        Some(HeaderKind::Ethernet) | None => [Some(0), None, None],
        Some(HeaderKind::Ipv4) => [None, Some(0), Some(20)],
        Some(HeaderKind::Ipv6) => [None, Some(0), Some(40)],
        Some(_) => [None; 3],
    }
}
