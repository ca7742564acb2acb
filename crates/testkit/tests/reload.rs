//! Compares what a reload keeps of each class with the declaration of the class, and tests that files, calls
//! at a count and sources at their limit continue after a reload.

use element::Timestamp;
use engine::{ClockKind, Worker};
use testkit::TestRun;
use testkit::reload::{Exceptions, differences};

/// Handlers whose values differ at each reading, with the reason.
const VARYING: Exceptions = &[
    ("Script", "now", "the time"),
    ("Script", "now_steady", "the time"),
    ("Script", "random", "a random number"),
    ("DriverManager", "now", "the time"),
    ("DriverManager", "now_steady", "the time"),
    ("DriverManager", "random", "a random number"),
    ("NotifierDebug", "signal", "the signals of other elements"),
];

/// Parts of the state of classes that are empty in all samples, with the reason.
const UNSHOWN: Exceptions = &[
    ("DropBroadcasts", "counts", "no packet of the corpus is marked as a broadcast"),
    ("CheckNumberPacket", "numbers seen", "the corpus has no numbered packets"),
    ("ICMPPingRewriter", "mappings", "the corpus has no ping whose headers are marked"),
    ("TCPRewriter", "failures", "there is a mapping for each flow"),
    ("UDPRewriter", "failures", "there is a mapping for each flow"),
    ("ICMPPingRewriter", "failures", "there is a mapping for each flow"),
    ("ARPTable", "counts", "only an ARPQuerier makes packets wait"),
    ("ListenEtherSwitch", "counts", "the table has room for all hosts"),
    ("Counter", "rates", "no packet comes in the last tenth of a second"),
    ("Meter", "rate", "no packet comes in the last tenth of a second"),
    ("BandwidthMeter", "rate", "no packet comes in the last tenth of a second"),
    ("CoDel", "counts", "no packet waits for long enough"),
    ("ControlSocket", "clients", "both sockets listen on ports that are free"),
    ("Juggler", "packets", "the corpus has no segments out of order"),
    ("PriorityMarker", "rate", "the corpus has no acknowledgments of a connection"),
    ("Segment", "counts", "no device leaves work in packets"),
    ("PayloadTable", "payloads", "only a Slice parks payloads"),
    ("PayloadTable", "counts", "only a Slice parks payloads"),
    ("Synthesized", "flow cache", "the element leases flows of other elements"),
];

#[test]
fn a_reload_keeps_what_is_declared() {
    let classes: Vec<_> = testkit::classes().chain([&testkit::example::CLASS]).collect();
    let found = differences(&classes, &[], VARYING, UNSHOWN).unwrap();
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

/// Differences are found for a class that loses what it declares to keep, and for a class that declares
/// nothing about its count.
#[test]
fn wrong_declarations_are_noticed() {
    let found = differences(testkit::liars::CLASSES, &[], &[], &[]).unwrap().join("\n");
    for said in
        ["Forgetful() with", "count (the kept part counts)", "UndeclaredCounter() with", "count (no part)"]
    {
        assert!(found.contains(said), "{said}: {found}");
    }
}

/// The table in the document is made from the declarations; `BLESS=1` writes it again.
#[test]
fn the_document_lists_the_state_of_each_class() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reload.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (page, _) = text.split_once("| element |").unwrap_or((&text, ""));
    let mut classes: Vec<&element::Class> = testkit::classes().collect();
    classes.sort_unstable_by_key(|class| class.name);
    let made = format!("{page}{}", element::reload::table(classes));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    assert!(made == text || std::env::var_os("BLESS").is_some(), "docs/reload.md: BLESS=1 makes it anew");
}

/// Runs two configurations one after the other in one worker, each until it is idle. Returns the values of
/// handlers at the end.
fn run(first: &str, second: &str, handlers: &[&str]) -> Vec<String> {
    let mut worker = testkit::worker(first, TestRun::default()).unwrap();
    worker.run();
    worker.write(None, "hotconfig", second).unwrap();
    worker.run();
    let read = |name: &&str| {
        let (element, handler) = name.split_once('.').unwrap();
        let id = worker.plan().graph.find(element);
        worker.read(id, handler, "").unwrap()
    };
    let values = handlers.iter().map(read).collect();
    worker.finish().unwrap();
    assert!(worker.report().balances());
    values
}

#[test]
fn a_capture_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (same, other) = (path("same.pcap"), path("other.pcap"));
    let graph = |source: &str, to: &str| format!("{source} :: InfiniteSource(LIMIT 3) -> d :: ToDump({to})");
    let records = |file: &str| {
        let mut reader = capture::Reader::open(file).unwrap();
        let mut count = 0;
        while reader.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    // The second source has another name, so it makes three more packets.
    assert_eq!(run(&graph("a", &same), &graph("b", &same), &["d.count"]), ["6"]);
    assert_eq!(records(&same), 6);
    // With another SNAPLEN, the second graph begins the file again. With another file name, each graph writes
    // a file of its own, and both files are complete.
    run(&graph("a", &same), &graph("b", &format!("{same}, SNAPLEN 20")), &[]);
    assert_eq!(records(&same), 3);
    run(&graph("a", &same), &graph("b", &other), &[]);
    assert_eq!((records(&same), records(&other)), (3, 3));
    // If both graphs read the same file, the second graph does not read again what the first graph has read.
    let reader = |file: &str| format!("f :: FromDump({file}) -> c :: Counter -> Discard");
    assert_eq!(run(&reader(&same), &reader(&same), &["f.count", "c.count"]), ["3", "3"]);
    assert_eq!(run(&reader(&same), &reader(&other), &["f.count", "c.count"]), ["3", "6"]);
}

/// Each refused configuration writes the file by an element of another name; in one of them, an element that
/// follows it cannot be initialised, either. The running configuration goes on, and its file has all packets.
#[test]
fn a_file_that_is_written_stays_when_a_reload_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file").display().to_string();
    let summary = format!("ToIPSummaryDump({path}, FIELDS count)");
    let flows = format!("FlowCounter(FILE {path}) -> Discard");
    let aggregates = format!("AggregateIPFlows(TRACEINFO {path}) -> Discard");
    for writer in [&format!("ToDump({path})"), &summary, &flows, &aggregates] {
        let graph = |name: &str, more: &str| {
            format!(
                "s :: InfiniteSource(LIMIT 3) -> UDPIPEncap(1.0.0.1, 1, 1.0.0.2, 2) -> {name} :: {writer}{more}"
            )
        };
        let run = |reloads: &[String]| {
            let mut worker = testkit::worker(&graph("a", ""), TestRun::default()).unwrap();
            worker.run();
            for text in reloads {
                let error = worker.write(None, "hotconfig", text).unwrap_err();
                assert!(error.contains("the running configuration writes this file"), "{error}");
            }
            worker.finish().unwrap();
            std::fs::read(&path).unwrap()
        };
        let undisturbed = run(&[]);
        let refused = [graph("b", ""), graph("b", "; FromDump(/nowhere) -> Discard")];
        assert_eq!(run(&refused), undisturbed, "{writer}");
    }
}

#[test]
fn a_file_of_printed_packets_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file").display().to_string();
    let graph = |name: &str| {
        format!(
            "{name} :: InfiniteSource(LIMIT 3) -> UDPIPEncap(1.0.0.1, 1, 1.0.0.2, 2)
                -> {name}p :: IPPrint(OUTFILE {path}) -> Discard"
        )
    };
    let mut worker = testkit::worker(&graph("a"), TestRun::default()).unwrap();
    worker.run();
    worker.write(None, "hotconfig", &(graph("b") + "; FromDump(/nowhere) -> Discard")).unwrap_err();
    worker.write(None, "hotconfig", &graph("c")).unwrap();
    worker.run();
    worker.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().count() == 6 && !text.contains('\0'), "{text}");
    // A run begins the file again.
    run(&graph("a"), &graph("a"), &[]);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
}

#[test]
fn a_report_of_flows_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.csv").display().to_string();
    let graph = |name: &str, port: u16, more: &str| {
        let ends = format!("2:0:0:0:0:1, 10.0.0.1, {port}, 2:0:0:0:0:2, 10.0.0.2, 53");
        format!(
            "{name} :: FastUDPSource(0, 2, 60, {ends}) -> MarkIPHeader(14)
                -> c :: FlowCounter(FILE {path}{more}) -> Discard"
        )
    };
    let text = || std::fs::read_to_string(&path).unwrap();
    let lines = || text().lines().count();
    let values = run(&graph("a", 1, ""), &graph("b", 2, ""), &["c.count", "c.open"]);
    assert_eq!((values.join(" "), lines()), ("2 2".into(), 3));
    // With another capacity, the flow that the first graph counted ends in the reload, and both graphs write
    // to one file.
    let values = run(&graph("a", 1, ""), &graph("b", 2, ", CAPACITY 9"), &["c.count"]);
    assert_eq!((values.join(" "), lines()), ("1".into(), 3));
    // With other columns, or in another format, the second graph writes a document of its own into the same
    // file, after the document of the first graph.
    let values = run(&graph("a", 1, ""), &graph("b", 2, ", BIDIRECTIONAL true"), &["c.count"]);
    assert_eq!((values.join(" "), lines()), ("1".into(), 4));
    let heads = text().lines().filter(|line| line.starts_with("source,")).map(str::len).collect::<Vec<_>>();
    assert!(heads.len() == 2 && heads[0] < heads[1], "{heads:?}");
    run(&graph("a", 1, ", FORMAT json"), &graph("b", 2, ", FORMAT json, CAPACITY 9"), &[]);
    let one = text();
    assert_eq!((one.matches("\"packets\"").count(), one.matches('[').count()), (2, 1), "{one}");
    assert!(one.starts_with("[\n{") && one.contains("},\n{") && one.ends_with("}\n]\n"), "{one}");
    run(&graph("a", 1, ", FORMAT json"), &graph("b", 2, ""), &[]);
    let both = text();
    assert!(both.starts_with("[\n{") && both.contains("}\n]\nsource,"), "{both}");
    assert_eq!(lines(), 5);
    // If the second graph writes to another file, each file has the flow of its own graph.
    let other = folder.path().join("other.csv").display().to_string();
    run(&graph("a", 1, ""), &graph("b", 2, "").replace(&path, &other), &[]);
    assert_eq!((lines(), std::fs::read_to_string(&other).unwrap().lines().count()), (2, 2));
}

/// All flows of the first graph are in the file, also if the second graph tells flows apart in another way.
#[test]
fn a_file_of_trace_information_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.xml").display().to_string();
    let graph = |name: &str, more: &str| {
        format!(
            "{name} :: InfiniteSource(LIMIT 3) -> UDPIPEncap(1.0.0.1, 1, 1.0.0.2, 2)
                -> f :: AggregateIPFlows(TRACEINFO {path}{more}) -> Discard"
        )
    };
    for (more, flows) in [("", 1), (", CAPACITY 9", 2), (", SYMETRIC false", 2)] {
        run(&graph("a", ""), &graph("b", more), &[]);
        let text = std::fs::read_to_string(&path).unwrap();
        let count = |part: &str| text.matches(part).count();
        assert_eq!((count("<flow "), count("<trace"), count("</trace>")), (flows, 1, 1), "{text}");
        assert!(text.starts_with("<?xml") && text.ends_with("</trace>\n"), "{text}");
    }
}

/// An element buffers text for its file for a second at most, also if it has got the file in a reload while
/// the timer of the old element was set.
#[test]
fn a_continued_file_is_written_out_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file").display().to_string();
    let clock = ClockKind::Simulated { start: Timestamp::from_secs(1_000), tick: Timestamp(1_000_000) };
    for class in [format!("FlowCounter(FILE {path}"), format!("AggregateIPFlows(TRACEINFO {path}")] {
        for more in ["", ", CAPACITY 9"] {
            let graph = |more: &str| {
                format!(
                    "RatedSource(RATE 100) -> UDPIPEncap(1.0.0.1, 1, 1.0.0.2, 2) -> e :: {class}{more}) -> Discard"
                )
            };
            let mut worker = testkit::worker(&graph(""), TestRun { clock, ..TestRun::default() }).unwrap();
            let pass = |worker: &mut Worker, milliseconds: i64| {
                let until = worker.core().now + Timestamp(milliseconds * 1_000_000);
                while worker.core().now < until {
                    worker.step(1);
                }
            };
            pass(&mut worker, 100);
            worker.write(None, "hotconfig", &graph(more)).unwrap();
            pass(&mut worker, 100);
            let element = worker.plan().graph.find("e");
            worker.write(element, "clear", "").unwrap();
            pass(&mut worker, 3_000);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains("1.0.0.1"), "{class}{more}: {text}");
            worker.finish().unwrap();
        }
    }
}

/// A call at a count that the old element has made is not made again: the switches of the second graph stay
/// at output 0.
#[test]
fn calls_at_a_count_are_made_once() {
    let graph = |name: &str| {
        format!(
            "{name} :: InfiniteSource(LIMIT 3) -> bytes :: Counter(BYTE_COUNT_CALL 100 first.switch 1)
                -> aggregates :: AggregateCounter(COUNT_CALL 2 second.switch 1) -> Discard;
             Idle -> first :: Switch -> Discard; first [1] -> Discard;
             Idle -> second :: Switch -> Discard; second [1] -> Discard"
        )
    };
    let handlers = ["first.switch", "second.switch", "bytes.count", "aggregates.count"];
    assert_eq!(run("Idle -> Discard", &graph("a"), &handlers), ["1", "1", "3", "3"]);
    assert_eq!(run(&graph("a"), &graph("b"), &handlers), ["0", "0", "6", "6"]);
}

/// A source from which packets are pulled has no task, also if it continues for a source at its limit.
#[test]
fn a_pulled_source_at_its_limit_continues() {
    for class in ["InfiniteSource(LIMIT 3)", "RatedSource(RATE 1000, LIMIT 3)", "RandomSource(60, LIMIT 3)"] {
        let graph = format!("s :: {class} -> Unqueue -> c :: Counter -> Discard");
        assert_eq!(run(&graph, &graph, &["s.count", "c.count"]), ["3", "3"], "{class}");
    }
}
