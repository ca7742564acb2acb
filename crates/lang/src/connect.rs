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
    fn count(self) -> usize {
        match self {
            EndPorts::Listed(ports) => {
                ports.ranges.iter().map(|(first, last)| (last + 1).saturating_sub(*first)).sum()
            }
            EndPorts::Group(count) => count,
            EndPorts::Unlisted => 1,
        }
    }

    fn append_to(self, slot: SlotId, out: &mut Vec<(SlotId, usize)>) {
        match self {
            EndPorts::Listed(ports) => {
                out.extend(
                    ports.ranges.iter().flat_map(|&(first, last)| first..=last).map(|port| (slot, port)),
                );
            }
            EndPorts::Group(count) => out.extend((0..count).map(|port| (slot, port))),
            EndPorts::Unlisted => out.push((slot, 0)),
        }
    }
}

/// Adds the connections that `arrow` makes from the ports of `from` to the ports of `to`. One port is
/// connected to all ports of the other end; many ports are connected pair by pair, which needs `=>`. Fails if
/// there would be more than `room` connections; then none is added. Also fails if many ports meet without
/// `=>`, or if the numbers of ports differ; then the pairs are added nevertheless.
pub(crate) fn connect(
    from: &[End<'_>],
    to: &[End<'_>],
    arrow: &Arrow,
    span: Span,
    room: usize,
    links: &mut Vec<Link>,
) -> Result<(), Diagnostic> {
    let count = |ends: &[End<'_>]| ends.iter().map(|end| end.ports.count()).sum::<usize>();
    // True if the end is a single element without listed ports at a `=>`, which then takes as many ports as
    // the other end has.
    let expands = |ends: &[End<'_>]| arrow.many && matches!(ends, [End { ports: EndPorts::Unlisted, .. }]);
    let (outputs, inputs) = (count(from), count(to));
    let wanted = outputs.max(inputs);
    if wanted > room {
        return Err(too_many_connections(span));
    }
    let ports = |ends: &[End<'_>]| {
        let mut out = Vec::new();
        match ends {
            [end] if expands(ends) => out.extend((0..wanted).map(|port| (end.slot, port))),
            _ => ends.iter().for_each(|end| end.ports.append_to(end.slot, &mut out)),
        }
        out
    };
    let (from_ports, to_ports) = (ports(from), ports(to));
    let mut push = |from, to| links.push(Link { from, to, span });
    match (from_ports.as_slice(), to_ports.as_slice()) {
        (&[from], to) => to.iter().for_each(|&to| push(from, to)),
        (from, &[to]) => from.iter().for_each(|&from| push(from, to)),
        (from, to) => {
            from.iter().zip(to).for_each(|(&from, &to)| push(from, to));
            if !arrow.many {
                return Err(Diagnostic::error(
                    arrow.span,
                    "syntax error: many-to-many connections require '=>'",
                )
                .with_hint("write '=>' to connect the ports pair by pair"));
            }
            if from.len() != to.len() {
                return Err(Diagnostic::error(
                    span,
                    format!("connection mismatch: {outputs} outputs connected to {inputs} inputs"),
                )
                .with_hint("list as many output ports on the left as input ports on the right"));
            }
        }
    }
    Ok(())
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
        let result = connect(from, to, &Arrow { many, span }, span, MAX_CONNECTIONS, &mut links);
        (links.iter().map(|link| (link.from, link.to)).collect(), result.err().map(|error| error.message))
    }

    fn listed(first: usize, last: usize) -> Ports {
        Ports { ranges: vec![(first, last)], span: Span::default() }
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
    fn the_number_of_connections_is_bounded() {
        let all = listed(0, 65_535);
        let a = End { slot: 2, ports: EndPorts::Listed(&all) };
        let (pairs, error) = run(&vec![a; 40], false, &[B]);
        assert_eq!((pairs.len(), error.is_some()), (0, true));
    }
}
