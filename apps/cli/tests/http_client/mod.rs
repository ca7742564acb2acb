//! A client of `tidegate run --http`, for tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::RunningProgram;
use serde_json::Value;

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A run with an HTTP server.
pub(crate) struct Run {
    pub(crate) program: RunningProgram,
    pub(crate) address: SocketAddr,
}

/// Starts `tidegate run` with an HTTP server at a free port, and waits until it serves.
pub(crate) fn start(args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "--http", "0", "--memory", "256M"]).args(args).stdin(Stdio::null());
    let mut program = RunningProgram::new(&mut command).unwrap();
    let line = program.wait_for("metrics and JSON at http://").unwrap();
    let (_, address) = line.split_once("http://").unwrap();
    Run { program, address: address.trim_end_matches('/').parse().unwrap() }
}

impl Run {
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// Sends a request with further headers and a body. The connection is closed after it.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let host = self.address.to_string();
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: {host}\r\n");
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut stream = self.connect();
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        answer(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Returns the value of the first sample of `/metrics` that begins with this text.
    pub(crate) fn metric(&self, start: &str) -> Option<f64> {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with(start))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// Repeats a question until the answer is `Some`, for at most half a minute.
    pub(crate) fn wait_for<T>(&self, mut question: impl FnMut(&Run) -> Option<T>) -> T {
        for _ in 0..300 {
            if let Some(answer) = question(self) {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("it never came; the report is {:?}", self.get("/api/report"));
    }
}

/// Reads an answer until the server closes the connection.
pub(crate) fn answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // The server may close the connection before it has read all of a bad request, which resets it.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_string(), body: body.to_string() }
}
