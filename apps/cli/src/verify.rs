//! `tidegate verify`: proves that two configurations do the same, or finds a packet that shows a
//! difference.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lang::Severity;
use packet::PacketKind;
use program::chain::Chain;
use verify::equivalence::{self, Companion, Comparison, Conclusion, Difference};
use verify::example::Example;
use verify::model::diagrams::nodes_in;
use verify::run::{ChainExit, exits};

use crate::example::{self, Ran};
use crate::load::{Input, Loaded, check_values};
use crate::memory::{self, parse_diagrams};
use crate::numbers::{MOST_SECONDS, whole};
use crate::reasoning::{Reasoned, of};
use crate::status::{Failure, Status};
use crate::{packets, print};

/// The arguments of `verify`.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: 0 equivalent, 1 different, 2 an error, 3 undecided.

Entries and exits correspond by name, else by class and arguments. Entries may give any packet; queues are never \
full; time and the order of packets are not compared. No interface or file is opened: a packet that shows a \
difference is run through both configurations with their ends replaced.")]
pub(crate) struct Args {
    /// The first configuration, or a chain of several (`.prop`)
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second configuration, or a chain
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Values for parameters of both configurations
    #[arg(value_name = "NAME=VALUE")]
    defines: Vec<String>,
    /// Require that dropped packets are dropped for the same reason
    #[arg(long)]
    reasons: bool,
    /// The number of seconds after which the result is undecided
    #[arg(
        long, value_name = "N", default_value_t = 120,
        value_parser = whole(0..=MOST_SECONDS), allow_negative_numbers = true
    )]
    seconds: u64,
    /// The most memory for decision diagrams, such as 256M [default: 1G, at most half of the available
    /// memory]
    ///
    /// Diagrams never use more than 900M. A size above the available memory is refused.
    #[arg(long, value_name = "SIZE", value_parser = parse_diagrams, allow_hyphen_values = true)]
    memory: Option<usize>,
}

/// The exit status if a configuration has an error, or if any other error prevents the comparison.
const ERROR: u8 = 2;
/// The exit status if the comparison has no result within its time and memory.
const UNDECIDED: u8 = 3;

pub(crate) fn run(args: &Args) -> Status {
    let (a, b) = read_both(args).map_err(|failure| failure.with_status(ERROR))?;
    let pair = [&a, &b];
    let outcome = compare(
        pair,
        args.reasons,
        Limit::of(args.seconds, args.memory.unwrap_or_else(memory::for_diagrams)),
    );
    let mut text = String::new();
    let status = describe(&mut text, pair, &outcome.verdict);
    for reasoned in pair {
        for class in &reasoned.unknown {
            let name = &reasoned.loaded.name;
            let note = format!("note: {name}: there is no class {class} here; what it does is not known\n");
            if !text.contains(&note) {
                text.push_str(&note);
            }
        }
    }
    for assumption in &outcome.assumptions {
        let _ = writeln!(text, "assumed: {assumption}");
    }
    print(&text)?;
    Ok(status)
}

/// Reads both configurations. Each value on the command line must be for a parameter of at least one of
/// them.
fn read_both(args: &Args) -> Result<(Reasoned, Reasoned), Failure> {
    let input = |file: &PathBuf| Input {
        file: Some(file.clone()),
        defines: args.defines.clone(),
        ..Input::default()
    };
    let load = |file| {
        let input = input(file);
        Ok::<_, Failure>((input.load_with_any_values(false)?, input.values()?))
    };
    let ((mut a, values), (b, _)) = (load(&args.a)?, load(&args.b)?);
    let mut parameters = a.graph.parameters.clone();
    parameters.extend(&b.graph.parameters);
    check_values(&mut a, &values, &parameters, Severity::Error);
    let of = |loaded| of(loaded).map_err(Loaded::into_failure);
    Ok((of(a)?, of(b)?))
}

/// The limits of one comparison of two configurations.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// The time at which the comparison ends without a result.
    pub(crate) end: Instant,
    /// The most bytes of decision diagrams.
    pub(crate) memory: usize,
}

impl Limit {
    fn of(seconds: u64, memory: usize) -> Limit {
        Limit { end: Instant::now() + Duration::from_secs(seconds), memory }
    }
}

/// Compares two configurations as wholes, and shows progress on a terminal. With `reasons`, packets must
/// also be dropped for the same reasons.
pub(crate) fn compare(pair: [&Reasoned; 2], reasons: bool, limit: Limit) -> Comparison {
    let options = equivalence::Options { reasons, deadline: Some(limit.end) };
    let nodes = Some(nodes_in(limit.memory));
    watched(pair, limit.end, |chains, watcher| equivalence::verify(chains, options, nodes, watcher))
}

/// Compares each program in the second configuration with the elements of the first configuration that it
/// replaces.
pub(crate) fn compare_programs(pair: [&Reasoned; 2], limit: Limit) -> Comparison {
    let options = equivalence::Options { reasons: true, deadline: Some(limit.end) };
    let nodes = Some(nodes_in(limit.memory));
    watched(pair, limit.end, |chains, watcher| equivalence::verify_programs(chains, options, nodes, watcher))
}

fn watched(
    pair: [&Reasoned; 2],
    end: Instant,
    compare: impl FnOnce([&Chain; 2], &mut dyn Companion) -> Comparison,
) -> Comparison {
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(100));
    let mut watcher = Watcher { pair, progress: &progress, end };
    let outcome = compare(pair.map(|reasoned| &reasoned.chain), &mut watcher);
    progress.finish_and_clear();
    outcome
}

struct Watcher<'w> {
    pair: [&'w Reasoned; 2],
    progress: &'w ProgressBar,
    /// The time after which no example packet is run any more.
    end: Instant,
}

impl Companion for Watcher<'_> {
    fn progress(&mut self, chain: usize, element: &str) {
        self.progress.set_message(format!("{}: {element}", self.pair[chain].loaded.name));
    }

    fn differs(&mut self, entry: [usize; 2], example: &Example, reasons: bool) -> Option<bool> {
        // Handlers have changed elements if there are recorded declarations. An example run would use the
        // elements as their arguments describe them, so no example is run.
        if self.pair.iter().any(|reasoned| !reasoned.loaded.declared.is_empty()) {
            return None;
        }
        self.progress.set_message("running an example".to_string());
        let exits = exits(self.pair.map(|reasoned| &reasoned.chain));
        let a = example::run(self.pair[0], entry[0], example, &exits[0], self.end)?;
        let b = example::run(self.pair[1], entry[1], example, &exits[1], self.end)?;
        Some(a.out != b.out || reasons && a.reasons() != b.reasons())
    }
}

/// Writes the verdict of a comparison in words, with the packet that shows a difference. Returns the exit
/// status.
pub(crate) fn describe(text: &mut String, pair: [&Reasoned; 2], verdict: &Conclusion) -> u8 {
    let [a, b] = pair.map(|reasoned| reasoned.loaded.name.as_str());
    let _ = match verdict {
        Conclusion::Equivalent => writeln!(text, "{a} and {b} are equivalent"),
        Conclusion::Different(Difference::Entry(chain, entry)) => {
            let (with, without) = if *chain == 0 { (a, b) } else { (b, a) };
            writeln!(text, "{a} and {b} are different: {without} has no entry like '{entry}' of {with}")
        }
        Conclusion::Different(Difference::Packet { entry, example, what }) => {
            let _ = writeln!(text, "{a} and {b} are different: {what}\n");
            let packet = packets::describe(&example.bytes, PacketKind::from_number(example.kind));
            let _ = writeln!(text, "A packet into '{}': {packet}", pair[0].chain.nodes[entry[0]].title());
            annotations(text, example.annotations.iter().copied());
            dump(text, &example.bytes, &[]);
            let exits = exits(pair.map(|reasoned| &reasoned.chain));
            for ((reasoned, entry), exits) in pair.into_iter().zip(entry).zip(&exits) {
                let _ = writeln!(text, "\n{}:", reasoned.loaded.name);
                // The run of an example packet takes at most a second. It is shown even if the time for the
                // comparison is over.
                let end = Instant::now() + Duration::from_secs(60);
                match example::run(reasoned, *entry, example, exits, end) {
                    Some(ran) => show(text, &ran, &example.bytes, exits),
                    None => text.push_str("  cannot be run here\n"),
                }
            }
            Ok(())
        }
        Conclusion::Undecided { element, reason } => {
            let element = element.as_ref().map(|element| format!("{element}: ")).unwrap_or_default();
            writeln!(text, "undecided: {element}{reason}")
        }
    };
    match verdict {
        Conclusion::Equivalent => 0,
        Conclusion::Different(_) => 1,
        Conclusion::Undecided { .. } => UNDECIDED,
    }
}

fn show(text: &mut String, ran: &Ran, before: &[u8], exits: &BTreeMap<usize, ChainExit>) {
    for (name, packets) in &ran.out {
        let places = exits.values().filter(|exit| exit.name == *name).flat_map(|exit| &exit.annotations);
        for packet in packets {
            let _ = writeln!(text, "  to '{name}', {} bytes:", packet.bytes.len());
            let beside = places.clone().copied().zip(packet.annotations.iter().copied());
            annotations(text, beside.filter(|(_, byte)| *byte != 0));
            dump(text, &packet.bytes, before);
        }
    }
    for (element, reason) in &ran.dropped {
        let _ = writeln!(text, "  dropped by {element}: {reason}");
    }
    if ran.out.is_empty() && ran.dropped.is_empty() {
        text.push_str("  nothing comes out\n");
    }
}

/// Writes a line with annotation bytes, given as pairs of offset and value, unless there are none.
fn annotations(text: &mut String, bytes: impl Iterator<Item = (u8, u8)>) {
    let words: Vec<String> = bytes.map(|(place, byte)| format!("{place}: {byte:02x}")).collect();
    if !words.is_empty() {
        let _ = writeln!(text, "  annotation bytes {}", words.join(", "));
    }
}

/// Writes bytes in hexadecimal, in lines of 16. Bytes that differ from the byte at the same offset in
/// `before` (the packet before the run) are marked with `*`. If `before` is empty, no byte is marked.
fn dump(text: &mut String, bytes: &[u8], before: &[u8]) {
    /// The most lines that are written; further bytes are counted.
    const LINES: usize = 8;
    for (line, chunk) in bytes.chunks(16).enumerate().take(LINES) {
        let _ = write!(text, "  {:4}:", line * 16);
        for (place, byte) in chunk.iter().enumerate() {
            let changed = !before.is_empty() && before.get(line * 16 + place) != Some(byte);
            let _ = write!(text, "{}{byte:02x}", if changed { '*' } else { ' ' });
        }
        text.push('\n');
    }
    if bytes.len() > 16 * LINES {
        let _ = writeln!(text, "  ({} more bytes)", bytes.len() - 16 * LINES);
    }
}
