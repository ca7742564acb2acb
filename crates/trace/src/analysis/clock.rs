//! The points at which a trace of several captures goes back in time.

/// Finds captures that start before the end of the captures read before them: recorded in parallel, or
/// named in another order. Time measurements have to restart there, or all of such a capture would fall
/// into the windows that were open at the end of the capture before. A capture that continues where another
/// ends, like rotated captures, belongs to the same trace.
#[derive(Default)]
pub(crate) struct Clock {
    latest: Option<i64>,
    /// True if the next packet is the first of a capture.
    first: bool,
    /// The number of packets whose time is before the time of a preceding packet, in the same capture or in
    /// a capture that it continues.
    pub(crate) behind: u64,
}

impl Clock {
    /// Starts another capture.
    pub(crate) fn begin(&mut self) {
        self.first = true;
    }

    /// True if the next packet, which has this time, is the first of a capture that goes back in time.
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
        // The last time is 15, the latest is 20.
        assert_eq!(capture(&[18, 30]), [true, false]);
        assert_eq!(capture(&[30, 29]), [false; 2]);
        assert_eq!(capture(&[1, 2]), [true, false]);
        // The capture directly before counts, not the latest of all.
        assert_eq!(capture(&[3]), [false]);
        // The packets at 15 and 29.
        assert_eq!(clock.behind, 2);
    }
}
