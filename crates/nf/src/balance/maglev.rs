//! Consistent hashing with a table, as in Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
//! Balancer" (NSDI 2016), section 3.4.
//!
//! Each server has a permutation of the table's places, which follows from its name alone. The servers take
//! turns, and each takes the first free place of its permutation. So the servers' numbers of places differ
//! by one at most; and when a server is added or removed, few places of the other servers change.

use element::Args;
use flow::{FiveTupleKey, KeyHasher};

/// The default number of places in a table: the smaller of the paper's sizes.
const PLACES: usize = 65_537;

/// The largest number of places in a table.
const MOST_PLACES: usize = 1 << 24;

/// A table of servers by place; without servers, it has no places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Maglev {
    places: Vec<u16>,
}

/// True if a number is prime; a server's permutation reaches every place only if the size is prime.
fn is_prime(number: usize) -> bool {
    number > 1 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}

/// Reads the number of places in a table, and rounds it up to a prime number.
pub(crate) fn places(args: &mut Args<'_>) -> usize {
    let given = args.value::<usize>("CST_BUCKETS");
    if given == 0 || given > MOST_PLACES {
        args.error(format!("CST_BUCKETS: must be between 1 and {MOST_PLACES}"));
        return PLACES;
    }
    let places = (given..).find(|&places| is_prime(places)).unwrap_or(PLACES);
    if places != given {
        args.warn(format!("CST_BUCKETS: {places} is used, the next prime number"));
    }
    places
}

/// Returns the hash of a server's name under one of several seeds: FNV-1a, followed by the last step of
/// SplitMix64. The hash is the same on every machine, so that several balancers choose the same server.
pub(crate) fn name_hash(name: &[u8], seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum =
        name.iter().fold(start, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns the hash by which a flow finds its place. It is the same on every machine.
pub(crate) fn flow_hash(key: &FiveTupleKey) -> u32 {
    KeyHasher::new(0x6d61_676c_6576).hash(key)
}

impl Maglev {
    /// Fills a table of `places` places, a prime number, for servers with numbers and names. The order of
    /// the servers does not matter.
    pub(crate) fn new(places: usize, servers: &[(u16, &[u8])]) -> Maglev {
        if servers.is_empty() || places == 0 {
            return Maglev::default();
        }
        // Sorts by name, so that the order of the servers does not matter.
        let mut servers = servers.to_vec();
        servers.sort_unstable_by_key(|&(_, name)| name);
        let size = places as u64;
        // For each server: its number, the next place that it would take, and the distance to the place
        // after that.
        let mut turns: Vec<(u16, u64, u64)> = servers
            .iter()
            .map(|&(number, name)| {
                let skip = if size > 1 { name_hash(name, 2) % (size - 1) + 1 } else { 1 };
                (number, name_hash(name, 1) % size, skip)
            })
            .collect();
        const FREE: u16 = u16::MAX;
        let mut table = vec![FREE; places];
        let mut left = places;
        'fill: loop {
            for (number, place, skip) in &mut turns {
                while table[*place as usize] != FREE {
                    *place = (*place + *skip) % size;
                }
                table[*place as usize] = *number;
                left -= 1;
                if left == 0 {
                    break 'fill;
                }
            }
        }
        Maglev { places: table }
    }

    /// Returns the server for a hash.
    #[inline]
    pub(crate) fn server(&self, hash: u32) -> Option<u16> {
        let place = (u64::from(hash) * self.places.len() as u64) >> 32;
        self.places.get(place as usize).copied()
    }

    /// Returns the number of places of each server.
    pub(crate) fn shares(&self, servers: usize) -> Vec<usize> {
        let mut shares = vec![0; servers];
        for &server in &self.places {
            if let Some(share) = shares.get_mut(usize::from(server)) {
                *share += 1;
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(names: &[String]) -> Vec<(u16, &[u8])> {
        names.iter().enumerate().map(|(number, name)| (number as u16, name.as_bytes())).collect()
    }

    fn names(n: usize) -> Vec<String> {
        (1..=n).map(|i| format!("10.0.{}.{}", i / 250, i % 250)).collect()
    }

    #[test]
    fn primes() {
        let primes: Vec<usize> = (0..40).filter(|&n| is_prime(n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37]);
        assert!(is_prime(PLACES) && is_prime(655_373) && !is_prime(65_536) && !is_prime(251 * 257));
    }

    /// The pseudocode of the paper, step by step, with whole permutations.
    #[test]
    fn the_table_is_the_one_of_the_paper() {
        for (n, size) in [(1, 7), (3, 7), (5, 251), (20, 251), (9, 3), (3, 1), (3, 2)] {
            let names = names(n);
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by_key(|&i| &names[i]);
            let permutation = |i: usize| -> Vec<usize> {
                let (h1, h2) = (name_hash(names[i].as_bytes(), 1), name_hash(names[i].as_bytes(), 2));
                let offset = (h1 % size as u64) as usize;
                let skip = if size > 1 { (h2 % (size as u64 - 1) + 1) as usize } else { 1 };
                (0..size).map(|j| (offset + j * skip) % size).collect()
            };
            let permutations: Vec<_> = (0..n).map(permutation).collect();
            let (mut next, mut entry) = (vec![0; n], vec![None; size]);
            'populate: loop {
                for &i in &order {
                    let mut c = permutations[i][next[i]];
                    while entry[c].is_some() {
                        next[i] += 1;
                        c = permutations[i][next[i]];
                    }
                    entry[c] = Some(i as u16);
                    next[i] += 1;
                    if entry.iter().all(Option::is_some) {
                        break 'populate;
                    }
                }
            }
            let expected: Vec<u16> = entry.into_iter().flatten().collect();
            assert_eq!(Maglev::new(size, &named(&names)).places, expected, "{n} {size}");
        }
        assert_eq!(Maglev::new(7, &[]).server(3), None);
    }

    #[test]
    fn shares_are_even_but_for_one_place() {
        for n in [1, 2, 3, 10, 97, 1000] {
            let shares = Maglev::new(PLACES, &named(&names(n))).shares(n);
            let (low, high) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(high - low <= 1, "{n}: {low} to {high}");
            assert_eq!(shares.iter().sum::<usize>(), PLACES);
        }
    }

    /// Test of the removal of a server: no place of the other servers has to change; with a hundred times
    /// more places than servers, at most two in a hundred do.
    #[test]
    fn few_places_change_hands_when_a_server_goes() {
        for n in [10, 50, 200] {
            let names = names(n);
            let all = named(&names);
            let before = Maglev::new(PLACES, &all);
            for gone in [0, n / 2, n - 1] {
                let rest: Vec<_> =
                    all.iter().filter(|(number, _)| usize::from(*number) != gone).copied().collect();
                let after = Maglev::new(PLACES, &rest);
                let pairs = before.places.iter().zip(&after.places);
                let moved = pairs.filter(|&(a, b)| a != b && usize::from(*a) != gone).count();
                assert!(moved * 100 <= PLACES * 2, "{n} servers without {gone}: {moved} moved");
            }
        }
    }

    proptest! {
        #[test]
        fn names_alone_decide(order in Just((0..12usize).collect::<Vec<_>>()).prop_shuffle(), hash: u32) {
            let names = names(12);
            let plain = Maglev::new(251, &named(&names));
            let shuffled: Vec<_> = order.iter().map(|&i| (i as u16, names[i].as_bytes())).collect();
            prop_assert_eq!(Maglev::new(251, &shuffled).server(hash), plain.server(hash));
            prop_assert!(plain.server(hash).is_some());
        }
    }
}
