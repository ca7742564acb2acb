//! Decides when FromDump and FromIPSummaryDump send the packets of their files.

use element::{Cx, Signal, Timestamp};

/// The pace of a source. Packets are held back until their time under the trace clock or with TIMING;
/// otherwise all packets are due at once.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// True if packets are sent with the time between them that their time stamps have (TIMING).
    timing: bool,
    /// The speed in percent: with 200, the time between packets is half of that of their time stamps.
    percent: u32,
    /// With TIMING, the time stamp of a packet and the time at which it was due, from which the times of
    /// other packets are counted. The first call of `is_due`, also after `restart`, determines both, so that
    /// its packet is due at once.
    origin: Option<(Timestamp, Timestamp)>,
}

impl Pace {
    pub(crate) fn new(timing: bool) -> Pace {
        Pace { timing, percent: 100, origin: None }
    }

    /// Returns the pace with another speed, in percent; 0 counts as 1.
    pub(crate) fn accelerated(self, percent: u32) -> Pace {
        Pace { percent: percent.max(1), ..self }
    }

    /// Returns this pace with the `origin` of `before`, the pace of the source that this source replaces,
    /// unless the speed is another.
    pub(crate) fn go_on(self, before: Pace) -> Pace {
        Pace { origin: before.origin.filter(|_| before.percent == self.percent), ..self }
    }

    /// With TIMING, makes the packet of the next call of `is_due` due at once, and counts the times of later
    /// packets from this packet.
    pub(crate) fn restart(&mut self) {
        self.origin = None;
    }

    /// True if a packet with this time stamp is due. Otherwise sets timer 0 for the time when it will be
    /// due.
    pub(crate) fn is_due(&mut self, cx: &mut Cx<'_>, time: Timestamp) -> bool {
        let now = cx.now();
        let due = match (cx.follows_captures(), self.timing) {
            (true, _) => time,
            (false, true) => self.due(time, now),
            (false, false) => return true,
        };
        if due > now {
            cx.set_timer(0, due);
        }
        due <= now
    }

    /// With TIMING, returns the time at which a packet with this time stamp is due.
    fn due(&mut self, time: Timestamp, now: Timestamp) -> Timestamp {
        let (stamp, at) = *self.origin.get_or_insert((time, now));
        let nanos = i128::from((time - stamp).0) * 100 / i128::from(self.percent);
        at + Timestamp(i64::try_from(nanos).unwrap_or(i64::MAX))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_divides_the_time_between_packets() {
        let times = |percent| {
            let mut pace = Pace::new(true).accelerated(percent);
            [1_000, 1_400, 900].map(|time| pace.due(Timestamp(time), Timestamp(50)).0)
        };
        assert_eq!(times(100), [50, 450, -50]);
        assert_eq!(times(200), [50, 250, 0]);
        assert_eq!(times(50), [50, 850, -150]);
        assert_eq!(times(0), times(1));
    }
}
