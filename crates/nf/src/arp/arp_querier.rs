//! # ARPQuerier
//! Puts Ethernet headers in front of IPv4 packets, and asks for the addresses in them by ARP (RFC 826).
//!
//! Packets come in on input 0 with their next hop in the destination address annotation. Those for whom it is not known
//! yet wait, and a query is sent instead: at most ten a second for one address, one in two seconds after ten of them
//! without an answer, and only while packets come. Replies, with their Ethernet headers, come in on input 1; the packets
//! that have waited leave in their order. Queries leave by output 1 if there is one. They have the time stamp and the VLAN
//! annotation of the packet that they are sent for.
//!
//! The broadcast address, 255.255.255.255 and multicast addresses (RFC 1112) need no query. Packets for 0.0.0.0 are
//! dropped. When a run ends, packets leave whose addresses have become known; the others are dropped.
//!
//! Replies are of no effect if they name an address that no other host can have: 0.0.0.0/8, 127.0.0.0/8, groups, broadcast
//! addresses and this host's own, or an Ethernet address of a group, of zeros, or this host's own. A reply that nobody has asked
//! for counts only until one comes that somebody has asked for. After that, one that names another Ethernet address has the
//! neighbour be asked when it is used next; if the neighbour does not answer two questions, everybody is asked, and the next
//! reply counts. So nobody takes the place of a neighbour that answers; who has taken over its address is known after three
//! packets, a tenth of a second apart. With POLL_TIMEOUT 0 no neighbour is asked, and that takes until TIMEOUT. With UNSOLICITED
//! all replies count at once, as in Click.
//!
//! With GIVE_UP, packets that wait for longer than that leave by output 2, as they came in: that nobody answers is for an
//! ICMPError to say there (RFC 1812, section 3.3.2). Without output 2 they are dropped. Click has neither of the two: there
//! packets wait until their entry goes.
//!
//! ## Usage
//! `ARPQuerier(IP, ETH [, KEYWORDS])`, or `ARPQuerier(NAME [, KEYWORDS])` with a name that stands for both
//!
//! ## Arguments
//! - `IP`: this host's address, or address and prefix.
//! - `ETH`: this host's Ethernet address.
//! - `TABLE`: an ARPTable to use instead of one of its own; the arguments below up to TIMEOUT then count for nothing.
//! - `CAPACITY`: most packets that wait; 0 for no bound.
//! - `ENTRY_CAPACITY`: most entries; 0 for no bound. The oldest one without an answer gives way first, so that who is known
//!   stays; then the oldest one. A reply that nobody has asked for makes nobody give way.
//! - `ENTRY_PACKET_CAPACITY`: most packets that wait for one address; 0 for no bound. The first ones stay, although RFC
//!   1122 (section 2.3.2.2) would rather have the last.
//! - `CAPACITY_SLIM_FACTOR`: when there are too many packets, one in so many of those allowed is dropped, those for the
//!   oldest entries first.
//! - `TIMEOUT`: how long an address holds after the last reply; 0 for ever.
//! - `BROADCAST`: the local broadcast address; the last one of the prefix by default, if there is one. Of a prefix of 31
//!   bits (RFC 3021) that may be the other host: give another address there.
//! - `POLL_TIMEOUT`: how long after the last reply queries start to ask whether an address still holds; 0 for never.
//! - `GIVE_UP`: how long a packet waits at most; 0 for no bound.
//! - `BROADCAST_POLL`: whether such queries go to everybody and not only to that address.
//! - `UNSOLICITED`: whether replies that nobody has asked for replace a neighbour that answers.
//!
//! ## Handlers
//! - `ipaddr`: this host's address, from which queries are sent; without one (0.0.0.0) packets are dropped.
//! - `broadcast`: the local broadcast address.
//! - `table`: a line per entry, oldest first: IPv4 address, 1 if its Ethernet address is known, else 0, Ethernet address,
//!   seconds since the last reply.
//! - `stats`: packets dropped, those that the table has given up or refused included, and queries sent, in words.
//! - `queries`: queries sent.
//! - `responses`: packets long enough to be a reply that came in on input 1.
//! - `drops`: packets dropped for other reasons than that they waited in vain or that too many wait.
//! - `count`: entries.
//! - `length`: packets that wait.
//! - `insert`: `IP ETHER`: notes an address, as a reply would.
//! - `delete`: forgets the Ethernet address of an IPv4 address.
//! - `clear`: forgets all, drops the packets that wait, and sets counters to zero.
//! - `release`: lets packets go whose addresses another element has learnt; elements that share a table call it.
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
use element::args::{Arg, ElementRef, Ipv4Prefix, Raw};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{
    Access, Action, Case, DST_IP, Depends, Emit, Field, Filter, Header, Hold, Number, Order, State, Target,
    Value, wire_field,
};
use element::{Args, Base, Batch, Call, Class, Cx, DropReason, Effects, Element, Packet, Timestamp, manual};
use packet::Annotations;
use wire::{LinkType, MacAddr, arp, ether_type, ethernet};

use super::arp_table::{self, Change};
use super::table::{self, Limits, RELEASE, Shared, Table, Waiters};
use super::waiting::{Dropping, Waiting};
use super::{FRAME, Party, frame, headers, hosts, is_operation, prefix_or_address};
use crate::editing::{annotation, bytes, constant, value, when, within};
use crate::ethernet::vlan::{TCI, set_tci_annotation, tci_annotation, tci_is_read};
use crate::ethernet::{encapsulate, encapsulated, readdress};

/// The class.
pub static CLASS: Class = Class {
    name: "ARPQuerier",
    ports: "2/1-3",
    processing: "h/h",
    flow: "xy/x",
    manual: manual!("arp_querier.rs"),
    args: &ARGS,
    handlers: &HANDLERS,
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
        let poll_timeout = table::milliseconds(args.or("POLL_TIMEOUT", Timestamp::from_secs(60)));
        let polls_everybody = args.or("BROADCAST_POLL", false);
        let unsolicited = args.or("UNSOLICITED", false);
        let give_up = args.or("GIVE_UP", Timestamp(0));
        if give_up < Timestamp(0) {
            args.error("GIVE_UP: must not be negative");
        }
        let Raw(ip) = args.required("IP");
        // One name may stand for both.
        let eth = args.get("ETH").map_or_else(|| ip.clone(), |Raw(text)| text);
        args.finish()?;
        let place = args.place();
        let ip = prefix_or_address(&ip, &place).map_err(|e| format!("IP: {e}"));
        let mac = MacAddr::parse(&eth, &place).map_err(|e| format!("ETH: {e}"));
        let (mut own, mut prefix) = (MacAddr::default(), None);
        match mac {
            Ok(mac) => own = mac,
            Err(text) => args.error(text),
        }
        match ip {
            Ok(ip) => prefix = Some(ip),
            Err(text) => args.error(text),
        }
        args.finish()?;
        let Some(prefix) = prefix else { return Err(element::Invalid) };
        let (id, several) = (args.id(), args.setup.workers > 1);
        let home = match shared {
            Some(table) => Home::Shared(table),
            // A reply comes to one worker, and counts for all.
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
            polls_everybody,
            unsolicited,
            queries: 0,
            responses: 0,
            drops: 0,
            has_warned: false,
            seen: 0,
            is_new: false,
        };
        desk.note_others();
        Ok(Box::new(ArpQuerier { home, desk, query_output: args.outputs().saturating_sub(1).min(1) }))
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

const HANDLERS: [HandlerInfo; 13] = {
    let [a, b, c, d, e, f, g] = arp_table::HANDLERS;
    [
        HandlerInfo::both("ipaddr"),
        HandlerInfo::both("broadcast"),
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        HandlerInfo::read("stats"),
        HandlerInfo::count("queries"),
        HandlerInfo::count("responses"),
        HandlerInfo::write(RELEASE),
    ]
};

/// The table that TABLE names.
fn shared_table(args: &mut Args<'_>) -> Option<Arc<Shared>> {
    let ElementRef(element) = args.get("TABLE")?;
    let shared = args.setup.service(element);
    if shared.is_none() {
        args.error("TABLE: type mismatch, expected ARPTable");
    }
    shared
}

/// The last address of a prefix, if it is more than one address.
fn broadcast_of(prefix: Ipv4Prefix) -> Ipv4Addr {
    let last = prefix.broadcast();
    if last == prefix.address { Ipv4Addr::BROADCAST } else { last }
}

/// The Ethernet address of a multicast address (RFC 1112, section 6.4).
fn multicast(address: Ipv4Addr) -> MacAddr {
    let [_, b, c, d] = address.octets();
    MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// Where addresses are looked up.
enum Home {
    Own(Box<Table>),
    Shared(Arc<Shared>),
}

/// A table for the length of a call.
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
    desk: Desk,
    query_output: usize,
}

/// Everything but the table.
struct Desk {
    waiting: Waiting,
    /// How long packets wait at most, and where they leave then.
    give_up: Timestamp,
    unanswered_output: Option<usize>,
    /// When that is to be looked at.
    alarm: Option<Timestamp>,
    mac: MacAddr,
    ip: Ipv4Addr,
    broadcast: Ipv4Addr,
    /// The addresses that other hosts can have.
    others: IntervalSet,
    /// In milliseconds; zero for never.
    poll_timeout: i64,
    polls_everybody: bool,
    /// The argument UNSOLICITED: replies without a query replace a neighbour that answers.
    unsolicited: bool,
    queries: u64,
    responses: u64,
    drops: u64,
    has_warned: bool,
    /// The table's changes that this element knows of.
    seen: u64,
    /// Whether what waits comes from an earlier element, and does not count yet.
    is_new: bool,
}

/// What an element hands on to another one.
struct Kept {
    desk: Desk,
    /// If it was its own.
    table: Option<Box<Table>>,
}

impl Desk {
    /// Puts an Ethernet header in front of a packet. False, and the packet as it was, where there is no room.
    #[inline]
    fn encapsulate(&self, packet: &mut Packet, destination: MacAddr) -> bool {
        let ether_type = ether_type::IPV4.into();
        encapsulate(packet, &ethernet::Header { destination, source: self.mac, ether_type })
    }

    /// A packet on input 0: what leaves at once.
    #[inline]
    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        table: &mut Table,
        output: usize,
        mut packet: Packet,
    ) -> Option<Packet> {
        if self.ip.is_unspecified() {
            return self.refuse(cx, packet, DropReason::Inactive);
        }
        let address = u32::from_be_bytes(packet.annotations().array4(Annotations::DST_IP));
        let now = table::now(cx);
        let destination = match table.look_up(address, now, self.poll_timeout) {
            Some((mac, asks)) => {
                if asks {
                    let everybody = self.polls_everybody || table.asks_everybody(address);
                    let to = if everybody { MacAddr::BROADCAST } else { mac };
                    self.ask(cx, output, &packet, address, to);
                }
                mac
            }
            None => match self.without_query(address) {
                Some(mac) => mac,
                None => {
                    self.wait(cx, table, output, packet, address);
                    return None;
                }
            },
        };
        match self.encapsulate(&mut packet, destination) {
            true => Some(packet),
            false => self.refuse(cx, packet, DropReason::NoHeadroom),
        }
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: DropReason) -> Option<Packet> {
        self.drops += 1;
        cx.drop(packet, reason);
        None
    }

    /// The Ethernet address of an address that is nobody's.
    fn without_query(&self, address: u32) -> Option<MacAddr> {
        let address = Ipv4Addr::from_bits(address);
        match address {
            Ipv4Addr::BROADCAST => Some(MacAddr::BROADCAST),
            _ if address == self.broadcast => Some(MacAddr::BROADCAST),
            _ => address.is_multicast().then(|| multicast(address)),
        }
    }

    /// A packet for an address that is not known.
    fn wait(&mut self, cx: &mut Cx<'_>, table: &mut Table, output: usize, mut packet: Packet, address: u32) {
        if address == 0 {
            if !std::mem::replace(&mut self.has_warned, true) {
                let declaration = cx.declaration();
                cx.message(format_args!(
                    "{declaration}: would query for 0.0.0.0; missing dest IP addr annotation?\n"
                ));
            }
            self.refuse(cx, packet, DropReason::Unsuitable);
            return;
        }
        // The addresses are written when it leaves; that there is room is better known now.
        if !self.encapsulate(&mut packet, MacAddr::BROADCAST) {
            self.refuse(cx, packet, DropReason::NoHeadroom);
            return;
        }
        let queued = self.waiting.len_of(address);
        let mut waiters = Dropping { cx, waiting: &mut self.waiting };
        let admission = table.admit(address, table::now(waiters.cx), queued, &mut waiters);
        if admission.query {
            self.ask(cx, output, &packet, address, MacAddr::BROADCAST);
        }
        match table.ticket(address).filter(|_| admission.waits) {
            Some(ticket) => {
                self.waiting.push(address, ticket, packet, cx.now());
            }
            None => cx.drop(packet, DropReason::QueueFull),
        }
    }

    /// Sends a query on behalf of a packet.
    fn ask(&mut self, cx: &mut Cx<'_>, output: usize, about: &Packet, address: u32, to: MacAddr) {
        let own = Party { mac: self.mac, ip: self.ip };
        let wanted = Party { mac: MacAddr::default(), ip: Ipv4Addr::from_bits(address) };
        let Some(mut query) = cx.packet(&frame(arp::REQUEST, to, own, wanted)) else { return };
        self.queries += 1;
        query.set_time(about.time());
        query.set_link_header(ethernet::Header::LEN);
        query.set_link(LinkType::Ethernet.number());
        if tci_is_read(cx) {
            set_tci_annotation(&mut query, tci_annotation(about));
        }
        cx.emit_one(output, query, DropReason::NoOutput);
    }

    /// True if another host can have these addresses.
    fn may_be(&self, address: u32, mac: MacAddr) -> bool {
        mac.is_host() && mac != self.mac && self.others.contains(address.into())
    }

    /// The IPv4 addresses that other hosts can have.
    fn note_others(&mut self) {
        let own = [self.ip, self.broadcast].map(|address| u128::from(address.to_bits()));
        let own = IntervalSet::one(own[0], own[0]).union(&IntervalSet::one(own[1], own[1]));
        self.others = hosts().intersection(&own.complement(32));
    }

    /// A packet on input 1.
    fn learn(&mut self, cx: &mut Cx<'_>, table: &mut Table, packet: Packet) {
        let Some(frame) = packet.data().first_chunk::<FRAME>() else {
            return cx.drop(packet, DropReason::TooShort);
        };
        self.responses += 1;
        let found = headers(frame, arp::REPLY).map(|(_, header)| (header.sender_ip.get(), header.sender_mac));
        let Some((address, mac)) = found.filter(|&(address, mac)| self.may_be(address, mac)) else {
            return cx.drop(packet, DropReason::Unsuitable);
        };
        cx.drop(packet, DropReason::Answered);
        let now = table::now(cx);
        let waiters = &mut Dropping { cx, waiting: &mut self.waiting };
        if table.learn(address, mac, self.unsolicited, now, waiters) {
            self.send(cx, table, address, mac);
        }
    }

    /// Sends what has waited for an address.
    fn send(&mut self, cx: &mut Cx<'_>, table: &mut Table, address: u32, destination: MacAddr) {
        table.released(address, self.waiting.len_of(address));
        while let Some(mut packet) = self.waiting.pop(address) {
            if self.ip.is_unspecified() {
                self.refuse(cx, packet, DropReason::Inactive);
                continue;
            }
            // The handler that changes this element's address may have been called meanwhile.
            readdress(&mut packet, destination, self.mac);
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
    }

    /// Does with what waits for an address what somebody else's change of its entry means for it.
    fn follow(&mut self, cx: &mut Cx<'_>, table: &mut Table, address: u32, reason: DropReason) {
        let Some(ticket) = self.waiting.ticket(address) else { return };
        if table.ticket(address).is_none_or(|entry| entry.id != ticket.id) {
            // The table has counted them.
            Dropping { cx, waiting: &mut self.waiting }.give_up(address, reason);
        } else if let Some(mac) = table.known(address, table::now(cx)) {
            self.send(cx, table, address, mac);
        }
    }

    /// The same for all addresses.
    fn follow_all(&mut self, cx: &mut Cx<'_>, table: &mut Table) {
        for address in self.waiting.addresses(table) {
            self.follow(cx, table, address, table.last_reason());
        }
    }

    /// Does what is due, and what others have changed.
    fn catch_up(&mut self, cx: &mut Cx<'_>, table: &mut Table) {
        if std::mem::take(&mut self.is_new) {
            self.take_over(cx, table);
        } else if self.seen != table.changes() {
            match table.changed_since(self.seen) {
                Some(changes) => changes.for_each(|(address, why)| self.follow(cx, table, address, why)),
                None => self.follow_all(cx, table),
            }
        }
        table.catch_up(table::now(cx), &mut Dropping { cx, waiting: &mut self.waiting });
        while let Some((address, packet)) = self.waiting.pop_due(cx.now()) {
            self.give_up(cx, table, address, packet);
        }
    }

    /// A packet has waited for too long.
    #[cold]
    fn give_up(&mut self, cx: &mut Cx<'_>, table: &mut Table, address: u32, mut packet: Packet) {
        // There is a header in front of it already.
        match self.unanswered_output.filter(|_| packet.strip(ethernet::Header::LEN)) {
            Some(output) => {
                table.released(address, 1);
                cx.emit_one(output, packet, DropReason::OutOfTime);
            }
            None => {
                table.gave_up(address, 1);
                cx.drop(packet, DropReason::OutOfTime);
            }
        }
    }

    /// Counts what has waited in an earlier element, and drops what has not waited for this table.
    fn take_over(&mut self, cx: &mut Cx<'_>, table: &mut Table) {
        for address in self.waiting.addresses(table) {
            let packets = self.waiting.len_of(address);
            if self.waiting.ticket(address).map(|ticket| ticket.id)
                == table.ticket(address).map(|entry| entry.id)
            {
                table.took_over(address, packets);
            } else {
                table.dropped(packets);
            }
            self.follow(cx, table, address, DropReason::Reset);
        }
    }

    /// Drops everything that waits.
    fn give_up_all(&mut self, cx: &mut Cx<'_>, table: &mut Table, reason: DropReason) {
        for address in self.waiting.addresses(table) {
            table.released(address, self.waiting.len_of(address));
            Dropping { cx, waiting: &mut self.waiting }.give_up(address, reason);
        }
    }
}

impl ArpQuerier {
    /// Runs with what is due done, and lets the others know of what has changed.
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
        // Another worker may get the reply.
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

    /// The packet with an Ethernet header in front of it, which has this destination.
    fn encapsulated(&self, when: Filter, to: Target, destination: Vec<Action>) -> Case {
        encapsulated(when, to, self.desk.mac, ether_type::IPV4, destination)
    }
}

/// How long packets wait, at most, after another worker has learnt what they wait for.
const LOOK_AGAIN: Timestamp = Timestamp(1_000_000);

/// The output for packets that nobody has answered for.
const UNANSWERED: usize = 2;

/// The name of the state in declarations.
const TABLE: &str = "ARP table";

impl Element for ArpQuerier {
    fn effects(&self) -> Effects {
        let reply = is_operation(arp::REPLY);
        let unicast = within(bytes(Base::Data, 22, 1), 0x01, 0, 0);
        let no_host = [MacAddr::default(), self.desk.mac].map(|mac| mac.to_bits().into());
        let no_host = no_host.map(|mac| Filter::equals(bytes(Base::Data, 22, 6), mac).not());
        let others = Filter::In {
            field: bytes(Base::Data, 28, 4),
            mask: u32::MAX.into(),
            set: self.desk.others.clone(),
        };
        let believed = reply.and([unicast, others]).and(no_host);
        let mut cases = vec![
            Case::new(believed, Target::Drop(DropReason::Answered)).on(1),
            Case::new(Filter::reaches(Base::Data, 0, FRAME as u16), Target::Drop(DropReason::Unsuitable))
                .on(1),
            Case::new(Filter::Any, Target::Drop(DropReason::TooShort)).on(1),
        ];
        let hit = Filter::State { table: TABLE, hit: true };
        let everybody = [Ipv4Addr::BROADCAST, self.desk.broadcast].map(|address| {
            let number = u128::from(address.to_bits());
            within(DST_IP, u128::MAX, number, number)
        });
        let everybody = Filter::One(everybody.to_vec());
        let group = within(DST_IP, u128::MAX, 0xe000_0000, 0xefff_ffff);
        let nobody = Filter::equals(DST_IP, 0);
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
            cases.push(Case::new(Filter::Any, Target::Drop(DropReason::Inactive)).on(0));
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
            cases.push(Case::new(Filter::Any, Target::Drop(DropReason::QueueFull)).on(0));
        }
        let query = Emit {
            name: "ARP query",
            input: Some(0),
            reads: vec![DST_IP, TCI, Field::TimeStamp],
            output: Some(self.query_output),
            starts: Some(Header::Ethernet),
            // Addresses that are known are asked for again before they expire.
            when: if self.desk.poll_timeout > 0 { Filter::Any } else { asked },
        };
        let effects = Effects {
            hold: Hold::PerFlow,
            order: Order::KeepsPerFlow,
            emits: vec![query],
            state: vec![State {
                table: TABLE,
                key: vec![DST_IP],
                both_directions: false,
                access: Access::Shared,
            }],
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time).depending_on(Depends::Counter).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Home::Shared(shared) = &self.home {
            shared.join(cx.id());
            let mut table = shared.open();
            if table.len() == 0 {
                table.set_seed(cx.hash_seed());
            }
        }
        self.desk.waiting.set_seed(cx.hash_seed());
        if let Home::Own(table) = &mut self.home {
            table.set_seed(cx.hash_seed());
        }
        // What is due later counts from now.
        self.with(cx, |_, _, _| {});
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        let output = self.query_output;
        if port == 0 {
            self.with(cx, |desk, cx, table| {
                batch.replace_each(|packet| desk.take(cx, table, output, packet));
            });
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
        // None is set any more.
        self.desk.alarm = None;
        cx.clear_timer(1);
        self.with(cx, |_, _, _| {});
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.with(cx, |desk, cx, table| {
            // Some may have become known without a word, by hot-swapping.
            desk.follow_all(cx, table);
            desk.give_up_all(cx, table, DropReason::Stop);
        });
    }

    fn held(&self) -> usize {
        self.desk.waiting.len()
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(self.with(cx, |desk, cx, table| match name {
            "ipaddr" => desk.ip.to_string(),
            "broadcast" => desk.broadcast.to_string(),
            "queries" => desk.queries.to_string(),
            "responses" => desk.responses.to_string(),
            "drops" => desk.drops.to_string(),
            "stats" => {
                format!("{} packets killed\n{} ARP queries sent\n", desk.drops + table.drops(), desk.queries)
            }
            _ => arp_table::read(table, cx, name),
        }))
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, text: &str) -> Result<(), String> {
        match name {
            "ipaddr" => {
                self.desk.ip = value(cx, text, "expected IP address")?;
                self.desk.note_others();
            }
            "broadcast" => {
                self.desk.broadcast = value(cx, text, "expected IP address")?;
                self.desk.note_others();
            }
            RELEASE => self.with(cx, |_, _, _| {}),
            _ => {
                let change = Change::parse(cx, name, text)?;
                self.with(cx, |desk, cx, table| {
                    let now = table::now(cx);
                    change.apply(table, now, &mut Dropping { cx, waiting: &mut desk.waiting });
                    match change {
                        Change::Insert(address, _) => desk.follow(cx, table, address, DropReason::Reset),
                        Change::Clear => (desk.queries, desk.responses, desk.drops) = (0, 0, 0),
                    }
                });
            }
        }
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let waiting = std::mem::take(&mut self.desk.waiting);
        let mut opened = self.home.open();
        for address in waiting.addresses(opened.table()) {
            opened.table().released(address, waiting.len_of(address));
        }
        let table = match opened {
            Opened::Own(table) => Some(Box::new(table.take())),
            Opened::Shared(_) => None,
        };
        Some(Box::new(Kept { desk: Desk { waiting, others: IntervalSet::empty(), ..self.desk }, table }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Kept { desk: old, table: kept } =
            *state.downcast::<Kept>().map_err(|_| "not of an ARPQuerier")?;
        let is_same_host = (old.ip, old.mac) == (self.desk.ip, self.desk.mac);
        (self.desk.queries, self.desk.responses, self.desk.drops) = (old.queries, old.responses, old.drops);
        (self.desk.waiting, self.desk.is_new) = (old.waiting, true);
        self.desk.waiting.set_patience(Some(self.desk.give_up).filter(|time| time.0 > 0));
        match (&mut self.home, kept) {
            (Home::Own(table), Some(kept)) if is_same_host => table.go_on_with(*kept),
            // What another host has learnt is of no use here; what was given up still counts.
            (Home::Own(table), Some(kept)) => table.dropped(kept.drops() as usize),
            (Home::Own(_), None) => {}
            // The table may get its own state later.
            (Home::Shared(_), _) => {
                let call = Call { element: Some(cx.id()), handler: RELEASE.into(), value: String::new() };
                cx.call_later(&Arc::new(call));
                return Ok(());
            }
        }
        self.with(cx, |_, _, _| {});
        Ok(())
    }
}
