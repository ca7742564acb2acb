//! A network in which packets make a detour: a host between a client and a server sends all packets through
//! a network function on another machine, sliced or whole. All machines are network namespaces on this
//! machine. If these cannot be created, constructors return `None` and print a message.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod frames;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use capture::{Reader, Writer, WriterOptions};
use lab::{Namespace, Net, PATIENCE, RunningProgram};

use crate::line::{Control, run};

/// The form of packets on their way from the host to the network function and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Packets stay whole.
    Whole,
    /// Packets are sliced: `slicing` is further arguments of Slicer, `table` is further arguments of
    /// PayloadTable. Each text is empty or begins with a comma.
    Sliced { slicing: &'static str, table: &'static str },
}

/// Slicing with the default arguments.
pub(crate) const SLICED: Way = Way::Sliced { slicing: "", table: "" };

/// The handlers of PayloadTable whose values the host prints when it stops. The values from number
/// [`NORMAL`] on are 0 if all sliced packets return and are joined.
pub(crate) const COUNTS: [&str; 12] = [
    "bytes_in",
    "bytes_crossed",
    "sliced",
    "spliced",
    "expired",
    "late",
    "repeated",
    "no_token",
    "changed",
    "unmarked",
    "occupied",
    "quoted",
];
pub(crate) const NORMAL: usize = 4;

/// Four machines: `client` - `host` - `server`, and `function`, which is connected to `host` only, by two
/// cables. The function's interfaces are `nf0`, for packets from the client, and `nf1`. The host's interfaces
/// are `client` and `server`, named after the machines at their other ends, and `nf0` and `nf1`, named after
/// the function's interfaces.
pub(crate) struct Detour {
    pub(crate) client: Namespace,
    pub(crate) host: Namespace,
    pub(crate) function: Namespace,
    pub(crate) server: Namespace,
    // This field is last so that it is dropped last, when all programs in the namespaces have ended.
    pub(crate) net: Net,
}

impl Detour {
    /// Creates the machines with these addresses of client and server, and of the function's two
    /// interfaces. An empty address means none.
    pub(crate) fn new([client_address, server_address]: [&str; 2], own: [&str; 2]) -> Option<Detour> {
        let mut net = Net::or_skip()?;
        let [client, host, function, server] =
            ["client", "host", "function", "server"].map(|name| net.space(name).unwrap());
        net.cable([(&client, "eth0", client_address), (&host, "client", "")]).unwrap();
        net.cable([(&server, "eth0", server_address), (&host, "server", "")]).unwrap();
        for (interface, address) in ["nf0", "nf1"].into_iter().zip(own) {
            net.cable([(&function, interface, address), (&host, interface, "")]).unwrap();
        }
        let ends = [(&client, "eth0", 1), (&function, "nf0", 2), (&function, "nf1", 3), (&server, "eth0", 4)];
        for (space, interface, number) in ends {
            space.ip(&format!("link set {interface} address 2:0:0:0:0:{number}")).unwrap();
        }
        Some(Detour { client, host, function, server, net })
    }

    /// Starts the host, which sends all packets through the network function, in the form `way`. `loss` is
    /// elements, such as a dropper, through which packets from and to the client pass.
    pub(crate) fn run(&self, way: Way, loss: &str, options: &[&str]) -> RunningProgram {
        let (definitions, middle) = match way {
            Way::Whole => (String::new(), ["", "", "", ""]),
            Way::Sliced { slicing, table } => (
                format!("t :: PayloadTable(ENTRIES 4096{table}); a, b :: Slicer(t{slicing});"),
                ["[0] a [1] ->", "[1] a [0] ->", "[0] b [1] ->", "[1] b [0] ->"],
            ),
        };
        let config = definitions
            + &format!(
                "FromDevice(client, PROMISC true) -> {loss} -> {} Queue(10000) -> ToDevice(nf0);
                 FromDevice(nf0, PROMISC true) -> {} {loss} -> Queue(10000) -> ToDevice(client);
                 FromDevice(server, PROMISC true) -> {} Queue(10000) -> ToDevice(nf1);
                 FromDevice(nf1, PROMISC true) -> {} Queue(10000) -> ToDevice(server)",
                middle[0], middle[1], middle[2], middle[3]
            );
        let handlers: Vec<String> = COUNTS.iter().map(|name| format!("t.{name}")).collect();
        let mut all = options.to_vec();
        if way != Way::Whole {
            all.extend(handlers.iter().flat_map(|handler| ["-H", handler]));
        }
        run(&self.host, &config, &all)
    }
}

/// Loads nftables rules in a namespace. Returns false, with a message, if there is no `nft`, or if the
/// kernel lacks support for it.
pub(crate) fn nft(space: &Namespace, rules: &str) -> bool {
    if !is_installed("nft") {
        return false;
    }
    let probe = space.command("nft").args(["add", "table", "inet", "probe"]).output().unwrap();
    if !probe.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&probe.stderr));
        return false;
    }
    let output = space.command("nft").arg(rules).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// True if a program is installed; otherwise prints a message, so that the test is skipped.
pub(crate) fn is_installed(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: no {program} here");
    }
    is_there
}

/// True if the kernel supports IPv6; otherwise a message is printed.
pub(crate) fn has_version_6() -> bool {
    let has = fs::exists("/proc/sys/net/ipv6").unwrap_or(false);
    if !has {
        println!("skipped: no IPv6 here");
    }
    has
}

/// The nftables rules that translate the client's address and port to the address of `nf1` and a random port.
pub(crate) const MASQUERADE: &str = "add table ip nat;
    add chain ip nat post { type nat hook postrouting priority 100; };
    add rule ip nat post oifname nf1 masquerade fully-random;";

/// Sets a value below `/proc/sys/net` in a namespace.
pub(crate) fn set(space: &Namespace, name: &str, value: &str) {
    space.enter(|| fs::write(format!("/proc/sys/net/{name}"), value)).unwrap_or_else(|error| {
        panic!("{name}: {error}");
    });
}

/// The frames that have arrived, in order, and the time from the sending of the first frame to the arrival of
/// the last one.
pub(crate) struct Arrived {
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) time: Duration,
}

/// Sends frames by one machine's interface `eth0`, a group at a time, and returns the frames that another
/// machine receives. A frame for which `is_last` is true ends a group: before the next group is sent, one
/// more frame must arrive that matches one of `answers` (Classifier patterns, separated by commas).
pub(crate) fn carry(
    [from, to]: [&Namespace; 2],
    frames: &[Vec<u8>],
    is_last: impl Fn(&[u8]) -> bool,
    answers: &str,
) -> Arrived {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [sent, got, sending, getting] = ["sent.pcap", "got.pcap", "sending", "getting"].map(path);
    write(&sent, frames);
    let patterns = answers.split(", ").count();
    let counted: String = (0..patterns).map(|pattern| format!("c[{pattern}] -> answers;")).collect();
    let record = format!(
        "ControlSocket(UNIX, {getting}); answers :: Counter -> file :: ToDump({got}, SNAPLEN 0);
         FromDevice(eth0, PROMISC true) -> c :: Classifier({answers}, -); {counted} c[{patterns}] -> file"
    );
    let getter = run(to, &record, &[]);
    let send = format!(
        "ControlSocket(UNIX, {sending});
         FromDump({sent}) -> Queue(100000) -> release :: Unqueue(LIMIT 0) -> Queue -> ToDevice(eth0)"
    );
    let sender = run(from, &send, &[]);
    let [mut release, mut count] = [&sending, &getting].map(|path| Control::open(Path::new(path)));
    let groups = frames.iter().enumerate().filter(|(_, frame)| is_last(frame));
    let start = Instant::now();
    for (number, (last, _)) in groups.enumerate() {
        release.write("release.limit", &(last + 1).to_string()).unwrap();
        let until = Instant::now() + PATIENCE;
        while count.number("answers.count") <= number as u64 {
            assert!(Instant::now() < until, "nothing has come back for frame {last}");
            sleep(Duration::from_millis(1));
        }
    }
    let time = start.elapsed();
    for running in [sender, getter] {
        let (good, [_, messages]) = running.stop();
        assert!(good, "{messages}");
    }
    Arrived { frames: read(&got), time }
}

/// Writes frames to a capture.
pub(crate) fn write(path: &str, frames: &[Vec<u8>]) {
    let mut writer = Writer::new(capture::create(path).unwrap(), WriterOptions::default());
    for frame in frames {
        writer.write(0, frame.len() as u32, [frame.as_slice()]).unwrap();
    }
    writer.flush().unwrap();
}

/// Reads the frames of a capture.
pub(crate) fn read(path: &str) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        frames.push(record.data.to_vec());
    }
    frames
}
