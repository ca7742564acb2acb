//! Finds the first of many boxes that a point lies in, by decision trees.
//!
//! A point is the fields of a packet's headers, each a number of 32 bits. A box has a range for each field.
//! A branch takes some bits of one field, as many as are worth it, and has a child for each value of these
//! bits (after HiCuts, Gupta and McKeown, Hot Interconnects 1999). A leaf has a few boxes, which are
//! compared all at once. A box that does not restrict a field would be below every child of a branch on
//! that field. So boxes that leave the same fields unrestricted have a tree of their own (after EffiCuts,
//! Vamanan et al., SIGCOMM 2010).
//!
//! Points are looked up in groups: all of them take one step, then all take the next. So the memory that
//! one point waits for is fetched while the other points are processed.

mod block;
mod build;
#[cfg(test)]
mod tests;

use block::Block;

/// A range of one field, both ends included.
pub type Range = (u32, u32);

/// The range of all values.
pub const ALL: Range = (0, u32::MAX);

/// The number of points that are looked up together.
pub const GROUP: usize = 32;

/// The result for a point without a rule.
pub const NONE: u32 = u32::MAX;

/// A box in which a rule holds. A rule may have several boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area<const D: usize> {
    /// The rule's number, below [`NONE`]. The lowest number wins.
    pub rule: u32,
    /// True if the rule holds everywhere in the box. Otherwise the caller of a look-up is asked about each
    /// point.
    pub exact: bool,
    /// The range of each field.
    pub ranges: [Range; D],
}

/// Up to [`GROUP`] points, field by field.
#[derive(Clone, Debug)]
pub struct Points<const D: usize> {
    fields: [[u32; GROUP]; D],
}

impl<const D: usize> Points<D> {
    /// Sets a point, by its number below [`GROUP`].
    #[inline]
    pub fn set(&mut self, number: usize, point: &[u32; D]) {
        for (field, &value) in self.fields.iter_mut().zip(point) {
            field[number % GROUP] = value;
        }
    }
}

impl<const D: usize> Points<D> {
    /// Returns all points, field by field.
    #[inline(always)]
    pub(crate) fn fields(&self) -> &[[u32; GROUP]; D] {
        &self.fields
    }
}

impl<const D: usize> Default for Points<D> {
    fn default() -> Self {
        Points { fields: [[0; GROUP]; D] }
    }
}

/// Decision trees for the look-up of boxes.
#[derive(Clone, Debug, Default)]
pub struct Cuts<const D: usize> {
    /// The trees, in the order of their first rules.
    trees: Vec<Tree>,
    nodes: Vec<Node>,
    blocks: Vec<Block<D>>,
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    root: Node,
    /// The first rule in the tree.
    first: u32,
}

/// A branch, or a leaf.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The index of the first child of a branch, or of the first block of a leaf.
    next: u32,
    /// The mask of the bits that a branch looks at, after the shift. 0 in a leaf.
    mask: u16,
    /// The number of the lowest of these bits in the field.
    shift: u8,
    /// The number of the field.
    field: u8,
}

impl Node {
    const fn leaf(block: u32) -> Node {
        Node { next: block, mask: 0, shift: 0, field: 0 }
    }

    const fn is_leaf(self) -> bool {
        self.mask == 0
    }

    /// Returns the child for a value of the field.
    #[inline(always)]
    fn child(self, value: u32) -> u32 {
        // The instruction applies the mask to the shift anyway.
        self.next + (value >> (self.shift & 31) & u32::from(self.mask))
    }
}

/// Numbers of points in a group.
struct Numbers {
    numbers: [u8; GROUP],
    count: usize,
}

impl Numbers {
    /// Collects the numbers from 0 on for which `is` is true. There is no branch, because the processor
    /// could not predict it.
    #[inline(always)]
    fn of(count: usize, mut is: impl FnMut(usize) -> bool) -> Numbers {
        let mut all = Numbers { numbers: [0; GROUP], count: 0 };
        for number in 0..count.min(GROUP) {
            all.numbers[all.count % GROUP] = number as u8;
            all.count += usize::from(is(number));
        }
        all
    }

    /// Keeps the numbers for which `stays` is true.
    #[inline(always)]
    fn retain(&mut self, mut stays: impl FnMut(usize) -> bool) {
        let mut kept = 0;
        for i in 0..self.count.min(GROUP) {
            let number = self.numbers[i];
            self.numbers[kept % GROUP] = number;
            kept += usize::from(stays(usize::from(number) % GROUP));
        }
        self.count = kept;
    }

    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = usize> {
        self.numbers.iter().take(self.count).map(|&number| usize::from(number) % GROUP)
    }
}

impl<const D: usize> Cuts<D> {
    /// Returns the first rule for each of the first `count` points, or [`NONE`]. `holds` is called with a
    /// point and a rule if the point lies in a box in which the rule does not hold everywhere.
    #[inline]
    pub fn first(
        &self,
        points: &Points<D>,
        count: usize,
        holds: impl FnMut(usize, u32) -> bool,
    ) -> [u32; GROUP] {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has what the function needs.
            #[expect(unsafe_code, reason = "calls a function for some processors only")]
            return unsafe { self.first_avx2(points, count, holds) };
        }
        self.first_plainly(points, count, holds)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn first_avx2(
        &self,
        points: &Points<D>,
        count: usize,
        holds: impl FnMut(usize, u32) -> bool,
    ) -> [u32; GROUP] {
        self.first_by(points, count, holds, |block, point| block.inside_avx2(&points.fields, point))
    }

    /// Like [`first`](Self::first), for any processor.
    fn first_plainly(
        &self,
        points: &Points<D>,
        count: usize,
        holds: impl FnMut(usize, u32) -> bool,
    ) -> [u32; GROUP] {
        self.first_by(points, count, holds, |block, point| block.inside(&points.fields, point))
    }

    /// Like [`first`](Self::first). `inside` compares a point with a block.
    #[inline(always)]
    fn first_by(
        &self,
        points: &Points<D>,
        count: usize,
        mut holds: impl FnMut(usize, u32) -> bool,
        inside: impl Fn(&Block<D>, usize) -> u32,
    ) -> [u32; GROUP] {
        let mut found = [NONE; GROUP];
        for tree in &self.trees {
            // A point that has found an earlier rule than the first rule of the tree is done.
            let open = Numbers::of(count, |point| found[point] > tree.first);
            let leaves = self.walk(tree.root, points, &open);
            if self.is_large() {
                for point in open.iter() {
                    if let Some(block) = self.blocks.get(leaves[point] as usize) {
                        block.prefetch();
                    }
                }
            }
            for point in open.iter() {
                let holds = |rule| holds(point, rule);
                found[point] = self.search(leaves[point], found[point], holds, |block| inside(block, point));
            }
        }
        found
    }

    /// True if the leaves do not fit into the near caches, so that prefetching them pays.
    #[inline(always)]
    fn is_large(&self) -> bool {
        size_of_val(&self.blocks[..]) > 1 << 19
    }

    /// Returns the first block of the leaf for each open point.
    #[inline(always)]
    fn walk(&self, root: Node, points: &Points<D>, open: &Numbers) -> [u32; GROUP] {
        let mut at = [root; GROUP];
        if !root.is_leaf() {
            // All points look at the same field, so that vector registers can be used.
            for (node, &value) in at.iter_mut().zip(&points.fields[usize::from(root.field)]) {
                *node = self.nodes[root.child(value) as usize];
            }
            let mut walking = Numbers { ..*open };
            walking.retain(|point| !at[point].is_leaf());
            while walking.count > 0 {
                walking.retain(|point| {
                    let node = &mut at[point];
                    let value = points.fields.as_flattened()[usize::from(node.field) * GROUP + point];
                    *node = self.nodes[node.child(value) as usize];
                    !node.is_leaf()
                });
            }
        }
        at.map(|node| node.next)
    }

    /// Returns the first rule in the blocks of a leaf that holds and comes before `best`; otherwise `best`.
    #[inline(always)]
    fn search(
        &self,
        leaf: u32,
        mut best: u32,
        mut holds: impl FnMut(u32) -> bool,
        inside: impl Fn(&Block<D>) -> u32,
    ) -> u32 {
        for block in self.blocks.get(leaf as usize..).unwrap_or_default() {
            let mut inside = inside(block);
            if block.is_exact() {
                // There is no branch, because the processor could not predict it.
                best = best.min(block.first(inside));
            } else {
                while inside != 0 {
                    let rule = block.first(inside);
                    if rule >= best {
                        break;
                    }
                    if block.first_is_exact(inside) || holds(rule) {
                        best = rule;
                        break;
                    }
                    inside &= inside - 1;
                }
            }
            if block.is_last() {
                break;
            }
        }
        best
    }

    /// Returns the memory of the trees in bytes.
    pub fn size(&self) -> usize {
        size_of_val(&self.trees[..]) + size_of_val(&self.nodes[..]) + size_of_val(&self.blocks[..])
    }
}
