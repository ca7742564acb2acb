//! Tests that an element that does the work of others (a stand-in) leaves no trace: handlers, reports and
//! messages are the same as without it.

use std::path::Path;

use element::Timestamp;
use testkit::{RunResults, TestRun};
use wire::{MacAddr, build::Builder};

/// The number of packets: UDP and TCP of many flows, a millisecond apart, with even and odd times to live,
/// since the stand-in handles only even times to live.
const PACKETS: usize = 600;

fn packet(number: usize) -> Vec<u8> {
    let source = ([10, 0, 0, (number % 40) as u8], 1024 + (number % 40) as u16).into();
    let destination = ([192, 168, 0, 1], 53).into();
    let build = match number % 3 {
        0 => Builder::tcp(source, destination, 2),
        _ => Builder::udp(source, destination),
    };
    let frame = build.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).ttl(60 + (number % 7) as u8);
    frame.build(&vec![0; number % 50]).unwrap()
}

pub(crate) fn write_capture(path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    for number in 0..PACKETS {
        let bytes = packet(number);
        let time = Timestamp(1_000_000_000 + number as i64 * 1_000_000);
        writer.write(time.0, bytes.len() as u32, [&bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
}

const HANDLERS: [&str; 9] = [
    "c.count",
    "c.byte_count",
    "c.counts",
    "f.rule_counts",
    "f.counts",
    "f.drops_by_reason",
    "out.count",
    "out.byte_count",
    "out.counts",
];

/// Runs a chain with and without a stand-in, while `script` runs, and asserts that all results are equal.
/// Returns the values of the stand-in's own handlers.
fn compare(workers: usize, script: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write_capture(&path);
    let source = format!("FromDump({}, STOP true) -> MarkIPHeader(14)", path.display());
    let chain = "c :: Counter -> f :: IPFilter(allow udp, deny all) -> out :: Counter -> Discard";
    let plain = format!("{source} -> {chain}; {script}");
    let standing = format!("{source} -> s :: TestStandIn(c, f); s [1] -> {chain}; s -> out; {script}");
    let run = |text: &str, more: &[&str]| -> RunResults {
        let handlers: Vec<&str> = HANDLERS.iter().chain(more).copied().collect();
        let outcome =
            TestRun::trace().on(workers).text(text, &handlers).unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.report.balances(), "{:?}", outcome.report);
        outcome
    };
    let own: &[&str] = match workers {
        1 => &["s.taken", "s.left", "s.outdated"],
        _ => &["s.taken", "s.left", "s.outdated", "worker 0 s.taken", "worker 1 s.taken"],
    };
    let (plain, standing) = (run(&plain, &[]), run(&standing, own));
    for ((name, real), told) in HANDLERS.iter().zip(&plain.values).zip(&standing.values) {
        assert!(real.is_ok(), "{name}: {real:?}");
        assert_eq!(told, real, "{name} on {workers}");
    }
    assert_eq!(standing.output, plain.output);
    assert_eq!([&*standing.messages, &*plain.messages], [""; 2]);
    for name in ["c", "f", "out"] {
        let [real, told] = [&plain, &standing]
            .map(|outcome| outcome.report.elements.iter().find(|element| element.name == name).unwrap());
        assert_eq!(told, real);
    }
    assert_eq!(standing.report.totals, plain.report.totals);
    standing.values.into_iter().skip(HANDLERS.len()).map(Result::unwrap).collect()
}

#[test]
fn handlers_and_reports_are_the_same() {
    for workers in [1, 2] {
        let own = compare(workers, "");
        let [taken, left] = [0, 1].map(|at| own[at].parse::<usize>().unwrap());
        assert_eq!(taken + left, PACKETS);
        assert!(taken > PACKETS / 3 && left > PACKETS / 3, "{taken} and {left}");
        assert!(own[3..].iter().all(|taken| taken != "0"), "each worker has some: {own:?}");
    }
}

#[test]
fn a_report_asks_by_itself() {
    let chain = "c :: Counter -> f :: IPFilter(allow udp, deny all) -> d :: Discard";
    let text = format!(
        "InfiniteSource(LIMIT 40) -> UDPIPEncap(1.1.1.1, 1, 2.2.2.2, 2) -> s :: TestStandIn(c, f);
         s [1] -> {chain}; s -> d"
    );
    let mut worker = testkit::worker(&text, TestRun::default()).unwrap();
    worker.run();
    let report = worker.report();
    let came = |name: &str| report.elements.iter().find(|e| e.name == name).unwrap().packets_in;
    assert_eq!(["s", "c", "f", "d"].map(came), [40; 4]);
    worker.finish().unwrap();
}

#[test]
fn a_stand_in_works_where_those_work_that_it_stands_for() {
    let own = compare(2, "StaticThreadSched(c 1)");
    let taken: Vec<usize> = [0, 3, 4].iter().map(|&at| own[at].parse().unwrap()).collect();
    assert!(taken[0] > PACKETS / 3, "{taken:?}");
    assert_eq!(taken[1..], [0, taken[0]]);
}

#[test]
fn handlers_that_change_nothing_of_packets_leave_the_stand_in_alone() {
    for workers in [1, 2] {
        // Reading a handler makes the stand-in report its counts, so that a reset clears them, too.
        let script = "Script(wait 200ms, print c.count, print f.rule_counts, write c.reset, print c.count,
                      wait 100ms, write f.reset_rule_counts, print f.rule_counts, print c.count)";
        let own = compare(workers, script);
        assert_eq!(own[2], "");
        assert!(own[0].parse::<usize>().unwrap() > PACKETS / 3);
    }
}

#[test]
fn who_stands_for_an_element_hears_that_it_has_changed() {
    for workers in [1, 2] {
        let own = compare(workers, "Script(wait 300ms, write f.config allow tcp)");
        // The stand-in's copy at each worker lists the changed element `f`.
        assert!(own[2].lines().all(|name| name == "f") && !own[2].is_empty(), "{own:?}");
        let taken = own[0].parse::<usize>().unwrap();
        assert!((PACKETS / 8..PACKETS / 3).contains(&taken), "half of the time: {taken}");
        // A stand-in may not act for a counter that calls a handler at a certain count, because the counter
        // itself must see each packet.
        let own = compare(workers, "Script(wait 300ms, write c.count_call 100000 stop)");
        assert!(own[2].starts_with("c\n"), "{own:?}");
    }
}
