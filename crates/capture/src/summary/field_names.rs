//! Values of ICMP type and code fields: names if there are any, otherwise numbers.

use wire::icmp_names;

/// Returns the name of an ICMP type; `None` if it has none.
pub(super) fn icmp_type(kind: u64) -> Option<&'static str> {
    icmp_names::kind_name(u8::try_from(kind).ok()?)
}

/// Returns the ICMP type with this name or decimal number (0 to 255); `None` for other texts.
pub(super) fn icmp_type_number(name: &str) -> Option<u64> {
    icmp_names::kind(name).or_else(|| name.parse().ok()).map(u64::from)
}

/// Returns the name of a code of ICMP type `kind`; `None` if it has none.
pub(super) fn icmp_code(kind: u8, code: u64) -> Option<&'static str> {
    icmp_names::code_name(kind, u8::try_from(code).ok()?)
}

/// Returns the code of ICMP type `kind` with this name or decimal number (0 to 255); `None` for other texts.
pub(super) fn icmp_code_number(kind: u8, name: &str) -> Option<u64> {
    icmp_names::code(kind, name).or_else(|| name.parse().ok()).map(u64::from)
}
