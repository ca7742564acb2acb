//! The meanings of words in filters: protocols, ports, TCP flags and ICMP types by their names, and the
//! names that a configuration defines.

use super::Protocol;

/// Parses numbers and addresses, and looks up names that the configuration defines. The rules are the same
/// as for all arguments of elements, so the caller of [`parse`](super::parse()) implements them. All
/// functions return `None` for a word that they do not recognise.
pub trait NameLookup {
    /// Parses an integer: decimal, hexadecimal with `0x`, or octal.
    fn integer(&self, word: &str) -> Option<i128>;
    /// Parses an IPv4 address, or a name of one, into host order.
    fn ipv4(&self, word: &str) -> Option<u32>;
    /// Parses an IPv4 prefix (`10.0.0.0/8`, `10/8`, `10.0.0.0/255.0.0.0`, or a name) into address and mask.
    fn ipv4_prefix(&self, word: &str) -> Option<(u32, u32)>;
    /// Parses an IPv6 address, or a name of one, into host order.
    fn ipv6(&self, word: &str) -> Option<u128>;
    /// Parses an IPv6 prefix into address and mask.
    fn ipv6_prefix(&self, word: &str) -> Option<(u128, u128)>;
    /// Parses an Ethernet address, or a name of one.
    fn ether(&self, word: &str) -> Option<[u8; 6]>;
    /// Returns the number of a port that the configuration has named, for TCP or UDP. A name that the
    /// configuration defines has priority over the names of well-known ports.
    fn port(&self, _word: &str, _protocol: Protocol) -> Option<u16> {
        None
    }
    /// Returns the most similar word of a list, if it is similar enough that a user may have mistyped it;
    /// for suggestions in error messages.
    fn nearest<'w>(&self, _word: &str, _words: &[&'w str]) -> Option<&'w str> {
        None
    }
}

/// All meanings that a word has as a name. A word may have several meanings: `echo` is a port and an ICMP
/// type.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meanings {
    pub(super) protocol: Option<Protocol>,
    pub(super) tcp_port: Option<u16>,
    pub(super) udp_port: Option<u16>,
    pub(super) tcp_flag: Option<u8>,
    pub(super) icmp_type: Option<u8>,
}

impl Meanings {
    pub(super) fn of(word: &str, names: &(impl NameLookup + ?Sized)) -> Meanings {
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

/// Returns the number of the protocol with this name; `None` if there is no such protocol, or if the name
/// means a set of protocols.
pub fn ip_protocol(word: &str) -> Option<u8> {
    match word {
        // These names are not words of Click's filter language.
        "gre" => Some(47),
        "sctp" => Some(132),
        _ => find(PROTOCOLS, word).and_then(|protocol| match protocol {
            Protocol::Number(number) => Some(number),
            Protocol::TcpOrUdp | Protocol::Any => None,
        }),
    }
}

/// Returns the number of the well-known TCP or UDP port with this name.
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

/// The ports that Click knows by name, and `http` from `/etc/services`.
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
