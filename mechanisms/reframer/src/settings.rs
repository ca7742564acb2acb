//! The arguments of the reframer, and the values that handlers accept for them.

use classify::filter::Matcher;
pub use element::args::Micros;
use element::args::{Arg, Place, PlaceNames, filter_condition, unquote};
use element::{Packet, Timestamp};
use packet::BATCH_CAPACITY;
use wire::tcp;

use crate::key;
use crate::lists::Priority;

impl Arg for Priority {
    fn parse(text: &str, _: &Place<'_>) -> Result<Priority, String> {
        match text.trim() {
            "SHORTEST_FLOW" => Ok(Priority::ShortestFlow),
            "OLDEST_FLOW" => Ok(Priority::OldestFlow),
            "LONGEST_WAIT" => Ok(Priority::LongestWait),
            _ => Err("must be SHORTEST_FLOW, OLDEST_FLOW or LONGEST_WAIT".into()),
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

impl Priority {
    /// Returns the name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::ShortestFlow => "SHORTEST_FLOW",
            Priority::OldestFlow => "OLDEST_FLOW",
            Priority::LongestWait => "LONGEST_WAIT",
        }
    }
}

/// A number of at least 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(pub usize);

impl Arg for Count {
    fn parse(text: &str, place: &Place<'_>) -> Result<Count, String> {
        match u32::parse(text, place)? {
            0 => Err("must be positive".into()),
            n => Ok(Count(n as usize)),
        }
    }

    fn clicks_words(text: &str) -> Option<String> {
        u32::clicks_words(text)
    }
}

/// The number of packets after which a flow counts as heavy; 0, or `off`, if flows are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elephants(pub u32);

impl Arg for Elephants {
    fn parse(text: &str, place: &Place<'_>) -> Result<Elephants, String> {
        if text.trim() == "off" { Ok(Elephants(0)) } else { u32::parse(text, place).map(Elephants) }
    }

    fn clicks_words(text: &str) -> Option<String> {
        u32::clicks_words(text)
    }
}

impl Elephants {
    /// Returns the value as a user would write it.
    pub fn show(self) -> String {
        if self.0 == 0 { "off".into() } else { self.0.to_string() }
    }
}

/// A time span as [`Micros`], or `off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slo(pub Timestamp);

impl Arg for Slo {
    fn parse(text: &str, place: &Place<'_>) -> Result<Slo, String> {
        if text.trim() == "off" {
            Ok(Slo(Timestamp::ZERO))
        } else {
            Micros::parse(text, place).map(|m| Slo(m.0))
        }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

impl Slo {
    /// Returns the value as a user would write it.
    pub fn show(self) -> String {
        if self.0 == Timestamp::ZERO { "off".into() } else { self.0.as_interval() }
    }
}

impl Settings {
    /// Returns the delay of a class. Under an SLO, flows of which no packet is expected in time do not
    /// wait, and all other flows wait for seven eighths of the SLO; the last eighth is left for the round
    /// in which they leave. Flows of [`crate::lists::UNKNOWN_FLOWS`] wait as long as the longest delay of the other
    /// classes.
    pub fn delay_of(&self, lane: usize) -> Timestamp {
        match (self.slo.0, lane) {
            (0, _) => self.delay,
            (_, SPARSE) => Timestamp::ZERO,
            (slo, _) => Timestamp(slo - slo / 8),
        }
    }
}

/// The class of flows that are not expected to send their next packet in time; without an SLO, the class of
/// all flows.
pub const SPARSE: usize = 0;
/// The class of flows that are expected to send their next packet in time.
pub const DENSE: usize = 1;

/// The rule that says which packets are never held.
pub struct Bypass {
    text: String,
    rule: Rule,
}

enum Rule {
    None,
    /// TCP SYN, decided without a filter.
    Syn,
    Filter(Box<Matcher>),
}

impl Bypass {
    /// Returns the rule for TCP SYN: no packet of the flow follows a SYN before the answer has come back.
    pub fn syn() -> Bypass {
        Bypass { text: Bypass::SYN.into(), rule: Rule::Syn }
    }

    /// Returns the rule for no packets.
    pub fn none() -> Bypass {
        Bypass { text: "none".into(), rule: Rule::None }
    }

    /// The default as a user would write it.
    pub const SYN: &'static str = "tcp opt syn";

    /// Returns the rule as it was configured.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if a filter decides, which may read any byte.
    pub fn looks_anywhere(&self) -> bool {
        matches!(self.rule, Rule::Filter(_))
    }

    /// Returns TCP flags; packets with any of these flags are not held.
    pub fn flags(&self) -> u8 {
        if matches!(self.rule, Rule::Syn) { tcp::flags::SYN } else { 0 }
    }

    /// True if a filter says that a packet is not held.
    pub fn applies_to(&self, packet: &Packet) -> bool {
        match &self.rule {
            Rule::Filter(matcher) => matcher.first(&key::headers(packet)).is_some(),
            Rule::None | Rule::Syn => false,
        }
    }
}

impl Default for Bypass {
    fn default() -> Bypass {
        Bypass::none()
    }
}

impl Arg for Bypass {
    fn parse(text: &str, place: &Place<'_>) -> Result<Bypass, String> {
        let text = unquote(text);
        let text = text.trim();
        if ["none", Bypass::SYN].contains(&text) {
            return Ok(if text == "none" { Bypass::none() } else { Bypass::syn() });
        }
        let (condition, issues) = filter_condition(text, &PlaceNames(*place));
        if let Some((issue, _)) = issues.iter().find(|(_, is_warning)| !is_warning) {
            return Err(issue.text.clone());
        }
        let matcher = Box::new(Matcher::new(&[condition]));
        Ok(Bypass { text: text.into(), rule: Rule::Filter(matcher) })
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// The settings, all of which can be changed.
pub struct Settings {
    /// The time that packets wait.
    pub delay: Timestamp,
    /// The maximum number of packets per burst of a flow.
    pub max_burst: usize,
    /// The maximum number of packets per batch.
    pub max_tx_burst: usize,
    /// The rule for the flow that leaves first.
    pub priority: Priority,
    /// True to sort TCP segments.
    pub reorder: bool,
    /// True to merge ACKs.
    pub compress: bool,
    /// The rule for packets that are not held.
    pub bypass: Bypass,
    /// The number of packets after which a flow is held; 0 for all flows.
    pub elephants: u32,
    /// The upper bound of the delay that waiting adds; zero for no SLO.
    pub slo: Timestamp,
    /// The maximum number of flows.
    pub capacity: usize,
    /// The maximum number of packets that are held.
    pub max_held: usize,
    /// True if the first packet of each flow passes.
    pub first_passes: bool,
    /// True if no packets wait any more once a handler has released all packets.
    pub flush_ends: bool,
    /// The number of bursts of one packet, minus the number of longer bursts, after which a flow is not
    /// held any more; 0 for never.
    pub bypass_after: i8,
}

/// Limits a number of packets per batch to the capacity of a batch.
pub fn batch_length(given: usize) -> usize {
    given.min(BATCH_CAPACITY)
}
