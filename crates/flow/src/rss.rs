//! Receive-side scaling: the hash and the queue by which a worker is chosen for a packet, the same for both
//! directions of a flow.
//!
//! Network interfaces spread packets over queues by the Toeplitz hash of addresses and ports (Microsoft,
//! "Introduction to Receive Side Scaling"). Here the input of the hash is sorted: the smaller address and
//! the smaller port come first. So both directions of a flow have the same input, and the same hash.
//! Interfaces can sort, too (DPDK's `SYMMETRIC_TOEPLITZ_SORT`).
//!
//! The alternative would be a key that repeats every 16 bits. The hash is then a function of the exclusive
//! or of all 16-bit words of the input. If the ports of clients count up with their addresses, as in
//! generated traffic, these words cancel, and all clients come to one queue.

use std::net::IpAddr;
use std::ops::Range;

use crate::hash::split_mix;

/// The secret of a Toeplitz hash function: 40 bytes, enough for two IPv6 addresses and two ports.
pub type ToeplitzKey = [u8; 40];

/// The key of Microsoft's examples. It is public, and the usual default of interfaces.
pub const KEY: ToeplitzKey = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The number of entries of the indirection table that this module assumes, which maps the lowest bits of a
/// hash to a queue.
const ENTRIES: u32 = 128;
/// The length of the hash's input for IPv4: two addresses and two ports, in bytes.
const V4: usize = 12;
/// The length of the hash's input for IPv6: two addresses and two ports, in bytes.
const V6: usize = 36;
/// The parts of a key that [`key_of`] chooses one after the other, first for IPv4, then for IPv6. The range
/// is in words of 64 bits of the key. The four numbers are the offsets in bits at which first address,
/// second address, first port and second port end in the hash's input.
const VERSIONS: [(Range<usize>, [usize; 4]); 2] = [(0..2, [32, 64, 80, 96]), (2..5, [128, 256, 272, 288])];

/// Makes a key from a seed, so that a stranger without the seed does not know which flows share a queue.
/// Returns [`KEY`] in the improbable case that 100,000 attempts give no good key.
///
/// The hash is linear in its input, so a random key may send neighbouring addresses to one queue: with two
/// queues, one key in 16 sends 16 clients to one queue. Such keys are rejected. An accepted key has these
/// properties:
///
/// - Blocks of 16 consecutive addresses or ports, starting at a multiple of 16, are spread evenly over two,
///   four and eight queues.
/// - Blocks of 256 are spread evenly over the 128 entries of the indirection table. Other numbers of queues
///   share these entries as evenly as 128 can be divided.
/// - The same holds if addresses and ports count up together.
/// - Blocks of 256 consecutive subnets of 256 addresses are spread evenly over the entries.
pub fn key_of(seed: u64) -> ToeplitzKey {
    let (mut state, mut key) = (seed, KEY);
    for (words, ends) in VERSIONS {
        // About one in 200 random keys has the properties of an accepted key for one IP version.
        let is_found = (0..100_000).any(|_| {
            let words = key.as_chunks_mut().0.get_mut(words.clone()).into_iter().flatten();
            words.for_each(|word| *word = split_mix(&mut state).to_be_bytes());
            spreads(&key, ends)
        });
        if !is_found {
            return KEY;
        }
    }
    key
}

/// Makes a key of `length` bytes from a seed, for an interface whose keys have another length than 40
/// bytes. The first 40 bytes, which cover addresses and ports, come from [`key_of`]; the others are random.
pub fn long_key_of(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut key = key_of(split_mix(&mut state)).to_vec();
    while key.len() < length {
        key.extend(split_mix(&mut state).to_be_bytes());
    }
    key.truncate(length);
    key
}

fn spreads(key: &ToeplitzKey, [a, b, p, q]: [usize; 4]) -> bool {
    // Even over eight queues implies even over two and four, because the queue is the lowest bits of the
    // hash. Even over all entries implies that any other number of queues differs by at most one entry.
    let is_even = |ends: &[usize]| rank(key, ends, 4, 8) == 3 && rank(key, ends, 8, ENTRIES) == 7;
    [a, b, p, q].iter().all(|&end| is_even(&[end]))
        && [[a, p], [a, q], [b, p], [b, q]].iter().all(|ends| is_even(ends))
        && [a - 8, b - 8].iter().all(|&subnets| rank(key, &[subnets], 8, ENTRIES) == 7)
}

/// Returns the rank of the linear map from the last `bits` bits of fields of the input to the queue. The
/// fields end at the offsets `ends`, in bits, and all have the same value. `queues` is a power of two. A
/// block of `2^bits` consecutive values, starting at a multiple of `2^bits`, is spread evenly over `2^rank`
/// queues.
fn rank(key: &ToeplitzKey, ends: &[usize], bits: usize, queues: u32) -> u32 {
    let row = |back: usize| ends.iter().fold(0, |row, end| row ^ window(key, end - back)) & (queues - 1);
    let mut rows: Vec<u32> = (1..=bits).map(row).collect();
    let mut rank = 0;
    while let Some(row) = rows.pop() {
        if row != 0 {
            rank += 1;
            let lowest = row & row.wrapping_neg();
            rows.iter_mut().filter(|other| **other & lowest != 0).for_each(|other| *other ^= row);
        }
    }
    rank
}

/// The Toeplitz hash function of one key, with tables that are computed once per key.
pub struct Toeplitz {
    key: ToeplitzKey,
    /// For each byte of the IPv4 input and each of its 256 values, the contribution to the hash. The hash
    /// is the exclusive or of the contributions.
    bytes: [[u32; 256]; V4],
    /// For each half byte of the IPv6 input and each of its 16 values, the contribution to the hash. A
    /// table of whole bytes would fill the first-level cache.
    halves: [[u32; 16]; 2 * V6],
}

/// The hash function of [`KEY`], which is the same in each run and on each machine.
pub static DEFAULT_HASH: Toeplitz = Toeplitz::new(KEY);

/// Returns the 32 bits of the key that start at offset `bit`, in bits; bits beyond the end of the key are
/// 0.
const fn window(key: &ToeplitzKey, bit: usize) -> u32 {
    let (at, shift) = (bit / 8, bit % 8);
    let mut bits = 0u64;
    let mut i = 0;
    while i < 5 {
        bits = bits << 8 | if at + i < key.len() { key[at + i] as u64 } else { 0 };
        i += 1;
    }
    (bits >> (8 - shift)) as u32
}

/// Returns the contribution to the hash of a field of the input with the value `value`. The field is
/// `width` bits wide and starts at offset `start`, in bits.
const fn hash_at(key: &ToeplitzKey, value: usize, width: usize, start: usize) -> u32 {
    let mut hash = 0;
    let mut bit = 0;
    while bit < width {
        if value >> (width - 1 - bit) & 1 == 1 {
            hash ^= window(key, start + bit);
        }
        bit += 1;
    }
    hash
}

impl Toeplitz {
    /// Makes the hash function of a key, and computes its tables.
    pub const fn new(key: ToeplitzKey) -> Toeplitz {
        let (mut bytes, mut halves) = ([[0; 256]; V4], [[0; 16]; 2 * V6]);
        let mut i = 0;
        while i < V4 * 256 {
            bytes[i / 256][i % 256] = hash_at(&key, i % 256, 8, i / 256 * 8);
            i += 1;
        }
        i = 0;
        while i < 2 * V6 * 16 {
            halves[i / 16][i % 16] = hash_at(&key, i % 16, 4, i / 16 * 4);
            i += 1;
        }
        Toeplitz { key, bytes, halves }
    }

    /// Returns the key of this hash function.
    pub fn key(&self) -> &ToeplitzKey {
        &self.key
    }

    /// Returns the hash of a flow's two IPv4 addresses and two ports in host order; ports are 0 if the
    /// protocol has none. The order within each pair does not matter.
    #[inline]
    pub fn hash_v4(&self, addresses: [u32; 2], ports: [u16; 2]) -> u32 {
        let [a, b] = addresses;
        let [p, q] = ports;
        let (first, last) = (u64::from(a.min(b)) << 32 | u64::from(a.max(b)), u32::from(p.min(q)) << 16);
        let last = last | u32::from(p.max(q));
        let front = first.to_be_bytes().into_iter().zip(&self.bytes[..8]);
        let back = last.to_be_bytes().into_iter().zip(&self.bytes[8..]);
        front.chain(back).fold(0, |hash, (byte, table)| hash ^ table[usize::from(byte)])
    }

    /// Returns the hash of a flow's two IPv6 addresses and two ports, like [`hash_v4`](Self::hash_v4).
    pub fn hash_v6(&self, addresses: [u128; 2], ports: [u16; 2]) -> u32 {
        let [a, b] = addresses;
        let [p, q] = ports;
        let ports = (u32::from(p.min(q)) << 16 | u32::from(p.max(q))).to_be_bytes();
        let all = a.min(b).to_be_bytes().into_iter().chain(a.max(b).to_be_bytes()).chain(ports);
        all.zip(self.halves.as_chunks::<2>().0).fold(0, |hash, (byte, [upper, lower])| {
            hash ^ upper[usize::from(byte >> 4)] ^ lower[usize::from(byte & 15)]
        })
    }

    /// Returns the hash of the source and the destination of a flow, each an address and a port; 0 if the
    /// addresses are of different IP versions.
    pub fn hash_ends(&self, a: (IpAddr, u16), b: (IpAddr, u16)) -> u32 {
        match (a.0, b.0) {
            (IpAddr::V4(x), IpAddr::V4(y)) => self.hash_v4([x.to_bits(), y.to_bits()], [a.1, b.1]),
            (IpAddr::V6(x), IpAddr::V6(y)) => self.hash_v6([x.to_bits(), y.to_bits()], [a.1, b.1]),
            _ => 0,
        }
    }
}

/// Returns the queue for a hash, from 0 to `queues - 1`, as an interface does: the lowest 7 bits of the
/// hash select an entry of the indirection table, and entries are assigned to queues in turn. 0 queues
/// count as one.
#[inline]
pub fn queue(hash: u32, queues: usize) -> usize {
    (hash % ENTRIES) as usize % queues.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Returns the hash of an input under [`KEY`], bit by bit as the specification defines it: the
    /// reference for the tables.
    fn specified(input: &[u8]) -> u32 {
        let mut key = u64::from_be_bytes(*KEY.first_chunk().unwrap());
        let mut next = 64;
        let mut hash = 0;
        for byte in input {
            for bit in (0..8).rev() {
                if byte >> bit & 1 == 1 {
                    hash ^= (key >> 32) as u32;
                }
                let more = if next < 320 { KEY[next / 8] >> (7 - next % 8) & 1 } else { 0 };
                key = key << 1 | u64::from(more);
                next += 1;
            }
        }
        hash
    }

    #[test]
    fn the_hash_is_that_of_the_specification() {
        // The inputs and hashes are from Microsoft's "Verifying the RSS Hash Calculation".
        let source_first =
            [&[66, 9, 149, 187][..], &[161, 142, 100, 80], &2794u16.to_be_bytes(), &1766u16.to_be_bytes()];
        assert_eq!(specified(&source_first.concat()), 0x51cc_c178);
        assert_eq!(specified(&source_first.concat()[..8]), 0x323e_8fc2);
        // The expected hash is of the same input when sorted: the addresses are in order, the ports are
        // exchanged.
        let sorted =
            [&[66, 9, 149, 187][..], &[161, 142, 100, 80], &1766u16.to_be_bytes(), &2794u16.to_be_bytes()];
        let ends =
            ((Ipv4Addr::new(66, 9, 149, 187).into(), 2794), (Ipv4Addr::new(161, 142, 100, 80).into(), 1766));
        assert_eq!(DEFAULT_HASH.hash_ends(ends.0, ends.1), specified(&sorted.concat()));
    }

    #[test]
    fn both_directions_have_one_hash() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..1_000 {
            let (a, b) = (random.u128(..), random.u128(..));
            let (p, q) = (random.u16(..), random.u16(..));
            let input = [&a.min(b).to_be_bytes()[..], &a.max(b).to_be_bytes()].concat();
            let input = [&input[..], &p.min(q).to_be_bytes(), &p.max(q).to_be_bytes()].concat();
            let hash = DEFAULT_HASH.hash_ends((Ipv6Addr::from(a).into(), p), (Ipv6Addr::from(b).into(), q));
            assert_eq!(hash, specified(&input));
            assert_eq!(
                hash,
                DEFAULT_HASH.hash_ends((Ipv6Addr::from(b).into(), q), (Ipv6Addr::from(a).into(), p))
            );
            let (a, b) = (a as u32, b as u32);
            assert_eq!(DEFAULT_HASH.hash_v4([a, b], [p, q]), DEFAULT_HASH.hash_v4([b, a], [q, p]));
        }
    }

    #[test]
    fn flows_spread_over_queues() {
        // Three kinds of clients: eight ports of each address, ports that count up with the addresses, and
        // one port for all addresses.
        let shapes: [fn(u32) -> (u32, u16); 3] =
            [|n| (n / 8, 1024 + (n % 8) as u16), |n| (n, 1024 + n as u16), |n| (n, 5000)];
        for queues in [2, 3, 4, 7] {
            for shape in shapes {
                let mut counts = vec![0u32; queues];
                for (client, port) in (0..10_000).map(shape) {
                    let hash = DEFAULT_HASH.hash_v4([0x0a00_0000 + client, 0xc0a8_0001], [port, 80]);
                    counts[queue(hash, queues)] += 1;
                }
                let even = 10_000 / queues as u32;
                assert!(counts.iter().all(|&n| n > even * 8 / 10 && n < even * 12 / 10), "{counts:?}");
            }
        }
    }

    #[test]
    fn keys_differ_and_are_even() {
        let keys: Vec<ToeplitzKey> = (0..200).map(key_of).collect();
        for (number, key) in keys.iter().enumerate() {
            assert!(!keys[..number].contains(key) && *key != KEY);
            let hash = Toeplitz::new(*key);
            for queues in [2, 4, 8] {
                let shapes: [fn(u32) -> (u32, u16); 3] =
                    [|n| (n, 5000), |n| (7, 1024 + n as u16), |n| (n, 1024 + n as u16)];
                for (shape, server) in shapes.into_iter().flat_map(|shape| [(shape, 80), (shape, 8080)]) {
                    let mut counts = vec![0u32; queues];
                    for (client, port) in (0..16).map(shape) {
                        let hash = hash.hash_v4([0x0a00_0000 + client, 0xc0a8_0001], [port, server]);
                        counts[queue(hash, queues)] += 1;
                    }
                    assert!(counts.iter().all(|&count| count == 16 / queues as u32), "{number}: {counts:?}");
                }
            }
        }
        assert_eq!(key_of(1), key_of(1));
    }

    #[test]
    fn many_neighbours_are_even_over_any_number_of_queues() {
        const CLIENTS: u32 = 4096;
        // Five kinds of clients: addresses count up; ports count up; both count up together; eight ports of
        // each address; subnets of 256 addresses count up.
        let shapes: [fn(u32) -> (u32, u16); 5] = [
            |n| (n, 5000),
            |n| (7, 1024 + n as u16),
            |n| (n, 1024 + n as u16),
            |n| (n / 8, 1024 + (n % 8) as u16),
            |n| (n << 8, 5000),
        ];
        for seed in 0..100 {
            let hash = Toeplitz::new(key_of(seed));
            for (number, shape) in shapes.into_iter().enumerate() {
                for queues in 2..=8 {
                    let mut counts = vec![0; queues];
                    for (client, port) in (0..CLIENTS).map(shape) {
                        let hash = hash.hash_v4([0x0a00_0000 + client, 0xc0a8_0001], [port, 80]);
                        counts[queue(hash, queues)] += 1;
                    }
                    // Each entry gets the same number of clients, and the numbers of entries per queue
                    // differ by at most one.
                    let most = CLIENTS / ENTRIES * ENTRIES.div_ceil(queues as u32);
                    let is_even = counts.iter().all(|&count| count <= most);
                    assert!(is_even, "key {seed}, shape {number}: {counts:?}");
                }
            }
        }
    }

    #[test]
    fn keys_for_interfaces_have_any_length() {
        for length in [0, 16, 40, 52, 255] {
            let key = long_key_of(7, length);
            assert_eq!((key.len(), &key), (length, &long_key_of(7, length)));
            assert!(length < 16 || key != long_key_of(8, length));
        }
        assert!(long_key_of(7, 52).starts_with(&long_key_of(7, 40)));
        assert!(long_key_of(7, 52)[40..] != [0; 12]);
    }
}
