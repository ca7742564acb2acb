//! `tidegate synthesize`: replaces regions of a configuration by synthesized programs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;
use synthesizer::compose::walk::Limits;
use synthesizer::compose::{Region, Synthesis, synthesize};
use synthesizer::insert::insert;
use synthesizer::picture::svg;
use synthesizer::report::{Report, dot};
use synthesizer::standard::standard;

use crate::analyze::can_write;
use crate::check::print_or_write;
use crate::load::{Input, Loaded};
use crate::memory::{self, parse_diagrams};
use crate::numbers::whole;
use crate::proofs::Proofs;
use crate::prove::{self, Allowed, Finding, MOST_SECONDS, Split, Unproven};
use crate::reasoning::{Reasoned, Unread, of, read};
use crate::{FAILURE, switch};

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
    /// The most classes of packets in one region; an element that would make more ends the region
    #[arg(
        long, value_name = "N", default_value_t = 4096,
        value_parser = whole(0..=usize::MAX), allow_negative_numbers = true
    )]
    classes: usize,
    /// Make programs of all regions of four elements or more, even if a program costs more than its
    /// elements; all packets then take the programs
    #[arg(long)]
    all: bool,
    /// End regions at translators instead of leasing their flows; the result is slower, but easier to
    /// prove
    #[arg(long)]
    no_leases: bool,
    /// With `--emit click`: use only elements that Click and FastClick have, too. Translators then handle
    /// their flows themselves
    #[arg(long, conflicts_with = "behind_switch")]
    standard: bool,
    /// Put in unproven regions, too
    #[arg(long)]
    unproven: bool,
    /// Only search for proofs and keep them for later runs; write nothing else
    #[arg(long, conflicts_with_all = ["emit", "output", "unproven", "standard"])]
    prove: bool,
    /// The most seconds for all proofs together; with 0, only proofs that were kept count [default: 120,
    /// with --prove 3600]
    #[arg(long, value_name = "N", value_parser = whole(0..=MOST_SECONDS), allow_negative_numbers = true)]
    seconds: Option<u64>,
    /// The most memory for decision diagrams, such as 256M; they never use more than 900M. A size above the
    /// available memory is refused [default: 1G, at most half of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_diagrams, allow_hyphen_values = true)]
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

/// The JSON that `--emit json` writes.
#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    report: Report,
    /// Regions that are not proven. They are part of the report only with `--unproven`.
    unproven: Vec<Unproven>,
    /// The proof of the whole chain: `equivalent`, or the reason why it is undecided; `None` if only kept
    /// proofs count and there is none.
    proof: Option<String>,
}

/// The default times for proofs, in seconds: without and with `--prove`.
const SECONDS: u64 = 120;
const SECONDS_TO_PROVE: u64 = 3600;

pub(crate) fn main(args: &Args) -> ExitCode {
    if !can_write(&args.output) {
        return ExitCode::from(2);
    }
    let reasoned = match read(&args.input) {
        Ok(reasoned) => reasoned,
        Err(unread) => {
            unread.show();
            return ExitCode::from(FAILURE);
        }
    };
    let name = &reasoned.loaded.name;
    let is_standard = args.standard && args.emit == Form::Click;
    let (classes, leases) = (args.classes, !args.no_leases && !is_standard);
    // A switch, and the elements of other engines, have other costs.
    let all = args.all || is_standard || args.emit == Form::Openflow || args.switch.is_in_front();
    let limits = Limits { classes, leases, least: all.then_some(LEAST), ..Limits::default() };
    let synthesis = compose(&reasoned, &limits);
    let by_default = if args.prove { SECONDS_TO_PROVE } else { SECONDS };
    let allowed = Allowed {
        seconds: args.seconds.unwrap_or(by_default),
        memory: args.memory.unwrap_or_else(memory::for_diagrams),
    };
    let end = Instant::now() + allowed.time();
    let proofs = Proofs::of_user();
    if args.prove
        && let Err(why) = proofs.check()
    {
        crate::tell(format_args!("{why}"));
        return ExitCode::from(FAILURE);
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
    // Other engines do not report reasons for drops, so reasons are compared only without `--standard`.
    let proof = match prove::whole(&reasoned, &graph, !is_standard, (allowed, left), &proofs) {
        Finding::Equivalent => Some(EQUIVALENT.to_string()),
        Finding::Undecided(_) if allowed.seconds == 0 => None,
        Finding::Undecided(why) => Some(why),
        Finding::Different(text) => {
            split.refute(&proofs, name);
            crate::tell(format_args!("{text}"));
            return ExitCode::from(FAILURE);
        }
    };
    let is_whole = proof.as_ref().is_some_and(|proof| proof == EQUIVALENT);
    // Programs made of standard elements are proven only by the comparison of the whole chain.
    if is_standard && !is_whole && !args.unproven {
        let why = proof.as_deref().unwrap_or("there is no proof yet");
        crate::tell(format_args!("{name}: nothing is put in: not proven: {why}; --unproven puts it in"));
        return print_or_write(&lang::flatten(&reasoned.loaded.graph), args.output.as_deref());
    }
    let report = || Report::new(&reasoned.chain, &synthesis);
    let text = match args.emit {
        _ if args.prove => {
            each(&reasoned, &synthesis) + &summary(&synthesis, &unproven, proof.as_deref(), false)
        }
        Form::Report => {
            report().describe() + &summary(&synthesis, &unproven, proof.as_deref(), args.unproven)
        }
        Form::Click if args.switch.is_in_front() => {
            lang::flatten(&args.switch.behind(&reasoned.loaded.graph, &reasoned.chain, &synthesis))
        }
        Form::Click => lang::flatten(&graph),
        Form::Openflow => match args.switch.flows(&reasoned.chain, &synthesis) {
            Ok(text) => text,
            Err(why) => {
                crate::tell(format_args!("{name}: {why}"));
                return ExitCode::from(FAILURE);
            }
        },
        Form::Dot => dot(&reasoned.chain, &synthesis, name),
        Form::Svg => svg(&reasoned.chain, &synthesis),
        Form::Json => match serde_json::to_string_pretty(&Json { report: report(), unproven, proof }) {
            Ok(text) => text + "\n",
            Err(error) => {
                crate::tell(format_args!("{error}"));
                return ExitCode::from(FAILURE);
            }
        },
    };
    print_or_write(&text, args.output.as_deref())
}

const EQUIVALENT: &str = "equivalent";

/// Returns a line for each region that is put in.
fn each(reasoned: &Reasoned, synthesis: &Synthesis) -> String {
    let line = |region: &Region| {
        let from = &reasoned.chain.nodes[region.from.0].name;
        format!("after {from} [{}], {} elements: proven\n", region.from.1, region.passed.len())
    };
    synthesis.regions.iter().map(line).collect()
}

/// Returns a sentence about the proofs of the regions that are put in. `all` is true if unproven regions
/// are among them.
fn summary(synthesis: &Synthesis, unproven: &[Unproven], whole: Option<&str>, all: bool) -> String {
    let regions = synthesis.regions.len();
    let each = if regions == 1 { "The region is" } else { "Each region is" };
    match (unproven, whole) {
        ([], _) if regions == 0 => "Nothing is put in, so there is nothing to prove.\n".into(),
        _ if regions == 0 => "Nothing is put in.\n".into(),
        (_, Some(EQUIVALENT)) => "Proven to do the same as the configuration.\n".into(),
        ([_, ..], _) if all => "Not all of it is proven to do the same as the configuration.\n".into(),
        (_, Some(why)) => {
            format!("{each} proven to do the same as its elements. The whole chain was not compared: {why}\n")
        }
        (_, None) => format!("{each} proven to do the same as its elements.\n"),
    }
}

/// Synthesizes programs for a configuration that has been read.
fn compose(reasoned: &Reasoned, limits: &Limits) -> Synthesis {
    let is_pushed = |(node, output): (usize, usize)| {
        reasoned.pushed.get(node).and_then(|outputs| outputs.get(output)).copied().unwrap_or_default()
    };
    synthesize(&reasoned.chain, limits, &is_pushed)
}

/// The most seconds for proofs before a run.
const BEFORE_RUN: u64 = 20;

/// The fewest elements of a region that becomes a program whatever the program costs.
const LEAST: usize = 4;

/// The regions that become programs before a run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// Regions whose programs cost less than their elements
    Paying,
    /// Regions of four elements or more, whatever their programs cost
    All,
}

/// The outcome of putting programs into a configuration.
pub(crate) struct PutIn {
    /// A line about the programs that were put in; empty if none was tried.
    pub(crate) done: String,
    /// Lines about regions that were left out, each with a remedy.
    pub(crate) left: Vec<String>,
}

/// Puts proven programs into a configuration, before a run.
///
/// # Errors
/// If the configuration cannot be read.
pub(crate) fn insert_programs(loaded: &mut Loaded, which: Which) -> Result<PutIn, String> {
    let reasoned = match of(loaded.copied()) {
        Ok(reasoned) => reasoned,
        // The run finds the same errors and shows them.
        Err(Unread::Problems(_)) => return Ok(PutIn { done: String::new(), left: Vec::new() }),
        Err(Unread::Input(text)) => return Err(text),
    };
    let limits = Limits { least: (which == Which::All).then_some(LEAST), ..Limits::default() };
    let synthesis = compose(&reasoned, &limits);
    let proofs = Proofs::of_user();
    let allowed = Allowed { seconds: BEFORE_RUN, memory: memory::for_diagrams() };
    let Split { proven, unproven, .. } = prove::split(&reasoned, &synthesis, allowed, &proofs);
    loaded.graph = insert(&loaded.graph, &reasoned.chain, &proven);
    let passed = proven.regions.iter().flat_map(|region| region.passed.iter().copied());
    let elements: BTreeSet<usize> = passed.collect();
    let regions = proven.regions.len();
    let plural = if regions == 1 { "" } else { "es" };
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
    Ok(PutIn { done, left })
}
