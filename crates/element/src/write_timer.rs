//! A timer with which elements write to files the data that they have gathered.

use packet::Timestamp;

use crate::Cx;

/// The longest time that data for a file waits in memory.
const LONGEST: Timestamp = Timestamp(1_000_000_000);

/// A timer that ends at most a second after the first byte of the data that waits in memory for a file.
///
/// Under the trace clock there is no timer: files are not read before the end of the run, and a timer would
/// add events.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteTimer {
    is_set: bool,
}

impl WriteTimer {
    /// Sets the timer with this number, if it is not set. An element calls it for each batch from which it
    /// has gathered data.
    #[inline]
    pub fn start(&mut self, cx: &mut Cx<'_>, token: u32) {
        if !self.is_set && !cx.follows_captures() {
            self.is_set = true;
            cx.set_coarse_timer(token, cx.now() + LONGEST);
        }
    }

    /// Records that the gathered data is being written; for [`Element::timer`](crate::Element::timer).
    pub fn end(&mut self) {
        self.is_set = false;
    }
}
