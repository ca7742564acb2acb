//! Who tells whom that there are packets, or room (Click's notifiers).
//!
//! Elements that give a signal keep it up to date; those who pull (or push) ask whether any signal that could
//! reach them is on. The search goes along pull connections upstream (for packets) or push connections
//! downstream (for room), through elements that merely pass packets on.

use element::ports::{self, Processing};
use element::{ElementId, Signal};

use crate::plan::Plan;

/// The signals that one port hears.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hears {
    /// Somebody on the way gives no signal: always on.
    Always,
    /// On if one of these gives it.
    Any(Vec<ElementId>),
}

pub(crate) struct Signals {
    /// State by element: packets, room.
    packets: Vec<bool>,
    room: Vec<bool>,
    /// What each input (for packets) and output (for room) hears.
    inputs: Vec<Vec<Hears>>,
    outputs: Vec<Vec<Hears>>,
    /// Who wakes up when an element's signal comes on.
    packet_listeners: Vec<Vec<ElementId>>,
    room_listeners: Vec<Vec<ElementId>>,
    /// Elements in the middle of pull paths that give a signal of their own and hear this element: theirs comes
    /// on with it.
    relays: Vec<Vec<ElementId>>,
    /// Who has to be woken, while a signal spreads.
    woken: Vec<ElementId>,
}

impl Signals {
    pub(crate) fn new(plan: &Plan) -> Signals {
        let n = plan.len();
        let mut signals = Signals {
            packets: vec![true; n],
            room: vec![true; n],
            inputs: vec![Vec::new(); n],
            outputs: vec![Vec::new(); n],
            packet_listeners: vec![Vec::new(); n],
            room_listeners: vec![Vec::new(); n],
            relays: vec![Vec::new(); n],
            woken: Vec::with_capacity(n),
        };
        for id in 0..n {
            // Elements in the middle of a pull path have no task to wake.
            let ends_pull_path = !plan.outputs[id].contains(&Processing::Pull);
            for input in 0..plan.inputs[id].len() {
                let hears = match plan.inputs[id][input] {
                    Processing::Pull => search(plan, id, input, Signal::Packets),
                    _ => Hears::Always,
                };
                let relays = !ends_pull_path && plan.classes[id].notes.signals_packets;
                let wake = match ends_pull_path {
                    true => Some(&mut signals.packet_listeners),
                    false => relays.then_some(&mut signals.relays),
                };
                if let (Hears::Any(sources), Some(wake)) = (&hears, wake) {
                    sources.iter().for_each(|&s| wake[s].push(id));
                }
                signals.inputs[id].push(hears);
            }
            let starts_push_path = !plan.inputs[id].contains(&Processing::Push);
            for output in 0..plan.outputs[id].len() {
                let hears = match plan.outputs[id][output] {
                    Processing::Push => search(plan, id, output, Signal::Room),
                    _ => Hears::Always,
                };
                if let (Hears::Any(sinks), true) = (&hears, starts_push_path) {
                    sinks.iter().for_each(|&s| signals.room_listeners[s].push(id));
                }
                signals.outputs[id].push(hears);
            }
        }
        signals
    }

    /// Whether a port hears a signal.
    pub(crate) fn heard(&self, id: ElementId, signal: Signal, port: usize) -> bool {
        let (hears, state) = match signal {
            Signal::Packets => (self.inputs[id].get(port), &self.packets),
            Signal::Room => (self.outputs[id].get(port), &self.room),
        };
        match hears {
            Some(Hears::Any(givers)) => givers.iter().any(|&g| state[g]),
            _ => true,
        }
    }

    /// Changes a signal; those to wake if it came on.
    pub(crate) fn set(&mut self, id: ElementId, signal: Signal, on: bool) -> &[ElementId] {
        let state = match signal {
            Signal::Packets => &mut self.packets[id],
            Signal::Room => &mut self.room[id],
        };
        if !on || std::mem::replace(state, on) {
            *state = on;
            return &[];
        }
        match signal {
            Signal::Packets if self.relays[id].is_empty() => &self.packet_listeners[id],
            Signal::Packets => self.spread(id),
            Signal::Room => &self.room_listeners[id],
        }
    }

    /// Turns the signals of relays on, and theirs; those to wake.
    fn spread(&mut self, id: ElementId) -> &[ElementId] {
        self.woken.clear();
        self.woken.push(id);
        let mut next = 0;
        // First the elements whose signal came on, each in turn; then their listeners in their place.
        while let Some(&source) = self.woken.get(next) {
            next += 1;
            for &relay in &self.relays[source] {
                if !std::mem::replace(&mut self.packets[relay], true) {
                    self.woken.push(relay);
                }
            }
        }
        for place in 0..next {
            let source = self.woken[place];
            self.woken.extend_from_slice(&self.packet_listeners[source]);
        }
        &self.woken[next..]
    }

    /// The elements that an input (for packets) or output (for room) hears, and whether they give their signal;
    /// `None` where somebody on the way gives none.
    pub(crate) fn givers(
        &self,
        id: ElementId,
        signal: Signal,
        port: usize,
    ) -> Option<impl Iterator<Item = (ElementId, bool)> + '_> {
        let (hears, state) = match signal {
            Signal::Packets => (self.inputs[id].get(port), &self.packets),
            Signal::Room => (self.outputs[id].get(port), &self.room),
        };
        match hears {
            Some(Hears::Any(givers)) => Some(givers.iter().map(|&g| (g, state[g]))),
            _ => None,
        }
    }
}

/// Finds the elements whose signal can reach a port. Nobody at all means that packets never come (or go).
fn search(plan: &Plan, id: ElementId, port: usize, signal: Signal) -> Hears {
    let upstream = signal == Signal::Packets;
    let mut found = Vec::new();
    let mut seen = vec![(id, port)];
    let mut next = 0;
    // `seen` holds ports of the asking side: inputs when looking upstream, outputs when looking downstream.
    while let Some(&(element, port)) = seen.get(next) {
        next += 1;
        let ends = if upstream { &plan.backward[element][port] } else { &plan.forward[element][port] };
        for &(other, at) in ends {
            let notes = plan.classes[other].notes;
            let (gives, side) = match upstream {
                true => (notes.signals_packets, &plan.inputs[other]),
                false => (notes.signals_room, &plan.outputs[other]),
            };
            if gives {
                found.push(other);
                continue;
            }
            let through = if upstream { Processing::Pull } else { Processing::Push };
            let flow = plan.classes[other].flow;
            let on: Vec<usize> = (0..side.len())
                .filter(|&p| side[p] == through)
                .filter(|&p| if upstream { ports::flows(flow, p, at) } else { ports::flows(flow, at, p) })
                .collect();
            // Where the way ends at somebody who gives no signal, there may always be packets, or room.
            if on.is_empty() {
                return Hears::Always;
            }
            for p in on {
                if !seen.contains(&(other, p)) {
                    seen.push((other, p));
                }
            }
        }
    }
    if found.is_empty() && !upstream {
        return Hears::Always;
    }
    found.sort_unstable();
    found.dedup();
    Hears::Any(found)
}
