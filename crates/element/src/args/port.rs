//! Ports of TCP, UDP and other protocols in arguments, written as a number or as a name.

use super::{ArgType, Scope, not_a, out_of_range, parse_integer};

/// A port of the IP protocol with the number `PROTOCOL`. It is written as a number, or as a name that the
/// configuration, the well-known ports or the machine's list of services has for the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpPort<const PROTOCOL: u8>(pub u16);

/// A port of TCP.
pub type TcpPort = IpPort<{ wire::ip_protocol::TCP }>;
/// A port of UDP.
pub type UdpPort = IpPort<{ wire::ip_protocol::UDP }>;

impl<const PROTOCOL: u8> ArgType for IpPort<PROTOCOL> {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Self, String> {
        let text = text.trim();
        let expected = "a port; write a number from 0 to 65535, or the name of a service";
        match parse_integer(text) {
            Ok(number) => u16::try_from(number).map(IpPort).map_err(|_| out_of_range(text, 0, u16::MAX)),
            Err(_) => place.known_port(text, PROTOCOL).map(IpPort).ok_or_else(|| not_a(text, expected)),
        }
    }

    fn clicks_words(text: &str) -> Option<String> {
        let is_number = parse_integer(text.trim()).is_ok();
        Some(if is_number { "overflow, range 0-65535" } else { "parse error" }.into())
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
        let place = Scope::new(&setup, 0);
        assert_eq!(TcpPort::parse(" 0x50 ", &place), Ok(IpPort(80)));
        assert_eq!(TcpPort::parse("mine", &place), Ok(IpPort(4321)));
        assert_eq!(
            UdpPort::parse("mine", &place),
            Err("'mine' is not a port; write a number from 0 to 65535, or the name of a service".into())
        );
        assert_eq!(TcpPort::parse("ssh", &place), Ok(IpPort(2222)), "the configuration goes first");
        assert_eq!(UdpPort::parse("domain", &place), Ok(IpPort(53)));
        assert_eq!(TcpPort::parse("65536", &place), Err("65536 is too large; the most is 65535".into()));
        assert_eq!(TcpPort::parse("-1", &place), Err("-1 is too small; the least is 0".into()));
    }
}
