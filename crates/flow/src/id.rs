//! Flow ids: dense numbers that show when they are stale.

use std::fmt;
use std::num::NonZeroU32;

/// The name of an entry of a table. Elements keep dense arrays indexed by [`FlowId::index`]; the generation
/// shows whether the index still belongs to the same flow.
///
/// `Option<FlowId>` has the same eight bytes, zero for none. A generation comes back after `2^32 - 1`
/// reuses of one index; until then a stale id is always detected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    pub(crate) index: u32,
    pub(crate) generation: NonZeroU32,
}

impl FlowId {
    /// Returns the index in dense arrays, which is below the table's capacity.
    #[inline]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of times that the index has been assigned, including this time.
    #[inline]
    pub fn generation(self) -> u32 {
        self.generation.get()
    }

    /// Returns the id as one number, never 0, for packet metadata.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.index)
    }

    /// Returns the id from which [`FlowId::to_bits`] made the number; `None` for 0.
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
