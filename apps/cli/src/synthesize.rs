//! `tidegate synthesize`: replaces regions of a configuration by synthesized programs, after a proof, and
//! reports the gain or writes the result.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::ValueEnum;
use engine::{Declarations, Programs, Recomposer};
use lang::Graph;
use program::chain::{ChainNode, Port};
use program::text;
use serde::{Serialize, Serializer};
use synthesizer::compose::walk::PathLimits;
use synthesizer::compose::{Region, Synthesis, synthesize};
use synthesizer::insert::insert;
use synthesizer::picture::svg;
use synthesizer::report::{SynthesisReport, dot};
use synthesizer::standard::standard;

use crate::analyze::can_write;
use crate::check::print_or_write;
use crate::load::{Input, Loaded};
use crate::memory::{self, parse_diagrams};
use crate::numbers::{MOST_SECONDS, whole};
use crate::proofs::Proofs;
use crate::prove::{self, Allowed, Finding, Split, Unproven};
use crate::reasoning::{Reasoned, of, read};
use crate::status::Status;
use crate::switch;

/// The arguments of `synthesize`.
#[derive(clap::Args)]
#[command(after_help = "\
Each region is proven to do the same as its elements before a program replaces it; a region without a proof keeps its \
elements and is reported. Then the whole chain is compared with the configuration, if time is left. Proofs are stored \
in the folder that TIDEGATE_PROOFS names, by default tidegate/proofs in the cache folder. Exit status: 0 success, 1 \
an error, or a difference, which is shown.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Form::Report)]
    emit: Form,
    /// The file to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The most classes of packets in one region
    ///
    /// An element that would make more classes ends the region.
    #[arg(
        long, help_heading = "Regions", value_name = "N", default_value_t = 4096,
        value_parser = whole(0..=usize::MAX), allow_negative_numbers = true
    )]
    classes: usize,
    /// Make programs of all regions of four elements or more
    ///
    /// A program is made even if it costs more than its elements, and all packets take the programs.
    #[arg(long, help_heading = "Regions")]
    all: bool,
    /// End regions at translators instead of leasing their flows
    ///
    /// The result is slower, but easier to prove.
    #[arg(long, help_heading = "Regions")]
    no_leases: bool,
    /// With `--emit click`: use only elements that Click and FastClick have, too
    ///
    /// Translators then handle their flows themselves.
    #[arg(long, help_heading = "Regions", conflicts_with = "behind_switch")]
    standard: bool,
    /// Put in unproven regions, too
    #[arg(long, help_heading = "Proofs")]
    unproven: bool,
    /// Only search for proofs and keep them for later runs; write nothing else
    #[arg(long, help_heading = "Proofs", conflicts_with_all = ["emit", "output", "unproven", "standard"])]
    prove: bool,
    /// The most seconds for all proofs together [default: 120, with --prove 3600]
    ///
    /// With 0, only proofs that were kept count.
    #[arg(long, help_heading = "Proofs", value_name = "N", value_parser = whole(0..=MOST_SECONDS), allow_negative_numbers = true)]
    seconds: Option<u64>,
    /// The most memory for decision diagrams, such as 256M [default: 1G, at most half of the available
    /// memory]
    ///
    /// Diagrams never use more than 900M. A size above the available memory is refused.
    #[arg(long, value_name = "SIZE", help_heading = "Proofs", value_parser = parse_diagrams, allow_hyphen_values = true)]
    memory: Option<usize>,
    #[command(flatten)]
    switch: switch::Switch,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The gain, as text
    Report,
    /// A configuration to run
    Click,
    /// The part that a switch can do, as OpenFlow 1.3 flows for `ovs-ofctl`
    Openflow,
    /// Questions and classes as a graph, for Graphviz
    Dot,
    /// The longest path before and after, as a picture
    Svg,
    /// The whole result, as JSON for programs
    Json,
}

/// The whole result, which `--emit json` writes.
#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    report: SynthesisReport,
    /// The regions that are not proven. Only with `--unproven`, the report also counts them.
    unproven: Vec<Unproven>,
    /// The proof of the whole chain: `equivalent`, the reason why it is undecided, or null if only stored
    /// proofs count and there is none.
    proof: Proof,
}

/// The result of comparing the whole synthesized chain with the configuration.
#[derive(Debug, PartialEq, Eq)]
enum Proof {
    /// The chain and the configuration do the same.
    Equivalent,
    /// The comparison has no result, for this reason.
    Undecided(String),
    /// No time was allowed for a search, and no proof is stored.
    NotKept,
}

impl Proof {
    /// Returns the reason why the chain is not proven; empty if it is proven.
    fn reason(&self) -> &str {
        match self {
            Proof::Equivalent => "",
            Proof::Undecided(why) => why,
            Proof::NotKept => "there is no proof yet",
        }
    }
}

impl Serialize for Proof {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Proof::Equivalent => serializer.serialize_str("equivalent"),
            Proof::Undecided(why) => serializer.serialize_str(why),
            Proof::NotKept => serializer.serialize_none(),
        }
    }
}

/// The default time limits for all proofs of a command together, in seconds: `SECONDS` without `--prove`,
/// `SECONDS_TO_PROVE` with it.
const SECONDS: u64 = 120;
const SECONDS_TO_PROVE: u64 = 3600;

pub(crate) fn run(args: &Args) -> Status {
    can_write(&args.output)?;
    let reasoned = read(&args.input)?;
    let name = &reasoned.loaded.name;
    let is_standard = args.standard && args.emit == Form::Click;
    let (classes, leases) = (args.classes, !args.no_leases && !is_standard);
    // The costs of programs and elements are known for this engine only. So for a switch, or for elements of
    // Click, programs are made of all regions of at least [`LEAST`] elements, whatever they cost.
    let all = args.all || is_standard || args.emit == Form::Openflow || args.switch.is_in_front();
    let limits = PathLimits { classes, leases, least: all.then_some(LEAST), ..PathLimits::default() };
    let synthesis = compose(&reasoned, &limits);
    let by_default = if args.prove { SECONDS_TO_PROVE } else { SECONDS };
    let allowed = Allowed {
        seconds: args.seconds.unwrap_or(by_default),
        memory: args.memory.unwrap_or_else(memory::for_diagrams),
    };
    let end = Instant::now() + allowed.time();
    let proofs = Proofs::of_user();
    if args.prove {
        proofs.check()?;
    }
    let split = prove::split(&reasoned, &synthesis, allowed, &proofs);
    let (proven, unproven) = (split.proven.clone(), split.unproven.clone());
    let synthesis = if args.unproven { synthesis } else { proven };
    let verb = if args.unproven { "put in" } else { "left as they are" };
    for one in &unproven {
        crate::tell(format_args!("{name}: {verb}: {}", one.describe()));
    }
    let graph = match is_standard {
        true => {
            let standard = standard(&reasoned.loaded.graph, &reasoned.chain, &synthesis, true);
            for left in standard.left {
                crate::tell(format_args!("{name}: {left}"));
            }
            standard.graph
        }
        false => insert(&reasoned.loaded.graph, &reasoned.chain, &synthesis),
    };
    let left = end.saturating_duration_since(Instant::now());
    // Click's elements have no drop reasons, so reasons are compared only without `--standard`.
    let proof = match prove::whole(&reasoned, &graph, !is_standard, (allowed, left), &proofs) {
        Finding::Equivalent => Proof::Equivalent,
        Finding::Undecided(_) if allowed.seconds == 0 => Proof::NotKept,
        Finding::Undecided(why) => Proof::Undecided(why),
        Finding::Different(text) => {
            split.refute(&proofs, name);
            return Err(text.into());
        }
    };
    // A region's proof is about its program. With `--standard`, other elements replace the program, and only
    // the comparison of the whole chain proves them.
    if is_standard && proof != Proof::Equivalent && !args.unproven {
        let why = proof.reason();
        crate::tell(format_args!("{name}: nothing is put in: not proven: {why}; --unproven puts it in"));
        return print_or_write(&lang::flatten(&reasoned.loaded.graph), args.output.as_deref());
    }
    let report = || SynthesisReport::new(&reasoned.chain, &synthesis);
    let text = match args.emit {
        _ if args.prove => each(&reasoned, &synthesis) + &summary(&synthesis, &unproven, &proof, false),
        Form::Report => report().describe() + &summary(&synthesis, &unproven, &proof, args.unproven),
        Form::Click if args.switch.is_in_front() => {
            lang::flatten(&args.switch.behind(&reasoned.loaded.graph, &reasoned.chain, &synthesis))
        }
        Form::Click => lang::flatten(&graph),
        Form::Openflow => {
            args.switch.flows(&reasoned.chain, &synthesis).map_err(|why| format!("{name}: {why}"))?
        }
        Form::Dot => dot(&reasoned.chain, &synthesis, name),
        Form::Svg => svg(&reasoned.chain, &synthesis),
        Form::Json => {
            let json = Json { report: report(), unproven, proof };
            serde_json::to_string_pretty(&json).map_err(|error| error.to_string())? + "\n"
        }
    };
    print_or_write(&text, args.output.as_deref())
}

/// Returns the lines that `--prove` prints, one for each proven region.
fn each(reasoned: &Reasoned, synthesis: &Synthesis) -> String {
    let line = |region: &Region| {
        let from = &reasoned.chain.nodes[region.from.0].name;
        format!("after {from} [{}], {} elements: proven\n", region.from.1, region.passed.len())
    };
    synthesis.regions.iter().map(line).collect()
}

/// Returns a sentence that says what is proven about the programs that are put in. `all` is true if programs
/// of unproven regions are put in, too.
fn summary(synthesis: &Synthesis, unproven: &[Unproven], whole: &Proof, all: bool) -> String {
    let regions = synthesis.regions.len();
    let each = if regions == 1 { "The region is" } else { "Each region is" };
    match (unproven, whole) {
        ([], _) if regions == 0 => "Nothing is put in, so there is nothing to prove.\n".into(),
        _ if regions == 0 => "Nothing is put in.\n".into(),
        (_, Proof::Equivalent) => "Proven to do the same as the configuration.\n".into(),
        ([_, ..], _) if all => "Not all of it is proven to do the same as the configuration.\n".into(),
        (_, Proof::Undecided(why)) => {
            format!("{each} proven to do the same as its elements. The whole chain was not compared: {why}\n")
        }
        (_, Proof::NotKept) => format!("{each} proven to do the same as its elements.\n"),
    }
}

/// Synthesizes programs for the regions of a configuration. `limits` bounds the classes of packets in a
/// region, and says which regions are worth a program.
fn compose(reasoned: &Reasoned, limits: &PathLimits) -> Synthesis {
    let is_pushed = |(node, output): (usize, usize)| {
        reasoned.pushed.get(node).and_then(|outputs| outputs.get(output)).copied().unwrap_or_default()
    };
    synthesize(&reasoned.chain, limits, &is_pushed)
}

/// The most seconds for all proofs before a run with `--synthesize`.
const BEFORE_RUN: u64 = 20;

/// The fewest elements of a region that becomes a program, if a region becomes a program even where the
/// program costs more than the elements.
const LEAST: usize = 4;

/// The regions that become programs before a run, for `run --synthesize`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// Regions whose programs cost less than their elements
    Paying,
    /// Regions of four elements or more, whatever their programs cost
    All,
}

impl Which {
    fn limits(self) -> PathLimits {
        PathLimits { least: (self == Which::All).then_some(LEAST), ..PathLimits::default() }
    }
}

/// The outcome of putting programs into a configuration before a run.
#[derive(Default)]
pub(crate) struct PutIn {
    /// A line about the programs that were put in. Empty if the configuration has errors, so that no program
    /// was tried.
    pub(crate) done: String,
    /// A line with the reason for each region that keeps its elements, and a line with a remedy if more time
    /// or memory may give a proof.
    pub(crate) left: Vec<String>,
    /// The declarations that the programs were composed from.
    pub(crate) declarations: Declarations,
}

/// Puts programs into a configuration before a run, after a proof of each region. A configuration with
/// errors does not change.
pub(crate) fn insert_programs(loaded: &mut Loaded, which: Which) -> PutIn {
    // If the configuration has errors, no programs are put in. The build of the run finds the same errors and
    // shows them.
    let Ok(reasoned) = of(loaded.copied()) else { return PutIn::default() };
    let limits = which.limits();
    let mut synthesis = compose(&reasoned, &limits);
    for region in &mut synthesis.regions {
        region.add_outputs(&reasoned.chain, &limits);
    }
    let Split { proven, unproven, .. } = proven(&reasoned, &synthesis, &Proofs::of_user());
    loaded.graph = insert(&loaded.graph, &reasoned.chain, &proven);
    let passed = proven.regions.iter().flat_map(|region| region.passed.iter().copied());
    let elements: BTreeSet<usize> = passed.collect();
    let regions = proven.regions.len();
    let plural = if regions == 1 { "" } else { "s" };
    let done = match regions {
        0 if unproven.is_empty() && !proven.unprofitable.is_empty() => {
            "synthesized: nothing, because programs would cost more than the elements (--synthesize=all puts them in)"
                .to_string()
        }
        0 => "synthesized: nothing".to_string(),
        _ => {
            format!(
                "synthesized: {} elements in {regions} region{plural}; proven equivalent",
                elements.len()
            )
        }
    };
    let mut left: Vec<String> =
        unproven.iter().map(|one| format!("left as they are: {}", one.describe())).collect();
    if unproven.iter().any(|one| one.needs_more) {
        left.push("`tidegate synthesize --prove` takes more time for proofs, and keeps them for runs".into());
    }
    let declarations = reasoned.chain.nodes.into_iter().map(|node| (node.name, Arc::new(node.effects)));
    let declarations = declarations.collect();
    PutIn { done, left, declarations }
}

/// Finds proofs for the programs of a configuration, within the limits for programs of a run.
fn proven(reasoned: &Reasoned, synthesis: &Synthesis, proofs: &Proofs) -> Split {
    let allowed = Allowed { seconds: BEFORE_RUN, memory: memory::for_diagrams() };
    prove::split(reasoned, synthesis, allowed, proofs)
}

/// Returns the function that composes the programs of a configuration again, after handlers have changed
/// elements. `plain` is the configuration without programs, and `running` the graph with programs. `at_start`
/// are the declarations of all elements before any change: they are used again, so that elements do not read
/// their files again.
pub(crate) fn recomposer(
    plain: Loaded,
    running: Graph,
    which: Which,
    at_start: Declarations,
) -> Arc<Recomposer> {
    let plain = Mutex::new(plain);
    let compose = move |changed: &Declarations| {
        let mut plain = plain.lock().unwrap_or_else(PoisonError::into_inner).copied();
        plain.declared.clone_from(&at_start);
        plain.declared.extend(changed.iter().map(|(name, effects)| (name.clone(), Arc::clone(effects))));
        compose_again(plain, &running, which)
    };
    Arc::new(Recomposer::new(Box::new(compose)))
}

/// Composes a program with the same outputs for each region that a program of the graph `running` replaces.
/// `plain` is the configuration without programs.
fn compose_again(plain: Loaded, running: &Graph, which: Which) -> Programs {
    let is_program = |id: &usize| running.elements[*id].class == program::CLASS_NAME;
    let programs: Vec<usize> = (0..running.elements.len()).filter(is_program).collect();
    let name = |id: usize| running.elements[id].name.clone();
    let none = |why: &str| programs.iter().map(|&id| (name(id), Err(why.to_string()))).collect();
    let Ok(reasoned) = of(plain) else { return none("the configuration cannot be read any more") };
    let mut result: Programs = none("no program can replace elements here now");
    let chain = &reasoned.chain;
    let in_graph = |(node, port): Port| Some((running.find(&chain.nodes[node].name)?, port));
    let in_chain = |(id, port): Port| {
        let is_it = |node: &ChainNode| node.name == running.elements[id].name;
        Some((chain.nodes.iter().position(is_it)?, port))
    };
    let entry = |(from, output): Port| {
        let from = in_graph((from, output))?;
        let entry = running.connections.iter().find(|connection| connection.from == from)?;
        programs.contains(&entry.to.0).then_some(entry.to.0)
    };
    let outputs = |id: usize| {
        let own = running.connections.iter().filter(|connection| connection.from.0 == id);
        let mut outputs: Vec<(usize, Port)> = own.map(|own| (own.from.1, own.to)).collect();
        outputs.sort_unstable();
        outputs.into_iter().filter_map(|(_, to)| in_chain(to)).collect::<Vec<Port>>()
    };
    // With `all`, a region needs no minimum number of elements (`least`) now: a program already replaces it,
    // even if handlers have changed the branches of its elements since.
    let limits = PathLimits { least: (which == Which::All).then_some(0), ..PathLimits::default() };
    let mut synthesis = compose(&reasoned, &limits);
    for &id in &programs {
        let why = || {
            let into = running.connections.iter().find(|connection| connection.to.0 == id)?;
            let (from, output) = in_chain(into.from)?;
            let &(first, _) = chain.nodes[from].forward.get(output)?.first()?;
            Some(format!("'{}' is not replaced: {}", chain.nodes[first].name, synthesis.alone.get(&first)?))
        };
        if let Some(why) = why() {
            result.insert(name(id), Err(why));
        }
    }
    for (from, _) in &synthesis.unprofitable {
        if let Some(id) = entry(*from) {
            result.insert(name(id), Err("a program would cost more".into()));
        }
    }
    synthesis.regions.retain_mut(|region| {
        let Some(id) = entry(region.from) else { return false };
        let fits = region.set_outputs(&outputs(id));
        if !fits {
            let why = "packets would leave the program for an element that it has no output to";
            result.insert(name(id), Err(why.into()));
        }
        fits
    });
    let Split { proven, unproven, .. } = proven(&reasoned, &synthesis, &Proofs::none());
    for Unproven { from, output, why, .. } in unproven {
        let node = chain.nodes.iter().position(|node| node.name == from);
        if let Some(id) = node.and_then(|node| entry((node, output))) {
            result.insert(name(id), Err(format!("not proven: {why}")));
        }
    }
    for region in &proven.regions {
        if let Some(id) = entry(region.from) {
            result.insert(name(id), Ok(text::write(&region.program)));
        }
    }
    result
}
