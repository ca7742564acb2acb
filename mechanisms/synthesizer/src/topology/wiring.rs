//! Resolution of a topology: it finds the elements at linked interfaces and at entry points, and reports
//! errors of the topology.

use lang::Diagnostic;

use super::function::{Function, Interface};
use super::prop::{End, Link, Prop, Word};

/// An element of a network function: the index of the function, and the index of the element in the
/// function's graph.
pub(super) type ElementOfFunction = (usize, usize);

/// The resolved topology: the cables to insert, and the receivers without packets.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    pub(super) cables: Vec<Cable>,
    /// The elements that receive from an interface at which no packets enter the chain.
    pub(super) silent: Vec<ElementOfFunction>,
}

/// A link whose ends have been resolved to elements.
#[derive(Debug)]
pub(super) struct Cable {
    /// The names of the sending and of the receiving interface, as the topology has them.
    pub(super) names: [String; 2],
    /// The elements that send into the link.
    pub(super) senders: Vec<ElementOfFunction>,
    /// The element that receives from the link.
    pub(super) receiver: ElementOfFunction,
}

/// The arguments of receiving elements that change or filter packets. A cable does not do that, so they
/// cause a warning.
const NOT_DONE: [&str; 9] = [
    "FORCE_IP",
    "PROTOCOL",
    "BPF_FILTER",
    "OUTBOUND",
    "ACTIVE",
    "VLAN_STRIP",
    "VLAN_FILTER",
    "PAINT_QUEUE",
    "RSS_AGGREGATE",
];

/// Resolves the topology of a `.prop` file, which links network functions to a chain: finds the elements at
/// both ends of each link and at the entry points. Errors are added to `diagnostics`; the result is valid
/// only if there are none.
pub(super) fn wire(prop: &Prop, functions: &[Function], diagnostics: &mut Vec<Diagnostic>) -> Wiring {
    let mut resolver =
        Resolver { functions, diagnostics, used: Vec::new(), misnamed: vec![false; functions.len()] };
    let mut wiring = Wiring::default();
    let mut edges = Vec::new();
    for link in &prop.links {
        let from = resolver.find(&link.from, Direction::Out);
        let to = resolver.find(&link.to, Direction::In);
        if link.from.function.text == link.to.function.text {
            let message = format!("{} is linked to itself", link.from.function.text);
            let hint = "connect the elements in its configuration instead";
            resolver.diagnostics.push(Diagnostic::error(link.from.function.span, message).with_hint(hint));
            continue;
        }
        let (Some(from), Some(to)) = (from, to) else { continue };
        resolver.ends(link, &from, &to);
        if let Some(&receiver) = to.places(&to.has.receivers).first() {
            wiring.cables.push(Cable {
                names: [from.name.clone(), to.name.clone()],
                senders: from.places(&from.has.senders),
                receiver,
            });
        }
        edges.push(Edge { from, to, place: &link.to.function });
    }
    for entry in &prop.entries {
        let Some(found) = resolver.find(entry, Direction::In) else { continue };
        resolver.receives(
            &found,
            &entry.interface,
            "an entry point needs an element that receives, such as FromDevice",
        );
    }
    resolver.connected(prop);
    resolver.circles(&edges);
    resolver.silent(&mut wiring);
    wiring
}

/// The direction in which packets cross an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Packets enter the network function at the interface.
    In,
    /// Packets leave the network function at the interface.
    Out,
}

/// A link between existing interfaces, for the search for loops.
struct Edge<'a> {
    from: Found,
    to: Found,
    /// The position of the link in the `.prop` file.
    place: &'a Word,
}

impl Edge<'_> {
    /// True if packets that have crossed the link `other` can cross this link next. False if this link leads
    /// back to the interface that the packets came from.
    fn follows(&self, other: &Edge<'_>) -> bool {
        let is_back = self.to.is_same(&other.from) && self.from.is_same(&other.to);
        other.to.function == self.from.function && !is_back
    }
}

/// An interface that the topology names, and the elements of the network function at this interface.
struct Found {
    function: usize,
    /// The name of the interface, as the topology has it.
    name: String,
    has: Interface,
}

impl Found {
    fn is_same(&self, other: &Found) -> bool {
        self.function == other.function && self.has == other.has
    }

    fn places(&self, elements: &[usize]) -> Vec<ElementOfFunction> {
        elements.iter().map(|&element| (self.function, element)).collect()
    }
}

struct Resolver<'a> {
    functions: &'a [Function],
    diagnostics: &'a mut Vec<Diagnostic>,
    /// The interfaces that the topology has named so far: function, elements, direction, and the word that
    /// named it.
    used: Vec<(usize, Interface, Direction, Word)>,
    /// For each function, true if the topology names an interface that the function does not have. Unused
    /// interfaces of such a function are not reported, because the wrong name probably meant one of them.
    misnamed: Vec<bool>,
}

impl Resolver<'_> {
    /// Finds the interface at an end of a link or at an entry point. Reports an error, and returns `None`, if
    /// the function or the interface does not exist, or if the topology has already named the interface for
    /// the same direction. An interface of a function whose configuration has errors counts as existing.
    fn find(&mut self, end: &End, direction: Direction) -> Option<Found> {
        let (name, interface) = (&end.function.text, &end.interface.text);
        let Some(number) = self.functions.iter().position(|function| function.name.text == *name) else {
            let known: Vec<&str> = self.functions.iter().map(|f| f.name.text.as_str()).collect();
            let hint = format!("NF_MODULES has {}", listed(&known));
            let message = format!("there is no {name}");
            self.diagnostics.push(Diagnostic::error(end.function.span, message).with_hint(hint));
            return None;
        };
        let function = &self.functions[number];
        let has = function.interface(interface);
        if has.is_none() && function.is_whole {
            self.misnamed[number] = true;
            let hint = match &function.interfaces()[..] {
                [] => "it has none".to_string(),
                known => format!("it has {}", listed(known)),
            };
            let message = format!("{name} has no interface '{interface}'");
            self.diagnostics.push(Diagnostic::error(end.interface.span, message).with_hint(hint));
            return None;
        }
        // If the function's configuration could not be read, the interface is known only by its name.
        let has = has.unwrap_or_default();
        let is_same = |(f, other, way, word): &&(usize, Interface, Direction, Word)| {
            let is_one = *other == has && (has != Interface::default() || word.text == *interface);
            *f == number && *way == direction && is_one
        };
        if let Some((_, _, _, first)) = self.used.iter().find(is_same) {
            let message = format!("interface '{interface}' of {name} is used twice");
            let error = Diagnostic::error(end.interface.span, message)
                .with_related(first.span, "first here")
                .with_hint("an interface sends into one link, and receives from one or as an entry point");
            self.diagnostics.push(error);
            return None;
        }
        self.used.push((number, has.clone(), direction, end.interface.clone()));
        Some(Found { function: number, name: interface.clone(), has })
    }

    /// Checks a link: packets leave by one end and arrive at the other, and the elements at both ends have
    /// only connections and arguments that a cable can replace.
    fn ends(&mut self, link: &Link, from: &Found, to: &Found) {
        let hint = "a link leads from the one that sends to the one that receives";
        let sends = &self.functions[from.function];
        if from.has.senders.is_empty() && sends.is_whole {
            let message = format!("{} sends nothing by '{}'", sends.name.text, from.name);
            self.diagnostics.push(Diagnostic::error(link.from.interface.span, message).with_hint(hint));
        }
        self.receives(to, &link.to.interface, hint);
        self.shape_of_senders(from);
        self.shape_of_receivers(to);
    }

    /// Checks that some element receives the packets of an interface; otherwise reports an error at `place`
    /// with a hint.
    fn receives(&mut self, end: &Found, place: &Word, hint: &str) {
        let function = &self.functions[end.function];
        if end.has.receivers.is_empty() && function.is_whole {
            let message = format!("{} receives nothing from '{}'", function.name.text, end.name);
            self.diagnostics.push(Diagnostic::error(place.span, message).with_hint(hint));
        }
    }

    /// Checks that the elements that send into a link have no connected outputs, because a cable leads only
    /// into the link.
    fn shape_of_senders(&mut self, end: &Found) {
        let function = &self.functions[end.function];
        for number in end.has.senders.iter().filter(|&&number| function.is_connected(number, 0)) {
            let element = &function.graph.elements[*number];
            let message = format!("'{}' is joined, and its outputs are connected", element.name);
            let hint = "a joined interface sends everything, and packets end there";
            self.diagnostics.push(Diagnostic::error(element.span, message).with_hint(hint));
        }
    }

    /// Checks the elements that receive from a link: there is only one, only its output 0 is connected, and
    /// its arguments ask for nothing that a cable does not do.
    fn shape_of_receivers(&mut self, end: &Found) {
        let function = &self.functions[end.function];
        let element = |number: &usize| &function.graph.elements[*number];
        if let [first, second, ..] = end.has.receivers[..] {
            let message = format!("{} receives from '{}' in several places", function.name.text, end.name);
            let error = Diagnostic::error(element(&second).span, message)
                .with_related(element(&first).span, "and here")
                .with_hint("use one FromDevice with a Tee downstream");
            self.diagnostics.push(error);
        }
        for number in &end.has.receivers {
            let element = element(number);
            if function.is_connected(*number, 1) {
                let message = format!("'{}' is joined, and its output 1 is connected", element.name);
                let hint = "packets of a joined interface all leave by output 0; put a Classifier downstream";
                self.diagnostics.push(Diagnostic::error(element.span, message).with_hint(hint));
            }
            let args = lang::args::split(&element.config);
            let words = args.iter().filter_map(|arg| arg.text.split_whitespace().next());
            let not_done: Vec<&str> = words.filter(|word| NOT_DONE.contains(word)).collect();
            if !not_done.is_empty() {
                let message = format!("'{}' is joined, which leaves out {}", element.name, listed(&not_done));
                let hint = "use downstream elements instead";
                self.diagnostics.push(Diagnostic::warning(element.span, message).with_hint(hint));
            }
        }
    }

    /// Checks that every function is named in a link or an entry point.
    fn connected(&mut self, prop: &Prop) {
        let ends = prop.links.iter().flat_map(|link| [&link.from, &link.to]).chain(&prop.entries);
        let named: Vec<&str> = ends.map(|end| end.function.text.as_str()).collect();
        for function in self.functions.iter().filter(|f| !named.contains(&f.name.text.as_str())) {
            let message = format!("nothing connects {}", function.name.text);
            let hint = "link it in NF_TOPO, make it an entry point, or leave it out";
            self.diagnostics.push(Diagnostic::error(function.name.span, message).with_hint(hint));
        }
    }

    /// Checks that packets cannot cross links in a loop. Packets may return to the interface that they came
    /// from.
    fn circles(&mut self, edges: &[Edge<'_>]) {
        // Repeatedly removes links that packets cannot reach from any remaining link. The links that remain
        // in the end are on loops, or downstream of loops.
        let mut left = vec![true; edges.len()];
        let before = |left: &[bool], edge: usize| {
            (0..edges.len()).find(|&other| left[other] && edges[edge].follows(&edges[other]))
        };
        while let Some(first) = (0..left.len()).find(|&edge| left[edge] && before(&left, edge).is_none()) {
            left[first] = false;
        }
        // Packets can reach each remaining link from another remaining link, so a search backwards must come
        // to a link for the second time.
        let Some(start) = left.iter().position(|&is_left| is_left) else { return };
        let mut path = vec![start];
        while let Some(edge) = before(&left, path[path.len() - 1]) {
            let Some(place) = path.iter().position(|&behind| behind == edge) else {
                path.push(edge);
                continue;
            };
            let mut round: Vec<usize> = path[place..].iter().copied().rev().collect();
            let first = (0..round.len()).min_by_key(|&place| round[place]).unwrap_or_default();
            round.rotate_left(first);
            let functions = round.iter().chain([&round[0]]).map(|&edge| edges[edge].from.function);
            let names: Vec<&str> =
                functions.map(|function| self.functions[function].name.text.as_str()).collect();
            let message = format!("links lead in a circle: {}", names.join(" -> "));
            let hint =
                "a chain ends; what comes back does so by the two interfaces of the link that it came by";
            self.diagnostics.push(Diagnostic::error(edges[round[0]].place.span, message).with_hint(hint));
            return;
        }
    }

    /// Finds the elements that receive from an interface at which no packets enter. An interface that other
    /// elements send to is permitted to have no packets entering: packets then only leave the chain there. If
    /// an interface only receives, the topology lacks a link or an entry point for it, which is an error,
    /// unless the topology names a wrong interface of that function.
    fn silent(&mut self, wiring: &mut Wiring) {
        for (number, function) in self.functions.iter().enumerate() {
            for device in function.devices.iter().filter(|device| !device.sends) {
                let uses = self
                    .used
                    .iter()
                    .filter(|(f, has, ..)| *f == number && has.receivers.contains(&device.element));
                let ways: Vec<Direction> = uses.map(|(_, _, way, _)| *way).collect();
                if ways.contains(&Direction::In) {
                    continue;
                }
                let has = function.interface(&device.interface).unwrap_or_default();
                if has.senders.is_empty() && ways.is_empty() && !self.misnamed[number] {
                    let name = &function.name.text;
                    let message = format!("interface '{}' of {name} is not connected", device.interface);
                    let hint = "link it in NF_TOPO, or make it an entry point";
                    let place = function.graph.elements[device.element].span;
                    let error = Diagnostic::error(place, message)
                        .with_related(function.name.span, format!("{name} is this"))
                        .with_hint(hint);
                    self.diagnostics.push(error);
                }
                wiring.silent.push((number, device.element));
            }
        }
    }
}

/// Formats a list of names for messages, with at most eight names.
pub(super) fn listed(names: &[&str]) -> String {
    const MOST: usize = 8;
    let mut text = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    text
}
