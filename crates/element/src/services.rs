//! Names of ports that the machine knows (services(5)).

use std::sync::LazyLock;

use wire::ip_protocol;

const FILE: &str = "/etc/services";

/// The services of the machine: name, IP protocol number and port, in the order of the file, with aliases as
/// services of their own.
type Services = Vec<(String, u8, u16)>;

static SERVICES: LazyLock<Services> =
    LazyLock::new(|| std::fs::read(FILE).map_or(Vec::new(), |text| parse(&String::from_utf8_lossy(&text))));

/// The port that a name means if the configuration has not given the name to a port. It is a well-known
/// port of any protocol, or a port that the file `/etc/services` lists for the IP protocol `protocol`.
/// `None` if the name is unknown.
pub fn port(name: &str, protocol: u8) -> Option<u16> {
    classify::filter::well_known_port(name).or_else(|| find(&SERVICES, name, protocol))
}

/// Parses a TCP port, given by number or by the name of a service.
pub fn tcp_port(text: &str) -> Option<u16> {
    text.parse().ok().or_else(|| port(text, ip_protocol::TCP))
}

fn find(services: &Services, name: &str, protocol: u8) -> Option<u16> {
    services.iter().find(|(n, p, _)| n == name && *p == protocol).map(|&(_, _, port)| port)
}

/// Parses lines of `name port/protocol alias ...  # comment`. Lines of other forms, and of protocols other
/// than TCP, UDP and DCCP, are skipped.
fn parse(text: &str) -> Services {
    let mut services = Services::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let (Some(name), Some((port, protocol))) =
            (words.next(), words.next().and_then(|w| w.split_once('/')))
        else {
            continue;
        };
        let protocol = match protocol {
            "tcp" => ip_protocol::TCP,
            "udp" => ip_protocol::UDP,
            "dccp" => ip_protocol::DCCP,
            _ => continue,
        };
        let Ok(port) = port.parse() else { continue };
        services.extend(words.chain([name]).map(|name| (name.to_string(), protocol, port)));
    }
    services
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_go_with_their_protocol() {
        let services =
            parse("# list\nssh 22/tcp # login\n\nntp 123/udp time-of-day\nbad x/tcp\nodd\nfoo 1/sctp\n");
        assert_eq!(find(&services, "ssh", ip_protocol::TCP), Some(22));
        assert_eq!(find(&services, "ssh", ip_protocol::UDP), None);
        assert_eq!(find(&services, "time-of-day", ip_protocol::UDP), Some(123));
        assert_eq!(services.len(), 3);
    }
}
