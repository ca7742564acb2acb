//! The log of a translator's sessions: when each mapping was made and removed. The workers' copies of a graph
//! share it.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use element::Timestamp;

use super::ipfix::{Exporter, Messages};
use super::session_event::SessionEvent;
use crate::printers::reason;

/// The settings of a log. A reload continues a log with the same settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) file: Option<String>,
    pub(super) collector: Option<SocketAddr>,
    pub(super) domain: u32,
    pub(super) has_destinations: bool,
}

/// The numbers of events in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) created: u64,
    pub(super) deleted: u64,
}

/// A log of sessions, to which the translators of all workers write.
///
/// Its lock is taken for each session that begins or ends, not for each packet.
#[derive(Default)]
pub(super) struct SessionLog(Mutex<Log>);

/// The contents of a log.
#[derive(Default)]
pub(super) struct Log {
    settings: Settings,
    text: Option<TextFile>,
    exporter: Option<Exporter>,
    counts: Counts,
}

impl SessionLog {
    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// True if the copy of a worker has opened the log with these settings.
    pub(super) fn is_open(&self, settings: &Settings) -> bool {
        self.settings == *settings
    }

    /// Opens the file and the socket of a log. A file that exists is continued.
    ///
    /// # Errors
    /// A text with the file or collector and the reason.
    pub(super) fn open(&mut self, settings: &Settings) -> Result<(), String> {
        let text = settings.file.as_deref().map(TextFile::open);
        let exporter = settings.collector.map(|collector| {
            let messages = Messages::new(settings.domain, settings.has_destinations);
            Exporter::new(collector, messages).map_err(|error| format!("COLLECTOR {collector}: {error}"))
        });
        (self.text, self.exporter) = (text.transpose()?, exporter.transpose()?);
        self.settings = settings.clone();
        Ok(())
    }

    /// Writes an event.
    pub(super) fn record(&mut self, event: &SessionEvent) {
        *(if event.is_new { &mut self.counts.created } else { &mut self.counts.deleted }) += 1;
        if let Some(text) = &mut self.text {
            text.write(event, self.settings.has_destinations);
        }
        if let Some(exporter) = &mut self.exporter {
            exporter.add(event);
        }
    }

    /// Writes and sends what waits.
    ///
    /// # Errors
    /// If this or an earlier write to the file failed: a text with the file and the first reason.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        if let Some(exporter) = &mut self.exporter {
            exporter.flush();
        }
        match &mut self.text {
            Some(text) => {
                text.flush();
                text.fault.take().map_or(Ok(()), |fault| Err(format!("{}: {fault}", text.path)))
            }
            None => Ok(()),
        }
    }

    /// Opens the file again, because it was renamed, and writes to the file that now has the name.
    ///
    /// # Errors
    /// If the file cannot be opened, a text with the file and the reason; the log then continues in the
    /// renamed file.
    pub(super) fn reopen(&mut self) -> Result<(), String> {
        let Some(path) = self.settings.file.clone() else { return Ok(()) };
        self.flush()?;
        self.text = Some(TextFile::open(&path)?);
        Ok(())
    }

    /// Returns the numbers of sessions that began and ended.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the numbers of messages that were sent to the collector, and that could not be sent.
    pub(super) fn messages(&self) -> (u64, u64) {
        self.exporter.as_ref().map_or((0, 0), |exporter| (exporter.sent, exporter.unsent))
    }

    /// Continues the log of a replaced graph: its counts, and, if the settings are the same, what waits, its
    /// file and its collector. With other settings, what waits there is written first.
    ///
    /// # Errors
    /// If a write to the old file failed.
    pub(super) fn go_on_with(&mut self, mut old: Log) -> Result<(), String> {
        if old.settings == self.settings {
            // The file that this log has opened has no events of this log yet. If it was empty then, the old
            // log still has the line of names.
            self.text = None;
            *self = old;
            return Ok(());
        }
        self.counts.created += old.counts.created;
        self.counts.deleted += old.counts.deleted;
        old.flush()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The element has reported errors when it closed the log. Here are only events that a worker has
        // recorded later.
        let _ = self.flush();
    }
}

/// The number of bytes that are gathered before they are written to the file.
const GATHERED: usize = 1 << 16;

/// A file with one line per event, in comma-separated values (RFC 4180), with a line of names at its start.
struct TextFile {
    path: String,
    file: Box<dyn Write + Send>,
    lines: Vec<u8>,
    fault: Option<String>,
}

/// The first line of a file: the names of the values.
const NAMES: &str = "time,event,protocol,source,source_port,nat_source,nat_source_port,\
                     destination,destination_port,nat_destination,nat_destination_port\n";

impl TextFile {
    fn open(path: &str) -> Result<TextFile, String> {
        let mut lines = Vec::with_capacity(GATHERED);
        let file: Box<dyn Write + Send> = if path == "-" {
            lines.extend(NAMES.as_bytes());
            Box::new(io::stdout())
        } else {
            let opened = File::options().create(true).append(true).open(path);
            let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
            let (metadata, file) = opened.map_err(|error| format!("{path}: {}", reason(&error)))?;
            if metadata.len() == 0 {
                lines.extend(NAMES.as_bytes());
            }
            Box::new(file)
        };
        Ok(TextFile { path: path.into(), file, lines, fault: None })
    }

    fn write(&mut self, event: &SessionEvent, has_destinations: bool) {
        let &SessionEvent { time, is_new, protocol, from, to } = event;
        let lines = &mut self.lines;
        put_time(lines, time);
        lines.extend_from_slice(if is_new { b",create," } else { b",delete," });
        put(lines, protocol.into());
        for (address, port) in [(from.source, from.source_port), (to.source, to.source_port)] {
            put_end(lines, address, port);
        }
        if has_destinations {
            for tuple in [from, to] {
                put_end(lines, tuple.destination, tuple.destination_port);
            }
        } else {
            lines.extend_from_slice(b",,,,");
        }
        lines.push(b'\n');
        if lines.len() >= GATHERED {
            self.flush();
        }
    }

    /// Writes the lines that wait. They are whole lines, so that several programs can append to one file.
    fn flush(&mut self) {
        let written = self.file.write_all(&self.lines).and_then(|()| self.file.flush());
        self.lines.clear();
        if let Err(error) = written {
            self.fault.get_or_insert_with(|| reason(&error));
        }
    }
}

// The functions below write an event with far fewer instructions than formatting with `write!` takes.

/// Writes a number in decimal.
fn put(lines: &mut Vec<u8>, number: u64) {
    lines.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes an IPv4 address and a port, each with a comma before it.
fn put_end(lines: &mut Vec<u8>, address: u32, port: u16) {
    for (byte, separator) in address.to_be_bytes().into_iter().zip(*b",...") {
        lines.push(separator);
        put(lines, byte.into());
    }
    lines.push(b',');
    put(lines, port.into());
}

/// Writes a time like [`Timestamp`]'s `Display`: in seconds, with six digits after the point, or nine if six
/// are too few.
fn put_time(lines: &mut Vec<u8>, time: Timestamp) {
    if time.0 < 0 {
        lines.push(b'-');
    }
    let magnitude = time.0.unsigned_abs();
    let nanos = magnitude % 1_000_000_000;
    put(lines, magnitude / 1_000_000_000);
    // The digit before those of the fraction keeps their leading zeros.
    let start = lines.len();
    put(lines, if nanos.is_multiple_of(1000) { 1_000_000 + nanos / 1000 } else { 1_000_000_000 + nanos });
    lines[start] = b'.';
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_everywhere() {
        for time in
            [0, 1, -1, 999_999_999, 1_000_000_000, -5_000_007_000, 1_700_000_000_123_456_789, i64::MIN]
        {
            let mut lines = Vec::new();
            put_time(&mut lines, Timestamp(time));
            assert_eq!(String::from_utf8(lines).unwrap(), Timestamp(time).to_string());
        }
    }
}
