//! A case of the attack: a random configuration with its packets. [`Case::check`] runs it as it is and with
//! programs in place of elements, and returns the differences between the runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use element::effects::Depends;
use fastrand::Rng;
use lang::Graph;
use packet::PacketKind;
use program::chain::{Chain, Port};

use super::classes::{Catalogue, Habits};
use super::ends::Given;
use super::network::{Ends, Network};
use super::outcome::{Aspect, Broken, Difference, Ran, differences, run};
use super::packets::{Kind, traffic};
use super::programs::{Effort, Proof, Read, Synthesized, every_program, prove, read, would_run};

/// A configuration and the packets that run through it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) network: Network,
    /// For each source of the configuration, its packets in order of time.
    pub(super) given: Vec<Arc<Vec<Given>>>,
}

/// The two synthesized forms of a configuration that are compared with the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    /// The configuration with the programs that `run --synthesize` would insert: only proven programs.
    WouldRun,
    /// The configuration with every program that can be made, whether it is proven equivalent or not.
    EveryProgram,
}

/// The kind of a failure. Failures of one kind probably have one cause, so only a few of each kind are
/// shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Label {
    /// The synthesized form that differs from the original; `WouldRun` if the original itself panics.
    pub(super) mode: Mode,
    /// The aspect of the run that differs.
    pub(super) aspect: Aspect,
    /// The maximum number of packets in a burst of this run.
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

/// A difference between the runs of a configuration and of its synthesized form, or a panic of the
/// configuration.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// The kind of failure.
    pub(super) label: Label,
    /// The difference as text: the values with and without programs.
    pub(super) what: String,
    /// The result of the proof that the synthesized form does the same as the original.
    pub(super) proof: Proof,
}

/// The result of checking a case.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The number of programs in each of the two synthesized forms of the configuration: the form that `run
    /// --synthesize` would run, and the form with every program that can be made.
    pub(super) programs: [usize; 2],
    /// The number of elements that programs bypass in the synthesized form with every program that can be
    /// made.
    pub(super) passed: usize,
    /// True if an element of the configuration keeps state that affects later packets.
    pub(super) keeps_state: bool,
    /// The result of the proof for the synthesized form that `run --synthesize` would run; `None` if no
    /// program can be made, or this form was not run.
    pub(super) proof: Option<Proof>,
    /// True if two runs of the original differ. Then differences to the synthesized form show nothing, and
    /// are not reported.
    pub(super) is_uncertain: bool,
    /// The differences between the runs, at most one per form, aspect and burst size.
    pub(super) findings: Vec<Finding>,
}

/// The classes that release several packets at once even if these have arrived one by one, so that
/// downstream of them a burst of one does not mean batches of one.
const AT_ONCE: [&str; 3] = ["Batcher", "Burster", "TimedUnqueue"];

/// The maximum numbers of packets in a burst with which cases run. Cases that draw random numbers run only
/// with bursts of one packet.
pub(super) const BURSTS: [usize; 2] = [1, 32];

impl Case {
    /// Creates the case of a seed. Also returns the kind of each packet, for the statistics.
    pub(super) fn random(seed: u64, catalogue: &Catalogue) -> (Case, Vec<Kind>) {
        let r = &mut Rng::with_seed(seed);
        let keeps_state = r.u8(..100) < 36;
        let network = Network::random(r, catalogue, seed, keeps_state);
        let (given, kinds) = packets_for(r, network.entries.len());
        (Case { network, given }, kinds)
    }

    /// Returns the text of the configuration for the synthesizer. In the arguments of its sources and sinks,
    /// 0 stands for the number that `testkit::elements::offer` gives to the packets of a test;
    /// [`run`](Self::run) replaces it.
    pub(super) fn text(&self, catalogue: &Catalogue) -> String {
        self.network.text(catalogue, &Ends::of(0, self.network.annotations))
    }

    /// Runs the case as it is and with programs, and compares the runs. With `wanted`, does only what is
    /// needed to see a failure of that kind.
    ///
    /// # Errors
    /// If the original configuration is invalid, or cannot be started: the reason.
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
            // Elements draw random numbers one after the other. Only with bursts of one packet does each
            // packet get the same number in every run.
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

    /// Runs the packets through `graph`, which is the configuration or a synthesized form, with at most
    /// `burst` packets in a burst.
    ///
    /// # Errors
    /// If the configuration cannot be started, or panics.
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
        // A program hands some packets over to the elements that it replaces. These elements still divide
        // batches of such packets among outputs, so `parts` counts replaced elements, too; `divides` does
        // not.
        let parts = divides(&read.chain, &BTreeSet::new());
        let divides = divides(&read.chain, &synthesized.passed);
        // If elements hold packets and stamp them as they leave, the time stamp of a packet depends on its
        // position among waiting packets, and so on batches.
        let stamps = habits.iter().any(|habits| habits.stamps) && habits.iter().any(|habits| habits.holds);
        // True if the state of elements depends on the order in which packets of all flows arrive. Such
        // elements give packets numbers, or have room for the state of only some flows.
        let numbers = habits.iter().filter(|habits| habits.keeps_state).count() > 1
            || read.effects.iter().any(|effects| effects.depends.contains(&Depends::Counter));
        let is_at_once = |element: &lang::GraphElement| AT_ONCE.contains(&element.class.as_str());
        let at_once = read.whole.elements.iter().any(is_at_once);
        for (burst, plain) in plain {
            let found = match self.run(&synthesized.graph, *burst) {
                Ok(ran) => {
                    let mut found = differences(plain, &ran, &self.given);
                    // Elements process a burst output by output, programs packet by packet in order of
                    // arrival. An aspect that already differs between bursts of one and of many, without
                    // programs, shows nothing.
                    found.retain(|one| *burst == 1 || !batched.contains(&one.aspect));
                    // A form with programs may keep the order of the original in bursts, or its order with
                    // bursts of one packet. Only an order that differs from both is a difference.
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
                    // The packet that finds a queue full, and the flow that finds a table full, depend on the
                    // order of arrival, and so on batches.
                    let is_full = plain.overflows() || ran.overflows();
                    if is_full && parts && *burst > 1 {
                        found.retain(|one| is_order(one) || one.aspect == Aspect::Panic);
                    }
                    // Handlers of elements that reorder packets may show the order of arrival, which
                    // depends on batches.
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

    /// Describes the case for people: the configuration with captures at its ends, and each packet with its
    /// time, source and bytes in hexadecimal.
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

/// True if an element divides the packets of a batch among outputs that meet again downstream, so that the
/// order of packets depends on batches. Such an element sends all packets of a batch for one output before
/// all packets for the next. A program upstream of it may put packets into one batch that elements would
/// have divided. The elements `passed`, which programs bypass, do not count, unless they keep state.
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

/// Creates 96 packets, divided among the sources. Returns the packets of each source, and the kinds of all
/// packets.
pub(super) fn packets_for(r: &mut Rng, sources: usize) -> (Vec<Arc<Vec<Given>>>, Vec<Kind>) {
    let mut kinds = Vec::new();
    let given = (0..sources).map(|source| {
        let all = traffic(r, 96 / sources, source);
        kinds.extend(all.iter().map(|(kind, _)| *kind));
        Arc::new(all.into_iter().map(|(_, given)| given).collect())
    });
    (given.collect(), kinds)
}
