//! `tidegate ctl`: lists the running instances, and controls one of them by its name.

use clap::Subcommand;

use crate::client::{self, Client};
use crate::instances::{self, Holder, Instance};
use crate::print;
use crate::reload;
use crate::status::{SUCCESS, Status};
use crate::top::{self, Table, drops_text};

/// The arguments of `ctl`.
#[derive(clap::Args)]
#[command(
    subcommand_value_name = "ACTION",
    subcommand_help_heading = "Actions",
    disable_help_subcommand = true,
    after_help = "\
A live run of a file has the file's name without .click as its name; `tidegate run --name` gives another one. What a \
client may do is described in docs/control.md."
)]
pub(crate) struct Args {
    /// The name of a running instance, the path of a control socket, or HOST:PORT; without it, all instances
    /// are listed
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Print the value of a handler
    Read {
        /// The handler, as ELEMENT.HANDLER, or HANDLER for one of the whole graph; `handlers` lists those
        handler: String,
        /// The parameter of the handler
        #[arg(value_name = "PARAMETER")]
        value: Vec<String>,
    },
    /// Write a handler
    Write {
        /// The handler, as ELEMENT.HANDLER, or HANDLER for one of the whole graph
        handler: String,
        /// The value
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: Vec<String>,
    },
    /// Print the drops of all elements by reason
    Drops,
    /// Print the report so far as JSON
    Report,
    /// Show elements, drops, workers and interfaces, as `tidegate top` does
    Top(top::Options),
    /// Replace the configuration, as `tidegate reload` does
    Reload(reload::Options),
    /// Trace the next packets, or print what happened to them
    Trace {
        /// `N [PATTERN]` traces the next N packets, `stop` ends it; without it, the traces are printed
        #[arg(value_name = "ORDER")]
        value: Vec<String>,
    },
    /// Capture the next packets at a port, or dropped packets, or print what is captured
    Capture {
        /// `ELEMENT[PORT] FILE N [PATTERN]` or `drops FILE N [PATTERN]`, `stop` ends it; without it, the
        /// state is printed
        #[arg(value_name = "ORDER")]
        value: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> Status {
    let (name, action) = match (&args.name, &args.action) {
        (None, _) => return list(),
        (Some(name), None) => {
            let actions = "read, write, drops, report, top, reload, trace or capture";
            return Err(format!("{name}: say what to do: {actions} (`tidegate ctl --help`)").into());
        }
        (Some(name), Some(action)) => (name, action),
    };
    match action {
        Action::Top(options) => top::show(name, options),
        Action::Reload(options) => reload::reload(name, options),
        Action::Read { handler, value } => print_handler(name, handler, value),
        Action::Report => print_handler(name, "report", &[]),
        Action::Write { handler, value } => write(name, handler, &value.join(" ")),
        Action::Drops => print(&drops_text(name)?),
        Action::Trace { value } => order(name, "trace", value),
        Action::Capture { value } => order(name, "capture", value),
    }
}

/// Prints the handler `trace` or `capture`, or writes it if there is an order.
fn order(name: &str, handler: &str, order: &[String]) -> Status {
    match order {
        [] => print_handler(name, handler, &[]),
        order => write(name, handler, &order.join(" ")),
    }
}

/// Prints the value of a handler, with a line end.
fn print_handler(name: &str, handler: &str, parameter: &[String]) -> Status {
    let line = format!("{handler} {}", parameter.join(" "));
    if line.contains(['\r', '\n']) {
        return Err("a handler and its parameter have one line".into());
    }
    let mut client = client::connect(name)?;
    let mut value = client::read(&mut client, line.trim_end()).map_err(|error| lost(name, &error))??;
    if !value.is_empty() && !value.ends_with('\n') {
        value.push('\n');
    }
    print(&value)
}

fn write(name: &str, handler: &str, value: &str) -> Status {
    if handler.contains(char::is_whitespace) {
        return Err(format!("'{handler}' is no name of a handler").into());
    }
    let mut client: Client = client::connect(name)?;
    let command = format!("WRITEDATA {handler} {}\r\n{value}", value.len());
    let (succeeds, lines) = client::ask(&mut client, &command).map_err(|error| lost(name, &error))?;
    match lines.as_slice() {
        _ if succeeds => Ok(SUCCESS),
        // The first line only says which handler has failed.
        [_, reasons @ ..] if !reasons.is_empty() => Err(reasons.join("\n").into()),
        lines => Err(lines.join("\n").into()),
    }
}

fn lost(name: &str, error: &std::io::Error) -> String {
    format!("{name}: {}", crate::reason(error))
}

/// Prints the running instances as a table.
fn list() -> Status {
    let running = instances::running();
    if running.is_empty() {
        crate::tell(format_args!("no instance runs"));
        return Ok(SUCCESS);
    }
    let row = |instance: Instance| {
        let Holder { pid, configuration } = instance.holder;
        vec![instance.name, pid, configuration, instance.socket.display().to_string()]
    };
    let table = Table {
        head: vec!["name", "process", "configuration", "socket"],
        rows: running.into_iter().map(row).collect(),
        is_number: vec![false, true, false, false],
    };
    print(&table.text())
}
