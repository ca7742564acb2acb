//! `tidegate reload`: replaces the configuration of a running instance, over its control socket.

use std::fmt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::client::{self, Client};
use crate::load::read_text;
use crate::status::{SUCCESS, Status};

/// The arguments of `reload`.
#[derive(clap::Args)]
#[command(after_help = "\
The new configuration is built and initialised while packets flow; if it is wrong, its errors are shown and the old one \
runs on. Elements of the same name and class go on with the state of their predecessors (docs/reload.md). The signal HUP \
does the same as `tidegate reload SOCKET`, with the errors in the messages of the run. After a reload, the times are \
printed for which each worker stood still, in microseconds: it took no packets from interfaces and sources. If the \
workers wait for each other (an element moves to another worker, or --order keep), the wait is included, although \
packets that other workers have handed over are processed meanwhile.

Exit status: 0 the configuration is replaced, 1 it is not.")]
pub(crate) struct Args {
    /// The name of a running instance, the path of its control socket, or HOST:PORT
    #[arg(value_name = "SOCKET")]
    socket: String,
    #[command(flatten)]
    options: Options,
}

/// The configuration to install.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Install this configuration; without it, the run reads its own file again
    ///
    /// The run must have been started with --allow-config.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Install a file of the run's --config-dir
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> Status {
    reload(&args.socket, &args.options)
}

/// Replaces the configuration of the instance with a name or a control socket.
pub(crate) fn reload(socket: &str, options: &Options) -> Status {
    let command = match (&options.file, &options.name) {
        (None, None) => "WRITE reload\r\n".to_string(),
        (None, Some(name)) if name.contains(['\r', '\n']) => return Err("a name has one line".into()),
        (None, Some(name)) => format!("WRITE hotconfig {name}\r\n"),
        (Some(file), _) => {
            let (_, text) = read_text(file)?;
            format!("WRITEDATA hotconfig {}\r\n{text}", text.len())
        }
    };
    let failed = |error: std::io::Error| format!("{socket}: {}", crate::reason(&error));
    let mut connection = client::connect(socket)?;
    let before = silences(&mut connection).unwrap_or_default();
    let (succeeds, text) = client::ask(&mut connection, &command).map_err(failed)?;
    if !succeeds {
        return Err(explained(&text).into());
    }
    // The configuration has been replaced, so an error while the times are read for which workers stood still
    // does not make the reload fail.
    if let Ok(times) = silences_after(&mut connection, &before) {
        times.iter().for_each(|time| println!("{time}"));
    }
    Ok(SUCCESS)
}

/// The time for which a worker stood still in its last reload.
#[derive(Debug, PartialEq, Eq)]
struct Silence {
    worker: usize,
    /// The number of the last reload of the run; 0 if the configuration has never been replaced.
    reload: u64,
    microseconds: String,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} stood still for {} us", self.worker, self.microseconds)
    }
}

/// The most times that the program asks the workers if they run the new configuration.
const LOOKS: u32 = 200;

/// The time between two such questions.
const PAUSE: Duration = Duration::from_millis(5);

/// Returns, for each worker, the time for which it stood still in the reload, once all workers run the new
/// configuration. `before` are the times of the reload before. If the workers have not all changed within a
/// second, returns an empty list.
fn silences_after(connection: &mut Client, before: &[Silence]) -> std::io::Result<Vec<Silence>> {
    let last = before.iter().map(|silence| silence.reload).max().unwrap_or(0);
    for _ in 0..LOOKS {
        let times = silences(connection)?;
        if times.iter().all(|silence| silence.reload > last) {
            return Ok(times);
        }
        thread::sleep(PAUSE);
    }
    Ok(Vec::new())
}

/// Reads the time for which each worker stood still in its last reload. Empty if the run cannot replace its
/// configuration, or has no handler `silence` because its version is older.
fn silences(connection: &mut Client) -> std::io::Result<Vec<Silence>> {
    let text = client::read(connection, "silence")?.unwrap_or_default();
    let mut times: Vec<Silence> = text.lines().filter_map(silence).collect();
    times.sort_by_key(|silence| silence.worker);
    Ok(times)
}

/// Parses a line of the handler `silence`: `WORKER RELOAD MICROSECONDS`.
fn silence(line: &str) -> Option<Silence> {
    let mut words = line.split_whitespace();
    let (worker, reload) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Silence { worker, reload, microseconds: words.next()?.to_string() })
}

/// Returns the text for the user about a reply with an error code.
fn explained(lines: &[String]) -> String {
    match lines {
        [only] if only.starts_with("No handler named") => {
            format!("{only}: the run cannot replace its configuration; `tidegate click` needs -R for it")
        }
        // The first line only says which handler has failed.
        [_, reasons @ ..] if !reasons.is_empty() => reasons.join("\n"),
        _ => lines.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_replies_are_explained() {
        assert_eq!(explained(&["Write handler 'reload' error:".into(), "a".into(), "b".into()]), "a\nb");
        assert!(explained(&["No handler named 'reload'".into()]).contains("-R"));
    }

    #[test]
    fn times_are_read() {
        let expected = Silence { worker: 0, reload: 2, microseconds: "13.50".into() };
        assert_eq!(silence("0 2 13.50"), Some(expected));
        assert_eq!(silence("0 2"), None);
    }
}
