//! `tidegate synthesize`: a configuration in which packets are taken past whole stretches of elements.

use std::path::PathBuf;
use std::process::ExitCode;

use synthesizer::compose::walk::Limits;
use synthesizer::compose::{Synthesis, synthesize};
use synthesizer::insert::insert;

use crate::load::Input;
use crate::reasoning::{Reasoned, read};
use crate::{FAILURE, print};

/// Arguments of `synthesize`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Where to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    let reasoned = match read(&args.input) {
        Ok(reasoned) => reasoned,
        Err(unread) => {
            unread.show();
            return ExitCode::from(FAILURE);
        }
    };
    let synthesis = compose(&reasoned);
    let graph = insert(&reasoned.loaded.graph, &reasoned.chain, &synthesis);
    let text = lang::flatten(&graph);
    match &args.output {
        None => print(&text),
        Some(path) => match std::fs::write(path, text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::tell(format_args!("{}: {error}", path.display()));
                ExitCode::from(FAILURE)
            }
        },
    }
}

/// Synthesizes a configuration that has been read.
pub(crate) fn compose(reasoned: &Reasoned) -> Synthesis {
    let is_pushed = |(node, output): (usize, usize)| {
        reasoned.pushed.get(node).and_then(|outputs| outputs.get(output)).copied().unwrap_or_default()
    };
    synthesize(&reasoned.chain, &Limits::default(), &is_pushed)
}
