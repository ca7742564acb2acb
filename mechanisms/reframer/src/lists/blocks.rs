//! Memory for the values of long lists, and for values that were released.

/// The number of values in a block.
const BLOCK: usize = 4;
/// The number of a block that does not exist.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// Values of a list after those in its own cache line, with their times of arrival, in one cache line.
#[repr(align(64))]
struct Block<T> {
    values: [Option<T>; BLOCK],
    /// The times at which the values arrived, modulo 2^32 ns.
    times: [u32; BLOCK],
    /// The next block of the list, or the next free block; [`NO_BLOCK`] at the end.
    next: u32,
    /// In the first block of a list: the last block of the list.
    last: u32,
    /// In the first block of a list: the number of values in all its blocks.
    count: u32,
}

/// The blocks of all lists. A block that is free is used again, the one that was freed last first.
pub(super) struct Blocks<T> {
    blocks: Vec<Block<T>>,
    free: u32,
}

impl<T> Blocks<T> {
    pub(super) fn new() -> Blocks<T> {
        Blocks { blocks: Vec::with_capacity(1024), free: NO_BLOCK }
    }

    /// Returns the number of blocks, free or not.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of a block without values.
    fn take(&mut self) -> u32 {
        match self.blocks.get_mut(self.free as usize) {
            Some(block) => {
                let number = std::mem::replace(&mut self.free, block.next);
                (block.next, block.count) = (NO_BLOCK, 0);
                number
            }
            None => {
                self.blocks.push(Block {
                    values: [const { None }; BLOCK],
                    times: [0; BLOCK],
                    next: NO_BLOCK,
                    last: NO_BLOCK,
                    count: 0,
                });
                self.blocks.len() as u32 - 1
            }
        }
    }

    /// Returns the number of values in the blocks of a list, whose first block is `first`.
    #[inline(always)]
    pub(super) fn length(&self, first: u32) -> usize {
        self.blocks.get(first as usize).map_or(0, |block| block.count as usize)
    }

    /// Appends a value to the blocks of a list, and returns the number of values in them. `first` is the
    /// first block of the list; it is set here if it was [`NO_BLOCK`].
    #[inline(never)]
    pub(super) fn push(&mut self, first: &mut u32, value: T, time: u32) -> usize {
        let length = self.length(*first);
        let place = length % BLOCK;
        if place == 0 {
            let new = self.take();
            if length == 0 {
                *first = new;
            } else {
                let last = self.blocks[*first as usize].last;
                self.blocks[last as usize].next = new;
            }
            self.blocks[*first as usize].last = new;
        }
        let start = &mut self.blocks[*first as usize];
        start.count += 1;
        let last = start.last;
        let block = &mut self.blocks[last as usize];
        (block.values[place], block.times[place]) = (Some(value), time);
        length + 1
    }

    /// Moves all values in the blocks of a list to the end of `to`, and frees the blocks. `first` is the
    /// first block.
    #[inline(never)]
    pub(super) fn empty(&mut self, first: u32, to: &mut Released<T>) {
        let (mut number, mut left) = (first, self.length(first));
        while left > 0 {
            let block = &mut self.blocks[number as usize];
            let count = left.min(BLOCK);
            to.add(&mut block.values[..count], &block.times[..count]);
            let next = std::mem::replace(&mut block.next, self.free);
            self.free = std::mem::replace(&mut number, next);
            left -= count;
        }
    }
}

/// Values that were released, with their times of arrival modulo 2^32 ns.
pub(super) struct Released<T> {
    pub(super) values: Vec<Option<T>>,
    pub(super) times: Vec<u32>,
}

impl<T> Released<T> {
    pub(super) fn new() -> Released<T> {
        Released { values: Vec::with_capacity(1024), times: Vec::with_capacity(1024) }
    }

    pub(super) fn add(&mut self, values: &mut [Option<T>], times: &[u32]) {
        self.values.extend(values.iter_mut().map(Option::take));
        self.times.extend_from_slice(times);
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.times.clear();
    }
}
