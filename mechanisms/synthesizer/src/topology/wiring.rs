//! What a topology means: which interfaces are joined, where packets come in, and what is wrong with it.

use lang::Diagnostic;

use super::function::{Function, Interface};
use super::prop::{End, Prop, Word};

/// An element of a function: both numbers.
pub(super) type Place = (usize, usize);

/// What becomes of interfaces.
#[derive(Debug, Default)]
pub(super) struct Wiring {
    pub(super) cables: Vec<Cable>,
    /// Elements that receive from an interface by which nothing comes.
    pub(super) silent: Vec<Place>,
}

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Cable {
    /// The names of its ends, for people.
    pub(super) names: [String; 2],
    /// Who sends.
    pub(super) senders: Vec<Place>,
    /// Who receives; without one, what is sent is lost.
    pub(super) receiver: Option<Place>,
}

/// Arguments of receiving elements that change packets, or keep some away. A cable knows none of them.
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

/// Finds out what a topology means. What it gives is of use only if there was no error.
pub(super) fn wire(prop: &Prop, functions: &[Function], diagnostics: &mut Vec<Diagnostic>) -> Wiring {
    let mut looker =
        Looker { functions, diagnostics, used: Vec::new(), misnamed: vec![false; functions.len()] };
    let mut wiring = Wiring::default();
    let mut edges = Vec::new();
    for link in &prop.links {
        let [from, to] = [&link.from, &link.to].map(|end| looker.find(end));
        if link.from.function.text == link.to.function.text {
            let message = format!("{} is linked to itself", link.from.function.text);
            let hint = "connect the elements in its configuration instead";
            looker.diagnostics.push(Diagnostic::error(link.from.function.span, message).with_hint(hint));
            continue;
        }
        let (Some(from), Some(to)) = (from, to) else { continue };
        edges.push((from.function, to.function, &link.to.function));
        looker.directions(link.from.interface.clone(), &from, &to);
        for (sender, receiver) in [(&from, &to), (&to, &from)] {
            wiring.cables.push(Cable {
                names: [sender.name.clone(), receiver.name.clone()],
                senders: sender.places(&sender.has.senders),
                receiver: receiver.places(&receiver.has.receivers).first().copied(),
            });
        }
    }
    for entry in &prop.entries {
        let Some(found) = looker.find(entry) else { continue };
        if found.has.receivers.is_empty() && functions[found.function].is_whole {
            let (name, interface) = (&entry.function.text, &entry.interface.text);
            let message = format!("{name} receives nothing from '{interface}'");
            let hint = "an entry point needs a FromDevice or the like";
            looker.diagnostics.push(Diagnostic::error(entry.interface.span, message).with_hint(hint));
        }
    }
    looker.connected(prop);
    looker.circles(&edges);
    looker.silent(&mut wiring);
    wiring
}

/// An interface that the topology names.
struct Found {
    function: usize,
    /// The interface as the topology calls it.
    name: String,
    has: Interface,
}

impl Found {
    fn places(&self, elements: &[usize]) -> Vec<Place> {
        elements.iter().map(|&element| (self.function, element)).collect()
    }
}

struct Looker<'a> {
    functions: &'a [Function],
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Interfaces that have been named, and where.
    used: Vec<(usize, Interface, Word)>,
    /// Functions of which something has been said that is wrong.
    misnamed: Vec<bool>,
}

impl Looker<'_> {
    /// What an end of a link or an entry point names. Each interface can be named once.
    fn find(&mut self, end: &End) -> Option<Found> {
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
        // Of a function that cannot be read, the name is all there is.
        let has = has.unwrap_or_default();
        let is_same = |(f, other, word): &&(usize, Interface, Word)| {
            *f == number && *other == has && (has != Interface::default() || word.text == *interface)
        };
        if let Some((_, _, first)) = self.used.iter().find(is_same) {
            let message = format!("interface '{interface}' of {name} is used twice");
            let error = Diagnostic::error(end.interface.span, message)
                .with_related(first.span, "first here")
                .with_hint("an interface is one end of one link, or an entry point");
            self.diagnostics.push(error);
            return None;
        }
        self.used.push((number, has.clone(), end.interface.clone()));
        Some(Found { function: number, name: interface.clone(), has })
    }

    /// Packets have to be able to cross a link in the direction in which it is written.
    fn directions(&mut self, place: Word, from: &Found, to: &Found) {
        let hint = "a link leads from the one that sends to the one that receives";
        let [sends, receives] = [from, to].map(|end| &self.functions[end.function]);
        if from.has.senders.is_empty() && sends.is_whole {
            let message = format!("{} sends nothing by '{}'", sends.name.text, from.name);
            self.diagnostics.push(Diagnostic::error(place.span, message).with_hint(hint));
        }
        if to.has.receivers.is_empty() && receives.is_whole {
            let message = format!("{} receives nothing from '{}'", receives.name.text, to.name);
            self.diagnostics.push(Diagnostic::error(place.span, message).with_hint(hint));
        }
        for end in [from, to] {
            self.shape(end);
        }
    }

    /// What elements at joined interfaces must not have.
    fn shape(&mut self, end: &Found) {
        let function = &self.functions[end.function];
        let element = |number: &usize| &function.graph.elements[*number];
        if let [first, second, ..] = end.has.receivers[..] {
            let message = format!("{} receives from '{}' in several places", function.name.text, end.name);
            let error = Diagnostic::error(element(&second).span, message)
                .with_related(element(&first).span, "and here")
                .with_hint("have one FromDevice and a Tee behind it");
            self.diagnostics.push(error);
        }
        for number in end.has.senders.iter().filter(|&&number| function.is_connected(number, 0)) {
            let message = format!("'{}' is joined, and its outputs are connected", element(number).name);
            let hint = "a joined interface sends everything, and packets end there";
            self.diagnostics.push(Diagnostic::error(element(number).span, message).with_hint(hint));
        }
        for number in &end.has.receivers {
            let element = element(number);
            if function.is_connected(*number, 1) {
                let message = format!("'{}' is joined, and its output 1 is connected", element.name);
                let hint = "packets of a joined interface all leave by output 0; have a Classifier behind it";
                self.diagnostics.push(Diagnostic::error(element.span, message).with_hint(hint));
            }
            let args = lang::args::split(&element.config);
            let words = args.iter().filter_map(|arg| arg.text.split_whitespace().next());
            let not_done: Vec<&str> = words.filter(|word| NOT_DONE.contains(word)).collect();
            if !not_done.is_empty() {
                let message = format!("'{}' is joined, which leaves out {}", element.name, listed(&not_done));
                let hint = "do the same with elements behind it";
                self.diagnostics.push(Diagnostic::warning(element.span, message).with_hint(hint));
            }
        }
    }

    /// Every function has to be part of the chain.
    fn connected(&mut self, prop: &Prop) {
        let ends = prop.links.iter().flat_map(|link| [&link.from, &link.to]).chain(&prop.entries);
        let named: Vec<&str> = ends.map(|end| end.function.text.as_str()).collect();
        for function in self.functions.iter().filter(|f| !named.contains(&f.name.text.as_str())) {
            let message = format!("nothing connects {}", function.name.text);
            let hint = "link it in NF_TOPO, make it an entry point, or leave it out";
            self.diagnostics.push(Diagnostic::error(function.name.span, message).with_hint(hint));
        }
    }

    /// Links must not lead in a circle.
    fn circles(&mut self, edges: &[(usize, usize, &Word)]) {
        // Take away, again and again, functions to which no link leads.
        let mut left: Vec<bool> = vec![true; self.functions.len()];
        let comes = |left: &[bool], to: usize| edges.iter().find(|edge| edge.1 == to && left[edge.0]);
        while let Some(first) = (0..left.len()).find(|&n| left[n] && comes(&left, n).is_none()) {
            left[first] = false;
        }
        // Whoever is left has another one in front of it that is left too: going backwards leads round.
        let Some(start) = left.iter().position(|&is_left| is_left) else { return };
        let mut path = vec![start];
        loop {
            let here = path[path.len() - 1];
            let Some(edge) = comes(&left, here) else { return };
            if let Some(place) = path.iter().position(|&before| before == edge.0) {
                let mut names: Vec<&str> =
                    path[place..].iter().map(|&number| self.functions[number].name.text.as_str()).collect();
                names.push(names[0]);
                names.reverse();
                let message = format!("links lead in a circle: {}", names.join(" -> "));
                let hint =
                    "a chain ends; what comes back on the cable that it came by needs no link of its own";
                self.diagnostics.push(Diagnostic::error(edge.2.span, message).with_hint(hint));
                return;
            }
            path.push(edge.0);
        }
    }

    /// Finds elements that receive where nothing comes in. That is so at ends of the chain; elsewhere it is an error.
    fn silent(&mut self, wiring: &mut Wiring) {
        for (number, function) in self.functions.iter().enumerate() {
            for device in function.devices.iter().filter(|device| !device.sends) {
                let is_used = |(f, has, _): &(usize, Interface, Word)| {
                    *f == number && has.receivers.contains(&device.element)
                };
                if self.used.iter().any(is_used) {
                    continue;
                }
                let has = function.interface(&device.interface).unwrap_or_default();
                if has.senders.is_empty() && !self.misnamed[number] {
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
        // Nor does anything come back where nobody sends.
        wiring.cables.retain(|cable| match (&cable.senders[..], cable.receiver) {
            ([], receiver) => {
                wiring.silent.extend(receiver);
                false
            }
            _ => true,
        });
    }
}

/// A list for people.
pub(super) fn listed(names: &[&str]) -> String {
    const MOST: usize = 8;
    let mut text = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    text
}
