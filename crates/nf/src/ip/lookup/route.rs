//! Routes and next hops, and the text form of IPv4 routes in arguments, handlers and tables: `ADDR/MASK
//! [GATEWAY] OUTPUT`.

use std::any::Any;
use std::fmt;
use std::net::Ipv4Addr;

use classify::prefixes::Prefix;
use element::args::{ArgType, Ipv4Prefix, Scope};
use element::effects::{Case, DST_IP, Filter, Target};
use lang::args::split_spaces;

use super::gateway::Gateway;
use crate::editing::constant;

/// A route for a prefix of addresses of type `A`, with gateways of type `G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route<A = u32, G = Ipv4Addr> {
    /// The destination addresses of packets that take the route, unless there is a route for a longer prefix.
    pub(super) prefix: Prefix<A>,
    pub(super) hop: Hop<G>,
}

/// The next hop of packets that take a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hop<G = Ipv4Addr> {
    /// The address that becomes the packet's destination annotation. If it is zero, the annotation stays.
    pub(super) gateway: G,
    /// The output by which the packet leaves. [`ANY_OUTPUT`](Self::ANY_OUTPUT) in a request to remove a
    /// route.
    pub(super) output: i32,
}

impl<G> Hop<G> {
    /// The output in a request to remove the route for a prefix, whatever its output and gateway.
    pub(super) const ANY_OUTPUT: i32 = -1;
}

/// The gateways of classes whose routes have the text form of this file.
pub(super) trait Onward: Gateway + Send + Sync + 'static {
    /// The form of a route, for messages.
    const FORM: &str = "ADDR/MASK [GATEWAY] OUTPUT";

    /// Completes a gateway with the words after the output. `None` if they are not well formed.
    fn complete(address: Ipv4Addr, words: &[String], place: &Scope<'_>, desk: &Self::Desk) -> Option<Self>;

    /// Returns the address, which is 0 if there is no gateway.
    fn address(self) -> Ipv4Addr;

    /// Returns what the handler `table` shows of a route after its output.
    fn show_more(self, _desk: &Self::Desk) -> String {
        String::new()
    }

    /// Notes that a route with this gateway has been added to the table.
    fn added(self, _desk: &Self::Desk) {}

    /// Returns the cases of declared effects for packets that take a route with this gateway and this output:
    /// those for which `when` holds.
    fn cases(self, when: Filter, output: usize) -> Vec<Case>;

    /// Takes the state that a reload keeps ([`Element::take_state`](element::Element::take_state)).
    fn take_state(_desk: &Self::Desk) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Continues with the state of another element of the class.
    fn put_state(_desk: &mut Self::Desk, _state: Box<dyn Any + Send>) -> Result<(), String> {
        Err("this element keeps no state".into())
    }
}

impl Onward for Ipv4Addr {
    fn complete(address: Ipv4Addr, words: &[String], _: &Scope<'_>, (): &()) -> Option<Ipv4Addr> {
        words.is_empty().then_some(address)
    }

    fn address(self) -> Ipv4Addr {
        self
    }

    fn cases(self, when: Filter, output: usize) -> Vec<Case> {
        vec![to_gateway(self, Case::new(when, Target::Output(output)))]
    }
}

/// Returns a case of declared effects whose packets get the destination annotation `gateway`, unless it is 0.
pub(super) fn to_gateway(gateway: Ipv4Addr, case: Case) -> Case {
    match gateway.is_unspecified() {
        true => case,
        false => case.with(constant(DST_IP, &gateway.octets())),
    }
}

/// Splits the text of a route, or of a command, into words.
pub(super) fn words(text: &str) -> Vec<String> {
    split_spaces(text).into_iter().map(|word| word.text).collect()
}

/// Parses an IPv4 prefix. `None` if it is not well formed, or if its mask has a one after a zero.
pub(super) fn prefix(word: &str, place: &Scope<'_>) -> Option<Prefix> {
    let mut given = Ipv4Prefix::parse(word, place).ok()?;
    // As in Click, a name that means an address and its network is the address alone.
    if !word.contains('/')
        && let Ok(address) = Ipv4Addr::parse(word, place)
        && address != given.network()
    {
        given = Ipv4Prefix { address, mask: Ipv4Addr::BROADCAST };
    }
    let mask = given.mask.to_bits();
    let whole = mask.leading_ones() + mask.trailing_zeros() >= 32;
    whole.then(|| Prefix::new(given.address.to_bits(), mask.count_ones() as u8))
}

impl<G: Onward> Route<u32, G> {
    /// Parses a route from its words. `None` if they are not well formed. The gateway can be left out. With
    /// `or_any`, for requests to remove a route, the output can be left out, too; it is then
    /// [`Hop::ANY_OUTPUT`].
    pub(super) fn parse(words: &[String], place: &Scope<'_>, or_any: bool, desk: &G::Desk) -> Option<Self> {
        let (first, mut rest) = words.split_first()?;
        let prefix = prefix(first, place)?;
        let mut gateway = Ipv4Addr::UNSPECIFIED;
        if let Some((word, behind)) = rest.split_first() {
            let address = Ipv4Addr::parse(word, place).ok();
            if word == "-" || address.is_some() {
                gateway = address.unwrap_or(gateway);
                rest = behind;
            }
        }
        let (output, more) = match rest {
            [] if or_any => (Hop::<G>::ANY_OUTPUT, rest),
            [word, more @ ..] => (i32::parse(word, place).ok()?, more),
            [] => return None,
        };
        let gateway = G::complete(gateway, more, place, desk)?;
        Some(Route { prefix, hop: Hop { gateway, output } })
    }

    /// Formats the route as a line of the handler `table`, with tabs between the columns.
    pub(super) fn line(&self, desk: &G::Desk) -> String {
        let (prefix, gateway) = (self.prefix_text(), self.gateway_text());
        // Tab stops are eight characters apart. Two tabs after a short text, or one tab after a longer text,
        // let the gateway start at character 24, and the output 16 characters after the gateway.
        let pad = |text: &str, width| if text.len() + 1 < width { "\t\t" } else { "\t" };
        let (a, b) = (pad(&prefix, 17), pad(&gateway, 9));
        format!("{prefix}{a}{gateway}{b}{}{}\n", self.hop.output, self.hop.gateway.show_more(desk))
    }

    fn prefix_text(&self) -> String {
        format!("{}/{}", Ipv4Addr::from_bits(self.prefix.first()), self.prefix.length())
    }

    fn gateway_text(&self) -> String {
        let address = self.hop.gateway.address();
        if address.is_unspecified() { "-".into() } else { address.to_string() }
    }
}

/// Formats the route for messages: prefix, gateway (or `-`), output.
impl<G: Onward> fmt::Display for Route<u32, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.prefix_text(), self.gateway_text(), self.hop.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::Setup;
    use proptest::prelude::*;

    fn read(text: &str, or_any: bool) -> Option<String> {
        let setup = Setup::default();
        let route = Route::<u32, Ipv4Addr>::parse(&words(text), &Scope::new(&setup, 0), or_any, &());
        route.map(|route| route.to_string())
    }

    #[test]
    fn every_way_of_writing_a_route() {
        for (text, route) in [
            ("18.26.4/24 1", "18.26.4.0/24 - 1"),
            ("18.26.4.24/255.255.0.0 - 0x2", "18.26.0.0/16 - 2"),
            ("0/0 18.26.4.1 1", "0.0.0.0/0 18.26.4.1 1"),
            ("1.2.3.4 0.0.0.0 3", "1.2.3.4/32 - 3"),
            ("1.2.3.4\t 5.6.7.8  -1", "1.2.3.4/32 5.6.7.8 -1"),
        ] {
            assert_eq!(read(text, false).as_deref(), Some(route), "{text}");
            assert_eq!(read(text, true).as_deref(), Some(route), "{text}");
        }
        for text in ["10/8", "10/8 -", "10/8 1.2.3.4"] {
            assert_eq!(read(text, false), None, "{text}");
            assert!(read(text, true).is_some_and(|route| route.ends_with(" -1")), "{text}");
        }
        for text in [
            "",
            "10/8 x 1",
            "10/8 1 2",
            "10/8 - 1 2",
            "10/33 1",
            "10.0.0.0/255.0.255.0 1",
            "10/8 99999999999",
        ] {
            assert_eq!((read(text, false), read(text, true)), (None, None), "{text}");
        }
    }

    #[test]
    fn lines_stand_in_columns() {
        let setup = Setup::default();
        let place = Scope::new(&setup, 0);
        let parse = |text: &str| Route::<u32, Ipv4Addr>::parse(&words(text), &place, false, &()).unwrap();
        let line = |text: &str| parse(text).line(&());
        assert_eq!(line("10/8 0"), "10.0.0.0/8\t\t-\t\t0\n");
        // A text of 16 characters and a tab reach the third tab stop; 15 characters and a tab do not.
        assert_eq!(line("100.100.200.0/24 1.2.3.4 1"), "100.100.200.0/24\t1.2.3.4\t\t1\n");
        assert_eq!(line("10.100.200.0/24 18.26.4.1 12"), "10.100.200.0/24\t\t18.26.4.1\t12\n");
        assert_eq!(line("1/8 1.1.1.10 1"), "1.0.0.0/8\t\t1.1.1.10\t1\n");
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read(address: u32, length in 0u8..=32, gateway: u32, output in 0i32..) {
            let hop = Hop { gateway: Ipv4Addr::from_bits(gateway), output };
            let route = Route { prefix: Prefix::new(address, length), hop };
            prop_assert_eq!(read(&route.to_string(), false), Some(route.to_string()));
            prop_assert_eq!(read(&route.line(&()), false), Some(route.to_string()));
        }

        #[test]
        fn no_text_panics(text in "[0-9./ x-]{0,30}") {
            let _ = (read(&text, true), read(&text, false));
        }
    }
}
