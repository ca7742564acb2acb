//! Puts a worker without work to sleep, and keeps it awake for the last moment before a timer.
//!
//! A sleep ends late. The kernel's timer, an idle core and the scheduler add some 10 to 100 microseconds,
//! which is longer than many elements hold packets. So a worker that waits for a timer sleeps less, by as
//! much as its sleeps have been late. Then it polls for work until the timer is due, like a worker that
//! never sleeps. [`Options::spin`](crate::Options::spin) is the longest time that it stays awake.

use std::time::{Duration, Instant};

use element::{ElementId, Timestamp};
use nix::sys::prctl;

use crate::exchange::Exchange;
use crate::worker::Worker;

/// The longest sleep of an idle driver, so that an interrupt is noticed.
const NAP: Duration = Duration::from_millis(20);
/// The time for which a worker polls for work from other workers before it sleeps.
const LOOKOUT: Duration = Duration::from_micros(10);
/// The longest sleep of workers that need not notice interrupts. Other workers ring their bell.
const SLEEP: Duration = Duration::from_secs(1);

impl Worker {
    /// Asks the kernel for sleeps that end as early as possible, if timers are to be exact.
    pub(crate) fn ask_for_short_sleeps(&self) {
        if !self.options.spin.is_zero() {
            // If the kernel refuses, the measured lateness of sleeps shows it.
            let _ = prctl::set_timerslack(1);
        }
    }

    /// Waits for the next timer: asleep if it is far enough away, otherwise awake for a moment.
    pub(crate) fn wait_for_timer(&mut self) {
        let spin = i64::try_from(self.options.spin.as_nanos()).unwrap_or(i64::MAX);
        let Some(at) = self.wakeups.timers.wake_up(Timestamp(self.lateness.nanoseconds().min(spin))) else {
            return;
        };
        match u64::try_from((at - self.core.now).0) {
            Ok(left @ 1..) => self.rest(Duration::from_nanos(left)),
            _ => {
                self.control.sink.flush();
                std::hint::spin_loop();
            }
        }
    }

    /// Waits for an event from outside.
    pub(crate) fn nap(&mut self) {
        self.rest(SLEEP);
    }

    /// Sleeps for at most the given time.
    fn rest(&mut self, longest: Duration) {
        self.control.sink.flush();
        if self.options.busy_poll {
            std::hint::spin_loop();
            return;
        }
        let longest = longest.min(if self.graph.worker() == 0 { NAP } else { SLEEP });
        let end = self.clock.now() + Timestamp(longest.as_nanos() as i64);
        let ready = if self.team.is_some() {
            self.exchange.iter().for_each(Exchange::rest);
            self.sleep_in_team(longest)
        } else if self.wakeups.files.is_empty() {
            std::thread::sleep(longest);
            Vec::new()
        } else {
            self.wakeups.files.wait(longest, None)
        };
        // A worker that was woken slept less.
        let late = self.clock.now() - end;
        if late >= Timestamp::ZERO {
            self.lateness.note(late.0);
        }
        if self.team.is_some() {
            // The sleep does not count as work, whatever comes next.
            self.look_at_clock();
        }
        self.tell_ready(ready);
    }

    /// Sleeps until another worker has work for this worker, a file is ready, or the time is over. Polls
    /// for a moment first, because waking up takes longer than most pauses last.
    #[cold]
    fn sleep_in_team(&mut self, longest: Duration) -> Vec<(ElementId, u32)> {
        let (Some(team), Some(exchange)) = (self.team.clone(), &self.exchange) else {
            return Vec::new();
        };
        let me = self.graph.worker();
        let bell = &team.bells[me];
        bell.listen();
        // From here on, any worker that has work for this worker rings.
        if exchange.has_work() || team.has_word_for(me) {
            return Vec::new();
        }
        let start = Instant::now();
        let lookout = LOOKOUT.min(longest);
        while start.elapsed() < lookout {
            if bell.has_rung() {
                return Vec::new();
            }
            std::hint::spin_loop();
        }
        if !bell.may_sleep() {
            return Vec::new();
        }
        let ready = self.wakeups.files.wait(longest.saturating_sub(start.elapsed()), Some(bell.event()));
        bell.awake();
        ready
    }

    /// Calls the elements whose files are ready, so that they read and write.
    pub(crate) fn serve_files(&mut self) {
        let ready = self.wakeups.files.wait(Duration::ZERO, None);
        self.tell_ready(ready);
    }

    fn tell_ready(&mut self, ready: Vec<(ElementId, u32)>) {
        if !ready.is_empty() {
            self.set_idle(false);
        }
        for (id, token) in ready {
            self.look_at_clock();
            self.call(id, |element, cx| element.ready(cx, token));
            self.settle();
        }
    }
}
