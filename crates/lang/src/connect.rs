//! Finds the pairs of ports that an arrow connects (click(5), "Connection shorthand" to "Element groups").

use crate::diagnostic::Diagnostic;
use crate::program::{Link, MAX_CONNECTIONS, SlotId};
use crate::source::Span;
use crate::syntax::{Arrow, Ports};

/// An element at one end of an arrow, with its ports on that side.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) slot: SlotId,
    pub(crate) ports: EndPorts<'a>,
}

#[derive(Clone, Copy)]
pub(crate) enum EndPorts<'a> {
    Listed(&'a Ports),
    /// All ports of a group without listed ports; the group has this number of ports.
    Group(usize),
    /// No listed ports: port 0 or, for a single element at a `=>`, as many ports as the other end of the
    /// arrow has.
    Unlisted,
}

impl EndPorts<'_> {
    /// The number of ports that the end has at least.
    fn count(self) -> usize {
        match self {
            EndPorts::Listed(ports) => {
                ports.ranges.iter().map(|(first, last)| (last + 1).saturating_sub(*first)).sum()
            }
            EndPorts::Group(count) => count,
            EndPorts::Unlisted => 1,
        }
    }

    fn expands(self) -> bool {
        matches!(self, EndPorts::Listed(Ports { expands: true, .. }))
    }

    /// Adds the ports to `out`. If the end expands, `more` further ports follow the last.
    fn append_to(self, slot: SlotId, more: usize, out: &mut Vec<(SlotId, usize)>) {
        match self {
            EndPorts::Listed(ports) => {
                let listed = ports.ranges.iter().flat_map(|&(first, last)| first..=last);
                out.extend(listed.map(|port| (slot, port)));
            }
            EndPorts::Group(count) => out.extend((0..count).map(|port| (slot, port))),
            EndPorts::Unlisted => out.push((slot, 0)),
        }
        let after = out.last().map_or(0, |&(_, port)| port + 1);
        out.extend((after..after + more).map(|port| (slot, port)));
    }
}

/// All ends on one side of an arrow.
struct Side<'e, 'a> {
    ends: &'e [End<'a>],
    /// The number of ports that the ends have at least.
    count: usize,
    /// True if the number of ports grows to that of the other side.
    expands: bool,
}

impl<'e, 'a> Side<'e, 'a> {
    fn new(ends: &'e [End<'a>]) -> Side<'e, 'a> {
        let count = ends.iter().map(|end| end.ports.count()).sum();
        Side { ends, count, expands: ends.iter().any(|end| end.ports.expands()) }
    }

    /// True if the side may be connected port by port to several ports.
    fn is_many(&self) -> bool {
        self.count > 1 || self.expands
    }

    /// Returns the ports of all ends, as many as `other` has if the side expands.
    fn ports(&self, other: usize) -> Vec<(SlotId, usize)> {
        let mut more = if self.expands { other.saturating_sub(self.count) } else { 0 };
        let is_alone = self.ends.len() == 1;
        let mut out = Vec::with_capacity(self.count + more);
        for end in self.ends {
            let grows = end.ports.expands() || is_alone && matches!(end.ports, EndPorts::Unlisted);
            let own = if grows { std::mem::take(&mut more) } else { 0 };
            end.ports.append_to(end.slot, own, &mut out);
        }
        out
    }
}

/// Adds the connections that `arrow` makes from the ports of `from` to the ports of `to`, and returns the
/// errors. One port is connected to all ports of the other side; many ports are connected pair by pair, which
/// needs `=>`. One of the sides may expand to as many ports as the other has: by a port list such as `[1-]`,
/// or as a single element without listed ports at a `=>`. If there would be more than `room` connections,
/// none is added. After other errors, such as unequal numbers of ports, the pairs are added nevertheless.
pub(crate) fn connect(
    from: &[End<'_>],
    to: &[End<'_>],
    arrow: &Arrow,
    span: Span,
    room: usize,
    links: &mut Vec<Link>,
) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let (mut outputs, mut inputs) = (Side::new(from), Side::new(to));
    if outputs.count.max(inputs.count) > room {
        return vec![too_many_connections(span)];
    }
    let expandable = |ends: &[End<'_>]| ends.iter().filter(|end| end.ports.expands()).count();
    if expandable(from) + expandable(to) > 1 {
        let error = Diagnostic::error(span, "at most one expandable port allowed per connection");
        errors.push(error.with_hint("write the last port of a port list such as [1-] or []"));
        match inputs.count < outputs.count {
            true => outputs.expands = false,
            false => inputs.expands = false,
        }
    }
    if arrow.many {
        let grows = |one: &Side<'_, '_>, other: &Side<'_, '_>| {
            let is_unlisted = matches!(one.ends, [End { ports: EndPorts::Unlisted, .. }]);
            one.count == 1 && other.count > 1 && is_unlisted
        };
        let (left, right) = (grows(&outputs, &inputs), grows(&inputs, &outputs));
        outputs.expands |= left;
        inputs.expands |= right;
    }
    if outputs.is_many() && inputs.is_many() {
        if !arrow.many {
            let text = "syntax error: many-to-many connections require '=>'";
            errors.push(
                Diagnostic::error(arrow.span, text).with_hint("write '=>' to connect the ports pair by pair"),
            );
        }
        let (m, n) = (outputs.count, inputs.count);
        let mismatch = match (outputs.expands, inputs.expands) {
            (false, false) if m != n => Some(format!("{m} outputs connected to {n} inputs")),
            (true, false) if n < m => Some(format!("{m} or more outputs connected to {n} inputs")),
            (false, true) if m < n => Some(format!("{m} outputs connected to {n} or more inputs")),
            _ => None,
        };
        if let Some(mismatch) = mismatch {
            errors.push(
                Diagnostic::error(span, format!("connection mismatch: {mismatch}"))
                    .with_hint("list as many output ports on the left as input ports on the right"),
            );
        }
    }
    let (from_ports, to_ports) = (outputs.ports(inputs.count), inputs.ports(outputs.count));
    let mut push = |from, to| links.push(Link { from, to, span });
    match (from_ports.first(), to_ports.first()) {
        (Some(&from), _) if !outputs.is_many() => to_ports.iter().for_each(|&to| push(from, to)),
        (_, Some(&to)) if !inputs.is_many() => from_ports.iter().for_each(|&from| push(from, to)),
        _ => from_ports.iter().zip(&to_ports).for_each(|(&from, &to)| push(from, to)),
    }
    errors
}

pub(crate) fn too_many_connections(span: Span) -> Diagnostic {
    Diagnostic::error(span, format!("too many connections (limit {MAX_CONNECTIONS})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair = ((SlotId, usize), (SlotId, usize));

    fn run(from: &[End<'_>], many: bool, to: &[End<'_>]) -> (Vec<Pair>, Option<String>) {
        let (mut links, span) = (Vec::new(), Span::default());
        let errors =
            connect(from, to, &Arrow { many, is_context: false, span }, span, MAX_CONNECTIONS, &mut links);
        let messages: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        let messages = Some(messages.join("; ")).filter(|text| !text.is_empty());
        (links.iter().map(|link| (link.from, link.to)).collect(), messages)
    }

    fn listed(first: usize, last: usize) -> Ports {
        Ports { ranges: vec![(first, last)], expands: false, span: Span::default() }
    }

    fn open(first: usize) -> Ports {
        Ports { expands: true, ..listed(first, first) }
    }

    const A: End<'_> = End { slot: 2, ports: EndPorts::Unlisted };
    const B: End<'_> = End { slot: 3, ports: EndPorts::Unlisted };
    const GROUP: End<'_> = End { slot: 4, ports: EndPorts::Group(2) };

    #[test]
    fn one_to_one_and_one_to_many() {
        assert_eq!(run(&[A], false, &[B]), (vec![((2, 0), (3, 0))], None));
        assert_eq!(run(&[A], true, &[B]), (vec![((2, 0), (3, 0))], None));
        assert_eq!(run(&[A], false, &[B, A]), (vec![((2, 0), (3, 0)), ((2, 0), (2, 0))], None));
        assert_eq!(run(&[A, B], false, &[B]), (vec![((2, 0), (3, 0)), ((3, 0), (3, 0))], None));
        assert_eq!(run(&[A], false, &[GROUP]), (vec![((2, 0), (4, 0)), ((2, 0), (4, 1))], None));
    }

    #[test]
    fn a_lone_element_takes_ports_in_sequence() {
        assert_eq!(run(&[A], true, &[A, B]), (vec![((2, 0), (2, 0)), ((2, 1), (3, 0))], None));
        assert_eq!(run(&[A], true, &[GROUP]), (vec![((2, 0), (4, 0)), ((2, 1), (4, 1))], None));
        assert_eq!(run(&[GROUP], true, &[A]), (vec![((4, 0), (2, 0)), ((4, 1), (2, 1))], None));
    }

    #[test]
    fn widths_must_match() {
        let three = listed(0, 2);
        let a = End { slot: 2, ports: EndPorts::Listed(&three) };
        let (pairs, error) = run(&[a], true, &[A, B]);
        assert_eq!(pairs.len(), 2);
        assert_eq!(error.as_deref(), Some("connection mismatch: 3 outputs connected to 2 inputs"));
        let (_, error) = run(&[A, B], false, &[A, B]);
        assert_eq!(error.as_deref(), Some("syntax error: many-to-many connections require '=>'"));
        assert_eq!(run(&[A, B], true, &[B, A]), (vec![((2, 0), (3, 0)), ((3, 0), (2, 0))], None));
    }

    #[test]
    fn one_side_expands_to_the_ports_of_the_other() {
        let (three, one) = (listed(0, 2), open(1));
        let a = End { slot: 2, ports: EndPorts::Listed(&three) };
        let b = End { slot: 3, ports: EndPorts::Listed(&one) };
        let pairs = vec![((2, 0), (3, 1)), ((2, 1), (3, 2)), ((2, 2), (3, 3))];
        assert_eq!(run(&[a], true, &[b]), (pairs, None));
        let pairs = vec![((2, 0), (3, 1)), ((2, 1), (3, 2)), ((2, 2), (3, 0))];
        assert_eq!(run(&[a], true, &[b, B]), (pairs, None), "an end in the middle expands, too");
        let message = "connection mismatch: 2 outputs connected to 3 or more inputs";
        assert_eq!(run(&[A], false, &[B, b]).1, None);
        assert_eq!(run(&[GROUP], true, &[B, B, b]).1.as_deref(), Some(message));
        let both = "at most one expandable port allowed per connection";
        assert_eq!(run(&[b], true, &[b]).1.as_deref(), Some(both));
    }

    #[test]
    fn the_number_of_connections_is_bounded() {
        let all = listed(0, 65_535);
        let a = End { slot: 2, ports: EndPorts::Listed(&all) };
        let (pairs, error) = run(&vec![a; 40], false, &[B]);
        assert_eq!((pairs.len(), error.is_some()), (0, true));
    }
}
