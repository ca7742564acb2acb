//! `--state FILE`: a run continues with the state of the run before.
//!
//! The state is read before the elements are made, and written by a thread of its own at intervals, and at
//! the end of the run.

mod file;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use element::context::secret;
use element::{Loaded, Timestamp, background};
use engine::{
    Collected, Continued, Options, Plan, SavedElement, SavedPiece, SavedRun, Saver, Workers, saving,
};

use crate::reason;
use crate::status::Failure;
use crate::steering::parse_time;
use file::{NewFile, Unread, beside};

/// The options for state on disk.
#[derive(clap::Args, Clone)]
pub(crate) struct StateOptions {
    /// Continue with the state in this file, and write the state to it (see docs/reload.md)
    ///
    /// Mappings, connections, neighbours, hosts and flows survive a restart. The file is replaced as a whole,
    /// at intervals and at the end. A file that is damaged is reported and ignored.
    #[arg(long = "state", value_name = "FILE", help_heading = "Restart")]
    path: Option<PathBuf>,
    /// The time between two writings of the state; 0 to write it at the end only
    #[arg(
        long = "state-interval", value_name = "TIME", default_value = "60s", help_heading = "Restart",
        value_parser = parse_time, allow_hyphen_values = true, requires = "path"
    )]
    interval: Duration,
}

/// The state file of a run.
pub(crate) struct StateFile {
    path: PathBuf,
    interval: Duration,
    secret: u64,
    saved: Option<Arc<SavedRun>>,
    writer: Arc<Mutex<Writer>>,
    thread: Option<Ticking>,
}

/// The writer of the state file: its path, its lock, and the message about its last failure.
struct Writer {
    path: PathBuf,
    secret: u64,
    /// The lock that keeps other runs from using the file; `None` until the lock has been taken.
    lock: Option<File>,
    /// True if there is a file at the path that is no state file, and that must not be overwritten.
    is_foreign: bool,
    /// The message about the last failed save. The same failure is not reported twice in a row.
    failure: Option<String>,
}

/// The thread that writes at intervals, and the flag that ends it.
struct Ticking {
    ends: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time by the machine's clock, in nanoseconds since 1970.
fn wall_clock() -> Timestamp {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX))
}

/// Locks the file beside a state file by which a run claims it. Returns `None` if another run has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let lock = beside(path, ".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl StateOptions {
    /// Returns the path of the state file, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Claims and reads the state file, if there is one. Problems with the file are reported, and the run
    /// starts without the state in it.
    ///
    /// # Errors
    /// If another run uses the file.
    pub(crate) fn open(&self) -> Result<Option<StateFile>, Failure> {
        let Some(path) = self.path.clone() else { return Ok(None) };
        let lock = match lock(&path) {
            Ok(Some(file)) => Some(file),
            Ok(None) => {
                let text = "another run uses this state file; give each run a file of its own";
                return Err(format!("{}: {text}", path.display()).into());
            }
            // If the lock file cannot be opened or locked, the run starts. The error is reported when the
            // state is first saved.
            Err(_) => None,
        };
        let (mut is_foreign, mut contents) = (false, None);
        match file::read(&path) {
            Ok(found) => contents = found,
            Err(unread) => {
                is_foreign = matches!(unread, Unread::Foreign);
                let rest = match is_foreign {
                    true => {
                        "the run starts without saved state, and does not save its own; move the file away"
                    }
                    false => "the file is ignored, and the run starts without saved state",
                };
                crate::warn(format_args!("{}: {unread}; {rest}", path.display()));
            }
        }
        let secret = contents.as_ref().map_or_else(secret, |contents| contents.secret);
        let saved = contents.map(|contents| Arc::new(SavedRun::new(contents.time, contents.pieces)));
        let writer = Writer { path: path.clone(), secret, lock, is_foreign, failure: None };
        Ok(Some(StateFile {
            path,
            interval: self.interval,
            secret,
            saved,
            writer: Arc::new(Mutex::new(writer)),
            thread: None,
        }))
    }
}

impl StateFile {
    /// Sets the options by which workers read and save state. Returns the collector of state if a thread is
    /// to save state at intervals, which needs the machine's clock; [`begin`](Self::begin) starts this
    /// thread.
    pub(crate) fn connect(&self, options: &mut Options, workers: usize, is_real: bool) -> Option<Saver> {
        options.saved.clone_from(&self.saved);
        options.steering_secret = Some(self.secret);
        let is_ticking = is_real && !self.interval.is_zero() && !locked(&self.writer).is_foreign;
        is_ticking.then(|| {
            let (workers, saver) = saving(workers);
            options.saving = Some(workers);
            saver
        })
    }

    /// Reports with how many entries of the saved state the run continues, and starts the thread that saves
    /// state at intervals.
    pub(crate) fn begin(&mut self, plan: &Plan, saver: Option<Saver>, is_quiet: bool) {
        if let Some(saved) = self.saved.take() {
            for line in report(&saved.continued(plan), is_quiet) {
                crate::tell(format_args!("{}: {line}", self.path.display()));
            }
        }
        let Some(saver) = saver else { return };
        let (writer, interval) = (Arc::clone(&self.writer), self.interval);
        let ends = Arc::new((Mutex::new(false), Condvar::new()));
        let own = Arc::clone(&ends);
        let thread = background::spawn("state", move || {
            tick(&writer, saver, interval, &own);
        });
        match thread {
            Ok(thread) => self.thread = Some(Ticking { ends, thread }),
            Err(error) => {
                let text = format!("no thread that saves state at intervals: {}", reason(&error));
                crate::warn(format_args!("{}: {text}; it is saved at the end", self.path.display()));
            }
        }
    }

    /// Ends the thread that writes at intervals, and writes the final state of the workers, which have ended.
    /// `time` is the run's time under the trace clock, and `None` under the machine's clock.
    ///
    /// # Errors
    /// If the state cannot be written: the message for the user.
    pub(crate) fn end(mut self, workers: &mut Workers, time: Option<Timestamp>) -> Result<(), String> {
        if let Some(Ticking { ends, thread }) = self.thread.take() {
            *locked(&ends.0) = true;
            ends.1.notify_all();
            // If the thread has panicked, its message has been printed, so the error is ignored.
            let _ = thread.join();
        }
        let mut writer = locked(&self.writer);
        // A run on the trace clock that has seen no packet (time 0) does not know a time with which its state
        // could be stored.
        if writer.is_foreign || time.is_some_and(|time| time.0 == 0) {
            return Ok(());
        }
        let written = writer.write(time.unwrap_or_else(wall_clock), |add| {
            workers.save(add);
            Collected::Whole
        });
        written.map(drop).map_err(|error| writer.message(&error))
    }
}

/// Saves the state of the workers at each interval, until the flag in `ends` is set.
fn tick(writer: &Mutex<Writer>, mut saver: Saver, interval: Duration, ends: &(Mutex<bool>, Condvar)) {
    loop {
        let waited = ends.1.wait_timeout_while(locked(&ends.0), interval, |ends| !*ends);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
        // If the graph was replaced while the state was collected, the pieces of the old graph are useless
        // (`Again`), and the state of the new graph is collected.
        while locked(writer).save(&mut saver, &|| !*locked(&ends.0)) == Collected::Again {}
    }
}

impl Writer {
    /// Collects the state of the running workers and writes it to the file. Reports a failure, unless the
    /// save before failed in the same way.
    fn save(&mut self, saver: &mut Saver, goes_on: &dyn Fn() -> bool) -> Collected {
        let result = self.write(wall_clock(), |add| saver.collect(goes_on, add));
        let failure = result.as_ref().err().map(|error| self.message(error));
        if let Some(text) = failure.as_ref().filter(|text| self.failure.as_ref() != Some(text)) {
            crate::warn(format_args!("{text}; the run goes on"));
        }
        self.failure = failure;
        result.unwrap_or(Collected::Broken)
    }

    fn message(&self, error: &io::Error) -> String {
        let path = self.path.display();
        format!("{path}: the state cannot be saved: {}; an earlier state file is kept", reason(error))
    }

    /// Writes a file with pieces of state. `collect` passes each piece to the function that is its argument.
    /// That function adds the piece to the file, and returns false after an error. The new file replaces the
    /// old file only if all pieces have been collected.
    fn write(
        &mut self,
        time: Timestamp,
        collect: impl FnOnce(&mut dyn FnMut(SavedPiece) -> bool) -> Collected,
    ) -> io::Result<Collected> {
        if self.lock.is_none() {
            let other = || io::Error::other("another run uses this state file");
            self.lock = Some(lock(&self.path)?.ok_or_else(other)?);
        }
        let mut file = NewFile::create(&self.path, time, self.secret)?;
        let mut error = None;
        let collected = collect(&mut |piece| match file.add(&piece) {
            Ok(()) => true,
            Err(found) => {
                error = Some(found);
                false
            }
        });
        if let Some(error) = error {
            return Err(error);
        }
        if collected == Collected::Whole {
            file.finish()?;
        }
        Ok(collected)
    }
}

/// Returns the lines that say what a run continues with. With `is_quiet`, returns only the lines about
/// problems.
fn report(continued: &[(SavedElement, Continued)], is_quiet: bool) -> Vec<String> {
    let (mut lines, mut sum, mut elements) = (Vec::new(), Loaded::default(), 0);
    for (SavedElement { name, class, form }, continued) in continued {
        let problem = match *continued {
            Continued::Loaded(loaded) => {
                sum.add(loaded);
                elements += 1;
                match loaded.refused {
                    0 => continue,
                    n => format!(
                        "{n} entries are ignored, because they do not fit the configuration or found no room"
                    ),
                }
            }
            Continued::Damaged(what) => format!("the saved state is damaged ({what}) and is ignored"),
            Continued::OtherForm(Some(own)) => {
                format!(
                    "the saved state has version {form} of the form, and this program reads version {own}; it is ignored"
                )
            }
            Continued::OtherForm(None) => {
                "this program reads no saved state of the class; it is ignored".into()
            }
            Continued::NoElement => "there is no such element; its saved state is ignored".into(),
        };
        lines.push(format!("{name} :: {class}: {problem}"));
    }
    if elements > 0 && !is_quiet {
        let Loaded { taken, shared, ended, .. } = sum;
        let plural = |n: u64, one: &'static str, more: &'static str| if n == 1 { one } else { more };
        let entries = plural(taken, "entry", "entries");
        let of = plural(elements, "element", "elements");
        let mut text = format!("continues with {taken} {entries} of {elements} {of}");
        if ended > 0 {
            text += &format!("; {ended} more had ended meanwhile");
        }
        if shared > 0 {
            text += &format!("; {shared} are copies of entries whose packets come to several workers");
        }
        lines.push(text);
    }
    lines
}
