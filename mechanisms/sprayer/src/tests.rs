use std::collections::HashSet;

use element::steering::{Dispatch, Rss};
use packet::Pool;
use wire::MacAddr;
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, PSH, RST, SYN};

use super::*;

const WORKERS: usize = 4;

fn ends(flow: u16) -> (std::net::SocketAddr, std::net::SocketAddr) {
    (([10, 0, (flow >> 8) as u8, flow as u8], 1024 + flow).into(), ([10, 9, 0, 1], 443).into())
}

fn tcp(flow: u16, flags: u8) -> Builder {
    let (from, to) = ends(flow);
    Builder::tcp(from, to, flags)
}

/// Returns the loads of workers that have not reported any work.
fn loads() -> Arc<[WorkerLoad]> {
    (0..WORKERS).map(|_| WorkerLoad::default()).collect()
}

/// Returns the worker that the policy selects for each packet; packets arrive `pause` nanoseconds apart.
fn workers(settings: SpreadSettings, pause: i64, packets: impl IntoIterator<Item = Vec<u8>>) -> Vec<usize> {
    let mut pool = Pool::new(64 << 20).unwrap();
    let mut spread = settings.spread(0, &loads());
    let owner = Rss::new(WORKERS);
    let worker = |(number, bytes): (usize, Vec<u8>)| {
        let packet = pool.packet(&bytes).unwrap();
        let worker = spread.worker_of(&packet, Timestamp(1 + pause * number as i64), &owner);
        if worker != owner.worker_of(&packet) {
            assert!(spread.may_stay(&packet), "what goes elsewhere may be there");
        }
        pool.free(packet);
        worker
    };
    packets.into_iter().enumerate().map(worker).collect()
}

fn built(builder: Builder) -> Vec<u8> {
    builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(b"payload").unwrap()
}

fn owner(bytes: &[u8]) -> usize {
    Rss::new(WORKERS).worker_of_frame(bytes, wire::LinkType::Ethernet)
}

/// True if each worker has `each` packets, give or take two.
fn are_even(workers: &[usize], each: usize) -> bool {
    shares(workers).iter().all(|share| share.abs_diff(each) <= 2)
}

fn shares(workers: &[usize]) -> Vec<usize> {
    (0..WORKERS).map(|worker| workers.iter().filter(|&&w| w == worker).count()).collect()
}

#[test]
fn one_connection_goes_to_all_workers_evenly() {
    // All packets are equal, and so are their checksums: the choice must not depend on checksums.
    let all = workers(SpreadSettings::default(), 100, (0..1000).map(|_| built(tcp(1, ACK | PSH))));
    assert!(are_even(&all, 250), "{:?}", shares(&all));
}

/// Packets of several flows that alternate, as data and acknowledgments do, must still go to all workers of
/// each flow.
#[test]
fn connections_that_take_turns_go_to_all_workers() {
    for (together, workers_per_flow) in [(2, 0), (3, 0), (4, 0), (2, 2), (2, 3)] {
        let settings = SpreadSettings { workers_per_flow, ..SpreadSettings::default() };
        let all = workers(settings, 100, (0..4000u16).map(|n| built(tcp(n % together, ACK))));
        for connection in 0..usize::from(together) {
            let own: Vec<_> = all.iter().copied().skip(connection).step_by(together.into()).collect();
            let each = own.len() / if workers_per_flow == 0 { WORKERS } else { workers_per_flow };
            let used: Vec<_> = shares(&own).into_iter().filter(|&share| share > 0).collect();
            let is_even = used.iter().all(|share| share.abs_diff(each) <= 1 + each / 50);
            assert!(used.len() == own.len() / each && is_even, "{together}, {workers_per_flow}: {used:?}");
        }
    }
}

#[test]
fn what_opens_and_closes_connections_goes_to_their_worker() {
    for policy in [Policy::Spray, Policy::Flowlets(Timestamp(10)), Policy::Auto] {
        let settings = || SpreadSettings { policy, ..SpreadSettings::default() };
        for flags in [SYN, SYN | ACK, FIN | ACK, RST, RST | ACK] {
            for flow in [1, 2, 77] {
                let packet = built(tcp(flow, flags));
                let home = owner(&packet);
                let all = workers(settings(), 100, (0..4000).map(|_| packet.clone()));
                assert_eq!(shares(&all)[home], 4000, "{flags:#x}");
            }
        }
    }
}

#[test]
fn datagrams_and_fragments_have_one_worker_unless_asked_for() {
    let (from, to) = ends(5);
    let datagram = built(Builder::udp(from, to));
    let mut fragment = built(tcp(5, ACK));
    // Sets the flag "more fragments".
    fragment[20] |= 0x20;
    for packet in [&datagram, &fragment] {
        let all = workers(SpreadSettings::default(), 100, (0..100).map(|_| packet.clone()));
        assert_eq!(shares(&all)[owner(packet)], 100);
    }
    let udp = || Classes { udp_ports: vec![443..=443], ..Classes::default() };
    let settings = || SpreadSettings { classes: udp(), ..SpreadSettings::default() };
    assert!(are_even(&workers(settings(), 100, (0..100).map(|_| datagram.clone())), 25));
    // QUIC packets with a long header count as packets that open connections; others are regular.
    let quic = |first: u8| {
        let builder = Builder::udp(from, to).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        builder.build(&[first; 20]).unwrap()
    };
    let settings = || SpreadSettings {
        classes: Classes { quic_ports: vec![440..=450], ..Classes::default() },
        ..SpreadSettings::default()
    };
    assert!(are_even(&workers(settings(), 100, (0..100).map(|_| quic(0x40))), 25));
    let long = quic(0xc0);
    assert_eq!(shares(&workers(settings(), 100, (0..100).map(|_| long.clone())))[owner(&long)], 100);
}

/// Packets of a protocol without ports go to the worker of their flow, although the first bytes after the IP
/// header, where ports would be, differ from packet to packet, and with them the flow number.
#[test]
fn packets_without_ports_go_to_the_worker_of_their_flow() {
    let (from, to) = ends(5);
    let echo = |number: u16| built(Builder::icmp(from.ip(), to.ip(), 8, 0, [7, number]));
    let esp = |number: u16| {
        let builder = Builder::ip(from.ip(), to.ip(), 50).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        builder.build(&[&[0, 0, 1, 1, 0, 0][..], &number.to_be_bytes(), &[9; 20]].concat()).unwrap()
    };
    for policy in [Policy::Spray, Policy::Flowlets(Timestamp(1)), Policy::Auto] {
        for packets in [(0..300).map(echo).collect::<Vec<_>>(), (0..300).map(esp).collect()] {
            let home = owner(&packets[0]);
            let settings = SpreadSettings { policy, ..SpreadSettings::default() };
            assert_eq!(shares(&workers(settings, 100, packets))[home], 300, "{policy:?}");
        }
    }
}

#[test]
fn a_flow_has_so_many_workers() {
    let mut firsts = HashSet::new();
    for flow in 0..40 {
        let settings = SpreadSettings { workers_per_flow: 2, ..SpreadSettings::default() };
        let all = workers(settings, 100, (0..100).map(|_| built(tcp(flow, ACK))));
        let used: HashSet<_> = all.iter().copied().collect();
        assert_eq!(used.len(), 2);
        assert!(shares(&all).into_iter().filter(|&n| n > 0).all(|n| n.abs_diff(50) <= 2));
        firsts.extend(used);
    }
    assert_eq!(firsts.len(), WORKERS, "different flows have different ones");
}

#[test]
fn a_burst_stays_together() {
    // Bursts of five packets 1 us apart, with longer pauses between them: each burst stays on one worker,
    // and the bursts go to all workers evenly.
    let mut pool = Pool::new(64 << 20).unwrap();
    let settings = SpreadSettings { policy: Policy::Flowlets(Timestamp(1000)), ..SpreadSettings::default() };
    let (mut spread, owner) = (settings.spread(0, &loads()), Rss::new(WORKERS));
    let mut seen = Vec::new();
    for burst in 0..40i64 {
        let packet = pool.packet(&built(tcp(3, ACK))).unwrap();
        let times = (0..5).map(|n| Timestamp(1 + burst * 5001 + n * 1000));
        let workers: Vec<_> = times.map(|now| spread.worker_of(&packet, now, &owner)).collect();
        assert!(workers.iter().all(|&worker| worker == workers[0]), "{workers:?}");
        seen.push(workers[0]);
        pool.free(packet);
    }
    assert!(are_even(&seen, 10), "{:?}", shares(&seen));
}
