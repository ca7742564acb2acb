//! Every example configuration, and the examples of the manuals, give the same packets, counts, drops and
//! state for batches of 32 and of 256 packets, whose runs elements number, as for single packets; so they do
//! while packets are traced. Interfaces are replaced by captures.
//!
//! The captures are made: runs of flows of different lengths, between the addresses that the configuration
//! names, with damaged packets and fragments. Packets come in groups. The packets of a group have the same
//! time stamp, because a source makes a batch only of such packets under the trace clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use element::manual::Page;
use fastrand::Rng;
use testkit::TestRun;
use testkit::found::files;
use testkit::timed;
use wire::build::Builder;
use wire::{MacAddr, ipv4};

/// A difference between the results of a run with batches and of a run with single packets that is by design.
struct Excuse {
    /// The name of the configuration whose results may differ; empty for all configurations.
    configuration: &'static str,
    /// A part of the name of what differs.
    what: &'static str,
    /// True if only captures of [`Kind::Mixed`] may make the difference.
    mixed: bool,
    reason: &'static str,
}

const fn excuse(
    configuration: &'static str,
    what: &'static str,
    mixed: bool,
    reason: &'static str,
) -> Excuse {
    Excuse { configuration, what, mixed, reason }
}

const WHOLE: &str = "a queue gets a batch before packets are pulled from it";
const SAMPLE: &str = "the distribution has one value for each batch";
const AFTER: &str =
    "packets whose time has come leave after a batch, with the packets of the batch that join them";
const WAYS: &str = "packets of a batch that take different ways pass an element one way after the other";

/// The differences that are by design.
const BY_DESIGN: &[Excuse] = &[
    excuse("", ".highwater_length", false, WHOLE),
    excuse("queue.click", "output", false, WHOLE),
    excuse("", ".scheduled", false, "the task of an element ends its last turn before or after the run ends"),
    excuse("", ".calls", false, "the number of turns of a task"),
    excuse("", ".burst", false, "the burst of the run"),
    excuse(
        "click/schedule.click",
        ".now",
        false,
        "the queues give packets of several lengths in another order",
    ),
    excuse(
        "click/schedule.click",
        ".last",
        false,
        "the queues give packets of several lengths in another order",
    ),
    excuse("", ".occupancy", false, SAMPLE),
    excuse("all.click", "Juggler@4.lengths", false, SAMPLE),
    excuse("all.click", "Juggler@4.", false, AFTER),
    excuse("all.click", "Reframer@5.", false, AFTER),
    excuse("motivating/translator.click", "up-out.pcap", true, WAYS),
    excuse("motivating/translator.click", "nat.", true, WAYS),
    excuse("nat.click", "", true, WAYS),
    excuse("router.click", "-out.pcap", true, WAYS),
    excuse("router6.click", "", true, WAYS),
];

/// The classes whose examples in the manual are left out, because batches give other results there than
/// single packets by design; each group has the reason for the difference.
const LEFT_OUT: &[(&[&str], &str)] = &[
    (
        &[
            "CPUQueue",
            "CoDel",
            "DRRSched",
            "FrontDropQueue",
            "MixedQueue",
            "NotifierQueue",
            "Queue",
            "QuickNoteQueue",
            "AdaptiveRED",
            "RED",
            "SimpleQueue",
            "ThreadSafeQueue",
        ],
        WHOLE,
    ),
    (
        &["RandomSample", "RandomSeed", "IPRateMonitor"],
        "each batch takes its random numbers from a generator of its own",
    ),
    (&["AverageBatchCounter", "BatchStats"], "the element measures batches"),
    (&["CycleCountAccum", "SetCycleCount"], "the element measures the processor's time"),
    (&["Counter", "TimeFilter"], "the run is stopped after the batch in which a count or a time is reached"),
    (&["ChatterSocket", "ControlSocket"], "the system chooses the port"),
    (&["IP6NDSolicitor"], "the answer to a solicitation comes after the batch"),
    (&["Juggler", "SFMaker"], AFTER),
];

const LIMIT: &str = "the limit of ICMP messages decides by their order";

/// The changes to configurations that would otherwise, by design, give other results for batches than for
/// single packets: the name of the configuration, the text that is replaced, the text that replaces it, and
/// the reason for the difference.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    (
        "load-balancer.click",
        "Counter(COUNT_CALL 30 lb.remove_server 10.2.0.2)",
        "Counter",
        "a handler is called after the batch in which its count is reached",
    ),
    ("queue.click", "Queue(64)", "Queue(1000)", "a queue gets a batch before packets are pulled from it"),
    (
        "click/schedule.click",
        "Queue(64)",
        "Queue(10000)",
        "a queue gets a batch before packets are pulled from it",
    ),
    (
        "click/schedule.click",
        "Queue(256)",
        "Queue(10000)",
        "a queue gets a batch before packets are pulled from it",
    ),
    ("router.click", "$ERRORS 1000", "$ERRORS 100000", LIMIT),
    ("router6.click", "$ERRORS 1000", "$ERRORS 100000", LIMIT),
    ("nat.click", "$ERRORS 1000", "$ERRORS 100000", LIMIT),
    ("replay.click", "$ROUNDS 1000", "$ROUNDS 2", "the test is short"),
    ("click/control.click", "$SECONDS 2", "$SECONDS 0.1", "the test is short"),
];

/// The kinds of captures with which each configuration is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The captures of the examples. Their time stamps are changed so that packets of a group, which take the
    /// same way through a configuration, have the same time stamp.
    Recorded,
    /// Made. The packets of a group are undamaged, of one protocol and between two addresses, so that all
    /// of them take the same way through a configuration.
    OneWay,
    /// Made. The packets of a group are of any kind, and some are damaged.
    Mixed,
}

/// The number of captures of each kind with which each configuration is run.
const CASES: [(Kind, u64); 3] = [(Kind::Recorded, 1), (Kind::OneWay, 4), (Kind::Mixed, 4)];

/// An example configuration: its name and its text, in which files and interfaces are replaced.
struct Example {
    name: String,
    text: String,
    /// True if the example is a manual's.
    is_manual: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all example configurations. `$FOLDER` in their text stands for the folder of captures.
fn examples() -> Vec<Example> {
    let folder = root().join("configs");
    let is_configuration = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "click");
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        let mut text = std::fs::read_to_string(&path).unwrap();
        for (_, from, to, _) in CHANGES.iter().filter(|(of, ..)| name == *of) {
            assert!(text.contains(from), "{name} has no {from}");
            text = text.replace(from, to);
        }
        Example { text: placed(&text), name, is_manual: false }
    };
    files(&folder).into_iter().filter(is_configuration).map(read).collect()
}

/// Returns the examples of the manuals, with captures in place of their sources. Examples without such a
/// source are left out.
fn of_manuals() -> Vec<Example> {
    let mut examples = Vec::new();
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|(classes, _)| classes.contains(&name));
    for class in testkit::classes().filter(|class| !is_left_out(class.name)) {
        for (number, text) in Page::parse(class.manual).code("Example").into_iter().enumerate() {
            let mut text = text.to_string();
            for source in
                ["FromDevice(", "FromDump(", "FromXDP(", "InfiniteSource(", "RatedSource(", "FastUDPFlows("]
            {
                text = replaced(&text, source, |_| "FromDump(FOLDER/in-quickstart.pcap)".into());
            }
            for sink in ["ToDevice(", "ToDump(", "ToHost(", "ToXDP(", "ToDPDKDevice("] {
                text = replaced(&text, sink, |at| format!("ToDump(FOLDER/{at}-out.pcap, SNAPLEN 0)"));
            }
            text = text.replace("ToIPSummaryDump(", "ToIPSummaryDump(FOLDER/");
            if text.contains("FOLDER/in-") && !reaches_outside(&text) {
                examples.push(Example { name: format!("{} {number}", class.name), text, is_manual: true });
            }
        }
    }
    examples
}

/// True if a configuration has an element that sends to interfaces of the machine, or receives from them.
fn reaches_outside(text: &str) -> bool {
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    let is_outside = |class: &&element::Class| {
        let notes = class.notes;
        (notes.is_live || notes.has_queues) && class.name != "InMemoryNic"
    };
    testkit::classes().filter(is_outside).any(|class| words.contains(class.name))
}

/// Replaces, in a configuration, each text from `start` (a class and an opening bracket) to the next closing
/// bracket by what `make` returns. `make` gets the offset of the replacement in the result.
fn replaced(text: &str, start: &str, make: impl Fn(usize) -> String) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(start) {
        let Some(end) = rest[at..].find(')') else { break };
        done += &rest[..at];
        done += &make(done.len());
        rest = &rest[at + end + 1..];
    }
    done + rest
}

/// Replaces interfaces and captures in a configuration by captures in `FOLDER`.
fn placed(text: &str) -> String {
    let mut placed = String::new();
    for line in text.split_inclusive('\n') {
        let line = line.split("//").next().unwrap_or_default().trim_end().to_string() + "\n";
        let line = line.replace("FromDevice(", "FromDump(FOLDER/in-").replace(", PROMISC true)", ".pcap)");
        let line = match line.split_once("ToDevice(") {
            None => line,
            Some((before, name)) => {
                let (name, behind) = name.split_once(')').unwrap();
                format!("{before}ToDump(FOLDER/{name}-out.pcap, SNAPLEN 0){behind}")
            }
        };
        let is_separator = |c: char| " ,()\n".contains(c);
        for word in line.split_inclusive(is_separator) {
            let name = word.trim_end_matches(is_separator);
            let is_output = name.ends_with("-out.pcap") || name.ends_with("-out.txt");
            placed += &match name {
                _ if name.starts_with("FOLDER/") => name.to_string(),
                _ if name.starts_with("configs/data/") && name.ends_with(".pcap") => {
                    format!("FOLDER/in-{}", name.trim_start_matches("configs/data/"))
                }
                _ if name.starts_with("configs/") => root().join(name).display().to_string(),
                _ if is_output || name.ends_with("-out.socket") => format!("FOLDER/{name}"),
                _ => name.to_string(),
            };
            placed += &word[name.len()..];
        }
    }
    placed
}

/// Returns all words of `text` and of `more` that can be parsed as a `T` (an address), sorted and without
/// duplicates.
fn named<T: FromStr + Ord>(text: &str, more: &[&str]) -> Vec<T> {
    let words = text.split(|c: char| !c.is_ascii_hexdigit() && c != '.' && c != ':');
    let all: BTreeSet<T> = words.chain(more.iter().copied()).filter_map(|word| word.parse().ok()).collect();
    all.into_iter().collect()
}

/// A maker of packets for one configuration.
struct Maker {
    random: Rng,
    addresses: Vec<Ipv4Addr>,
    addresses6: Vec<Ipv6Addr>,
    links: Vec<MacAddr>,
    flows: Vec<Flow>,
    kind: Kind,
}

#[derive(Clone)]
struct Flow {
    kind: u8,
    from: SocketAddr,
    to: SocketAddr,
    link: MacAddr,
    vlan: u16,
    sequence: u32,
    sent: u16,
}

/// Reads an Ethernet address.
fn link(word: &str) -> Option<MacAddr> {
    let mut bytes = [0; 6];
    let parts: Vec<&str> = word.split(':').collect();
    if parts.len() != 6 {
        return None;
    }
    for (byte, part) in bytes.iter_mut().zip(parts) {
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    Some(MacAddr(bytes))
}

impl Maker {
    fn new(text: &str, kind: Kind, seed: u64) -> Maker {
        let words = text.split(|c: char| !c.is_ascii_hexdigit() && c != ':');
        let mut links: Vec<MacAddr> = words.filter_map(link).collect();
        links.push(MacAddr([0xff; 6]));
        let mut maker = Maker {
            random: Rng::with_seed(seed),
            addresses: named(text, &["10.1.0.1", "10.1.0.7", "10.2.0.1", "192.168.3.4", "203.0.113.5"]),
            addresses6: named(text, &["2001:db8:1::1", "2001:db8:2::7", "fe80::1"]),
            links,
            flows: Vec::new(),
            kind,
        };
        maker.flows = (0..30).map(|_| maker.flow()).collect();
        maker
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.usize(..from.len())]
    }

    fn flow(&mut self) -> Flow {
        const PORTS: [u16; 10] = [80, 443, 53, 22, 23, 161, 25, 40_000, 5_000, 1_024];
        let kind = self.choose(&[6, 6, 6, 17, 17, 1]);
        let is_ip6 = self.random.u8(..8) == 0;
        let mut ends = [(); 2].map(|()| {
            let address = match is_ip6 {
                true => IpAddr::V6(self.addresses6[self.random.usize(..self.addresses6.len())]),
                false => IpAddr::V4(self.addresses[self.random.usize(..self.addresses.len())]),
            };
            SocketAddr::new(address, PORTS[self.random.usize(..PORTS.len())])
        });
        if self.random.bool() {
            ends[0].set_port(self.random.u16(1024..));
        }
        let (links, vlan) = (self.links.clone(), if self.random.u8(..16) == 0 { 7 } else { 0 });
        let link = self.choose(&links);
        Flow { kind, from: ends[0], to: ends[1], link, vlan, sequence: self.random.u32(..), sent: 0 }
    }

    /// Adds the next packets of a random flow to `frames`. With [`Kind::Mixed`], sometimes also replaces a
    /// random flow by the reply direction of this flow, so that later calls add replies.
    fn run(&mut self, frames: &mut Vec<Vec<u8>>) {
        if self.kind == Kind::OneWay && frames.is_empty() {
            // At the start of a group, all flows are replaced by flows that differ from each other only in
            // the port of the sender.
            let flow = self.flow();
            for place in 0..self.flows.len() {
                let mut other = flow.clone();
                other.from.set_port(flow.from.port().wrapping_add(place as u16 * 7));
                self.flows[place] = other;
            }
        }
        let place = self.random.usize(..self.flows.len());
        if self.kind == Kind::Mixed && self.random.u8(..20) == 0 {
            self.flows[place] = self.flow();
        }
        let mut flow = self.flows[place].clone();
        let length = self.choose(&[1, 1, 1, 2, 3, 5, 8, 20, 40]);
        for _ in 0..length {
            let payload = self.choose(&[0, 0, 10, 100, 700, 1400]);
            let payload: Vec<u8> = (0..payload).map(|place| place as u8 ^ flow.sent as u8).collect();
            let builder = match flow.kind {
                6 => {
                    let flags = match flow.sent {
                        0 => 0x02,
                        _ => self.choose(&[0x10, 0x10, 0x10, 0x18, 0x18, 0x11, 0x04]),
                    };
                    let builder = Builder::tcp(flow.from, flow.to, flags).sequence(flow.sequence, 1);
                    // The next segment usually follows in sequence. With step 0 it repeats the sequence
                    // number of this segment, and with step 2 it leaves a gap.
                    let step = self.choose(&[1, 1, 1, 1, 1, 1, 0, 2]);
                    flow.sequence = flow.sequence.wrapping_add(step * payload.len() as u32);
                    builder
                }
                17 => Builder::udp(flow.from, flow.to),
                _ => {
                    let (kind, answer) = if flow.from.is_ipv4() { (8, 0) } else { (128, 129) };
                    let kind = self.choose(&[kind, kind, answer]);
                    Builder::icmp(flow.from.ip(), flow.to.ip(), kind, 0, [flow.from.port(), flow.sent])
                }
            };
            let ttl = if self.kind == Kind::Mixed { self.choose(&[64, 64, 64, 64, 2, 1]) } else { 64 };
            let mut builder = builder.ethernet(flow.link, MacAddr([2, 0, 0, 0, 9, 9])).ttl(ttl).id(flow.sent);
            if flow.vlan > 0 {
                builder = builder.vlan(flow.vlan);
            }
            flow.sent += 1;
            // The builder has written `flow.link` as the source of the Ethernet frame. It must be the
            // destination, because the configuration's device has this address.
            let mut frame = builder.build(&payload).unwrap();
            frame[..6].copy_from_slice(&flow.link.0);
            frame[6..12].copy_from_slice(&[2, 0, 0, 0, 9, 9]);
            self.add(frame, flow.from.is_ipv4() && flow.vlan == 0, frames);
        }
        self.flows[place] = flow.clone();
        if self.kind == Kind::Mixed && self.random.u8(..3) == 0 {
            let (from, to) = (flow.to, flow.from);
            let answer = Flow { from, to, sequence: self.random.u32(..), sent: 0, ..flow };
            let place = self.random.usize(..self.flows.len());
            self.flows[place] = answer;
        }
    }

    /// Adds a frame to `frames`. With [`Kind::Mixed`], some frames are damaged, truncated or divided into
    /// fragments, and some have an ARP packet ahead of them.
    fn add(&mut self, mut frame: Vec<u8>, is_plain: bool, frames: &mut Vec<Vec<u8>>) {
        if self.kind != Kind::Mixed {
            return frames.push(frame);
        }
        match self.random.u8(..24) {
            0 => {
                let place = self.random.usize(12..frame.len());
                frame[place] ^= self.random.u8(1..);
            }
            1 => frame.truncate(self.random.usize(14..frame.len())),
            2 | 3 if is_plain && frame.len() > 34 + 64 => {
                let cut = 34 + 8 * self.random.usize(1..(frame.len() - 34) / 8);
                let mut parts = vec![(0x2000, 34..cut), ((cut as u16 - 34) / 8, cut..frame.len())];
                if self.random.bool() {
                    parts.reverse();
                }
                if self.random.u8(..4) == 0 {
                    parts.pop();
                }
                for (word, range) in parts {
                    let mut part = frame[..34].to_vec();
                    part.extend_from_slice(&frame[range]);
                    let length = (part.len() - 14) as u16;
                    part[16..18].copy_from_slice(&length.to_be_bytes());
                    part[20..22].copy_from_slice(&u16::to_be_bytes(word));
                    part[24..26].fill(0);
                    let _ = wire::checksum::fill_ipv4(&mut part[14..14 + ipv4::Header::LEN]);
                    frames.push(part);
                }
                return;
            }
            4 if is_plain => {
                // An ARP request or reply, with the addresses of the frame, is added ahead of the frame.
                let mut arp = frame[..12].to_vec();
                arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, self.random.u8(1..3)]);
                arp.extend_from_slice(&frame[6..12]);
                arp.extend_from_slice(&frame[26..30]);
                arp.extend_from_slice(&frame[..6]);
                arp.extend_from_slice(&frame[30..34]);
                arp.resize(60, 0);
                frames.push(arp);
            }
            _ => {}
        }
        frames.push(frame);
    }

    /// Makes the packets of a capture with their times in nanoseconds.
    fn packets(&mut self) -> Vec<(i64, Vec<u8>)> {
        let (mut packets, mut time) = (Vec::new(), 0);
        for _ in 0..25 {
            time += self.choose(&[1_000, 20_000, 70_000, 300_000, 2_000_000, 40_000_000]);
            let size = self.choose(&[1, 3, 32, 60, 100, 300]);
            let mut frames = Vec::new();
            while frames.len() < size {
                self.run(&mut frames);
            }
            packets.extend(frames.into_iter().map(|frame| (time, frame)));
        }
        packets
    }
}

/// Returns the packets of a capture of the examples. Consecutive packets form a group, and get the time stamp
/// of its first packet, if they come within 20 ms of it and agree in Ethernet source, EtherType, IP protocol
/// and IPv4 source address.
fn recorded(name: &str) -> Vec<(i64, Vec<u8>)> {
    const LONGEST: i64 = 20_000_000;
    let path = root().join("configs/data").join(name);
    let path = if path.exists() { path } else { root().join("configs/data/quickstart.pcap") };
    let mut reader = capture::Reader::open(&path).unwrap();
    let mut packets: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut first = None;
    while let Some(packet) = reader.next().unwrap() {
        let since = packet.time - *first.get_or_insert(packet.time);
        let same = |other: &[u8]| {
            let parts = [6..14, 23..24, 26..30];
            parts.into_iter().all(|part| packet.data.get(part.clone()) == other.get(part))
        };
        let time = match packets.last() {
            Some((time, other)) if same(other) && since - time < LONGEST => *time,
            _ => since,
        };
        packets.push((time, packet.data.to_vec()));
    }
    packets
}

/// The results of a run, by name: packets in each written capture, values of handlers, drops of elements,
/// texts.
type Results = BTreeMap<String, Vec<String>>;

/// Returns the packets of a capture as text, with their times.
fn packets(path: &Path) -> Vec<String> {
    let mut reader = capture::Reader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Ok(Some(packet)) = reader.next() {
        let bytes: String = packet.data.iter().map(|byte| format!("{byte:02x}")).collect();
        packets.push(format!("{} {bytes}", packet.time));
    }
    packets
}

/// A sink that discards what elements write.
struct Nowhere;

impl engine::Sink for Nowhere {
    fn write(&mut self, _: element::OutputStream, _: std::fmt::Arguments<'_>) {}

    fn flush(&mut self) {}
}

/// Returns the readable handlers of all elements of a configuration, as `element.handler`.
fn handlers(text: &str) -> Result<Vec<String>, String> {
    let mut workers = testkit::workers(text, TestRun::trace(), Box::new(Nowhere))?;
    let names: Vec<String> =
        workers.read(None, "list", "").unwrap().lines().skip(1).map(String::from).collect();
    let mut all = Vec::new();
    for name in names {
        let id = workers.plan().graph.find(&name);
        let list = workers.read(id, "handlers", "").unwrap();
        let readable = list.lines().filter_map(|line| line.split_once('\t'));
        let readable = readable.filter(|(_, flags)| flags.starts_with('r') && !flags.contains('+'));
        all.extend(readable.map(|(handler, _)| format!("{name}.{handler}")));
    }
    // The configuration is ended in the regular way, which drops packets that its sources have read ahead.
    let _ = workers.finish();
    Ok(all)
}

/// Returns the addresses and ports of a packet as text, from the text of an Ethernet frame or IPv4 packet.
/// Other texts are returned as they are.
fn flow(line: &str) -> &str {
    let Some((_, bytes)) = line.split_once(' ') else { return line };
    let start = if bytes.starts_with("45") { 24 } else { 52 };
    bytes.get(start..start + 24).unwrap_or(line)
}

fn run(text: &str, kind: Kind, handlers: &[String], burst: usize, traced: bool) -> Results {
    let folder = tempfile::tempdir().unwrap();
    let text = text.replace("OUT/", &format!("{}/", folder.path().display()));
    let names: Vec<&str> = handlers.iter().map(String::as_str).collect();
    let run = TestRun { burst: Some(burst), traced, ..TestRun::trace() };
    let outcome = run.text(&text, &names).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(outcome.report.balances(), "{text}: {:?}", outcome.report);
    let mut results = Results::new();
    for path in files(folder.path()) {
        let name = format!("file {}", path.file_name().unwrap().display());
        let mut lines = match path.extension().is_some_and(|ending| ending == "pcap") {
            true => packets(&path),
            false => std::fs::read_to_string(&path).unwrap().lines().map(String::from).collect(),
        };
        // Packets of a batch that take different ways arrive one way after the other where the ways meet.
        // If all take one way, packets of a flow keep their order.
        match kind {
            Kind::Mixed => lines.sort_unstable(),
            _ => lines.sort_by_key(|line| flow(line).to_string()),
        }
        results.insert(name, lines);
    }
    for (name, value) in handlers.iter().zip(outcome.values) {
        let text = value.unwrap_or_else(|error| format!("error: {error}"));
        let mut lines: Vec<_> =
            text.replace(&folder.path().display().to_string(), "").lines().map(String::from).collect();
        lines.sort_unstable();
        results.insert(format!("handler {name}"), lines);
    }
    let mut output: Vec<_> = outcome.output.lines().map(String::from).collect();
    output.sort_unstable();
    results.insert("output".into(), output);
    results
}

/// Returns the first difference between two values of the same name.
fn difference(name: &str, single: Option<&Vec<String>>, batches: Option<&Vec<String>>) -> String {
    let empty = Vec::new();
    let (single, batches) = (single.unwrap_or(&empty), batches.unwrap_or(&empty));
    let short = |line: &String| line.chars().take(200).collect::<String>();
    let only = |these: &[String], others: &[String]| -> Vec<String> {
        let others: BTreeSet<_> = others.iter().collect();
        these.iter().filter(|line| !others.contains(line)).take(2).map(short).collect()
    };
    format!(
        "{name}: {} and {} lines; only singly {:?}, only in batches {:?}",
        single.len(),
        batches.len(),
        only(single, batches),
        only(batches, single)
    )
}

#[test]
fn batches_give_what_single_packets_give() {
    let mut examples = examples();
    assert!(examples.len() > 25, "{} examples", examples.len());
    examples.extend(of_manuals());
    let only = std::env::var("TIDEGATE_EXAMPLE").ok();
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    let (mut excused, mut manuals) = (BTreeSet::new(), 0);
    'examples: for example in &examples {
        if only.as_ref().is_some_and(|only| !example.name.contains(only.as_str())) {
            continue;
        }
        let mut written = 0;
        let most = if example.is_manual { 1 } else { u64::MAX };
        let cases = CASES.iter().flat_map(|(kind, count)| (0..most.min(*count)).map(|seed| (*kind, seed)));
        for (kind, seed) in cases {
            let folder = tempfile::tempdir().unwrap();
            let mut maker = Maker::new(&example.text, kind, seed);
            let inputs = example.text.match_indices("FOLDER/in-").map(|(at, _)| {
                let name = &example.text[at + "FOLDER/".len()..];
                name.split_inclusive(".pcap").next().unwrap_or_default().to_string()
            });
            for input in inputs.collect::<BTreeSet<_>>() {
                let packets = match kind {
                    Kind::Recorded => recorded(input.trim_start_matches("in-")),
                    _ => maker.packets(),
                };
                timed::write_capture(&folder.path().join(&input), &packets);
            }
            let path = format!("{}/in-", folder.path().display());
            let text = example.text.replace("FOLDER/in-", &path).replace("FOLDER/", "OUT/");
            let scratch = format!("{}/", folder.path().display());
            let handlers = match handlers(&text.replace("OUT/", &scratch)) {
                Ok(handlers) => handlers,
                // An example of a manual may need what is not here, such as an interface.
                Err(_) if example.is_manual => continue 'examples,
                Err(error) => panic!("{}: {error}", example.name),
            };
            let single = run(&text, kind, &handlers, 1, false);
            written += single
                .iter()
                .filter(|(name, _)| name.starts_with("file"))
                .map(|(_, v)| v.len())
                .sum::<usize>();
            // While packets are traced, each of them is alone in its batch, and the others are not.
            let traced = (seed == 0).then_some((32, true));
            for (burst, traced) in [(32, false), (256, false)].into_iter().chain(traced) {
                let batches = run(&text, kind, &handlers, burst, traced);
                let names: BTreeSet<_> = single.keys().chain(batches.keys()).collect();
                for name in names.into_iter().filter(|name| single.get(*name) != batches.get(*name)) {
                    let reason = BY_DESIGN.iter().position(|excuse| {
                        (excuse.configuration.is_empty() || excuse.configuration == example.name)
                            && name.contains(excuse.what)
                            && (!excuse.mixed || kind == Kind::Mixed)
                    });
                    if let Some(reason) = reason {
                        excused.insert(reason);
                        continue;
                    }
                    let what = difference(name, single.get(name), batches.get(name));
                    failures.entry(format!("{} {kind:?} {name}", example.name)).or_insert_with(|| {
                        format!("{}, {kind:?} {seed}, burst {burst}, traced {traced}: {what}", example.name)
                    });
                }
            }
        }
        manuals += usize::from(example.is_manual);
        println!("{}: {written} packets and lines written", example.name);
    }
    let shown: Vec<_> = failures.values().cloned().collect();
    assert!(shown.is_empty(), "{} differences:\n{}", shown.len(), shown.join("\n"));
    if only.is_none() {
        assert!(manuals > 150, "{manuals} examples of manuals have run");
        let unused = BY_DESIGN.iter().enumerate().filter(|(number, _)| !excused.contains(number));
        let unused = unused.map(|(_, Excuse { configuration, what, reason, .. })| {
            format!("no '{what}' of '{configuration}' differs, although {reason}")
        });
        let unused: Vec<_> = unused.collect();
        assert!(unused.is_empty(), "{}", unused.join("\n"));
    }
}
