//! Faults while packets flow: interfaces that are removed, go down, get another name or MTU, and come back;
//! full disks; programs that are killed or stopped. The tests check that every packet is counted, no file or
//! interface remains, and that the program can be started again. Skipped with a message if network namespaces
//! cannot be created.

mod line;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab::{Namespace, RunningProgram, gets_no_echo_reply, ping};
use line::{Control, LEFT, Line, RIGHT, TIDEGATE, has_xdp, run, run_until, send, value};

/// Ends a program that was started with `--json -`, and checks that it succeeded and that each packet that
/// came in went out, is held, or was dropped.
fn balances(running: RunningProgram) -> String {
    let (good, [output, messages]) = running.stop();
    assert!(good, "{messages}");
    let at = output.find('{').unwrap_or_else(|| panic!("no report: {output}"));
    let report: serde_json::Value = serde_json::from_str(&output[at..]).unwrap();
    let of = |name: &str| report["totals"][name].as_u64().unwrap();
    assert_eq!(of("in"), of("out") + of("held") + of("dropped"), "{}", report["totals"]);
    messages
}

const REPORT: [&str; 2] = ["--json", "-"];

#[test]
fn a_cable_that_is_pulled_and_plugged_in_again() {
    let Some(line) = Line::new() else { return };
    let mut running = line.forward("Null", &[]);
    line.pull_while_sending(&line.between, "right", || {
        running.wait_for("right: is down; waiting for it").unwrap();
    });
    line.check();
    running.wait_until_said("right: is up again").unwrap();
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
}

#[test]
fn interfaces_that_are_removed_and_come_back() {
    let Some(line) = Line::new() else { return };
    for (arguments, workers) in [("", 1), (", SNIFFER false", 2), ("", 2)] {
        let config = format!(
            "FromDevice(left, PROMISC true{arguments}) -> Queue -> ToDevice(right);
             FromDevice(right, PROMISC true{arguments}) -> Queue -> ToDevice(left);"
        );
        let mut running = run(&line.between, &config, &["--threads", &workers.to_string()]);
        line.check();
        for _ in 0..2 {
            line.between.ip("link del right").unwrap();
            assert!(gets_no_echo_reply(&line.left, RIGHT));
            running.wait_for("FromDevice: right: is gone; waiting for another one of its name").unwrap();
            line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
            running.wait_for("FromDevice: right: is there again").unwrap();
            line.left.ip("neigh flush all").unwrap();
            line.check();
        }
        let (good, [_, messages]) = running.stop();
        assert!(good, "{messages}");
    }
}

/// An interface is moved to another network namespace and back so quickly that its name and number exist
/// again before any element looks for them.
#[test]
fn interfaces_that_are_away_for_a_moment() {
    let Some(line) = Line::new() else { return };
    let ways: &[bool] = if has_xdp(&line) { &[false, true] } else { &[false] };
    for &is_xdp in ways {
        let running = if is_xdp { line.forward_by_xdp("", &[]) } else { line.forward("Null", &[]) };
        line.check();
        for _ in 0..3 {
            // The interface moves to another namespace and back, and its number stays the same.
            let number = line.between.ip("-o link show right").unwrap();
            let [from, to] = [&line.between, &line.left].map(|space| space.name().to_string());
            let moves = format!(
                "ip -n {from} link set right netns {to} && ip -n {to} link set right netns {from} && \
                 ip -n {from} link set right up"
            );
            assert!(Command::new("sh").args(["-c", &moves]).status().unwrap().success());
            let now = line.between.ip("-o link show right").unwrap();
            assert_eq!(number.split(':').next(), now.split(':').next());
            let pause = || std::thread::sleep(std::time::Duration::from_millis(500));
            pause();
            // A sending element does not notice that its interface has moved until it sends a packet. The
            // packet that it sends then is lost.
            line.left.enter(|| {
                let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.send_to(b"first", (RIGHT, 9)).unwrap();
            });
            pause();
            line.check();
        }
        let (good, [_, messages]) = running.stop();
        assert!(good, "{messages}");
    }
}

/// While an interface is missing, packets that cannot be sent do not delay the search for a new interface of
/// the same name.
#[test]
fn senders_find_an_interface_again_under_load() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let source = "RatedSource(LENGTH 100, RATE 2000) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)";
    for device in ["ToDevice", "ToXDP"] {
        let running = run(&line.between, &format!("{source} -> {device}(right)"), &[]);
        line.between.ip("link del right").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
        let count = "FromDevice(eth0) -> c :: Counter -> Discard";
        let mut receiver = run_until(&line.right, count, "c.count", 1000, &[]);
        receiver.wait_for("enough").unwrap();
        receiver.stop();
        let (good, [_, messages]) = running.stop();
        assert!(good && messages.contains("right: is there again"), "{device}: {messages}");
    }
}

/// With `GONE stop`, a run without an interface ends and fails.
#[test]
fn interfaces_that_end_a_run_when_they_are_removed() {
    let Some(line) = Line::new() else { return };
    for config in [
        "FromDevice(right, GONE stop) -> Discard; FromDevice(left) -> Discard",
        "RatedSource(RATE 100) -> ToDevice(right, GONE stop); FromDevice(left) -> Discard",
        "KernelTap(10.78.0.1/24, DEVNAME right2, GONE stop) -> Discard",
    ] {
        let running = run(&line.between, config, &[]);
        let name = if config.contains("right2") { "right2" } else { "right" };
        line.between.ip(&format!("link del {name}")).unwrap();
        let (good, [_, messages]) = running.end();
        let said = messages.contains(&format!("{name}: is gone, and the run ends (GONE stop)"))
            && messages.contains(&format!("{name}: the interface was removed (GONE stop)"));
        assert!(!good && said, "{config}: {messages}");
        if name == "right" {
            line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
        }
    }
}

#[test]
fn a_second_program_at_an_interface_is_refused() {
    let Some(line) = Line::new() else { return };
    let first = line.forward("Null", &[]);
    let second = |arguments: &str| {
        let config = format!("FromDevice(left{arguments}) -> c :: Counter -> Discard");
        let args = ["run", "-q", "-e", &config, "--json", "-"];
        line.between.spawn(TIDEGATE, &args).unwrap()
    };
    let (good, [_, messages]) = second("").end();
    let process = format!("left: another tidegate (process {}) receives from it", first.id());
    assert!(!good && messages.contains(&process) && messages.contains("SHARED true"), "{messages}");
    // With SHARED, a second program receives, too, and each program gets all packets.
    let config = "FromDevice(left, SHARED true) -> c :: Counter -> Discard";
    let beside = run_until(&line.between, config, "c.count", 3, &[]);
    assert_eq!(ping(&line.left, RIGHT, 3), 3);
    let mut beside = beside;
    beside.wait_for("enough").unwrap();
    beside.stop();
    // A program's claim to receive alone from an interface ends with its process, however the process ends.
    first.signal("KILL");
    first.end();
    let after = line.forward("Null", &[]);
    line.check();
    let (good, [_, messages]) = after.stop();
    assert!(good, "{messages}");
}

#[test]
fn an_interface_that_gets_another_name() {
    let Some(line) = Line::new() else { return };
    let mut running = line.forward("Null", &[]);
    assert_eq!(ping(&line.left, RIGHT, 1), 1);
    let rename = ["-n", line.between.name(), "link", "set", "left", "name", "renamed"];
    if !Command::new("ip").args(rename).status().is_ok_and(|status| status.success()) {
        return println!("skipped: before Linux 6.2, interfaces have to be down for that");
    }
    assert_eq!(ping(&line.left, RIGHT, 1), 1);
    line.between.ip("link set renamed down").unwrap();
    running.wait_for("renamed: is down; waiting for it").unwrap();
    line.between.ip("link set renamed up").unwrap();
    running.wait_for("renamed: is up again").unwrap();
    line.check();
    let (good, [_, messages]) = running.stop();
    assert!(good && messages.contains("left: is called renamed now"), "{messages}");
}

#[test]
fn an_interface_that_is_down_takes_nothing() {
    let Some(line) = Line::new() else { return };
    line.between.ip("link set left down").unwrap();
    let config = "InfiniteSource(LENGTH 1000, LIMIT 5, STOP true) -> d :: ToDevice(left)";
    let output = line.between.command(TIDEGATE).args(["run", "-e", config]).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && messages.contains("interface down 5"), "{messages}");
    assert!(messages.contains("d :: ToDevice: left: Network is down\n"), "{messages}");
}

#[test]
fn xdp_waits_for_a_cable_that_is_pulled() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let mut running = line.forward_by_xdp("", &[]);
    line.pull_while_sending(&line.between, "right", || {
        for text in ["right: is down; waiting for it", "right: Network is down"] {
            running.wait_until_said(text).unwrap();
        }
    });
    line.check();
    for text in ["right: is up again", "right: sends again"] {
        running.wait_until_said(text).unwrap();
    }
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
}

#[test]
fn xdp_interfaces_that_are_removed_and_come_back() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    // The interfaces have one queue. With two workers, the second worker sends through the first worker's
    // socket at this queue.
    for options in [&[][..], &["--threads", "2"]] {
        let mut running = line.forward_by_xdp("", options);
        assert_eq!(ping(&line.left, RIGHT, 2), 2);
        for _ in 0..2 {
            line.between.ip("link del right").unwrap();
            running.wait_for("FromXDP: right: is gone; waiting for another one of its name").unwrap();
            // No host answers pings while the interface is missing. The program continues to run without it.
            line.left.ip("neigh replace 10.77.0.2 lladdr 2:0:0:0:0:2 dev eth0").unwrap();
            assert!(gets_no_echo_reply(&line.left, RIGHT));
            line.left.ip("neigh del 10.77.0.2 dev eth0").unwrap();
            line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
            running.wait_for("FromXDP: right: is there again").unwrap();
            line.check();
        }
        let (good, [_, messages]) = running.stop();
        assert!(good && messages.contains("interface down"), "{messages}");
    }
}

#[test]
fn xdp_interfaces_that_end_a_run_when_they_are_removed() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let running = line.forward_by_xdp(", GONE stop", &["--threads", "2"]);
    line.between.ip("link del right").unwrap();
    let (good, [_, messages]) = running.end();
    assert!(!good && messages.contains("right: the interface was removed (GONE stop)"), "{messages}");
}

#[test]
fn no_program_is_left_behind() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    for signal in ["TERM", "KILL"] {
        let running = line.forward_by_xdp("", &[]);
        assert!(line.between.ip("-d link show dev left").unwrap().contains("prog/xdp"));
        running.signal(signal);
        let (good, _) = running.end();
        assert_eq!(good, signal == "TERM");
        let shown = line.between.ip("-d link show dev left").unwrap();
        assert!(!shown.contains("xdp"), "{signal}: {shown}");
    }
}

/// Elements notice without sending a packet that the interface they send by is removed, because the kernel
/// reports changes of interfaces to the program.
#[test]
fn senders_hear_of_an_interface_without_sending() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    for device in ["ToDevice", "ToXDP"] {
        let config = |gone: &str| {
            format!("FromDevice(left, PROMISC true, PROTOCOL 0x9000) -> d :: {device}(right{gone})")
        };
        let mut running = run(&line.between, &config(""), &REPORT);
        for _ in 0..2 {
            line.between.ip("link del right").unwrap();
            running
                .wait_for(&format!("{device}: right: is gone; waiting for another one of its name"))
                .unwrap();
            line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
            running.wait_for(&format!("{device}: right: is there again")).unwrap();
            // The first packet that is sent by the new interface arrives.
            let count = "FromDevice(eth0, PROMISC true, PROTOCOL 0x9000) -> c :: Counter -> Discard";
            let mut receiver = run_until(&line.right, count, "c.count", 1, &[]);
            let source =
                "InfiniteSource(LENGTH 100, LIMIT 1) -> EtherEncap(0x9000, 2:0:0:0:0:1, 2:0:0:0:0:2)";
            send(&line.left, "eth0", source, 1);
            receiver.wait_for("enough").unwrap();
            receiver.stop();
        }
        balances(running);
        let running = run(&line.between, &config(", GONE stop"), &[]);
        line.between.ip("link del right").unwrap();
        let (good, [_, messages]) = running.end();
        assert!(!good && messages.contains("right: the interface was removed (GONE stop)"), "{messages}");
        line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
        // An element that only sends, and watches its interface, does not keep a run from ending.
        let config = format!("InfiniteSource(LENGTH 100, LIMIT 5) -> {device}(right)");
        let output = line.between.command(TIDEGATE).args(["run", "-e", &config]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// A program that receives from an interface claims it: receiving elements of any other program are refused,
/// both packet sockets and AF_XDP, unless they have SHARED true.
#[test]
fn a_claim_is_for_both_kinds_of_receivers() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let start = |class: &str, arguments: &str| {
        let config = format!("{class}(left{arguments}) -> Discard; Script(print \"ready\")");
        line.between.spawn(TIDEGATE, &["run", "-q", "-e", &config]).unwrap()
    };
    for [first, second] in [["FromDevice", "FromXDP"], ["FromXDP", "FromDevice"]] {
        let mut one = start(first, "");
        one.wait_for("ready").unwrap();
        let (good, [_, messages]) = start(second, "").end();
        let process = format!("left: another tidegate (process {}) receives from it", one.id());
        assert!(!good && messages.contains(&process) && messages.contains("SHARED true"), "{messages}");
        let mut beside = start(second, ", SHARED true");
        beside.wait_for("ready").unwrap();
        let (good, [_, messages]) = beside.stop();
        assert!(good && one.stop().0, "{messages}");
    }
}

/// A user without rights creates a socket with the name by which programs claim an interface for receiving.
/// This claim does not count, unlike the claim of root.
#[test]
fn claims_of_other_users_keep_nobody_from_an_interface() {
    let Some(line) = Line::new() else { return };
    let number = line.between.ip("-o link show left").unwrap().split(':').next().unwrap().to_string();
    let listen = "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or die $!;
        bind(S, pack_sockaddr_un(\"\\0tidegate/receiver/$ARGV[0]/0123456789abcdef\")) or die $!;
        listen(S, 5) or die $!; $| = 1; print \"ready\\n\"; sleep 100";
    for (user, counts) in [("65534", false), ("0", true)] {
        let arguments = ["--reuid", user, "--clear-groups", "perl", "-e", listen, &number];
        let Ok(claim) = line.between.start("setpriv", &arguments) else {
            return println!("skipped: setpriv or perl is not there");
        };
        let config = ["run", "-q", "-e", "FromDevice(left) -> Discard; Script(stop)"];
        let output = line.between.command(TIDEGATE).args(config).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), !counts, "{user}: {said}");
        assert_eq!(
            said.contains(&format!("left: another tidegate (process {})", claim.id())),
            counts,
            "{said}"
        );
    }
}

/// An element that waits for an interface continues to wait after its configuration has been replaced by
/// another one with the same element.
#[test]
fn another_configuration_waits_for_an_interface_too() {
    let Some(line) = Line::new() else { return };
    let xdp = has_xdp(&line);
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in
        [("FromDevice", "ToDevice"), ("FromXDP", "ToXDP")].into_iter().take(1 + usize::from(xdp))
    {
        let socket = folder.path().join(from).display().to_string();
        let config = |word: &str| {
            format!(
                "left :: {from}(left, PROMISC true) -> Queue -> to_right :: {to}(right);
                 right :: {from}(right, PROMISC true) -> Queue -> to_left :: {to}(left);
                 Script(print \"{word}\")"
            )
        };
        let arguments = ["click", "--allow-config", "-u", &socket, "-e", &config("first")];
        let mut running = line.between.start(TIDEGATE, &arguments).unwrap();
        let mut control = Control::open(Path::new(&socket));
        line.between.ip("link del right").unwrap();
        running.wait_for(&format!("{from}: right: is gone")).unwrap();
        running.wait_until_said(&format!("{to}: right: is gone")).unwrap();
        assert!(control.write("hotconfig", "right :: FromDevice(eth9) -> Discard").is_err());
        control.write("hotconfig", &config("second")).unwrap();
        running.wait_until_said("second").unwrap();
        line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
        running.wait_for(&format!("{from}: right: is there again")).unwrap();
        line.left.ip("neigh flush all").unwrap();
        line.check();
        let (_, [_, messages]) = running.stop();
        assert!(!messages.contains("error") && !messages.contains("panicked"), "{messages}");
    }
}

#[test]
fn a_tap_that_was_in_another_namespace_has_its_address_again() {
    let Some(line) = Line::new() else { return };
    let config = "tap :: KernelTap(10.77.0.3/24, DEVNAME tap7, BURST 32) -> Queue -> ToDevice(left);
        FromDevice(left, PROMISC true) -> Queue -> tap";
    let mut running = run(&line.between, config, &REPORT);
    assert_eq!(ping(&line.between, LEFT, 2), 2);
    for _ in 0..2 {
        let [here, there] = [&line.between, &line.right].map(Namespace::name);
        line.between.ip(&format!("link set tap7 netns {there}")).unwrap();
        line.right.ip(&format!("link set tap7 netns {here}")).unwrap();
        running.wait_for("tap7: has been in another namespace; it has its addresses again").unwrap();
        assert_eq!(ping(&line.between, LEFT, 2), 2);
    }
    // Another program deletes the interface and creates one of the same name, which the element takes over.
    line.between.ip("link del tap7").unwrap();
    line.between.ip("tuntap add tap7 mode tap vnet_hdr").unwrap();
    running.wait_for("tap7: is there again").unwrap();
    assert_eq!(ping(&line.between, LEFT, 2), 2);
    balances(running);
    line.between.ip("link del tap7").unwrap();
}

#[test]
fn an_mtu_that_changes() {
    let Some(line) = Line::new() else { return };
    let running = line.forward("Null", &REPORT);
    for mtu in [1280, 9000, 1500] {
        for (space, interface) in
            [(&line.left, "eth0"), (&line.between, "left"), (&line.between, "right"), (&line.right, "eth0")]
        {
            space.ip(&format!("link set {interface} mtu {mtu}")).unwrap();
        }
        // A changed MTU takes effect when a frame is too long: the element then reads the MTU again, but at
        // most once a second.
        std::thread::sleep(Duration::from_millis(1100));
        line.check();
    }
    // Only the outgoing interface of the machine in the middle gets a smaller MTU: frames that are too long
    // for it are dropped, reported once, and counted.
    line.between.ip("link set right mtu 1000").unwrap();
    let source = "InfiniteSource(LENGTH 1400, LIMIT 5) -> EtherEncap(0x9000, 2:0:0:0:0:1, 2:0:0:0:0:2)";
    send(&line.left, "eth0", source, 5);
    std::thread::sleep(Duration::from_millis(200));
    let messages = balances(running);
    assert_eq!(messages.matches("a frame of 1414 bytes is too long").count(), 1, "{messages}");
    assert!(
        messages.contains("right: 5 packets in all were dropped: too large for the interface"),
        "{messages}"
    );
}

/// A small file system, which is unmounted when this value is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=128k", "none"]).arg(folder.path());
        if !mount.status().is_ok_and(|status| status.success()) {
            println!("skipped: nothing can be mounted");
            return None;
        }
        Some(SmallDisk(folder))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Returns the number of packets in a capture that may have been cut off.
fn packets(path: &Path) -> u64 {
    let mut reader = capture::Reader::open(path.to_str().unwrap()).unwrap();
    std::iter::from_fn(|| reader.next().ok().flatten().map(|_| ())).count() as u64
}

#[test]
fn a_disk_that_is_full() {
    let Some(disk) = SmallDisk::new() else { return };
    let tidegate = |arguments: &[&str]| {
        let output = Command::new(TIDEGATE).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{said}");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said)
    };
    // The handler `count` of ToDump is the number of packets in the file, even if the disk was full in the
    // middle of a write of several packets.
    for unbuffered in ["true", "false"] {
        let path = disk.file("out.pcap");
        let config = format!(
            "RatedSource(LENGTH 1000, RATE 100000, LIMIT 1000, STOP true) -> d :: ToDump({}, UNBUFFERED {unbuffered})",
            path.display()
        );
        let (code, output, said) = tidegate(&["run", "-e", &config, "-H", "d.count"]);
        assert!(code == Some(1) && said.contains("No space left on device"), "{said}");
        assert!(said.contains("packets that were taken are not in the file"), "{said}");
        let count = packets(&path);
        assert!(count > 100 && value(&output, "d.count") == count, "{count}: {output}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 128 << 10);
    }
    // From here on, the disk has not a single free byte.
    let report = disk.file("report.json").display().to_string();
    let text = disk.file("state").display().to_string();
    let packets = "InfiniteSource(LIMIT 10, STOP true) -> Discard";
    let (code, _, said) = tidegate(&["run", "-e", packets, "--json", &report]);
    assert!(code == Some(1) && said.contains("report.json: No space left on device"), "{said}");
    let source = "InfiniteSource(LENGTH 1000, LIMIT 10, STOP true)";
    let state = format!(
        "{source} -> c :: AggregateCounter -> Discard; Script(TYPE DRIVER, pause, write c.write_text_file {text})"
    );
    let export = format!("{source} -> ToIPSummaryDump({text}, CONTENTS timestamp ip_src)");
    // A script continues after a handler that fails.
    for (config, status) in [(state, 0), (export, 1)] {
        let (code, _, said) = tidegate(&["run", "-e", &config]);
        assert!(
            code == Some(status) && said.contains("No space left on device"),
            "{config}: {code:?} {said}"
        );
    }
    // The next start works when there is space again.
    std::fs::remove_file(disk.file("out.pcap")).unwrap();
    let (code, _, said) = tidegate(&["run", "-e", packets, "--json", &report]);
    assert!(code == Some(0) && std::fs::metadata(&report).unwrap().len() > 0, "{said}");
}

/// On a live run, a capture has its header at the latest when the first packet arrives, and packets soon
/// afterwards, or when the handler `flush` is called.
#[test]
fn a_capture_can_be_read_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let [given, found] = ["given", "found"].map(|name| folder.path().join(name));
    let config = format!(
        "s :: RatedSource(LENGTH 100, RATE 1000, LIMIT 3) -> t :: Tee(2) -> found :: ToDump({});
         t[1] -> Queue -> u :: Unqueue(ACTIVE false) -> ToDump({}, ENCAP ETHER);
         Script(wait 0.1, write found.flush, print \"ready\", wait 100s)",
        found.display(),
        given.display()
    );
    let running = Command::new(TIDEGATE);
    let mut running = running;
    let mut running = RunningProgram::new(running.args(["run", "-e", &config])).unwrap();
    running.wait_for_output().unwrap();
    assert_eq!(packets(&found), 3);
    assert_eq!((packets(&given), std::fs::metadata(&given).unwrap().len()), (0, 24));
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
}

/// A program with interfaces, a TAP, a capture and a control socket is killed while it runs.
#[test]
fn nothing_is_left_of_a_program_that_is_killed() {
    let Some(line) = Line::new() else { return };
    let xdp = has_xdp(&line);
    let folder = tempfile::tempdir().unwrap();
    let [socket, file] = ["control", "out.pcap"].map(|name| folder.path().join(name));
    let by = |kind: &str| {
        let (from, to) = match kind {
            "xdp" => ("FromXDP", "ToXDP"),
            _ => ("FromDevice", "ToDevice"),
        };
        format!(
            "left :: {from}(left, PROMISC true) -> c :: Counter -> ToDump({}, SNAPLEN 0) -> Queue -> {to}(right);
             right :: {from}(right, PROMISC true) -> Queue -> {to}(left);
             tap :: KernelTap(10.78.0.1/24, DEVNAME tap7) -> Discard;
             ControlSocket(unix, {}); Idle -> tap",
            file.display(),
            socket.display()
        )
    };
    for kind in if xdp { &["packet", "xdp"][..] } else { &["packet"] } {
        for _ in 0..2 {
            let running = run(&line.between, &by(kind), &[]);
            assert_eq!(ping(&line.left, RIGHT, 3), 3);
            running.signal("KILL");
            assert!(!running.end().0);
            for interface in ["left", "right"] {
                let shown = line.between.ip(&format!("-d link show dev {interface}")).unwrap();
                assert!(shown.contains("promiscuity 0") && !shown.contains("xdp"), "{kind}: {shown}");
            }
            assert!(!line.between.has("tap7"), "{kind}");
            // The file can be read, except for packets that were not yet written.
            assert!(packets(&file) <= 100_000);
        }
        // The next program replaces the abandoned socket, and ends well.
        let running = run(&line.between, &by(kind), &REPORT);
        assert!(Control::open(&socket).number("c.count") < 1_000_000);
        line.check();
        balances(running);
        assert!(!socket.exists() && packets(&file) > 1000, "{kind}");
    }
}

/// A program is stopped (SIGSTOP) for a while and continues, as under a debugger or on a frozen machine.
#[test]
fn a_program_that_sleeps_for_a_while() {
    let Some(line) = Line::new() else { return };
    for workers in ["1", "2"] {
        let running = line.forward("Null", &[&REPORT[..], &["--threads", workers]].concat());
        line.check();
        running.signal("STOP");
        assert!(gets_no_echo_reply(&line.left, RIGHT));
        running.signal("CONT");
        line.check();
        balances(running);
    }
}
