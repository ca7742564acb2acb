//! The arguments of Juggler, and the argument types for them.

use classify::filter::{HeaderSlices, Matcher};
use element::args::{ArgType, Bandwidth, Micros, PlaceNames, Scope, filter_condition, unquote};
use element::{Packet, Timestamp};
use packet::SLOT_STRIDE;
use wire::merge::WholeSegment;

use crate::flows::Limits;

/// The number of full frames whose data fits into a large segment: 45 frames of 1448 bytes (with time
/// stamps), or 44 of 1460.
const FRAMES: u64 = 45;
/// The number of byte times that a full frame occupies on the line: 1514 bytes of frame, 4 of check
/// sequence, 8 of preamble and 12 of interframe gap.
const ON_THE_LINE: u64 = 1514 + 4 + 8 + 12;
/// The automatic INSEQ_TIMEOUT is longer than the frames take by one part in `SLACK`, because frames do not
/// arrive at equal intervals.
const SLACK: u64 = 8;

/// The arguments of one Juggler. Handlers can change the two time-outs.
pub(crate) struct Settings {
    pub(crate) flows: usize,
    pub(crate) line_rate: Bandwidth,
    /// INSEQ_TIMEOUT as configured; `None` for `auto`, so that it follows from the line rate.
    pub(crate) in_sequence: Option<Timestamp>,
    pub(crate) out_of_order: Timestamp,
    pub(crate) merges: bool,
    pub(crate) udp: bool,
    pub(crate) checks: Checks,
    /// True if segments with equal identifications may be merged, CONSTANT_ID.
    pub(crate) constant_id: bool,
    /// The maximum memory of a flow's waiting segments in bytes, QUEUE.
    pub(crate) queue: u32,
    pub(crate) no_merge: Pattern,
}

impl Settings {
    /// Returns INSEQ_TIMEOUT. If it is `auto`, computes the time that the frames of a large segment take on
    /// the line, plus an eighth.
    pub(crate) fn in_sequence(&self) -> Timestamp {
        let Bandwidth(rate) = self.line_rate;
        let bytes = FRAMES * ON_THE_LINE * (SLACK + 1) / SLACK;
        self.in_sequence.unwrap_or(Timestamp((bytes * 1_000_000_000 / rate.max(1)) as i64))
    }

    /// Returns the limits for the flow table. `merges` is false if no large segments may leave, because of
    /// elements downstream.
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

/// An argument type: a time span as [`Micros`], or `auto` (`None`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AutoMicros(pub(crate) Option<Timestamp>);

impl ArgType for AutoMicros {
    fn parse(text: &str, place: &Scope<'_>) -> Result<AutoMicros, String> {
        match text.trim() {
            "auto" => Ok(AutoMicros(None)),
            text => Micros::parse(text, place).map(|Micros(time)| AutoMicros(Some(time))),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// An argument type: which transport checksums are verified by reading the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Checks {
    /// Checksums that the interface has not verified, of segments that are merged into a large segment which
    /// leaves as one, and of segments that are not next in their flow.
    #[default]
    Auto,
    /// All.
    All,
    /// None.
    None,
}

impl ArgType for Checks {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Checks, String> {
        match (text.trim(), bool::parse(text, place)) {
            ("auto", _) => Ok(Checks::Auto),
            (_, Ok(true)) => Ok(Checks::All),
            (_, Ok(false)) => Ok(Checks::None),
            (_, Err(_)) => Err("expected auto, true or false".into()),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

impl Checks {
    /// Returns the value as it is written in a configuration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Checks::Auto => "auto",
            Checks::All => "true",
            Checks::None => "false",
        }
    }
}

/// An argument type: a filter in the language of IPFilter, or `none`, which matches no packet.
pub(crate) struct Pattern {
    text: String,
    matcher: Option<Box<Matcher>>,
}

impl Pattern {
    /// Returns the pattern that matches no packet.
    pub(crate) fn none() -> Pattern {
        Pattern { text: "none".into(), matcher: None }
    }

    /// Returns the filter as it was written in the configuration.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// True if the filter matches the packet, whose headers `segment` describes.
    #[inline]
    pub(crate) fn has(&self, packet: &Packet, segment: &WholeSegment) -> bool {
        let Some(matcher) = &self.matcher else { return false };
        let data = packet.data();
        let from = |at: u16| data.get(at.into()..).unwrap_or_default();
        matcher
            .first(&HeaderSlices { mac: data, network: from(segment.l3), transport: from(segment.l4) })
            .is_some()
    }
}

impl Default for Pattern {
    fn default() -> Pattern {
        Pattern::none()
    }
}

impl ArgType for Pattern {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Pattern, String> {
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
