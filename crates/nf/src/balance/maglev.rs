//! Consistent hashing by a table of servers, as in Eisenbud et al., "Maglev: A Fast and Reliable Software
//! Network Load Balancer" (NSDI 2016), section 3.4.
//!
//! Each server has a permutation of the table's entries, which depends on its name only. The servers take
//! entries in turn: each takes the first free entry of its permutation. So the numbers of entries per
//! server differ by one at most, and when a server is added or removed, few entries of other servers
//! change.

use element::Args;
use flow::{FiveTupleKey, KeyHasher};

/// The number of entries that [`places`] returns after an error in CST_BUCKETS: the smaller table size in the
/// Maglev paper.
const PLACES: usize = 65_537;

/// The largest number of entries that CST_BUCKETS can request.
const MOST_PLACES: usize = 1 << 24;

/// A table with the number of a server in each entry (`places`). Without servers it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Maglev {
    places: Vec<u16>,
}

/// True if a number is prime. Steps of any width reach all entries of the table only if its size is prime.
fn is_prime(number: usize) -> bool {
    number > 1 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}

/// Reads the number of entries of the table (CST_BUCKETS). Rounds it up to a prime number, with a warning.
/// Reports a number out of range.
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

/// Returns a hash of a server's name for one of several seeds: FNV-1a, then the last step of SplitMix64. It
/// is the same on every machine, so that several balancers choose the same servers.
pub(crate) fn name_hash(name: &[u8], seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum =
        name.iter().fold(start, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (sum ^ sum >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns the hash by which a flow finds its entry of the table. It is the same on every machine and in
/// every run.
pub(crate) fn flow_hash(key: &FiveTupleKey) -> u32 {
    KeyHasher::new(0x6d61_676c_6576).hash(key)
}

impl Maglev {
    /// Returns a table of `places` entries, a prime number, for servers given as numbers and names. The
    /// order of the servers does not matter.
    pub(crate) fn new(places: usize, servers: &[(u16, &[u8])]) -> Maglev {
        if servers.is_empty() || places == 0 {
            return Maglev::default();
        }
        // In the paper's algorithm earlier servers take entries first. The servers are sorted, so that the
        // result does not depend on the order of the arguments.
        let mut servers = servers.to_vec();
        servers.sort_unstable_by_key(|&(_, name)| name);
        let size = places as u64;
        // Per server: its number, the index of the entry that it tries next, and the distance to the entry
        // that it tries after that.
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

    /// Returns the number of the server for a hash; `None` if the table is empty.
    #[inline]
    pub(crate) fn server(&self, hash: u32) -> Option<u16> {
        let place = (u64::from(hash) * self.places.len() as u64) >> 32;
        self.places.get(place as usize).copied()
    }

    /// Returns the number of entries of each server in the table of servers, by the number of the server.
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

    /// The table must be equal to the table of the paper's pseudocode, which is followed step by step with
    /// whole permutations.
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

    /// Removes one of up to 200 servers: at most 2 % of the entries may change from one of the other
    /// servers to another. Ideally none would.
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
