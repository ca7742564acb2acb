//! DHCP messages (RFC 2131) and their options (RFC 2132): the payload of UDP datagrams to the ports 67 and
//! 68.

use std::ops::Range;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{U16, U32};

/// The port of servers and relay agents.
pub const SERVER_PORT: u16 = 67;
/// The port of clients.
pub const CLIENT_PORT: u16 = 68;

/// The value of [`Header::op`] in messages from clients.
pub const REQUEST: u8 = 1;
/// The value of [`Header::op`] in messages from servers.
pub const REPLY: u8 = 2;

/// The bytes with which the options begin.
pub const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// The option that has no value and fills space.
pub const PAD: u8 = 0;
/// The option with information of the relay agent (RFC 3046).
pub const AGENT: u8 = 82;
/// The option that ends the options.
pub const END: u8 = 255;

/// The 240 bytes at the start of a message, up to the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`REQUEST`] or [`REPLY`].
    pub op: u8,
    /// The type of the hardware address; 1 for Ethernet.
    pub hardware: u8,
    /// The length of the hardware address in bytes.
    pub hardware_length: u8,
    /// The number of relay agents that the message has passed.
    pub hops: u8,
    /// The number by which a client finds the replies to its request.
    pub transaction: U32,
    /// The seconds since the client has begun.
    pub seconds: U16,
    /// The highest bit is set if the client can receive only broadcasts.
    pub flags: U16,
    /// The address that the client already uses.
    pub client: U32,
    /// The address that the client gets.
    pub yours: U32,
    /// The server from which the client is to load its system.
    pub server: U32,
    /// The address of the first relay agent, on the client's network; 0 if there is none.
    pub gateway: U32,
    /// The client's hardware address.
    pub hardware_address: [u8; 16],
    /// The name of the server.
    pub server_name: [u8; 64],
    /// The name of the file with the client's system.
    pub file: [u8; 128],
    /// [`COOKIE`].
    pub cookie: [u8; 4],
}

impl Header {
    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<Header>();
}

/// Returns the header of a message and the options after it. `None` if the bytes are too short, or no DHCP
/// message.
pub fn parse(message: &[u8]) -> Option<(&Header, &[u8])> {
    let (header, options) = Header::ref_from_prefix(message).ok()?;
    let is_valid = header.cookie == COOKIE
        && matches!(header.op, REQUEST | REPLY)
        && usize::from(header.hardware_length) <= header.hardware_address.len();
    is_valid.then_some((header, options))
}

/// Returns the range of the option `code` in the options of a message, with its code and its length. If it
/// comes several times, the first one is returned. `None` if it is missing, or an option before it does not
/// fit.
///
/// ```
/// use wire::dhcp;
/// let options = [53, 1, 1, 0, 82, 2, 9, 9, 255, 0];
/// assert_eq!(dhcp::find(&options, dhcp::AGENT), Some(4..8));
/// assert_eq!(dhcp::find(&options, dhcp::END), Some(8..9));
/// assert_eq!(dhcp::find(&options, 12), None);
/// ```
pub fn find(options: &[u8], code: u8) -> Option<Range<usize>> {
    let mut at = 0;
    loop {
        let length = match *options.get(at..)? {
            [PAD | END, ..] => 1,
            [_, length, ..] => 2 + usize::from(length),
            _ => return None,
        };
        let range = at..at + length;
        let found = options.get(range.clone())?[0];
        if found == code {
            return Some(range);
        }
        if found == END {
            return None;
        }
        at = range.end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Options are found where they were put, whatever comes before them.
        #[test]
        fn options_are_found(before in vec((1u8..=254, vec(any::<u8>(), 0..20), 0usize..3), 0..8), code in 1u8..=254) {
            let mut options = Vec::new();
            let mut expected = None;
            for (other, value, pads) in &before {
                let start = options.len() + pads;
                options.extend(vec![PAD; *pads]);
                options.extend([*other, value.len() as u8]);
                options.extend(value);
                if *other == code && expected.is_none() {
                    expected = Some(start..options.len());
                }
            }
            let end = options.len();
            options.push(END);
            options.extend([code, 0]);
            prop_assert_eq!(find(&options, code), expected);
            prop_assert_eq!(find(&options, END), Some(end..end + 1));
            // Options that are cut off are not found.
            for length in 0..end {
                prop_assert_eq!(find(&options[..length], END), None);
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..300), code: u8) {
            if let Some((_, options)) = parse(&bytes) {
                find(options, code);
            }
            if let Some(range) = find(&bytes, code) {
                prop_assert_eq!(bytes[range][0], code);
            }
        }
    }
}
