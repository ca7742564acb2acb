//! A rate limit as configurations give it: RATE and how large bursts may be.

use element::args::{Arg, Bandwidth};
use element::class::ArgInfo;
use element::effects::{EXTRA_LENGTH, Field};
use element::{Args, Cx, Lengths, Packet, Timestamp};
use packet::Annotations;

use super::bucket::Bucket;
use super::fixed::show_bandwidth;

/// The arguments of limits in packets.
pub(super) const PACKET_ARGS: &[ArgInfo] = &[
    ArgInfo::required("RATE", "unsigned"),
    ArgInfo::keyword("BURST_DURATION", "seconds", "20ms"),
    ArgInfo::keyword("BURST_SIZE", "unsigned", ""),
];

/// Bytes that have to be in a bucket before a packet may go: more than any packet has, so that the bucket need not
/// know the packet's length beforehand.
const THRESHOLD: u64 = 131_072;

/// A limit in packets or bytes per second.
pub(super) struct Limit {
    bucket: Bucket,
    bandwidth: bool,
    duration: Timestamp,
    size: Option<u64>,
    /// Whether bytes that were on the wire but are not in the packet count.
    extra: bool,
    /// Bytes that count beside each packet.
    overhead: u64,
}

impl Limit {
    /// Reads RATE, BURST_DURATION and BURST_SIZE or BURST_BYTES.
    pub(super) fn read(args: &mut Args<'_>, bandwidth: bool) -> Limit {
        let rate = match bandwidth {
            true => args.required::<Bandwidth>("RATE").0,
            false => u64::from(args.required::<u32>("RATE")),
        };
        let duration: Option<Timestamp> = args.get("BURST_DURATION");
        let size: Option<u32> = args.get(if bandwidth { "BURST_BYTES" } else { "BURST_SIZE" });
        if duration.is_some() && size.is_some() {
            args.error("cannot specify both BURST_DURATION and BURST_SIZE");
        }
        let mut limit = Limit {
            bucket: Bucket::new(rate, 1, 1),
            bandwidth,
            duration: duration.unwrap_or(Timestamp(20_000_000)),
            size: size.map(u64::from),
            extra: false,
            overhead: 0,
        };
        limit.set_rate(rate);
        limit
    }

    /// The same, counting more than the packets' own bytes.
    pub(super) fn counting(mut self, extra: bool, overhead: u64) -> Limit {
        (self.extra, self.overhead) = (extra, overhead);
        self
    }

    /// What of packets decides when the next one may go.
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

    /// Looks at the time. A rate of zero is no limit.
    pub(super) fn fill(&mut self, now: Timestamp) {
        self.bucket.fill(now);
    }

    /// Whether a packet may go now.
    pub(super) fn allows(&self) -> bool {
        self.bucket.rate() == 0 || self.bucket.tokens() >= self.needed()
    }

    /// Packets that may go now without a look at their lengths.
    pub(super) fn allowed(&self) -> usize {
        match (self.bucket.rate(), self.bandwidth) {
            (0, _) => usize::MAX,
            (_, true) => usize::from(self.allows()),
            (_, false) => usize::try_from(self.bucket.tokens()).unwrap_or(usize::MAX),
        }
    }

    fn needed(&self) -> u64 {
        if self.bandwidth { THRESHOLD } else { 1 }
    }

    /// Counts a packet that goes.
    pub(super) fn charge(&mut self, packet: &Packet, lengths: Lengths) {
        let length = match self.extra {
            true => packet.len() + packet.annotations().u32(Annotations::EXTRA_LENGTH) as usize,
            false => lengths.of(packet),
        };
        let bytes = length as u64 + self.overhead;
        self.bucket.take(if self.bandwidth { bytes } else { 1 });
    }

    /// When the next packet may go.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.bucket.when(self.needed(), now)
    }

    /// The handler `rate`.
    pub(super) fn show(&self) -> String {
        let rate = self.bucket.rate();
        if self.bandwidth { show_bandwidth(rate) } else { rate.to_string() }
    }

    /// Sets the handler `rate`.
    pub(super) fn write(&mut self, cx: &Cx<'_>, value: &str) -> Result<(), String> {
        self.set_rate(parse_rate(cx, value, self.bandwidth)?);
        Ok(())
    }
}

/// A rate as handlers take it.
pub(super) fn parse_rate(cx: &Cx<'_>, value: &str, bandwidth: bool) -> Result<u64, String> {
    let rate = match bandwidth {
        true => Bandwidth::parse(value, &cx.place()).map(|Bandwidth(rate)| rate),
        false => u32::parse(value, &cx.place()).map(u64::from),
    };
    rate.map_err(|reason| format!("RATE: {reason}"))
}
