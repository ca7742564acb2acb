//! DPDK ports: virtual ports inside the program, and ports that connect machines (network namespaces) with
//! the kernel's own TCP. Skipped with a message if network namespaces cannot be created.

mod line;
mod reloads;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use lab::{DatagramStream, RunningProgram};
use line::{Line, RIGHT, TIDEGATE, send, value, when};
use reloads::{FAR, Kind, Run, flows_pass, limit, network, networks};

/// Returns the arguments of `run`: the arguments of DPDK, and the configuration.
fn arguments<'a>(dpdk: &[&'a str], config: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--dpdk", "--no-huge", "--no-pci"], dpdk, &["--", "-e", config], options].concat()
}

/// Runs a configuration to its end.
fn run(dpdk: &[&str], config: &str, options: &[&str]) -> Output {
    Command::new(TIDEGATE).args(arguments(dpdk, config, options)).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the output of a run, after checking that the run succeeded and printed no messages of DPDK.
fn good(output: &Output) -> String {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("EAL") && !said.contains("ETHDEV") && !said.contains("unaccounted"), "{said}");
    text(&output.stdout)
}

/// Returns options that print handlers.
fn handlers<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().flat_map(|name| ["-H", name]).collect()
}

#[test]
fn packets_come_without_end_and_are_all_accounted_for() {
    for threads in ["1", "2"] {
        let config = "in :: FromDPDKDevice(0) -> Counter -> out :: ToDPDKDevice(0);
            other :: FromDPDKDevice(net_null1, BURST 7) -> Queue -> Discard;
            Script(label again, wait 1ms, goto again $(lt $(in.count) 10001), goto again $(lt $(other.count) 10001),
                stop)";
        let names =
            handlers(&["in.count", "out.count", "in.hw_count", "out.hw_count", "other.count", "out.copied"]);
        let output = run(
            &["--vdev=net_null0", "--vdev=net_null1"],
            config,
            &[&["--threads", threads], &names[..]].concat(),
        );
        let said = good(&output);
        let count = value(&said, "in.count");
        assert!(count > 10_000 && value(&said, "other.count") > 10_000, "{said}");
        assert_eq!(value(&said, "out.count"), count, "{threads} workers: {said}");
        for name in ["in.hw_count", "out.hw_count"] {
            assert_eq!(value(&said, name), count, "{threads} workers: {said}");
        }
        assert_eq!(value(&said, "out.copied"), 0, "{said}");
    }
}

#[test]
fn several_workers_have_packets_spread_by_a_secret_key() {
    for (threads, keyword, expected) in [("2", "", "secret"), ("2", ", RSS_KEY own", "own"), ("1", "", "own")]
    {
        let config = format!("in :: FromDPDKDevice(0{keyword}) -> Discard; Script(wait 1ms, stop)");
        let output = run(&["--vdev=net_null0"], &config, &["--threads", threads, "-H", "in.rss_key"]);
        assert_eq!(good(&output).trim(), expected, "{}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("key"), "{}", text(&output.stderr));
    }
}

#[test]
fn what_goes_into_a_ring_comes_out_of_it() {
    for threads in ["1", "2"] {
        let config = "InfiniteSource(LIMIT 20000, LENGTH 200) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
            -> Queue(64) -> out :: ToDPDKDevice(net_ring0);
            in :: FromDPDKDevice(net_ring0) -> length :: CheckLength(214) -> Discard;
            length[1] -> wrong :: Counter -> Discard;
            Script(wait 60s, stop);"
            .to_string()
            + &when("in.count", 20_000, "stop");
        let names = handlers(&["in.count", "out.count", "out.dropped", "wrong.count"]);
        let output = run(&["--vdev=net_ring0"], &config, &[&["--threads", threads], &names[..]].concat());
        let said = good(&output);
        assert_eq!(value(&said, "out.count"), 20_000, "{said}");
        assert_eq!(value(&said, "in.count"), 20_000, "{threads} workers: {said}");
        assert_eq!(value(&said, "wrong.count"), 0, "{said}");
    }
}

#[test]
fn a_ring_that_is_full_holds_and_drops() {
    // No program takes packets from the port: 1023 packets fit into its ring, 64 wait in the element, and
    // the others are dropped.
    let config = "InfiniteSource(LIMIT 5000, LENGTH 60, STOP true) -> out :: ToDPDKDevice(0, IQUEUE 64)";
    let output = run(&["--vdev=net_ring0"], config, &handlers(&["out.count", "out.dropped"]));
    let said = good(&output);
    let (count, dropped) = (value(&said, "out.count"), value(&said, "out.dropped"));
    assert_eq!(count + 64 + dropped, 5000, "{said}");
    let table = text(&output.stderr);
    assert!(table.contains(&format!("send queue full {dropped}")) && table.contains("stop 64"), "{table}");
}

#[test]
fn blocking_waits_for_a_port_once() {
    // No program takes packets from the port, so its ring becomes full. With BLOCKING, the element waits once
    // for room, for a second. It does not wait again for each later packet.
    let config = "InfiniteSource(LIMIT 5000, LENGTH 60, STOP true) -> out :: ToDPDKDevice(0, BLOCKING true, IQUEUE 64)";
    let names = handlers(&["out.count", "out.dropped"]);
    let arguments = arguments(&["--vdev=net_ring0"], config, &names);
    let output =
        Command::new("timeout").args(["-s", "KILL", "120", TIDEGATE]).args(arguments).output().unwrap();
    let said = good(&output);
    assert_eq!(value(&said, "out.count") + 64 + value(&said, "out.dropped"), 5000, "{said}");
}

#[test]
fn captures_come_and_go_as_with_files() {
    let folder = tempfile::tempdir().unwrap();
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/data/quickstart.pcap");
    let [one, other] = ["one.pcap", "other.pcap"].map(|name| folder.path().join(name));
    let device = format!("--vdev=net_pcap0,rx_pcap={},tx_pcap={}", capture.display(), one.display());
    let config = format!("FromDump({}) -> ToDump({}, SNAPLEN 0)", capture.display(), other.display());
    let output = Command::new(TIDEGATE).args(["run", "-e", &config]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let packets = |file: &Path| {
        let mut reader = capture::Reader::open(file).unwrap();
        let mut all = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            all.push(record.data.to_vec());
        }
        all
    };
    let other = packets(&other);
    assert!(other.len() > 100);
    let config = "in :: FromDPDKDevice(0, CHECKSUM false) -> out :: ToDPDKDevice(0);".to_string()
        + &when("out.count", other.len() as u64, "stop");
    let said = good(&run(&[&device], &config, &handlers(&["in.count", "out.count"])));
    let one = packets(&one);
    assert_eq!(value(&said, "in.count"), other.len() as u64);
    assert_eq!(one, other);
}

#[test]
fn mistakes_are_explained() {
    for (dpdk, config, expected) in [
        (
            vec!["--vdev=net_null0"],
            "FromDPDKDevice(7) -> Discard",
            "7: Unknown or invalid PORT; there are 0 (net_null0)",
        ),
        (vec![], "Idle -> ToDPDKDevice(0)", "0: Unknown or invalid PORT; there are none: `--vdev` makes"),
        (vec!["--such"], "Idle -> Discard", "DPDK cannot be started: Invalid argument"),
        (
            vec!["--vdev=net_ring0"],
            "FromDPDKDevice(0, QUEUE 900) -> Discard",
            "receive queues, which is not enough",
        ),
        (
            vec!["--vdev=net_pcap0,iface=lo"],
            "FromDPDKDevice(0, 0) -> Discard; FromDPDKDevice(0, 0) -> Discard",
            "two elements receive from queue 0",
        ),
    ] {
        let output = run(&dpdk, config, &[]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{config}: {said}");
        assert_eq!(text(&output.stdout), "");
    }
    // `check` opens no port, so a missing port is no error.
    let output =
        Command::new(TIDEGATE).args(["check", "-e", "FromDPDKDevice(7) -> Discard"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let config = "FromDPDKDevice(7, ALLOW_NONEXISTENT true) -> Discard; Idle -> ToDPDKDevice(8, ALLOW_NONEXISTENT true)";
    good(&run(&[], config, &[]));
}

#[test]
fn clicks_command_line_takes_its_arguments_too() {
    let config = "FromDPDKDevice(0) -> c :: Counter -> Discard;".to_string() + &when("c.count", 1001, "stop");
    let arguments = [
        "click",
        "--dpdk",
        "--no-huge",
        "--no-pci",
        "--vdev=net_null0",
        "--",
        "-e",
        &config,
        "-h",
        "c.count",
    ];
    let output = Command::new(TIDEGATE).args(arguments).output().unwrap();
    assert!(good(&output).trim().parse::<u64>().unwrap() > 1000);
}

/// Forwards both directions between the first two ports, and returns when the ports are open.
fn forward(line: &Line, dpdk: &[&str], chain: &str, options: &[&str]) -> RunningProgram {
    let config = format!(
        "left :: FromDPDKDevice(0) -> {chain} -> to_right :: ToDPDKDevice(1);
         right :: FromDPDKDevice(1) -> {chain} -> to_left :: ToDPDKDevice(0); Script(print \"ready\")"
    );
    let mut running = line.between.spawn(TIDEGATE, &arguments(dpdk, &config, options)).unwrap();
    // Libraries may print messages first.
    running.wait_until_said("ready").unwrap();
    running
}

/// Moves the TAPs, which are the other ends of the ports, to the machines on both sides.
fn take_taps(line: &Line) {
    ["tgl", "tgr"].into_iter().for_each(|tap| take_tap(line, tap));
}

fn take_tap(line: &Line, tap: &str) {
    let (space, address) =
        if tap == "tgl" { (&line.left, "10.77.0.1/24") } else { (&line.right, "10.77.0.2/24") };
    line.between.ip(&format!("link set {tap} netns {}", space.name())).unwrap();
    space.ip(&format!("addr add {address} dev {tap}")).unwrap();
    space.ip(&format!("link set {tap} up")).unwrap();
}

/// The time for which an interface is taken down, as if its cable were pulled out, at DPDK ports that do not
/// notice this.
const CUT: Duration = Duration::from_millis(400);

const PACKET_SOCKETS: [&str; 2] = ["--vdev=net_af_packet0,iface=left", "--vdev=net_af_packet1,iface=right"];

const TAPS: [&str; 2] = ["--vdev=net_tap0,iface=tgl", "--vdev=net_tap1,iface=tgr"];

#[test]
fn taps_carry_tcp_both_ways_and_survive_being_unplugged() {
    let Some(line) = Line::without_cables() else { return };
    let names = handlers(&["left.count", "right.count", "to_left.copied", "to_right.copied"]);
    let running = forward(&line, &TAPS, "Counter", &names);
    take_taps(&line);
    line.check();
    line.pull_while_sending(&line.right, "tgr", || sleep(CUT));
    line.check_with(&[100]);
    let (good, [output, messages]) = running.stop();
    assert!(good, "{messages}");
    // The frames have the ordinary size (more than 5,000 for 8 MB), and each frame is sent without a copy.
    assert!(value(&output, "left.count") > 5000 && value(&output, "right.count") > 5000, "{output}");
    assert_eq!(value(&output, "to_left.copied") + value(&output, "to_right.copied"), 0, "{output}");
    assert!(!line.left.has("tgl") && !line.right.has("tgr"), "they are gone with the process");
}

/// DPDK creates a TAP again that another program has deleted, and FromDPDKDevice and ToDPDKDevice continue
/// with it.
#[test]
fn taps_that_are_deleted_are_made_again() {
    let Some(line) = Line::without_cables() else { return };
    for workers in ["1", "2"] {
        let mut running = forward(&line, &TAPS, "Counter", &["--threads", workers, "--json", "-"]);
        take_taps(&line);
        line.check_with(&[100]);
        for (space, tap, port) in [(&line.left, "tgl", 0), (&line.right, "tgr", 1), (&line.left, "tgl", 0)] {
            space.ip(&format!("link del {tap}")).unwrap();
            running.wait_for(&format!("DPDKDevice: {port}: is gone; waiting for another one")).unwrap();
            running.wait_for(&format!("DPDKDevice: {port}: is there again")).unwrap();
            take_tap(&line, tap);
            line.left.ip("neigh flush all").unwrap();
            line.right.ip("neigh flush all").unwrap();
            line.check_with(&[100]);
        }
        let (good, [output, messages]) = running.stop();
        assert!(good, "{messages}");
        balances(&output);
    }
}

/// The interface under DPDK's packet socket driver is removed and created again, and the run continues with
/// it.
#[test]
fn packet_sockets_of_dpdk_wait_for_an_interface() {
    let Some(line) = Line::new() else { return };
    for space in [&line.left, &line.right] {
        space.ethtool("-K eth0 tso off gso off").unwrap();
    }
    let mut running = forward(&line, &PACKET_SOCKETS, "Counter", &["--json", "-"]);
    line.check_with(&[100]);
    for _ in 0..2 {
        line.between.ip("link del right").unwrap();
        running.wait_for("DPDKDevice: 1: is gone; waiting for another one of its name").unwrap();
        // Packets that are sent while the interface is missing are dropped.
        line.left.ip("neigh replace 10.77.0.2 lladdr 2:0:0:0:0:2 dev eth0").unwrap();
        assert!(lab::gets_no_echo_reply(&line.left, RIGHT));
        line.left.ip("neigh del 10.77.0.2 dev eth0").unwrap();
        line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
        line.right.ethtool("-K eth0 tso off gso off").unwrap();
        running.wait_for("DPDKDevice: 1: is there again").unwrap();
        line.check_with(&[100]);
    }
    let (good, [output, messages]) = running.stop();
    assert!(good && messages.contains("interface down"), "{messages}");
    balances(&output);
    // With `GONE stop`, the run ends.
    let config = "FromDPDKDevice(1, GONE stop) -> Discard; Script(print \"ready\")";
    let mut running = line.between.start(TIDEGATE, &arguments(&PACKET_SOCKETS, config, &[])).unwrap();
    running.wait_until_said("ready").unwrap();
    line.between.ip("link del right").unwrap();
    let (good, [_, messages]) = running.end();
    assert!(!good && messages.contains("1: the interface was removed (GONE stop)"), "{messages}");
}

/// Checks that each packet that came in went out, is held, or was dropped.
fn balances(output: &str) {
    let at = output.find('{').unwrap_or_else(|| panic!("no report: {output}"));
    let report: serde_json::Value = serde_json::from_str(&output[at..]).unwrap();
    let of = |name: &str| report["totals"][name].as_u64().unwrap();
    assert_eq!(of("in"), of("out") + of("held") + of("dropped"), "{}", report["totals"]);
}

#[test]
fn two_workers_share_taps_of_several_queues() {
    let Some(line) = Line::without_cables() else { return };
    let names = handlers(&["left.nb_rx_queues", "to_left.count"]);
    let running = forward(&line, &TAPS, "Counter", &[&["--threads", "2"], &names[..]].concat());
    take_taps(&line);
    line.check();
    // The kernel chooses a queue by its own hash: with 64 flows, each queue gets some of them.
    let stream = DatagramStream::start(&line.left, &line.right, (RIGHT, 9).into(), 64);
    stream.wait_for(2000);
    assert_eq!(stream.stop()[2], 0);
    let (good, [output, messages]) = running.stop();
    assert!(good, "{messages}");
    assert_eq!(value(&output, "left.nb_rx_queues"), 2, "{output}");
    assert!(value(&output, "to_left.count") > 5000, "{output}");
    for worker in ["worker 0", "worker 1"] {
        let row = messages.lines().find_map(|line| line.strip_prefix(worker)).unwrap_or_default();
        let packets = row.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        assert!(packets.is_some_and(|packets| packets > 100), "{messages}");
    }
}

#[test]
fn packet_sockets_of_dpdk_carry_tcp_both_ways() {
    let Some(line) = Line::new() else { return };
    // DPDK's driver for packet sockets takes only frames of ordinary size, so segmentation is disabled at the
    // senders.
    for space in [&line.left, &line.right] {
        let ethtool = space.command("ethtool").args(["-K", "eth0", "tso", "off", "gso", "off"]).output();
        if !ethtool.is_ok_and(|output| output.status.success()) {
            println!("skipped: no ethtool");
            return;
        }
    }
    let running = forward(&line, &PACKET_SOCKETS, "Counter", &handlers(&["left.count", "left.completed"]));
    // DPDK's driver for packet sockets makes the kernel reassemble fragments, and the reassembled datagrams
    // would be too long to be sent.
    line.check_with(&[0, 1, 100, 1472]);
    line.pull_while_sending(&line.between, "right", || sleep(CUT));
    line.check_with(&[100]);
    let (good, [output, messages]) = running.stop();
    assert!(good, "{messages}");
    assert!(value(&output, "left.count") > 5000, "{output}");
    assert!(value(&output, "left.completed") > 1000, "senders leave checksums to their interface: {output}");
}

#[test]
fn packet_sockets_of_dpdk_keep_tags() {
    let Some(line) = Line::new() else { return };
    let config = "in :: FromDPDKDevice(0) -> c :: Classifier(12/8100 14/0005 16/0800, 12/0800, -);
        c[0] -> tagged :: Counter -> Discard; c[1] -> bare :: Counter -> Discard; c[2] -> Discard;
        Script(print \"ready\");"
        .to_string()
        + &when("tagged.count", 3, "print \"enough\"");
    let names = handlers(&["tagged.count", "tagged.byte_count", "bare.count", "in.count"]);
    let dpdk = ["--vdev=net_af_packet0,iface=left"];
    let mut running = line.between.start(TIDEGATE, &arguments(&dpdk, &config, &names)).unwrap();
    running.wait_until_said("ready").unwrap();
    let data = "0200000000010200000000028100000508004500002e";
    send(&line.left, "eth0", &format!("InfiniteSource(DATA \\<{data}{}>, LIMIT 3)", "00".repeat(50)), 3);
    running.wait_until_said("enough").unwrap();
    let (good, [output, messages]) = running.stop();
    assert!(good && value(&output, "bare.count") == 0, "{output}{messages}");
    assert_eq!(
        (value(&output, "tagged.count"), value(&output, "tagged.byte_count")),
        (3, 3 * 72),
        "{output}"
    );
}

#[test]
fn xdp_sockets_of_dpdk_carry_tcp_both_ways() {
    let Some(line) = Line::new() else { return };
    // Each socket of DPDK's AF_XDP driver serves one queue.
    for interface in ["left", "right"] {
        let set = line.between.command("ethtool").args(["-L", interface, "rx", "1", "tx", "1"]).output();
        if set.is_err() {
            println!("skipped: no ethtool");
            return;
        }
    }
    let dpdk = ["-m", "256", "--vdev=net_af_xdp0,iface=left", "--vdev=net_af_xdp1,iface=right"];
    let running = forward(&line, &dpdk, "Counter", &handlers(&["left.count", "left.completed"]));
    line.check();
    line.pull_while_sending(&line.between, "right", || sleep(CUT));
    line.check_with(&[100]);
    let (good, [output, messages]) = running.stop();
    assert!(good, "{messages}");
    assert!(value(&output, "left.count") > 5000, "{output}");
}

#[test]
fn shared_memory_joins_two_programs() {
    let Some(line) = Line::without_cables() else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif");
    let memif =
        |role: &str| format!("--vdev=net_memif0,role={role},socket={},socket-abstract=no", socket.display());
    let program = |role: &str, tap: &str| {
        let (memif, tap) = (memif(role), format!("--vdev=net_tap0,iface={tap}"));
        let config = "FromDPDKDevice(net_tap0) -> there :: ToDPDKDevice(net_memif0);
            FromDPDKDevice(net_memif0) -> back :: ToDPDKDevice(net_tap0); Script(print \"ready\")";
        let names = handlers(&["there.count", "back.count"]);
        let mut running = line.between.start(TIDEGATE, &arguments(&[&memif, &tap], config, &names)).unwrap();
        running.wait_until_said("ready").unwrap();
        running
    };
    let programs = [program("server", "tgl"), program("client", "tgr")];
    take_taps(&line);
    line.check();
    for running in programs {
        let (good, [output, messages]) = running.stop();
        assert!(good, "{messages}");
        assert!(value(&output, "there.count") > 5000 && value(&output, "back.count") > 5000, "{output}");
    }
}

/// Returns the files below a folder.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = |path: PathBuf| if path.is_dir() { files_in(&path) } else { vec![path] };
    entries.flat_map(|entry| below(entry.path())).collect()
}

#[test]
fn nothing_is_left_behind_by_a_program_that_is_killed() {
    let Some(line) = Line::without_cables() else { return };
    // The test of huge pages, which may run at the same time, uses a separate prefix.
    let files = || -> Vec<PathBuf> {
        let all = files_in(Path::new("/var/run/dpdk")).into_iter();
        all.filter(|file| !file.starts_with("/var/run/dpdk/tidegate-test")).collect()
    };
    let before = files();
    let running = forward(&line, &TAPS, "Counter", &[]);
    assert!(line.between.has("tgl"));
    running.signal("KILL");
    drop(running);
    for _ in 0..100 {
        if !line.between.has("tgl") && !line.between.has("tgr") {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    assert!(!line.between.has("tgl") && !line.between.has("tgr"));
    assert_eq!(files(), before);
}

/// Huge pages for this test, and a file system for their files.
struct HugePages {
    folder: tempfile::TempDir,
    before: String,
}

const NUMBER: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    fn new(wanted: u32) -> Option<HugePages> {
        let before = std::fs::read_to_string(NUMBER).ok()?;
        let number: u32 = before.trim().parse().ok()?;
        std::fs::write(NUMBER, (number + wanted).to_string()).ok()?;
        let pages = HugePages { folder: tempfile::tempdir().ok()?, before };
        let now = std::fs::read_to_string(NUMBER).ok()?.trim().parse::<u32>().ok()?;
        let mut mount = Command::new("mount");
        let mounted =
            mount.args(["-t", "hugetlbfs", "-o", "pagesize=2M", "none"]).arg(pages.folder.path()).status();
        (now >= number + wanted && mounted.is_ok_and(|status| status.success())).then_some(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
        let _ = std::fs::write(NUMBER, self.before.trim());
    }
}

#[test]
fn huge_pages_leave_no_file_behind() {
    let Some(pages) = HugePages::new(64) else {
        println!("skipped: no huge pages can be had here");
        return;
    };
    let folder = pages.folder.path().display().to_string();
    let config = "in :: FromDPDKDevice(0) -> ToDPDKDevice(0); Script(print \"ready\")";
    for dpdk in [vec![], vec!["--huge-dir", &folder, "--file-prefix", "tidegate-test"]] {
        let arguments = [
            &["run", "--dpdk", "--no-pci", "-m", "64", "--vdev=net_ring0"],
            &dpdk[..],
            &["--", "-e", config],
        ]
        .concat();
        let mut running = RunningProgram::new(Command::new(TIDEGATE).args(&arguments)).unwrap();
        running.wait_until_said("ready").unwrap();
        running.signal("KILL");
        assert!(!running.end().0);
        assert_eq!(files_in(pages.folder.path()), Vec::<PathBuf>::new(), "{dpdk:?}");
    }
    let _ = std::fs::remove_dir_all("/var/run/dpdk/tidegate-test");
}

#[test]
fn flows_pass_while_network_functions_at_ports_are_replaced() {
    let Some(line) = Line::without_cables() else { return };
    [&line.left, &line.right].into_iter().for_each(limit);
    for workers in [1, 2] {
        flows_pass(&line, Kind::Dpdk, workers, 20);
    }
}

#[test]
fn ports_are_closed_and_opened_with_their_elements() {
    let Some(line) = networks(1) else { return };
    for workers in ["1", "2"] {
        let whole = network(Kind::DpdkSockets, 0);
        let run = Run::start(&line, Kind::DpdkSockets, &whole, &["--threads", workers]);
        for _ in 0..3 {
            assert_eq!(lab::ping(&line.left, FAR, 2), 2, "{workers}");
            for changed in ["NDESC 512", "PROMISC false", "MTU 1400", "RSS_KEY own"] {
                let changed = whole.replace("FromDPDKDevice(0)", &format!("FromDPDKDevice(0, {changed})"));
                run.must_refuse(&changed, "net_af_packet0: the port is open, and a reload cannot change");
            }
            assert_eq!(lab::ping(&line.left, FAR, 2), 2, "{workers}");
            // The graph of the first reload uses only one of the ports, and only to send. The graph of the
            // second reload uses no port, so that all ports are closed.
            run.must_reload("RatedSource(LENGTH 60, RATE 100) -> out :: ToDPDKDevice(0)");
            run.must_reload("Idle -> Discard");
            run.must_reload(&whole);
        }
        assert_eq!(lab::ping(&line.left, FAR, 2), 2, "{workers}");
        let (good, [_, messages]) = run.running.stop();
        assert!(good && !messages.contains("panicked") && !messages.contains("unaccounted"), "{messages}");
    }
}
