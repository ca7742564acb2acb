//! Elements that look up the Ethernet addresses of neighbours give the same packets, queries, counts and
//! drops for batches as for single packets, although they look consecutive packets with one next hop up once.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use testkit::TestRun;
use testkit::elements::{Seen, collect, offer};
use testkit::timed::write_capture;
use wire::build::Builder;
use wire::neighbor::{self, flag, option};
use wire::{MacAddr, icmpv6};

/// The Ethernet address of the querying element.
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// The protocol by which an element finds the Ethernet addresses of neighbours.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    Arp,
    Nd,
}

/// The packets that arrive at one time, and therefore can be one batch.
#[derive(Clone, Debug)]
enum Group {
    /// Packets for neighbours: for each run of packets, the number of the neighbour and of packets.
    Packets(Vec<(u8, usize)>),
    /// A reply of this neighbour, with an Ethernet address that ends in this byte.
    Reply(u8, u8),
}

/// The number of the first neighbour that stands for a multicast address.
const MULTICAST: u8 = 3;

fn ip4(neighbour: u8) -> Ipv4Addr {
    if neighbour < MULTICAST { Ipv4Addr::new(10, 0, 0, 2 + neighbour) } else { Ipv4Addr::new(224, 0, 0, 9) }
}

fn ip6(neighbour: u8) -> Ipv6Addr {
    let prefix = if neighbour < MULTICAST { 0x2001 } else { 0xff02 };
    Ipv6Addr::new(prefix, 0xdb8, 0, 0, 0, 0, 0, 2 + u16::from(neighbour))
}

impl Protocol {
    /// Returns a chain with the querying element `q`, whose table has room for `capacity` entries, from the
    /// output of a source of frames.
    fn chain(self, capacity: usize) -> String {
        let limits = format!("ENTRY_CAPACITY {capacity}, ENTRY_PACKET_CAPACITY 3, POLL_TIMEOUT 2, TIMEOUT 5");
        match self {
            Protocol::Arp => format!(
                "c :: Classifier(12/0806, -) -> [1] q :: ARPQuerier(10.0.0.1/24, {OWN}, {limits});
                 c[1] -> Strip(14) -> GetIPAddress(16) -> q -> SINK(0); q[1] -> SINK(1)"
            ),
            Protocol::Nd => format!(
                "c :: Classifier(20/3a, -) -> [1] q :: IP6NDSolicitor(2001:db8::1, {OWN}, {limits});
                 c[1] -> Strip(14) -> MarkIP6Header -> GetIP6Address(24) -> q -> SINK(0);
                 q[1] -> SINK(1); q[2] -> SINK(2)"
            ),
        }
    }

    /// Makes a frame with a packet for a neighbour. The number tells packets apart.
    fn packet(self, neighbour: u8, number: u16) -> Vec<u8> {
        let builder = match self {
            Protocol::Arp => Builder::udp((ip4(0), 7).into(), (ip4(neighbour), 7).into()),
            Protocol::Nd => Builder::udp((ip6(0), 7).into(), (ip6(neighbour), 7).into()),
        };
        builder.ethernet(MacAddr([4; 6]), OWN).build(&number.to_be_bytes()).unwrap()
    }

    /// Makes a frame with the answer of a neighbour to a query.
    fn reply(self, neighbour: u8, mac: u8) -> Vec<u8> {
        let mac = MacAddr([2, 0, 0, 0, 0, mac]);
        let (kind, payload) = match self {
            Protocol::Arp => {
                let head = [0, 1, 8, 0, 6, 4, 0, 2];
                let sender = [&mac.0[..], &ip4(neighbour).octets()].concat();
                (0x0806, [&head[..], &sender, &OWN.0, &[10, 0, 0, 1]].concat())
            }
            Protocol::Nd => {
                let own = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
                let addresses = [ip6(neighbour), own, ip6(neighbour)];
                let kind = icmpv6::kind::NEIGHBOR_ADVERTISEMENT;
                (0x86dd, neighbor::build(kind, flag::SOLICITED, addresses, (option::TARGET, mac)).to_vec())
            }
        };
        [&OWN.0[..], &mac.0, &u16::to_be_bytes(kind), &payload].concat()
    }

    fn frames(self, group: &Group, numbers: &mut impl Iterator<Item = u16>) -> Vec<Vec<u8>> {
        match group {
            Group::Reply(neighbour, mac) => vec![self.reply(*neighbour, *mac)],
            Group::Packets(runs) => {
                let neighbours = runs.iter().flat_map(|&(neighbour, n)| std::iter::repeat_n(neighbour, n));
                neighbours.zip(numbers).map(|(neighbour, number)| self.packet(neighbour, number)).collect()
            }
        }
    }
}

/// The results of a run: the packets at each sink, the table and counts of the querying element, and the
/// drops of each element.
type Results = (Vec<Vec<Seen>>, Vec<String>, Vec<String>);

/// Sends groups of packets, each the given number of milliseconds after the group before, through a chain.
fn run(protocol: Protocol, capacity: usize, groups: &[(i64, Group)], burst: usize) -> Results {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.pcap");
    let (mut time, mut numbers) = (0, 0..);
    let mut frames = Vec::new();
    for (pause, group) in groups {
        time += pause * 1_000_000;
        frames.extend(protocol.frames(group, &mut numbers).into_iter().map(|frame| (time, frame)));
    }
    write_capture(&file, &frames);
    let number = offer(Vec::new());
    let chain = protocol.chain(capacity).replace("SINK(", &format!("TestSink({number}, "));
    let text = format!("FromDump(\"{}\", STOP true) -> {chain}", file.display());
    let how = TestRun { burst: Some(burst), ..TestRun::trace() };
    let outcome = how.text(&text, &["q.table", "q.stats"]).unwrap_or_else(|error| panic!("{text}: {error}"));
    let seen = collect(number);
    assert!(outcome.report.balances());
    let at = |sink| seen.iter().filter(|packet| packet.sink == sink).cloned().collect();
    let drops = outcome.report.elements.iter().map(|element| format!("{} {:?}", element.name, element.drops));
    let values = outcome.values.into_iter().map(Result::unwrap);
    ((0..3).map(at).collect(), values.collect(), drops.collect())
}

fn group() -> impl Strategy<Value = Group> {
    let packets = vec((0..=MULTICAST, 1usize..5), 1..8).prop_map(Group::Packets);
    let mac = prop_oneof![4 => Just(0x22u8), 1 => Just(0x33)];
    prop_oneof![3 => packets, 2 => (0..MULTICAST, mac).prop_map(|(neighbour, mac)| Group::Reply(neighbour, mac))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn batches_give_what_single_packets_give(
        protocol in prop::sample::select(&[Protocol::Arp, Protocol::Nd][..]),
        capacity in 0usize..3,
        groups in vec((prop::sample::select(&[1i64, 150, 1_100, 2_500, 6_000][..]), group()), 1..20),
    ) {
        prop_assert_eq!(run(protocol, capacity, &groups, 256), run(protocol, capacity, &groups, 1));
    }
}

/// A known neighbour is queried again after POLL_TIMEOUT, and the entry of an unknown neighbour evicts its
/// entry, both in the middle of a batch.
#[test]
fn queries_and_evictions_within_a_batch() {
    let groups = [
        (1, Group::Packets(vec![(0, 1)])),
        (1, Group::Reply(0, 0x22)),
        (1, Group::Packets(vec![(0, 2)])),
        (2_500, Group::Packets(vec![(0, 3), (1, 1), (0, 2)])),
    ];
    for protocol in [Protocol::Arp, Protocol::Nd] {
        let (packets, values, drops) = run(protocol, 1, &groups, 256);
        // The first two groups of packets leave, and the first packets of the third group.
        let numbers: Vec<u8> = packets[0].iter().filter_map(|packet| packet.bytes.last().copied()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5], "{protocol:?}");
        // The queries are for the new neighbour, for the known neighbour, for the other neighbour, and again
        // for the first, whose entry was evicted.
        assert_eq!(packets[1].len(), 4, "{protocol:?}");
        assert_eq!((packets, values, drops), run(protocol, 1, &groups, 1));
    }
}
