//! The log of a translator's sessions: when each mapping was made and removed. The workers' copies of a graph
//! share it.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

impl Counts {
    fn add(&mut self, more: Counts) {
        self.created += more.created;
        self.deleted += more.deleted;
    }
}

/// The numbers of events in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) created: u64,
    pub(super) deleted: u64,
}

/// A log of sessions, to which the translators of all workers write. After a reload, the log of the new graph
/// has the contents of the old one, so both graphs write to the same file while workers change over.
///
/// Its locks are taken for each session that begins or ends, not for each packet.
#[derive(Default)]
pub(super) struct SessionLog(Mutex<Arc<Mutex<Log>>>);

/// The contents of a log.
#[derive(Default)]
pub(super) struct Log {
    settings: Settings,
    text: Option<TextFile>,
    exporter: Option<Exporter>,
    counts: Counts,
    /// True if the counts include those of a log with other settings that this log has replaced.
    has_counts_of_old: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SessionLog {
    /// Calls `work` with the contents of the log.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Log) -> T) -> T {
        let contents = Arc::clone(&lock(&self.0));
        work(&mut lock(&contents))
    }

    /// Continues the log of a replaced graph. With the same settings, both logs have the contents of the old
    /// one from now on, with the events that this log has had. With other settings, this log takes over the
    /// counts.
    ///
    /// # Errors
    /// If a write to the old file failed.
    pub(super) fn continue_from(&self, old: &SessionLog) -> Result<(), String> {
        let old = Arc::clone(&lock(&old.0));
        let mut own = lock(&self.0);
        if Arc::ptr_eq(&old, &own) {
            // The copy of another worker has done it.
            return Ok(());
        }
        let is_same = {
            let (mut before, mut now) = (lock(&old), lock(&own));
            let is_same = before.settings == now.settings;
            match is_same {
                true => before.take_over(&mut now),
                false => {
                    if !mem::replace(&mut now.has_counts_of_old, true) {
                        now.counts.add(before.counts);
                    }
                    if let (Some(old), Some(new)) = (&before.text, &mut now.text)
                        && old.path == new.path
                    {
                        // The old log writes the line of names, or has written it.
                        new.without_names();
                    }
                    before.flush()?;
                }
            }
            is_same
        };
        if is_same {
            *own = old;
        }
        Ok(())
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
        let Some(old) = &mut self.text else { return Ok(()) };
        old.flush();
        if old.path != STANDARD_OUTPUT {
            let mut new = TextFile::open(&old.path)?;
            // What the old file had no room for is written to the new one.
            new.take_lines(old);
            self.text = Some(new);
        }
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

    /// Returns the number of events that were not written to the file, because it could not be written for
    /// too long.
    pub(super) fn unwritten(&self) -> u64 {
        self.text.as_ref().map_or(0, |text| text.unwritten)
    }

    /// Takes over the events of a log with the same settings.
    fn take_over(&mut self, other: &mut Log) {
        self.counts.add(other.counts);
        if let (Some(text), Some(other)) = (&mut self.text, &mut other.text) {
            text.take_lines(other);
        }
        if let (Some(exporter), Some(other)) = (&mut self.exporter, &mut other.exporter) {
            // The records that wait there are sent from there: another socket has its own sequence.
            other.flush();
            exporter.sent += other.sent;
            exporter.unsent += other.unsent;
        }
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
/// The largest number of bytes that wait for a file that cannot be written. Further events are not written.
const MOST_WAITING: usize = 1 << 24;

/// The path that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// A file with one line per event, in comma-separated values (RFC 4180), with a line of names at its start.
struct TextFile {
    path: String,
    file: Box<dyn Write + Send>,
    /// The bytes that wait to be written: whole lines, except that the first one may have been written in
    /// part.
    lines: Vec<u8>,
    /// The number of waiting bytes from which they are written.
    enough: usize,
    /// The number of events that were lost because too many bytes waited.
    unwritten: u64,
    fault: Option<String>,
}

/// The first line of a file: the names of the values.
const NAMES: &str = "time,event,protocol,source,source_port,nat_source,nat_source_port,\
                     destination,destination_port,nat_destination,nat_destination_port\n";

impl TextFile {
    fn open(path: &str) -> Result<TextFile, String> {
        let (file, is_empty): (Box<dyn Write + Send>, bool) = if path == STANDARD_OUTPUT {
            (Box::new(io::stdout()), true)
        } else {
            let opened = File::options().create(true).append(true).open(path);
            let opened = opened.and_then(|file| Ok((file.metadata()?.len() == 0, file)));
            let (is_empty, file) = opened.map_err(|error| format!("{path}: {}", reason(&error)))?;
            (Box::new(file), is_empty)
        };
        let mut lines = Vec::with_capacity(2 * GATHERED);
        if is_empty {
            lines.extend_from_slice(NAMES.as_bytes());
        }
        Ok(TextFile { path: path.into(), file, lines, enough: GATHERED, unwritten: 0, fault: None })
    }

    /// Removes the line of names from the bytes that wait.
    fn without_names(&mut self) {
        if self.lines.starts_with(NAMES.as_bytes()) {
            self.lines.drain(..NAMES.len());
        }
    }

    /// Takes the lines that wait for another file, without its line of names.
    fn take_lines(&mut self, other: &mut TextFile) {
        other.without_names();
        self.lines.append(&mut other.lines);
        self.unwritten += mem::take(&mut other.unwritten);
        if let Some(fault) = other.fault.take() {
            self.fault.get_or_insert(fault);
        }
    }

    fn write(&mut self, event: &SessionEvent, has_destinations: bool) {
        let &SessionEvent { time, is_new, protocol, from, to } = event;
        if self.lines.len() > MOST_WAITING {
            self.unwritten += 1;
            return;
        }
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
        if lines.len() >= self.enough {
            self.flush();
        }
    }

    /// Writes the bytes that wait. What cannot be written, for example because the disk is full, goes on
    /// waiting.
    fn flush(&mut self) {
        let mut written = 0;
        let fault = loop {
            match self.file.write(&self.lines[written..]) {
                _ if written == self.lines.len() => break self.file.flush().err(),
                Ok(0) => break Some(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        self.lines.drain(..written);
        self.enough = self.lines.len() + GATHERED;
        if let Some(error) = fault {
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
