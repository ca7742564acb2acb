//! The timer by which elements write buffered output to files, about a second after it was buffered.

use packet::Timestamp;

use crate::Cx;

/// The longest time that output for a file waits in memory.
const LONGEST: Timestamp = Timestamp(1_000_000_000);

/// The timer of an element that buffers its output to a file. It is set to a second after the first byte
/// was buffered, so that readers of the file do not wait much longer.
///
/// Under the trace clock the timer is never set: the files are not read before the end of the run, and a
/// timer would add events to the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteTimer {
    is_set: bool,
}

impl WriteTimer {
    /// Sets the timer `token`, unless it is already set. An element calls this for each batch from which it
    /// has buffered output.
    #[inline]
    pub fn start(&mut self, cx: &mut Cx<'_>, token: u32) {
        if !self.is_set && !cx.follows_captures() {
            self.is_set = true;
            cx.set_background_timer(token, cx.now() + LONGEST);
        }
    }

    /// Records that the buffered output is being written, so that the next [`start`](Self::start) sets the
    /// timer again. Elements call it in [`Element::timer`](crate::Element::timer) and whenever else they
    /// write.
    pub fn end(&mut self) {
        self.is_set = false;
    }
}
