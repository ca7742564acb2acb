//! Shrinks a case: removes packets, elements and arguments as long as the failure remains.

use std::sync::Arc;

use packet::PacketKind;

use super::case::Case;
use super::classes::Element;
use super::ends::Given;
use super::network::Next;

/// The maximum number of smaller cases that are tried.
const MOST_TRIES: usize = 300;

/// Returns the smallest case found for which `still` returns true. `case` itself is such a case.
pub(super) fn shrink(case: Case, still: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut shrinking = Shrinking { case, still, tries: 0 };
    loop {
        let before = shrinking.size();
        shrinking.packets();
        shrinking.elements();
        shrinking.arguments();
        if shrinking.size() == before || shrinking.tries >= MOST_TRIES {
            shrinking.plainer();
            return shrinking.case;
        }
    }
}

struct Shrinking<'s> {
    case: Case,
    still: &'s mut dyn FnMut(&Case) -> bool,
    tries: usize,
}

impl Shrinking<'_> {
    fn size(&self) -> (usize, usize, usize) {
        let nodes = &self.case.network.nodes;
        let words = nodes.iter().map(|node| node.element.config.len() + node.to.len()).sum();
        (nodes.len(), self.case.given.iter().map(|given| given.len()).sum(), words)
    }

    fn attempt(&mut self, case: Case) -> bool {
        if self.tries >= MOST_TRIES {
            return false;
        }
        self.tries += 1;
        let holds = (self.still)(&case);
        if holds {
            self.case = case;
        }
        holds
    }

    fn with(&self, source: usize, given: Vec<Given>) -> Case {
        let mut case = self.case.clone();
        case.given[source] = Arc::new(given);
        case
    }

    /// Tries to remove packets of each source: first halves, in the end single packets.
    fn packets(&mut self) {
        for source in 0..self.case.given.len() {
            let mut size = self.case.given[source].len().div_ceil(2);
            while size > 0 {
                let mut at = 0;
                while at < self.case.given[source].len() {
                    let mut given = self.case.given[source].to_vec();
                    given.drain(at..(at + size).min(given.len()));
                    if !self.attempt(self.with(source, given)) {
                        at += size;
                    }
                }
                size /= 2;
            }
        }
    }

    /// Tries to remove elements, outputs and further sources, to replace elements by Null, and to have sinks
    /// observe fewer annotations.
    fn elements(&mut self) {
        let mut at = self.case.network.nodes.len();
        while at > 0 {
            at -= 1;
            if at >= self.case.network.nodes.len() {
                continue;
            }
            if let Some(network) = self.case.network.bypassed(at)
                && self.attempt(Case { network, ..self.case.clone() })
            {
                continue;
            }
            for output in 0..self.case.network.nodes.get(at).map_or(0, |node| node.to.len()) {
                let mut case = self.case.clone();
                let Some(node) = case.network.nodes.get_mut(at) else { break };
                let Some(next) = node.to.get_mut(output) else { break };
                let simpler = if output == 0 { Next::Sink(0) } else { Next::Discard };
                if *next != simpler && *next != Next::Discard {
                    *next = simpler;
                    case.network.tidy();
                    self.attempt(case);
                }
            }
            let Some(node) = self.case.network.nodes.get(at) else { continue };
            if node.element.class != "Null" && node.element.inputs == 1 {
                let mut case = self.case.clone();
                let element = Element { class: "Null".into(), config: String::new(), inputs: 1, outputs: 1 };
                case.network.nodes[at].element = element;
                case.network.nodes[at].to.truncate(1);
                case.network.tidy();
                self.attempt(case);
            }
        }
        while self.case.network.entries.len() > 1 {
            let mut case = self.case.clone();
            case.network.entries.pop();
            case.given.truncate(case.network.entries.len());
            case.network.tidy();
            if !self.attempt(case) {
                break;
            }
        }
        if self.case.network.annotations {
            let mut case = self.case.clone();
            case.network.annotations = false;
            self.attempt(case);
        }
    }

    /// Tries to remove arguments of elements.
    fn arguments(&mut self) {
        for at in 0..self.case.network.nodes.len() {
            let mut place = 0;
            loop {
                let node = &self.case.network.nodes[at];
                let mut arguments: Vec<&str> = node.element.config.split(',').collect();
                if arguments.len() < 2 || place >= arguments.len() {
                    break;
                }
                arguments.remove(place);
                let config = arguments.join(",").trim().to_string();
                let mut case = self.case.clone();
                let has_rest = matches!(node.element.class.as_str(), "Classifier" | "IPClassifier");
                if has_rest && node.to.len() == arguments.len() + 1 {
                    case.network.nodes[at].to.remove(place);
                    case.network.nodes[at].element.outputs -= 1;
                }
                case.network.nodes[at].element.config = config;
                case.network.tidy();
                if !self.attempt(case) {
                    place += 1;
                } else if at >= self.case.network.nodes.len() {
                    return;
                }
            }
        }
    }

    /// Tries to reset packet types and annotations to the values of an ordinary packet.
    fn plainer(&mut self) {
        self.tries = 0;
        let mut case = self.case.clone();
        for given in &mut case.given {
            for packet in Arc::make_mut(given) {
                packet.kind = PacketKind::Host;
                packet.annotations.clear();
            }
        }
        self.attempt(case);
    }
}
