//! Flow ids: the index of a flow's entry in a table, with a generation by which a stale id is recognised.

use std::fmt;
use std::num::NonZeroU32;

/// The id of a flow in a table: the index of its entry, and the generation of that entry. Elements keep
/// arrays of their own data, indexed by [`FlowId::index`]. When the entry is assigned to another flow, its
/// generation changes, so an id of the previous flow is recognised as stale.
///
/// `Option<FlowId>` takes eight bytes, like the id; zero is `None`. The generation of an index repeats
/// after `2^32 - 1` reuses; until then a stale id is always recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    pub(crate) index: u32,
    pub(crate) generation: NonZeroU32,
}

impl FlowId {
    /// Returns the index of the flow's entry, which is below the table's capacity.
    #[inline]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the generation, which rises by one each time the index is assigned to another flow. It
    /// begins at 1, unless [`FlowTable::set_first_generation`](crate::FlowTable::set_first_generation)
    /// sets another beginning. After `u32::MAX` it is 1 again, so it is never 0.
    #[inline]
    pub fn generation(self) -> u32 {
        self.generation.get()
    }

    /// Returns the id as one number for packet metadata: generation in the upper half, index in the lower
    /// half. The number is never 0, so 0 can mean no flow.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.index)
    }

    /// Returns the id from the number that [`FlowId::to_bits`] made; `None` if the upper half is 0, as in
    /// metadata without a flow.
    #[inline]
    pub fn from_bits(bits: u64) -> Option<FlowId> {
        Some(FlowId { index: bits as u32, generation: NonZeroU32::new((bits >> 32) as u32)? })
    }
}

/// Formats the id as `index.generation`.
impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_that_fit_into_metadata() {
        assert_eq!(size_of::<Option<FlowId>>(), 8);
        let id = FlowId { index: 5, generation: NonZeroU32::MAX };
        assert_eq!(FlowId::from_bits(id.to_bits()), Some(id));
        assert_eq!(FlowId::from_bits(0), None);
    }
}
