//! Decides when FromDump and FromIPSummaryDump send the packets of their files.

use element::{Cx, Signal, Timestamp};

/// The pace of a source. Packets are held back until their time under the trace clock or with TIMING;
/// otherwise all packets are due at once.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// True if packets are sent with the time between them that their time stamps have (TIMING).
    timing: bool,
    /// With TIMING, the time to add to a time stamp to get the time of sending. The first call of `is_due`,
    /// also after `restart`, determines it, so that its packet is due at once.
    shift: Option<Timestamp>,
}

impl Pace {
    pub(crate) fn new(timing: bool) -> Pace {
        Pace { timing, shift: None }
    }

    /// Returns this pace with the `shift` of `before`, the pace of the source that this source replaces.
    pub(crate) fn go_on(self, before: Pace) -> Pace {
        Pace { shift: before.shift, ..self }
    }

    /// With TIMING, makes the packet of the next call of `is_due` due at once, and counts the times of later
    /// packets from this packet.
    pub(crate) fn restart(&mut self) {
        self.shift = None;
    }

    /// True if a packet with this time stamp is due. Otherwise sets timer 0 for the time when it will be
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

/// Starts a source that has packets: schedules its task if it pushes, or turns on its signal for elements
/// that pull.
pub(crate) fn begin(cx: &mut Cx<'_>) {
    if cx.graph().output_is_push(0) {
        cx.schedule();
    } else {
        cx.set_signal(Signal::Packets, true);
    }
}
