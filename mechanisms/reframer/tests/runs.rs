//! Tests of the runs that packets have when they leave a Reframer.

use std::net::SocketAddr;

use element::runs::same_flow;
use element::{Batch, Class, Cx, Effects, Element, Handler, Packet};
use proptest::prelude::*;
use testkit::TestRun;
use testkit::elements::{TestPacket, collect, offer};
use testkit::timed::frame;
use wire::build::Builder;
use wire::tcp::flags::ACK;

/// A class that counts runs, and panics if neighbouring packets of different flows have the same run.
static RUN_COUNT: Class = Class {
    name: "RunCount",
    table: &HANDLERS,
    build: |_| Ok(Box::new(RunCount::default())),
    ..Class::DEFAULT
};

static CLASSES: [&Class; 1] = [&RUN_COUNT];

const HANDLERS: &[Handler<RunCount>] =
    &[Handler::count("runs", |e| e.runs), Handler::count("unknown", |e| e.unknown)];

#[derive(Default)]
struct RunCount {
    /// The number of runs among the packets that have come, and the number of packets without a run.
    runs: u64,
    unknown: u64,
}

impl Element for RunCount {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let packets: &[Packet] = batch;
        for (place, packet) in packets.iter().enumerate() {
            let before = place.checked_sub(1).map(|place| &packets[place]);
            let goes_on = before.is_some_and(|before| before.run() == packet.run());
            self.unknown += u64::from(packet.run() == 0);
            self.runs += u64::from(packet.run() != 0 && !goes_on);
            assert!(!goes_on || packet.run() == 0 || before.is_some_and(|before| same_flow(before, packet)));
        }
    }
}

/// A kind of packet; `flow` is its source port.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Tcp,
    Udp,
    Ip6,
    Vlan,
    Options,
    Fragment,
    Ping,
    /// VXLAN with one inner flow, whose outer source ports differ.
    Tunnel,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Tcp,
        Kind::Udp,
        Kind::Ip6,
        Kind::Vlan,
        Kind::Options,
        Kind::Fragment,
        Kind::Ping,
        Kind::Tunnel,
    ];

    /// Makes a packet of this kind. Of its link, network and transport header, those with index `marked` or
    /// above are marked; 3 marks none.
    fn packet(self, flow: u16, ttl: u8, marked: usize) -> TestPacket {
        let [a, b] = [flow, 80].map(|port| (std::net::Ipv4Addr::new(10, 0, 0, 1), port).into());
        let udp = Builder::udp(a, b).ttl(ttl);
        let (builder, network, header) = match self {
            Kind::Tcp => (Builder::tcp(a, b, ACK).ttl(ttl), 14, 20),
            Kind::Udp => (udp, 14, 20),
            Kind::Ip6 => {
                let end = |port| (std::net::Ipv6Addr::LOCALHOST, port).into();
                (Builder::udp(end(flow), end(80)).ttl(ttl), 14, 40)
            }
            Kind::Vlan => (udp.vlan(7), 18, 20),
            Kind::Options => (udp, 14, 24),
            Kind::Fragment => (udp.id(flow).fragment(0x2000), 14, 20),
            Kind::Ping => (Builder::icmp(a.ip(), b.ip(), 8, 0, [flow, 1]).ttl(ttl), 14, 20),
            Kind::Tunnel => (udp, 14, 20),
        };
        let mut headers = [Some(0), Some(network), Some(network + header)];
        headers[..marked].fill(None);
        let mut bytes = match self {
            Kind::Tunnel => {
                let vxlan = [8, 0, 0, 0, 0, 0, 7, 0];
                let inner = frame(Builder::udp(SocketAddr::new(a.ip(), 5), b), &[1; 9]);
                let outer = Builder::udp(SocketAddr::new(a.ip(), flow), SocketAddr::new(b.ip(), 4789));
                frame(outer.ttl(ttl), &[&vxlan[..], &inner].concat())
            }
            _ => frame(builder, &[1; 9]),
        };
        if matches!(self, Kind::Options) {
            bytes.splice(34..34, [1; 4]);
            (bytes[14], bytes[17]) = (0x46, bytes[17] + 4);
        }
        TestPacket { bytes, time: element::Timestamp(1), annotations: [0; 48], headers }
    }
}

/// Sends packets through a Reframer, and returns the numbers of bursts, of runs and of packets whose run is
/// not known.
fn through(arguments: &str, packets: Vec<TestPacket>) -> [u64; 3] {
    through_on(TestRun::default(), arguments, packets)
}

/// Like [`through`], in a run with other settings.
fn through_on(run: TestRun, arguments: &str, packets: Vec<TestPacket>) -> [u64; 3] {
    let number = offer(vec![packets]);
    let text = format!(
        "TestSource({number}, 0) -> e :: Reframer({arguments}) -> runs :: RunCount -> TestSink({number}, 0)"
    );
    let outcome = run.with(&CLASSES).text(&text, &["e.releases", "runs.runs", "runs.unknown"]).unwrap();
    assert!(outcome.report.balances());
    collect(number);
    let values: Vec<_> = outcome.values.into_iter().map(Result::unwrap).collect();
    let numbers = |text: &str| text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum();
    [numbers(&values[0]), numbers(&values[1]), numbers(&values[2])]
}

#[test]
fn a_burst_is_one_run() {
    for kind in [Kind::Tcp, Kind::Udp, Kind::Ip6, Kind::Vlan] {
        for arguments in ["1s, BYPASS none", "1s, BYPASS none, REORDER true, MAX_BURST 5, MAX_TX_BURST 64"] {
            // Nine packets of each of four flows, interleaved.
            let packets = (0..36).map(|n| kind.packet(n % 4, 50 + n as u8, 0)).collect();
            let [bursts, runs, unknown] = through(arguments, packets);
            // A burst that is distributed over two batches is two runs.
            assert!(
                runs >= bursts && runs <= bursts + 1 && unknown == 0,
                "{kind:?}: {bursts} {runs} {unknown}"
            );
        }
    }
    // Packets of one flow with different header offsets are not in one run, and packets whose headers are not
    // marked are in no run.
    let packets = (0..8).map(|n| Kind::Udp.packet(1, 64, usize::from(n >= 4))).collect();
    assert_eq!(through("1s, BYPASS none", packets), [1, 2, 0]);
    let packets = (0..8).map(|_| Kind::Udp.packet(1, 64, 3)).collect();
    assert_eq!(through("1s, BYPASS none", packets), [1, 0, 8]);
    // A flow in a tunnel may have packets of several outer flows.
    let packets = (0..8).map(|n| Kind::Tunnel.packet(n / 4, 64, 0)).collect();
    assert_eq!(through("1s, BYPASS none, TUNNELS true", packets), [1, 2, 0]);
}

proptest! {
    #[test]
    fn packets_of_different_flows_are_no_run(
        draws in proptest::collection::vec((0usize..8, 0u16..3, 0u8..4, 0usize..4, 1usize..4), 1..80),
        which in 0usize..5,
    ) {
        let packets: Vec<_> = draws
            .into_iter()
            .flat_map(|(kind, flow, ttl, marked, count)| {
                std::iter::repeat_n(Kind::ALL[kind].packet(flow, 60 + ttl, marked), count)
            })
            .collect();
        let arguments = [
            "1s, BYPASS none",
            "0",
            "1s, MAX_BURST 3, MAX_HELD 5",
            "1s, REORDER true, COMPRESS true",
            "1s, TUNNELS true",
        ];
        // The class RunCount and the sink panic if a run is wrong.
        through(arguments[which], packets);
    }
}

#[test]
fn runs_go_with_the_packets_to_another_worker() {
    let run = TestRun::trace().on(2).offload(&["Reframer"]);
    for kind in [Kind::Tcp, Kind::Ip6] {
        // Nine packets of each of four flows, interleaved. The other worker takes 32 packets at a time.
        let packets = (0..36).map(|n| kind.packet(n % 4, 50, 0)).collect();
        let [bursts, runs, unknown] = through_on(run, "1s, BYPASS none", packets);
        assert!(
            bursts == 4 && (4..=5).contains(&runs) && unknown == 0,
            "{kind:?}: {bursts} {runs} {unknown}"
        );
    }
}
