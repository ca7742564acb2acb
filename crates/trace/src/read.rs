//! The analysis of capture files, from the files to a report.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use capture::{LinkType, Reader, Record};
use flow::TableError;

use crate::packet::Dissected;
use crate::passes::{Analyzer, Options};
use crate::report::{TraceReport, TraceSummary};

/// Reasons for which [`analyze`] returns no report.
#[derive(Debug)]
pub enum Error {
    /// A capture cannot be opened, or has no good packet before its damage.
    Capture(capture::Error),
    /// There is no memory for the table of flows.
    Flows(TableError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Capture(error) => error.fmt(f),
            Error::Flows(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Capture(error) => Some(error),
            Error::Flows(error) => Some(error),
        }
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Error {
        Error::Flows(error)
    }
}

/// Analyzes several captures, one after the other, as one trace. `open` is called once for each capture,
/// and again if a second pass is needed.
///
/// A damaged capture counts up to the damage, which is mentioned in the notes of the report. Also mentioned
/// is a capture that cannot be opened for the second pass, such as a pipe.
///
/// # Errors
/// If a capture cannot be opened or has no good packet before its damage, or if there is no memory for
/// flows.
pub fn analyze(
    captures: &[PathBuf],
    options: Options,
    mut open: impl FnMut(&Path) -> Result<Reader, capture::Error>,
) -> Result<TraceReport, Error> {
    let mut analyzer = Analyzer::new(options)?;
    let (mut traces, mut notes, mut unknown_packets) = (Vec::new(), Vec::new(), 0);
    for path in captures {
        let mut reader = open(path).map_err(Error::Capture)?;
        analyzer.begin();
        let mut unknown: BTreeMap<u16, u64> = BTreeMap::new();
        let (packets, fault) = each(&mut reader, |record| {
            if !Dissected::link_is_known(record.link) {
                *unknown.entry(record.link.number()).or_default() += 1;
            }
            analyzer.observe(record)
        })?;
        let name = path.display().to_string();
        for (number, count) in unknown {
            unknown_packets += count;
            let link = LinkType::from_number(number);
            notes.push(format!(
                "{name}: {link} is not known: {count} packets count, but no flow is seen in them"
            ));
        }
        let complete = fault.is_none();
        match fault {
            Some(fault) if packets == 0 => return Err(Error::Capture(fault)),
            Some(fault) => notes.push(format!("{fault}; the {packets} packets before it count")),
            None => notes.extend(reader.warning()),
        }
        traces.push(TraceSummary { name, packets, complete });
    }
    let (mut report, mut second) = analyzer.finish()?;
    if second.is_needed() {
        for path in captures {
            second.begin();
            let read = open(path).map(|mut reader| {
                each(&mut reader, |record| {
                    second.observe(record);
                    Ok(())
                })
            });
            // A second pass can also end early because of damage, but the first pass has already noted
            // that.
            if let Err(error) = read {
                notes.push(format!(
                    "{error}; it has to be read a second time for flows of more than 10 MB and for busy addresses, and \
                     is missing there"
                ));
            }
        }
    }
    second.finish(&mut report);
    Ok(TraceReport { traces, notes, unknown_packets, ..report })
}

/// Passes each packet of a capture to `take`, up to the end or the first fault. Returns the number of
/// packets, and the fault if there was one.
fn each(
    reader: &mut Reader,
    mut take: impl FnMut(&Record<'_>) -> Result<(), TableError>,
) -> Result<(u64, Option<capture::Error>), TableError> {
    let mut packets = 0;
    loop {
        match reader.next() {
            Ok(Some(record)) => take(&record)?,
            Ok(None) => return Ok((packets, None)),
            Err(fault) => return Ok((packets, Some(fault))),
        }
        packets += 1;
    }
}
