//! Finds the first of many boxes that contains a point, by decision trees.
//!
//! A point is the header fields of a packet, each a number of 32 bits. A box has a range for each field and
//! the number of a rule; the lowest rule wins. A branch takes some bits of one field, as many as are worth
//! their memory, and has a child for each value of these bits. (This is after HiCuts, Gupta and McKeown, Hot
//! Interconnects 1999.) A leaf has a list of boxes, of which up to eight are compared with the point at the
//! same time. A box that does not restrict a field would be copied to every child of a branch on that field.
//! So boxes are divided into four trees, according to which of the first two fields they restrict. A look-up
//! searches the trees one after the other, and skips those without a lower rule than the result so far. (This
//! is after EffiCuts, Vamanan et al., SIGCOMM 2010.)
//!
//! Points are looked up in groups of up to 32: all points of a group go down one branch of the tree, then all
//! go down the next branch. So the memory accesses of different points overlap.

mod block;
mod build;
#[cfg(test)]
mod tests;

use block::Block;

/// A range of the values of one field: lowest and highest value, both included.
pub type Range = (u32, u32);

/// The range that contains all values.
pub const ALL: Range = (0, u32::MAX);

/// The largest number of points that one call of [`Cuts::first`] looks up together.
pub const GROUP: usize = 32;

/// The result for a point for which no rule holds. It is larger than any rule number.
pub const NONE: u32 = u32::MAX;

/// A box: the region of points in which a rule holds, or may hold. A rule may have several boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area<const D: usize> {
    /// The number of the rule, below [`NONE`]. Of several rules that hold for a point, the lowest number
    /// wins.
    pub rule: u32,
    /// True if the rule holds for every point in the box. Otherwise a look-up of a point in the box asks its
    /// caller if the rule holds, unless a lower rule has been found.
    pub exact: bool,
    /// The range of each field that a point in the box must be in.
    pub ranges: [Range; D],
}

/// Up to [`GROUP`] points, stored field by field, so that vector instructions can process them. `D` is the
/// number of fields.
#[derive(Clone, Debug)]
pub struct Points<const D: usize> {
    fields: [[u32; GROUP]; D],
}

impl<const D: usize> Points<D> {
    /// Stores a point at index `number`, which is below [`GROUP`].
    #[inline]
    pub fn set(&mut self, number: usize, point: &[u32; D]) {
        for (field, &value) in self.fields.iter_mut().zip(point) {
            field[number % GROUP] = value;
        }
    }
}

impl<const D: usize> Points<D> {
    /// Returns, for each field, its values in all points.
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

/// The decision trees for one list of boxes.
#[derive(Clone, Debug, Default)]
pub struct Cuts<const D: usize> {
    /// The trees in the order of their lowest rules, so that later trees can often be skipped.
    trees: Vec<Tree>,
    nodes: Vec<Node>,
    blocks: Vec<Block<D>>,
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    root: Node,
    /// The lowest rule number of the boxes in the tree.
    first: u32,
}

/// A node of a tree: a branch, or a leaf (`mask` 0).
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The index in `nodes` of the first child of a branch, or the index in `blocks` of the first block of
    /// a leaf.
    next: u32,
    /// The mask of the bits on which a branch depends, applied after the shift; 0 in a leaf.
    mask: u16,
    /// The number of bits by which a branch shifts the value of its field to the right before it applies the
    /// mask.
    shift: u8,
    /// The index of the field on which a branch depends; 0 in a leaf.
    field: u8,
}

impl Node {
    const fn leaf(block: u32) -> Node {
        Node { next: block, mask: 0, shift: 0, field: 0 }
    }

    const fn is_leaf(self) -> bool {
        self.mask == 0
    }

    /// Returns the index in `nodes` of the child for a value of the branch's field.
    #[inline(always)]
    fn child(self, value: u32) -> u32 {
        // The shift is always below 32. The mask 31 lets the compiler omit a check, and costs nothing because
        // the instruction applies it anyway.
        self.next + (value >> (self.shift & 31) & u32::from(self.mask))
    }
}

/// A list of indexes of points in a group.
struct Numbers {
    numbers: [u8; GROUP],
    count: usize,
}

impl Numbers {
    /// Makes the list of the indexes below `count` for which `is` is true. The loop has no branch on `is`,
    /// because the processor could not predict it.
    #[inline(always)]
    fn of(count: usize, mut is: impl FnMut(usize) -> bool) -> Numbers {
        let mut all = Numbers { numbers: [0; GROUP], count: 0 };
        for number in 0..count.min(GROUP) {
            all.numbers[all.count % GROUP] = number as u8;
            all.count += usize::from(is(number));
        }
        all
    }

    /// Removes the indexes for which `stays` is false from the list.
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
    /// Returns, indexed by point, the lowest rule that holds for each of the first `count` points, or
    /// [`NONE`]. If a point is in a box that is not exact, `holds` decides if the rule holds. Its arguments
    /// are the index of the point and the rule. Within a tree, `holds` is called for each point in the order
    /// of the rules.
    #[inline]
    pub fn first(
        &self,
        points: &Points<D>,
        count: usize,
        holds: impl FnMut(usize, u32) -> bool,
    ) -> [u32; GROUP] {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor has the features that the function needs.
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

    /// Looks up points as [`first`](Self::first) does, with instructions that every processor has.
    fn first_plainly(
        &self,
        points: &Points<D>,
        count: usize,
        holds: impl FnMut(usize, u32) -> bool,
    ) -> [u32; GROUP] {
        self.first_by(points, count, holds, |block, point| block.inside(&points.fields, point))
    }

    /// Looks up points as [`first`](Self::first) does. `inside` returns the mask of the boxes of a block that
    /// contain the point with this index.
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
            // The rules of this tree and of later trees are not lower than `tree.first`. So a point for which
            // `tree.first` or a lower rule has been found needs no further look-up.
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

    /// True if the blocks take more than 512 KiB, so that they do not fit into the near caches and
    /// prefetching is worth its time.
    #[inline(always)]
    fn is_large(&self) -> bool {
        size_of_val(&self.blocks[..]) > 1 << 19
    }

    /// Returns, for each point in `open`, the index of the first block of the leaf to which the tree leads
    /// it.
    #[inline(always)]
    fn walk(&self, root: Node, points: &Points<D>, open: &Numbers) -> [u32; GROUP] {
        let mut at = [root; GROUP];
        if !root.is_leaf() {
            // In the first step, all points are tested in the same field, so that the compiler can use vector
            // instructions.
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

    /// Returns the lowest rule below `best` that has a box in the blocks of a leaf, that contains the point
    /// there, and that holds for it; otherwise `best`. The functions `holds` and `inside` test the point that
    /// is looked up.
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
                // The code does not branch on whether the point is in a box, because the processor could not
                // predict the branch.
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

    /// Returns the size of all trees in bytes.
    pub fn size(&self) -> usize {
        size_of_val(&self.trees[..]) + size_of_val(&self.nodes[..]) + size_of_val(&self.blocks[..])
    }
}
