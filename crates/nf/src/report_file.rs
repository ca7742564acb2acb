//! Report files, which elements write while packets flow and complete at the end of the run.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use element::{Cx, WriteTimer};

use crate::printers::reason;

/// A buffered report file, or standard output for the path `-`. The first write error is kept and returned
/// by [`close`](Self::close), so that callers need not check each write.
pub(crate) struct ReportFile {
    path: String,
    file: BufWriter<Box<dyn Write + Send>>,
    timer: WriteTimer,
    fault: Option<io::Error>,
}

/// The number of bytes that are buffered before a write to the file.
const GATHERED: usize = 1 << 16;

impl ReportFile {
    /// Creates the file at `path`; `-` is standard output.
    ///
    /// # Errors
    /// If the file cannot be created; the text has the path and the reason.
    pub(crate) fn create(path: &str) -> Result<ReportFile, String> {
        let file: Box<dyn Write + Send> = match path {
            "-" => Box::new(io::stdout()),
            path => Box::new(File::create(path).map_err(|error| format!("{path}: {}", reason(&error)))?),
        };
        let file = BufWriter::with_capacity(GATHERED, file);
        Ok(ReportFile { path: path.to_string(), file, timer: WriteTimer::default(), fault: None })
    }

    /// True if the element that this element replaces in a reload has the file `path` as its argument
    /// `keyword`. The open file may then be handed over with the state of the replaced element.
    ///
    /// # Errors
    /// If another element of the running configuration writes the file.
    pub(crate) fn is_handed_over(cx: &Cx<'_>, keyword: &str, path: &str) -> Result<bool, String> {
        let is_same = |arg: &String| arg.strip_prefix(keyword).is_some_and(|file| file.trim() == path);
        if cx.predecessor().is_some_and(|arguments| arguments.iter().any(is_same)) {
            return Ok(true);
        }
        cx.check_unwritten(path).map(|()| false)
    }

    pub(crate) fn is_standard_output(&self) -> bool {
        self.path == "-"
    }

    /// Writes formatted text; `write!` calls this.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        let written = self.file.write_fmt(text);
        self.note(written);
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.fault.get_or_insert(error);
        }
    }

    /// Starts the element's timer, which calls the element with `token`, if text is buffered and the timer is
    /// not running. The element then calls [`write_out`](Self::write_out), so that the text is in the file
    /// within a second. Under the trace clock, no timer is started ([`WriteTimer`]).
    #[inline]
    pub(crate) fn set_timer(&mut self, cx: &mut Cx<'_>, token: u32) {
        if !self.file.buffer().is_empty() {
            self.timer.start(cx, token);
        }
    }

    /// Writes the buffered text to the file; called when the timer of [`set_timer`](Self::set_timer) has
    /// expired.
    pub(crate) fn write_out(&mut self) {
        self.timer.end();
        let flushed = self.file.flush();
        self.note(flushed);
    }

    /// Writes the buffered text, and closes the file.
    ///
    /// # Errors
    /// If this or an earlier write failed; the text has the path and the first reason.
    pub(crate) fn close(mut self) -> Result<(), String> {
        let flushed = self.file.flush();
        self.note(flushed);
        self.fault.map_or(Ok(()), |error| Err(format!("{}: {}", self.path, reason(&error))))
    }
}
