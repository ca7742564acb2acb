//! Finds the first of many boxes that contains a point, by tables whose look-up time does not depend on the
//! number of boxes.
//!
//! A point has the fields of a packet's header; a box has a range for each field and the number of a rule.
//! For a look-up, it matters only which boxes have a range that contains the value of a field. All values
//! with the same set form a *class*, and a table maps each value to its class. Further tables map a pair of
//! classes to the class of their intersection: the classes of source and destination address, of both ports,
//! and of ports and protocol. The last table maps a class of addresses and a class of services (ports and
//! protocol) to the first rule. This is recursive flow classification (Gupta and McKeown, "Packet
//! Classification on Multiple Fields", SIGCOMM 1999).
//!
//! The memory accesses of several packets' look-ups overlap. But the tables grow with the product of the
//! numbers of classes, so they are made only if they are small; otherwise [`crate::cuts`] is used.

mod build;
#[cfg(test)]
mod tests;

use crate::cuts::{GROUP, NONE, Points};

/// The number of fields of a point. The fields are source address, destination address, source port,
/// destination port, protocol, and a field that is 1 for fragments other than the first, and 0 for all other
/// packets.
pub const FIELDS: usize = 6;

/// The result of [`Products::first`] for a point if the rule of the first box that contains it need not hold
/// everywhere in the box. The caller has to find out if the rule holds, and which rule holds otherwise.
pub const ASK: u32 = u32::MAX - 1;

/// The tables for one list of boxes.
#[derive(Clone, Debug)]
pub struct Products {
    addresses: [Addresses; 2],
    ports: [Ports; 2],
    /// The class of each protocol in packets that are no fragments other than the first (entries 0 to 255),
    /// and then in fragments other than the first (entries 256 to 511).
    protocols: Box<[u16; 512]>,
    /// The classes of pairs: of source and destination address (`pairs`), of source and destination port
    /// (`both_ports`), and of ports and protocol (`services`).
    pairs: Pairs,
    both_ports: Pairs,
    services: Pairs,
    /// The first rule for each class of addresses and each class of services (ports and protocol);
    /// [`NO_RULE`] for points that are in no box, [`ASK_FOR_RULE`] if the rule need not hold everywhere in
    /// its box.
    rules: Pairs,
}

/// The entry in [`Products::rules`] for points that are in no box.
const NO_RULE: u16 = u16::MAX;
const ASK_FOR_RULE: u16 = u16::MAX - 1;

/// A table with one value for each pair of a left class and a right class, such as a class of source
/// addresses and a class of destination addresses.
#[derive(Clone, Debug, Default)]
struct Pairs {
    /// The number of right classes: the length of a row of `of`.
    width: u32,
    of: Vec<u16>,
}

impl Pairs {
    #[inline(always)]
    fn get(&self, left: u16, right: u16) -> u16 {
        self.of[(u32::from(left) * self.width + u32::from(right)) as usize]
    }
}

/// The table that maps each IPv4 address to its class. The upper 16 bits of an address select an entry of
/// `outer`. Where the class also depends on the third or fourth byte, the entry leads to an inner table.
#[derive(Clone, Debug)]
struct Addresses {
    /// For each upper half of an address, the class, or [`INNER`] plus the number of a table in `inner`.
    outer: Box<[u16; 1 << 16]>,
    /// The inner tables of 256 entries each, one for each value of the third or the fourth byte of an
    /// address. An entry is a class, or [`INNER`] plus the number of another table.
    inner: Vec<u16>,
}

const INNER: u16 = 1 << 15;

impl Addresses {
    #[inline(always)]
    fn class(&self, address: u32) -> u16 {
        let [_, _, third, last] = address.to_be_bytes();
        self.within(self.within(self.outer[(address >> 16) as usize], third), last)
    }

    /// Returns the entry for `byte` in the inner table to which `entry` leads, or `entry` itself if it is a
    /// class. The code has no branch, because the processor could not predict it. So if `entry` is a class,
    /// the first inner table is read, but the read value is not used.
    #[inline(always)]
    fn within(&self, entry: u16, byte: u8) -> u16 {
        // The mask has all bits set if the entry leads to an inner table, otherwise none.
        let is_inner = 0u16.wrapping_sub(entry / INNER);
        let table = usize::from(entry & !INNER & is_inner);
        let inner = self.inner[table << 8 | usize::from(byte)];
        inner & is_inner | entry & !is_inner
    }
}

/// The number of values of a port: 65,536 ports, and one value for packets without ports.
const PORTS: usize = (1 << 16) + 1;

/// The class of each port; the last entry is the class of packets without ports.
#[derive(Clone, Debug)]
struct Ports(Box<[u16; PORTS]>);

impl Ports {
    #[inline(always)]
    fn class(&self, port: u32) -> u16 {
        self.0[(port as usize).min(PORTS - 1)]
    }
}

impl Products {
    /// Returns, indexed by point, the rule of the first box that contains each of the first `count` points.
    /// The result is [`NONE`] for points in no box, and [`ASK`] if the rule of the first box that contains
    /// the point need not hold everywhere in the box. `count` is at most [`GROUP`].
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

    /// Returns the size of all tables in bytes.
    pub fn size(&self) -> usize {
        let inner = self.addresses.each_ref().map(|addresses| &addresses.inner);
        let pairs = [&self.pairs, &self.both_ports, &self.services, &self.rules].map(|pairs| &pairs.of);
        let tables = inner.into_iter().chain(pairs);
        let fixed = 2 * (size_of_val(&*self.addresses[0].outer) + size_of_val(&*self.ports[0].0));
        tables.map(|table| size_of_val(&table[..])).sum::<usize>() + fixed + size_of_val(&*self.protocols)
    }
}
