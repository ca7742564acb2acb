//! # IP6NDSolicitor
//! Adds Ethernet headers to IPv6 packets, and queries their addresses by neighbour discovery (RFC 4861).
//!
//! Packets arrive on input 0 with their next hop in the destination address annotation. If its Ethernet
//! address is not known yet, the packet waits, and a solicitation is sent, once a second and at most three
//! times. Packets without an answer then leave by output 2 as they came, for an ICMP6Error that reports it
//! (type 1, code 3), or are dropped. Advertisements, with their Ethernet headers, arrive on input 1. An
//! advertisement is ignored if it is not valid (section 7.1.2), if there is no entry for its address, if it
//! has no Ethernet address and none is known, or if it names an address that no other host can have (`::`,
//! `::1`, multicast addresses and this host's own; an Ethernet address that is a group address, all zeros, or
//! this host's own). Solicitations leave by output 1 if there is one.
//!
//! Multicast addresses need no solicitation (RFC 2464). Packets for the address `::` are dropped. An address
//! is valid for TIMEOUT after the last answer to a solicitation, or after another advertisement that set it.
//! From POLL_TIMEOUT on, or when an advertisement has announced another Ethernet address (section 7.2.5), the
//! known neighbour is queried while packets continue to leave, and its entry is removed after three queries
//! without an answer (never with POLL_TIMEOUT 0). So no host can replace a neighbour that answers. RFC 4861
//! lets an advertisement with the flag Override replace a known address at once; UNSOLICITED enables this.
//!
//! ## Usage
//! `IP6NDSolicitor(IP, ETH [, KEYWORDS])`
//!
//! ## Arguments
//! - `IP`: this host's address.
//! - `ETH`: this host's Ethernet address.
//! - `CAPACITY`: the largest number of packets that wait, each in its slot of the packet memory; 0 for no
//!   bound.
//! - `ENTRY_CAPACITY`: the largest number of entries, about 350 bytes each; 0 for no bound. Without a
//!   bound, a host that sends to all addresses of a network fills the memory (RFC 6583). When the table is
//!   full, the oldest entry without an answer is evicted, so that known neighbours stay; if there is none,
//!   the oldest entry.
//! - `ENTRY_PACKET_CAPACITY`: the largest number of packets that wait for one address; a further packet
//!   replaces the oldest; 0 for no bound.
//! - `TIMEOUT`: the time that an address is valid after the last answer; 0 for ever.
//! - `POLL_TIMEOUT`: the time after the last answer when solicitations begin that ask whether an address is
//!   still valid; 0 for never.
//! - `UNSOLICITED`: if true, advertisements with the flag Override replace a known address, also if they are
//!   unsolicited.
//!
//! ## Handlers
//! - `table`: a line per entry, oldest first: IPv6 address, 1 if its Ethernet address is known, else 0,
//!   Ethernet address.
//! - `stats`: packets dropped or sent to output 2, and solicitations sent, as text.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIP6Header -> GetIP6Address(24) -> nd :: IP6NDSolicitor(2001:db8::1,
//! 2:0:0:0:0:1) -> Discard; nd[1] -> IP6NDAdvertiser(::/0 2:0:0:0:0:2) -> [1] nd; nd[2] ->
//! ICMP6Error(2001:db8::1, 1, 3) -> Discard
//! ```
//!
//! ## See also
//! IP6NDAdvertiser, ICMP6Error, ARPQuerier

use std::any::Any;
use std::collections::VecDeque;
use std::net::Ipv6Addr;

use classify::IntervalSet;
use element::class::ArgInfo;
use element::effects::{
    Action, Case, DST_IP6, Depends, Emit, Field, Filter, HeaderKind, Hold, Number, Order, Predicate, State,
    StateAccess, Target, Value, wire_field,
};
use element::{
    Base, Batch, Class, Cx, Damaged, DropReason, Effects, Element, Handler, Loaded, Packet, SavedState,
    StatePart, StateWriter, Timestamp, manual,
};
use packet::Annotations;
use wire::icmpv6::kind;
use wire::neighbor::{Message, flag, multicast_mac, option, solicited_node};
use wire::{LinkType, MacAddr, ether_type, ethernet};

use super::{frame, message};
use crate::arp::table::{self, Limits, Pace, Table, UNTIDY, Waiters};
use crate::arp::waiting::{Dropping, Waiting};
use crate::editing::{annotation, bytes, constant, header_at, missing, when, within};
use crate::ethernet::{encapsulate, encapsulated, readdress};

/// The element class `IP6NDSolicitor`.
pub static CLASS: Class = Class {
    name: "IP6NDSolicitor",
    ports: "2/1-3",
    processing: "h",
    flow: "xy/x",
    manual: manual!("ip6_nd_solicitor.rs"),
    args: &[
        ArgInfo::required("IP", "IPv6 address"),
        ArgInfo::required("ETH", "Ethernet address"),
        ArgInfo::keyword("CAPACITY", "unsigned", "2048"),
        ArgInfo::keyword("ENTRY_CAPACITY", "unsigned", "65536"),
        ArgInfo::keyword("ENTRY_PACKET_CAPACITY", "unsigned", "1"),
        ArgInfo::keyword("TIMEOUT", "seconds", "120"),
        ArgInfo::keyword("POLL_TIMEOUT", "seconds", "60"),
        ArgInfo::keyword("UNSOLICITED", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("neighbour cache", &["table"]).on_disk(), StatePart::kept("counts", &["stats"])],
    saved_form: table::FORM,
    samples: &[
        "2001:db8::1, 2:0:0:0:0:1",
        "2001:db8::1, 2:0:0:0:0:1, ENTRY_PACKET_CAPACITY 0, CAPACITY 4, ENTRY_CAPACITY 3 -> 2/2",
        "fe80::1, 2:0:0:0:0:1, TIMEOUT 1, POLL_TIMEOUT 0, UNSOLICITED true -> 2/3",
    ],
    build: |args| {
        let ip: Option<Ipv6Addr> = args.get("IP");
        let mac = args.required("ETH");
        let mut number = |name| args.value::<u32>(name) as usize;
        let packets = number("CAPACITY");
        let entries = number("ENTRY_CAPACITY");
        let per_address = number("ENTRY_PACKET_CAPACITY");
        let timeout = table::milliseconds(args.value("TIMEOUT"));
        let poll_timeout = table::milliseconds(args.value("POLL_TIMEOUT"));
        let unsolicited = args.value::<bool>("UNSOLICITED");
        let Some(ip) = ip else { return missing(args, "IP") };
        args.finish()?;
        // The bound on packets for one address is not given to the table, because this element drops the
        // oldest packet instead of the newest.
        let limits = Limits {
            packets,
            entries,
            packets_per_entry: 0,
            slim_factor: 2,
            timeout,
            pace: PACE,
            keeps_known: true,
        };
        Ok(Box::new(Ip6NdSolicitor {
            known: Known { table: Table::new(limits), waiting: Waiting::default(), asked: VecDeque::new() },
            ip,
            mac,
            per_address,
            poll_timeout,
            unsolicited,
            outputs: args.outputs(),
            solicitations: 0,
            drops: 0,
            has_warned: false,
        }))
    },
    ..Class::DEFAULT
};

/// The time between two solicitations for an address, in milliseconds (RetransTimer in RFC 4861, section
/// 10).
const PAUSE: i64 = 1_000;
/// The largest number of solicitations for an address without an answer (RFC 4861, section 10).
const MOST_QUESTIONS: u8 = 3;
const PACE: Pace = Pace { pause: PAUSE, patience: u8::MAX, long_pause: PAUSE };

/// The number of the output for packets whose next hop has not answered.
const UNREACHABLE: usize = 2;

struct Ip6NdSolicitor {
    known: Known,
    ip: Ipv6Addr,
    mac: MacAddr,
    /// The largest number of packets that wait for one address; zero for no limit.
    per_address: usize,
    /// The time after the last answer when queries for a known address begin, in milliseconds (POLL_TIMEOUT);
    /// zero for no such queries.
    poll_timeout: i64,
    /// True if advertisements with the flag Override replace a known address, also if they are unsolicited
    /// (UNSOLICITED).
    unsolicited: bool,
    outputs: usize,
    solicitations: u64,
    /// The number of packets that were dropped by this element and not by the table, and of packets that went
    /// to output 2.
    drops: u64,
    has_warned: bool,
}

/// The table of neighbours, the packets that wait for addresses, and the solicitations that wait for an
/// answer.
struct Known {
    table: Table<u128>,
    waiting: Waiting<u128>,
    /// The solicitations that were sent and that have to be checked for an answer, ordered by the time of the
    /// check.
    asked: VecDeque<Asked>,
}

/// A solicitation after which an entry must be checked for an answer.
struct Asked {
    /// The time of the check, in milliseconds.
    due: i64,
    address: u128,
    /// The number of the table's entry for which the solicitation was sent. If the address has another entry
    /// now, the check is skipped.
    entry: u64,
}

impl Asked {
    /// True if the check for an answer is still needed: the address still has the entry for which the
    /// solicitation was sent, and its Ethernet address is not known.
    fn counts(&self, table: &Table<u128>, now: i64) -> bool {
        let entry = table.ticket(self.address).map(|ticket| ticket.id);
        entry == Some(self.entry) && table.known(self.address, now).is_none()
    }
}

/// The state that an IP6NDSolicitor hands to the element that replaces it when the configuration changes.
/// `host` has the IPv6 and Ethernet addresses of the former element.
struct Kept {
    known: Known,
    host: (Ipv6Addr, MacAddr),
    solicitations: u64,
    drops: u64,
}

impl Known {
    /// Calls `work` with the table, the current time in milliseconds, and access to the waiting packets,
    /// which the table may have to drop.
    fn with<T>(
        &mut self,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut Table<u128>, i64, &mut dyn Waiters<u128>) -> T,
    ) -> T {
        let now = table::now(cx);
        work(&mut self.table, now, &mut Dropping { cx, waiting: &mut self.waiting })
    }

    /// Removes and returns the packet that has waited longest for an address, without counting it as
    /// dropped; `None` if none waits.
    fn release(&mut self, address: u128) -> Option<Packet> {
        let packet = self.waiting.pop(address)?;
        self.table.released(address, 1);
        Some(packet)
    }
}

impl Ip6NdSolicitor {
    fn encapsulate(&self, packet: &mut Packet, destination: MacAddr) -> bool {
        let ether_type = ether_type::IPV6.into();
        encapsulate(packet, &ethernet::Header { destination, source: self.mac, ether_type })
    }

    /// Handles a packet on input 0: returns it with an Ethernet header if its next hop is known, or is a
    /// multicast address. Otherwise lets it wait or drops it, and returns `None`. A packet without room for
    /// the header is dropped. `before` has the next hop of the packet before and its Ethernet address, if
    /// another look-up at the same time would have the same result and no effect; it is `None` for the first
    /// packet of a batch.
    #[inline]
    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        mut packet: Packet,
        before: &mut Option<(u128, MacAddr)>,
    ) -> Option<Packet> {
        let address = u128::from_be_bytes(packet.annotations().array(Annotations::DST_IP));
        let mac = match *before {
            Some((same, mac)) if same == address => mac,
            _ => {
                let Some((mac, is_lasting)) = self.find(cx, address, packet.time()) else {
                    // A packet that waits may cause the table to remove entries.
                    *before = None;
                    self.wait(cx, packet, address);
                    return None;
                };
                *before = is_lasting.then_some((address, mac));
                mac
            }
        };
        match self.encapsulate(&mut packet, mac) {
            true => Some(packet),
            false => self.refuse(cx, packet, DropReason::NoHeadroom),
        }
    }

    /// Returns the Ethernet address of the next hop, if it is known or is a multicast address; otherwise
    /// `None`. Sends a solicitation to a known neighbour if POLL_TIMEOUT has passed since its last answer, to
    /// learn if it is still there. After three solicitations without an answer, the neighbour's entry is
    /// removed instead. `time` is the time stamp that solicitations get. The second value is true if no
    /// solicitation was sent, so that a further look-up at the same time sends none either.
    fn find(&mut self, cx: &mut Cx<'_>, address: u128, time: Timestamp) -> Option<(MacAddr, bool)> {
        let now = table::now(cx);
        if let Some((mac, asks)) = self.known.table.look_up(address, now, self.poll_timeout) {
            if !asks {
                return Some((mac, true));
            }
            if self.known.table.queries(address) <= MOST_QUESTIONS {
                self.ask(cx, address, mac, Ipv6Addr::from_bits(address), time);
                return Some((mac, false));
            }
            self.known.with(cx, |table, _, waiters| table.forget(address, DropReason::OutOfTime, waiters));
            return None;
        }
        let address = Ipv6Addr::from_bits(address);
        address.is_multicast().then(|| (multicast_mac(address), true))
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: DropReason) -> Option<Packet> {
        self.drops += 1;
        cx.drop(packet, reason);
        None
    }

    /// Adds a packet to the packets that wait for an address. Sends a solicitation for the address, unless
    /// the last solicitation for it was sent too short a time ago. Drops the packet if it cannot wait.
    fn wait(&mut self, cx: &mut Cx<'_>, mut packet: Packet, address: u128) {
        if address == 0 {
            if !std::mem::replace(&mut self.has_warned, true) {
                cx.warn(format_args!("would solicit ::; missing dest IP6 addr annotation?"));
            }
            self.refuse(cx, packet, DropReason::Unsuitable);
            return;
        }
        // The header is added now, so that a lack of headroom is noticed; its addresses are written when
        // the packet leaves.
        if !self.encapsulate(&mut packet, MacAddr::BROADCAST) {
            self.refuse(cx, packet, DropReason::NoHeadroom);
            return;
        }
        // If too many packets wait for this address, the oldest is dropped for the new one (RFC 4861,
        // section 7.2.2).
        if self.per_address > 0
            && self.known.waiting.len_of(address) >= self.per_address
            && let Some(oldest) = self.known.release(address)
        {
            self.refuse(cx, oldest, DropReason::QueueFull);
        }
        let queued = self.known.waiting.len_of(address);
        let admission = self.known.with(cx, |table, now, waiters| table.admit(address, now, queued, waiters));
        if admission.query {
            self.ask_all(cx, address, packet.time());
        }
        match self.known.table.ticket(address).filter(|_| admission.waits) {
            Some(ticket) => {
                if let Err(packet) = self.known.waiting.push(address, ticket, packet, cx.now()) {
                    self.known.table.gave_up(address, 1);
                    cx.drop(packet, DropReason::QueueFull);
                }
            }
            None => cx.drop(packet, DropReason::QueueFull),
        }
    }

    /// Sends a solicitation to the solicited-node multicast group of an address, and plans the check for an
    /// answer.
    fn ask_all(&mut self, cx: &mut Cx<'_>, address: u128, time: Timestamp) {
        let group = solicited_node(Ipv6Addr::from_bits(address));
        self.ask(cx, address, multicast_mac(group), group, time);
        self.look_again(cx, address);
    }

    fn look_again(&mut self, cx: &mut Cx<'_>, address: u128) {
        let (now, due) = (table::now(cx), table::now(cx) + PAUSE);
        let Known { table, asked, .. } = &mut self.known;
        let Some(ticket) = table.ticket(address) else { return };
        // Removes planned checks whose entry was removed or has got an answer, so that the queue stays
        // short.
        if asked.len() >= 2 * table.len() + UNTIDY {
            asked.retain(|asked| asked.counts(table, now));
        }
        // Without memory, there is no check. The entry then stays until it expires or is evicted.
        if asked.try_reserve(1).is_err() {
            return;
        }
        if asked.is_empty() {
            set_timer(cx, due);
        }
        asked.push_back(Asked { due, address, entry: ticket.id });
    }

    /// Sends a solicitation for `address` to the given Ethernet and IPv6 destination. `time` is its time
    /// stamp.
    fn ask(&mut self, cx: &mut Cx<'_>, address: u128, to: MacAddr, destination: Ipv6Addr, time: Timestamp) {
        let addresses = [self.ip, destination, Ipv6Addr::from_bits(address)];
        let option = (option::SOURCE, self.mac);
        let frame = frame([self.mac, to], kind::NEIGHBOR_SOLICITATION, 0, addresses, option);
        let Some(mut solicitation) = cx.packet(&frame) else { return };
        self.solicitations += 1;
        solicitation.set_time(time);
        solicitation.set_link_header(ethernet::Header::LEN);
        solicitation.set_link(LinkType::Ethernet.number());
        cx.emit_one(self.outputs.saturating_sub(1).min(1), solicitation, DropReason::NoOutput);
    }

    /// True if an advertisement can come from another host: neither its target nor its Ethernet address is
    /// this host's, and the target is not `::` or `::1`.
    fn may_be_of_another(&self, message: &Message<'_>) -> bool {
        let target = message.target();
        let is_host = !target.is_unspecified() && !target.is_loopback() && target != self.ip;
        is_host && message.link_address(option::TARGET) != Some(self.mac)
    }

    /// Handles a packet on input 1. If it is a valid advertisement for an address with an entry, updates the
    /// entry and, if the Ethernet address is then known, sends the packets that wait for the address. The
    /// packet itself is always dropped.
    fn learn(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let found = message(packet.data(), kind::NEIGHBOR_ADVERTISEMENT);
        let Some((_, found)) = found.filter(|(_, found)| self.may_be_of_another(found)) else {
            return cx.drop(packet, DropReason::Unsuitable);
        };
        let (address, told) = (found.target().to_bits(), found.link_address(option::TARGET));
        let flags = found.header.flags.get();
        cx.drop(packet, DropReason::Answered);
        let (is_answer, overrides) = (flags & flag::SOLICITED != 0, flags & flag::OVERRIDE != 0);
        if !self.known.table.contains(address) {
            return;
        }
        // The entry is updated as in RFC 4861, section 7.2.5. The exception: without the argument
        // UNSOLICITED, the flag Override is ignored.
        let old = self.known.table.known(address, table::now(cx));
        let mac = match (old, told) {
            (None, None) => return,
            (Some(old), Some(new)) if old != new && !(overrides && self.unsolicited) => {
                return self.known.table.doubt(address);
            }
            (Some(old), None) => old,
            (_, Some(new)) => new,
        };
        // An unsolicited advertisement of the Ethernet address that is already known does not restart the
        // time-out of the entry: it does not prove that the neighbour answers.
        if is_answer || old != Some(mac) {
            self.known.with(cx, |table, now, waiters| table.insert(address, mac, now, waiters));
        }
        if !is_answer && old != Some(mac) {
            self.known.table.doubt(address);
        }
        while let Some(mut packet) = self.known.release(address) {
            readdress(&mut packet, mac, self.mac);
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
    }

    /// Checks if a solicitation was answered. If not, sends the next. After the last, or if no packet waits
    /// any more, removes the entry, and sends its packets to output 2.
    fn follow_up(&mut self, cx: &mut Cx<'_>, asked: &Asked) {
        let (now, address) = (table::now(cx), asked.address);
        if !asked.counts(&self.known.table, now) {
            return;
        }
        let waits = self.known.waiting.len_of(address) > 0;
        if waits && self.known.table.queries(address) < MOST_QUESTIONS {
            match self.known.table.ask(address, now) {
                true => self.ask_all(cx, address, cx.now()),
                false => self.look_again(cx, address),
            }
            return;
        }
        while let Some(mut packet) = self.known.release(address) {
            self.drops += 1;
            // The Ethernet header, which was added when the packet began to wait, is removed.
            if packet.strip(ethernet::Header::LEN) {
                packet.set_offset(Base::Mac, None);
                cx.emit_one(UNREACHABLE, packet, DropReason::OutOfTime);
            } else {
                cx.drop(packet, DropReason::OutOfTime);
            }
        }
        self.known.with(cx, |table, _, waiters| table.forget(address, DropReason::OutOfTime, waiters));
    }
}

fn set_timer(cx: &mut Cx<'_>, due: i64) {
    cx.set_timer(0, Timestamp(due.saturating_mul(1_000_000)));
}

/// The name under which the table of neighbours is declared as state of the element.
const TABLE: &str = "neighbour cache";

impl Element for Ip6NdSolicitor {
    fn effects(&self) -> Effects {
        let put = |when, to, destination| encapsulated(when, to, self.mac, ether_type::IPV6, destination);
        let chosen = || {
            let any = IntervalSet::one(0, (1 << 48) - 1);
            vec![Action::Set(wire_field::ETHER_DST, Value::Choose { set: any, key: vec![DST_IP6] })]
        };
        let group = within(annotation(Annotations::DST_IP, 1), 0xff, 0xff, 0xff);
        let low_bits = Number::of(annotation(Annotations::DST_IP + 12, 4));
        let of_group = vec![
            constant(bytes(Base::Mac, 0, 2), &[0x33, 0x33]),
            Action::Set(bytes(Base::Mac, 2, 4), Value::Number(low_bits)),
        ];
        let advertised =
            when("valid advertisement", &[Field::Payload, Field::Length], Target::Output(0)).when;
        let hit = Filter::Leaf(Predicate::State { table: TABLE, hit: true });
        let answered = when("an answer comes in time", &[DST_IP6], Target::Hold(0)).when;
        let in_vain = when("no answer comes", &[DST_IP6], Target::Hold(0)).when;
        let cases = vec![
            Case::new(advertised, Target::Drop(DropReason::Answered)).on(1),
            Case::new(Filter::TRUE, Target::Drop(DropReason::Unsuitable)).on(1),
            put(hit, Target::Output(0), chosen()),
            put(group, Target::Output(0), of_group),
            Case::new(Predicate::equals(DST_IP6, 0), Target::Drop(DropReason::Unsuitable)).on(0),
            put(answered, Target::Hold(0), chosen()),
            Case::new(in_vain, Target::Hold(UNREACHABLE))
                .on(0)
                .or_drop(DropReason::OutOfTime)
                .with(constant(Field::HeaderOffset(Base::Mac), &[]))
                .with(header_at(Base::Network, 0)),
            Case::new(Filter::TRUE, Target::Drop(DropReason::QueueFull)).on(0),
        ];
        let solicitation = Emit {
            name: "neighbour solicitation",
            input: Some(0),
            reads: vec![DST_IP6, Field::TimeStamp],
            output: Some(self.outputs.saturating_sub(1).min(1)),
            starts: Some(HeaderKind::Ethernet),
            // A solicitation can also be sent for a neighbour whose address is known, to poll it, so any
            // packet can cause one.
            when: Filter::TRUE,
        };
        let effects = Effects {
            hold: Hold::PerFlow,
            order: Order::KeepsPerFlow,
            emits: vec![solicitation],
            state: vec![State {
                table: TABLE,
                key: vec![DST_IP6],
                both_directions: false,
                access: StateAccess::EveryPacket,
            }],
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time).depending_on(Depends::Counter)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.known.waiting.set_seed(cx.hash_seed());
        self.known.table.set_seed(cx.hash_seed());
        self.known.with(cx, |table, now, waiters| table.catch_up(now, waiters));
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        self.known.with(cx, |table, now, waiters| table.catch_up(now, waiters));
        if port == 0 {
            let mut before = None;
            batch.replace_each(|packet| self.take(cx, packet, &mut before));
            return Some(batch);
        }
        batch.drain().for_each(|packet| self.learn(cx, packet));
        cx.recycle(batch);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let now = table::now(cx);
        while let Some(asked) = self.known.asked.pop_front_if(|asked| asked.due <= now) {
            self.follow_up(cx, &asked);
        }
        if let Some(asked) = self.known.asked.front() {
            set_timer(cx, asked.due);
        }
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        while let Some(address) = self.known.waiting.oldest(&self.known.table) {
            while let Some(packet) = self.known.release(address) {
                cx.drop(packet, DropReason::Stop);
            }
        }
    }

    fn held(&self) -> usize {
        self.known.waiting.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let limits = self.known.table.limits();
        let empty = Known { table: Table::new(limits), waiting: Waiting::default(), asked: VecDeque::new() };
        let known = std::mem::replace(&mut self.known, empty);
        let (host, solicitations, drops) = ((self.ip, self.mac), self.solicitations, self.drops);
        Some(Box::new(Kept { known, host, solicitations, drops }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let mut kept = *state.downcast::<Kept>().map_err(|_| "not of an IP6NDSolicitor")?;
        (self.solicitations, self.drops) = (kept.solicitations, kept.drops);
        if kept.host == (self.ip, self.mac) {
            kept.known.table.set_limits(self.known.table.limits());
            self.known = kept.known;
            if let Some(asked) = self.known.asked.front() {
                set_timer(cx, asked.due);
            }
            return Ok(());
        }
        // With other addresses this element is another host, so what was learnt is discarded, and the
        // waiting packets are dropped.
        while let Some(address) = kept.known.waiting.oldest(&kept.known.table) {
            while let Some(packet) = kept.known.release(address) {
                self.refuse(cx, packet, DropReason::Reset);
            }
        }
        Ok(())
    }

    fn save_state(&mut self, _cx: &mut Cx<'_>, from: u64, out: &mut StateWriter) -> Option<u64> {
        self.known.table.save(from, out)
    }

    fn load_state(&mut self, cx: &mut Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        self.known.table.load(cx, state)
    }
}

const HANDLERS: &[Handler<Ip6NdSolicitor>] = &[
    Handler::read("table", |e, cx, _| {
        let now = table::now(cx);
        let Known { table, .. } = &e.known;
        let line = |entry: &table::Entry<u128>| {
            let address = entry.address;
            let known = u8::from(table.known(address, now).is_some());
            format!("{} {known} {:#}\n", Ipv6Addr::from_bits(address), entry.mac)
        };
        Ok(table.iter().map(line).collect())
    }),
    Handler::read("stats", |e, _, _| {
        let Known { table, .. } = &e.known;
        Ok({
            let (drops, sent) = (e.drops + table.drops(), e.solicitations);
            format!("{drops} packets killed\n{sent} ND Solicitation Message sent\n")
        })
    }),
];
