//! What words stand for: protocols, ports, TCP flags and ICMP types by their names, and whatever the
//! configuration gives names to.

use super::Protocol;

/// How numbers and addresses are written, and which names the configuration has for them. The rules are those of
/// all arguments, so they come from outside.
pub trait Names {
    /// A whole number, `0x` and octal included.
    fn integer(&self, word: &str) -> Option<i128>;
    /// An IPv4 address.
    fn ipv4(&self, word: &str) -> Option<u32>;
    /// An IPv4 prefix (`10.0.0.0/8`, `10/8`, `10.0.0.0/255.0.0.0`, a name of one): address and mask.
    fn ipv4_prefix(&self, word: &str) -> Option<(u32, u32)>;
    /// An IPv6 address.
    fn ipv6(&self, word: &str) -> Option<u128>;
    /// An IPv6 prefix: address and mask.
    fn ipv6_prefix(&self, word: &str) -> Option<(u128, u128)>;
    /// An Ethernet address.
    fn ether(&self, word: &str) -> Option<[u8; 6]>;
    /// A port that the configuration has given a name to; it goes before the well-known ones.
    fn port(&self, _word: &str, _protocol: Protocol) -> Option<u16> {
        None
    }
    /// The one of some words that is most like a word that means nothing, if that one may be meant.
    fn nearest<'w>(&self, _word: &str, _words: &[&'w str]) -> Option<&'w str> {
        None
    }
}

/// What a name means; several of them may hold at once.
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

/// The number of a protocol that has exactly one.
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

/// The number of a well-known TCP or UDP port.
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

/// Click's list, and `http` as services files have it.
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
