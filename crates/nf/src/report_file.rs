//! Files that elements write for people while packets flow, and finish at the end.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use element::{Cx, WriteTimer};

use crate::printers::reason;

/// A file, or standard output for `-`. The first thing that goes wrong is kept until the end, so that whoever writes
/// need not look.
pub(crate) struct ReportFile {
    path: String,
    file: BufWriter<Box<dyn Write + Send>>,
    timer: WriteTimer,
    fault: Option<io::Error>,
}

/// Bytes that are gathered before the system is asked to write them.
const GATHERED: usize = 1 << 16;

impl ReportFile {
    /// Creates the file.
    ///
    /// # Errors
    /// The path, and why not.
    pub(crate) fn create(path: &str) -> Result<ReportFile, String> {
        let file: Box<dyn Write + Send> = match path {
            "-" => Box::new(io::stdout()),
            path => Box::new(File::create(path).map_err(|error| format!("{path}: {}", reason(&error)))?),
        };
        let file = BufWriter::with_capacity(GATHERED, file);
        Ok(ReportFile { path: path.to_string(), file, timer: WriteTimer::default(), fault: None })
    }

    /// Whether it is standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.path == "-"
    }

    /// What `write!` calls.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        let written = self.file.write_fmt(text);
        self.note(written);
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.fault.get_or_insert(error);
        }
    }

    /// Sees to it that the element's timer with this number ends within a second, if anything waits in memory.
    #[inline]
    pub(crate) fn set_timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if !self.file.buffer().is_empty() {
            self.timer.start(cx, token);
        }
    }

    /// Writes what waits in memory, when that timer has ended.
    pub(crate) fn write_out(&mut self) {
        self.timer.end();
        let flushed = self.file.flush();
        self.note(flushed);
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The path, and what went wrong first.
    pub(crate) fn close(mut self) -> Result<(), String> {
        let flushed = self.file.flush();
        self.note(flushed);
        self.fault.map_or(Ok(()), |error| Err(format!("{}: {}", self.path, reason(&error))))
    }
}
