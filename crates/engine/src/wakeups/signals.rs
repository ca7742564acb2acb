//! Signals between elements (Click's notifiers): there are packets to pull, or there is room to push.
//!
//! An element that gives a signal turns it on and off. An element that pulls (or pushes) asks if any signal
//! that can reach its port is on. A signal for packets travels downstream along pull connections; a signal
//! for room travels upstream along push connections. Both pass through elements that only pass packets on.

use element::ports::{self, Processing};
use element::{ElementId, Signal};

use crate::plan::Plan;

/// The signals that a port hears: the signals of all elements from which a path leads to the port. The path
/// must not pass through another element that gives a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hears {
    /// A path ends at an element that gives no signal, so packets (or room) must be expected at any time.
    Always,
    /// Packets (or room) must be expected if any of these elements has its signal on.
    Any(Vec<ElementId>),
}

pub(crate) struct Signals {
    /// For each element, true if its signal for packets is on. The field `room` has the same for its signal
    /// for room.
    packets: Vec<bool>,
    room: Vec<bool>,
    /// For each element and input, the signals for packets that the input hears. The field `outputs` has the
    /// signals for room that each output hears.
    inputs: Vec<Vec<Hears>>,
    outputs: Vec<Vec<Hears>>,
    /// For each element, the elements whose tasks are scheduled when its signal for packets is turned on. The
    /// field `room_listeners` has the same for its signal for room.
    packet_listeners: Vec<Vec<ElementId>>,
    room_listeners: Vec<Vec<ElementId>>,
    /// For each element, the elements in the middle of pull paths that hear its signal for packets and give a
    /// signal themselves. Their signal is turned on together with the signal of this element.
    relays: Vec<Vec<ElementId>>,
    /// Scratch memory of [`spread`](Self::spread): the elements whose signal was turned on, then the
    /// elements to wake.
    woken: Vec<ElementId>,
}

impl Signals {
    pub(crate) fn new(plan: &Plan) -> Signals {
        let n = plan.len();
        let mut signals = Signals {
            packets: vec![true; n],
            room: vec![true; n],
            inputs: hears(plan, Signal::Packets),
            outputs: hears(plan, Signal::Room),
            packet_listeners: vec![Vec::new(); n],
            room_listeners: vec![Vec::new(); n],
            relays: vec![Vec::new(); n],
            woken: Vec::with_capacity(n),
        };
        let signal_sources = |hears: &Hears| match hears {
            Hears::Always => Vec::new(),
            Hears::Any(signal_sources) => signal_sources.clone(),
        };
        for id in 0..n {
            // An element in the middle of a pull path has no task that could be woken.
            let ends_pull_path = !plan.outputs[id].contains(&Processing::Pull);
            let relays = !ends_pull_path && plan.classes[id].notes.signals_packets;
            let wake = match ends_pull_path {
                true => Some(&mut signals.packet_listeners),
                false => relays.then_some(&mut signals.relays),
            };
            if let Some(wake) = wake {
                signals.inputs[id].iter().flat_map(signal_sources).for_each(|giver| wake[giver].push(id));
            }
            let starts_push_path = !plan.inputs[id].contains(&Processing::Push);
            if starts_push_path {
                let heard = signals.outputs[id].iter().flat_map(signal_sources);
                heard.for_each(|giver| signals.room_listeners[giver].push(id));
            }
        }
        signals
    }

    /// True if a port hears a signal that is on, or must expect packets (or room) at any time.
    pub(crate) fn heard(&self, id: ElementId, signal: Signal, port: usize) -> bool {
        let (hears, state) = match signal {
            Signal::Packets => (self.inputs[id].get(port), &self.packets),
            Signal::Room => (self.outputs[id].get(port), &self.room),
        };
        match hears {
            Some(Hears::Any(signal_sources)) => signal_sources.iter().any(|&g| state[g]),
            _ => true,
        }
    }

    /// Turns a signal on or off. If this turns it on, returns the elements whose tasks are to be scheduled.
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

    /// Turns on the signals for packets of the relays of an element (elements in the middle of pull paths
    /// that pass its signal on), and of the relays of these. Returns the elements whose tasks are to be
    /// scheduled.
    fn spread(&mut self, id: ElementId) -> &[ElementId] {
        self.woken.clear();
        self.woken.push(id);
        let mut next = 0;
        // The loop collects the elements whose signal was turned on. The listeners of each of them are
        // added afterwards.
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

    /// Returns the elements whose signals a port hears, each with the state of its signal: an input for
    /// packets, an output for room. Returns `None` if packets (or room) must be expected at any time, or if
    /// there is no such port.
    pub(crate) fn signal_sources(
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
            Some(Hears::Any(signal_sources)) => Some(signal_sources.iter().map(|&g| (g, state[g]))),
            _ => None,
        }
    }
}

/// Returns the signals that each port hears, by element and port: for packets at inputs, for room at
/// outputs.
///
/// Each signal is followed from the element that gives it to all ports that hear it. So the time grows with
/// the number of connections and of signals heard, not with the number of paths.
fn hears(plan: &Plan, signal: Signal) -> Vec<Vec<Hears>> {
    let upstream = signal == Signal::Packets;
    let (sides, through) = match upstream {
        true => (&plan.inputs, Processing::Pull),
        false => (&plan.outputs, Processing::Push),
    };
    // Ports are numbered consecutively over all elements. `first` has the number of each element's first
    // port.
    let first: Vec<usize> =
        sides.iter().scan(0, |next, side| Some(std::mem::replace(next, *next + side.len()))).collect();
    let asks = |element: ElementId, port: usize| sides[element][port] == through;
    let ports =
        || (0..plan.len()).flat_map(|element| (0..sides[element].len()).map(move |port| (element, port)));
    // For each port, the ports that hear every signal that this port hears. For each element, the ports that
    // hear the element directly.
    let mut followers = vec![Vec::new(); ports().count()];
    let mut listeners = vec![Vec::new(); plan.len()];
    let mut always = Vec::new();
    for (element, port) in ports() {
        let number = first[element] + port;
        if !asks(element, port) {
            always.push(number);
            continue;
        }
        let ends = if upstream { &plan.backward[element][port] } else { &plan.forward[element][port] };
        for &(other, at) in ends {
            let notes = plan.classes[other].notes;
            if if upstream { notes.signals_packets } else { notes.signals_room } {
                listeners[other].push(number);
                continue;
            }
            let flow = plan.classes[other].flow;
            let leads =
                |p: usize| if upstream { ports::flows(flow, p, at) } else { ports::flows(flow, at, p) };
            let mut ends_here = true;
            for p in (0..sides[other].len()).filter(|&p| asks(other, p) && leads(p)) {
                ends_here = false;
                followers[first[other] + p].push(number);
            }
            // A path that ends at an element without a signal may give packets, or have room, at any time.
            if ends_here {
                always.push(number);
            }
        }
    }
    let mut seen: Vec<Option<ElementId>> = vec![None; followers.len()];
    let mut is_always = vec![false; followers.len()];
    while let Some(number) = always.pop() {
        if !std::mem::replace(&mut is_always[number], true) {
            always.extend_from_slice(&followers[number]);
        }
    }
    let mut heard = vec![Vec::new(); followers.len()];
    for (giver, mut reached) in listeners.into_iter().enumerate() {
        while let Some(number) = reached.pop() {
            if seen[number].replace(giver) != Some(giver) && !is_always[number] {
                heard[number].push(giver);
                reached.extend_from_slice(&followers[number]);
            }
        }
    }
    // A port that is reached neither by a signal nor by a path without a signal never gets packets, but
    // always has room.
    let mut all = is_always.into_iter().zip(heard).map(|(is_always, heard)| match is_always {
        _ if heard.is_empty() && !upstream => Hears::Always,
        true => Hears::Always,
        false => Hears::Any(heard),
    });
    sides.iter().map(|side| all.by_ref().take(side.len()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use element::class::Notes;
    use element::{Class, Effects, Element, Registry};
    use fastrand::Rng;

    use super::*;

    struct Idle;
    impl Element for Idle {
        fn effects(&self) -> Effects {
            Effects::cases(Vec::new())
        }
    }

    const PLAIN: Class = Class {
        build: |args| {
            args.finish()?;
            Ok(Box::new(Idle))
        },
        ..Class::DEFAULT
    };
    static START: Class = Class { name: "Start", ports: "0/1", processing: "h", ..PLAIN };
    static MERGE: Class = Class { name: "Merge", ports: "1/1", ..PLAIN };
    static FORK: Class = Class { name: "Fork", ports: "1/-", processing: "h", ..PLAIN };
    static CHOOSE: Class = Class { name: "Choose", ports: "-/1", processing: "l", ..PLAIN };
    // An element whose second output gets no packets from its input, by its flow code.
    static SIDE: Class = Class { name: "Side", ports: "1/2", processing: "h", flow: "x/xy", ..PLAIN };
    static STORE: Class = Class {
        name: "Store",
        ports: "1/1",
        processing: "h/l",
        notes: Notes { signals_packets: true, signals_room: true, ..Notes::NONE },
        ..PLAIN
    };
    static SILENT: Class = Class { name: "Silent", ports: "1/1", processing: "h/l", ..PLAIN };
    static PUMP: Class = Class { name: "Pump", ports: "1/1", processing: "l/h", ..PLAIN };
    static END: Class = Class { name: "End", ports: "1/0", ..PLAIN };

    fn plan(text: &str) -> Option<Plan> {
        let mut sources = lang::Sources::new();
        let id = sources.add("test", text.to_string());
        let (graph, _) = lang::parse(&mut sources, id, &lang::Options::default());
        let classes: [&'static Class; 9] =
            [&START, &MERGE, &FORK, &CHOOSE, &SIDE, &STORE, &SILENT, &PUMP, &END];
        Plan::new(graph, &Registry::new().with(&classes)).ok()
    }

    /// Makes the text of a random configuration: push paths that fork and join and end in elements with a
    /// pull output (`Store`, `Silent`), and pull paths that begin at these elements.
    fn random(r: &mut Rng) -> String {
        let (mut text, mut declared) = (String::new(), "c :: Choose;\n".to_string());
        let [pushes, stores] = [r.usize(1..8), r.usize(1..6)];
        for number in 0..pushes {
            let class = ["Merge", "Merge", "Fork", "Side"][r.usize(..4)];
            declared += &format!("p{number} :: {class};\n");
            let outputs = match class {
                "Fork" => r.usize(1..4),
                "Side" => 2,
                _ => 1,
            };
            for output in 0..outputs {
                // The target may be upstream, so that there are circles.
                let to = match r.usize(..3) {
                    0 => format!("p{}", r.usize(..pushes)),
                    1 => format!("s{}", r.usize(..stores)),
                    _ => "End".into(),
                };
                text += &format!("p{number}[{output}] -> {to};\n");
            }
            text += &format!("Start -> p{number};\n");
        }
        for number in 0..stores {
            let class = ["Store", "Store", "Silent"][r.usize(..3)];
            declared += &format!("s{number} :: {class};\n");
            text += &format!("Start -> s{number};\n");
            text += &format!("s{number} -> {} [{number}] c;\n", ["", "Merge ->"][r.usize(..2)]);
        }
        let behind = match r.usize(..3) {
            0 => format!("Merge -> Pump -> p{}", r.usize(..pushes)),
            1 => "Merge -> Store -> Merge -> Pump -> End".into(),
            _ => "Pump -> Store -> Pump -> End".into(),
        };
        format!("{declared}{text}c -> {behind};\n")
    }

    /// Returns the signals that a port hears, found by a plain search from the port along every path, to
    /// compare with `hears`.
    fn search(plan: &Plan, id: ElementId, port: usize, signal: Signal) -> Hears {
        let upstream = signal == Signal::Packets;
        let (sides, through) = match upstream {
            true => (&plan.inputs, Processing::Pull),
            false => (&plan.outputs, Processing::Push),
        };
        if sides[id][port] != through {
            return Hears::Always;
        }
        let (mut found, mut seen, mut next) = (Vec::new(), vec![(id, port)], 0);
        while let Some(&(element, port)) = seen.get(next) {
            next += 1;
            let ends = if upstream { &plan.backward[element][port] } else { &plan.forward[element][port] };
            for &(other, at) in ends {
                let notes = plan.classes[other].notes;
                if if upstream { notes.signals_packets } else { notes.signals_room } {
                    found.push(other);
                    continue;
                }
                let flow = plan.classes[other].flow;
                let leads = |p: usize| match upstream {
                    true => ports::flows(flow, p, at),
                    false => ports::flows(flow, at, p),
                };
                let on = (0..sides[other].len()).filter(|&p| sides[other][p] == through && leads(p));
                let on: Vec<usize> = on.collect();
                if on.is_empty() {
                    return Hears::Always;
                }
                on.into_iter().for_each(|p| match seen.contains(&(other, p)) {
                    true => {}
                    false => seen.push((other, p)),
                });
            }
        }
        found.sort_unstable();
        found.dedup();
        if found.is_empty() && !upstream { Hears::Always } else { Hears::Any(found) }
    }

    #[test]
    fn ports_hear_whom_a_search_finds() {
        let (mut plans, mut heard) = (0, 0);
        for seed in 0..3000 {
            let text = random(&mut Rng::with_seed(seed));
            let Some(plan) = plan(&text) else { continue };
            plans += 1;
            for (signal, sides) in [(Signal::Packets, &plan.inputs), (Signal::Room, &plan.outputs)] {
                let all = hears(&plan, signal);
                for (id, side) in sides.iter().enumerate() {
                    let found: Vec<_> = (0..side.len()).map(|port| search(&plan, id, port, signal)).collect();
                    heard += found.iter().filter(|hears| matches!(hears, Hears::Any(_))).count();
                    assert_eq!(
                        all[id], found,
                        "seed {seed}, {signal:?} at {}:\n{text}",
                        plan.graph.elements[id].name
                    );
                }
            }
        }
        assert!(plans > 1000 && heard > 5000, "{plans} graphs, {heard} ports");
    }

    /// Long chains and wide forks, for which a separate search from each port took hours.
    #[test]
    fn long_rows_and_wide_forks_are_quick() {
        const MANY: usize = 50_000;
        let row = format!("Start -> {}Store -> Pump -> End;", "Merge -> ".repeat(MANY));
        let wide: String = (0..MANY).map(|output| format!("f[{output}] -> s;\n")).collect();
        for text in [row, format!("Start -> f :: Fork; s :: Store -> Pump -> End;\n{wide}")] {
            let plan = plan(&text).unwrap();
            let room = hears(&plan, Signal::Room);
            let heard = room.iter().flatten().filter(|hears| matches!(hears, Hears::Any(_))).count();
            assert!(heard >= MANY, "{heard}");
        }
    }
}
