//! The timer by which elements write to files what they have gathered for them.

use packet::Timestamp;

use crate::Cx;

/// The longest time that what is meant for a file waits in memory.
const LONGEST: Timestamp = Timestamp(1_000_000_000);

/// A timer that ends at most a second after the first byte of what waits in memory for a file.
///
/// Under the captures' time there is none: nobody looks at the file before the end of the run, and a timer would add events.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteTimer {
    is_set: bool,
}

impl WriteTimer {
    /// Sets the timer with this number, if it is not set. For each batch of which something was gathered.
    #[inline]
    pub fn start(&mut self, cx: &mut Cx<'_>, token: u32) {
        if !self.is_set && !cx.follows_captures() {
            self.is_set = true;
            cx.set_coarse_timer(token, cx.now() + LONGEST);
        }
    }

    /// Notes that what was gathered is written now; for [`Element::timer`](crate::Element::timer).
    pub fn end(&mut self) {
        self.is_set = false;
    }
}
