//! `tidegate`: the command line, also for programs with their own elements.
//!
//! Such a program is one line, with the classes of its elements; `examples/own-nf` is an example:
//!
//! ```no_run
//! # static CLASSES: &[&element::Class] = &[];
//! fn main() -> std::process::ExitCode {
//!     tidegate::main(CLASSES)
//! }
//! ```

mod advise;
mod analyze;
mod bench;
mod captures;
mod check;
mod click;
mod client;
mod control;
mod ctl;
mod elements;
mod evaluate;
mod example;
mod explain;
mod generate;
mod handlers;
mod http;
mod instances;
mod interrupt;
mod load;
mod memory;
mod messages;
mod multiply;
mod numbers;
mod origin;
mod packets;
mod pages;
mod proofs;
mod prove;
mod reasoning;
mod reload;
mod rules;
mod run;
mod sandbox;
mod service;
mod state;
mod status;
mod steering;
mod successors;
mod switch;
mod synthesize;
mod table;
mod top;
mod trace_packet;
mod verify;
mod warnings;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use element::Class;
use status::{Failure, SUCCESS, Status};

pub(crate) use messages::{show, tell, warn};

/// Packet processing on ordinary Linux servers, with Click configurations.
#[derive(Parser)]
#[command(
    name = "tidegate", version = origin::version(), propagate_version = true,
    after_help = "Messages are coloured on a terminal, unless NO_COLOR is set."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a configuration on captures or interfaces
    Run(Box<run::Args>),
    /// List the running instances, or control one of them by its name
    Ctl(ctl::Args),
    /// Replace the configuration of a running instance, without losing packets or state
    Reload(reload::Args),
    /// Show elements, drops, workers and interfaces of a running instance
    Top(top::Args),
    /// Report the errors of a configuration, without opening a capture or an interface
    Check(check::CheckArgs),
    /// Show what a configuration does with one packet: each element, the rule that decided, and what changed
    TracePacket(trace_packet::Args),
    /// Show the manual: a list of all elements, or the page of one element
    Elements(elements::Args),
    /// Print a configuration with all compound elements expanded
    Flatten(check::TextArgs),
    /// Print a configuration as a graph, for Graphviz
    Dot(check::TextArgs),
    /// Compose elements into one classification and one write per field, and prove that the result does the
    /// same
    Synthesize(synthesize::Args),
    /// Prove that two configurations do the same to every packet, or show a packet that tells them apart
    Verify(verify::Args),
    /// Answer questions about a rule set, such as a firewall: findings, differences, who decides
    Rules(rules::Args),
    /// Describe captures: flows, locality, order, and what mechanisms could gain
    Analyze(analyze::Args),
    /// Advise on the mechanisms for a capture, and write the configuration that follows
    Advise(advise::Args),
    /// Generate a capture with a given number of flows, locality, sizes and rate
    Generate(generate::Args),
    /// Make more load of a capture: play several parts of it at the same time, each with its own addresses
    Multiply(multiply::Args),
    /// Measure the cost per packet, compared with a run that has only sources and sinks
    Bench(bench::Args),
    /// Measure the figures of the five papers, with tables, plots and conclusions
    Evaluate(evaluate::Args),
    /// Print the completions of commands and options for a shell
    Completions(pages::CompletionArgs),
    /// Write the pages of this help for man(1)
    ManPages(pages::PageArgs),
    /// Run with the options of Click's own driver
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Click {
        /// Click's options; `tidegate click --help` shows them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Runs the command line with the arguments of the process, and returns the exit status. Configurations can
/// use all elements of the product, and the classes in `own`. A class in `own` replaces a class of the
/// product with the same name.
pub fn main(own: &'static [&'static Class]) -> ExitCode {
    load::add_classes(own);
    status::report(run(std::env::args_os().collect()))
}

fn run(mut arguments: Vec<OsString>) -> Status {
    let program = arguments.first().map(|program| Path::new(program).file_name());
    if program.flatten().is_some_and(|name| name == "click") {
        let arguments = arguments.drain(1..).map(|argument| {
            let wrong = |argument: OsString| format!("'{}' is not UTF-8; rename it", argument.display());
            argument.into_string().map_err(|argument| Failure::usage(wrong(argument)))
        });
        return click::run(arguments.collect::<Result<_, _>>()?);
    }
    if let Some(handler) = handler_after_h(&arguments) {
        let text = format!("-h shows the help; -H prints a handler: -H {handler}");
        return Err(Failure::usage(text));
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => match unknown_command(&error).or_else(|| not_utf8(&error, &arguments)) {
            Some(text) => return Err(Failure::usage(text)),
            None if messages::is_journal() && error.use_stderr() => {
                return Err(Failure::usage(error.render().to_string()));
            }
            None => error.exit(),
        },
    };
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Check(args) => check::check(&args),
        Command::TracePacket(args) => trace_packet::run(&args),
        Command::Elements(args) => elements::run(&args),
        Command::Flatten(args) => check::flatten(&args),
        Command::Dot(args) => check::dot(&args),
        Command::Synthesize(args) => synthesize::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Analyze(args) => analyze::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Generate(args) => generate::run(&args),
        Command::Multiply(args) => multiply::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Completions(args) => pages::completions(&args, Cli::command()),
        Command::ManPages(args) => pages::man_pages(&args, Cli::command()),
        Command::Click { args } => click::run(args),
    }
}

/// Returns the handler that follows `-h` on a command line of `run`: Click's driver prints a handler with
/// this option, where Tidegate prints its help.
fn handler_after_h(arguments: &[OsString]) -> Option<&str> {
    if arguments.get(1)? != "run" {
        return None;
    }
    let place = arguments.iter().position(|argument| argument == "-h")?;
    arguments.get(place + 1)?.to_str().filter(|next| next.contains('.') && !next.starts_with('-'))
}

/// Returns the message about a command that does not exist, with the nearest command. `None` for other
/// errors.
fn unknown_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let commands = Cli::command();
    let names = commands.get_subcommands().map(clap::Command::get_name);
    let near = match name.as_str() {
        "version" => Some("--version".to_string()),
        name => lang::nearest(name, names).map(String::from),
    };
    let guess = near.map_or(";".into(), |near| format!("; did you mean {near}?"));
    Some(format!("there is no command '{name}'{guess} `tidegate --help` lists all of them"))
}

/// Returns the message about an argument that is not UTF-8 although it must be. The message lists all
/// arguments that are not UTF-8. `None` for other errors.
fn not_utf8(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::InvalidUtf8 {
        return None;
    }
    let wrong = arguments.iter().enumerate().filter(|(_, argument)| argument.to_str().is_none());
    let wrong: Vec<_> = wrong.map(|(number, argument)| format!("argument {number}, {argument:?}")).collect();
    Some(format!("this is not UTF-8, and only names of files may be so: {}", wrong.join("; ")))
}

/// Prints a text to standard output. A closed pipe counts as success, as in other tools; other errors are
/// failures.
pub(crate) fn print(text: &str) -> Status {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}").into())
        }
        _ => Ok(SUCCESS),
    }
}

/// Returns the system's text for an error, without its number, as other tools print it.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each option with a numeric or similar value, except `multiply --length`, rejects a wrong value with a
    /// message about the value; a value that starts with a dash is not taken for an option.
    #[test]
    fn options_for_numbers_say_what_they_expect() {
        let texts = [
            "FILE",
            "TEXT",
            "EXPR",
            "ELEMENT",
            "ELEMENT.HANDLER",
            "FOLDER",
            "MIX",
            "CAPTURE#N",
            "ARGUMENT",
            "WHICH",
            "NAMES",
            "NAME",
            "TOKENFILE",
            "USER",
        ];
        let cli = Cli::command();
        let mut count = 0;
        for command in cli.get_subcommands() {
            let options = command.get_arguments().filter(|arg| arg.get_action().takes_values());
            for arg in options.filter(|arg| !arg.is_hide_set()) {
                let name = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
                let has_words = !arg.get_possible_values().is_empty();
                let (Some(long), false) =
                    (arg.get_long(), has_words || name.is_some_and(|name| texts.contains(&name)))
                else {
                    continue;
                };
                for value in ["-1", "x"] {
                    let words = ["tidegate", command.get_name(), &format!("--{long}"), value];
                    let Err(error) = Cli::try_parse_from(words) else {
                        panic!("{words:?} is taken");
                    };
                    // For clap, the value of `multiply --length` is any text; it is parsed later.
                    let later = (command.get_name(), long) == ("multiply", "length");
                    let kind =
                        if later { ErrorKind::MissingRequiredArgument } else { ErrorKind::ValueValidation };
                    assert_eq!(error.kind(), kind, "{words:?}: {error}");
                    assert!(!error.to_string().contains("is not in"), "{error}");
                }
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }
}
