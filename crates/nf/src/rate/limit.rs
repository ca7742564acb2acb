//! The rate limit of RatedUnqueue, RatedSplitter, BandwidthRatedUnqueue and BandwidthRatedSplitter: a token
//! bucket, and the arguments RATE, BURST_DURATION and BURST_SIZE or BURST_BYTES.

use element::args::{ArgType, Bandwidth};
use element::class::ArgInfo;
use element::effects::{EXTRA_LENGTH, Field};
use element::{Args, Cx, Packet, Timestamp, WholeLengths};
use packet::Annotations;

use super::bucket::Bucket;
use crate::fixed::show_bandwidth;

/// The arguments of the elements that limit packets per second.
pub(super) const PACKET_ARGS: &[ArgInfo] = &[
    ArgInfo::required("RATE", "unsigned"),
    ArgInfo::keyword("BURST_DURATION", "seconds", "20ms"),
    ArgInfo::keyword("BURST_SIZE", "unsigned", ""),
];

/// The arguments of the elements that pull a number of packets per second.
pub(super) const UNQUEUE_ARGS: &[ArgInfo] =
    &[PACKET_ARGS[0], PACKET_ARGS[1], PACKET_ARGS[2], ArgInfo::keyword("ACTIVE", "bool", "true")];

/// The default of BURST_DURATION.
const DEFAULT_DURATION: Timestamp = Timestamp(20_000_000);

/// The number of bytes that must be in a bucket before a packet is sent. No packet is longer, so a packet
/// may be sent before its length is known.
const THRESHOLD: u64 = 131_072;

/// A limit in packets or bytes per second, enforced by a token bucket. A token is a packet or a byte; a rate
/// of 0 allows nothing.
pub(super) struct Limit {
    bucket: Bucket,
    bandwidth: bool,
    duration: Timestamp,
    size: Option<u64>,
    /// True if the extra length annotation is added to packets' lengths.
    extra: bool,
    /// The number of bytes that are added to each packet's length.
    overhead: u64,
}

impl Limit {
    /// Parses RATE, BURST_DURATION and, if `bandwidth` is true, BURST_BYTES, otherwise BURST_SIZE. The
    /// limit is in bytes per second if `bandwidth` is true, otherwise in packets per second. Its bucket is
    /// full. Errors are reported to `args`.
    pub(super) fn read(args: &mut Args<'_>, bandwidth: bool) -> Limit {
        let rate = match bandwidth {
            true => args.required::<Bandwidth>("RATE").0,
            false => u64::from(args.required::<u32>("RATE")),
        };
        let duration = args.value("BURST_DURATION");
        let size: Option<u32> = args.get(if bandwidth { "BURST_BYTES" } else { "BURST_SIZE" });
        if args.was_given("BURST_DURATION") && size.is_some() {
            args.error("cannot specify both BURST_DURATION and BURST_SIZE");
        }
        let mut limit = Limit {
            bucket: Bucket::new(rate, 1, 1),
            bandwidth,
            duration,
            size: size.map(u64::from),
            extra: false,
            overhead: 0,
        };
        limit.set_rate(rate);
        limit
    }

    /// Returns the arguments from which this limit can be made: the current rate, and the other arguments if
    /// they are not the defaults.
    pub(super) fn configuration(&self) -> String {
        let mut text = self.show();
        if self.duration != DEFAULT_DURATION {
            text += &format!(", BURST_DURATION {}", self.duration.as_interval());
        }
        if let Some(size) = self.size {
            let unit = if self.bandwidth { "BYTES" } else { "SIZE" };
            text += &format!(", BURST_{unit} {size}");
        }
        for (name, is_set) in [("EXTRA_LENGTH", self.extra), ("LINK_RATE", self.overhead > 0)] {
            if is_set {
                text += &format!(", {name} true");
            }
        }
        text
    }

    /// Makes the limit count more bytes than the packet's length: its extra length annotation if `extra` is
    /// true, and `overhead` bytes.
    pub(super) fn counting(mut self, extra: bool, overhead: u64) -> Limit {
        (self.extra, self.overhead) = (extra, overhead);
        self
    }

    /// Returns the fields of packets that decide when the next packet may be sent, for
    /// [`Effects`](element::Effects).
    pub(super) fn reads(&self) -> Vec<Field> {
        let length = self.bandwidth.then_some(Field::Length);
        length.into_iter().chain(self.extra.then_some(EXTRA_LENGTH)).collect()
    }

    fn set_rate(&mut self, rate: u64) {
        let within = u128::from(rate) * self.duration.0.max(0) as u128 / 1_000_000_000;
        let tokens = self.size.unwrap_or(within.min(u128::from(u32::MAX)) as u64);
        let tokens = if self.bandwidth { tokens + THRESHOLD } else { tokens.max(1) };
        self.bucket.change(rate, tokens);
    }

    /// Returns a copy of the bucket, with which the element that replaces this element in a reload continues
    /// ([`go_on`](Self::go_on)).
    pub(super) fn bucket(&self) -> Bucket {
        self.bucket.clone()
    }

    /// Continues with the tokens of the bucket of the element that is replaced in a reload, up to the size of
    /// this element's bucket.
    pub(super) fn go_on(&mut self, bucket: &Bucket) {
        self.bucket.go_on(bucket);
    }

    /// Removes all tokens from the bucket.
    pub(super) fn empty(&mut self) {
        self.bucket.take(u64::MAX);
    }

    /// Adds the tokens that have arrived until `now` to the bucket.
    pub(super) fn fill(&mut self, now: Timestamp) {
        self.bucket.fill(now);
    }

    /// True if a packet may be sent now: there are enough tokens, and the rate is not 0.
    pub(super) fn allows(&self) -> bool {
        self.bucket.rate() > 0 && self.bucket.tokens() >= self.needed()
    }

    /// Returns the number of packets that may be pulled now in one batch. With a limit in bytes this is at
    /// most 1, because the tokens that a packet takes are known only after it has been pulled.
    pub(super) fn allowed(&self) -> usize {
        match self.allows() {
            false => 0,
            true if self.bandwidth => 1,
            true => usize::try_from(self.bucket.tokens()).unwrap_or(usize::MAX),
        }
    }

    fn needed(&self) -> u64 {
        if self.bandwidth { THRESHOLD } else { 1 }
    }

    /// Takes the tokens of a packet that is sent from the bucket: one token, or one per byte.
    pub(super) fn charge(&mut self, packet: &Packet, lengths: WholeLengths) {
        let length = match self.extra {
            true => packet.len() + packet.annotations().u32(Annotations::EXTRA_LENGTH) as usize,
            false => lengths.of(packet),
        };
        let bytes = length as u64 + self.overhead;
        self.bucket.take(if self.bandwidth { bytes } else { 1 });
    }

    /// Returns the time at which the next packet may be sent; `None` if the rate is 0. `now` is the time of
    /// the last call of [`fill`](Self::fill).
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.bucket.when(self.needed(), now)
    }

    /// Returns the value of the handler `rate`: packets per second, or a bandwidth with its unit.
    pub(super) fn show(&self) -> String {
        let rate = self.bucket.rate();
        if self.bandwidth { show_bandwidth(rate) } else { rate.to_string() }
    }

    /// Sets the rate from a value that was written to the handler `rate`. The bucket stays filled to the
    /// same fraction of its size.
    pub(super) fn write(&mut self, cx: &Cx<'_>, value: &str) -> Result<(), String> {
        self.set_rate(parse_rate(cx, value, self.bandwidth)?);
        Ok(())
    }
}

/// Parses a rate that was written to a handler: a bandwidth, of which the bytes per second are returned, if
/// `bandwidth` is true; otherwise packets per second.
pub(super) fn parse_rate(cx: &Cx<'_>, value: &str, bandwidth: bool) -> Result<u64, String> {
    let rate = match bandwidth {
        true => Bandwidth::parse(value, &cx.place()).map(|Bandwidth(rate)| rate),
        false => u32::parse(value, &cx.place()).map(u64::from),
    };
    rate.map_err(|reason| format!("RATE: {reason}"))
}
