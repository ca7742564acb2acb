//! Captures of the packets at a place of the running graph: at an input or output of an element, or of all
//! packets that are dropped.
//!
//! While packets are captured, each worker has a [`Tap`]. At an input or output, the engine asks it where it
//! asks the tracer, in `watched_calls.rs`; so without both, they cost one comparison per call of an element.
//! The tap for dropped packets is the worker's `DropWatch`. A tap copies packets into a buffer of fixed size
//! that all workers share; it allocates no memory and writes no file. A thread of the capture writes
//! the buffer to the file every [`PERIOD`]. Packets that the buffer has no room for are counted.
//!
//! ```text
//! worker 0: Tap ──copy──▶ ┌────────┐  swapped   ┌────────┐
//! worker 1: Tap ──copy──▶ │ buffer │ ─────────▶ │ buffer │──▶ CaptureFile::write
//!                         └────────┘            └────────┘    thread of the capture
//! ```
//!
//! The run has at most one capture at a time. A capture ends when it has its packets, on request, and at the
//! end of the run; also when another configuration replaces the graph, because elements then have other
//! numbers.

mod buffer;
mod order;
mod tap;

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use element::{ElementId, FileScope, Timestamp, background};

use crate::plan::Plan;
use buffer::Buffer;
pub(crate) use buffer::Moment;
pub(crate) use order::{CaptureOrder, Place};
pub(crate) use tap::Tap;

/// The time between two looks of the capture's thread into the buffer.
const PERIOD: Duration = Duration::from_millis(10);

/// A file into which captured packets are written. The engine knows no formats of files.
pub trait CaptureFile: Send {
    /// Adds a packet to the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn write(&mut self, packet: &CapturedPacket<'_>) -> io::Result<()>;

    /// Writes everything that is buffered.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn flush(&mut self) -> io::Result<()>;
}

/// A packet as it was when it was captured.
pub struct CapturedPacket<'a> {
    /// The packet's time stamp, or the batch time if it has none.
    pub time: Timestamp,
    /// The link type, as its number in capture files, of the header with which the packet starts.
    pub link: u16,
    /// The bytes of the packet.
    pub data: &'a [u8],
    /// The element, and what the packet was there.
    pub comment: &'a str,
}

/// The function that makes the file of a capture from an opened file and the name of the place.
pub type MakeCapture = Box<dyn Fn(File, &str) -> Box<dyn CaptureFile> + Send + Sync>;

/// The captures of a run, which all workers share.
pub struct Captures {
    make: MakeCapture,
    inner: Mutex<Inner>,
    /// Notified when a capture is asked to end, and when it has ended.
    changed: Condvar,
    /// True while packets are wanted. Taps look at it before they lock `inner`.
    is_open: AtomicBool,
}

#[derive(Default)]
struct Inner {
    current: Option<Capture>,
    /// The number of captures so far. A tap belongs to the capture of one number.
    number: u64,
    buffer: Buffer,
}

/// The capture that is under way, or was the last.
struct Capture {
    order: CaptureOrder,
    plan: Arc<Plan>,
    /// The number of packets that are still wanted.
    left: u64,
    written: u64,
    /// The number of packets that found no room in the buffer.
    missed: u64,
    phase: Phase,
}

/// The phase of a capture. Both texts are the reason for its end.
enum Phase {
    Open,
    /// No more packets are taken, and the thread writes those in the buffer.
    Closing(String),
    Closed(String),
}

impl Captures {
    /// Makes the captures of a run. `make` makes the files.
    pub fn new(make: MakeCapture) -> Captures {
        Captures { make, inner: Mutex::default(), changed: Condvar::new(), is_open: AtomicBool::new(false) }
    }

    /// Begins a capture. The file is created in the part of the file system that `files` allows.
    ///
    /// # Errors
    /// If a capture is under way, or the file or the thread cannot be made: a message for the user.
    pub(crate) fn begin(
        self: &Arc<Self>,
        order: CaptureOrder,
        plan: &Arc<Plan>,
        files: &FileScope,
    ) -> Result<(), String> {
        let mut inner = self.lock();
        if let Some(capture) = inner.current.as_ref().filter(|capture| !capture.is_closed()) {
            return Err(format!("a capture into '{}' is under way; write `stop` first", capture.order.file));
        }
        let failed = |error: io::Error| format!("{}: {error}", order.file);
        let file = (self.make)(files.create_new(&order.file).map_err(failed)?, &order.at);
        let captures = Arc::clone(self);
        inner.buffer = Buffer::new().ok_or("no memory for a buffer")?;
        let spare = Buffer::new().ok_or("no memory for a buffer")?;
        background::spawn("capture", move || captures.write(file, spare))
            .map_err(|error| format!("no thread for the capture: {error}"))?;
        inner.number += 1;
        let left = order.packets;
        let plan = Arc::clone(plan);
        inner.current = Some(Capture { order, plan, left, written: 0, missed: 0, phase: Phase::Open });
        self.is_open.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the capture that is under way, for a reason. The thread then writes what is in the buffer.
    pub(crate) fn end(&self, reason: &str) {
        let mut inner = self.lock();
        if let Some(capture) = inner.current.as_mut().filter(|capture| matches!(capture.phase, Phase::Open)) {
            capture.phase = Phase::Closing(reason.into());
        }
        self.is_open.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Ends the capture that is under way because the run has ended, and waits until its file is complete.
    pub fn finish(&self) {
        self.end("the run has ended");
        let is_under_way = |inner: &mut Inner| inner.current.as_ref().is_some_and(|c| !c.is_closed());
        drop(self.changed.wait_while(self.lock(), is_under_way));
    }

    /// Returns the capture that is under way: its number, and its order.
    fn current(&self) -> Option<(u64, CaptureOrder)> {
        let inner = self.lock();
        let current = inner.current.as_ref().filter(|capture| matches!(capture.phase, Phase::Open));
        current.map(|capture| (inner.number, capture.order.clone()))
    }

    /// Copies packets into the buffer, as many as are still wanted.
    fn take<'a>(&self, number: u64, moment: &Moment, packets: impl Iterator<Item = &'a element::Packet>) {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let current = inner.current.as_mut().filter(|_| inner.number == number);
        let Some(capture) = current.filter(|capture| matches!(capture.phase, Phase::Open)) else { return };
        for packet in packets {
            if !inner.buffer.add(moment, packet) {
                capture.missed += 1;
                continue;
            }
            capture.left -= 1;
            if capture.left == 0 {
                capture.phase = Phase::Closing("it has its packets".into());
                self.is_open.store(false, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Writes the packets of a capture to its file until it ends. This is the work of its thread.
    fn write(&self, mut file: Box<dyn CaptureFile>, mut spare: Buffer) {
        loop {
            let is_open =
                |inner: &mut Inner| inner.current.as_ref().is_some_and(|c| matches!(c.phase, Phase::Open));
            let waited = self.changed.wait_timeout_while(self.lock(), PERIOD, is_open);
            let mut inner = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(inner, _)| inner);
            std::mem::swap(&mut inner.buffer, &mut spare);
            let Some(capture) = &inner.current else { return };
            let (plan, is_last) = (Arc::clone(&capture.plan), !matches!(capture.phase, Phase::Open));
            drop(inner);
            let (written, result) = spare.write_to(&mut *file, &plan.graph);
            let mut inner = self.lock();
            let Some(capture) = &mut inner.current else { return };
            capture.written += written;
            if let Err(error) = result {
                self.is_open.store(false, Ordering::Relaxed);
                capture.phase = Phase::Closed(error.to_string());
            } else if is_last && let Phase::Closing(reason) = &mut capture.phase {
                capture.phase = Phase::Closed(std::mem::take(reason));
            }
            if capture.is_closed() {
                inner.buffer = Buffer::default();
                self.changed.notify_all();
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Capture {
    fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed(_))
    }
}

/// The text of the handler `capture`: the capture that is under way, or was the last.
impl fmt::Display for Captures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        let Some(Capture { order, written, missed, phase, .. }) = &inner.current else {
            return writeln!(f, "no packets have been captured");
        };
        let CaptureOrder { at, file, packets, pattern, .. } = order;
        let of = if pattern.is_empty() { String::new() } else { format!(" ({pattern})") };
        writeln!(f, "capture of {at}{of} into {file}: {written} of {packets} packets written")?;
        if *missed > 0 {
            writeln!(f, "{missed} packets are missing: the buffer had no room for them")?;
        }
        match phase {
            Phase::Open => writeln!(f, "under way"),
            Phase::Closing(reason) => writeln!(f, "ending: {reason}"),
            Phase::Closed(reason) => writeln!(f, "ended: {reason}"),
        }
    }
}

/// The names of elements, for comments.
fn declaration(graph: &lang::Graph, element: ElementId) -> String {
    graph.elements.get(element).map_or(String::new(), |e| format!("{} :: {}", e.name, e.class))
}
