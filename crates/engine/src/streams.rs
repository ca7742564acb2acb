//! The outputs for the text of a run: standard output and standard error, with stamps at the start of log
//! lines.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::{Arc, Mutex};

use element::OutputStream;
use lang::Severity;
use time::OffsetDateTime;
use time::format_description::well_known::Iso8601;
use time::format_description::well_known::iso8601::{Config, EncodedConfig, TimePrecision};

/// An output for the text of a run: of scripts, elements and messages.
pub trait Sink: Send {
    /// Writes text unchanged, except for a stamp at the start of log text. Errors are not reported.
    fn write(&mut self, stream: OutputStream, text: fmt::Arguments<'_>);
    /// Writes out all text that is still buffered.
    fn flush(&mut self);
}

/// Standard output and standard error, buffered so that printing a packet does not need a system call.
pub struct StandardStreams {
    output: io::BufWriter<io::Stdout>,
    messages: io::BufWriter<io::Stderr>,
    stamp: Stamp,
    /// True if standard output carries other data, such as a report in JSON: text for it then goes to
    /// standard error.
    yields_output: bool,
}

/// The kind of stamp at the start of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamp {
    /// No stamp.
    #[default]
    None,
    /// Date and time (UTC) and the severity, for log files and terminals.
    Time,
    /// The severity as a number in angle brackets, as in sd-daemon(3): for systemd's journal, which adds
    /// the time itself.
    Priority,
}

impl StandardStreams {
    /// Makes buffered streams with this stamp at the start of log lines.
    pub fn new(stamp: Stamp) -> Self {
        StandardStreams {
            output: io::BufWriter::new(io::stdout()),
            messages: io::BufWriter::new(io::stderr()),
            stamp,
            yields_output: false,
        }
    }

    /// Sends text for standard output to standard error if `yes` is true, because standard output carries
    /// other data.
    pub fn yielding_output(self, yes: bool) -> Self {
        StandardStreams { yields_output: yes, ..self }
    }
}

impl Default for StandardStreams {
    fn default() -> Self {
        StandardStreams::new(Stamp::None)
    }
}

impl Stamp {
    /// Returns the stamp for a line of this severity that is written now.
    fn text(self, severity: Severity) -> String {
        match (self, severity) {
            (Stamp::None, _) => String::new(),
            (Stamp::Time, _) => format!("{} {severity}: ", now()),
            (Stamp::Priority, Severity::Error) => "<3>".into(),
            (Stamp::Priority, Severity::Warning) => "<4>".into(),
            (Stamp::Priority, Severity::Note) => "<6>".into(),
        }
    }
}

/// Returns the current date and time, in UTC and with milliseconds, in the format of RFC 3339.
fn now() -> String {
    const MILLISECONDS: NonZero<u8> = NonZero::new(3).expect("3 is not 0");
    const FORMAT: EncodedConfig = Config::DEFAULT
        .set_time_precision(TimePrecision::Second { decimal_digits: Some(MILLISECONDS) })
        .encode();
    OffsetDateTime::now_utc().format(&Iso8601::<FORMAT>).unwrap_or_default()
}

impl Sink for StandardStreams {
    fn write(&mut self, stream: OutputStream, text: fmt::Arguments<'_>) {
        // Errors are ignored: a closed terminal or pipe must not end the run, because its packets matter
        // more than its text.
        let _ = match stream {
            OutputStream::Output if self.yields_output => self.messages.write_fmt(text),
            OutputStream::Output => self.output.write_fmt(text),
            OutputStream::Messages => self.messages.write_fmt(text),
            OutputStream::Log(severity) => {
                let stamp = self.stamp.text(severity);
                self.messages.write_fmt(format_args!("{stamp}{text}"))
            }
        };
    }

    fn flush(&mut self) {
        let _ = self.output.flush();
        let _ = self.messages.flush();
    }
}

/// A sink that several workers share, protected by a lock. Text is written for people and is rare, so the
/// cost of the lock does not matter.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Box<dyn Sink>>>);

impl Shared {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Shared {
        Shared(Arc::new(Mutex::new(sink)))
    }
}

impl Sink for Shared {
    fn write(&mut self, stream: OutputStream, text: fmt::Arguments<'_>) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).write(stream, text);
    }

    fn flush(&mut self) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_a_log_have_time_and_severity_in_front() {
        assert_eq!(Stamp::None.text(Severity::Warning), "");
        assert_eq!(Stamp::Priority.text(Severity::Warning), "<4>");
        let text = Stamp::Time.text(Severity::Note);
        let (time, rest) = text.split_once(' ').unwrap();
        assert_eq!(rest, "note: ");
        // The shape of a time such as 2026-11-27T17:30:01.123Z.
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    }
}
