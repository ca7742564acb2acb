//! Packets that are given by a description or by their bytes, for `tidegate trace-packet`.

use std::net::{IpAddr, SocketAddr};

use wire::build::Builder;
use wire::{MacAddr, tcp};

/// The Ethernet addresses of a packet whose description has none.
const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DESTINATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// The forms of a description, for the help and for error messages.
pub(super) const FORMS: &str = "'[ether MAC > MAC] [vlan ID] tcp|udp ADDRESS:PORT > ADDRESS:PORT', \
    '... icmp ADDRESS > ADDRESS' or '... ip PROTOCOL ADDRESS > ADDRESS', followed by any of: \
    ttl N, tos N, length N (of the frame, in bytes), syn, ack, fin, rst, psh, urg";

/// The first words of descriptions. Other words on the command line are values of parameters.
const STARTS: &[&str] = &["ether", "vlan", "tcp", "udp", "icmp", "ip"];

/// True if a word of the command line describes a packet.
pub(super) fn is_description(word: &str) -> bool {
    word.split_whitespace().next().is_some_and(|first| STARTS.contains(&first))
        && word.split_whitespace().nth(1).is_some()
}

/// Makes the Ethernet frame of a description.
///
/// # Errors
/// If the description has another form: a message for the user.
pub(super) fn frame(description: &str) -> Result<Vec<u8>, String> {
    let mut words = Words { words: description.split_whitespace().collect(), at: 0 };
    let (mut ethernet, mut vlans) = ((SOURCE, DESTINATION), Vec::new());
    let (protocol, number) = loop {
        match words.next()? {
            "ether" => ethernet = words.ends("an Ethernet address", |word| word.parse().ok())?,
            "vlan" => vlans.push(words.number("a VLAN identifier", 4095)? as u16),
            "ip" => break ("ip", words.number("the number of a protocol", 255)? as u8),
            other => break (other, 0),
        }
    };
    let address = |word: &str| word.parse::<IpAddr>().ok();
    let (from, to) = match protocol {
        "tcp" | "udp" => words.ends("ADDRESS:PORT", |word| word.parse::<SocketAddr>().ok())?,
        "icmp" | "ip" => {
            let (from, to) = words.ends("an IP address", address)?;
            (SocketAddr::new(from, 0), SocketAddr::new(to, 0))
        }
        other => return Err(format!("'{other}' is no protocol; a packet is described as {FORMS}")),
    };
    if from.is_ipv4() != to.is_ipv4() {
        return Err(format!("{from} and {to} are addresses of different versions of IP"));
    }
    let (mut flags, mut ttl, mut tos, mut length) = (0, 64, 0, 0);
    while let Some(word) = words.more() {
        match word {
            "ttl" => ttl = words.number("a time to live", 255)? as u8,
            "tos" => tos = words.number("a type of service", 255)? as u8,
            "length" => length = words.number("a number of bytes", 9_000)?,
            "syn" => flags |= tcp::flags::SYN,
            "ack" => flags |= tcp::flags::ACK,
            "fin" => flags |= tcp::flags::FIN,
            "rst" => flags |= tcp::flags::RST,
            "psh" => flags |= tcp::flags::PSH,
            "urg" => flags |= tcp::flags::URG,
            other => return Err(format!("'{other}' is not known; a packet is described as {FORMS}")),
        }
    }
    if flags != 0 && protocol != "tcp" {
        return Err(format!("{protocol} has no flags; only tcp has"));
    }
    let builder = match protocol {
        "tcp" => Builder::tcp(from, to, flags),
        "udp" => Builder::udp(from, to),
        // An echo request, of either version.
        "icmp" => Builder::icmp(from.ip(), to.ip(), if from.is_ipv4() { 8 } else { 128 }, 0, [1, 1]),
        _ => Builder::ip(from.ip(), to.ip(), number),
    };
    let builder = builder.ethernet(ethernet.0, ethernet.1).ttl(ttl).tos(tos);
    let builder = vlans.into_iter().fold(builder, Builder::vlan);
    let build = |payload: usize| builder.build(&vec![0; payload]).map_err(|error| error.to_string());
    let headers = build(0)?.len();
    match length.checked_sub(headers) {
        Some(payload) => build(payload),
        None if length > 0 => {
            Err(format!("the headers alone have {headers} bytes, more than length {length}"))
        }
        None => build(0),
    }
}

/// The words of a description that have not been read yet.
struct Words<'d> {
    words: Vec<&'d str>,
    at: usize,
}

impl<'d> Words<'d> {
    fn more(&mut self) -> Option<&'d str> {
        self.at += 1;
        self.words.get(self.at - 1).copied()
    }

    fn next(&mut self) -> Result<&'d str, String> {
        let ends = || format!("the description of the packet ends too early; it is {FORMS}");
        self.more().ok_or_else(ends)
    }

    fn number(&mut self, what: &str, most: usize) -> Result<usize, String> {
        let word = self.next()?;
        let number = word.parse().ok().filter(|&number: &usize| number <= most);
        number.ok_or_else(|| format!("'{word}' is not {what}: 0 to {most}"))
    }

    /// Reads `A > B`.
    fn ends<T>(&mut self, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<(T, T), String> {
        let read = |words: &mut Self| {
            let word = words.next()?;
            parse(word).ok_or_else(|| format!("'{word}' is not {what}"))
        };
        let from = read(self)?;
        match self.next()? {
            ">" => Ok((from, read(self)?)),
            other => Err(format!("'{other}' stands where '>' is expected, between source and destination")),
        }
    }
}

/// The bytes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Vec<u8>);

/// Parses hexadecimal digits, which may have spaces and colons between them.
///
/// # Errors
/// If the text has other characters or half a byte: a message for the user.
pub(super) fn bytes(text: &str) -> Result<Bytes, String> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    match program::hex::bytes(&digits) {
        Some(bytes) if !bytes.is_empty() => Ok(Bytes(bytes)),
        _ => Err("a packet is given as hexadecimal digits, two for each byte".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::PacketKind;

    fn described(text: &str) -> String {
        crate::packets::describe(&frame(text).unwrap(), PacketKind::Host)
    }

    #[test]
    fn descriptions_make_the_packets_that_they_say() {
        assert_eq!(described("tcp 10.0.0.1:1 > 10.0.0.2:2"), "TCP 10.0.0.1:1 > 10.0.0.2:2, 54 bytes");
        assert_eq!(described("icmp 10.0.0.1 > 10.0.0.2"), "ICMP 10.0.0.1 > 10.0.0.2, 42 bytes");
        assert_eq!(described("icmp ::1 > ::2"), "ICMP6 ::1 > ::2, 62 bytes");
        let text = "udp 10.0.0.1:53 > 10.0.0.2:1024 ttl 1 length 100";
        assert_eq!(described(text), "UDP 10.0.0.1:53 > 10.0.0.2:1024, TTL 1, 100 bytes");
        let text = "ether 02:00:00:00:00:07 > ff:ff:ff:ff:ff:ff vlan 5 tcp [::1]:80 > [::2]:9 syn ack";
        let bytes = frame(text).unwrap();
        assert_eq!((&bytes[..2], bytes[11], &bytes[12..16]), (&[0xff, 0xff][..], 7, &[0x81, 0, 0, 5][..]));
        assert_eq!(bytes[18 + 40 + 13], 0x12);
        assert_eq!(described("ip 47 10.0.0.1 > 10.0.0.2"), "GRE 10.0.0.1 > 10.0.0.2, 34 bytes");
    }

    #[test]
    fn wrong_descriptions_say_what_is_wrong() {
        for (text, message) in [
            ("tcp 10.0.0.1 > 10.0.0.2:1", "'10.0.0.1' is not ADDRESS:PORT"),
            ("tcp 10.0.0.1:1 10.0.0.2:1", "'10.0.0.2:1' stands where '>' is expected"),
            ("tcp 10.0.0.1:1 >", "ends too early"),
            ("sctp 10.0.0.1:1 > 10.0.0.2:1", "'sctp' is no protocol"),
            ("udp 10.0.0.1:1 > 10.0.0.2:1 syn", "udp has no flags"),
            ("udp 10.0.0.1:1 > [::1]:1", "different versions"),
            ("udp 10.0.0.1:1 > 10.0.0.2:1 length 20", "the headers alone have 42 bytes"),
            ("udp 10.0.0.1:1 > 10.0.0.2:1 ttl 256", "0 to 255"),
        ] {
            let error = frame(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        assert_eq!(bytes("45 00:0a").unwrap(), Bytes(vec![0x45, 0, 10]));
        assert!(bytes("450").is_err() && bytes("").is_err() && bytes("xy").is_err());
    }

    #[test]
    fn descriptions_differ_from_values_of_parameters() {
        assert!(is_description("udp 10.0.0.1:1 > 10.0.0.2:2"));
        assert!(!is_description("RULE=udp 10.0.0.1"));
        assert!(!is_description("udp"));
    }
}
