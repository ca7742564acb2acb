//! An approximate set of the flows in the tables of all cores. Code that spreads packets over cores asks it
//! whether a packet's flow has state, without a look-up of that state.
//!
//! The set is a counting Bloom filter with one hash: an array of 8-bit counters, each of which counts the
//! flows whose number ([`AddressesAndPorts::number`]) selects it. A flow in the set is always found. A flow
//! that is not in the set may be found too, which costs time but does no harm. Numbers differ by direction: a
//! connection whose two directions are in a table counts twice.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::key::AddressesAndPorts;

/// The binary logarithm of the number of counters. With 100,000 flows in the set, about one of 20 other
/// flows is taken for known.
const BITS: u32 = 21;

/// The value at which a counter is saturated. A saturated counter has lost the number of its flows, so it
/// is never changed again, and its flows count as known for ever.
const FULL: u8 = u8::MAX;

/// The approximate set of the flows in the tables of all cores; see the module's documentation. All cores
/// share it.
pub struct KnownFlows {
    /// The seed of [`AddressesAndPorts::number`]. An attacker who does not know the seed cannot choose flows
    /// that share a counter with another flow.
    seed: AtomicU64,
    cells: Box<[AtomicU8]>,
}

impl Default for KnownFlows {
    fn default() -> KnownFlows {
        KnownFlows { seed: AtomicU64::new(0), cells: (0..1 << BITS).map(|_| AtomicU8::new(0)).collect() }
    }
}

impl KnownFlows {
    /// Sets the seed. Callers must set it before the first flow is added, because a flow's counter depends
    /// on the seed.
    pub fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    /// Returns the seed, with which callers compute the number of a packet's flow by
    /// [`AddressesAndPorts::number`].
    #[inline]
    pub fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    #[inline]
    fn cell(&self, number: u32) -> Option<&AtomicU8> {
        self.cells.get((number >> (32 - BITS)) as usize)
    }

    /// True if a flow with this number may be in the set; false if certainly none is.
    #[inline]
    pub fn has(&self, number: u32) -> bool {
        self.cell(number).is_some_and(|cell| cell.load(Ordering::Relaxed) > 0)
    }

    /// Adds a flow, and returns its number, which the caller keeps to [`remove`](Self::remove) the flow.
    pub(crate) fn add(&self, ends: &AddressesAndPorts) -> u32 {
        let number = ends.number(self.seed());
        self.change(number, |count| count.saturating_add(1));
        number
    }

    /// Reverses one call of [`add`](Self::add) that returned this number: the flow counts once less.
    pub(crate) fn remove(&self, number: u32) {
        self.change(number, |count| if count == FULL { FULL } else { count.saturating_sub(1) });
    }

    fn change(&self, number: u32, to: impl Fn(u8) -> u8) {
        if let Some(cell) = self.cell(number) {
            // The update cannot fail, because the function always returns a value.
            let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(to(count)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(client: u32) -> AddressesAndPorts {
        AddressesAndPorts::V4([client, 0x0a00_0001], [1024, 80])
    }

    #[test]
    fn known_flows_are_found_and_others_hardly_ever() {
        let known = KnownFlows::default();
        known.set_seed(7);
        let numbers: Vec<u32> = (0..10_000).map(|client| known.add(&ends(client))).collect();
        assert!(numbers.iter().all(|&number| known.has(number)));
        let taken = (10_000..20_000).filter(|&client| known.has(ends(client).number(7))).count();
        assert!(taken < 100, "{taken}");
        numbers.iter().for_each(|&number| known.remove(number));
        assert!(numbers.iter().all(|&number| !known.has(number)));
    }

    #[test]
    fn a_cell_that_has_lost_count_stays_known() {
        let known = KnownFlows::default();
        let numbers: Vec<u32> = (0..300).map(|_| known.add(&ends(1))).collect();
        numbers.iter().for_each(|&number| known.remove(number));
        assert!(known.has(numbers[0]));
    }

    #[test]
    fn numbers_depend_on_direction_and_seed() {
        let back = AddressesAndPorts::V4([0x0a00_0001, 1], [80, 1024]);
        assert_ne!(ends(1).number(7), back.number(7));
        assert_ne!(ends(1).number(7), ends(1).number(8));
        assert_ne!(
            AddressesAndPorts::V6([1, 2], [3, 4]).number(7),
            AddressesAndPorts::V6([2, 1], [4, 3]).number(7)
        );
    }
}
