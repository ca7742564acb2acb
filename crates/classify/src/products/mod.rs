//! Finds the first of many boxes that a point lies in, by tables.
//!
//! Of each field only counts which boxes' ranges a value lies in: values of which this is the same are one *class*, which a
//! table tells. So do pairs of classes, two fields at a time, until one table holds the first rule for each pair of the last
//! two classes: those of both addresses, and those of ports and protocol (recursive flow classification, Gupta and McKeown,
//! "Packet Classification on Multiple Fields", SIGCOMM 1999). No look-up depends on how many rules there are, and none
//! waits for another packet's; but the tables grow with the product of the numbers of classes, so that they are made only
//! where this is small. Where it is not, there are [`crate::cuts`].

mod build;
#[cfg(test)]
mod tests;

use crate::cuts::{GROUP, NONE, Points};

/// The fields of a point: source, destination, two ports, protocol, and whether it is a later fragment.
pub const FIELDS: usize = 6;

/// What [`Products::first`] says where a rule has to be asked whether it holds, which it leaves to others.
pub const ASK: u32 = u32::MAX - 1;

/// Boxes, ready to be looked at.
#[derive(Clone, Debug)]
pub struct Products {
    addresses: [Addresses; 2],
    ports: [Ports; 2],
    /// The class of a protocol, and behind those of all protocols those of later fragments.
    protocols: Box<[u16; 512]>,
    /// Classes of both addresses, of both ports, and of these with the protocol.
    pairs: Pairs,
    both_ports: Pairs,
    services: Pairs,
    /// The first rule for a class of addresses and one of services.
    rules: Pairs,
}

/// In [`Products::rules`].
const NO_RULE: u16 = u16::MAX;
const ASK_FOR_RULE: u16 = u16::MAX - 1;

/// Something for each pair of classes.
#[derive(Clone, Debug, Default)]
struct Pairs {
    /// Classes on the right.
    width: u32,
    of: Vec<u16>,
}

impl Pairs {
    #[inline(always)]
    fn get(&self, left: u16, right: u16) -> u16 {
        self.of[(u32::from(left) * self.width + u32::from(right)) as usize]
    }
}

/// The classes of addresses: a table for the upper half of their bits, one for each of the lower bytes where it matters.
#[derive(Clone, Debug)]
struct Addresses {
    /// The class, or [`INNER`] and the number of a table in `inner`.
    outer: Box<[u16; 1 << 16]>,
    /// Tables of 256 of the same, for the byte that follows.
    inner: Vec<u16>,
}

const INNER: u16 = 1 << 15;

impl Addresses {
    #[inline(always)]
    fn class(&self, address: u32) -> u16 {
        let [_, _, third, last] = address.to_be_bytes();
        self.within(self.within(self.outer[(address >> 16) as usize], third), last)
    }

    /// There is no branch, as it could not be foreseen: where nothing is to be looked up, the first one is.
    #[inline(always)]
    fn within(&self, entry: u16, byte: u8) -> u16 {
        // All ones where there is a table to look into.
        let is_inner = 0u16.wrapping_sub(entry / INNER);
        let table = usize::from(entry & !INNER & is_inner);
        let inner = self.inner[table << 8 | usize::from(byte)];
        inner & is_inner | entry & !is_inner
    }
}

/// Ports that there are, and one more for packets without.
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
    /// The first rule for each of the first `count` points, [`NONE`] for those without, [`ASK`] where it depends.
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

    /// Bytes of memory that it takes.
    pub fn size(&self) -> usize {
        let inner = self.addresses.each_ref().map(|addresses| &addresses.inner);
        let pairs = [&self.pairs, &self.both_ports, &self.services, &self.rules].map(|pairs| &pairs.of);
        let tables = inner.into_iter().chain(pairs);
        let fixed = 2 * (size_of_val(&*self.addresses[0].outer) + size_of_val(&*self.ports[0].0));
        tables.map(|table| size_of_val(&table[..])).sum::<usize>() + fixed + size_of_val(&*self.protocols)
    }
}
