//! Puts a worker without work to sleep, and keeps it awake for the last moment before a timer is due.
//!
//! A sleep ends late. The kernel's timer, an idle core and the scheduler add some 10 to 100 microseconds,
//! which is longer than many elements hold packets. So a worker that waits for an exact timer sleeps less, by
//! as much as its sleeps have been late. Then it polls for work until the timer is due, like a worker that
//! never sleeps. [`Options::spin`](crate::Options::spin) is the longest time for which it stays awake.

use std::time::{Duration, Instant};

use element::{ElementId, Timestamp};
use nix::sys::prctl;

use crate::exchange::Exchange;
use crate::worker::Worker;

/// The longest sleep of the first worker, so that it notices an interrupt.
const NAP: Duration = Duration::from_millis(20);
/// The time for which a worker polls for work from other workers before it sleeps.
const LOOKOUT: Duration = Duration::from_micros(10);
/// The longest sleep of workers other than the first. They need not notice interrupts, and other threads wake
/// them by their bell, an eventfd.
const SLEEP: Duration = Duration::from_secs(1);

impl Worker {
    /// Asks the kernel for sleeps that end as early as possible, unless
    /// [`Options::spin`](crate::Options::spin) is zero.
    pub(crate) fn ask_for_short_sleeps(&self) {
        if !self.options.spin.is_zero() {
            // If the kernel refuses, sleeps stay late. Their lateness is measured, so timers still run in
            // time.
            let _ = prctl::set_timerslack(1);
        }
    }

    /// Waits for the next timer. Sleeps if the timer is far enough away; otherwise returns after a moment,
    /// so that the driver polls.
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

    /// Sleeps until another worker has work for this worker, a file is ready, or the longest sleep is over.
    pub(crate) fn nap(&mut self) {
        self.rest(SLEEP);
    }

    /// Sleeps for at most `longest`, and then calls the elements whose files are ready. With `busy_poll`,
    /// returns after a moment.
    fn rest(&mut self, longest: Duration) {
        self.control.sink.flush();
        // The worker is idle, so no packet has to wait while memory is released here.
        self.core.garbage.clear();
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
        // Negative if the worker was woken before the end of its sleep, or has not slept. Then nothing is
        // known about the lateness.
        let late = self.clock.now() - end;
        if late >= Timestamp::ZERO {
            self.lateness.note(late.0);
        }
        if self.team.is_some() {
            // Reads the clock, so that the sleep does not count as work.
            self.look_at_clock();
        }
        self.tell_ready(ready);
    }

    /// Sleeps until another worker rings this worker's bell (an eventfd), a file is ready, or the time
    /// `longest` is over. Polls for [`LOOKOUT`] first, because waking up takes longer than most pauses last.
    /// Returns, for each ready file, the element that waits for it and the token by which the element knows
    /// it.
    #[cold]
    fn sleep_in_team(&mut self, longest: Duration) -> Vec<(ElementId, u32)> {
        let (Some(team), Some(exchange)) = (self.team.clone(), &self.exchange) else {
            return Vec::new();
        };
        let me = self.graph.worker();
        let bell = &team.bells[me];
        bell.listen();
        // From here on, each worker that has work for this worker rings its bell.
        let is_asked = self.has_to_save() || self.is_inspected();
        if exchange.has_work() || team.has_word_for(me) || self.retiring.is_some() || is_asked {
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

    /// Calls the elements whose files are ready, without waiting, so that they read and write.
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
