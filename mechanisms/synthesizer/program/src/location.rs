//! Locations of bytes of a program's input (packet bytes, annotations, leased values), and values of bytes
//! as expressions over the input.
//!
//! Offsets of packet bytes are counted from the first byte of the input packet. They are negative for bytes
//! that a program prepends.

/// The location of one byte that a program reads from its input, or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ByteLocation {
    /// A byte of the packet, at an offset from the start of the input packet.
    Byte(i32),
    /// An annotation byte, at an offset in the annotations (0 to 47).
    Annotation(u8),
    /// A byte of the values that a stateful element writes to packets of a leased flow, such as new
    /// addresses: the index of the element's step in the program, and the index of the byte among the
    /// element's values.
    Leased(u16, u8),
}

impl ByteLocation {
    /// Returns the location that is `more` bytes after this location. An offset that its integer type cannot
    /// represent becomes the type's lowest or highest number.
    pub fn after(self, more: i32) -> ByteLocation {
        match self {
            ByteLocation::Byte(place) => ByteLocation::Byte(place.saturating_add(more)),
            ByteLocation::Annotation(place) => {
                ByteLocation::Annotation((i32::from(place) + more).clamp(0, 255) as u8)
            }
            ByteLocation::Leased(step, place) => {
                ByteLocation::Leased(step, (i32::from(place) + more).clamp(0, 255) as u8)
            }
        }
    }
}

/// The value of one byte at some point of a path, as an expression over the program's input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ByteValue {
    /// A constant.
    Constant(u8),
    /// The byte that the input has at a location.
    Came(ByteLocation),
    /// The byte that the input has at a location, with some bits changed.
    Masked {
        /// The location of the byte.
        place: ByteLocation,
        /// The mask of the bits of the byte that are kept.
        and: u8,
        /// The bits of the byte that are set to one.
        or: u8,
    },
    /// A byte of a sum: a big-endian number of the input plus a constant.
    Plus {
        /// The location of the number's first byte.
        place: ByteLocation,
        /// The length of the number in bytes.
        length: u8,
        /// The constant that is added to the number.
        plus: i64,
        /// The index of the byte in the sum; 0 is the most significant byte.
        index: u8,
    },
}

/// The length of an IPv4 header without options in bytes.
pub const IPV4: i32 = 20;

/// The offset of the checksum in an IPv4 header.
pub const IPV4_SUM: i32 = 10;
