//! Calls of elements while packets are traced (see `tracing`) or captured (see `capturing`).

use std::sync::Arc;

use element::context::Emitted;
use element::view::PacketFields;
use element::{Batch, Core, Counters, Cx, DropReason, Element, ElementId, Packet};

use crate::capturing::{CaptureOrder, Place, Tap};
use crate::graph_copy::GraphCopy;
use crate::host::WorkerHost;
use crate::tracing::{
    ActiveCall, Alive, Arrived, Candidates, FOLLOW, Leaving, Out, STOP, StepOutcome, TraceOrder, TraceStep,
    Tracer,
};
use crate::watch::Watch;

/// The requests of elements that waited before a call.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// The number of requests.
    requests: usize,
    /// The number of packets in the last of them. The element that is called may add packets to it.
    packets: usize,
}

impl Waiting {
    fn of(core: &Core) -> Waiting {
        let packets = match core.emitted.last() {
            Some(Emitted::Packets { batch, .. }) => batch.len(),
            _ => 0,
        };
        Waiting { requests: core.emitted.len(), packets }
    }

    /// Returns the packets that have left the element in a call, and the way of each. `rest` are packets that
    /// it has returned, and the output by which they leave.
    fn left_since<'a>(
        self,
        core: &'a Core,
        id: ElementId,
        (rest, output): (Option<&'a Batch>, usize),
    ) -> impl Iterator<Item = (&'a Packet, Out)> {
        // The last request that waited before the call may have got further packets in it.
        let first = self.requests.saturating_sub(1);
        let items = core.emitted.get(first..).unwrap_or_default().iter().enumerate();
        let emitted = items.filter_map(move |(number, item)| {
            let skipped = if first + number < self.requests { self.packets } else { 0 };
            match item {
                Emitted::Packets { element, output, batch } if *element as usize == id => {
                    Some((batch, skipped, Out::Output(*output as usize)))
                }
                Emitted::Over { element, batch, .. } if *element as usize == id && skipped == 0 => {
                    Some((batch, 0, Out::Over))
                }
                _ => None,
            }
        });
        let emitted = emitted.chain(rest.map(|rest| (rest, 0, Out::Output(output))));
        emitted.flat_map(|(batch, skipped, out)| batch.iter().skip(skipped).map(move |packet| (packet, out)))
    }
}

impl WorkerHost<'_> {
    /// Carries out a value of the handler `trace` at this worker: `N [PATTERN]` orders packets, [`STOP`] ends
    /// tracing, and [`FOLLOW`] follows the packets that another worker has ordered.
    ///
    /// # Errors
    /// If the value has another form: a message for the user.
    pub(crate) fn trace(&mut self, value: &str) -> Result<(), String> {
        let Some(traces) = self.control.traces.clone() else { return Ok(()) };
        match value.trim() {
            FOLLOW => {}
            STOP => traces.end(),
            order => traces.begin(TraceOrder::parse(order, &self.graph.setup)?),
        }
        if traces.is_active() {
            self.graph.trace(&traces);
        }
        Ok(())
    }

    /// Carries out a value of the handler `capture` at this worker: `PORT FILE N [PATTERN]` begins a capture,
    /// [`STOP`] ends it, and [`FOLLOW`] takes part in the capture that another worker has begun.
    ///
    /// # Errors
    /// If the value has another form, or the capture cannot begin: a message for the user.
    pub(crate) fn capture(&mut self, core: &mut Core, value: &str) -> Result<(), String> {
        let Some(captures) = self.control.captures.clone() else { return Ok(()) };
        match value.trim() {
            FOLLOW => {}
            STOP => captures.end("it was stopped"),
            order => {
                let order = CaptureOrder::parse(order, &self.graph.plan, &self.graph.setup)?;
                self.graph.check_is_passed(order.place())?;
                captures.begin(order, &self.graph.plan, &core.rights.files)?;
            }
        }
        let tap = Tap::new(&captures, &self.graph.setup)?;
        match tap {
            Some(tap) if tap.place == Place::Drops => core.drop_watch = Some(Box::new(tap)),
            Some(tap) => self.graph.watch_mut().tap = Some(tap),
            None => {}
        }
        Ok(())
    }

    /// Pushes a batch into an input of an element, like [`push`](Self::push). Each traced packet is pushed
    /// alone.
    #[cold]
    pub(crate) fn push_watched(
        &mut self,
        core: &mut Core,
        id: ElementId,
        input: usize,
        mut batch: Batch,
    ) -> Option<Batch> {
        self.graph.show_arrivals((id, input), core, &batch);
        let mut parts: Vec<Batch> = Vec::new();
        let mut is_open = false;
        for packet in batch.drain() {
            let is_traced = self.graph.is_traced(&packet);
            if is_traced || !is_open {
                parts.push(core.batch());
            }
            is_open = !is_traced;
            // A part has room, because it has at most as many packets as the whole batch.
            if let Some(Err(packet)) = parts.last_mut().map(|part| part.push(packet)) {
                Cx::new(core, self, id).drop(packet, DropReason::NoBuffer);
            }
        }
        core.recycle(batch);
        let mut waiting: usize = parts.iter().map(|part| part.len()).sum();
        let mut last = None;
        for part in parts {
            if let Some(rest) = last.take() {
                Cx::new(core, self, id).emit(0, rest);
            }
            // The packets of the parts that follow have been counted as arrived already.
            waiting -= part.len();
            let pushed = self.call_watched(core, id, |host, core, element| {
                part.iter().for_each(|packet| host.graph.arrive(id, input, packet));
                let rest = element.push(&mut Cx::new(core, host, id), input, part);
                let passed_on = rest.as_ref().map_or(0, |batch| batch.len());
                host.check_balance(core, id, element, passed_on + waiting);
                (rest, 0)
            });
            last = pushed.flatten();
        }
        last
    }

    /// Pulls from an output of an element for the element `puller`, like [`Host::pull`]. While packets are
    /// traced, pulls one packet at most, so that everything that happens on its way is about this packet.
    #[cold]
    pub(crate) fn pull_watched(
        &mut self,
        core: &mut Core,
        (from, output): (ElementId, usize),
        (puller, input): (ElementId, usize),
        max: usize,
    ) -> Batch {
        let max = if self.graph.tracer().is_some() { max.min(1) } else { max };
        let pulled = self.call_watched(core, from, |host, core, element| {
            let batch = element.pull(&mut Cx::new(core, host, from), output, max);
            core.counters[from].emitted += batch.len() as u64;
            host.check_balance(core, from, element, 0);
            (Some(batch), output)
        });
        let batch = pulled.flatten().unwrap_or_else(|| core.batch());
        core.counters[puller].arrived += batch.len() as u64;
        self.graph.show_arrivals((puller, input), core, &batch);
        batch.iter().for_each(|packet| self.graph.arrive(puller, input, packet));
        batch
    }

    /// Calls an element, and records what became of traced packets. The function `call` returns a batch and
    /// the output by which it leaves. Returns `None`, without a call, if the element is being called already.
    pub(crate) fn call_watched<R: Leaving>(
        &mut self,
        core: &mut Core,
        id: ElementId,
        call: impl FnOnce(&mut Self, &mut Core, &mut dyn Element) -> (R, usize),
    ) -> Option<R> {
        let mut element = self.graph.elements[id].take()?;
        let waiting = Waiting::of(core);
        if let Some(tracer) = self.graph.tracer() {
            let (counters, held) = (core.counters[id].clone(), element.held());
            tracer.calls.push(ActiveCall { arrived: Vec::new(), counters, held });
        }
        let (result, output) = call(self, core, &mut *element);
        let rest = (result.packets(), output);
        if let Some(tap) = self.graph.watch.as_ref().and_then(|watch| watch.tap.as_ref()) {
            tap.left(id, core.now, waiting.left_since(core, id, rest));
        }
        self.graph.leave(core, id, &*element, waiting, rest);
        self.graph.end_watch();
        self.graph.put_back(id, element);
        Some(result)
    }
}

impl GraphCopy {
    /// Returns the watchers of packets, made if there are none.
    pub(crate) fn watch_mut(&mut self) -> &mut Watch {
        self.watch.get_or_insert_default()
    }

    fn tracer(&mut self) -> Option<&mut Tracer> {
        self.watch.as_mut()?.tracer.as_mut()
    }

    /// Ends the watchers that want no more packets.
    fn end_watch(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        watch.tap.take_if(|tap| !tap.is_open());
        if watch.tap.is_none() && watch.tracer.is_none() {
            self.watch = None;
        }
    }

    /// Shows packets that have come to an input to the capture.
    fn show_arrivals(&self, to: (ElementId, usize), core: &Core, batch: &Batch) {
        if let Some(tap) = self.watch.as_ref().and_then(|watch| watch.tap.as_ref()) {
            tap.came(to, core.now, batch.iter());
        }
    }

    /// Checks that packets pass the element of a place.
    ///
    /// # Errors
    /// If a synthesized program processes packets in place of the element: a message for the user.
    fn check_is_passed(&self, place: Place) -> Result<(), String> {
        let (Place::Input(id, _) | Place::Output(id, _)) = place else { return Ok(()) };
        let stand_in = self.effects.iter().position(|effects| effects.replaces.contains(&id));
        let name = |id: ElementId| &self.plan.graph.elements[id].name;
        stand_in.map_or(Ok(()), |program| {
            let (element, program) = (name(id), name(program));
            Err(format!(
                "packets do not pass '{element}', because the synthesized program '{program}' has its place; \
                 capture them at '{program}', or run without --synthesize"
            ))
        })
    }

    fn is_traced(&mut self, packet: &Packet) -> bool {
        self.tracer().is_some_and(|tracer| tracer.traces.lock().alive(packet.slot()).is_some())
    }

    /// Notes that a packet comes to an element that is being called, if the packet is traced.
    fn arrive(&mut self, id: ElementId, input: usize, packet: &Packet) {
        let Some(tracer) = self.watch.as_mut().and_then(|watch| watch.tracer.as_mut()) else { return };
        let alive = tracer.traces.lock().alive(packet.slot());
        if let (Some(alive), Some(call)) = (alive, tracer.calls.last_mut()) {
            call.arrived.push(Arrived {
                slot: packet.slot(),
                packet: alive.packet,
                input,
                view: PacketFields::of(packet),
                candidates: Candidates::of(&self.effects[id], input, packet),
            });
        }
    }

    /// Records what became of the traced packets that came to an element in the call that now ends, and of
    /// those that it held. `rest` are packets that it has returned, and the output by which they leave.
    /// Begins to trace packets that are wanted.
    fn leave(
        &mut self,
        core: &Core,
        id: ElementId,
        element: &dyn Element,
        waiting: Waiting,
        rest: (Option<&Batch>, usize),
    ) {
        let Some(tracer) = self.tracer() else { return };
        let Some(call) = tracer.calls.pop() else { return };
        let traces = Arc::clone(&tracer.traces);
        let mut inner = traces.lock();
        let outs: Vec<(&Packet, Out)> = waiting.left_since(core, id, rest).collect();
        let counters = &core.counters[id];
        let step = |packet, view: PacketFields, outcome| TraceStep {
            packet,
            made_from: None,
            worker: self.setup.worker,
            time: core.now,
            element: id,
            name: self.plan.graph.elements[id].name.clone(),
            class: self.plan.classes[id].name.to_string(),
            input: None,
            was_held: false,
            case: None,
            view,
            changes: Vec::new(),
            outcome,
        };
        let of_out = |out: Out| match out {
            Out::Over => StepOutcome::HandedOver,
            Out::Output(output) => StepOutcome::Left { output, to: self.forward(id, output) },
        };
        for came in &call.arrived {
            let out = outs.iter().find(|(packet, _)| packet.slot() == came.slot);
            let (outcome, changes) = match out {
                Some((packet, out)) => (of_out(*out), came.view.changes(&PacketFields::of(packet))),
                None => (ended(&call, counters, element.held()), Vec::new()),
            };
            let case = came.candidates.taken(&self.effects[id], self.config(id), &outcome);
            let step = TraceStep {
                input: Some(came.input),
                case,
                changes,
                ..step(came.packet, came.view.clone(), outcome)
            };
            inner.record(came.slot, step);
        }
        let parent = match &call.arrived[..] {
            [only] if counters.made > call.counters.made => Some(only.packet),
            _ => None,
        };
        for (packet, out) in outs {
            let slot = packet.slot();
            if call.arrived.iter().any(|came| came.slot == slot) {
                continue;
            }
            match inner.alive(slot) {
                Some(Alive { packet: number, element, is_held: true }) if element == id => {
                    let step =
                        TraceStep { was_held: true, ..step(number, PacketFields::of(packet), of_out(out)) };
                    inner.record(slot, step);
                }
                other => {
                    if other.is_some() {
                        inner.lose(slot);
                    }
                    let enters = call.arrived.is_empty() && counters.made > call.counters.made;
                    if parent.is_some() || enters && inner.wants(&self.plan.graph.elements[id].name, packet) {
                        let number = inner.number();
                        let step = step(number, PacketFields::of(packet), of_out(out));
                        inner.record(slot, TraceStep { made_from: parent, ..step });
                    }
                }
            }
        }
        let is_over = inner.is_over(core.now);
        drop(inner);
        if is_over && let Some(watch) = &mut self.watch {
            watch.tracer.take_if(|tracer| tracer.calls.is_empty());
        }
    }

    /// Returns the element and the input that an output leads to; `None` if it is not connected.
    fn forward(&self, id: ElementId, output: usize) -> Option<(ElementId, usize)> {
        self.plan.forward[id].get(output)?.first().copied()
    }
}

/// Returns the outcome for a packet that has not left in a call. `after` are the counters of the element
/// after the call, and `held` is the number of packets that it holds then.
fn ended(call: &ActiveCall, after: &Counters, held: usize) -> StepOutcome {
    let before = &call.counters;
    let count = |reason: DropReason| before.drops.iter().find(|(r, _)| *r == reason).map_or(0, |(_, n)| *n);
    let dropped = after.drops.iter().filter(|(reason, n)| *n > count(*reason));
    let dropped: Vec<&'static str> = dropped.map(|(reason, _)| reason.as_str()).collect();
    // If the element holds more packets than before, it has dropped others.
    match () {
        () if held > call.held => StepOutcome::Held,
        () if !dropped.is_empty() && held == call.held && held > 0 => StepOutcome::HeldOrDropped(dropped),
        () if !dropped.is_empty() => StepOutcome::Dropped(dropped),
        () if after.sent > before.sent => StepOutcome::Sent,
        () if held > 0 => StepOutcome::Held,
        () => StepOutcome::Consumed,
    }
}
