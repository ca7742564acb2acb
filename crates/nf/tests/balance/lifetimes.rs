//! Tests of the lifetimes of connections at load balancers: connections that are idle, that are closed by
//! the client, the server or both, and that find the table full.

use super::*;

#[test]
fn closed_connections_make_room_for_new_ones() {
    for end in [FIN | ACK, RST] {
        let bare = Builder::tcp(client(1), server(), ACK).build(b"").unwrap();
        let groups = [vec![tcp(1, SYN), tcp(1, ACK), tcp(1, end), bare, tcp(1, SYN), tcp(1, ACK)]];
        let mut trial = Trial::new(&balancer("", 3), 1, &groups, false);
        trial.next();
        assert_eq!((trial.read("connections"), trial.read("load_conn")), ("1".into(), "0 1 0".into()));
        let last: Vec<u8> = destinations(&trial.finish()).iter().map(|address| address[3]).collect();
        assert_eq!(last, [1, 1, 1, 1, 2, 2]);
    }
}

/// The client has closed its half of the connection, or reset the connection. As long as the client sends
/// more packets, they must go to the same server.
#[test]
fn connections_that_are_over_keep_their_server_while_packets_come() {
    let bare = |flags| Builder::tcp(client(1), server(), flags).build(b"").unwrap();
    for (end, later) in [(FIN | ACK, bare(ACK)), (RST, bare(ACK)), (RST, tcp(1, ACK))] {
        let mut packets = vec![(0.0, bare(SYN)), (0.1, tcp(1, ACK)), (1.0, bare(end))];
        packets.extend((2..40).map(|second| (f64::from(second), later.clone())));
        assert_eq!(servers(&balancer("", 3), &packets), [1; 41]);
    }
}

/// The client has sent FIN, and still acknowledges the server's data, at long intervals. The connection
/// keeps its server for 120 seconds without a packet, or for FIN_TIMEOUT.
#[test]
fn a_half_closed_connection_keeps_its_server() {
    let bare = |flags| Builder::tcp(client(1), server(), flags).build(b"").unwrap();
    let outputs = |more: &str| {
        let ways = (0..3).map(|n| format!("lb[{n}] -> StoreIPAddress(10.9.0.{}, dst) -> out", n + 1));
        format!("FlowSwitch(TIMEOUT 300{more}); out :: Null; {}; out", ways.collect::<Vec<_>>().join("; "))
    };
    for (more, late, keeps) in [("", 119.9, true), ("", 120.0, false), (", FIN_TIMEOUT 20", 20.0, false)] {
        let packets = [
            (0.0, bare(SYN)),
            (0.1, bare(ACK)),
            (1.0, bare(FIN | ACK)),
            // A second client opens a connection, and gets server 2. So if the first client is given a new
            // server, it is server 3, and not by chance its old server 1.
            (2.0, tcp(2, SYN)),
            (12.5, bare(ACK)),
            (12.5 + late, bare(ACK)),
        ];
        for element in [balancer(more, 3), outputs(more)] {
            let last = if keeps { 1 } else { 3 };
            assert_eq!(servers(&element, &packets), [1, 1, 1, 2, 1, last], "{element}");
        }
    }
}

/// A half-closed connection counts towards its server's load as long as the balancer's table has it: until
/// 120 seconds after FIN, or 10 seconds after RST.
#[test]
fn a_half_closed_connection_is_load() {
    let bare = |flags| Builder::tcp(client(1), server(), flags).build(b"").unwrap();
    let load = |end: u8, at: f64| {
        let packets = [(0.0, bare(SYN)), (1.0, bare(end)), (at, tcp(2, SYN))];
        timed(&balancer(", LB_MODE least", 2), &packets, "lb.load_conn").1
    };
    assert_eq!([load(FIN | ACK, 100.0), load(FIN | ACK, 121.5)], ["1 1", "0 1"]);
    assert_eq!([load(RST, 10.5), load(RST, 11.5)], ["1 1", "0 1"]);
}

/// Sends packets of clients through a balancer and packets of servers through its reverse element, at these
/// times in seconds. Returns the balancer's numbers of connections, in total and per server.
fn with_answers(more: &str, packets: &[(f64, Vec<u8>)], how: TestRun) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write_timed(&path, packets.iter().map(|(at, packet)| (1000.0 + at, packet)), false);
    let text = format!(
        "FromDump({}) -> MarkIPHeader -> side :: IPClassifier(dst host {VIP}, -);
        side[0] -> lb :: {} -> Discard; side[1] -> FlowIPLoadBalancerReverse(lb) -> Discard",
        path.display(),
        balancer(more, 2)
    );
    let outcome = how.text(&text, &["lb.connections", "lb.load_conn"]);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let [connections, load] = &outcome.values[..] else { panic!() };
    [connections, load].map(|value| value.clone().unwrap())
}

/// Sends packets of clients through a balancer and packets of servers through its reverse element, at the
/// given times in seconds. Returns the clients' packets as they leave the balancer.
fn answered(more: &str, packets: &[(f64, Vec<u8>)]) -> Vec<Seen> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write_timed(&path, packets.iter().map(|(at, packet)| (1000.0 + at, packet)), false);
    let exchange = offer(Vec::new());
    let text = format!(
        "FromDump({}) -> MarkIPHeader -> side :: IPClassifier(dst host {VIP}, -);
        side[0] -> lb :: {} -> TestSink({exchange}, 0); side[1] -> FlowIPLoadBalancerReverse(lb) -> Discard",
        path.display(),
        balancer(more, 3)
    );
    TestRun::trace().text(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    collect(exchange)
}

/// Makes a segment without data of the connection `n`: from the client (`None`), or from the server with
/// this last byte of its address.
fn bare(n: u16, from: Option<u8>, flags: u8) -> Vec<u8> {
    let builder = match from {
        None => Builder::tcp(client(n), server(), flags),
        Some(last) => Builder::tcp(SocketAddr::from(([10, 221, 0, last], 80)), client(n), flags),
    };
    builder.build(b"").unwrap()
}

#[test]
fn connections_that_both_sides_have_closed_are_over_soon() {
    const ENDS: u8 = FIN | ACK;
    let (client, server) = (None, Some(1));
    let at_the_end = |closing: &[(f64, Option<u8>, u8)], last: f64| {
        let mut packets =
            vec![(0.0, bare(1, None, SYN)), (0.1, bare(1, server, SYN | ACK)), (0.2, tcp(1, ACK))];
        packets.extend(closing.iter().map(|&(at, from, flags)| (at, bare(1, from, flags))));
        packets.push((last, tcp(2, SYN)));
        let [_, load] = with_answers("", &packets, TestRun::trace());
        load
    };
    let both: &[&[_]] = &[
        &[(1.0, client, ENDS), (1.5, server, ENDS), (2.0, client, ACK)],
        &[(1.0, server, ENDS), (2.0, client, ENDS), (2.0, server, ACK)],
        // Client and server close at the same time, and both send FIN a second time.
        &[(1.0, client, ENDS), (1.0, server, ENDS), (1.5, client, ENDS), (2.0, server, ENDS)],
        &[(1.0, client, ENDS), (1.5, client, ENDS), (2.0, server, ENDS)],
        &[(2.0, server, RST)],
        &[(1.0, client, ENDS), (2.0, server, RST | ACK)],
    ];
    for closing in both {
        assert_eq!([11.9, 12.1].map(|last| at_the_end(closing, last)), ["1 1", "0 1"], "{closing:?}");
    }
    let one: &[&[_]] = &[
        &[(2.0, client, ENDS)],
        &[(2.0, server, ENDS)],
        // FIN and RST come from server 2, but the connection is with server 1, so they must not count as
        // closing by the server.
        &[(1.5, Some(2), ENDS), (1.9, Some(2), RST), (2.0, client, ENDS)],
        &[(1.0, server, ENDS), (1.5, client, ACK), (2.0, server, ENDS)],
        // The client opens the connection again after the server's RST and FIN, so these belong to the
        // previous connection.
        &[(1.0, server, RST), (1.5, server, ENDS), (1.9, client, SYN), (2.0, client, ENDS)],
    ];
    for closing in one {
        let counted = |load: String| load.split(' ').map(|n| n.parse::<u32>().unwrap()).sum::<u32>();
        assert_eq!([121.9, 122.1].map(|last| counted(at_the_end(closing, last))), [2, 1], "{closing:?}");
    }
}

/// A simple model of a balancer, for comparison. New connections get three servers in turn. The time-outs are
/// 60 seconds for open connections, 20 for half-closed connections, and 5 for connections closed by both
/// sides.
#[derive(Default)]
struct Model {
    /// By client: the server of its connection, the sides that have closed it (client, server), and the
    /// time of the last packet in seconds.
    connections: BTreeMap<u16, (u8, [bool; 2], f64)>,
    opened: u8,
}

impl Model {
    fn current(&self, n: u16, at: f64) -> Option<(u8, [bool; 2], f64)> {
        let &(server, closed, last) = self.connections.get(&n)?;
        let limit = [60.0, 20.0, 5.0][closed.iter().filter(|&&closed| closed).count()];
        (at - last < limit - 1e-6).then_some((server, closed, last))
    }

    /// Processes a packet of client `n` at the time `at` (seconds). Returns the server to which the packet is
    /// sent, as the last byte of its address.
    fn request(&mut self, at: f64, n: u16, flags: u8, has_payload: bool) -> u8 {
        let current = self.current(n, at);
        let current = current.filter(|(_, closed, _)| flags & SYN == 0 || *closed == [false; 2]);
        let (server, mut closed, _) = current.unwrap_or_else(|| {
            self.opened = self.opened % 3 + 1;
            (self.opened, [false; 2], at)
        });
        if flags & RST != 0 {
            closed = [true; 2];
        } else if flags & FIN != 0 {
            closed[0] = true;
        } else if closed[0] && has_payload {
            closed = [false; 2];
        }
        self.connections.insert(n, (server, closed, at));
        server
    }

    fn answer(&mut self, at: f64, n: u16, from: u8, flags: u8) {
        if let Some((server, mut closed, _)) = self.current(n, at)
            && server == from
            && flags & (FIN | RST) != 0
        {
            closed = if flags & RST != 0 { [true; 2] } else { [closed[0], true] };
            self.connections.insert(n, (server, closed, at));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn it_does_what_a_straightforward_balancer_does(
        events in proptest::collection::vec(
            (
                prop_oneof![1..3000u32, 4000..6000u32, 19_000..21_000u32, 59_000..61_000u32],
                0..4u16,
                0..4u8,
                prop_oneof![Just(ACK), Just(ACK), Just(SYN), Just(FIN | ACK), Just(RST)],
                any::<bool>(),
            ),
            1..60,
        ),
        capacity in prop_oneof![Just(4), Just(64)],
    ) {
        let (mut model, mut at, mut packets, mut expected) = (Model::default(), 0, Vec::new(), Vec::new());
        for (pause, n, from, flags, has_payload) in events {
            at += pause;
            let seconds = f64::from(at) / 1000.0;
            if from > 0 {
                model.answer(seconds, n, from, flags);
                packets.push((seconds, bare(n, Some(from), flags)));
            } else {
                expected.push(model.request(seconds, n, flags, has_payload));
                packets.push((seconds, if has_payload { tcp(n, flags) } else { bare(n, None, flags) }));
            }
        }
        let more = format!(", TIMEOUT 60, FIN_TIMEOUT 20, DONE_TIMEOUT 5, CAPACITY {capacity}");
        let seen = answered(&more, &packets);
        prop_assert_eq!(destinations(&seen).iter().map(|address| address[3]).collect::<Vec<_>>(), expected);
    }
}

/// With several workers, packets of servers may arrive at other workers than packets of clients, so workers
/// have to notify each other of closed connections. All connections but the last are closed by both sides,
/// and must be removed from the table.
#[test]
fn workers_hear_of_what_servers_close() {
    let mut packets: Vec<(f64, Vec<u8>)> = Vec::new();
    for n in 0..200 {
        packets.push((0.0, bare(n, None, SYN)));
    }
    for n in 0..200 {
        // Which of the two servers has the connection depends on the worker. So both servers send a FIN, and
        // the FIN of the wrong server is ignored.
        packets.extend([1, 2].map(|last| (1.0, bare(n, Some(last), FIN | ACK))));
    }
    packets.extend((0..199).map(|n| (2.0, bare(n, None, FIN | ACK))));
    packets.push((13.0, bare(199, None, ACK)));
    for workers in [1, 2, 4] {
        let [connections, _] = with_answers("", &packets, TestRun::trace().on(workers));
        assert_eq!(connections, "1", "{workers} workers");
    }
}

/// The reverse element reads the balancer's common address (VIP) only at the start. So arguments that are
/// written to the balancer's handler `config` cannot change this address.
#[test]
fn the_common_address_stays() {
    let text = format!("{}; Idle -> lb; Idle -> FlowIPLoadBalancerReverse(lb) -> Discard", balancer("", 3));
    let mut trial = Trial::new(&text, 1, &[], false);
    let config = "VIP 10.9.9.9, DST 10.221.0.1";
    let error = trial.write("lb.config", config).unwrap_err();
    assert!(error.contains("VIP: cannot change while it runs"), "{error}");
    trial.write("lb.config", &config.replace("10.9.9.9", VIP)).unwrap();
}

#[test]
fn idle_connections_are_forgotten_and_data_behind_a_reset_shows_that_it_was_none() {
    let bare = |flags| Builder::tcp(client(1), server(), flags).build(b"").unwrap();
    let at = |packets: &[(f64, &Vec<u8>)]| -> Vec<u8> {
        let packets: Vec<_> = packets.iter().map(|(at, packet)| (*at, Vec::clone(packet))).collect();
        servers(&balancer(", TIMEOUT 60", 3), &packets)
    };
    let (syn, ack, rst, fin, data) = (bare(SYN), bare(ACK), bare(RST), bare(FIN | ACK), tcp(1, ACK));
    assert_eq!(at(&[(0.0, &syn), (59.9, &ack), (119.8, &ack), (179.8, &ack)]), [1, 1, 1, 2]);
    assert_eq!(at(&[(0.0, &syn), (1.0, &rst), (10.9, &ack), (20.8, &ack), (30.8, &ack)]), [1, 1, 1, 1, 2]);
    // In this balancer, TIMEOUT is shorter than FIN_TIMEOUT, and so it also limits half-closed connections.
    assert_eq!(at(&[(0.0, &syn), (1.0, &fin), (60.9, &ack), (120.8, &ack), (180.8, &ack)]), [1, 1, 1, 1, 2]);
    for end in [&rst, &fin] {
        assert_eq!(
            at(&[(0.0, &syn), (1.0, end), (2.0, &data), (61.9, &ack), (122.0, &ack)]),
            [1, 1, 1, 1, 2]
        );
    }
    // Link padding after a short packet is not data. So it must not count as data after the RST, which would
    // show that the connection goes on.
    let mut padded = ack.clone();
    padded.extend([0; 6]);
    assert_eq!(at(&[(0.0, &syn), (1.0, &rst), (2.0, &padded), (12.0, &ack)]), [1, 1, 1, 2]);
}

#[test]
fn idle_connections_make_room_before_new_ones_are_refused() {
    for capacity in [4, 64] {
        let mut packets: Vec<_> = (0..capacity).map(|n| (0.0, tcp(n, SYN))).collect();
        for n in 100..100 + capacity {
            let start = 1000.0 + f64::from(n);
            packets.extend([SYN, ACK, ACK].map(|flags| (start, tcp(n, flags))));
        }
        let text = balancer(&format!(", CAPACITY {capacity}"), 3);
        let (seen, overflows) = timed(&text, &packets, "lb.overflows");
        assert_eq!(overflows, "0");
        let used = destinations(&seen[usize::from(capacity)..]);
        assert!(used.chunks(3).all(|flow| flow[0] == flow[1] && flow[1] == flow[2]), "{used:?}");
    }
}

/// Closed connections make room for new connections when their own short time-out is over. The search for
/// expired connections does not wait for TIMEOUT.
#[test]
fn closed_connections_make_room_before_new_ones_are_refused() {
    for capacity in [1, 2, 64] {
        let mut packets = Vec::new();
        for round in 0..20 {
            let start = f64::from(round) * 11.5;
            for n in 0..capacity {
                let n = n + round * capacity;
                packets.extend([(start, bare(n, None, SYN)), (start, bare(n, None, RST))]);
            }
        }
        assert_eq!(timed(&balancer("", 3), &packets, "lb.overflows").1, "0", "without a limit");
        let text = balancer(&format!(", CAPACITY {capacity}"), 3);
        assert_eq!(timed(&text, &packets, "lb.overflows").1, "0", "{capacity}");
    }
}

#[test]
fn connections_that_there_was_no_room_for_stay_where_they_are_when_there_is() {
    for mode in ["rr", "least", "hash", "maglev"] {
        for other in 10..40 {
            let mut packets: Vec<_> = (0..4).map(|n| (0.0, tcp(n, SYN))).collect();
            packets.push((1.0, tcp(other, SYN)));
            for second in 2..120 {
                let at = f64::from(second);
                packets.extend((0..3).map(|n| (at, tcp(n, ACK))));
                packets.extend((second == 2).then(|| (at, tcp(3, FIN | ACK))));
                packets.push((at, tcp(other, ACK)));
            }
            let (seen, connections) = timed(
                &balancer(&format!(", CAPACITY 4, TIMEOUT 60, LB_MODE {mode}"), 3),
                &packets,
                "lb.connections",
            );
            assert_eq!(connections, "4");
            let of_other: BTreeSet<_> = seen
                .iter()
                .filter(|packet| packet.bytes[20..22] == client(other).port().to_be_bytes())
                .map(|packet| packet.bytes[16..20].to_vec())
                .collect();
            assert_eq!(of_other.len(), 1, "{mode} {other}");
        }
    }
}
