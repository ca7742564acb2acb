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
            inputs: hears(plan, Signal::Packets),
            outputs: hears(plan, Signal::Room),
            packet_listeners: vec![Vec::new(); n],
            room_listeners: vec![Vec::new(); n],
            relays: vec![Vec::new(); n],
            woken: Vec::with_capacity(n),
        };
        let givers = |hears: &Hears| match hears {
            Hears::Always => Vec::new(),
            Hears::Any(givers) => givers.clone(),
        };
        for id in 0..n {
            // Elements in the middle of a pull path have no task to wake.
            let ends_pull_path = !plan.outputs[id].contains(&Processing::Pull);
            let relays = !ends_pull_path && plan.classes[id].notes.signals_packets;
            let wake = match ends_pull_path {
                true => Some(&mut signals.packet_listeners),
                false => relays.then_some(&mut signals.relays),
            };
            if let Some(wake) = wake {
                signals.inputs[id].iter().flat_map(givers).for_each(|giver| wake[giver].push(id));
            }
            let starts_push_path = !plan.inputs[id].contains(&Processing::Push);
            if starts_push_path {
                let heard = signals.outputs[id].iter().flat_map(givers);
                heard.for_each(|giver| signals.room_listeners[giver].push(id));
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

/// The elements that each port hears a signal of, by element and port: inputs of packets, outputs of room.
///
/// Each signal is followed from who gives it to all who hear it, so that this takes as long as there are connections and
/// signals that are heard.
fn hears(plan: &Plan, signal: Signal) -> Vec<Vec<Hears>> {
    let upstream = signal == Signal::Packets;
    let (sides, through) = match upstream {
        true => (&plan.inputs, Processing::Pull),
        false => (&plan.outputs, Processing::Push),
    };
    // Ports are numbered in one row.
    let first: Vec<usize> =
        sides.iter().scan(0, |next, side| Some(std::mem::replace(next, *next + side.len()))).collect();
    let asks = |element: ElementId, port: usize| sides[element][port] == through;
    let ports =
        || (0..plan.len()).flat_map(|element| (0..sides[element].len()).map(move |port| (element, port)));
    // By port: the ports that hear what it hears. By element: those that hear it itself.
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
            // Where the way ends at somebody who gives no signal, there may always be packets, or room.
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
    // Nobody at all means that packets never come, and that there is always room.
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
    // Its second output is not for what comes in.
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

    /// A graph of push paths that fork and come together, into stores, and of pull paths out of them.
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
                // Circles as well.
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

    /// The elements that one port hears, by the plain search: from the port along every way.
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

    /// With a search per port these took hours.
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
