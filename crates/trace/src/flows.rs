//! Flows and their numbers: dense, in the order of their first packets, never taken back.

use flow::{FiveTupleKey, FlowId, FlowTable, InsertError, KeyHasher, TableError};
use packet::Timestamp;
use wire::{FiveTuple, ip_protocol};

/// Flows that the first table has room for.
const FIRST: usize = 1 << 16;

/// Fixed: the order of flows does not depend on it, and results are the same on every machine.
const SEED: u64 = 1;

/// All flows that were met.
///
/// A table of `flow` does not grow, so a full one is replaced by one of twice the size. What is inserted in the
/// same order gets the same numbers.
pub struct Flows {
    table: FlowTable<FiveTupleKey>,
    capacity: usize,
    hasher: KeyHasher,
    /// By number.
    tuples: Vec<FiveTuple>,
    /// By number: the place among the flows of the same protocol.
    ordinals: Vec<u32>,
    /// How many flows are TCP.
    tcp: u32,
    /// The flow that was asked for last: in runs there is nothing to look up.
    last: Option<(FiveTuple, u32)>,
    asked: Asked,
}

/// Flows whose numbers are asked for together.
#[derive(Default)]
struct Asked {
    keys: Vec<FiveTupleKey>,
    hashes: Vec<u32>,
    ids: Vec<Option<FlowId>>,
}

impl Flows {
    /// None yet.
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

    /// The number of a flow, a new one if it was not met before.
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

    /// The numbers of several flows, in their order, new ones for those that were not met before. The look-ups wait for
    /// memory together.
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
            // Numbers stay when the table grows on the way.
            let number = match self.asked.ids[place] {
                Some(id) => id.index(),
                None => self.number(tuple)?,
            };
            numbers.push(number);
        }
        Ok(())
    }

    /// Asks memory for what [`Flows::ordinal`] says of a flow.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        crate::analysis::prefetch(&self.ordinals, number);
    }

    /// The number of a flow that was met before.
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

    /// Moves all flows into larger tables, until one takes the new flow too.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &FiveTuple> {
        self.tuples.iter()
    }

    /// A flow's place among those that are TCP, or among those that are not.
    #[inline]
    pub fn ordinal(&self, number: u32) -> u32 {
        self.ordinals.get(number as usize).copied().unwrap_or(0)
    }

    /// Whether the flow of this number is TCP.
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
        // Together too, while it grows, and with one that comes twice.
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
