//! # TrTCM
//! Colours packets by two rates and their burst sizes: the two rate three color marker (RFC 2698).
//!
//! Tokens, one per byte, arrive in the peak bucket at the peak information rate, and in the committed bucket
//! at the committed information rate. Each bucket holds tokens up to its burst size, and is full at the
//! start. A packet for which the peak bucket has too few tokens is red and takes no tokens. Any other packet
//! takes its tokens from the peak bucket. It is yellow if the committed bucket has too few tokens for it;
//! otherwise it takes tokens from that bucket, too, and is green. If COLOR_AWARE is true, a packet that
//! arrives yellow cannot become green, and a packet that arrives red stays red.
//!
//! Colours, outputs and lengths are as in SrTCM. The colour is written to an annotation (0 green, 1 yellow,
//! 2 red). With more than one output, packets leave by the output of that number; packets whose output does
//! not exist are dropped. The length of a packet is the length that its IP header gives.
//!
//! ## Usage
//! `TrTCM(CIR, CBS, PIR, PBS [, KEYWORDS])`
//!
//! ## Arguments
//! - `CIR`: the committed information rate, a bandwidth.
//! - `CBS`: the committed burst size in bytes, not 0.
//! - `PIR`: the peak information rate, not below CIR.
//! - `PBS`: the peak burst size in bytes, not 0. CBS and PBS should be at least the length of the largest
//!   packet.
//! - `COLOR_AWARE`: if true, packets arrive with colours in the annotation; if false, the annotation is
//!   not read.
//! - `ANNO`: the annotation of the colour, by name or offset.
//!
//! ## Handlers
//! - `cir`: the committed information rate.
//! - `cbs`: the committed burst size.
//! - `pir`: the peak information rate.
//! - `pbs`: the peak burst size.
//! - `green`: the number of green packets.
//! - `yellow`: the number of yellow packets.
//! - `red`: the number of red packets.
//! - `green_bytes`: the bytes of green packets.
//! - `yellow_bytes`: the bytes of yellow packets.
//! - `red_bytes`: the bytes of red packets.
//! - `tokens`: the numbers of tokens in the committed and the peak bucket.
//! - `reset`: sets the counts of packets and bytes to zero; the buckets do not change.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 100) -> TrTCM(20kBps, 1500, 40kBps, 3000) -> colour :: PaintSwitch;
//! colour[0] -> Discard; colour[1] -> Discard; colour[2] -> red :: Counter -> Discard
//! ```
//!
//! ## See also
//! SrTCM, BandwidthMeter, Meter, BandwidthRatedSplitter, PaintSwitch, SetIPDSCP

use element::args::Bandwidth;
use element::class::{ArgInfo, join};
use element::{Class, Handler, StatePart, Timestamp, manual};

use super::colours::{COMMON, Colour, Marker, Painter, Ticks, build};
use crate::fixed::show_bandwidth;

static ARGS: [ArgInfo; 6] = join(
    [
        ArgInfo::required("CIR", "bandwidth"),
        ArgInfo::required("CBS", "unsigned"),
        ArgInfo::required("PIR", "bandwidth"),
        ArgInfo::required("PBS", "unsigned"),
    ],
    COMMON,
);

/// The element class `TrTCM`.
pub static CLASS: Class = Class {
    name: "TrTCM",
    ports: "1/1-3",
    processing: "a/ah",
    manual: manual!("tr_tcm.rs"),
    args: &ARGS,
    table: &HANDLERS,
    state: &[
        StatePart::kept("tokens", &["tokens"]),
        StatePart::kept("counts", &["green", "yellow", "red", "green_bytes", "yellow_bytes", "red_bytes"]),
    ],
    samples: &[
        "1kBps, 200, 2kBps, 400 -> 1/3",
        "1kBps, 200, 2kBps, 400 -> 1/2",
        "1kBps, 200, 1kBps, 2000, COLOR_AWARE true -> 1/3",
        "0, 1, 10MBps, 500, COLOR_AWARE true",
    ],
    build: |args| {
        let (Bandwidth(committed), cbs) = (args.required("CIR"), args.required("CBS"));
        let (Bandwidth(peak), pbs) = (args.required("PIR"), args.required("PBS"));
        build(args, TwoRate::new(committed, cbs, peak, pbs))
    },
    ..Class::DEFAULT
};

/// The token bucket of one of the two rates: tokens arrive at the rate of `ticks`, one per byte, up to
/// `size` tokens.
#[derive(Clone, Debug)]
struct Bucket {
    ticks: Ticks,
    size: u64,
    tokens: u64,
}

impl Bucket {
    fn full(rate: u64, size: u64) -> Bucket {
        Bucket { ticks: Ticks::new(rate), size, tokens: size }
    }

    #[inline]
    fn refill(&mut self, now: Timestamp) {
        self.tokens = self.tokens.saturating_add(self.ticks.take(now)).min(self.size);
    }
}

#[derive(Clone, Debug)]
struct TwoRate {
    committed: Bucket,
    peak: Bucket,
}

impl TwoRate {
    fn new(cir: u64, cbs: u64, pir: u64, pbs: u64) -> Result<TwoRate, String> {
        TwoRate { committed: Bucket::full(cir, cbs), peak: Bucket::full(pir, pbs) }.sound()
    }
}

impl Marker for TwoRate {
    fn go_on(&mut self, before: &TwoRate) {
        let buckets = [(&mut self.committed, &before.committed), (&mut self.peak, &before.peak)];
        for (bucket, before) in buckets {
            bucket.ticks.go_on(&before.ticks);
            bucket.tokens = before.tokens.min(bucket.size);
        }
    }

    #[inline]
    fn refill(&mut self, now: Timestamp) {
        self.committed.refill(now);
        self.peak.refill(now);
    }

    #[inline]
    fn mark(&mut self, bytes: u64, before: Colour) -> Colour {
        if before == Colour::Red || self.peak.tokens < bytes {
            return Colour::Red;
        }
        self.peak.tokens -= bytes;
        if before == Colour::Yellow || self.committed.tokens < bytes {
            return Colour::Yellow;
        }
        self.committed.tokens -= bytes;
        Colour::Green
    }

    fn tokens(&self) -> [u64; 2] {
        [self.committed.tokens, self.peak.tokens]
    }

    fn sound(mut self) -> Result<TwoRate, String> {
        let TwoRate { committed, peak } = &mut self;
        for bucket in [&mut *committed, &mut *peak] {
            bucket.tokens = bucket.tokens.min(bucket.size);
        }
        if peak.ticks.rate < committed.ticks.rate {
            return Err("PIR must be equal to or greater than CIR".into());
        }
        if committed.size == 0 || peak.size == 0 {
            return Err("CBS and PBS must be greater than 0".into());
        }
        Ok(self)
    }
}

const HANDLERS: &[Handler<Painter<TwoRate>>] = &[
    Handler::data(
        "cir",
        |e| show_bandwidth(e.marker.committed.ticks.rate),
        |e, cx, text| e.set_rate(cx, text, |marker, rate| marker.committed.ticks.rate = rate),
    ),
    Handler::data(
        "cbs",
        |e| e.marker.committed.size.to_string(),
        |e, cx, text| e.set_size(cx, text, |marker, size| marker.committed.size = size),
    ),
    Handler::data(
        "pir",
        |e| show_bandwidth(e.marker.peak.ticks.rate),
        |e, cx, text| e.set_rate(cx, text, |marker, rate| marker.peak.ticks.rate = rate),
    ),
    Handler::data(
        "pbs",
        |e| e.marker.peak.size.to_string(),
        |e, cx, text| e.set_size(cx, text, |marker, size| marker.peak.size = size),
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

    fn marker(cir: u64, cbs: u64, pir: u64, pbs: u64) -> TwoRate {
        let mut marker = TwoRate::new(cir, cbs, pir, pbs).unwrap();
        marker.refill(Timestamp(0));
        marker
    }

    #[test]
    fn rfc2698_2_pir_is_not_below_cir() {
        assert!(TwoRate::new(1001, 10, 1000, 10).unwrap_err().contains("PIR"));
        assert!(TwoRate::new(1000, 10, 1000, 10).is_ok());
        let mut marker = marker(1000, 10, 2000, 10);
        marker.peak.ticks.rate = 999;
        assert!(marker.sound().is_err());
    }

    #[test]
    fn rfc2698_2_both_burst_sizes_are_greater_than_zero() {
        assert!(TwoRate::new(1, 0, 1, 10).unwrap_err().contains("CBS"));
        assert!(TwoRate::new(1, 10, 1, 0).unwrap_err().contains("PBS"));
    }

    #[test]
    fn rfc2698_3_buckets_are_full_at_the_start() {
        assert_eq!(marker(1, 20, 2, 30).tokens(), [20, 30]);
    }

    #[test]
    fn rfc2698_3_each_bucket_fills_at_its_own_rate_up_to_its_size() {
        let mut marker = marker(1000, 20, 3000, 30);
        assert_eq!((marker.mark(20, Green), marker.mark(10, Yellow)), (Green, Yellow));
        let mut after = |milliseconds: i64| {
            marker.refill(Timestamp(milliseconds * 1_000_000));
            marker.tokens()
        };
        assert_eq!(
            [0, 1, 5, 10, 11, 20, 500].map(&mut after),
            [[0, 0], [1, 3], [5, 15], [10, 30], [11, 30], [20, 30], [20, 30]]
        );
    }

    #[test]
    fn rfc2698_3_blind_red_takes_nothing() {
        let mut marker = marker(0, 100, 0, 99);
        assert_eq!((marker.mark(100, Green), marker.tokens()), (Red, [100, 99]));
    }

    #[test]
    fn rfc2698_3_blind_yellow_takes_from_tp_alone() {
        let mut marker = marker(0, 99, 0, 100);
        assert_eq!((marker.mark(100, Green), marker.tokens()), (Yellow, [99, 0]));
    }

    #[test]
    fn rfc2698_3_blind_green_takes_from_both() {
        let mut marker = marker(0, 100, 0, 150);
        assert_eq!((marker.mark(100, Green), marker.tokens()), (Green, [0, 50]));
    }

    #[test]
    fn rfc2698_3_aware_red_stays_red_and_takes_nothing() {
        let mut marker = marker(0, 100, 0, 100);
        assert_eq!((marker.mark(1, Red), marker.tokens()), (Red, [100, 100]));
    }

    #[test]
    fn rfc2698_3_aware_yellow_takes_from_tp_alone_or_is_red() {
        let mut marker = marker(0, 100, 0, 100);
        assert_eq!((marker.mark(60, Yellow), marker.tokens()), (Yellow, [100, 40]));
        assert_eq!((marker.mark(60, Yellow), marker.tokens()), (Red, [100, 40]));
    }

    #[test]
    fn rfc2698_3_aware_green_needs_both_buckets() {
        let mut marker = marker(0, 50, 0, 100);
        assert_eq!((marker.mark(50, Green), marker.tokens()), (Green, [0, 50]));
        assert_eq!((marker.mark(50, Green), marker.tokens()), (Yellow, [0, 0]));
        assert_eq!((marker.mark(1, Green), marker.tokens()), (Red, [0, 0]));
    }

    proptest! {
        /// Compares the marker with the rule of RFC 2698, section 3, written literally: tokens arrive one
        /// by one in both buckets, Tc (committed) and Tp (peak).
        #[test]
        fn agrees_with_the_rule_token_by_token(
            cir in prop_oneof![0u64..50, 0u64..20_000], more in 0u64..20_000,
            cbs in 1u64..4000, pbs in 1u64..4000, steps in steps(), aware: bool,
        ) {
            let (mut committed, mut peak) = (Clock::new(cir), Clock::new(cir + more));
            let (mut tc, mut tp) = (cbs, pbs);
            let rule = |elapsed, bytes: u64, before: Colour| {
                while committed.tick(elapsed) {
                    tc = (tc + 1).min(cbs);
                }
                while peak.tick(elapsed) {
                    tp = (tp + 1).min(pbs);
                }
                let lacks = |tokens: u64| (tokens as i64) - (bytes as i64) < 0;
                let colour = if (aware && before == Red) || lacks(tp) {
                    Red
                } else if (aware && before == Yellow) || lacks(tc) {
                    tp -= bytes;
                    Yellow
                } else {
                    (tp, tc) = (tp - bytes, tc - bytes);
                    Green
                };
                (colour, [tc, tp])
            };
            let blind = |(gap, bytes, before)| (gap, bytes, if aware { before } else { Green });
            let steps: Vec<_> = steps.into_iter().map(blind).collect();
            let marker = TwoRate::new(cir, cbs, cir + more, pbs).unwrap();
            prop_assert_eq!(agree(marker, rule, &steps), Ok(()));
        }
    }
}
