//! Blocks of eight boxes in a leaf. On processors with AVX2, vector instructions compare a point with all
//! boxes of a block at the same time.

use super::{Area, GROUP, NONE};

/// The number of boxes (see [`Area`]) in a block: the number of 32-bit lanes of an AVX2 register.
pub(super) const LANES: usize = 8;

/// Up to eight boxes of a leaf in the order of their rules, stored field by field. In unused lanes after
/// the last box, the rule is [`NONE`].
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Block<const D: usize> {
    low: [[u32; LANES]; D],
    /// For each field and each box, the highest value of the range minus the lowest.
    span: [[u32; LANES]; D],
    /// The rule of each box; [`NONE`] in unused lanes and in one more lane, which is read if no box
    /// contains the point.
    rules: [u32; LANES + 1],
    /// A mask in which bit N is set if box N is exact (its rule holds for every point in the box), or if lane
    /// N is unused.
    exact: u16,
    is_last: bool,
}

impl<const D: usize> Block<D> {
    /// Makes the blocks of a leaf for boxes in the order of their rules; one empty block if there are no
    /// boxes.
    pub(super) fn of_leaf(areas: &[Area<D>]) -> impl Iterator<Item = Block<D>> {
        let count = areas.len().div_ceil(LANES).max(1);
        (0..count).map(move |number| {
            let start = number * LANES;
            Block::new(&areas[start..areas.len().min(start + LANES)], number + 1 == count)
        })
    }

    fn new(areas: &[Area<D>], is_last: bool) -> Block<D> {
        let mut block = Block {
            low: [[0; LANES]; D],
            span: [[0; LANES]; D],
            rules: [NONE; LANES + 1],
            exact: u16::MAX,
            is_last,
        };
        for (lane, area) in areas.iter().enumerate() {
            block.rules[lane] = area.rule;
            if !area.exact {
                block.exact &= !(1 << lane);
            }
            for (field, &(low, high)) in area.ranges.iter().enumerate() {
                block.low[field][lane] = low;
                block.span[field][lane] = high - low;
            }
        }
        block
    }

    /// Prefetches all cache lines of the block, for a comparison soon afterwards.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        let start: *const u8 = (&raw const *self).cast();
        for line in (0..size_of::<Self>()).step_by(64) {
            packet::prefetch_line(start.wrapping_add(line));
        }
    }

    /// True if this is the last block of its leaf.
    #[inline(always)]
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// True if all boxes of the block are exact: the rule of each holds for every point in the box.
    #[inline(always)]
    pub(super) fn is_exact(&self) -> bool {
        self.exact == u16::MAX
    }

    /// Returns the rule of the lowest box in the mask `boxes`, or [`NONE`] if the mask is 0.
    #[inline(always)]
    pub(super) fn first(&self, boxes: u32) -> u32 {
        self.rules[(boxes | 1 << LANES).trailing_zeros() as usize]
    }

    /// True if the lowest box in the mask `boxes` is exact: its rule holds for every point in the box.
    #[inline(always)]
    pub(super) fn first_is_exact(&self, boxes: u32) -> bool {
        u32::from(self.exact) & boxes & boxes.wrapping_neg() != 0
    }

    /// Returns a mask in which bit N is set if box N contains the point with index `point`. An unused lane
    /// counts as a box that contains only the point whose fields are all 0.
    #[inline(always)]
    pub(super) fn inside(&self, points: &[[u32; GROUP]; D], point: usize) -> u32 {
        let within = |lane: usize| {
            let mut fields = points.iter().zip(&self.low).zip(&self.span);
            fields.all(|((values, low), span)| values[point].wrapping_sub(low[lane]) <= span[lane])
        };
        (0..LANES).fold(0, |boxes, lane| boxes | u32::from(within(lane)) << lane)
    }

    /// Compares a point with all boxes like [`inside`](Self::inside), with one register for all eight
    /// lanes.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn inside_avx2(&self, points: &[[u32; GROUP]; D], point: usize) -> u32 {
        use std::arch::x86_64::{
            _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_min_epu32,
            _mm256_movemask_ps, _mm256_set1_epi32, _mm256_sub_epi32,
        };
        // SAFETY: the load reads the eight numbers of 32 bits, at any alignment.
        #[expect(unsafe_code, reason = "a load through a pointer")]
        let load = |lanes: &[u32; LANES]| unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
        let mut inside = _mm256_set1_epi32(-1);
        for ((values, low), span) in points.iter().zip(&self.low).zip(&self.span) {
            let behind = _mm256_sub_epi32(_mm256_set1_epi32(values[point].cast_signed()), load(low));
            // AVX2 has no unsigned comparison. A value is in a box's range if its distance `behind` from the
            // lowest value is at most `span`, which is computed as `min(behind, span) == behind`.
            let within = _mm256_cmpeq_epi32(_mm256_min_epu32(behind, load(span)), behind);
            inside = _mm256_and_si256(inside, within);
        }
        _mm256_movemask_ps(_mm256_castsi256_ps(inside)).cast_unsigned()
    }
}
