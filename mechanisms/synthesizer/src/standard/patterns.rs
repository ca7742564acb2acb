//! Questions about bytes as patterns of Classifier: sets of numbers become clauses with a value and a mask.

use classify::IntervalSet;

use crate::openflow::ranges::prefixes;

/// The maximum number of prefixes of a set that are merged pairwise; larger sets would take too long.
const MOST_PREFIXES: usize = 256;

/// A clause of a pattern: consecutive bytes that must have a value under a mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// The offset of the first byte from the packet's start.
    offset: i32,
    /// The number of bytes.
    length: u8,
    value: u128,
    mask: u128,
}

/// A set of numbers, given by a value and a mask of the bits that must equal the value, and the index in
/// `ways` (the list of answer sets) that its numbers belong to, unless an earlier cube contains them.
type Cube = (u128, u128, usize);

/// Returns clauses about a number of `length` bytes. Each clause has the index of a set in `ways`. The first
/// clause that holds for a number has the index of the set that contains the number. Numbers in none of the
/// sets may get any index. The last clause is `None` and always holds. `weights` has the cost of a clause by
/// this index; of two methods, the one with the lower total cost is used.
pub(super) fn clauses(
    offset: i32,
    length: u8,
    ways: &[IntervalSet],
    weights: &[usize],
) -> Vec<(Option<Clause>, usize)> {
    let bits = 8 * u32::from(length);
    let cost = |cubes: &Vec<Cube>| cubes.iter().filter_map(|cube| weights.get(cube.2)).sum::<usize>();
    let [apart, nested] = [apart(ways, bits, weights), nested(ways, bits)];
    let cubes = if cost(&nested) < cost(&apart) { nested } else { apart };
    let clause =
        |(value, mask, way): Cube| ((mask != 0).then_some(Clause { offset, length, value, mask }), way);
    cubes.into_iter().map(clause).collect()
}

/// Returns cubes that do not overlap, for all sets in `ways` but the most expensive one, and a last cube of
/// all numbers, which stands for the numbers of that set.
fn apart(ways: &[IntervalSet], bits: u32, weights: &[usize]) -> Vec<Cube> {
    let mut parts: Vec<(usize, Vec<(u128, u128)>)> =
        ways.iter().map(|set| merged(prefixes(set, bits))).enumerate().collect();
    let cost = |(way, cubes): &(usize, Vec<_>)| cubes.len() * weights.get(*way).copied().unwrap_or(1);
    parts.sort_by_key(cost);
    let last = parts.pop().map(|(way, _)| (0, 0, way));
    let others = parts
        .into_iter()
        .flat_map(|(way, cubes)| cubes.into_iter().map(move |(value, mask)| (value, mask, way)));
    others.chain(last).collect()
}

/// Returns prefixes of which some contain others, the longest first, as in a route table. Their number is the
/// minimum (Draves et al., "Constructing optimal IP routing tables", INFOCOM 1999).
fn nested(ways: &[IntervalSet], bits: u32) -> Vec<Cube> {
    let mut ranges: Vec<(u128, u128, usize)> = Vec::new();
    for (way, set) in ways.iter().enumerate() {
        ranges.extend(
            set.intersection(&IntervalSet::full(bits))
                .intervals()
                .iter()
                .map(|&(low, high)| (low, high, way)),
        );
    }
    ranges.sort_unstable();
    let mut cubes = Vec::new();
    Block::new(&ranges, 0, bits).choose(None, (0, bits, bits), &mut cubes);
    cubes
}

/// All numbers with a common prefix, as a node of a binary tree by bits.
struct Block {
    /// The indices of answer sets that the prefix itself may have so that the total number of prefixes is
    /// minimal; empty if any index is possible.
    ways: Vec<usize>,
    /// The halves of the block, by the next bit; `None` if all numbers of the block are in the same answer
    /// set, or in none.
    halves: Option<Box<[Block; 2]>>,
}

impl Block {
    /// Builds the block of the numbers from `low` on that differ in the lowest `bits` bits. `ranges` has
    /// ranges of numbers: first, last, and index of the answer set that contains them.
    fn new(ranges: &[(u128, u128, usize)], low: u128, bits: u32) -> Block {
        let high = low | ones(bits);
        let inside: Vec<_> =
            ranges.iter().copied().filter(|range| range.0 <= high && range.1 >= low).collect();
        match inside[..] {
            [] => return Block { ways: Vec::new(), halves: None },
            [(first, last, way)] if first <= low && last >= high => {
                return Block { ways: vec![way], halves: None };
            }
            _ => {}
        }
        let Some(half) = bits.checked_sub(1) else { return Block { ways: Vec::new(), halves: None } };
        let halves = [low, low | 1 << half].map(|low| Block::new(&inside, low, half));
        let [a, b] = halves.each_ref().map(|half| &half.ways);
        let both: Vec<usize> = a.iter().filter(|way| b.contains(way)).copied().collect();
        let ways = match (a.is_empty(), b.is_empty(), both.is_empty()) {
            (true, ..) => b.clone(),
            (_, true, _) => a.clone(),
            (_, _, true) => a.iter().chain(b).copied().collect(),
            _ => both,
        };
        Block { ways, halves: Some(Box::new(halves)) }
    }

    /// Adds to `cubes` a prefix for this block if its answer set has to differ from that of the enclosing
    /// prefix (`around`). Adds the longer prefixes within the block first.
    fn choose(&self, around: Option<usize>, (low, bits, all): (u128, u32, u32), cubes: &mut Vec<Cube>) {
        let is_right = |way: &usize| self.ways.is_empty() || self.ways.contains(way);
        let way = around.filter(is_right).or(self.ways.first().copied()).unwrap_or_default();
        if let (Some(halves), Some(half)) = (&self.halves, bits.checked_sub(1)) {
            for (block, low) in halves.iter().zip([low, low | 1 << half]) {
                block.choose(Some(way), (low, half, all), cubes);
            }
        }
        if around != Some(way) {
            cubes.push((low, ones(all) & !ones(bits), way));
        }
    }
}

fn ones(count: u32) -> u128 {
    1u128.checked_shl(count).map_or(u128::MAX, |next| next - 1)
}

/// Merges pairs of cubes (value and mask) that differ in a single bit, until there is no such pair. More than
/// [`MOST_PREFIXES`] cubes are returned unchanged, because the search would take too long.
fn merged(mut cubes: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    if cubes.len() > MOST_PREFIXES {
        return cubes;
    }
    let mut first = 0;
    while first < cubes.len() {
        let (value, mask) = cubes[first];
        let is_twin = |other: &(u128, u128)| other.1 == mask && (other.0 ^ value).count_ones() == 1;
        match cubes.iter().position(is_twin) {
            Some(second) => {
                let bit = cubes[second].0 ^ value;
                cubes[first] = (value & !bit, mask & !bit);
                cubes.remove(second);
                // The merged cube may combine with a cube before it, so the search starts again.
                first = 0;
            }
            None => first += 1,
        }
    }
    cubes
}

/// Returns a pattern in the notation of Classifier: the clauses with spaces between them, or `-` for none.
pub(super) fn text(clauses: &[Clause]) -> String {
    if clauses.is_empty() {
        return "-".to_string();
    }
    clauses.iter().map(Clause::text).collect::<Vec<_>>().join(" ")
}

impl Clause {
    /// Returns the notation of a clause, without bytes at both ends that the mask excludes.
    fn text(&self) -> String {
        let Clause { offset, length, value, mask } = *self;
        let bytes = |number: u128| number.to_be_bytes()[16 - usize::from(length.min(16))..].to_vec();
        let (value, mask) = (bytes(value), bytes(mask));
        let first = mask.iter().position(|byte| *byte != 0).unwrap_or(0);
        let end = mask.iter().rposition(|byte| *byte != 0).map_or(mask.len(), |last| last + 1);
        let digits = |bytes: &[u8]| program::hex::digits(&bytes[first..end]);
        let place = i64::from(offset) + first as i64;
        match mask[first..end].iter().all(|byte| *byte == 0xff) {
            true => format!("{place}/{}", digits(&value)),
            false => format!("{place}/{}%{}", digits(&value), digits(&mask)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn way(clauses: &[(Option<Clause>, usize)], number: u128) -> Option<usize> {
        let holds = |clause: &Option<Clause>| {
            clause.as_ref().is_none_or(|clause| number & clause.mask == clause.value)
        };
        clauses.iter().find(|(clause, _)| holds(clause)).map(|(_, way)| *way)
    }

    proptest! {
        #[test]
        fn numbers_go_their_ways(
            borders in prop::collection::vec((any::<u16>(), 0usize..4), 1..12), weights: [u8; 4], numbers: [u16; 40],
        ) {
            let mut borders: Vec<(u128, usize)> = borders.into_iter().map(|(last, way)| (last.into(), way)).collect();
            borders.sort_unstable();
            let mut parts: [Vec<(u128, u128)>; 5] = Default::default();
            let mut low = 0;
            for &(last, way) in borders.iter().filter(|(last, _)| *last < 0xffff).chain([&(0xffff, 4)]) {
                if low <= last {
                    parts[way].push((low, last));
                    low = last + 1;
                }
            }
            // The fifth of the sets has numbers that do not occur as answers, so it is not given to
            // `clauses`.
            let ways: Vec<IntervalSet> = parts[..4].iter().map(|part| part.iter().copied().collect()).collect();
            let found = clauses(20, 2, &ways, &weights.map(usize::from));
            let near = borders.iter().flat_map(|(last, _)| [*last, (last + 1) & 0xffff]);
            for number in numbers.map(u128::from).into_iter().chain(near) {
                if let Some(expected) = ways.iter().position(|set| set.contains(number)) {
                    prop_assert_eq!(way(&found, number), Some(expected), "{}", number);
                }
            }
        }
    }

    #[test]
    fn usual_questions_are_short() {
        let texts = |offset, length, set: &IntervalSet| {
            let others = set.complement(8 * u32::from(length));
            let found = clauses(offset, length, &[set.clone(), others], &[1, 1]);
            found.iter().filter_map(|(clause, _)| clause.as_ref()).map(Clause::text).collect::<Vec<_>>()
        };
        assert_eq!(texts(12, 2, &IntervalSet::one(0x0800, 0x0800)), ["12/0800"]);
        let plain = (0..=0x0f).map(|high| (high << 4 | 5, high << 4 | 5)).collect();
        assert_eq!(texts(14, 1, &plain), ["14/05%0f"]);
        let first = (0..8).map(|high| (high << 13, high << 13)).collect();
        assert_eq!(texts(20, 2, &first), ["20/0000%1fff"]);
        assert_eq!(texts(26, 4, &IntervalSet::one(0x0a00_0000, 0x0aff_ffff)), ["26/0a"]);
        // All addresses of a network but its first and its last.
        assert_eq!(
            texts(30, 4, &IntervalSet::one(0x0a00_0001, 0x0a00_00fe)),
            ["30/0a000000", "30/0a0000ff", "30/0a0000"]
        );
    }
}
