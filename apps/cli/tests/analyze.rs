//! `tidegate analyze`, `generate` and `multiply`: the behaviour that scripts rely on.

mod keys;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a report as JSON, without its origin.
fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    report_of(&output.stdout)
}

fn report_of(json: &[u8]) -> Value {
    let mut report: Value = serde_json::from_slice(json).unwrap();
    assert!(report.as_object_mut().unwrap().remove("origin").is_some());
    report
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Makes a folder with a generated trace.
fn with_trace(arguments: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = tidegate(folder.path(), &[&["generate", "-o", "trace.pcap"], arguments].concat());
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    folder
}

const SMALL: [&str; 8] = ["--flows", "50", "--packets", "5000", "--protocol", "mix", "--slf", "2.5"];

#[test]
fn what_was_generated_is_found() {
    let folder = with_trace(&SMALL);
    let report = json(&tidegate(folder.path(), &["analyze", "trace.pcap", "--json"]));
    assert_eq!((report["packets"].as_u64(), report["flows"].as_u64()), (Some(5000), Some(50)));
    let slf = report["slf"].as_f64().unwrap();
    assert!((slf - 2.5).abs() < 0.025, "{slf}");
    for path in ["/switches/32/as_is", "/switches/1024/ordered", "/batch/1/mean", "/batch/1024/p75"] {
        assert!(report.pointer(path).is_some_and(Value::is_number), "{path}");
    }
    assert!(report["concurrent_flows_150us"]["p99"].is_u64() && report["tcp_reordered_ratio"] == 0.0);
    assert!(report["sliceable"]["bytes"].as_f64().unwrap() > 0.5);
    // The report as text has the same figures as the JSON.
    let output = tidegate(folder.path(), &["analyze", "trace.pcap"]);
    assert!(
        text(&output.stdout).contains("5,000 in ") && text(&output.stdout).contains("2.500 packets per run")
    );
    assert_eq!(text(&output.stderr), "");
    let same = tidegate(
        folder.path(),
        &["generate", "-o", "-", "--flows", "50", "--packets", "5000", "--protocol", "mix", "--slf", "2.5"],
    );
    assert!(same.stdout == std::fs::read(folder.path().join("trace.pcap")).unwrap());
}

#[test]
fn several_traces_are_one() {
    let folder = with_trace(&SMALL);
    let once = json(&tidegate(folder.path(), &["analyze", "trace.pcap", "--json"]));
    let twice =
        json(&tidegate(folder.path(), &["analyze", "trace.pcap", "trace.pcap", "--json", "--top-ips", "2"]));
    assert_eq!(twice["packets"], 10_000);
    // Each capture has its own windows of 150 us, although both captures have the same times, so the count of
    // windows doubles.
    let windows = |report: &Value| report["concurrent_flows_150us"]["count"].as_u64().unwrap();
    assert_eq!(windows(&twice), 2 * windows(&once));
    assert_eq!((&twice["flows"], &twice["duration_s"]), (&once["flows"], &once["duration_s"]));
    assert_eq!(twice["traces"].as_array().unwrap().len(), 2);
    assert_eq!(twice["top_ips"].as_array().unwrap().len(), 2);
}

#[test]
fn a_capture_behind_json_is_read_and_not_written() {
    let folder = with_trace(&SMALL);
    let path = folder.path().join("trace.pcap");
    let before = std::fs::read(&path).unwrap();
    let report = json(&tidegate(folder.path(), &["analyze", "--json", "trace.pcap"]));
    assert_eq!((report["packets"].as_u64(), std::fs::read(&path).unwrap() == before), (Some(5000), true));
    // A capture that follows `--html` or `--json` is not overwritten.
    for option in ["--html", "--json"] {
        std::fs::copy(&path, folder.path().join("other.pcap")).unwrap();
        let output = tidegate(folder.path(), &["analyze", "trace.pcap", option, "./other.pcap"]);
        let kept = std::fs::read(folder.path().join("other.pcap")).unwrap() == before;
        assert!(kept, "{option}");
        if option == "--html" {
            assert_eq!(output.status.code(), Some(2));
            assert!(text(&output.stderr).contains("is not overwritten"), "{}", text(&output.stderr));
        }
    }
    // Files that cannot be written are reported before the captures are read.
    let output = tidegate(folder.path(), &["analyze", "missing.pcap", "--html", "nowhere/page.html"]);
    assert_eq!(text(&output.stderr), "nowhere/page.html: there is no folder nowhere\n");
    let output =
        tidegate(folder.path(), &["analyze", "trace.pcap", "--json", "report.json", "--html", "page.html"]);
    assert!(output.status.success() && text(&output.stdout).contains("locality"));
    assert_eq!(report_of(&std::fs::read(folder.path().join("report.json")).unwrap()), report);
}

/// Runs a command with `trace.pcap` of the folder on standard input, through a pipe.
fn tidegate_reading(folder: &Path, arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes = std::fs::read(folder.join("trace.pcap")).unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::spawn(move || _ = pipe.write_all(&bytes));
    child.wait_with_output().unwrap()
}

#[test]
fn a_pipe_is_read_once() {
    let folder = with_trace(&SMALL);
    let analyze = |more: &[&str]| {
        tidegate_reading(folder.path(), &[&["analyze", "/dev/stdin", "--json"], more].concat())
    };
    let output = analyze(&[]);
    assert_eq!((json(&output)["packets"].as_u64(), text(&output.stderr).as_str()), (Some(5000), ""));
    // `-` means standard input.
    let output = tidegate_reading(folder.path(), &["analyze", "-", "--json"]);
    assert_eq!((json(&output)["traces"][0]["name"].as_str(), text(&output.stderr).as_str()), (Some("-"), ""));
    let output = analyze(&["--top-ips", "3"]);
    assert_eq!(json(&output)["packets"], 5000);
    assert!(text(&output.stderr).contains("a second time"), "{}", text(&output.stderr));
}

#[test]
fn the_page_stands_alone() {
    let folder = with_trace(&SMALL);
    let output = tidegate(folder.path(), &["analyze", "trace.pcap", "--html", "page.html", "--top-ips", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    let plots = page.matches("<svg").count();
    assert!(
        plots >= 9
            && plots == page.matches("</svg>").count()
            && plots == page.matches("<figcaption>").count()
    );
    for foreign in ["<script", "<link", "src=", "@import", "NaN", "inf"] {
        assert!(!page.replace("infrequent", "").contains(foreign), "{foreign}");
    }
    // The page loads nothing: the only address is the XML namespace of SVG.
    assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count());
    // Each curve stays inside its plot.
    for number in page.split("points=\"").skip(1).flat_map(|part| {
        part.split('"')
            .next()
            .unwrap_or_default()
            .split([' ', ','])
            .filter(|n| !n.is_empty())
            .collect::<Vec<_>>()
    }) {
        let number: f64 = number.parse().unwrap();
        assert!((0.0..=460.0).contains(&number), "{number}");
    }
}

#[test]
fn filters_are_those_of_ipfilter() {
    let folder = with_trace(&[&SMALL[..], &["--ipv6", "0.5"]].concat());
    let count = |filter: &str| {
        json(&tidegate(folder.path(), &["analyze", "trace.pcap", "--json", "--filter", filter]))["packets"]
            .as_u64()
            .unwrap()
    };
    // The terms of a filter are about IPv4 unless they name another version.
    let counts = ["tcp", "udp", "ip6 tcp", "ip6 udp"].map(count);
    assert!(counts.iter().all(|count| *count > 0) && counts.iter().sum::<u64>() == 5000, "{counts:?}");
    assert_eq!(count("ip vers 6"), counts[2] + counts[3]);
    assert_eq!(count("not tcp"), 5000 - counts[0]);
    assert_eq!(count("tcp opt syn && src net 198.18/16"), count("tcp opt syn"));
    assert_eq!(count("tcp opt syn || udp || ip6 udp || ip6 tcp || tcp opt ack"), 5000);
    assert_eq!(count("port 9"), 0);
    let output = tidegate(folder.path(), &["analyze", "trace.pcap", "--filter", "tcp prot 80"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("--filter: "), "{}", text(&output.stderr));
}

#[test]
fn errors_say_where_and_what() {
    let folder = with_trace(&SMALL);
    let path = |name: &str| folder.path().join(name);
    let whole = std::fs::read(path("trace.pcap")).unwrap();
    std::fs::write(path("empty.pcap"), b"").unwrap();
    std::fs::write(path("text.pcap"), b"this is no capture").unwrap();
    std::fs::write(path("cut.pcap"), &whole[..whole.len() - 30]).unwrap();
    std::fs::write(path("header.pcap"), &whole[..30]).unwrap();
    let mut usb = whole.clone();
    usb[20..24].copy_from_slice(&189u32.to_le_bytes());
    std::fs::write(path("usb.pcap"), usb).unwrap();
    let fails = |name: &str, words: &str| {
        let output = tidegate(folder.path(), &["analyze", name]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {errors}");
        assert!(errors.starts_with(name) && errors.contains(words), "{errors}");
        text(&output.stdout)
    };
    assert_eq!(fails("missing.pcap", "No such file"), "");
    assert_eq!(fails("empty.pcap", "empty file"), "");
    assert_eq!(fails("text.pcap", "not a tcpdump file"), "");
    assert_eq!(fails("header.pcap", "packet 1"), "");
    // The packets ahead of the damage are analysed and reported.
    assert!(fails("cut.pcap", "the 4999 packets before it count").contains("4,999 packets, then damaged"));
    let output = tidegate(folder.path(), &["analyze", "usb.pcap"]);
    assert!(
        output.status.success() && text(&output.stderr).contains("link type 189 is not known: 5000 packets")
    );
    assert_eq!(tidegate(folder.path(), &["analyze"]).status.code(), Some(2));
    for wrong in [["--slf", "0.5"], ["--packets", "49"], ["--sizes", "20"], ["--ipv6", "2"]] {
        let output = tidegate(folder.path(), &[&["generate", "-o", "no.pcap"], &SMALL[..2], &wrong].concat());
        assert_eq!((output.status.code(), path("no.pcap").exists()), (Some(2), false), "{wrong:?}");
    }
}

#[test]
fn every_key_is_documented() {
    let folder = with_trace(&SMALL);
    let report = json(&tidegate(folder.path(), &["analyze", "trace.pcap", "--json", "--top-ips", "1"]));
    let document = std::fs::read_to_string(root().join("docs/analyze.md")).unwrap();
    let (found, documented) = keys::compare(&report, &document, "## Every figure");
    assert_eq!(found.difference(&documented).collect::<Vec<_>>(), Vec::<&String>::new(), "not documented");
    assert_eq!(
        documented.difference(&found).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "documented, but not there"
    );
}

#[test]
fn windows_of_a_trace_are_as_much_more_load() {
    let folder = with_trace(&SMALL);
    let before = json(&tidegate(folder.path(), &["analyze", "trace.pcap", "--json"]));
    let multiply = ["multiply", "trace.pcap", "--windows", "4", "--length", "1ms", "-o", "more.pcap.gz"];
    let output = tidegate(folder.path(), &multiply);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(
        said.contains("4 windows of 0.001 s with 1000 to 1000 packets each: 4000 packets in 0.001 s"),
        "{said}"
    );
    assert!(said.contains("1000 packets after the last window are omitted"), "{said}");
    let after = json(&tidegate(folder.path(), &["analyze", "more.pcap.gz", "--json"]));
    let of = |report: &Value, place: &str| report.pointer(place).and_then(Value::as_f64).unwrap();
    assert_eq!(of(&after, "/packets"), 4000.0);
    assert!(of(&after, "/flows") > 2.0 * of(&before, "/flows"));

    let wrong = |more: &[&str]| {
        let output = tidegate(folder.path(), &[&["multiply", "trace.pcap"], more].concat());
        assert!(!output.status.success());
        text(&output.stderr)
    };
    assert!(
        wrong(&["--windows", "2", "--length", "1ms", "-o", "trace.pcap"]).contains("written over itself")
    );
    assert!(wrong(&["--windows", "2", "--length", "soon", "-o", "no.pcap"]).contains("'soon' is no time"));
    assert!(
        wrong(&["--windows", "9", "--length", "1ms", "-o", "no.pcap"])
            .contains("window 6 of 9 has no packets")
    );
    assert!(wrong(&["--windows", "999", "--length", "1ms", "-o", "no.pcap"]).contains("1 to 256 windows"));
    assert!(!folder.path().join("no.pcap").exists());
}

#[test]
fn traffic_like_a_campus_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let campus =
        ["generate", "-o", "campus.pcap", "--like", "campus", "--direction", "rx", "--snap-length", "100"];
    let output = tidegate(folder.path(), &campus);
    assert!(output.status.success(), "{output:?}");
    let report = tidegate(folder.path(), &["analyze", "campus.pcap", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let packets = report["packets"].as_f64().unwrap();
    assert!((90_000.0..110_000.0).contains(&packets), "{packets}");
    assert_eq!(report["tcp_flow_sizes"]["packets"]["min"], 1);
    let mean = report["mean_packet_bytes"].as_f64().unwrap();
    assert!((800.0..970.0).contains(&mean), "{mean}");
    // These options contradict the campus, or belong to it.
    let wrong: [&[&str]; 4] = [
        &["--like", "campus", "--slf", "2"],
        &["--like", "campus", "--packets", "1000"],
        &["--like", "campus", "--flows-alive", "1000000"],
        &["--direction", "rx"],
    ];
    for wrong in wrong {
        let output = tidegate(folder.path(), &[&["generate", "-o", "no.pcap"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
        assert!(!folder.path().join("no.pcap").exists());
    }
}
