//! The arguments of the reframer, and the values that handlers accept for them.

use classify::filter::Matcher;
pub use element::args::Micros;
use element::args::{ArgType, Scope, unquote};
use element::{Packet, Timestamp};
use packet::BATCH_CAPACITY;
use wire::tcp;

use crate::delays::{Delays, filter};
use crate::key;
use crate::lists::{DELAY_CLASSES, Priority, UNKNOWN_FLOWS};

impl ArgType for Priority {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Priority, String> {
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
    /// Returns the priority's name in the configuration, such as `LONGEST_WAIT`.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::ShortestFlow => "SHORTEST_FLOW",
            Priority::OldestFlow => "OLDEST_FLOW",
            Priority::LongestWait => "LONGEST_WAIT",
        }
    }
}

/// An argument type: a number of at least 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(pub usize);

impl ArgType for Count {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Count, String> {
        match u32::parse(text, place)? {
            0 => Err("must be positive".into()),
            n => Ok(Count(n as usize)),
        }
    }

    fn clicks_words(text: &str) -> Option<String> {
        u32::clicks_words(text)
    }
}

/// An argument type: a limit of packets or bytes; 0, written `off`, for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit(pub u32);

impl ArgType for Limit {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Limit, String> {
        if text.trim() == "off" { Ok(Limit(0)) } else { u32::parse(text, place).map(Limit) }
    }

    fn clicks_words(text: &str) -> Option<String> {
        u32::clicks_words(text)
    }
}

impl Limit {
    /// Returns the limit as a user writes it, or `off`.
    pub fn show(self) -> String {
        if self.0 == 0 { "off".into() } else { self.0.to_string() }
    }
}

/// The argument SLO: a time span as [`Micros`]; 0, written `off`, for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slo(pub Timestamp);

impl ArgType for Slo {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Slo, String> {
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
    /// Returns the time span as a user writes it, or `off`.
    pub fn show(self) -> String {
        if self.0 == Timestamp::ZERO { "off".into() } else { self.0.as_interval() }
    }
}

impl ReframerSettings {
    /// Returns the mean number of packets per burst below which the element pauses. 0 if the element never
    /// pauses, because packets do not wait, or because bursts are needed to sort TCP segments or merge ACKs.
    pub fn least_burst(&self) -> f64 {
        let holds_for_length = !self.reorder && !self.compress && self.longest_delay() > Timestamp::ZERO;
        if holds_for_length { self.min_burst } else { 0.0 }
    }

    /// Returns the time that flows of a delay class wait. Without an SLO this is DELAY for all classes but
    /// those of DELAYS. Under an SLO, flows of class [`SPARSE`] do not wait, and the others wait for seven
    /// eighths of the SLO; the last eighth is left for the round in which they leave. No class has a longer
    /// delay than [`UNKNOWN_FLOWS`].
    pub fn delay_of(&self, delay_class: usize) -> Timestamp {
        match (self.slo.0, delay_class) {
            (_, UNKNOWN_FLOWS) => self.longest_delay(),
            (_, DELAY_CLASSES..) => self.delays.delay(delay_class - DELAY_CLASSES).unwrap_or(self.delay),
            (0, _) => self.delay,
            (_, SPARSE) => Timestamp::ZERO,
            (slo, _) => Timestamp(slo - slo / 8),
        }
    }

    /// True if the bursts of a delay class count for MIN_BURST: the class has a delay, or its packets do not
    /// wait only because of a prediction (SLO).
    pub fn is_sampled(&self, delay_class: usize) -> bool {
        let is_predicted = self.slo.is_set() && delay_class < DELAY_CLASSES;
        is_predicted || self.delay_of(delay_class) > Timestamp::ZERO
    }

    /// True if something must be remembered of flows between their bursts.
    pub fn needs_memory(&self) -> bool {
        let of_sf_maker = self.first_passes || self.bypass_after > 0;
        let is_ordered = self.priority != Priority::LongestWait;
        of_sf_maker || is_ordered || self.compress || self.slo.is_set() || self.quic_id > 0
    }

    /// True if nothing is done with bursts but to count and send them, and if the times of their packets,
    /// modulo 2^32 ns, show how long each was held.
    pub fn leave_plainly(&self) -> bool {
        let is_short = self.longest_delay() < Timestamp::from_secs(4);
        is_short && !self.reorder && !self.compress && !self.delays.exist()
    }

    fn longest_delay(&self) -> Timestamp {
        self.delays.rules().fold(self.delay_of(DENSE), Timestamp::max)
    }

    /// Returns the delays of all delay classes.
    pub fn all_delays(&self) -> Vec<Timestamp> {
        (0..DELAY_CLASSES + self.delays.rules().count()).map(|class| self.delay_of(class)).collect()
    }
}

/// The delay class of flows that are not expected to send their next packet in time; without an SLO, the
/// class of all flows but those of [`crate::lists::UNKNOWN_FLOWS`].
pub const SPARSE: usize = 0;
/// The delay class of flows that are expected to send their next packet in time, under an SLO.
pub const DENSE: usize = 1;

/// The argument BYPASS: the rule that says which packets are not held.
pub struct Bypass {
    text: String,
    rule: Rule,
}

enum Rule {
    None,
    /// TCP SYN, decided by the flags from the look-up, without a filter.
    Syn,
    Filter(Box<Matcher>),
}

impl Bypass {
    /// Returns the rule by which packets with TCP's SYN flag are not held: the default of Reframer. Holding
    /// such packets gains nothing: no packet of the flow follows before the answer has come back.
    pub fn syn() -> Bypass {
        Bypass { text: Bypass::SYN.into(), rule: Rule::Syn }
    }

    /// Returns the rule by which no packet bypasses.
    pub fn none() -> Bypass {
        Bypass { text: "none".into(), rule: Rule::None }
    }

    /// The rule of [`syn`](Self::syn) as a user writes it.
    pub const SYN: &'static str = "tcp opt syn";

    /// Returns the rule as it was written in the configuration or to the handler.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if a filter decides, which may read any byte of the packet.
    pub fn looks_anywhere(&self) -> bool {
        matches!(self.rule, Rule::Filter(_))
    }

    /// Returns a mask of TCP flags; packets with any of these flags are not held. 0 if the rule is a filter
    /// or `none`.
    pub fn flags(&self) -> u8 {
        if matches!(self.rule, Rule::Syn) { tcp::flags::SYN } else { 0 }
    }

    /// True if the rule is a filter that matches the packet, so that the packet is not held.
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

impl ArgType for Bypass {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Bypass, String> {
        let text = unquote(text);
        let text = text.trim();
        if ["none", Bypass::SYN].contains(&text) {
            return Ok(if text == "none" { Bypass::none() } else { Bypass::syn() });
        }
        let matcher = Box::new(Matcher::new(&[filter(text, place)?]));
        Ok(Bypass { text: text.into(), rule: Rule::Filter(matcher) })
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// The settings of an element. Handlers can change all of them except the last three, which SFMaker alone
/// sets.
pub struct ReframerSettings {
    /// The maximum time that packets wait, DELAY; not used if `slo` is set.
    pub delay: Timestamp,
    /// The delays of traffic for which DELAY or SLO does not count.
    pub delays: Delays,
    /// The number of packets of a flow at which they leave, MAX_BURST.
    pub max_burst: usize,
    /// The number of bytes of a flow's packets at which they leave, MAX_BYTES; 0 for no limit.
    pub max_bytes: u32,
    /// The maximum number of packets per emitted batch, MAX_TX_BURST; at most the capacity of a batch.
    pub max_tx_burst: usize,
    /// The rule for the order of flows that leave together.
    pub priority: Priority,
    /// True to sort TCP segments within a burst.
    pub reorder: bool,
    /// True to drop ACKs that the next ACK of the burst makes superfluous.
    pub compress: bool,
    /// The maximum number of ACKs, itself included, for which one kept ACK stands, with `compress`.
    pub max_acks: usize,
    /// The rule for packets that are not held.
    pub bypass: Bypass,
    /// The number of packets from which on a flow is heavy and is held; 0 to hold all flows.
    pub elephants: u32,
    /// The upper bound of the delay that waiting adds; zero for no SLO.
    pub slo: Timestamp,
    /// The mean number of packets per burst below which the element pauses; not used with `reorder` or
    /// `compress`, or without a delay.
    pub min_burst: f64,
    /// True to tell flows in tunnels apart by the inner headers.
    pub tunnels: bool,
    /// The length in bytes of connection ids of QUIC, by which flows are told apart; 0 if connection ids are
    /// not used.
    pub quic_id: usize,
    /// The maximum number of flows that hold packets, and of flows that are remembered, at a time.
    pub capacity: usize,
    /// The maximum number of packets that are held at a time.
    pub max_held: usize,
    /// True if the first packet of each new flow is not held.
    pub first_passes: bool,
    /// True if writing the handler `flush` also sets DELAY to 0, so that no more packets wait.
    pub flush_ends: bool,
    /// The number of bursts of one packet, minus the number of longer bursts, after which a flow is not
    /// held any more; 0 for never.
    pub bypass_after: i8,
}

/// Limits a number of packets per batch (MAX_TX_BURST, or BURST of Batcher) to the capacity of a batch.
pub fn batch_length(given: usize) -> usize {
    given.min(BATCH_CAPACITY)
}
