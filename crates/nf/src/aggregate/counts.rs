//! A table of counts by aggregate, and the formats of the files to which AggregateCounter writes it.

use std::collections::{HashMap, TryReserveError};
use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::memory::reserved_map;
use crate::script::number::Number;

/// The format of a file with the counts of all aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Lines `AGGREGATE COUNT`.
    Text,
    /// Pairs of 32-bit numbers in the machine's byte order.
    Binary,
    /// Lines `AGGREGATE COUNT`, with aggregates written as IPv4 addresses.
    Ip,
    /// Lines `AGGREGATE SHARE`; the share is the count divided by the sum of all counts.
    Share,
}

/// A table with a 32-bit count per aggregate. An aggregate with a count of zero is not in the table.
#[derive(Clone)]
pub(super) struct Counts {
    counts: HashMap<u32, u32>,
    /// The maximum number of aggregates in the table.
    capacity: usize,
}

impl Counts {
    /// Returns an empty table for at most `capacity` aggregates.
    ///
    /// # Errors
    /// If memory for them cannot be reserved.
    pub(super) fn new(capacity: usize) -> Result<Counts, TryReserveError> {
        Ok(Counts { counts: reserved_map(capacity)?, capacity })
    }

    /// True if there is no room for another aggregate.
    pub(super) fn is_full(&self) -> bool {
        self.counts.len() >= self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn contains(&self, aggregate: u32) -> bool {
        self.counts.contains_key(&aggregate)
    }

    pub(super) fn add(&mut self, aggregate: u32, amount: u32) {
        if amount > 0 {
            add_to(self.counts.entry(aggregate).or_insert(0), amount);
        }
    }

    /// Adds amounts to the count of an aggregate, one after the other, as [`add`](Self::add) does; none of
    /// them is zero. Returns their sum. Returns `None`, and adds nothing, if the aggregate is not in the
    /// table, unless `may_insert` is true; there must be room for it then.
    pub(super) fn add_all(
        &mut self,
        aggregate: u32,
        amounts: impl Iterator<Item = u32>,
        may_insert: bool,
    ) -> Option<u64> {
        let mut amounts = amounts.peekable();
        // An aggregate in the table is looked up once, and so is an aggregate that does not come into the
        // table.
        let count = match self.counts.get_mut(&aggregate) {
            Some(count) => count,
            None if !may_insert => return None,
            None if amounts.peek().is_none() => return Some(0),
            None => self.counts.entry(aggregate).or_insert(0),
        };
        Some(amounts.fold(0, |sum, amount| {
            add_to(count, amount);
            sum + u64::from(amount)
        }))
    }

    /// Removes and returns all counts, for a table that continues with them.
    pub(super) fn take(&mut self) -> HashMap<u32, u32> {
        std::mem::take(&mut self.counts)
    }

    /// Continues with the counts of another table, as far as this table has room.
    pub(super) fn fill(&mut self, counts: HashMap<u32, u32>) {
        self.counts.extend(counts.into_iter().take(self.capacity));
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.values().map(|&count| u64::from(count)).sum()
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
    }

    /// Returns a table in which the counts of this table are the aggregates; the count of each is the
    /// number of aggregates of this table that had it.
    pub(super) fn reaggregated(&self) -> Counts {
        let mut all = Counts { counts: HashMap::new(), capacity: self.capacity };
        self.counts.values().for_each(|&count| all.add(count, 1));
        all
    }

    /// Returns the contents of a file with all counts: header lines, of which `banner` is one, and then the
    /// aggregates in ascending order.
    pub(super) fn file(&self, banner: &str, format: Format) -> Vec<u8> {
        let mut sorted: Vec<(u32, u32)> =
            self.counts.iter().map(|(&aggregate, &count)| (aggregate, count)).collect();
        sorted.sort_unstable();
        let mut text = format!("!IPAggregate 1.0\n{banner}");
        if !banner.is_empty() && !banner.ends_with('\n') {
            text.push('\n');
        }
        // Writing to a string never fails.
        let _ = writeln!(text, "!num_nonzero {}", sorted.len());
        let total: f64 = sorted.iter().map(|&(_, count)| f64::from(count)).sum();
        match format {
            Format::Binary if cfg!(target_endian = "big") => text.push_str("!packed_be\n"),
            Format::Binary => text.push_str("!packed_le\n"),
            Format::Ip => text.push_str("!ip\n"),
            Format::Text | Format::Share => {}
        }
        if format == Format::Binary {
            let words = sorted.iter().flat_map(|&(aggregate, count)| [aggregate, count]);
            return text.bytes().chain(words.flat_map(u32::to_ne_bytes)).collect();
        }
        for (aggregate, count) in sorted {
            let _ = match format {
                Format::Ip => writeln!(text, "{} {count}", Ipv4Addr::from_bits(aggregate)),
                Format::Share => writeln!(text, "{aggregate} {}", Number::Real(f64::from(count) / total)),
                _ => writeln!(text, "{aggregate} {count}"),
            };
        }
        text.into_bytes()
    }
}

/// Adds an amount to a count in the table. A count that overflows to zero becomes 1, because zero would mean
/// that the aggregate is not in the table.
fn add_to(count: &mut u32, amount: u32) {
    *count = count.wrapping_add(amount).max(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let mut counts = Counts::new(100).unwrap();
        for aggregate in [0x0a00_0001, 7, 7, 0x0a00_0001, 7, 9, 9, 9] {
            counts.add(aggregate, 1);
        }
        counts.add(3, 0);
        let text = |counts: &Counts, format| String::from_utf8(counts.file("", format)).unwrap();
        assert_eq!(text(&counts, Format::Text), "!IPAggregate 1.0\n!num_nonzero 3\n7 3\n9 3\n167772161 2\n");
        assert_eq!(
            text(&counts, Format::Ip),
            "!IPAggregate 1.0\n!num_nonzero 3\n!ip\n0.0.0.7 3\n0.0.0.9 3\n10.0.0.1 2\n"
        );
        assert_eq!(
            text(&counts.reaggregated(), Format::Text),
            "!IPAggregate 1.0\n!num_nonzero 2\n2 1\n3 2\n"
        );
        assert!(text(&counts, Format::Share).ends_with("\n7 0.375\n9 0.375\n167772161 0.25\n"));
        let binary = counts.file("!banner", Format::Binary);
        let head = b"!IPAggregate 1.0\n!banner\n!num_nonzero 3\n!packed_le\n";
        assert_eq!(
            binary.split_at(head.len()),
            (&head[..], &[7, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 10, 2, 0, 0, 0][..])
        );
    }
}
