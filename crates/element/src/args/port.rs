//! TCP and UDP ports, by number or by a name.

use super::{Arg, PARSE_ERROR, Place, parse_integer};

/// A port of the IP protocol with this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port<const PROTOCOL: u8>(pub u16);

/// A TCP port.
pub type TcpPort = Port<{ wire::ip_protocol::TCP }>;
/// A UDP port.
pub type UdpPort = Port<{ wire::ip_protocol::UDP }>;

impl<const PROTOCOL: u8> Arg for Port<PROTOCOL> {
    fn parse(text: &str, place: &Place<'_>) -> Result<Self, String> {
        let text = text.trim();
        match parse_integer(text) {
            Ok(number) => u16::try_from(number).map(Port).map_err(|_| "overflow, range 0-65535".to_string()),
            Err(_) => place.known_port(text, PROTOCOL).map(Port).ok_or_else(|| PARSE_ERROR.into()),
        }
    }
}
