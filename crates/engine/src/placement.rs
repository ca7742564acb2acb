//! Decides which workers do the work of each element, from the declared effects of the elements.
//!
//! Each worker has a copy of the graph. An element without state, or with state per core, works on every
//! copy. An element with an entry per flow also works on every copy, each copy for the flows whose home is
//! its worker. An element with a single destination or source outside of the graph (such as a file) works on
//! one copy only. So does an element with state that every packet must see; [`own_place`] has further
//! reasons. Packets for it are handed over to the worker of this copy.
//!
//! Packets of one flow may be spread over workers ([`Spreading`](element::steering::Spreading)). Then they
//! are spread directly after their sources. An element with an entry per flow works on every copy for any
//! packet if it can read the entries of other workers. Packets that open and close connections are sent to
//! the worker that has the entry.
//!
//! The user can have elements offloaded ([`Plan::offload`](crate::Plan::offload)), so that their work takes
//! no time of the workers that do the rest. The last worker then does the work of the offloaded elements. It
//! also does the work upstream of them, as far as this is the work of sources and of elements without state:
//! packets then go to the other workers only once. No flow belongs to the last worker.
//!
//! The result is an [`ElementWorkers`] for each element, and from two places the [`Way`] of each connection.

use element::effects::{Action, Field, Hold, Leaves, State, StateAccess, Target as Fate, wire_field};
use element::ports::Processing;
use element::{Base, Effects, ElementId, Setup};

use crate::plan::Plan;

/// The workers that do an element's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementWorkers {
    /// Every worker, for any packet. An interface receives only at workers to which flows belong
    /// ([`Plan::owners`](crate::Plan::owners)).
    Everywhere,
    /// Every worker to which flows belong, each for the packets of flows whose home it is.
    Owner,
    /// The worker with this number alone.
    One(usize),
}

/// The places of all elements of a graph (the workers that do their work), and the facts that decide the ways
/// of packets between elements.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The place of each element, which is the worker or the workers that do its work, indexed by element
    /// number.
    pub places: Vec<ElementWorkers>,
    /// For each element that works on one worker only, the reason.
    pub reasons: Vec<Option<String>>,
    /// The number of workers to which flows belong: all workers, or all but the last.
    owners: usize,
    /// The number of workers.
    workers: usize,
    /// For each element, true if it is a source.
    receives: Vec<bool>,
    /// For each element, true if the user has assigned it to a thread. Packets that it passes on stay at that
    /// thread's worker, unless the next element works for the flows of each worker, or at another worker.
    assigned: Vec<bool>,
    /// For each element, true if all packets that it passes on are certainly at their home, the worker that
    /// owns the state of their flow.
    sorted: Vec<bool>,
    /// For each element, true if all packets that it passes on are at the home of the flow that their frame
    /// names, by the headers that follow its link header. An element that marks network headers keeps this
    /// true, but it may mark another header, which names another flow.
    framed: Vec<bool>,
    /// True if packets of one flow are spread over workers.
    is_spread: bool,
    /// For each element, true if packets are spread and the element can read the state of flows that other
    /// workers own.
    finds: Vec<bool>,
    /// For each element, true if packets are spread and the element is a source whose packets have not been
    /// spread yet.
    gives: Vec<bool>,
    /// For each element, true if packets are spread and packets from this element may come to an element that
    /// can read the state of other workers' flows. The packets must keep their addresses and ports on the
    /// way.
    meets_boards: Vec<bool>,
}

/// The way by which a batch gets to the input of an element: which worker gets each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Every packet stays at the worker that has it.
    Here,
    /// Each packet goes to its home, the worker that owns the state of its flow.
    ToOwner,
    /// Each packet goes to the worker that the spreading policy chooses.
    Spread,
    /// Each packet goes to its home, the worker that owns the state of its flow, unless any worker may
    /// process the packet: then it stays at the worker that has it.
    Stay,
    /// All packets go to this worker.
    To(usize),
    /// All packets go on at this worker, in the next generation of the graph.
    Heir,
}

/// Facts about the packets that an element passes on, from which the exchange decides which worker gets them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    /// True if each packet is certainly at its home, the worker that owns the state of its flow.
    pub(crate) is_home: bool,
    /// True if each packet whose network header is marked where its frame has it
    /// ([`Packet::is_marked_in_frame`](element::Packet::is_marked_in_frame)) is at its home.
    pub(crate) is_framed: bool,
    /// True if the packets may come to an element that can read the state of other workers' flows, and keep
    /// their addresses and ports on the way. Then an unknown flow can be recognised early
    /// (`exchange/unknown_flows.rs`).
    pub(crate) meets_boards: bool,
}

impl Placement {
    /// Decides the place of each element for `workers` workers. With one worker, every place is
    /// [`ElementWorkers::Everywhere`].
    pub fn new(plan: &Plan, effects: &[Effects], setup: &Setup, workers: usize) -> Placement {
        let mut placement = Placement {
            places: vec![ElementWorkers::Everywhere; plan.len()],
            reasons: vec![None; plan.len()],
            owners: plan.owners(workers),
            workers,
            receives: (0..plan.len())
                .map(|id| plan.inputs[id].is_empty() && !plan.outputs[id].is_empty())
                .collect(),
            assigned: vec![false; plan.len()],
            sorted: vec![true; plan.len()],
            framed: vec![false; plan.len()],
            is_spread: workers > 1 && setup.spreading.is_some(),
            finds: vec![false; plan.len()],
            gives: vec![false; plan.len()],
            meets_boards: vec![false; plan.len()],
        };
        if workers <= 1 {
            return placement;
        }
        if placement.is_spread {
            placement.finds = effects.iter().map(|effects| effects.finds_state).collect();
            let gives = |id: usize| plan.inputs[id].is_empty() && effects[id].leaves != Leaves::Spread;
            placement.gives = (0..plan.len()).map(gives).collect();
        }
        let keeps_order = setup.spreading.as_ref().is_some_and(|spreading| spreading.keeps_order());
        for (id, effects) in effects.iter().enumerate() {
            let (place, reason) = match setup.threads.get(&id) {
                Some(&thread) => {
                    placement.assigned[id] = true;
                    (
                        ElementWorkers::One(thread % workers),
                        Some(format!("it is assigned to thread {thread}")),
                    )
                }
                None => own_place(plan, id, effects, keeps_order),
            };
            (placement.places[id], placement.reasons[id]) = (place, reason);
        }
        placement.offload(plan, effects, workers - 1);
        // If an element uses the state of other elements, or acts for other elements, and one of those works
        // on one worker only, the element works on the same worker, unless the user has assigned the element
        // to a thread.
        let beside =
            effects.iter().enumerate().map(|(id, effects)| (id, &effects.beside, "uses the state of"));
        let standing = effects.iter().enumerate().map(|(id, effects)| (id, &effects.replaces, "stands for"));
        for (id, others, why) in beside.chain(standing) {
            let other =
                others.iter().find(|&&other| matches!(placement.places[other], ElementWorkers::One(_)));
            if let Some(&other) = other.filter(|_| !placement.assigned[id]) {
                let name = &plan.graph.elements[other].name;
                placement.places[id] = placement.places[other];
                placement.reasons[id] = Some(format!("it {why} '{name}'"));
            }
        }
        if placement.is_spread {
            placement.meets_boards =
                (0..plan.len()).map(|id| placement.find_boards(plan, effects, id)).collect();
        }
        placement.join_pulled(plan);
        placement.find_sorted(plan, effects);
        placement
    }

    /// Gives the offloaded elements, and what is upstream of them, to the worker `last`. Elements whose state
    /// an offloaded element uses, or for which it acts, are offloaded with it. Going upstream ends at
    /// elements with state that packets write, at elements that the user has assigned to a thread, at
    /// interfaces that also take packets, and at elements that belong to others
    /// ([`Notes::is_paired`](element::class::Notes), [`Effects::beside`]).
    fn offload(&mut self, plan: &Plan, effects: &[Effects], last: usize) {
        let mut is_bound: Vec<bool> = plan.classes.iter().map(|class| class.notes.is_paired).collect();
        for (id, effects) in effects.iter().enumerate() {
            for &other in effects.beside.iter().chain(&effects.replaces) {
                (is_bound[id], is_bound[other]) = (true, true);
            }
        }
        let mut is_offloaded = vec![false; plan.len()];
        // Elements that share state, directly or through others, are offloaded together.
        let partners = |id: usize| effects[id].beside.iter().chain(&effects[id].replaces).copied();
        let mut named = plan.offloaded.clone();
        while let Some(id) = named.pop() {
            if !self.assigned[id] && !std::mem::replace(&mut is_offloaded[id], true) {
                self.places[id] = ElementWorkers::One(last);
                self.reasons[id] = Some("it is offloaded".into());
                named.extend(partners(id));
                named.extend((0..plan.len()).filter(|&other| partners(other).any(|of| of == id)));
            }
        }
        let mut next: Vec<_> = (0..plan.len()).filter(|&id| is_offloaded[id]).collect();
        let mut is_done = is_offloaded;
        while let Some(id) = next.pop() {
            for &(from, _) in plan.backward[id].iter().flatten() {
                let is_source = plan.inputs[from].is_empty();
                let makes = effects[from].emits.iter().any(|emit| !emit.is_copy());
                let moves = match self.places[from] {
                    _ if self.assigned[from] || is_bound[from] => false,
                    ElementWorkers::Everywhere => is_source || !makes,
                    ElementWorkers::One(_) => is_source,
                    ElementWorkers::Owner => false,
                };
                if moves && !std::mem::replace(&mut is_done[from], true) {
                    self.places[from] = ElementWorkers::One(last);
                    self.reasons[from] = Some("its packets go to an offloaded element".into());
                    next.push(from);
                }
            }
        }
    }

    /// Gives elements that pull from each other, directly or through other elements, the same place. It is
    /// the place of an element that the user has assigned to a thread, or else the strictest of their places:
    /// one worker, then each flow's own worker, then any worker.
    fn join_pulled(&mut self, plan: &Plan) {
        let mut done = vec![false; plan.len()];
        for start in 0..plan.len() {
            if std::mem::replace(&mut done[start], true) {
                continue;
            }
            let mut group = vec![start];
            let mut next = 0;
            while let Some(&id) = group.get(next) {
                next += 1;
                for (other, _) in pulled(plan, id) {
                    if !std::mem::replace(&mut done[other], true) {
                        group.push(other);
                    }
                }
            }
            let is_named = |id| self.owners < self.workers && plan.offloaded.contains(&id);
            let strictness = |place| match place {
                ElementWorkers::Everywhere => (0, 0),
                ElementWorkers::Owner => (1, 0),
                ElementWorkers::One(worker) => (2, usize::MAX - worker),
            };
            let Some(&leader) = group
                .iter()
                .max_by_key(|&&id| (self.assigned[id], is_named(id), strictness(self.places[id])))
            else {
                continue;
            };
            let place = self.places[leader];
            for id in group {
                if self.places[id] != place {
                    self.places[id] = place;
                    if let ElementWorkers::One(_) = place {
                        let name = &plan.graph.elements[leader].name;
                        self.reasons[id] = Some(format!("packets are pulled through it by or from {name}"));
                    }
                }
            }
        }
    }

    /// Finds the elements that pass on packets only at their home, the worker that owns the state of their
    /// flow. Such an element gets all of its packets there, and either changes no field that distinguishes
    /// flows, or chooses the home of a changed flow.
    fn find_sorted(&mut self, plan: &Plan, effects: &[Effects]) {
        // An element keeps packets at their home if it neither makes packets nor changes their flow. So does
        // an element that chooses the home of a changed flow itself.
        let keeps: Vec<bool> = (0..plan.len())
            .map(|id| {
                let makes = effects[id].emits.iter().any(|emit| !emit.is_copy());
                let comes_in = plan.inputs[id].is_empty() || makes;
                let renames =
                    effects[id].opaque.is_some() || effects[id].writes().iter().any(tells_flows_apart);
                (effects[id].leaves == Leaves::AtHome || !comes_in && !renames)
                    && !matches!(self.places[id], ElementWorkers::One(_))
            })
            .collect();
        self.sorted = keeps.clone();
        // The loop repeats until no flag in `sorted` changes, because the graph may have cycles, so that an
        // element may also be upstream of itself.
        loop {
            let before = self.sorted.clone();
            for id in 0..plan.len() {
                self.sorted[id] &= plan.backward[id].iter().flatten().all(|&(from, _)| {
                    match self.way_if(from, id, before[from]) {
                        Way::ToOwner => true,
                        Way::Spread => false,
                        Way::Here | Way::To(_) | Way::Stay | Way::Heir => before[from],
                    }
                });
            }
            if self.sorted == before {
                break;
            }
        }
        self.find_framed(plan, effects);
    }

    /// Finds the elements that pass on packets only at the home of the flow that their frame names
    /// (`framed`).
    fn find_framed(&mut self, plan: &Plan, effects: &[Effects]) {
        // Packets that got to a home before any element marked their network header, or stripped bytes, are
        // at the home that their frame names.
        let strips = |case: &element::effects::Case| {
            case.actions.iter().any(|action| !matches!(action, Action::Set(..)))
        };
        let marks = |effects: &Effects| {
            effects.opaque.is_some()
                || effects.cases.iter().any(strips)
                || effects.writes().contains(&Field::HeaderOffset(Base::Network))
        };
        let mut is_marked: Vec<bool> = effects.iter().map(marks).collect();
        let mut next: Vec<_> = (0..plan.len()).filter(|&id| is_marked[id]).collect();
        while let Some(id) = next.pop() {
            for &(to, _) in plan.forward[id].iter().flatten() {
                if !std::mem::replace(&mut is_marked[to], true) {
                    next.push(to);
                }
            }
        }
        let keeps = |id: usize| {
            let effects = &effects[id];
            let makes = effects.emits.iter().any(|emit| !emit.is_copy());
            match plan.inputs[id].is_empty() {
                true => effects.leaves == Leaves::AtHome,
                false => !makes && effects.opaque.is_none() && !effects.writes().iter().any(changes_frame),
            }
        };
        let is_one = |id: usize| matches!(self.places[id], ElementWorkers::One(_));
        self.framed = (0..plan.len()).map(|id| keeps(id) && !is_one(id)).collect();
        loop {
            let before = self.framed.clone();
            for id in 0..plan.len() {
                self.framed[id] &=
                    plan.backward[id].iter().flatten().all(|&(from, _)| match self.way(from, id) {
                        Way::ToOwner => before[from] || !is_marked[from],
                        Way::Spread | Way::To(_) => false,
                        Way::Here | Way::Stay | Way::Heir => before[from],
                    });
            }
            if self.framed == before {
                return;
            }
        }
    }

    /// Returns the way of packets from an output of the element `from` to an input of the element `to`: the
    /// rule by which each packet gets to a worker.
    pub(crate) fn way(&self, from: ElementId, to: ElementId) -> Way {
        self.way_if(from, to, self.sorted[from])
    }

    /// Returns the way of packets that come from outside of the graph to an input of an element: the rule by
    /// which each packet gets to a worker.
    pub(crate) fn way_into(&self, to: ElementId) -> Way {
        match self.places[to] {
            ElementWorkers::One(there) => Way::To(there),
            ElementWorkers::Owner => Way::ToOwner,
            // Elements downstream rely on packets being at their home.
            ElementWorkers::Everywhere if self.framed[to] || self.sorted[to] => Way::ToOwner,
            ElementWorkers::Everywhere => Way::Here,
        }
    }

    /// Like [`way`](Self::way), where `sorted` is true if packets leave `from` at the worker that owns their
    /// flow.
    fn way_if(&self, from: ElementId, to: ElementId, sorted: bool) -> Way {
        let is_one = matches!(self.places[from], ElementWorkers::One(_)) && !self.assigned[from];
        match (self.places[from], self.places[to]) {
            (ElementWorkers::One(here), ElementWorkers::One(there)) if here == there => Way::Here,
            (_, ElementWorkers::One(there)) => Way::To(there),
            (_, ElementWorkers::Owner) if !self.finds[to] => {
                if sorted {
                    Way::Here
                } else {
                    Way::ToOwner
                }
            }
            _ if self.is_spread && (is_one || self.gives[from]) => Way::Spread,
            (_, ElementWorkers::Owner) if !sorted => Way::Stay,
            _ if is_one => Way::ToOwner,
            _ => Way::Here,
        }
    }

    /// Returns the elements at several workers that keep state for flows by addresses and ports and may get
    /// fragments, which have no ports. Fragments may come to another worker than the one that owns their
    /// flow. So such an element may decide otherwise about a fragment than it would with a single worker.
    pub fn meet_fragments(&self, plan: &Plan, effects: &[Effects]) -> Vec<ElementId> {
        let comes_from_outside = |id: usize| {
            let notes = plan.classes[id].notes;
            plan.inputs[id].is_empty() && (notes.is_live || notes.follows_captures)
        };
        let (mut seen, mut found) = (vec![false; plan.len()], Vec::new());
        let mut next: Vec<_> = (0..plan.len()).filter(|&id| comes_from_outside(id)).collect();
        while let Some(id) = next.pop() {
            for &(to, _) in plan.forward[id].iter().flatten() {
                if std::mem::replace(&mut seen[to], true) || joins_fragments(&effects[to]) {
                    continue;
                }
                let is_split = !matches!(self.places[to], ElementWorkers::One(_));
                if is_split && effects[to].state.iter().any(goes_by_ports) {
                    found.push(to);
                }
                next.push(to);
            }
        }
        found.sort_unstable();
        found
    }

    /// Returns the elements at which packets may be sent home, which means to the worker that owns the state
    /// of their flow. Upstream elements come first.
    pub(crate) fn aside(&self, plan: &Plan) -> Vec<ElementId> {
        let mut order = plan.order().to_vec();
        order.retain(|&to| {
            let mut before = plan.backward[to].iter().flatten();
            self.finds.get(to) == Some(&true)
                || before.any(|&(from, _)| matches!(self.way(from, to), Way::ToOwner | Way::Stay))
        });
        order
    }

    /// Returns the facts about the packets that an element passes on from which the exchange decides which
    /// worker gets them.
    #[inline]
    pub(crate) fn origin(&self, id: ElementId) -> Origin {
        Origin {
            is_home: self.sorted[id],
            is_framed: self.framed[id],
            meets_boards: self.meets_boards.get(id) == Some(&true),
        }
    }

    /// True if packets from an element may come to an element that can read the state of all workers' flows.
    /// No element that the packets may come to before, on any path, may change addresses or ports.
    fn find_boards(&self, plan: &Plan, effects: &[Effects], from: ElementId) -> bool {
        let renames = |id: ElementId| {
            let is_field = |field: &Field| !matches!(field, Field::HeaderOffset(_));
            effects[id].opaque.is_some()
                || effects[id].writes().iter().any(|field| is_field(field) && tells_flows_apart(field))
        };
        let (mut seen, mut next, mut found) = (vec![false; plan.len()], vec![from], false);
        while let Some(id) = next.pop() {
            for &(to, _) in plan.forward[id].iter().flatten() {
                if self.finds[to] {
                    found = true;
                } else if !std::mem::replace(&mut seen[to], true) {
                    if renames(to) {
                        return false;
                    }
                    next.push(to);
                }
            }
        }
        found
    }

    /// True if a worker does an element's work.
    pub(crate) fn is_at(&self, id: ElementId, worker: usize) -> bool {
        match self.places[id] {
            ElementWorkers::One(place) => place == worker,
            ElementWorkers::Everywhere => worker < self.owners || !self.receives[id],
            ElementWorkers::Owner => worker < self.owners,
        }
    }
}

/// Returns the elements that an element pulls packets from, and the elements that pull packets from it, each
/// with the number of the port of that element.
fn pulled(plan: &Plan, id: ElementId) -> impl Iterator<Item = (ElementId, usize)> + '_ {
    let ends = |sides: &'_ [Processing], ends: &'_ [Vec<(ElementId, usize)>]| {
        let of_pull = sides.iter().zip(ends).filter(|(side, _)| **side == Processing::Pull);
        of_pull.flat_map(|(_, ends)| ends.clone()).collect::<Vec<_>>()
    };
    let inputs = ends(&plan.inputs[id], &plan.backward[id]);
    inputs.into_iter().chain(ends(&plan.outputs[id], &plan.forward[id]))
}

/// True if several workers may do an element's work at the same time, as far as its own effects decide.
pub(crate) fn runs_on_several(plan: &Plan, id: ElementId, effects: &Effects) -> bool {
    !matches!(own_place(plan, id, effects, false).0, ElementWorkers::One(_))
}

/// Returns the workers that do an element's work, decided by its own effects alone, and the reason if it is a
/// single worker.
fn own_place(
    plan: &Plan,
    id: ElementId,
    effects: &Effects,
    keeps_order: bool,
) -> (ElementWorkers, Option<String>) {
    let notes = plan.classes[id].notes;
    let one = |reason: String| (ElementWorkers::One(0), Some(reason));
    let (inputs, outputs) = (plan.inputs[id].len(), plan.outputs[id].len());
    // An element without ports gets no packets. If it has state, other elements use the state, and the
    // rules below decide.
    if inputs == 0 && outputs == 0 && effects.state.is_empty() {
        return one("no packets come to it".into());
    }
    let sends = notes.is_outside || effects.cases.iter().any(|case| case.to == Fate::Send);
    if sends && keeps_order {
        return one("it sends packets in order".into());
    }
    if !notes.has_queues {
        if sends {
            return one("it writes to a single destination".into());
        }
        if inputs == 0 && !effects.emits.is_empty() {
            return one("it has a single source of packets".into());
        }
    }
    if effects.hold == Hold::Replay && !notes.has_queues {
        return one("it stores packets and replays them in order".into());
    }
    let of_all = |state: &&State| !is_anywhere(state) && !is_per_flow(state);
    if let Some(state) = effects.state.iter().find(of_all) {
        return one(format!("all packets share its state '{}'", state.table));
    }
    let renames = || effects.writes().iter().any(tells_flows_apart);
    if let Some(state) = effects.state.iter().find(|state| state.both_directions && is_written(state))
        && effects.leaves != Leaves::AtHome
        && renames()
    {
        return one(format!(
            "replies to flows of '{}' may belong to other workers than the flows",
            state.table
        ));
    }
    // State per core is merged by its readers, and shared state is used by all cores, so any worker may
    // process the packets. But if such state has an entry for each flow, an entry that only the flow's home
    // uses is better than an entry on each core, or an entry that several cores use.
    let has_owner = |state: &State| !is_anywhere(state) || is_per_flow(state);
    match effects.state.iter().any(has_owner) {
        true => (ElementWorkers::Owner, None),
        false => (ElementWorkers::Everywhere, None),
    }
}

/// True if packets change the state, and may do so only at their home, the worker that owns the flow.
fn is_written(state: &State) -> bool {
    !is_anywhere(state) && state.access != StateAccess::Read
}

/// True if packets at any worker may use the state, because its entries are per core or shared.
fn is_anywhere(state: &State) -> bool {
    matches!(state.access, StateAccess::Soft | StateAccess::Shared)
}

/// True if packets change the state, and the key of the state has a port.
fn goes_by_ports(state: &State) -> bool {
    let is_port = |field: &Field| matches!(field, Field::Bytes { base: Base::Transport, offset: 0..4, .. });
    is_written(state) && state.key.iter().any(is_port)
}

/// True if an element holds the fragments of a datagram until all of them have come: its state has the IP
/// identification in its key.
fn joins_fragments(effects: &Effects) -> bool {
    let is_identification = |field: &Field| *field == wire_field::IP_ID;
    effects.hold != Hold::None && effects.state.iter().any(|state| state.key.iter().any(is_identification))
}

/// True if all packets that use one entry of the state have one home, the worker that owns their flow. The
/// key of the state must have both addresses, and also the ports, the identifier of an ICMP query, or the
/// identification that fragments have in common instead of ports. A key with the addresses and ports of a
/// quoted packet is also enough.
fn is_per_flow(state: &State) -> bool {
    // True if the key of the state has all bytes from offset `from` up to, but without, offset `to` in the
    // header `base`. Addresses and ports are at different offsets in each kind of header, and fragments have
    // an identification in place of ports.
    let has = |base, from: i32, to: i32| {
        (from..to).all(|byte| {
            state.key.iter().any(|field| {
                matches!(field, Field::Bytes { base: b, offset, length }
                    if *b == base && (*offset..*offset + i32::from(*length)).contains(&byte))
            })
        })
    };
    let v4 = has(Base::Network, 12, 20);
    let v6 = has(Base::Network, 8, 40);
    let ports = has(Base::Transport, 0, 4) || has(Base::Network, 20, 24);
    let identifier = has(Base::Transport, 4, 6);
    let identification = has(Base::Network, 4, 6);
    let quoted = has(Base::Transport, 20, 32);
    (v4 || v6) && (ports || identifier || identification) || quoted
}

/// True if packets that differ in this field may have different homes (workers that own their flows).
fn tells_flows_apart(field: &Field) -> bool {
    let overlaps =
        |offset: i32, length: u16, from: i32, to: i32| offset < to && from < offset + i32::from(length);
    match field {
        Field::Bytes { base: Base::Network, offset, length } => {
            // The fragment offset and protocol of IPv4, and the addresses of both versions distinguish
            // flows. The fields that routers change do not: time to live and checksum in IPv4, hop limit in
            // IPv6.
            let routed = matches!((*offset, *length), (7 | 8, 1) | (10, 2));
            !routed && overlaps(*offset, *length, 6, i32::MAX)
        }
        Field::Bytes { base: Base::Transport, offset, length } => {
            // Bytes 0 to 5 of the transport header contain the ports of TCP and UDP, or the type and the
            // identifier of ICMP. They also contain the checksum of ICMP, which is at the offset of the
            // destination port of TCP and UDP, so it counts too.
            overlaps(*offset, *length, 0, 6)
        }
        Field::Bytes { base: Base::Data, .. } => true,
        Field::Payload | Field::HeaderOffset(Base::Network) => true,
        _ => false,
    }
}

/// True if a change of this field may change the flow that a frame names. The fields are those of
/// [`tells_flows_apart`] without the offset of the network header, and with the type in the link header.
fn changes_frame(field: &Field) -> bool {
    match field {
        Field::HeaderOffset(Base::Network) => false,
        Field::Bytes { base: Base::Mac, offset, length } => offset + i32::from(*length) > 12,
        field => tells_flows_apart(field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(key: &[Field]) -> State {
        State { table: "t", key: key.to_vec(), both_directions: false, access: StateAccess::EveryPacket }
    }

    #[test]
    fn keys_with_both_ends_are_per_flow() {
        let bytes = |base, offset, length| Field::Bytes { base, offset, length };
        let ends = [wire_field::IP_SRC, wire_field::IP_DST];
        let ports = [wire_field::SRC_PORT, wire_field::DST_PORT];
        assert!(is_per_flow(&state(&[&ends[..], &ports].concat())));
        assert!(is_per_flow(&state(&[&ends[..], &[wire_field::IP_ID]].concat())));
        assert!(is_per_flow(&state(&[bytes(Base::Network, 0, 128)])));
        assert!(is_per_flow(&state(&[bytes(Base::Transport, 16, 16)])), "of a quoted packet");
        assert!(!is_per_flow(&state(&ends)), "packets of several flows share an entry");
        assert!(!is_per_flow(&state(&[&ends[..1], &ports].concat())));
        assert!(!is_per_flow(&state(&[])));
    }

    #[test]
    fn routers_leave_flows_as_they_are() {
        assert!(!tells_flows_apart(&wire_field::IP_TTL) && !tells_flows_apart(&wire_field::IP_CHECKSUM));
        assert!(!tells_flows_apart(&wire_field::ETHER_DST));
        assert!(tells_flows_apart(&wire_field::IP_SRC) && tells_flows_apart(&wire_field::DST_PORT));
        assert!(tells_flows_apart(&wire_field::IP_PROTOCOL));
    }
}
