//! # BandwidthMeter
//! Chooses the output by the rate at which bytes arrive.
//!
//! The rate is an exponentially weighted moving average over milliseconds. While it is below the first argument,
//! packets go to output 0; below the second, to output 1; and so on.
//!
//! ## Usage
//! `BandwidthMeter(RATE, ...)`
//!
//! ## Arguments
//! - `RATE`: bandwidths, each above the one before; one less than there are outputs.
//!
//! ## Handlers
//! - `rate`: bytes per second.
//! - `meters`: the arguments, in bytes per second.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> m :: BandwidthMeter(20kBps) -> Discard; m[1] -> Discard
//! ```
//!
//! ## See also
//! Meter, BandwidthShaper, Shaper, RatedSplitter

use element::args::{Arg, Bandwidth};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Case, Depends, Field, Filter, Target};
use element::{Args, Batch, Class, Cx, Effects, Element, Invalid, Timestamp, manual};

use super::fixed;
use crate::sorting::{Fate, Sorter};

/// The class.
pub static CLASS: Class = Class {
    name: "BandwidthMeter",
    ports: "1/2-",
    processing: "h/h",
    manual: manual!("bandwidth_meter.rs"),
    args: ARGS,
    handlers: HANDLERS,
    samples: &["1kBps -> 1/2", "100Bps, 1MBps -> 1/3"],
    build: |args| build(args, true),
    ..Class::DEFAULT
};

/// Those of both meters.
pub(super) const ARGS: &[ArgInfo] = &[ArgInfo::rest("RATE", "rate")];
/// Those of both meters.
pub(super) const HANDLERS: &[HandlerInfo] = &[HandlerInfo::read("rate"), HandlerInfo::read("meters")];

/// Averages have so many binary digits behind the point.
const SCALE: u32 = 10;
/// A new value counts for 1/16.
const STABILITY: u32 = 4;
/// Averages are over so many epochs per second.
const FREQUENCY: u64 = 1000;
const EPOCH: i64 = 1_000_000_000 / FREQUENCY as i64;
/// Empty epochs after which nothing is left of any average.
const MOST_EMPTY: i64 = 1024;

/// A moving average of what comes in per epoch.
#[derive(Default)]
struct Average {
    scaled: i64,
    epoch: i64,
    /// What has come in since the epoch began.
    total: i64,
}

impl Average {
    fn step(&mut self, value: i64) {
        self.scaled += ((value << SCALE) + (1 << (STABILITY - 1)) - self.scaled) >> STABILITY;
    }

    fn update(&mut self, now: Timestamp, value: i64) {
        let epoch = now.0.div_euclid(EPOCH);
        if epoch > self.epoch {
            let total = std::mem::take(&mut self.total);
            self.step(total);
            for _ in 0..(epoch - self.epoch - 1).min(MOST_EMPTY) {
                self.step(0);
            }
            self.epoch = epoch;
        }
        self.total = self.total.saturating_add(value);
    }
}

/// Makes a meter of bytes or packets.
pub(super) fn build(args: &mut Args<'_>, bandwidth: bool) -> Result<Box<dyn Element>, Invalid> {
    let given = args.rest();
    args.finish()?;
    if given.is_empty() {
        args.error("too few arguments to BandwidthMeter(bandwidth, ...)");
    }
    let most = u64::from(u32::MAX >> SCALE);
    let mut rates: Vec<u64> = Vec::with_capacity(given.len());
    for (i, text) in given.iter().enumerate() {
        match Bandwidth::parse(text, &args.place()) {
            Err(_) => args.error(format!("argument {} syntax error", i + 1)),
            Ok(Bandwidth(rate)) if rates.last().is_some_and(|&last| rate <= last) => {
                args.error(format!("rate {} must be > rate {i}", i + 1));
            }
            Ok(Bandwidth(rate)) if rate > most => {
                args.error(format!("rate {} too large (max {most})", i + 1));
            }
            Ok(Bandwidth(rate)) => rates.push(rate),
        }
    }
    args.finish()?;
    let outputs = args.outputs();
    if rates.len() + 1 != outputs {
        args.error(format!("need {} arguments, one less than the number of output ports", outputs - 1));
    }
    args.finish()?;
    let meters = rates.iter().map(|rate| (rate << SCALE) / FREQUENCY).collect();
    Ok(Box::new(Meter { bandwidth, meters, average: Average::default(), sorter: Sorter::new(outputs) }))
}

struct Meter {
    bandwidth: bool,
    /// Limits per epoch, scaled.
    meters: Vec<u64>,
    average: Average,
    sorter: Sorter,
}

impl Element for Meter {
    fn effects(&self) -> Effects {
        let reads = if self.bandwidth { vec![Field::Length] } else { Vec::new() };
        let rate = Filter::Opaque { about: "rate of arrival", reads };
        let cases = vec![Case::new(rate, Target::SomeOutput), Case::new(Filter::Any, Target::Output(0))];
        Effects::cases(cases).depending_on(Depends::Time)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let (average, meters, bandwidth) = (&mut self.average, &self.meters, self.bandwidth);
        self.sorter.send(cx, batch, |cx, packet| {
            average.update(cx.now(), if bandwidth { packet.len() as i64 } else { 1 });
            Fate::Output(meters.iter().take_while(|&&meter| average.scaled as u64 >= meter).count())
        })
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        if name == "meters" {
            return Ok(self.meters.iter().map(|meter| fixed::show(meter * FREQUENCY, SCALE)).collect());
        }
        self.average.update(cx.now(), 0);
        Ok(fixed::show(self.average.scaled as u64 * FREQUENCY, SCALE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut average = Average::default();
        for milli in 1..500 {
            average.update(Timestamp(milli * EPOCH), 100);
        }
        let rate = (average.scaled as u64 * FREQUENCY) >> SCALE;
        assert!((99_000..=101_000).contains(&rate), "{rate}");
        average.update(Timestamp(2000 * EPOCH), 0);
        // What rounding leaves is less than a hundredth.
        assert!((0..16).contains(&average.scaled));
    }
}
