//! Tests of the examples in `configs` on captures: the packets that leave are the same for each policy and
//! number of workers, except values that are chosen at run time. Captures lie next to the repository (or in
//! the folder `TIDEGATE_DATA`). The examples' own captures are always used; routers use only these, because
//! their hosts occur in no other captures.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use element::Timestamp;
use element::steering::Spreading;
use sprayer::{Policy, SpreadSettings};
use testkit::TestRun;
use wire::ip_protocol::{ICMP, TCP, UDP};
use wire::{Layers, LinkType};

/// The maximum number of packets that are used of a capture.
const MOST: usize = 1000;

/// The address that the examples' translators write into packets.
const OUTER: [u8; 4] = [192, 0, 2, 1];

type Way = fn() -> Arc<dyn Spreading>;

const WAYS: [(&str, Option<Way>); 4] = [
    ("rss", None),
    ("spray", Some(|| with(Policy::Spray, false))),
    ("flowlet", Some(|| with(Policy::Flowlets(Timestamp(500_000)), false))),
    ("auto", Some(|| with(Policy::Auto, false))),
];

const IN_ORDER: [(&str, Option<Way>); 3] = [
    ("spray", Some(|| with(Policy::Spray, true))),
    ("flowlet", Some(|| with(Policy::Flowlets(Timestamp(0)), true))),
    ("auto", Some(|| with(Policy::Auto, true))),
];

fn with(policy: Policy, keeps_order: bool) -> Arc<dyn Spreading> {
    SpreadSettings { policy, keeps_order, ..SpreadSettings::default() }.spreading()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A capture for the examples, cut to its first packets, and two addresses: no other pair of source
/// (`client`) and destination (`server`) has more packets in it.
struct Trace {
    name: String,
    file: PathBuf,
    /// The capture without the packets to the client. These recorded answers go to ports of the recording,
    /// and not to ports that a translator has chosen in the test, so a translator would not recognize them.
    one_sided: PathBuf,
    client: Ipv4Addr,
    server: Ipv4Addr,
}

/// Returns the captures that were found, and last the capture of the examples, all cut to [`MOST`] packets.
fn traces(folder: &Path) -> Vec<Trace> {
    let beside = repository().join("../shared/data");
    let found = std::env::var_os("TIDEGATE_DATA").map_or(beside, PathBuf::from).join("traces");
    let entries = std::fs::read_dir(&found).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|file| file.is_file()).collect();
    files.sort();
    if files.is_empty() {
        println!("skipped: no captures at {}", found.display());
    }
    files.push(repository().join("configs/data/quickstart.pcap"));
    let cut = |(number, file): (usize, &PathBuf)| cut(file, folder.join(format!("{number}.pcap")));
    files.iter().enumerate().filter_map(cut).collect()
}

/// Writes the first packets of an Ethernet capture to the file `to`, and next to it the one-sided capture.
/// `None` if the file is no Ethernet capture, or has no IPv4 packets.
fn cut(from: &Path, to: PathBuf) -> Option<Trace> {
    let mut reader = capture::Reader::open(from).ok()?;
    let (mut packets, mut talks) = (Vec::new(), HashMap::new());
    while let Ok(Some(record)) = reader.next()
        && packets.len() < MOST
    {
        if record.link == LinkType::Ethernet {
            packets.push((record.time, record.wire_len, record.data.to_vec()));
            if let (Some([8, 0]), Some([a, b, c, d, e, f, g, h])) =
                (record.data.get(12..14), record.data.get(26..34))
            {
                *talks.entry(([*a, *b, *c, *d], [*e, *f, *g, *h])).or_insert(0u32) += 1;
            }
        }
    }
    let ((client, server), _) = talks.into_iter().max_by_key(|&(ends, count)| (count, ends))?;
    let write = |to: &Path, counts: fn(&[u8], [u8; 4]) -> bool| {
        let file = std::fs::File::create(to).unwrap();
        let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
        for (time, length, data) in packets.iter().filter(|packet| counts(&packet.2, client)) {
            writer.write(*time, *length, [&data[..]]).unwrap();
        }
        writer.flush().unwrap();
    };
    let one_sided = to.with_extension("one-sided.pcap");
    write(&to, |_, _| true);
    write(&one_sided, |data, client| data.get(30..34) != Some(&client[..]));
    Some(Trace {
        name: from.display().to_string(),
        file: to,
        one_sided,
        client: client.into(),
        server: server.into(),
    })
}

/// The output files of a run; for each file its flows, and for each flow its packets.
type Files = Vec<Vec<Vec<Vec<u8>>>>;

/// An example that reads a capture: its name, its configuration and the names of the files that it writes.
struct Example {
    name: String,
    text: String,
    files: Vec<String>,
}

fn examples() -> Vec<Example> {
    let entries = std::fs::read_dir(repository().join("configs")).unwrap().map(|entry| entry.unwrap().path());
    // The example `all` of all five mechanisms is left out: it merges segments, joins flows and cannot be
    // spread. Another test compares its output.
    let configurations = entries
        .filter(|path| path.extension().is_some_and(|end| end == "click"))
        .filter(|path| path.file_stem().is_some_and(|name| name != "all"));
    let mut examples: Vec<_> = configurations
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-./".contains(c)));
            let mut files: Vec<_> =
                words.filter(|word| word.ends_with("-out.pcap")).map(String::from).collect();
            files.sort();
            files.dedup();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            Example { name, text, files }
        })
        .filter(|example| example.text.contains("FromDump("))
        .collect();
    examples.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(examples.len() > 10, "examples were not found");
    examples
}

impl Example {
    fn is_router(&self) -> bool {
        self.name.starts_with("router")
    }

    fn translates(&self) -> bool {
        ["nat", "gateway"].contains(&&*self.name)
    }

    /// Returns the configuration with another capture in place of its own, and with its output files in
    /// `folder`.
    fn on(&self, trace: &Trace, folder: &Path) -> String {
        let mut text = self.text.clone();
        for file in &self.files {
            text = text.replace(file, &folder.join(file).display().to_string());
        }
        let file = if self.translates() { &trace.one_sided } else { &trace.file };
        text.replace("configs/data/quickstart.pcap", &file.display().to_string())
            .replace("configs/data", &repository().join("configs/data").display().to_string())
            .replace("$INNER 10.1.0.1/32", &format!("$INNER {}/32", trace.client))
            .replace("$VIP 10.1.0.2", &format!("$VIP {}", trace.server))
            .replace("$ROUNDS 1000", "$ROUNDS 2")
    }

    /// Runs the example on a capture. Returns, for each output file, the packets of each flow, without
    /// values that were chosen at run time. The names of flows are left out: two runs are equal if the
    /// flows of one can be renamed to the flows of the other.
    fn run(&self, how: TestRun, trace: &Trace, folder: &Path) -> Files {
        let outcome = how.text(&self.on(trace, folder), &[]);
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {how:?}: {error}", self.name));
        assert!(outcome.report.balances(), "{}: {how:?}: {:?}", self.name, outcome.report);
        let flows = |file: &String| {
            let mut flows: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
            let mut reader = capture::Reader::open(folder.join(file)).unwrap();
            while let Some(record) = reader.next().unwrap() {
                let (flow, packet) = self.unnamed(record.data, record.link);
                flows.entry(flow).or_default().push(packet);
            }
            let mut flows: Vec<_> = flows.into_values().collect();
            flows.sort();
            flows
        };
        self.files.iter().map(flows).collect()
    }

    /// Returns the flow of a packet, and the packet with 0 for values that are chosen at run time. These
    /// are a translator's port or identifier, a balancer's server, the token of a sliced packet, and the
    /// identification of ICMP errors made in the run.
    fn unnamed(&self, bytes: &[u8], link: LinkType) -> (Vec<u8>, Vec<u8>) {
        let layers = Layers::locate(bytes, link);
        let mut packet = bytes.to_vec();
        let (Some(ip), Some(protocol), false) = (layers.l3, layers.protocol, bytes.len() < 34) else {
            return (Vec::new(), packet);
        };
        if bytes[ip] >> 4 != 4 {
            return (Vec::new(), packet);
        }
        let balances = self.name == "load-balancer";
        let mut blank = |from: usize, to: usize| {
            let end = to.min(packet.len());
            packet.get_mut(from..end).into_iter().flatten().for_each(|byte| *byte = 0);
        };
        let Some(l4) = layers.l4 else { return (bytes[ip + 12..ip + 20].to_vec(), packet) };
        let is_error = protocol == ICMP && bytes.get(l4).is_some_and(|kind| [3, 4, 5, 11, 12].contains(kind));
        let is_outer = |at: usize| bytes.get(at..at + 4) == Some(&OUTER[..]);
        let mut flow = [&[protocol][..], &bytes[ip + 12..ip + 20]].concat();
        if is_error {
            // The quoted packet was translated too, so everything after the type and code is ignored.
            blank(ip + 4, ip + 6);
            blank(ip + 10, ip + 12);
            blank(l4 + 2, usize::MAX);
            return (flow, packet);
        }
        let sum = match protocol {
            TCP => l4 + 16,
            UDP => l4 + 6,
            _ => l4 + 2,
        };
        flow.extend(bytes.get(l4..l4 + 4).unwrap_or_default());
        if protocol == ICMP {
            flow.extend(bytes.get(l4 + 4..l4 + 6).unwrap_or_default());
        }
        if self.translates() && (is_outer(ip + 12) || is_outer(ip + 16)) {
            match protocol {
                ICMP => blank(l4 + 4, l4 + 6),
                _ if is_outer(ip + 12) => blank(l4, l4 + 2),
                _ => blank(l4 + 2, l4 + 4),
            }
            blank(sum, sum + 2);
        }
        if self.name == "slicer" && bytes[ip + 1] >> 2 == 63 {
            // Sliced packets (DSCP 63) carry tokens, which depend on the worker that has the payload.
            let token = layers.payload.unwrap_or(usize::MAX);
            blank(token, token.saturating_add(16));
            blank(sum, sum + 2);
        }
        if balances {
            flow.drain(5..9);
            blank(ip + 10, ip + 12);
            blank(ip + 16, ip + 20);
            blank(sum, sum + 2);
        }
        (flow, packet)
    }
}

/// Calls `check` with each example and each capture for it.
fn for_each(check: impl Fn(&Example, &Trace, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let traces = traces(folder.path());
    for example in examples() {
        // Routers use only the capture of the examples, which is the last.
        let own = if example.is_router() { traces.len() - 1 } else { 0 };
        traces[own..].iter().for_each(|trace| check(&example, trace, folder.path()));
    }
}

/// Runs each example on one worker without spreading, and on several workers with each of the policies, and
/// asserts that the results are equal. `arrange` removes differences in order that do not matter.
fn compare(ways: &[(&str, Option<Way>)], arrange: fn(Files) -> Files) {
    for_each(|example, trace, folder| {
        let expected = arrange(example.run(TestRun::trace(), trace, folder));
        // On the examples' own capture, each output file must have packets, so that the test compares
        // something.
        let is_own = trace.name.contains("configs/data");
        assert!(!is_own || expected.iter().all(|flows| !flows.is_empty()), "{} writes nothing", example.name);
        for workers in [1, 2, 4] {
            for &(way, spreading) in ways {
                let how = TestRun { spreading, ..TestRun::trace().on(workers) };
                let is_same = arrange(example.run(how, trace, folder)) == expected;
                assert!(is_same, "{} on {}: {way} on {workers} workers", example.name, trace.name);
            }
        }
    });
}

#[test]
fn the_same_packets_leave() {
    compare(&WAYS, |mut files| {
        for flows in &mut files {
            flows.iter_mut().for_each(|flow| flow.sort());
            flows.sort();
        }
        files
    });
}

#[test]
fn flows_leave_in_order() {
    compare(&IN_ORDER, |files| files);
}
