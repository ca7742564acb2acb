//! Signals. The first interrupt (Ctrl-C, SIGTERM) asks a run to end with its report; a later one ends the
//! program immediately. Other signals are requests to a run, which continues.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Report, Requests};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::iterator::Signals;

use crate::table;

const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];
/// The time during which several signals are one request: `timeout`, for example, signals a program and
/// then its process group.
const SAME: Duration = Duration::from_millis(250);
/// The interval at which the flag of a request is checked. An element may take the signal for itself late,
/// and the next signal is then a new request.
const LOOK: Duration = Duration::from_millis(5);

/// Sets a flag on interrupt and termination from now on. A later signal, while the flag is set, ends the
/// program as usual.
pub(crate) fn listen(flag: &Arc<AtomicBool>) {
    let late = follow(flag).unwrap_or_else(|| Arc::clone(flag));
    for signal in SIGNALS {
        let default = register_conditional_default(signal, Arc::clone(&late));
        // Without handlers, an interrupt ends the run immediately, which is no reason not to start it.
        let _ = default.and_then(|_| register(signal, Arc::clone(flag)));
    }
}

/// Turns the signals USR1, USR2 and HUP into requests from now on, so that they do not end the program. The
/// run serves them after its start.
pub(crate) fn requests() -> Requests {
    let begun = Instant::now();
    let render = move |report: &Report| table::render(report, begun.elapsed(), true);
    let requests = Requests { render: Some(Arc::new(render)), ..Requests::default() };
    let flags = [(SIGUSR1, &requests.report), (SIGHUP, &requests.reload), (SIGUSR2, &requests.nothing)];
    for (signal, flag) in flags {
        // Without a handler, the signal ends the program, which is no reason not to start it.
        let _ = register(signal, Arc::clone(flag));
    }
    requests
}

/// Returns a flag that follows another one with a delay, or `None` if no thread or signal handler is
/// available for that.
fn follow(flag: &Arc<AtomicBool>) -> Option<Arc<AtomicBool>> {
    let mut signals = Signals::new(SIGNALS).ok()?;
    let late = Arc::new(AtomicBool::new(false));
    let (from, to) = (Arc::clone(flag), Arc::clone(&late));
    let follow = move || {
        for _ in signals.forever() {
            // The loop ends when the program ends, or when an element has taken the signal for itself.
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
