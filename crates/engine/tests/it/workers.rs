//! Tests of runs on several workers, which together have to do the same as one worker, and of network cards
//! in memory.

use std::collections::HashMap;
use std::time::Instant;

use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun};
use wire::{MacAddr, build::Builder};

/// The number of flows; each has [`PACKETS`] packets.
const FLOWS: usize = 40;
const PACKETS: usize = 50;

/// Makes packet `number` of a flow in an Ethernet frame. The payload has the number of the flow and the
/// number of the packet.
fn packet(flow: usize, number: usize) -> TestPacket {
    let source = ([10, 0, (flow / 200) as u8, (flow % 200) as u8], 1024 + flow as u16).into();
    let destination = ([192, 168, 0, 1], 53).into();
    let payload = [(flow as u32).to_be_bytes(), (number as u32).to_be_bytes()].concat();
    let frame = Builder::udp(source, destination).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
    let bytes = frame.build(&payload).unwrap();
    TestPacket {
        bytes,
        time: element::Timestamp(1 + number as i64),
        annotations: [0; 48],
        headers: [None; 3],
    }
}

/// Returns the packets of all flows, one of each flow in turn.
fn packets() -> Vec<TestPacket> {
    (0..PACKETS).flat_map(|number| (0..FLOWS).map(move |flow| packet(flow, number))).collect()
}

/// Returns the number of the flow and of the packet, from the payload.
fn told(seen: &Seen) -> (u32, u32) {
    let end = seen.bytes.len();
    let number = |at: usize| u32::from_be_bytes(seen.bytes[at..at + 4].try_into().unwrap());
    (number(end - 8), number(end - 4))
}

fn run(how: TestRun, text: &str, handlers: &[&str]) -> (RunResults, Vec<Seen>) {
    let exchange = offer(vec![packets()]);
    let text = text.replace("SOURCE", &format!("TestSource({exchange}, 0)"));
    let text = text.replace("SINK", &format!("TestSink({exchange}, 0)"));
    let outcome = how.text(&text, handlers).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    assert_eq!(outcome.errors, Vec::<String>::new());
    (outcome, collect(exchange))
}

/// Asserts that each packet has arrived once, and that the packets of each flow are in order.
fn assert_all_in_order(seen: &[Seen]) {
    assert_eq!(seen.len(), FLOWS * PACKETS);
    let mut next = HashMap::new();
    for packet in seen {
        let (flow, number) = told(packet);
        let expected = next.entry(flow).or_insert(0);
        assert_eq!(number, *expected, "flow {flow}");
        *expected += 1;
    }
}

#[test]
fn copies_let_others_do_their_work() {
    for how in [TestRun::real(), TestRun::trace()] {
        let text = "SOURCE -> MarkIPHeader(14) -> FlowCounter -> first :: TestFirst -> SINK";
        let (outcome, seen) = run(how.on(3), text, &[]);
        assert_all_in_order(&seen);
        // All packets have come to one copy, that on worker 0.
        let first = outcome.report.elements.iter().find(|element| element.name == "first").unwrap();
        assert_eq!((first.packets_in, first.out), ((FLOWS * PACKETS) as u64, (FLOWS * PACKETS) as u64));
        assert!(outcome.report.workers[2].handed > 0);
    }
}

#[test]
fn tables_that_copies_share_change_for_all() {
    let text = "SOURCE -> MarkIPHeader(14) -> GetIPAddress(30) -> r :: RadixIPLookup(192.168.0.0/16 0, 10.0.0.0/8 1);
        r[0] -> f :: IPFilter(allow udp dst port 53, deny all); r[1] -> Discard;
        f -> k :: IPClassifier(udp, -); k[0] -> SINK; k[1] -> Discard;
        DriverManager(pause, write r.add 11.0.0.0/8 1, write r.remove 10.0.0.0/8, write k.pattern0 tcp,
            print $(worker 0 r.table), print $(worker 1 r.table), print $(worker 2 r.table),
            print $(worker 0 k.program), print $(worker 1 k.program), print $(worker 2 k.program), stop)";
    let (outcome, seen) = run(TestRun::real().on(3), text, &[]);
    assert_all_in_order(&seen);
    assert_eq!(outcome.output.matches("11.0.0.0/8").count(), 3, "{}", outcome.output);
    assert_eq!(outcome.output.matches("10.0.0.0/8").count(), 0, "{}", outcome.output);
    // This line of the classifier's program tests for the protocol TCP, as the new pattern demands. Each of
    // the three workers has it.
    assert_eq!(outcome.output.matches("264/00060000").count(), 3, "{}", outcome.output);
}

/// A worker may write a handler before the threads of all other workers run.
#[test]
fn what_one_worker_writes_at_once_is_written_at_all_workers() {
    let text = "Idle -> p :: Paint(1) -> Discard; s :: Script(write p.config 2,
            print $(worker 0 p.config) $(worker 1 p.config) $(worker 2 p.config), stop); StaticThreadSched(s 1)";
    for _ in 0..40 {
        let outcome = TestRun::real().on(3).text(text, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((outcome.output.as_str(), outcome.messages.as_str()), ("2 2 2\n", ""));
    }
}

#[test]
fn flows_spread_and_stay_in_order() {
    for how in [TestRun::real(), TestRun::trace()] {
        for workers in [1, 2, 5] {
            let (outcome, seen) =
                run(how.on(workers), "SOURCE -> c :: Counter -> SINK", &["c.count", "c.counts"]);
            assert_all_in_order(&seen);
            let total = FLOWS * PACKETS;
            assert_eq!(outcome.values[0].as_deref(), Ok(&*total.to_string()));
            assert_eq!(outcome.values[1].as_deref(), Ok(&*format!("in {total}\nout {total}\ndropped 0\n")));
            // All workers took part, and each packet that was handed over was taken.
            let workers = &outcome.report.workers;
            assert!(workers.iter().skip(1).all(|w| w.taken > 0 && w.taken == w.handed), "{workers:?}");
            let sums = |of: fn(&engine::WorkerReport) -> u64| workers.iter().map(of).sum::<u64>();
            assert_eq!(sums(|w| w.handed), sums(|w| w.taken));
        }
    }
}

#[test]
fn turns_are_repeatable() {
    let once = || run(TestRun::trace().on(3), "SOURCE -> RandomSample(0.5) -> SINK", &[]).1;
    assert_eq!(once(), once());
    assert!(once().len() < FLOWS * PACKETS);
}

#[test]
fn shared_state_has_one_worker() {
    // The numbers are consecutive, so no two packets have got the same.
    let text = "SOURCE -> Counter -> n :: NumberPacket(OFFSET 42) -> SINK";
    let (outcome, seen) = run(TestRun::real().on(3), text, &["n.count"]);
    assert_eq!(outcome.values[0].as_deref(), Ok("2000"));
    let number = |packet: &Seen| u64::from_ne_bytes(packet.bytes[42..50].try_into().unwrap());
    let mut numbers: Vec<_> = seen.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
}

#[test]
fn circles_through_workers_end() {
    for how in [TestRun::trace(), TestRun::real()] {
        let text = "SOURCE -> all :: Counter -> x :: Counter -> y :: Counter -> x; StaticThreadSched(x 0, y 1); Idle -> SINK;
            Script(label again, wait 1ms, goto again $(lt $(all.count) 2000), stop)";
        let (outcome, _) = run(how.on(2), text, &[]);
        assert_eq!(outcome.report.totals.drops.get("loop"), Some(&2000), "{:?}", outcome.report.totals);
    }
}

#[test]
fn each_flow_has_one_worker_with_its_state() {
    // The packets and their mirrored copies reach the counter by different paths. Both directions of a flow
    // go to the same worker, so each flow has one record.
    let text = "SOURCE -> MarkIPHeader(14) -> t :: Tee;
        t[0] -> q :: Queue(10000) -> Unqueue -> f :: FlowCounter(BIDIRECTIONAL true) -> SINK;
        t[1] -> IPMirror -> [0] back :: Counter -> q";
    let (outcome, seen) = run(TestRun::real().on(4), text, &["back.count", "f.count", "f.csv"]);
    assert_eq!(outcome.values[0].as_deref(), Ok("2000"));
    assert_eq!(seen.len(), 2 * FLOWS * PACKETS);
    assert_eq!(outcome.values[1].as_deref(), Ok(&*FLOWS.to_string()));
    let lines = outcome.values[2].as_ref().unwrap().lines().count();
    assert_eq!(lines, 1 + FLOWS, "one heading");
}

#[test]
fn assigned_elements_stay_on_their_thread() {
    let text = "s :: SOURCE -> c :: Counter -> q :: Queue(5000) -> u :: Unqueue -> d :: Counter -> SINK;
        StaticThreadSched(s 1, u 0)";
    let (outcome, seen) = run(TestRun::real().on(2), text, &["c.count", "d.count"]);
    assert_all_in_order(&seen);
    assert_eq!(outcome.values, [Ok("2000".to_string()), Ok("2000".to_string())]);
    let workers = &outcome.report.workers;
    // All packets are made on worker 1, are handed over, and end on worker 0.
    assert_eq!((workers[1].packets_in, workers[1].handed, workers[0].out), (2000, 2000, 2000), "{workers:?}");
}

#[test]
fn switches_know_their_worker() {
    let text = "s :: SOURCE -> Counter -> w :: CPUSwitch; w[0] -> a :: Counter -> SINK;
        w[1] -> b :: Counter -> Discard; w[2] -> c :: Counter -> Discard";
    let (outcome, _) = run(TestRun::real().on(3), text, &["a.count", "b.count", "c.count"]);
    let counts: Vec<u64> = outcome.values.iter().map(|v| v.as_ref().unwrap().parse().unwrap()).collect();
    let workers: Vec<u64> = outcome.report.workers.iter().skip(1).map(|w| w.taken).collect();
    assert_eq!(counts.iter().sum::<u64>(), 2000);
    // The random hash key of the test decides which worker gets which flows. With three workers, the shares
    // may be very unequal.
    assert!(counts.iter().all(|&n| n > 0), "{counts:?}");
    assert_eq!(counts[1..], workers, "each worker's own");
}

#[test]
fn any_worker_can_stop_the_run() {
    let text = "InfiniteSource(LIMIT -1) -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)
        -> SetIPAddress(2.0.0.3) -> c :: Counter(COUNT_CALL 10000 stop) -> Discard";
    for workers in [2, 3] {
        let outcome = TestRun::real().on(workers).text(text, &["c.count"]).unwrap();
        assert_eq!(outcome.end, engine::End::Stopped);
        let count: u64 = outcome.values[0].as_ref().unwrap().parse().unwrap();
        assert!(count >= 10_000, "{count}");
        assert!(outcome.report.balances());
    }
}

#[test]
fn scripts_reach_all_workers() {
    // The script waits until all packets are counted, by all workers together. Then it reads the count of
    // each worker, and resets all.
    let text = "SOURCE -> c :: Counter -> SINK;
        Script(label again, wait 1ms, goto again $(lt $(c.count) 2000),
            print $(c.count), print $(worker 0 c.count), print $(worker 1 c.count),
            write c.reset, print $(c.count), stop);
        DriverManager(wait_stop)";
    let (outcome, _) = run(TestRun::real().on(2), text, &["c.count"]);
    let lines: Vec<u64> = outcome.output.lines().map(|line| line.parse().unwrap()).collect();
    let [all, first, second, cleared] = lines[..] else { panic!("{:?}", outcome.output) };
    assert_eq!((all, first + second, cleared), (2000, 2000, 0));
    assert!(first > 0 && second > 0);
    assert_eq!(outcome.values[0].as_deref(), Ok("0"));
}

#[test]
fn captures_wait_for_slow_workers() {
    // Far more packets come than a ring holds. Each becomes three packets before it is handed over.
    let text = "InfiniteSource(LIMIT 60000, BURST 256) -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2)
        -> SetRandIPAddress(10.0.0.0/8) -> StoreIPAddress(16)
        -> MarkIPHeader -> t :: Tee(3);
        t[0] -> Counter -> n :: NumberPacket(OFFSET 28) -> Discard; t[1] -> n; t[2] -> n";
    let outcome = TestRun::real().on(2).text(text, &["n.count"]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.values[0].as_deref(), Ok("180000"));
    assert!(outcome.report.balances());
    assert!(!outcome.report.totals.drops.contains_key("worker busy"), "{:?}", outcome.report.totals);
}

#[test]
fn what_is_held_at_the_end_goes_on_to_other_workers() {
    let text = "SOURCE -> MarkIPHeader(14) -> Reframer(DELAY 10s) -> n :: NumberPacket(OFFSET 42) -> SINK";
    let (outcome, seen) = run(TestRun::trace().on(3), text, &[]);
    assert_eq!(seen.len(), FLOWS * PACKETS);
    assert_eq!(outcome.report.totals.held, 0);
}

/// Sends three packets of each of `flows` flows through a translator, with a reply to every packet. Sink 0
/// gets the translated packets, sink 1 the translated replies.
fn translate(how: TestRun, protocol: &str, flows: usize, keywords: &str) -> (RunResults, Vec<Seen>) {
    let client = |flow: usize| {
        let address = [10, 1, (flow / 250) as u8, (1 + flow % 250) as u8];
        (address, 1024 + (flow * 7 % 60_000) as u16)
    };
    let frame = |flow: usize, round: u32| {
        let (source, destination) = (client(flow).into(), ([198, 51, 100, 7], 80).into());
        let payload = [(flow as u32).to_be_bytes(), round.to_be_bytes()].concat();
        let builder = match protocol {
            "udp" => Builder::udp(source, destination),
            "tcp" => Builder::tcp(source, destination, if round == 0 { wire::tcp::flags::SYN } else { 0x18 }),
            _ => Builder::icmp(source.ip(), destination.ip(), 8, 0, [source.port(), round as u16]),
        };
        builder.build(&payload).unwrap()
    };
    let input = |(round, flow)| TestPacket {
        bytes: frame(flow, round),
        time: element::Timestamp(1),
        annotations: [0; 48],
        headers: [Some(0), Some(0), Some(20)],
    };
    let order = (0..3).flat_map(|round| (0..flows).map(move |flow| (round, flow)));
    let exchange = offer(vec![order.map(input).collect()]);
    let (class, answer, list) = match protocol {
        "icmp" => ("ICMPPingRewriter", "ICMPPingResponder", "mappings"),
        "tcp" => ("IPRewriter", "IPMirror", "tcp_mappings"),
        _ => ("IPRewriter", "IPMirror", "udp_mappings"),
    };
    let text = format!(
        "TestSource({exchange}, 0) -> CheckIPHeader -> [0] nat :: {class}(pattern 192.0.2.1 1024-65535 - - 0 1, drop{keywords});
        nat[0] -> there :: Tee -> TestSink({exchange}, 0); there[1] -> {answer} -> [1] nat;
        nat[1] -> TestSink({exchange}, 1)"
    );
    let handlers = ["nat.size", "nat.mapping_failures", &format!("nat.{list}")];
    let outcome = how.text(&text, &handlers).unwrap_or_else(|error| panic!("{error}"));
    (outcome, collect(exchange))
}

#[test]
fn replies_come_home_to_the_worker_of_their_mapping() {
    const MANY: usize = 10_000;
    for (protocol, flows) in [("udp", MANY), ("tcp", MANY), ("icmp", MANY)] {
        for how in [TestRun::real(), TestRun::trace()] {
            let (outcome, seen) = translate(how.on(4), protocol, flows, "");
            assert!(outcome.report.balances());
            let (back, there): (Vec<_>, Vec<_>) = seen.iter().partition(|seen| seen.sink == 1);
            assert_eq!((there.len(), back.len()), (3 * flows, 3 * flows), "{:?}", outcome.report.totals);
            // Each flow keeps its port (or identifier), and no two flows have the same.
            let at = if protocol == "icmp" { 24 } else { 20 };
            let mut ports = HashMap::new();
            for packet in there {
                let port = u16::from_be_bytes([packet.bytes[at], packet.bytes[at + 1]]);
                assert_eq!(packet.bytes[12..16], [192, 0, 2, 1]);
                let flow = *ports.entry(port).or_insert(told(packet).0);
                assert_eq!(flow, told(packet).0, "port {port}");
            }
            assert_eq!(ports.len(), flows);
            for packet in back {
                let flow = told(packet).0 as usize;
                let address = [10, 1, (flow / 250) as u8, (1 + flow % 250) as u8];
                assert_eq!(packet.bytes[16..20], address, "flow {flow}");
            }
            assert_eq!(outcome.values[0].as_deref(), Ok(&*flows.to_string()));
            assert_eq!(outcome.values[1].as_deref(), Ok("0"));
            assert_eq!(outcome.values[2].as_ref().unwrap().lines().count(), 2 * flows);
            // Each of the four workers handles a fair share.
            assert!(outcome.report.workers.iter().all(|w| w.taken > flows as u64 / 8));
        }
    }
}

#[test]
fn replies_come_home_to_ports_of_all_flows_of_an_end() {
    // With INDEPENDENT_MAPPING, one mapping serves all servers, whose replies could arrive at any worker. So
    // the translator works on one worker only.
    const FLOWS: usize = 2000;
    for keywords in [", INDEPENDENT_MAPPING true", ", INDEPENDENT_MAPPING true, SUBSCRIBER_CAPACITY 5"] {
        for (protocol, how) in
            [("udp", TestRun::real()), ("icmp", TestRun::trace()), ("tcp", TestRun::trace())]
        {
            let (outcome, seen) = translate(how.on(4), protocol, FLOWS, keywords);
            assert!(outcome.report.balances());
            let back = seen.iter().filter(|seen| seen.sink == 1).count();
            assert_eq!((seen.len(), back), (6 * FLOWS, 3 * FLOWS), "{protocol} {keywords}");
            assert_eq!(outcome.values[0].as_deref(), Ok(&*FLOWS.to_string()));
        }
    }
}

#[test]
fn translators_that_cannot_choose_have_one_worker() {
    // The pattern fixes port and destination address, so the translator cannot choose a port that brings
    // replies to the worker of the flow. So it works on one worker only.
    let text = "SOURCE -> MarkIPHeader(14) -> [0] nat :: UDPRewriter(pattern - - 10.9.9.9 53 0 1, drop);
        nat[0] -> there :: Tee -> SINK; there[1] -> IPMirror -> [1] nat; nat[1] -> back :: Counter -> Discard";
    let (outcome, _) = run(TestRun::real().on(3), text, &["back.count"]);
    assert_eq!(outcome.values[0].as_deref(), Ok("2000"));
}

/// Writes a capture with the packets of all flows.
fn capture() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let mut writer = capture::Writer::new(file.reopen().unwrap(), capture::WriterOptions::default());
    for input in packets() {
        writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
    file
}

#[test]
fn queues_of_a_nic_have_the_flows_of_their_worker() {
    let file = capture();
    let text = |steering: &str| {
        format!(
            "nic :: InMemoryNic({}, LOOPS 3, STEERING {steering}) -> Strip(14) -> MarkIPHeader
            -> f :: FlowCounter -> Discard",
            file.path().display()
        )
    };
    for how in [TestRun::real(), TestRun::trace()] {
        for (steering, moves) in [("rss", false), ("turn", true), ("next", true)] {
            let handlers = ["f.packets", "f.count", "nic.count", "nic.packets"];
            let outcome = how.on(3).text(&text(steering), &handlers).unwrap_or_else(|e| panic!("{e}"));
            let expected = [3 * FLOWS * PACKETS, FLOWS, 3 * FLOWS * PACKETS, FLOWS * PACKETS];
            assert_eq!(outcome.values, expected.map(|n| Ok(n.to_string())), "{steering}");
            assert!(outcome.report.balances());
            let handed: u64 = outcome.report.workers.iter().map(|w| w.handed).sum();
            assert_eq!(handed > 0, moves, "{steering}");
            if steering == "next" {
                assert_eq!(handed, (3 * FLOWS * PACKETS) as u64);
            }
        }
    }
}

#[test]
fn many_queues_bring_flows_together() {
    let file = capture();
    let runs = |queues: usize, workers: usize| -> f64 {
        let text = format!(
            "nic :: InMemoryNic({}, LOOPS 3, QUEUES {queues}, BURST 8) -> Strip(14) -> MarkIPHeader
            -> c :: Counter -> f :: FlowCounter -> r :: Reframer(0us) -> Discard",
            file.path().display()
        );
        let handlers = ["c.count", "f.count", "r.slf_in"];
        let outcome = TestRun::real().on(workers).text(&text, &handlers).unwrap_or_else(|e| panic!("{e}"));
        let [packets, flows, slf] = &outcome.values[..] else { panic!("three handlers") };
        assert_eq!(packets.as_deref(), Ok((3 * FLOWS * PACKETS).to_string().as_str()));
        assert_eq!(flows.as_deref(), Ok(FLOWS.to_string().as_str()));
        slf.as_ref().unwrap().parse().unwrap()
    };
    // With 400 queues, nearly each flow has a queue of its own. Up to 8 packets are taken from a queue at
    // once (BURST), so packets of one flow come in a row. With one queue, packets of all flows alternate.
    let [one, many] = [1, 400].map(|queues| runs(queues, 1));
    assert!(one < 1.1 && many > 3.5, "{one} {many}");
    // A random hash key decides which flows share a queue. With one key in twenty there are too many such
    // flows, so several keys are tried.
    assert!((0..8).any(|_| runs(400, 2) > 3.5));
}

#[test]
fn loss_ends_with_the_overload() {
    // The clock advances by a millisecond at each reading, so that a worker takes about 16,000 packets per
    // second. For a minute six times as many come, then half as many.
    let file = capture();
    let text = format!(
        "nic :: InMemoryNic({}, LOOPS -1, RATE 100000, RING 1000) -> c :: Counter -> Discard;
        Script(wait 60s, set during $(nic.missed), write nic.rate 8000,
            wait 1s, set soon $(nic.missed), wait 10s, print $during, print $(sub $(nic.missed) $soon), stop);
        DriverManager(wait_stop)",
        file.path().display()
    );
    let start = element::Timestamp::from_secs(1_000);
    let clock = engine::ClockKind::Simulated { start, tick: element::Timestamp(1_000_000) };
    let outcome =
        TestRun { clock, ..TestRun::default() }.text(&text, &["c.count"]).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances());
    let missed: Vec<u64> = outcome.output.lines().map(|line| line.parse().unwrap()).collect();
    assert!(missed[0] > 1_000_000 && missed[1] == 0, "{missed:?}");
    let count: u64 = outcome.values[0].as_ref().unwrap().parse().unwrap();
    assert!(count > 500_000, "{count}");
}

#[test]
fn a_reply_that_one_worker_hears_counts_for_all() {
    // Packets of all flows wait for one Ethernet address, each at its own worker. The ARP reply is no IP
    // packet, so it comes to worker 0. The others find the address in the table that they share.
    let text = "SOURCE -> Strip(14) -> CheckIPHeader -> c :: Counter
        -> a :: ARPQuerier(192.168.0.254/24, 2:0:0:0:0:1, CAPACITY 5000) -> SINK;
        a[1] -> ARPResponder(192.168.0.1 2:0:0:0:0:9) -> Queue(10) -> DelayUnqueue(20ms) -> [1] a";
    for how in [TestRun::real(), TestRun::trace()] {
        let start = Instant::now();
        let (outcome, seen) = run(how.on(4), text, &["a.count", "a.length", "a.queries"]);
        assert_all_in_order(&seen);
        assert!(seen.iter().all(|packet| packet.bytes[..6] == [2, 0, 0, 0, 0, 9]));
        let queries: u64 = outcome.values[2].as_ref().unwrap().parse().unwrap();
        assert_eq!(outcome.values[1].as_deref(), Ok("0"));
        // The workers share the limit of one query at a time; another one may follow after 100 ms.
        let times =
            if how.clock == TestRun::trace().clock { 1 } else { start.elapsed().as_millis() as u64 / 100 };
        assert!((1..=1 + times).contains(&queries), "{queries} queries");
        assert!(outcome.report.workers.iter().all(|w| w.taken > 0));
    }
}

#[test]
fn scripts_reach_all_workers_in_turn_too() {
    let text = "SOURCE -> c :: Counter -> SINK;
        DriverManager(pause, print $(c.count), print $(worker 1 c.count), write c.reset, print $(c.count), stop)";
    let (outcome, _) = run(TestRun::trace().on(3), text, &["c.count"]);
    let lines: Vec<u64> = outcome.output.lines().map(|line| line.parse().unwrap()).collect();
    assert!(lines[0] == 2000 && (1..2000).contains(&lines[1]) && lines[2] == 0, "{lines:?}");
}

#[test]
fn errors_come_to_the_worker_of_a_translator_that_has_one() {
    // One inner endpoint sends to many hosts. All its flows have the same outer port, so the worker of an
    // ICMP error, which follows from the hash, may be another one than the translator's worker.
    let (inside, outside) = (([10, 0, 0, 1], 5000), ([1, 0, 0, 1], 7000));
    let input = |number: usize, builder: Builder, payload: &[u8]| {
        let bytes = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(payload).unwrap();
        let headers = [Some(0), Some(14), Some(34)];
        TestPacket { bytes, time: element::Timestamp(1 + number as i64), annotations: [0; 48], headers }
    };
    let other = |n: u8| ([9, 9, 9, n], 33434 + u16::from(n));
    let asks = (0..16).map(|n| input(0, Builder::udp(inside.into(), other(n).into()), &[n]));
    let errors = (0..16).map(|n| {
        let quoted = Builder::udp(outside.into(), other(n).into()).build(&[n]).unwrap();
        input(1, Builder::icmp(other(n).0.into(), outside.0.into(), 3, 3, [0, 0]), &quoted)
    });
    let inputs: Vec<TestPacket> = asks.chain(errors).collect();
    for workers in [1, 2, 4] {
        let exchange = offer(vec![inputs.clone()]);
        let text = format!(
            "TestSource({exchange}, 0) -> kinds :: IPClassifier(icmp, -);
         rw :: IPRewriter(pattern 1.0.0.1 7000-7000 - - 0 1, INDEPENDENT_MAPPING true);
         kinds[1] -> rw; rw[0] -> Discard; rw[1] -> Discard;
         kinds[0] -> ICMPRewriter(rw) -> TestSink({exchange}, 0)"
        );
        // The burst of 16 separates the packets from the ICMP errors about them, so that the translator knows
        // the flows before the errors come.
        let how = TestRun { burst: Some(16), ..TestRun::trace().on(workers) };
        let outcome = how.text(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.report.balances(), "{:?}", outcome.report);
        assert_eq!(collect(exchange).len(), 16, "{workers} workers");
    }
}

#[test]
fn an_offloaded_element_has_the_last_worker_for_itself() {
    let text =
        "SOURCE -> before :: Counter -> MarkIPHeader(14) -> offloaded :: FlowCounter -> after :: Counter
        -> nat :: IPRewriter(pattern 1.1.1.1 1024-65535 - - 0 0) -> SINK";
    let counters = ["before.count", "offloaded.packets", "after.count", "nat.nmappings"];
    for (workers, names) in [(2, &["FlowCounter"]), (2, &["offloaded"]), (3, &["offloaded"])] {
        let read = |worker| counters.map(|counter| format!("worker {worker} {counter}"));
        let handlers: Vec<_> = (0..workers).flat_map(read).collect();
        let handlers: Vec<_> = handlers.iter().map(String::as_str).collect();
        let (outcome, seen) = run(TestRun::trace().on(workers).offload(names), text, &handlers);
        assert_all_in_order(&seen);
        let values: Vec<u64> =
            outcome.values.iter().map(|v| v.as_ref().unwrap().trim().parse().unwrap()).collect();
        let (last, others) = values.split_last_chunk::<4>().map(|(others, last)| (last, others)).unwrap();
        let all = (FLOWS * PACKETS) as u64;
        assert_eq!(last, &[all, all, 0, 0]);
        let (others, rest) = others.as_chunks::<4>();
        assert!(
            rest.is_empty()
                && others.iter().all(|other| other[..2] == [0, 0] && other[2] > 0 && other[3] > 0)
        );
        assert_eq!(others.iter().map(|other| other[2]).sum::<u64>(), all);
    }
    let missing = TestRun::trace().on(2).offload(&["Juggler"]).text("Idle -> Discard", &[]);
    assert!(missing.is_err_and(|error| error.contains("Juggler")));
}

#[test]
fn a_nic_that_one_worker_serves_gives_it_all_packets() {
    let file = capture();
    for (run, assigned) in [(TestRun::trace().on(2).offload(&["e"]), ""), (TestRun::trace().on(2), "nic 1")] {
        let text = format!(
            "StaticThreadSched({assigned}); nic :: InMemoryNic({}) -> e :: Null -> count :: Counter -> Discard",
            file.path().display()
        );
        let outcome = run.text(&text, &["nic.count", "worker 1 nic.count", "count.count"]).unwrap();
        let all = Ok((FLOWS * PACKETS).to_string());
        assert_eq!(outcome.values, [all.clone(), all.clone(), all], "{assigned}");
    }
}

/// The number of packets of a translator's flows that come to each of two workers, behind elements that mark
/// network headers. A packet that a worker processes without being its flow's home shows as a second mapping.
#[test]
fn packets_that_are_marked_in_their_frame_are_sorted_once() {
    for (marks, by_frame) in [
        ("CheckIPHeader(14)", true),
        ("Strip(14) -> CheckIPHeader", true),
        ("MarkIPHeader(14) -> Strip(14)", true),
        // The header that these mark is not the one that the frame names.
        ("MarkIPHeader(42)", false),
        ("EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> MarkIPHeader(42)", false),
    ] {
        // Each flow's packets have an inner header, whose ports are those of one flow.
        let inner = |number: usize| {
            let ends = [([10, 1, 1, 1], 7), ([10, 1, 1, 2], 7)].map(|(address, port)| (address, port).into());
            Builder::udp(ends[0], ends[1]).build(&[(number as u32).to_be_bytes(); 2].concat()).unwrap()
        };
        let outer = |flow: usize, number: usize| {
            let source = ([10, 0, 0, flow as u8], 1024 + flow as u16).into();
            let frame = Builder::udp(source, ([192, 168, 0, 1], 53).into());
            let bytes = frame.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&inner(number)).unwrap();
            TestPacket { bytes, time: element::Timestamp(1), annotations: [0; 48], headers: [None; 3] }
        };
        let packets =
            (0..PACKETS).flat_map(|number| (0..FLOWS).map(move |flow| outer(flow, number))).collect();
        let exchange = offer(vec![packets]);
        let text = format!(
            "TestSource({exchange}, 0) -> {marks} -> flows :: FlowCounter -> Discard; Idle -> TestSink({exchange}, 0)"
        );
        let handlers = ["worker 0 flows.open", "worker 1 flows.open"];
        let outcome = TestRun::trace().on(2).text(&text, &handlers).unwrap();
        collect(exchange);
        let [first, second] = [0, 1].map(|n| outcome.values[n].as_ref().unwrap().parse::<usize>().unwrap());
        match by_frame {
            true => assert!(first + second == FLOWS && first > 0 && second > 0, "{marks}: {first} {second}"),
            // All packets have one inner flow, which has one home.
            false => assert_eq!(first + second, 1, "{marks}: {first} {second}"),
        }
    }
}

/// A firewall behind two translators, between which a run of packets is parted by a field that does not
/// identify a flow. The packets come to the firewall by a ring.
#[test]
fn packets_that_left_a_run_by_different_ways_are_no_run_behind_a_ring() {
    let packets = (0..64).map(|number: u8| {
        let frame = Builder::udp(([10, 0, 0, 1], 1024).into(), ([10, 0, 0, 2], 53).into());
        let mut bytes = frame.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&[1; 8]).unwrap();
        // Every other four packets have another type of service.
        bytes[15] = number & 4;
        bytes[24..26].fill(0);
        let sum = bytes[14..34]
            .chunks(2)
            .fold(0, |sum, pair| sum + u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum = (sum & 0xffff) + (sum >> 16);
        bytes[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        TestPacket { bytes, time: element::Timestamp(1), annotations: [0; 48], headers: [None; 3] }
    });
    let packets: Vec<_> = packets.collect();
    for (assigned, offloaded) in [("", &["first", "nat"][..]), ("rules 1", &[])] {
        let exchange = offer(vec![packets.clone()]);
        let text = format!(
            "StaticThreadSched({assigned}); TestSource({exchange}, 0) -> CheckIPHeader(14) -> first :: FlowCounter
                -> tos :: IPClassifier(ip tos 0, -) -> nat :: IPRewriter(pattern 1.1.1.1 1024-65535 - - 0 0)
                -> rules :: IPFilter(allow src host 1.1.1.1, deny all) -> TestSink({exchange}, 0);
            tos[1] -> rules"
        );
        let run = TestRun { offloaded, ..TestRun::trace().on(2) };
        run.text(&text, &[]).unwrap();
        assert_eq!(collect(exchange).len(), 32, "{assigned}{offloaded:?}");
    }
}

#[test]
fn an_offloaded_element_takes_along_what_shares_its_state_and_leaves_assigned_elements() {
    // The translator of ICMP errors uses the mappings of the offloaded translator.
    let text = "SOURCE -> MarkIPHeader(14) -> rw :: IPRewriter(pattern 1.1.1.1 1024-65535 - - 0 1) -> e :: ICMPError(2.2.2.2,
        unreachable, host) -> StoreIPAddress(192.168.0.1, src) -> SetIPChecksum -> icmp :: ICMPRewriter(rw) -> SINK;
        rw[1] -> Discard";
    let mut counts = Vec::new();
    for (workers, offloaded) in [(1, &[][..]), (2, &[]), (2, &["rw"]), (2, &["icmp"])] {
        let run = TestRun { offloaded, ..TestRun::trace().on(workers) };
        let exchange = offer(vec![packets()]);
        let text = text.replace("SOURCE", &format!("TestSource({exchange}, 0)"));
        let text = text.replace("SINK", &format!("TestSink({exchange}, 0)"));
        let outcome = run.text(&text, &[]).unwrap();
        assert!(outcome.report.balances());
        counts.push(collect(exchange).len());
    }
    assert!(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    // The second source, its queue and its task are at the worker of the offloaded element.
    let text = "StaticThreadSched(other 1); SOURCE -> n :: Null -> SINK;
        other :: InfiniteSource(LIMIT 40, STOP false) -> Queue -> DelayUnqueue(1ms) -> count :: Counter -> Discard";
    let (outcome, seen) = run(TestRun::trace().on(2).offload(&["n"]), text, &["count.count"]);
    assert_all_in_order(&seen);
    assert_eq!(outcome.values[0].as_deref(), Ok("40"));
}
