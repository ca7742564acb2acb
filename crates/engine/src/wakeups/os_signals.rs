//! Signals of the operating system that elements wait for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use element::ElementId;
use signal_hook::SigId;

/// The operating-system signals that elements wait for. A signal handler only sets a flag, and the driver
/// checks the flags.
#[derive(Default)]
pub(crate) struct OsSignals {
    entries: Vec<Entry>,
}

struct Entry {
    element: ElementId,
    number: i32,
    raised: Arc<AtomicBool>,
    handler: SigId,
}

impl OsSignals {
    /// Begins to wait for a signal, or stops waiting for it if `on` is false.
    ///
    /// # Errors
    /// If the signal must not be handled (such as SIGKILL or SIGSEGV), or the system refuses the signal
    /// handler.
    pub(crate) fn set(&mut self, element: ElementId, number: i32, on: bool) -> io::Result<()> {
        let wanted = |entry: &Entry| (entry.element, entry.number) == (element, number);
        if !on {
            self.entries.extract_if(.., |entry| wanted(entry)).for_each(Entry::end);
        } else if !self.entries.iter().any(wanted) {
            if signal_hook::consts::FORBIDDEN.contains(&number) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let raised = Arc::new(AtomicBool::new(false));
            let handler = signal_hook::flag::register(number, Arc::clone(&raised))?;
            self.entries.push(Entry { element, number, raised, handler });
        }
        Ok(())
    }

    /// Returns the signals that have come since the last call, each with the element that waits for it.
    pub(crate) fn take(&mut self) -> Vec<(ElementId, i32)> {
        let raised = self.entries.iter().filter(|entry| entry.raised.swap(false, Ordering::Relaxed));
        raised.map(|entry| (entry.element, entry.number)).collect()
    }

    /// The signals that end a run unless an element waits for them.
    pub(crate) const INTERRUPTS: [i32; 2] = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

    /// True if one of the [`INTERRUPTS`](Self::INTERRUPTS) that an element waits for has come. Call this
    /// after another flag of the same signal was found set: the two flags are set one after the other,
    /// perhaps on another thread. So this function first sleeps for 1 ms, unless no element waits for these
    /// signals.
    pub(crate) fn has_come(&self) -> bool {
        let mut entries =
            self.entries.iter().filter(|entry| Self::INTERRUPTS.contains(&entry.number)).peekable();
        if entries.peek().is_none() {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        entries.any(|entry| entry.raised.load(Ordering::Relaxed))
    }

    /// True if an element waits for this signal.
    pub(crate) fn awaits(&self, number: i32) -> bool {
        self.entries.iter().any(|entry| entry.number == number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    fn end(self) {
        signal_hook::low_level::unregister(self.handler);
    }
}

impl Drop for OsSignals {
    fn drop(&mut self) {
        self.entries.drain(..).for_each(Entry::end);
    }
}
