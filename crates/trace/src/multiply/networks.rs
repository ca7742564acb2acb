//! The networks of a trace, and the networks to which each window is moved.
//!
//! The first window keeps its addresses. The addresses of each other window are moved to networks that occur
//! in no window. Each network is moved as a whole, and the networks keep their order. So addresses of one
//! network stay in one network, and no address occurs in two windows. Only multicast and reserved addresses
//! are the same in all windows.
//!
//! A network is a prefix. IPv4 prefixes have 8 to 24 bits: the fewest bits for which there are enough
//! unused networks. IPv6 prefixes have 16 bits.
//!
//! Memory is bounded: a set of prefixes has a bit for each possible prefix, at most 2 MiB, and a counter
//! for each 64 of them.

use std::fmt;

/// The first IPv4 address of the multicast and reserved ranges. It and all higher addresses are not moved
/// (RFC 1112).
const FIRST_GROUP_V4: u32 = 0xe000_0000;
/// The first 16 bits of IPv6 multicast addresses, which are not moved (RFC 4291).
const FIRST_GROUP_V6: u32 = 0xff00;

/// The length in bits of the IPv4 prefixes that [`Networks`] stores.
const V4_BITS: u32 = 24;
const V6_BITS: u32 = 16;

/// A set of numbers, as a bit map.
struct Numbers {
    words: Vec<u64>,
}

impl Numbers {
    fn none(bits: u32) -> Numbers {
        Numbers { words: vec![0; (1 << bits) / 64] }
    }

    fn add(&mut self, number: u32) {
        self.words[number as usize / 64] |= 1 << (number % 64);
    }

    fn has(&self, number: u32) -> bool {
        self.words[number as usize / 64] >> (number % 64) & 1 == 1
    }

    fn counted(self) -> Counted {
        let mut before = Vec::with_capacity(self.words.len());
        let mut count = 0;
        for word in &self.words {
            before.push(count);
            count += word.count_ones();
        }
        Counted { set: self, before, count }
    }
}

/// A set that can tell the rank of a member and find the member with a rank.
struct Counted {
    set: Numbers,
    /// For each word of the bit map, the number of members in the words before it.
    before: Vec<u32>,
    count: u32,
}

impl Counted {
    /// Returns the rank of `number`: the number of members below it.
    fn rank(&self, number: u32) -> u32 {
        let (word, bit) = (number as usize / 64, number % 64);
        self.before[word] + (self.set.words[word] & ((1 << bit) - 1)).count_ones()
    }

    /// Returns the member with this rank: the member that has `rank` members below it. There must be such a
    /// member.
    fn member(&self, rank: u32) -> u32 {
        let word = self.before.partition_point(|before| *before <= rank) - 1;
        let mut bits = self.set.words[word];
        for _ in self.before[word]..rank {
            bits &= bits - 1;
        }
        word as u32 * 64 + bits.trailing_zeros()
    }
}

/// The set of networks that occur in a trace.
pub(super) struct Networks {
    v4: Numbers,
    v6: Numbers,
}

impl Networks {
    pub(super) fn none() -> Networks {
        Networks { v4: Numbers::none(V4_BITS), v6: Numbers::none(V6_BITS) }
    }

    pub(super) fn add_v4(&mut self, address: u32) {
        if address < FIRST_GROUP_V4 {
            self.v4.add(address >> (32 - V4_BITS));
        }
    }

    pub(super) fn add_v6(&mut self, address: u128) {
        let prefix = (address >> (128 - V6_BITS)) as u32;
        if prefix < FIRST_GROUP_V6 {
            self.v6.add(prefix);
        }
    }

    /// Chooses networks for `windows` windows.
    ///
    /// # Errors
    /// If there are not enough unused IPv4 or IPv6 networks.
    pub(super) fn moves(&self, windows: usize) -> Result<Moves, NoRoom> {
        let others = windows.saturating_sub(1) as u64;
        let moves = |bits: u32| self.v4_of(bits);
        let fits = |map: &Map| others * u64::from(map.used.count) <= u64::from(map.free.count);
        let v4 = (8..=V4_BITS).map(moves).find(fits).ok_or_else(|| NoRoom::of("IPv4", &moves(V4_BITS)))?;
        let v6 = self.v6();
        if !fits(&v6) {
            return Err(NoRoom::of("IPv6", &v6));
        }
        Ok(Moves { v4, v6 })
    }

    /// Returns the IPv4 prefixes of `bits` bits that the trace uses, and the prefixes to which windows may
    /// be moved.
    fn v4_of(&self, bits: u32) -> Map {
        let (mut used, mut free) = (Numbers::none(bits), Numbers::none(bits));
        let each = 1 << (V4_BITS - bits);
        for prefix in 0..(FIRST_GROUP_V4 >> (32 - bits)) {
            let has_any = (prefix * each..(prefix + 1) * each).any(|long| self.v4.has(long));
            let first = prefix << (32 - bits) >> 24;
            match has_any {
                true => used.add(prefix),
                // No host has addresses of "this network" or of loopback (RFC 1122).
                false if first != 0 && first != 127 => free.add(prefix),
                false => {}
            }
        }
        Map { used: used.counted(), free: free.counted() }
    }

    fn v6(&self) -> Map {
        let (mut used, mut free) = (Numbers::none(V6_BITS), Numbers::none(V6_BITS));
        (0..FIRST_GROUP_V6).filter(|prefix| self.v6.has(*prefix)).for_each(|prefix| used.add(prefix));
        // Windows are moved only to global unicast addresses, 2000::/3.
        (0x2000..0x4000).filter(|prefix| !self.v6.has(*prefix)).for_each(|prefix| free.add(prefix));
        Map { used: used.counted(), free: free.counted() }
    }
}

/// The prefixes that a trace uses, and the unused prefixes to which windows may be moved. The unused
/// prefixes are assigned in order: first the prefixes of window 1, then the prefixes of window 2, and so
/// on.
struct Map {
    used: Counted,
    free: Counted,
}

impl Map {
    fn bits(&self) -> u32 {
        (self.used.set.words.len() * 64).trailing_zeros()
    }

    fn of(&self, prefix: u32, window: u32) -> u32 {
        match window {
            0 => prefix,
            _ => self.free.member((window - 1) * self.used.count + self.used.rank(prefix)),
        }
    }
}

/// The mapping of the addresses of a trace to the addresses in each window (a time slice of the trace).
pub(super) struct Moves {
    v4: Map,
    v6: Map,
}

impl Moves {
    /// Returns the address that an IPv4 address of the trace gets in a window.
    pub(super) fn v4(&self, address: u32, window: u32) -> u32 {
        if address >= FIRST_GROUP_V4 {
            return address;
        }
        let host_bits = 32 - self.v4.bits();
        self.v4.of(address >> host_bits, window) << host_bits | address & ((1 << host_bits) - 1)
    }

    /// Returns the address that an IPv6 address of the trace gets in a window.
    pub(super) fn v6(&self, address: u128, window: u32) -> u128 {
        let host_bits = 128 - V6_BITS;
        let prefix = (address >> host_bits) as u32;
        if prefix >= FIRST_GROUP_V6 {
            return address;
        }
        u128::from(self.v6.of(prefix, window)) << host_bits | address & ((1 << host_bits) - 1)
    }

    /// Returns the length in bits of the IPv4 prefixes; each prefix is moved as a whole.
    pub(super) fn v4_bits(&self) -> u32 {
        self.v4.bits()
    }
}

/// True if an address is the same in every window, because it is multicast or reserved.
pub(super) fn stays(address: std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(address) => address.to_bits() >= FIRST_GROUP_V4,
        std::net::IpAddr::V6(address) => (address.to_bits() >> (128 - V6_BITS)) as u32 >= FIRST_GROUP_V6,
    }
}

/// The error that a trace occupies too many networks: the unused networks are too few to move each requested
/// time window after the first to networks of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRoom {
    family: &'static str,
    networks: u32,
    most: u32,
}

impl NoRoom {
    fn of(family: &'static str, map: &Map) -> NoRoom {
        NoRoom { family, networks: map.used.count, most: 1 + map.free.count / map.used.count.max(1) }
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoom { family, networks, most } = self;
        write!(
            f,
            "the trace has addresses of {networks} {family} networks, which leaves room for {most} windows with other ones"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Checks IPv4 addresses in several windows: no address occurs in two windows, none is lost, and
        /// addresses of one /24 network stay in one network.
        #[test]
        fn windows_share_no_address(addresses in vec(any::<u32>(), 1..60), clustered in vec(0u32..4096, 0..60), windows in 1u32..9) {
            let all: BTreeSet<u32> = addresses.into_iter().chain(clustered.into_iter().map(|low| 0x0a01_0000 | low)).collect();
            let mut networks = Networks::none();
            all.iter().for_each(|address| networks.add_v4(*address));
            let moves = networks.moves(windows as usize).unwrap();
            let mut seen: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for window in 0..windows {
                for &address in &all {
                    let moved = moves.v4(address, window);
                    if address >= FIRST_GROUP_V4 || window == 0 {
                        prop_assert_eq!(moved, address);
                    }
                    if address < FIRST_GROUP_V4 {
                        prop_assert_eq!(seen.insert(moved, (window, address)), None);
                        prop_assert_eq!(moved & 0xff, address & 0xff);
                        prop_assert!(moved < FIRST_GROUP_V4);
                    }
                    if let Some(next) = all.range(address + 1..).next().filter(|next| **next >> 8 == address >> 8) {
                        prop_assert_eq!(moves.v4(*next, window) >> 8, moved >> 8);
                    }
                }
            }
        }

        #[test]
        fn members_have_the_ranks_that_they_are_found_by(numbers in vec(0u32..4096, 1..200)) {
            let mut set = Numbers::none(12);
            numbers.iter().for_each(|number| set.add(*number));
            let sorted: BTreeSet<u32> = numbers.into_iter().collect();
            let counted = set.counted();
            prop_assert_eq!(counted.count as usize, sorted.len());
            for (rank, number) in (0..).zip(&sorted) {
                prop_assert_eq!((counted.rank(*number), counted.member(rank)), (rank, *number));
            }
        }
    }

    #[test]
    fn a_trace_of_the_whole_internet_says_how_many_windows_there_can_be() {
        let mut networks = Networks::none();
        (1u32..120).for_each(|first| (0..65_536).for_each(|next| networks.add_v4(first << 24 | next << 8)));
        let error = networks.moves(3).err().unwrap().to_string();
        assert!(error.contains("7798784 IPv4 networks") && error.contains("room for 1 windows"), "{error}");
        assert!(networks.moves(1).is_ok());
    }

    #[test]
    fn addresses_of_ipv6_move_by_their_first_bits() {
        let mut networks = Networks::none();
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().to_bits();
        let all = ["2001:db8::1", "2001:db8::2", "fe80::1", "::"].map(address);
        all.iter().for_each(|address| networks.add_v6(*address));
        networks.add_v6(address("ff02::1"));
        let moves = networks.moves(100).unwrap();
        let mut seen = BTreeSet::new();
        for window in 0..100 {
            for one in all {
                let moved = moves.v6(one, window);
                assert!(seen.insert(moved) && moved << 16 == one << 16);
                assert!(window == 0 || moved >> 125 == 1);
            }
            assert_eq!(moves.v6(address("ff02::1"), window), address("ff02::1"));
        }
    }
}
