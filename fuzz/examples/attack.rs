//! Runs the random attack on the synthesizer and the verifier; see docs/fuzz.md.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fuzz::attack::{Settings, Watch, attack};

/// Runs random configurations with random packets, as they are and synthesized, and random pairs of chains
/// for the verifier.
///
/// The exit status is 0 if nothing failed, and 1 if something did, or if the cases covered too little. The
/// same seed gives the same cases.
#[derive(Parser)]
struct Args {
    /// The seed of the first case; each further case has the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of configurations
    #[arg(long, default_value_t = 1000)]
    chains: u64,
    /// The number of pairs of chains
    #[arg(long, default_value_t = 200)]
    pairs: u64,
    /// The limit on the proof of a configuration, in seconds
    #[arg(long, default_value_t = 1.0)]
    proof: f64,
    /// The limit on the comparison of a pair of chains, in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The limit on nodes of decision diagrams, for each proof or comparison
    #[arg(long, default_value_t = 1 << 20)]
    nodes: usize,
    /// The number of threads
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The number of failures of each kind that are shrunk and shown
    #[arg(long, default_value_t = 2)]
    show: usize,
    /// Show only failures whose name contains this text, such as "burst 1:" or "Bytes"
    #[arg(long)]
    only: Option<String>,
}

struct Terminal {
    shows: bool,
}

impl Watch for Terminal {
    fn progress(&self, done: u64, all: u64, failed: u64) {
        if self.shows {
            let mut out = std::io::stderr();
            // Errors are ignored, because the progress display is not essential.
            let _ = write!(out, "\r{done} of {all} cases, {failed} failed");
            let _ = if done == all { writeln!(out) } else { out.flush() };
        }
    }

    fn tell(&self, text: &str) {
        println!("{text}");
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let settings = Settings {
        seed: args.seed,
        chains: args.chains,
        pairs: args.pairs,
        proof: Duration::from_secs_f64(args.proof.max(0.0)),
        comparison: Duration::from_secs_f64(args.seconds.max(0.0)),
        nodes: Some(args.nodes),
        jobs: args.jobs,
        show: args.show,
        // `Settings` needs a static text, so the memory of the text is leaked once.
        only: args.only.map(|only| &*only.leak()),
    };
    let outcome = attack(settings, &Terminal { shows: std::io::stderr().is_terminal() });
    for reason in &outcome.reasons {
        println!("no configuration: {reason}");
    }
    print!("{}", outcome.table());
    let shortfalls = outcome.shortfalls();
    for shortfall in &shortfalls {
        println!("too few: {shortfall}");
    }
    if outcome.is_clean() && shortfalls.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
