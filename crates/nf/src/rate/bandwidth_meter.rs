//! # BandwidthMeter
//! Chooses the output by the arrival rate of bytes.
//!
//! The rate is an exponentially weighted moving average of the bytes per millisecond, in which a new
//! millisecond has the weight 1/16. Packets go to output 0 while the rate is below the first argument, to
//! output 1 while it is below the second, and so on. They go to the last output while the rate is not
//! below any argument.
//!
//! ## Usage
//! `BandwidthMeter(RATE, ...)`
//!
//! ## Arguments
//! - `RATE`: bandwidths in ascending order; one argument less than there are outputs.
//!
//! ## Handlers
//! - `rate`: the average rate in bytes per second.
//! - `meters`: the arguments, in bytes per second.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> m :: BandwidthMeter(20kBps) -> Discard; m[1] -> Discard
//! ```
//!
//! ## See also
//! Meter, BandwidthShaper, Shaper, RatedSplitter

use element::args::{ArgType, Bandwidth};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Predicate, Support, Target};
use element::{Args, Batch, Class, Cx, Effects, Element, Handler, Invalid, StatePart, manual};

use crate::ewma::{FREQUENCY, Rate};
use crate::fixed;
use crate::rate::RATE;
use crate::sorting::{Fate, send_all};

/// The element class `BandwidthMeter`.
pub static CLASS: Class = Class {
    name: "BandwidthMeter",
    ports: "1/2-",
    processing: "h/h",
    manual: manual!("bandwidth_meter.rs"),
    args: ARGS,
    table: &HANDLERS,
    state: &[StatePart::kept("rate", &["rate"])],
    samples: &["1kBps -> 1/2", "100Bps, 1MBps -> 1/3"],
    build: |args| build(args, true),
    ..Class::DEFAULT
};

/// The arguments of Meter (rates in packets per second) and BandwidthMeter (rates in bytes per second).
pub(super) const ARGS: &[ArgInfo] = &[ArgInfo::rest("RATE", "rate")];
/// The number of fractional bits of the average rate and of the limits that it is compared with.
const SCALE: u32 = 10;

/// Parses the rates, one less than there are outputs, and makes the element: BandwidthMeter if `bandwidth`
/// is true, otherwise Meter.
pub(super) fn build(args: &mut Args<'_>, bandwidth: bool) -> Result<Box<dyn Element>, Invalid> {
    let most = u64::MAX >> SCALE;
    let (mut given, mut rates) = (0, Vec::<u64>::new());
    args.each_of_rest(|args, i, text| {
        given += 1;
        match Bandwidth::parse(text, &args.place()) {
            Err(_) => args.error(format!("argument {} syntax error", i + 1)),
            Ok(Bandwidth(rate)) if rates.last().is_some_and(|&last| rate <= last) => {
                args.error(format!("rate {} must be > rate {i}", i + 1));
            }
            Ok(Bandwidth(rate)) if rate > most => {
                args.error(format!("rate {} too large (max {most})", i + 1));
            }
            Ok(Bandwidth(rate)) => {
                if bandwidth && text.trim().ends_with(|last: char| last.is_ascii_digit()) {
                    args.warn(format!("no units for bandwidth argument {}, assuming Bps", i + 1));
                }
                rates.push(rate);
            }
        }
    });
    if given == 0 {
        args.error("too few arguments to BandwidthMeter(bandwidth, ...)");
    }
    args.finish()?;
    let outputs = args.outputs();
    if rates.len() + 1 != outputs {
        let plural = if rates.len() == 1 { "" } else { "s" };
        let given = rates.len();
        args.error_as(
            format!("{given} rate{plural} for {outputs} outputs: give one less than there are outputs"),
            format!("need {} arguments, one less than the number of output ports", outputs - 1),
        );
    }
    args.finish()?;
    let meters = rates.iter().map(|rate| (rate << SCALE) / FREQUENCY).collect();
    Ok(Box::new(Meter { bandwidth, meters, average: Rate::default() }))
}

pub(super) struct Meter {
    bandwidth: bool,
    /// The limits between the outputs, in ascending order: bytes or packets per epoch (a millisecond), with
    /// `SCALE` fractional bits like the average.
    meters: Vec<u64>,
    average: Rate<SCALE>,
}

impl Element for Meter {
    fn effects(&self) -> Effects {
        let reads = if self.bandwidth { vec![Field::Length] } else { Vec::new() };
        let rate = Filter::Leaf(Predicate::Opaque { about: "rate of arrival", reads });
        let cases = vec![Case::new(rate, Target::SomeOutput), Case::new(Filter::TRUE, Target::Output(0))];
        let effects = Effects {
            support: Support { whole_length: self.bandwidth, ..Support::default() },
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time).sharing(RATE)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let lengths = cx.lengths();
        let amount = match self.bandwidth {
            true => batch.iter().map(|packet| lengths.of(packet) as u64).sum(),
            false => batch.len() as u64,
        };
        // The average changes only with the time, which is the same for all packets of a batch. So all of
        // them go to the same output.
        self.average.add(amount, cx.now());
        let average = self.average.average();
        let output = self.meters.iter().take_while(|&&meter| average >= meter).count();
        send_all(cx, batch, Fate::Output(output))
    }

    element::keeps!(average);
}

pub(super) const HANDLERS: &[Handler<Meter>] = &[
    Handler::<Meter>::read("rate", |e, cx, _| Ok(e.average.show(cx.now(), 0))).summed(),
    Handler::get("meters", |e| e.meters.iter().map(|meter| fixed::show(meter * FREQUENCY, SCALE)).collect()),
];
