//! `tidegate advise`: figures, verdicts, and a configuration that runs.

mod keys;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Generates `trace.pcap` in a new folder, with these arguments of `tidegate generate`.
fn with_trace(arguments: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = tidegate(folder.path(), &[&["generate", "-o", "trace.pcap"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    folder
}

fn advice(folder: &Path, more: &[&str]) -> Value {
    let output = tidegate(folder, &[&["advise", "trace.pcap", "--json"], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(advice.as_object_mut().unwrap().remove("origin").is_some());
    advice
}

/// Arguments of `tidegate generate` for twenty flows that take turns, at a million packets per second in
/// total: a delay of 64 us brings about three packets of each flow together.
const LOCAL: [&str; 8] = ["--flows", "20", "--packets", "20000", "--zipf", "0", "--sizes", "1000"];

#[test]
fn what_is_advised_runs_and_gives_what_was_promised() {
    let folder = with_trace(&LOCAL);
    let wanted = ["--max-delay", "64", "--flow-cost", "300"];
    let advice = advice(folder.path(), &wanted);
    let reframer = &advice["reframer"];
    assert_eq!((reframer["verdict"].as_str(), reframer["delay_us"].as_u64()), (Some("pays"), Some(64)));
    assert_eq!(reframer["delays"].as_array().unwrap().len(), 6);
    let row = &reframer["delays"][2];
    let slf = row["slf"].as_f64().unwrap();
    assert!((2.5..5.0).contains(&slf), "{row}");
    // The share of flow switches that a Reframer saves is 1 - SLF upstream of it / SLF downstream of it.
    let saved = row["saved_switches"].as_f64().unwrap();
    assert!((saved - (1.0 - advice["slf"].as_f64().unwrap() / slf)).abs() < 0.01, "{row}");
    assert!(row["mean_delay_us"].as_f64().unwrap() < 64.0 && row["p99_delay_us"] == 64.0, "{row}");
    // The gain per packet is 300 ns for each saved switch, less 19 ns for each packet and 24 ns for each
    // burst.
    let [gain, held, burst] = ["gain_ns", "held", "mean_burst"].map(|name| row[name].as_f64().unwrap());
    let cost = 19.0 + 24.0 * held / burst;
    assert!((row["hold_ns"].as_f64().unwrap() - cost).abs() < 0.1, "{row}");
    assert!((gain - (saved / advice["slf"].as_f64().unwrap() * 300.0 - cost)).abs() < 1.0, "{row}");
    // A run with the advised configuration prints the SLF that the advice gives.
    let output = tidegate(
        folder.path(),
        &[&["advise", "trace.pcap", "-o", "advised.click"], wanted.as_slice()].concat(),
    );
    assert!(
        output.status.success() && text(&output.stdout).contains("Reframer (holding packets per flow): pays")
    );
    let saved = std::fs::read_to_string(folder.path().join("advised.click")).unwrap();
    assert_eq!(Some(saved.as_str()), advice["configuration"].as_str());
    let output =
        tidegate(folder.path(), &["run", "advised.click", "--clock", "trace", "-H", "reframer.slf_out"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("20000 packets written"), "{said}");
    let ran: f64 = said.lines().last().unwrap().parse().unwrap();
    let chosen = [&advice["slo"], &advice["elephants"]].into_iter().find(|choice| choice["best"] != 0);
    let expected = match chosen {
        Some(choice) => choice["rows"].as_array().unwrap().iter().find(|row| {
            choice["best"] == row["elephants"] || row["slo_us"].as_f64() == choice["best"].as_f64()
        }),
        None => Some(row),
    };
    assert_eq!(Some(ran), expected.unwrap()["slf"].as_f64(), "{saved}");
}

#[test]
fn what_does_not_pay_is_not_configured() {
    // With a thousand flows and a thousand packets per second, no packets of a flow come together.
    let folder = with_trace(&["--flows", "1000", "--packets", "3000", "--rate", "1000", "--sizes", "60"]);
    let found = advice(folder.path(), &[]);
    for mechanism in ["reframer", "elephants", "slo", "ack_coalescing", "sorting", "slicing"] {
        assert_eq!(found[mechanism]["verdict"], "does_not_pay", "{mechanism}");
    }
    let configuration = found["configuration"].as_str().unwrap();
    assert!(!configuration.contains("Reframer("), "{configuration}");
    std::fs::write(folder.path().join("advised.click"), configuration).unwrap();
    let output = tidegate(folder.path(), &["run", "advised.click"]);
    assert!(text(&output.stdout).contains("3000 packets written"), "{}", text(&output.stderr));
    // If a flow switch costs 600 ns instead of 20 ns, holding packets pays. The default is what a switch
    // costs the chain of a benchmark, where holding gains little.
    let folder = with_trace(&LOCAL);
    let verdict = |cost: &str| advice(folder.path(), &["--flow-cost", cost])["reframer"]["verdict"].clone();
    assert_eq!((verdict("20"), verdict("600")), ("does_not_pay".into(), "pays".into()));
}

#[test]
fn spraying_is_for_few_flows_and_many_packets() {
    let spraying = |arguments: &[&str]| {
        let folder = with_trace(&[&["--packets", "5000"], arguments].concat());
        advice(folder.path(), &[])["spraying"].clone()
    };
    let few = spraying(&["--flows", "2", "--rate", "2e6"]);
    // A flow goes to one of 8 cores, so both flows miss a given core with probability (7/8)^2.
    assert!((few["busy"].as_f64().unwrap() - (1.0 - 49.0 / 64.0)).abs() < 1e-9, "{few}");
    assert_eq!((&few["verdict"], &few["flows_p50"]), (&"pays".into(), &2.into()));
    assert_eq!(spraying(&["--flows", "2", "--rate", "5e5"])["verdict"], "little");
    assert_eq!(spraying(&["--flows", "100", "--rate", "2e6"])["verdict"], "does_not_pay");
}

#[test]
fn captures_that_say_nothing_are_no_reason_to_fail() {
    let folder = with_trace(&["--flows", "1", "--packets", "1", "--slf", "1"]);
    let found = advice(folder.path(), &[]);
    assert_eq!((&found["reframer"]["verdict"], &found["packets"]), (&"unknown".into(), &1.into()));
    // A capture with only its file header has no packets.
    let whole = std::fs::read(folder.path().join("trace.pcap")).unwrap();
    std::fs::write(folder.path().join("trace.pcap"), &whole[..24]).unwrap();
    let found = advice(folder.path(), &[]);
    assert_eq!((&found["reframer"]["verdict"], &found["packets"]), (&"unknown".into(), &0.into()));
    assert!(found["reframer"]["delay_us"].is_null() && found["reframer"]["break_even_ns"].is_null());
    let configuration = found["configuration"].as_str().unwrap();
    assert!(configuration.contains("// It is not known if a Reframer pays here."), "{configuration}");
}

/// Writes `trace.pcap` into a folder, with times in nanoseconds.
fn with_packets(packets: impl IntoIterator<Item = (i64, Vec<u8>)>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("trace.pcap")).unwrap();
    let options = capture::WriterOptions { nanoseconds: true, ..Default::default() };
    let mut writer = capture::Writer::new(file, options);
    for (time, frame) in packets {
        writer.write(time, frame.len() as u32, [&frame[..]]).unwrap();
    }
    writer.flush().unwrap();
    folder
}

/// Returns a TCP segment of a flow to port 80. `flow` distinguishes flows.
fn segment(flow: u16, flags: u8, sequence: u32, acknowledgment: u32, payload: usize) -> Vec<u8> {
    let ends =
        [(1000 + flow, 1), (80, 2)].map(|(port, host)| std::net::SocketAddr::from(([10, 0, 0, host], port)));
    let builder = wire::build::Builder::tcp(ends[0], ends[1], flags).sequence(sequence, acknowledgment);
    let (to, from) = (wire::MacAddr([2; 6]), wire::MacAddr([4; 6]));
    builder.ethernet(to, from).build(&vec![7; payload]).unwrap()
}

#[test]
fn stamps_that_go_back_are_not_believed() {
    // In the first capture, eight flows take turns, with one packet every 2 ms: no delay brings packets of a
    // flow together. The second capture consists of two such captures, the one with later times first. In the
    // third capture, the first packet has a time stamp an hour ahead of the others.
    const SECOND: i64 = 1_000_000_000;
    let frames = |start: i64| {
        (0..400i64).map(move |n| (start + n * 2_000_000, segment(n as u16 % 8, 16, n as u32, 1, 9)))
    };
    let verdict = |folder: tempfile::TempDir| {
        let found = advice(folder.path(), &[]);
        let notes = found["notes"].as_array().unwrap().len();
        (found["reframer"]["verdict"].as_str().unwrap().to_string(), notes)
    };
    assert_eq!(verdict(with_packets(frames(SECOND))), ("does_not_pay".into(), 0));
    let two = frames(1000 * SECOND).chain(frames(SECOND));
    assert_eq!(verdict(with_packets(two)), ("unknown".into(), 1));
    let ahead = frames(3600 * SECOND).take(1).chain(frames(SECOND));
    assert_eq!(verdict(with_packets(ahead)), ("unknown".into(), 1));
    // One early time stamp in 400 packets does not make the times unknown.
    let mut one: Vec<_> = frames(SECOND).collect();
    one[200].0 -= 1_000_000_000;
    assert_eq!(verdict(with_packets(one)), ("does_not_pay".into(), 1));
}

#[test]
fn segments_in_order_are_promised_only_where_they_are() {
    // Makes a trace with one flow of bulk data, in which every tenth segment is overtaken by its successor.
    // `apart` is the time between segments in nanoseconds.
    let trace = |apart: i64| {
        let number = |n: u32| match n % 10 {
            4 => n + 1,
            5 => n - 1,
            _ => n,
        };
        with_packets((0..2000).map(|n| (i64::from(n) * apart, segment(0, 16, 1 + 100 * number(n), 1, 100))))
    };
    // With a single flow, holding brings no packets together, but it puts segments in order.
    let folder = trace(10_000);
    let found = advice(folder.path(), &[]);
    assert_eq!(
        (&found["reframer"]["verdict"], &found["sorting"]["verdict"]),
        (&"does_not_pay".into(), &"pays".into())
    );
    // Almost all of the 200 overtaken segments arrive within the delay of 512 us after the segment that has
    // overtaken them.
    let mended = found["configured"]["mended"].as_u64().unwrap();
    assert!((190..=200).contains(&mended), "{mended}");
    let configuration = found["configuration"].as_str().unwrap();
    assert!(configuration.contains("Reframer(DELAY 512us, REORDER true)"), "{configuration}");
    std::fs::write(folder.path().join("advised.click"), configuration).unwrap();
    let output =
        tidegate(folder.path(), &["run", "advised.click", "--clock", "trace", "-H", "reframer.mended"]);
    assert_eq!(text(&output.stdout).lines().last(), Some(mended.to_string().as_str()));
    // A segment that arrives a millisecond after its successor is too late to be put in order.
    let found = advice(trace(1_000_000).path(), &[]);
    assert_eq!(found["sorting"]["verdict"], "does_not_pay", "{}", found["sorting"]);
    assert!(found["configured"].is_null());
}

#[test]
fn the_configuration_keeps_its_promise_where_acks_go() {
    // Four flows acknowledge in turn, each every 20 us. The Reframer holds 13 ACKs of a flow and drops all
    // but two of them (MAX_ACKS), so that the runs downstream of it are short.
    let acks =
        (0..4000u32).map(|n| (i64::from(n) * 5_000, segment(n as u16 % 4, 16, 5, 1000 * (n / 4 + 1), 0)));
    let folder = with_packets(acks.clone());
    let found = advice(folder.path(), &[]);
    assert_eq!(found["ack_coalescing"]["verdict"], "pays");
    let configured = &found["configured"];
    let slf = configured["slf"].as_f64().unwrap();
    assert!(slf < 2.1 && found["reframer"]["delays"][4]["slf"].as_f64().unwrap() > 10.0, "{configured}");
    // The configuration saves as many switches as the trial with the same delay but without COMPRESS: the
    // downstream chain gets short runs, but far fewer packets.
    let saved = |row: &Value| row["saved_switches"].as_f64().unwrap();
    assert!((saved(configured) - saved(&found["reframer"]["delays"][4])).abs() < 0.01, "{configured}");
    let configuration = found["configuration"].as_str().unwrap();
    assert!(configuration.contains("tidegate run --clock trace"), "{configuration}");
    std::fs::write(folder.path().join("advised.click"), configuration).unwrap();
    let output = tidegate(
        folder.path(),
        &["run", "advised.click", "--clock", "trace", "-H", "reframer.slf_out", "-H", "reframer.coalesced"],
    );
    let said = text(&output.stdout);
    let values: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(values.contains(&format!("{slf:.3}").as_str()), "{said}");
    assert!(values.contains(&configured["coalesced"].to_string().as_str()), "{said}");
    // All checksums are wrong, as in a capture from the sending machine, whose network card writes checksums
    // later. So the gain of COMPRESS is unknown.
    let folder = with_packets(acks.map(|(time, mut frame)| {
        frame[50..52].fill(0);
        (time, frame)
    }));
    let found = advice(folder.path(), &[]);
    assert_eq!(
        (&found["ack_coalescing"]["verdict"], &found["ack_coalescing"]["damaged"]),
        (&"unknown".into(), &1.0.into())
    );
    assert!(found["notes"][0].as_str().unwrap().contains("wrong checksums"), "{}", found["notes"]);
}

#[test]
fn errors_say_where_and_what() {
    let folder = with_trace(&["--packets", "2000", "--flows", "10"]);
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let output = tidegate(folder.path(), &[&["advise"], arguments].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    };
    fails(&["missing.pcap"], 1, "missing.pcap: No such file");
    fails(&["-"], 2, "several times");
    fails(&["trace.pcap", "-o", "trace.pcap"], 2, "is not overwritten");
    fails(&["trace.pcap", "-o", "nowhere/a.click"], 2, "there is no folder nowhere");
    fails(&["trace.pcap", "--flow-cost=-1"], 2, "nanoseconds");
    fails(&["trace.pcap", "--flow-cost", "-1"], 2, "nanoseconds");
    fails(&["."], 2, ".: this is a folder; name a capture");
    fails(&["trace.pcap", "-o", "same", "--json", "./same"], 2, "-o and --json name the same file");
    fails(&["trace.pcap", "-o", "-", "--json", "-"], 2, "-o and --json name the same file");
    let output = tidegate(folder.path(), &["advise", "trace.pcap", "-o", "-", "--json", "all.json"]);
    assert!(text(&output.stdout).starts_with("// Made by"), "{}", text(&output.stderr));
    assert!(folder.path().join("all.json").is_file());
    fails(&["--json"], 2, "there is no TRACE");
    let whole = std::fs::read(folder.path().join("trace.pcap")).unwrap();
    std::fs::write(folder.path().join("cut.pcap"), &whole[..whole.len() - 30]).unwrap();
    let output = tidegate(folder.path(), &["advise", "cut.pcap"]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), ""));
    let words = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the 1999 packets before it count"), "{words}");
}

#[test]
fn every_key_is_documented() {
    let folder = with_trace(&LOCAL);
    let document = std::fs::read_to_string(root().join("docs/advise.md")).unwrap();
    let (found, documented) = keys::compare(&advice(folder.path(), &[]), &document, "## Every figure");
    assert_eq!(found, documented);
}
