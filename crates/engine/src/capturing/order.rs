//! The order of a capture: the place, the file, the number of packets, and a pattern.

use element::args::Scope;
use element::view::PacketFilter;
use element::{ElementId, Setup};

use crate::plan::Plan;

/// The most packets of one capture.
const MOST_PACKETS: u64 = 1_000_000;

/// The word in place of a port for all packets that are dropped.
const DROPS: &str = "drops";

/// An order of packets to capture.
#[derive(Clone)]
pub(crate) struct CaptureOrder {
    pub(super) place: Place,
    /// The place as text.
    pub(super) at: String,
    pub(super) file: String,
    pub(super) packets: u64,
    /// A pattern of IPFilter's language, or empty for all packets.
    pub(super) pattern: String,
}

/// The place at which packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Input(ElementId, usize),
    Output(ElementId, usize),
    /// All elements, where they drop packets.
    Drops,
}

impl CaptureOrder {
    /// Parses an order: `PORT FILE N [PATTERN]`. The port is `ELEMENT[N]` for an output, `[N]ELEMENT` for an
    /// input, or `drops`.
    ///
    /// # Errors
    /// If the text has another form, or the graph has no such port: a message for the user.
    pub(crate) fn parse(text: &str, plan: &Plan, setup: &Setup) -> Result<CaptureOrder, String> {
        let usage = || format!("expected ELEMENT[OUTPUT], [INPUT]ELEMENT or {DROPS}, then FILE N [PATTERN]");
        let (port, rest) = Port::parse(text).ok_or_else(usage)?;
        let (file, rest) = word(rest).ok_or_else(usage)?;
        let (number, pattern) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let packets = number.parse().ok().filter(|n| (1..=MOST_PACKETS).contains(n));
        let packets = packets.ok_or_else(|| {
            format!("'{number}' is no number of packets to capture: expected 1 to {MOST_PACKETS}")
        })?;
        let pattern = pattern.trim().to_string();
        let order = CaptureOrder { place: port.place(plan)?, at: port.text(), file, packets, pattern };
        order.filter(setup)?;
        Ok(order)
    }

    /// Returns the place at which packets are captured.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Returns the filter of packets; `None` if all packets are wanted.
    ///
    /// # Errors
    /// If the pattern is wrong: a message for the user.
    pub(super) fn filter(&self, setup: &Setup) -> Result<Option<PacketFilter>, String> {
        // Names in the pattern are resolved as outside of all compounds.
        let place = Scope::new(setup, usize::MAX);
        (!self.pattern.is_empty()).then(|| PacketFilter::parse(&self.pattern, place)).transpose()
    }
}

/// A port as users write it.
#[derive(Debug, PartialEq, Eq)]
struct Port<'a> {
    input: Option<usize>,
    element: &'a str,
    output: Option<usize>,
}

impl<'a> Port<'a> {
    /// Parses a port, and returns it with the rest of the text. `None` if the text does not begin with one.
    fn parse(text: &'a str) -> Option<(Port<'a>, &'a str)> {
        let (input, rest) = number(text.trim_start())?;
        let rest = rest.trim_start();
        let end = rest.find(|c: char| c.is_whitespace() || c == '[').unwrap_or(rest.len());
        let (element, rest) = rest.split_at(end);
        // A bracket may follow after blanks, as in Click.
        let (output, rest) = number(rest.trim_start())?;
        let is_one = !element.is_empty() && (input.is_none() || output.is_none());
        is_one.then_some((Port { input, element, output }, rest.trim_start()))
    }

    fn text(&self) -> String {
        let Port { input, element, output } = self;
        match (input, output) {
            (Some(input), _) => format!("[{input}]{element}"),
            (None, Some(output)) => format!("{element}[{output}]"),
            (None, None) if *element == DROPS => DROPS.into(),
            (None, None) => format!("{element}[0]"),
        }
    }

    fn place(&self, plan: &Plan) -> Result<Place, String> {
        let Port { input, element, output } = *self;
        if (input, element, output) == (None, DROPS, None) {
            return Ok(Place::Drops);
        }
        let id = plan.graph.find(element).ok_or_else(|| format!("no element named '{element}'"))?;
        let (number, ports, side, place) = match input {
            Some(number) => (number, plan.inputs[id].len(), "input", Place::Input(id, number)),
            None => {
                let number = output.unwrap_or(0);
                (number, plan.outputs[id].len(), "output", Place::Output(id, number))
            }
        };
        if number >= ports {
            let hint = if input.is_none() && !plan.inputs[id].is_empty() {
                format!("; [0]{element} is its first input")
            } else {
                String::new()
            };
            return Err(format!("'{element}' has no {side} {number}, but {ports} {side}s{hint}"));
        }
        Ok(place)
    }
}

/// Parses a number in brackets at the start of a text, and returns the rest. The number is `None` if there is
/// no bracket; the result is `None` if there is no number in the brackets.
fn number(text: &str) -> Option<(Option<usize>, &str)> {
    let Some(rest) = text.strip_prefix('[') else { return Some((None, text)) };
    let (number, rest) = rest.split_once(']')?;
    Some((Some(number.trim().parse().ok()?), rest))
}

/// Splits off the first word, which may be in quotation marks.
fn word(text: &str) -> Option<(String, &str)> {
    let (word, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => text.split_once(char::is_whitespace)?,
    };
    (!word.is_empty()).then(|| (word.to_string(), rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_as_in_click() {
        let port = |input, element, output| Port { input, element, output };
        for (text, expected, rest) in [
            ("nat f 1", port(None, "nat", None), "f 1"),
            ("nat[1] f 1", port(None, "nat", Some(1)), "f 1"),
            ("nat [ 1 ]f 1", port(None, "nat", Some(1)), "f 1"),
            (" [2]a/nat f", port(Some(2), "a/nat", None), "f"),
            ("[2] nat f", port(Some(2), "nat", None), "f"),
            ("drops f", port(None, "drops", None), "f"),
        ] {
            assert_eq!(Port::parse(text), Some((expected, rest)), "{text}");
        }
        for text in ["", "[1]", "[x]nat f", "nat[", "nat[] f", "nat[-1] f", "[0]nat[1] f", "nat[1"] {
            assert_eq!(Port::parse(text), None, "{text}");
        }
    }

    #[test]
    fn files_may_be_in_quotation_marks() {
        assert_eq!(word("a 1 x"), Some(("a".into(), "1 x")));
        assert_eq!(word("\"a b\" 1"), Some(("a b".into(), "1")));
        for text in ["", "a", "\"a b 1", "\"\" 1"] {
            assert_eq!(word(text), None, "{text}");
        }
    }
}
