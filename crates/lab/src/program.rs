//! Programs that run in a namespace, and their output.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::PATIENCE;

/// A running program; it is killed when the value is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: mpsc::Receiver<(usize, String)>,
    said: [String; 2],
}

impl Running {
    /// Starts a command.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn new(command: &mut Command) -> Result<Running> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| Error::new(error.kind(), format!("{name}: {error}")))?;
        let (sender, lines) = mpsc::channel();
        let output = child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
        let messages = child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
        for (number, stream) in [output, messages].into_iter().flatten().enumerate() {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send((number, line)).is_err() {
                        return;
                    }
                }
            });
        }
        // Without this sender, the end of both streams closes the channel.
        drop(sender);
        Ok(Running { child, lines, said: [String::new(), String::new()] })
    }

    /// Waits until the program has written a line to its standard output; warnings may come before.
    ///
    /// # Errors
    /// If the program writes no line, or ends; the error contains its other output.
    pub fn wait_for_output(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.said[0].is_empty() {
            self.hear(until)?;
        }
        Ok(())
    }

    /// Waits for a line that contains a text; returns the line.
    ///
    /// # Errors
    /// If no such line comes, or the program ends; the error contains the output instead.
    pub fn wait_for(&mut self, text: &str) -> Result<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self.hear(until)?;
            if line.contains(text) {
                return Ok(line);
            }
        }
    }

    /// Waits until a text has been written, unless it has been written already.
    ///
    /// # Errors
    /// The errors of [`Running::wait_for`].
    pub fn wait_until_said(&mut self, text: &str) -> Result<()> {
        match self.said.iter().any(|said| said.contains(text)) {
            true => Ok(()),
            false => self.wait_for(text).map(drop),
        }
    }

    /// Returns the next line of either stream.
    fn hear(&mut self, until: Instant) -> Result<String> {
        let left = until.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok((stream, line)) => {
                self.said[stream] += &line;
                self.said[stream] += "\n";
                Ok(line)
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let said = format!("it never said so, but: {}{}", self.said[0], self.said[1]);
                Err(Error::new(ErrorKind::TimedOut, said))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = self.child.wait();
                Err(Error::other(format!(
                    "it has ended ({status:?}) after: {}{}",
                    self.said[0], self.said[1]
                )))
            }
        }
    }

    /// Returns the process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: `TERM`, `KILL`, ...
    ///
    /// # Panics
    /// If there is no such signal, or the program has already ended and been reaped.
    pub fn signal(&self, name: &str) {
        let signal = format!("SIG{name}").parse::<Signal>();
        let sent = signal.and_then(|signal| kill(Pid::from_raw(self.child.id() as i32), signal));
        assert!(sent.is_ok(), "{name}: {sent:?}");
    }

    /// Waits for the end of the program. Returns true if it succeeded, and the text of its two streams.
    ///
    /// # Panics
    /// If the program does not end.
    pub fn end(mut self) -> (bool, [String; 2]) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                _ if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                other => panic!("it does not end ({other:?}): {}{}", self.said[0], self.said[1]),
            }
        };
        // The last lines may still be in the channel.
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok((stream, line)) = self.lines.recv_timeout(left()) {
            self.said[stream] += &(line + "\n");
        }
        (status.success(), std::mem::take(&mut self.said))
    }

    /// Asks the program to end with a TERM signal, and waits for the end as [`end`](Self::end) does.
    ///
    /// # Panics
    /// If the program does not end.
    pub fn stop(self) -> (bool, [String; 2]) {
        self.signal("TERM");
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
