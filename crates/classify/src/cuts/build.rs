//! The construction of the trees of [`Cuts`], and the choice of the bits on which a node branches.

use std::collections::HashMap;

use super::block::{Block, LANES};
use super::{ALL, Area, Cuts, Node, Range, Tree};

/// The numbers of bits of a field on which a branch may depend; a branch on N bits has 2^N children.
const BITS: [u8; 8] = [1, 2, 3, 4, 6, 8, 10, 12];
/// The largest number of bits from one tried position of a branch's bits in the field to the next tried
/// position.
const STRIDE: u8 = 4;
/// The largest number of children of a branch, divided by the number of boxes at its node.
const CHILDREN: usize = 8;
/// The largest number of boxes in all leaves of a tree, divided by the number of boxes that the tree is made
/// for. A box that overlaps several children is copied into the leaves of each of them.
const COPIES: usize = 12;
/// The largest number of branches from the root of a tree to a leaf.
const DEEPEST: u32 = 8;
/// A range with more values than this number counts as unrestricted, when boxes are assigned to trees.
const WIDE: u32 = 1 << 27;

// The value of a branch is its gain divided by its cost. The gain is the binary logarithm of the factor by
// which the branch reduces the number of boxes with which a point has to be compared. A branch with a gain of
// at most `LEAST_GAIN` is rejected. The cost is 1 for the step that a look-up takes at the branch. It rises
// by `COST_OF_BIT` for each bit, because more children take more memory. It rises by `COST_OF_DOUBLING` for
// each doubling of the total number of boxes, which rises because boxes are copied into several children.
// (Measured on the ClassBench rule sets of 1,000 and 10,000 rules.)
const COST_OF_BIT: f64 = 0.05;
const COST_OF_DOUBLING: f64 = 1.0;
const LEAST_GAIN: f64 = 0.1;

impl<const D: usize> Cuts<D> {
    /// Makes the decision trees for a list of boxes. The boxes may come in any order.
    pub fn new(areas: &[Area<D>]) -> Cuts<D> {
        let mut areas = areas.to_vec();
        areas.sort_by_key(|area| area.rule);
        let mut builder =
            Builder { areas: &areas, nodes: Vec::new(), blocks: Vec::new(), leaves: HashMap::new() };
        let mut trees = Vec::new();
        for entries in builder.kinds() {
            let Some(&first) = entries.first() else { continue };
            let spare = entries.len() * COPIES;
            let root = builder.divide(entries, [ALL; D], spare, 0);
            trees.push(Tree { root, first: builder.area(first).rule });
        }
        trees.sort_by_key(|tree| tree.first);
        Cuts { trees, nodes: builder.nodes, blocks: builder.blocks }
    }
}

/// A possible branch: `bits` bits of a field from bit `shift` on select one of 2^`bits` children.
#[derive(Clone, Copy, Debug)]
struct Cut {
    field: usize,
    shift: u8,
    bits: u8,
}

impl Cut {
    fn children(self) -> usize {
        1 << self.bits
    }

    /// Returns the children that a range of the field overlaps: the index of the first, and the number of
    /// consecutive children. After the last child, the count continues at index 0, because the branch ignores
    /// the bits of the field above its own bits.
    fn children_of(self, range: Range) -> (usize, usize) {
        let (low, high) = ((range.0 >> self.shift) as usize, (range.1 >> self.shift) as usize);
        match high - low + 1 {
            count if count < self.children() => (low % self.children(), count),
            _ => (0, self.children()),
        }
    }
}

/// The state of the construction of all trees. A box is identified by its index in `areas`, which are
/// sorted by rule; the code calls it an entry.
struct Builder<'a, const D: usize> {
    areas: &'a [Area<D>],
    nodes: Vec<Node>,
    blocks: Vec<Block<D>>,
    /// For each list of boxes for which there is a leaf, the index of the leaf's first block, so that equal
    /// leaves are stored once.
    leaves: HashMap<Vec<u32>, u32>,
}

impl<const D: usize> Builder<'_, D> {
    fn area(&self, entry: u32) -> &Area<D> {
        &self.areas[entry as usize]
    }

    /// Assigns boxes to four trees, according to which of the first two fields they restrict. For IPv4
    /// these are source and destination address, for IPv6 the first two words of the source.
    fn kinds(&self) -> [Vec<u32>; 4] {
        let mut kinds: [Vec<u32>; 4] = Default::default();
        for (entry, area) in self.areas.iter().enumerate() {
            let narrow = |field| area.ranges.get(field).is_some_and(|&(low, high)| high - low < WIDE);
            kinds[usize::from(narrow(0)) + 2 * usize::from(narrow(1))].push(entry as u32);
        }
        kinds
    }

    /// Makes the subtree for a list of boxes in the order of their rules, and returns its root. `region`
    /// contains all points that come to this node. `spare` is the number of boxes that its leaves may have
    /// in total, and `depth` is the number of branches above the node.
    fn divide(&mut self, mut entries: Vec<u32>, region: [Range; D], spare: usize, depth: u32) -> Node {
        // A box that contains the whole region hides all boxes after it, if its rule holds for every point in
        // the box.
        let covers = |entry: &u32| {
            let area = self.area(*entry);
            area.exact && area.ranges.iter().zip(region).all(|(a, r)| a.0 <= r.0 && r.1 <= a.1)
        };
        if let Some(last) = entries.iter().position(covers) {
            entries.truncate(last + 1);
        }
        let worth = entries.len() > LANES && depth < DEEPEST;
        let Some(cut) = worth.then(|| self.best_cut(&entries, &region, spare)).flatten() else {
            return self.leaf(entries);
        };
        let children = cut.children();
        let mut parts: Vec<Vec<u32>> = vec![Vec::new(); children];
        for &entry in &entries {
            let (first, count) = cut.children_of(self.area(entry).ranges[cut.field]);
            for child in first..first + count {
                parts[child % children].push(entry);
            }
        }
        drop(entries);
        let total: usize = parts.iter().map(Vec::len).sum();
        let next = self.nodes.len();
        self.nodes.resize(next + children, Node::leaf(0));
        let (low, high) = region[cut.field];
        let mut last: Option<(Vec<u32>, Node)> = None;
        for (child, part) in parts.into_iter().enumerate() {
            let node = match last {
                // `last` is the list of boxes and the node of the preceding child, if its node may be shared.
                // A child with the same boxes shares that node. A leaf compares a point with all ranges of
                // its boxes, so sharing gives no wrong results.
                Some((ref entries, node)) if *entries == part => node,
                _ => {
                    let inner = cut_region(region, cut, child);
                    let share = spare as u128 * part.len() as u128 / total.max(1) as u128;
                    let node = self.divide(part.clone(), inner, share as usize, depth + 1);
                    // `divide` leaves out boxes that are hidden in the child's region. In the next child
                    // other boxes may be hidden. So the next child may share the node only if the ranges of
                    // all boxes in the field of the branch contain the region's range. Then the same boxes
                    // are hidden in both children.
                    let is_wide = |entry: &u32| {
                        let range = self.area(*entry).ranges[cut.field];
                        range.0 <= low && high <= range.1
                    };
                    last = part.iter().all(is_wide).then_some((part, node));
                    node
                }
            };
            self.nodes[next + child] = node;
        }
        let mask = (children - 1) as u16;
        Node { next: next as u32, mask, shift: cut.shift, field: cut.field as u8 }
    }

    fn leaf(&mut self, entries: Vec<u32>) -> Node {
        if let Some(&block) = self.leaves.get(&entries) {
            return Node::leaf(block);
        }
        let block = self.blocks.len() as u32;
        let areas: Vec<Area<D>> = entries.iter().map(|&entry| *self.area(entry)).collect();
        self.blocks.extend(Block::of_leaf(&areas));
        self.leaves.insert(entries, block);
        Node::leaf(block)
    }

    /// Returns the cut (the field and bits of a branch) with the highest value. `None` if no cut with at most
    /// `spare` boxes in all its children has enough gain.
    fn best_cut(&self, entries: &[u32], region: &[Range; D], spare: usize) -> Option<Cut> {
        let mut best: Option<(f64, Cut)> = None;
        let mut changes = Vec::new();
        for (field, &(low, high)) in region.iter().enumerate() {
            let inside = |range: Range| (range.0.max(low), range.1.min(high));
            let ranges = || entries.iter().map(|&entry| inside(self.area(entry).ranges[field]));
            let hull = ranges().fold((u32::MAX, 0), |all, one| (all.0.min(one.0), all.1.max(one.1)));
            // Bits above the highest bit in which the ranges differ are equal for all boxes, so a cut there
            // would separate nothing.
            let Some(top) = (hull.0 ^ hull.1).checked_ilog2().map(|bit| bit as u8 + 1) else { continue };
            for bits in BITS.into_iter().filter(|&bits| bits <= top) {
                if 1 << bits > CHILDREN * entries.len() {
                    break;
                }
                let last = top - bits;
                let shifts = (0..=last).rev().step_by(usize::from(bits.min(STRIDE))).chain([0]);
                for shift in shifts {
                    let cut = Cut { field, shift, bits };
                    let Some(value) = self.value_of(cut, entries, spare, &mut changes) else { continue };
                    if best.is_none_or(|(other, _)| value > other) {
                        best = Some((value, cut));
                    }
                }
            }
        }
        best.map(|(_, cut)| cut)
    }

    /// Returns the value of a cut (a possible branch), which is its gain divided by its cost; `None` if its
    /// children would have more than `spare` boxes in total, or if the gain is too small. `changes` is a
    /// buffer that is reused.
    fn value_of(&self, cut: Cut, entries: &[u32], spare: usize, changes: &mut Vec<isize>) -> Option<f64> {
        let children = cut.children();
        // For each child, the number of its boxes minus the number of boxes of the preceding child.
        changes.clear();
        changes.resize(children + 1, 0);
        for &entry in entries {
            let (first, count) = cut.children_of(self.area(entry).ranges[cut.field]);
            changes[first] += 1;
            let end = first + count;
            if end > children {
                changes[0] += 1;
                changes[end - children] -= 1;
            } else {
                changes[end] -= 1;
            }
        }
        let (mut here, mut total, mut squares) = (0, 0, 0.0);
        for &change in &changes[..children] {
            here += change;
            total += here;
            squares += (here * here) as f64;
        }
        let (total, count) = (total as f64, entries.len() as f64);
        // The mean number of boxes in a child with which a box shares the child (itself included), over all
        // boxes of all children.
        let company = (squares / total).max(1.0);
        let gain = (count / company).log2();
        let cost = 1.0 + f64::from(cut.bits) * COST_OF_BIT + (total / count).log2() * COST_OF_DOUBLING;
        (total <= spare as f64 && gain > LEAST_GAIN).then_some(gain / cost)
    }
}

/// Returns the part of a region that contains all points that come to a child. The whole region if the values
/// of the field that lead to the child are not consecutive.
fn cut_region<const D: usize>(mut region: [Range; D], cut: Cut, child: usize) -> [Range; D] {
    let (low, high) = region[cut.field];
    let open = (low ^ high).checked_ilog2().map_or(0, |bit| bit + 1);
    // The values that lead to the child are one range only if the bits of the cut are the highest bits of the
    // field that vary in the region.
    if open == u32::from(cut.shift + cut.bits) {
        let start = low + ((child as u32) << cut.shift);
        region[cut.field] = (start, start + ((1 << cut.shift) - 1));
    }
    region
}
