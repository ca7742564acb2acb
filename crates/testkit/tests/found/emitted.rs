//! Runs every example configuration that reads a capture on every capture of the found data. The packets that
//! they write must have correct checksums, and every packet must be accounted for.
//!
//! The IPv4 header checksum and the checksum of TCP, UDP, ICMP or ICMPv6 are checked by the testkit's own
//! checker. A wrong checksum is excused if a packet of the capture already has it, because the configuration
//! is not supposed to correct it. That packet may differ in the fields that translators, balancers and
//! routers change: addresses, ports, identifiers, time to live. If an IPv4 datagram arrived in fragments, the
//! whole datagram is compared. If its fragments overlap or are incomplete, its transport checksum is not
//! checked. ICMP errors are compared by type, code and length.
//!
//! Not checked are packets whose end was not captured, UDP without a checksum, output fragments, and packets
//! with IPv4 source routes or IPv6 routing headers with segments left.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::TestRun;
use testkit::checker::{self, ChecksumResult, KnownWrong};
use testkit::found::{self, files};

/// The results of one example configuration on all captures.
#[derive(Clone, Debug, Default)]
struct Tally {
    runs: usize,
    written: usize,
    right: usize,
    /// The number of written packets with a wrong checksum that the capture already had.
    excused: usize,
    faults: Vec<String>,
}

/// Returns the IP packets of a capture; none if the file is no capture.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let Ok(mut reader) = capture::Reader::open(path) else { return Vec::new() };
    let mut packets = Vec::new();
    // An error in the capture ends the reading.
    while let Ok(Some(packet)) = reader.next() {
        packets.extend(checker::ip(packet.link.number(), packet.data).map(<[u8]>::to_vec));
    }
    packets
}

/// Returns the example configurations that read a capture, each as name and text.
fn examples() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let mut examples = Vec::new();
    for path in files(&folder).into_iter().filter(|path| path.extension().is_some_and(|e| e == "click")) {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains("FromDump($IN") {
            examples.push((path.strip_prefix(&folder).unwrap().display().to_string(), text));
        }
    }
    examples
}

/// A capture, with the wrong checksums and the addresses in it, which a run of an example needs.
struct Traffic {
    path: PathBuf,
    known: KnownWrong,
    /// The most frequent source and destination address. Examples for certain hosts are adapted to these
    /// addresses.
    busiest: [Ipv4Addr; 2],
}

impl Traffic {
    fn of(path: &Path) -> Traffic {
        let packets = packets(path);
        let busiest = |at: usize| {
            let mut counts = BTreeMap::new();
            for packet in packets.iter().filter(|packet| packet[0] >> 4 == 4) {
                if let Some(&[a, b, c, d]) = packet.get(at..at + 4) {
                    *counts.entry(Ipv4Addr::new(a, b, c, d)).or_insert(0) += 1;
                }
            }
            counts
                .into_iter()
                .max_by_key(|&(_, count)| count)
                .map_or(Ipv4Addr::LOCALHOST, |(address, _)| address)
        };
        let known = KnownWrong::of(packets.iter().map(|packet| &packet[..]));
        Traffic { path: path.to_path_buf(), known, busiest: [busiest(12), busiest(16)] }
    }
}

/// Adapts the text of an example: it reads this capture, writes its files to `folder`, and repeats the
/// capture twice instead of as often as for a benchmark.
fn placed(text: &str, traffic: &Traffic, folder: &Path) -> String {
    let [source, destination] = traffic.busiest;
    let text = text.replace("$INNER 10.1.0.1/32", &format!("$INNER {source}/32"));
    let text = text.replace("$VIP 10.1.0.2", &format!("$VIP {destination}"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut placed = String::new();
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for word in line.split_inclusive(|c: char| " ,()\n".contains(c)) {
            let name = word.trim_end_matches(|c: char| " ,()\n".contains(c));
            let behind = &word[name.len()..];
            let path = |path: PathBuf| format!("\"{}\"", path.display());
            placed += &match name {
                "configs/data/quickstart.pcap" => path(traffic.path.clone()),
                name if ["-out.pcap", "-out.txt"].iter().any(|end| name.ends_with(end)) => {
                    path(folder.join(name))
                }
                // The rules of the example are about other hosts, so simple rules replace them.
                "configs/data/firewall.rules" => path(folder.join("rules")),
                name if name.starts_with("configs/") => path(root.join(name)),
                name => name.to_string(),
            };
            placed += behind;
        }
    }
    placed.replace("$ROUNDS 1000", "$ROUNDS 2")
}

fn run(name: &str, text: &str, traffic: &Traffic, tally: &Mutex<Tally>) {
    let Traffic { path: capture, known, .. } = traffic;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules"), "deny src net 192.168.0.0/16\nallow all\n").unwrap();
    let outcome = TestRun::trace().text(&placed(text, traffic, folder.path()), &[]);
    let mut own = Tally { runs: 1, ..Tally::default() };
    let mut fault = |what: String| own.faults.push(format!("{name} on {}: {what}", capture.display()));
    match outcome {
        Err(error) => fault(error),
        Ok(outcome) => {
            if !outcome.report.balances() {
                fault(format!("{:?}", outcome.report));
            }
            if outcome.report.elements.iter().any(|element| element.held > 0) {
                fault("something is held at the end".into());
            }
            // An error in the capture ends the run and is reported, and so is the omission of packets of
            // another link type. Both are expected here.
            let is_end = |error: &String| {
                error.ends_with("only the packets before the fault were read")
                    || error.ends_with("with another link header than the file's were left out")
            };
            outcome.errors.into_iter().filter(|error| !is_end(error)).for_each(&mut fault);
        }
    }
    for written in files(folder.path()).iter().filter(|path| path.extension().is_some_and(|e| e == "pcap")) {
        for (number, packet) in packets(written).iter().enumerate() {
            own.written += 1;
            let Some(checked) = checker::check(packet) else { continue };
            own.right += usize::from(checked.transport == ChecksumResult::Right);
            let is_wrong = [checked.header, checked.transport].contains(&ChecksumResult::Wrong);
            let fault = known.fault(&checked);
            own.excused += usize::from(is_wrong && fault.is_none());
            if let Some(what) = fault {
                let place = written.file_name().unwrap_or_default().to_string_lossy();
                let head = &packet[..packet.len().min(64)];
                let text = format!("{what} of packet {number} in {place} is wrong: {head:02x?}");
                own.faults.push(format!("{name} on {}: {text}", capture.display()));
            }
        }
    }
    let mut tally = tally.lock().unwrap();
    tally.runs += own.runs;
    tally.written += own.written;
    tally.right += own.right;
    tally.excused += own.excused;
    tally.faults.append(&mut own.faults);
}

fn quickstart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/data/quickstart.pcap")
}

/// A configuration that makes checksums wrong on purpose is found by this test.
#[test]
fn wrong_checksums_are_noticed() {
    let text = "FromDump(configs/data/quickstart.pcap) -> Classifier(12/0800) -> CHANGE -> ToDump(a-out.pcap, SNAPLEN 0);";
    let traffic = Traffic::of(&quickstart());
    for (change, what) in [
        (r"StoreData(22, \<33>)", Some("IPv4 header checksum")),
        ("CheckIPHeader(14) -> StoreIPAddress(9.9.9.9, dst)", None),
        (
            "StoreIPAddress(9.9.9.9, 30) -> CheckIPHeader(14, CHECKSUM false) -> SetIPChecksum",
            Some("transport checksum"),
        ),
    ] {
        let tally = Mutex::default();
        run("test", &text.replace("CHANGE", change), &traffic, &tally);
        let Tally { written, faults, .. } = tally.into_inner().unwrap();
        assert!(written > 100);
        match what {
            None => assert!(faults.is_empty(), "{faults:?}"),
            Some(what) => assert!(faults.len() > 100 && faults[0].contains(what), "{faults:?}"),
        }
    }
}

#[test]
fn checksums_are_right_and_packets_accounted_for() {
    let examples = examples();
    assert!(examples.len() >= 7, "{examples:?}");
    let mut captures = vec![quickstart()];
    captures.extend(found::path("traces").map(|folder| files(&folder)).unwrap_or_default());
    captures.retain(|path| capture::Reader::open(path).is_ok());
    // The largest captures come first, so that both threads end at about the same time.
    captures.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |data| data.len())));
    let tallies: Vec<Mutex<Tally>> = examples.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(capture) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let traffic = Traffic::of(capture);
                    for ((name, text), tally) in examples.iter().zip(&tallies) {
                        run(name, text, &traffic, tally);
                    }
                }
            });
        }
    });
    let mut faults = Vec::new();
    for ((name, text), tally) in examples.iter().zip(tallies) {
        let tally = tally.into_inner().unwrap();
        let Tally { runs, written, right, excused, .. } = tally;
        println!(
            "{name}: {runs} runs, {written} packets written, {right} right, {excused} wrong as they came"
        );
        if text.contains("ToDump") && tally.right == 0 {
            faults.push(format!("{name} has written nothing that could be checked"));
        }
        faults.extend(tally.faults);
    }
    let shown = faults.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} faults:\n{shown}", faults.len());
}
