//! Locations of bytes of the input packet, and values of bytes as expressions over the input packet.
//!
//! Offsets are counted from the first byte of the input packet.

/// The location of a byte of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    /// A byte of the packet, at an offset.
    Byte(i32),
    /// An annotation byte.
    Annotation(u8),
    /// A byte of the values that a stateful element gives to packets of its flow: the step, and the index
    /// among its values.
    Leased(u16, u8),
}

impl Location {
    /// Returns the location `more` bytes later.
    pub fn behind(self, more: i32) -> Location {
        match self {
            Location::Byte(place) => Location::Byte(place.saturating_add(more)),
            Location::Annotation(place) => {
                Location::Annotation((i32::from(place) + more).clamp(0, 255) as u8)
            }
            Location::Leased(step, place) => {
                Location::Leased(step, (i32::from(place) + more).clamp(0, 255) as u8)
            }
        }
    }
}

/// The value of a byte, as an expression over the input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Byte {
    /// A constant.
    Constant(u8),
    /// The input byte at a location.
    Came(Location),
    /// The input byte at a location, with some bits cleared and others set.
    Masked {
        /// The location.
        place: Location,
        /// The bits that are kept.
        and: u8,
        /// The bits that are set.
        or: u8,
    },
    /// A byte of an input number plus a constant.
    Plus {
        /// The location of the number's first byte.
        place: Location,
        /// The length of the number in bytes.
        length: u8,
        /// The constant that is added to the number that the bytes hold.
        plus: i64,
        /// The index of the byte in the number.
        index: u8,
    },
}

/// The length of an IPv4 header without options in bytes.
pub const IPV4: i32 = 20;

/// The offset of the checksum in an IPv4 header.
pub const IPV4_SUM: i32 = 10;
