//! Boolean functions of packets, as binary decision diagrams: equal functions have equal diagrams.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Instant;

use super::apply::{self, Meter, Stop};
use super::places::start_of;
use super::word::Word;

use oxidd::bcdd::{BCDDFunction, BCDDManagerRef};
use oxidd::util::OptBool;
use oxidd::{BooleanFunction, Function, HasLevel, LevelNo, Manager, ManagerRef, Node};

/// A Boolean function of the packet.
pub type Bit = BCDDFunction;

/// Eight bits, the most significant one first.
pub type Byte = [Bit; 8];

/// The maximum number of inner nodes. The library's node indices have 32 bits; a node takes some 20 bytes,
/// so this is also the limit of memory.
const NODES: usize = 24 << 20;

/// The number of entries of the cache of results.
const CACHE: usize = 1 << 20;

/// The size in bytes of a node, including its share of the tables, and of a cache entry.
const NODE: usize = 36;
const ENTRY: usize = 32;

/// Returns the number of nodes that fit into `bytes`, the cache included; at most the maximum.
pub fn nodes_in(bytes: usize) -> usize {
    let with_whole_cache = bytes.saturating_sub(CACHE * ENTRY) / NODE;
    // The cache has no more entries than there are nodes.
    let nodes = if with_whole_cache >= CACHE { with_whole_cache } else { bytes / (NODE + ENTRY) };
    nodes.clamp(1 << 10, NODES)
}

/// The meaning of a variable of the diagrams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A bit (7 is the most significant) of a byte of the input packet, at an offset from its first byte.
    Input(i32, u8),
    /// A bit of the length of the input packet.
    Length(u8),
    /// A bit of a metadata byte ([`Metadata`](super::packet::Metadata)) of the input packet.
    Metadata(u8, u8),
    /// A bit of the value of an uninterpreted function.
    Term(u32, u32),
}

/// An uninterpreted function and its arguments.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Term {
    /// The name of the function.
    pub name: String,
    /// The arguments that are known numbers: offsets, lengths.
    pub numbers: Vec<i64>,
    /// The arguments that depend on the packet.
    pub bits: Vec<Bit>,
}

/// The diagrams of one comparison, and the meaning of their variables.
pub struct Diagrams {
    manager: BCDDManagerRef,
    yes: Bit,
    no: Bit,
    symbols: RefCell<Symbols>,
    /// The offsets of length fields in the frame.
    lengths: RefCell<BTreeSet<i32>>,
    /// The number of variables reserved next to each variable for a bit of the input packet.
    remakings: Cell<u32>,
    exhausted: Cell<bool>,
    operations: Cell<u64>,
    /// The number of nodes at which garbage collection starts.
    collect_at: Cell<usize>,
    /// The byte byte_regions.
    byte_regions: RefCell<Vec<ByteRegion>>,
    exact: Cell<bool>,
    overlap: Cell<bool>,
    one_zero: Cell<bool>,
    /// The condition that zero has a single representation, by checksum.
    single_zero: RefCell<HashMap<u32, u32>>,
    meter: Meter,
    /// The metadata that elements look at, if known.
    observed_metadata: Option<BTreeSet<u8>>,
}

struct ByteRegion {
    start: Word,
    /// True if the region may start at any offset.
    is_anywhere: bool,
    /// The lowest offset of the frame at which the region may start, for packets that have it.
    least: i32,
}

#[derive(Default)]
struct Symbols {
    /// The meaning of each variable, if it is in use.
    variables: Vec<Option<Symbol>>,
    /// The variables reserved for functions, the next one last.
    spare: Vec<u32>,
    /// The variables reserved for bits of functions that are lengths or offsets, by weight.
    length_bits: BTreeMap<u32, Vec<u32>>,
    /// The variables reserved for values that functions make of a bit of the input packet, by offset of its
    /// byte and by bit.
    remade: BTreeMap<(i32, u32), Vec<u32>>,
    bits: HashMap<Symbol, Bit>,
    terms: HashMap<Term, u32>,
    /// The first function that was asked for a value, by name.
    first: HashMap<String, u32>,
    list: Vec<Term>,
}

impl Symbols {
    /// True if no other function of this name has had a value. A single variable of a name is cheap at the
    /// top of the order; one for each of many kinds of packets would make the diagrams distinguish all
    /// their combinations.
    fn is_first(&mut self, term: u32) -> bool {
        let name = self.list.get(term as usize).map(|term| term.name.clone());
        *self.first.entry(name.unwrap_or_default()).or_insert(term) == term
    }
}

/// A satisfying assignment: the values of some variables. The other variables are irrelevant.
pub type Example = HashMap<Symbol, bool>;

impl Default for Diagrams {
    fn default() -> Self {
        Diagrams::new(NODES)
    }
}

impl Diagrams {
    /// Makes an empty set of diagrams with room for `nodes` nodes.
    pub fn new(nodes: usize) -> Diagrams {
        let manager = oxidd::bcdd::new_manager(nodes, CACHE.min(nodes), 1);
        let (yes, no) =
            manager.with_manager_shared(|manager| (BCDDFunction::t(manager), BCDDFunction::f(manager)));
        Diagrams {
            manager,
            yes,
            no,
            symbols: RefCell::default(),
            lengths: RefCell::default(),
            remakings: Cell::new(0),
            exhausted: Cell::new(false),
            operations: Cell::new(0),
            collect_at: Cell::new(1 << 20),
            byte_regions: RefCell::default(),
            exact: Cell::new(false),
            overlap: Cell::new(false),
            one_zero: Cell::new(false),
            single_zero: RefCell::default(),
            meter: Meter::default(),
            observed_metadata: None,
        }
    }

    /// Declares the metadata that elements look at; they look at no other.
    #[must_use]
    pub fn looking_at(mut self, sides: BTreeSet<u8>) -> Diagrams {
        self.observed_metadata = Some(sides);
        self
    }

    /// True if any element looks at this metadata byte.
    pub fn is_looked_at(&self, side: u8) -> bool {
        self.observed_metadata.as_ref().is_none_or(|sides| sides.contains(&side))
    }

    /// True if an operation ran out of memory or time: all results since then are invalid.
    pub fn exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Sets a deadline. An operation after the deadline is aborted, and counts as out of memory.
    #[must_use]
    pub fn until(self, deadline: Option<Instant>) -> Diagrams {
        self.meter.set_deadline(deadline);
        self
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.manager.with_manager_shared(|manager| manager.approx_num_inner_nodes())
    }

    /// Returns the number of nodes of a diagram.
    pub fn size(&self, bit: &Bit) -> usize {
        bit.node_count()
    }

    /// Returns the constant true.
    pub fn yes(&self) -> Bit {
        self.yes.clone()
    }

    /// Returns the constant false.
    pub fn no(&self) -> Bit {
        self.no.clone()
    }

    /// Returns a constant.
    pub fn constant(&self, value: bool) -> Bit {
        if value { self.yes() } else { self.no() }
    }

    /// Returns the value if it is equal for every packet.
    pub fn known(&self, bit: &Bit) -> Option<bool> {
        if *bit == self.yes {
            Some(true)
        } else if *bit == self.no {
            Some(false)
        } else {
            None
        }
    }

    /// True if no packet satisfies the condition.
    pub fn is_never(&self, bit: &Bit) -> bool {
        *bit == self.no
    }

    /// Returns the result of an operation. Unreferenced nodes are collected if there are many, and if there
    /// is no room.
    fn checked(&self, operation: impl Fn(&Meter) -> Result<Bit, Stop>) -> Bit {
        if self.exhausted() {
            return self.no();
        }
        let count = self.operations.get() + 1;
        self.operations.set(count);
        if count.is_multiple_of(1 << 6) && self.meter.look() {
            self.exhausted.set(true);
            return self.no();
        }
        if count.is_multiple_of(1 << 14) && self.nodes() > self.collect_at.get() {
            self.collect();
        }
        let first = operation(&self.meter).or_else(|stop| match stop {
            Stop::Full if !self.meter.look() => {
                self.collect();
                operation(&self.meter)
            }
            stop => Err(stop),
        });
        first.unwrap_or_else(|_| {
            self.exhausted.set(true);
            self.no()
        })
    }

    /// Returns the number of steps of all operations so far: the cost of a proof, independent of the
    /// machine.
    pub fn steps(&self) -> u64 {
        self.meter.steps()
    }

    fn collect(&self) {
        self.manager.with_manager_shared(|manager| manager.gc());
        self.collect_at.set((2 * self.nodes()).max(1 << 20));
    }

    /// Returns the negation.
    pub fn not(&self, a: &Bit) -> Bit {
        self.checked(|_| a.not().map_err(|_| Stop::Full))
    }

    /// Returns the conjunction.
    pub fn and(&self, a: &Bit, b: &Bit) -> Bit {
        self.checked(|meter| apply::and(meter, a, b))
    }

    /// Returns the conjunction of `a` and the negation of `b`.
    pub fn and_not(&self, a: &Bit, b: &Bit) -> Bit {
        self.and(a, &self.not(b))
    }

    /// Returns the disjunction.
    pub fn or(&self, a: &Bit, b: &Bit) -> Bit {
        self.not(&self.and(&self.not(a), &self.not(b)))
    }

    /// Returns the exclusive or.
    pub fn xor(&self, a: &Bit, b: &Bit) -> Bit {
        self.checked(|meter| apply::xor(meter, a, b))
    }

    /// Returns `then` where `condition` holds, else `otherwise`.
    pub fn choose(&self, condition: &Bit, then: &Bit, otherwise: &Bit) -> Bit {
        if then == otherwise {
            return then.clone();
        }
        self.checked(|meter| apply::choose(meter, condition, then, otherwise))
    }

    /// Returns a function equal to `a` for packets of the condition; for other packets, its values are
    /// chosen to make the diagram small (the "restrict" of Coudert and Madre).
    pub fn within(&self, a: &Bit, condition: &Bit) -> Bit {
        let small = self.restricted(a, condition, &mut HashMap::new());
        if self.size(&small) < self.size(a) { small } else { a.clone() }
    }

    fn restricted(&self, a: &Bit, condition: &Bit, known: &mut HashMap<(Bit, Bit), Bit>) -> Bit {
        let (Some(place), Some(care)) = (level(a), level(condition)) else { return a.clone() };
        if self.exhausted() {
            return a.clone();
        }
        if let Some(bit) = known.get(&(a.clone(), condition.clone())) {
            return bit.clone();
        }
        let halves = |bit: &Bit, is_asked: bool| match bit.cofactors() {
            Some(halves) if is_asked => halves,
            _ => (bit.clone(), bit.clone()),
        };
        let (with, without) = halves(condition, care <= place);
        let bit = if care < place {
            self.restricted(a, &self.or(&with, &without), known)
        } else {
            let (then, otherwise) = halves(a, true);
            if self.is_never(&without) {
                self.restricted(&then, &with, known)
            } else if self.is_never(&with) {
                self.restricted(&otherwise, &without, known)
            } else {
                let then = self.restricted(&then, &with, known);
                let otherwise = self.restricted(&otherwise, &without, known);
                let question = self.checked(|_| {
                    let variable = self.manager.with_manager_shared(|manager| {
                        BCDDFunction::var(manager, manager.level_to_var(place))
                    });
                    variable.map_err(|_| Stop::Full)
                });
                self.choose(&question, &then, &otherwise)
            }
        };
        known.insert((a.clone(), condition.clone()), bit.clone());
        bit
    }

    /// True if a packet satisfies both.
    pub fn overlap(&self, a: &Bit, b: &Bit) -> bool {
        !self.is_never(&self.and(a, b))
    }

    /// Returns the conjunction of all bits.
    pub fn all<'b>(&self, bits: impl IntoIterator<Item = &'b Bit>) -> Bit {
        bits.into_iter().fold(self.yes(), |all, bit| self.and(&all, bit))
    }

    /// Returns the condition that two bit vectors of equal length are equal.
    pub fn equal<'b>(
        &self,
        a: impl IntoIterator<Item = &'b Bit>,
        b: impl IntoIterator<Item = &'b Bit>,
    ) -> Bit {
        let different = a.into_iter().zip(b).filter(|(a, b)| a != b);
        different.fold(self.yes(), |equal, (a, b)| self.and_not(&equal, &self.xor(a, b)))
    }

    /// Returns the condition for each pair of unequal bits of two vectors that the bits differ. If bits
    /// depend on many others, the disjunction of these conditions may be too large for any memory.
    pub fn differences<'b>(&'b self, a: &'b [Bit], b: &'b [Bit]) -> impl Iterator<Item = Bit> + 'b {
        a.iter().zip(b).filter(|(a, b)| a != b).map(|(a, b)| self.xor(a, b))
    }

    /// Returns the variable of a symbol.
    pub fn symbol(&self, symbol: Symbol) -> Bit {
        self.symbol_from(
            symbol,
            |symbols, term| {
                if symbols.is_first(term) { symbols.spare.pop() } else { None }
            },
        )
    }

    /// Returns the variable of a symbol, like [`symbol`](Self::symbol); a value of a function takes a
    /// reserved variable that `kept` returns.
    fn symbol_from(&self, symbol: Symbol, kept: impl FnOnce(&mut Symbols, u32) -> Option<u32>) -> Bit {
        let mut symbols = self.symbols.borrow_mut();
        if let Some(bit) = symbols.bits.get(&symbol) {
            return bit.clone();
        }
        let spare = match symbol {
            Symbol::Term(term, _) => kept(&mut symbols, term),
            _ => None,
        };
        let number = spare.unwrap_or_else(|| {
            symbols.variables.push(None);
            self.manager.with_manager_exclusive(|manager| manager.add_vars(1).start)
        });
        let bit = self.checked(|_| {
            let variable = self.manager.with_manager_shared(|manager| BCDDFunction::var(manager, number));
            variable.map_err(|_| Stop::Full)
        });
        symbols.variables[number as usize] = Some(symbol.clone());
        if let Symbol::Input(place, weight) = symbol
            && self.remakings.get() > 0
        {
            drop(symbols);
            let numbers = self.new_variables(self.remakings.get());
            symbols = self.symbols.borrow_mut();
            symbols.remade.entry((place, weight.into())).or_default().extend(numbers.rev());
        }
        symbols.bits.insert(symbol, bit.clone());
        bit
    }

    /// Reserves variables at this position of the order for values of functions, which are not known
    /// beforehand.
    pub fn keep_for_functions(&self, n: u32) {
        let numbers = self.new_variables(n);
        self.symbols.borrow_mut().spare.extend(numbers.rev());
    }

    /// Reserves variables at this position of the order for bits of this weight of functions' values that
    /// are compared with lengths.
    pub fn keep_for_weight(&self, weight: u32, n: u32) {
        let numbers = self.new_variables(n);
        self.symbols.borrow_mut().length_bits.entry(weight).or_default().extend(numbers.rev());
    }

    /// Reserves `n` variables next to each variable made from now on for a bit of the input packet. They are
    /// for bytes that functions compute from that bit: rules compare these bytes like the original bytes.
    pub fn reserve_for_rewritten(&self, n: u32) {
        self.remakings.set(n);
    }

    fn new_variables(&self, n: u32) -> Range<u32> {
        let numbers = self.manager.with_manager_exclusive(|manager| manager.add_vars(n));
        self.symbols.borrow_mut().variables.resize(numbers.end as usize, None);
        numbers
    }

    /// Returns a byte of the input packet.
    pub fn input(&self, place: i32) -> Byte {
        std::array::from_fn(|bit| self.symbol(Symbol::Input(place, 7 - bit as u8)))
    }

    /// Returns the number of a function's value: equal terms have equal numbers.
    pub fn term(&self, term: Term) -> u32 {
        let mut symbols = self.symbols.borrow_mut();
        let next = symbols.list.len() as u32;
        if let Some(&number) = symbols.terms.get(&term) {
            return number;
        }
        symbols.list.push(term.clone());
        symbols.terms.insert(term, next);
        next
    }

    /// Returns the bits of a function's value, most significant first.
    pub fn value(&self, term: Term, width: usize) -> Vec<Bit> {
        let number = self.term(term);
        (0..width).map(|bit| self.symbol(Symbol::Term(number, bit as u32))).collect()
    }

    /// Returns the bits of a function's value that is written at an offset of the frame. If a length field
    /// is at that offset, the bits use variables next to the lengths that they are compared with.
    pub fn value_at(&self, term: Term, width: usize, place: i32) -> Vec<Bit> {
        self.value_with(term, width, |bit| {
            let (byte, weight) = (place + (bit / 8) as i32, 7 - (bit % 8) as u32);
            let lengths = self.lengths.borrow();
            let high = lengths.contains(&byte).then_some(weight + 8);
            high.or_else(|| lengths.contains(&(byte - 1)).then_some(weight))
        })
    }

    /// Returns a byte at an offset of the frame, of a packet whose bytes all come from a function.
    pub fn remade(&self, version: u32, place: i32) -> Byte {
        let term = Term { name: "byte".into(), numbers: vec![version.into(), place.into()], bits: vec![] };
        let number = self.term(term);
        std::array::from_fn(|bit| {
            self.symbol_from(Symbol::Term(number, bit as u32), |symbols, _| {
                symbols.remade.get_mut(&(place, 7 - bit as u32)).and_then(Vec::pop)
            })
        })
    }

    /// Returns the bits of a number in annotations, in the byte order of the machine, that is added to
    /// lengths.
    pub fn native_length(&self, term: Term, width: usize) -> Vec<Bit> {
        self.value_with(term, width, |bit| {
            let byte = bit / 8;
            let byte = if cfg!(target_endian = "little") { byte } else { width / 8 - 1 - byte };
            Some((8 * byte + 7 - bit % 8) as u32)
        })
    }

    /// Returns the bits of a function's value, each with a variable reserved for its weight, if it has one.
    fn value_with(&self, term: Term, width: usize, weight: impl Fn(usize) -> Option<u32>) -> Vec<Bit> {
        let number = self.term(term);
        let bit = |bit: usize| match weight(bit) {
            Some(weight) => self.symbol_from(Symbol::Term(number, bit as u32), |symbols, _| {
                symbols.length_bits.get_mut(&weight).and_then(Vec::pop)
            }),
            None => self.symbol(Symbol::Term(number, bit as u32)),
        };
        (0..width).map(bit).collect()
    }

    /// Declares offsets of two-byte numbers in the frame that are compared with lengths.
    pub fn set_lengths(&self, places: impl IntoIterator<Item = i32>) {
        self.lengths.borrow_mut().extend(places);
    }

    /// Returns the bits of a function's value that is compared with lengths.
    pub fn length_bits(&self, term: Term, width: u32) -> Vec<Bit> {
        self.value_with(term, width as usize, |bit| Some(width - 1 - bit as u32))
    }

    /// Returns the term of a number.
    pub fn term_of(&self, number: u32) -> Term {
        self.symbols.borrow().list.get(number as usize).cloned().unwrap_or_default()
    }

    /// Returns the offset of the byte region that starts at `start` in the frame, after an IP header. In
    /// packets that have it, the region does not start before `least`.
    pub fn region_at(&self, start: Word, least: i32) -> i32 {
        self.byte_region_of(ByteRegion { start, is_anywhere: false, least })
    }

    /// Returns the offset of a byte region that may start at any offset, even before headers and after the
    /// end of the packet.
    pub fn region_anywhere(&self, start: Word) -> i32 {
        self.byte_region_of(ByteRegion { start, is_anywhere: true, least: i32::MIN })
    }

    fn byte_region_of(&self, region: ByteRegion) -> i32 {
        let mut byte_regions = self.byte_regions.borrow_mut();
        let is_same =
            |other: &ByteRegion| (&other.start, other.is_anywhere) == (&region.start, region.is_anywhere);
        let Some(number) = byte_regions.iter().position(is_same) else {
            byte_regions.push(region);
            return start_of(byte_regions.len() - 1);
        };
        // Elements may have marked the region after different headers.
        byte_regions[number].least = byte_regions[number].least.min(region.least);
        start_of(number)
    }

    /// Returns the start of a byte region in the frame.
    pub fn region(&self, number: usize) -> Option<Word> {
        self.byte_regions.borrow().get(number).map(|region| region.start.clone())
    }

    /// True if a byte region may start at any offset.
    pub fn is_anywhere(&self, number: usize) -> bool {
        self.byte_regions.borrow().get(number).is_some_and(|region| region.is_anywhere)
    }

    /// Returns the lowest offset of the frame at which a byte region may start.
    pub fn least_start(&self, number: usize) -> i32 {
        self.byte_regions.borrow().get(number).map_or(i32::MIN, |region| region.least)
    }

    /// Returns the number of byte byte_regions.
    pub fn byte_regions(&self) -> usize {
        self.byte_regions.borrow().len()
    }

    /// True if headers always have numeric offsets in the frame, with one fork per offset.
    pub fn is_exact(&self) -> bool {
        self.exact.get()
    }

    /// Enables a fork for each offset of a header.
    #[must_use]
    pub fn exact(self) -> Diagrams {
        self.exact.set(true);
        self
    }

    /// Records that a byte may have been written under one name and read under another.
    pub(super) fn note_overlap(&self) {
        self.overlap.set(true);
    }

    /// True if a byte may have been written under one name and read under another: all results are invalid.
    pub fn overlap_found(&self) -> bool {
        self.overlap.get()
    }

    /// Records that checksums of 0000 and ffff were treated as equal.
    pub(super) fn note_one_zero(&self) {
        self.one_zero.set(true);
    }

    /// Records the condition that a checksum has a single representation of zero. Two different conditions
    /// for one checksum are treated as equal, and that is recorded too.
    pub(super) fn note_settled(&self, checksum: u32, single_zero: u32) {
        if *self.single_zero.borrow_mut().entry(checksum).or_insert(single_zero) != single_zero {
            self.note_one_zero();
        }
    }

    /// True if checksums of 0000 and ffff were treated as equal: they are equal in a sum, but are different
    /// bytes.
    pub fn equates_zeros(&self) -> bool {
        self.one_zero.get()
    }

    /// Returns the values of all variables for one packet.
    pub fn values(&self, value: &dyn Fn(&Symbol) -> bool) -> Vec<bool> {
        let symbols = self.symbols.borrow();
        symbols.variables.iter().map(|symbol| symbol.as_ref().is_some_and(value)).collect()
    }

    /// Returns an assignment of all variables that satisfies `bit`, if there is one; `any` chooses
    /// irrelevant values.
    pub fn witness(&self, bit: &Bit, any: &mut dyn FnMut() -> bool) -> Option<Vec<bool>> {
        let choices = bit.pick_cube(|_, _, _| any())?;
        Some(
            choices
                .into_iter()
                .map(|value| match value {
                    OptBool::None => any(),
                    OptBool::False => false,
                    OptBool::True => true,
                })
                .collect(),
        )
    }

    /// Returns the value of `bit` for an assignment of all variables.
    pub fn is_true(&self, bit: &Bit, values: &[bool]) -> bool {
        bit.eval(values.iter().enumerate().map(|(number, &value)| (number as u32, value)))
    }

    /// Returns a satisfying assignment, if there is one.
    pub fn example(&self, bit: &Bit) -> Option<Example> {
        let choices = bit.pick_cube(|_, _, _| false)?;
        let symbols = self.symbols.borrow();
        let decided = |value| match value {
            OptBool::None => None,
            OptBool::False => Some(false),
            OptBool::True => Some(true),
        };
        let chosen = choices.into_iter().zip(&symbols.variables);
        Some(chosen.filter_map(|(value, symbol)| Some((symbol.clone()?, decided(value)?))).collect())
    }

    /// Returns the share of all assignments that satisfy `bit`, from 0 to 1.
    pub fn share(&self, bit: &Bit) -> f64 {
        // Each level halves the share of either branch; results for shared nodes are cached.
        fn walk(bit: &Bit, no: &Bit, yes: &Bit, known: &mut HashMap<Bit, f64>) -> f64 {
            if bit == no {
                return 0.0;
            }
            if bit == yes {
                return 1.0;
            }
            if let Some(&share) = known.get(bit) {
                return share;
            }
            let Some((with, without)) = bit.cofactors() else { return 0.0 };
            let share = (walk(&with, no, yes, known) + walk(&without, no, yes, known)) / 2.0;
            known.insert(bit.clone(), share);
            share
        }
        walk(bit, &self.no, &self.yes, &mut HashMap::new())
    }
}

/// Returns the level of a diagram's first variable, if it has any.
fn level(bit: &Bit) -> Option<LevelNo> {
    bit.with_manager_shared(|manager, edge| match manager.get_node(edge) {
        Node::Inner(node) => Some(node.level()),
        Node::Terminal(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_questions_are_equal_diagrams() {
        let d = Diagrams::new(1 << 16);
        let [a, b] = [0, 1].map(|place| d.symbol(Symbol::Input(place, 0)));
        assert!(d.not(&d.and(&a, &b)) == d.or(&d.not(&a), &d.not(&b)));
        assert!(d.choose(&a, &b, &b) == b);
        assert_eq!(d.known(&d.or(&a, &d.not(&a))), Some(true));
        assert!(d.symbol(Symbol::Input(0, 0)) == a);
        assert!((d.share(&d.and(&a, &b)) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn equal_functions_of_equal_values_are_equal() {
        let d = Diagrams::new(1 << 16);
        let term = |bits: &[Bit]| Term { name: "f".into(), numbers: Vec::new(), bits: bits.to_vec() };
        let [a, b] = [0, 1].map(|place| d.symbol(Symbol::Input(place, 0)));
        assert!(d.value(term(std::slice::from_ref(&a)), 3) == d.value(term(std::slice::from_ref(&a)), 3));
        assert!(d.value(term(&[a]), 3) != d.value(term(&[b]), 3));
    }

    #[test]
    fn an_example_makes_it_true() {
        let d = Diagrams::new(1 << 16);
        let [a, b] = [3, 9].map(|place| d.symbol(Symbol::Input(place, 7)));
        let example = d.example(&d.and_not(&a, &b)).unwrap();
        assert_eq!(example.get(&Symbol::Input(3, 7)), Some(&true));
        assert_eq!(example.get(&Symbol::Input(9, 7)), Some(&false));
        assert!(d.example(&d.no()).is_none());
    }

    #[test]
    fn within_a_condition_answers_stay() {
        let d = Diagrams::new(1 << 16);
        let [a, b, c, e, f, g] = &[0, 1, 2, 3, 4, 5].map(|place| d.symbol(Symbol::Input(place, 0)));
        let rules = d.or(&d.and(a, c), &d.xor(e, g));
        for part in [b.clone(), d.xor(b, f), d.or(f, g), rules.clone(), d.not(&rules)] {
            let (here, there) = (d.and(&rules, &part), d.and_not(&rules, &part));
            let both = d.or(&here, &there);
            let small = d.within(&here, &both);
            assert!(d.and(&small, &both) == here);
            assert!(d.size(&small) <= d.size(&here));
        }
        assert!(d.within(&d.and(&rules, b), &rules) == *b);
    }

    #[test]
    fn running_out_of_room_is_noticed() {
        let d = Diagrams::new(64);
        let bits: Vec<Bit> = (0..40).map(|place| d.symbol(Symbol::Input(place, 0))).collect();
        bits.iter().fold(d.no(), |sum, bit| d.xor(&sum, bit));
        let pairs = (0..20).map(|i| d.and(&bits[i], &bits[i + 20]));
        pairs.fold(d.no(), |any, pair| d.or(&any, &pair));
        assert!(d.exhausted());
    }
}
