//! Numbers of flows: consecutive from 0, in the order of the flows' first packets, never reused. Numbers are
//! indices of arrays with an entry per flow.

use flow::{FiveTupleKey, FlowId, FlowTable, InsertError, KeyHasher, TableError};
use packet::Timestamp;
use wire::{FiveTuple, ip_protocol};

/// The number of flows for which the first table has room.
const FIRST: usize = 1 << 16;

/// The seed of the hash function. Flow numbers do not depend on it; it is fixed so that a run does the same
/// work on every machine.
const SEED: u64 = 1;

/// The set of all flows seen so far, with a number for each.
///
/// A table of crate `flow` does not grow, so a full table is replaced by one of twice the size. Inserting
/// all flows in the same order gives them the same numbers again.
pub struct FlowNumbers {
    table: FlowTable<FiveTupleKey>,
    capacity: usize,
    hasher: KeyHasher,
    /// The five-tuples, by flow number.
    tuples: Vec<FiveTuple>,
    /// A table by flow number: the flow's index among the TCP flows, or among the flows of other protocols.
    ordinals: Vec<u32>,
    /// The number of TCP flows.
    tcp: u32,
    /// The flow that was looked up last, and its number. Within a run, no table look-up is needed.
    last: Option<(FiveTuple, u32)>,
    buffers: LookupBuffers,
}

/// Buffers of [`FlowNumbers::number_all`], kept to avoid an allocation per call.
#[derive(Default)]
struct LookupBuffers {
    keys: Vec<FiveTupleKey>,
    hashes: Vec<u32>,
    ids: Vec<Option<FlowId>>,
}

impl FlowNumbers {
    /// Makes an empty set of flows.
    ///
    /// # Errors
    /// If the system has no memory for the table.
    pub fn new() -> Result<FlowNumbers, TableError> {
        FlowNumbers::with_capacity(FIRST)
    }

    fn with_capacity(capacity: usize) -> Result<FlowNumbers, TableError> {
        let table = FlowTable::new(capacity)?;
        let (tuples, ordinals) = (Vec::new(), Vec::new());
        Ok(FlowNumbers {
            table,
            capacity,
            hasher: KeyHasher::new(SEED),
            tuples,
            ordinals,
            tcp: 0,
            last: None,
            buffers: LookupBuffers::default(),
        })
    }

    /// Returns the number of a flow. A flow that has not been seen before gets the next number.
    ///
    /// # Errors
    /// If there is no memory for a larger table.
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

    /// Replaces the content of `numbers` by the numbers of several flows, in the order of `tuples`. Flows
    /// that have not been seen before get the next numbers. The memory accesses of the look-ups overlap,
    /// which makes this faster than calls of [`number`](Self::number).
    ///
    /// # Errors
    /// If there is no memory for a larger table.
    pub fn number_all(&mut self, tuples: &[FiveTuple], numbers: &mut Vec<u32>) -> Result<(), TableError> {
        let LookupBuffers { keys, hashes, ids } = &mut self.buffers;
        keys.clear();
        keys.extend(tuples.iter().map(|tuple| FiveTupleKey::new(tuple, 0)));
        hashes.clear();
        hashes.extend(keys.iter().map(|key| self.hasher.hash(key)));
        ids.clear();
        ids.resize(tuples.len(), None);
        self.table.lookup_batch(keys, hashes, ids);
        numbers.clear();
        for (place, tuple) in tuples.iter().enumerate() {
            // An id found before the table grew is still right, because flows keep their numbers.
            let number = match self.buffers.ids[place] {
                Some(id) => id.index(),
                None => self.number(tuple)?,
            };
            numbers.push(number);
        }
        Ok(())
    }

    /// Prefetches the data that [`FlowNumbers::ordinal`] reads.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        prefetch(&self.ordinals, number);
    }

    /// Returns the number of a flow; `None` if the flow has not been seen before.
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

    /// Moves all flows into a table of twice the size, or larger if the new flow still does not fit.
    /// Returns the number of the new flow.
    #[cold]
    fn grow(&mut self, tuple: &FiveTuple) -> Result<u32, TableError> {
        loop {
            let mut larger = FlowNumbers::with_capacity(self.capacity * 2)?;
            larger.tuples.reserve(self.tuples.len() + 1);
            let all = self.tuples.iter().chain([tuple]);
            let numbers: Result<u32, InsertError> =
                all.map(|tuple| larger.insert(tuple)).try_fold(0, |_, n| n);
            self.capacity = larger.capacity;
            if let Ok(number) = numbers {
                larger.buffers = std::mem::take(&mut self.buffers);
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

    /// Returns the five-tuples of all flows, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &FiveTuple> {
        self.tuples.iter()
    }

    /// Returns a flow's index among the TCP flows if it is TCP, else among the other flows. 0 if there is
    /// no flow with this number.
    #[inline]
    pub fn ordinal(&self, number: u32) -> u32 {
        self.ordinals.get(number as usize).copied().unwrap_or(0)
    }

    /// True if the flow with this number is TCP; false if there is no such flow.
    pub fn is_tcp(&self, number: u32) -> bool {
        self.tuples.get(number as usize).is_some_and(|tuple| tuple.protocol() == ip_protocol::TCP)
    }
}

/// Returns the entry with index `number` (the number of a flow). Extends the array with default entries if
/// it is too short.
#[inline]
pub(crate) fn entry<T: Clone + Default>(entries: &mut Vec<T>, number: u32) -> &mut T {
    let place = number as usize;
    if place >= entries.len() {
        grow(entries, place);
    }
    &mut entries[place]
}

/// Prefetches the entry with index `number`; harmless if the array has no such entry.
#[inline]
pub(crate) fn prefetch<T>(entries: &[T], number: u32) {
    // An address beyond the end of the array is allowed, as a prefetch cannot fault.
    ::packet::prefetch_line(entries.as_ptr().wrapping_add(number as usize).cast());
}

#[cold]
fn grow<T: Clone + Default>(entries: &mut Vec<T>, place: usize) {
    entries.resize(place + 1, T::default());
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn numbers_stay_when_the_table_grows() {
        let mut flows = FlowNumbers::with_capacity(4).unwrap();
        let tuple = |n: u32| FiveTuple::v4((Ipv4Addr::from_bits(n), 1), (Ipv4Addr::LOCALHOST, 2), 6);
        for round in 0..2 {
            for n in 0..1000 {
                assert_eq!(flows.number(&tuple(n)).unwrap(), n, "round {round}");
            }
        }
        // Looks up several flows at once. The table grows during the calls, and each call has a flow twice.
        let mut together = FlowNumbers::with_capacity(4).unwrap();
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
