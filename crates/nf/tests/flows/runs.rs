//! Chains whose elements find runs of packets of one flow give the same packets, counts and drops for
//! batches as for single packets, which have no runs.

use std::net::SocketAddr;
use std::sync::Arc;

use element::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use testkit::TestRun;
use testkit::elements::{Seen, TestPacket, collect, offer};
use wire::MacAddr;
use wire::build::Builder;

/// The rules of filters for the test chains. Lists with more than 16 rules are compiled into a decision
/// structure of boxes, shorter lists are not. Some lists read only fields that all packets of a run have in
/// common.
const RULES: [&str; 4] = [
    "deny src 10.0.0.1 && dst port 2, allow udp, deny tcp && src port 1, allow all",
    "deny ip ttl 3, deny tcp opt fin, allow ip tos 4, deny ip frag, allow all",
    "deny src 10.0.0.1 && dst port 2, allow src 10.0.0.2, deny tcp dst port 1, deny src 10.1.0.1, deny src 10.1.0.2, \
     deny src 10.1.0.3, deny src 10.1.0.4, deny src 10.1.0.5, deny src 10.1.0.6, deny src 10.1.0.7, \
     deny src 10.1.0.8, deny src 10.1.0.9, deny src 10.1.0.10, deny src 10.1.0.11, deny src 10.1.0.12, \
     deny src 10.1.0.13, deny src 10.1.0.14, allow udp, allow tcp, deny all",
    "deny tcp opt syn && src 10.0.0.1, allow src 10.0.0.2, deny tcp dst port 1, deny src 10.1.0.1, deny src 10.1.0.2, \
     deny src 10.1.0.3, deny src 10.1.0.4, deny src 10.1.0.5, deny src 10.1.0.6, deny src 10.1.0.7, \
     deny src 10.1.0.8, deny src 10.1.0.9, deny src 10.1.0.10, deny src 10.1.0.11, deny src 10.1.0.12, \
     deny src 10.1.0.13, deny src 10.1.0.14, allow udp, allow tcp, deny all",
];

/// The chains between a test source, whose packets are Ethernet frames, and test sinks. `RULES` stands for
/// the rules of a filter, and `SINK` for the class and first arguments of a sink. Elements named `f` are
/// filters, `s` are flow counters, and `n` are translators.
const CHAINS: [&str; 17] = [
    "CheckIPHeader(14) -> f :: IPFilter(RULES) -> n :: IPRewriter(pattern 192.0.2.1 1024-1100 - - 0 1) \
     -> f2 :: IPFilter(RULES) -> s :: FlowCounter -> SINK(0); n[1] -> SINK(1)",
    "MarkIPHeader(14) -> f :: IPFilter(RULES) -> s :: FlowCounter(CAPACITY 3) -> SINK(0)",
    "c :: Classifier(12/0800, 12/86dd, -) -> MarkIPHeader(14) -> s :: FlowCounter -> f :: IPFilter(RULES) -> SINK(0); \
     c[1] -> MarkIP6Header(14) -> s; c[2] -> MarkIPHeader(18) -> s",
    // StoreIPAddress, between two elements that find runs, gives all packets the same source address, so
    // packets of different runs may then be of one flow.
    "MarkIPHeader(14) -> s :: FlowCounter -> StoreIPAddress(10.0.0.9, src) -> s2 :: FlowCounter -> f :: IPFilter(RULES) \
     -> SINK(0)",
    // Packets of one run are divided between two paths. One path changes their source address; then the paths
    // meet again.
    "CheckIPHeader(14) -> f :: IPFilter(RULES) -> c :: IPClassifier(ip ttl 3, -) -> s :: FlowCounter -> SINK(0); \
     c[1] -> StoreIPAddress(10.0.0.1, src) -> s",
    "CheckIPHeader(14) -> f :: IPFilter(RULES) -> t :: Tee -> s :: FlowCounter -> SINK(0); \
     t[1] -> Queue(1000) -> Unqueue -> n :: IPAddrRewriter(pattern 192.0.2.1 - 0 0) -> s2 :: FlowCounter -> SINK(1)",
    "CheckIPHeader(14) -> c :: IPClassifier(tcp, udp, -) -> n :: TCPRewriter(pattern 192.0.2.1 1024-1100 - - 0 1) \
     -> s :: FlowCounter -> f :: IPFilter(RULES) -> SINK(0); n[1] -> SINK(1); c[2] -> Discard; \
     c[1] -> n2 :: UDPRewriter(keep 0 1) -> s; n2[1] -> SINK(2)",
    "CheckIPHeader(14) -> f :: IPFilter(RULES) -> r :: RadixIPLookup(10.0.1.1/32 0, 10.0.1.2/31 10.9.9.9 1, 11/8 0) \
     -> DecIPTTL -> SINK(0); r[1] -> DecIPTTL -> SINK(1)",
    "MarkIPHeader(14) -> n :: IPRewriter(keep 0 1) -> f :: IPFilter(RULES) -> SINK(0); n[1] -> SINK(1)",
    // The queue mixes packets of two paths, one of which gets a new source address. So runs that were found
    // upstream of the queue are wrong downstream. The filter after the queue may pass such runs on, because
    // it may not look for runs itself.
    "MarkIPHeader(14) -> s :: FlowCounter -> c :: IPClassifier(ip ttl 3, -) -> q :: Queue(1000) -> Unqueue \
     -> f :: IPFilter(RULES) -> s2 :: FlowCounter -> SINK(0); c[1] -> StoreIPAddress(10.0.0.9, src) -> q",
    "MarkIPHeader(14) -> s :: FlowCounter -> c :: IPClassifier(ip ttl 3, -) -> q :: Queue(1000) -> Unqueue \
     -> f :: IPFilter(RULES, CACHING true) -> s2 :: FlowCounter -> SINK(0); c[1] -> StoreIPAddress(10.0.0.9, src) -> q",
    // SetIPDSCP and SetIPChecksum also write into IPv6 packets, where the fields of IPv4 headers are parts of
    // addresses.
    "c :: Classifier(12/86dd, -) -> MarkIP6Header(14) -> s :: FlowCounter -> SetIPDSCP(10) -> SetIPChecksum \
     -> s2 :: FlowCounter -> SINK(0); c[1] -> MarkIPHeader(14) -> s",
    "CheckIPHeader(14) -> l :: FlowIPLoadBalancer(VIP 10.0.1.1, DST 10.9.0.1, DST 10.9.0.2, DST 10.9.0.3) \
     -> s :: FlowCounter -> f :: IPFilter(RULES) -> SINK(0)",
    // The servers of connections that find no room in the table depend on the time to live, in which packets
    // of one run differ. So packets of a run may get different servers.
    "MarkIPHeader(14) -> AggregateIP(ip ttl) -> l :: FlowIPLoadBalancer(VIP 10.0.1.1, DST 10.9.0.1, DST 10.9.0.2, \
     DST 10.9.0.3, LB_MODE hash_agg, CAPACITY 2) -> s :: FlowCounter -> SINK(0)",
    "MarkIPHeader(14) -> s :: FlowCounter \
     -> l :: FlowL2LoadBalancer(DST 2:0:0:0:9:1, DST 2:0:0:0:9:2, LB_MODE least, LST_MODE bytes, CAPACITY 3) \
     -> s2 :: FlowCounter -> SINK(0)",
    "CheckIPHeader(14) -> l :: FlowSwitch(LB_MODE awrr, LST_MODE packets, CAPACITY 4) -> s :: FlowCounter -> SINK(0); \
     l[1] -> s2 :: FlowCounter -> SINK(1); l[2] -> SINK(2)",
    "MarkIPHeader(14) -> AggregateIP(ip dst) -> g :: AggregateCounter(BYTES true, CAPACITY 2) \
     -> b :: BandwidthMeter(100) -> SINK(0); b[1] -> SINK(1); DriverManager(pause, write g.write_text_file -)",
];

const HANDLERS: [&str; 14] = [
    "f.rule_counts",
    "f2.rule_counts",
    "s.csv",
    "s2.csv",
    "s.overflows",
    "n.table_size",
    "n.mapping_failures",
    "n2.table_size",
    "l.servers",
    "l.connections",
    "l.overflows",
    "g.count",
    "g.nagg",
    "g.overflows",
];

/// The fields in which a packet of a run can differ from the other packets of the same flow.
#[derive(Clone, Debug)]
struct Variation {
    ttl: u8,
    tos: u8,
    flags: u8,
    payload: usize,
    fragment: u16,
    options: bool,
    /// The offset of a damaged byte of the frame, and the bits of this byte that are inverted.
    damage: Option<(usize, u8)>,
}

fn variation() -> impl Strategy<Value = Variation> {
    let flags = prop_oneof![6 => Just(0x10u8), 1 => Just(0x02), 1 => Just(0x11), 1 => Just(0x04)];
    let fragment = prop_oneof![12 => Just(0u16), 2 => Just(0x4000), 1 => Just(0x2000), 1 => Just(3)];
    let damage = prop_oneof![8 => Just(None), 1 => (12usize..60, any::<u8>()).prop_map(Some)];
    (2u8..4, 3u8..5, flags, 0usize..9, fragment, prop::bool::weighted(0.05), damage).prop_map(
        |(ttl, tos, flags, payload, fragment, options, damage)| Variation {
            ttl,
            tos,
            flags,
            payload,
            fragment,
            options,
            damage,
        },
    )
}

/// The packets of one flow in a row.
#[derive(Clone, Debug)]
struct Draft {
    flow: u8,
    is_tcp: bool,
    is_ip6: bool,
    vlan: u16,
    packets: Vec<Variation>,
}

fn draft() -> impl Strategy<Value = Draft> {
    let is_ip6 = prop::bool::weighted(0.2);
    let vlan = prop_oneof![8 => Just(0u16), 1 => 1u16..3];
    (0u8..6, any::<bool>(), is_ip6, vlan, vec(variation(), 1..7))
        .prop_map(|(flow, is_tcp, is_ip6, vlan, packets)| Draft { flow, is_tcp, is_ip6, vlan, packets })
}

impl Draft {
    fn frames(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let (address, port) = (1 + self.flow / 2, 1 + u16::from(self.flow % 2));
        let end = move |net: u8| -> SocketAddr {
            match self.is_ip6 {
                false => (std::net::Ipv4Addr::new(10, 0, net, address), port).into(),
                true => ([0x2001, 0xdb8, net.into(), 0, 0, 0, 0, address.into()], port).into(),
            }
        };
        self.packets.iter().map(move |packet| {
            let builder = match self.is_tcp {
                true => Builder::tcp(end(0), end(1), packet.flags),
                false => Builder::udp(end(0), end(1)),
            };
            let mut builder =
                builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).ttl(packet.ttl).tos(packet.tos);
            if self.vlan > 0 {
                builder = builder.vlan(self.vlan);
            }
            if !self.is_ip6 {
                builder = builder.fragment(packet.fragment);
                if packet.options {
                    builder = builder.options(&[1, 1, 1, 0]);
                }
            }
            let mut frame = builder.build(&vec![7; packet.payload]).unwrap_or_default();
            if let Some((place, change)) = packet.damage
                && let Some(byte) = frame.get_mut(place)
            {
                *byte ^= change;
            }
            frame
        })
    }
}

/// The results of a run: the packets at each sink, the values of handlers, the drops of each element, and the
/// text that elements wrote.
type Results = (Vec<Vec<Seen>>, Vec<Option<String>>, Vec<String>, String);

/// Returns packets with these bytes and the link header annotation `link`, each with its own time stamp.
fn packets(frames: &[Vec<u8>], link: Option<isize>) -> Vec<TestPacket> {
    let packet = |(number, bytes): (i64, Vec<u8>)| TestPacket {
        bytes,
        time: Timestamp::from_secs(1_000_000_000 + number),
        annotations: [0; 48],
        headers: [link, None, None],
    };
    (0..).zip(frames.iter().cloned()).map(packet).collect()
}

fn run(chain: &str, rules: &str, frames: &[Vec<u8>], burst: usize) -> Results {
    let how = TestRun { burst: Some(burst), ..TestRun::default() };
    run_packets(chain, rules, packets(frames, Some(0)), how)
}

fn run_packets(chain: &str, rules: &str, packets: Vec<TestPacket>, how: TestRun) -> Results {
    let number = offer(vec![packets]);
    let chain = chain.replace("RULES", rules).replace("SINK(", &format!("TestSink({number}, "));
    let text = format!("TestSource({number}, 0) -> {chain}");
    let outcome = how.text(&text, &HANDLERS);
    let seen = collect(number);
    let outcome = outcome.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(outcome.report.balances());
    assert!(
        !text.contains("write_text_file") || outcome.output.contains("!num_nonzero"),
        "{}",
        outcome.output
    );
    // Packets of a batch that take different paths arrive at a sink path by path. So the packets of each sink
    // are sorted by time stamp before they are compared.
    let at = |sink| {
        // The test source puts the number of a packet (`id`) into its flow mark, which translators replace.
        // So the number is not compared, and the time stamp tells packets apart.
        let of_sink = seen.iter().filter(|packet| packet.sink == sink);
        let mut packets: Vec<_> = of_sink.map(|packet| Seen { id: 0, ..packet.clone() }).collect();
        packets.sort_by_key(|packet| packet.time);
        packets
    };
    let sorted = |value: String| {
        let mut lines: Vec<_> = value.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let drops = outcome.report.elements.iter().map(|element| format!("{} {:?}", element.name, element.drops));
    let value = |(handler, value): (&&str, Result<String, String>)| {
        let is_there = handler.split('.').next().is_some_and(|name| text.contains(&format!("{name} :: ")));
        assert!(!is_there || value.is_ok(), "{handler}: {value:?}");
        value.ok().map(sorted)
    };
    let values = HANDLERS.iter().zip(outcome.values).map(value).collect();
    ((0..3).map(at).collect(), values, drops.collect(), outcome.output)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn batches_give_what_single_packets_give(
        chain in prop::sample::select(&CHAINS[..]),
        rules in prop::sample::select(&RULES[..]),
        drafts in vec(draft(), 1..40),
        burst in prop_oneof![Just(256usize), 2usize..40],
    ) {
        let frames: Vec<_> = drafts.iter().flat_map(Draft::frames).collect();
        let (single, batches) = (run(chain, rules, &frames, 1), run(chain, rules, &frames, burst));
        prop_assert_eq!(&single.1, &batches.1);
        prop_assert_eq!(&single.2, &batches.2);
        prop_assert_eq!(&single.3, &batches.3);
        prop_assert_eq!(single.0, batches.0);
    }
}

/// A translator with independent filtering translates packets that only answer another host, without making a
/// mapping. The mapper gives each of these packets another destination in turn. So they arrive as one run,
/// but belong to different flows downstream, and must not be counted as one run.
#[test]
fn answers_without_a_mapping_are_no_run() {
    let chain = "MarkIPHeader(14) -> n :: IPRewriter(m, drop, INDEPENDENT_MAPPING true, INDEPENDENT_FILTERING true) \
                 -> s :: FlowCounter -> SINK(0); n[1] -> SINK(1); Idle -> [1] n; \
                 m :: RoundRobinIPMapper(192.0.2.1 1000-2000 10.1.0.1 80 0 1, 192.0.2.1 1000-2000 10.1.0.2 80 0 1)";
    let tcp = |to: &str, flags| {
        let builder = Builder::tcp("10.0.0.1:7".parse().unwrap(), to.parse().unwrap(), flags);
        builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&[]).unwrap()
    };
    let (first, answer) = (tcp("10.5.0.1:80", 2), tcp("10.6.0.1:80", 4));
    let frames = [first, answer.clone(), answer.clone(), answer];
    let (single, batches) = (run(chain, "", &frames, 1), run(chain, "", &frames, 4));
    assert_eq!(batches, single);
    let flows = single.1[2].clone().unwrap_or_default();
    assert!(["10.1.0.1", "10.1.0.2"].iter().all(|to| flows.contains(to)), "{single:?}");
}

/// A packet without a link header, to which FlowL2LoadBalancer writes nevertheless, gets the address into its
/// IP header. With this address, the header looks like one of IPv6 in which the time to live is a part of an
/// address. So packets of one flow belong to different flows downstream.
#[test]
fn addresses_in_network_headers_end_runs() {
    let chain = "MarkIPHeader -> l :: FlowL2LoadBalancer(DST 60:0:0:0:0:1) -> s :: FlowCounter -> SINK(0)";
    let packet = |ttl| {
        let builder = Builder::udp("10.0.0.1:7".parse().unwrap(), "10.0.0.2:7".parse().unwrap());
        builder.ttl(ttl).fragment(0x4000).build(&[0; 40]).unwrap()
    };
    let frames = [packet(3), packet(3), packet(4)];
    for link in [None, Some(0)] {
        let results = [1, 3].map(|burst| {
            let how = TestRun { burst: Some(burst), ..TestRun::default() };
            run_packets(chain, "", packets(&frames, link), how)
        });
        assert_eq!(results[0], results[1]);
        let flows = results[1].1[2].clone().unwrap_or_default();
        assert_eq!(flows.lines().filter(|line| line.contains("::")).count(), 2, "{flows}");
    }
}

/// Packets of one flow arrive at two workers in turn. The worker that does not own the flow sends them to the
/// server that the owner has chosen, or sends them to the owner.
#[test]
fn batches_at_two_workers_give_what_single_packets_at_one_give() {
    let chain = "MarkIPHeader(14) -> l :: FlowIPLoadBalancer(VIP 10.0.1.1, DST 10.9.0.1, DST 10.9.0.2, \
                 DST 10.9.0.3, LB_MODE hash) -> s :: FlowCounter -> SINK(0)";
    let draft = |number: u8| {
        let packet =
            Variation { ttl: 3, tos: 3, flags: 0x10, payload: 8, fragment: 0, options: false, damage: None };
        let packets = vec![packet; 1 + usize::from(number % 9)];
        Draft { flow: number % 6, is_tcp: true, is_ip6: false, vlan: 0, packets }
    };
    let frames: Vec<_> = (0..200).flat_map(|number| draft(number).frames().collect::<Vec<_>>()).collect();
    let of = |burst, how: TestRun| {
        let how = TestRun { burst: Some(burst), ..how };
        let (packets, values, drops, _) = run_packets(chain, "", packets(&frames, Some(0)), how);
        (packets, values[8].clone(), drops)
    };
    let two = TestRun::trace().on(2).spread(|| Arc::new(testkit::generic::InTurn));
    assert_eq!(of(256, two), of(1, TestRun::trace()));
}
