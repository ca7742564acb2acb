//! # Shaper
//! Limits pulled packets to a number of packets per second, evenly spaced.
//!
//! Packet n of a second, counted from 0, may be pulled n / RATE seconds after the start of the second, or
//! later. If only some of the packets of a second were pulled in it, the others may be pulled at the start
//! of the next second, without spaces. Output 1, if it exists, gives packets whenever the rate does not
//! allow a packet at output 0.
//!
//! With one output, elements that pull from Shaper sleep until the next packet may be pulled. In Click,
//! they pull again and again.
//!
//! ## Usage
//! `Shaper(RATE)`
//!
//! ## Arguments
//! - `RATE`: packets per second; with 0, output 0 gives no packets.
//!
//! ## Handlers
//! - `rate`: packets per second.
//! - `reset`: restarts the spacing from the current time.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Shaper(1000) -> Discard
//! ```
//!
//! ## See also
//! BandwidthShaper, RatedSplitter, RatedUnqueue

use element::class::{ArgInfo, Notes};
use element::effects::{Depends, Field, Support};
use element::{Args, Batch, Class, Cx, Effects, Element, Handler, Signal, StatePart, Timestamp, manual};
use std::any::Any;

use super::limit::parse_rate;
use crate::fixed::show_bandwidth;
use crate::rate::RATE;
use crate::schedule::{collect, pull_one};

/// The element class `Shaper`.
pub static CLASS: Class = Class {
    name: "Shaper",
    ports: "1/1-2",
    processing: "l/l",
    manual: manual!("shaper.rs"),
    args: &[ArgInfo::required("RATE", "unsigned")],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    state: &[StatePart::kept("rate", &[])],
    samples: &["100000", "1000 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let rate = u64::from(args.required::<u32>("RATE"));
        args.finish()?;
        Ok(Box::new(Shaper::new(rate, false, args)))
    },
    ..Class::DEFAULT
};

const SECOND: i128 = 1_000_000_000;

/// A limiter that spaces packets or bytes evenly within each second (Click's GapRate). The rate is in
/// packets or bytes per second.
#[derive(Clone, Copy)]
struct Gaps {
    rate: u64,
    /// The latest second in which `allow` was called; `None` before the first call.
    second: Option<i64>,
    /// The number of packets or bytes that count as sent in `second`. When a new second begins, `rate` is
    /// subtracted from this number if it is positive. So an excess over `rate` reduces what may be sent in
    /// the new second. What remained unsent of `rate` makes the number negative, and may be sent in addition.
    gone: i128,
}

impl Gaps {
    fn new(rate: u64) -> Gaps {
        Gaps { rate, second: None, gone: 0 }
    }

    /// True if the next packet may be sent at `now`. The caller adds the packets or bytes that it sends to
    /// `gone`.
    fn allow(&mut self, now: Timestamp) -> bool {
        let (second, nanos) = now.parts();
        let due = i128::from(nanos) * i128::from(self.rate);
        match self.second {
            None => {
                // On the first call, `gone` becomes the number of packets or bytes that were due in this
                // second until now, rounded to the nearest number. The next packet may then be sent now, or
                // after at most half of the time between two packets.
                self.gone = due / SECOND + i128::from(due % SECOND > SECOND / 2);
                self.second = Some(second);
            }
            Some(before) if second > before => {
                self.second = Some(second);
                if self.gone > 0 {
                    self.gone -= i128::from(self.rate);
                }
            }
            Some(_) => {}
        }
        self.rate > 0 && due / SECOND >= self.gone
    }

    /// Returns the time at which the next packet may be sent, after `allow` has returned false; `None` if
    /// the rate is 0.
    fn next(&self) -> Option<Timestamp> {
        let rate = i128::from(self.rate);
        let wait = (self.gone.max(0) * SECOND + rate - 1).checked_div(rate)?;
        let wait = Timestamp(i64::try_from(wait).unwrap_or(i64::MAX));
        Some(Timestamp::from_secs(self.second?) + wait)
    }
}

/// The element of the classes Shaper and BandwidthShaper.
pub(super) struct Shaper {
    gaps: Gaps,
    /// True for BandwidthShaper: the rate is in bytes per second, and each output gives packets within the
    /// rate. False for Shaper: the rate is in packets per second, and output 1 gives packets when output 0
    /// gives none.
    bandwidth: bool,
    outputs: usize,
}

impl Shaper {
    pub(super) fn new(rate: u64, bandwidth: bool, args: &Args<'_>) -> Shaper {
        Shaper { gaps: Gaps::new(rate), bandwidth, outputs: args.outputs() }
    }

    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<element::Packet> {
        if !self.gaps.allow(cx.now()) {
            // The packet signal, which tells elements that pull if there are packets, applies to both
            // outputs. With two outputs of Shaper, one of them gives packets at any time if there are packets
            // upstream. Therefore the rate turns the signal off only with one output.
            if self.outputs == 1 {
                cx.set_signal(Signal::Packets, false);
            }
            if let Some(at) = self.gaps.next() {
                cx.set_timer(0, at);
            }
            return None;
        }
        let packet = pull_one(cx, 0);
        match &packet {
            Some(packet) => {
                self.gaps.gone += if self.bandwidth { cx.lengths().of(packet) as i128 } else { 1 }
            }
            None => cx.set_signal(Signal::Packets, cx.may_pull(0)),
        }
        packet
    }
}

impl Element for Shaper {
    fn effects(&self) -> Effects {
        if self.outputs > 1 {
            use element::effects::{Case, Filter, Predicate, Target};
            let about = if self.bandwidth { vec![Field::Length] } else { Vec::new() };
            let when = Filter::Leaf(Predicate::Opaque { about: "the pulling element", reads: about });
            let cases = vec![Case::new(when, Target::Output(1)), Case::new(Filter::TRUE, Target::Output(0))];
            let effects = Effects {
                support: Support { whole_length: self.bandwidth, ..Support::default() },
                ..Effects::cases(cases)
            };
            return effects.depending_on(Depends::Time).depending_on(Depends::Handler).sharing(RATE);
        }
        let effects = Effects {
            support: Support { whole_length: self.bandwidth, ..Support::default() },
            ..Effects::pass()
        };
        effects
            .depending_on(Depends::Time)
            .depending_on(Depends::Handler)
            .sharing(RATE)
            .observing(&[Field::Length])
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        if port == 0 || self.bandwidth {
            return collect(cx, max, |cx| self.next_packet(cx));
        }
        let batch = match self.gaps.allow(cx.now()) {
            true => cx.batch(),
            false => cx.pull(0, max),
        };
        if batch.is_empty() {
            cx.set_signal(Signal::Packets, cx.may_pull(0));
        }
        batch
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.set_signal(Signal::Packets, true);
    }

    fn configuration(&self) -> Option<String> {
        Some(self.show_rate())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.gaps))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let gaps: Gaps = *state.downcast().map_err(|_| "the state of another class")?;
        if gaps.rate == self.gaps.rate {
            self.gaps = gaps;
        }
        Ok(())
    }
}

pub(super) const HANDLERS: &[Handler<Shaper>] = &[
    Handler::argument("rate", "RATE", Shaper::show_rate, |e, cx, value| {
        let rate = parse_rate(cx, value, e.bandwidth)?;
        e.restart(cx, rate)
    }),
    Handler::set("reset", |e, cx, _| e.restart(cx, e.gaps.rate)),
];

impl Shaper {
    /// Returns the value of the handler `rate`: packets per second, or a bandwidth with its unit.
    fn show_rate(&self) -> String {
        if self.bandwidth { show_bandwidth(self.gaps.rate) } else { self.gaps.rate.to_string() }
    }

    /// Handles a write to the handlers `rate` and `reset`: sets the rate (packets or bytes per second), and
    /// starts the spacing again from the current time.
    fn restart(&mut self, cx: &mut Cx<'_>, rate: u64) -> Result<(), String> {
        self.gaps = Gaps::new(rate);
        cx.set_signal(Signal::Packets, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_evenly_spaced_and_no_second_has_more_than_the_rate() {
        let mut gaps = Gaps::new(4);
        let at = |millis: i64| Timestamp(7_000_000_000 + millis * 1_000_000);
        let mut went = Vec::new();
        for millis in (0..2000).step_by(10) {
            if gaps.allow(at(millis)) {
                gaps.gone += 1;
                went.push(millis);
            } else {
                let next = gaps.next().unwrap();
                assert!(next > at(millis) && next <= at(millis + 250));
            }
        }
        assert_eq!(went, [0, 250, 500, 750, 1000, 1250, 1500, 1750]);
        assert!(!Gaps::new(0).allow(at(0)) && Gaps::new(0).next().is_none());
    }
}
