//! The common part of IPFilter and IPClassifier: rules in Click's filter language, each with what happens to
//! packets that match it.

mod counts;
pub mod ip_classifier;
pub mod ip_filter;

use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::iter;
use std::sync::Arc;

use classify::IntervalSet;
use classify::filter::{Condition, HeaderLayer, HeaderSlices, Listing, Matcher, Recent, Test};
use element::effects::{
    Case, Counting, Field, Filter, FlowMarks, Predicate, State, StateAccess, Support, Target, Written,
};
use element::runs::{RunList, Runs};
use element::setup::Same;
use element::{Base, Batch, Cx, DropReason, Effects, Packet, Tally};

use flow::FlowNotes;
use packet::BATCH_CAPACITY;

use crate::sorting::{Fate, Sorter, send_all};
use counts::RuleCounts;

/// A rule: a condition, and whether packets for which it is true leave by an output or are dropped.
#[derive(Clone, PartialEq, Eq)]
struct Rule {
    condition: Condition,
    fate: Fate,
    /// The position in the configuration at which the user wrote the rule.
    written: Written,
}

/// Compiled rules. The first rule whose condition is true decides about a packet. The workers' copies of an
/// element share one table as long as their rules are equal.
struct Table {
    rules: Vec<Rule>,
    /// For each rule, a hash of all rules from the first to this rule. A reload compares these hashes to find
    /// equal rules at the starts of two lists.
    prefixes: Vec<u64>,
    /// At index N, a hash of the last N + 1 rules of the list. A reload compares these hashes to find equal
    /// rules at the ends of two lists.
    suffixes: Vec<u64>,
    matcher: Matcher,
    /// True if a rule reads the link header.
    with_mac: bool,
    /// The packets for which it is enough to look up a rule once per run: the rule that decides about one
    /// packet of the run decides about all.
    by_run: ByRun,
    /// The distinct fates of packets: an output or a drop reason. The first is the fate of packets that
    /// match no rule.
    fates: Vec<Fate>,
    /// For each rule, the index in `fates` of the output or drop of its packets. Consecutive packets with
    /// equal indexes are sent together.
    places: Vec<u32>,
}

/// The table that the copies of an element share as long as their rules are equal.
type Tables = Same<Table>;

/// The rules of one copy of an element: the shared table, and the state that each copy has for itself.
struct Rules {
    table: Arc<Table>,
    sorter: Sorter,
    counts: RuleCounts,
    search: Search,
}

/// The results of the look-ups of a batch, and what is remembered from earlier batches.
struct Search {
    /// The fates of the packets of the batch, in the order of the packets.
    found: Vec<Found>,
    /// For each flow mark that was seen, the index of the rule that decides about the flow's packets.
    notes: FlowNotes<u32>,
    /// The packets of the batch whose rules have to be looked up.
    unknown: Vec<Unknown>,
}

/// Consecutive packets of a batch that go to the same output, or are dropped for the same reason.
struct Found {
    /// The index of the fate in the table.
    place: u32,
    packets: u32,
}

/// A packet or a run of packets of a batch, for which the rule has to be looked up.
struct Unknown {
    /// Their index in [`Search::found`].
    found: u8,
    /// The index in the batch of the packet, or of the first packet of the run.
    packet: u8,
}

impl Table {
    fn new(rules: Vec<Rule>) -> Table {
        let conditions: Vec<Condition> = rules.iter().map(|rule| rule.condition.clone()).collect();
        let mut fates = vec![Fate::Drop(DropReason::NoMatch)];
        let mut places = Vec::with_capacity(rules.len());
        for rule in &rules {
            let place = fates.iter().position(|fate| *fate == rule.fate).unwrap_or(fates.len());
            if place == fates.len() {
                fates.push(rule.fate);
            }
            places.push(place as u32);
        }
        let (prefixes, suffixes) = (digests(rules.iter()), digests(rules.iter().rev()));
        let matcher = Matcher::new(&conditions);
        let with_mac = matcher.looks_at(HeaderLayer::Mac);
        let by_run = match matcher.is_by_flow() {
            true => ByRun::All,
            false if conditions.iter().flat_map(Condition::leaves).all(is_same_in_runs) => ByRun::Ipv4,
            false => ByRun::None,
        };
        Table { rules, prefixes, suffixes, matcher, with_mac, by_run, fates, places }
    }

    /// True if the rule that decides about a packet also decides about the packets that follow in its run.
    #[inline]
    fn decides_for_run(&self, packet: &Packet) -> bool {
        match self.by_run {
            ByRun::All => true,
            ByRun::Ipv4 => packet.network_bytes::<1>(0).is_some_and(|&[first]| first >> 4 == 4),
            ByRun::None => false,
        }
    }
}

/// The packets for which all rules read only fields that are the same for all packets of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByRun {
    /// No packets.
    None,
    /// IPv4 packets.
    Ipv4,
    /// All packets.
    All,
}

/// True if a test reads only bits that are the same for all IPv4 packets of a run
/// ([`element::runs::same_flow`]): version and header length, fragment offset, protocol, addresses, ports.
fn is_same_in_runs(test: &Test) -> bool {
    // The offset at which the tested header starts in the IPv4 packet (0 or 20), and the number of bytes from
    // there on that are certain to exist in each packet of a run.
    let (header, whole) = match test.header {
        HeaderLayer::Mac => return false,
        HeaderLayer::Network => (0, 28),
        HeaderLayer::Transport => (20, 8),
    };
    let (offset, length) = (usize::from(test.offset), usize::from(test.length));
    let mask = test.mask.to_be_bytes();
    let read = mask[mask.len().saturating_sub(length)..].iter().zip(header + offset..);
    let is_same = |(&bits, at): (&u8, usize)| match at {
        0 | 7 | 9 | 12..24 => true,
        6 => bits & !0x3f == 0,
        _ => bits == 0,
    };
    offset + length <= whole && read.into_iter().all(is_same)
}

/// Returns, for each rule, a hash of all rules from the first up to this rule. With these hashes, a reload
/// finds by a few comparisons the rules that the old and the new list have in common; to compare all
/// conditions would take milliseconds.
fn digests<'r>(rules: impl Iterator<Item = &'r Rule>) -> Vec<u64> {
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let mut all = 0;
    let mut next = |rule: &Rule| {
        all = hasher.hash_one((all, &rule.condition, rule.fate));
        all
    };
    rules.map(&mut next).collect()
}

/// Returns the number of rules at the start of two lists that are equal in both lists. `new` and `old` are
/// the hashes of the lists' rules ([`digests`]).
fn in_common(new: &[u64], old: &[u64]) -> usize {
    let (mut low, mut high) = (0, new.len().min(old.len()));
    while low < high {
        let middle = low.midpoint(high);
        if new[middle] == old[middle] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl Search {
    /// Looks up the rules for a batch once per run (consecutive packets of one flow). With `with_marks`, a
    /// flow mark that was seen before this batch needs no look-up, because its rule was remembered.
    #[inline]
    fn find_by_runs(
        &mut self,
        table: &Table,
        counts: &mut RuleCounts,
        (batch, runs): (&Batch, &impl RunList),
        with_marks: bool,
    ) {
        let Search { found, notes, unknown } = self;
        let Table { rules, matcher, with_mac, places, .. } = table;
        found.clear();
        unknown.clear();
        let place = |rule: usize| places.get(rule).copied().unwrap_or(0);
        let mut start = 0;
        for run in runs.of(batch, 0) {
            let [packet, others @ ..] = run else { continue };
            let mark = packet.flow_mark().filter(|_| with_marks);
            if let Some(rule) = mark.and_then(|mark| notes.get(mark)) {
                counts.add(rule as usize, run.len() as u64);
                found.push(Found { place: place(rule as usize), packets: run.len() as u32 });
            } else if others.is_empty() || table.decides_for_run(packet) {
                unknown.push(Unknown { found: found.len() as u8, packet: start as u8 });
                found.push(Found { place: 0, packets: run.len() as u32 });
            } else {
                for number in start..start + run.len() {
                    unknown.push(Unknown { found: found.len() as u8, packet: number as u8 });
                    found.push(Found { place: 0, packets: 1 });
                }
            }
            start += run.len();
        }
        let packet = |unknown: &Unknown| &batch[usize::from(unknown.packet)];
        let packets = unknown.iter().map(|unknown| headers(packet(unknown), *with_mac));
        let mut next = unknown.iter();
        matcher.first_of_each(packets, None, |rule| {
            let rule = rule.unwrap_or(rules.len());
            let Some(unknown) = next.next() else { return };
            let Some(found) = found.get_mut(usize::from(unknown.found)) else { return };
            counts.add(rule, found.packets.into());
            found.place = place(rule);
            if let Some(mark) = packet(unknown).flow_mark().filter(|_| with_marks) {
                notes.set(mark, rule as u32);
            }
        });
    }

    /// Returns the index in `Table::fates` of the output or drop of all packets of the batch; `None` if their
    /// fates differ.
    #[inline]
    fn only_place(&self) -> Option<u32> {
        let (first, others) = self.found.split_first()?;
        others.iter().all(|found| found.place == first.place).then_some(first.place)
    }
}

impl Rules {
    /// Makes the rules of one copy of an element. If another copy has compiled equal rules, both share its
    /// table.
    fn new(rules: Vec<Rule>, outputs: usize, tables: &Tables) -> Rules {
        let counts = RuleCounts::new(rules.len());
        let table = tables.get_or_make(rules, |table, rules| table.rules == *rules, Table::new);
        let (found, unknown) = (Vec::with_capacity(BATCH_CAPACITY), Vec::with_capacity(BATCH_CAPACITY));
        let search = Search { found, notes: FlowNotes::default(), unknown };
        Rules { table, sorter: Sorter::new(outputs), counts, search }
    }

    /// Returns [`FlowMarks::Takes`] if the rules read only fields that all packets of a flow have in common.
    /// The rule that decides about a flow can then be remembered by the flow's mark.
    fn marks(&self) -> FlowMarks {
        if self.table.matcher.is_by_flow() { FlowMarks::Takes } else { FlowMarks::None }
    }

    /// Sends each packet of a batch to its output, or drops it, as the rules decide. With `recent` (the cache
    /// of IPFilter), a packet of the same flow as the previous packet gets the same result without a look-up,
    /// if the rules read only fields of the flow.
    fn push(&mut self, cx: &mut Cx<'_>, mut batch: Batch, recent: Option<&mut Recent>) -> Option<Batch> {
        if self.counts.is_behind()
            && let Some(memory) = self.counts.catch_up()
        {
            cx.dispose(memory);
        }
        if recent.is_some() || self.table.by_run == ByRun::None {
            cx.skip_runs(&mut batch);
            self.find(&batch, recent);
        } else {
            // A handler may have replaced the rules after flow marks were enabled. If the new rules read
            // fields in which packets of one flow differ, results must not be remembered by flow mark.
            let with_marks = self.table.matcher.is_by_flow() && cx.graph().uses_flow_marks();
            let mut runs = Runs::default();
            cx.find_runs(&mut batch, &mut runs);
            let Rules { table, search, counts, .. } = self;
            match runs.as_singles() {
                Some(singles) => search.find_by_runs(table, counts, (&batch, &singles), with_marks),
                None => search.find_by_runs(table, counts, (&batch, &runs), with_marks),
            }
        }
        let Rules { table, sorter, search, .. } = self;
        let fates = &table.fates;
        if let Some(place) = search.only_place() {
            return send_all(cx, batch, fates[place as usize]);
        }
        let places = search.found.iter().map(|found| iter::repeat_n(found.place, found.packets as usize));
        let mut places = places.flatten();
        sorter.send_by(cx, batch, |_, _| places.next().unwrap_or(0), |place| fates[place as usize])
    }

    /// Looks up the rules for all packets of a batch.
    #[inline]
    fn find(&mut self, batch: &Batch, recent: Option<&mut Recent>) {
        let Rules { table, search: Search { found, .. }, counts, .. } = self;
        let Table { rules, matcher, with_mac, places, .. } = &**table;
        found.clear();
        let packets = batch.iter().map(|packet| headers(packet, *with_mac));
        matcher.first_of_each(packets, recent, |rule| {
            counts.count(rule.unwrap_or(rules.len()));
            found.push(Found { place: rule.map_or(0, |rule| places[rule]), packets: 1 });
        });
    }

    /// Returns the text of the handler `rule_counts`: for each rule that decided about packets, a line with
    /// its index from 0 and the number of packets. The index is `-` for packets that matched no rule.
    fn counts(&self) -> String {
        let mut text = String::new();
        for (rule, count) in self.counts.iter().enumerate().filter(|(_, count)| *count > 0) {
            // Writing to a string cannot fail.
            let _ = match self.table.rules.get(rule) {
                Some(_) => writeln!(text, "{rule} {count}"),
                None => writeln!(text, "- {count}"),
            };
        }
        text
    }

    /// Counts packets that a synthesized program or another element has processed according to a case of
    /// [`effects`](Self::effects). A case and its rule have the same index.
    fn tally(&mut self, tally: &Tally) {
        self.counts.add(tally.case, tally.packets);
    }

    /// Returns the rules, and takes out their counts, for the element that continues with the counts in a
    /// reload ([`go_on`](Self::go_on)).
    fn counted(&mut self) -> (Arc<Table>, RuleCounts) {
        (Arc::clone(&self.table), self.counts.take())
    }

    /// Continues with the counts of the element that this element replaces in a reload: the counts of rules
    /// at the start and at the end of the list that are the same in both elements, and of the packets that
    /// matched no rule.
    fn go_on(&mut self, (table, counts): (Arc<Table>, RuleCounts)) {
        let (new, old) = (&*self.table, &*table);
        let start = in_common(&new.prefixes, &old.prefixes);
        let others = new.rules.len().min(old.rules.len()) - start;
        let end = in_common(&new.suffixes, &old.suffixes).min(others);
        self.counts.go_on(counts, [start, end]);
    }

    fn reset_counts(&mut self) {
        self.counts.reset();
    }

    fn listing(&self) -> Listing {
        let output = |fate| match fate {
            Fate::Output(output) => Some(output),
            Fate::Drop(_) => None,
        };
        Listing::new(self.table.rules.iter().map(|rule| (&rule.condition, output(rule.fate))))
    }

    /// Declares one case for each rule, in order, and a last case for packets that match no rule.
    fn effects(&self) -> Effects {
        let mut cases: Vec<Case> = Vec::with_capacity(self.table.rules.len() + 1);
        for rule in &self.table.rules {
            let to = match rule.fate {
                Fate::Output(output) => Target::Output(output),
                Fate::Drop(reason) => Target::Drop(reason),
            };
            cases.push(Case::new(rule.condition.replace(&mut test_of), to).written(rule.written));
        }
        cases.push(Case::new(Filter::TRUE, Target::Drop(DropReason::NoMatch)));
        let counts = State {
            table: "rule counts",
            key: Vec::new(),
            both_directions: false,
            access: StateAccess::Soft,
        };
        let (state, marks) = (vec![counts], self.marks());
        Effects {
            state,
            support: Support { marks, finds_runs: true, ..Support::default() },
            counts: Counting::Tallied,
            ..Effects::cases(cases)
        }
    }
}

/// Returns the headers to which a packet's annotations point, as far as the packet's first slot contains
/// them. A header without an annotation is empty. The link header is returned only if `with_mac` is true.
#[inline]
fn headers(packet: &Packet, with_mac: bool) -> HeaderSlices<'_> {
    let of = |base| packet.header(base).unwrap_or_default();
    let mac = if with_mac { of(Base::Mac) } else { &[] };
    HeaderSlices { mac, network: of(Base::Network), transport: of(Base::Transport) }
}

/// Returns the test as a filter of a declaration.
fn test_of(test: &Test) -> Filter {
    let base = match test.header {
        HeaderLayer::Mac => Base::Mac,
        HeaderLayer::Network => Base::Network,
        HeaderLayer::Transport => Base::Transport,
    };
    let inside = IntervalSet::one(test.low.into(), test.high.into());
    let bits = 8 * u32::from(test.length);
    let set = if test.outside { inside.complement(bits) } else { inside };
    let field = Field::Bytes { base, offset: test.offset.into(), length: test.length.into() };
    Filter::Leaf(Predicate::In { field, mask: test.mask.into(), set })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_with_the_same_rules_share_them() {
        let tables = Tables::default();
        let rule = |value, argument| Rule {
            condition: Condition::Constant(value),
            fate: Fate::Output(0),
            written: Written { argument, line: None },
        };
        let one = Rules::new(vec![rule(true, 0)], 1, &tables);
        let other = Rules::new(vec![rule(true, 0)], 1, &tables);
        assert!(Arc::ptr_eq(&one.table, &other.table));
        // Changed rules get a table of their own; elements that use the first table keep it.
        let changed = Rules::new(vec![rule(false, 0), rule(true, 1)], 1, &tables);
        assert!(!Arc::ptr_eq(&changed.table, &one.table));
        let again = Rules::new(vec![rule(false, 0), rule(true, 1)], 1, &tables);
        assert!(Arc::ptr_eq(&changed.table, &again.table));
        assert_eq!((one.table.rules.len(), again.counts.iter().count()), (1, 3));
    }
}
