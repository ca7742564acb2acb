//! Tests of longest-prefix match with a full routing table of the Internet, compared with a trie that tests
//! one bit of the address after the other.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr};

use classify::prefixes::{Address, Prefix, PrefixEntry, PrefixTable};
use testkit::found;

/// A binary trie, with whose results the table's results are compared.
struct Trie {
    /// For each node, the indexes of its children for bit 0 and bit 1 (0 if there is none), and the value
    /// of its prefix.
    nodes: Vec<([u32; 2], Option<u32>)>,
}

impl Trie {
    fn new() -> Trie {
        Trie { nodes: vec![([0; 2], None)] }
    }

    fn bit<A: Address>(address: A, place: u8) -> usize {
        (address.to_bits() >> (A::BITS - 1 - place) & 1) as usize
    }

    fn set<A: Address>(&mut self, prefix: Prefix<A>, value: Option<u32>) {
        let mut node = 0;
        for place in 0..prefix.length() {
            let bit = Trie::bit(prefix.first(), place);
            if self.nodes[node].0[bit] == 0 {
                self.nodes[node].0[bit] = self.nodes.len() as u32;
                self.nodes.push(([0; 2], None));
            }
            node = self.nodes[node].0[bit] as usize;
        }
        self.nodes[node].1 = value;
    }

    fn look_up<A: Address>(&self, address: A) -> Option<u32> {
        let mut node = 0;
        let mut found = self.nodes[0].1;
        for place in 0..A::BITS {
            node = self.nodes[node].0[Trie::bit(address, place)] as usize;
            if node == 0 {
                break;
            }
            found = self.nodes[node].1.or(found);
        }
        found
    }
}

/// Returns random addresses: first, last and other addresses in random prefixes, addresses next to
/// prefixes, and any addresses.
fn addresses<A: Address>(prefixes: &[Prefix<A>], random: &mut fastrand::Rng) -> Vec<A> {
    let near = |random: &mut fastrand::Rng| {
        let prefix = prefixes[random.usize(..prefixes.len())];
        let (first, last) = (prefix.first().to_bits(), prefix.last().to_bits());
        A::from_bits(match random.u8(..5) {
            0 => first,
            1 => last,
            2 => first.wrapping_sub(1),
            3 => last.wrapping_add(1),
            _ => first | random.u128(..) & (last ^ first),
        })
    };
    (0..500_000).map(|n| if n % 5 == 0 { A::from_bits(random.u128(..)) } else { near(random) }).collect()
}

fn agree<A: Address>(
    table: &PrefixTable<A>,
    trie: &Trie,
    prefixes: &[Prefix<A>],
    random: &mut fastrand::Rng,
) {
    let addresses = addresses(prefixes, random);
    let mut values = vec![None; addresses.len()];
    table.lookup_batch(&addresses, &mut values);
    for (&address, value) in addresses.iter().zip(values) {
        let expected = trie.look_up(address);
        assert_eq!(value, expected, "{address:x?} in a batch");
        assert_eq!(table.lookup(address), expected, "{address:x?}");
    }
}

/// Compares the table with a trie after all prefixes are inserted, and after 100,000 random changes.
fn the_table_is_a_trie<A: Address + std::fmt::LowerHex>(prefixes: &[Prefix<A>]) {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut table, mut trie) = (PrefixTable::new(), Trie::new());
    let entry = |value| PrefixEntry { value, note: 0 };
    for &prefix in prefixes {
        let value = random.u32(..1000);
        table.insert(prefix, entry(value));
        trie.set(prefix, Some(value));
    }
    agree(&table, &trie, prefixes, &mut random);
    for number in 0..100_000 {
        let known = prefixes[random.usize(..prefixes.len())];
        // The changed prefix is equal to a prefix of the table, contains such a prefix, or is inside one.
        // Only few of the changed prefixes are short, because a short prefix has many cells to write.
        let length = match random.bool() {
            true => known.length(),
            false if number % 1000 == 0 => random.u8(..12),
            false => random.u8(12..=A::BITS),
        };
        let prefix = Prefix::new(known.first(), length);
        let value = random.bool().then(|| random.u32(..1000));
        match value {
            Some(value) => drop(table.insert(prefix, entry(value))),
            None => drop(table.remove(prefix)),
        }
        trie.set(prefix, value);
    }
    agree(&table, &trie, prefixes, &mut random);
}

type Families = (Vec<Prefix<u32>>, Vec<Prefix<u128>>);

/// Reads the prefixes of a full routing table from the data directory; `None` if the file is not there.
fn full_table() -> Option<Families> {
    let file = std::fs::File::open(found::path("routes/bart-tier1-prefixes.txt.gz")?).unwrap();
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for line in BufReader::new(flate2::read::GzDecoder::new(file)).lines() {
        let line = line.unwrap();
        let (address, length) = line.trim().split_once('/').unwrap();
        let length = length.parse().unwrap();
        match address.parse::<Ipv4Addr>() {
            Ok(address) => v4.push(Prefix::new(address.to_bits(), length)),
            Err(_) => v6.push(Prefix::new(address.parse::<Ipv6Addr>().unwrap().to_bits(), length)),
        }
    }
    Some((v4, v6))
}

#[test]
fn full_table_of_ipv4() {
    if let Some((prefixes, _)) = full_table() {
        assert!(prefixes.len() > 900_000);
        the_table_is_a_trie(&prefixes);
    }
}

#[test]
fn full_table_of_ipv6() {
    if let Some((_, prefixes)) = full_table() {
        assert!(prefixes.len() > 150_000);
        the_table_is_a_trie(&prefixes);
    }
}
