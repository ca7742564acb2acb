//! Data that an element keeps about flows which another element has looked up.

use std::num::NonZeroU64;

/// An array of values, one per flow, indexed by the mark that an upstream element puts on packets. The mark
/// is the flow's id in the table of the upstream element, so the element that has this array needs no look-up
/// of its own.
///
/// The lower half of a mark is the index of the value. The upper half is a generation that is stored with
/// the value: see [`crate::FlowId::to_bits`]. If the generation differs, the index has been reused, and the
/// value belongs to an earlier flow; it is ignored, and [`set`](FlowNotes::set) overwrites it.
#[derive(Clone, Debug)]
pub struct FlowNotes<T> {
    notes: Vec<(u32, T)>,
}

impl<T> Default for FlowNotes<T> {
    fn default() -> FlowNotes<T> {
        FlowNotes { notes: Vec::new() }
    }
}

impl<T: Copy + Default> FlowNotes<T> {
    /// Returns the value that was stored for the flow with this mark; `None` if none was, or if another flow
    /// with the same index has overwritten it.
    #[inline]
    pub fn get(&self, mark: NonZeroU64) -> Option<T> {
        let &(upper, note) = self.notes.get(mark.get() as u32 as usize)?;
        (upper == (mark.get() >> 32) as u32).then_some(note)
    }

    /// Stores a value for the flow with this mark, in place of a value for an earlier flow with the same
    /// index. If memory cannot be allocated, nothing is stored, and [`get`](Self::get) returns `None`. The
    /// array grows to a power of two of values as needed. The indices of the table that sets the marks bound
    /// its length.
    #[inline]
    pub fn set(&mut self, mark: NonZeroU64, note: T) {
        let place = mark.get() as u32 as usize;
        if place >= self.notes.len() {
            // New entries of the array get the generation 0, which no mark has, so they belong to no flow.
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
        let mut notes = FlowNotes::default();
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
