//! `tidegate synthesize`: a configuration in which packets are taken past whole stretches of elements.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use lang::Graph;
use serde::Serialize;
use synthesizer::compose::walk::Limits;
use synthesizer::compose::{Synthesis, synthesize};
use synthesizer::insert::insert;
use synthesizer::picture::svg;
use synthesizer::report::{Report, dot};
use synthesizer::standard::standard;
use synthesizer::verify::Verdict;

use crate::check::print_or_write;
use crate::load::{Input, Loaded, parse};
use crate::reasoning::{Reasoned, Unread, of, read};
use crate::{FAILURE, switch, verify};

/// Arguments of `synthesize`.
#[derive(clap::Args)]
#[command(after_help = "\
What was composed is proven to do the same as the configuration before anything is written; where that is not found out, \
a note says so. Exit status: 0 good, 1 an error, or a difference, which is shown.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// What to write
    #[arg(long, value_enum, default_value_t = Form::Report)]
    emit: Form,
    /// Where to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Classes of packets in one stretch; with more, an element that makes many ends it
    #[arg(long, value_name = "N", default_value_t = 4096)]
    classes: usize,
    /// End stretches at translators instead of taking flows on lease from them: that is slower to run, and easier to prove
    #[arg(long)]
    no_leases: bool,
    /// With `--emit click`: use only elements that Click and FastClick have, too; no flows are leased then
    #[arg(long, conflicts_with = "behind_switch")]
    standard: bool,
    /// Seconds after which the proof is given up; 0 for no proof
    #[arg(long, value_name = "N", default_value_t = 120)]
    seconds: u64,
    #[command(flatten)]
    switch: switch::Switch,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// What was gained, in words
    Report,
    /// A configuration to run
    Click,
    /// The part that a switch can answer, as flows of OpenFlow 1.3 for `ovs-ofctl`
    Openflow,
    /// Questions and classes as a drawing, for Graphviz
    Dot,
    /// The longest way before and after, as a picture
    Svg,
    /// All of it, for programs
    Json,
}

/// What `--emit json` writes.
#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    report: Report,
    /// `equivalent`, or why that was not found out; nothing without a proof.
    proof: Option<String>,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let reasoned = match read(&args.input) {
        Ok(reasoned) => reasoned,
        Err(unread) => {
            unread.show();
            return ExitCode::from(FAILURE);
        }
    };
    let is_standard = args.standard && args.emit == Form::Click;
    let (classes, leases) = (args.classes, !args.no_leases && !is_standard);
    let limits = Limits { classes, leases, ..Limits::default() };
    let synthesis = compose(&reasoned, &limits);
    let graph = match is_standard {
        true => {
            let standard = standard(&reasoned.loaded.graph, &reasoned.chain, &synthesis, true);
            for left in standard.left {
                crate::tell(format_args!("{}: {left}", reasoned.loaded.name));
            }
            standard.graph
        }
        false => insert(&reasoned.loaded.graph, &reasoned.chain, &synthesis),
    };
    let proof = match args.seconds {
        0 => None,
        // Elsewhere nobody asks for which reason a packet is dropped.
        seconds => match prove(&reasoned, &graph, !is_standard, seconds) {
            Ok(proof) => Some(proof),
            Err(text) => {
                crate::tell(format_args!("{text}"));
                return ExitCode::from(FAILURE);
            }
        },
    };
    if let Some(why) = proof.as_ref().filter(|proof| *proof != EQUIVALENT) {
        crate::tell(format_args!("{}: not proven: {why}", reasoned.loaded.name));
    }
    let report = || Report::new(&reasoned.chain, &synthesis);
    let text = match args.emit {
        Form::Report => {
            let proven = match &proof {
                Some(proof) if proof == EQUIVALENT => "Proven to do the same as the configuration.\n",
                Some(_) => "Not proven to do the same as the configuration.\n",
                None => "",
            };
            report().describe() + proven
        }
        Form::Click if args.switch.is_in_front() => {
            lang::flatten(&args.switch.behind(&reasoned.loaded.graph, &reasoned.chain, &synthesis))
        }
        Form::Click => lang::flatten(&graph),
        Form::Openflow => match args.switch.flows(&reasoned.chain, &synthesis) {
            Ok(text) => text,
            Err(why) => {
                crate::tell(format_args!("{}: {why}", reasoned.loaded.name));
                return ExitCode::from(FAILURE);
            }
        },
        Form::Dot => dot(&reasoned.chain, &synthesis, &reasoned.loaded.name),
        Form::Svg => svg(&reasoned.chain, &synthesis),
        Form::Json => match serde_json::to_string_pretty(&Json { report: report(), proof }) {
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

/// Synthesizes a configuration that has been read.
fn compose(reasoned: &Reasoned, limits: &Limits) -> Synthesis {
    let is_pushed = |(node, output): (usize, usize)| {
        reasoned.pushed.get(node).and_then(|outputs| outputs.get(output)).copied().unwrap_or_default()
    };
    synthesize(&reasoned.chain, limits, &is_pushed)
}

/// Compares a configuration with what was made of it: equivalent, or why that was not found out. With `reasons`, packets have to
/// be dropped for the same ones. The error is a difference, in words.
fn prove(reasoned: &Reasoned, graph: &Graph, reasons: bool, seconds: u64) -> Result<String, String> {
    let name = format!("{} (synthesized)", reasoned.loaded.name);
    let other = match of(parse(name, lang::flatten(graph), None, &[], false)) {
        Ok(other) => other,
        Err(unread) => {
            unread.show();
            return Err("what was made of the configuration cannot be read".into());
        }
    };
    let pair = [reasoned, &other];
    let outcome = verify::compare(pair, reasons, seconds);
    let mut text = String::new();
    verify::describe(&mut text, pair, &outcome.verdict);
    match outcome.verdict {
        Verdict::Equivalent => Ok(EQUIVALENT.into()),
        Verdict::Different(_) => Err(text),
        Verdict::Undecided { element, reason } => {
            let element = element.map(|element| format!("{element}: ")).unwrap_or_default();
            Ok(format!("{element}{reason}"))
        }
    }
}

/// Seconds that a proof may take before a run.
const BEFORE_RUN: u64 = 20;

/// For a run: puts programs into a configuration. Says what came of it in a line.
///
/// # Errors
/// In words, if it does something else then.
pub(crate) fn put_in(loaded: &mut Loaded) -> Result<String, String> {
    let reasoned = match of(loaded.copied()) {
        Ok(reasoned) => reasoned,
        // The errors are those of the run too, which shows them.
        Err(Unread::Problems(_)) => return Ok(String::new()),
        Err(Unread::Input(text)) => return Err(text),
    };
    let synthesis = compose(&reasoned, &Limits::default());
    let graph = insert(&loaded.graph, &reasoned.chain, &synthesis);
    let proof = prove(&reasoned, &graph, true, BEFORE_RUN)?;
    loaded.graph = graph;
    let elements: std::collections::BTreeSet<usize> =
        synthesis.stretches.iter().flat_map(|stretch| stretch.passed.iter().copied()).collect();
    let proven =
        if proof == EQUIVALENT { "proven equivalent".to_string() } else { format!("not proven: {proof}") };
    let stretches = synthesis.stretches.len();
    let plural = if stretches == 1 { "" } else { "es" };
    Ok(format!("synthesized: {} elements in {stretches} stretch{plural}; {proven}", elements.len()))
}
