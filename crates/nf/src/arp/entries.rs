//! Tables of Ethernet addresses by prefix, for elements that answer for other hosts. For an address, the
//! most specific matching prefix counts.

use std::ops::BitAnd;

use wire::MacAddr;

/// A prefix, and the Ethernet address with which requests for its addresses are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<A> {
    /// The prefix's address; bits that are zero in the mask are zero.
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

    /// True if all addresses of the prefix of `other` also belong to this prefix.
    fn covers(&self, other: &Entry<A>) -> bool {
        self.mask & other.mask == self.mask && self.matches(other.network)
    }
}

/// Entries ordered so that the first match is the most specific: each entry precedes the entries that cover
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries<A>(pub(crate) Vec<Entry<A>>);

impl<A: Copy + PartialEq + BitAnd<Output = A>> Entries<A> {
    /// Adds entries. An entry replaces the entry with the same prefix, if there is one. Returns the
    /// replaced entries.
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

    /// Returns the Ethernet address of the most specific prefix to which an address belongs; `None` if
    /// there is none.
    pub(crate) fn look_up(&self, address: A) -> Option<MacAddr> {
        self.0.iter().find(|entry| entry.matches(address)).map(|entry| entry.mac)
    }
}
