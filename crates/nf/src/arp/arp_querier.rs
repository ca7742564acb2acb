//! # ARPQuerier
//! Adds Ethernet headers to IPv4 packets, and queries their destination addresses by ARP (RFC 826).
//!
//! Packets arrive on input 0 with their next hop in the destination address annotation. If its Ethernet
//! address is not known yet, the packet waits, and a query is sent: at most ten queries a second for one
//! address; after ten queries without an answer, one in two seconds; and only while packets arrive.
//! Replies, with their Ethernet headers, arrive on input 1; the packets that waited then leave in their
//! order. Queries leave by output 1 if there is one. A query has the time stamp and the VLAN annotation of
//! the packet that it is sent for.
//!
//! The broadcast address, 255.255.255.255 and multicast addresses (RFC 1112) need no query. Packets for
//! 0.0.0.0 are dropped. At the end of a run, packets leave whose addresses have become known; the others
//! are dropped.
//!
//! A reply is ignored if it names an address that no other host can have: 0.0.0.0/8, 127.0.0.0/8, multicast
//! and broadcast addresses and this host's own, or an Ethernet address that is a group address, all zeros,
//! or this host's own. An unsolicited reply counts only until a solicited reply has arrived. After that, a
//! reply with another Ethernet address makes the element query the known neighbour with its next packet. If
//! the neighbour does not answer two queries, the next query is broadcast, and the next reply counts. So no
//! host can replace a neighbour that answers; if another host has taken over the address, this is known
//! after three packets, a tenth of a second apart. With POLL_TIMEOUT 0 no known neighbour is queried, and
//! the change takes until TIMEOUT. With UNSOLICITED all replies count at once, as in Click.
//!
//! With GIVE_UP, packets that wait for longer than this time leave by output 2, without the Ethernet
//! header, where an ICMPError can report that the host does not answer (RFC 1812, section 3.3.2). Without
//! output 2 they are dropped. Click has neither: its packets wait until their entry is removed.
//!
//! ## Usage
//! `ARPQuerier(IP, ETH [, KEYWORDS])`, or `ARPQuerier(NAME [, KEYWORDS])` with one name for both
//!
//! ## Arguments
//! - `IP`: this host's address, or address and prefix.
//! - `ETH`: this host's Ethernet address.
//! - `TABLE`: an ARPTable to use instead of a table of the element's own; the arguments below up to TIMEOUT
//!   then have no effect.
//! - `CAPACITY`: the largest number of packets that wait, each in its slot of the packet memory; 0 for no
//!   bound.
//! - `ENTRY_CAPACITY`: the largest number of entries, about 140 bytes each; 0 for no bound. When the table
//!   is full, the oldest entry without an answer is evicted, so that known neighbours stay; if there is
//!   none, the oldest entry. An unsolicited reply does not evict an entry.
//! - `ENTRY_PACKET_CAPACITY`: the largest number of packets that wait for one address; 0 for no bound.
//!   Further packets are dropped, although RFC 1122 (section 2.3.2.2) recommends keeping the latest.
//! - `CAPACITY_SLIM_FACTOR`: a divisor N: when more than CAPACITY packets wait, packets are dropped until
//!   CAPACITY - CAPACITY/N wait, but at least one, packets for the oldest entries first.
//! - `TIMEOUT`: the time that an address is valid after the last reply; 0 for ever.
//! - `BROADCAST`: the local broadcast address. If it is not given, the last address of the prefix is used,
//!   unless that is this host's own address. In a prefix of 31 bits (RFC 3021) this can be the other host:
//!   give another address there.
//! - `POLL_TIMEOUT`: the time after the last reply when queries begin that ask whether an address is still
//!   valid; 0 for never.
//! - `GIVE_UP`: the longest time that a packet waits; 0 for no bound.
//! - `BROADCAST_POLL`: if true, these queries are broadcast, instead of sent to the known address only.
//! - `UNSOLICITED`: if true, unsolicited replies replace a neighbour that answers.
//!
//! ## Handlers
//! - `ipaddr`: this host's address, from which queries are sent; without one (0.0.0.0) packets are dropped.
//! - `broadcast`: the local broadcast address.
//! - `table`: a line per entry, oldest first: IPv4 address, 1 if its Ethernet address is known, else 0,
//!   Ethernet address, seconds since the last reply.
//! - `stats`: packets dropped (including packets that the table dropped or refused) and queries sent, as
//!   text.
//! - `queries`: queries sent.
//! - `responses`: packets on input 1 that are long enough to be a reply.
//! - `drops`: packets dropped for other reasons than a missing answer or too many waiting packets.
//! - `count`: entries.
//! - `length`: packets that wait.
//! - `insert`: `IP ETHER`: notes an address, as a reply would.
//! - `delete`: forgets the Ethernet address of an IPv4 address.
//! - `clear`: removes all entries, drops the packets that wait, and sets `queries`, `responses` and `drops`
//!   to zero. The table's drops, which `stats` includes, stay, as in Click.
//! - `release`: sends packets whose addresses another element has learnt; elements that share a table call
//!   it.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> StoreIPAddress(10.0.0.2, 30) -> Strip(14) -> CheckIPHeader(CHECKSUM false)
//!     -> a :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1) -> Discard;
//! a[1] -> ARPResponder(10.0.0.2 2:0:0:0:0:2) -> [1] a
//! ```
//!
//! ## See also
//! ARPTable, ARPResponder, ARPFaker, AddressInfo, EtherEncap

use std::any::Any;
use std::net::Ipv4Addr;
use std::ops::DerefMut;
use std::sync::{Arc, MutexGuard};

use classify::IntervalSet;
use element::args::{ElementRef, Ipv4Prefix, Raw, read_value};
use element::class::ArgInfo;
use element::effects::{
    Action, Case, DST_IP, Depends, Emit, Field, Filter, HeaderKind, Hold, Number, Order, Predicate, State,
    StateAccess, Target, Value, wire_field,
};
use element::{
    Args, Base, Batch, Call, Class, Complaint, Cx, Damaged, DropReason, Effects, Element, Handler, Loaded,
    SavedState, StatePart, StateWriter, Timestamp, manual,
};
use packet::Annotations;
use wire::{MacAddr, arp, ether_type};

use super::arp_table::Change;
use super::desk::Desk;
use super::shared::{RELEASE, Shared};
use super::table::{self, Limits, Table};
use super::waiting::{Dropping, Waiting};
use super::{FRAME, is_operation, prefix_or_address};
use crate::editing::{annotation, bytes, constant, value, when, within};
use crate::ethernet::encapsulated;
use crate::ethernet::vlan::TCI;

/// The element class `ARPQuerier`.
pub static CLASS: Class = Class {
    name: "ARPQuerier",
    ports: "2/1-3",
    processing: "h/h",
    flow: "xy/x",
    manual: manual!("arp_querier.rs"),
    args: &ARGS,
    table: &HANDLERS,
    state: &[
        StatePart::kept("ARP table", &["table", "count"]).on_disk(),
        StatePart::kept("packets", &["length"]),
        StatePart::kept("counts", &["drops", "stats", "queries", "responses"]),
    ],
    saved_form: table::FORM,
    samples: &[
        "10.0.0.1/8, 2:0:0:0:0:1, CAPACITY 40",
        "1.0.0.1/24, 2:0:0:0:0:1, CAPACITY 4, ENTRY_CAPACITY 3, BROADCAST 1.1.1.1, POLL_TIMEOUT 0 -> 2/2",
        "1.0.0.1, 2:0:0:0:0:1, ENTRY_PACKET_CAPACITY 1, CAPACITY 30, TIMEOUT 1, BROADCAST_POLL true",
        "0.0.0.0, 2:0:0:0:0:1",
        "10.0.0.1/8, 2:0:0:0:0:1, CAPACITY 40, GIVE_UP 0.02 -> 2/3",
        "10.0.0.1/8, 2:0:0:0:0:1, CAPACITY 40, GIVE_UP 0.01, UNSOLICITED true",
    ],
    reconfigures: true,
    build: |args| {
        let limits = Limits::read(args);
        let broadcast: Option<Ipv4Addr> = args.get("BROADCAST");
        let shared = shared_table(args);
        let poll_timeout = table::milliseconds(args.value("POLL_TIMEOUT"));
        let polls_by_broadcast = args.value::<bool>("BROADCAST_POLL");
        let unsolicited = args.value::<bool>("UNSOLICITED");
        let give_up = args.value::<Timestamp>("GIVE_UP");
        if give_up < Timestamp(0) {
            args.error("GIVE_UP: must not be negative");
        }
        let Raw(ip) = args.required("IP");
        // With a single argument, its name must have both an IPv4 and an Ethernet address (AddressInfo).
        let eth = args.get("ETH").map_or_else(|| ip.clone(), |Raw(text)| text);
        args.finish()?;
        let place = args.place();
        let parsed_ip = prefix_or_address(&ip, &place);
        let parsed_mac = read_value("ETH", &eth, &place);
        let (mut own, mut prefix) = (MacAddr::default(), None);
        match parsed_mac {
            Ok(mac) => own = mac,
            Err(complaint) => args.error(complaint),
        }
        match parsed_ip {
            Ok(ip) => prefix = Some(ip),
            Err(reason) => args.error(Complaint::wrong_value::<Ipv4Prefix>("IP", &ip, &reason)),
        }
        args.finish()?;
        let Some(prefix) = prefix else { return Err(element::Invalid) };
        let (id, several) = (args.id(), args.setup.workers > 1);
        let shares_with_copies = shared.is_none() && several;
        let home = match shared {
            Some(table) => Home::Shared(table),
            // With several workers, all copies share a table, because a reply arrives at only one of them.
            None if several => Home::Shared(args.setup.common.get_or_make(id, || Shared::new(limits))),
            None => Home::Own(Box::new(Table::new(limits))),
        };
        let mut waiting = Waiting::default();
        waiting.set_patience(Some(give_up).filter(|time| time.0 > 0));
        let mut desk = Desk {
            waiting,
            give_up,
            unanswered_output: (args.outputs() > UNANSWERED).then_some(UNANSWERED),
            alarm: None,
            mac: own,
            ip: prefix.address,
            broadcast: broadcast.unwrap_or_else(|| broadcast_of(prefix)),
            others: IntervalSet::empty(),
            poll_timeout,
            polls_by_broadcast,
            unsolicited,
            queries: 0,
            responses: 0,
            drops: 0,
            has_warned: false,
            seen: 0,
            is_new: false,
        };
        desk.note_others();
        Ok(Box::new(ArpQuerier {
            home,
            limits,
            shares_with_copies,
            desk,
            query_output: args.outputs().saturating_sub(1).min(1),
        }))
    },
    ..Class::DEFAULT
};

const ARGS: [ArgInfo; 13] = {
    let [a, b, c, d, e] = table::ARGS;
    [
        ArgInfo::required("IP", "IPv4 address or prefix"),
        ArgInfo::positional("ETH", "Ethernet address", ""),
        ArgInfo::keyword("TABLE", "element", ""),
        a,
        b,
        c,
        d,
        e,
        ArgInfo::keyword("BROADCAST", "IPv4 address", ""),
        ArgInfo::keyword("POLL_TIMEOUT", "seconds", "60"),
        ArgInfo::keyword("BROADCAST_POLL", "bool", "false"),
        ArgInfo::keyword("GIVE_UP", "seconds", "0"),
        ArgInfo::keyword("UNSOLICITED", "bool", "false"),
    ]
};

/// Returns the table of the ARPTable that the argument TABLE names; `None` without TABLE. Reports an error if
/// the named element is no ARPTable.
fn shared_table(args: &mut Args<'_>) -> Option<Arc<Shared>> {
    let ElementRef(element) = args.get("TABLE")?;
    let shared = args.setup.service(element);
    if shared.is_none() {
        args.error("TABLE: type mismatch, expected ARPTable");
    }
    shared
}

/// Returns the last address of a prefix, which is its broadcast address. If it is the host's own address,
/// as in a prefix of 32 bits, returns 255.255.255.255.
fn broadcast_of(prefix: Ipv4Prefix) -> Ipv4Addr {
    let last = prefix.broadcast();
    if last == prefix.address { Ipv4Addr::BROADCAST } else { last }
}

/// The ARP table of an ARPQuerier: its own, or shared with other elements or with copies at other workers.
enum Home {
    Own(Box<Table>),
    Shared(Arc<Shared>),
}

/// Exclusive access to the table during one call of the element; a shared table is locked meanwhile.
enum Opened<'a> {
    Own(&'a mut Table),
    Shared(MutexGuard<'a, Table>),
}

impl Home {
    fn open(&mut self) -> Opened<'_> {
        match self {
            Home::Own(table) => Opened::Own(table),
            Home::Shared(shared) => Opened::Shared(shared.open()),
        }
    }
}

impl Opened<'_> {
    fn table(&mut self) -> &mut Table {
        match self {
            Opened::Own(table) => table,
            Opened::Shared(table) => table.deref_mut(),
        }
    }
}

struct ArpQuerier {
    home: Home,
    /// The limits of the element's ARP table; without effect if the table belongs to an ARPTable (argument
    /// TABLE).
    limits: Limits,
    /// True if the table is shared with the element's copies at other workers, and with no other element.
    shares_with_copies: bool,
    desk: Desk,
    query_output: usize,
}

/// The state that an ARPQuerier hands on to the ARPQuerier that replaces it when the configuration changes.
struct Kept {
    desk: Desk,
    /// The element's own table; `None` if its table is shared.
    table: Option<Box<Table>>,
    /// The table that the element shares with its copies alone.
    shared: Option<Arc<Shared>>,
}

impl ArpQuerier {
    /// Removes expired entries from the table, checks the waiting packets after changes by other elements,
    /// and calls `work`. Then notifies the elements that share the table of changes, and sets the timers.
    fn with<T>(&mut self, cx: &mut Cx<'_>, work: impl FnOnce(&mut Desk, &mut Cx<'_>, &mut Table) -> T) -> T {
        let mut opened = self.home.open();
        let table = opened.table();
        let before = table.changes();
        self.desk.catch_up(cx, table);
        let result = work(&mut self.desk, cx, table);
        self.desk.seen = table.changes();
        let has_changed = self.desk.seen != before;
        drop(opened);
        if has_changed && let Home::Shared(shared) = &self.home {
            shared.tell_others(cx);
        }
        // A reply that another worker receives is only noticed by looking into the table again.
        if cx.worker().1 > 1 && self.desk.waiting.len() > 0 {
            cx.set_timer(0, cx.now() + LOOK_AGAIN);
        }
        let due = self.desk.waiting.next_due();
        if due != self.desk.alarm {
            self.desk.alarm = due;
            match due {
                Some(due) => cx.set_timer(1, due),
                None => cx.clear_timer(1),
            }
        }
        result
    }

    /// Returns the case of the declared effects for packets that match `when` and leave to `to` with an
    /// Ethernet header. `destination` has the actions that write the destination address of this header.
    fn encapsulated(&self, when: Filter, to: Target, destination: Vec<Action>) -> Case {
        encapsulated(when, to, self.desk.mac, ether_type::IPV4, destination)
    }
}

/// The time (1 ms) after which an element with several workers looks at the table again while packets wait,
/// because another worker may have learnt their address.
const LOOK_AGAIN: Timestamp = Timestamp(1_000_000);

/// The number of the output for packets that have waited for an ARP reply for the time of GIVE_UP.
const UNANSWERED: usize = 2;

/// The name under which the table is declared as state.
const TABLE: &str = "ARP table";

impl Element for ArpQuerier {
    fn effects(&self) -> Effects {
        let reply = is_operation(arp::REPLY);
        let unicast = within(bytes(Base::Data, 22, 1), 0x01, 0, 0);
        let no_host = [MacAddr::default(), self.desk.mac].map(|mac| mac.to_bits().into());
        let no_host = no_host.map(|mac| Predicate::equals(bytes(Base::Data, 22, 6), mac).not());
        let others = Filter::Leaf(Predicate::In {
            field: bytes(Base::Data, 28, 4),
            mask: u32::MAX.into(),
            set: self.desk.others.clone(),
        });
        let believed = reply.and([unicast, others]).and(no_host);
        let mut cases = vec![
            Case::new(believed, Target::Drop(DropReason::Answered)).on(1),
            Case::new(Predicate::reaches(Base::Data, 0, FRAME as u16), Target::Drop(DropReason::Unsuitable))
                .on(1),
            Case::new(Filter::TRUE, Target::Drop(DropReason::TooShort)).on(1),
        ];
        let hit = Filter::Leaf(Predicate::State { table: TABLE, hit: true });
        let everybody = [Ipv4Addr::BROADCAST, self.desk.broadcast].map(|address| {
            let number = u128::from(address.to_bits());
            within(DST_IP, u128::MAX, number, number)
        });
        let everybody = Filter::Any(everybody.to_vec());
        let group = within(DST_IP, u128::MAX, 0xe000_0000, 0xefff_ffff);
        let nobody = Predicate::equals(DST_IP, 0);
        let chosen = || {
            let any = IntervalSet::one(0, (1 << 48) - 1);
            vec![Action::Set(wire_field::ETHER_DST, Value::Choose { set: any, key: vec![DST_IP] })]
        };
        let low_bits = Number::constant(0).plus(1, annotation(Annotations::DST_IP + 1, 3), 0x7f_ffff);
        let of_group = vec![
            constant(bytes(Base::Mac, 0, 3), &[0x01, 0x00, 0x5e]),
            Action::Set(bytes(Base::Mac, 3, 3), Value::Number(low_bits)),
        ];
        let asked =
            hit.clone().not().and([everybody.clone().not(), group.clone().not(), nobody.clone().not()]);
        if self.desk.ip.is_unspecified() {
            cases.push(Case::new(Filter::TRUE, Target::Drop(DropReason::Inactive)).on(0));
        } else {
            let to_all = vec![constant(wire_field::ETHER_DST, &MacAddr::BROADCAST.0)];
            cases.extend([
                self.encapsulated(hit, Target::Output(0), chosen()),
                self.encapsulated(everybody, Target::Output(0), to_all),
                self.encapsulated(group, Target::Output(0), of_group),
                Case::new(nobody, Target::Drop(DropReason::Unsuitable)).on(0),
            ]);
            let answered = when("an answer comes in time", &[DST_IP], Target::Hold(0)).when;
            cases.push(self.encapsulated(answered, Target::Hold(0), chosen()));
            if self.desk.give_up.0 > 0 {
                let to =
                    self.desk.unanswered_output.map_or(Target::Drop(DropReason::OutOfTime), Target::Hold);
                cases.push(when("no answer comes in time", &[DST_IP], to).on(0));
            }
            cases.push(Case::new(Filter::TRUE, Target::Drop(DropReason::QueueFull)).on(0));
        }
        let query = Emit {
            name: "ARP query",
            input: Some(0),
            reads: vec![DST_IP, TCI, Field::TimeStamp],
            output: Some(self.query_output),
            starts: Some(HeaderKind::Ethernet),
            // With POLL_TIMEOUT, a query can also be sent for a known address, so any packet can cause one.
            when: if self.desk.poll_timeout > 0 { Filter::TRUE } else { asked },
        };
        let effects = Effects {
            hold: Hold::PerFlow,
            order: Order::KeepsPerFlow,
            emits: vec![query],
            state: vec![State {
                table: TABLE,
                key: vec![DST_IP],
                both_directions: false,
                access: StateAccess::Shared,
            }],
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time).depending_on(Depends::Counter).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Home::Shared(shared) = &self.home {
            shared.join(cx.id());
            let mut table = shared.open();
            if self.shares_with_copies {
                // If this element replaces one with other arguments, it uses the same table as before, which
                // still has the old limits.
                table.set_limits(self.limits);
            }
            if table.len() == 0 {
                table.set_seed(cx.hash_seed());
            }
        }
        self.desk.waiting.set_seed(cx.hash_seed());
        if let Home::Own(table) = &mut self.home {
            table.set_seed(cx.hash_seed());
        }
        // Sets the timers for the first time.
        self.with(cx, |_, _, _| {});
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        let output = self.query_output;
        if port == 0 {
            self.with(cx, |desk, cx, table| desk.take_all(cx, table, output, &mut batch));
            return Some(batch);
        }
        self.with(cx, |desk, cx, table| {
            for packet in batch.drain() {
                desk.learn(cx, table, packet);
            }
        });
        cx.recycle(batch);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        // Timer 1 is cleared, although another timer may have called this function, and its time is
        // forgotten. `with` sets the timer again if packets still wait.
        self.desk.alarm = None;
        cx.clear_timer(1);
        self.with(cx, |_, _, _| {});
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.with(cx, |desk, cx, table| {
            // A table that was replaced by hot-swapping may have an address for which no notification was
            // sent.
            desk.follow_all(cx, table);
            desk.give_up_all(cx, table, DropReason::Stop);
        });
    }

    fn held(&self) -> usize {
        self.desk.waiting.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let waiting = std::mem::take(&mut self.desk.waiting);
        let shared = match &self.home {
            Home::Shared(shared) if self.shares_with_copies => Some(Arc::clone(shared)),
            _ => None,
        };
        let mut opened = self.home.open();
        for (address, packets) in waiting.lengths() {
            opened.table().released(address, packets);
        }
        let table = match opened {
            Opened::Own(table) => Some(Box::new(table.take())),
            Opened::Shared(_) => None,
        };
        let desk = Desk { waiting, others: IntervalSet::empty(), ..self.desk };
        Some(Box::new(Kept { desk, table, shared }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Kept { desk: old, table: kept, shared: kept_shared } =
            *state.downcast::<Kept>().map_err(|_| "not of an ARPQuerier")?;
        let is_same_host = (old.ip, old.mac) == (self.desk.ip, self.desk.mac);
        (self.desk.queries, self.desk.responses, self.desk.drops) = (old.queries, old.responses, old.drops);
        (self.desk.waiting, self.desk.is_new) = (old.waiting, true);
        self.desk.waiting.set_patience(Some(self.desk.give_up).filter(|time| time.0 > 0));
        match (&mut self.home, kept) {
            (Home::Own(table), Some(kept)) if is_same_host => table.go_on_with(*kept),
            // With another address or Ethernet address this element is another host, so what was learnt is
            // discarded. The number of drops is kept.
            (Home::Own(table), Some(kept)) => table.dropped(kept.drops() as usize),
            (Home::Own(_), None) => {}
            // The shared table may get the state of its own predecessor after this call. So a handler call,
            // which is made after that, looks for the addresses that the waiting packets need.
            (Home::Shared(shared), _) => {
                if let Some(old) = kept_shared.filter(|_| self.shares_with_copies && is_same_host) {
                    shared.continue_with(&old);
                }
                let call = Call::new(Some(cx.id()), RELEASE, "");
                cx.handlers().call_later(&Arc::new(call));
                return Ok(());
            }
        }
        self.with(cx, |_, _, _| {});
        Ok(())
    }

    // Only an ARP table that belongs to the ARPQuerier and its copies is saved here. A table that other
    // elements use, too, is saved by its ARPTable.

    fn save_state(&mut self, cx: &mut Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        match &self.home {
            Home::Own(table) => table.save(from, out),
            Home::Shared(shared) if self.shares_with_copies && !shared.is_kept_by_other_copy(cx) => {
                shared.open().save(from, out)
            }
            Home::Shared(_) => None,
        }
    }

    fn load_state(&mut self, cx: &mut Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        match &mut self.home {
            Home::Own(table) => table.load(cx, state),
            Home::Shared(shared) if self.shares_with_copies && !shared.is_kept_by_other_copy(cx) => {
                shared.open().load(cx, state)
            }
            Home::Shared(_) => Ok(Loaded::default()),
        }
    }
}

impl ArpQuerier {
    /// Makes a change in the table. Packets that wait for its address are sent or dropped; clearing the table
    /// also sets this element's counts to zero.
    fn change(&mut self, cx: &mut Cx<'_>, change: &Change) {
        self.with(cx, |desk, cx, table| {
            let now = table::now(cx);
            change.apply(table, now, &mut Dropping { cx, waiting: &mut desk.waiting });
            match *change {
                Change::Insert(address, _) => desk.follow(cx, table, address, DropReason::Reset),
                Change::Clear => (desk.queries, desk.responses, desk.drops) = (0, 0, 0),
            }
        });
    }
}

const HANDLERS: &[Handler<ArpQuerier>] = &[
    Handler::<ArpQuerier>::read("ipaddr", |e, cx, _| Ok(e.with(cx, |desk, _, _| desk.ip.to_string())))
        .and_set(|e, cx, text| {
            e.desk.ip = value(cx, text, "expected IP address")?;
            e.desk.note_others();
            Ok(())
        }),
    Handler::<ArpQuerier>::read("broadcast", |e, cx, _| {
        Ok(e.with(cx, |desk, _, _| desk.broadcast.to_string()))
    })
    .and_set(|e, cx, text| {
        e.desk.broadcast = value(cx, text, "expected IP address")?;
        e.desk.note_others();
        Ok(())
    }),
    Handler::read("table", |e, cx, _| Ok(e.with(cx, |_, cx, table| table.show(table::now(cx))))),
    Handler::<ArpQuerier>::read("drops", |e, cx, _| Ok(e.with(cx, |desk, _, _| desk.drops.to_string())))
        .summed(),
    Handler::read("count", |e, cx, _| Ok(e.with(cx, |_, _, table| table.len().to_string()))),
    Handler::read("length", |e, cx, _| Ok(e.with(cx, |_, _, table| table.waiting().to_string()))),
    Handler::set("insert", |e, cx, text| {
        let change = Change::insert(cx, text)?;
        e.change(cx, &change);
        Ok(())
    }),
    Handler::set("delete", |e, cx, text| {
        let change = Change::delete(cx, text)?;
        e.change(cx, &change);
        Ok(())
    }),
    Handler::set("clear", |e, cx, _| {
        e.change(cx, &Change::Clear);
        Ok(())
    }),
    Handler::read("stats", |e, cx, _| {
        Ok(e.with(cx, |desk, _, table| {
            format!("{} packets killed\n{} ARP queries sent\n", desk.drops + table.drops(), desk.queries)
        }))
    }),
    Handler::<ArpQuerier>::read("queries", |e, cx, _| Ok(e.with(cx, |desk, _, _| desk.queries.to_string())))
        .summed(),
    Handler::<ArpQuerier>::read("responses", |e, cx, _| {
        Ok(e.with(cx, |desk, _, _| desk.responses.to_string()))
    })
    .summed(),
    Handler::set(RELEASE, |e, cx, _| {
        e.with(cx, |_, _, _| {});
        Ok(())
    }),
];
