//! # EtherSwitch
//! Switches Ethernet frames and learns addresses: each input and the output of the same number are one LAN.
//!
//! The source address of each frame is recorded with the LAN on which the frame arrived. A frame for a
//! recorded address leaves for that LAN only, or is dropped if it arrived from there or must not go there
//! (see `remove_port_forwarding`). Other frames leave for all LANs except their own, starting with the last
//! port. Time is the time stamp of frames. For each frame, two recorded addresses are checked and removed if
//! they have expired, so that no address stays for long even if no frames are sent to it. When CAPACITY
//! addresses are recorded, further addresses are not recorded until one has expired, and frames for them
//! leave for all LANs. An address takes 75 bytes of memory from the time when it is recorded.
//!
//! ## Usage
//! `EtherSwitch([KEYWORDS])`
//!
//! ## Arguments
//! - `TIMEOUT`: the time for which an address is kept after its last frame, in whole seconds (rounded, as
//!   in Click). With 0, which includes any time below half a second, no address is learnt, as in a hub.
//! - `CAPACITY`: the maximum number of addresses, about 75 bytes each. Address space for them is reserved
//!   at the start.
//!
//! ## Handlers
//! - `table`: a line per address: the address, and the number of its LAN.
//! - `count`: the number of addresses in memory, including addresses that have expired but are not yet
//!   removed.
//! - `unlearnt`: the number of frames from addresses for which there was no room.
//! - `timeout`: the timeout in whole seconds.
//! - `port_forwarding`: for each LAN, the number of LANs to which its frames may go, and a row with a one
//!   for each of these LANs and a zero for each other LAN.
//! - `remove_port_forwarding`: `FROM TO ...`, or several of these separated by commas: frames from LAN FROM
//!   no longer go to the LANs TO.
//! - `reset_port_forwarding`: frames may go to all LANs except their own.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> s :: EtherSwitch -> Discard; Idle -> [1] s [1] -> Discard
//! ```
//!
//! ## See also
//! ListenEtherSwitch, Hub, EtherMirror, HostEtherFilter

mod save;

use std::any::Any;

use element::args::{ArgType, parse_seconds};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Emit, Field, Order, Predicate, State, StateAccess, Target};
use element::{
    Args, Base, Batch, Class, Cx, Damaged, DropReason, Effects, Element, Handler, Invalid, Loaded, Packet,
    SavedState, StatePart, StateWriter, Timestamp, manual,
};
use flow::{FlowTable, HostKey, KeyHasher, TableError};
use lang::args::{split, split_spaces};
use wire::{FromBytes, MacAddr, ethernet};

use crate::editing::{bytes, when};
use crate::five_tuple::LOOKED_AT;
use crate::switch::hub::declare_flood;

/// The element class `EtherSwitch`.
pub static CLASS: Class = Class {
    name: "EtherSwitch",
    ports: "2-/=",
    manual: manual!("ether_switch.rs"),
    samples: &["", "TIMEOUT 0 -> 2/2", "TIMEOUT 0 -> 3/3", "TIMEOUT 2, CAPACITY 3 -> 3/3"],
    build: |args| build(args, false),
    ..SWITCH
};

/// The parts of the class that EtherSwitch and ListenEtherSwitch have in common.
pub(super) const SWITCH: Class = Class {
    processing: "h/h",
    flow: "#/[^#]",
    args: &[
        ArgInfo::keyword("TIMEOUT", "seconds", "300"),
        ArgInfo::keyword("CAPACITY", "unsigned", "262144"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("hosts", &["table", "count"]).on_disk(),
        StatePart::kept("counts", &["unlearnt"]),
    ],
    saved_form: save::FORM,
    ..Class::DEFAULT
};

/// Builds a switch. With `listens`, the last output gets copies of frames, and has no input.
pub(super) fn build(args: &mut Args<'_>, listens: bool) -> Result<Box<dyn Element>, Invalid> {
    let timeout = args.value::<Timestamp>("TIMEOUT");
    if timeout < Timestamp::ZERO {
        args.error_as("TIMEOUT: a time must not be negative", "TIMEOUT: parse error");
    } else if timeout > Timestamp::ZERO && whole_seconds(timeout) == Timestamp::ZERO {
        args.warn("TIMEOUT is rounded to 0 seconds, so that no address is learnt");
    }
    let capacity = args.value::<u32>("CAPACITY") as usize;
    args.finish()?;
    let hosts = Hosts::new(capacity).map_err(|error| args.error(format!("CAPACITY: {error}")));
    args.finish()?;
    let outputs = args.outputs();
    Ok(Box::new(EtherSwitch {
        timeout: whole_seconds(timeout),
        hosts: hosts.map_err(|()| Invalid)?,
        open: everywhere_else(outputs),
        listener: listens.then(|| outputs.saturating_sub(1)),
        outbox: Outbox::new(outputs),
    }))
}

/// Rounds a time to whole seconds, half a second upwards, as Click does.
fn whole_seconds(time: Timestamp) -> Timestamp {
    let (seconds, nanoseconds) = time.parts();
    Timestamp::from_secs(seconds + i64::from(nanoseconds >= 500_000_000))
}

/// Returns the initial permissions, as `[from][to]`: true unless both are the same output.
fn everywhere_else(outputs: usize) -> Vec<Vec<bool>> {
    (0..outputs).map(|from| (0..outputs).map(|to| to != from).collect()).collect()
}

/// The table of hosts: the LAN from which each last sent a frame.
struct Hosts {
    /// The LAN, by the Ethernet address of the host.
    table: FlowTable<HostKey>,
    hasher: KeyHasher,
    /// The time stamp of the last frame, which is the current time for time-outs.
    now: Timestamp,
    /// The number of frames whose source address was not recorded, because the table was full.
    unlearnt: u64,
}

/// The number of recorded addresses that are checked for expiry per frame.
const PER_FRAME: usize = 2;

impl Hosts {
    fn new(capacity: usize) -> Result<Hosts, TableError> {
        let table = FlowTable::new(capacity)?;
        Ok(Hosts { table, hasher: KeyHasher::default(), now: Timestamp::ZERO, unlearnt: 0 })
    }

    /// Records that a host has sent a frame from the LAN `port`. If the table is full, first removes some
    /// expired addresses; if it is still full, counts the frame as unlearnt.
    fn learn(&mut self, host: MacAddr, port: usize, timeout: Timestamp) {
        let (key, now) = (HostKey::new(host, port as u64), self.now);
        let hash = self.hasher.hash(&key);
        if let Some(known) = self.table.lookup(&key, hash).and_then(|id| self.table.see(id, now)) {
            *known = port as u64;
            return;
        }
        let mut inserted = self.table.insert(&key, hash, now);
        if inserted.is_err() {
            self.table.expire(now, timeout, LOOKED_AT, |_, _| {});
            inserted = self.table.insert(&key, hash, now);
        }
        self.unlearnt += u64::from(inserted.is_err());
    }

    /// Returns the LAN of a host; `None` if it is not recorded or has expired.
    fn find(&self, host: MacAddr, timeout: Timestamp) -> Option<usize> {
        let key = HostKey::new(host, 0);
        let id = self.table.lookup(&key, self.hasher.hash(&key))?;
        let is_fresh = self.now < self.table.last_seen(id)? + timeout;
        self.table.key(id).filter(|_| is_fresh).map(|key| key.value() as usize)
    }

    /// Returns the hosts that have not expired, with their LANs, ordered by address.
    fn known(&self, timeout: Timestamp) -> Vec<(MacAddr, u64)> {
        let is_fresh = |id| self.table.last_seen(id).is_some_and(|last| self.now < last + timeout);
        let fresh = self.table.iter().filter(|(id, _)| is_fresh(*id));
        let mut all: Vec<_> = fresh.map(|(_, key)| (key.address(), key.value())).collect();
        all.sort_unstable_by_key(|(host, _)| host.0);
        all
    }

    /// Takes over the hosts, the time and the count of another switch. Hosts on LANs from number `lans` on
    /// are left out.
    fn go_on_with(&mut self, old: &Hosts, lans: usize) {
        self.now = old.now;
        self.unlearnt = old.unlearnt;
        for (id, key) in old.table.iter() {
            let last = old.table.last_seen(id).unwrap_or_default();
            if key.value() < lans as u64 {
                // A host for which this table has no room is left out.
                let _ = self.table.insert(key, self.hasher.hash(key), last);
            }
        }
    }
}

/// The outputs of a frame: the output of one LAN, or all permitted outputs.
enum Way {
    To(usize),
    Everywhere,
}

struct EtherSwitch {
    timeout: Timestamp,
    hosts: Hosts,
    open: Vec<Vec<bool>>,
    listener: Option<usize>,
    outbox: Outbox,
}

/// The frames that leave after the current batch, one batch per output.
struct Outbox {
    batches: Vec<Option<Batch>>,
    /// The outputs that have frames, in the order in which they got their first frame. With a burst of 1,
    /// this is Click's order.
    order: Vec<usize>,
}

impl Outbox {
    fn new(outputs: usize) -> Outbox {
        Outbox { batches: (0..outputs).map(|_| None).collect(), order: Vec::with_capacity(outputs) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, output: usize, packet: Packet) {
        let Some(place) = self.batches.get_mut(output) else { return cx.drop(packet, DropReason::NoOutput) };
        if place.is_none() {
            self.order.push(output);
        }
        // This cannot fail: a frame is added to an output once at most, so the frames of one batch fit into
        // one.
        if let Err(packet) = place.get_or_insert_with(|| cx.batch()).push(packet) {
            cx.drop(packet, DropReason::NoBuffer);
        }
    }

    fn add_copy(&mut self, cx: &mut Cx<'_>, output: usize, packet: &Packet) {
        if let Some(copy) = cx.copy(packet) {
            self.add(cx, output, copy);
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        for output in self.order.drain(..) {
            if let Some(batch) = self.batches.get_mut(output).and_then(Option::take) {
                cx.emit(output, batch);
            }
        }
    }
}

impl EtherSwitch {
    /// Records the source address of a frame, unless TIMEOUT is 0, and returns the outputs of the frame by
    /// its destination. Returns `None` if the frame is shorter than an Ethernet header.
    fn way(&mut self, port: usize, packet: &Packet) -> Option<Way> {
        let addresses = packet.data().first_chunk::<{ ethernet::Header::LEN }>()?;
        let header = ethernet::Header::ref_from_bytes(addresses).ok()?;
        if self.timeout == Timestamp::ZERO {
            return Some(Way::Everywhere);
        }
        self.hosts.now = packet.time();
        self.hosts.learn(header.source, port, self.timeout);
        let known = match header.destination.is_group() {
            true => None,
            false => self.hosts.find(header.destination, self.timeout),
        };
        Some(known.map_or(Way::Everywhere, Way::To))
    }

    fn is_open(&self, from: usize, to: usize) -> bool {
        self.open.get(from).and_then(|to_all| to_all.get(to)).copied().unwrap_or(false)
    }

    /// Returns the outputs to which frames from an input are permitted, from the last to the first, as they
    /// are flooded.
    fn ways(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.open.len()).rev().filter(move |&to| self.is_open(from, to))
    }

    fn inputs(&self) -> usize {
        self.open.len() - usize::from(self.listener.is_some())
    }

    fn forward(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) {
        match self.way(port, &packet) {
            None => cx.drop(packet, DropReason::TooShort),
            Some(Way::Everywhere) => self.flood(cx, port, packet),
            Some(Way::To(output)) => self.forward_to(cx, port, output, packet),
        }
    }

    fn forward_to(&mut self, cx: &mut Cx<'_>, port: usize, output: usize, packet: Packet) {
        let goes = self.is_open(port, output);
        match self.listener {
            Some(listener) if !goes => self.outbox.add(cx, listener, packet),
            Some(listener) => {
                self.outbox.add_copy(cx, listener, &packet);
                self.outbox.add(cx, output, packet);
            }
            None if goes => self.outbox.add(cx, output, packet),
            None => cx.drop(packet, DropReason::Denied),
        }
    }

    fn flood(&mut self, cx: &mut Cx<'_>, port: usize, packet: Packet) {
        // As in Click, copies go to the permitted outputs from the last to the first. The permitted output
        // with the lowest number gets the frame itself.
        let Some(first) = (0..self.open.len()).find(|&output| self.is_open(port, output)) else {
            return cx.drop(packet, DropReason::Denied);
        };
        for output in (first + 1..self.open.len()).rev() {
            if self.is_open(port, output) {
                self.outbox.add_copy(cx, output, &packet);
            }
        }
        self.outbox.add(cx, first, packet);
    }

    /// Forbids frames from LANs to others, as in `FROM TO ..., FROM TO ...`. Returns `None`, and changes
    /// nothing, if the text or a number is invalid.
    fn close(&mut self, cx: &Cx<'_>, text: &str) -> Option<()> {
        let mut open = self.open.clone();
        let place = cx.place();
        for rule in split(text) {
            let words = split_spaces(&rule.text);
            let mut numbers = words.iter().map(|word| usize::parse(&word.text, &place).ok());
            let from = open.get_mut(numbers.next()??)?;
            for to in numbers {
                *from.get_mut(to?)? = false;
            }
        }
        self.open = open;
        Some(())
    }
}

impl Element for EtherSwitch {
    fn effects(&self) -> Effects {
        let addresses = bytes(Base::Data, 0, 12);
        let key = [addresses.clone(), Field::TimeStamp, Field::InputPort];
        let short = Predicate::reaches(Base::Data, 0, ethernet::Header::LEN as u16).not();
        let long = short.clone().not();
        let mut effects = Effects::cases(vec![Case::new(short, Target::Drop(DropReason::TooShort))]);
        if self.timeout > Timestamp::ZERO {
            if self.listener.is_none() {
                let back = "for a host on a LAN that it may not go to";
                effects.cases.push(when(back, &key, Target::Drop(DropReason::Denied)));
            }
            effects.cases.push(when("for a host on a known LAN", &key, Target::SomeOutput));
            effects.state = vec![State {
                table: "hosts",
                key: vec![addresses],
                both_directions: true,
                access: StateAccess::EveryPacket,
            }];
            effects.depends = vec![Depends::Counter];
        }
        for input in 0..self.inputs() {
            declare_flood(&mut effects, input, self.ways(input), &long);
        }
        if !effects.state.is_empty() {
            // Effects cannot declare the outputs of copies, because these depend on the table of hosts.
            effects.emits = vec![Emit { reads: key.to_vec(), when: long, ..Emit::copies(None) }];
        }
        effects.order = Order::Keeps;
        effects.depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.hosts.hasher = cx.key_hasher();
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        let frames = batch.len();
        for packet in batch.drain() {
            self.forward(cx, port, packet);
        }
        if self.timeout > Timestamp::ZERO {
            self.hosts.table.expire(self.hosts.now, self.timeout, PER_FRAME * frames, |_, _| {});
        }
        cx.recycle(batch);
        self.outbox.send(cx);
        None
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let empty = Hosts::new(1).ok()?;
        Some(Box::new((std::mem::replace(&mut self.hosts, empty), self.inputs())))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        // Only inputs have hosts, so an additional last output for copies does not count as a LAN.
        let (mut old, lans): (Hosts, usize) = *state.downcast().map_err(|_| "not the state of a switch")?;
        if lans <= self.inputs() && old.table.stats().capacity == self.hosts.table.stats().capacity {
            std::mem::swap(&mut self.hosts, &mut old);
        } else {
            self.hosts.go_on_with(&old, self.inputs());
        }
        cx.dispose(old);
        Ok(())
    }

    fn save_state(&mut self, cx: &mut Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        self.save(cx, from, out)
    }

    fn load_state(&mut self, cx: &mut Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        self.load(cx, state)
    }
}

const HANDLERS: &[Handler<EtherSwitch>] = &[
    Handler::get("table", |e| {
        let hosts = e.hosts.known(e.timeout);
        hosts.iter().map(|(host, port)| format!("{host:#} {port}\n")).collect()
    }),
    Handler::get("count", |e| e.hosts.table.stats().entries.to_string()),
    Handler::count("unlearnt", |e| e.hosts.unlearnt),
    Handler::data(
        "timeout",
        |e| e.timeout.parts().0.to_string(),
        |e, _, value| {
            let timeout = parse_seconds(value).filter(|&timeout| timeout >= Timestamp::ZERO);
            e.timeout = whole_seconds(timeout.ok_or("expected timeout (integer)")?);
            Ok(())
        },
    ),
    Handler::get("port_forwarding", |e| {
        let row = |(from, open): (usize, &Vec<bool>)| {
            let bits: String = open.iter().map(|&open| if open { '1' } else { '0' }).collect();
            let weight = open.iter().filter(|&&open| open).count();
            format!("weight: {weight}\t{from}: {bits}\n")
        };
        e.open.iter().enumerate().map(row).collect()
    }),
    Handler::set("remove_port_forwarding", |e, cx, value| {
        e.close(cx, value).ok_or("invalid port forwarding")?;
        Ok(())
    }),
    Handler::act("reset_port_forwarding", |e| e.open = everywhere_else(e.open.len())),
];
