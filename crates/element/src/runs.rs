//! Runs: consecutive packets of one flow in a batch, for which elements do once what depends on the flow
//! alone.
//!
//! The first element in a graph that asks for the runs of a batch ([`Cx::find_runs`]) compares each packet
//! with the packet before it, and writes a number into the metadata of the packets: packets of one run have
//! the same number ([`Packet::run`]). Elements downstream only compare these numbers, as long as no element
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
#[derive(Clone, Debug)]
pub struct Runs {
    /// The index in the batch at which each run starts; what follows after the last run has no meaning.
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

    /// Finds the runs of a batch. If `is_known` is true, packets with the same number are of the same flow,
    /// and only packets without a number are compared. All packets have a number afterwards; `last` is the
    /// last number that was used.
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
        for (index, packet) in batch.iter().enumerate() {
            let run = packet.run();
            self.starts[count % BATCH_CAPACITY] = index as u8;
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
        for (index, packet) in batch.iter_mut().enumerate() {
            let addresses = addresses(packet);
            let is_alike = addresses.is_some() && addresses == last_addresses;
            if !(is_alike && before.is_some_and(|before| goes_on(&mut flow, before, packet))) {
                flow = None;
                run = next(run);
                self.starts[count % BATCH_CAPACITY] = index as u8;
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
        for (index, packet) in batch.iter_mut().enumerate() {
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
                self.starts[count % BATCH_CAPACITY] = index as u8;
                count += 1;
            }
            before = Some(packet);
        }
        (self.count, self.packets) = (count, batch.len());
    }
}

/// True if a packet belongs to the flow of the packet `before`. Both have the same [`addresses`]. `flow`
/// keeps the flow of that packet for further packets.
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

/// Returns the number of the run after run `last`. 0 is left out. Numbers repeat after 2^32 runs; packets
/// keep their number only while the batch in which they came passes through the graph.
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
        let Some(is_known) = self.known_runs() else { return self.find_undeclared(batch, runs) };
        runs.find(batch, is_known, &mut self.core.last_run);
    }

    /// Prepares a batch for elements downstream, in place of [`find_runs`](Self::find_runs), if the element
    /// declares that it finds runs but does not need those of this batch. Elements downstream rely on the runs
    /// of its packets, so runs that may be wrong are unset.
    #[inline]
    pub fn skip_runs(&mut self, batch: &mut Batch) {
        if self.known_runs() != Some(true) {
            batch.iter_mut().for_each(|packet| packet.set_run(0));
        }
    }

    /// Returns true if the runs of the packets that come to the element are right, and `None` if it does not
    /// declare that it finds runs.
    #[inline]
    fn known_runs(&self) -> Option<bool> {
        self.core.facts.runs.get(self.id).copied().flatten()
    }

    /// Finds runs for an element that does not declare it, which is an error. The packets keep no runs,
    /// because elements downstream would take them for right everywhere.
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
    addresses(one) == addresses(other) && Flow::of(one).is_some_and(|flow| flow.goes_on(one, other))
}

/// The flow of a packet, with which further packets are compared.
#[derive(Clone, Copy)]
struct Flow {
    protocol: u8,
    ports: [u8; 4],
    /// The number of bytes of the shortest packet, from the network header on.
    least: usize,
    /// True if the packet is an IPv6 packet, or other bytes than the IP header and the ports identify the
    /// flow: those of VLAN tags.
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
        /// The offset of the mark of the transport header, if it is wrong; `None` to unset the mark.
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

        /// True if the packet is of the kind that can go on.
        fn is_plain(&self) -> bool {
            let link = if self.vlan > 0 { 18 } else { 14 };
            let headers = if self.is_ip6 { 40 } else { 20 } + if self.is_tcp { 20 } else { 8 };
            let is_whole = self.is_ip6 || self.fragment & 0x3fff == 0;
            is_whole && self.cut.is_none_or(|cut| cut >= link + headers) && self.transport != Some(Some(40))
        }

        /// Returns what packets of one run have in common.
        fn identity(&self) -> impl PartialEq + use<> {
            (self.flow, self.is_tcp, self.is_ip6, self.vlan, self.transport)
        }
    }

    fn starts(runs: &Runs) -> Vec<usize> {
        (0..runs.count()).map(|number| runs.start(number)).collect()
    }

    /// Checks the runs of a batch with packets of these drafts.
    fn check(drafts: &[Draft], batch: &mut Batch) -> Result<(), TestCaseError> {
        let goes_on =
            |pair: &[Draft]| pair.iter().all(Draft::is_plain) && pair[0].identity() == pair[1].identity();
        let expected: Vec<usize> = std::iter::once(0)
            .chain(drafts.windows(2).enumerate().filter(|(_, pair)| !goes_on(pair)).map(|(n, _)| n + 1))
            .collect();
        let (mut runs, mut last) = (Runs::default(), u32::MAX - 3);
        // Numbers that are not known to be right are ignored.
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
        // A second element finds the same runs by their numbers.
        let mut again = Runs::default();
        again.find(batch, true, &mut last);
        prop_assert_eq!(starts(&again), starts(&runs));
        batch.iter_mut().step_by(3).for_each(|packet| packet.set_run(0));
        again.find(batch, true, &mut last);
        // A packet without a number may get a new one, which parts a run.
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

    /// Debug builds find packets of another flow in a run that counts as known.
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
