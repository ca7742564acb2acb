//! The element that runs a user-defined function on batches of packets.

use element::effects::{Depends, State, StateAccess};
use element::five_tuple::{READS, five_tuple};
use element::steering::transport;
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, StatePart, Timestamp,
};
use flow::{CoreStates, FiveTupleKey, FlowId, KeyHasher};
use packet::BATCH_CAPACITY;
use wire::FiveTuple;
use wire::ip_protocol::TCP;
use wire::tcp::flags::{ACK, FIN, RST, SYN};

use super::flows::WINDOW;
use super::{FlowPacket, FlowStates, Function, Needs, Verdict, Way};
use crate::classes::FLAGS;

/// The declaration of the state that the element of a network function keeps: the flows, which a reload
/// loses.
const STATE: &[StatePart] =
    &[StatePart::lost("flows", "the function has to see the start of each flow", &["flows"])];

/// Returns the class of a function. The user sets name, ports, arguments, handlers and manual:
/// `Class { name: "MyFunction", ..class::<MyFunction>() }`. The only handler is [`FunctionElement::FLOWS`],
/// unless the class gets another table.
pub const fn class<F: Function>() -> Class {
    Class {
        processing: "h",
        table: &FunctionElement::<F>::HANDLERS,
        state: STATE,
        build: build::<F>,
        ..Class::DEFAULT
    }
}

/// The minimum that is assumed for a batch's number of packets when idle flows are removed: for each batch,
/// twice as many flow entries are checked for expiry as the batch has packets.
const LEAST: usize = 32;

fn build<F: Function>(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let mut needs = Needs::default();
    let function = F::init(args, &mut needs);
    args.finish()?;
    let states = args.setup.flow_states(args.id(), needs.flows.max(1));
    let (states, hasher) = states.map_err(|error| {
        args.error(error.to_string());
        Invalid
    })?;
    Ok(Box::new(FunctionElement {
        function,
        is_spread: args.setup.is_spread(),
        needs,
        states,
        hasher,
        finished: Vec::new(),
        packets: Vec::with_capacity(BATCH_CAPACITY),
    }))
}

/// The element of a function.
pub struct FunctionElement<F: Function> {
    function: F,
    needs: Needs,
    /// True if packets are spread, so that packets may arrive at this worker whose flows other workers own.
    is_spread: bool,
    states: CoreStates<FiveTupleKey, F::State>,
    hasher: KeyHasher,
    /// For each flow of this worker, by the index of its entry: the flow's id if its sender has sent FIN. An
    /// id that differs from the present flow's id was recorded for an earlier flow in the entry, and does not
    /// count.
    finished: Vec<Option<FlowId>>,
    /// The packets of the current batch; empty between batches, to reuse its memory.
    packets: Vec<FlowPacket<F::State>>,
}

impl<F: Function> Element for FunctionElement<F> {
    fn effects(&self) -> Effects {
        let mut effects = self.needs.effects.clone().depending_on(Depends::Time);
        if self.has_state() {
            let (key, access) = (READS.to_vec(), StateAccess::Connection);
            effects.state.push(State { table: "flows", key, both_directions: true, access });
            effects.finds_state = true;
        }
        effects
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: usize, mut batch: Batch) -> Option<Batch> {
        let mut packets = std::mem::take(&mut self.packets);
        self.take(cx, input, &mut batch, &mut packets);
        self.expire(cx.now(), 2 * packets.len().max(LEAST));
        self.handle(cx, &mut packets);
        let mut home = cx.batch();
        for FlowPacket { packet, verdict, way, .. } in packets.drain(..) {
            // The pushes do not fail, because all packets come from one batch.
            let too_many = match (way, verdict) {
                (Way::Home, _) => home.push(packet).err(),
                (_, Verdict::Output(0)) if cx.outputs() > 0 => batch.push(packet).err(),
                (_, Verdict::Output(output)) => {
                    cx.emit_one(output, packet, DropReason::NoOutput);
                    None
                }
                (_, Verdict::Drop(reason)) => {
                    cx.drop(packet, reason);
                    None
                }
            };
            if let Some(packet) = too_many {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        self.packets = packets;
        cx.send_home(input, home);
        Some(batch)
    }
}

impl<F: Function> FunctionElement<F> {
    /// The handler `flows`: the number of flows in the table.
    pub const FLOWS: Handler<Self> = Handler::<Self>::read("flows", |e, cx, _| {
        e.function(cx);
        Ok(e.states.len().to_string())
    })
    .summed();
    const HANDLERS: &'static [Handler<Self>] = &[Self::FLOWS];

    /// Returns the function of this worker, for handlers. Idle flows are removed first, so that they do not
    /// count.
    pub fn function(&mut self, cx: &Cx<'_>) -> &F {
        self.expire(cx.now(), usize::MAX);
        &self.function
    }
}

impl<F: Function> FunctionElement<F> {
    fn has_state(&self) -> bool {
        self.needs.flows > 0
    }

    /// Moves the packets of `batch` to `packets`, each with its five-tuple, its TCP flags and its flow's
    /// owner. Packets without a five-tuple are dropped.
    fn take(
        &self,
        cx: &mut Cx<'_>,
        input: usize,
        batch: &mut Batch,
        packets: &mut Vec<FlowPacket<F::State>>,
    ) {
        let me = self.states.core();
        let is_spread = self.is_spread && self.has_state();
        for packet in batch.drain() {
            let Some(flow) = five_tuple(&packet) else {
                cx.drop(packet, DropReason::Unsuitable);
                continue;
            };
            let owner = if is_spread { cx.workers().owner_of(&packet) } else { me };
            let flags = tcp_flags(&packet);
            let verdict = Verdict::Output(input);
            packets.push(FlowPacket {
                packet,
                flow,
                flags,
                input,
                state: None,
                verdict,
                owner,
                way: Way::Regular,
            });
        }
    }

    /// Passes packets to the handlers of the function in order of arrival. Consecutive packets for the same
    /// handler are passed in one call, if all or none of them have SYN, FIN or RST. Packets that must be sent
    /// to the worker that owns their flow are left out.
    fn handle(&mut self, cx: &Cx<'_>, packets: &mut [FlowPacket<F::State>]) {
        let has_state = self.has_state();
        let worker_of = |flow: &FiveTuple| {
            let ends = [flow.source(), flow.destination()];
            cx.workers().between((ends[0], flow.source_port()), (ends[1], flow.destination_port()))
        };
        let (states, hasher) = (&mut self.states, &self.hasher);
        let mut flows = FlowStates { states, hasher, now: cx.now(), worker_of: &worker_of };
        for run in packets.chunk_by_mut(|one, next| one.is_connection() == next.is_connection()) {
            if has_state {
                sort(&flows, run);
            }
            for part in run.chunk_by_mut(|one, next| one.way == next.way) {
                match part[0].way {
                    Way::Home => {}
                    Way::Regular => self.function.regular_packets(&flows, part),
                    Way::Connection => {
                        self.function.connection_packets(&mut flows, part);
                        for packet in part {
                            close(&mut flows, &mut self.finished, packet);
                        }
                    }
                }
            }
        }
    }

    fn expire(&mut self, now: Timestamp, at_most: usize) {
        let function = &mut self.function;
        self.states.expire_local(now, self.needs.timeout, at_most, |_, state| function.flow_ended(&state));
    }
}

impl<S> FlowPacket<S> {
    /// True if the packet has flags that open or close a connection (SYN, FIN, RST).
    fn is_connection(&self) -> bool {
        self.flags & (SYN | FIN | RST) != 0
    }
}

/// Looks up the flows of packets, and sets `way` of each packet: the handler for regular packets if the
/// flow's state is found, the handler for connection packets if this worker owns the flow, otherwise the way
/// to the flow's owner. Either all packets in `run` have SYN, FIN or RST, so that they are not looked up, or
/// none has.
fn sort<S: flow::Plain>(flows: &FlowStates<'_, S>, run: &mut [FlowPacket<S>]) {
    let me = flows.states.core();
    for part in run.chunks_mut(WINDOW) {
        let found = match part[0].is_connection() {
            true => [None; WINDOW],
            false => {
                let mut owners = [me; WINDOW];
                owners.iter_mut().zip(&*part).for_each(|(owner, packet)| *owner = packet.owner);
                flows.find(part.iter().map(|packet| &packet.flow), &owners)
            }
        };
        for (packet, found) in part.iter_mut().zip(found) {
            packet.way = match found {
                Some((id, state)) => {
                    flows.states.see(id, flows.now);
                    packet.state = Some(state);
                    Way::Regular
                }
                None if packet.owner == me => Way::Connection,
                None => Way::Home,
            };
        }
    }
}

/// Updates the state of a packet's connection after the packet has been handled: FIN from both ends or RST
/// closes the connection, a SYN without ACK or RST opens it again. Does nothing if the packet's flow is not
/// known.
fn close<S: flow::Plain>(
    flows: &mut FlowStates<'_, S>,
    finished: &mut Vec<Option<FlowId>>,
    packet: &FlowPacket<S>,
) {
    let Some((id, _)) = flows.own(&packet.flow) else { return };
    let (states, now) = (&mut *flows.states, flows.now);
    states.see(id, now);
    let pair = states.pair_of(id);
    let mut set = |flow: FlowId, value| {
        let place = flow.index() as usize;
        if finished.len() <= place {
            // Without memory to record the FIN, the connection ends by its time-out.
            if finished.try_reserve(place + 1 - finished.len()).is_err() {
                return;
            }
            finished.resize(place + 1, None);
        }
        finished[place] = value;
    };
    if packet.flags & (SYN | ACK | RST) == SYN {
        // A SYN opens a new connection with the addresses and ports of an earlier connection. FINs of the
        // earlier connection no longer count.
        states.open_local(id);
        [Some(id), pair].into_iter().flatten().for_each(|id| set(id.flow(), None));
    }
    if packet.flags & FIN != 0 {
        set(id.flow(), Some(id.flow()));
    }
    let has_finished = |flow: FlowId| finished.get(flow.index() as usize) == Some(&Some(flow));
    let both = has_finished(id.flow()) && pair.is_some_and(|pair| has_finished(pair.flow()));
    if packet.flags & RST != 0 || both {
        states.close_local(id, now);
    }
}

fn tcp_flags(packet: &Packet) -> u8 {
    match transport(packet) {
        Some((TCP, segment)) => segment.get(FLAGS).copied().unwrap_or(0),
        _ => 0,
    }
}
