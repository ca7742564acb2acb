//! Proofs of synthesized programs: each region by itself, against its own elements, and then the whole
//! chain.
//!
//! A region whose program is not proven within its share of the time stays as it is. So elements upstream
//! or downstream of a region do not affect its proof, and a region that cannot be proven does not prevent
//! programs for other regions.

use std::time::{Duration, Instant};

use ::verify::equivalence::{NO_ROOM, Outcome, TOO_LONG, Verdict};
use lang::Graph;
use synthesizer::compose::{Region, Synthesis};
use synthesizer::insert::insert;

use crate::load::{Texts, parse};
use crate::proofs::{Kept, Key, Proofs, Tried};
use crate::reasoning::{Reasoned, of};
use crate::verify::{self, Limit};

/// The limits of all proofs of a command.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    /// The seconds for all proofs together.
    pub(crate) seconds: u64,
    /// The bytes of decision diagrams, for one proof at a time.
    pub(crate) memory: usize,
}

impl Allowed {
    /// Returns the time for all proofs.
    pub(crate) fn time(self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn tried(self) -> Tried {
        Tried { seconds: self.seconds, memory: self.memory }
    }
}

/// A region whose program is not proven.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Unproven {
    /// The element upstream of the region.
    pub(crate) from: String,
    /// The output of this element.
    pub(crate) output: usize,
    /// The number of elements that the program would replace.
    pub(crate) elements: usize,
    /// The reason why there is no proof.
    pub(crate) why: String,
    /// True if a proof may be found with more time or memory.
    #[serde(skip)]
    pub(crate) needs_more: bool,
}

impl Unproven {
    /// Describes the region in a line.
    pub(crate) fn describe(&self) -> String {
        let Unproven { from, output, elements, why, .. } = self;
        format!("after {from} [{output}], {elements} elements: not proven: {why}")
    }
}

/// Regions, divided by whether they are proven.
pub(crate) struct Split {
    /// The synthesis with proven regions only.
    pub(crate) proven: Synthesis,
    /// The keys of their proofs.
    keys: Vec<Key>,
    /// The regions that are not proven.
    pub(crate) unproven: Vec<Unproven>,
}

impl Split {
    /// Refutes the kept proofs of these regions, after a packet has shown that the whole chain differs.
    pub(crate) fn refute(&self, proofs: &Proofs, about: &str) {
        self.keys.iter().for_each(|key| proofs.keep(key, &Kept::Refuted, about));
    }
}

/// Divides regions by whether they are proven. Each region gets a share of the time; without any time, only
/// kept proofs count.
pub(crate) fn split(reasoned: &Reasoned, synthesis: &Synthesis, allowed: Allowed, proofs: &Proofs) -> Split {
    let end = Instant::now() + allowed.time();
    let proven = Synthesis { regions: Vec::new(), ..synthesis.clone() };
    let mut split = Split { proven, keys: Vec::new(), unproven: Vec::new() };
    for (number, region) in synthesis.regions.iter().enumerate() {
        let left = (synthesis.regions.len() - number) as u32;
        let share = end.saturating_duration_since(Instant::now()) / left;
        match prove(reasoned, synthesis, region, (allowed, share), proofs) {
            Ok(key) => {
                split.proven.regions.push(region.clone());
                split.keys.extend(key);
            }
            Err(why) => split.unproven.push(Unproven {
                from: reasoned.chain.nodes[region.from.0].name.clone(),
                output: region.from.1,
                elements: region.passed.len(),
                needs_more: [TOO_LONG, NO_ROOM, NO_PROOF].iter().any(|limit| why.contains(limit)),
                why,
            }),
        }
    }
    split
}

const NO_PROOF: &str = "there is no proof yet";

/// Proves one region. The error is the reason why there is no proof.
fn prove(
    reasoned: &Reasoned,
    synthesis: &Synthesis,
    region: &Region,
    (allowed, share): (Allowed, Duration),
    proofs: &Proofs,
) -> Result<Option<Key>, String> {
    let alone = Synthesis { regions: vec![region.clone()], ..synthesis.clone() };
    let other = read_again(reasoned, &insert(&reasoned.loaded.graph, &reasoned.chain, &alone))?;
    let from = &reasoned.chain.nodes[region.from.0].name;
    let about = format!("{} after {from}", reasoned.loaded.name);
    let pair = [reasoned, &other];
    let key = proofs.key("region", pair);
    match find(proofs, key.as_ref(), pair, (allowed, share), &about, verify::compare_programs) {
        Finding::Equivalent => Ok(key),
        // The message about the region begins with the place, so the reason does not repeat it.
        Finding::Undecided(why) => Err(why.replace(&format!("after {from}: "), "")),
        Finding::Different(why) => Err(why),
    }
}

/// Compares a configuration with the synthesized one. With `reasons`, packets have to be dropped for the
/// same reasons.
pub(crate) fn whole(
    reasoned: &Reasoned,
    graph: &Graph,
    reasons: bool,
    (allowed, time): (Allowed, Duration),
    proofs: &Proofs,
) -> Finding {
    let other = match read_again(reasoned, graph) {
        Ok(other) => other,
        Err(why) => return Finding::Undecided(why),
    };
    let pair = [reasoned, &other];
    let key = proofs.key(if reasons { "chain with reasons" } else { "chain" }, pair);
    find(proofs, key.as_ref(), pair, (allowed, time), &reasoned.loaded.name, |pair, limit| {
        verify::compare(pair, reasons, limit)
    })
}

/// The outcome of a comparison.
pub(crate) enum Finding {
    /// The configurations do the same.
    Equivalent,
    /// The comparison has no result, for this reason.
    Undecided(String),
    /// The configurations differ, as this text shows with a packet.
    Different(String),
}

/// Finds a kept proof, or searches for a proof and keeps it. An undecided search is not repeated within the
/// same limits.
fn find(
    proofs: &Proofs,
    key: Option<&Key>,
    pair: [&Reasoned; 2],
    (allowed, time): (Allowed, Duration),
    about: &str,
    search: impl FnOnce([&Reasoned; 2], Limit) -> Outcome,
) -> Finding {
    let tried = allowed.tried();
    match key.and_then(|key| proofs.find(key)) {
        Some(Kept::Proven) => return Finding::Equivalent,
        Some(Kept::Refuted) => {
            return Finding::Undecided("a packet shows that its result differs".into());
        }
        Some(Kept::Undecided(before, why)) if before.is_enough_for(tried) => return Finding::Undecided(why),
        _ if time.is_zero() => return Finding::Undecided(NO_PROOF.into()),
        _ => {}
    }
    let verdict = search(pair, Limit { end: Instant::now() + time, memory: allowed.memory }).verdict;
    let (finding, kept) = match verdict {
        Verdict::Equivalent => (Finding::Equivalent, Kept::Proven),
        Verdict::Undecided { element, reason } => {
            let why = element.map_or_else(|| reason.clone(), |element| format!("{element}: {reason}"));
            (Finding::Undecided(why.clone()), Kept::Undecided(tried, why))
        }
        Verdict::Different(_) => {
            let mut text = String::new();
            verify::describe(&mut text, pair, &verdict);
            return Finding::Different(text);
        }
    };
    if let Some(key) = key {
        proofs.keep(key, &kept, about);
    }
    finding
}

/// Reads a synthesized graph as a configuration.
fn read_again(reasoned: &Reasoned, graph: &Graph) -> Result<Reasoned, String> {
    let name = format!("{} (synthesized)", reasoned.loaded.name);
    let loaded = parse(Texts::of(&name, lang::flatten(graph)), &[], false);
    of(loaded).map_err(|loaded| {
        loaded.show();
        "the synthesized configuration cannot be read".into()
    })
}
