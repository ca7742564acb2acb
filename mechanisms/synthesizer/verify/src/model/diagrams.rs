//! Boolean functions of an input packet, as binary decision diagrams. Equal functions have equal diagrams,
//! so a comparison of two functions is a comparison of two node numbers.
//!
//! Each variable of the diagrams has a meaning ([`Symbol`]): a bit of the input packet, of its length or
//! metadata, or of the value of an uninterpreted function. The order of the variables is fixed when they are
//! made ([`order`](super::order)). When nodes or time run out, [`Diagrams::exhausted`] becomes true, and
//! results must not be used any more.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Instant;

use super::apply::{self, Meter, Stop};

use oxidd::bcdd::{BCDDFunction, BCDDManagerRef};
use oxidd::util::OptBool;
use oxidd::{BooleanFunction, Function, HasLevel, LevelNo, Manager, ManagerRef, Node};

/// A Boolean function of the input packet and of the values of uninterpreted functions. As a condition, it
/// describes the set of input packets for which it is true.
pub type Bit = BCDDFunction;

/// Eight bits, the most significant one first.
pub type Byte = [Bit; 8];

/// The maximum number of inner nodes of all diagrams together. Each takes [`NODE`] bytes, so this limits the
/// memory as well.
const NODES: usize = 24 << 20;

/// The number of entries of the cache of operation results.
const CACHE: usize = 1 << 20;

/// The memory in bytes for a node (`NODE`), including its share of the library's tables, and for an entry of
/// the cache of operation results (`ENTRY`).
const NODE: usize = 36;
const ENTRY: usize = 32;

/// Returns the number of nodes that fit into `bytes` bytes of memory together with the cache; at least 1024,
/// and at most `NODES`.
pub fn nodes_in(bytes: usize) -> usize {
    let with_whole_cache = bytes.saturating_sub(CACHE * ENTRY) / NODE;
    // If memory is short, the cache has as many entries as there are nodes, instead of [`CACHE`] entries.
    let nodes = if with_whole_cache >= CACHE { with_whole_cache } else { bytes / (NODE + ENTRY) };
    nodes.clamp(1 << 10, NODES)
}

/// The meaning of one variable of the diagrams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A bit of the input packet: the offset of its byte from the first byte of the packet, and the weight
    /// of the bit in that byte (7 is the most significant).
    Input(i32, u8),
    /// A bit of the length of the input packet in bytes, by its weight (0 is the least significant).
    Length(u8),
    /// A bit of the input packet's metadata: the index of the byte ([`program::metadata`]),
    /// and the weight of the bit in that byte.
    Metadata(u8, u8),
    /// A bit of the value of an uninterpreted function: the number of the function's term, and the index of
    /// the bit from the most significant one.
    Term(u32, u32),
}

/// An uninterpreted function applied to arguments. Terms with equal name and arguments have equal values;
/// nothing else is known of the values.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Term {
    /// The name of the function.
    pub name: String,
    /// The arguments that are known numbers, such as offsets and lengths.
    pub numbers: Vec<i64>,
    /// The arguments that depend on the packet, as one Boolean function per bit.
    pub bits: Vec<Bit>,
}

/// The diagrams of one comparison or analysis, with the meaning of their variables. All functions that are
/// combined have to come from the same set of diagrams.
pub struct Diagrams {
    manager: BCDDManagerRef,
    yes: Bit,
    no: Bit,
    symbols: RefCell<Symbols>,
    /// The offsets in the frame of the headers' two-byte length fields
    /// ([`set_lengths`](Self::set_lengths)).
    lengths: RefCell<BTreeSet<i32>>,
    /// The number of variables that are reserved directly after each new variable of an input bit, for bytes
    /// that functions compute from it ([`reserve_for_rewritten`](Self::reserve_for_rewritten)).
    rewritten: Cell<u32>,
    exhausted: Cell<bool>,
    operations: Cell<u64>,
    /// The number of nodes above which unreferenced nodes are collected.
    collect_at: Cell<usize>,
    /// The byte regions by number: parts of packets that have variables of their own because their offset
    /// depends on the packet ([`offsets`](super::offsets)).
    byte_regions: RefCell<Vec<ByteRegion>>,
    exact: Cell<bool>,
    overlap: Cell<bool>,
    one_zero: Cell<bool>,
    /// For each checksum, given by the number of its term: the number of the term for the condition that its
    /// zero has a single representation, 0000 or ffff ([`note_single_zero`](Self::note_single_zero)).
    single_zero: RefCell<HashMap<u32, u32>>,
    meter: Meter,
    /// The indices of the metadata bytes that any element reads; `None` if every byte may be read.
    observed_metadata: Option<BTreeSet<u8>>,
}

struct ByteRegion {
    /// The bits of the offset in the frame at which the region starts.
    start: Vec<Bit>,
    /// True if the region may start at any offset, even before headers or after the end of the packet.
    is_anywhere: bool,
    /// The lowest offset in the frame at which the region starts in any packet that has the region.
    least: i32,
}

#[derive(Default)]
struct Symbols {
    /// The meaning of each variable by number; `None` for a variable that is reserved, but not in use.
    variables: Vec<Option<Symbol>>,
    /// The reserved variables that new bits of function values get; the last variable in the vector is used
    /// next.
    spare: Vec<u32>,
    /// The variables reserved for bits of functions that are lengths or offsets, by the weight of the bit (0
    /// is the least significant). In the variable order, such a variable is next to the variables of the same
    /// weight with which it is compared.
    length_bits: BTreeMap<u32, Vec<u32>>,
    /// The variables reserved for bytes that functions compute from the input packet. The key has the
    /// offset of the byte and the weight of the bit whose variable is next to the reserved variables.
    rewritten: BTreeMap<(i32, u32), Vec<u32>>,
    bits: HashMap<Symbol, Bit>,
    terms: HashMap<Term, u32>,
    /// For each name of an uninterpreted function: the number of the first term with this name whose value
    /// was requested.
    first: HashMap<String, u32>,
    list: Vec<Term>,
}

impl Symbols {
    /// True if no other term with the same function name has had a value before. Only the first such term
    /// gets variables at the top of the variable order, where a single variable makes diagrams little larger.
    /// Variables of many terms there would make the diagrams distinguish all combinations of their values.
    fn is_first(&mut self, term: u32) -> bool {
        let name = self.list.get(term as usize).map(|term| term.name.clone());
        *self.first.entry(name.unwrap_or_default()).or_insert(term) == term
    }
}

/// A satisfying assignment: the values of some variables, by meaning. The function is true whatever the
/// values of the other variables.
pub type Assignment = HashMap<Symbol, bool>;

impl Default for Diagrams {
    fn default() -> Self {
        Diagrams::new(NODES)
    }
}

impl Diagrams {
    /// Makes an empty set of diagrams with room for `nodes` inner nodes.
    pub fn new(nodes: usize) -> Diagrams {
        // The library's own thread frees nodes when 95 % of the room are in use. There is so much more room
        // that this never happens (see [`Meter`]).
        let room = nodes + nodes / 16 + 128;
        let manager = oxidd::bcdd::new_manager(room, CACHE.min(nodes), 1);
        let (yes, no) =
            manager.with_manager_shared(|manager| (BCDDFunction::t(manager), BCDDFunction::f(manager)));
        Diagrams {
            manager,
            yes,
            no,
            symbols: RefCell::default(),
            lengths: RefCell::default(),
            rewritten: Cell::new(0),
            exhausted: Cell::new(false),
            operations: Cell::new(0),
            collect_at: Cell::new(1 << 20),
            byte_regions: RefCell::default(),
            exact: Cell::new(false),
            overlap: Cell::new(false),
            one_zero: Cell::new(false),
            single_zero: RefCell::default(),
            meter: Meter::new(nodes),
            observed_metadata: None,
        }
    }

    /// Sets the indices of all metadata bytes that elements read, `sides`, so that other metadata need not be
    /// compared.
    #[must_use]
    pub fn looking_at(mut self, sides: BTreeSet<u8>) -> Diagrams {
        self.observed_metadata = Some(sides);
        self
    }

    /// True if an element may read the metadata byte with index `side`.
    pub fn is_looked_at(&self, side: u8) -> bool {
        self.observed_metadata.as_ref().is_none_or(|sides| sides.contains(&side))
    }

    /// True if an operation ran out of nodes or time. Most results since then are false, whatever the
    /// operands; none must be used.
    pub fn exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Sets a deadline, or removes it with `None`. An operation after the deadline is aborted, and
    /// [`exhausted`](Self::exhausted) becomes true.
    #[must_use]
    pub fn until(self, deadline: Option<Instant>) -> Diagrams {
        self.meter.set_deadline(deadline);
        self
    }

    /// Returns the number of inner nodes that exist at present, including unreferenced nodes that have not
    /// been freed.
    pub fn nodes(&self) -> usize {
        self.meter.nodes()
    }

    /// Returns the number of nodes of one diagram.
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

    /// Returns the constant function with this value.
    pub fn constant(&self, value: bool) -> Bit {
        if value { self.yes() } else { self.no() }
    }

    /// Returns the value of a constant function; `None` if the value depends on the packet.
    pub fn known(&self, bit: &Bit) -> Option<bool> {
        if *bit == self.yes {
            Some(true)
        } else if *bit == self.no {
            Some(false)
        } else {
            None
        }
    }

    /// True if no packet satisfies the condition, that is, if the function is the constant false.
    pub fn is_never(&self, bit: &Bit) -> bool {
        *bit == self.no
    }

    /// Performs an operation on diagrams. Frees unreferenced nodes if there are many. If there is no room for
    /// new nodes, frees them and repeats the operation once. When nodes or time run out, returns false and
    /// sets `exhausted`.
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

    /// Returns the number of recursion steps of all operations so far. It measures the cost of a proof
    /// independently of the machine.
    pub fn steps(&self) -> u64 {
        self.meter.steps()
    }

    fn collect(&self) {
        let nodes = self.manager.with_manager_shared(|manager| {
            manager.gc();
            manager.num_inner_nodes()
        });
        self.meter.set_nodes(nodes);
        self.collect_at.set((2 * self.nodes()).max(1 << 20));
    }

    /// Returns the negation of `a`.
    pub fn not(&self, a: &Bit) -> Bit {
        self.checked(|_| a.not().map_err(|_| Stop::Full))
    }

    /// Returns the conjunction of `a` and `b`.
    pub fn and(&self, a: &Bit, b: &Bit) -> Bit {
        self.checked(|meter| apply::and(meter, a, b))
    }

    /// Returns the conjunction of `a` and the negation of `b`.
    pub fn and_not(&self, a: &Bit, b: &Bit) -> Bit {
        self.and(a, &self.not(b))
    }

    /// Returns the disjunction of `a` and `b`.
    pub fn or(&self, a: &Bit, b: &Bit) -> Bit {
        self.not(&self.and(&self.not(a), &self.not(b)))
    }

    /// Returns the exclusive or of `a` and `b`.
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

    /// Returns a smaller function that equals `a` for all packets of the condition. For other packets its
    /// values are chosen to make the diagram small (the "restrict" operation of Coudert and Madre). Returns
    /// `a` itself if that is not smaller.
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
                let question = self.checked(|meter| apply::variable(meter, &self.manager, place));
                self.choose(&question, &then, &otherwise)
            }
        };
        known.insert((a.clone(), condition.clone()), bit.clone());
        bit
    }

    /// True if at least one packet satisfies both conditions.
    pub fn overlap(&self, a: &Bit, b: &Bit) -> bool {
        !self.is_never(&self.and(a, b))
    }

    /// Returns the conjunction of all `bits`; true if there are none.
    pub fn all<'b>(&self, bits: impl IntoIterator<Item = &'b Bit>) -> Bit {
        bits.into_iter().fold(self.yes(), |all, bit| self.and(&all, bit))
    }

    /// Returns the condition that two bit vectors of equal length are equal, as one diagram.
    pub fn equal<'b>(
        &self,
        a: impl IntoIterator<Item = &'b Bit>,
        b: impl IntoIterator<Item = &'b Bit>,
    ) -> Bit {
        let different = a.into_iter().zip(b).filter(|(a, b)| a != b);
        different.fold(self.yes(), |equal, (a, b)| self.and_not(&equal, &self.xor(a, b)))
    }

    /// Returns, for each position at which the vectors `a` and `b` have different functions, the condition
    /// that the bits there differ. The conditions are not joined to one, because their disjunction may be
    /// too large for any memory if the bits depend on many others.
    pub fn differences<'b>(&'b self, a: &'b [Bit], b: &'b [Bit]) -> impl Iterator<Item = Bit> + 'b {
        a.iter().zip(b).filter(|(a, b)| a != b).map(|(a, b)| self.xor(a, b))
    }

    /// Returns the function that is the value of one variable, given by its meaning. Makes the variable if
    /// it does not exist yet.
    pub fn symbol(&self, symbol: Symbol) -> Bit {
        self.symbol_from(
            symbol,
            |symbols, term| {
                if symbols.is_first(term) { symbols.spare.pop() } else { None }
            },
        )
    }

    /// Does the work of [`symbol`](Self::symbol). A new variable for a bit of a function's value is the
    /// reserved variable that `kept` returns. If `kept` returns `None`, a variable is added at the end of the
    /// order.
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
        let level = self.manager.with_manager_shared(|manager| manager.var_to_level(number));
        let bit = self.checked(|meter| apply::variable(meter, &self.manager, level));
        symbols.variables[number as usize] = Some(symbol.clone());
        if let Symbol::Input(place, weight) = symbol
            && self.rewritten.get() > 0
        {
            drop(symbols);
            let numbers = self.new_variables(self.rewritten.get());
            symbols = self.symbols.borrow_mut();
            symbols.rewritten.entry((place, weight.into())).or_default().extend(numbers.rev());
        }
        symbols.bits.insert(symbol, bit.clone());
        bit
    }

    /// Reserves `n` variables, at the present end of the variable order, for values of uninterpreted
    /// functions, because it is not known at this time which functions will be applied.
    pub fn reserve_for_functions(&self, n: u32) {
        let numbers = self.new_variables(n);
        self.symbols.borrow_mut().spare.extend(numbers.rev());
    }

    /// Reserves `n` variables, at the present end of the order, for the bits of this weight (0 is the least
    /// significant) in function values that are compared with lengths.
    pub fn reserve_for_weight(&self, weight: u32, n: u32) {
        let numbers = self.new_variables(n);
        self.symbols.borrow_mut().length_bits.entry(weight).or_default().extend(numbers.rev());
    }

    /// Reserves `n` variables directly after each variable of an input bit that is made from now on. They are
    /// for bytes that functions compute from that bit, since rules compare these bytes in the same way as the
    /// original bytes.
    pub fn reserve_for_rewritten(&self, n: u32) {
        self.rewritten.set(n);
    }

    fn new_variables(&self, n: u32) -> Range<u32> {
        let numbers = self.manager.with_manager_exclusive(|manager| manager.add_vars(n));
        self.symbols.borrow_mut().variables.resize(numbers.end as usize, None);
        numbers
    }

    /// Returns the symbolic byte of the input packet at offset `place`.
    pub fn input(&self, place: i32) -> Byte {
        std::array::from_fn(|bit| self.symbol(Symbol::Input(place, 7 - bit as u8)))
    }

    /// Returns the number of a term. Equal terms have equal numbers.
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

    /// Returns the `width` bits of a term's value, most significant first.
    pub fn value(&self, term: Term, width: usize) -> Vec<Bit> {
        let number = self.term(term);
        (0..width).map(|bit| self.symbol(Symbol::Term(number, bit as u32))).collect()
    }

    /// Returns the `width` bits of a term's value that an element writes at offset `place` of the frame. If
    /// a length field is at that offset, the bits use reserved variables next to the lengths with which
    /// they are compared, as long as any are left.
    pub fn value_at(&self, term: Term, width: usize, place: i32) -> Vec<Bit> {
        self.value_with(term, width, |bit| {
            let (byte, weight) = (place + (bit / 8) as i32, 7 - (bit % 8) as u32);
            let lengths = self.lengths.borrow();
            let high = lengths.contains(&byte).then_some(weight + 8);
            high.or_else(|| lengths.contains(&(byte - 1)).then_some(weight))
        })
    }

    /// Returns the byte at offset `place` of the frame, in a packet all of whose unwritten bytes are made
    /// by the function with term number `version`.
    pub fn rewritten(&self, version: u32, place: i32) -> Byte {
        let term = Term { name: "byte".into(), numbers: vec![version.into(), place.into()], bits: vec![] };
        let number = self.term(term);
        std::array::from_fn(|bit| {
            self.symbol_from(Symbol::Term(number, bit as u32), |symbols, _| {
                symbols.rewritten.get_mut(&(place, 7 - bit as u32)).and_then(Vec::pop)
            })
        })
    }

    /// Returns the `width` bits of a term's value that is stored in annotations, in the byte order of the
    /// machine, and is added to lengths. Each bit uses a variable that is reserved for bits of its weight
    /// (0 is the least significant), if one is left.
    pub fn native_length(&self, term: Term, width: usize) -> Vec<Bit> {
        self.value_with(term, width, |bit| {
            let byte = bit / 8;
            let byte = if cfg!(target_endian = "little") { byte } else { width / 8 - 1 - byte };
            Some((8 * byte + 7 - bit % 8) as u32)
        })
    }

    /// Returns the bits of a term's value. `weight` returns the weight of the bit with an index: the bit
    /// then uses a variable that is reserved for bits of that weight, if one is left. If `weight` returns
    /// `None`, the bit uses a variable like a bit of any other function.
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

    /// Declares the offsets in the frame of two-byte fields that are compared with lengths. Effective for
    /// terms that get variables later.
    pub fn set_lengths(&self, places: impl IntoIterator<Item = i32>) {
        self.lengths.borrow_mut().extend(places);
    }

    /// Returns the `width` bits of a term's value that is a length or offset, most significant first. Each
    /// bit uses a variable that is reserved for bits of its weight (0 is the least significant), if one is
    /// left.
    pub fn length_bits(&self, term: Term, width: u32) -> Vec<Bit> {
        self.value_with(term, width as usize, |bit| Some(width - 1 - bit as u32))
    }

    /// Returns the term with this number; an empty term if there is none.
    pub fn term_of(&self, number: u32) -> Term {
        self.symbols.borrow().list.get(number as usize).cloned().unwrap_or_default()
    }

    /// Returns the number of the byte region that starts at `start` in the frame, after an IP header. Makes
    /// the region if there is none with that start. `least` is the lowest value of `start` in packets that
    /// have the region.
    pub fn region_at(&self, start: Vec<Bit>, least: i32) -> usize {
        self.byte_region_of(ByteRegion { start, is_anywhere: false, least })
    }

    /// Returns the number of a byte region that may start at any offset of the frame, even before headers
    /// and after the end of the packet. Makes the region if there is none with that start.
    pub fn region_anywhere(&self, start: Vec<Bit>) -> usize {
        self.byte_region_of(ByteRegion { start, is_anywhere: true, least: i32::MIN })
    }

    fn byte_region_of(&self, region: ByteRegion) -> usize {
        let mut byte_regions = self.byte_regions.borrow_mut();
        let is_same =
            |other: &ByteRegion| (&other.start, other.is_anywhere) == (&region.start, region.is_anywhere);
        let Some(number) = byte_regions.iter().position(is_same) else {
            byte_regions.push(region);
            return byte_regions.len() - 1;
        };
        // The region exists already, perhaps with another lowest start, so the lower one of the two counts.
        byte_regions[number].least = byte_regions[number].least.min(region.least);
        number
    }

    /// Returns the bits of the offset in the frame at which the byte region with this number starts; it
    /// depends on the packet. `None` if there is no such region.
    pub fn region(&self, number: usize) -> Option<Vec<Bit>> {
        self.byte_regions.borrow().get(number).map(|region| region.start.clone())
    }

    /// True if the byte region with this number may start at any offset of the frame.
    pub fn is_anywhere(&self, number: usize) -> bool {
        self.byte_regions.borrow().get(number).is_some_and(|region| region.is_anywhere)
    }

    /// Returns the lowest offset of the frame at which the byte region with this number starts in any
    /// packet.
    pub fn least_start(&self, number: usize) -> i32 {
        self.byte_regions.borrow().get(number).map_or(i32::MIN, |region| region.least)
    }

    /// Returns the number of byte regions.
    pub fn byte_regions(&self) -> usize {
        self.byte_regions.borrow().len()
    }

    /// True if the offsets of headers in the frame are always numbers: the execution forks for each offset,
    /// and there are no byte regions for transport headers.
    pub fn is_exact(&self) -> bool {
        self.exact.get()
    }

    /// Makes the execution fork for each offset of a header, instead of using byte regions. This is slower,
    /// but exact.
    #[must_use]
    pub fn exact(self) -> Diagrams {
        self.exact.set(true);
        self
    }

    /// Records that a byte may have been written by its offset in a byte region and read by its offset in
    /// the frame, or the other way round.
    pub(super) fn note_overlap(&self) {
        self.overlap.set(true);
    }

    /// True if a byte may have been written by one of its two offsets (in a byte region, in the frame) and
    /// read by the other. All results are then invalid, and the analysis has to run again with
    /// [`exact`](Self::exact).
    pub fn overlap_found(&self) -> bool {
        self.overlap.get()
    }

    /// Records that the checksum values 0000 and ffff were treated as equal.
    pub(super) fn note_one_zero(&self) {
        self.one_zero.set(true);
    }

    /// Records that the zero of a checksum has a single representation under a condition; the checksum and
    /// the condition are given as term numbers. If another condition was recorded for the same checksum, the
    /// two conditions are treated as equal, and [`equates_zeros`](Self::equates_zeros) becomes true.
    pub(super) fn note_single_zero(&self, checksum: u32, single_zero: u32) {
        if *self.single_zero.borrow_mut().entry(checksum).or_insert(single_zero) != single_zero {
            self.note_one_zero();
        }
    }

    /// True if the checksum values 0000 and ffff were treated as equal. They are equal in a sum, but they
    /// are different bytes, so the verdict has to name this as an assumption.
    pub fn equates_zeros(&self) -> bool {
        self.one_zero.get()
    }

    /// Returns the values of all variables, by number of the variable. `value` returns the value of a
    /// variable by its meaning. Unused variables are false.
    pub fn values(&self, value: &dyn Fn(&Symbol) -> bool) -> Vec<bool> {
        let symbols = self.symbols.borrow();
        symbols.variables.iter().map(|symbol| symbol.as_ref().is_some_and(value)).collect()
    }

    /// Returns an assignment of all variables for which `bit` is true, by number of the variable; `None` if
    /// `bit` is constantly false. `any` is called for the values of variables that do not matter.
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

    /// Returns the value of `bit` for an assignment of all variables, by number.
    pub fn is_true(&self, bit: &Bit, values: &[bool]) -> bool {
        bit.eval(values.iter().enumerate().map(|(number, &value)| (number as u32, value)))
    }

    /// Returns a satisfying assignment with the values of the variables that matter; `None` if `bit` is
    /// constantly false.
    pub fn example(&self, bit: &Bit) -> Option<Assignment> {
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

    /// Returns the position of a function's topmost variable in the order of variables, and the functions
    /// that remain if this variable is true and if it is false; `None` for constants.
    pub fn branches(&self, bit: &Bit) -> Option<(u32, Bit, Bit)> {
        let (with, without) = bit.cofactors()?;
        Some((level(bit)?, with, without))
    }

    /// Returns the number of satisfying assignments of `bit`, divided by the number of all assignments:
    /// from 0 to 1.
    pub fn share(&self, bit: &Bit) -> f64 {
        // Each branch has half of the assignments of its node. Results for shared nodes are cached.
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

/// Returns the position in the variable order of a diagram's topmost variable; `None` for constants.
fn level(bit: &Bit) -> Option<LevelNo> {
    bit.with_manager_shared(|manager, edge| match manager.get_node(edge) {
        Node::Inner(node) => Some(node.level()),
        Node::Terminal(_) => None,
    })
}

#[cfg(test)]
mod tests;
