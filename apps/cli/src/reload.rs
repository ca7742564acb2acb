//! `tidegate reload`: replaces the configuration of a running instance, over its control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::load::read_text;
use crate::status::{SUCCESS, Status};

/// The arguments of `reload`.
#[derive(clap::Args)]
#[command(after_help = "\
The new configuration is built and initialised while packets flow; if it is wrong, its errors are shown and the old one \
runs on. Elements of the same name and class go on with the state of their predecessors (docs/reload.md). The signal HUP \
does the same as `tidegate reload SOCKET`, with the errors in the messages of the run.

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
    connection.get_mut().write_all(command.as_bytes()).map_err(failed)?;
    let (succeeds, text) = reply(&mut connection).map_err(failed)?;
    match succeeds {
        true => Ok(SUCCESS),
        false => Err(explained(&text).into()),
    }
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

/// Returns the text for the user about a reply that is an error.
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
}
