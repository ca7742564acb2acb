//! Arguments of the reframer, and the values that handlers take for them.

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
    /// The word that it is configured with.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::ShortestFlow => "SHORTEST_FLOW",
            Priority::OldestFlow => "OLDEST_FLOW",
            Priority::LongestWait => "LONGEST_WAIT",
        }
    }
}

/// A number of at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Packets after which a flow counts as heavy; 0, or `off`, for not asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// As a user would write it.
    pub fn show(self) -> String {
        if self.0 == 0 { "off".into() } else { self.0.to_string() }
    }
}

/// A span of time as [`Micros`], or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// As a user would write it.
    pub fn show(self) -> String {
        if self.0 == Timestamp::ZERO { "off".into() } else { self.0.as_interval() }
    }
}

impl Settings {
    /// How long flows of a class wait: under an SLO those of which no packet is expected in time, and the others.
    /// An eighth of the SLO is left for the round in which they leave. Flows of [`crate::lists::APART`] wait as long as the others
    /// do at most.
    pub fn delay_of(&self, lane: usize) -> Timestamp {
        match (self.slo.0, lane) {
            (0, _) => self.delay,
            (_, HOPELESS) => Timestamp::ZERO,
            (slo, _) => Timestamp(slo - slo / 8),
        }
    }
}

/// The class of flows that are not expected to send more in time; all flows are in it where nothing is steered.
pub const HOPELESS: usize = 0;
/// The class of flows that are.
pub const HOPEFUL: usize = 1;

/// Which packets are never held.
pub struct Bypass {
    text: String,
    rule: Rule,
}

enum Rule {
    None,
    /// TCP SYN, without asking a filter.
    Syn,
    Filter(Box<Matcher>),
}

impl Bypass {
    /// TCP SYN: nothing of the flow follows it before an answer has come back.
    pub fn syn() -> Bypass {
        Bypass { text: Bypass::SYN.into(), rule: Rule::Syn }
    }

    /// No packets.
    pub fn none() -> Bypass {
        Bypass { text: "none".into(), rule: Rule::None }
    }

    /// The default as a user would write it.
    pub const SYN: &'static str = "tcp opt syn";

    /// As it was configured.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a filter decides, which may look at any byte.
    pub fn looks_anywhere(&self) -> bool {
        matches!(self.rule, Rule::Filter(_))
    }

    /// TCP flags of which packets have one that are not held.
    pub fn flags(&self) -> u8 {
        if matches!(self.rule, Rule::Syn) { tcp::flags::SYN } else { 0 }
    }

    /// Whether a filter says that a packet is not held.
    pub fn applies_to(&self, packet: &Packet) -> bool {
        match &self.rule {
            Rule::Filter(matcher) => matcher.first(&key::headers(packet)).is_some(),
            Rule::None | Rule::Syn => false,
        }
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

/// Everything that can be set and changed.
pub struct Settings {
    /// How long packets wait.
    pub delay: Timestamp,
    /// Packets per burst of a flow.
    pub max_burst: usize,
    /// Packets per batch.
    pub max_tx_burst: usize,
    /// Which flow leaves first.
    pub priority: Priority,
    /// Whether to put TCP segments in order.
    pub reorder: bool,
    /// Whether to merge ACKs.
    pub compress: bool,
    /// Who is not held.
    pub bypass: Bypass,
    /// Packets after which a flow is held; 0 for all flows.
    pub elephants: u32,
    /// Most that waiting may add; zero for not steering.
    pub slo: Timestamp,
    /// Flows.
    pub capacity: usize,
    /// Packets held.
    pub max_held: usize,
    /// Whether the first packet of each flow passes.
    pub first_passes: bool,
    /// Whether nothing waits any more once a handler has let everything go.
    pub flush_ends: bool,
    /// Bursts of one packet, less others, after which a flow is not held any more; 0 for never.
    pub bypass_after: i8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            delay: Timestamp(64_000),
            max_burst: 32,
            max_tx_burst: 32,
            priority: Priority::LongestWait,
            reorder: false,
            compress: false,
            bypass: Bypass::syn(),
            elephants: 0,
            slo: Timestamp::ZERO,
            capacity: 65_536,
            max_held: 65_536,
            first_passes: false,
            flush_ends: false,
            bypass_after: 0,
        }
    }
}

/// Packets per batch, as far as batches go.
pub fn batch_length(given: usize) -> usize {
    given.min(BATCH_CAPACITY)
}
