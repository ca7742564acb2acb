//! `tidegate check`, `flatten` and `dot`: what a configuration is, without running it.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::load::{Input, Loaded};
use crate::{FAILURE, print};

/// Arguments of `check`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    input: Input,
}

/// Arguments of commands that print a configuration in another form.
#[derive(clap::Args)]
pub(crate) struct TextArgs {
    #[command(flatten)]
    input: Input,
    /// Where to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reads a configuration, or says why that cannot be.
fn load(input: &Input, checks_classes: bool) -> Result<Loaded, ExitCode> {
    input.load(checks_classes).map_err(|text| {
        crate::tell(format_args!("{text}"));
        ExitCode::from(FAILURE)
    })
}

pub(crate) fn check(args: CheckArgs) -> ExitCode {
    let mut loaded = match load(&args.input, true) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let built = loaded.build(None);
    loaded.show();
    let Some((plan, configured)) = built else { return ExitCode::from(FAILURE) };
    let opaque = configured.effects.iter().filter(|e| e.opaque.is_some()).count();
    let text = format!(
        "{}: {} elements, {} connections, no errors\n",
        loaded.name,
        plan.len(),
        plan.graph.connections.len()
    );
    let opaque = match opaque {
        0 => String::new(),
        n => format!("{n} elements do not declare all of their effects\n"),
    };
    print(&(text + &opaque))
}

pub(crate) fn flatten(args: TextArgs) -> ExitCode {
    transform(&args, |loaded| lang::flatten(&loaded.graph))
}

pub(crate) fn dot(args: TextArgs) -> ExitCode {
    transform(&args, |loaded| lang::dot(&loaded.graph, &loaded.name))
}

fn transform(args: &TextArgs, form: impl Fn(&Loaded) -> String) -> ExitCode {
    let loaded = match load(&args.input, false) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    loaded.show();
    if loaded.has_errors() {
        return ExitCode::from(FAILURE);
    }
    let text = form(&loaded);
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
