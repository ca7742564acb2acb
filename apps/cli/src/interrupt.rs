//! The handling of operating-system signals. The first interrupt (SIGINT by Ctrl-C, or SIGTERM) asks a run to
//! end with its report; an interrupt more than 250 ms later ends the program immediately. Other signals are
//! requests to a run, which continues.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Requests, RunReport};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::iterator::Signals;

use crate::table;

const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];
/// The time after an interrupt in which further signals count as the same interrupt. `timeout`, for example,
/// signals a program and then its whole process group, which includes the program.
const SAME: Duration = Duration::from_millis(250);
/// The interval at which a thread looks if the interrupt flag is still set. An element that waits for the
/// signal clears the flag; after at most this interval, the next signal counts as a first interrupt again.
const LOOK: Duration = Duration::from_millis(5);

/// Sets a flag on SIGINT and SIGTERM from now on. A further signal, while the flag is set and [`SAME`] has
/// passed, ends the program as usual.
pub(crate) fn listen(flag: &Arc<AtomicBool>) {
    let late = follow(flag).unwrap_or_else(|| Arc::clone(flag));
    for signal in SIGNALS {
        let default = register_conditional_default(signal, Arc::clone(&late));
        // If the signal handlers cannot be registered, an interrupt ends the run immediately, which is no
        // reason not to start the run.
        let _ = default.and_then(|_| register(signal, Arc::clone(flag)));
    }
}

/// Lets the signals USR1, USR2 and HUP set flags from now on; they then do not end the program. The run
/// serves the returned flags once it has started.
pub(crate) fn requests() -> Requests {
    let begun = Instant::now();
    let render = move |report: &RunReport| table::render(report, begun.elapsed(), true);
    let requests = Requests { render: Some(Arc::new(render)), ..Requests::default() };
    let flags = [(SIGUSR1, &requests.report), (SIGHUP, &requests.reload), (SIGUSR2, &requests.nothing)];
    for (signal, flag) in flags {
        // If the signal handler cannot be registered, the signal ends the program, which is no reason not to
        // start the run.
        let _ = register(signal, Arc::clone(flag));
    }
    requests
}

/// Makes a flag that copies `flag` with a delay: it is set [`SAME`] after a signal, and cleared at most
/// [`LOOK`] after `flag` is cleared. Returns `None` if no thread or signal handler is available to keep the
/// copy.
fn follow(flag: &Arc<AtomicBool>) -> Option<Arc<AtomicBool>> {
    let mut signals = Signals::new(SIGNALS).ok()?;
    let late = Arc::new(AtomicBool::new(false));
    let (from, to) = (Arc::clone(flag), Arc::clone(&late));
    let follow = move || {
        for _ in signals.forever() {
            // The loop ends when the flag is cleared, because an element has taken the signal for itself,
            // or when the program ends.
            for pause in iter::once(SAME).chain(iter::repeat(LOOK)) {
                thread::sleep(pause);
                let is_set = from.load(Ordering::Relaxed);
                to.store(is_set, Ordering::Relaxed);
                if !is_set {
                    break;
                }
            }
        }
    };
    thread::Builder::new().spawn(follow).ok()?;
    Some(late)
}
