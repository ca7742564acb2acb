//! Which worker a packet belongs to: receive-side scaling with a symmetric key.
//!
//! Network interfaces spread packets over queues by the Toeplitz hash of addresses and ports (Microsoft's RSS). With
//! a key that repeats every 16 bits (Woo and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side
//! Scaling", 2012) both directions of a flow get the same hash, and the hash comes to one of the exclusive or of all
//! 16-bit words: so it takes a few instructions here, and is the same as in an interface that was given this key.

use std::net::IpAddr;

use wire::FiveTuple;

/// The 16 bits that the key consists of, over and over.
pub const KEY: u16 = 0x6d5a;

/// Entries of the table from hashes to queues, as interfaces have it.
const ENTRIES: u32 = 128;

/// The hash of each byte of the folded input, in its upper and its lower place.
static TOEPLITZ: [[u32; 256]; 2] = tables();

const fn tables() -> [[u32; 256]; 2] {
    let key = (KEY as u32) << 16 | KEY as u32;
    let mut tables = [[0; 256]; 2];
    let mut byte = 0;
    while byte < 512 {
        let (place, value) = (byte / 256, byte % 256);
        let mut bit = 0;
        while bit < 8 {
            if value & (0x80 >> bit) != 0 {
                tables[place][value] ^= key.rotate_left((8 * place + bit) as u32);
            }
            bit += 1;
        }
        byte += 1;
    }
    tables
}

/// The hash of the exclusive or of all 16-bit words of addresses and ports.
#[inline]
pub fn toeplitz(folded: u16) -> u32 {
    let [upper, lower] = folded.to_be_bytes();
    TOEPLITZ[0][usize::from(upper)] ^ TOEPLITZ[1][usize::from(lower)]
}

/// The queue of a hash, of so many.
#[inline]
pub fn queue(hash: u32, queues: usize) -> usize {
    (hash % ENTRIES) as usize % queues.max(1)
}

/// The exclusive or of the 16-bit words of a number.
#[inline]
pub fn fold(number: u128) -> u16 {
    let half = (number >> 64) as u64 ^ number as u64;
    let quarter = (half >> 32) as u32 ^ half as u32;
    (quarter >> 16) as u16 ^ quarter as u16
}

/// The same of both addresses and ports of a five-tuple.
#[inline]
pub fn fold_tuple(tuple: &FiveTuple) -> u16 {
    let address = |address| match address {
        IpAddr::V4(address) => fold(u128::from(address.to_bits())),
        IpAddr::V6(address) => fold(address.to_bits()),
    };
    let addresses = address(tuple.source()) ^ address(tuple.destination());
    addresses ^ tuple.source_port() ^ tuple.destination_port()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// The hash as the specification defines it: the key's window at each bit that is set.
    fn specified(input: &[u8]) -> u32 {
        let key: Vec<u8> = (0..40).map(|i| KEY.to_be_bytes()[i % 2]).collect();
        let window = |bit: usize| {
            let at = bit / 8;
            let bytes = [key[at], key[at + 1], key[at + 2], key[at + 3], key[at + 4], 0, 0, 0];
            (u64::from_be_bytes(bytes) << (bit % 8) >> 32) as u32
        };
        let is_set = |bit: &usize| input[bit / 8] & (0x80 >> (bit % 8)) != 0;
        (0..8 * input.len()).filter(is_set).fold(0, |hash, bit| hash ^ window(bit))
    }

    #[test]
    fn the_hash_is_that_of_interfaces_in_both_directions() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..1_000 {
            let (a, b): (Ipv4Addr, Ipv4Addr) = (random.u32(..).into(), random.u32(..).into());
            let (p, q) = (random.u16(..), random.u16(..));
            let input = [&a.octets()[..], &b.octets(), &p.to_be_bytes(), &q.to_be_bytes()].concat();
            let hash = toeplitz(fold_tuple(&FiveTuple::v4((a, p), (b, q), 6)));
            assert_eq!(hash, specified(&input));
            assert_eq!(hash, toeplitz(fold_tuple(&FiveTuple::v4((b, q), (a, p), 6))));
            let (a, b): (Ipv6Addr, Ipv6Addr) = (random.u128(..).into(), random.u128(..).into());
            let input = [&a.octets()[..], &b.octets(), &p.to_be_bytes(), &q.to_be_bytes()].concat();
            assert_eq!(toeplitz(fold_tuple(&FiveTuple::v6((a, p), (b, q), 17))), specified(&input));
        }
    }

    #[test]
    fn flows_spread_over_queues() {
        for queues in [2, 3, 4, 7] {
            let mut counts = vec![0u32; queues];
            for flow in 0..10_000u32 {
                let client = Ipv4Addr::from(0x0a00_0000 | flow / 8);
                let tuple = FiveTuple::v4((client, 1024 + (flow % 8) as u16), (Ipv4Addr::LOCALHOST, 80), 6);
                counts[queue(toeplitz(fold_tuple(&tuple)), queues)] += 1;
            }
            let even = 10_000 / queues as u32;
            assert!(counts.iter().all(|&n| n > even * 8 / 10 && n < even * 12 / 10), "{counts:?}");
        }
    }
}
