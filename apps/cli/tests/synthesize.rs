//! `tidegate synthesize` and `run --synthesize`: synthesized chains do the same to packets as the original
//! chains.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::found;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tidegate(args: &[&str]) -> Output {
    // A new folder for proofs, so that proofs of earlier runs of these tests are not used.
    let proofs = tempfile::tempdir().unwrap();
    tidegate_with(args, proofs.path())
}

/// Runs a command that keeps its proofs in the folder `proofs`.
fn tidegate_with(args: &[&str], proofs: &Path) -> Output {
    // Examples name files by their paths from the root.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(root()).env("TIDEGATE_PROOFS", proofs).args(args).output().unwrap()
}

/// The results of a run that are compared: its standard output, its report by element, and the packets that
/// it has written.
struct Left {
    printed: String,
    elements: BTreeMap<String, serde_json::Value>,
    totals: serde_json::Value,
    packets: Vec<u8>,
}

/// Returns values for the parameters IN and OUT, if a configuration defines them.
fn values(config: &Path, capture: &Path, packets: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(config).unwrap();
    let has = |name: &str| text.contains(&format!("${name} "));
    let given = [("IN", capture), ("OUT", packets)].into_iter().filter(|(name, _)| has(name));
    given.map(|(name, path)| format!("{name}={}", path.display())).collect()
}

fn run(config: &Path, capture: &Path, folder: &Path, more: &[&str]) -> Left {
    let (report, packets) = (folder.join("report.json"), folder.join("out.pcap"));
    let values = values(config, capture, &packets);
    // With batches of one packet, the order of all packets is the same, not only the order along each path.
    let mut args = vec!["run", config.to_str().unwrap(), "--clock", "trace", "--burst", "1", "--json"];
    args.push(report.to_str().unwrap());
    args.extend(more);
    args.extend(values.iter().map(String::as_str));
    let ran = tidegate(&args);
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let elements = report["elements"].as_array().unwrap().iter();
    let named = elements.map(|element| (element["name"].as_str().unwrap().to_string(), element.clone()));
    Left {
        printed: String::from_utf8(ran.stdout).unwrap(),
        // Elements of the class Synthesized are left out, because the original configuration has none.
        elements: named.filter(|(_, element)| element["class"] != "Synthesized").collect(),
        totals: report["totals"].clone(),
        packets: std::fs::read(packets).unwrap_or_default(),
    }
}

/// Runs a configuration without and with synthesized programs, and checks that packets, handlers and the
/// report of each element are the same.
fn compare(config: &Path, capture: &Path) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let plain = run(config, capture, folders[0].path(), &[]);
    let composed = run(config, capture, folders[1].path(), &["--synthesize=all"]);
    let what = format!("{} on {}", config.display(), capture.display());
    assert_eq!(plain.printed, composed.printed, "{what}");
    assert_eq!(plain.elements, composed.elements, "{what}");
    assert_eq!(plain.totals, composed.totals, "{what}");
    assert!(plain.packets == composed.packets, "{what}: other packets");
}

const EXAMPLES: [&str; 7] = [
    "chain.click",
    "classify.click",
    "compound.click",
    "firewall.click",
    "gateway.click",
    "quickstart.click",
    "nat.click",
];

#[test]
fn examples_run_as_they_do_without() {
    for example in EXAMPLES {
        compare(&root().join("configs").join(example), &root().join("configs/data/quickstart.pcap"));
    }
}

/// A router with two outputs, and a firewall whose rules stay together in one region.
const CHAINS: [&str; 2] = [
    "define($IN in.pcap, $OUT out.pcap);
    FromDump($IN, STOP true) -> before :: Counter -> ether :: Classifier(12/0800, -) -> Strip(14) -> check :: CheckIPHeader
        -> GetIPAddress(16) -> routes :: RadixIPLookup(0.0.0.0/1 0, 128.0.0.0/1 192.0.2.1 1, 10.0.0.0/8 1, 192.168.0.0/16 2);
    ether[1] -> others :: Counter -> Discard;
    routes[0] -> DropBroadcasts -> IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.1) -> left_ttl :: DecIPTTL
        -> IPFragmenter(576) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> left :: Counter -> out :: ToDump($OUT);
    routes[1] -> DropBroadcasts -> IPGWOptions(192.0.2.2) -> FixIPSrc(192.0.2.2) -> right_ttl :: DecIPTTL
        -> IPFragmenter(1500) -> EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2) -> right :: Counter -> out;
    routes[2] -> Discard; left_ttl[1] -> expired :: Counter -> Discard;
    DriverManager(pause, print \"$(before.count) $(left.byte_count) $(right.count) $(expired.count) $(check.drops)\", stop);",
    "define($IN in.pcap, $OUT out.pcap);
    FromDump($IN, STOP true) -> Strip(14) -> CheckIPHeader -> rules :: IPFilter(
        deny src net 10.1.0.0/16 && udp, allow src net 10.0.0.0/8, deny tcp && dst port 23, allow tcp && dst port 22,
        allow tcp && dst port 80, allow tcp && dst port 443, allow udp && dst port 53, deny udp && src port 53,
        allow udp && dst port 123, allow icmp, deny dst net 192.168.0.0/16, allow src host 1.2.3.4,
        deny src net 172.16.0.0/12, allow tcp && src port > 1023 && dst port > 1023, deny src port 7, allow src port 9,
        deny dst port 11, allow dst port 13, allow ip frag, deny all)
        -> passed :: Counter -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out :: ToDump($OUT);
    DriverManager(pause, print \"$(rules.rule_counts)$(passed.count) $(passed.byte_count)\", stop);",
];

#[test]
fn found_captures_come_out_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (number, text) in CHAINS.into_iter().enumerate() {
        let config = folder.path().join(format!("chain{number}.click"));
        std::fs::write(&config, text).unwrap();
        compare(&config, &root().join("configs/data/quickstart.pcap"));
        let Some(traces) = found::path("traces") else { continue };
        for entry in std::fs::read_dir(traces).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                compare(&config, &path);
            }
        }
    }
}

#[test]
fn a_handler_that_changes_an_element_is_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switched.click");
    let text = "define($IN in.pcap, $OUT out.pcap);
        FromDump($IN, STOP true) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL -> a :: Counter -> b :: Counter
            -> Unstrip(14) -> out :: ToDump($OUT);
        Script(wait 20ms, write ttl.active false, wait 20ms, write ttl.active true);";
    std::fs::write(&config, text).unwrap();
    compare(&config, &root().join("configs/data/quickstart.pcap"));
}

#[test]
fn what_is_written_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.click");
    let ran = tidegate(&[
        "synthesize",
        "--all",
        "configs/gateway.click",
        "--emit",
        "click",
        "-o",
        out.to_str().unwrap(),
    ]);
    assert!(ran.status.success(), "{ran:?}");
    assert!(std::fs::read_to_string(&out).unwrap().contains("Synthesized("));
    let verified = tidegate(&["verify", "configs/gateway.click", out.to_str().unwrap()]);
    assert!(verified.status.success(), "{verified:?}");
    let report =
        String::from_utf8(tidegate(&["synthesize", "--all", "configs/gateway.click"]).stdout).unwrap();
    assert!(report.contains("become one classification") && report.contains("Proven"), "{report}");
    let json = tidegate(&["synthesize", "--all", "configs/gateway.click", "--emit", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["proof"], "equivalent");
    assert!(json["regions"][0]["classes"].as_array().unwrap().len() > 3);
    let dot = String::from_utf8(
        tidegate(&["synthesize", "--all", "configs/gateway.click", "--emit", "dot"]).stdout,
    )
    .unwrap();
    assert!(dot.starts_with("digraph") && dot.contains("IP TTL"), "{dot}");
}

/// If it cannot be proven what a program would do with all packets, the elements run instead, and a message
/// says so. Here the reason is a handler that a counter calls after some packets.
#[test]
fn what_is_not_proven_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("calls.click");
    let text = "FromDump(configs/data/quickstart.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL
        -> SetIPDSCP(3) -> Paint(1) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Counter(COUNT_CALL 3 ttl.active false)
        -> Discard;";
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let report = folder.path().join("report.json");
    let report = report.to_str().unwrap();
    let ran = tidegate(&["run", config, "--synthesize=all", "-q", "--clock", "trace", "--json", report]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(
        ran.status.success() && said.contains("left as they are") && said.contains("not proven"),
        "{said}"
    );
    assert!(!std::fs::read_to_string(report).unwrap().contains("Synthesized"));
    for (more, is_there) in [(&[][..], false), (&["--unproven"], true)] {
        let written = tidegate(&[&["synthesize", "--all", config, "--emit", "click"], more].concat());
        assert!(written.status.success());
        let [text, said] = [written.stdout, written.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text.contains("Synthesized("), is_there, "{text}");
        assert!(said.contains("not proven: handlers are written"), "{said}");
    }
}

/// A program of a short chain costs more than its elements. Then the elements run, and a message says so.
#[test]
fn what_costs_more_stays_as_it_is() {
    let run = |which: &str| {
        let ran = tidegate(&["run", "configs/quickstart.click", which, "--clock", "trace"]);
        assert!(ran.status.success());
        String::from_utf8(ran.stderr).unwrap()
    };
    let said = run("--synthesize");
    assert!(said.contains("programs would cost more than the elements (--synthesize=all"), "{said}");
    assert!(run("--synthesize=all").contains("proven equivalent"));
    let report = String::from_utf8(tidegate(&["synthesize", "configs/quickstart.click"]).stdout).unwrap();
    assert!(report.contains("because a program would cost more (--all"), "{report}");
    assert!(report.ends_with("Nothing is put in, so there is nothing to prove.\n"), "{report}");
}

#[test]
fn proofs_are_kept() {
    let [kept, none] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let proven = tidegate_with(&["synthesize", "--all", "configs/gateway.click", "--prove"], kept.path());
    let said = String::from_utf8(proven.stdout).unwrap();
    assert!(proven.status.success() && said.contains("Proven to do the same"), "{said}");
    let without_time = ["synthesize", "--all", "configs/gateway.click", "--emit", "click", "--seconds", "0"];
    for (proofs, is_there) in [(&kept, true), (&none, false)] {
        let written = tidegate_with(&without_time, proofs.path());
        let [text, said] = [written.stdout, written.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text.contains("Synthesized("), is_there, "{said}");
        assert_eq!(said.contains("there is no proof yet"), !is_there, "{said}");
    }
}

/// Writes a configuration with elements that Click and FastClick have, too, and returns the file and the
/// messages.
fn in_standard_elements(config: &Path, capture: &Path, folder: &Path) -> (PathBuf, String) {
    let (written, out) = (folder.join("standard.click"), folder.join("out.pcap"));
    let values = values(config, capture, &out);
    let mut args = vec!["synthesize", config.to_str().unwrap(), "--emit", "click", "--standard"];
    args.extend(["--seconds", "10", "-o", written.to_str().unwrap()]);
    args.extend(values.iter().map(String::as_str));
    let ran = tidegate(&args);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{args:?}: {said}");
    (written, said)
}

#[test]
fn configurations_in_standard_elements_do_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut configs: Vec<PathBuf> = EXAMPLES.map(|name| root().join("configs").join(name)).to_vec();
    for (number, text) in CHAINS.into_iter().enumerate() {
        configs.push(folder.path().join(format!("chain{number}.click")));
        std::fs::write(&configs[EXAMPLES.len() + number], text).unwrap();
    }
    let mut captures = vec![root().join("configs/data/quickstart.pcap")];
    let found = found::path("traces").map(|traces| std::fs::read_dir(traces).unwrap());
    captures
        .extend(found.into_iter().flatten().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    for (number, config) in configs.iter().enumerate() {
        for capture in captures.iter().take(if number < EXAMPLES.len() { 1 } else { usize::MAX }) {
            let what = format!("{} on {}", config.display(), capture.display());
            let (written, said) = in_standard_elements(config, capture, folder.path());
            assert!(!said.contains("not proven") || config.ends_with("gateway.click"), "{what}: {said}");
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let plain = run(config, capture, folders[0].path(), &[]);
            let ran = tidegate(&["run", written.to_str().unwrap(), "--clock", "trace", "--burst", "1"]);
            assert!(ran.status.success(), "{what}: {}", String::from_utf8_lossy(&ran.stderr));
            let packets = std::fs::read(folder.path().join("out.pcap")).unwrap_or_default();
            assert!(packets == plain.packets, "{what}: other packets");
        }
    }
    // A program between Slice and Splice cannot test lengths. Writing the configuration must still succeed.
    in_standard_elements(&root().join("configs/all.click"), &captures[0], folder.path());
    // A program for the router costs less than its elements, so it is put in, in the form of standard
    // elements.
    let (written, _) = in_standard_elements(&configs[EXAMPLES.len()], &captures[0], folder.path());
    let text = std::fs::read_to_string(written).unwrap();
    assert!(text.contains("composed0/") && !text.contains("Synthesized("), "{text}");
}
