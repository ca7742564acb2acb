//! Tests of the elements for ARP, in simulated time: which packets wait for an answer, where they are sent,
//! and which answers are believed.

use element::Timestamp;
use engine::{ClockKind, Worker};
use proptest::prelude::*;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{TestRun, in_clicks_words, worker};

/// Returns a run in which time moves by a millisecond with each task, timer and step.
fn run() -> TestRun {
    let start = Timestamp::from_secs(1_000_000_000);
    TestRun {
        clock: ClockKind::Simulated { start, tick: Timestamp(1_000_000) },
        burst: None,
        ..TestRun::default()
    }
}

/// A running configuration with a querier `q` and two sources: `ip` for packets and `arp` for replies. A
/// test sends packets into it one at a time.
struct Bench {
    worker: Worker,
    exchange: u64,
}

impl Bench {
    fn new(querier: &str, more: &str) -> Bench {
        let exchange = offer(Vec::new());
        let text = format!(
            "ip :: TimedSource(1000000, LIMIT 1, ACTIVE false) -> GetIPAddress(16) -> q :: {querier};
             arp :: TimedSource(1000000, LIMIT 1, ACTIVE false) -> [1] q;
             q -> TestSink({exchange}, 0); q [1] -> TestSink({exchange}, 1); {more}",
        )
        .replace("EXCHANGE", &exchange.to_string());
        Bench { worker: worker(&text, run()).unwrap_or_else(|e| panic!("{e}")), exchange }
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (element, handler) = name.split_once('.').unwrap();
        let id = self.worker.plan().graph.find(element).unwrap();
        self.worker.write(Some(id), handler, value)
    }

    fn read(&mut self, name: &str) -> String {
        let (element, handler) = name.split_once('.').unwrap();
        let id = self.worker.plan().graph.find(element).unwrap();
        self.worker.read(Some(id), handler, "").unwrap()
    }

    fn send(&mut self, source: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.write(&format!("{source}.data"), &format!("\\<{hex}>")).unwrap();
        self.write(&format!("{source}.reset"), "").unwrap();
        for active in ["false", "true"] {
            self.write(&format!("{source}.active"), active).unwrap();
        }
        self.worker.step(1);
    }

    fn pass_time(&mut self, milliseconds: i64) {
        let until = self.worker.core().now + Timestamp(milliseconds * 1_000_000);
        while self.worker.core().now < until {
            self.worker.step(1);
        }
    }

    fn held(&mut self) -> usize {
        self.worker
            .report()
            .elements
            .iter()
            .filter(|e| e.class == "ARPQuerier")
            .map(|e| e.held as usize)
            .sum()
    }

    /// Returns the number of packets that an element has dropped, for each drop reason.
    fn drops(&mut self, element: &str) -> Vec<(&'static str, u64)> {
        let report = self.worker.report();
        let element = report.elements.iter().find(|e| e.name == element).unwrap();
        element.drops.iter().filter(|(_, n)| **n > 0).map(|(&reason, &n)| (reason, n)).collect()
    }

    fn finish(mut self) -> Vec<Seen> {
        self.worker.finish().unwrap();
        assert!(self.worker.report().balances(), "{:?}", self.worker.report());
        assert_eq!(self.held(), 0);
        collect(self.exchange)
    }
}

/// Makes an IPv4 packet with a destination address and a number, by which it is recognised at a sink.
fn packet(to: [u8; 4], number: u32) -> Vec<u8> {
    [&[0x45; 16][..], &to, &number.to_be_bytes()].concat()
}

/// Makes an ARP reply of host `10.0.0.last`, whose Ethernet address ends in `mac`.
fn reply(last: u8, mac: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, mac, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
    frame.extend([2, 0, 0, 0, 0, mac, 10, 0, 0, last, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    frame
}

/// Returns two values of each packet that left by output 0 of the querier: the packet's number (its last
/// byte), and the last byte of its Ethernet destination address.
fn numbers(seen: &[Seen]) -> Vec<(u8, u8)> {
    let data = seen.iter().filter(|seen| seen.sink == 0);
    data.map(|seen| (*seen.bytes.last().unwrap(), seen.bytes[5])).collect()
}

/// Makes an ARP reply about any IPv4 address, with any Ethernet address.
fn reply_of(ip: [u8; 4], mac: [u8; 6]) -> Vec<u8> {
    let mut frame = reply(2, 0x22);
    frame[6..12].copy_from_slice(&mac);
    frame[22..28].copy_from_slice(&mac);
    frame[28..32].copy_from_slice(&ip);
    frame
}

#[test]
fn replies_about_what_no_host_has_are_not_believed() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, UNSOLICITED true)", "");
    let other = [2, 0, 0, 0, 0, 6];
    // Addresses that no neighbour can have: zero, this network, this host, loopback, the local and the
    // limited broadcast address, multicast.
    let addresses = [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [10, 0, 0, 1],
        [127, 0, 0, 1],
        [10, 0, 0, 255],
        [255, 255, 255, 255],
        [224, 0, 0, 1],
        [239, 1, 2, 3],
    ];
    addresses.iter().for_each(|&ip| bench.send("arp", &reply_of(ip, other)));
    // Ethernet addresses that no neighbour can have: zero, this host's own, broadcast and multicast.
    let macs = [[0; 6], [2, 0, 0, 0, 0, 1], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]];
    macs.iter().for_each(|&mac| bench.send("arp", &reply_of([10, 0, 0, 2], mac)));
    assert_eq!(bench.read("q.table"), "");
    assert_eq!(bench.drops("q"), [("unsuitable packet", 12)]);
    (0..).zip(&addresses[4..]).for_each(|(number, &ip)| bench.send("ip", &packet(ip, number)));
    assert!(numbers(&bench.finish()).iter().all(|(_, mac)| *mac != 6));
}

#[test]
fn a_neighbour_that_answers_is_not_replaced() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1)", "");
    bench.send("ip", &packet([10, 0, 0, 2], 1));
    bench.send("arp", &reply(2, 0x22));
    for number in 2..20 {
        bench.send("arp", &reply(2, 6));
        bench.send("ip", &packet([10, 0, 0, 2], number));
        // Before the querier replaces the known Ethernet address by another one, it asks the known host
        // again, by unicast; and that host answers.
        assert_eq!(bench.read("q.queries"), number.to_string());
        bench.send("arp", &reply(2, 6));
        bench.send("arp", &reply(2, 0x22));
    }
    let seen = bench.finish();
    assert!(numbers(&seen).iter().all(|(_, mac)| *mac == 0x22), "{:?}", numbers(&seen));
    let queries: Vec<_> = seen.iter().filter(|seen| seen.sink == 1).map(|seen| seen.bytes[5]).collect();
    assert_eq!((queries[0], &queries[1..]), (0xff, &[0x22; 18][..]));
}

/// A neighbour's address moves to another host, as when a backup router takes over. The first host no
/// longer answers queries, so the querier then believes the other host.
#[test]
fn a_neighbour_that_is_silent_is_replaced() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1)", "");
    bench.send("ip", &packet([10, 0, 0, 2], 1));
    bench.send("arp", &reply(2, 0x22));
    for number in 2..6 {
        bench.send("arp", &reply(2, 0x33));
        bench.send("ip", &packet([10, 0, 0, 2], number));
        bench.pass_time(150);
    }
    let seen = bench.finish();
    assert_eq!(numbers(&seen), [(1, 0x22), (2, 0x22), (3, 0x22), (4, 0x22), (5, 0x33)]);
    let queries: Vec<_> = seen.iter().filter(|seen| seen.sink == 1).map(|seen| seen.bytes[5]).collect();
    assert_eq!(queries, [0xff, 0x22, 0x22, 0xff]);
}

#[test]
fn replies_that_nobody_has_asked_for_replace_neighbours_where_they_are_to() {
    for (option, known) in [("", 0x22), (", UNSOLICITED true", 0x33)] {
        let querier = format!("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, POLL_TIMEOUT 0{option})");
        let mut bench = Bench::new(&querier, "");
        bench.send("arp", &reply(3, 0x33));
        // Until the querier has sent a query for an IP address, each reply replaces the Ethernet address of
        // its entry.
        bench.send("arp", &reply(3, 0x34));
        assert!(bench.read("q.table").starts_with("10.0.0.3 1 02-00-00-00-00-34"));
        bench.send("ip", &packet([10, 0, 0, 2], 1));
        bench.send("arp", &reply(2, 0x22));
        bench.send("arp", &reply(2, 0x33));
        bench.send("ip", &packet([10, 0, 0, 2], 2));
        assert_eq!(numbers(&bench.finish()), [(1, 0x22), (2, known)]);
    }
}

#[test]
fn addresses_are_asked_for_again_and_expire() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TIMEOUT 5, POLL_TIMEOUT 2)", "");
    bench.send("ip", &packet([10, 0, 0, 2], 1));
    bench.send("arp", &reply(2, 0x22));
    bench.pass_time(2_100);
    bench.send("ip", &packet([10, 0, 0, 2], 2));
    bench.send("ip", &packet([10, 0, 0, 2], 3));
    assert_eq!(bench.read("q.queries"), "2");
    bench.pass_time(3_100);
    bench.send("ip", &packet([10, 0, 0, 2], 4));
    assert_eq!([bench.read("q.length"), bench.read("q.queries")], ["1", "3"]);
    assert!(bench.read("q.table").starts_with("10.0.0.2 0 02-00-00-00-00-22 5."));
    bench.pass_time(20_000);
    assert_eq!([bench.read("q.length"), bench.read("q.count")], ["0", "0"]);
    assert_eq!(bench.read("q.stats"), "1 packets killed\n3 ARP queries sent\n");
    let seen = bench.finish();
    assert_eq!(numbers(&seen), [(1, 0x22), (2, 0x22), (3, 0x22)]);
    let queries: Vec<[u8; 6]> =
        seen.iter().filter(|s| s.sink == 1).map(|s| s.bytes[..6].try_into().unwrap()).collect();
    // The queries are a broadcast, then after POLL_TIMEOUT a unicast to the known host, and a broadcast when
    // its entry has expired.
    assert_eq!(queries, [[0xff; 6], [2, 0, 0, 0, 0, 0x22], [0xff; 6]]);
}

#[test]
fn handlers_change_the_table() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1)", "");
    bench.send("ip", &packet([10, 0, 0, 2], 1));
    bench.send("ip", &packet([10, 0, 0, 2], 2));
    assert_eq!(bench.held(), 2);
    bench.write("q.insert", "10.0.0.2 2:0:0:0:0:22").unwrap();
    assert_eq!([bench.read("q.length"), bench.read("q.count")], ["0", "1"]);
    bench.send("ip", &packet([10, 0, 0, 2], 3));
    bench.write("q.delete", "10.0.0.2").unwrap();
    bench.send("ip", &packet([10, 0, 0, 2], 4));
    assert_eq!([bench.read("q.length"), bench.read("q.queries")], ["1", "2"]);
    bench.write("q.clear", "").unwrap();
    assert_eq!([bench.read("q.length"), bench.read("q.queries"), bench.read("q.table")], ["0", "0", ""]);
    bench.write("q.ipaddr", "0.0.0.0").unwrap();
    bench.send("ip", &packet([10, 0, 0, 255], 5));
    assert_eq!([bench.read("q.drops"), bench.read("q.broadcast")], ["1", "10.0.0.255"]);
    for (handler, value, error) in [
        ("q.insert", "10.0.0.2", "ETH: required argument missing"),
        (
            "q.insert",
            "x 2:0:0:0:0:2",
            "IP: 'x' is not an IP address; write four numbers from 0 to 255, such as 10.0.0.1",
        ),
        ("q.insert", "10.0.0.2 2:0:0:0:0:2 x", "too many arguments"),
        ("q.delete", "", "IP: required argument missing"),
        ("q.ipaddr", "x", "expected IP address"),
    ] {
        assert_eq!(bench.write(handler, value).unwrap_err(), error, "{handler} {value}");
    }
    assert_eq!(numbers(&bench.finish()), [(1, 0x22), (2, 0x22), (3, 0x22)]);
}

#[test]
fn queriers_share_a_table() {
    let more = "t :: ARPTable(CAPACITY 3);
        other :: TimedSource(1000000, LIMIT 1, ACTIVE false) -> GetIPAddress(16)
            -> r :: ARPQuerier(10.1.0.1, 2:0:0:0:0:9, TABLE t) -> TestSink(EXCHANGE, 2);
        Idle -> [1] r [1] -> TestSink(EXCHANGE, 3)";
    let mut bench = Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t)", more);
    bench.send("other", &packet([10, 0, 0, 2], 1));
    bench.send("ip", &packet([10, 0, 0, 2], 2));
    bench.send("other", &packet([10, 0, 0, 3], 3));
    assert_eq!([bench.read("t.length"), bench.read("t.count")], ["3", "2"]);
    // A packet leaves by the querier at which it arrived, even if the other querier receives the reply.
    bench.send("arp", &reply(2, 0x22));
    assert_eq!([bench.read("t.length"), bench.read("r.length")], ["1", "1"]);
    bench.write("t.insert", "10.0.0.3 2:0:0:0:0:33").unwrap();
    assert_eq!((bench.read("t.length").as_str(), bench.held()), ("0", 0));
    bench.send("ip", &packet([10, 0, 0, 4], 4));
    bench.write("t.clear", "").unwrap();
    assert_eq!((bench.read("t.length").as_str(), bench.held()), ("0", 0));
    // The table has room for three waiting packets, and the querier `r` holds all three. They are not evicted
    // for a packet of the querier `q`, which is therefore dropped.
    (5..8).for_each(|number| bench.send("other", &packet([10, 0, 0, 5], number)));
    bench.send("ip", &packet([10, 0, 0, 5], 8));
    assert_eq!((bench.read("t.length").as_str(), bench.held()), ("3", 3));
    let seen = bench.finish();
    assert_eq!(numbers(&seen), [(2, 0x22)]);
    let other: Vec<(u8, u8)> =
        seen.iter().filter(|s| s.sink == 2).map(|s| (*s.bytes.last().unwrap(), s.bytes[5])).collect();
    assert_eq!(other, [(1, 0x22), (3, 0x33)]);
    assert!(seen.iter().filter(|s| s.sink == 2).all(|s| s.bytes[6..12] == [2, 0, 0, 0, 0, 9]));
}

/// Returns a running configuration in which two queriers share a table `t`. The source `ip` leads to the
/// querier `q`, the source `other` to the querier `r`.
fn sharing(table: &str) -> Bench {
    let more = format!(
        "t :: {table}; t2 :: ARPTable;
         other :: TimedSource(1000000, LIMIT 1, ACTIVE false) -> GetIPAddress(16)
            -> r :: ARPQuerier(10.1.0.1, 2:0:0:0:0:9, TABLE t) -> TestSink(EXCHANGE, 2);
         Idle -> [1] r [1] -> TestSink(EXCHANGE, 3)"
    );
    Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t)", &more)
}

#[test]
fn what_an_idle_querier_holds_expires() {
    let mut bench = sharing("ARPTable(CAPACITY 1, TIMEOUT 1)");
    bench.send("other", &packet([10, 0, 0, 2], 1));
    bench.send("ip", &packet([10, 0, 0, 3], 2));
    assert_eq!([bench.read("r.length"), bench.read("t.drops")], ["1", "1"], "there is no room");
    bench.pass_time(4_000);
    bench.send("ip", &packet([10, 0, 0, 3], 3));
    // An expired packet makes room at once. It is dropped by its own querier, although that querier has
    // received no packet since.
    assert_eq!((bench.read("t.length").as_str(), bench.held()), ("1", 1));
    assert_eq!(bench.drops("r"), [("out of time", 1)]);
    assert_eq!(bench.read("t.drops"), "2");
    bench.send("arp", &reply(3, 0x33));
    assert_eq!(numbers(&bench.finish()), [(3, 0x33)]);
}

#[test]
fn what_gives_way_to_another_entry_is_told() {
    let mut bench = sharing("ARPTable(ENTRY_CAPACITY 1)");
    bench.send("other", &packet([10, 0, 0, 2], 1));
    bench.send("ip", &packet([10, 0, 0, 3], 2));
    assert_eq!(bench.drops("r"), [("queue full", 1)]);
    assert_eq!((bench.read("t.length").as_str(), bench.held()), ("1", 1));
    // The querier `r`, whose entry for 10.0.0.2 was evicted, makes a new entry for the same address, which
    // evicts the entry of `q`. The new entry must not be taken for the evicted one.
    bench.send("other", &packet([10, 0, 0, 2], 3));
    assert_eq!(bench.drops("q"), [("queue full", 1)]);
    bench.send("arp", &reply(2, 0x22));
    let seen = bench.finish();
    assert_eq!(seen.iter().filter(|s| s.sink == 2).map(|s| s.bytes[37]).collect::<Vec<_>>(), [3]);
}

#[test]
fn the_table_itself_shows_what_is_so() {
    let mut bench = sharing("ARPTable(TIMEOUT 1)");
    bench.send("other", &packet([10, 0, 0, 2], 1));
    bench.pass_time(4_000);
    assert_eq!(["count", "length", "drops"].map(|name| bench.read(&format!("t.{name}"))), ["0", "0", "1"]);
    assert_eq!((bench.held(), bench.drops("r")), (0, vec![("out of time", 1)]));

    let text =
        "t :: ARPTable; InfiniteSource(LIMIT 3, ACTIVE true) -> StoreIPAddress(10.0.0.2, 30) -> Strip(14)
            -> GetIPAddress(16) -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t) -> Discard; Idle -> [1] q;
        Script(wait 1s, print t.length, write t.clear, print t.length, print t.drops, print t.count, stop)";
    assert_eq!(run().text(text, &[]).unwrap().output, "3\n0\n3\n0\n");
}

/// ARP entries are checked for expiry at the times of Click's timer: first one TIMEOUT after the start of the
/// run, then at intervals of TIMEOUT plus a second. So an entry may stay longer than the timeout.
#[test]
fn entries_are_looked_at_when_clicks_timer_would() {
    for (table, name) in [("", "q"), (", TABLE t", "t")] {
        let querier = format!("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TIMEOUT 5{table})");
        let mut bench = Bench::new(&querier, "t :: ARPTable(TIMEOUT 5)");
        bench.pass_time(3_000);
        bench.send("ip", &packet([10, 0, 0, 2], 1));
        bench.pass_time(7_000);
        assert_eq!(bench.read(&format!("{name}.count")), "1");
        bench.pass_time(2_000);
        assert_eq!([bench.read(&format!("{name}.count")), bench.read(&format!("{name}.length"))], ["0", "0"]);
        assert!(bench.read("q.stats").starts_with("1 packets killed"));
    }
}

#[test]
fn another_table_knows_nothing_of_what_waits() {
    let mut bench = sharing("ARPTable");
    bench.send("ip", &packet([10, 0, 0, 2], 1));
    bench.send("other", &packet([10, 0, 0, 2], 2));
    bench.write("q.config", "10.0.0.1, 2:0:0:0:0:1, TABLE t2").unwrap();
    assert_eq!((bench.held(), bench.drops("q")), (1, vec![("reset", 1)]));
    assert_eq!(["t.length", "t2.length", "t2.drops"].map(|name| bench.read(name)), ["1", "0", "1"]);
    // If the new arguments name the table that the querier already uses, the querier keeps the packets that
    // it holds.
    bench.write("r.config", "10.1.0.1, 2:0:0:0:0:9, TABLE t, POLL_TIMEOUT 7").unwrap();
    assert_eq!((bench.held(), bench.read("t.length").as_str()), (1, "1"));
    bench.write("t.insert", "10.0.0.2 2:0:0:0:0:22").unwrap();
    assert_eq!((bench.held(), bench.read("t.length").as_str()), (0, "0"));
    bench.finish();
}

#[test]
fn what_another_host_has_dropped_still_counts() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, CAPACITY 1)", "");
    (1..4).for_each(|number| bench.send("ip", &packet([10, 0, 0, 2], number)));
    assert!(bench.read("q.stats").starts_with("2 packets killed"));
    bench.write("q.config", "10.0.0.7, 2:0:0:0:0:7").unwrap();
    assert!(bench.read("q.stats").starts_with("3 packets killed"), "{}", bench.read("q.stats"));
    assert_eq!(bench.read("q.length"), "0");
    bench.finish();
}

/// Replies arrive in reverse order at another querier with the same table. Waiting packets leave in the order
/// of the replies. The test has fewer (30) and more (100) hosts than the 64 latest changes that a table
/// remembers.
#[test]
fn what_waits_leaves_in_the_order_of_the_replies_to_another() {
    let input = |bytes| TestPacket { bytes, time: Timestamp(1), annotations: [0; 48], headers: [None; 3] };
    for hosts in [30, 100] {
        let packets = (1..=hosts).map(|host| input(packet([10, 0, 0, host], host.into())));
        let answers = (1..=hosts).rev().map(|host| input(reply(host, host)));
        let exchange = offer(vec![packets.collect(), answers.collect()]);
        let text = format!(
            "t :: ARPTable; TestSource({exchange}, 0) -> GetIPAddress(16)
                -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE t) -> TestSink({exchange}, 0);
             Idle -> [1] q [1] -> Discard; Idle -> r :: ARPQuerier(10.0.0.207, 2:0:0:0:1:7, TABLE t) -> Discard;
             TestSource({exchange}, 1) -> [1] r; Script(wait 1s, stop)"
        );
        assert!(TestRun { burst: Some(128), ..run() }.text(&text, &[]).unwrap().report.balances());
        let left: Vec<(u8, u8)> = numbers(&collect(exchange));
        assert_eq!(left, (1..=hosts).rev().map(|host| (host, host)).collect::<Vec<_>>());
    }
}

/// All copies of an ARPQuerier, and all ARPQueriers with the same ARPTable, share one table. New arguments
/// change the limits of this table.
#[test]
fn a_shared_table_gets_other_limits() {
    let mut bench = sharing("ARPTable(ENTRY_CAPACITY 9)");
    bench.write("t.config", "ENTRY_CAPACITY 1").unwrap();
    for number in 2..5 {
        bench.write("t.insert", &format!("10.0.0.{number} 2:0:0:0:0:{number}")).unwrap();
    }
    assert_eq!(bench.read("t.count"), "1");
    let text = "Idle -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> Discard; Idle -> [1] q;
        DriverManager(writeq q.config \"10.0.0.1, 2:0:0:0:0:1, ENTRY_CAPACITY 1\",
            write q.insert 10.0.0.2 2:0:0:0:0:2, write q.insert 10.0.0.3 2:0:0:0:0:3, stop)";
    let run = TestRun { clock: ClockKind::Trace, workers: 2, ..TestRun::default() };
    let outcome = run.text(text, &["q.count"]).unwrap();
    assert_eq!((outcome.values, outcome.messages.as_str()), (vec![Ok("1".into())], ""));
}

#[test]
fn what_waits_goes_on_with_other_arguments() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1)", "");
    bench.send("ip", &packet([10, 0, 0, 2], 1));
    bench.write("q.config", "10.0.0.1, 2:0:0:0:0:1, CAPACITY 5").unwrap();
    assert_eq!((bench.held(), bench.read("q.queries").as_str()), (1, "1"));
    bench.send("arp", &reply(2, 0x22));
    bench.send("ip", &packet([10, 0, 0, 3], 2));
    // A querier with another address of its own starts with an empty table, and drops what it held.
    bench.write("q.config", "10.0.0.7, 2:0:0:0:0:7").unwrap();
    assert_eq!((bench.held(), bench.read("q.table").as_str()), (0, ""));
    assert_eq!(numbers(&bench.finish()), [(1, 0x22)]);
}

#[test]
fn what_waits_in_vain_is_dropped_by_the_table() {
    let mut bench = Bench::new("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, GIVE_UP 0.05)", "");
    (1..4).for_each(|number| bench.send("ip", &packet([10, 0, 0, 2], number)));
    assert_eq!((bench.held(), bench.read("q.drops").as_str()), (3, "0"));
    bench.pass_time(200);
    assert_eq!((bench.held(), bench.read("q.drops").as_str()), (0, "0"));
    assert!(bench.read("q.stats").starts_with("3 packets killed"), "{}", bench.read("q.stats"));
    bench.finish();
}

#[test]
fn mistakes_are_told() {
    for (config, error) in [
        ("ARPQuerier(10.0.0.1)", "ETH: '10.0.0.1' is not an Ethernet address"),
        ("ARPQuerier(x, 2:0:0:0:0:1)", "IP: 'x' is not an IP address"),
        ("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, CAPACITY_SLIM_FACTOR 0)", "CAPACITY_SLIM_FACTOR cannot be zero"),
        ("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, GIVE_UP -1)", "GIVE_UP: must not be negative"),
        ("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE x)", "TABLE: 'x' is not the name of an element"),
        ("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE i)", "TABLE: type mismatch, expected ARPTable"),
    ] {
        let text = format!("i :: Idle -> q :: {config} -> Discard; Idle -> [1] q");
        let told = worker(&text, run()).err().unwrap_or_default();
        assert!(told.contains(error), "{config}: {told}");
    }
    for (config, error) in [
        ("ARPQuerier(10.0.0.1)", "ETH: parse error"),
        ("ARPQuerier(x, 2:0:0:0:0:1)", "IP: parse error"),
        ("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TABLE x)", "TABLE: does not name an element"),
    ] {
        let told = in_clicks_words(&format!("i :: Idle -> q :: {config} -> Discard; Idle -> [1] q"));
        assert!(told.contains(error), "{config}: {told}");
    }
    for (config, error) in [
        ("10.0.0.1 2:0:0:0:0:1, x", "argument 1: expected IP/MASK ETH"),
        ("10.0.0.1", "argument 0: missing ETH"),
        ("2:0:0:0:0:1", "argument 0: missing IP/MASK"),
        ("1.1.1.1 2:0:0:0:0:1 2:0:0:0:0:2", "argument 0: more than one ETH"),
    ] {
        let told =
            worker(&format!("Idle -> ARPResponder({config}) -> Discard"), run()).err().unwrap_or_default();
        assert!(told.contains(error), "{config}: {told}");
    }
}

/// Makes frames as an attacker may send them: replies and requests with any byte changed and of any length,
/// and random bytes.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let frame = (1u8..5, 0u8..3, any::<bool>()).prop_map(|(last, mac, is_request)| {
        let mut frame = reply(last, mac);
        frame[21] -= u8::from(is_request);
        frame
    });
    let changed =
        (frame, 0usize..42, any::<u8>(), 0usize..60).prop_map(|(mut frame, place, byte, length)| {
            frame[place] = byte;
            frame.resize(length, 0);
            frame
        });
    prop_oneof![3 => changed, 1 => prop::collection::vec(any::<u8>(), 0..80)]
}

#[derive(Clone, Debug)]
enum Event {
    Packet(u8),
    Reply(u8, u8),
    Damaged(Vec<u8>),
    Time(i64),
}

/// An event in the test of two queriers that share a table.
#[derive(Clone, Debug)]
enum Shared {
    /// A packet arrives: at querier `r` if true, at querier `q` if false. The number is the last byte of the
    /// packet's destination address.
    Packet(bool, u8),
    Reply(u8),
    Write(&'static str, u8),
    /// New arguments are written: to the querier `r` if true, to the table if false.
    Again(bool),
    Time(i64),
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random events at one querier: packets, replies, damaged frames, time. No packet is lost, packets for
    /// one destination keep their order, none is sent to an Ethernet address that no reply has named, and
    /// no more packets wait than CAPACITY.
    #[test]
    fn nothing_is_lost(
        capacity in 1usize..6,
        timeout in prop::sample::select(vec!["0", "1", "3"]),
        events in prop::collection::vec(prop_oneof![
            8 => (2u8..6).prop_map(Event::Packet),
            2 => (2u8..6, 2u8..5).prop_map(|(last, mac)| Event::Reply(last, mac)),
            1 => damaged().prop_map(Event::Damaged),
            2 => prop::sample::select(vec![10, 110, 900, 2500]).prop_map(Event::Time),
        ], 0..60),
    ) {
        let querier = format!("ARPQuerier(10.0.0.1, 2:0:0:0:0:1, CAPACITY {capacity}, TIMEOUT {timeout}, UNSOLICITED true)");
        let mut bench = Bench::new(&querier, "");
        let mut number = 0;
        let mut named: Vec<(u32, u8)> = Vec::new();
        let mut answered = Vec::new();
        for event in events {
            match event {
                Event::Packet(last) => {
                    number += 1;
                    let (before, queries) = (bench.held(), bench.read("q.queries"));
                    bench.send("ip", &packet([10, 0, 0, last], number));
                    if timeout == "0" && answered.contains(&last) {
                        prop_assert_eq!((before, queries), (bench.held(), bench.read("q.queries")));
                    } else if timeout == "0" && named.iter().all(|&(name, _)| name != u32::from(last)) {
                        prop_assert!(bench.held() > 0, "it waits");
                    }
                }
                Event::Reply(last, mac) => {
                    bench.send("arp", &reply(last, mac));
                    named.push((last.into(), mac));
                    answered.push(last);
                }
                Event::Damaged(frame) => {
                    if frame.len() >= 42 && frame[28..31] == [10, 0, 0] {
                        named.push((frame[31].into(), frame[27]));
                    }
                    bench.send("arp", &frame);
                }
                Event::Time(milliseconds) => bench.pass_time(milliseconds),
            }
            let waiting = bench.held();
            prop_assert!(waiting <= capacity, "{waiting} packets wait");
            prop_assert!(bench.worker.report().balances());
        }
        let mut last_of = [0; 256];
        for seen in bench.finish().iter().filter(|seen| seen.sink == 0) {
            let (to, number) = (seen.bytes[33], u32::from_be_bytes(seen.bytes[34..38].try_into().unwrap()));
            prop_assert!(number > last_of[usize::from(to)], "{} came after {}", number, last_of[usize::from(to)]);
            last_of[usize::from(to)] = number;
            prop_assert!(named.contains(&(to.into(), seen.bytes[5])), "nobody has named {:02x?}", seen.bytes);
        }
    }

    /// Random events at two queriers that share a table: the table counts exactly the packets that both
    /// hold, no more than its capacity, and packets for one destination leave each querier in order.
    #[test]
    fn a_shared_table_counts_what_waits(
        limits in (1usize..6, 0usize..4, 0usize..3, 1usize..8, prop::sample::select(vec!["0", "1", "3"])),
        events in prop::collection::vec(prop_oneof![
            8 => (any::<bool>(), 2u8..7).prop_map(|(other, last)| Shared::Packet(other, last)),
            2 => (2u8..7).prop_map(Shared::Reply),
            1 => (prop::sample::select(vec!["delete", "insert"]), 2u8..7).prop_map(|(name, last)| Shared::Write(name, last)),
            1 => Just(Shared::Write("clear", 0)),
            1 => any::<bool>().prop_map(Shared::Again),
            2 => prop::sample::select(vec![10, 110, 900, 2500]).prop_map(Shared::Time),
        ], 0..60),
    ) {
        let (capacity, entries, per_entry, factor, timeout) = limits;
        let mut bench = sharing(&format!(
            "ARPTable(CAPACITY {capacity}, ENTRY_CAPACITY {entries}, ENTRY_PACKET_CAPACITY {per_entry},
                CAPACITY_SLIM_FACTOR {factor}, TIMEOUT {timeout})"
        ));
        let mut number = 0;
        for event in events {
            match event {
                Shared::Packet(other, last) => {
                    number += 1;
                    bench.send(if other { "other" } else { "ip" }, &packet([10, 0, 0, last], number));
                }
                Shared::Reply(last) => bench.send("arp", &reply(last, last)),
                Shared::Write("clear", _) => bench.write("t.clear", "").unwrap(),
                Shared::Write(name, last) => {
                    let mac = if name == "insert" { format!(" 2:0:0:0:0:{last}") } else { String::new() };
                    bench.write(&format!("t.{name}"), &format!("10.0.0.{last}{mac}")).unwrap();
                }
                Shared::Again(true) => bench.write("r.config", "10.1.0.1, 2:0:0:0:0:9, TABLE t").unwrap(),
                Shared::Again(false) => bench.write("t.config", "CAPACITY 3, TIMEOUT 2").unwrap(),
                Shared::Time(milliseconds) => bench.pass_time(milliseconds),
            }
            // The run is finished before a failing assertion. Otherwise only the packets that are still
            // held would be reported.
            let (counted, held, balances) =
                (bench.read("t.length"), bench.held(), bench.worker.report().balances());
            if counted != held.to_string() || held > capacity.max(3) || !balances {
                bench.finish();
                prop_assert!(false, "{held} are held, {counted} count; {balances}");
                return Ok(());
            }
        }
        let mut last_of = [[0; 256]; 4];
        for seen in bench.finish().iter().filter(|seen| seen.sink % 2 == 0 && seen.bytes[12..14] == [8, 0]) {
            let (to, number) = (seen.bytes[33], u32::from_be_bytes(seen.bytes[34..38].try_into().unwrap()));
            let last = &mut last_of[seen.sink][usize::from(to)];
            prop_assert!(number > *last, "{} came after {}", number, last);
            *last = number;
            prop_assert_eq!(seen.bytes[5], to);
        }
    }

    /// ARPResponder answers exactly the requests for its addresses, as RFC 826 says, and passes all other
    /// frames unchanged.
    #[test]
    fn only_requests_are_answered(frames in prop::collection::vec(damaged(), 1..40)) {
        let input = |bytes: &Vec<u8>| TestPacket {
            bytes: bytes.clone(),
            time: Timestamp(1),
            annotations: [0; 48],
            headers: [None; 3],
        };
        let exchange = offer(vec![frames.iter().map(input).collect()]);
        let text = format!(
            "TestSource({exchange}, 0) -> r :: ARPResponder(10.0.0.0/30 2:0:0:0:0:99) -> TestSink({exchange}, 0);
             r [1] -> TestSink({exchange}, 1)"
        );
        prop_assert!(run().text(&text, &[]).unwrap().report.balances());
        let seen = collect(exchange);
        prop_assert_eq!(seen.len(), frames.len());
        for seen in seen {
            let asked = &frames[seen.id as usize - 1];
            let is_request = asked.len() >= 42
                && asked[12..18] == [8, 6, 0, 1, 8, 0]
                && asked[20..22] == [0, 1]
                && asked[38..41] == [10, 0, 0]
                && asked[41] < 4;
            prop_assert_eq!(seen.sink == 0, is_request, "{:02x?}", asked);
            let expected = if is_request {
                let own = [2, 0, 0, 0, 0, 0x99];
                let fixed = [8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
                [&asked[22..28], &own, &fixed, &own, &asked[38..42], &asked[22..28], &asked[28..32]].concat()
            } else {
                asked.clone()
            };
            prop_assert_eq!(&seen.bytes, &expected);
        }
    }
}
