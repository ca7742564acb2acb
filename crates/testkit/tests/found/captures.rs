//! Tests of the main jobs on real captures: nothing panics, every packet is accounted for, and every run
//! writes the same bytes. The captures are in `shared/data` outside the repository (or in `TIDEGATE_DATA`);
//! without them the tests are skipped.

use std::path::Path;
use std::process::Command;

use testkit::found::{self, files};
use testkit::{RunResults, TestRun};

/// The jobs: a name and a configuration, in which `IN` and `OUT` are replaced by the names of files.
const JOBS: &[(&str, &str)] = &[
    (
        "count by protocol",
        "FromDump(IN, STOP true) -> c :: Classifier(12/0800 23/06, 12/0800 23/11, 12/0800, 12/86dd, -);
         c[0] -> tcp :: Counter -> Discard; c[1] -> udp :: Counter -> Discard; c[2] -> ip :: Counter -> Discard;
         c[3] -> ip6 :: Counter -> Discard; c[4] -> other :: Counter -> Discard;",
    ),
    (
        "check, decrement, rewrite, write",
        "FromDump(IN, STOP true) -> CheckIPHeader(14) -> DecIPTTL -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)
            -> ToDump(OUT, SNAPLEN 0)",
    ),
    (
        "classify into five outputs",
        "FromDump(IN, STOP true) -> c :: Classifier(12/0800, 12/0806, 12/8100, 12/86dd, -);
         c[0], c[1], c[2], c[3], c[4] => ToDump(OUT, SNAPLEN 0), Discard, Discard, Discard, Discard;",
    ),
    ("print", "FromDump(IN, STOP true) -> Print(p, 64, TIMESTAMP true) -> Discard"),
    (
        "compound with parameters",
        "elementclass Mark { $colour, LENGTH $n | input -> Paint($colour) -> Strip($n) -> Unstrip($n) -> output }
         FromDump(IN, STOP true) -> Mark(3, LENGTH 14) -> s :: PaintSwitch; s[0] -> Idle; s[1] -> Idle; s[2] -> Idle;
         s[3] -> t :: Tee -> Counter -> ToDump(OUT, SNAPLEN 0); t[1] -> Discard;",
    ),
    (
        "pull path",
        "FromDump(IN, STOP true) -> q :: Queue(100) -> Strip(0) -> Unqueue -> Counter -> ToDump(OUT, SNAPLEN 0)",
    ),
    ("pull from the capture", "FromDump(IN, STOP true) -> Counter -> ToDump(OUT, SNAPLEN 0)"),
];

/// Runs a job on a capture, with `out` as the file that it writes.
fn run(job: &str, capture: &Path, out: &Path, run: TestRun) -> RunResults {
    let text =
        job.replace("IN", &format!("\"{}\"", capture.display())).replace("OUT", &out.display().to_string());
    run.text(&text, &[]).unwrap_or_else(|e| panic!("{}: {e}", capture.display()))
}

#[test]
fn every_job_on_every_capture() {
    let Some(data) = found::path("traces") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first.pcap"), folder.path().join("second.pcap"));
    let mut captures = 0;
    for capture in files(&data) {
        captures += 1;
        for (name, job) in JOBS {
            for burst in [Some(32), None] {
                let trace = TestRun { burst, ..TestRun::trace() };
                if burst.is_none() && capture.metadata().unwrap().len() > 3_000_000 {
                    continue;
                }
                // A file that is no capture at all is an error of the configuration, so the job does not
                // run.
                if !readable(&capture) {
                    continue;
                }
                let outcome = run(job, &capture, &first, trace);
                assert!(outcome.report.balances(), "{name} on {}: {:?}", capture.display(), outcome.report);
                let held: u64 = outcome.report.elements.iter().map(|e| e.held).sum();
                assert_eq!(held, 0, "{name} on {}", capture.display());
                if job.contains("OUT") {
                    let again = run(job, &capture, &second, trace);
                    assert_eq!(again.report, outcome.report);
                    let same = std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap();
                    assert!(same, "{name} on {} writes different bytes", capture.display());
                }
            }
        }
    }
    assert!(captures > 100, "only {captures} captures found");
}

fn readable(capture: &Path) -> bool {
    capture::Reader::open(capture).is_ok()
}

/// Copies each capture from FromDump to ToDump: the copy has the same packets with the same bytes, lengths
/// and times.
#[test]
fn a_copy_has_the_same_packets() {
    let Some(data) = found::path("traces") else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("copy.pcap");
    for path in files(&data).iter().filter(|path| readable(path)) {
        run("FromDump(IN, STOP true) -> ToDump(OUT, SNAPLEN 0)", path, &out, TestRun::trace());
        let (mut before, mut after) =
            (capture::Reader::open(path).unwrap(), capture::Reader::open(&out).unwrap());
        let mut link = None;
        loop {
            let a = before.next();
            // A copy has one link type, so packets with another link type than the first packet are left
            // out.
            if let Ok(Some(record)) = &a
                && *link.get_or_insert(record.link) != record.link
            {
                continue;
            }
            let b = after.next().unwrap();
            match (a, b) {
                (Ok(Some(a)), Some(b)) => {
                    assert_eq!(
                        (a.data, a.wire_len),
                        (b.data, b.wire_len),
                        "{} packet {}",
                        path.display(),
                        a.number
                    );
                    // The copy's file format has no times before 1970 or after 2106.
                    let fits = (0..u32::MAX as i64 * 1_000_000_000).contains(&a.time);
                    assert!(!fits || a.time == b.time, "{} packet {}", path.display(), a.number);
                }
                // An error in the capture ends the copying; the packets before the error were copied.
                (Ok(None) | Err(_), None) => break,
                (a, b) => panic!("{}: {a:?} became {b:?}", path.display()),
            }
        }
    }
}

/// Copies some captures: tshark finds as many malformed packets in the copy as in the capture, and no
/// truncated file.
#[test]
fn tshark_reads_what_is_written() {
    let Some(data) = found::path("traces") else { return };
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: tshark is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("copy.pcap");
    let malformed = |path: &Path| {
        let output =
            Command::new("tshark").args(["-Y", "_ws.malformed || _ws.short", "-r"]).arg(path).output();
        let output = output.unwrap();
        (
            output.stdout.iter().filter(|b| **b == b'\n').count(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    for name in ["isp-sanitized4k.pcap", "pcpp-ip-frag.pcap", "wand-isp-vlan-10k.pcap", "ndpi-1kxun.pcap"] {
        let capture = data.join(name);
        run("FromDump(IN, STOP true) -> ToDump(OUT, SNAPLEN 0)", &capture, &out, TestRun::trace());
        let (before, after) = (malformed(&capture), malformed(&out));
        assert_eq!(before.0, after.0, "{name}: malformed packets");
        assert!(!after.1.contains("cut short") && !after.1.contains("error"), "{name}: {}", after.1);
    }
}

/// Parses the configurations of SNF. All element classes that are missing are reported at once.
#[test]
fn missing_elements_are_all_listed_at_once() {
    let Some(data) = found::path("rules/snf") else { return };
    let mut seen = 0;
    for path in files(&data).iter().filter(|path| path.extension().is_some_and(|e| e == "click")) {
        let mut sources = lang::Sources::new();
        let id = sources.add(path.display().to_string(), std::fs::read_to_string(path).unwrap());
        let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
        assert!(diagnostics.is_empty(), "{}", diagnostics[0].render(&sources));
        let registry = testkit::registry();
        let mut missing: Vec<String> = graph.elements.iter().map(|e| e.class.clone()).collect();
        missing.retain(|class| registry.get(class).is_none());
        missing.sort();
        missing.dedup();
        let reported = match engine::Plan::new(graph, &registry) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.into_iter().map(|p| p.diagnostic.message).collect(),
        };
        for class in &missing {
            let message = format!("unknown element class '{class}'");
            assert!(reported.contains(&message), "{}: {class} is not in {reported:?}", path.display());
        }
        seen += missing.len();
    }
    println!("{seen} missing classes were reported");
}
