//! The address at which the server listens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The address at which the server listens: a port, on the loopback address unless a host is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress {
    /// The addresses to try, in this order.
    pub(crate) sockets: Vec<SocketAddr>,
    /// The host as the user wrote it, if it is a name.
    pub(crate) name: Option<String>,
}

/// Parses `PORT` or `HOST:PORT`. The host is an address or a name; an IPv6 address stands in brackets.
impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpAddress, String> {
        let usage = || format!("'{text}' is no address; write PORT, such as 9464, or HOST:PORT");
        let Some((host, port)) = text.rsplit_once(':') else {
            let port = text.parse().map_err(|_| usage())?;
            return Ok(HttpAddress { sockets: vec![(Ipv4Addr::LOCALHOST, port).into()], name: None });
        };
        let port: u16 = port.parse().map_err(|_| usage())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(host).parse::<IpAddr>() {
            // An IPv6 address without brackets would be ambiguous: its last part may be the port.
            return match ip.is_ipv6() && bare.is_none() {
                true => Err(usage()),
                false => Ok(HttpAddress { sockets: vec![(ip, port).into()], name: None }),
            };
        }
        if host.is_empty() || bare.is_some() {
            return Err(usage());
        }
        let found = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        Ok(HttpAddress { sockets: found.collect(), name: Some(host.to_ascii_lowercase()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback_address() {
        let sockets = |text: &str| text.parse::<HttpAddress>().map(|address| address.sockets[0].to_string());
        assert_eq!(sockets("9464").unwrap(), "127.0.0.1:9464");
        assert_eq!(sockets("0.0.0.0:80").unwrap(), "0.0.0.0:80");
        assert_eq!(sockets("[::1]:80").unwrap(), "[::1]:80");
        for wrong in ["", "x", "70000", ":80", "::1:80", "[]:80", "1.2.3.4:", "-1"] {
            assert!(sockets(wrong).is_err(), "{wrong}");
        }
        assert_eq!("LocalHost:1".parse::<HttpAddress>().unwrap().name.unwrap(), "localhost");
    }
}
