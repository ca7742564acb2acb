//! # SrTCM
//! Colours packets by one rate and two burst sizes: the single rate three color marker (RFC 2697).
//!
//! Tokens arrive at the committed information rate, one per byte. They fill the committed bucket up to the
//! committed burst size. While that bucket is full, they fill the excess bucket up to the excess burst size.
//! Both buckets are full at the start. A packet for which the committed bucket has enough tokens takes them
//! and is green. Otherwise, a packet for which the excess bucket has enough tokens takes them and is yellow.
//! All other packets are red and take no tokens. If COLOR_AWARE is true, a packet that arrives yellow cannot
//! become green, and a packet that arrives red stays red.
//!
//! The colour is written to an annotation: 0 for green, 1 for yellow, 2 for red. Other values of arriving
//! packets mean red. With one output, all packets leave by it. With more outputs, green packets leave by
//! output 0, yellow packets by output 1 and red packets by output 2; packets whose output does not exist
//! are dropped.
//!
//! The length of a packet is the length that its IP header gives, without link header and padding. Without
//! an IP header, all bytes from the network header annotation on count; if the annotation is not set, all
//! bytes.
//!
//! ## Usage
//! `SrTCM(CIR, CBS, EBS [, KEYWORDS])`
//!
//! ## Arguments
//! - `CIR`: the committed information rate, a bandwidth.
//! - `CBS`: the committed burst size in bytes.
//! - `EBS`: the excess burst size in bytes. CBS and EBS cannot both be 0. A size other than 0 should be at
//!   least the length of the largest packet, since a longer packet never gets the colour of that bucket.
//! - `COLOR_AWARE`: if true, packets arrive with colours in the annotation; if false, the annotation is
//!   not read.
//! - `ANNO`: the annotation of the colour, by name or offset.
//!
//! ## Handlers
//! - `cir`: the committed information rate.
//! - `cbs`: the committed burst size.
//! - `ebs`: the excess burst size.
//! - `green`: the number of green packets.
//! - `yellow`: the number of yellow packets.
//! - `red`: the number of red packets.
//! - `green_bytes`: the bytes of green packets.
//! - `yellow_bytes`: the bytes of yellow packets.
//! - `red_bytes`: the bytes of red packets.
//! - `tokens`: the numbers of tokens in the committed and the excess bucket.
//! - `reset`: sets the counts of packets and bytes to zero; the buckets do not change.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 100) -> m :: SrTCM(20kBps, 1500, 3000);
//! m[0] -> Discard; m[1] -> Discard; m[2] -> red :: Counter -> Discard
//! ```
//!
//! ## See also
//! TrTCM, BandwidthMeter, Meter, BandwidthRatedSplitter, PaintSwitch, SetIPDSCP

use element::args::Bandwidth;
use element::class::{ArgInfo, join};
use element::{Class, Handler, StatePart, Timestamp, manual};

use super::colours::{COMMON, Colour, Marker, Painter, Ticks, build};
use crate::fixed::show_bandwidth;

static ARGS: [ArgInfo; 5] = join(
    [
        ArgInfo::required("CIR", "bandwidth"),
        ArgInfo::required("CBS", "unsigned"),
        ArgInfo::required("EBS", "unsigned"),
    ],
    COMMON,
);

/// The element class `SrTCM`.
pub static CLASS: Class = Class {
    name: "SrTCM",
    ports: "1/1-3",
    processing: "a/ah",
    manual: manual!("sr_tcm.rs"),
    args: &ARGS,
    table: &HANDLERS,
    state: &[
        StatePart::kept("tokens", &["tokens"]),
        StatePart::kept("counts", &["green", "yellow", "red", "green_bytes", "yellow_bytes", "red_bytes"]),
    ],
    samples: &[
        "1kBps, 200, 300 -> 1/3",
        "1MBps, 100, 0 -> 1/2",
        "1kBps, 200, 1000, COLOR_AWARE true -> 1/3",
        "0, 0, 500, COLOR_AWARE true, ANNO 20",
    ],
    build: |args| {
        let Bandwidth(rate) = args.required("CIR");
        let sizes = (args.required("CBS"), args.required("EBS"));
        build(args, SingleRate::new(rate, sizes))
    },
    ..Class::DEFAULT
};

#[derive(Clone, Debug)]
struct SingleRate {
    /// The arrival of tokens at the committed information rate.
    ticks: Ticks,
    /// The committed and the excess burst size, in bytes.
    sizes: (u64, u64),
    /// The numbers of tokens in the committed and the excess bucket (Tc and Te in RFC 2697).
    tokens: (u64, u64),
}

impl SingleRate {
    fn new(rate: u64, sizes: (u64, u64)) -> Result<SingleRate, String> {
        SingleRate { ticks: Ticks::new(rate), sizes, tokens: sizes }.sound()
    }
}

impl Marker for SingleRate {
    fn go_on(&mut self, before: &SingleRate) {
        self.ticks.go_on(&before.ticks);
        self.tokens = (before.tokens.0.min(self.sizes.0), before.tokens.1.min(self.sizes.1));
    }

    #[inline]
    fn refill(&mut self, now: Timestamp) {
        let came = self.ticks.take(now);
        let fit = came.min(self.sizes.0 - self.tokens.0);
        self.tokens.0 += fit;
        self.tokens.1 += (came - fit).min(self.sizes.1 - self.tokens.1);
    }

    #[inline]
    fn mark(&mut self, bytes: u64, before: Colour) -> Colour {
        let (committed, excess) = &mut self.tokens;
        if before == Colour::Green && bytes <= *committed {
            *committed -= bytes;
            return Colour::Green;
        }
        if before != Colour::Red && bytes <= *excess {
            *excess -= bytes;
            return Colour::Yellow;
        }
        Colour::Red
    }

    fn tokens(&self) -> [u64; 2] {
        [self.tokens.0, self.tokens.1]
    }

    fn sound(mut self) -> Result<SingleRate, String> {
        let (committed, excess) = self.sizes;
        self.tokens = (self.tokens.0.min(committed), self.tokens.1.min(excess));
        match self.sizes {
            (0, 0) => Err("CBS and EBS must not both be 0".into()),
            _ => Ok(self),
        }
    }
}

const HANDLERS: &[Handler<Painter<SingleRate>>] = &[
    Handler::data(
        "cir",
        |e| show_bandwidth(e.marker.ticks.rate),
        |e, cx, text| e.set_rate(cx, text, |marker, rate| marker.ticks.rate = rate),
    ),
    Handler::data(
        "cbs",
        |e| e.marker.sizes.0.to_string(),
        |e, cx, text| e.set_size(cx, text, |marker, size| marker.sizes.0 = size),
    ),
    Handler::data(
        "ebs",
        |e| e.marker.sizes.1.to_string(),
        |e, cx, text| e.set_size(cx, text, |marker, size| marker.sizes.1 = size),
    ),
    Painter::GREEN,
    Painter::YELLOW,
    Painter::RED,
    Painter::GREEN_BYTES,
    Painter::YELLOW_BYTES,
    Painter::RED_BYTES,
    Painter::TOKENS,
    Painter::RESET,
];

#[cfg(test)]
mod tests {
    use Colour::{Green, Red, Yellow};
    use proptest::prelude::*;

    use super::super::colours::model::{Clock, agree, steps};
    use super::*;

    /// Returns a marker whose buckets are full and which has been called for time zero. `rate` is in bytes
    /// per second, `cbs` and `ebs` are in bytes.
    fn marker(rate: u64, cbs: u64, ebs: u64) -> SingleRate {
        let mut marker = SingleRate::new(rate, (cbs, ebs)).unwrap();
        marker.refill(Timestamp(0));
        marker
    }

    fn after(marker: &mut SingleRate, milliseconds: i64) -> [u64; 2] {
        marker.refill(Timestamp(milliseconds * 1_000_000));
        marker.tokens()
    }

    #[test]
    fn rfc2697_2_at_least_one_burst_size_is_not_zero() {
        assert!(SingleRate::new(1000, (0, 0)).unwrap_err().contains("CBS and EBS"));
        assert!(SingleRate::new(1000, (0, 1)).is_ok() && SingleRate::new(1000, (1, 0)).is_ok());
        let mut marker = marker(1000, 10, 0);
        marker.sizes.0 = 0;
        assert!(marker.sound().is_err());
    }

    #[test]
    fn rfc2697_3_buckets_are_full_at_the_start() {
        assert_eq!(marker(1000, 70, 30).tokens(), [70, 30]);
    }

    #[test]
    fn rfc2697_3_tokens_fill_tc_first_then_te_and_then_nothing() {
        let mut marker = marker(1000, 10, 5);
        assert_eq!((marker.mark(10, Green), marker.mark(5, Green)), (Green, Yellow));
        assert_eq!(after(&mut marker, 0), [0, 0]);
        assert_eq!(after(&mut marker, 9), [9, 0]);
        assert_eq!(after(&mut marker, 10), [10, 0]);
        assert_eq!(after(&mut marker, 12), [10, 2]);
        assert_eq!(after(&mut marker, 15), [10, 5]);
        assert_eq!(after(&mut marker, 1000), [10, 5]);
    }

    #[test]
    fn rfc2697_3_tokens_come_cir_times_per_second() {
        let mut marker = marker(3, 100, 0);
        marker.mark(100, Green);
        assert_eq!(after(&mut marker, 333), [0, 0]);
        assert_eq!(after(&mut marker, 334), [1, 0]);
        assert_eq!(after(&mut marker, 667), [2, 0]);
        assert_eq!(after(&mut marker, 10_000), [30, 0]);
    }

    #[test]
    fn rfc2697_3_blind_green_takes_from_tc_alone() {
        let mut marker = marker(0, 100, 100);
        assert_eq!((marker.mark(100, Green), marker.tokens()), (Green, [0, 100]));
    }

    #[test]
    fn rfc2697_3_blind_yellow_takes_from_te_alone() {
        let mut marker = marker(0, 99, 100);
        assert_eq!((marker.mark(100, Green), marker.tokens()), (Yellow, [99, 0]));
    }

    #[test]
    fn rfc2697_3_blind_red_takes_nothing() {
        let mut marker = marker(0, 99, 99);
        assert_eq!((marker.mark(100, Green), marker.tokens()), (Red, [99, 99]));
    }

    #[test]
    fn rfc2697_3_aware_green_needs_a_green_packet_and_tc() {
        let mut marker = marker(0, 100, 100);
        assert_eq!((marker.mark(60, Green), marker.tokens()), (Green, [40, 100]));
        assert_eq!((marker.mark(60, Green), marker.tokens()), (Yellow, [40, 40]));
    }

    #[test]
    fn rfc2697_3_aware_yellow_never_takes_from_tc() {
        let mut marker = marker(0, 100, 50);
        assert_eq!((marker.mark(50, Yellow), marker.tokens()), (Yellow, [100, 0]));
        assert_eq!((marker.mark(50, Yellow), marker.tokens()), (Red, [100, 0]));
    }

    #[test]
    fn rfc2697_3_aware_red_stays_red_and_takes_nothing() {
        let mut marker = marker(0, 100, 100);
        assert_eq!((marker.mark(1, Red), marker.tokens()), (Red, [100, 100]));
    }

    #[test]
    fn changed_parameters_keep_what_fits() {
        let mut marker = marker(1000, 100, 50);
        marker.sizes.0 = 40;
        let mut marker = marker.sound().unwrap();
        assert_eq!(marker.tokens(), [40, 50]);
        marker.sizes.1 = 500;
        assert_eq!(marker.sound().unwrap().tokens(), [40, 50]);
    }

    proptest! {
        /// Compares the marker with the rule of RFC 2697, section 3, written literally: for each token that
        /// arrives, Tc grows by one if it is below CBS; otherwise Te grows by one if it is below EBS.
        #[test]
        fn agrees_with_the_rule_token_by_token(
            rate in prop_oneof![0u64..50, 0u64..30_000], cbs in 0u64..4000, ebs in 1u64..4000, steps in steps(), aware: bool,
        ) {
            let (mut clock, mut tc, mut te) = (Clock::new(rate), cbs, ebs);
            let rule = |elapsed, bytes: u64, before: Colour| {
                while clock.tick(elapsed) {
                    if tc < cbs { tc += 1 } else if te < ebs { te += 1 }
                }
                let colour = if (!aware || before == Green) && tc as i64 - bytes as i64 >= 0 {
                    tc -= bytes;
                    Green
                } else if (!aware || before == Green || before == Yellow) && te as i64 - bytes as i64 >= 0 {
                    te -= bytes;
                    Yellow
                } else {
                    Red
                };
                (colour, [tc, te])
            };
            let blind = |(gap, bytes, before)| (gap, bytes, if aware { before } else { Green });
            let steps: Vec<_> = steps.into_iter().map(blind).collect();
            let marker = SingleRate::new(rate, (cbs, ebs)).unwrap();
            prop_assert_eq!(agree(marker, rule, &steps), Ok(()));
        }
    }
}
