//! Signals. Of interrupts (Ctrl-C, SIGTERM) the first one asks a run to end with its report, and a later one ends the program at
//! once. Others are requests to a run that goes on.

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
/// For how long signals are the same request: `timeout`, for one, signals a program and then the group that it is in.
const SAME: Duration = Duration::from_millis(250);
/// How often to look whether a request still holds. An element may have taken the signal for itself rather late, and the
/// next one is a new request.
const LOOK: Duration = Duration::from_millis(5);

/// Sets a flag on interrupt and termination from now on. Signals that come later, while the flag is set, end the program as usual.
pub(crate) fn listen(flag: &Arc<AtomicBool>) {
    let late = follow(flag).unwrap_or_else(|| Arc::clone(flag));
    for signal in SIGNALS {
        let default = register_conditional_default(signal, Arc::clone(&late));
        // Without handlers an interrupt ends the run at once, which is no reason not to start it.
        let _ = default.and_then(|_| register(signal, Arc::clone(flag)));
    }
}

/// Keeps the signals USR1, USR2 and HUP from ending the program from now on. They are requests to a run, which serves them when it
/// has begun.
pub(crate) fn requests() -> Requests {
    let begun = Instant::now();
    let render = move |report: &Report| table::render(report, begun.elapsed(), true);
    let requests = Requests { render: Some(Arc::new(render)), ..Requests::default() };
    let flags = [(SIGUSR1, &requests.report), (SIGHUP, &requests.reload), (SIGUSR2, &requests.nothing)];
    for (signal, flag) in flags {
        // Without a handler the signal ends the program, which is no reason not to start it.
        let _ = register(signal, Arc::clone(flag));
    }
    requests
}

/// A flag that does as another one does, but later. `None` where the system gives no thread for that.
fn follow(flag: &Arc<AtomicBool>) -> Option<Arc<AtomicBool>> {
    let mut signals = Signals::new(SIGNALS).ok()?;
    let late = Arc::new(AtomicBool::new(false));
    let (from, to) = (Arc::clone(flag), Arc::clone(&late));
    let follow = move || {
        for _ in signals.forever() {
            // Until the program ends, or an element has taken the signal for itself.
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
