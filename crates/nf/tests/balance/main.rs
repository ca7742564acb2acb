//! Tests of load balancers: each connection keeps its server, servers are added and removed, and the
//! packets that leave are valid.

mod lifetimes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use engine::Worker;
use proptest::prelude::*;
use testkit::checker::{self, ChecksumResult};
use testkit::elements::{Seen, collect, offer};
use testkit::{TestRun, worker};
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, RST, SYN};

const VIP: &str = "10.220.0.1";

fn client(n: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 1024 + n))
}

fn server() -> SocketAddr {
    format!("{VIP}:80").parse().unwrap()
}

fn tcp(n: u16, flags: u8) -> Vec<u8> {
    Builder::tcp(client(n), server(), flags).build(b"data").unwrap()
}

/// Writes a capture of packets that all have the same time stamp, for tests that decide by themselves when
/// packets are sent. `framed` is true for packets with Ethernet headers.
fn write(path: &Path, packets: &[Vec<u8>], framed: bool) {
    write_timed(path, packets.iter().map(|packet| (1.0, packet)), framed);
}

/// Writes a capture of packets, each with its time in seconds.
fn write_timed<'a>(path: &Path, packets: impl Iterator<Item = (f64, &'a Vec<u8>)>, framed: bool) {
    let link = if framed { wire::LinkType::Ethernet } else { wire::LinkType::RawIp };
    let options = capture::WriterOptions { link, ..Default::default() };
    let mut writer = capture::Writer::new(std::fs::File::create(path).unwrap(), options);
    for (seconds, packet) in packets {
        writer.write((seconds * 1e9) as i64, packet.len() as u32, [&packet[..]]).unwrap();
    }
    writer.flush().unwrap();
}

/// Sends packets through an element, which is named `lb`, at these times in seconds. Returns the packets
/// that leave, and the value of a handler at the end.
fn timed(element: &str, packets: &[(f64, Vec<u8>)], handler: &str) -> (Vec<Seen>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write_timed(&path, packets.iter().map(|(at, packet)| (1000.0 + at, packet)), false);
    let exchange = offer(Vec::new());
    let text =
        format!("FromDump({}) -> MarkIPHeader -> lb :: {element} -> TestSink({exchange}, 0)", path.display());
    let outcome = TestRun::trace().text(&text, &[handler]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (collect(exchange), outcome.values[0].clone().unwrap())
}

/// Returns the last byte of the server's address for each packet that leaves the balancer.
fn servers(element: &str, packets: &[(f64, Vec<u8>)]) -> Vec<u8> {
    destinations(&timed(element, packets, "lb.servers").0).iter().map(|address| address[3]).collect()
}

/// A running balancer, and captures of groups of packets; a test sends one group after the other.
struct Trial {
    worker: Worker,
    exchange: u64,
    groups: usize,
    // The folder of the captures. It is deleted when this value is dropped.
    _folder: tempfile::TempDir,
}

impl Trial {
    fn new(element: &str, outputs: usize, groups: &[Vec<Vec<u8>>], framed: bool) -> Trial {
        let folder = tempfile::tempdir().unwrap();
        let exchange = offer(Vec::new());
        let mut text = format!("lb :: {element};\n");
        for (number, packets) in groups.iter().enumerate() {
            let path = folder.path().join(format!("{number}.pcap"));
            write(&path, packets, framed);
            let mark = if framed { "" } else { "-> MarkIPHeader " };
            text += &format!("g{number} :: FromDump({}, ACTIVE false) {mark}-> lb;\n", path.display());
        }
        for output in 0..outputs {
            text += &format!("lb [{output}] -> TestSink({exchange}, {output});\n");
        }
        let worker = worker(&text, TestRun::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Trial { worker, exchange, groups: 0, _folder: folder }
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let (element, handler) = handler.split_once('.').unwrap();
        let id = self.worker.plan().graph.find(element);
        self.worker.write(id, handler, value)
    }

    fn read(&mut self, handler: &str) -> String {
        let id = self.worker.plan().graph.find("lb");
        self.worker.read(id, handler, "").unwrap()
    }

    /// Sends the next group of packets, and waits until all have passed.
    fn next(&mut self) {
        self.write(&format!("g{}.active", self.groups), "true").unwrap();
        self.groups += 1;
        while self.worker.step(100) {}
    }

    fn finish(mut self) -> Vec<Seen> {
        let _ = self.worker.finish();
        assert!(self.worker.report().balances());
        collect(self.exchange)
    }
}

/// Returns the destination address of each packet.
fn destinations(seen: &[Seen]) -> Vec<[u8; 4]> {
    seen.iter().map(|packet| packet.bytes[16..20].try_into().unwrap()).collect()
}

fn balancer(arguments: &str, servers: usize) -> String {
    let servers: Vec<String> = (1..=servers).map(|n| format!("DST 10.221.0.{n}")).collect();
    format!("FlowIPLoadBalancer(VIP {VIP}, {}{arguments})", servers.join(", "))
}

fn flows(n: u16, flags: u8) -> Vec<Vec<u8>> {
    (0..n).map(|n| tcp(n, flags)).collect()
}

#[test]
fn connections_keep_their_server_when_servers_come_and_go() {
    for mode in ["rr", "least", "hash", "maglev"] {
        let groups = [flows(300, SYN), flows(300, ACK), flows(300, ACK), flows(300, ACK)];
        let mut trial = Trial::new(&balancer(&format!(", LB_MODE {mode}, NSERVER 4"), 5), 1, &groups, false);
        trial.next();
        assert_eq!(
            (trial.read("nb_total_servers"), trial.read("nb_active_servers")),
            ("5".into(), "4".into())
        );
        trial.write("lb.remove_server", "10.221.0.2").unwrap();
        trial.next();
        trial.write("lb.add_server", "10.221.0.5").unwrap();
        trial.next();
        trial.write("lb.add_server", "10.221.0.2").unwrap();
        trial.next();
        assert_eq!(trial.read("connections"), "300");
        let destinations = destinations(&trial.finish());
        let (first, rest) = destinations.split_at(300);
        for later in rest.chunks(300) {
            assert!(first == later, "{mode}");
        }
        let used: BTreeSet<_> = first.iter().collect();
        assert_eq!(used.len(), 4, "{mode}");
    }
}

#[test]
fn all_fragments_of_a_datagram_go_to_one_server() {
    let packets: Vec<(f64, Vec<u8>)> = (0..60u16)
        .flat_map(|n| {
            let whole = Builder::udp(client(n), server()).build(b"data").unwrap();
            let [first, last] = [(0x2000, 16), (3, 40)].map(|(word, length)| {
                let builder = match word {
                    0x2000 => Builder::udp(client(n), server()),
                    _ => Builder::ip(client(n).ip(), server().ip(), 17),
                };
                builder.id(n).fragment(word).build(&vec![1; length]).unwrap()
            });
            [(0.0, whole), (0.1, first), (0.1, last)]
        })
        .collect();
    for mode in ["rr", "hash", "hash_ip", "maglev", "pow2", "least"] {
        let seen = servers(&balancer(&format!(", LB_MODE {mode}"), 5), &packets);
        assert_eq!(seen.len(), 180);
        assert!(seen.chunks(3).all(|of| of[1] == of[2]), "{mode}: {seen:?}");
    }
}

#[test]
fn a_server_that_has_failed_loses_its_connections_and_others_keep_theirs() {
    let groups = [flows(1000, SYN), flows(1000, ACK), flows(1000, ACK)];
    let mut trial = Trial::new(&balancer(", LB_MODE maglev", 5), 1, &groups, false);
    trial.next();
    trial.write("lb.fail_server", "10.221.0.3").unwrap();
    trial.next();
    let load = trial.read("load_conn");
    assert_eq!(load.split(' ').nth(2), Some("0"), "{load}");
    trial.write("lb.add_server", "10.221.0.3").unwrap();
    trial.next();
    let destinations = destinations(&trial.finish());
    let gone = [10, 221, 0, 3];
    for ((before, failed), after) in
        destinations[..1000].iter().zip(&destinations[1000..2000]).zip(&destinations[2000..])
    {
        assert!(*failed != gone && (before == failed || *before == gone));
        assert_eq!(failed, after);
    }
}

#[test]
fn new_flows_are_even_and_few_are_disturbed_without_memory() {
    // The table has room for one connection. So nearly all flows are not stored, and the hash alone chooses
    // their servers.
    let groups = [flows(8000, ACK), flows(8000, ACK)];
    let mut trial = Trial::new(&balancer(", LB_MODE maglev, CAPACITY 1", 10), 1, &groups, false);
    trial.next();
    let shares: Vec<u32> = trial.read("load_packets").split(' ').map(|n| n.parse().unwrap()).collect();
    // 800 flows per server are expected; five standard deviations are 134.
    assert!(shares.iter().all(|share| (666..=934).contains(share)), "{shares:?}");
    assert_eq!(trial.read("overflows"), "7999");
    trial.write("lb.remove_server", "10.221.0.4").unwrap();
    trial.next();
    let destinations = destinations(&trial.finish());
    let moved =
        destinations[..8000].iter().zip(&destinations[8000..]).filter(|(before, after)| before != after);
    let (of_gone, of_others): (Vec<_>, Vec<_>) = moved.partition(|(before, _)| **before == [10, 221, 0, 4]);
    assert!(
        of_gone.len() as u32 + 1 >= shares[3] && of_others.len() * 100 <= 8000 * 2,
        "{}",
        of_others.len()
    );
}

/// Makes an ICMP error ("fragmentation needed") of a router on the path, about a packet.
fn error_about(packet: &[u8]) -> Vec<u8> {
    let to: [u8; 4] = packet[12..16].try_into().unwrap();
    Builder::icmp([7, 7, 7, 7].into(), to.into(), 3, 4, [0, 1400]).build(&packet[..28]).unwrap()
}

#[test]
fn errors_go_to_the_server_of_the_flow_that_they_are_about() {
    for mode in ["rr", "maglev"] {
        let answer = |n: u16| Builder::tcp(server(), client(n), ACK).build(b"a long answer").unwrap();
        let errors: Vec<_> = (0..90).map(|n| error_about(&answer(n))).collect();
        let groups = [flows(90, SYN), errors, flows(90, ACK)];
        let mut trial = Trial::new(&balancer(&format!(", LB_MODE {mode}"), 3), 1, &groups, false);
        for _ in 0..3 {
            trial.next();
        }
        assert_eq!(trial.read("connections"), "90");
        let seen = trial.finish();
        let to = destinations(&seen);
        assert_eq!((&to[..90], &to[..90]), (&to[90..180], &to[180..]));
        for error in &seen[90..180] {
            let bytes = &error.bytes;
            assert_eq!((&bytes[16..20], &bytes[16..20]), (&bytes[40..44], &error.annotations[..4]));
            assert_eq!(bytes[44..46], [10, 0]);
            let checked = checker::check(bytes).unwrap();
            assert_eq!((checked.header, checked.transport), (ChecksumResult::Right, ChecksumResult::Right));
            let words = bytes[28..48].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            assert_eq!(words.sum::<u32>() % 0xffff, 0, "the quoted header's checksum");
        }
    }
}

#[test]
fn errors_open_no_flows_and_bring_none_back() {
    let bare = |flags| Builder::tcp(client(1), server(), flags).build(b"").unwrap();
    let error = error_about(&Builder::tcp(server(), client(1), ACK).build(b"x").unwrap());
    let packets = [(0.0, error.clone()), (1.0, bare(SYN)), (50.0, error), (62.0, bare(ACK))];
    let (seen, connections) = timed(&balancer(", TIMEOUT 60", 3), &packets, "lb.connections");
    assert_eq!(connections, "1");
    let last: Vec<u8> = destinations(&seen).iter().map(|address| address[3]).collect();
    // The first packet, an ICMP error without a flow, takes no turn of the servers, so the connection gets
    // server 1. The error at 50 s does not refresh the connection, so the packet at 62 s opens a new
    // connection, to server 2.
    assert_eq!(last[1..], [1, 1, 2]);
}

#[test]
fn outputs_and_frames_get_errors_about_their_flows() {
    let mac = wire::MacAddr;
    let framed = |packet: Vec<u8>| [&[2; 6][..], &mac([4; 6]).0, &[8, 0], &packet].concat();
    let syns: Vec<_> = flows(60, SYN).into_iter().map(framed).collect();
    let answer = |n: u16| Builder::tcp(server(), client(n), ACK).build(b"a long answer").unwrap();
    let errors: Vec<_> = (0..60).map(|n| framed(error_about(&answer(n)))).collect();
    let mut trial = Trial::new("FlowSwitch", 3, &[syns.clone(), errors.clone()], true);
    trial.next();
    trial.next();
    assert_eq!(trial.read("connections"), "60");
    let seen = trial.finish();
    let sink = |bytes: &Vec<u8>| seen.iter().find(|packet| packet.bytes == *bytes).unwrap().sink;
    assert!(syns.iter().zip(&errors).all(|(syn, error)| sink(syn) == sink(error)));
    let mut trial =
        Trial::new("FlowL2LoadBalancer(DST 2:0:0:0:9:1, DST 2:0:0:0:9:2)", 1, &[syns, errors], true);
    trial.next();
    trial.next();
    let seen = trial.finish();
    for (syn, error) in seen[..60].iter().zip(&seen[60..]) {
        assert_eq!(syn.bytes[..6], error.bytes[..6]);
    }
    // An ICMPv6 error "packet too big" goes to the server of its flow, too.
    let [a, b] = ["[2001:db8::1]:5", "[2001:db8::2]:80"].map(|end| end.parse::<SocketAddr>().unwrap());
    let large = Builder::tcp(b, a, ACK).build(&[7; 40]).unwrap();
    let too_big =
        Builder::icmp("2001:db8::99".parse().unwrap(), b.ip(), 2, 0, [0, 1280]).build(&large).unwrap();
    let fill = |n: u16| Builder::tcp(SocketAddr::new(a.ip(), n), b, SYN).build(b"").unwrap();
    let groups = [vec![fill(1), Builder::tcp(a, b, SYN).build(b"").unwrap(), fill(2)], vec![too_big]];
    let mut trial = Trial::new("FlowSwitch", 3, &groups, false);
    trial.next();
    trial.next();
    assert_eq!(trial.read("load_packets"), "1 2 1");
}

#[test]
fn answers_and_errors_of_servers_get_the_common_address() {
    let at_server: SocketAddr = "10.221.0.2:80".parse().unwrap();
    let request = Builder::udp(client(1), at_server).build(b"nobody listens").unwrap();
    let to = client(1).ip();
    let error = Builder::icmp(at_server.ip(), to, 3, 3, [0, 0]).build(&request).unwrap();
    let text = format!("x :: {}; Idle -> x -> Discard", balancer("", 2));
    let exchange = offer(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write(&path, &[error], false);
    let text = format!(
        "{text}; FromDump({}) -> MarkIPHeader -> FlowIPLoadBalancerReverse(x) -> TestSink({exchange}, 0)",
        path.display()
    );
    TestRun::default().text(&text, &[]).unwrap();
    let [seen] = &collect(exchange)[..] else { panic!() };
    // The translated error equals, byte for byte, the error that a host with the balancer's common address
    // (VIP) would have sent.
    let request = Builder::udp(client(1), server()).build(b"nobody listens").unwrap();
    let expected = Builder::icmp(server().ip(), to, 3, 3, [0, 0]).build(&request).unwrap();
    assert_eq!(seen.bytes, expected);
}

#[test]
fn new_arguments_leave_servers_as_they_were_taken_out() {
    let mut trial = Trial::new(&balancer(", NSERVER 3", 4), 1, &[flows(1, SYN)], false);
    trial.write("lb.remove_server", "10.221.0.2").unwrap();
    let config = |more: &str| {
        let servers: Vec<String> = [1, 2, 3, 4, 5].map(|n| format!("DST 10.221.0.{n}")).into();
        format!("VIP {VIP}, {}{more}", servers.join(", "))
    };
    let active = |trial: &mut Trial| -> String {
        trial.read("servers").lines().map(|line| if line.contains(" active") { '1' } else { '0' }).collect()
    };
    trial.write("lb.config", &config(", NSERVER 3")).unwrap();
    assert_eq!((active(&mut trial), trial.read("nb_active_servers")), ("10100".into(), "2".into()));
    trial.write("lb.config", &config("")).unwrap();
    assert_eq!(active(&mut trial), "11111", "the number has changed");
    trial.write("lb.fail_server", "10.221.0.5").unwrap();
    trial.write("lb.config", &config(", LB_MODE maglev")).unwrap();
    assert_eq!(active(&mut trial), "11110");
}

#[test]
fn whose_turn_it_is_stays_when_servers_come_and_go() {
    let groups: Vec<Vec<Vec<u8>>> = (0..6).map(|n| vec![tcp(n, SYN)]).collect();
    let mut trial = Trial::new(&balancer("", 3), 1, &groups, false);
    for n in 0..6 {
        trial.next();
        trial.write(if n % 2 == 0 { "lb.remove_server" } else { "lb.add_server" }, "10.221.0.3").unwrap();
    }
    let last: Vec<u8> = destinations(&trial.finish()).iter().map(|address| address[3]).collect();
    assert_eq!(last, [1, 2, 3, 1, 2, 1]);
}

#[test]
fn what_leaves_is_sound() {
    let six = Builder::udp("[2001:db8::1]:5".parse().unwrap(), "[2001:db8::2]:5".parse().unwrap());
    let mut packets = flows(20, SYN);
    packets.push(Builder::udp(client(3), server()).build(b"odd").unwrap());
    packets.push(Builder::icmp(client(4).ip(), server().ip(), 8, 0, [1, 2]).build(b"ping").unwrap());
    packets.push(six.build(b"six").unwrap());
    let mut trial = Trial::new(&balancer("", 3), 1, &[packets], false);
    trial.next();
    let seen = trial.finish();
    assert_eq!(seen.len(), 22);
    for packet in &seen {
        let checked = checker::check(&packet.bytes).unwrap();
        assert_eq!((checked.header, checked.transport), (ChecksumResult::Right, ChecksumResult::Right));
        assert_eq!(packet.annotations[..4], packet.bytes[16..20]);
    }
    let text = format!(
        "lb :: {}; Idle -> lb -> Discard;
         InfiniteSource(LIMIT 3, DATA \\<{}>) -> MarkIPHeader -> FlowIPLoadBalancerReverse(lb) -> TestSink(EXCHANGE, 0)",
        balancer("", 2),
        Builder::tcp("10.221.0.2:80".parse().unwrap(), client(1), ACK)
            .build(b"x")
            .unwrap()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    );
    let exchange = offer(Vec::new());
    TestRun::default().text(&text.replace("EXCHANGE", &exchange.to_string()), &[]).unwrap();
    let seen = collect(exchange);
    assert_eq!(seen.len(), 3);
    for packet in seen {
        assert_eq!(packet.bytes[12..16], [10, 220, 0, 1]);
        assert_eq!(checker::check(&packet.bytes).unwrap().transport, ChecksumResult::Right);
    }
}

#[test]
fn frames_and_outputs() {
    let mac = wire::MacAddr;
    let frame = |builder: Builder| builder.ethernet(mac([2; 6]), mac([4; 6])).build(b"data").unwrap();
    let mut frames = Vec::new();
    for n in 0..40 {
        frames.push(frame(Builder::tcp(client(n), server(), SYN)));
        let six = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, n + 1], 9));
        frames.push(frame(Builder::udp(six, "[2001:db8::ffff]:53".parse().unwrap())));
    }
    let mut arp = frames[0].clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    let groups = [frames.clone(), frames.clone(), vec![arp.clone()]];
    let l2 = "FlowL2LoadBalancer(DST 2:0:0:0:9:1, 2:0:0:0:9:2, DST 2:0:0:0:9:3, LB_MODE maglev)";
    let mut trial = Trial::new(l2, 1, &groups, true);
    for _ in 0..3 {
        trial.next();
    }
    let seen = trial.finish();
    assert_eq!(seen.last().unwrap().bytes, arp);
    for (n, frame) in frames.iter().enumerate() {
        let (a, b) = (&seen[n].bytes, &seen[n + frames.len()].bytes);
        assert!(a == b && a[..5] == [2, 0, 0, 0, 9] && a[6..] == frame[6..]);
    }
    let mut trial = Trial::new("FlowSwitch(LB_MODE maglev)", 3, &groups, true);
    for handler in ["", "1", ""] {
        trial.next();
        if !handler.is_empty() {
            trial.write("lb.remove_server", handler).unwrap();
        }
    }
    assert_eq!(
        trial.write("lb.add_server", "3").unwrap_err().split(':').next(),
        Some("output 3 is not configured; write 'config' to add more")
    );
    let mut outputs: BTreeMap<Vec<u8>, BTreeSet<usize>> = BTreeMap::new();
    for packet in trial.finish() {
        outputs.entry(packet.bytes).or_default().insert(packet.sink);
    }
    assert!(outputs.values().all(|sinks| sinks.len() == 1) && outputs[&arp].contains(&0));
    let used: BTreeSet<usize> = outputs.into_values().flatten().collect();
    assert_eq!(used, BTreeSet::from([0, 1, 2]));
}

#[test]
fn new_arguments_keep_connections() {
    let groups = [flows(90, SYN), flows(90, ACK), flows(91, ACK)];
    let mut trial = Trial::new(&balancer(", LB_MODE rr", 3), 1, &groups, false);
    trial.next();
    let fewer = format!("VIP {VIP}, DST 10.221.0.9, DST 10.221.0.3, DST 10.221.0.1");
    trial.write("lb.config", &fewer).unwrap();
    assert_eq!((trial.read("connections"), trial.read("load_conn")), ("60".into(), "0 30 30".into()));
    trial.next();
    assert_eq!(trial.read("load_conn"), "10 40 40");
    for server in [9, 3, 1] {
        trial.write("lb.remove_server", &format!("10.221.0.{server}")).unwrap();
    }
    trial.next();
    let destinations = destinations(&trial.finish());
    // All servers have been removed before the third group is sent. The packet of the 91st flow is the only
    // packet without a connection, and is dropped, because no server is left.
    assert_eq!(destinations.len(), 270);
    for (before, after) in destinations[..90].iter().zip(&destinations[90..180]) {
        assert!(before == after || before[3] == 2);
    }
    assert_eq!(destinations[90..180], destinations[180..]);
}

#[test]
fn mistakes() {
    for (text, error) in [
        ("FlowIPLoadBalancer(DST 1.2.3.4)", "VIP: required argument missing"),
        ("FlowIPLoadBalancer(VIP 1.2.3.4)", "no server given"),
        ("FlowIPLoadBalancer(VIP 1.2.3.4, DST x)", "DST: "),
        ("FlowIPLoadBalancer(VIP 1.2.3.4, DST 1.1.1.1, DST 1.1.1.1)", "server 1.1.1.1 given twice"),
        ("FlowIPLoadBalancer(VIP 1.2.3.4, DST 1.1.1.1, LB_MODE best)", "LB_MODE: unknown mode 'best'"),
        (
            "FlowIPLoadBalancer(VIP 1.2.3.4, DST 1.1.1.1, CST_BUCKETS 0)",
            "CST_BUCKETS: must be between 1 and 16777216",
        ),
        ("FlowIPLoadBalancer(VIP 1.2.3.4, DST 1.1.1.1, NSERVER 2)", "NSERVER"),
        (
            "IPRewriter(m); m :: MaglevIPMapper(- - 1.1.1.1 80 0 0, CST_BUCKETS 17000000)",
            "CST_BUCKETS: must be between 1 and 16777216",
        ),
        ("IPRewriter(m); m :: MaglevIPMapper(CST_BUCKETS 7)", "no patterns given"),
        ("FlowSwitch(TIMEOUT 0)", "TIMEOUT: must be positive"),
        ("FlowIPLoadBalancerReverse(i)", "LB: element is not a FlowIPLoadBalancer"),
    ] {
        let text = format!("i :: Idle -> e :: {text}; e -> Discard");
        let result = TestRun::default().text(&text, &[]);
        assert!(result.as_ref().is_err_and(|text| text.contains(error)), "{text}: {result:?}");
    }
}

#[test]
fn translators_choose_by_consistent_hashing() {
    let mapper = "m :: MaglevIPMapper(- - 10.221.0.1 80 0 0, - - 10.221.0.2 80 0 0, - - 10.221.0.3 80 0 0);";
    let groups = [flows(600, SYN), flows(600, ACK), (0..1200).map(|n| tcp(n, SYN)).collect()];
    let mut trial = Trial::new(&format!("IPRewriter(m); {mapper}"), 1, &groups, false);
    trial.next();
    trial.write("m.remove_server", "1").unwrap();
    trial.next();
    trial.next();
    let id = trial.worker.plan().graph.find("m");
    let servers = trial.worker.read(id, "servers", "").unwrap();
    assert!(servers.contains("\n1 inactive 0 - - 10.221.0.2 80\n"), "{servers}");
    assert!(trial.write("m.add_server", "3").is_err());
    let destinations = destinations(&trial.finish());
    assert_eq!(destinations.len(), 2400);
    let last =
        |range: std::ops::Range<usize>| -> Vec<u8> { destinations[range].iter().map(|a| a[3]).collect() };
    assert_eq!(last(0..600), last(600..1200));
    assert_eq!(last(0..600), last(1200..1800));
    let count = |server: u8| last(0..600).into_iter().filter(|&last| last == server).count();
    // 200 flows per server are expected; five standard deviations are 58.
    assert!([1, 2, 3].into_iter().all(|server| (142..=258).contains(&count(server))));
    assert!(last(1800..2400).iter().all(|&server| server != 2));
}

/// The number of slots in a Maglev table is rounded up to a prime. FastClick uses the requested number as
/// it is.
#[test]
fn tables_have_a_prime_number_of_places() {
    let text = "m :: MaglevIPMapper(- - 10.0.0.1 80 0 0, - - 10.0.0.2 80 0 0, CST_BUCKETS 1000); Idle -> IPRewriter(m) -> Discard";
    let outcome = TestRun::default().text(text, &["m.servers"]).unwrap();
    let servers = outcome.values[0].clone().unwrap();
    let places = servers.lines().map(|line| line.split(' ').nth(2).unwrap().parse::<u32>().unwrap());
    assert_eq!(places.sum::<u32>(), 1009);
    let text = format!("Idle -> {} -> Discard", balancer(", LB_MODE maglev, CST_BUCKETS 1000", 3));
    assert!(TestRun::default().text(&text, &[]).is_ok());
}

#[test]
fn load_can_be_told_and_least_goes_by_it() {
    let groups = [flows(10, SYN), flows(20, SYN)];
    let mut trial = Trial::new(&balancer(", LB_MODE least, LST_MODE cpu", 3), 1, &groups, false);
    trial.write("lb.load", "0:70,1:50, 2:60").unwrap();
    trial.next();
    assert_eq!((trial.read("load"), trial.read("load_conn")), ("70 50 60".into(), "0 10 0".into()));
    trial.write("lb.load", "1:80").unwrap();
    trial.next();
    assert_eq!(trial.read("load_conn"), "0 10 10");
    assert_eq!(trial.write("lb.load", "0:1,3:1").unwrap_err(), "Invalid server id 3");
    assert!(trial.write("lb.load", "x").is_err() && trial.read("load") == "70 80 60");
    let id = trial.worker.plan().graph.find("lb");
    assert_eq!(trial.worker.read(id, "load", "2").unwrap(), "60");
    assert_eq!(trial.worker.read(id, "load", "9").unwrap(), "unknown");
}

#[test]
fn every_mode_and_metric_of_fastclick_is_taken() {
    for mode in
        ["rr", "wrr", "awrr", "least", "pow2", "hash", "hash_crc", "hash_ip", "hash_agg", "cst_hash_agg"]
    {
        for metric in ["conn", "packets", "bytes", "cpu"] {
            let more = format!(
                ", LB_MODE {mode}, LST_MODE {metric}, AWRR_TIME 1, AWRR_ALPHA 0.5, FORCE_TRACK_LOAD true"
            );
            let groups = [flows(90, SYN), flows(90, ACK)];
            let mut trial = Trial::new(&balancer(&more, 3), 1, &groups, false);
            trial.next();
            trial.next();
            let destinations = destinations(&trial.finish());
            assert_eq!(destinations[..90], destinations[90..], "{mode} {metric}");
        }
    }
}
