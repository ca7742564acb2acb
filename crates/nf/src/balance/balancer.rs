//! The common part of load balancers: the servers, the choice of a server for a new flow, and the table of
//! connections. The table keeps later packets of a flow at the flow's server.

mod handover;
mod phase;
mod save;

use std::any::Any;
use std::fmt::{Display, Write as _};

use element::args::{ArgType, Args, read_value};
use element::class::{ArgInfo, join};
use element::effects::{Depends, Effects, Field, State, StateAccess, Support};
use element::five_tuple::{five_tuple, flow_of_error};
use element::runs::{RunList, Runs};
use element::{
    Base, Batch, Cx, Damaged, DropReason, Element, Handler, Invalid, Loaded, Packet, SavedState, StateWriter,
    Timestamp,
};
use flow::{FiveTupleKey, FlowId};
use packet::{Annotations, BATCH_CAPACITY};
use wire::{FiveTuple, tcp::flags};

use super::choice::{self, Choice, Load, Rule};
use super::elsewhere::{Board, CLOSING, ForeignFlows};
use super::headers::tcp_flags;
use super::slots::Slots;
use crate::aggregate::AGGREGATE;
use crate::five_tuple::{Flows, Known, LOOKED_AT};
use crate::memory::{refusal, reserved};
use crate::sorting::{Fate, Sorter};
use handover::Kept;
use phase::{Phase, open_length};

pub(super) use save::FORM;

/// The destination of a server's packets: an IPv4 address, an Ethernet address, or an output.
pub(super) trait Place: ArgType + Display + Clone + PartialEq + Send + 'static {
    /// The word for the destination in error messages, such as "server".
    const WHAT: &'static str;
    /// The error text of handlers for a value that cannot be parsed as a destination.
    const EXPECTED: &'static str;
}

/// The part of a load balancer that differs between its elements: finding the flow of a packet, and sending
/// the packet to the flow's server.
pub(super) trait Delivery: Send + 'static {
    /// The type of destination by which this element names servers.
    type Place: Place;

    /// Returns the element's effects: see [`Element::effects`].
    fn effects(&self, balancer: &Balancer<Self::Place>) -> Effects;

    /// Tells the balancer that servers have closed connections, if another element has reported this.
    /// Called before each batch, before handlers that show connections are read, and before the state is
    /// taken.
    fn hear(&mut self, _balancer: &mut Balancer<Self::Place>) {}

    /// The decision about packets without a flow. By default they leave by output 0.
    const WITHOUT_FLOW: Fate = Fate::Output(0);

    /// Returns the flow of a packet; `None` if it has none. All packets of a run have the same flow.
    #[inline]
    fn flow(packet: &Packet) -> Option<FiveTuple> {
        five_tuple(packet)
    }

    /// Returns the flow of the packet that is quoted in an ICMP error; `None` for other packets.
    #[inline]
    fn about(packet: &Packet) -> Option<FiveTuple> {
        flow_of_error(packet)
    }

    /// Changes a packet so that it goes to the server at `place`, and returns the output by which it leaves,
    /// or the reason for dropping it. `is_error` is true for an ICMP error about a flow of the server. For
    /// one `place`, all packets of a run are changed in the same way, or their run is unset
    /// ([`Cx::find_runs`]).
    fn deliver(packet: &mut Packet, place: &Self::Place, is_error: bool) -> Fate;
}

/// A load balancer as an element: the common part of load balancers, and the part of this class.
pub(super) struct Balancing<D: Delivery> {
    balancer: Balancer<D::Place>,
    delivery: D,
    sorter: Sorter,
}

/// Builds a load balancer with servers at `places`.
///
/// # Errors
/// If an argument is or was invalid, or memory for the connections cannot be allocated.
pub(super) fn build<D: Delivery>(
    args: &mut Args<'_>,
    settings: Settings,
    places: Vec<D::Place>,
    delivery: D,
) -> Result<Box<dyn Element>, Invalid> {
    // After an error in an argument the function ends here, because further errors would only be consequences
    // of it.
    args.finish()?;
    let board = Board::of(args)?;
    let sorter = Sorter::new(args.outputs());
    match Balancer::new(settings, places, board) {
        Ok(balancer) => Ok(Box::new(Balancing { balancer, delivery, sorter })),
        Err(error) => {
            args.error(error);
            Err(Invalid)
        }
    }
}

impl<D: Delivery> Element for Balancing<D> {
    fn effects(&self) -> Effects {
        self.delivery.effects(&self.balancer)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // The seed protects the table of connections against collisions. It does not affect the choice of
        // servers, which must be equal in several balancers.
        self.balancer.flows.seed(cx.hash_seed());
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        let packets = batch.len();
        self.delivery.hear(&mut self.balancer);
        if let Some(board) = &self.balancer.board {
            let is_slot = |slot| self.balancer.slots.server(slot).is_some();
            self.balancer.elsewhere.handle(cx, board, is_slot, port, &mut batch);
        }
        let mut runs = Runs::default();
        cx.find_runs(&mut batch, &mut runs);
        match runs.as_singles() {
            Some(singles) => self.balance(&mut batch, &singles, cx.now()),
            None => self.balance(&mut batch, &runs, cx.now()),
        }
        let rest = self.sorter.send_noted(cx, batch);
        self.balancer.expire(cx.now(), packets);
        rest
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        self.delivery.hear(&mut self.balancer);
        self.balancer.take_state().map(|kept| Box::new(kept) as Box<dyn Any + Send>)
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let kept: Kept<D::Place> = *state.downcast().map_err(|_| "not the state of such a load balancer")?;
        let rest = self.balancer.put_state(kept);
        cx.dispose(rest);
        Ok(())
    }

    fn save_state(&mut self, _cx: &mut Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        self.delivery.hear(&mut self.balancer);
        self.balancer.save(from, out)
    }

    fn load_state(&mut self, cx: &mut Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        self.balancer.load(cx, state)
    }
}

impl<D: Delivery> Balancing<D> {
    pub(super) const HANDLERS: &'static [Handler<Self>] = &[
        Handler::get("nb_total_servers", |e| e.balancer.servers.len().to_string()),
        Handler::get("nb_active_servers", |e| e.balancer.choice.len().to_string()),
        Handler::<Self>::read("load_conn", |e, cx, _| Ok(e.current(cx).each(|load| load.connections)))
            .tabled(),
        Handler::<Self>::get("load_packets", |e| e.balancer.each(|load| load.packets)).tabled(),
        Handler::<Self>::get("load_bytes", |e| e.balancer.each(|load| load.bytes)).tabled(),
        Handler::<Self>::read_param("load", |e, _, number| Ok(e.balancer.told(number)))
            .and_set(|e, _, loads| e.balancer.tell(loads)),
        Handler::<Self>::read("servers", |e, cx, _| Ok(e.current(cx).list())).rows(),
        Handler::<Self>::read("connections", |e, cx, _| {
            // Connections to servers that a reload has removed may still be in the table.
            let servers = e.current(cx).servers.iter();
            Ok(servers.map(|server| server.load.connections).sum::<u64>().to_string())
        })
        .summed(),
        Handler::count("overflows", |e| e.balancer.overflows),
        Handler::set("add_server", |e, cx, server| e.set_active(cx, server, true).map(drop)),
        Handler::set("remove_server", |e, cx, server| e.set_active(cx, server, false).map(drop)),
        Handler::set("fail_server", |e, cx, server| {
            let number = e.set_active(cx, server, false)?;
            e.balancer.forget_connections_to(number as u16);
            Ok(())
        }),
    ];

    /// Balances the packets of a batch with these runs, and notes the output or drop reason of each packet in
    /// the sorter.
    #[inline(always)]
    fn balance(&mut self, batch: &mut Batch, runs: &impl RunList, now: Timestamp) {
        let Balancing { balancer, sorter, .. } = self;
        sorter.begin();
        balancer.look_up(runs.of(batch, 0).filter_map(<[_]>::first), D::flow, D::about);
        let mut first = 0;
        for (number, run) in runs.of_mut(batch, 0).enumerate() {
            let Some(known) = balancer.flows.known(number) else {
                sorter.note(D::WITHOUT_FLOW, run.len());
                first += run.len();
                continue;
            };
            let is_error = balancer.is_error(number);
            let mut server_of_first = None;
            let mut rest = run;
            while let Some(packet) = rest.first() {
                let served = balancer.serve(&known, is_error, first, packet, now);
                let count = match served {
                    Some(Served { is_open: true, .. }) if rest.len() > 1 => {
                        open_length(rest, &known.key.tuple())
                    }
                    _ => 1,
                };
                let (packets, others) = rest.split_at_mut(count);
                let server = served.map(|served| served.server);
                match server.and_then(|server| balancer.charge(server, packets)) {
                    Some(place) => packets
                        .iter_mut()
                        .for_each(|packet| sorter.note(D::deliver(packet, &place, is_error), 1)),
                    None => sorter.note(Fate::Drop(DropReason::NotConnected), packets.len()),
                }
                // Packets that go to another server than the first packet of the run may belong to another
                // flow afterwards.
                if server != *server_of_first.get_or_insert(server) {
                    packets.iter_mut().for_each(|packet| packet.set_run(0));
                }
                first += packets.len();
                rest = others;
            }
        }
    }

    /// Removes expired connections, and returns the balancer.
    fn current(&mut self, cx: &Cx<'_>) -> &Balancer<D::Place> {
        self.delivery.hear(&mut self.balancer);
        self.balancer.expire_paced(cx.now(), Timestamp::ZERO, usize::MAX);
        &self.balancer
    }

    /// Makes a server active or inactive, and returns its number.
    ///
    /// # Errors
    /// If the text is not a destination, or no server has this destination.
    fn set_active(&mut self, cx: &Cx<'_>, server: &str, is_active: bool) -> Result<usize, String> {
        let place = D::Place::parse(server.trim(), &cx.place()).map_err(|_| D::Place::EXPECTED)?;
        let Some(number) = self.balancer.places().position(|known| *known == place) else {
            let what = D::Place::WHAT;
            return Err(format!("{what} {place} is not configured; write 'config' to add more"));
        };
        self.balancer.servers[number].is_active = is_active;
        self.balancer.update_choice();
        Ok(number)
    }
}

#[derive(Clone, Debug)]
struct Server<P> {
    place: P,
    is_active: bool,
    load: Load,
}

/// The state of a connection: the slot of its server (the number by which connections and boards refer to a
/// server), and its phase. `id` is the id of the flow in the table; `None` if no connection is stored here.
#[derive(Clone, Copy, Debug)]
struct Connection {
    id: Option<FlowId>,
    slot: u16,
    phase: Phase,
}

const NO_CONNECTION: Connection = Connection { id: None, slot: 0, phase: Phase::Open };

/// The server for a packet of a flow. `is_open` is true if the table has the connection and the connection is
/// open: packets of the flow that come at the same time then go to this server, too, and change nothing but
/// its load, until a packet closes the connection.
#[derive(Clone, Copy)]
struct Served {
    server: u16,
    is_open: bool,
}

/// The arguments of a balancer, which do not change while it runs. `half_closed` and `done` are FIN_TIMEOUT
/// and DONE_TIMEOUT, at most `timeout`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    rule: Rule,
    timeout: Timestamp,
    half_closed: Timestamp,
    done: Timestamp,
    capacity: usize,
    /// The number of servers that are active at the start (NSERVER); 0 for all.
    active: usize,
}

/// The arguments of all load balancers.
pub(super) const ARGS: [ArgInfo; 11] = join(
    choice::ARGS,
    [
        ArgInfo::keyword("NSERVER", "unsigned", "0"),
        ArgInfo::keyword("TIMEOUT", "seconds", "300"),
        ArgInfo::keyword("FIN_TIMEOUT", "seconds", "120"),
        ArgInfo::keyword("DONE_TIMEOUT", "seconds", "10"),
        ArgInfo::keyword("CAPACITY", "unsigned", "1048576"),
    ],
);

impl Settings {
    /// Reads the arguments of all load balancers. Reports time-outs that are not positive.
    pub(super) fn read(args: &mut Args<'_>) -> Settings {
        let rule = Rule::read(args);
        let mut seconds = |name| {
            let time: Timestamp = args.value(name);
            if time.0 <= 0 {
                args.error(format!("{name}: must be positive"));
            }
            time
        };
        let timeout = seconds("TIMEOUT");
        let [half_closed, done] = ["FIN_TIMEOUT", "DONE_TIMEOUT"].map(|name| seconds(name).min(timeout));
        let (active, capacity) = (args.value("NSERVER"), args.value("CAPACITY"));
        Settings { rule, timeout, half_closed, done, capacity, active }
    }
}

/// The servers and connections of a load balancer, at one worker.
pub(super) struct Balancer<P> {
    settings: Settings,
    servers: Vec<Server<P>>,
    slots: Slots,
    choice: Choice,
    flows: Flows,
    /// An empty table in place of `flows` once another balancer continues with the connections. It is made in
    /// advance, because no packet should wait until memory is mapped.
    spare: Option<Flows>,
    /// The state of each connection, at the index of its flow's id in the table of connections.
    connections: Vec<Connection>,
    /// The number of packets that would have opened a connection for which the table had no room.
    overflows: u64,
    /// The last time when the table of connections had no room for a new connection; `None` if this has not
    /// happened.
    full: Option<Timestamp>,
    /// For each run of the current batch: true if its only packet is an ICMP error. The flow that was looked
    /// up is then that of the packet quoted in it.
    errors: Vec<bool>,
    /// The board that shows connections to other workers; `None` if each flow comes to one worker.
    board: Option<Board>,
    /// The servers of packets in the current batch whose connections belong to other workers.
    elsewhere: ForeignFlows,
    /// A buffer for connections that were idle at this worker, but had packets at other workers. They are put
    /// back into the table after a search for idle connections.
    revived: Vec<(FiveTupleKey, Timestamp, Connection)>,
}

impl<P: Place> Balancer<P> {
    /// Returns a balancer with servers at these places. The first NSERVER of them are active.
    ///
    /// # Errors
    /// If there are no servers, too many servers or the same server twice, if NSERVER is too large, or if
    /// memory for CAPACITY connections cannot be allocated.
    fn new(settings: Settings, places: Vec<P>, board: Option<Board>) -> Result<Balancer<P>, String> {
        if places.is_empty() {
            return Err("no server given".into());
        }
        if places.len() >= usize::from(u16::MAX) || places.len() > settings.rule.places {
            return Err("too many servers".into());
        }
        if let Some(twice) = places.iter().enumerate().find(|(i, place)| places[..*i].contains(place)) {
            return Err(format!("{} {} given twice", P::WHAT, twice.1));
        }
        if settings.active > places.len() {
            return Err(format!("NSERVER: only {} servers are given", places.len()));
        }
        let flows = Flows::new(settings.capacity).map_err(|error| format!("CAPACITY: {error}"))?;
        let connections = reserved(settings.capacity);
        let connections = connections.map_err(|error| refusal("CAPACITY", "connections", &error))?;
        let at_first = if settings.active == 0 { places.len() } else { settings.active };
        let server = |(number, place)| Server { place, is_active: number < at_first, load: Load::default() };
        let mut balancer = Balancer {
            slots: Slots::new(places.len() as u16),
            settings,
            servers: places.into_iter().enumerate().map(server).collect(),
            choice: Choice::new(settings.rule),
            flows,
            spare: Flows::new(1).ok(),
            connections,
            overflows: 0,
            full: None,
            errors: Vec::with_capacity(BATCH_CAPACITY),
            board,
            elsewhere: ForeignFlows::default(),
            revived: Vec::new(),
        };
        balancer.update_choice();
        Ok(balancer)
    }

    /// Makes exactly the active servers available for new flows.
    fn update_choice(&mut self) {
        let active = self.servers.iter().enumerate().filter(|(_, server)| server.is_active);
        let names: Vec<_> =
            active.map(|(number, server)| (number as u16, server.place.to_string())).collect();
        self.choice.set_active(&names);
    }

    /// Returns the destinations of all servers, also of those that are inactive now.
    pub(super) fn places(&self) -> impl Iterator<Item = &P> {
        self.servers.iter().map(|server| &server.place)
    }

    /// Returns the destination of the server with this number; `None` if there is no such server.
    #[inline]
    pub(super) fn place(&self, server: u16) -> Option<&P> {
        self.servers.get(usize::from(server)).map(|server| &server.place)
    }

    /// Chooses a server for a flow by the configured rule; `None` if no server is active. If `is_remembered`
    /// is false, the choice does not depend on earlier choices or on load. While the same servers are active,
    /// it is then equal for all packets of the flow (with the same aggregate annotation, if the rule reads
    /// it).
    fn pick(
        &mut self,
        key: &FiveTupleKey,
        packet: &Packet,
        is_remembered: bool,
        now: Timestamp,
    ) -> Option<u16> {
        let Balancer { choice, servers, .. } = self;
        let load =
            |number: u16| servers.get(usize::from(number)).map_or(Load::default(), |server| server.load);
        let aggregate = || packet.annotations().u32(Annotations::AGGREGATE);
        choice.pick(key, aggregate, load, is_remembered, now)
    }

    /// Looks up the flows of the first packets of all runs of a batch. `about` returns the flow of the packet
    /// quoted in an ICMP error, and `None` for other packets; their flow is that of `locate`.
    #[inline]
    fn look_up<'p>(
        &mut self,
        packets: impl Iterator<Item = &'p Packet>,
        locate: impl Fn(&Packet) -> Option<FiveTuple>,
        about: impl Fn(&Packet) -> Option<FiveTuple>,
    ) {
        let errors = &mut self.errors;
        errors.clear();
        self.flows.look_up(packets, false, |packet| {
            let about = about(packet);
            errors.push(about.is_some());
            about.or_else(|| locate(packet))
        });
    }

    /// True if the only packet of the run with this index is an ICMP error about the flow that was looked up.
    #[inline]
    fn is_error(&self, run: usize) -> bool {
        self.errors.get(run).is_some_and(|&is_error| is_error)
    }

    /// Returns the server for a packet of the flow `known`, with index `place` in the batch. A packet of a
    /// new flow opens a connection if the table has room, unless the packet is an ICMP error. Returns `None`
    /// if no server is active for a new flow.
    #[inline(always)]
    fn serve(
        &mut self,
        known: &Known,
        is_error: bool,
        place: usize,
        packet: &Packet,
        now: Timestamp,
    ) -> Option<Served> {
        let server = match is_error {
            _ if let Some(slot) = self.elsewhere.slot(place) => self.slots.server(slot)?,
            // An ICMP error neither opens a connection nor restarts the time-out of its flow's connection.
            true => {
                match self.current(known).and_then(|(_, connection)| self.slots.server(connection.slot)) {
                    Some(server) => server,
                    None => self.pick(&known.key, packet, false, now)?,
                }
            }
            false => {
                let seen = tcp_flags(packet, &known.key.tuple());
                return match self.find(known, packet, seen, now) {
                    Some(served) => Some(served),
                    None => self.open(known, packet, seen, now),
                };
            }
        };
        Some(Served { server, is_open: false })
    }

    /// Counts packets as load of a server, and returns the server's destination; `None` if there is no such
    /// server.
    #[inline(always)]
    fn charge(&mut self, server: u16, packets: &[Packet]) -> Option<P> {
        let Server { load, place, .. } = self.servers.get_mut(usize::from(server))?;
        load.packets += packets.len() as u64;
        load.bytes += packets.iter().map(|packet| packet.len() as u64).sum::<u64>();
        Some(place.clone())
    }

    /// Returns the id and the state of a flow's connection; `None` if it has none.
    #[inline]
    fn current(&self, known: &Known) -> Option<(FlowId, Connection)> {
        let table = &self.flows.table;
        // An earlier packet of the batch may have opened the connection since the look-up.
        let id =
            known.id.filter(|&id| table.is_current(id)).or_else(|| table.lookup(&known.key, known.hash))?;
        Some((id, *self.connections.get(id.index() as usize)?))
    }

    /// Returns the server of a packet's connection, updates its phase, and restarts its time-out. Removes the
    /// connection and returns `None` if it has expired, if its server is not in the balancer's list any more,
    /// or if the packet is a SYN that opens a new connection after a close.
    #[inline(always)]
    fn find(&mut self, known: &Known, packet: &Packet, seen: u8, now: Timestamp) -> Option<Served> {
        let (id, connection) = self.current(known)?;
        let is_late = self.is_late(&known.key, id, connection, now)?;
        let is_fresh = seen & (flags::SYN | flags::ACK) == flags::SYN;
        let server = self.slots.server(connection.slot);
        if is_late || server.is_none() || (connection.phase != Phase::Open && is_fresh) {
            self.end(id);
            return None;
        }
        let phase = connection.phase.after(seen, packet);
        if phase != connection.phase {
            self.connections.get_mut(id.index() as usize)?.phase = phase;
            if let Some(board) = &mut self.board {
                board.change(&known.key, &shown(connection.slot, phase));
            }
        }
        self.flows.table.touch(id, self.seen(phase, now));
        Some(Served { server: server?, is_open: phase == Phase::Open })
    }

    /// Updates the phase of the connection of the flow `key`, which a server has closed at the time `at`.
    /// `seen` are TCP flags with FIN or RST. Does nothing if the flow's connection has another server, has
    /// expired, or does not exist.
    #[cold]
    pub(super) fn close(&mut self, key: &FiveTupleKey, server: &P, seen: u8, at: Timestamp) {
        let hash = self.flows.hash(key);
        let Some(id) = self.flows.table.lookup(key, hash) else { return };
        let Some(&connection) = self.connections.get(id.index() as usize) else { return };
        if self.slots.server(connection.slot).and_then(|number| self.place(number)) != Some(server)
            || self.is_late(key, id, connection, at).is_none_or(|is_late| is_late)
        {
            return;
        }
        let phase = connection.phase.after_server(seen);
        self.connections[id.index() as usize].phase = phase;
        if let Some(board) = &mut self.board {
            board.change(key, &shown(connection.slot, phase));
        }
        self.flows.table.touch(id, self.seen(phase, at));
    }

    /// True if a connection has had no packets at any worker for the time-out, so that it has expired.
    /// Returns `None` if the table does not have it.
    #[inline]
    fn is_late(
        &self,
        key: &FiveTupleKey,
        id: FlowId,
        connection: Connection,
        now: Timestamp,
    ) -> Option<bool> {
        let is_idle = now - self.flows.table.last_seen(id)? >= self.settings.timeout;
        Some(is_idle && !self.is_seen_elsewhere(key, connection, now))
    }

    /// True if a connection is open, and other workers have had packets of it within the time-out.
    #[cold]
    fn is_seen_elsewhere(&self, key: &FiveTupleKey, connection: Connection, now: Timestamp) -> bool {
        let seen = self.board.as_ref().and_then(|board| board.last_seen(key));
        connection.phase == Phase::Open && seen.is_some_and(|seen| now - seen < self.settings.timeout)
    }

    /// Returns the time to record as the time of a connection's last packet, for a packet at `now`. For a
    /// connection that is being closed this time is earlier than `now`, so that TIMEOUT, counted from it,
    /// ends FIN_TIMEOUT or DONE_TIMEOUT after `now`.
    #[inline]
    fn seen(&self, phase: Phase, now: Timestamp) -> Timestamp {
        let Settings { timeout, half_closed, done, .. } = self.settings;
        match phase {
            Phase::Open => now,
            Phase::ClientClosed | Phase::ServerClosed => now - (timeout - half_closed),
            Phase::Over => now - (timeout - done),
        }
    }

    /// Chooses a server for the first packet of a flow, and adds the connection to the table if there is
    /// room. Returns `None` if no server is active.
    #[inline(never)]
    fn open(&mut self, known: &Known, packet: &Packet, seen: u8, now: Timestamp) -> Option<Served> {
        if self.choice.len() == 0 {
            return None;
        }
        let phase = Phase::Open.after(seen, packet);
        let noted = self.seen(phase, now);
        let mut inserted = self.flows.table.insert(&known.key, known.hash, noted);
        if inserted.is_err() {
            self.expire(now, LOOKED_AT);
            inserted = self.flows.table.insert(&known.key, known.hash, noted);
        }
        if inserted.is_err() {
            self.overflows += 1;
            self.full = Some(now);
        }
        // While the table is full, flows are balanced by their hash and are not remembered. For one time-out
        // after that, a flow that seems new may be such a flow. The hash then gives it the same server.
        let was_full = self.full.is_some_and(|full| now - full < self.settings.timeout);
        let server = self.pick(&known.key, packet, !was_full, now)?;
        let mut served = Served { server, is_open: false };
        if let (Ok(inserted), Some(slot)) = (inserted, self.slots.slot(server)) {
            let id = inserted.id();
            self.remember(Connection { id: Some(id), slot, phase }, id);
            if let Some(board) = &mut self.board {
                board.show(&known.key, &shown(slot, phase), now);
            }
            served.is_open = phase == Phase::Open;
        }
        Some(served)
    }

    /// Stores the connection at the index of its id, and counts it for its server.
    fn remember(&mut self, connection: Connection, id: FlowId) {
        let place = id.index() as usize;
        if self.connections.len() <= place {
            // This does not allocate, because `connections` has the capacity of the table.
            self.connections.resize(place + 1, NO_CONNECTION);
        }
        self.connections[place] = connection;
        let server = self.slots.server(connection.slot);
        if let Some(server) = server.and_then(|number| self.servers.get_mut(usize::from(number))) {
            server.load.connections += 1;
        }
    }

    /// Removes a connection, and subtracts it from its server's connections.
    fn end(&mut self, id: FlowId) {
        let key = self.flows.table.remove(id);
        if let (Some(board), Some(key)) = (&mut self.board, key) {
            board.hide(&key);
        }
        forget(&mut self.connections, &mut self.servers, &self.slots, id);
    }

    /// Removes expired connections. Examines at most `at_most` connections.
    #[inline]
    fn expire(&mut self, now: Timestamp, at_most: usize) {
        let Settings { half_closed, done, .. } = self.settings;
        self.expire_paced(now, half_closed.min(done), at_most);
    }

    /// Removes expired connections, examining at most `at_most`. `pace` is the shortest time-out: a search
    /// through the table begins no sooner than a fraction of `pace` after the previous search began.
    fn expire_paced(&mut self, now: Timestamp, pace: Timestamp, at_most: usize) {
        let Balancer { flows, connections, servers, slots, settings, board, revived, .. } = self;
        flows.table.expire_paced(now, settings.timeout, pace, at_most, |id, key| {
            if let Some(board) = board {
                let connection =
                    connections.get(id.index() as usize).filter(|known| known.phase == Phase::Open);
                let seen = board.last_seen(key).filter(|&seen| now - seen < settings.timeout);
                match connection.zip(seen) {
                    Some((&connection, seen)) => revived.push((*key, seen, connection)),
                    None => board.hide(key),
                }
            }
            forget(connections, servers, slots, id);
        });
        while let Some((key, seen, connection)) = self.revived.pop() {
            // This cannot fail: the connection has just been removed from the same table.
            if let Ok(inserted) = self.flows.table.insert(&key, self.flows.hash(&key), seen) {
                self.remember(Connection { id: Some(inserted.id()), ..connection }, inserted.id());
            }
        }
    }

    /// Removes all connections to the server with this number.
    fn forget_connections_to(&mut self, server: u16) {
        for place in 0..self.connections.len() {
            let Connection { id, slot, .. } = self.connections[place];
            if let Some(id) = id.filter(|_| self.slots.server(slot) == Some(server)) {
                self.end(id);
            }
        }
    }

    /// Returns the result of `number` for each server's load, as a text separated by spaces.
    fn each(&self, number: impl Fn(&Load) -> u64) -> String {
        let all: Vec<String> = self.servers.iter().map(|server| number(&server.load).to_string()).collect();
        all.join(" ")
    }

    /// Returns a line for each server: its destination, `active` or `inactive`, and its connections, packets
    /// and bytes.
    fn list(&self) -> String {
        let mut text = String::new();
        for Server { place, is_active, load } in &self.servers {
            let state = if *is_active { "active" } else { "inactive" };
            let Load { connections, packets, bytes, .. } = load;
            let _ = writeln!(text, "{place} {state} {connections} {packets} {bytes}");
        }
        text
    }

    /// Returns the load that was written for the server with this number, or `unknown`; without a number,
    /// the loads of all servers.
    fn told(&self, number: &str) -> String {
        let number = number.trim();
        if number.is_empty() {
            return self.each(|load| load.told);
        }
        let server = number.parse().ok().and_then(|number: usize| self.servers.get(number));
        server.map_or("unknown".into(), |server| server.load.told.to_string())
    }

    /// Sets the loads of servers by number: `NUMBER:LOAD`, separated by commas.
    ///
    /// # Errors
    /// If the text cannot be parsed, or a server does not exist; then no load is changed.
    fn tell(&mut self, text: &str) -> Result<(), String> {
        let told = text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(|text| {
            let (number, load) = text.split_once(':').ok_or("expected NUMBER:LOAD")?;
            let [number, load] = [number, load].map(|text| text.trim().parse::<u64>());
            let (number, load) =
                (number.map_err(|_| "expected NUMBER:LOAD")?, load.map_err(|_| "expected NUMBER:LOAD")?);
            let place = usize::try_from(number).ok().filter(|&place| place < self.servers.len());
            Ok((place.ok_or_else(|| format!("Invalid server id {number}"))?, load))
        });
        for (place, load) in told.collect::<Result<Vec<_>, String>>()? {
            self.servers[place].load.told = load;
        }
        Ok(())
    }

    /// Adds the effects that all load balancers have: the table of connections, with the key's fields, and
    /// dependence on time and handlers. If the choice of a server depends on earlier choices or on load, adds
    /// dependence on earlier packets, too.
    pub(super) fn declare(&self, effects: Effects, key: Vec<Field>) -> Effects {
        let state =
            State { table: "connections", key, both_directions: false, access: StateAccess::Connection };
        let support = Support { finds_runs: true, ..effects.support };
        let effects = Effects { state: vec![state], finds_state: true, support, ..effects };
        let effects = effects.depending_on(Depends::Time).depending_on(Depends::Handler);
        match self.settings.rule.mode.counts() {
            true => effects.depending_on(Depends::Counter),
            false => effects,
        }
    }

    /// Returns the fields on which the choice of a server depends, except for the fields of the flow's key.
    pub(super) fn reads(&self) -> Vec<Field> {
        let flags = Field::Bytes { base: Base::Transport, offset: 13, length: 1 };
        let aggregate = self.settings.rule.mode.reads_aggregate();
        let mut reads = vec![flags, Field::HeaderOffset(Base::Transport)];
        reads.extend(aggregate.then_some(AGGREGATE));
        reads
    }
}

/// Returns the value that stands for a connection on a board: the slot of the server (the number by which
/// boards refer to it), with [`CLOSING`] unless the connection is open.
fn shown(slot: u16, phase: Phase) -> u64 {
    u64::from(slot) | if phase == Phase::Open { 0 } else { CLOSING }
}

#[inline]
fn forget<P>(connections: &mut [Connection], servers: &mut [Server<P>], slots: &Slots, id: FlowId) {
    let Some(connection) = connections.get_mut(id.index() as usize) else { return };
    connection.id = None;
    let server = slots.server(connection.slot);
    if let Some(server) = server.and_then(|number| servers.get_mut(usize::from(number))) {
        server.load.connections = server.load.connections.saturating_sub(1);
    }
}

/// Reads the destinations of servers from the arguments DST, in their order. Reports invalid destinations.
pub(super) fn servers<P: Place>(args: &mut Args<'_>) -> Vec<P> {
    let mut servers = Vec::new();
    args.each_of("DST", |args, text| match read_value("DST", text, &args.place()) {
        Ok(server) => servers.push(server),
        Err(complaint) => args.error(complaint),
    });
    servers
}
