//! Checks that `configs/all.click`, which has all five mechanisms, produces the same packets as its chain
//! without mechanisms, except for the order between flows, the order within TCP flows, and the ports that the
//! translator chooses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use capture::Reader;
use testkit::found;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of `configs/all.click` without the elements on lines that contain any of these words.
fn without(words: &[&str]) -> String {
    let text = std::fs::read_to_string(root().join("configs/all.click")).unwrap();
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match line {
            // Only Splice is left out. The line keeps `out` as the start of the path, which continues with
            // the elements on the next line.
            line if line.starts_with("out -> Splice") && words.contains(&"Splice(") => {
                lines.push("out".into())
            }
            line if words.iter().any(|word| line.contains(word)) && line.contains("->") => {}
            line => lines.push(line.into()),
        }
    }
    let text = lines.join("\n") + "\n";
    assert!(words.iter().all(|word| !text.contains(&format!("-> {word}"))), "{text}");
    text
}

const MECHANISMS: [&str; 4] = ["Juggler(", "Reframer(", "Slice(", "Splice("];

/// Returns NAME=VALUE for the parameters IN and OUT, as far as the configuration defines them. A
/// synthesized configuration has their values in it already.
fn values(config: &Path, capture: &Path, packets: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(config).unwrap();
    let given = [("IN", capture), ("OUT", packets)].into_iter();
    let defined = given.filter(|(name, _)| text.contains(&format!("${name} ")));
    defined.map(|(name, path)| format!("{name}={}", path.display())).collect()
}

/// Runs a configuration on a capture, and returns its report and the packets that it has written.
fn run(config: &Path, capture: &Path, folder: &Path, options: &[&str]) -> (serde_json::Value, PathBuf) {
    let (report, packets) = (folder.join("report.json"), folder.join("out.pcap"));
    let _ = std::fs::remove_file(&packets);
    let ran = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .current_dir(root())
        .arg("run")
        .arg(config)
        .args(["-q", "--json", report.to_str().unwrap()])
        .args(options)
        .args(values(config, capture, &packets))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{options:?}: {}", String::from_utf8_lossy(&ran.stderr));
    (serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap(), packets)
}

/// Packets by flow. The key has the addresses and ports with which the flow left. The packets are in the
/// order in which they left, with the ports and checksums that the address translator wrote set to zero.
type Flows = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// The outer address of the translator.
const OUTSIDE: [u8; 4] = [192, 0, 2, 1];

fn flows(packets: &Path) -> Flows {
    let mut flows = Flows::new();
    let mut reader = Reader::open(packets).unwrap();
    while let Some(record) = reader.next().unwrap() {
        let mut frame = record.data.to_vec();
        let is_ip = frame.get(12..14) == Some(&[8, 0]) && frame.len() >= 34;
        let mut key = vec![0; 13];
        if is_ip {
            key[0] = frame[23];
            key[1..9].copy_from_slice(&frame[26..34]);
            let header = 14 + usize::from(frame[14] & 15) * 4;
            let is_first = frame[20] & 0x1f == 0 && frame[21] == 0;
            // First fragments have ports, but are forwarded by their addresses alone, like the later
            // fragments of a datagram. So the flag "more fragments" is put into the key: with two workers,
            // fragments count as a flow of their own.
            key[0] |= (frame[20] & 0x20) << 2;
            let ports = header..header + 4;
            if is_first && matches!(frame[23], 6 | 17) && frame.len() >= ports.end {
                key[9..].copy_from_slice(&frame[ports]);
                let checksum = header + if frame[23] == 6 { 16 } else { 6 };
                if frame[26..30] == OUTSIDE && frame.len() >= checksum + 2 {
                    frame[header..header + 2].fill(0);
                    frame[checksum..checksum + 2].fill(0);
                }
            }
        }
        flows.entry(key).or_default().push(frame);
    }
    flows
}

/// Returns the packets of all flows, sorted, without the addresses and ports that the address translator
/// chose. If two runs give equal results, their outputs differ only in the names (addresses and ports) of
/// flows.
fn renamed(flows: Flows) -> Vec<(u8, Vec<Vec<u8>>)> {
    let sorted = |(key, mut packets): (Vec<u8>, Vec<Vec<u8>>)| {
        // Juggler or the network may have reordered TCP segments, and packets without ports may belong to
        // several flows, so these are sorted. Datagrams have to stay in order.
        if key[0] != 17 || key[9..] == [0; 4] {
            packets.sort();
        }
        (key[0], packets)
    };
    let mut all: Vec<_> = flows.into_iter().map(sorted).collect();
    all.sort();
    all
}

/// Checks that each packet that came in has left, or was dropped with a reason, and that none is held.
fn balances(report: &serde_json::Value) {
    let of = |name: &str| report["totals"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {report}"));
    assert_eq!(of("in"), of("out") + of("held") + of("dropped"), "{}", report["totals"]);
    assert_eq!(of("held"), 0);
}

/// Synthesizes the configuration for this capture, with only those programs that are proven within a second.
/// Returns the path of the synthesized configuration.
fn composed(config: &Path, capture: &Path, folder: &Path) -> PathBuf {
    let composed = folder.join("composed.click");
    let ran = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .current_dir(root())
        .args(["synthesize", "--all"])
        .arg(config)
        .args(["--seconds", "1", "--emit", "click", "-o"])
        .arg(&composed)
        .args([format!("IN={}", capture.display()), format!("OUT={}", folder.join("out.pcap").display())])
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&composed).unwrap_or_default();
    assert!(text.contains("Synthesized("), "{}", String::from_utf8_lossy(&ran.stderr));
    composed
}

/// Compares the packets of the chain without mechanisms, on one worker, with those of the chain with all
/// mechanisms and of its synthesized form, each on one and on two workers.
fn compare(plain: &Path, all: &Path, capture: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let composed = &composed(all, capture, folder.path());
    let (report, packets) = run(plain, capture, folder.path(), &["--clock", "trace"]);
    balances(&report);
    let (count, expected) = (report["totals"]["out"].clone(), renamed(flows(&packets)));
    let two = ["--threads", "2", "--steering", "auto"];
    for (config, options) in
        [(all, &["--clock", "trace"][..]), (composed, &["--clock", "trace"]), (all, &two), (composed, &two)]
    {
        let what = format!("{} {options:?} on {}", config.display(), capture.display());
        let (report, packets) = run(config, capture, folder.path(), options);
        balances(&report);
        assert_eq!(report["totals"]["out"], count, "{what}");
        assert!(renamed(flows(&packets)) == expected, "{what}: other packets");
    }
}

#[test]
fn all_five_give_what_the_chain_gives() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain.click");
    std::fs::write(&plain, without(&MECHANISMS)).unwrap();
    let all = root().join("configs/all.click");
    compare(&plain, &all, &root().join("configs/data/quickstart.pcap"));
    let Some(traces) = found::path("traces") else { return };
    for entry in std::fs::read_dir(traces).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            compare(&plain, &all, &path);
        }
    }
}

#[test]
fn each_mechanism_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let capture = root().join("configs/data/quickstart.pcap");
    for words in [&["Juggler("][..], &["Reframer("], &["Slice(", "Splice("]] {
        let config = folder.path().join("without.click");
        std::fs::write(&config, without(words)).unwrap();
        let (report, _) = run(&config, &capture, folder.path(), &["--clock", "trace"]);
        balances(&report);
    }
}

/// Chains with mechanisms in different orders: the chain, true if `check` accepts it, and a part of the
/// output of `check`.
const ORDERS: [(&str, bool, &str); 8] = [
    (
        "Slice(t) -> Juggler -> Splice(t) -> Discard",
        false,
        "is downstream of 'Slice@2 :: Slice', which parks payloads",
    ),
    (
        "Slice(t) -> Reframer -> Splice(t) -> Discard",
        false,
        "is downstream of 'Slice@2 :: Slice', which parks payloads",
    ),
    (
        "Slice(t) -> Slice(t) -> Splice(t) -> Discard",
        false,
        "is downstream of 'Slice@2 :: Slice', which parks payloads",
    ),
    ("Slice(t) -> Discard", false, "parks payloads, and no path leads to an element that joins them again"),
    (
        "Splice(t) -> Slice(t) -> Discard",
        false,
        "parks payloads, and no path leads to an element that joins them again",
    ),
    ("Splice(t) -> Discard", false, "joins payloads that no element parks"),
    (
        "Juggler -> RandomPath(0us, 500us) -> Discard",
        true,
        "may reorder packets that 'Juggler@2 :: Juggler' has put in order",
    ),
    ("Juggler -> Reframer -> Slice(t) -> Splice(t) -> Discard", true, "no errors"),
];

#[test]
fn orders_that_cannot_work_are_refused_with_the_reason() {
    let capture = root().join("configs/data/quickstart.pcap");
    for (order, works, said) in ORDERS {
        let text = format!("FromDump({}) -> {order}; t :: PayloadTable", capture.display());
        let output =
            Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["check", "-e", &text]).output().unwrap();
        let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.success(), works, "{order}: {all}");
        assert!(all.contains(said), "{order}: {all}");
    }
    // Holding packets per flow needs all packets of a flow at one worker, so spreading them is refused, and
    // the error recommends `--steering auto`, with which flows stay whole where that is needed.
    let options = ["--threads", "2", "--steering", "spray"];
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .current_dir(root())
        .args(["run", "configs/all.click"])
        .args(options)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("`--steering auto` leaves flows whole there"),
        "{error}"
    );
}
