//! Tests of writing new arguments to elements of a running configuration (the handler `config`).

use engine::Worker;
use testkit::{TestRun, worker};
use wire::build::Builder;

fn start(text: &str) -> Worker {
    worker(text, TestRun { burst: None, ..TestRun::default() }).unwrap()
}

fn read(worker: &mut Worker, name: &str) -> String {
    let (element, handler) = name.split_once('.').unwrap();
    let id = worker.plan().graph.find(element);
    worker.read(id, handler, "").unwrap()
}

fn write(worker: &mut Worker, name: &str, value: &str) -> Result<(), String> {
    let (element, handler) = name.split_once('.').unwrap();
    let id = worker.plan().graph.find(element);
    worker.write(id, handler, value)
}

#[test]
fn packets_go_by_the_new_arguments() {
    let mut worker = start(
        "s :: InfiniteSource(DATA \\<0800>, LIMIT 10, ACTIVE false) -> c :: Classifier(0/0800, -);
         c -> a :: Counter -> Discard; c [1] -> b :: Counter -> Discard",
    );
    for (pattern, counts) in [("0/0800, -", ["10", "0"]), (" 0/0806,- ", ["10", "10"])] {
        write(&mut worker, "c.config", pattern).unwrap();
        assert_eq!(read(&mut worker, "c.config"), pattern);
        write(&mut worker, "s.reset", "").unwrap();
        write(&mut worker, "s.active", "true").unwrap();
        while worker.step(100) {}
        assert_eq!([read(&mut worker, "a.count"), read(&mut worker, "b.count")], counts);
    }
    let flat = worker.read(None, "flatconfig", "").unwrap();
    assert!(flat.contains("c :: Classifier( 0/0806,- );"), "{flat}");
    worker.finish().unwrap();
    assert!(worker.report().balances());
}

#[test]
fn mistakes_leave_everything_as_it_was() {
    let mut worker = start("s :: InfiniteSource(LIMIT 3) -> c :: Classifier(-) -> k :: Strip(1) -> Discard");
    for (config, error) in [
        ("", "0 patterns for output 0: give one for each, '-' for all others"),
        ("x", "pattern 0: bad clause"),
    ] {
        let result = write(&mut worker, "c.config", config);
        assert!(result.as_ref().is_err_and(|text| text.starts_with(&error[..9])), "{result:?}");
        assert_eq!(read(&mut worker, "c.config"), "-");
    }
    // The arguments of Strip cannot change, as in Click.
    assert_eq!(write(&mut worker, "k.config", "2"), Err("no 'k.config' write handler".into()));
    let flags = |text: String| text.lines().find(|line| line.starts_with("config\t")).map(String::from);
    assert_eq!(flags(read(&mut worker, "c.handlers")), Some("config\trw.".into()));
    assert_eq!(flags(read(&mut worker, "k.handlers")), Some("config\tr.".into()));
    while worker.step(100) {}
    assert_eq!(read(&mut worker, "k.counts"), "in 3\nout 3\ndropped 0\n");
}

#[test]
fn a_queue_keeps_its_packets_and_those_who_watch_it() {
    let mut worker = start(
        "s :: InfiniteSource(LIMIT 50) -> red :: RED(20, 21, 1, STABILITY 0) -> q :: Queue(100)
         -> u :: Unqueue(ACTIVE false) -> d :: Counter -> Discard",
    );
    while worker.step(100) {}
    let before = read(&mut worker, "q.length");
    assert!(before.parse::<usize>().unwrap() > 10, "{before}");
    write(&mut worker, "q.config", "10").unwrap();
    assert_eq!((read(&mut worker, "q.length"), read(&mut worker, "q.capacity")), ("10".into(), "10".into()));
    assert_eq!(read(&mut worker, "q.highwater_length"), before);
    assert!(read(&mut worker, "red.stats").starts_with("10 current queue"));
    write(&mut worker, "u.active", "true").unwrap();
    while worker.step(100) {}
    assert_eq!((read(&mut worker, "d.count"), read(&mut worker, "q.length")), ("10".into(), "0".into()));
    // The queue was replaced when its arguments changed, and RED watches its successor. RED finds this queue
    // empty, and lets 10 packets pass.
    write(&mut worker, "u.active", "false").unwrap();
    write(&mut worker, "s.config", "LIMIT 60").unwrap();
    while worker.step(100) {}
    assert_eq!(read(&mut worker, "s.count"), "60");
    assert_eq!(read(&mut worker, "q.length"), "10");
    worker.finish().unwrap();
    assert!(worker.report().balances());
}

#[test]
fn what_others_rely_on_cannot_change() {
    // The engine has left out Paint's effect, because no element reads the paint.
    let mut worker = start("InfiniteSource(LIMIT 3) -> Paint(7) -> p :: Print(x) -> Discard");
    let error = write(&mut worker, "p.config", "x, PRINTANNO true");
    assert_eq!(error, Err("this change reads annotations that no element has set so far".into()));
    write(&mut worker, "p.config", "y, 2").unwrap();
}

/// Returns a UDP packet of one flow with this time to live, as hexadecimal text for the argument `DATA`.
fn datagram(ttl: u8) -> String {
    let mut bytes =
        Builder::udp(([10, 0, 0, 5], 1000).into(), ([2, 0, 0, 2], 53).into()).build(b"data").unwrap();
    bytes[8] = ttl;
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A filter is downstream of a translator that marks packets with their flows, so it looks rules up by
/// flow. After new rules that read other fields, packets of one flow are decided separately.
#[test]
fn rules_may_change_behind_a_translator() {
    let many = |first: &str| {
        let others: String = (1..20).map(|n| format!(", allow udp dst port {n}")).collect();
        format!("{first}{others}, allow all")
    };
    let patterns: String = (1..20).map(|n| format!("udp dst port {n}, ")).collect();
    let outputs: String = (1..20).map(|n| format!("k[{n}] -> Discard; ")).collect();
    let source = |name: &str, ttl: u8| {
        let data = datagram(ttl);
        format!("{name} :: InfiniteSource(DATA \\<{data}>, LIMIT 10, ACTIVE false) -> MarkIPHeader -> rw; ")
    };
    let mut worker = start(&format!(
        "rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> f :: IPFilter({})
         -> k :: IPClassifier({patterns}-); k[0] -> Discard; {outputs}{}{}",
        many("deny udp dst port 99"),
        source("far", 64),
        source("near", 3),
    ));
    let go = |worker: &mut Worker, name: &str| {
        write(worker, &format!("{name}.reset"), "").unwrap();
        write(worker, &format!("{name}.active"), "true").unwrap();
        while worker.step(100) {}
        let counts = ["f", "k"].map(|name| read(worker, &format!("{name}.rule_counts")));
        for name in ["f", "k"] {
            write(worker, &format!("{name}.reset_rule_counts"), "").unwrap();
        }
        counts
    };
    assert_eq!(go(&mut worker, "far"), ["20 10\n", "19 10\n"]);
    // With these rules, packets of the same flow may have different results.
    write(&mut worker, "f.config", &many("deny ip ttl 1")).unwrap();
    write(&mut worker, "k.pattern0", "ip ttl 3").unwrap();
    assert_eq!(go(&mut worker, "far"), ["20 10\n", "19 10\n"]);
    assert_eq!(go(&mut worker, "near"), ["20 10\n", "0 10\n"]);
    write(&mut worker, "f.config", &many("deny ip ttl 3")).unwrap();
    assert_eq!(go(&mut worker, "near"), ["0 10\n", ""]);
    // The rules are replaced by a single one, as in an emergency, and restored.
    write(&mut worker, "f.config", "deny all").unwrap();
    assert_eq!(go(&mut worker, "far"), ["0 10\n", ""]);
    write(&mut worker, "f.config", &many("deny udp dst port 99")).unwrap();
    assert_eq!(go(&mut worker, "near"), ["20 10\n", "0 10\n"]);
    worker.finish().unwrap();
    assert!(worker.report().balances());
}

/// The classes that show their arguments in a form of their own ([`element::Element::configuration`]), among
/// those that take new arguments.
const OWN_TEXTS: [&str; 14] = [
    "BandwidthRatedSplitter",
    "BandwidthRatedUnqueue",
    "BandwidthShaper",
    "EtherVLANEncap",
    "InputSwitch",
    "PullSwitch",
    "RED",
    "RandomSample",
    "RatedSplitter",
    "RatedUnqueue",
    "SetVLANAnno",
    "Shaper",
    "SimplePullSwitch",
    "Switch",
];

/// Each class that declares that it takes new arguments is given the arguments of its sample again, and
/// the arguments of its other samples with as many ports. It has to accept them, or to say what they would
/// change.
#[test]
fn every_class_that_reconfigures_does() {
    let mut tried = 0;
    for class in testkit::classes().filter(|class| class.reconfigures) {
        let samples = element::Sample::all(class);
        for sample in testkit::samples::all(&[class], std::path::Path::new("/nonexistent")) {
            let mut worker = start(&sample.text(0, 1, false));
            let id = worker.plan().graph.find("e").unwrap();
            assert!(worker.can_read(Some(id), "config").is_some());
            for other in samples.iter().filter(|other| other.shape == sample.shape) {
                match worker.write(Some(id), "config", &other.config) {
                    Ok(()) => {
                        let shown = worker.read(Some(id), "config", "").unwrap();
                        if OWN_TEXTS.contains(&class.name) {
                            worker.write(Some(id), "config", &shown).unwrap();
                            assert_eq!(worker.read(Some(id), "config", "").unwrap(), shown, "{sample}");
                        } else {
                            assert_eq!(shown, other.config);
                        }
                    }
                    Err(error) => assert!(error.starts_with("this would"), "{sample}: {error}"),
                }
                tried += 1;
            }
            worker.finish().unwrap();
        }
    }
    assert!(tried > 50, "{tried}");
}

/// Filter rules that read the payload or length of packets whose payload is parked are refused, with the same
/// error as at the start of a run.
#[test]
fn payloads_that_are_parked_are_not_read() {
    let mut worker = start(
        "p :: PayloadTable; InfiniteSource(LIMIT 0) -> MarkIPHeader(14) -> t :: Slice(p)
         -> f :: IPFilter(allow all) -> u :: Splice(p) -> Discard",
    );
    for (rules, reads) in
        [("deny ip len > 500", "the length"), ("deny transp[900:4] 0x41414141, allow all", "the payload")]
    {
        let error =
            format!("'f :: IPFilter' is downstream of 't :: Slice', which parks payloads: reads {reads}");
        assert_eq!(write(&mut worker, "f.config", rules), Err(error));
        assert_eq!(read(&mut worker, "f.config"), "allow all");
    }
    write(&mut worker, "f.config", "deny tcp dst port 80, allow all").unwrap();
}
