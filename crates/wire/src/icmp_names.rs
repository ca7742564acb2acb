//! Names of ICMP types and codes (RFC 792, 950, 1122, 1256 and 1812), as Click configurations write them.

/// The number and the name of each ICMP type that has a name.
const TYPES: &[(u8, &str)] = &[
    (0, "echo-reply"),
    (3, "unreachable"),
    (4, "sourcequench"),
    (5, "redirect"),
    (8, "echo"),
    (9, "routeradvert"),
    (10, "routersolicit"),
    (11, "timeexceeded"),
    (12, "parameterproblem"),
    (13, "timestamp"),
    (14, "timestamp-reply"),
    (15, "inforeq"),
    (16, "inforeq-reply"),
    (17, "maskreq"),
    (18, "maskreq-reply"),
];

/// For each ICMP type with named codes (unreachable, redirect, time exceeded, parameter problem), the names
/// of the codes; the index of a name is its code.
const CODES: &[(u8, &[&str])] = &[
    (
        3,
        &[
            "net",
            "host",
            "protocol",
            "port",
            "needfrag",
            "srcroutefail",
            "netunknown",
            "hostunknown",
            "isolated",
            "netprohibited",
            "hostprohibited",
            "tosnet",
            "toshost",
            "filterprohibited",
            "hostprecedence",
            "precedencecutoff",
        ],
    ),
    (5, &["net", "host", "tosnet", "toshost"]),
    (11, &["transit", "reassembly"]),
    (12, &["erroratptr", "missingopt", "length"]),
];

fn codes(kind: u8) -> &'static [&'static str] {
    CODES.iter().find(|(of, _)| *of == kind).map_or(&[], |(_, names)| names)
}

/// Returns the name of an ICMP type; `None` if it has none.
pub fn kind_name(kind: u8) -> Option<&'static str> {
    TYPES.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

/// Returns the ICMP type with this name; `None` if there is none.
pub fn kind(name: &str) -> Option<u8> {
    TYPES.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}

/// Returns the name of a code of an ICMP type; `None` if it has none.
pub fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    codes(kind).get(usize::from(code)).copied()
}

/// Returns the code with this name of an ICMP type; `None` if there is none.
pub fn code(kind: u8, name: &str) -> Option<u8> {
    codes(kind).iter().position(|known| *known == name).map(|code| code as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        for number in 0..=u8::MAX {
            assert!(kind_name(number).is_none_or(|name| kind(name) == Some(number)));
            for value in 0..=u8::MAX {
                assert!(code_name(number, value).is_none_or(|name| code(number, name) == Some(value)));
            }
        }
        assert_eq!(
            (kind("timeexceeded"), code(11, "transit"), code(3, "needfrag")),
            (Some(11), Some(0), Some(4))
        );
        assert_eq!((kind("transit"), code(8, "net"), code_name(3, 16)), (None, None, None));
    }
}
