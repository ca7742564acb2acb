//! `tidegate trace-packet`, and the handler `trace` of a run.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn tidegate(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_tidegate")).current_dir(root).args(args).output().unwrap()
}

/// Runs `trace-packet` with these arguments, and returns what it prints.
fn traced(args: &[&str]) -> String {
    let output = tidegate(&[&["trace-packet"], args].concat());
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {errors}");
    text
}

/// Runs `trace-packet` with arguments that are wrong, and returns its message.
fn refused(args: &[&str]) -> String {
    let output = tidegate(&[&["trace-packet"], args].concat());
    assert!(!output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

const UDP: &str = "udp 10.1.0.1:5000 > 10.2.0.1:53";

#[test]
fn each_step_says_what_changed_and_which_rule_decided() {
    assert_eq!(
        traced(&["configs/quickstart.click", UDP]),
        "packet 1, enters at FromDump@1: UDP 10.1.0.1:5000 > 10.2.0.1:53, TTL 64, 42 bytes\n\
         \x20 FromDump@1 :: FromDump: output 0, to reframer\n\
         \x20 reframer :: Reframer: held\n\
         \x20 reframer :: Reframer: has held it until now; output 0, to ether\n\
         \x20 ether :: Classifier: output 0, to check\n\
         \x20     rule '12/0800', configs/quickstart.click:14\n\
         \x20 check :: CheckIPHeader: output 0, to protocol\n\
         \x20 protocol :: Classifier: output 1, to udp\n\
         \x20     rule '23/11', configs/quickstart.click:17\n\
         \x20 udp :: Counter: output 0, to ttl\n\
         \x20 ttl :: DecIPTTL: output 0, to EtherRewrite@17\n\
         \x20     TTL: 64 -> 63\n\
         \x20     IP checksum: 0x66cd -> 0x67cd\n\
         \x20 EtherRewrite@17 :: EtherRewrite: output 0, to out\n\
         \x20     Ethernet source: 02:00:00:00:00:01 -> 02:00:00:00:00:03\n\
         \x20     Ethernet destination: 02:00:00:00:00:02 -> 02:00:00:00:00:04\n\
         \x20 out :: ToDump: sent out of the graph\n"
    );
    let text = traced(&["configs/firewall.click", "tcp 192.168.1.5:53 > 8.8.8.8:22 syn"]);
    assert!(text.contains("rules :: IPFilter: dropped: denied\n      rule, line "), "{text}");
    assert!(text.contains("of configs/data/firewall.rules\n"), "{text}");
}

/// Returns the steps of a trace in JSON.
fn steps(args: &[&str]) -> Vec<Value> {
    let json: Value = serde_json::from_str(&traced(&[args, &["--json"]].concat())).unwrap();
    json["steps"].as_array().unwrap().clone()
}

/// Returns the element and the outcome of each step of one packet.
fn way(steps: &[Value], packet: u64) -> Vec<(String, String)> {
    let of_packet = steps.iter().filter(|step| step["packet"] == packet);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    of_packet.map(|step| (text(&step["element"]), text(&step["outcome"]["what"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

#[test]
fn copies_have_numbers_and_ways_of_their_own() {
    let text = "s :: FromDump(unused) -> t :: Tee(3) -> p :: Paint(7) -> CheckPaint(7) -> a :: Discard; \
        t[1] -> Strip(14) -> MarkIPHeader -> i :: ICMPError(192.0.2.1, unreachable, host) -> b :: Discard; t[2] -> c :: Discard";
    let steps = steps(&["-e", text, UDP]);
    assert_eq!(way(&steps, 1)[..2], pairs(&[("s", "left"), ("t", "left")]));
    let mut ends: Vec<String> = (1..=3).map(|packet| way(&steps, packet).last().unwrap().0.clone()).collect();
    ends.sort();
    assert_eq!(ends, ["a", "b", "c"]);
    let made = steps.iter().filter(|step| step["made_from"] == 1);
    assert_eq!(made.count(), 2);
    // The error is made in place of the packet that it is about.
    let error = steps.iter().find(|step| step["element"] == "i").unwrap();
    let sources: Vec<&Value> = error["changes"].as_array().unwrap().iter().collect();
    assert_eq!((&sources[0]["field"], &sources[0]["after"]), (&"IP source".into(), &"192.0.2.1".into()));
    let paint = steps.iter().find(|step| step["element"] == "p").unwrap();
    assert_eq!(paint["changes"][0]["after"], "7");
}

#[test]
fn packets_are_followed_through_queues_and_on_pull_paths() {
    let text = "s :: FromDump(unused) -> q :: Queue(10) -> Strip(14) -> f :: CheckIPHeader -> u :: Unqueue \
        -> out :: ToDump(/nonexistent/file)";
    let good = steps(&["-e", text, UDP]);
    let path = [("s", "left"), ("q", "held"), ("q", "left")];
    assert_eq!(way(&good, 1)[..3], pairs(&path));
    assert_eq!(way(&good, 1).last().unwrap(), &pairs(&[("out", "sent")])[0]);
    // A packet that is dropped while it is pulled ends there: too short for IP.
    let bad = steps(&["-e", text, "--packet", "0200000000020200000000010800450000"]);
    assert_eq!(way(&bad, 1).last().unwrap(), &pairs(&[("f", "dropped")])[0]);
    assert!(bad.last().unwrap()["outcome"]["reasons"][0].is_string());
}

#[test]
fn earlier_packets_leave_state() {
    let nat = "s :: FromDump(unused) -> Strip(14) -> CheckIPHeader -> c :: IPClassifier(src host 10.0.0.1, -); \
        c[0] -> [0] nat :: IPRewriter(pattern 192.0.2.1 5000 - - 0 1, drop); c[1] -> [1] nat; \
        nat[0] -> Discard; nat[1] -> Discard";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.pcap");
    // A packet from inside, and the answer to it.
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    for (second, [from, to]) in
        [["10.0.0.1:4000", "10.0.0.9:53"], ["10.0.0.9:53", "192.0.2.1:5000"]].iter().enumerate()
    {
        let builder = wire::build::Builder::udp(from.parse().unwrap(), to.parse().unwrap());
        let link = |last| wire::MacAddr([2, 0, 0, 0, 0, last]);
        let frame = builder.ethernet(link(1), link(2)).build(&[]).unwrap();
        writer.write(second as i64 * 1_000_000_000, 42, [&frame[..]]).unwrap();
    }
    writer.flush().unwrap();
    let second = format!("{}#2", path.display());
    let at_nat = |steps: Vec<Value>| steps.into_iter().find(|step| step["element"] == "nat").unwrap();
    let alone = at_nat(steps(&["-e", nat, "--from", &second]));
    assert_eq!(alone["outcome"]["what"], "dropped", "{alone}");
    let after = at_nat(steps(&["-e", nat, "--from", &second, "--earlier"]));
    assert_eq!(after["time_ns"], 1_000_000_000);
    assert_eq!(after["outcome"]["output"], 1, "{after}");
    assert_eq!(after["changes"][0]["field"], "IP destination");
    assert_eq!(after["changes"][0]["after"], "10.0.0.1");
    let first = at_nat(steps(&["-e", nat, "--from", &path.display().to_string()]));
    assert_eq!(first["changes"][0]["after"], "192.0.2.1");
}

#[test]
fn pictures_mark_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    for path in ["configs/quickstart.click", "configs/nat.click", "configs/router.click", "configs/all.click"]
    {
        let at = if path.contains("router") { &["--at", "FromDump@14"][..] } else { &[] };
        traced(&[&[path, UDP, "--picture", &file("way.svg")], at].concat());
        let svg = std::fs::read_to_string(file("way.svg")).unwrap();
        assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"), "{path}");
        // The way is drawn in red.
        assert!(svg.matches("#ff0000").count() > 2, "{path}");
        traced(&[&[path, UDP, "--picture", &file("way.dot")], at].concat());
        let dot = std::fs::read_to_string(file("way.dot")).unwrap();
        assert!(dot.contains("label=\"1\", color=red"), "{path}");
    }
}

#[test]
fn no_file_is_written_and_no_interface_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let text = format!("FromDump(unused) -> ToDump({})", out.display());
    traced(&["-e", &text, UDP]);
    assert!(!out.exists());
    let steps =
        steps(&["-e", "in :: FromDevice(no-such-interface) -> out :: ToDevice(no-such-interface2)", UDP]);
    assert_eq!(way(&steps, 1), pairs(&[("in", "left"), ("out", "sent")]));
    assert_eq!(
        (steps[0]["class"].as_str(), steps[1]["class"].as_str()),
        (Some("FromDevice"), Some("ToDevice"))
    );
}

#[test]
fn wrong_arguments_say_what_to_do() {
    let quickstart = "configs/quickstart.click";
    for (args, message) in [
        (&[quickstart][..], "which packet? Give --packet HEX, --from CAPTURE#N"),
        (&[quickstart, UDP, "--packet", "00"], "only one packet can be traced"),
        (&[quickstart, "--packet", "0g"], "hexadecimal digits, two for each byte"),
        (&[quickstart, "--from", "configs/data/quickstart.pcap#1000"], "there is no packet 1000"),
        (&[quickstart, "--from", "configs/data/quickstart.pcap#0"], "has to be 1 or more"),
        (&[quickstart, "--from", "nosuch.pcap#1"], "nosuch.pcap"),
        (&[quickstart, UDP, "--at", "ttl"], "no packets enter at 'ttl', but at: FromDump@1"),
        (&["configs/router.click", UDP], "choose one with --at: FromDump@"),
        (&["-e", "Idle -> Discard", UDP], "no element of the configuration gives packets"),
        (&["-e", "NoSuchClass -> Discard", UDP], "NoSuchClass"),
    ] {
        let text = refused(args);
        assert!(text.contains(message), "{args:?}: {text}");
    }
}

/// A run that orders packets by the handler, and prints the traces at its end.
fn run(order: &str, more: &[&str]) -> String {
    let text = format!(
        "FromDump(configs/data/quickstart.pcap) -> c :: Classifier(12/0800, -) -> Counter -> d :: Discard; c[1] -> e :: Discard;
         DriverManager(write trace {order}, pause, print $(trace), stop)"
    );
    let output = tidegate(&[&["run", "--clock", "trace", "-e", &text], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_run_traces_the_packets_that_were_ordered() {
    for workers in ["1", "2"] {
        let text = run("3 udp", &["--threads", workers]);
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("packet ")).collect();
        assert_eq!(heads.len(), 3, "{workers}: {text}");
        assert!(heads.iter().all(|head| head.contains(": UDP ")), "{text}");
        assert_eq!(text.matches("dropped: discard").count(), 3, "{workers}: {text}");
    }
    // More packets than there are.
    let text = run("1000", &[]);
    assert!(text.contains("packet 190,") && text.contains("more packets are wanted"), "{text}");
}

/// Twelve packets of one time come in one batch, of which two are traced. Each leaves by an output to which
/// others of the batch have gone before.
#[test]
fn packets_of_one_batch_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batch.pcap");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    for port in 1001..=1012 {
        let (from, to) = (format!("10.0.0.1:{port}"), "10.0.0.9:53");
        let builder = wire::build::Builder::udp(from.parse().unwrap(), to.parse().unwrap());
        let link = |last| wire::MacAddr([2, 0, 0, 0, 0, last]);
        let frame = builder.ethernet(link(1), link(2)).build(&[]).unwrap();
        writer.write(0, 42, [&frame[..]]).unwrap();
    }
    writer.flush().unwrap();
    let traced = |graph: &str| {
        let text = format!(
            "FromDump({}) -> {graph}; DriverManager(write trace 2 src port 1005 or src port 1012, pause, print $(trace), stop)",
            path.display()
        );
        let output = tidegate(&["run", "--clock", "trace", "-e", &text]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // These packets do not start with an IP header.
    let text = traced("c :: CheckIPHeader -> Discard; c[1] -> d :: Discard");
    assert_eq!(text.matches("c :: CheckIPHeader: output 1, to d").count(), 2, "{text}");
    assert_eq!(text.matches("d :: Discard: dropped: discard").count(), 2, "{text}");
    // The last packet displaces one that the queue held.
    let text = traced("q :: FrontDropQueue(2) -> u :: Unqueue -> d :: Discard");
    assert!(text.contains("q :: FrontDropQueue: held, or dropped: queue full"), "{text}");
    assert_eq!(text.matches("d :: Discard: dropped: discard").count(), 1, "{text}");
}

#[test]
fn wrong_orders_are_refused() {
    for (order, message) in [
        ("0", "expected 1 to 1000"),
        ("1001", "expected 1 to 1000"),
        ("many", "expected 1 to 1000"),
        ("2 src host", "host"),
    ] {
        let text = format!(
            "FromDump(configs/data/quickstart.pcap) -> Discard; DriverManager(write trace {order}, stop)"
        );
        let output = tidegate(&["run", "--clock", "trace", "-e", &text]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(message), "{order}: {errors}");
    }
}

/// A Unix socket has a file, but a packet that is traced is not sent to it.
#[test]
fn no_packet_is_sent_to_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let config = folder.path().join("x.click");
    let text = format!("FromDump(x.pcap) -> Socket(UNIX, FILENAME {}, CLIENT true)", path.display());
    std::fs::write(&config, text).unwrap();
    let output = tidegate(&["trace-packet", &config.display().to_string(), "udp 10.0.0.1:1 > 10.0.0.2:2"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains(":: Socket"));
    assert!(listener.accept().is_err(), "nothing has connected");
}
