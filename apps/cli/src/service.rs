//! Messages to the service manager (sd_notify(3)). Without one, they have no effect.

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
