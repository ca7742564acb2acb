//! Runs: consecutive packets of one flow in a batch, for which elements do once what depends on the flow
//! alone.
//!
//! An element that knows which packets belong to one flow numbers their runs itself ([`Cx::new_run`]).
//! Otherwise, the first element in a graph that asks for the runs of a batch ([`Cx::find_runs`]) compares
//! each packet with the first packet of the run before it, and writes a number into the metadata of the
//! packets: packets of one run have the same number ([`Packet::run`]). Elements downstream only compare these
//! numbers, as long as no element between them changes what identifies a flow, or holds packets. The engine
//! finds this out from the declarations ([`Facts::runs`](crate::Facts::runs)).
//!
//! The packets of a run agree in everything that [`same_flow`] compares. They may differ in everything else,
//! for example in length, TTL, DSCP and TCP flags.

use packet::{BATCH_CAPACITY, Base, Batch, Offsets, Packet};
use wire::{MacAddr, ethernet, ip_protocol, ipv4, ipv6, tcp, udp};

use crate::context::{Core, Cx};

/// The runs of a batch, in order.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The index in the batch of the last packet of each run; entries after that of the last run have no
    /// meaning.
    lasts: [u8; BATCH_CAPACITY],
    /// The number of runs.
    count: usize,
    /// The number of packets.
    packets: usize,
}

impl Default for Runs {
    /// Returns the runs of an empty batch.
    fn default() -> Runs {
        Runs { lasts: [0; BATCH_CAPACITY], count: 0, packets: 0 }
    }
}

impl Runs {
    /// Returns the runs as [`Singles`] if each of them is one packet; otherwise `None`.
    #[inline]
    pub fn as_singles(&self) -> Option<Singles> {
        (self.packets == self.count).then_some(Singles(self.count))
    }

    /// Finds the runs of a batch. If `is_known` is true, neighbouring packets with the same run number are of
    /// the same flow, and only packets without a run number are compared. All packets have a run number
    /// afterwards; `last` is the run number that was used last.
    #[inline]
    fn find(&mut self, batch: &mut [Packet], is_known: bool, last: &mut u32) {
        if !is_known || batch.iter().all(|packet| packet.run() == 0) {
            self.compare(batch, last);
        } else if !self.take_numbers(batch) {
            self.compare_some(batch, last);
        }
        debug_assert!(
            self.of(batch, 0).all(|run| {
                let (first, others) = run.split_first().expect("no run is empty");
                others.iter().all(|other| other.run() == first.run() && same_flow(first, other))
            }),
            "packets of one run belong to different flows"
        );
    }

    /// Finds the runs of packets by their run numbers alone. Returns false if a packet has no run number.
    #[inline]
    fn take_numbers(&mut self, batch: &[Packet]) -> bool {
        let (mut before, mut least, mut count) = (0, u32::MAX, 0usize);
        for (index, packet) in batch.iter().enumerate() {
            let run = packet.run();
            count += usize::from(run != before);
            self.lasts[count.wrapping_sub(1) % BATCH_CAPACITY] = index as u8;
            least = least.min(run);
            before = run;
        }
        (self.count, self.packets) = (count, batch.len());
        least != 0
    }

    /// Compares each packet with the first packet of the run before it, and gives all packets run numbers.
    #[inline(never)]
    fn compare(&mut self, batch: &mut [Packet], last: &mut u32) {
        let (mut count, mut run, mut next) = (0, *last, 0);
        let mut own = batch.first().and_then(ends);
        while let Some((first, others)) = batch.get_mut(next..).and_then(<[_]>::split_first_mut) {
            run = number_after(run);
            first.set_run(run);
            let theirs = others.first().and_then(ends);
            let mut more = 0;
            if theirs.is_some() && theirs == own {
                more = run_length(first, others, run);
                own = others.get(more).and_then(ends);
            } else {
                own = theirs;
            }
            self.lasts[count % BATCH_CAPACITY] = (next + more) as u8;
            count += 1;
            next += 1 + more;
        }
        *last = run;
        (self.count, self.packets) = (count, batch.len());
    }

    /// Compares each packet that has no run number with the packet before it, and gives it a run number.
    #[cold]
    fn compare_some(&mut self, batch: &mut [Packet], last: &mut u32) {
        let mut before: Option<&Packet> = None;
        let mut count = 0;
        for (index, packet) in batch.iter_mut().enumerate() {
            let goes_on = before.is_some_and(|before| match packet.run() {
                0 => same_flow(before, packet),
                run => run == before.run(),
            });
            if packet.run() == 0 {
                let run = before.filter(|_| goes_on).map(Packet::run);
                packet.set_run(run.unwrap_or_else(|| {
                    *last = number_after(*last);
                    *last
                }));
            }
            count += usize::from(!goes_on);
            self.lasts[(count - 1) % BATCH_CAPACITY] = index as u8;
            before = Some(packet);
        }
        (self.count, self.packets) = (count, batch.len());
    }
}

/// Returns the number of packets at the start of `others` that belong to the flow of the packet `first`, and
/// gives them the number `run`.
#[inline]
fn run_length(first: &Packet, others: &mut [Packet], run: u32) -> usize {
    let Some(plain) = PlainFlow::of(first) else { return run_length_special(first, others, run) };
    for (number, packet) in others.iter_mut().enumerate() {
        if !plain.goes_on(packet) {
            return number;
        }
        packet.set_run(run);
    }
    others.len()
}

/// Returns the number of packets that continue the run, as [`run_length`] does, if `first` has no
/// [`PlainFlow`].
#[inline(never)]
fn run_length_special(first: &Packet, others: &mut [Packet], run: u32) -> usize {
    let Some(flow) = SpecialFlow::of(first) else { return 0 };
    let goes_on = |packet: &Packet| are_alike(first, packet) && flow.goes_on(first, packet);
    let count = others.iter().take_while(|packet| goes_on(packet)).count();
    others[..count].iter_mut().for_each(|packet| packet.set_run(run));
    count
}

/// A list of runs. An element that is generic over the list has one form for runs of several packets
/// ([`Runs`]), and one for batches in which each packet is a run ([`Singles`]), in which the compiler leaves
/// out the loop over the packets of a run.
pub trait RunList {
    /// Returns the number of runs.
    fn count(&self) -> usize;

    /// Returns, for each run of a batch, the packets of the run. The iterator starts with the run that has
    /// index `first` in the batch, counted from 0.
    fn of<'p>(&self, batch: &'p [Packet], first: usize) -> impl Iterator<Item = &'p [Packet]>;

    /// Returns, for each run of a batch, the packets of the run, writable. The iterator starts with the run
    /// that has index `first` in the batch, counted from 0.
    fn of_mut<'p>(&self, batch: &'p mut [Packet], first: usize) -> impl Iterator<Item = &'p mut [Packet]>;
}

impl RunList for Runs {
    #[inline]
    fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn of<'p>(&self, batch: &'p [Packet], first: usize) -> impl Iterator<Item = &'p [Packet]> {
        let mut start = self.start(first);
        let mut rest = batch.get(start..).unwrap_or_default();
        self.lasts_from(first).map_while(move |&last| {
            let after = usize::from(last) + 1;
            rest.split_off(..after - std::mem::replace(&mut start, after))
        })
    }

    #[inline]
    fn of_mut<'p>(&self, batch: &'p mut [Packet], first: usize) -> impl Iterator<Item = &'p mut [Packet]> {
        let mut start = self.start(first);
        let mut rest = batch.get_mut(start..).unwrap_or_default();
        self.lasts_from(first).map_while(move |&last| {
            let after = usize::from(last) + 1;
            rest.split_off_mut(..after - std::mem::replace(&mut start, after))
        })
    }
}

impl Runs {
    /// Returns the index in the batch of the first packet of the run that has index `number` in the batch,
    /// counted from 0.
    #[inline]
    fn start(&self, number: usize) -> usize {
        match self.lasts.get(number.wrapping_sub(1)) {
            Some(&last) if number <= self.count => usize::from(last) + 1,
            Some(_) => self.packets,
            None => 0,
        }
    }

    /// Returns the index in the batch of the last packet of each run. The iterator starts with the run that
    /// has index `first` in the batch, counted from 0.
    #[inline]
    fn lasts_from(&self, first: usize) -> std::slice::Iter<'_, u8> {
        self.lasts[..self.count].get(first..).unwrap_or_default().iter()
    }
}

/// The runs of a batch in which each packet is a run; the value is the number of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Singles(usize);

impl RunList for Singles {
    #[inline]
    fn count(&self) -> usize {
        self.0
    }

    #[inline]
    fn of<'p>(&self, batch: &'p [Packet], first: usize) -> impl Iterator<Item = &'p [Packet]> {
        batch.get(first..).unwrap_or_default().as_chunks::<1>().0.iter().map(|packet| &packet[..])
    }

    #[inline]
    fn of_mut<'p>(&self, batch: &'p mut [Packet], first: usize) -> impl Iterator<Item = &'p mut [Packet]> {
        let packets = batch.get_mut(first..).unwrap_or_default();
        packets.as_chunks_mut::<1>().0.iter_mut().map(|packet| &mut packet[..])
    }
}

/// Returns the run number that follows the run number `last`. 0 is left out, because it marks packets without
/// a run. Numbers repeat after 2^32 runs; packets keep their run number only while the batch in which they
/// came passes through the graph.
#[inline]
fn number_after(last: u32) -> u32 {
    last.wrapping_add(1).max(1)
}

/// The number of bytes, from the start of the network header on, that are compared to find packets of one
/// flow: an IPv4 header without options, and the two ports.
const COMPARED: usize = ipv4::Header::LEN + 4;

/// Returns 8 bytes of the network header in which neighbouring packets of different flows nearly always
/// differ: in IPv4 without options the destination address and the ports, in IPv6 the second half of the
/// source address. `None` if the packet has no network header.
#[inline]
fn ends(packet: &Packet) -> Option<[u8; 8]> {
    packet.network_bytes(16).copied()
}

/// True if two packets have the same [`ends`].
#[inline]
fn are_alike(one: &Packet, other: &Packet) -> bool {
    ends(one).is_some_and(|own| ends(other) == Some(own))
}

impl Core {
    /// Returns a number for a new run at this worker.
    #[inline]
    pub fn new_run(&mut self) -> u32 {
        self.last_run = number_after(self.last_run);
        self.last_run
    }

    /// Gives each run of a batch a new number of this worker, before the packets go to another worker and
    /// when they have come from one. Each worker numbers its runs from 1 on, so packets of two workers may
    /// have the same number by chance. Packets of two batches of one worker may have the same number because
    /// they were one run before they went different ways; they may belong to different flows now.
    #[inline]
    pub fn renumber_runs(&mut self, batch: &mut Batch) {
        if self.facts.runs.is_empty() {
            return;
        }
        let (mut theirs, mut own) = (0, 0);
        for packet in batch.iter_mut() {
            let run = packet.run();
            if run != theirs {
                own = if run == 0 { 0 } else { self.new_run() };
                theirs = run;
            }
            packet.set_run(own);
        }
    }
}

impl Cx<'_> {
    /// Finds the runs of a batch that has come to the element. The element must declare it
    /// ([`Support::finds_runs`](crate::effects::Support::finds_runs)).
    ///
    /// If the element changes addresses, ports or other fields that identify a flow, it changes them for all
    /// packets of a run in the same way, or unsets the run of the packets that are different
    /// ([`Packet::set_run`]).
    #[inline]
    pub fn find_runs(&mut self, batch: &mut Batch, runs: &mut Runs) {
        let Some(is_known) = self.known_runs() else { return self.find_undeclared(batch, runs) };
        runs.find(batch, is_known, &mut self.core.last_run);
    }

    /// Returns a number for a new run ([`Packet::set_run`]), for an element that knows which of its packets
    /// belong to one flow in the sense of [`same_flow`]. The element must declare that it finds runs, and
    /// give each packet that it sends a number, or unset its run.
    #[inline]
    pub fn new_run(&mut self) -> u32 {
        if self.known_runs().is_none() {
            debug_assert!(false, "'{}' does not declare that it finds runs", self.name());
            return 0;
        }
        self.core.new_run()
    }

    /// Gives a packet a run number by comparison, for an element that sends it right after the packet
    /// `before`: the run number of `before` if both are certain to belong to the same flow, otherwise a new
    /// run number. A packet without a marked network header gets no run number.
    pub fn number_run(&mut self, before: Option<&Packet>, packet: &mut Packet) {
        let run = match before.filter(|before| before.run() != 0 && same_flow(before, packet)) {
            Some(before) => before.run(),
            None if packet.offset(Base::Network).is_none() => 0,
            None => self.new_run(),
        };
        packet.set_run(run);
    }

    /// Prepares a batch for elements downstream, in place of [`find_runs`](Self::find_runs), if the element
    /// declares that it finds runs but does not need those of this batch. Elements downstream rely on the
    /// runs of its packets, so runs that may be wrong are unset.
    #[inline]
    pub fn skip_runs(&mut self, batch: &mut Batch) {
        if self.known_runs() != Some(true) {
            batch.iter_mut().for_each(|packet| packet.set_run(0));
        }
    }

    /// Returns true if the runs of the packets that come to the element are right, and false if they may be
    /// wrong. Returns `None` if the element does not declare that it finds runs.
    #[inline]
    fn known_runs(&self) -> Option<bool> {
        self.core.facts.runs.get(self.id).copied().flatten()
    }

    /// Finds runs for an element that does not declare that it finds runs, which is an error of the element.
    /// The packets keep no run numbers, because the engine has not checked that elements downstream may rely
    /// on them.
    #[cold]
    fn find_undeclared(&mut self, batch: &mut Batch, runs: &mut Runs) {
        debug_assert!(false, "'{}' does not declare that it finds runs", self.name());
        runs.find(batch, false, &mut self.core.last_run);
        self.skip_runs(batch);
    }
}

/// True if two packets are certain to belong to the same flow: both are whole TCP or UDP packets, in IPv4
/// without options or in IPv6 without extension headers, with a complete transport header. They have the same
/// addresses, protocol, ports, VLAN tags, and offsets of headers. Packets for which it is false may also
/// belong to the same flow.
pub fn same_flow(one: &Packet, other: &Packet) -> bool {
    are_alike(one, other)
        && match PlainFlow::of(one) {
            Some(plain) => plain.goes_on(other),
            None => SpecialFlow::of(one).is_some_and(|flow| flow.goes_on(one, other)),
        }
}

/// The flow of an IPv4 packet without VLAN tags, with which further packets are compared.
struct PlainFlow<'p> {
    first: &'p Packet,
    /// The start of the network header of the packet `first`, which is the first packet of the run.
    start: &'p [u8; COMPARED],
    /// The smallest total length, as IPv4 headers give it, with which a packet of this flow has a complete
    /// transport header.
    least: u16,
    /// The smallest number of bytes in the first slot of a packet of this flow with which this slot includes
    /// the whole transport header.
    least_head: usize,
}

/// The flow of an IPv6 packet, or of an IPv4 packet with VLAN tags. Addresses and tags are compared with the
/// first packet of the run.
#[derive(PartialEq, Eq)]
struct SpecialFlow {
    protocol: u8,
    ports: [u8; 4],
}

impl SpecialFlow {
    /// Returns the flow of a packet; `None` if the packet is not of the kind that [`same_flow`] names.
    fn of(packet: &Packet) -> Option<SpecialFlow> {
        let header = packet.header(Base::Network)?;
        let (length, total, protocol) = match header.first()? {
            &PLAIN_IPV4 => {
                let bytes = header.first_chunk::<{ ipv4::Header::LEN }>()?;
                if !is_plain_and_whole(bytes) {
                    return None;
                }
                (bytes.len(), total_length(bytes).into(), bytes[9])
            }
            first if first >> 4 == 6 => {
                let bytes = header.first_chunk::<{ ipv6::Header::LEN }>()?;
                let payload = u16::from_be_bytes([bytes[4], bytes[5]]);
                (bytes.len(), bytes.len() + usize::from(payload), bytes[6])
            }
            _ => return None,
        };
        let least = length + transport_length(protocol)?;
        let ports = *header.get(length..)?.first_chunk()?;
        let is_complete = has_transport_at(packet, length) && total.min(header.len()) >= least;
        is_complete.then_some(SpecialFlow { protocol, ports })
    }

    /// True if a packet belongs to this flow, which is that of the packet `first`. The caller has checked
    /// that both packets have the same [`ends`].
    fn goes_on(&self, first: &Packet, packet: &Packet) -> bool {
        packet.offsets() == first.offsets()
            && version(first) == version(packet)
            && SpecialFlow::of(packet).is_some_and(|flow| flow == *self)
            && match version(first) {
                Some(6) => packet.network_bytes::<32>(8) == first.network_bytes(8),
                _ => packet.network_bytes::<8>(12) == first.network_bytes(12),
            }
            && tags(first) == tags(packet)
    }
}

/// Returns the length of the shortest transport header of a protocol; `None` for protocols other than TCP and
/// UDP.
#[inline]
fn transport_length(protocol: u8) -> Option<usize> {
    match protocol {
        ip_protocol::TCP => Some(tcp::Header::LEN),
        ip_protocol::UDP => Some(udp::Header::LEN),
        _ => None,
    }
}

/// True if the transport header annotation is not set, or points to the ports that are compared, which start
/// `length` bytes after the start of the network header.
#[inline]
fn has_transport_at(packet: &Packet, length: usize) -> bool {
    packet.transport_follows_network(length) || packet.offset(Base::Transport).is_none()
}

/// The number of bytes that [`plain_ipv4`] returns: an IPv4 header without options, and the 14 bytes after
/// it. Of a TCP header, these are all bytes up to and including the flags.
pub const PLAIN_LENGTH: usize = 34;

/// Returns the first [`PLAIN_LENGTH`] bytes from the network header on, of a packet that can be in a run of
/// several packets and is IPv4 without VLAN tags; otherwise `None`. Bytes after a UDP header have no meaning.
///
/// Two such packets with the same addresses, ports, protocol and [`Packet::offsets`] belong to one flow in
/// the sense of [`same_flow`].
#[inline(always)]
pub fn plain_ipv4(packet: &Packet) -> Option<&[u8; PLAIN_LENGTH]> {
    let start = packet.network_bytes::<PLAIN_LENGTH>(0)?;
    let least = ipv4::Header::LEN + transport_length(start[PROTOCOL])?;
    let is_plain = is_plain_and_whole(start)
        && usize::from(total_length(start)) >= least
        && packet.reaches(Base::Network, least)
        && has_transport_at(packet, ipv4::Header::LEN)
        && (packet.link_header_ends_within(ethernet::Header::LEN) || tags(packet).is_empty());
    is_plain.then_some(start)
}

/// The offsets that most packets of an element have. Of a packet with these offsets, what depends on them
/// alone need not be checked again.
#[derive(Clone, Copy, Debug)]
pub struct PlainLayout(Offsets);

impl PlainLayout {
    /// Returns the layout of a packet for which [`plain_ipv4`] returns bytes; `None` for other packets, and
    /// for those in which there is room for VLAN tags.
    pub fn of(packet: &Packet) -> Option<PlainLayout> {
        let is_plain = packet.link_header_ends_within(ethernet::Header::LEN) && plain_ipv4(packet).is_some();
        is_plain.then(|| PlainLayout(packet.offsets()))
    }

    /// Returns what [`plain_ipv4`] returns, for a packet with this layout; `None` for other packets. Two
    /// packets for which it returns the same addresses, ports and protocol belong to one flow in the sense of
    /// [`same_flow`].
    #[inline(always)]
    pub fn start_of<'p>(&self, packet: &'p Packet) -> Option<&'p [u8; PLAIN_LENGTH]> {
        if packet.offsets() != self.0 {
            return None;
        }
        let start = packet.network_bytes::<PLAIN_LENGTH>(0)?;
        let least = ipv4::Header::LEN + transport_length(start[PROTOCOL])?;
        let is_plain = is_plain_and_whole(start)
            && usize::from(total_length(start)) >= least
            && packet.reaches(Base::Network, least);
        is_plain.then_some(start)
    }
}

impl<'p> PlainFlow<'p> {
    /// Returns the flow of a packet; `None` if the packet is not plain IPv4 ([`plain_ipv4`]), or may have
    /// VLAN tags.
    #[inline]
    fn of(first: &'p Packet) -> Option<PlainFlow<'p>> {
        let start = plain_ipv4(first)?;
        let least = ipv4::Header::LEN + transport_length(start[PROTOCOL])?;
        // If headers were stripped, the network header has a negative offset. The sum is negative if the
        // transport header lies in stripped bytes, too; then any number of bytes in the first slot is enough.
        let least_head = usize::try_from(first.offset(Base::Network)? + least as isize).unwrap_or(0);
        Some(PlainFlow { first, start: start.first_chunk()?, least: least as u16, least_head })
    }

    /// True if a packet belongs to this flow.
    #[inline]
    fn goes_on(&self, packet: &Packet) -> bool {
        let Some(start) = packet.network_bytes::<COMPARED>(0) else { return false };
        let [.., a, b, c, d, e, f, g, h, i, j, k, l] = *start;
        let [.., m, n, o, p, q, r, s, t, u, v, w, x] = *self.start;
        [a, b, c, d, e, f, g, h] == [m, n, o, p, q, r, s, t]
            && [i, j, k, l] == [u, v, w, x]
            && packet.offsets() == self.first.offsets()
            && is_plain_and_whole(start)
            && start[PROTOCOL] == self.start[PROTOCOL]
            && total_length(start) >= self.least
            && packet.data().len() >= self.least_head
    }
}

/// The offset of the protocol in an IPv4 header.
const PROTOCOL: usize = 9;

/// Returns the version in a packet's IP header; `None` if the header is not marked.
fn version(packet: &Packet) -> Option<u8> {
    packet.network_bytes(0).map(|&[first]| first >> 4)
}

/// True if an IPv4 header has no options, and its packet is not a fragment.
#[inline]
fn is_plain_and_whole<const N: usize>(header: &[u8; N]) -> bool {
    let bits = (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS).to_be();
    header[0] == PLAIN_IPV4 && u16::from_ne_bytes([header[6], header[7]]) & bits == 0
}

/// Returns the total length in an IPv4 header.
#[inline]
fn total_length<const N: usize>(header: &[u8; N]) -> u16 {
    u16::from_be_bytes([header[2], header[3]])
}

/// Returns the bytes of an Ethernet frame between the addresses and the network header, if there are VLAN
/// tags or other headers among them; otherwise an empty slice.
fn tags(packet: &Packet) -> &[u8] {
    let Some(network) = packet.offset(Base::Network) else { return &[] };
    // Bytes that were stripped before the link header was marked are not known to be a link header.
    let (frame, start) = match packet.header(Base::Mac) {
        Some(frame) => (frame, packet.offset(Base::Mac).unwrap_or(0)),
        None => (packet.data(), 0),
    };
    match usize::try_from(network - start) {
        Ok(length) if length > ethernet::Header::LEN => {
            frame.get(2 * size_of::<MacAddr>()..length).unwrap_or_default()
        }
        _ => &[],
    }
}

/// The first byte of an IPv4 header without options.
const PLAIN_IPV4: u8 = 0x45;

#[cfg(test)]
mod tests {
    use packet::Pool;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::net::SocketAddr;
    use wire::build::Builder;

    use super::*;
    use crate::five_tuple::five_tuple;

    /// A packet of a random batch.
    #[derive(Clone, Debug)]
    struct Draft {
        flow: u16,
        is_tcp: bool,
        is_ip6: bool,
        vlan: u16,
        fragment: u16,
        cut: Option<usize>,
        /// The transport header annotation of the packet, if it is to be wrong: `Some(Some(offset))` for an
        /// annotation with this offset, `Some(None)` for no annotation. `None` for the right annotation.
        transport: Option<Option<isize>>,
    }

    fn draft() -> impl Strategy<Value = Draft> {
        let rare = |weight| prop::bool::weighted(weight);
        let vlan = prop_oneof![5 => Just(0u16), 1 => 1u16..3];
        let fragment = prop_oneof![9 => Just(0u16), 1 => Just(0x2000), 1 => Just(5), 2 => Just(0x4000)];
        let cut = prop_oneof![9 => Just(None), 1 => (0usize..70).prop_map(Some)];
        let transport = prop_oneof![9 => Just(None), 1 => Just(Some(None)), 1 => Just(Some(Some(40)))];
        (0u16..2, rare(0.5), rare(0.3), vlan, fragment, cut, transport).prop_map(
            |(flow, is_tcp, is_ip6, vlan, fragment, cut, transport)| Draft {
                flow,
                is_tcp,
                is_ip6,
                vlan,
                fragment,
                cut,
                transport,
            },
        )
    }

    impl Draft {
        fn packet(&self, pool: &mut Pool) -> Packet {
            let end = |last: u16| -> SocketAddr {
                match self.is_ip6 {
                    false => (std::net::Ipv4Addr::new(10, 0, 0, last as u8), 7).into(),
                    true => (std::net::Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, last), 7).into(),
                }
            };
            let builder = match self.is_tcp {
                true => Builder::tcp(end(1), end(self.flow), 0),
                false => Builder::udp(end(1), end(self.flow)),
            };
            let mut builder = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
            if self.vlan > 0 {
                builder = builder.vlan(self.vlan);
            }
            if !self.is_ip6 {
                builder = builder.fragment(self.fragment);
            }
            let mut frame = builder.build(&[1, 2, 3]).unwrap();
            frame.truncate(self.cut.unwrap_or(frame.len()));
            let mut packet = pool.packet(&frame).unwrap();
            let network = if self.vlan > 0 { 18 } else { 14 };
            let header = if self.is_ip6 { 40 } else { 20 };
            packet.set_offset(Base::Mac, Some(0));
            packet.set_offset(Base::Network, Some(network));
            packet.set_offset(Base::Transport, self.transport.unwrap_or(Some(network + header)));
            packet
        }

        /// True if the packet is of the kind that can be in a run of several packets.
        fn is_plain(&self) -> bool {
            let link = if self.vlan > 0 { 18 } else { 14 };
            let headers = if self.is_ip6 { 40 } else { 20 } + if self.is_tcp { 20 } else { 8 };
            let is_whole = self.is_ip6 || self.fragment & 0x3fff == 0;
            is_whole && self.cut.is_none_or(|cut| cut >= link + headers) && self.transport != Some(Some(40))
        }

        /// Returns the properties that all packets of one run must have in common.
        fn identity(&self) -> impl PartialEq + use<> {
            (self.flow, self.is_tcp, self.is_ip6, self.vlan, self.transport)
        }
    }

    fn starts(runs: &Runs) -> Vec<usize> {
        (0..runs.count()).map(|number| runs.start(number)).collect()
    }

    /// Checks the runs that are found in a batch, whose packets were built from `drafts`.
    fn check(drafts: &[Draft], batch: &mut Batch) -> Result<(), TestCaseError> {
        let goes_on =
            |pair: &[Draft]| pair.iter().all(Draft::is_plain) && pair[0].identity() == pair[1].identity();
        let expected: Vec<usize> = std::iter::once(0)
            .chain(drafts.windows(2).enumerate().filter(|(_, pair)| !goes_on(pair)).map(|(n, _)| n + 1))
            .collect();
        let (mut runs, mut last) = (Runs::default(), u32::MAX - 3);
        // Run numbers that packets already have, and that are not known to be right, are ignored.
        batch.iter_mut().for_each(|packet| packet.set_run(1));
        runs.find(batch, false, &mut last);
        prop_assert_eq!(starts(&runs), &expected[..]);
        for run in runs.of(batch, 0) {
            let tuples: Vec<_> = run.iter().map(five_tuple).collect();
            prop_assert!(tuples.iter().all(|tuple| *tuple == tuples[0]));
        }
        let lengths: usize = runs.of_mut(batch, 0).map(|run| run.len()).sum();
        prop_assert_eq!(lengths, drafts.len());
        for first in 0..runs.count() {
            let mut rest = runs.of(batch, first);
            prop_assert!(std::ptr::eq(rest.next().unwrap().as_ptr(), &raw const batch[runs.start(first)]));
            prop_assert_eq!(rest.count(), runs.count() - first - 1);
        }
        // A second element finds the same runs by the run numbers of the packets alone.
        let mut again = Runs::default();
        again.find(batch, true, &mut last);
        prop_assert_eq!(starts(&again), starts(&runs));
        batch.iter_mut().step_by(3).for_each(|packet| packet.set_run(0));
        again.find(batch, true, &mut last);
        // A packet without a run number may get a new one, which divides a run into two.
        prop_assert!(starts(&runs).iter().all(|start| starts(&again).contains(start)));
        prop_assert!(batch.iter().all(|packet| packet.run() != 0));
        prop_assert_eq!(runs.as_singles().is_some(), expected.len() == drafts.len());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }))]

        #[test]
        fn runs_are_those_of_the_drafts(drafts in vec(draft(), 1..100), repeats in vec(1usize..5, 100)) {
            let drafts: Vec<Draft> =
                drafts.iter().zip(repeats).flat_map(|(draft, n)| std::iter::repeat_n(draft.clone(), n)).collect();
            let drafts = &drafts[..drafts.len().min(BATCH_CAPACITY)];
            let mut pool = Pool::new(64 << 20).unwrap();
            let mut batch = Batch::new();
            for draft in drafts {
                prop_assert!(batch.push(draft.packet(&mut pool)).is_ok());
            }
            let checked = check(drafts, &mut batch);
            pool.free_all(&mut batch);
            checked?;
        }
    }

    /// Tests that a debug build panics if packets of two flows have the same run number, and run numbers
    /// count as known to be right.
    #[test]
    #[cfg(debug_assertions)]
    fn wrong_runs_are_found() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let draft = |flow| Draft {
            flow,
            is_tcp: false,
            is_ip6: false,
            vlan: 0,
            fragment: 0,
            cut: None,
            transport: None,
        };
        let mut packets = [0, 1].map(|flow| draft(flow).packet(&mut pool));
        packets.iter_mut().for_each(|packet| packet.set_run(5));
        let find = |packets: &mut [Packet]| Runs::default().find(packets, true, &mut 5);
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| find(&mut packets)));
        assert!(found.is_err());
        packets.into_iter().for_each(|packet| pool.free(packet));
    }
}
