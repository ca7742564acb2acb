//! The packet handling of ARPQuerier. A packet for a known, broadcast or multicast address gets an Ethernet
//! header; a packet for another address waits until a query is answered, or is dropped.

use std::net::Ipv4Addr;

use classify::IntervalSet;
use element::{Batch, Cx, DropReason, Packet, Timestamp};
use wire::{LinkType, MacAddr, arp, ether_type, ethernet};

use super::table::{self, Table, Waiters};
use super::waiting::{Dropping, Waiting};
use super::{FRAME, Party, frame, headers, hosts};
use crate::ethernet::vlan::{set_tci_annotation, tci_annotation, tci_is_read};
use crate::ethernet::{encapsulate, readdress};

/// The state of an ARPQuerier except for its table: waiting packets, addresses, settings and counters.
pub(super) struct Desk {
    pub(super) waiting: Waiting,
    /// The longest time that a packet waits; zero for no limit.
    pub(super) give_up: Timestamp,
    /// The output of packets that have waited for the time of GIVE_UP; `None` if they are dropped.
    pub(super) unanswered_output: Option<usize>,
    /// The time for which timer 1 is set: when the next packet has waited too long. `None` if the timer is
    /// not set.
    pub(super) alarm: Option<Timestamp>,
    pub(super) mac: MacAddr,
    pub(super) ip: Ipv4Addr,
    pub(super) broadcast: Ipv4Addr,
    /// The IPv4 addresses that a reply can name: valid for a host, but not this host's address or the
    /// broadcast address.
    pub(super) others: IntervalSet,
    /// The time after the last reply when queries for a known address begin, in milliseconds
    /// (POLL_TIMEOUT); zero for never.
    pub(super) poll_timeout: i64,
    pub(super) polls_by_broadcast: bool,
    /// True if unsolicited replies replace the address of a neighbour that answers (UNSOLICITED).
    pub(super) unsolicited: bool,
    pub(super) queries: u64,
    pub(super) responses: u64,
    pub(super) drops: u64,
    pub(super) has_warned: bool,
    /// The number of changes of the ARP table, as it counts them, after which this element has last checked
    /// its waiting packets.
    pub(super) seen: u64,
    /// True if the waiting packets were taken from a replaced element, and must still be counted in the ARP
    /// table.
    pub(super) is_new: bool,
}

impl Desk {
    /// Returns the Ethernet header of IPv4 packets of this host to `destination`.
    #[inline]
    fn header(&self, destination: MacAddr) -> ethernet::Header {
        ethernet::Header { destination, source: self.mac, ether_type: ether_type::IPV4.into() }
    }

    /// Handles the packets of a batch on input 0. A packet gets an Ethernet header if its next hop is known,
    /// or is a broadcast or multicast address. Otherwise the packet leaves the batch, and waits or is
    /// dropped. Packets without headroom are also dropped, and all packets while this host has no address.
    /// Sends queries by `output`. Consecutive packets with the same next hop are looked up once.
    #[inline]
    pub(super) fn take_all(&mut self, cx: &mut Cx<'_>, table: &mut Table, output: usize, batch: &mut Batch) {
        if self.ip.is_unspecified() {
            self.drops += batch.len() as u64;
            batch.drain().for_each(|packet| cx.drop(packet, DropReason::Inactive));
            return;
        }
        // The address and the header of the packet before, if another look-up at the same time would have
        // the same result and no effect.
        let mut before: Option<(u32, ethernet::Header)> = None;
        batch.replace_each(|mut packet| {
            let address = u32::from_be_bytes(packet.destination());
            let header = match before {
                Some((same, header)) if same == address => header,
                _ => {
                    let Some((header, is_lasting)) = self.find(cx, table, output, &packet, address) else {
                        // A packet that waits may cause the table to remove entries.
                        before = None;
                        self.wait(cx, table, output, packet, address);
                        return None;
                    };
                    before = is_lasting.then_some((address, header));
                    header
                }
            };
            match encapsulate(&mut packet, &header) {
                true => Some(packet),
                false => self.refuse(cx, packet, DropReason::NoHeadroom),
            }
        });
    }

    /// Returns the Ethernet header for the next hop `address` of a packet, if the next hop is known, or is a
    /// broadcast or multicast address. Sends a query about a known next hop if it is time for one. The second
    /// value is true if no query was sent, so that a further look-up at the same time sends none either.
    #[inline]
    fn find(
        &mut self,
        cx: &mut Cx<'_>,
        table: &mut Table,
        output: usize,
        packet: &Packet,
        address: u32,
    ) -> Option<(ethernet::Header, bool)> {
        let Some((mac, asks)) = table.look_up(address, table::now(cx), self.poll_timeout) else {
            return self.without_query(address).map(|mac| (self.header(mac), true));
        };
        if asks {
            let everybody = self.polls_by_broadcast || table.must_broadcast(address);
            let to = if everybody { MacAddr::BROADCAST } else { mac };
            self.ask(cx, output, packet, address, to);
        }
        Some((self.header(mac), !asks))
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: DropReason) -> Option<Packet> {
        self.drops += 1;
        cx.drop(packet, reason);
        None
    }

    /// Returns the Ethernet address for a broadcast or multicast address, which needs no query; `None` for
    /// other addresses.
    fn without_query(&self, address: u32) -> Option<MacAddr> {
        let address = Ipv4Addr::from_bits(address);
        match address {
            Ipv4Addr::BROADCAST => Some(MacAddr::BROADCAST),
            _ if address == self.broadcast => Some(MacAddr::BROADCAST),
            _ => address.is_multicast().then(|| multicast(address)),
        }
    }

    /// Adds a packet to the packets that wait for an address, and sends a query if it is time for one.
    /// Drops the packet if it cannot wait. `address` zero is not queried.
    fn wait(&mut self, cx: &mut Cx<'_>, table: &mut Table, output: usize, mut packet: Packet, address: u32) {
        if address == 0 {
            if !std::mem::replace(&mut self.has_warned, true) {
                cx.warn(format_args!("would query for 0.0.0.0; missing dest IP addr annotation?"));
            }
            self.refuse(cx, packet, DropReason::Unsuitable);
            return;
        }
        // The header is added now, so that a lack of headroom is noticed; its addresses are written when
        // the packet leaves.
        if !encapsulate(&mut packet, &self.header(MacAddr::BROADCAST)) {
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
                if let Err(packet) = self.waiting.push(address, ticket, packet, cx.now()) {
                    table.gave_up(address, 1);
                    cx.drop(packet, DropReason::QueueFull);
                }
            }
            None => cx.drop(packet, DropReason::QueueFull),
        }
    }

    /// Sends an ARP query for `address` to the Ethernet address `to`. The query gets the time stamp and, if
    /// an element reads it, the VLAN annotation of `about`, the packet that needs the address.
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

    /// True if a reply with these addresses can come from another host: neither is this host's, and both
    /// are valid for a host.
    fn may_be(&self, address: u32, mac: MacAddr) -> bool {
        mac.is_host() && mac != self.mac && self.others.contains(address.into())
    }

    /// Computes [`others`](Self::others) again, after this host's address or the broadcast address has
    /// changed.
    pub(super) fn note_others(&mut self) {
        let own = [self.ip, self.broadcast].map(|address| u128::from(address.to_bits()));
        let own = IntervalSet::one(own[0], own[0]).union(&IntervalSet::one(own[1], own[1]));
        self.others = hosts().intersection(&own.complement(32));
    }

    /// Handles a packet on input 1. If it is an ARP reply that the table accepts, its address is learnt, and
    /// the packets that wait for it leave. The packet itself is always dropped.
    pub(super) fn learn(&mut self, cx: &mut Cx<'_>, table: &mut Table, packet: Packet) {
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

    /// Sends the packets that wait for an address to `destination`, by output 0. Drops them if this host has
    /// no address.
    fn send(&mut self, cx: &mut Cx<'_>, table: &mut Table, address: u32, destination: MacAddr) {
        table.released(address, self.waiting.len_of(address));
        while let Some(mut packet) = self.waiting.pop(address) {
            if self.ip.is_unspecified() {
                self.refuse(cx, packet, DropReason::Inactive);
                continue;
            }
            // The source is written again, because a change of the arguments can have changed this host's
            // Ethernet address meanwhile.
            readdress(&mut packet, destination, self.mac);
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
    }

    /// Checks the packets that wait for an address, after another element has changed its entry: drops them
    /// with `reason` if the entry was removed, sends them if the address is now known.
    pub(super) fn follow(&mut self, cx: &mut Cx<'_>, table: &mut Table, address: u32, reason: DropReason) {
        let Some(ticket) = self.waiting.ticket(address) else { return };
        if table.ticket(address).is_none_or(|entry| entry.id != ticket.id) {
            // The packets are not counted again: the table counted them as dropped when it removed the entry.
            Dropping { cx, waiting: &mut self.waiting }.give_up(address, reason);
        } else if let Some(mac) = table.known(address, table::now(cx)) {
            self.send(cx, table, address, mac);
        }
    }

    /// Calls [`follow`](Self::follow) for all addresses for which packets wait. Drops all packets if there
    /// is no memory for the list of addresses.
    pub(super) fn follow_all(&mut self, cx: &mut Cx<'_>, table: &mut Table) {
        let Some(addresses) = self.waiting.addresses(table) else {
            self.give_up_all(cx, table, DropReason::QueueFull);
            return;
        };
        for (_, address) in addresses {
            self.follow(cx, table, address, table.last_reason());
        }
    }

    /// Brings the waiting packets up to date: checks them after changes of other elements, removes expired
    /// entries, and ends the wait of packets that have waited for the time of GIVE_UP.
    pub(super) fn catch_up(&mut self, cx: &mut Cx<'_>, table: &mut Table) {
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

    /// Sends a packet that has waited for the time of GIVE_UP to output 2 without the Ethernet header. Drops
    /// the packet if there is no output 2.
    #[cold]
    fn give_up(&mut self, cx: &mut Cx<'_>, table: &mut Table, address: u32, mut packet: Packet) {
        // The header that was added when the packet began to wait is removed.
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

    /// Counts the waiting packets that were taken from a replaced element in the table. Drops packets whose
    /// entry is not in this table.
    fn take_over(&mut self, cx: &mut Cx<'_>, table: &mut Table) {
        let addresses = self.waiting.addresses(table);
        if addresses.is_none() {
            table.dropped(self.waiting.len());
            while let Some(address) = self.waiting.oldest(table) {
                Dropping { cx, waiting: &mut self.waiting }.give_up(address, DropReason::QueueFull);
            }
        }
        for (_, address) in addresses.unwrap_or_default() {
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

    /// Drops all waiting packets with this reason, without counting them as drops of the table.
    pub(super) fn give_up_all(&mut self, cx: &mut Cx<'_>, table: &mut Table, reason: DropReason) {
        while let Some(address) = self.waiting.oldest(table) {
            table.released(address, self.waiting.len_of(address));
            Dropping { cx, waiting: &mut self.waiting }.give_up(address, reason);
        }
    }
}

/// Returns the Ethernet group address for an IPv4 multicast address (RFC 1112, section 6.4).
fn multicast(address: Ipv4Addr) -> MacAddr {
    let [_, b, c, d] = address.octets();
    MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}
