//! Live interfaces under load and shared with other programs: starts and changes of configuration while
//! packets arrive, several programs at an interface, several queues, tunnels, and interfaces that merge
//! segments on receive (GRO). Skipped with a message if network namespaces cannot be created.

mod line;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use lab::{DatagramStream, Namespace, PATIENCE, ping, transfer};
use line::{
    COUNTS, Control, LEFT, Line, MEGABYTE, RIGHT, TIDEGATE, has_xdp, run, run_until, send, value, when,
};
use wire::build::Builder;
use wire::ethernet::MacAddr;
use wire::{FromBytes, checksum, ip_protocol, ipv4};

/// The destination of streams.
const PORT: (Ipv4Addr, u16) = (RIGHT, 9);

/// The kernel of the receiving machine merges small frames (GRO) into a large frame whose data are in one
/// piece. The frame passes through the program.
#[test]
fn what_a_receiver_has_merged_passes() {
    let Some(line) = Line::new() else { return };
    let off = "-K eth0 tso off".split(' ');
    let on = "-K left gro on".split(' ');
    if ![line.left.command("ethtool").args(off).status(), line.between.command("ethtool").args(on).status()]
        .iter()
        .all(|status| status.as_ref().is_ok_and(|status| status.success()))
    {
        return println!("skipped: no ethtool here");
    }
    let settings = [("gro_flush_timeout", "200000"), ("napi_defer_hard_irqs", "2")];
    for (name, value) in settings {
        let set = format!("echo {value} > /sys/class/net/left/{name}");
        assert!(line.between.command("sh").args(["-c", &set]).status().unwrap().success());
    }
    let folder = tempfile::tempdir().unwrap();
    for size in [900, 1448] {
        let file = folder.path().join("segments.pcap");
        std::fs::write(&file, segments(64, size)).unwrap();
        let running = line.forward("Null", &COUNTS);
        let counter = "FromDevice(eth0, PROMISC true) -> c :: Counter -> Discard";
        let mut counting = run_until(&line.right, counter, "c.byte_count", 64 * size as u64, &[]);
        send(&line.left, "eth0", &format!("FromDump({})", file.display()), 64);
        counting.wait_for("enough").unwrap();
        let (good, [counts, messages]) = running.stop();
        assert!(good && !messages.contains("too large"), "{messages}");
        assert!(value(&counts, "left.count") < 40, "nothing was merged: {counts}");
    }
}

/// Datagrams that the kernel of the receiving machine has merged as a list of frames (GRO) have complete
/// checksums, and pass unchanged.
#[test]
fn datagrams_that_a_receiver_has_merged_pass() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    let is_set = |space: &Namespace, arguments: &str| space.ethtool(arguments).is_ok();
    if !is_set(&line.left, "-K eth0 tx off gso off")
        || !is_set(&line.between, "-K left gro on rx-gro-list on")
    {
        return println!("skipped: no ethtool here, or no lists");
    }
    for (name, value) in [("gro_flush_timeout", "200000"), ("napi_defer_hard_irqs", "2")] {
        let set = format!("echo {value} > /sys/class/net/left/{name}");
        assert!(line.between.command("sh").args(["-c", &set]).status().unwrap().success());
    }
    let running = line.forward("Null", &COUNTS);
    let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 1);
    stream.wait_for(2000);
    let [arrived, missing, doubled] = stream.stop();
    let (good, [output, messages]) = running.stop();
    assert!(good && !messages.contains("segments not understood"), "{output}{messages}");
    assert_eq!((missing, doubled), (0, 0), "{output}{messages}");
    assert!(value(&output, "left.count") >= arrived as u64, "{output}{messages}");
}

/// Returns a capture of `count` segments of one TCP flow, with `size` bytes each.
fn segments(count: usize, size: usize) -> Vec<u8> {
    let [a, b] = [(LEFT, 5000), (RIGHT, 5001)].map(SocketAddr::from);
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend_from_slice(&word.to_ne_bytes());
    }
    for number in 0..count {
        let builder = Builder::tcp(a, b, 0x10).sequence((number * size) as u32, 1).id(number as u16);
        let frame = builder.ethernet(MacAddr([4; 6]), MacAddr([2; 6])).build(&vec![7; size]).unwrap();
        let length = frame.len() as u32;
        for word in [0, number as u32, length, length] {
            file.extend_from_slice(&word.to_ne_bytes());
        }
        file.extend_from_slice(&frame);
    }
    file
}

#[test]
fn segments_in_tunnels_are_named_and_small_packets_pass() {
    let Some(line) = Line::new() else { return };
    for (space, own, other, address) in
        [(&line.left, LEFT, RIGHT, "10.88.0.1/24"), (&line.right, RIGHT, LEFT, "10.88.0.2/24")]
    {
        space.ip(&format!("link add vx0 type vxlan id 7 local {own} remote {other} dstport 4789")).unwrap();
        space.ip(&format!("addr add {address} dev vx0")).unwrap();
        space.ip("link set vx0 up").unwrap();
    }
    let inner = SocketAddr::from((Ipv4Addr::new(10, 88, 0, 2), 7000));
    let mut running = line.forward("Truncate(1600)", &COUNTS);
    assert_eq!(ping(&line.left, Ipv4Addr::new(10, 88, 0, 2), 2), 2);
    // The large segments in the tunnel are lost. TCP sends their data again in segments that fit, but slowly.
    scope(|scope| {
        scope.spawn(|| drop(transfer(&line.left, &line.right, inner, MEGABYTE, || ())));
        running.wait_for("large segments in tunnels").unwrap();
        for space in [&line.left, &line.right] {
            let off = "-K eth0 tx-udp_tnl-segmentation off tx-udp_tnl-csum-segmentation off".split(' ');
            if !space.command("ethtool").args(off).status().is_ok_and(|status| status.success()) {
                println!("skipped: no ethtool here");
            }
        }
    });
    // The sender now divides the segments itself before the tunnel, as the message about large segments in
    // tunnels advises.
    transfer(
        &line.left,
        &line.right,
        SocketAddr::from((Ipv4Addr::new(10, 88, 0, 2), 7001)),
        8 * MEGABYTE,
        || (),
    )
    .unwrap();
    let (good, [_, messages]) = running.stop();
    assert!(good && messages.contains("segments not understood"), "{messages}");
}

#[test]
fn a_start_under_load_loses_and_doubles_nothing() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    for _ in 0..3 {
        let stream = DatagramStream::start_early(&line.left, &line.right, PORT.into(), 64);
        sleep(Duration::from_millis(300));
        let running = run(
            &line.between,
            "fl :: FromDevice(left, PROMISC true) -> Queue(100000) -> ToDevice(right)",
            &["--threads", "2", "-H", "fl.kernel_drops"],
        );
        stream.wait_for(2000);
        // The workers' sockets join the group of receivers one after the other, while packets arrive. Each
        // socket gets every packet of its flows from then on, so no packet is missing or doubled.
        let [_, missing, doubled] = stream.stop();
        let (good, [output, messages]) = running.stop();
        assert!(good && value(&output, "fl.kernel_drops") == 0, "{output}{messages}");
        assert_eq!((missing, doubled), (0, 0), "{output}{messages}");
    }
}

#[test]
fn a_configuration_in_the_place_of_another_one_loses_nothing() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let config = "fl :: FromDevice(left, PROMISC true) -> Queue(100000) -> td :: ToDevice(right); Script(print \"ready\")";
    let socket = path.display().to_string();
    let options =
        ["click", "--allow-config", "-u", &socket, "-e", config, "-h", "fl.count", "-h", "td.count"];
    let mut running = line.between.start(TIDEGATE, &options).unwrap();
    let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 1);
    let mut control = Control::open(&path);
    for text in [config, "Nonsense", config, "fl :: FromDevice(eth9) -> Discard", config] {
        stream.wait_for(500);
        assert_eq!(control.write("hotconfig", text).is_ok(), text == config);
        if text == config {
            running.wait_for("ready").unwrap();
        }
    }
    stream.wait_for(500);
    let [arrived, missing, doubled] = stream.stop();
    let (_, [output, messages]) = running.stop();
    assert_eq!((missing, doubled), (0, 0), "{output}{messages}");
    assert!(value(&output, "fl.count") >= arrived as u64, "{output}");
    assert!(value(&output, "td.count") >= arrived as u64, "{output}");
}

#[test]
fn a_run_that_reads_its_file_again_loses_nothing() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let [file, socket] = ["bridge.click", "control"].map(|name| folder.path().join(name));
    let bridge = |between: &str| {
        format!(
            "fl :: FromDevice(left, PROMISC true) -> {between} q :: Queue(100000) -> td :: ToDevice(right);
             Script(print \"ready\")"
        )
    };
    for threads in ["1", "2"] {
        std::fs::write(&file, bridge("")).unwrap();
        let [file_name, socket_name] = [&file, &socket].map(|path| path.display().to_string());
        let options = ["run", "--threads", threads, "--control", &socket_name, &file_name];
        let counts = ["-H", "fl.count", "-H", "td.count", "-H", "fl.kernel_drops"];
        let running = line.between.start(TIDEGATE, &[&options[..], &counts].concat()).unwrap();
        let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 64);
        stream.wait_for(500);
        let mut control = Control::open(&socket);
        for text in
            [bridge("Null ->"), bridge(""), "Nonsense".into(), bridge("Null -> Null ->"), bridge("Null ->")]
        {
            std::fs::write(&file, &text).unwrap();
            assert_eq!(control.write("reload", "").is_ok(), text != "Nonsense", "{threads}: {text}");
            stream.wait_for(500);
        }
        let [arrived, missing, doubled] = stream.stop();
        let (_, [output, messages]) = running.stop();
        assert_eq!((missing, doubled), (0, 0), "{threads}: {output}{messages}");
        assert_eq!(value(&output, "fl.kernel_drops"), 0, "{output}");
        assert!(value(&output, "fl.count") >= arrived as u64, "{output}");
        assert!(value(&output, "td.count") >= arrived as u64, "{output}");
    }
}

#[test]
fn captures_wait_beside_interfaces() {
    let Some(line) = Line::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flows.pcap");
    std::fs::write(&file, segments(20_000, 1000)).unwrap();
    // The second worker takes longer to process a packet than the first worker takes to read it.
    let work = "SetTCPChecksum -> ".repeat(40);
    let config = format!(
        "FromDump({}, STOP true) -> MarkIPHeader(14) -> f :: Counter -> {work} Discard; StaticThreadSched(f 1);
         FromDevice(left) -> Discard",
        file.display()
    );
    let (good, [_, messages]) = run(&line.between, &config, &["--threads", "2"]).end();
    assert!(good && !messages.contains("worker busy"), "{messages}");
    let row = messages.lines().find(|line| line.starts_with("f :: Counter")).unwrap_or_default();
    assert_eq!(row.split_whitespace().nth(3), Some("20000"), "{messages}");
}

#[test]
fn groups_of_different_programs_are_different() {
    let Some(line) = Line::new() else { return };
    // Each of the two programs runs in its own PID namespace, so that both have the same process number.
    let config = format!(
        "fl :: FromDevice(left, PROMISC true, SHARED true) -> Counter -> Discard; Script(print \"ready\"); {}",
        when("fl.count", 2000, "print \"enough\"")
    );
    let arguments =
        ["-p", "-f", "--mount-proc", TIDEGATE, "run", "-e", &config, "--threads", "2", "-H", "fl.count"];
    let programs = [(); 2].map(|()| line.between.start("unshare", &arguments).unwrap());
    send(&line.left, "eth0", "InfiniteSource(LENGTH 100, LIMIT 2000)", 2000);
    for mut running in programs {
        running.wait_for("enough").unwrap();
        // The signal goes to the program itself, which is the child of unshare.
        let id = running.id().to_string();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let child = children.split_whitespace().next().unwrap_or(&id).to_string();
        assert!(Command::new("kill").args(["-TERM", &child]).status().unwrap().success());
        let (_, [output, messages]) = running.end();
        assert!(value(&output, "fl.count") >= 2000, "{output}{messages}");
    }
}

#[test]
fn every_queue_has_slots() {
    let Some(line) = Line::wide(8).filter(has_xdp) else { return };
    let running = line.forward_by_xdp(
        "",
        &["-H", "left.queues", "-H", "left.fill_ring_empty", "-H", "right.fill_ring_empty"],
    );
    assert_eq!(ping(&line.left, RIGHT, 5), 5);
    let (good, [output, messages]) = running.stop();
    assert!(good && value(&output, "left.queues") == 8, "{output}{messages}");
    assert_eq!(
        value(&output, "left.fill_ring_empty") + value(&output, "right.fill_ring_empty"),
        0,
        "{output}"
    );
}

#[test]
fn interfaces_have_no_time_of_captures() {
    let Some(line) = Line::new() else { return };
    let options = ["run", "--clock", "trace", "-e", "FromDevice(left) -> Discard"];
    let output = line.between.command(TIDEGATE).args(options).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("--clock trace is the time of captures"),
        "{said}"
    );
}

#[test]
fn a_pause_of_a_fifth_of_a_second_loses_nothing() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    let config = "fl :: FromDevice(left, PROMISC true) -> Discard";
    let handlers = ["-H", "fl.kernel_drops", "-H", "fl.count"];
    let mut running = run_until(&line.between, config, "fl.count", 200, &handlers);
    let socket = line.left.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
    running.signal("STOP");
    // The receive ring has space for a limited number of milliseconds, but only milliseconds in which packets
    // arrive take space. The pause between two packets may be longer than one millisecond.
    for _ in 0..200 {
        socket.send_to(&[7; 100], PORT).unwrap();
        sleep(Duration::from_millis(1));
    }
    running.signal("CONT");
    running.wait_for("enough").unwrap();
    let (good, [output, messages]) = running.stop();
    assert!(good && value(&output, "fl.count") == 200, "{output}{messages}");
    assert_eq!(value(&output, "fl.kernel_drops"), 0, "{output}{messages}");
}

/// A Queue of Click's default capacity (1000) has room for the segments into which large frames are divided,
/// after frames have waited while the program was stopped.
#[test]
fn large_segments_that_are_cut_fit_into_a_queue() {
    // The number of large frames that are sent. Each consists of 45 segments.
    const FRAMES: usize = 88;
    const SEGMENTS: usize = 45 * FRAMES;
    let Some(line) = Line::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("segments.pcap");
    std::fs::write(&file, segments(SEGMENTS, 1448)).unwrap();
    let config = "FromDevice(left, PROMISC true) -> Truncate(1600) -> c :: Counter -> q :: Queue(1000)
        -> d :: ToDevice(right); Script(print \"ready\")";
    for threads in ["1", "2"] {
        let handlers = ["c.count", "q.drops", "q.highwater_length", "d.count"];
        let mut options = vec!["--threads", threads];
        options.extend(handlers.iter().flat_map(|handler| ["-H", handler]));
        let mut running = run_until(&line.between, config, "c.count", SEGMENTS as u64, &options);
        running.signal("STOP");
        let large = format!("FromDump({}) -> Juggler(INSEQ_TIMEOUT 10s) -> Counter", file.display());
        send(&line.left, "eth0", &large, FRAMES as u64);
        running.signal("CONT");
        running.wait_for("enough").unwrap();
        let (good, [output, messages]) = running.stop();
        assert!(good && value(&output, "c.count") >= SEGMENTS as u64, "{output}{messages}");
        assert_eq!(value(&output, "q.drops"), 0, "{output}{messages}");
    }
}

#[test]
fn what_the_machine_sends_takes_no_room() {
    let Some(line) = Line::new() else { return };
    for threads in ["1", "2"] {
        let config = "fl :: FromDevice(left) -> Discard";
        let running = run(&line.between, config, &["--threads", threads, "-H", "fl.kernel_drops"]);
        running.signal("STOP");
        // The machine sends more packets itself than the receive rings can hold. They must not take space in
        // the rings.
        let send =
            "InfiniteSource(LENGTH 1400, LIMIT 60000, STOP true) -> ToDevice(left, QDISC_BYPASS false)";
        let sent = line.between.command(TIDEGATE).args(["run", "-q", "-e", send]).status();
        running.signal("CONT");
        let (good, [output, messages]) = running.stop();
        assert!(good && sent.unwrap().success(), "{messages}");
        assert_eq!(value(&output, "fl.kernel_drops"), 0, "{output}{messages}");
    }
}

/// In the running graph, no element needs complete checksums. The graph that replaces it writes packets to a
/// file, and must not get packets with partial checksums from the Queue.
#[test]
fn a_configuration_that_minds_gets_no_unfinished_packets() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let [path, file] = ["control", "seen.pcap"].map(|name| folder.path().join(name).display().to_string());
    let first =
        "f :: FromDevice(left, PROMISC true) -> q :: Queue(1000) -> u :: Unqueue(ACTIVE false) -> Queue
        -> ToDevice(right); Script(print \"ready\")";
    let second = format!(
        "f :: FromDevice(left, PROMISC true) -> q :: Queue(1000) -> u :: Unqueue -> s :: Counter
         -> ToDump({file}, SNAPLEN 0, UNBUFFERED true); Script(print \"again\")"
    );
    let options =
        ["click", "--allow-config", "-u", &path, "-e", first, "-h", "q.highwater_length", "-h", "s.count"];
    let mut running = line.between.start(TIDEGATE, &options).unwrap();
    let socket = line.left.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
    let send = || (0..5).for_each(|_| drop(socket.send_to(&[7; 500], PORT)));
    let mut control = Control::open(Path::new(&path));
    let mut wait_for_five = |handler: &str| {
        let until = Instant::now() + PATIENCE;
        while control.number(handler) < 5 {
            assert!(Instant::now() < until, "they have not come");
            sleep(Duration::from_millis(20));
        }
    };
    send();
    wait_for_five("q.length");
    Control::open(Path::new(&path)).write("hotconfig", &second).unwrap();
    running.wait_for("again").unwrap();
    send();
    wait_for_five("s.count");
    let (_, [output, messages]) = running.stop();
    // The new graph continues with the counts of the Queue.
    assert!(value(&output, "q.highwater_length") >= 5, "{output}{messages}");
    let mut reader = capture::Reader::open(&file).unwrap();
    let (mut good, mut wrong) = (0, 0);
    while let Some(record) = reader.next().unwrap() {
        let datagram = record.data.get(14..).and_then(|ip| ipv4::Header::ref_from_prefix(ip).ok());
        let Some((ip, datagram)) = datagram.filter(|(ip, _)| ip.protocol == ip_protocol::UDP) else {
            continue;
        };
        match checksum::udp_valid(&ip.into(), datagram) {
            true => good += 1,
            false => wrong += 1,
        }
    }
    assert_eq!((good, wrong), (5, 0), "{output}{messages}");
}

#[test]
fn a_cable_without_anybody_at_the_other_end() {
    let Some(line) = Line::new() else { return };
    let has_xdp = has_xdp(&line);
    line.right.ip("link set eth0 down").unwrap();
    for (way, counts) in [
        ("Queue -> d :: ToDevice(right)", true),
        // A queueing discipline accepts packets even while the interface has no carrier.
        ("Queue -> d :: ToDevice(right, QDISC_BYPASS false)", true),
        ("d :: ToXDP(right, MODE skb)", has_xdp),
    ] {
        if !counts {
            continue;
        }
        let config = format!("RatedSource(LENGTH 100, RATE 2000, LIMIT -1) -> {way}");
        let mut running = run_until(&line.between, &config, "d.drops", 500, &["-H", "d.drops"]);
        running.wait_until_said("right: has no carrier: the other end is not connected").unwrap();
        line.right.ip("link set eth0 up").unwrap();
        running.wait_for("right: sends again").unwrap();
        line.right.ip("link set eth0 down").unwrap();
        running.wait_for("right: has no carrier").unwrap();
        running.wait_until_said("enough").unwrap();
        let (good, [output, messages]) = running.stop();
        assert!(good && messages.contains("interface down"), "{way}: {output}{messages}");
        assert!(value(&output, "d.drops") >= 500, "{way}: {output}{messages}");
    }
}

#[test]
fn workers_share_a_tap_that_was_there() {
    let Some(line) = Line::new() else { return };
    if line
        .between
        .command("ip")
        .args("tuntap add dev tap7 mode tap multi_queue vnet_hdr".split(' '))
        .status()
        .is_err()
    {
        return;
    }
    line.between.ip("link set tap7 up").unwrap();
    let running = run(&line.between, "KernelTap(10.9.0.1/24, DEVNAME tap7) -> Discard", &["--threads", "2"]);
    assert!(line.between.ip("addr show dev tap7").unwrap().contains("10.9.0.1/24"));
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
    // Two KernelTap elements with one device would share its packets, so the second element is an error.
    let two = "KernelTap(10.9.0.1/24, DEVNAME t) -> Discard; KernelTap(10.9.1.1/24, DEVNAME t) -> Discard";
    let output = line.between.command(TIDEGATE).args(["run", "--threads", "2", "-e", two]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("t: TUNSETIFF: Device or resource busy"),
        "{said}"
    );
}
