//! Pairs of chains for the verifier: what it says is held against running packets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use element::Timestamp;
use fastrand::Rng;
use synthesizer::verify::example::Example;
use synthesizer::verify::run::kind_of;
use synthesizer::verify::{Difference, Verdict};

use super::case::{Case, packets_for};
use super::classes::{Catalogue, Context, Habits, next};
use super::ends::{Came, Given};
use super::network::{Element, Ends, Network, Next};
use super::outcome::{Ran, hex};
use super::overran;
use super::packets::START;
use super::programs::{Effort, Read, compare, read};
use super::shrink::shrink;

/// How the second chain came from the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kin {
    /// With elements that do nothing.
    Padded,
    /// One element has other arguments, or is another one.
    Changed,
    /// One element is missing.
    Removed,
    /// Two neighbours have changed places.
    Exchanged,
    /// A random element more.
    Longer,
    /// Another one.
    Stranger,
}

/// Two chains, and packets for both.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    kin: Kin,
    networks: [Network; 2],
    given: Vec<Arc<Vec<Given>>>,
}

/// What the verifier said of a pair, and what running it shows.
#[derive(Debug)]
pub(super) struct Judged {
    kin: Kin,
    /// Whether a packet of the traffic tells the chains apart.
    differs: bool,
    said: Said,
    overran: bool,
    /// What is wrong with the verdict.
    failure: Option<&'static str>,
    what: String,
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Same,
    Different,
    Undecided,
    /// It is no pair of configurations, or depends on chance.
    Left,
}

/// Counts of verdicts.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// Pairs.
    pub(super) pairs: u64,
    /// By how the chains are related, whether packets show a difference, and verdict.
    counts: BTreeMap<(Kin, bool, Said), u64>,
    /// Those that took far longer than they were to.
    pub(super) overran: u64,
    /// Failures by kind: how many pairs, and the first seeds.
    pub(super) failures: BTreeMap<String, (u64, Vec<u64>)>,
}

impl Verdicts {
    /// Counts a pair. Gives its failure.
    pub(super) fn add(&mut self, seed: u64, judged: Judged) -> Option<&'static str> {
        self.pairs += 1;
        self.overran += u64::from(judged.overran);
        *self.counts.entry((judged.kin, judged.differs, judged.said)).or_default() += 1;
        let failure = judged.failure?;
        let (times, seeds) = self.failures.entry(format!("verify: {failure}")).or_default();
        *times += 1;
        if seeds.len() < 8 {
            seeds.push(seed);
        }
        Some(failure)
    }

    /// Rows of a table.
    pub(super) fn table(&self, row: &mut dyn FnMut(&str, String)) {
        row("pairs", self.pairs.to_string());
        for ((kin, differs, said), times) in &self.counts {
            let seen = if *differs { "differ" } else { "no packet differs" };
            row(&format!("  {kin:?}, {seen}"), format!("{said:?}: {times}"));
        }
        row("  more than twice the time and two seconds", self.overran.to_string());
    }
}

const EQUIVALENT: &str = "equivalent, and a packet differs";
const EXAMPLE: &str = "different, and its packet does not differ";
const FALSE: &str = "different, and nothing was changed";

impl Pair {
    /// The pair of a seed.
    pub(super) fn random(seed: u64, catalogue: &Catalogue) -> Pair {
        let r = &mut Rng::with_seed(seed ^ 0x7061_6972);
        let keeps_state = r.u8(..4) == 0;
        let a = Network::random(r, catalogue, seed, keeps_state);
        let mut b = a.clone();
        let kin = match r.u8(..12) {
            0..=3 => Kin::Padded,
            4 | 5 => Kin::Changed,
            6 | 7 => Kin::Removed,
            8 => Kin::Exchanged,
            9 | 10 => Kin::Longer,
            _ => Kin::Stranger,
        };
        let at = r.usize(..b.nodes.len());
        match kin {
            Kin::Padded => {
                for _ in 0..r.usize(1..4) {
                    let class = if r.bool() { "Null" } else { "Counter" };
                    let at = r.usize(..b.nodes.len());
                    let element =
                        Element { class: class.into(), config: String::new(), inputs: 1, outputs: 1 };
                    let output = r.usize(..b.nodes[at].to.len());
                    b.insert(at, output, element);
                }
            }
            Kin::Changed => {
                let mut element = next(r, catalogue, &mut Context { marked: true, ..Context::default() });
                for _ in 0..200 {
                    // Another one of the class, if there is one.
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
            Kin::Removed => b = b.bypassed(at).unwrap_or(b),
            Kin::Exchanged => {
                if let [Next::Element(next, 0)] = b.nodes[at].to[..]
                    && b.nodes[next].to.len() == 1
                {
                    let element = b.nodes[at].element.clone();
                    b.nodes[at].element = std::mem::replace(&mut b.nodes[next].element, element);
                }
            }
            Kin::Longer => {
                let output = r.usize(..b.nodes[at].to.len());
                let element = next(r, catalogue, &mut Context { marked: true, ..Context::default() });
                b.insert(at, output, element);
            }
            Kin::Stranger => {
                b = Network::random(r, catalogue, seed + 1, keeps_state);
                b.annotations = a.annotations;
            }
        }
        let (given, _) = packets_for(r, a.entries.len());
        Pair { kin, networks: [a, b], given }
    }

    fn run(&self, read: &Read, which: usize, given: &[Arc<Vec<Given>>]) -> Option<Ran> {
        let case = Case { network: self.networks[which].clone(), given: given.to_vec() };
        case.run(&read.whole, 1).ok()
    }

    /// Asks the verifier, and runs packets.
    pub(super) fn check(&self, catalogue: &Catalogue, effort: Effort) -> Judged {
        let mut judged = Judged {
            kin: self.kin,
            differs: false,
            said: Said::Left,
            overran: false,
            failure: None,
            what: String::new(),
        };
        let text = |network: &Network| network.text(catalogue, &Ends::of(0, network.annotations));
        let [Ok(a), Ok(b)] = self.networks.each_ref().map(|network| read(&text(network))) else {
            return judged;
        };
        let depends = |read: &Read| read.effects.iter().any(|effects| Habits::of(effects).is_random);
        // What draws lots may do otherwise each time.
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
            Verdict::Equivalent => {
                judged.said = Said::Same;
                // It says when it takes both zeros of a checksum for one, and queues for never full.
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
            Verdict::Different(Difference::Entry(_, entry)) => {
                // An element that makes packets by itself may be what was changed.
                judged.said = Said::Different;
                judged.what = format!("an entry {entry}");
                judged.failure = (self.kin == Kin::Padded).then_some(FALSE);
            }
            Verdict::Different(Difference::Packet { entry, example, what }) => {
                judged.said = Said::Different;
                judged.what = format!("{what}: {example:?}");
                // No packet can be put in the place of those that an element makes by itself.
                let source =
                    a.chain.nodes[entry[0]].name.strip_prefix("in").and_then(|name| name.parse().ok());
                let one = source.map(|source| self.alone(&example, source));
                let ran = [(&a, 0), (&b, 1)].map(|(read, which)| self.run(read, which, one.as_ref()?));
                if let [Some(ran_a), Some(ran_b)] = ran
                    && super::pairs::apart(&ran_a, &ran_b).is_none()
                {
                    judged.failure = Some(EXAMPLE);
                }
                if self.kin == Kin::Padded {
                    judged.failure = Some(FALSE);
                }
            }
            Verdict::Undecided { element, reason } => {
                judged.said = Said::Undecided;
                judged.what = format!("{}: {reason}", element.unwrap_or_default());
            }
        }
        judged
    }

    /// An example as the only packet.
    fn alone(&self, example: &Example, source: usize) -> Vec<Arc<Vec<Given>>> {
        let packet = Given {
            due: Timestamp(START),
            time: Timestamp(START),
            bytes: example.bytes.clone(),
            kind: kind_of(example.kind),
            annotations: example.annotations.clone(),
        };
        let sources = 0..self.given.len();
        sources
            .map(|number| Arc::new(if number == source { vec![packet.clone()] } else { Vec::new() }))
            .collect()
    }

    /// A failure in words; the packets that show it are made few.
    pub(super) fn show(&self, catalogue: &Catalogue, effort: Effort, failure: &str, seed: u64) -> String {
        let judged = self.check(catalogue, effort);
        let mut pair = self.clone();
        if judged.failure == Some(EQUIVALENT) {
            // Only packets: what the verifier says does not depend on them.
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
            self.kin,
            judged.what,
            case.describe(catalogue)
        )
    }
}

/// Bytes and annotations of a packet.
type Looks<'r> = (&'r [u8], &'r [u8]);

/// By sink: packets, in any order, without their time stamps.
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

/// In what two runs differ as far as the verifier looks.
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

/// Whether nothing differs but words that are zero in one and all ones in the other.
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
