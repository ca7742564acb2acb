//! A client of Click's control protocol, which control sockets speak.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use crate::instances;

/// The start of the first line that a server of Click's control protocol sends; the minor version follows.
const GREETING: &str = "Click::ControlSocket/1.";

/// A connection to a control socket.
pub(crate) trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

/// A connection to a control socket, with what was read ahead.
pub(crate) type Client = BufReader<Box<dyn Connection>>;

/// Connects to a control socket, given by its path, HOST:PORT or the name of an instance, and reads the line
/// with which it greets.
///
/// # Errors
/// If nothing listens there, or something else than a control socket: the message for the user.
pub(crate) fn connect(name: &str) -> Result<Client, String> {
    let failed = |error: io::Error| format!("{name}: {}", crate::reason(&error));
    let mut client = BufReader::new(open(&instances::resolve(name)?).map_err(failed)?);
    let mut line = String::new();
    client.read_line(&mut line).map_err(failed)?;
    match line.starts_with(GREETING) {
        true => Ok(client),
        false => Err(format!("{name}: no control socket answers there")),
    }
}

/// Reads a handler.
///
/// # Errors
/// The outer error if the connection fails, the inner error if the handler cannot be read.
pub(crate) fn read(client: &mut Client, handler: &str) -> io::Result<Result<String, String>> {
    let (succeeds, lines) = ask(client, &format!("READ {handler}\r\n"))?;
    if succeeds { data(client).map(Ok) } else { Ok(Err(lines.join("\n"))) }
}

/// Connects to a socket: HOST:PORT if the name has this form and is no file, else a Unix socket.
fn open(name: &str) -> io::Result<Box<dyn Connection>> {
    let is_address = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if is_address && !std::path::Path::new(name).exists() {
        return Ok(Box::new(TcpStream::connect(name)?));
    }
    Ok(Box::new(UnixStream::connect(name)?))
}

/// Reads the value of a handler, which follows the reply to a READ command: a line `DATA LENGTH`, and LENGTH
/// bytes.
fn data(connection: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let length = line.trim_end().strip_prefix("DATA ").and_then(|length| length.parse().ok());
    let length = length.ok_or(io::ErrorKind::InvalidData)?;
    let mut value = Vec::new();
    connection.take(length).read_to_end(&mut value)?;
    Ok(String::from_utf8_lossy(&value).into_owned())
}

/// Sends a command of Click's control protocol. Returns true if the reply says success, and the lines of the
/// reply.
pub(crate) fn ask(connection: &mut Client, command: &str) -> io::Result<(bool, Vec<String>)> {
    connection.get_mut().write_all(command.as_bytes())?;
    reply(connection)
}

/// Reads a reply: lines that begin with a code of three digits, the last of which has a blank after the code.
/// Returns true if the code says success, and the lines without codes.
fn reply(connection: &mut impl BufRead) -> io::Result<(bool, Vec<String>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (code, rest) = line.split_at_checked(3).unwrap_or((line, ""));
        lines.push(rest.get(1..).unwrap_or_default().to_string());
        if !rest.starts_with('-') {
            return Ok((code.starts_with('2'), lines));
        }
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
        assert!(!succeeds && lines[1..] == ["a", "b"]);
        assert!(read("520-a\r\n").is_err(), "the reply has no end");
        assert_eq!(read("52\r\n").unwrap(), (false, vec![String::new()]));
    }

    #[test]
    fn values_follow_their_length() {
        assert_eq!(data(&mut &b"DATA 9\r\n0 2 13.50 rest"[..]).unwrap(), "0 2 13.50");
        assert!(data(&mut &b"200 OK\r\n"[..]).is_err());
    }
}
