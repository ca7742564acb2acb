//! Finds the first of many boxes that a point lies in.
//!
//! A point is the fields of a packet's headers, each a number of 32 bits; a box has a range for each field. Boxes
//! stand in decision trees. A branch takes some bits out of one field, as many as pay, and has a child for each value
//! of them (after HiCuts, Gupta and McKeown, Hot Interconnects 1999); a leaf has a few boxes, which are compared all
//! at once. A box that says nothing about a field would stand below every child of a branch that looks at it, so that
//! boxes which say little about the same fields have a tree of their own (after EffiCuts, Vamanan et al., SIGCOMM
//! 2010).
//!
//! Points are looked up in groups: all take one step, then all take the next, so that what one waits for in memory
//! is fetched while the others are served.

mod block;
mod build;
#[cfg(test)]
mod tests;

use block::Block;

/// A range of one field, both ends included.
pub type Range = (u32, u32);

/// All values.
pub const ALL: Range = (0, u32::MAX);

/// Points that are looked up together.
pub const GROUP: usize = 32;

/// No rule.
pub const NONE: u32 = u32::MAX;

/// A box in which a rule holds. A rule may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area<const D: usize> {
    /// The rule's number, below [`NONE`]; the lowest counts.
    pub rule: u32,
    /// Whether the rule holds everywhere in it; else who looks up is asked about each point.
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
    /// Sets a point, one of [`GROUP`].
    #[inline]
    pub fn set(&mut self, number: usize, point: &[u32; D]) {
        for (field, &value) in self.fields.iter_mut().zip(point) {
            field[number % GROUP] = value;
        }
    }
}

impl<const D: usize> Points<D> {
    /// All points, field by field.
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

/// Boxes, ready to be looked at.
#[derive(Clone, Debug, Default)]
pub struct Cuts<const D: usize> {
    /// In the order of their first rules.
    trees: Vec<Tree>,
    nodes: Vec<Node>,
    blocks: Vec<Block<D>>,
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    root: Node,
    /// The first rule in it.
    first: u32,
}

/// A branch, or a leaf.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The first of its children, or of its blocks.
    next: u32,
    /// The bits that are looked at, at the bottom; none in a leaf.
    mask: u16,
    /// Where in the field they are.
    shift: u8,
    /// The field.
    field: u8,
}

impl Node {
    const fn leaf(block: u32) -> Node {
        Node { next: block, mask: 0, shift: 0, field: 0 }
    }

    const fn is_leaf(self) -> bool {
        self.mask == 0
    }

    /// Which child is the one for a value of the field.
    #[inline(always)]
    fn child(self, value: u32) -> u32 {
        // The mask on the shift is what the instruction does anyway.
        self.next + (value >> (self.shift & 31) & u32::from(self.mask))
    }
}

/// Numbers of points, as many as are in a group.
struct Numbers {
    numbers: [u8; GROUP],
    count: usize,
}

impl Numbers {
    /// Those from 0 on of which something is true. There is no branch, as it could not be foreseen.
    #[inline(always)]
    fn of(count: usize, mut is: impl FnMut(usize) -> bool) -> Numbers {
        let mut all = Numbers { numbers: [0; GROUP], count: 0 };
        for number in 0..count.min(GROUP) {
            all.numbers[all.count % GROUP] = number as u8;
            all.count += usize::from(is(number));
        }
        all
    }

    /// Keeps those of which something is true.
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
    /// The first rule for each of the first `count` points, [`NONE`] for those without. `holds` is asked about a
    /// point and a rule whose box it lies in, where the rule does not hold everywhere in the box.
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

    /// For every processor.
    fn first_plainly(
        &self,
        points: &Points<D>,
        count: usize,
        holds: impl FnMut(usize, u32) -> bool,
    ) -> [u32; GROUP] {
        self.first_by(points, count, holds, |block, point| block.inside(&points.fields, point))
    }

    /// `inside` compares a point with a block.
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
            // Who has found an earlier rule than the first one of the tree is done.
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

    /// Whether leaves are hardly in a near cache, so that it pays to ask for them early.
    #[inline(always)]
    fn is_large(&self) -> bool {
        size_of_val(&self.blocks[..]) > 1 << 19
    }

    /// The leaf's first block, for each open point.
    #[inline(always)]
    fn walk(&self, root: Node, points: &Points<D>, open: &Numbers) -> [u32; GROUP] {
        let mut at = [root; GROUP];
        if !root.is_leaf() {
            // All points look at the same field, so that vector registers can serve them.
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

    /// The first rule in the blocks of a leaf, if it comes before `best`; else `best`.
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
                // Whether there is one could not be foreseen: no branch.
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

    /// Bytes of memory that it takes.
    pub fn size(&self) -> usize {
        size_of_val(&self.trees[..]) + size_of_val(&self.nodes[..]) + size_of_val(&self.blocks[..])
    }
}
