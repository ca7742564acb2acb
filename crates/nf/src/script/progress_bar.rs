//! # ProgressBar
//! Shows on the terminal how far a run has got.
//!
//! The position is the value of a handler, such as FromDump's `filepos`; the size is the value at which the
//! work is done. Both may be several handlers, separated by spaces, whose values are added. The bar is drawn
//! on standard error if that is a terminal and the program is in the foreground; otherwise the element does
//! nothing. The bar does not keep a run from ending.
//!
//! ## Usage
//! `ProgressBar(POSHANDLER [, SIZEHANDLER, KEYWORDS])`
//!
//! ## Arguments
//! - `POSHANDLER`: the read handlers with the position.
//! - `SIZEHANDLER`: the read handlers with the size; they are read once, when the bar is drawn first.
//! - `FIXED_SIZE`: the size, instead of SIZEHANDLER.
//! - `UPDATE`: the time between two drawings.
//! - `BANNER`: text before the bar.
//! - `ACTIVE`: if false, the bar is not drawn at first.
//! - `DELAY`: the time before the bar is drawn first.
//! - `CHECK_STDOUT`: if true, the bar is not drawn if standard output is a terminal.
//! - `INVERT`: if true, the position counts down from the size to 0.
//!
//! ## Handlers
//! - `mark_stopped`: draws the bar a last time, because the work has stopped.
//! - `mark_done`: draws the bar a last time as complete.
//! - `pos`: the last position that was greater than the one before.
//! - `size`: the size; -1 before it is known.
//! - `active`: true if the bar is drawn.
//! - `banner`: the text before the bar.
//! - `poshandler`, `sizehandler`: the handlers with position and size.
//! - `reset`: reads the size again, and draws the bar.
//!
//! ## Example
//! ```click
//! i :: InfiniteSource(LIMIT 1000, STOP true) -> Discard;
//! ProgressBar(i.count, FIXED_SIZE 1000)
//! ```
//!
//! ## See also
//! FromDump, Script

use std::fmt::Write;
use std::io::{IsTerminal, stderr, stdout};

use element::args::{ArgType, Raw, parse_bool, parse_real};
use element::class::{ArgInfo, Notes};
use element::{Call, Class, Cx, Effects, Element, Handler, Timestamp, manual};

use super::number::Number;

/// The element class `ProgressBar`.
pub static CLASS: Class = Class {
    name: "ProgressBar",
    ports: "0/0",
    manual: manual!("progress_bar.rs"),
    args: &[
        ArgInfo::required("POSHANDLER", "handlers"),
        ArgInfo::positional("SIZEHANDLER", "handlers", ""),
        ArgInfo::keyword("UPDATE", "seconds", "0.25"),
        ArgInfo::keyword("BANNER", "string", ""),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("DELAY", "seconds", "0"),
        ArgInfo::keyword("CHECK_STDOUT", "bool", "false"),
        ArgInfo::keyword("FIXED_SIZE", "real", ""),
        ArgInfo::keyword("INVERT", "bool", "false"),
    ],
    table: &HANDLERS,
    notes: Notes { reads_handlers: true, ..Notes::NONE },
    samples: &[],
    build: |args| {
        let fixed: Option<f64> = args.get("FIXED_SIZE");
        let Raw(position) = args.required("POSHANDLER");
        let Raw(size) = args.get("SIZEHANDLER").unwrap_or_default();
        let bar = ProgressBar {
            texts: [position, size].map(|text| text.trim().to_string()),
            calls: Default::default(),
            interval: args.value::<Timestamp>("UPDATE").max(LEAST_INTERVAL),
            delay: args.value("DELAY"),
            banner: args.get("BANNER").unwrap_or_default(),
            active: args.value("ACTIVE"),
            checks_output: args.value("CHECK_STDOUT"),
            is_inverted: args.value("INVERT"),
            size: fixed,
            is_drawable: false,
            phase: Phase::New,
            clock: Clock::default(),
        };
        args.finish()?;
        Ok(Box::new(bar))
    },
    ..Class::DEFAULT
};

/// The shortest time between two updates. Without it, updates would keep the worker from packets.
const LEAST_INTERVAL: Timestamp = Timestamp(10_000_000);
/// The longest bar, in characters.
const LONGEST: usize = 240;
/// The number of characters of position and time after the bar.
const AFTER: usize = 25;
/// The number of characters of the position alone.
const POSITION: usize = 8;
/// The time without progress after which the bar says so.
const STALL: Timestamp = Timestamp::from_secs(5);

/// The part of the work that is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was drawn, and the size is not known.
    New,
    Begun,
    Done,
}

/// The times from which the remaining time is computed.
#[derive(Clone, Copy, Default)]
struct Clock {
    start: Timestamp,
    /// The time of the last progress.
    last: Timestamp,
    /// The time without progress, which does not count.
    stalled: Timestamp,
    /// The position at the time `last`.
    position: f64,
}

struct ProgressBar {
    /// The names of the handlers with the position and the size, as they are shown.
    texts: [String; 2],
    /// The calls of these handlers.
    calls: [Vec<Call>; 2],
    interval: Timestamp,
    delay: Timestamp,
    banner: String,
    active: bool,
    checks_output: bool,
    is_inverted: bool,
    size: Option<f64>,
    /// True if the bar can be seen.
    is_drawable: bool,
    phase: Phase,
    clock: Clock,
}

/// Parses the names of read handlers.
fn parse(cx: &Cx<'_>, text: &str) -> Result<Vec<Call>, String> {
    let call = |word: &str| {
        let call = Call::parse(word, cx, |_| None)?;
        match cx.graph().has_handler(&call, false) {
            true => Ok(call),
            false => Err(format!("no read handler '{word}'")),
        }
    };
    text.split_whitespace().map(call).collect()
}

/// Returns the sum of the values of handlers, and true if there are handlers and all values are numbers.
fn sum(cx: &mut Cx<'_>, calls: &[Call]) -> (f64, bool) {
    let mut read = |call: &Call| parse_real(&cx.handlers().read(call).ok()?);
    let values: Vec<Option<f64>> = calls.iter().map(&mut read).collect();
    let is_known = !values.is_empty() && values.iter().all(Option::is_some);
    (values.into_iter().flatten().sum(), is_known)
}

/// True if this process is in the foreground of the terminal.
fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(stderr()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Returns the number of characters in a line of the terminal.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|&width| width > 0).unwrap_or(80)
}

impl ProgressBar {
    /// Begins to draw, if the bar is active and can be seen.
    fn begin(&self, cx: &mut Cx<'_>) {
        if self.active && self.is_drawable {
            cx.set_background_timer(0, cx.now());
        }
    }

    /// Draws the bar, unless the program is in the background.
    fn draw(&mut self, cx: &mut Cx<'_>) {
        let [position, size] = &self.calls;
        if self.phase == Phase::New {
            if self.size.is_none() {
                self.size = Some(sum(cx, size)).filter(|&(_, is_known)| is_known).map(|(size, _)| size);
            }
            self.clock = Clock { start: cx.now(), last: cx.now(), ..Clock::default() };
            self.phase = Phase::Begun;
        }
        if is_in_foreground() && cx.now() >= self.clock.start + self.delay {
            let (position, is_known) = sum(cx, position);
            let line = self.line(width(), position, is_known, cx.now());
            cx.messages().draw(format_args!("{line}"));
        }
    }

    /// Draws the bar a last time. If it `is_complete`, the position is the size.
    fn end(&mut self, cx: &mut Cx<'_>, is_complete: bool) {
        if self.phase == Phase::Done || !self.active || !self.is_drawable {
            return;
        }
        if is_complete {
            self.size = Some(sum(cx, &self.calls[0]).0);
        }
        if self.phase == Phase::New {
            self.clock = Clock { start: cx.now(), last: cx.now(), ..Clock::default() };
        }
        self.phase = Phase::Done;
        cx.clear_timer(0);
        self.draw(cx);
        self.active = false;
    }

    /// Returns the bar for this position as a line of `width` characters, which replaces the line before, and
    /// notes the progress. The position may be unknown; it then is 0.
    fn line(&mut self, width: usize, position: f64, is_known: bool, now: Timestamp) -> String {
        let mut line = String::from("\r");
        if !self.banner.is_empty() {
            line += &self.banner;
            line.push(' ');
        }
        let is_done = self.phase == Phase::Done;
        let percent = self.size.map(|size| {
            let position = if self.is_inverted { size - position } else { position };
            if size > 0.0 { (100.0 * position / size).clamp(0.0, 100.0) as usize } else { 100 }
        });
        // Writing to a string cannot fail.
        let _ = match percent {
            Some(percent) if is_known => write!(line, "{percent:3}% "),
            Some(_) => write!(line, "  -% "),
            None => Ok(()),
        };
        // With a fixed size, the position matters only as a part of it.
        let shows_position = self.size.is_none() || !self.calls[1].is_empty();
        let after = if shows_position { AFTER } else { AFTER - POSITION };
        let length = width.saturating_sub(line.chars().count() + after).min(LONGEST);
        if length > 0 {
            line.push('|');
            match percent {
                _ if !is_known => line.extend(std::iter::repeat_n('-', length)),
                None if is_done => line.extend(std::iter::repeat_n('-', length)),
                Some(percent) => {
                    let full = length * percent / 100;
                    let _ = write!(line, "{:<length$}", "*".repeat(full));
                }
                None => {
                    // Without a size, a mark goes to the right and back while the position grows.
                    let mark = if length > 3 { "***" } else { "*" };
                    let step = (position / 100_000.0) as usize % 200;
                    let place = (length - mark.len()) * step.min(200 - step) / 100;
                    let _ = write!(line, "{:<length$}", " ".repeat(place) + mark);
                }
            }
            line.push('|');
        }
        line += &match (shows_position, is_known) {
            (false, _) => " ".into(),
            (true, true) => amount(position),
            (true, false) => " -----   ".into(),
        };
        line += &self.remaining(position, is_known, now);
        if is_done {
            line.push('\n');
        }
        line
    }

    /// Notes the progress, and returns the remaining time or, at the end, the elapsed time.
    fn remaining(&mut self, position: f64, is_known: bool, now: Timestamp) -> String {
        let Clock { start, last, .. } = self.clock;
        let mut wait = now - last;
        if position > self.clock.position {
            if wait >= STALL {
                self.clock.stalled = self.clock.stalled + wait;
            }
            (self.clock.last, self.clock.position, wait) = (now, position, Timestamp::ZERO);
        }
        let elapsed = (now - start - self.clock.stalled).0 as f64 / 1e9;
        let is_done = self.phase == Phase::Done;
        let size = self.size.filter(|&size| is_known && elapsed > 0.0 && position <= size);
        let (seconds, end) = match size {
            None if !is_done => return "   --:-- ETA".into(),
            _ if wait >= STALL => return " - stalled -".into(),
            Some(size) if !is_done && position >= 1e-6 => (size / (position / elapsed) - elapsed, " ETA"),
            _ => (elapsed, "    "),
        };
        let seconds = seconds.max(0.0) as u64;
        let hours = match seconds / 3600 {
            0 => "   ".to_string(),
            hours => format!("{hours:2}:"),
        };
        format!("{hours}{:02}:{:02}{end}", seconds % 3600 / 60, seconds % 60)
    }
}

/// Formats a position with at most five digits and a prefix.
fn amount(mut position: f64) -> String {
    let mut prefixes = " KMGTP".chars();
    let mut prefix = prefixes.next();
    while position >= 100_000.0
        && let Some(next) = prefixes.next()
    {
        (position, prefix) = (position / 1024.0, Some(next));
    }
    match prefix {
        Some(prefix) if prefix != ' ' => format!(" {:5}{prefix}B ", position as u64),
        _ => format!(" {:5}   ", position as u64),
    }
}

impl Element for ProgressBar {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let [position, size] = &self.texts;
        self.calls = [parse(cx, position)?, parse(cx, size)?];
        self.is_drawable = stderr().is_terminal() && !(self.checks_output && stdout().is_terminal());
        self.begin(cx);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if self.active && self.phase != Phase::Done {
            self.draw(cx);
            cx.set_background_timer(0, cx.now() + self.interval);
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.phase == Phase::Begun {
            self.end(cx, false);
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<ProgressBar>] = &[
    Handler::set("mark_stopped", |e, cx, _| {
        e.end(cx, false);
        Ok(())
    }),
    Handler::set("mark_done", |e, cx, _| {
        e.end(cx, true);
        Ok(())
    }),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("type mismatch")?;
            e.begin(cx);
            Ok(())
        },
    ),
    Handler::<ProgressBar>::data(
        "banner",
        |e| e.banner.clone(),
        |e, _, value| {
            e.banner = value.into();
            Ok(())
        },
    )
    .raw(),
    Handler::data(
        "poshandler",
        |e| e.texts[0].clone(),
        |e, cx, value| {
            (e.calls[0], e.texts[0]) = (parse(cx, value)?, value.trim().into());
            Ok(())
        },
    ),
    Handler::data(
        "sizehandler",
        |e| e.texts[1].clone(),
        |e, cx, value| {
            (e.calls[1], e.texts[1], e.size) = (parse(cx, value)?, value.trim().into(), None);
            Ok(())
        },
    ),
    Handler::get("pos", |e| Number::Real(e.clock.position).to_string()),
    Handler::data(
        "size",
        |e| Number::Real(e.size.unwrap_or(-1.0)).to_string(),
        |e, cx, value| {
            e.size = Some(f64::parse(value, &cx.place()).map_err(|_| "expected real number")?);
            Ok(())
        },
    ),
    Handler::set("reset", |e, cx, _| {
        (e.size, e.phase, e.active) = (None, Phase::New, true);
        e.begin(cx);
        Ok(())
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(size: Option<f64>, calls: usize) -> ProgressBar {
        let call = || Call::new(None, "x", "");
        ProgressBar {
            texts: Default::default(),
            calls: [vec![call()], vec![call(); calls]],
            interval: Timestamp::ZERO,
            delay: Timestamp::ZERO,
            banner: String::new(),
            active: true,
            checks_output: false,
            is_inverted: false,
            size,
            is_drawable: true,
            phase: Phase::Begun,
            clock: Clock::default(),
        }
    }

    const SECOND: Timestamp = Timestamp::from_secs(1);

    #[test]
    fn lines_show_part_position_and_time() {
        let mut known = bar(Some(1000.0), 1);
        assert_eq!(known.line(46, 250.0, true, SECOND), "\r 25% |***            |   250      00:03 ETA");
        assert_eq!(known.line(46, 0.0, false, SECOND), "\r  -% |---------------| -----      --:-- ETA");
        known.banner = "a".into();
        known.phase = Phase::Done;
        let last = known.line(48, 1000.0, true, Timestamp::from_secs(4));
        assert_eq!(last, "\ra 100% |***************|  1000      00:04    \n");
        assert_eq!(bar(Some(10_000.0), 1).remaining(1.0, true, SECOND), " 2:46:39 ETA");
        let mut fixed = bar(Some(4.0), 0);
        assert_eq!(fixed.line(40, 1.0, true, SECOND), "\r 25% |****             |    00:03 ETA");
        fixed.is_inverted = true;
        assert_eq!(fixed.line(40, 1.0, true, SECOND), "\r 75% |************     |    00:03 ETA");
    }

    #[test]
    fn a_mark_moves_while_the_size_is_unknown() {
        let mut unknown = bar(None, 0);
        let line = |bar: &mut ProgressBar, position| bar.line(40, position, true, SECOND);
        assert_eq!(line(&mut unknown, 0.0), "\r|***           |     0      --:-- ETA");
        assert_eq!(line(&mut unknown, 5_000_000.0), "\r|     ***      |  4882KB    --:-- ETA");
        assert_eq!(line(&mut unknown, 10_000_000.0), "\r|           ***|  9765KB    --:-- ETA");
        assert_eq!(line(&mut unknown, 15_000_000.0), "\r|     ***      | 14648KB    --:-- ETA");
    }

    #[test]
    fn no_width_and_no_number_panics() {
        for width in 0..60 {
            for size in [None, Some(0.0), Some(-3.0), Some(7.0), Some(f64::INFINITY), Some(f64::NAN)] {
                for position in [0.0, -1.0, 1e300, f64::NAN, f64::INFINITY] {
                    let mut bar = bar(size, 1);
                    let line = bar.line(width, position, true, SECOND);
                    assert!(line.starts_with('\r'));
                }
            }
        }
    }

    #[test]
    fn time_without_progress_does_not_count() {
        let mut bar = bar(Some(100.0), 1);
        let at = |bar: &mut ProgressBar, position, seconds| {
            bar.remaining(position, true, Timestamp::from_secs(seconds))
        };
        assert_eq!(at(&mut bar, 10.0, 1), "   00:09 ETA");
        assert_eq!(at(&mut bar, 10.0, 5), "   00:45 ETA");
        assert_eq!(at(&mut bar, 10.0, 7), " - stalled -");
        // Seven seconds were lost.
        assert_eq!(at(&mut bar, 20.0, 8), "   00:04 ETA");
    }
}
