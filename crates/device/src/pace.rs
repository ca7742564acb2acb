//! When packets of a capture or a summary are sent.

use element::{Cx, Signal, Timestamp};

/// Holds packets back until their time.
pub(crate) struct Pace {
    /// Whether packets are as far apart as their time stamps say.
    timing: bool,
    /// What has to be added to time stamps then, from the first packet on.
    shift: Option<Timestamp>,
}

impl Pace {
    pub(crate) fn new(timing: bool) -> Pace {
        Pace { timing, shift: None }
    }

    /// Takes the next packet for the first one.
    pub(crate) fn restart(&mut self) {
        self.shift = None;
    }

    /// Whether a packet with this time stamp is due; if not, timer 0 is set for when it will be.
    pub(crate) fn is_due(&mut self, cx: &mut Cx<'_>, time: Timestamp) -> bool {
        let now = cx.now();
        let due = match (cx.follows_captures(), self.timing) {
            (true, _) => time,
            (false, true) => time + *self.shift.get_or_insert(now - time),
            (false, false) => return true,
        };
        if due > now {
            cx.set_timer(0, due);
        }
        due <= now
    }
}

/// Lets a source that has packets begin: by its task, or by telling whoever pulls.
pub(crate) fn begin(cx: &mut Cx<'_>) {
    if cx.output_is_push(0) {
        cx.schedule();
    } else {
        cx.set_signal(Signal::Packets, true);
    }
}
