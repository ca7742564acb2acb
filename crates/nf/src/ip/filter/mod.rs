//! The common part of IPFilter and IPClassifier: rules in Click's filter language, each with what happens to
//! packets that match it.

mod counts;
pub mod ip_classifier;
pub mod ip_filter;

use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use classify::IntervalSet;
use classify::filter::{Condition, HeaderLayer, HeaderSlices, Listing, Matcher, Recent, Test};
use element::effects::{
    Case, Counting, Field, Filter, FlowMarks, Predicate, State, StateAccess, Support, Target, Written,
};
use element::setup::Same;
use element::{Base, Batch, Cx, DropReason, Effects, Packet, Tally};

use flow::FlowNotes;
use packet::BATCH_CAPACITY;

use crate::sorting::{Fate, Sorter};
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
    /// For each rule, a hash of all rules up to this rule.
    prefixes: Vec<u64>,
    /// At index N, a hash of the last N + 1 rules of the list.
    suffixes: Vec<u64>,
    matcher: Matcher,
    /// True if a rule reads the link header.
    with_mac: bool,
    /// The distinct fates of packets: an output or a drop reason. The first is the fate of packets that
    /// match no rule.
    fates: Vec<Fate>,
    /// For each rule, the index of its fate in `fates`. Packets with equal indexes are sent together.
    places: Vec<u32>,
}

/// The table that the copies of an element share as long as their rules are equal.
type Tables = Same<Table>;

/// The rules of one copy of an element: the shared table, and the state that each copy has for itself.
struct Rules {
    table: Arc<Table>,
    sorter: Sorter,
    /// For each packet of a batch, the index of its fate in the table.
    found: Vec<u32>,
    counts: RuleCounts,
    /// For each flow mark that was seen, the index of the rule that decides about the flow's packets.
    /// `unknown` has the indexes of the packets in a batch that have no mark or whose mark was not seen
    /// before.
    notes: FlowNotes<u32>,
    unknown: Vec<u8>,
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
        Table { rules, prefixes, suffixes, matcher, with_mac, fates, places }
    }
}

/// Returns, for each rule, a hash of all rules up to it. With these hashes, a reload finds the rules that two
/// lists have in common by a few comparisons; to compare all conditions takes milliseconds.
fn digests<'r>(rules: impl Iterator<Item = &'r Rule>) -> Vec<u64> {
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let mut all = 0;
    let mut next = |rule: &Rule| {
        all = hasher.hash_one((all, &rule.condition, rule.fate));
        all
    };
    rules.map(&mut next).collect()
}

/// Returns the number of rules at the start of two lists that are equal, by their [`digests`].
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

impl Rules {
    /// Makes the rules of one copy of an element. If another copy has compiled equal rules, both share its
    /// table.
    fn new(rules: Vec<Rule>, outputs: usize, tables: &Tables) -> Rules {
        let counts = RuleCounts::new(rules.len());
        let table = tables.get_or_make(rules, |table, rules| table.rules == *rules, Table::new);
        let found = Vec::with_capacity(BATCH_CAPACITY);
        let (notes, unknown) = (FlowNotes::default(), Vec::with_capacity(BATCH_CAPACITY));
        Rules { table, sorter: Sorter::new(outputs), found, counts, notes, unknown }
    }

    /// Returns [`FlowMarks::Takes`] if the rules read only fields that all packets of a flow have in
    /// common, so that the result for a flow can be remembered by its mark.
    fn marks(&self) -> FlowMarks {
        if self.table.matcher.is_by_flow() { FlowMarks::Takes } else { FlowMarks::None }
    }

    /// Sends each packet of a batch to its output, or drops it. With `recent`, packets of the same flow as
    /// the last packet that had one get the same result without a look-up, if the rules read only fields of
    /// the flow.
    fn push(&mut self, cx: &mut Cx<'_>, batch: Batch, recent: Option<&mut Recent>) -> Option<Batch> {
        if self.counts.is_behind()
            && let Some(memory) = self.counts.catch_up()
        {
            cx.dispose(memory);
        }
        // The rules may have been replaced after flow marks were enabled, so that they now read fields in
        // which packets of one flow differ.
        if recent.is_none() && self.table.matcher.is_by_flow() && cx.graph().uses_flow_marks() {
            self.find_by_marks(&batch);
        } else {
            self.find(&batch, recent);
        }
        let Rules { table, sorter, found, .. } = self;
        let (fates, mut found) = (&table.fates, found.iter());
        sorter.send_by(cx, batch, |_, _| found.next().copied().unwrap_or(0), |place| fates[place as usize])
    }

    /// Looks up the rules for all packets of a batch.
    #[inline]
    fn find(&mut self, batch: &Batch, recent: Option<&mut Recent>) {
        let Rules { table, found, counts, .. } = self;
        let Table { rules, matcher, with_mac, places, .. } = &**table;
        found.clear();
        let packets = batch.iter().map(|packet| headers(packet, *with_mac));
        matcher.first_of_each(packets, recent, |rule| {
            counts.count(rule.unwrap_or(rules.len()));
            found.push(rule.map_or(0, |rule| places[rule]));
        });
    }

    /// Looks up the rules only for packets without a flow mark, and for marks that were not seen before this
    /// batch; the results for all other packets were remembered.
    #[inline]
    fn find_by_marks(&mut self, batch: &Batch) {
        let Rules { table, found, counts, notes, unknown, .. } = self;
        let Table { rules, matcher, with_mac, places, .. } = &**table;
        found.clear();
        unknown.clear();
        let place = |rule: usize| places.get(rule).copied().unwrap_or(0);
        for (number, packet) in (0..=u8::MAX).zip(batch.iter()) {
            let noted = packet.flow_mark().and_then(|mark| notes.get(mark));
            match noted {
                Some(rule) => counts.count(rule as usize),
                None => unknown.push(number),
            }
            found.push(noted.map_or(0, |rule| place(rule as usize)));
        }
        let packets = || unknown.iter().map(|&number| &batch[usize::from(number)]);
        let mut next = unknown.iter().map(|&number| usize::from(number));
        matcher.first_of_each(packets().map(|packet| headers(packet, *with_mac)), None, |rule| {
            let rule = rule.unwrap_or(rules.len());
            counts.count(rule);
            let Some(number) = next.next() else { return };
            found[number] = place(rule);
            if let Some(mark) = batch[number].flow_mark() {
                notes.set(mark, rule as u32);
            }
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

    /// Counts packets that another element processed according to a case of [`effects`](Self::effects). A
    /// case and its rule have the same index.
    fn tally(&mut self, tally: &Tally) {
        self.counts.add(tally.case, tally.packets);
    }

    /// Returns the rules with their counts, for [`go_on`](Self::go_on).
    fn counted(&mut self) -> (Arc<Table>, RuleCounts) {
        (Arc::clone(&self.table), self.counts.take())
    }

    /// Continues with the counts of another element: of the rules at the start and at the end of the list
    /// that are the same in both elements, and of the packets that matched no rule.
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
            support: Support { marks, ..Support::default() },
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
