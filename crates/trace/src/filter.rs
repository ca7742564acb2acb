//! The selection of the packets to analyze, by an expression in the filter language of IPFilter.

use classify::Tree;
use classify::filter::{
    self, Condition, FieldPlace, HeaderLayer, HeaderSlices, Matcher, NameLookup, Primitive, Test, Version,
};
use wire::LinkType;
use wire::layers::Network;

use crate::packet::Dissected;

/// A set of packets: those that match an expression; all packets by default.
#[derive(Default)]
pub struct Selection(Option<Matcher>);

impl Selection {
    /// Parses an expression with the names that `names` resolves. Returns the selection, and warnings about
    /// the expression.
    ///
    /// # Errors
    /// If the expression has faults: one message for each fault.
    pub fn parse(
        text: &str,
        names: &(impl NameLookup + ?Sized),
    ) -> Result<(Selection, Vec<String>), Vec<String>> {
        let (expression, issues) = filter::parse(text, names);
        let of_kind = |warning| -> Vec<String> {
            issues
                .iter()
                .filter(|issue| issue.is_warning == warning)
                .map(|issue| issue.text.clone())
                .collect()
        };
        let errors = of_kind(false);
        if !errors.is_empty() {
            return Err(errors);
        }
        let matcher = Matcher::new(&[expression.replace(&mut condition).simplified()]);
        Ok((Selection(Some(matcher)), of_kind(true)))
    }

    /// True if the packet is selected. A packet that is not IP has empty network and transport headers, so
    /// that tests of these headers fail for it.
    #[inline]
    pub fn selects(&self, packet: &Dissected<'_>) -> bool {
        let Some(matcher) = &self.0 else { return true };
        let (frame, layers) = (packet.frame, &packet.layers);
        let is_ip = matches!(layers.network, Network::Ipv4 | Network::Ipv6);
        let from = |offset: Option<usize>| {
            offset.filter(|_| is_ip).and_then(|offset| frame.get(offset..layers.end)).unwrap_or_default()
        };
        let mac = if packet.link == LinkType::Ethernet { frame } else { &[] };
        let headers = HeaderSlices { mac, network: from(layers.l3), transport: from(layers.l4) };
        matcher.first(&headers).is_some()
    }
}

/// Returns the condition of a test of the filter language. In configurations, filters mostly get IPv4 packets
/// only, but a capture may have IPv6 packets, too. So tests of IPv4 fields also test that the version is 4,
/// except for the test of the version field itself.
fn condition(question: &Primitive) -> Condition {
    let about_ipv4 = match question {
        Primitive::Ether { .. } => false,
        Primitive::Field { version, place, .. } => *version == Version::V4 && *place != FieldPlace::VERSION,
        Primitive::Fragment { .. } => true,
        Primitive::Host { version, .. }
        | Primitive::ProtocolNumber { version, .. }
        | Primitive::ProtocolSet { version, .. }
        | Primitive::Port { version, .. }
        | Primitive::TcpFlags { version, .. } => *version == Version::V4,
    };
    let condition = question.condition();
    if !about_ipv4 {
        return condition;
    }
    let four = Test {
        header: HeaderLayer::Network,
        offset: 0,
        length: 1,
        mask: 0xf0,
        low: 0x40,
        high: 0x40,
        outside: false,
    };
    Tree::All(vec![Tree::Leaf(four), condition])
}
