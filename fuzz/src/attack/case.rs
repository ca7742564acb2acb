//! One random configuration with its packets, and what is found with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use element::effects::Depends;
use fastrand::Rng;
use lang::Graph;
use packet::PacketKind;
use synthesizer::model::chain::{Chain, Port};

use super::classes::{Catalogue, Habits};
use super::ends::Given;
use super::network::{Ends, Network};
use super::outcome::{Aspect, Broken, Difference, Ran, differences, run};
use super::packets::{Kind, traffic};
use super::programs::{Effort, Proof, Read, Synthesized, every_program, prove, read, would_run};

/// A configuration and the packets that go through it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The configuration.
    pub(super) network: Network,
    /// By source: its packets.
    pub(super) given: Vec<Arc<Vec<Given>>>,
}

/// The configurations that are held against the one as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    /// What `run --synthesize` runs.
    WouldRun,
    /// Every program that can be made, whether it is proven or not.
    EveryProgram,
}

/// What kind of failure it is. Those of one kind are shown a few times only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Label {
    /// Which configuration.
    pub(super) mode: Mode,
    /// In what it differs.
    pub(super) aspect: Aspect,
    /// With bursts of so many packets.
    pub(super) burst: usize,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mode = match self.mode {
            Mode::WouldRun => "run --synthesize",
            Mode::EveryProgram => "every program",
        };
        write!(f, "{mode}, burst {}: {:?}", self.burst, self.aspect)
    }
}

/// A difference between a configuration and the same with programs.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// Its kind.
    pub(super) label: Label,
    /// What is the case.
    pub(super) what: String,
    /// What the proof said of the programs.
    pub(super) proof: Proof,
}

/// What came of a case.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Programs in what would run, and in the configuration with every program.
    pub(super) programs: [usize; 2],
    /// Elements that packets are taken past by every program.
    pub(super) passed: usize,
    /// Whether it keeps state.
    pub(super) keeps_state: bool,
    /// What was said of what would run.
    pub(super) proof: Option<Proof>,
    /// Where two runs of the configuration as it is differ, nothing else is compared.
    pub(super) is_uncertain: bool,
    /// What was found.
    pub(super) findings: Vec<Finding>,
}

/// Classes that let several packets go at once even where these come one by one.
const AT_ONCE: [&str; 3] = ["Batcher", "Burster", "TimedUnqueue"];

/// Bursts that each case is run with.
pub(super) const BURSTS: [usize; 2] = [1, 32];

impl Case {
    /// The case of a seed, with the kinds of its packets.
    pub(super) fn random(seed: u64, catalogue: &Catalogue) -> (Case, Vec<Kind>) {
        let r = &mut Rng::with_seed(seed);
        let keeps_state = r.u8(..100) < 36;
        let network = Network::random(r, catalogue, seed, keeps_state);
        let (given, kinds) = packets_for(r, network.entries.len());
        (Case { network, given }, kinds)
    }

    /// Its configuration; sources and sinks belong to no exchange yet.
    pub(super) fn text(&self, catalogue: &Catalogue) -> String {
        self.network.text(catalogue, &Ends::of(0, self.network.annotations))
    }

    /// Runs it, as it is and with programs. With `wanted`, only as far as is needed to see that.
    ///
    /// # Errors
    /// What is wrong with the configuration as it is.
    pub(super) fn check(
        &self,
        catalogue: &Catalogue,
        effort: Effort,
        wanted: Option<Label>,
    ) -> Result<Checked, String> {
        let read = read(&self.text(catalogue))?;
        let habits: Vec<Habits> = read.effects.iter().map(Habits::of).collect();
        let is_random = habits.iter().any(|habits| habits.is_random);
        let mut checked =
            Checked { keeps_state: habits.iter().any(|habits| habits.keeps_state), ..Checked::default() };
        let bursts = BURSTS.into_iter().filter(|burst| {
            // Elements draw one after the other, so that only packets one by one draw what they would draw.
            *burst == 1 || !is_random && wanted.is_none_or(|wanted| wanted.burst == *burst)
        });
        let mut plain = Vec::new();
        for burst in bursts {
            match self.run(&read.whole, burst) {
                Ok(ran) => plain.push((burst, ran)),
                Err(Broken::Start(why)) => return Err(why),
                Err(Broken::Panic(what)) => {
                    let label = Label { mode: Mode::WouldRun, aspect: Aspect::Panic, burst };
                    checked.findings.push(Finding { label, what, proof: Proof::NotAsked });
                    return Ok(checked);
                }
            }
        }
        let runs = |mode| wanted.is_none_or(|wanted| wanted.mode == mode);
        let mut before = None;
        if runs(Mode::WouldRun) {
            let mut synthesized = would_run(&read, effort);
            checked.programs[0] = synthesized.programs;
            if synthesized.programs > 0 || synthesized.proof != Proof::Same {
                checked.proof = Some(synthesized.proof.clone());
            }
            if synthesized.programs > 0 {
                self.compare(&mut checked, &read, &plain, Mode::WouldRun, &mut synthesized, effort);
            }
            before = Some(synthesized);
        }
        if runs(Mode::EveryProgram) {
            let mut synthesized = every_program(&read);
            checked.programs[1] = synthesized.programs;
            checked.passed = synthesized.passed.len();
            let is_new = before.as_ref().is_none_or(|before| before.starts != synthesized.starts);
            if synthesized.programs > 0 && (is_new || cfg!(feature = "machine-code")) {
                self.compare(&mut checked, &read, &plain, Mode::EveryProgram, &mut synthesized, effort);
            }
        }
        Ok(checked)
    }

    /// Runs the packets through a graph of the configuration.
    ///
    /// # Errors
    /// If it does not run.
    pub(super) fn run(&self, graph: &Graph, burst: usize) -> Result<Ran, Broken> {
        let make = |number: u64| {
            let mut graph = graph.clone();
            for element in &mut graph.elements {
                if element.class.starts_with("Attack")
                    && let Some((_, rest)) = element.config.split_once(',')
                {
                    element.config = format!("{number},{rest}");
                }
            }
            graph
        };
        run(&make, &self.given, burst)
    }

    fn compare(
        &self,
        checked: &mut Checked,
        read: &Read,
        plain: &[(usize, Ran)],
        mode: Mode,
        synthesized: &mut Synthesized,
        effort: Effort,
    ) {
        let one_by_one = plain.iter().find(|(burst, _)| *burst == 1).map(|(_, plain)| plain);
        let of_bursts = plain.iter().filter(|(burst, _)| *burst > 1);
        let apart = of_bursts.filter_map(|(_, other)| Some(differences(one_by_one?, other, &self.given)));
        let batched: BTreeSet<Aspect> = apart.flatten().map(|difference| difference.aspect).collect();
        let batched: BTreeSet<Aspect> = batched
            .into_iter()
            .filter(|aspect| !matches!(aspect, Aspect::Order | Aspect::FlowOrder))
            .collect();
        let habits: Vec<Habits> = read.effects.iter().map(Habits::of).collect();
        let reorders = habits.iter().any(|habits| habits.reorders);
        // Elements that a program takes packets past still get those that it leaves to them, in other batches.
        let parts = divides(&read.chain, &BTreeSet::new());
        let divides = divides(&read.chain, &synthesized.passed);
        // In which place a packet waited, and so when it went on, depends on how packets are batched, as their order does.
        let stamps = habits.iter().any(|habits| habits.stamps) && habits.iter().any(|habits| habits.holds);
        // Who numbers packets as they come, or has room for some only, depends on their order.
        let numbers = habits.iter().filter(|habits| habits.keeps_state).count() > 1
            || read.effects.iter().any(|effects| effects.depends.contains(&Depends::Counter));
        let is_at_once = |element: &lang::Element| AT_ONCE.contains(&element.class.as_str());
        let at_once = read.whole.elements.iter().any(is_at_once);
        for (burst, plain) in plain {
            let found = match self.run(&synthesized.graph, *burst) {
                Ok(ran) => {
                    let mut found = differences(plain, &ran, &self.given);
                    // Elements deal with a burst output by output, and programs with packets as they came: what depends on
                    // how packets are batched without programs says nothing.
                    found.retain(|one| *burst == 1 || !batched.contains(&one.aspect));
                    // Packets may be in the order in which they are one by one.
                    let is_order = |one: &Difference| matches!(one.aspect, Aspect::Order | Aspect::FlowOrder);
                    if *burst > 1
                        && let Some(one_by_one) = one_by_one
                        && found.iter().any(is_order)
                    {
                        let others = differences(one_by_one, &ran, &self.given);
                        let is_too = |one: &Difference| others.iter().any(|other| other.aspect == one.aspect);
                        found.retain(|one| !is_order(one) || is_too(one));
                    }
                    if numbers && (at_once || (reorders || divides) && *burst > 1) {
                        found.retain(|one| is_order(one) || one.aspect == Aspect::Panic);
                    }
                    // Which flow finds a table full depends on which one came first.
                    let is_full = plain.overflows() || ran.overflows();
                    if is_full && parts && *burst > 1 {
                        found.retain(|one| is_order(one) || one.aspect == Aspect::Panic);
                    }
                    // What they show of the order that they make, they show of batches.
                    if reorders && *burst > 1 {
                        found.retain(|one| one.aspect != Aspect::Handlers);
                    }
                    if reorders || divides && *burst > 1 {
                        found.retain(|one| one.aspect != Aspect::Order);
                    }
                    if stamps {
                        found.retain(|one| *burst == 1 || one.aspect != Aspect::Time);
                    }
                    found
                }
                Err(Broken::Start(what)) => vec![Difference { aspect: Aspect::Start, what }],
                Err(Broken::Panic(what)) => vec![Difference { aspect: Aspect::Panic, what }],
            };
            if found.is_empty() {
                continue;
            }
            let again = self.run(&read.whole, *burst);
            if again.is_ok_and(|again| !differences(plain, &again, &self.given).is_empty()) {
                checked.is_uncertain = true;
                return;
            }
            if synthesized.proof == Proof::NotAsked {
                synthesized.proof = prove(read, &synthesized.graph, effort);
            }
            checked.findings.extend(found.into_iter().map(|Difference { aspect, what }| Finding {
                label: Label { mode, aspect, burst: *burst },
                what,
                proof: synthesized.proof.clone(),
            }));
        }
    }

    /// The whole case in words: a configuration for people, and packets in hexadecimal digits.
    pub(super) fn describe(&self, catalogue: &Catalogue) -> String {
        let mut text = self.network.text(catalogue, &Ends::files());
        for (source, given) in self.given.iter().enumerate() {
            for (number, packet) in given.iter().enumerate() {
                let burst = if number > 0 && given[number - 1].due == packet.due { "same burst" } else { "" };
                text += &format!("  in{source} at {} {burst}", packet.due);
                if packet.kind != PacketKind::Host {
                    text += &format!(" {:?}", packet.kind);
                }
                if !packet.annotations.is_empty() {
                    text += &format!(" annotations {:?}", packet.annotations);
                }
                text += &format!(": {}\n", super::outcome::hex(&packet.bytes));
            }
        }
        text
    }
}

/// Whether an element divides packets among outputs behind which they may meet, in the place of which no program does that: it sends
/// all packets of a batch for one output before those for the next one, and a program in front of it puts into one batch what elements
/// would have divided already. `passed` are the elements that packets are taken past; those that keep state still divide.
fn divides(chain: &Chain, passed: &BTreeSet<usize>) -> bool {
    let reached = |output: &[Port]| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<usize> = output.iter().map(|&(to, _)| to).collect();
        while let Some(node) = open.pop() {
            if seen.insert(node) {
                open.extend(chain.nodes[node].forward.iter().flatten().map(|&(to, _)| to));
            }
        }
        seen
    };
    chain.nodes.iter().enumerate().any(|(number, node)| {
        if passed.contains(&number) && !Habits::of(&node.effects).keeps_state {
            return false;
        }
        let all: Vec<BTreeSet<usize>> = node.forward.iter().map(|output| reached(output)).collect();
        all.iter().enumerate().any(|(at, one)| all[..at].iter().any(|other| !one.is_disjoint(other)))
    })
}

/// Packets for so many sources.
pub(super) fn packets_for(r: &mut Rng, sources: usize) -> (Vec<Arc<Vec<Given>>>, Vec<Kind>) {
    let mut kinds = Vec::new();
    let given = (0..sources).map(|source| {
        let all = traffic(r, 96 / sources, source);
        kinds.extend(all.iter().map(|(kind, _)| *kind));
        Arc::new(all.into_iter().map(|(_, given)| given).collect())
    });
    (given.collect(), kinds)
}
