//! Messages to the service manager (sd_notify(3)). Without one, they have no effect.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use element::background;
use engine::Inspector;
use sd_notify::NotifyState;

/// Tells the service manager that the run has begun: interfaces are open, and packets are processed from now
/// on.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells the service manager that the run is ending.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// An error means that the service manager has gone, which is no reason to end the run.
fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// The time within which the service manager wants a sign that the run goes on (`WatchdogSec=` of systemd).
/// It restarts the service without one. `None` if no service manager has asked for signs.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// A thread that tells the service manager that all workers go on. It ends when this value is dropped.
pub(crate) struct Watching {
    _ends: mpsc::Sender<()>,
}

/// Starts to ask all workers for a sign, at least four times in each `limit`, and to tell the service manager
/// when all of them have given one.
///
/// # Errors
/// If the system has no room for a further thread: the message for the user.
pub(crate) fn watch(limit: Duration, inspector: Inspector) -> Result<Watching, String> {
    let (ends, ended) = mpsc::channel();
    let pause = limit / 4;
    let watch = move || {
        loop {
            let begun = Instant::now();
            if all_go_on(&inspector, limit) {
                tell(&[NotifyState::Watchdog]);
            }
            let left = pause.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            if ended.recv_timeout(left) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    match background::spawn("watchdog", watch) {
        Ok(_) => Ok(Watching { _ends: ends }),
        Err(error) => Err(format!("no thread for the watchdog: {}", crate::reason(&error))),
    }
}

/// True if each worker answers within `limit`.
fn all_go_on(inspector: &Inspector, limit: Duration) -> bool {
    let (signs, given) = mpsc::channel();
    // The first worker wakes the others, so it is asked last.
    for worker in (0..inspector.workers()).rev() {
        let signs = signs.clone();
        let reply = Box::new(move |()| {
            let _ = signs.send(());
        });
        if inspector.ask_sign(worker, reply).is_err() {
            return false;
        }
    }
    drop(signs);
    let until = Instant::now() + limit;
    (0..inspector.workers())
        .all(|_| given.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok())
}
