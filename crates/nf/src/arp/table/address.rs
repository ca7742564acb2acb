//! The addresses that are keys of a table of Ethernet addresses.

use std::fmt::Display;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The key of an entry: an IPv4 or IPv6 address as a number.
pub(crate) trait Address: Copy + Eq + Ord + Hash + Default {
    /// Returns the address in its usual notation, for handlers.
    fn shown(self) -> impl Display;

    /// Returns the address as a number.
    fn number(self) -> u128;

    /// Returns the address with this number; `None` if the number is too large.
    fn from_number(number: u128) -> Option<Self>;
}

impl Address for u32 {
    fn shown(self) -> impl Display {
        Ipv4Addr::from_bits(self)
    }

    fn number(self) -> u128 {
        self.into()
    }

    fn from_number(number: u128) -> Option<u32> {
        number.try_into().ok()
    }
}

impl Address for u128 {
    fn shown(self) -> impl Display {
        Ipv6Addr::from_bits(self)
    }

    fn number(self) -> u128 {
        self
    }

    fn from_number(number: u128) -> Option<u128> {
        Some(number)
    }
}
