//! Programs that run in the background, in a namespace or not, and their output.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::PATIENCE;

/// A running program whose output is read line by line. The program is killed when the value is dropped.
#[derive(Debug)]
pub struct RunningProgram {
    child: Child,
    lines: mpsc::Receiver<(usize, String)>,
    said: [String; 2],
}

impl RunningProgram {
    /// Starts a command, and threads that read its standard output and standard error until they end. Bytes
    /// that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn new(command: &mut Command) -> Result<RunningProgram> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| Error::new(error.kind(), format!("{name}: {error}")))?;
        let (sender, lines) = mpsc::channel();
        let output = child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
        let messages = child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>);
        for (number, stream) in [output, messages].into_iter().flatten().enumerate() {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                    let line =
                        String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
                    if sender.send((number, line)).is_err() {
                        return;
                    }
                }
            });
        }
        // The threads have senders of their own. When they end with both streams, no sender is left, and
        // the channel is closed.
        drop(sender);
        Ok(RunningProgram { child, lines, said: [String::new(), String::new()] })
    }

    /// Waits until the program has written a line to its standard output. Lines on standard error, such as
    /// warnings, do not count.
    ///
    /// # Errors
    /// If both streams end, as they do with the program, or no line comes within [`PATIENCE`]. The error
    /// contains the output on standard error.
    pub fn wait_for_output(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.said[0].is_empty() {
            self.next_line(until)?;
        }
        Ok(())
    }

    /// Waits for a line on either stream that contains `text` and that no earlier call has read. Returns the
    /// line.
    ///
    /// # Errors
    /// If both streams end, as they do with the program, or no such line comes within [`PATIENCE`]. The error
    /// contains all output so far.
    pub fn wait_for(&mut self, text: &str) -> Result<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self.next_line(until)?;
            if line.contains(text) {
                return Ok(line);
            }
        }
    }

    /// Waits until the program has written `text` to either stream, before or during this call.
    ///
    /// # Errors
    /// The errors of [`RunningProgram::wait_for`].
    pub fn wait_until_said(&mut self, text: &str) -> Result<()> {
        match self.said.iter().any(|said| said.contains(text)) {
            true => Ok(()),
            false => self.wait_for(text).map(drop),
        }
    }

    /// Returns the next line of standard output or standard error, and adds it to `said`. Fails if both
    /// streams have ended, or at the time `until`.
    fn next_line(&mut self, until: Instant) -> Result<String> {
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
                // A program may close its streams and continue to run.
                let mut status = self.child.try_wait();
                while matches!(status, Ok(None)) && Instant::now() < until {
                    thread::sleep(Duration::from_millis(5));
                    status = self.child.try_wait();
                }
                let said = format!("{}{}", self.said[0], self.said[1]);
                Err(Error::other(match status {
                    Ok(None) => format!("it has closed its output after: {said}"),
                    status => format!("it has ended ({status:?}) after: {said}"),
                }))
            }
        }
    }

    /// Returns the process id of the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program, by its name without `SIG`, such as `TERM` or `KILL`.
    ///
    /// # Panics
    /// If there is no signal with this name, or if the program has already ended and been reaped.
    pub fn signal(&self, name: &str) {
        let signal = format!("SIG{name}").parse::<Signal>();
        let sent = signal.and_then(|signal| kill(Pid::from_raw(self.child.id() as i32), signal));
        assert!(sent.is_ok(), "{name}: {sent:?}");
    }

    /// Waits until the program ends. Returns true if its exit status is success, and all its standard output
    /// and standard error.
    ///
    /// # Panics
    /// If the program does not end within [`PATIENCE`].
    pub fn end(mut self) -> (bool, [String; 2]) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                _ if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                other => panic!("it does not end ({other:?}): {}{}", self.said[0], self.said[1]),
            }
        };
        // The threads may have sent lines that were not taken from the channel yet.
        let left = || until.saturating_duration_since(Instant::now());
        while let Ok((stream, line)) = self.lines.recv_timeout(left()) {
            self.said[stream] += &(line + "\n");
        }
        (status.success(), std::mem::take(&mut self.said))
    }

    /// Sends the program a TERM signal, waits until it ends, and returns the same as [`end`](Self::end).
    ///
    /// # Panics
    /// If the program does not end within [`PATIENCE`], or had ended and been reaped before.
    pub fn stop(self) -> (bool, [String; 2]) {
        self.signal("TERM");
        self.end()
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_utf_8_are_read_too() {
        let mut shell = Command::new("sh");
        let mut program =
            RunningProgram::new(shell.args(["-c", r"printf '\377x\nafter\n'; exec sleep 60"])).unwrap();
        assert_eq!(program.wait_for("x").unwrap(), "\u{fffd}x");
        assert_eq!(program.wait_for("after").unwrap(), "after");
    }
}
