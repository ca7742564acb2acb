//! Proofs of what was synthesized: each stretch by itself, against its own elements, and then the whole chain.
//!
//! A stretch whose program is not proven within its share of the time stays as it is. So nothing that stands in front of it, or
//! behind, is in the way of its proof, and one that is out of reach costs no other one its program.

use std::time::{Duration, Instant};

use lang::Graph;
use synthesizer::compose::{Stretch, Synthesis};
use synthesizer::insert::insert;
use synthesizer::verify::{Outcome, Verdict};

use crate::load::parse;
use crate::proofs::{Kept, Proofs};
use crate::reasoning::{Reasoned, of};
use crate::verify::{self, Limit};

/// What proofs may take.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    pub(crate) time: Duration,
    /// Bytes of decision diagrams.
    pub(crate) memory: usize,
}

/// A stretch whose program is not proven.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Unproven {
    /// The element that it begins behind.
    pub(crate) from: String,
    /// The output of this element.
    pub(crate) output: usize,
    /// Elements that packets would be taken past.
    pub(crate) elements: usize,
    /// Why there is no proof.
    pub(crate) why: String,
}

impl Unproven {
    /// In words.
    pub(crate) fn describe(&self) -> String {
        let Unproven { from, output, elements, why } = self;
        format!("behind {from} [{output}], {elements} elements: not proven: {why}")
    }
}

/// What was found out about stretches.
pub(crate) struct Parted {
    /// The same synthesis with stretches that are proven only.
    pub(crate) proven: Synthesis,
    /// The others.
    pub(crate) unproven: Vec<Unproven>,
}

/// Parts stretches by whether they are proven. Each one has a share of the time; with none, only kept proofs count.
pub(crate) fn part(reasoned: &Reasoned, synthesis: &Synthesis, allowed: Allowed, proofs: &Proofs) -> Parted {
    let end = Instant::now() + allowed.time;
    let mut parted =
        Parted { proven: Synthesis { stretches: Vec::new(), ..synthesis.clone() }, unproven: Vec::new() };
    for (number, stretch) in synthesis.stretches.iter().enumerate() {
        let left = (synthesis.stretches.len() - number) as u32;
        let share = end.saturating_duration_since(Instant::now()) / left;
        let allowed = Allowed { time: share, ..allowed };
        match prove(reasoned, synthesis, stretch, allowed, proofs) {
            Ok(()) => parted.proven.stretches.push(stretch.clone()),
            Err(why) => parted.unproven.push(Unproven {
                from: reasoned.chain.nodes[stretch.from.0].name.clone(),
                output: stretch.from.1,
                elements: stretch.passed.len(),
                why,
            }),
        }
    }
    parted
}

/// The error is why it is not proven.
fn prove(
    reasoned: &Reasoned,
    synthesis: &Synthesis,
    stretch: &Stretch,
    allowed: Allowed,
    proofs: &Proofs,
) -> Result<(), String> {
    let alone = Synthesis { stretches: vec![stretch.clone()], ..synthesis.clone() };
    let other = read_again(reasoned, &insert(&reasoned.loaded.graph, &reasoned.chain, &alone))?;
    let about = format!("{} behind {}", reasoned.loaded.name, reasoned.chain.nodes[stretch.from.0].name);
    let pair = [reasoned, &other];
    match find(proofs, "stretch", pair, allowed, &about, verify::compare_programs) {
        Finding::Equivalent => Ok(()),
        Finding::Undecided(why) | Finding::Different(why) => Err(why),
    }
}

/// Compares a configuration with what was made of it. With `reasons`, packets have to be dropped for the same ones.
pub(crate) fn whole(
    reasoned: &Reasoned,
    graph: &Graph,
    reasons: bool,
    allowed: Allowed,
    proofs: &Proofs,
) -> Finding {
    let kind = if reasons { "chain with reasons" } else { "chain" };
    match read_again(reasoned, graph) {
        Ok(other) => find(proofs, kind, [reasoned, &other], allowed, &reasoned.loaded.name, |pair, limit| {
            verify::compare(pair, reasons, limit)
        }),
        Err(why) => Finding::Undecided(why),
    }
}

/// What a comparison came to.
pub(crate) enum Finding {
    /// Both do the same.
    Equivalent,
    /// That was not found out, for this reason.
    Undecided(String),
    /// They do not, in words with a packet.
    Different(String),
}

/// A kept proof, or one that is searched for now and kept. What was not found out in no less time is not tried again.
fn find(
    proofs: &Proofs,
    kind: &str,
    pair: [&Reasoned; 2],
    allowed: Allowed,
    about: &str,
    search: impl FnOnce([&Reasoned; 2], Limit) -> Outcome,
) -> Finding {
    let Allowed { time, memory } = allowed;
    let key = proofs.key(kind, pair);
    match key.as_ref().and_then(|key| proofs.find(key)) {
        Some(Kept::Proven) => return Finding::Equivalent,
        Some(Kept::Undecided(tried, why)) if tried >= time => return Finding::Undecided(why),
        _ if time.is_zero() => return Finding::Undecided("there is no proof yet".into()),
        _ => {}
    }
    let verdict = search(pair, Limit { end: Instant::now() + time, memory }).verdict;
    let (finding, kept) = match verdict {
        Verdict::Equivalent => (Finding::Equivalent, Kept::Proven),
        Verdict::Undecided { element, reason } => {
            let why = element.map_or_else(|| reason.clone(), |element| format!("{element}: {reason}"));
            (Finding::Undecided(why.clone()), Kept::Undecided(time, why))
        }
        Verdict::Different(_) => {
            let mut text = String::new();
            verify::describe(&mut text, pair, &verdict);
            return Finding::Different(text);
        }
    };
    if let Some(key) = &key {
        proofs.keep(key, &kept, about);
    }
    finding
}

/// What was made of a configuration, read as a configuration of its own.
fn read_again(reasoned: &Reasoned, graph: &Graph) -> Result<Reasoned, String> {
    let name = format!("{} (synthesized)", reasoned.loaded.name);
    of(parse(name, lang::flatten(graph), None, &[], false)).map_err(|unread| {
        unread.show();
        "what was made of the configuration cannot be read".into()
    })
}
