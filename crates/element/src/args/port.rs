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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{TcpPort, UdpPort};
    use crate::setup::Setup;

    #[test]
    fn names_go_by_protocol_and_numbers_fit() {
        let mut setup = Setup::default();
        setup.names.set_port("", "mine", wire::ip_protocol::TCP, 4321);
        setup.names.set_port("", "ssh", wire::ip_protocol::TCP, 2222);
        let place = Place::new(&setup, 0);
        assert_eq!(TcpPort::parse(" 0x50 ", &place), Ok(Port(80)));
        assert_eq!(TcpPort::parse("mine", &place), Ok(Port(4321)));
        assert_eq!(UdpPort::parse("mine", &place), Err("parse error".into()));
        assert_eq!(TcpPort::parse("ssh", &place), Ok(Port(2222)), "the configuration goes first");
        assert_eq!(UdpPort::parse("domain", &place), Ok(Port(53)));
        for number in ["65536", "-1"] {
            assert_eq!(TcpPort::parse(number, &place), Err("overflow, range 0-65535".into()));
        }
    }
}
