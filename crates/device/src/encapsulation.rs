//! Click's names for link types, as in the argument ENCAP and the handler `encap`.

use wire::LinkType;

/// Pairs of a name and a link type number. If a number has several names, [`name`] returns the first.
const NAMES: &[(&str, u16)] = &[
    ("NULL", 0),
    ("ETHER", 1),
    ("PPP", 9),
    ("FDDI", 10),
    ("PPP_HDLC", 50),
    ("ATM", 100),
    ("RFC1483", 100),
    ("ATM_RFC1483", 100),
    ("IP", 101),
    ("HDLC", 104),
    ("802_11", 105),
    ("802.11", 105),
    ("LOOP", 108),
    ("SLL", 113),
    ("PRISM", 119),
    ("AIRONET", 120),
    ("SUNATM", 123),
    ("802_11_RADIO", 127),
    ("802.11_RADIO", 127),
    ("SLL2", 276),
];

/// Returns the link type with this name, or the link type with the number N for `#N`. Returns `None` if there
/// is no such name, or N is not a number from 0 to 65535.
pub fn parse(name: &str) -> Option<LinkType> {
    let number = match name.strip_prefix('#') {
        Some(number) => number.parse().ok(),
        None => NAMES.iter().find(|(n, _)| *n == name).map(|&(_, number)| number),
    };
    number.map(LinkType::from_number)
}

/// Returns the first name of a link type, or `#N` for a link type N without a name.
pub fn name(link: LinkType) -> String {
    let number = link.number();
    match NAMES.iter().find(|(_, n)| *n == number) {
        Some((name, _)) => (*name).to_string(),
        None => format!("#{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(parse("ETHER"), Some(LinkType::Ethernet));
        assert_eq!(parse("802.11").map(name), Some("802_11".into()));
        assert_eq!(parse("#147").map(name), Some("#147".into()));
        assert_eq!((parse("ether"), parse("#x")), (None, None));
    }
}
