//! Where a trace of several captures goes back in time.

/// Finds captures that start before the end of those in front of them: recorded beside these, or named in another order.
/// What counts time has to start anew there, or all of such a capture would fall into what was open at the end of
/// the one before. One that goes on where the other ends, as rotated captures do, is the same trace.
#[derive(Default)]
pub(crate) struct Clock {
    latest: Option<i64>,
    /// Whether the next packet is a capture's first.
    first: bool,
    /// Packets with a time before that of one in front of them, in the same capture or one that it goes on from.
    pub(crate) behind: u64,
}

impl Clock {
    /// Another capture begins.
    pub(crate) fn begin(&mut self) {
        self.first = true;
    }

    /// Whether the next packet, which has this time, is the first one of such a capture.
    #[inline]
    pub(crate) fn goes_back(&mut self, time: i64) -> bool {
        let latest = self.latest.unwrap_or(time);
        let back = std::mem::take(&mut self.first) && time < latest;
        self.behind += u64::from(time < latest && !back);
        self.latest = Some(if back { time } else { latest.max(time) });
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_capture_that_starts_earlier_goes_back() {
        let mut clock = Clock::default();
        let mut capture = |times: &[i64]| {
            clock.begin();
            times.iter().map(|&time| clock.goes_back(time)).collect::<Vec<_>>()
        };
        assert_eq!(capture(&[10, 20, 15]), [false; 3]);
        // 15 was the last, 20 the latest.
        assert_eq!(capture(&[18, 30]), [true, false]);
        assert_eq!(capture(&[30, 29]), [false; 2]);
        assert_eq!(capture(&[1, 2]), [true, false]);
        // What counts is the capture in front, not the one that was latest of all.
        assert_eq!(capture(&[3]), [false]);
        // 15 and 29.
        assert_eq!(clock.behind, 2);
    }
}
