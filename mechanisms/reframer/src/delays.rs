//! The argument DELAYS: a filter and a delay for each of several classes of traffic.

use classify::Tree;
use classify::filter::{Condition, HeaderLayer, Matcher, Test};
use element::args::{ArgType, Micros, PlaceNames, Scope, filter_condition, unquote};
use element::{Packet, Timestamp};
use wire::ip_protocol;

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
    by_burst: bool,
    /// True if a filter tests the source port.
    by_source: bool,
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

    /// True if packets of one flow may match different rules, so that the first packet of each burst decides.
    /// Otherwise the first packet of the flow decides. If `in_tunnels` is true, flows are those in tunnels,
    /// whose packets may have different outer source ports.
    pub fn by_burst(&self, in_tunnels: bool) -> bool {
        self.by_burst || in_tunnels && self.by_source
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
        let by_burst = !conditions.iter().all(|condition| is_by_flow(condition, false));
        let is_source = |test: &Test| test.header == HeaderLayer::Transport && test.offset < 2;
        let by_source = conditions.iter().flat_map(Condition::leaves).any(is_source);
        let matcher = Some(Box::new(Matcher::new(&conditions)));
        Ok(Delays { text: text.into(), delays, matcher, by_burst, by_source })
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

/// True if a condition certainly has the same value for all packets of an IPv4 flow, because it looks only at
/// version, fragment field, protocol, addresses and ports. The fragment field may be tested, because
/// fragments have no flow, but not the other bits next to it. Other bytes may be those of IPv6 addresses,
/// which are equal in all packets of a flow, but also those of the TTL, which are not; so the result is false
/// for a test of other bytes. `has_ports` is true if the condition is asked only about packets of protocols
/// with ports.
fn is_by_flow(condition: &Condition, has_ports: bool) -> bool {
    match condition {
        Tree::Constant(_) => true,
        Tree::Leaf(test) => is_of_flow(test, has_ports),
        Tree::Not(inner) => is_by_flow(inner, has_ports),
        // Where the protocol is another one, the whole is false for the whole flow.
        Tree::All(parts) => {
            let has_ports = has_ports || parts.iter().any(means_ports);
            parts.iter().all(|part| is_by_flow(part, has_ports))
        }
        Tree::Any(parts) => parts.iter().all(|part| is_by_flow(part, has_ports)),
        Tree::Choose(parts) => {
            let [condition, then, otherwise] = &**parts;
            let then_has_ports = has_ports || means_ports(condition);
            is_by_flow(condition, has_ports)
                && is_by_flow(then, then_has_ports)
                && is_by_flow(otherwise, has_ports)
        }
    }
}

/// True if a test has the same result for all packets of an IPv4 flow.
fn is_of_flow(test: &Test, has_ports: bool) -> bool {
    let (first, last) = (test.offset, test.offset + u16::from(test.length) - 1);
    // The bits of each byte that are the fragment's offset and the flag that more fragments follow.
    let fragment = if first == 6 { 0x3fff >> (8 * (7 - last.min(7))) } else { 0xff };
    match (test.header, first, last) {
        // The lower half of the first byte of IPv4 is the length of the header.
        (HeaderLayer::Network, 0, 0) => test.mask & 0xf == 0,
        (HeaderLayer::Network, 6..=7, 6..=7) => test.mask & !fragment == 0,
        (HeaderLayer::Network, 9, 9) => true,
        (HeaderLayer::Network, 12..20, 12..20) => true,
        (HeaderLayer::Transport, 0..4, 0..4) => has_ports,
        _ => false,
    }
}

/// True if a condition holds only for packets of protocols whose flows are identified by ports.
fn means_ports(condition: &Condition) -> bool {
    const WITH_PORTS: [u8; 3] = [ip_protocol::TCP, ip_protocol::UDP, ip_protocol::SCTP];
    match condition {
        Tree::Leaf(Test { header: HeaderLayer::Network, offset: 9, length: 1, mask, low, high, outside }) => {
            let is_one = mask & 0xff == 0xff && low == high && !outside;
            is_one && WITH_PORTS.iter().any(|&protocol| u32::from(protocol) == *low)
        }
        Tree::All(parts) => parts.iter().any(means_ports),
        Tree::Any(parts) => parts.iter().all(means_ports),
        _ => false,
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

    #[test]
    fn a_filter_that_looks_only_at_the_flow_is_asked_once_per_flow() {
        for text in [
            "udp port 53",
            "tcp",
            "src host 10.0.0.1",
            "dst net 10.0.0.0/8 and src tcp port 80",
            "all",
            "port 53",
            "ip[6:2] & 0x3fff == 0",
            "ip[6] & 0x3f == 0",
            "ip[7] == 0",
            "not tcp port 80",
        ] {
            assert!(!parsed(&format!("{text} 5us")).unwrap().by_burst(false), "{text}");
        }
        for text in [
            "ip dscp 46",
            "ip ttl 3",
            "tcp opt psh",
            "ip hl 6",
            "ether src 1:2:3:4:5:6",
            "ip[6] & 0x40 != 0",
            "ip[6:2] & 0x8000 != 0",
            "icmp type 8",
            "transp[0:2] == 53",
            "(udp or icmp) and transp[0:2] == 53",
        ] {
            assert!(parsed(&format!("{text} 5us")).unwrap().by_burst(false), "{text}");
        }
        // In tunnels, packets of one flow may have different source ports.
        for (text, by_burst) in [("dst udp port 4789", false), ("src udp port 5", true), ("udp port 5", true)]
        {
            assert_eq!(parsed(&format!("{text} 5us")).unwrap().by_burst(true), by_burst, "{text}");
        }
    }
}
