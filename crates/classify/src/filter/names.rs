//! The meanings of words: protocols, ports, TCP flags and ICMP types by their names, and names that the
//! configuration defines.

use super::Protocol;

/// Parses numbers and addresses, and looks up names of the configuration. The rules are the same as for all
/// arguments, so they are given from outside.
pub trait Names {
    /// Parses an integer, including `0x` and octal.
    fn integer(&self, word: &str) -> Option<i128>;
    /// Parses an IPv4 address.
    fn ipv4(&self, word: &str) -> Option<u32>;
    /// Parses an IPv4 prefix (`10.0.0.0/8`, `10/8`, `10.0.0.0/255.0.0.0`, or a name): address and mask.
    fn ipv4_prefix(&self, word: &str) -> Option<(u32, u32)>;
    /// Parses an IPv6 address.
    fn ipv6(&self, word: &str) -> Option<u128>;
    /// Parses an IPv6 prefix: address and mask.
    fn ipv6_prefix(&self, word: &str) -> Option<(u128, u128)>;
    /// Parses an Ethernet address.
    fn ether(&self, word: &str) -> Option<[u8; 6]>;
    /// Returns a port that the configuration has named. It has priority over the well-known ports.
    fn port(&self, _word: &str, _protocol: Protocol) -> Option<u16> {
        None
    }
    /// Returns the most similar of some words for a word without meaning, if it is similar enough to be
    /// meant.
    fn nearest<'w>(&self, _word: &str, _words: &[&'w str]) -> Option<&'w str> {
        None
    }
}

/// The meanings of a name. A name may have several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meanings {
    pub(super) protocol: Option<Protocol>,
    pub(super) tcp_port: Option<u16>,
    pub(super) udp_port: Option<u16>,
    pub(super) tcp_flag: Option<u8>,
    pub(super) icmp_type: Option<u8>,
}

impl Meanings {
    pub(super) fn of(word: &str, names: &(impl Names + ?Sized)) -> Meanings {
        let known = find(PORTS, word);
        let port = |protocol| names.port(word, protocol).or(known);
        Meanings {
            protocol: find(PROTOCOLS, word),
            tcp_port: port(Protocol::TCP),
            udp_port: port(Protocol::UDP),
            tcp_flag: find(TCP_FLAGS, word),
            icmp_type: wire::icmp_names::kind(word),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let Meanings { protocol, tcp_port, udp_port, tcp_flag, icmp_type } = self;
        protocol.is_none() && tcp_port.or(*udp_port).is_none() && tcp_flag.or(*icmp_type).is_none()
    }
}

/// Returns the number of a protocol by its name, if the name means a single protocol.
pub fn ip_protocol(word: &str) -> Option<u8> {
    match word {
        // Not words of the filter language.
        "gre" => Some(47),
        "sctp" => Some(132),
        _ => find(PROTOCOLS, word).and_then(|protocol| match protocol {
            Protocol::Number(number) => Some(number),
            Protocol::TcpOrUdp | Protocol::Any => None,
        }),
    }
}

/// Returns the number of a well-known TCP or UDP port.
pub fn well_known_port(word: &str) -> Option<u16> {
    find(PORTS, word)
}

fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|&(_, value)| value)
}

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("icmp", Protocol::ICMP),
    ("igmp", Protocol::Number(2)),
    ("ipip", Protocol::Number(4)),
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("dccp", Protocol::DCCP),
    ("tcpudp", Protocol::TcpOrUdp),
    ("transp", Protocol::Any),
];

const TCP_FLAGS: &[(&str, u8)] = &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)];

/// Click's list of ports, and `http` as in services files.
const PORTS: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("dns", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("finger", 79),
    ("www", 80),
    ("http", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("irc", 194),
    ("imap3", 220),
    ("https", 443),
    ("rip", 520),
    ("route", 520),
    ("imaps", 993),
    ("pop3s", 995),
];
