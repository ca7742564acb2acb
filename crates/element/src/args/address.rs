//! Addresses and prefixes in arguments, written directly or as names that AddressInfo declares.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::ethernet::MacAddr;

use super::{ArgType, Scope, not_a};

const EXPECTED_IPV4: (&str, &str) = ("an IP address", "four numbers from 0 to 255, such as 10.0.0.1");
const EXPECTED_IPV6: (&str, &str) = ("an IPv6 address", "one such as 2001:db8::1");
const EXPECTED_MAC: (&str, &str) = ("an Ethernet address", "six pairs such as 02:00:00:00:00:01");

/// Returns the message that a text is not an address, with a hint: that nothing has the name in a text such
/// as `eth0:eth`, or the form of an address.
fn not_an_address(text: &str, place: &Scope<'_>, (kind, example): (&str, &str)) -> String {
    let hint = match place.setup.names.name_in(text) {
        Some(name) => format!("no interface '{name}' has one, and AddressInfo declares none for '{name}'"),
        None => format!("write {example}"),
    };
    not_a(text, &format!("{kind}; {hint}"))
}

/// Returns the message that a text is not a prefix of at most `bits` bits. `example` is a valid prefix.
fn no_prefix(text: &str, bits: u32, example: &str) -> String {
    let length = text.split_once('/').and_then(|(_, length)| length.parse::<u32>().ok());
    match length.is_some_and(|length| length > bits) {
        true => format!("'{text}' is not a prefix: it has 0 to {bits} bits"),
        false => not_a(text, &format!("a prefix; write one such as {example}")),
    }
}

impl ArgType for Ipv4Addr {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Ipv4Addr, String> {
        let text = text.trim();
        let named = || place.setup.names.ipv4(place.scope(), text);
        text.parse().ok().or_else(named).ok_or_else(|| not_an_address(text, place, EXPECTED_IPV4))
    }
}

impl ArgType for Ipv6Addr {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Ipv6Addr, String> {
        let text = text.trim();
        let named = || place.setup.names.ipv6(place.scope(), text);
        text.parse().ok().or_else(named).ok_or_else(|| not_an_address(text, place, EXPECTED_IPV6))
    }
}

impl ArgType for MacAddr {
    fn parse(text: &str, place: &Scope<'_>) -> Result<MacAddr, String> {
        let text = text.trim();
        let named = || place.setup.names.mac(place.scope(), text);
        text.parse().ok().or_else(named).ok_or_else(|| not_an_address(text, place, EXPECTED_MAC))
    }
}

/// An IPv4 prefix. It is written `10.0.0.0/8`, `10/8` or `10.0.0.0/255.0.0.0`, as the name of a prefix, or
/// as an address alone, which means a prefix of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Prefix {
    /// The address as it was written, host bits included.
    pub address: Ipv4Addr,
    /// The mask: set for the bits of the prefix, clear for host bits. The set bits need not be contiguous.
    pub mask: Ipv4Addr,
}

impl Ipv4Prefix {
    /// True if `address` lies in the prefix.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let mask = self.mask.to_bits();
        address.to_bits() & mask == self.address.to_bits() & mask
    }

    /// Returns the first address of the prefix, with all host bits zero.
    pub fn network(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.mask.to_bits())
    }

    /// Returns the last address of the prefix, with all host bits one.
    pub fn broadcast(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask.to_bits())
    }

    fn mask_of(length: u8) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0))
    }

    /// Parses `address/length` or `address/mask`. `lookup` finds the address that a name means. `None` if the
    /// text has another form, or if its address, length or mask is not valid.
    fn with_mask(text: &str, lookup: impl Fn(&str) -> Option<Ipv4Addr>) -> Option<Ipv4Prefix> {
        let (address, mask) = text.split_once('/')?;
        let mask = match mask.parse::<u8>() {
            Ok(length) if length <= 32 => Self::mask_of(length),
            Ok(_) => return None,
            Err(_) => mask.parse().ok()?,
        };
        let parts: Vec<&str> = address.split('.').collect();
        let short = parts.len() < 4 && parts.iter().all(|p| p.parse::<u8>().is_ok());
        let address = match short {
            true => (address.to_string() + &".0".repeat(4 - parts.len())).parse().ok()?,
            false => address.parse().ok().or_else(|| lookup(address))?,
        };
        Some(Ipv4Prefix { address, mask })
    }
}

/// Parses a prefix with a length or mask; names are not accepted.
impl std::str::FromStr for Ipv4Prefix {
    type Err = ();

    fn from_str(text: &str) -> Result<Ipv4Prefix, ()> {
        Self::with_mask(text, |_| None).ok_or(())
    }
}

impl ArgType for Ipv4Prefix {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Ipv4Prefix, String> {
        let text = text.trim();
        if text.contains('/') {
            let lookup = |name: &str| place.setup.names.ipv4(place.scope(), name);
            let example = "10.0.0.0/8 or 10.0.0.0/255.0.0.0";
            return Ipv4Prefix::with_mask(text, lookup).ok_or_else(|| no_prefix(text, 32, example));
        }
        match place.setup.names.ipv4_prefix(place.scope(), text) {
            Some(prefix) => Ok(prefix),
            None => Ok(Ipv4Prefix { address: Ipv4Addr::parse(text, place)?, mask: Ipv4Addr::BROADCAST }),
        }
    }
}

/// An IPv6 prefix. It is written `fe80::/10`, as the name of a prefix, or as an address alone, which means
/// a prefix of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv6Prefix {
    /// The address as it was written, host bits included.
    pub address: Ipv6Addr,
    /// The length of the prefix in bits.
    pub length: u8,
}

impl Ipv6Prefix {
    /// True if `address` lies in the prefix.
    pub fn contains(&self, address: Ipv6Addr) -> bool {
        let differing = (address.to_bits() ^ self.address.to_bits()).leading_zeros();
        differing >= u32::from(self.length)
    }
}

/// Parses a prefix with a length; names are not accepted.
impl std::str::FromStr for Ipv6Prefix {
    type Err = ();

    fn from_str(text: &str) -> Result<Ipv6Prefix, ()> {
        let (address, length) = text.split_once('/').ok_or(())?;
        let length = length.parse().ok().filter(|&n| n <= 128).ok_or(())?;
        Ok(Ipv6Prefix { address: address.parse().map_err(|_| ())?, length })
    }
}

impl ArgType for Ipv6Prefix {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Ipv6Prefix, String> {
        let text = text.trim();
        if let Some((address, length)) = text.split_once('/') {
            let address = Ipv6Addr::parse(address, place).ok();
            let length = length.parse().ok().filter(|&n| n <= 128);
            let prefix = address.zip(length).map(|(address, length)| Ipv6Prefix { address, length });
            return prefix.ok_or_else(|| no_prefix(text, 128, "2001:db8::/32"));
        }
        match place.setup.names.ipv6_prefix(place.scope(), text) {
            Some(prefix) => Ok(prefix),
            None => Ok(Ipv6Prefix { address: Ipv6Addr::parse(text, place)?, length: 128 }),
        }
    }
}
