//! The argument DELAYS: a filter and a delay for each of several classes of traffic.

use classify::filter::{Condition, Matcher};
use element::args::{ArgType, Micros, PlaceNames, Scope, filter_condition, unquote};
use element::{Packet, Timestamp};

use crate::key;

/// The maximum number of rules.
pub const MAX_RULES: usize = 8;

/// The rules of DELAYS.
#[derive(Default)]
pub struct Delays {
    text: String,
    delays: Vec<Timestamp>,
    /// `None` without rules.
    matcher: Option<Box<Matcher>>,
}

impl Delays {
    /// The text that stands for no rules.
    pub const NONE: &'static str = "none";

    /// Returns the rules as they were written in the configuration or to the handler.
    pub fn text(&self) -> &str {
        if self.text.is_empty() { Delays::NONE } else { &self.text }
    }

    /// Returns the delay of a rule; `None` if there is no such rule.
    pub fn delay(&self, rule: usize) -> Option<Timestamp> {
        self.delays.get(rule).copied()
    }

    /// True if there are rules.
    #[inline]
    pub fn exist(&self) -> bool {
        self.matcher.is_some()
    }

    /// Returns the delays of all rules.
    pub fn rules(&self) -> impl Iterator<Item = Timestamp> {
        self.delays.iter().copied()
    }

    /// Returns the first rule whose filter a packet matches; `None` if none does.
    pub fn rule_of(&self, packet: &Packet) -> Option<usize> {
        self.matcher.as_ref()?.first(&key::headers(packet))
    }
}

impl ArgType for Delays {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Delays, String> {
        let text = unquote(text);
        let text = text.trim();
        if text == Delays::NONE {
            return Ok(Delays::default());
        }
        let (mut conditions, mut delays) = (Vec::new(), Vec::new());
        for rule in text.split(',').map(str::trim) {
            let Some((pattern, delay)) = rule.rsplit_once(char::is_whitespace) else {
                return Err(format!("'{rule}' must be a filter and a delay, such as 'udp port 53 0us'"));
            };
            let error = |about: String| format!("rule '{rule}': {about}");
            conditions.push(filter(pattern.trim(), place).map_err(error)?);
            delays.push(Micros::parse(delay, place).map_err(error)?.0);
        }
        if delays.len() > MAX_RULES {
            return Err(format!("must have at most {MAX_RULES} rules"));
        }
        let matcher = Some(Box::new(Matcher::new(&conditions)));
        Ok(Delays { text: text.into(), delays, matcher })
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}

/// Parses a filter in IPFilter's language.
pub(crate) fn filter(text: &str, place: &Scope<'_>) -> Result<Condition, String> {
    let (condition, issues) = filter_condition(text, &PlaceNames(*place));
    match issues.into_iter().find(|(_, is_warning)| !is_warning) {
        Some((issue, _)) => Err(issue.text),
        None => Ok(condition),
    }
}

#[cfg(test)]
mod tests {
    use element::Setup;

    use super::*;

    fn parsed(text: &str) -> Result<Delays, String> {
        let setup = Setup::default();
        Delays::parse(text, &Scope::new(&setup, 0))
    }

    #[test]
    fn rules_are_filters_and_delays() {
        let delays = parsed("\"udp port 53 0us, tcp 64us,icmp 5\"").unwrap();
        assert_eq!(delays.text(), "udp port 53 0us, tcp 64us,icmp 5");
        assert_eq!(delays.rules().collect::<Vec<_>>(), [0, 64_000, 5000].map(Timestamp));
        assert_eq!((delays.delay(1), delays.delay(3)), (Some(Timestamp(64_000)), None));
        assert_eq!(parsed(" none ").unwrap().text(), "none");
        assert_eq!(parsed("none").unwrap().rules().count(), 0);
        let nine = ["tcp 1us"; 9].join(",");
        for wrong in ["", "tcp", "tcp 5us,", "tcp 5parsecs", "tcp nonsense 5us", &nine] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
