//! Detection of the captures at which the time of a trace goes back.

/// Finds captures that start before the end of the preceding capture: recorded in parallel, or read in
/// another order than they were recorded. Time measurements have to restart at such a capture. Otherwise
/// all of its packets would fall into the windows that were open at the end of the preceding capture. A
/// capture that starts where the preceding one ends, like rotated captures, needs no restart.
#[derive(Default)]
pub(crate) struct Clock {
    latest: Option<i64>,
    /// True if no packet of the current capture has been seen yet.
    first: bool,
    /// The number of packets with an earlier time than a preceding packet. Only preceding packets of the
    /// same capture, and of captures that it continues, are compared.
    pub(crate) behind: u64,
}

impl Clock {
    /// Starts another capture, whose first packet follows.
    pub(crate) fn begin(&mut self) {
        self.first = true;
    }

    /// Registers the next packet, which has this time in nanoseconds. True if time measurements must restart,
    /// because the packet is the first of a capture and earlier than the latest packet since the last
    /// restart.
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
        // The preceding capture ends with time 15, but the comparison uses its latest time, 20.
        assert_eq!(capture(&[18, 30]), [true, false]);
        assert_eq!(capture(&[30, 29]), [false; 2]);
        assert_eq!(capture(&[1, 2]), [true, false]);
        // Only the latest time since the last restart counts (2), not the latest of all captures (30).
        assert_eq!(capture(&[3]), [false]);
        // The packets at 15 and 29 have earlier times than the packets before them in their captures.
        assert_eq!(clock.behind, 2);
    }
}
