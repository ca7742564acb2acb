//! Proofs of synthesized programs: first each region by itself, against the elements that its program
//! replaces, then the whole chain.
//!
//! If the program of a region is not proven within its share of the time, the region keeps its elements. Each
//! region is proven alone, so elements upstream or downstream of it do not affect its proof. A region that
//! cannot be proven does not prevent programs for other regions.

use std::time::{Duration, Instant};

use ::verify::equivalence::{Comparison, Conclusion, NO_ROOM, TOO_LONG};
use lang::Graph;
use synthesizer::compose::{Region, Synthesis};
use synthesizer::insert::insert;

use crate::load::{Texts, parse};
use crate::proofs::{Kept, Key, Proofs, Tried};
use crate::reasoning::{Reasoned, of};
use crate::verify::{self, Limit};

/// The limits of all proofs of one command.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    /// The seconds for all proofs together.
    pub(crate) seconds: u64,
    /// The bytes of decision diagrams, for one proof at a time.
    pub(crate) memory: usize,
}

impl Allowed {
    /// Returns the time for all proofs together.
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
    /// The name of the element upstream of the region.
    pub(crate) from: String,
    /// The output of the element upstream of the region by which packets enter the region.
    pub(crate) output: usize,
    /// The number of elements that the program would replace.
    pub(crate) elements: usize,
    /// The reason why there is no proof.
    pub(crate) why: String,
    /// True if a proof may be found with more time or memory, or has not been searched for.
    #[serde(skip)]
    pub(crate) needs_more: bool,
}

impl Unproven {
    /// Returns a line that describes the region and the reason why it is not proven.
    pub(crate) fn describe(&self) -> String {
        let Unproven { from, output, elements, why, .. } = self;
        format!("after {from} [{output}], {elements} elements: not proven: {why}")
    }
}

/// The regions of a synthesis, divided into proven and unproven regions.
pub(crate) struct Split {
    /// The synthesis with its proven regions only.
    pub(crate) proven: Synthesis,
    /// The keys under which the proofs of the proven regions are stored.
    keys: Vec<Key>,
    /// The regions that are not proven.
    pub(crate) unproven: Vec<Unproven>,
}

impl Split {
    /// Stores refutations in place of the proofs of the proven regions, after a packet has shown that the
    /// whole synthesized chain differs from the configuration. `about` is a line that names the
    /// configuration, for users who read the stored files.
    pub(crate) fn refute(&self, proofs: &Proofs, about: &str) {
        self.keys.iter().for_each(|key| proofs.keep(key, &Kept::Refuted, about));
    }
}

/// Divides the regions of a synthesis into proven and unproven regions. Each region gets an equal share of
/// the time that is left. If no time is allowed, only stored proofs count.
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

/// Proves that the program of one region does the same as its elements, within the time `share`. Returns the
/// key under which the proof is stored, or `None` if it cannot be stored ([`Proofs::key`]). The error is the
/// reason why there is no proof.
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
        // The reason begins with the element upstream of the region. That is removed, because the message
        // about the region names the element, too.
        Finding::Undecided(why) => Err(why.replace(&format!("after {from}: "), "")),
        Finding::Different(why) => Err(why),
    }
}

/// Compares a configuration with its synthesized form `graph`, the whole chain at once, within `time`. With
/// `reasons`, packets must also be dropped for the same reasons.
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

/// The result of comparing two configurations.
pub(crate) enum Finding {
    /// The configurations do the same.
    Equivalent,
    /// The comparison has no result, for this reason.
    Undecided(String),
    /// The configurations differ, as this text shows with a packet.
    Different(String),
}

/// Finds a stored result, or else compares the pair of configurations with `search` and stores a proof or the
/// reason why there is none. A difference is not stored. An undecided search is not repeated within the same
/// or lower limits of time and memory. `about` is a line that names the configuration, and the region if one
/// region is compared, for users who read the stored files.
fn find(
    proofs: &Proofs,
    key: Option<&Key>,
    pair: [&Reasoned; 2],
    (allowed, time): (Allowed, Duration),
    about: &str,
    search: impl FnOnce([&Reasoned; 2], Limit) -> Comparison,
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
        Conclusion::Equivalent => (Finding::Equivalent, Kept::Proven),
        Conclusion::Undecided { element, reason } => {
            let why = element.map_or_else(|| reason.clone(), |element| format!("{element}: {reason}"));
            (Finding::Undecided(why.clone()), Kept::Undecided(tried, why))
        }
        Conclusion::Different(_) => {
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

/// Converts a synthesized graph to text and reads it as a configuration, as a user would.
fn read_again(reasoned: &Reasoned, graph: &Graph) -> Result<Reasoned, String> {
    let name = format!("{} (synthesized)", reasoned.loaded.name);
    let mut loaded = parse(Texts::of(&name, lang::flatten(graph)), &[], false);
    loaded.declared.clone_from(&reasoned.loaded.declared);
    of(loaded).map_err(|loaded| {
        loaded.show();
        "the synthesized configuration cannot be read".into()
    })
}
