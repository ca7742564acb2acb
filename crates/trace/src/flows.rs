//! Flows and their numbers: consecutive, in the order of their first packets, never reused.

use flow::{FiveTupleKey, FlowId, FlowTable, InsertError, KeyHasher, TableError};
use packet::Timestamp;
use wire::{FiveTuple, ip_protocol};

/// The capacity of the first table, in flows.
const FIRST: usize = 1 << 16;

/// The fixed seed of the hash. Flow numbers do not depend on it, and results are the same on every machine.
const SEED: u64 = 1;

/// All flows seen so far.
///
/// A table of crate `flow` does not grow, so a full table is replaced by a table of twice the size.
/// Inserting the flows in the same order gives the same numbers.
pub struct Flows {
    table: FlowTable<FiveTupleKey>,
    capacity: usize,
    hasher: KeyHasher,
    /// The five-tuples, by flow number.
    tuples: Vec<FiveTuple>,
    /// A table by flow number: the position among the flows of the same protocol.
    ordinals: Vec<u32>,
    /// The number of TCP flows.
    tcp: u32,
    /// The flow that was looked up last: within a run, no look-up is needed.
    last: Option<(FiveTuple, u32)>,
    asked: Asked,
}

/// Buffers for looking up several flows together.
#[derive(Default)]
struct Asked {
    keys: Vec<FiveTupleKey>,
    hashes: Vec<u32>,
    ids: Vec<Option<FlowId>>,
}

impl Flows {
    /// Makes an empty set of flows.
    ///
    /// # Errors
    /// If the system has no memory for the table.
    pub fn new() -> Result<Flows, TableError> {
        Flows::with_capacity(FIRST)
    }

    fn with_capacity(capacity: usize) -> Result<Flows, TableError> {
        let table = FlowTable::new(capacity)?;
        let (tuples, ordinals) = (Vec::new(), Vec::new());
        Ok(Flows {
            table,
            capacity,
            hasher: KeyHasher::new(SEED),
            tuples,
            ordinals,
            tcp: 0,
            last: None,
            asked: Asked::default(),
        })
    }

    /// Returns the number of a flow, a new number if the flow has not been seen before.
    ///
    /// # Errors
    /// If there is no memory for more flows.
    #[inline]
    pub fn number(&mut self, tuple: &FiveTuple) -> Result<u32, TableError> {
        if let Some((last, number)) = &self.last
            && last == tuple
        {
            return Ok(*number);
        }
        let number = match self.insert(tuple) {
            Ok(number) => number,
            Err(_) => self.grow(tuple)?,
        };
        self.last = Some((*tuple, number));
        Ok(number)
    }

    /// Returns the numbers of several flows in `numbers`, in the same order; flows that have not been seen
    /// before get new numbers. The memory accesses of the look-ups overlap.
    ///
    /// # Errors
    /// If there is no memory for more flows.
    pub fn number_all(&mut self, tuples: &[FiveTuple], numbers: &mut Vec<u32>) -> Result<(), TableError> {
        let Asked { keys, hashes, ids } = &mut self.asked;
        keys.clear();
        keys.extend(tuples.iter().map(|tuple| FiveTupleKey::new(tuple, 0)));
        hashes.clear();
        hashes.extend(keys.iter().map(|key| self.hasher.hash(key)));
        ids.clear();
        ids.resize(tuples.len(), None);
        self.table.lookup_batch(keys, hashes, ids);
        numbers.clear();
        for (place, tuple) in tuples.iter().enumerate() {
            // Numbers stay the same if the table grows meanwhile.
            let number = match self.asked.ids[place] {
                Some(id) => id.index(),
                None => self.number(tuple)?,
            };
            numbers.push(number);
        }
        Ok(())
    }

    /// Prefetches the data that [`Flows::ordinal`] reads.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        crate::analysis::prefetch(&self.ordinals, number);
    }

    /// Returns the number of a flow that has been seen before; `None` for others.
    #[inline]
    pub fn find(&self, tuple: &FiveTuple) -> Option<u32> {
        if let Some((last, number)) = &self.last
            && last == tuple
        {
            return Some(*number);
        }
        let key = FiveTupleKey::new(tuple, 0);
        self.table.lookup(&key, self.hasher.hash(&key)).map(|id| id.index())
    }

    #[inline]
    fn insert(&mut self, tuple: &FiveTuple) -> Result<u32, InsertError> {
        let key = FiveTupleKey::new(tuple, 0);
        let id = self.table.insert(&key, self.hasher.hash(&key), Timestamp::ZERO)?.id();
        if id.index() as usize == self.tuples.len() {
            let others = id.index() - self.tcp;
            let is_tcp = tuple.protocol() == ip_protocol::TCP;
            self.ordinals.push(if is_tcp { self.tcp } else { others });
            self.tcp += u32::from(is_tcp);
            self.tuples.push(*tuple);
        }
        Ok(id.index())
    }

    /// Moves all flows into larger tables, until a table has room for the new flow too.
    #[cold]
    fn grow(&mut self, tuple: &FiveTuple) -> Result<u32, TableError> {
        loop {
            let mut larger = Flows::with_capacity(self.capacity * 2)?;
            larger.tuples.reserve(self.tuples.len() + 1);
            let all = self.tuples.iter().chain([tuple]);
            let numbers: Result<u32, InsertError> =
                all.map(|tuple| larger.insert(tuple)).try_fold(0, |_, n| n);
            self.capacity = larger.capacity;
            if let Ok(number) = numbers {
                larger.asked = std::mem::take(&mut self.asked);
                *self = larger;
                return Ok(number);
            }
        }
    }

    /// Returns the number of flows.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// True if there are no flows.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Iterates over all flows by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &FiveTuple> {
        self.tuples.iter()
    }

    /// Returns a flow's position among the TCP flows, or among the flows that are not TCP.
    #[inline]
    pub fn ordinal(&self, number: u32) -> u32 {
        self.ordinals.get(number as usize).copied().unwrap_or(0)
    }

    /// True if the flow with this number is TCP.
    pub fn is_tcp(&self, number: u32) -> bool {
        self.tuples.get(number as usize).is_some_and(|tuple| tuple.protocol() == ip_protocol::TCP)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn numbers_stay_when_the_table_grows() {
        let mut flows = Flows::with_capacity(4).unwrap();
        let tuple = |n: u32| FiveTuple::v4((Ipv4Addr::from_bits(n), 1), (Ipv4Addr::LOCALHOST, 2), 6);
        for round in 0..2 {
            for n in 0..1000 {
                assert_eq!(flows.number(&tuple(n)).unwrap(), n, "round {round}");
            }
        }
        // Look-up of several flows at once, also while the table grows, and with a flow that occurs twice.
        let mut together = Flows::with_capacity(4).unwrap();
        let mut numbers = Vec::new();
        for first in (0..1000).step_by(50) {
            let some: Vec<u32> = (first..first + 50).chain([first, 0]).collect();
            let tuples: Vec<FiveTuple> = some.iter().map(|&n| tuple(n)).collect();
            together.number_all(&tuples, &mut numbers).unwrap();
            assert_eq!(numbers, some);
        }
        assert_eq!((flows.len(), flows.find(&tuple(7)), flows.find(&tuple(1000))), (1000, Some(7), None));
        assert!(flows.iter().enumerate().all(|(n, found)| *found == tuple(n as u32)));
    }
}
