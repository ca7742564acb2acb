//! Runs: consecutive packets of one flow in a batch, for which elements do once what depends on the flow
//! alone.
//!
//! The first element in a graph that asks for the runs of a batch ([`Cx::find_runs`]) compares each packet with
//! the packet before it, and writes a number into the metadata of the packets: packets of one run have the
//! same number ([`Packet::run`]). Elements downstream only compare these numbers, as long as no element
//! between them changes what identifies a flow, or holds packets. The engine finds this out from the
//! declarations ([`Facts::runs`](crate::Facts::runs)).
//!
//! The packets of a run agree in everything that [`same_flow`] compares. They may differ in everything else,
//! for example in length, TTL, DSCP and TCP flags.

use std::iter;

use packet::{BATCH_CAPACITY, Base, Batch, Packet};
use wire::{MacAddr, ethernet, ip_protocol, ipv4, ipv6, tcp, udp};

use crate::context::Cx;

/// The runs of a batch, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The index in the batch at which each run starts.
    starts: [u8; BATCH_CAPACITY],
    /// The number of runs.
    count: usize,
    /// The number of packets.
    packets: usize,
}

impl Default for Runs {
    /// Returns the runs of an empty batch.
    fn default() -> Runs {
        Runs { starts: [0; BATCH_CAPACITY], count: 0, packets: 0 }
    }
}

impl Runs {
    /// Returns the runs as [`Singles`] if each of them is one packet; otherwise `None`.
    #[inline]
    pub fn as_singles(&self) -> Option<Singles> {
        (self.packets == self.count).then_some(Singles(self.count))
    }

    /// Finds the runs of a batch. If `is_known` is true, packets with the same number are of the same flow, and
    /// only packets without a number are compared. All packets have a number afterwards; `last` is the last
    /// number that was used.
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

    /// Finds the runs of packets that all have a number. Returns false if a packet has none.
    #[inline]
    fn take_numbers(&mut self, batch: &[Packet]) -> bool {
        let (mut before, mut least, mut count) = (0, u32::MAX, 0);
        for (index, packet) in (0..).zip(batch) {
            let run = packet.run();
            self.starts[count % BATCH_CAPACITY] = index;
            count += usize::from(run != before);
            least = least.min(run);
            before = run;
        }
        (self.count, self.packets) = (count, batch.len());
        least != 0
    }

    /// Compares all packets with the packets before them, and numbers them.
    #[inline(never)]
    fn compare(&mut self, batch: &mut [Packet], last: &mut u32) {
        let mut before: Option<&Packet> = None;
        let (mut count, mut run, mut last_addresses) = (0, *last, None);
        // The flow of the packet before, if another packet was compared with it.
        let mut flow = None;
        for (index, packet) in (0..).zip(batch.iter_mut()) {
            let addresses = addresses(packet);
            let is_alike = addresses.is_some() && addresses == last_addresses;
            if !(is_alike && before.is_some_and(|before| goes_on(&mut flow, before, packet))) {
                flow = None;
                run = next(run);
                self.starts[count % BATCH_CAPACITY] = index;
                count += 1;
                last_addresses = addresses;
            }
            packet.set_run(run);
            before = Some(packet);
        }
        *last = run;
        (self.count, self.packets) = (count, batch.len());
    }

    /// Compares the packets that have no number with the packets before them, and numbers them.
    #[cold]
    fn compare_some(&mut self, batch: &mut [Packet], last: &mut u32) {
        let mut before: Option<&Packet> = None;
        let mut count = 0;
        for (index, packet) in (0..).zip(batch.iter_mut()) {
            let goes_on = before.is_some_and(|before| match packet.run() {
                0 => same_flow(before, packet),
                run => run == before.run(),
            });
            if packet.run() == 0 {
                let run = before.filter(|_| goes_on).map(Packet::run);
                packet.set_run(run.unwrap_or_else(|| {
                    *last = next(*last);
                    *last
                }));
            }
            if !goes_on {
                self.starts[count % BATCH_CAPACITY] = index;
                count += 1;
            }
            before = Some(packet);
        }
        (self.count, self.packets) = (count, batch.len());
    }
}

/// True if a packet belongs to the flow of the packet `before`. Both have the same [`addresses`]. `flow` keeps
/// the flow of that packet for further packets.
#[inline(never)]
fn goes_on(flow: &mut Option<Flow>, before: &Packet, packet: &Packet) -> bool {
    *flow = flow.or_else(|| Flow::of(before));
    flow.as_ref().is_some_and(|flow| flow.goes_on(before, packet))
}

/// A list of runs. An element that is generic over the list has one form for runs of several packets
/// ([`Runs`]), and one for batches in which each packet is a run ([`Singles`]), in which the compiler leaves
/// out the loop over the packets of a run.
pub trait RunList {
    /// Returns the number of runs.
    fn count(&self) -> usize;

    /// Returns the packets of each run of a batch, from run number `first` on, counted from 0.
    fn of<'p>(&self, batch: &'p [Packet], first: usize) -> impl Iterator<Item = &'p [Packet]>;

    /// Returns the packets of each run of a batch, writable, from run number `first` on, counted from 0.
    fn of_mut<'p>(&self, batch: &'p mut [Packet], first: usize) -> impl Iterator<Item = &'p mut [Packet]>;
}

impl RunList for Runs {
    #[inline]
    fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn of<'p>(&self, batch: &'p [Packet], first: usize) -> impl Iterator<Item = &'p [Packet]> {
        let mut lengths = self.lengths(first);
        let mut rest = batch.get(self.start(first)..).unwrap_or_default();
        iter::from_fn(move || rest.split_off(..lengths.next()?))
    }

    #[inline]
    fn of_mut<'p>(&self, batch: &'p mut [Packet], first: usize) -> impl Iterator<Item = &'p mut [Packet]> {
        let mut lengths = self.lengths(first);
        let mut rest = batch.get_mut(self.start(first)..).unwrap_or_default();
        iter::from_fn(move || rest.split_off_mut(..lengths.next()?))
    }
}

impl Runs {
    /// Returns the index in the batch at which run `number` starts.
    #[inline]
    fn start(&self, number: usize) -> usize {
        match self.starts.get(number) {
            Some(&start) if number < self.count => usize::from(start),
            _ => self.packets,
        }
    }

    /// Returns the number of packets of each run, from run `first` on.
    #[inline]
    fn lengths(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        let mut start = self.start(first);
        let ends = self.starts[..self.count].iter().skip(first + 1).map(|&end| usize::from(end));
        let last = (first < self.count).then_some(self.packets);
        ends.chain(last).map(move |end| end - std::mem::replace(&mut start, end))
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

/// Returns the number of the run after run `last`. 0 is left out. Numbers repeat after 2^32 runs; packets keep
/// their number only while the batch in which they came passes through the graph.
#[inline]
fn next(last: u32) -> u32 {
    last.wrapping_add(1).max(1)
}

/// Returns 8 bytes of the network header in which neighbouring packets of different flows nearly always
/// differ: in IPv4 both addresses, in IPv6 the middle of the source address.
#[inline]
fn addresses(packet: &Packet) -> Option<u64> {
    packet.network_bytes(12).map(|bytes| u64::from_ne_bytes(*bytes))
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
        let known = self.core.facts.runs.get(self.id).copied().flatten();
        debug_assert!(known.is_some(), "'{}' does not declare that it finds runs", self.name());
        runs.find(batch, known == Some(true), &mut self.core.last_run);
    }
}

/// True if two packets are certain to belong to the same flow: both are whole TCP or UDP packets, in IPv4
/// without options or in IPv6 without extension headers, with a complete transport header. They have the same
/// addresses, protocol, ports, VLAN tags, and offsets of headers. Packets for which it is false may also belong
/// to the same flow.
pub fn same_flow(one: &Packet, other: &Packet) -> bool {
    addresses(one) == addresses(other) && Flow::of(one).is_some_and(|flow| flow.goes_on(one, other))
}

/// The flow of a packet, with which further packets are compared.
#[derive(Clone, Copy)]
struct Flow {
    protocol: u8,
    ports: [u8; 4],
    /// The number of bytes of the shortest packet, from the network header on.
    least: usize,
    /// True if the packet is an IPv6 packet, or other bytes than the IP header and the ports identify the flow:
    /// those of VLAN tags.
    is_special: bool,
}

impl Flow {
    /// Returns the flow of a packet; `None` if the packet is not of the kind that [`same_flow`] names.
    fn of(packet: &Packet) -> Option<Flow> {
        let header = packet.header(Base::Network)?;
        let (length, total, protocol) = match header.first()? {
            &PLAIN_IPV4 => {
                let bytes = header.first_chunk::<{ ipv4::Header::LEN }>()?;
                if is_fragment(bytes) {
                    return None;
                }
                (bytes.len(), total_length(bytes), bytes[9])
            }
            first if first >> 4 == 6 => {
                let bytes = header.first_chunk::<{ ipv6::Header::LEN }>()?;
                let payload = u16::from_be_bytes([bytes[4], bytes[5]]);
                (bytes.len(), bytes.len() + usize::from(payload), bytes[6])
            }
            _ => return None,
        };
        // The transport header is where the ports are compared, or nowhere.
        if packet.offset(Base::Transport).is_some() && !packet.transport_follows_network(length) {
            return None;
        }
        let least = length
            + match protocol {
                ip_protocol::TCP => tcp::Header::LEN,
                ip_protocol::UDP => udp::Header::LEN,
                _ => return None,
            };
        let is_special = length == ipv6::Header::LEN || !tags(packet).is_empty();
        let ports = *header.get(length..)?.first_chunk()?;
        (total.min(header.len()) >= least).then_some(Flow { protocol, ports, least, is_special })
    }

    /// True if a packet belongs to this flow, which is that of the packet `first`. Both have the same
    /// [`addresses`].
    #[inline]
    fn goes_on(&self, first: &Packet, packet: &Packet) -> bool {
        if self.is_special {
            return self.goes_on_specially(first, packet);
        }
        let Some(bytes) = packet.network_bytes::<24>(0) else { return false };
        packet.has_layout_of(first)
            && bytes[0] == PLAIN_IPV4
            && bytes[9] == self.protocol
            && bytes[20..] == self.ports
            && !is_fragment(bytes)
            && total_length(bytes) >= self.least
            && packet.reaches(Base::Network, self.least)
    }

    #[inline(never)]
    fn goes_on_specially(&self, first: &Packet, packet: &Packet) -> bool {
        let same = |flow: Flow| (flow.protocol, flow.ports) == (self.protocol, self.ports);
        packet.has_layout_of(first)
            && version(first) == version(packet)
            && Flow::of(packet).is_some_and(same)
            && (version(first) != Some(6) || packet.network_bytes::<32>(8) == first.network_bytes(8))
            && tags(first) == tags(packet)
    }
}

/// Returns the version in a packet's IP header; `None` if the header is not marked.
fn version(packet: &Packet) -> Option<u8> {
    packet.network_bytes(0).map(|&[first]| first >> 4)
}

/// True if a packet with this IPv4 header is a fragment.
#[inline]
fn is_fragment(header: &[u8]) -> bool {
    let bits = ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS;
    matches!(header, [_, _, _, _, _, _, high, low, ..] if u16::from_be_bytes([*high, *low]) & bits != 0)
}

/// Returns the total length in an IPv4 header.
#[inline]
fn total_length(header: &[u8]) -> usize {
    let &[_, _, high, low, ..] = header else { return 0 };
    usize::from(u16::from_be_bytes([high, low]))
}

/// Returns the bytes of an Ethernet frame between the addresses and the network header, if there are VLAN tags
/// or other headers among them; otherwise an empty slice.
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
