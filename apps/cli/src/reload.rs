//! `tidegate reload`: replaces the configuration of a running instance, over its control socket.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

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
    /// The run's control socket: a path, as given to `run --control`, or HOST:PORT
    #[arg(value_name = "SOCKET")]
    socket: String,
    /// Install this configuration; without it, the run reads its own file again
    ///
    /// The run must have been started with --allow-config.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Install a file of the run's --config-dir
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    name: Option<String>,
}

/// The start of the first line that a server of Click's control protocol sends; the minor version follows.
const GREETING: &str = "Click::ControlSocket/1.";

/// A connection to a control socket.
trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

pub(crate) fn run(args: &Args) -> Status {
    let command = match (&args.file, &args.name) {
        (None, None) => "WRITE reload\r\n".to_string(),
        (None, Some(name)) if name.contains(['\r', '\n']) => return Err("a name has one line".into()),
        (None, Some(name)) => format!("WRITE hotconfig {name}\r\n"),
        (Some(file), _) => {
            let (_, text) = read_text(file)?;
            format!("WRITEDATA hotconfig {}\r\n{text}", text.len())
        }
    };
    let failed = |error: std::io::Error| format!("{}: {}", args.socket, crate::reason(&error));
    let mut connection = BufReader::new(connect(&args.socket).map_err(failed)?);
    let mut line = String::new();
    connection.read_line(&mut line).map_err(failed)?;
    if !line.starts_with(GREETING) {
        return Err(format!("{}: no control socket answers there", args.socket).into());
    }
    let before = silences(&mut connection).unwrap_or_default();
    let (succeeds, text) = ask(&mut connection, &command).map_err(failed)?;
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
fn silences_after(
    connection: &mut BufReader<Box<dyn Connection>>,
    before: &[Silence],
) -> std::io::Result<Vec<Silence>> {
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
fn silences(connection: &mut BufReader<Box<dyn Connection>>) -> std::io::Result<Vec<Silence>> {
    let (succeeds, _) = ask(connection, "READ silence\r\n")?;
    let text = if succeeds { data(connection)? } else { String::new() };
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

/// Reads the value of a handler, which follows the reply to a READ command: a line `DATA LENGTH`, and LENGTH
/// bytes.
fn data(connection: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let length = line.trim_end().strip_prefix("DATA ").and_then(|length| length.parse().ok());
    let length = length.ok_or(std::io::ErrorKind::InvalidData)?;
    let mut value = Vec::new();
    connection.take(length).read_to_end(&mut value)?;
    Ok(String::from_utf8_lossy(&value).into_owned())
}

/// Sends a command of Click's control protocol. Returns true if the reply says success, and the lines of the
/// reply.
fn ask(
    connection: &mut BufReader<Box<dyn Connection>>,
    command: &str,
) -> std::io::Result<(bool, Vec<String>)> {
    connection.get_mut().write_all(command.as_bytes())?;
    reply(connection)
}

/// Connects to a socket: HOST:PORT if the name has this form and is no file, else a Unix socket.
fn connect(name: &str) -> std::io::Result<Box<dyn Connection>> {
    let is_address = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if is_address && !std::path::Path::new(name).exists() {
        return Ok(Box::new(TcpStream::connect(name)?));
    }
    Ok(Box::new(UnixStream::connect(name)?))
}

/// Reads a reply: lines that begin with a code of three digits, the last of which has a blank after the code.
/// Returns true if the code says success, and the lines without codes.
fn reply(connection: &mut impl BufRead) -> std::io::Result<(bool, Vec<String>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (code, rest) = line.split_at_checked(3).unwrap_or((line, ""));
        lines.push(rest.get(1..).unwrap_or_default().to_string());
        if !rest.starts_with('-') {
            return Ok((code.starts_with('2'), lines));
        }
    }
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
    fn replies_end_with_a_blank_after_the_code() {
        let read = |text: &str| reply(&mut text.as_bytes());
        assert!(read("200 Write handler 'reload' OK\r\n").unwrap().0);
        let (succeeds, lines) = read("520-Write handler 'reload' error:\r\n520-a\r\n520 b\r\n").unwrap();
        assert!(!succeeds);
        assert_eq!(explained(&lines), "a\nb");
        assert!(explained(&["No handler named 'reload'".into()]).contains("-R"));
        assert!(read("520-a\r\n").is_err(), "the reply has no end");
        assert_eq!(read("52\r\n").unwrap(), (false, vec![String::new()]));
    }

    #[test]
    fn values_follow_their_length() {
        let value = data(&mut &b"DATA 9\r\n0 2 13.50 rest"[..]).unwrap();
        let expected = Silence { worker: 0, reload: 2, microseconds: "13.50".into() };
        assert_eq!(silence(&value), Some(expected));
        assert_eq!(silence("0 2"), None);
        assert!(data(&mut &b"200 OK\r\n"[..]).is_err());
    }
}
