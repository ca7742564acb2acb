//! Names of ICMP types and codes, as Click has them.

/// Types by number.
const TYPES: &[(u64, &str)] = &[
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

/// Codes of destination unreachable, redirect, time exceeded and parameter problem, from 0.
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

/// The name of a type.
pub fn icmp_type(kind: u64) -> Option<&'static str> {
    TYPES.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

/// The type of a name or number.
pub fn icmp_type_number(name: &str) -> Option<u64> {
    let named = TYPES.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
    named.or_else(|| name.parse::<u8>().ok().map(u64::from))
}

fn codes(kind: u8) -> &'static [&'static str] {
    CODES.iter().find(|(of, _)| *of == kind).map_or(&[], |(_, names)| names)
}

/// The name of a code of a type.
pub fn icmp_code(kind: u8, code: u64) -> Option<&'static str> {
    codes(kind).get(usize::try_from(code).ok()?).copied()
}

/// The code of a type, by name or number.
pub fn icmp_code_number(kind: u8, name: &str) -> Option<u64> {
    let named = codes(kind).iter().position(|known| *known == name).map(|code| code as u64);
    named.or_else(|| name.parse::<u8>().ok().map(u64::from))
}
