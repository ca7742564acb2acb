//! Patterns of translators: the new addresses and ports of flows, with one range of ports or addresses from
//! which a value is chosen per flow.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use element::args::{ArgType, Ipv4Prefix, Scope, parse_integer};
use element::setup::scope_of;
use element::{Cx, ElementId, Setup};
use lang::args::split_spaces;

use super::spaces::IDENTIFIERS;
use super::store::{Bound, Chosen, Claim, Store};
use super::tuple::Tuple;

/// The pattern `SADDR SPORT DADDR DPORT`, `SADDR DADDR IDENTIFIER` for ICMP queries, or `SADDR DADDR` for
/// translators of addresses only. A zero field without a range leaves the packet's field as it is. The range
/// is in the source port if the pattern has ports, and otherwise in the source address.
#[derive(Debug)]
pub(super) struct Pattern {
    source: u32,
    source_port: u16,
    destination: u32,
    destination_port: u16,
    /// The number of values in the range, less one. Zero means that there is no range, so nothing is
    /// chosen.
    pub(super) more: u32,
    /// The offset in the range at which the next sequential search starts: one after the value that was
    /// chosen last. Several patterns may share it.
    next: Arc<AtomicU32>,
    has_ports: bool,
    /// True to try the values of the range in ascending order, from the value after the last chosen value on;
    /// false to start at a random value.
    pub(super) sequential: bool,
    /// True to try the flow's own source port first, if it is in the range.
    same_first: bool,
}

/// A range of 256 ports, less one. In a range of at least this size, every worker is assumed to find a free
/// port with which RSS sends the replies of the flow to this worker.
const LEAST_CHOICE: u32 = 255;

/// The size of a range of ports or addresses, and the rule by which a value of the range is chosen, while a
/// pattern is parsed. `more` is the number of values less one.
#[derive(Default)]
struct Range {
    more: u32,
    sequential: bool,
    /// True to choose without trying the packet's own source port first (suffix `#` or `?`).
    any_first: bool,
}

impl Range {
    /// Returns the text without its suffix, which sets the rule by which a value is chosen: `#` in ascending
    /// order, `?` at random. With either suffix the packet's own port is not tried first.
    fn without_mark<'a>(&mut self, text: &'a str) -> &'a str {
        if let Some(text) = text.strip_suffix('#') {
            (self.sequential, self.any_first) = (true, true);
            return text;
        }
        match text.strip_suffix('?') {
            Some(text) => {
                self.any_first = true;
                text
            }
            None => text,
        }
    }

    /// Parses a range of source addresses: `A-B`, or a prefix without its first and last address (a prefix of
    /// 31 or 32 bits is used as a whole). Sets the size of the range, and returns the first address. Returns
    /// `None` for other texts, and for a prefix whose address or mask is zero or whose mask has a one after a
    /// zero.
    fn addresses(&mut self, text: &str, place: &Scope<'_>) -> Option<u32> {
        let text = self.without_mark(text);
        if let Some((low, high)) = text.split_once('-') {
            let bits = |text| Ipv4Addr::parse(text, place).map(Ipv4Addr::to_bits).ok();
            let (low, high) = (bits(low)?, bits(high)?);
            self.more = high.checked_sub(low)?;
            return Some(low);
        }
        let prefix = Ipv4Prefix::parse(text, place).ok()?;
        let (address, mask) = (prefix.address.to_bits(), prefix.mask.to_bits());
        if address == 0 || mask == 0 || mask.leading_ones() + mask.trailing_zeros() != 32 {
            return None;
        }
        let hosts = !mask;
        self.more = if hosts > 1 { hosts - 2 } else { hosts };
        Some(match hosts {
            0 => address,
            1 => address & mask,
            _ => address & mask | 1,
        })
    }

    /// Parses the range of source ports `L-H`, sets the size of the range, and returns the first port.
    /// Returns `None` for other texts.
    fn ports(&mut self, text: &str) -> Option<u16> {
        let (low, high) = self.without_mark(text).split_once('-')?;
        let number = |text| parse_integer(text).ok().and_then(|number| u16::try_from(number).ok());
        let (low, high) = (number(low)?, number(high)?);
        self.more = u32::from(high.checked_sub(low)?);
        Some(low)
    }
}

/// Parses a single address. Returns zero for `-`, which leaves the packet's address as it is, and `None`
/// for other texts.
fn address(text: &str, place: &Scope<'_>) -> Option<u32> {
    match text {
        "-" => Some(0),
        _ => Ipv4Addr::parse(text, place).map(Ipv4Addr::to_bits).ok(),
    }
}

/// Parses a single port other than zero. Returns zero for `-`, which leaves the packet's port as it is, and
/// `None` for other texts.
fn port(text: &str) -> Option<u16> {
    match text {
        "-" => Some(0),
        _ => parse_integer(text).ok().and_then(|n| u16::try_from(n).ok()).filter(|&port| port > 0),
    }
}

impl Pattern {
    /// Parses the two, three or four words of a pattern: two for addresses only; three with a source port
    /// or ICMP identifier, for which Click's order is `SADDR DADDR IDENTIFIER`; four with both ports.
    ///
    /// # Errors
    /// If the words are not a pattern, with Click's text.
    pub(super) fn parse(words: &[String], place: &Scope<'_>) -> Result<Pattern, String> {
        let (source, source_port, destination, destination_port) = match words {
            [source, destination] => (source, None, destination, None),
            // With three words, the last word is the range of ICMP identifiers, which a pattern stores as
            // source ports.
            [source, destination, port] => (source, Some(port), destination, None),
            [source, port, destination, other] => (source, Some(port), destination, Some(other)),
            _ => return Err("syntax error".into()),
        };
        let mut range = Range::default();
        let plain = address(source, place);
        let source = plain.or_else(|| range.addresses(source, place)).ok_or("bad source address")?;
        if range.more > 0 && source_port.is_some() {
            return Err("bad source address".into());
        }
        let source_port = match source_port {
            Some(text) => port(text).or_else(|| range.ports(text)).ok_or("bad source port")?,
            None => 0,
        };
        let destination = address(destination, place).ok_or("bad destination address")?;
        let ports = words.len() > 2;
        let destination_port = match destination_port {
            Some(text) => port(text).ok_or("bad destination port")?,
            None => 0,
        };
        Ok(Pattern {
            source,
            source_port,
            destination,
            destination_port,
            more: range.more,
            next: Arc::default(),
            has_ports: ports,
            sequential: range.sequential,
            same_first: !range.any_first,
        })
    }

    /// Returns the pattern that sets the source address, the source port to the next free port of `ports`,
    /// and the destination address if there is one. `next` is the offset in `ports` at which the search
    /// starts; patterns with equal `ports` may share it.
    pub(super) fn next_port(
        source: Ipv4Addr,
        ports: RangeInclusive<u16>,
        destination: Option<Ipv4Addr>,
        next: &Arc<AtomicU32>,
    ) -> Pattern {
        Pattern {
            source: source.to_bits(),
            source_port: *ports.start(),
            destination: destination.map_or(0, Ipv4Addr::to_bits),
            destination_port: 0,
            more: u32::from(ports.end().saturating_sub(*ports.start())),
            next: Arc::clone(next),
            has_ports: true,
            sequential: true,
            same_first: false,
        }
    }

    /// Returns the pattern with a name if there is a single word; otherwise parses the words as a pattern.
    ///
    /// # Errors
    /// If the words are not a pattern, or no visible element names such a pattern; with Click's text.
    pub(super) fn find(words: &[String], setup: &Named<'_>) -> Result<Arc<Pattern>, String> {
        match words {
            [name] => setup.get(name).ok_or_else(|| format!("no such pattern '{name}'")),
            _ => Pattern::parse(words, &setup.place).map(Arc::new),
        }
    }

    /// Chooses the flow's new tuple (addresses and ports), and the port or address of the range that its
    /// mapping will occupy. With `is_independent`, a sender that already has an outside port keeps this port.
    /// Returns `None` if the range has no free value with which replies arrive at this worker, or if replies
    /// to the sender's outside port would belong to another flow.
    pub(super) fn rewrite(
        &self,
        cx: &mut Cx<'_>,
        store: &Store,
        (space, flow): (u32, Tuple),
        is_independent: bool,
    ) -> Option<Chosen> {
        let or = |new: u32, old: u32| if new == 0 { old } else { new };
        let or_port = |new: u16, old: u16| if new == 0 { old } else { new };
        let mut to = Tuple {
            source: or(self.source, flow.source),
            destination: or(self.destination, flow.destination),
            source_port: or_port(self.source_port, flow.source_port),
            destination_port: or_port(self.destination_port, flow.destination_port),
        };
        if self.more == 0 {
            return Some(Chosen { to, claim: Claim::Nothing });
        }
        let claim = match self.has_ports {
            true if is_independent => Claim::Endpoint,
            true => Claim::Port,
            false => Claim::Address,
        };
        if claim == Claim::Endpoint
            && let Some(Bound { outside: (source, source_port), .. }) = store.outside_of(space, flow)
        {
            let to = Tuple { source, source_port, ..to };
            // With endpoint-independent mapping, the sender must keep its outside port, so no other port is
            // tried. If another mapping already has the tuple that the replies would have, the flow cannot be
            // mapped.
            return store.may_become(space, flow, to).then_some(Chosen { to, claim });
        }
        // A new tuple can be used only if replies to it arrive at this worker, because this worker stores the
        // mapping.
        let is_home = |cx: &Cx<'_>, to: Tuple| {
            let (source, destination) = (Ipv4Addr::from_bits(to.source), Ipv4Addr::from_bits(to.destination));
            let ports = match space & 0xff == IDENTIFIERS {
                true => (0, to.source_port),
                false => (to.source_port, to.destination_port),
            };
            cx.worker().1 == 1
                || cx.workers().is_home((source.into(), ports.0), (destination.into(), ports.1))
        };
        let first = if self.has_ports { u32::from(self.source_port) } else { self.source };
        let last = first + self.more;
        let own = u32::from(flow.source_port);
        let mut chosen = None;
        if self.same_first && self.has_ports && (first..=last).contains(&own) {
            chosen = store.free_from(space, to, claim, (own, own), |to| is_home(cx, to));
        }
        if chosen.is_none() {
            let start = match self.sequential {
                true => Some(self.next.load(Ordering::Relaxed)).filter(|&n| n <= self.more).unwrap_or(0),
                // Random numbers alone do not suffice as the start of the search: their seed is often known,
                // but ports must not be predictable (RFC 6056, section 3.3.3). So a secret hash of the flow
                // is added, unless the configuration asks for the numbers of a seed (RandomSeed).
                false => {
                    let number = cx.random().between(0, self.more);
                    match cx.random().is_seeded() {
                        true => number,
                        false => {
                            let secret = u64::from(store.secret_of(flow, space));
                            ((u64::from(number) + secret) % (u64::from(self.more) + 1)) as u32
                        }
                    }
                }
            };
            let start = first + start;
            chosen = store.free_from(space, to, claim, (start, last), |to| is_home(cx, to));
            if chosen.is_none() && start > first {
                chosen = store.free_from(space, to, claim, (first, start - 1), |to| is_home(cx, to));
            }
        }
        let number = chosen?;
        self.next.store(number - first + 1, Ordering::Relaxed);
        match self.has_ports {
            true => to.source_port = number as u16,
            false => to.source = number,
        }
        Some(Chosen { to, claim })
    }

    /// True if an outside address and port, which an endpoint already has, lie in this pattern's range. A
    /// pattern without a range of ports is always suitable.
    pub(super) fn suits(&self, (address, port): (u32, u16)) -> bool {
        if !self.has_ports || self.more == 0 {
            return true;
        }
        let ports = u32::from(self.source_port)..=u32::from(self.source_port) + self.more;
        [0, address].contains(&self.source) && ports.contains(&port.into())
    }

    /// True if the pattern could have made a mapping that translates the tuple `from` to the tuple `to`.
    /// `space` tells whether the tuples have ports or ICMP identifiers.
    pub(super) fn could_make(&self, space: u32, from: Tuple, to: Tuple) -> bool {
        let [source, source_port, destination, destination_port] = self.values();
        let could = |range: Option<(u32, u32)>, old: u32, new: u32| match range {
            None => new == old,
            Some((first, last)) => (first..=last).contains(&new),
        };
        // In a tuple of an ICMP query, the identifier is the source port. The destination port follows from
        // it, so that it need not be compared.
        let follows = space & 0xff == IDENTIFIERS;
        could(source, from.source, to.source)
            && could(source_port, from.source_port.into(), to.source_port.into())
            && could(destination, from.destination, to.destination)
            && (follows || could(destination_port, from.destination_port.into(), to.destination_port.into()))
    }

    /// True if the range has at least 256 ports. Some of 256 ports are assumed to have replies that arrive at
    /// the worker of the flow.
    pub(super) fn chooses_port(&self) -> bool {
        self.has_ports && self.more >= LEAST_CHOICE
    }

    /// Returns, for source address, source port, destination address and destination port, the first and
    /// the last value that the pattern can set. `None` means that the pattern does not change the field.
    pub(super) fn values(&self) -> [Option<(u32, u32)>; 4] {
        let fixed = |n: u32| (n != 0).then_some((n, n));
        let ranged = |n: u32, is_range: bool| {
            if is_range && self.more > 0 { Some((n, n + self.more)) } else { fixed(n) }
        };
        [
            ranged(self.source, !self.has_ports),
            ranged(self.source_port.into(), self.has_ports),
            fixed(self.destination),
            fixed(self.destination_port.into()),
        ]
    }
}

/// Formats the pattern as Click does: `-` for fields that are not changed, and without the suffixes `#` and
/// `?`.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [source, source_port, destination, destination_port] = self.values();
        let address = |f: &mut fmt::Formatter<'_>, range: Option<(u32, u32)>| match range {
            None => f.write_str("-"),
            Some((low, high)) if low == high => write!(f, "{}", Ipv4Addr::from_bits(low)),
            Some((low, high)) => write!(f, "{}-{}", Ipv4Addr::from_bits(low), Ipv4Addr::from_bits(high)),
        };
        let port = |f: &mut fmt::Formatter<'_>, range: Option<(u32, u32)>| match range {
            // As in Click, a range of ports that starts at zero is shown as `-`.
            None | Some((0, _)) => f.write_str(" -"),
            Some((low, high)) if low == high => write!(f, " {low}"),
            Some((low, high)) => write!(f, " {low}-{high}"),
        };
        address(f, source)?;
        if self.has_ports {
            port(f, source_port)?;
        }
        f.write_str(" ")?;
        address(f, destination)?;
        if self.has_ports {
            port(f, destination_port)?;
        }
        Ok(())
    }
}

/// The service that an element with named patterns publishes: each name with its pattern.
#[derive(Default)]
pub(super) struct Names(pub(super) Vec<(String, Arc<Pattern>)>);

/// The context in which names of patterns are looked up: the element that uses the name, and all named
/// patterns of the configuration.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) place: Scope<'a>,
    pub(super) element: &'a str,
    /// The elements that name patterns: the name of each element, and its patterns.
    pub(super) names: &'a [(String, Arc<Names>)],
}

/// Returns the names of all elements that publish named patterns, each with its patterns.
pub(super) fn all_names(setup: &Setup) -> Vec<(String, Arc<Names>)> {
    let names = |id: ElementId| setup.service::<Names>(id);
    let elements = setup.elements.iter().enumerate();
    elements.filter_map(|(id, (name, _))| Some((name.clone(), names(id)?))).collect()
}

impl Named<'_> {
    /// Returns the pattern with this name that is visible to the element. Names in an inner compound
    /// element hide equal names in outer compounds. Returns `None` if the name is unknown.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Pattern>> {
        let own = scope_of(self.element);
        let visible = self.names.iter().filter(|(element, _)| own.starts_with(scope_of(element)));
        let found = visible.filter_map(|(element, names)| {
            let (_, pattern) = names.0.iter().find(|(known, _)| known == name)?;
            Some((scope_of(element).len(), pattern))
        });
        found.max_by_key(|(depth, _)| *depth).map(|(_, pattern)| Arc::clone(pattern))
    }
}

/// The number of the output for packets of a mapping's flow (`forward`), and for the replies (`reply`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outputs {
    pub(super) forward: usize,
    pub(super) reply: usize,
}

impl Outputs {
    /// True if `forward` and `reply` are the outputs that these numbers name: of a mapping's flow and of its
    /// replies.
    pub(super) fn are(&self, [forward, reply]: [u16; 2]) -> bool {
        (self.forward, self.reply) == (forward.into(), reply.into())
    }
}

/// Parses the words `FOUTPUT ROUTPUT`, without checking that the translator has these outputs.
///
/// # Errors
/// If there are not exactly two words, or a word is not a number; with Click's text.
pub(super) fn outputs(words: &[String]) -> Result<Outputs, String> {
    let number = |text: &String| parse_integer(text).ok().and_then(|n| i32::try_from(n).ok());
    // A negative number becomes the largest number, so that the caller, which knows the number of outputs,
    // rejects it.
    let output = |n: i32| usize::try_from(n).unwrap_or(usize::MAX);
    let forward = words.first().and_then(number).filter(|_| words.len() == 2).ok_or("bad forward port")?;
    let reply = words.get(1).and_then(number).ok_or("bad reply port")?;
    Ok(Outputs { forward: output(forward), reply: output(reply) })
}

/// A pattern, and the outputs of packets of flows that it maps.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) pattern: Arc<Pattern>,
    pub(super) outputs: Outputs,
}

impl Target {
    /// Returns a pattern for a translator with one output.
    pub(super) fn of_one_output(pattern: Pattern) -> Target {
        Target { pattern: Arc::new(pattern), outputs: Outputs { forward: 0, reply: 0 } }
    }

    /// Parses `PATTERN FOUTPUT ROUTPUT`; the pattern can be a name.
    ///
    /// # Errors
    /// If the text is not a pattern with two outputs, with Click's text.
    pub(super) fn parse(text: &str, named: &Named<'_>) -> Result<Target, String> {
        let words = words(text);
        if words.len() <= 2 {
            return Err("syntax error".into());
        }
        let (pattern, ports) = words.split_at(words.len() - 2);
        Ok(Target { pattern: Pattern::find(pattern, named)?, outputs: outputs(ports)? })
    }

    /// Chooses a flow's new tuple (addresses and ports), and the outputs of its packets. Returns `None` if
    /// the pattern finds no tuple: see [`Pattern::rewrite`]. If the sender keeps an outside port that another
    /// pattern has given, the flow gets the outputs of the sender's first mapping.
    pub(super) fn rewrite(
        &self,
        cx: &mut Cx<'_>,
        store: &Store,
        (space, flow): (u32, Tuple),
        is_independent: bool,
    ) -> Option<(Chosen, Outputs)> {
        let chosen = self.pattern.rewrite(cx, store, (space, flow), is_independent)?;
        let bound = store.outside_of(space, flow).filter(|_| chosen.claim == Claim::Endpoint);
        let others = bound.filter(|bound| !self.pattern.suits(bound.outside)).map(|bound| bound.outputs);
        let outputs = others.map_or(self.outputs, |[forward, reply]| Outputs {
            forward: forward.into(),
            reply: reply.into(),
        });
        Some((chosen, outputs))
    }
}

impl Target {
    /// True if the pattern could have made a mapping that translates the tuple `from` to the tuple `to`, with
    /// these outputs for the flow and its replies.
    pub(super) fn could_make(&self, space: u32, (from, to): (Tuple, Tuple), outputs: [u16; 2]) -> bool {
        self.outputs.are(outputs) && self.pattern.could_make(space, from, to)
    }
}

/// Splits a text at white space into words, as Click does, with quotes.
pub(super) fn words(text: &str) -> Vec<String> {
    split_spaces(text).into_iter().map(|word| word.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let setup = Setup::default();
        Pattern::parse(&words(text), &Scope::new(&setup, 0)).map(|pattern| pattern.to_string())
    }

    #[test]
    fn patterns_are_read_and_written_as_in_click() {
        let same = ["1.0.0.1 20 - -", "- - 2.0.0.2 80", "1.0.0.1 1024-65535 - -", "1.0.0.1 -", "- 2.0.0.2"];
        for text in same {
            assert_eq!(read(text).as_deref(), Ok(text));
        }
        for (text, written) in [
            ("1.0.0.1 1024-65535# - -", "1.0.0.1 1024-65535 - -"),
            ("1.0.0.1 0x400-2000? 3.0.0.3 -", "1.0.0.1 1024-2000 3.0.0.3 -"),
            ("1.0.0.1-1.0.0.9# -", "1.0.0.1-1.0.0.9 -"),
            ("1.0.0.77/24 -", "1.0.0.1-1.0.0.254 -"),
            ("1.0.0.77/30# -", "1.0.0.77-1.0.0.78 -"),
            ("1.0.0.77/31 -", "1.0.0.76-1.0.0.77 -"),
            ("1.0.0.77/32 -", "1.0.0.77 -"),
            ("1.0.0.1 - 5-9", "1.0.0.1 5-9 - -"),
            ("- 5-5 - -", "- 5 - -"),
            ("1.0.0.1 0-100 - -", "1.0.0.1 - - -"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(written), "{text}");
        }
        for (text, error) in [
            ("1.0.0.1", "syntax error"),
            ("1.0.0 20 - -", "bad source address"),
            ("1.0.0.9-1.0.0.1 -", "bad source address"),
            ("1.0.0.1-1.0.0.9 20 - -", "bad source address"),
            ("1.0.0.1 0 - -", "bad source port"),
            ("1.0.0.1 20-10 - -", "bad source port"),
            ("1.0.0.1 20-65536 - -", "bad source port"),
            ("1.0.0.1 20 1-2 -", "bad destination address"),
            ("1.0.0.1 20 - 1-2", "bad destination port"),
            ("1.0.0.1 20 - 65536", "bad destination port"),
        ] {
            assert_eq!(read(text).unwrap_err(), error, "{text}");
        }
    }
}
