//! The times at which packets of a capture or a summary are sent.

use element::{Cx, Signal, Timestamp};

/// The pace of a source, which holds packets back until their time.
pub(crate) struct Pace {
    /// True if packets are sent at the distances of their time stamps.
    timing: bool,
    /// The time to add to time stamps, known from the first packet on.
    shift: Option<Timestamp>,
}

impl Pace {
    pub(crate) fn new(timing: bool) -> Pace {
        Pace { timing, shift: None }
    }

    /// Takes the next packet as the first.
    pub(crate) fn restart(&mut self) {
        self.shift = None;
    }

    /// True if a packet with this time stamp is due. Otherwise timer 0 is set for the time when it will be
    /// due.
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

/// Starts a source that has packets: schedules its task, or signals packets to elements that pull.
pub(crate) fn begin(cx: &mut Cx<'_>) {
    if cx.graph().output_is_push(0) {
        cx.schedule();
    } else {
        cx.set_signal(Signal::Packets, true);
    }
}
