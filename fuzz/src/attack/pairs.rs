//! Random pairs of chains for the verifier. Its verdict on each pair is compared with runs of packets
//! through both chains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use element::Timestamp;
use fastrand::Rng;
use packet::PacketKind;
use verify::equivalence::{Conclusion, Difference};
use verify::example::Example;

use super::case::{Case, packets_for};
use super::classes::Element;
use super::classes::{Catalogue, Context, Habits, next};
use super::ends::{Came, Given};
use super::network::{Ends, Network, Next};
use super::outcome::{Ran, hex};
use super::overran;
use super::packets::START;
use super::programs::{Effort, Read, compare, read};
use super::shrink::shrink;

/// The way in which the second chain of a pair was made from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Derivation {
    /// Elements without effect were added, so the chains are equivalent.
    Padded,
    /// An element got other arguments, or was replaced by another one.
    Changed,
    /// An element was removed, unless a source would then lead to no element.
    Removed,
    /// An element and its only successor changed places, if there is only one and it has one output.
    Exchanged,
    /// A random element was added.
    Longer,
    /// The second chain is another random chain.
    Stranger,
}

/// Two chains, and packets that run through both.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    derivation: Derivation,
    networks: [Network; 2],
    given: Vec<Arc<Vec<Given>>>,
}

/// The verdict on a pair, compared with the runs.
#[derive(Debug)]
pub(super) struct Judged {
    derivation: Derivation,
    /// True if the outputs of the two chains differ for the random packets.
    differs: bool,
    said: Said,
    overran: bool,
    /// The kind of failure: the verdict contradicts the runs, or the way in which the pair was made. `None`
    /// if the verdict may be right.
    failure: Option<&'static str>,
    what: String,
}

/// The verdict of the verifier on a pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Same,
    Different,
    Undecided,
    /// No verdict: a chain is invalid, cannot be run or depends on random numbers, or the chains have
    /// different numbers of sources.
    NoVerdict,
}

/// Counts of the verdicts on all pairs.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// The number of pairs, with or without a verdict.
    pub(super) pairs: u64,
    /// The number of pairs by the way in which they were made, whether the runs differ, and verdict.
    counts: BTreeMap<(Derivation, bool, Said), u64>,
    /// The number of pairs for which the verifier took more than twice the time limit plus two seconds.
    pub(super) overran: u64,
    /// By kind of failure: the number of pairs with such a failure, and the first seeds.
    pub(super) failures: BTreeMap<String, (u64, Vec<u64>)>,
}

impl Verdicts {
    /// Adds a pair to the counts. Returns its kind of failure, if it failed.
    pub(super) fn add(&mut self, seed: u64, judged: Judged) -> Option<&'static str> {
        self.pairs += 1;
        self.overran += u64::from(judged.overran);
        *self.counts.entry((judged.derivation, judged.differs, judged.said)).or_default() += 1;
        let failure = judged.failure?;
        let (times, seeds) = self.failures.entry(format!("verify: {failure}")).or_default();
        *times += 1;
        if seeds.len() < 8 {
            seeds.push(seed);
        }
        Some(failure)
    }

    /// Calls `row` with name and value of each row of the table of counts.
    pub(super) fn table(&self, row: &mut dyn FnMut(&str, String)) {
        row("pairs", self.pairs.to_string());
        for ((derivation, differs, said), times) in &self.counts {
            let seen = if *differs { "differ" } else { "no packet differs" };
            row(&format!("  {derivation:?}, {seen}"), format!("{said:?}: {times}"));
        }
        row("  more than twice the time and two seconds", self.overran.to_string());
    }
}

const EQUIVALENT: &str = "equivalent, and a packet differs";
const EXAMPLE: &str = "different, and its packet does not differ";
const FALSE: &str = "different, and nothing was changed";

impl Pair {
    /// Creates the pair of a seed.
    pub(super) fn random(seed: u64, catalogue: &Catalogue) -> Pair {
        let r = &mut Rng::with_seed(seed ^ 0x7061_6972);
        let keeps_state = r.u8(..4) == 0;
        let a = Network::random(r, catalogue, seed, keeps_state);
        let mut b = a.clone();
        let derivation = match r.u8(..12) {
            0..=3 => Derivation::Padded,
            4 | 5 => Derivation::Changed,
            6 | 7 => Derivation::Removed,
            8 => Derivation::Exchanged,
            9 | 10 => Derivation::Longer,
            _ => Derivation::Stranger,
        };
        let at = r.usize(..b.nodes.len());
        match derivation {
            Derivation::Padded => {
                for _ in 0..r.usize(1..4) {
                    let class = if r.bool() { "Null" } else { "Counter" };
                    let at = r.usize(..b.nodes.len());
                    let element =
                        Element { class: class.into(), config: String::new(), inputs: 1, outputs: 1 };
                    let output = r.usize(..b.nodes[at].to.len());
                    b.insert(at, output, element);
                }
            }
            Derivation::Changed => {
                let mut element = next(r, catalogue, &mut Context { marked: true, ..Context::default() });
                for _ in 0..200 {
                    // Looks for other arguments of the same class. If none is found, the element is replaced
                    // by a random one.
                    let other = next(r, catalogue, &mut Context { marked: true, ..Context::default() });
                    if other.class == b.nodes[at].element.class && other != b.nodes[at].element {
                        element = other;
                        break;
                    }
                }
                let node = &mut b.nodes[at];
                node.to.resize(element.outputs, Next::Discard);
                node.element = element;
            }
            Derivation::Removed => b = b.bypassed(at).unwrap_or(b),
            Derivation::Exchanged => {
                if let [Next::Element(next, 0)] = b.nodes[at].to[..]
                    && b.nodes[next].to.len() == 1
                {
                    let element = b.nodes[at].element.clone();
                    b.nodes[at].element = std::mem::replace(&mut b.nodes[next].element, element);
                }
            }
            Derivation::Longer => {
                let output = r.usize(..b.nodes[at].to.len());
                let element = next(r, catalogue, &mut Context { marked: true, ..Context::default() });
                b.insert(at, output, element);
            }
            Derivation::Stranger => {
                b = Network::random(r, catalogue, seed + 1, keeps_state);
                b.annotations = a.annotations;
            }
        }
        let (given, _) = packets_for(r, a.entries.len());
        Pair { derivation, networks: [a, b], given }
    }

    fn run(&self, read: &Read, which: usize, given: &[Arc<Vec<Given>>]) -> Option<Ran> {
        let case = Case { network: self.networks[which].clone(), given: given.to_vec() };
        case.run(&read.whole, 1).ok()
    }

    /// Runs the packets through both chains, asks the verifier, and compares its verdict with the runs.
    pub(super) fn check(&self, catalogue: &Catalogue, effort: Effort) -> Judged {
        let mut judged = Judged {
            derivation: self.derivation,
            differs: false,
            said: Said::NoVerdict,
            overran: false,
            failure: None,
            what: String::new(),
        };
        let text = |network: &Network| network.text(catalogue, &Ends::of(0, network.annotations));
        let [Ok(a), Ok(b)] = self.networks.each_ref().map(|network| read(&text(network))) else {
            return judged;
        };
        let depends = |read: &Read| read.effects.iter().any(|effects| Habits::of(effects).is_random);
        // With random numbers each run may differ, and with different sources the runs cannot be compared.
        if depends(&a) || depends(&b) || self.networks[0].entries.len() != self.networks[1].entries.len() {
            return judged;
        }
        let ran = [(&a, 0), (&b, 1)].map(|(read, which)| self.run(read, which, &self.given));
        let [Some(ran_a), Some(ran_b)] = ran else { return judged };
        let apart = apart(&ran_a, &ran_b);
        judged.differs = apart.is_some();
        let begin = Instant::now();
        let outcome = compare([&a, &b], false, effort);
        judged.overran = overran(begin, effort.time);
        match outcome.verdict {
            Conclusion::Equivalent => {
                judged.said = Said::Same;
                // Differences that the verdict's assumptions permit are no failure: equal checksums 0000 and
                // ffff, and full queues or tables. Runs in which the sources have sent different numbers of
                // packets are not compared.
                let zeros = outcome.assumptions.iter().any(|assumption| assumption.contains("checksum"));
                let full = ran_a.overflows() || ran_b.overflows();
                if let Some(what) = apart
                    && !full
                    && ran_a.has_read_what(&ran_b)
                    && !(zeros && same_but_zeros(&ran_a, &ran_b))
                {
                    (judged.failure, judged.what) = (Some(EQUIVALENT), what);
                }
            }
            Conclusion::Different(Difference::Entry(_, entry)) => {
                // An entry is a place at which packets enter a chain. Added elements without effect are no
                // entries; other changes may add or remove an element that makes packets by itself.
                judged.said = Said::Different;
                judged.what = format!("an entry {entry}");
                judged.failure = (self.derivation == Derivation::Padded).then_some(FALSE);
            }
            Conclusion::Different(Difference::Packet { entry, example, what }) => {
                judged.said = Said::Different;
                judged.what = format!("{what}: {example:?}");
                // The example packet can only be sent if it enters the chain at a source of the test, not at
                // an element that makes packets.
                let source =
                    a.chain.nodes[entry[0]].name.strip_prefix("in").and_then(|name| name.parse().ok());
                let one = source.map(|source| self.alone(&example, source));
                let ran = [(&a, 0), (&b, 1)].map(|(read, which)| self.run(read, which, one.as_ref()?));
                if let [Some(ran_a), Some(ran_b)] = ran
                    && super::pairs::apart(&ran_a, &ran_b).is_none()
                {
                    judged.failure = Some(EXAMPLE);
                }
                if self.derivation == Derivation::Padded {
                    judged.failure = Some(FALSE);
                }
            }
            Conclusion::Undecided { element, reason } => {
                judged.said = Said::Undecided;
                judged.what = format!("{}: {reason}", element.unwrap_or_default());
            }
        }
        judged
    }

    /// Returns the packets of all sources for a run in which the verifier's example is the only packet. The
    /// source with number `source` sends it.
    fn alone(&self, example: &Example, source: usize) -> Vec<Arc<Vec<Given>>> {
        let packet = Given {
            due: Timestamp(START),
            time: Timestamp(START),
            bytes: example.bytes.clone(),
            kind: PacketKind::from_number(example.kind),
            annotations: example.annotations.clone(),
        };
        let sources = 0..self.given.len();
        sources
            .map(|number| Arc::new(if number == source { vec![packet.clone()] } else { Vec::new() }))
            .collect()
    }

    /// Describes a failed pair for people. If the verdict was "equivalent" although a packet differs, the
    /// packets are reduced first.
    pub(super) fn show(&self, catalogue: &Catalogue, effort: Effort, failure: &str, seed: u64) -> String {
        let judged = self.check(catalogue, effort);
        let mut pair = self.clone();
        if judged.failure == Some(EQUIVALENT) {
            // Only packets are removed. The chains stay the same, and with them the verdict.
            let case = Case { network: self.networks[0].clone(), given: self.given.clone() };
            let text = |network: &Network| network.text(catalogue, &Ends::of(0, network.annotations));
            if let [Ok(a), Ok(b)] = self.networks.each_ref().map(|network| read(&text(network))) {
                let small = shrink(case, &mut |case| {
                    let ran = [(&a, 0), (&b, 1)].map(|(read, which)| self.run(read, which, &case.given));
                    let [Some(ran_a), Some(ran_b)] = ran else { return false };
                    case.network == self.networks[0] && apart(&ran_a, &ran_b).is_some()
                });
                pair.given = small.given;
            }
        } else {
            pair.given.iter_mut().for_each(|given| *given = Arc::default());
        }
        let [a, b] = pair.networks.clone();
        let ends = Ends::files();
        let case = Case { network: a, given: pair.given };
        let text = b.text(catalogue, &ends);
        format!(
            "seed {seed}, pair ({:?}): {failure}\n{}\n{}--- and:\n{text}",
            self.derivation,
            judged.what,
            case.describe(catalogue)
        )
    }
}

/// The bytes and annotations of a packet, without its time stamp.
type Looks<'r> = (&'r [u8], &'r [u8]);

/// Returns, for each sink that received packets, the bytes and annotations of these packets, sorted.
fn packets(ran: &Ran) -> BTreeMap<usize, Vec<Looks<'_>>> {
    let mut all = BTreeMap::new();
    for (sink, came) in ran.came.iter().enumerate().filter(|(_, came)| !came.is_empty()) {
        let mut packets: Vec<_> =
            came.iter().map(|Came { bytes, annotations, .. }| (&bytes[..], &annotations[..])).collect();
        packets.sort_unstable();
        all.insert(sink, packets);
    }
    all
}

/// Describes the first difference between two runs in what the verifier compares: bytes, annotations and
/// sinks. `None` if there is none; order and time stamps do not count.
fn apart(a: &Ran, b: &Ran) -> Option<String> {
    let [a, b] = [a, b].map(packets);
    let sinks: BTreeSet<&usize> = a.keys().chain(b.keys()).collect();
    for sink in sinks {
        let [a, b] = [&a, &b].map(|ran| ran.get(sink).map(Vec::as_slice).unwrap_or_default());
        if a != b {
            let other = |these: &[Looks<'_>], those: &[Looks<'_>]| {
                let packet = these.iter().find(|packet| !those.contains(packet));
                packet.map_or("fewer of one".to_string(), |(bytes, beside)| {
                    format!("{} {}", hex(bytes), hex(beside))
                })
            };
            return Some(format!("at output {sink}: {} against {}", other(a, b), other(b, a)));
        }
    }
    None
}

/// True if the packets of two runs at each sink are equal except for bytes that are 00 in one run and ff in
/// the other, as in the two zeros of a checksum. The packets are compared in sorted order; annotations, time
/// stamps and the order of arrival are ignored.
fn same_but_zeros(a: &Ran, b: &Ran) -> bool {
    let [a, b] = [a, b].map(packets);
    a.len() == b.len()
        && a.iter().zip(&b).all(|((sink, a), (other, b))| {
            sink == other
                && a.len() == b.len()
                && a.iter().zip(b).all(|((a, _), (b, _))| {
                    a.len() == b.len()
                        && a.iter().zip(*b).all(|(a, b)| a == b || matches!((a, b), (0, 0xff) | (0xff, 0)))
                })
        })
}
