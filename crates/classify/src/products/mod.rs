//! Finds the first of many boxes that a point lies in, by tables.
//!
//! Of each field, only the set of boxes matters whose ranges contain the value. Values with the same set
//! form a *class*. A table maps each value to its class. Further tables map pairs of classes to classes,
//! two fields at a time. The last table holds the first rule for each pair of a class of both addresses and
//! a class of ports and protocol (recursive flow classification, Gupta and McKeown, "Packet Classification
//! on Multiple Fields", SIGCOMM 1999). The time of a look-up does not depend on the number of rules, and
//! look-ups of several packets do not wait for each other. But the tables grow with the product of the
//! numbers of classes, so they are made only if this is small. Otherwise, [`crate::cuts`] is used.

mod build;
#[cfg(test)]
mod tests;

use crate::cuts::{GROUP, NONE, Points};

/// The number of fields of a point: source, destination, two ports, protocol, and 1 for a later fragment.
pub const FIELDS: usize = 6;

/// The result of [`Products::first`] for a point where the caller has to check if a rule holds.
pub const ASK: u32 = u32::MAX - 1;

/// Tables for the look-up of boxes.
#[derive(Clone, Debug)]
pub struct Products {
    addresses: [Addresses; 2],
    ports: [Ports; 2],
    /// The class of each protocol, followed by the classes of protocols of later fragments.
    protocols: Box<[u16; 512]>,
    /// The classes of both addresses, of both ports, and of both ports with the protocol.
    pairs: Pairs,
    both_ports: Pairs,
    services: Pairs,
    /// The first rule for each pair of a class of addresses and a class of services.
    rules: Pairs,
}

/// The entry in [`Products::rules`] of points without a rule.
const NO_RULE: u16 = u16::MAX;
const ASK_FOR_RULE: u16 = u16::MAX - 1;

/// A table of values for pairs of classes.
#[derive(Clone, Debug, Default)]
struct Pairs {
    /// The number of classes on the right.
    width: u32,
    of: Vec<u16>,
}

impl Pairs {
    #[inline(always)]
    fn get(&self, left: u16, right: u16) -> u16 {
        self.of[(u32::from(left) * self.width + u32::from(right)) as usize]
    }
}

/// The classes of addresses: a table for the upper half of their bits, and tables for each of the lower
/// bytes where these matter.
#[derive(Clone, Debug)]
struct Addresses {
    /// The class, or [`INNER`] and the number of a table in `inner`.
    outer: Box<[u16; 1 << 16]>,
    /// Tables of 256 such entries, for the byte that follows.
    inner: Vec<u16>,
}

const INNER: u16 = 1 << 15;

impl Addresses {
    #[inline(always)]
    fn class(&self, address: u32) -> u16 {
        let [_, _, third, last] = address.to_be_bytes();
        self.within(self.within(self.outer[(address >> 16) as usize], third), last)
    }

    /// Looks `byte` up in the table that `entry` names, or returns `entry` if it is a class. There is no
    /// branch, because the processor could not predict it: without a table, the first table is read.
    #[inline(always)]
    fn within(&self, entry: u16, byte: u8) -> u16 {
        // All bits set if there is a table to look into.
        let is_inner = 0u16.wrapping_sub(entry / INNER);
        let table = usize::from(entry & !INNER & is_inner);
        let inner = self.inner[table << 8 | usize::from(byte)];
        inner & is_inner | entry & !is_inner
    }
}

/// The number of ports, and one more for packets without ports.
const PORTS: usize = (1 << 16) + 1;

/// The classes of ports.
#[derive(Clone, Debug)]
struct Ports(Box<[u16; PORTS]>);

impl Ports {
    #[inline(always)]
    fn class(&self, port: u32) -> u16 {
        self.0[(port as usize).min(PORTS - 1)]
    }
}

impl Products {
    /// Returns the first rule for each of the first `count` points, [`NONE`] for points without a rule,
    /// [`ASK`] if it depends on a condition.
    #[inline]
    pub fn first(&self, points: &Points<FIELDS>, count: usize) -> [u32; GROUP] {
        let [sources, destinations, source_ports, destination_ports, protocols, fragments] = points.fields();
        let [mut addresses, mut services, mut rules] = [[0; GROUP]; 3];
        let count = count.min(GROUP);
        for ((class, &source), &destination) in
            addresses.iter_mut().zip(sources).zip(destinations).take(count)
        {
            let [sources, destinations] = &self.addresses;
            *class = self.pairs.get(sources.class(source), destinations.class(destination));
        }
        for (point, class) in services.iter_mut().enumerate().take(count) {
            let [from, to] = &self.ports;
            let both =
                self.both_ports.get(from.class(source_ports[point]), to.class(destination_ports[point]));
            let protocol = self.protocols[(fragments[point] << 8 | protocols[point]) as usize % 512];
            *class = self.services.get(both, protocol);
        }
        for ((rule, &addresses), &services) in rules.iter_mut().zip(&addresses).zip(&services).take(count) {
            *rule = self.rules.get(addresses, services);
        }
        let mut found = [NONE; GROUP];
        for (found, &rule) in found.iter_mut().zip(&rules).take(count) {
            *found = match rule {
                NO_RULE => NONE,
                ASK_FOR_RULE => ASK,
                rule => rule.into(),
            };
        }
        found
    }

    /// Returns the memory of the tables in bytes.
    pub fn size(&self) -> usize {
        let inner = self.addresses.each_ref().map(|addresses| &addresses.inner);
        let pairs = [&self.pairs, &self.both_ports, &self.services, &self.rules].map(|pairs| &pairs.of);
        let tables = inner.into_iter().chain(pairs);
        let fixed = 2 * (size_of_val(&*self.addresses[0].outer) + size_of_val(&*self.ports[0].0));
        tables.map(|table| size_of_val(&table[..])).sum::<usize>() + fixed + size_of_val(&*self.protocols)
    }
}
