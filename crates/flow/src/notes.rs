//! Data of an element about flows that another element has found.

use std::num::NonZeroU64;

/// A value for each flow with which packets are marked: an element that has looked up a flow once need not
/// do so again.
///
/// A value is found by the lower half of a mark, and is valid as long as the upper half is the same: see
/// [`crate::FlowId::to_bits`]. So a flow replaces the flow that had its number before.
#[derive(Clone, Debug)]
pub struct Notes<T> {
    notes: Vec<(u32, T)>,
}

impl<T> Default for Notes<T> {
    fn default() -> Notes<T> {
        Notes { notes: Vec::new() }
    }
}

impl<T: Copy + Default> Notes<T> {
    /// Returns the value for a flow.
    #[inline]
    pub fn get(&self, mark: NonZeroU64) -> Option<T> {
        let &(upper, note) = self.notes.get(mark.get() as u32 as usize)?;
        (upper == (mark.get() >> 32) as u32).then_some(note)
    }

    /// Stores a value for a flow, if there is memory for it. The memory grows by doubling, up to the number
    /// of flows of the element that sets the marks.
    #[inline]
    pub fn set(&mut self, mark: NonZeroU64, note: T) {
        let place = mark.get() as u32 as usize;
        if place >= self.notes.len() {
            // The upper half of a mark is never zero.
            let length = (place + 1).next_power_of_two().max(64);
            if self.notes.try_reserve_exact(length - self.notes.len()).is_err() {
                return;
            }
            self.notes.resize(length, (0, T::default()));
        }
        self.notes[place] = ((mark.get() >> 32) as u32, note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowId;

    #[test]
    fn a_note_counts_for_one_flow() {
        let mark = |generation: u64, index: u64| NonZeroU64::new(generation << 32 | index).unwrap();
        let mut notes = Notes::default();
        assert_eq!(notes.get(mark(1, 5)), None);
        notes.set(mark(1, 5), 'a');
        assert_eq!(
            (notes.get(mark(1, 5)), notes.get(mark(2, 5)), notes.get(mark(1, 4))),
            (Some('a'), None, None)
        );
        notes.set(mark(2, 5), 'b');
        assert_eq!((notes.get(mark(1, 5)), notes.get(mark(2, 5))), (None, Some('b')));
        assert_eq!(notes.get(mark(1, 1000)), None);
        assert!(FlowId::from_bits(mark(2, 5).get()).is_some());
    }
}
