//! `tidegate top`: the elements, drops, workers and interfaces of a running instance in a terminal, over its
//! control socket.

mod report;
mod screen;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::client::{self, Client};
use crate::print;
use crate::status::{SUCCESS, Status};
use crate::steering::parse_time;
pub(crate) use report::Table;
use report::{Change, Page, Report, Sort};

/// The arguments of `top`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys: 1 to 4 or Tab choose the table, s the order of elements, r reverses it; arrows and page keys scroll; p pauses, and \
q ends the program. Rates are the difference of two reports over the time between them.")]
pub(crate) struct Args {
    /// The name of a running instance, the path of its control socket, or HOST:PORT
    #[arg(value_name = "SOCKET")]
    socket: String,
    #[command(flatten)]
    options: Options,
}

/// The form of what is shown.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print all tables once, as text, and end
    #[arg(long)]
    once: bool,
    /// The time between two reports
    #[arg(
        long, value_name = "TIME", default_value = "1s",
        value_parser = parse_time, allow_hyphen_values = true
    )]
    interval: Duration,
    /// The order of elements
    #[arg(long, value_enum, default_value_t = Sort::Rate)]
    sort: Sort,
}

/// The shortest time between two reports. Each report takes some time of the workers.
const LEAST: Duration = Duration::from_millis(100);

/// The connection to a run.
struct Source {
    socket: String,
    connection: Client,
}

impl Source {
    fn new(socket: &str) -> Result<Source, String> {
        Ok(Source { socket: socket.to_string(), connection: client::connect(socket)? })
    }

    /// Reads a report.
    fn report(&mut self) -> Result<Report, String> {
        let text = client::read(&mut self.connection, "report")
            .map_err(|error| format!("{}: {}", self.socket, crate::reason(&error)))??;
        serde_json::from_str(&text).map_err(|error| format!("{}: no report: {error}", self.socket))
    }
}

pub(crate) fn run(args: &Args) -> Status {
    show(&args.socket, &args.options)
}

/// Returns the drops of the instance with a name or a control socket, as a table.
pub(crate) fn drops_text(socket: &str) -> Result<String, String> {
    Ok(Source::new(socket)?.report()?.drops().text())
}

/// Shows the instance with a name or a control socket.
pub(crate) fn show(socket: &str, args: &Options) -> Status {
    let mut source = Source::new(socket)?;
    let interval = args.interval.max(LEAST);
    let (mut before, mut at) = (source.report()?, Instant::now());
    if args.once {
        std::thread::sleep(interval);
        let now = source.report()?;
        return print(&text(&Change::new(before, now, at.elapsed().as_secs_f64()), args.sort));
    }
    if !std::io::stdout().is_terminal() {
        return Err("standard output is no terminal; `tidegate top --once` prints the tables as text".into());
    }
    let mut screen = screen::Screen::new(socket, args.sort);
    let mut terminal = ratatui::init();
    let result = loop {
        match screen.wait(&mut terminal, interval.saturating_sub(at.elapsed())) {
            Ok(true) => {}
            Ok(false) => break Ok(SUCCESS),
            Err(error) => break Err(crate::reason(&error).into()),
        }
        if at.elapsed() < interval {
            continue;
        }
        let now = match source.report() {
            Ok(now) => now,
            Err(error) => break Err(error.into()),
        };
        let seconds = at.elapsed().as_secs_f64();
        at = Instant::now();
        screen.show(Change::new(std::mem::replace(&mut before, now.clone()), now, seconds));
    };
    ratatui::restore();
    result
}

/// Returns all tables as text.
fn text(change: &Change, sort: Sort) -> String {
    let mut text = format!("{}\n", change.summary());
    for page in Page::ALL {
        let table = change.table(page, sort, false);
        if !table.rows.is_empty() {
            text += &format!("\n{}\n{}", page.title(), table.text());
        }
    }
    text
}
