//! Whose Ethernet address is whose, for elements that answer for others: prefixes, the most specific one counts.

use std::ops::BitAnd;

use wire::MacAddr;

/// Whose Ethernet address is whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<A> {
    /// Without bits outside of the mask.
    pub(crate) network: A,
    pub(crate) mask: A,
    pub(crate) mac: MacAddr,
}

impl<A: Copy + PartialEq + BitAnd<Output = A>> Entry<A> {
    fn matches(&self, address: A) -> bool {
        address & self.mask == self.network
    }

    pub(crate) fn is_same_prefix(&self, other: &Entry<A>) -> bool {
        (self.network, self.mask) == (other.network, other.mask)
    }

    /// Whether all of the other one's addresses match.
    fn covers(&self, other: &Entry<A>) -> bool {
        self.mask & other.mask == self.mask && self.matches(other.network)
    }
}

/// Entries, each before those that cover it; else in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries<A>(pub(crate) Vec<Entry<A>>);

impl<A: Copy + PartialEq + BitAnd<Output = A>> Entries<A> {
    /// Adds entries, in the place of those with the same prefix, which are returned.
    pub(crate) fn add(&mut self, entries: &[Entry<A>]) -> Vec<Entry<A>> {
        let mut replaced = Vec::new();
        for entry in entries {
            match self.0.iter().position(|other| other.covers(entry)) {
                Some(place) if self.0[place].is_same_prefix(entry) => {
                    replaced.push(std::mem::replace(&mut self.0[place], *entry));
                }
                Some(place) => self.0.insert(place, *entry),
                None => self.0.push(*entry),
            }
        }
        replaced
    }

    /// The Ethernet address for an address.
    pub(crate) fn look_up(&self, address: A) -> Option<MacAddr> {
        self.0.iter().find(|entry| entry.matches(address)).map(|entry| entry.mac)
    }
}
