//! Signals of the operating system that elements wait for.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use element::ElementId;
use signal_hook::SigId;

/// The signals for which elements of this process wait or have waited, at any worker, by number. The process
/// keeps its handler of a signal even if no element waits any more.
static AWAITED: Mutex<BTreeMap<i32, Awaited>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Awaited {
    /// The number of elements that wait for the signal.
    elements: usize,
    /// True if no element waits, so that the signal has the effect that it has by default.
    has_default_effect: Arc<AtomicBool>,
    /// True if the signal has come while an element waits for it, until a worker has seen it. Only for the
    /// [`INTERRUPTS`](OsSignals::INTERRUPTS).
    has_come: Arc<AtomicBool>,
}

/// The operating-system signals that elements wait for. While elements wait for a signal, the signal handler
/// only sets flags, which the driver checks.
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
            change(number, 1);
            match signal_hook::flag::register(number, Arc::clone(&raised)) {
                Ok(handler) => self.entries.push(Entry { element, number, raised, handler }),
                Err(error) => {
                    change(number, -1);
                    return Err(error);
                }
            }
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

    /// True if the signal that has set the flag `interrupt` is one of the [`INTERRUPTS`](Self::INTERRUPTS)
    /// that an element at any worker waits for. The flag is then cleared. A signal sets its flags one after
    /// the other, perhaps on another thread, so this function first sleeps for 1 ms, unless no element waits
    /// for these signals.
    pub(crate) fn take_interrupt(interrupt: &AtomicBool) -> bool {
        if !Self::INTERRUPTS.into_iter().any(Self::is_awaited) {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        let awaited = locked();
        let come = |number| {
            let awaited: Option<&Awaited> = awaited.get(number);
            awaited.is_some_and(|known| known.elements > 0 && known.has_come.swap(false, Ordering::SeqCst))
        };
        if Self::INTERRUPTS.iter().filter(|number| come(number)).count() > 0 {
            interrupt.store(false, Ordering::SeqCst);
            return true;
        }
        // The worker of the waiting element may have seen the signal during the sleep, and have cleared both
        // flags. Then the run goes on, too.
        !interrupt.load(Ordering::SeqCst)
    }

    /// Clears the flags of one of the [`INTERRUPTS`](Self::INTERRUPTS) that an element of this worker
    /// handles, so that it does not end the run.
    pub(crate) fn answer_interrupt(number: i32, interrupt: &AtomicBool) {
        interrupt.store(false, Ordering::SeqCst);
        if let Some(awaited) = locked().get(&number) {
            awaited.has_come.store(false, Ordering::SeqCst);
        }
    }

    /// True if an element at any worker waits for this signal.
    pub(crate) fn is_awaited(number: i32) -> bool {
        locked().get(&number).is_some_and(|awaited| awaited.elements > 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Entry {
    fn end(self) {
        signal_hook::low_level::unregister(self.handler);
        change(self.number, -1);
    }
}

fn locked() -> MutexGuard<'static, BTreeMap<i32, Awaited>> {
    AWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes the number of elements that wait for a signal. If none is left, the signal has its default effect
/// again, which ends the process for most signals. There are three exceptions: the program itself handles the
/// signal, as it does the [`INTERRUPTS`](OsSignals::INTERRUPTS) and requests to a run; the signal was ignored
/// when the process started, as SIGHUP is with `nohup`; and a real-time signal stays without effect.
fn change(number: i32, by: isize) {
    let mut awaited = locked();
    let Awaited { elements, has_default_effect, has_come } = awaited.entry(number).or_insert_with(|| {
        let awaited = Awaited::default();
        // Errors are ignored here: the caller then registers the handler that tells the element of the
        // signal, and reports an error of that.
        if OsSignals::INTERRUPTS.contains(&number) {
            let _ = signal_hook::flag::register(number, Arc::clone(&awaited.has_come));
        } else if !is_handled(number) {
            let condition = Arc::clone(&awaited.has_default_effect);
            let _ = signal_hook::flag::register_conditional_default(number, condition);
        }
        awaited
    });
    if *elements == 0 {
        has_come.store(false, Ordering::Relaxed);
    }
    *elements = elements.saturating_add_signed(by);
    has_default_effect.store(*elements == 0, Ordering::SeqCst);
}

/// True if the process ignores a signal at present, or has a handler for it.
fn is_handled(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_in = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        (1..=64).contains(&number) && mask >> (number - 1) & 1 == 1
    };
    is_in("SigIgn:") || is_in("SigCgt:")
}

impl Drop for OsSignals {
    fn drop(&mut self) {
        self.entries.drain(..).for_each(Entry::end);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use signal_hook::consts::{SIGUSR1, SIGUSR2, SIGWINCH};

    use super::*;

    /// The environment variable that tells the test that it runs in a process of its own, and what to do.
    const STEP: &str = "TIDEGATE_TEST_OF_SIGNALS";

    /// Waits for signals and stops waiting; then raises the signal that ends the process.
    fn end_by(step: &str) -> io::Result<()> {
        let raise = signal_hook::low_level::raise;
        let [mut one, mut other] = [OsSignals::default(), OsSignals::default()];
        one.set(1, SIGUSR1, true)?;
        other.set(2, SIGUSR1, true)?;
        raise(SIGUSR1)?;
        assert_eq!((one.take(), other.take()), (vec![(1, SIGUSR1)], vec![(2, SIGUSR1)]));
        // One element is left that waits.
        one.set(1, SIGUSR1, false)?;
        raise(SIGUSR1)?;
        assert_eq!((one.take(), other.take()), (vec![], vec![(2, SIGUSR1)]));
        // Neither of these signals ends the process when no element waits for it any more: SIGWINCH has no
        // effect by default, and the driver handles interrupts.
        for number in [SIGWINCH, OsSignals::INTERRUPTS[0]] {
            one.set(1, number, true)?;
            one.set(1, number, false)?;
            raise(number)?;
        }
        match step {
            "off" => other.set(2, SIGUSR1, false)?,
            "on again" => {
                other.set(2, SIGUSR1, false)?;
                other.set(2, SIGUSR1, true)?;
                raise(SIGUSR1)?;
                assert_eq!(other.take(), [(2, SIGUSR1)]);
                drop(other);
            }
            _ => {
                one.set(1, SIGUSR2, true)?;
                drop(one);
                raise(SIGUSR2)?;
            }
        }
        raise(SIGUSR1)
    }

    #[test]
    fn a_signal_has_its_effect_again_when_no_element_waits() {
        if let Ok(step) = std::env::var(STEP) {
            end_by(&step).unwrap();
            // Reached only if no signal has ended the process.
            std::process::exit(77);
        }
        let name = "wakeups::os_signals::tests::a_signal_has_its_effect_again_when_no_element_waits";
        let ended_by = |step: &str| {
            let mut test = Command::new(std::env::current_exe().unwrap());
            test.args(["--exact", name]).env(STEP, step).output().unwrap().status.signal()
        };
        assert_eq!(ended_by("off"), Some(SIGUSR1));
        assert_eq!(ended_by("on again"), Some(SIGUSR1));
        assert_eq!(ended_by("the end of the run"), Some(SIGUSR2));
    }
}
