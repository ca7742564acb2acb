//! The fields of a packet that rules test: the header bytes that hold them, their widths and their names.

use classify::IntervalSet;
use classify::filter::HeaderLayer;

/// A field of an IPv4 packet, or a property of its flow or of its way through the host.
///
/// The variants are in the order of the diagrams' variables. Fields that few rules test come first, and the
/// fields for which rules are most specific come last, which keeps the diagrams small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketField {
    /// The state of the packet's connection, as the number of a name in [`STATES`].
    ConnectionState,
    /// The name of the interface by which the packet came in, as [`name_range`] encodes it.
    InInterface,
    /// The name of the interface by which the packet leaves, as [`name_range`] encodes it.
    OutInterface,
    /// The type of service byte, which consists of DSCP and ECN.
    TypeOfService,
    /// The total length of the IP packet in bytes.
    TotalLength,
    /// The time to live.
    TimeToLive,
    /// The flags of the TCP header.
    TcpFlags,
    /// The protocol number.
    Protocol,
    /// The two bytes with the fragment offset (13 bits) and the flags above it.
    Fragment,
    /// The destination port, or in general the third and fourth byte after the IP header.
    DestinationPort,
    /// The destination address.
    Destination,
    /// The source address.
    Source,
    /// The source port, or in general the first two bytes after the IP header. For ICMP, these are type and
    /// code.
    SourcePort,
}

/// The number of fields.
pub const FIELDS: usize = 13;

/// A packet as the values of all fields, in the order of [`PacketField::ALL`].
pub type FieldValues = [u128; FIELDS];

/// The names of the states of a connection. A state's number is its index.
pub const STATES: [&str; 5] = ["new", "established", "related", "invalid", "untracked"];

/// The mask of the fragment offset, and the mask of offset and more-fragments flag. A packet is no fragment
/// if all bits of the second mask are zero.
pub const OFFSET_MASK: u128 = 0x1fff;
/// The mask of the fragment offset and the more-fragments flag.
pub const FRAGMENT_MASK: u128 = 0x3fff;

impl PacketField {
    /// All fields, in the order of the diagrams' variables.
    pub const ALL: [PacketField; FIELDS] = [
        PacketField::ConnectionState,
        PacketField::InInterface,
        PacketField::OutInterface,
        PacketField::TypeOfService,
        PacketField::TotalLength,
        PacketField::TimeToLive,
        PacketField::TcpFlags,
        PacketField::Protocol,
        PacketField::Fragment,
        PacketField::DestinationPort,
        PacketField::Destination,
        PacketField::Source,
        PacketField::SourcePort,
    ];

    /// Returns the width of the field in bits.
    pub fn bits(self) -> u32 {
        match self {
            PacketField::ConnectionState => 3,
            PacketField::InInterface | PacketField::OutInterface => 8 * LONGEST_NAME as u32,
            PacketField::TypeOfService
            | PacketField::TimeToLive
            | PacketField::TcpFlags
            | PacketField::Protocol => 8,
            PacketField::TotalLength
            | PacketField::Fragment
            | PacketField::SourcePort
            | PacketField::DestinationPort => 16,
            PacketField::Source | PacketField::Destination => 32,
        }
    }

    /// Returns the largest value of the field.
    pub fn top(self) -> u128 {
        match self {
            PacketField::ConnectionState => STATES.len() as u128 - 1,
            field => (1 << field.bits()) - 1,
        }
    }

    /// Returns the set of all values of the field.
    pub fn all(self) -> IntervalSet {
        IntervalSet::one(0, self.top())
    }

    /// Returns the values of the field that are not in a set.
    pub fn complement(self, set: &IntervalSet) -> IntervalSet {
        set.complement(self.bits()).intersection(&self.all())
    }

    /// True if only packets of some protocols have the field, after an IP header that is in each fragment.
    pub fn is_transport(self) -> bool {
        matches!(self.place(), Some((HeaderLayer::Transport, _)))
    }

    /// Returns the header that has the field, and the offset of the field in bytes; `None` for fields that
    /// are not in the packet's bytes.
    pub fn place(self) -> Option<(HeaderLayer, u32)> {
        Some(match self {
            PacketField::ConnectionState | PacketField::InInterface | PacketField::OutInterface => {
                return None;
            }
            PacketField::TypeOfService => (HeaderLayer::Network, 1),
            PacketField::TotalLength => (HeaderLayer::Network, 2),
            PacketField::Fragment => (HeaderLayer::Network, 6),
            PacketField::TimeToLive => (HeaderLayer::Network, 8),
            PacketField::Protocol => (HeaderLayer::Network, 9),
            PacketField::Source => (HeaderLayer::Network, 12),
            PacketField::Destination => (HeaderLayer::Network, 16),
            PacketField::SourcePort => (HeaderLayer::Transport, 0),
            PacketField::DestinationPort => (HeaderLayer::Transport, 2),
            PacketField::TcpFlags => (HeaderLayer::Transport, 13),
        })
    }

    /// Returns the field that contains `length` bytes at the offset `offset` of a header, and the number of
    /// bits of the field after these bytes; `None` if no field contains them.
    pub fn containing(header: HeaderLayer, offset: u32, length: u32) -> Option<(PacketField, u32)> {
        PacketField::ALL.into_iter().find_map(|field| {
            let (own, first) = field.place()?;
            let after =
                (first * 8 + field.bits()).checked_sub(offset.checked_add(length)?.checked_mul(8)?)?;
            (own == header && first <= offset).then_some((field, after))
        })
    }
}

/// The most bytes of an interface's name (IFNAMSIZ of Linux, without the zero at the end).
const LONGEST_NAME: usize = 15;

/// Returns the range of numbers that stand for an interface's name, or for all names that begin with `name`
/// if
/// `is_prefix`. A name is a number with its first byte as the most significant byte, so the names with one
/// prefix are consecutive. `None` if the name is too long, or contains a zero byte.
pub fn name_range(name: &str, is_prefix: bool) -> Option<(u128, u128)> {
    if name.len() > LONGEST_NAME || name.contains('\0') {
        return None;
    }
    let number = name.bytes().fold(0, |number: u128, byte| number << 8 | u128::from(byte));
    let free = 8 * (LONGEST_NAME - name.len());
    let low = number << free;
    Some((low, if is_prefix { low | ((1 << free) - 1) } else { low }))
}

/// Returns the name, or the prefix of names with a star, for which a range of numbers stands; `None` if it
/// stands for several names without a common prefix.
pub fn name_of(low: u128, high: u128) -> Option<String> {
    let bytes = &low.to_be_bytes()[16 - LONGEST_NAME..];
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let name = std::str::from_utf8(&bytes[..end]).ok()?;
    // A name with the prefix may begin with the zero bytes after the prefix, so the first prefix that fits is
    // the shortest.
    let fits = |is_prefix| name_range(name, is_prefix) == Some((low, high));
    match (fits(false), fits(true)) {
        (true, _) => Some(name.to_string()),
        (_, true) => Some(format!("{name}*")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_the_order_of_their_numbers() {
        for (number, field) in PacketField::ALL.into_iter().enumerate() {
            assert_eq!(field as usize, number);
            assert!(field.top() < 1 << field.bits());
        }
    }

    #[test]
    fn header_bytes_are_found_in_fields() {
        let find = PacketField::containing;
        assert_eq!(find(HeaderLayer::Network, 12, 4), Some((PacketField::Source, 0)));
        assert_eq!(find(HeaderLayer::Network, 17, 1), Some((PacketField::Destination, 16)));
        // The ICMP type is the first byte of the field at the place of the source port.
        assert_eq!(find(HeaderLayer::Transport, 0, 1), Some((PacketField::SourcePort, 8)));
        assert_eq!(find(HeaderLayer::Transport, 0, 4), None);
        assert_eq!(find(HeaderLayer::Network, 4, 2), None);
        assert_eq!(find(HeaderLayer::Mac, 12, 2), None);
        assert_eq!(find(HeaderLayer::Network, u32::MAX, 4), None);
        assert_eq!(find(HeaderLayer::Network, 1 << 29, 1), None);
    }

    #[test]
    fn names_with_a_prefix_are_a_range() {
        let (low, high) = name_range("eth", true).unwrap();
        let inside = |name| (low..=high).contains(&name_range(name, false).unwrap().0);
        assert!(inside("eth") && inside("eth0") && inside("eth0.12") && !inside("ens3") && !inside("et"));
        assert_eq!(name_of(low, high).as_deref(), Some("eth*"));
        let (low, high) = name_range("lo", false).unwrap();
        assert_eq!((name_of(low, high).as_deref(), name_of(low, high + 1)), (Some("lo"), None));
        assert_eq!(name_range("a-name-that-is-too-long", false), None);
        assert_eq!(name_range("fifteen-letters", true), name_range("fifteen-letters", false));
    }
}
