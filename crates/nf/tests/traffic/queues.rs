//! Tests of queues, schedulers, switches and shapers in whole configurations.

use element::Timestamp;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun, in_clicks_words, worker};

/// Makes packets whose only byte is their number, which is also their time stamp in seconds.
fn numbered(bytes: &[u8]) -> Vec<TestPacket> {
    bytes.iter().map(|&b| stamped(b, Timestamp::from_secs(i64::from(b)))).collect()
}

fn stamped(byte: u8, time: Timestamp) -> TestPacket {
    TestPacket { bytes: vec![byte], time, annotations: [0; 48], headers: [None; 3] }
}

/// Runs a configuration in which `$A;`, `$B;` and `$C;` are replaced by sources of the inputs, and `$OUT0`,
/// `$OUT1` by sinks.
fn run(run: TestRun, text: &str, inputs: Vec<Vec<TestPacket>>, handlers: &[&str]) -> (RunResults, Vec<Seen>) {
    let number = offer(inputs);
    let mut text = text.to_string();
    for (i, letter) in ["A;", "B;", "C;"].iter().enumerate() {
        text = text.replace(&format!("${letter}"), &format!("TestSource({number}, {i})"));
    }
    for sink in 0..2 {
        text = text.replace(&format!("$OUT{sink}"), &format!("TestSink({number}, {sink})"));
    }
    let outcome = run.text(&text, handlers).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome, collect(number))
}

fn one_by_one() -> TestRun {
    TestRun { burst: None, ..TestRun::default() }
}

/// Returns the numbers of the packets that arrived at a sink, in order.
fn bytes(seen: &[Seen], sink: usize) -> Vec<u8> {
    seen.iter().filter(|s| s.sink == sink).map(|s| s.bytes[0]).collect()
}

/// Returns the numbers of the packets in the order in which a scheduler lets them pass. Its three queues
/// are filled before the first pull.
fn scheduled(scheduler: &str) -> Vec<u8> {
    let text = format!(
        "s :: {scheduler}; $A; -> q :: Queue -> s; $B; -> Queue -> [1] s; $C; -> Queue -> [2] s;
         s -> u :: Unqueue(ACTIVE false) -> $OUT0;
         Script(wait 1s, write u.active true, wait 1s, stop)"
    );
    let inputs = vec![numbered(&[10, 11, 12]), numbered(&[20]), numbered(&[30, 31, 32, 33])];
    bytes(&run(one_by_one(), &text, inputs, &[]).1, 0)
}

#[test]
fn schedulers_choose_in_their_order() {
    assert_eq!(scheduled("RoundRobinSched"), [10, 20, 30, 11, 31, 12, 32, 33]);
    assert_eq!(scheduled("RoundRobinMultiSched(2)"), [10, 11, 20, 30, 31, 12, 32, 33]);
    assert_eq!(scheduled("PrioSched"), [10, 11, 12, 20, 30, 31, 32, 33]);
    // The strides are 1/2, 1 and 1, so the first input has two turns for each turn of the others.
    assert_eq!(scheduled("StrideSched(2, 1, 1)"), [10, 11, 20, 30, 12, 31, 32, 33]);
    // Each packet is one byte long, so a quantum of two is two packets per turn. The second input is the
    // first to get credit.
    assert_eq!(scheduled("DRRSched(2)"), [20, 30, 31, 10, 11, 32, 33, 12]);
    assert_eq!(scheduled("TimeSortedSched"), [10, 11, 12, 20, 30, 31, 32, 33]);
    assert_eq!(scheduled("StaticPullSwitch(2)"), [30, 31, 32, 33]);
}

#[test]
fn batches_are_scheduled_as_single_packets_are() {
    for scheduler in ["RoundRobinSched", "PrioSched", "StrideSched(3, 1, 2)", "TimeSortedSched(BUFFER 2)"] {
        let text = format!(
            "s :: {scheduler}; $A; -> Queue -> s; $B; -> Queue -> [1] s; $C; -> Queue -> [2] s;
             s -> u :: Unqueue(ACTIVE false) -> $OUT0; Script(wait 1s, write u.active true, wait 1s, stop)"
        );
        let inputs = || vec![numbered(&[1, 4, 9]), numbered(&[2]), numbered(&[3, 5, 6, 7, 8])];
        let single = run(one_by_one(), &text, inputs(), &[]).1;
        let batch = run(TestRun::default(), &text, inputs(), &[]).1;
        assert_eq!(bytes(&single, 0), bytes(&batch, 0), "{scheduler}");
    }
}

#[test]
fn the_order_of_time_stamps_is_watched() {
    let text = "t :: TimeSortedSched(STOP true, BUFFER $n) -> Unqueue -> $OUT0;
                $A; -> Queue -> Unqueue(ACTIVE false) -> Discard; $B; -> a :: Queue -> t; $C; -> Queue -> [1] t;";
    let inputs = || vec![Vec::new(), numbered(&[1, 5, 4, 8]), numbered(&[2, 3, 9])];
    for (buffer, order, well) in [("1", [1, 2, 3, 5, 4, 8, 9], "false"), ("2", [1, 2, 3, 4, 5, 8, 9], "true")]
    {
        let text = text.replace("$n", buffer);
        let (outcome, seen) = run(one_by_one(), &text, inputs(), &["t.well_ordered"]);
        assert_eq!((bytes(&seen, 0).as_slice(), &outcome.values[0]), (&order[..], &Ok(well.to_string())));
    }
}

#[test]
fn queues_drop_and_order_as_they_say() {
    let held = |queue: &str| {
        let text = format!(
            "$A; -> q :: {queue}; $B; -> Discard; q -> u :: Unqueue(ACTIVE false) -> $OUT0; q[1] -> $OUT1;
             Script(wait 1s, write u.active true, wait 1s, stop)"
        );
        let inputs = vec![numbered(&[1, 2, 3, 4, 5])];
        let (outcome, seen) =
            run(one_by_one(), &text, inputs, &["q.drops", "q.highwater_length", "q.length"]);
        assert_eq!(outcome.values, ["2", "3", "0"].map(|v| Ok(v.to_string())), "{queue}");
        let class = queue.split('(').next().unwrap();
        assert_eq!(outcome.messages, format!("q :: {class}: overflow\n"));
        (bytes(&seen, 0), bytes(&seen, 1))
    };
    for class in ["Queue", "SimpleQueue", "NotifierQueue", "QuickNoteQueue", "ThreadSafeQueue"] {
        assert_eq!(held(&format!("{class}(3)")), (vec![1, 2, 3], vec![4, 5]), "{class}");
    }
    assert_eq!(held("FrontDropQueue(3)"), (vec![3, 4, 5], vec![1, 2]));
}

#[test]
fn pullers_sleep_through_schedulers_and_are_woken() {
    for between in [
        "RoundRobinSched",
        "PrioSched",
        "StrideSched(1, 1)",
        "DRRSched(100)",
        "TimeSortedSched",
        "PullSwitch(1)",
    ] {
        let text = format!(
            "s :: {between}; Idle -> Queue -> s; src :: TimedSource(1s, LIMIT 2) -> q :: Queue -> [1] s;
             s -> Null -> u :: Unqueue -> d :: Discard"
        );
        let mut worker = worker(&text, one_by_one()).unwrap_or_else(|e| panic!("{e}"));
        let [unqueue, discard] = ["u", "d"].map(|name| worker.plan().graph.find(name));
        // No packet comes for a second of simulated time. No element may keep the driver busy in that
        // second.
        let mut steps = 0;
        while worker.step(1) {
            steps += 1;
            assert!(steps < 100, "{between}: does not sleep");
        }
        assert_eq!(worker.read(unqueue, "scheduled", "").unwrap(), "false", "{between}");
        worker.run();
        assert_eq!(worker.read(discard, "count", "").unwrap(), "2", "{between}");
        worker.finish().unwrap();
    }
}

#[test]
fn switches_choose() {
    let out = |text: &str, n| {
        let text = format!("$A; -> s :: {text}; s[0] -> $OUT0; s[1] -> $OUT1");
        let (outcome, seen) = run(one_by_one(), &text, vec![numbered(&(0..n).collect::<Vec<u8>>())], &[]);
        let dropped: u64 = outcome.report.elements.iter().flat_map(|e| &e.drops).map(|(_, n)| n).sum();
        (bytes(&seen, 0), bytes(&seen, 1), dropped)
    };
    assert_eq!(out("Switch(1)", 3), (vec![], vec![0, 1, 2], 0));
    assert_eq!(out("Switch(-1)", 3), (vec![], vec![], 3));
    assert_eq!(out("StaticSwitch(0)", 2), (vec![0, 1], vec![], 0));
    assert_eq!(out("StaticSwitch(2)", 2), (vec![], vec![], 2));
    assert_eq!(out("RoundRobinSwitch", 5), (vec![0, 2, 4], vec![1, 3], 0));
    assert_eq!(out("StrideSwitch(1, 2)", 6), (vec![2, 5], vec![0, 1, 3, 4], 0));
    assert_eq!(out("HashSwitch(0, 1)", 4), (vec![0, 2], vec![1, 3], 0));
}

/// Returns the times at which packets leave an element, in microseconds. All packets are in a queue
/// upstream at time zero. `push` is true if the element has a push output.
fn departures(element: &str, push: bool, packets: Vec<TestPacket>) -> Vec<i64> {
    let behind = if push { "" } else { "-> Unqueue" };
    let text = format!("$A; -> Queue -> {element} {behind} -> SetTimestamp -> $OUT0");
    let run_as = TestRun { burst: None, ..TestRun::trace() };
    run(run_as, &text, vec![packets], &[]).1.iter().map(|seen| seen.time.0 / 1_000).collect()
}

fn long(n: usize, length: usize) -> Vec<TestPacket> {
    let packet = TestPacket { bytes: vec![0; length], ..stamped(0, Timestamp::ZERO) };
    vec![packet; n]
}

#[test]
fn rates_are_exact() {
    // 20 ms at 10 packets per second are less than one packet, so the bucket holds the minimum of one
    // token, which is available at the start.
    assert_eq!(departures("RatedUnqueue(10)", true, long(4, 1)), [0, 100_000, 200_000, 300_000]);
    assert_eq!(departures("RatedUnqueue(3, BURST_SIZE 2)", true, long(4, 1)), [0, 0, 333_333, 666_666]);
    assert_eq!(
        departures("RatedUnqueue(100, BURST_DURATION 30ms)", true, long(5, 1)),
        [0, 0, 0, 10_000, 20_000]
    );
    assert_eq!(departures("RatedUnqueue(0)", true, long(3, 1)), [0; 0]);
    assert_eq!(departures("BandwidthRatedUnqueue(0)", true, long(3, 1)), [0; 0]);
    // At 1,000 bytes per second with a burst of 100 bytes, a packet leaves as long as the burst is not used
    // up.
    let bandwidth = "BandwidthRatedUnqueue(1000Bps, BURST_BYTES 100)";
    assert_eq!(departures(bandwidth, true, long(4, 60)), [0, 0, 20_000, 80_000]);
    let link = "BandwidthRatedUnqueue(1000Bps, BURST_BYTES 0, LINK_RATE true)";
    assert_eq!(departures(link, true, long(3, 76)), [0, 100_000, 200_000]);
    assert_eq!(departures("Shaper(4)", false, long(5, 1)), [0, 250_000, 500_000, 750_000, 1_000_000]);
    assert_eq!(departures("BandwidthShaper(1000Bps)", false, long(3, 250)), [0, 250_000, 500_000]);
    // TimedUnqueue may pull two packets per millisecond, but at its first turn, at time 0, the queue has only
    // one packet.
    assert_eq!(departures("TimedUnqueue(1ms, 2)", true, long(5, 1)), [0, 1_000, 1_000, 2_000, 2_000]);
    assert_eq!(departures("Burster(1ms)", true, long(10, 1))[8..], [1_000, 2_000]);
}

#[test]
fn links_delay_by_latency_length_and_what_is_ahead() {
    // At 1,000 bytes per second, 100 bytes take 100 ms. The latency of 10 ms is added to each packet, but
    // not to the waiting time of the next.
    assert_eq!(departures("LinkUnqueue(10ms, 1000Bps)", true, long(3, 100)), [110_000, 210_000, 310_000]);
    assert_eq!(departures("LinkUnqueue(10ms, 0)", true, long(2, 100)), [10_000, 10_000]);
    let stamped = [1_000, 2_500].map(|millis| stamped(7, Timestamp(millis * 1_000_000)));
    assert_eq!(departures("DelayUnqueue(250ms)", true, stamped.to_vec()), [1_250_000, 2_750_000]);
    assert_eq!(departures("DelayShaper(250ms)", false, stamped.to_vec()), [1_250_000, 2_750_000]);
    // A packet without a time stamp is delayed from the time at which it is pulled.
    assert_eq!(departures("DelayUnqueue(250ms)", true, long(1, 1)), [250_000]);
}

#[test]
fn splitters_and_meters_look_at_the_rate() {
    let text = "src :: TimedSource(10ms, LIMIT 100) -> s :: RatedSplitter(20, BURST_SIZE 1);
                s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;
                TimedSource(10ms, LIMIT 1000) -> m :: Meter(10, 50); m[0] -> m0 :: Counter -> Discard;
                m[1] -> m1 :: Counter -> Discard; m[2] -> m2 :: Counter -> Discard";
    let (outcome, _) =
        run(TestRun::trace(), text, vec![], &["a.count", "b.count", "m.rate", "m.meters", "s.rate"]);
    // One of five packets passes: one every 50 ms.
    assert_eq!(outcome.values[..2], [Ok("20".into()), Ok("80".into())]);
    let rate: f64 = outcome.values[2].as_ref().unwrap().parse().unwrap();
    // The meter averages packets that come every 10 ms, so the rate varies around 100 per second.
    assert!((60.0..170.0).contains(&rate), "{rate}");
    assert_eq!(outcome.values[4], Ok("20".into()));
}

#[test]
fn red_finds_its_queues_on_both_sides() {
    for text in [
        "InfiniteSource(LIMIT 400) -> Null -> r :: RED(5, 50, 0.5) -> q1 :: Queue -> Unqueue(ACTIVE false) -> Discard",
        "InfiniteSource(LIMIT 400) -> q1 :: Queue -> Null -> r :: RED(5, 50, 0.5) -> Unqueue(1) -> Discard",
        "InfiniteSource(LIMIT 400) -> r :: RED(5, 50, 0.5, QUEUES q1) -> Discard;
         InfiniteSource(LIMIT 60) -> q1 :: Queue -> Unqueue(ACTIVE false) -> Discard",
    ] {
        let (outcome, _) = run(TestRun::default(), text, vec![], &["r.queues", "r.drops"]);
        assert_eq!(outcome.values[0], Ok("q1\n".into()));
        let drops: u64 = outcome.values[1].as_ref().unwrap().parse().unwrap();
        assert!((20..400).contains(&drops), "{drops}: {text}");
    }
    let error = worker("Idle -> RED(5, 50, 0.5) -> Discard", TestRun::default()).err().unwrap();
    assert!(error.contains("no nearby Queues"), "{error}");
}

#[test]
fn codel_drops_when_waits_stay_long() {
    // 100 packets per second arrive and 50 leave, so the waiting time grows until CoDel drops packets.
    let text = "TimedSource(10ms, LIMIT 1000) -> SetTimestamp(FIRST true) -> q :: Queue -> c :: CoDel($how)
                -> Shaper(50) -> Unqueue -> Discard";
    let drops = |how: &str| {
        let text = text.replace("$how", how);
        let (outcome, _) = run(TestRun::trace(), &text, vec![], &["c.drops", "c.target"]);
        assert_eq!(outcome.values[1], Ok(how.split(',').next().unwrap_or_default().into()));
        outcome.values[0].clone().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(drops("100s"), 0);
    assert!((50..700).contains(&drops("5ms, 100ms")), "{}", drops("5ms, 100ms"));
}

#[test]
fn samples_sinks_and_handlers() {
    let text = "InfiniteSource(LIMIT 10000) -> s :: RandomSample(DROP 0.25) -> c :: Counter -> Discard;
                InfiniteSource(LIMIT 10) -> q :: Queue -> t :: TimedSink(100ms);
                Script(wait 0.55s, print q.length, write s.drop_prob 0.1, print s.sampling_prob,
                       write t.interval 2s, print t.interval, stop)";
    let (outcome, _) = run(TestRun::trace(), text, vec![], &["s.drops", "c.count", "s.drop_prob"]);
    assert_eq!(outcome.output + &outcome.messages, "5\n0.9\n2.000000s\n");
    let drops: u64 = outcome.values[0].as_ref().unwrap().parse().unwrap();
    // A quarter of 10,000 packets is expected; five standard deviations are 217.
    assert!((2283..2717).contains(&drops), "{drops}");
    assert_eq!(outcome.values[2], Ok("0.1".into()));
}

#[test]
fn mistakes_are_told() {
    let error = |text: &str| worker(text, TestRun::default()).err().unwrap_or_default();
    for (element, expected) in [
        ("Switch(3)", "output must be < 1"),
        ("StrideSwitch(1, 2)", "2 numbers for output 0: give one for each"),
        ("RandomSample", "sampling probability must be between 0 and 1"),
        ("RandomSample(SAMPLE 0.1, DROP 0.2)", "give at most one of SAMPLE and DROP"),
        (
            "RatedSplitter(1, BURST_SIZE 1, BURST_DURATION 1s)",
            "cannot specify both BURST_DURATION and BURST_SIZE",
        ),
        ("RandomBitErrors(0.1, twist)", "bad action 'twist' (must be 'set', 'clear', or 'flip')"),
        ("HashSwitch(1, 0)", "length must be > 0"),
        ("Tee(2)", "N: 2 outputs are wanted, but only output 0 is connected"),
    ] {
        let text = error(&format!("Idle -> {element} -> Discard"));
        assert!(text.contains(expected), "{element}: {text}");
    }
    for (element, expected) in [
        ("StrideSwitch(1, 2)", "need 1 arguments, one per output port"),
        ("Tee(2)", "1 outputs implies 1 arms"),
        ("HashSwitch(1, 0)", "length must be > 0"),
    ] {
        let text = in_clicks_words(&format!("Idle -> {element} -> Discard"));
        assert!(text.contains(expected), "{element}: {text}");
    }
    let text = error("Idle -> TimeSortedSched(BUFFER 0) -> Discard");
    assert!(text.contains("BUFFER must be at least 1"), "{text}");
    let text = error("Idle -> LinkUnqueue(1s, 99Bps) -> Discard");
    assert!(text.contains("bandwidth too small, minimum 100Bps, or 0 to disable bandwidth"), "{text}");
}
