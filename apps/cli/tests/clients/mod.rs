//! Clients of control sockets, for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Connects to the socket at a path. The socket appears when the program has started; the limit of a minute
/// allows for slow machines.
pub(crate) fn connect(path: &Path) -> BufReader<UnixStream> {
    let stream = (0..6000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        UnixStream::connect(path).ok()
    });
    let stream = stream.expect("the socket appears");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(line(&mut stream), "Click::ControlSocket/1.3");
    stream
}

/// Returns the next line that the server sends, without its line end.
pub(crate) fn line(stream: &mut BufReader<impl Read>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

/// Sends a command, and returns the first line of the reply.
pub(crate) fn ask(stream: &mut BufReader<impl Read + Write>, command: &str) -> String {
    stream.get_mut().write_all(command.as_bytes()).unwrap();
    line(stream)
}

/// Reads the data that follow the first line of a reply, with their length in a `DATA` line.
pub(crate) fn data(stream: &mut BufReader<impl Read>) -> String {
    let length: usize = line(stream).strip_prefix("DATA ").unwrap().parse().unwrap();
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}
