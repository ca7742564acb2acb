//! The arguments of the juggler.

use classify::filter::{Headers, Matcher};
use element::args::{Arg, Bandwidth, Micros, Place, PlaceNames, filter_condition, unquote};
use element::{Packet, Timestamp};
use packet::SLOT_STRIDE;
use wire::merge::Segment;

use crate::flows::Limits;

/// The number of full frames of a large segment: 45 of 1448 bytes of data with time stamps, or 44 of 1460.
const FRAMES: u64 = 45;
/// The number of byte times that a full frame occupies on the line: 1514 bytes, check sequence, preamble
/// and interframe gap.
const ON_THE_LINE: u64 = 1514 + 4 + 8 + 12;
/// The wait is longer by one part in `SLACK`, because frames do not arrive at even distances.
const SLACK: u64 = 8;

/// The settings.
pub(crate) struct Settings {
    pub(crate) flows: usize,
    pub(crate) line_rate: Bandwidth,
    /// The time-out as configured; `None` if it follows from the line rate.
    pub(crate) in_sequence: Option<Timestamp>,
    pub(crate) out_of_order: Timestamp,
    pub(crate) merges: bool,
    pub(crate) udp: bool,
    pub(crate) checks: bool,
    /// True if segments with equal identifications may be merged.
    pub(crate) constant_id: bool,
    /// The memory of a flow's queue in bytes.
    pub(crate) queue: u32,
    pub(crate) no_merge: Pattern,
}

impl Settings {
    /// Returns the time for which segments in sequence wait: the time of the frames of a large segment on
    /// the line, plus a slack.
    pub(crate) fn in_sequence(&self) -> Timestamp {
        let Bandwidth(rate) = self.line_rate;
        let bytes = FRAMES * ON_THE_LINE * (SLACK + 1) / SLACK;
        self.in_sequence.unwrap_or(Timestamp((bytes * 1_000_000_000 / rate.max(1)) as i64))
    }

    /// Returns the limits of the flow table; `merges` is true if large segments may leave.
    pub(crate) fn limits(&self, merges: bool) -> Limits {
        Limits {
            flows: self.flows,
            in_sequence: self.in_sequence(),
            out_of_order: self.out_of_order,
            slots: (self.queue / SLOT_STRIDE as u32).max(1),
            merges: self.merges && merges,
        }
    }
}

/// A time span as [`Micros`], or `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AutoMicros(pub(crate) Option<Timestamp>);

impl Arg for AutoMicros {
    fn parse(text: &str, place: &Place<'_>) -> Result<AutoMicros, String> {
        match text.trim() {
            "auto" => Ok(AutoMicros(None)),
            text => Micros::parse(text, place).map(|Micros(time)| AutoMicros(Some(time))),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// A set of packets, as a filter in the language of IPFilter; may be empty.
pub(crate) struct Pattern {
    text: String,
    matcher: Option<Box<Matcher>>,
}

impl Pattern {
    /// Returns the empty set.
    pub(crate) fn none() -> Pattern {
        Pattern { text: "none".into(), matcher: None }
    }

    /// Returns the filter as it was configured.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// True if the packet of a segment is in the set.
    #[inline]
    pub(crate) fn has(&self, packet: &Packet, segment: &Segment) -> bool {
        let Some(matcher) = &self.matcher else { return false };
        let data = packet.data();
        let from = |at: u16| data.get(at.into()..).unwrap_or_default();
        matcher
            .first(&Headers { mac: data, network: from(segment.l3), transport: from(segment.l4) })
            .is_some()
    }
}

impl Default for Pattern {
    fn default() -> Pattern {
        Pattern::none()
    }
}

impl Arg for Pattern {
    fn parse(text: &str, place: &Place<'_>) -> Result<Pattern, String> {
        let text = unquote(text);
        let text = text.trim();
        if text == "none" {
            return Ok(Pattern::none());
        }
        let (condition, issues) = filter_condition(text, &PlaceNames(*place));
        match issues.into_iter().find(|(_, is_warning)| !is_warning) {
            Some((issue, _)) => Err(issue.text),
            None => Ok(Pattern { text: text.into(), matcher: Some(Box::new(Matcher::new(&[condition]))) }),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}
