//! Live interfaces in a machine between two others: ordinary and large frames, one and two workers, faults,
//! and cables that are pulled out. Skipped with a message if network namespaces cannot be created.

mod line;

use std::net::{Ipv4Addr, SocketAddr};

use lab::{exchange_datagrams, gets_no_echo_reply, gets_no_reply, ping, transfer};
use line::{COUNTS, LEFT, Line, MEGABYTE, RIGHT, TIDEGATE, has_xdp, run, run_until, send, value, when};

#[test]
fn large_segments_pass_where_nobody_minds() {
    let Some(line) = Line::new() else { return };
    let running = line.forward("Null", &COUNTS);
    line.check();
    let (good, [output, messages]) = running.stop();
    assert!(good, "{messages}");
    // Each direction carries a file of 8 MB, which would be 5,800 frames of ordinary size, and the ACKs for
    // the file of the other direction. So fewer than 5,000 frames show that large segments passed as a whole.
    assert!(value(&output, "left.count") < 5000, "{output}");
    assert!(value(&output, "right.count") < 5000, "{output}");
}

#[test]
fn whoever_looks_closely_gets_ordinary_frames() {
    let Some(line) = Line::new() else { return };
    let check = "{ input -> c :: Classifier(12/0800, -); c[1] -> output;
        c[0] -> CheckIPHeader(14) -> i :: IPClassifier(tcp, udp and not frag, -);
        i[0] -> t :: CheckTCPHeader(VERBOSE true) -> output; i[1] -> CheckUDPHeader(VERBOSE true) -> output;
        i[2] -> output }";
    let running = line.forward(check, &COUNTS);
    line.check();
    let (good, [output, messages]) = running.stop();
    assert!(good && !messages.contains("bad"), "{messages}");
    assert!(value(&output, "left.count") > 5000, "{output}");
}

#[test]
fn what_the_machine_sends_comes_in_where_it_is_wanted() {
    let Some(line) = Line::new() else { return };
    for threads in ["1", "2"] {
        let config = "RatedSource(LENGTH 100, RATE 1000) -> EtherEncap(0x9000, 2:0:0:0:0:1, 2:0:0:0:0:2)
            -> Queue -> ToDevice(left, QDISC_BYPASS false);
            FromDevice(left, PROTOCOL 0x9000) -> others :: Counter -> Discard;
            FromDevice(left, PROTOCOL 0x9000, OUTBOUND true) -> all :: Counter -> Discard;
            Script(wait 60s, stop);"
            .to_string()
            + &when("all.count", 50, "stop");
        let options =
            ["run", "-q", "--threads", threads, "-e", &config, "-H", "others.count", "-H", "all.count"];
        let output = line.between.command(TIDEGATE).args(options).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(value(&said, "others.count"), 0, "{threads}: {output:?}");
        assert!(value(&said, "all.count") >= 50, "{threads}: {output:?}");
    }
}

#[test]
fn two_workers_share_an_interface() {
    let Some(line) = Line::new() else { return };
    for steering in ["hash", "spray"] {
        let config = format!(
            "FromDevice(left, PROMISC true, STEERING {steering}) -> Queue -> ToDevice(right);
             FromDevice(right, PROMISC true, STEERING {steering}) -> Queue -> ToDevice(left);"
        );
        let running = run(&line.between, &config, &["--threads", "2"]);
        line.check();
        let (good, [_, messages]) = running.stop();
        assert!(good, "{messages}");
    }
}

#[test]
fn tags_are_put_back() {
    let Some(line) = Line::new() else { return };
    let count = "FromDevice(left, SNIFFER true) -> c :: Classifier(12/8100 14/0005 16/0800, 12/8100, -);
        c[0] -> tagged :: Counter -> Discard; c[1] -> Discard; c[2] -> Discard";
    let handlers = ["-H", "tagged.count", "-H", "tagged.byte_count"];
    let mut running = run_until(&line.between, count, "tagged.count", 3, &handlers);
    let data = "0200000000010200000000028100000508004500002e";
    let source = format!("InfiniteSource(DATA \\<{data}{}>, LIMIT 3)", "00".repeat(50));
    send(&line.left, "eth0", &source, 3);
    running.wait_for("enough").unwrap();
    let (good, [output, messages]) = running.stop();
    assert!(good, "{messages}");
    assert_eq!((value(&output, "tagged.count"), value(&output, "tagged.byte_count")), (3, 3 * 72));
}

#[test]
fn long_frames_are_whole() {
    let Some(line) = Line::new() else { return };
    for (space, interface) in
        [(&line.left, "eth0"), (&line.between, "left"), (&line.between, "right"), (&line.right, "eth0")]
    {
        space.ip(&format!("link set {interface} mtu 9000")).unwrap();
    }
    // Through `Null`, frames pass unchanged. `Print` needs complete packets, so their checksums are completed
    // before.
    for chain in ["Null", "Print(ACTIVE false)"] {
        let running = line.forward(chain, &[]);
        let lengths = [2000, 2100, 8000, 8972];
        let back = exchange_datagrams(&line.left, &line.right, SocketAddr::from((RIGHT, 7001)), &lengths);
        let (good, [_, messages]) = running.stop();
        assert!(good && back == lengths.len(), "{back} {messages}");
    }
}

#[test]
fn frames_that_are_too_large_are_told_once_and_counted() {
    let Some(line) = Line::new() else { return };
    let devices = if has_xdp(&line) { &["ToDevice", "ToXDP"][..] } else { &["ToDevice"] };
    for device in devices {
        let send = format!("InfiniteSource(LENGTH 1600, LIMIT 3, STOP true) -> {device}(eth0)");
        let sender = line.left.command(TIDEGATE).args(["run", "-e", &send]).output().unwrap();
        let said = String::from_utf8_lossy(&sender.stderr);
        assert!(sender.status.success() && said.contains("too large for the interface 3"), "{said}");
        let first = "eth0: a frame of 1600 bytes is too long: it carries 1518 (MTU and Ethernet header); such packets";
        assert_eq!(said.matches(first).count(), 1, "{device}: {said}");
        let later = "eth0: 3 packets in all were dropped: too large for the interface";
        assert_eq!(said.matches(later).count(), 1, "{device}: {said}");
    }
}

#[test]
fn a_full_send_queue() {
    let Some(line) = Line::new() else { return };
    let narrow = |what: &str, rate: &str| {
        let narrow = format!("qdisc {what} dev left root tbf rate {rate} burst 4kb limit 8kb");
        assert!(line.between.command("tc").args(narrow.split(' ')).status().unwrap().success());
    };
    let send = |way: &str| {
        let config = format!(
            "InfiniteSource(LENGTH 1000, LIMIT 200, STOP {}) -> {way} d :: ToDevice(left, QDISC_BYPASS false)",
            way.is_empty()
        );
        run_until(&line.between, &config, "d.count", 200, &["-H", "d.count", "-H", "d.drops"])
    };
    // When the interface is full, a ToDevice that pulls waits for space, and a ToDevice to which packets are
    // pushed drops them.
    narrow("add", "4mbit");
    let mut pulling = send("Queue ->");
    pulling.wait_for("enough").unwrap();
    let (good, [output, messages]) = pulling.stop();
    assert!(good && (value(&output, "d.count"), value(&output, "d.drops")) == (200, 0), "{output}{messages}");
    // At 8 kbit/s, about one packet per second can be sent.
    narrow("change", "8kbit");
    let (_, [output, messages]) = send("").end();
    let (sent, dropped) = (value(&output, "d.count"), value(&output, "d.drops"));
    assert!(sent + dropped == 200 && dropped > 100, "{output}");
    assert!(messages.contains(&format!("send queue full {dropped}")), "{messages}");
}

/// The machine in the middle has an address, and answers pings only while its kernel gets the packets that
/// the program receives.
#[test]
fn the_kernel_gets_nothing_unless_it_shall() {
    let Some(line) = Line::new() else { return };
    let own = Ipv4Addr::new(10, 77, 0, 3);
    line.between.ip("addr add 10.77.0.3/24 dev left").unwrap();
    assert_eq!(ping(&line.left, own, 1), 1);
    let probe = ["run", "-e", "FromDevice(left, SNIFFER false) -> Discard; Script(stop)"];
    let probe = line.between.command(TIDEGATE).args(probe).output().unwrap();
    let said = String::from_utf8_lossy(&probe.stderr);
    if said.contains("SNIFFER false needs Linux 6.6") {
        return println!("skipped: {said}");
    }
    for threads in ["1", "2"] {
        let config = "FromDevice(left, SNIFFER SEEN) -> c :: Counter -> Discard";
        let options = ["--threads", threads, "-H", "c.count"];
        let sniffing = run(&line.between, &config.replace("SEEN", "true"), &options);
        assert_eq!(ping(&line.left, own, 2), 2);
        assert!(sniffing.stop().0);
        let mut running = run(&line.between, &config.replace("SEEN", "false"), &options);
        assert!(gets_no_echo_reply(&line.left, own));
        // The kernel still gets packets of other interfaces.
        assert_eq!(ping(&line.between, Ipv4Addr::LOCALHOST, 1), 1);
        running.signal("KILL");
        assert!(!running.end().0);
        assert_eq!(ping(&line.left, own, 2), 2, "after its death");
        running = run(&line.between, &config.replace("SEEN", "false"), &options);
        assert!(gets_no_echo_reply(&line.left, own));
        let (good, [output, messages]) = running.stop();
        assert!(good && value(&output, "c.count") >= 1, "{output}{messages}");
        assert_eq!(ping(&line.left, own, 2), 2, "after its end");
    }
}

/// A configuration in which the machine in the middle sends and receives packets of its own, over a TAP
/// interface.
const TAP: &str =
    "tap :: KernelTap(10.77.0.3/24, DEVNAME tap7, BURST 32) -> CHAIN -> Queue -> ToDevice(left);
    FromDevice(left, PROMISC true) -> CHAIN -> Queue -> tap";

#[test]
fn the_machine_talks_over_a_tap() {
    let Some(line) = Line::new() else { return };
    // Through `Null`, large segments pass unchanged. For `Print`, they are divided into frames of ordinary
    // size.
    for chain in ["Null", "Print(ACTIVE false)"] {
        let threads = if chain == "Null" { "2" } else { "1" };
        let options = ["-H", "tap.dev_name", "--threads", threads];
        let running = run(&line.between, &TAP.replace("CHAIN", chain), &options);
        assert_eq!(ping(&line.between, LEFT, 3), 3);
        let own = Ipv4Addr::new(10, 77, 0, 3);
        for (from, to, address) in [(&line.left, &line.between, own), (&line.between, &line.left, LEFT)] {
            transfer(from, to, SocketAddr::from((address, 7000)), 8 * MEGABYTE, || ()).unwrap();
            let back = exchange_datagrams(from, to, SocketAddr::from((address, 7001)), &[1, 1472, 5000]);
            assert_eq!(back, 3);
        }
        let (good, [output, messages]) = running.stop();
        assert!(good && output.contains("tap7"), "{output}{messages}");
        assert!(!line.between.has("tap7"), "the interface is still there");
    }
}

#[test]
fn tags_are_beyond_the_mtu_of_a_tap() {
    let Some(line) = Line::new() else { return };
    let config = "tap :: KernelTap(10.88.0.3/24, DEVNAME tap7) -> Discard;
        FromDevice(left, PROMISC true, PROTOCOL 0x0800) -> VLANEncap(5) -> one :: Counter -> Queue -> tap;";
    // With its VLAN tag, the first frame has 1518 bytes, which is the maximum. The second frame is one byte
    // longer.
    for (length, is_dropped) in [(1514, false), (1515, true)] {
        let mut running = run_until(&line.between, config, "one.count", 3, &["-H", "one.count"]);
        for (space, interface) in [(&line.left, "eth0"), (&line.between, "left")] {
            space.ip(&format!("link set {interface} mtu 1600")).unwrap();
        }
        let source = format!(
            "InfiniteSource(LENGTH {}, LIMIT 3) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)",
            length - 14
        );
        send(&line.left, "eth0", &source, 3);
        running.wait_for("enough").unwrap();
        let (good, [output, messages]) = running.stop();
        assert!(good && value(&output, "one.count") == 3, "{output}{messages}");
        assert_eq!(messages.contains("too large for the interface 3"), is_dropped, "{length}: {messages}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let Some(line) = Line::new() else { return };
    let config = TAP.replace("CHAIN", "Null").replace("tap7,", "tap7, GATEWAY 10.77.0.1,");
    let running = run(&line.between, &config, &[]);
    assert!(line.between.ip("route show").unwrap().contains("default via 10.77.0.1 dev tap7"));
    running.signal("KILL");
    let (good, _) = running.end();
    assert!(!good && !line.between.has("tap7"));
    assert_eq!(line.between.ip("route show").unwrap(), "");
}

#[test]
fn a_tap_that_is_removed_by_somebody_is_made_again() {
    let Some(line) = Line::new() else { return };
    let options: [(usize, &[&str]); 3] =
        [(1, &[]), (2, &["--threads", "2"]), (1, &["--threads", "2", "--offload", "Null"])];
    for (workers, options) in options {
        let config = TAP.replace("CHAIN", "Null");
        let mut running = run(&line.between, &config, options);
        assert_eq!(ping(&line.between, LEFT, 2), 2);
        for _ in 0..2 {
            line.between.ip("link del tap7").unwrap();
            running.wait_for("tap7: was removed; making it again").unwrap();
            for _ in 0..workers {
                running.wait_for("tap7: is there again").unwrap();
            }
            // The address, the route and the Ethernet address are restored, otherwise there would be no
            // answer.
            line.left.ip("neigh flush all").unwrap();
            assert_eq!(ping(&line.between, LEFT, 2), 2);
        }
        let (good, [_, messages]) = running.stop();
        assert!(good, "{messages}");
    }
}

#[test]
fn the_machine_talks_over_a_tun() {
    let Some(line) = Line::new() else { return };
    let config = "tun :: KernelTun(10.9.0.1/24, DEVNAME tun7) -> r :: ICMPPingResponder -> tun;
        r[1] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:8) -> Queue -> ToDevice(left);
        FromDevice(left, PROMISC true) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> tun";
    let running = run(&line.between, config, &[]);
    // ICMPPingResponder answers for every address of the network 10.9.0.0/24 except the machine's own
    // address.
    assert_eq!(ping(&line.between, Ipv4Addr::new(10, 9, 0, 5), 3), 3);
    line.left.ip("link set eth0 address 2:0:0:0:0:8").unwrap();
    line.left.ip("addr add 10.9.0.8/24 dev eth0").unwrap();
    line.left.ip("neigh add 10.9.0.1 lladdr 2:0:0:0:0:9 dev eth0").unwrap();
    let (here, there) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 8));
    for (from, to, address) in [(&line.left, &line.between, here), (&line.between, &line.left, there)] {
        transfer(from, to, SocketAddr::from((address, 7000)), 2 * MEGABYTE, || ()).unwrap();
    }
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
    assert!(!line.between.has("tun7"));
}

#[test]
fn host_interfaces_are_for_two_elements() {
    let Some(line) = Line::new() else { return };
    let config =
        "FromHost(fake, 10.9.0.1/24, ETHER 2:0:0:0:0:1) -> c :: Classifier(12/0806 20/0001, 12/0800, -);
        c[0] -> ARPResponder(0.0.0.0/0 2:0:0:0:0:2) -> h :: ToHost(fake);
        c[1] -> CheckIPHeader(14) -> ICMPPingResponder -> EtherMirror -> h; c[2] -> Discard";
    let mut running = run(&line.between, config, &["-H", "h.drops"]);
    assert_eq!(ping(&line.between, Ipv4Addr::new(10, 9, 0, 5), 3), 3);
    // When the interface is removed, FromHost and ToHost continue with the interface that replaces it.
    line.between.ip("link del fake").unwrap();
    running.wait_for("fake: is there again").unwrap();
    assert_eq!(ping(&line.between, Ipv4Addr::new(10, 9, 0, 5), 3), 3);
    let (good, [output, messages]) = running.stop();
    assert!(good && output.contains('0'), "{output}{messages}");
    assert!(!line.between.has("fake"));
}

#[test]
fn faults_say_what_to_do() {
    let Some(line) = Line::new() else { return };
    for (config, text) in [
        ("FromDevice(eth9) -> Discard", "eth9: SIOCGIFINDEX: No such device; `ip link` shows"),
        ("Idle -> ToDevice(eth9)", "eth9: SIOCGIFINDEX: No such device"),
        ("KernelTap(10.9.0.1/24, DEVNAME left) -> Discard", "left: TUNSETIFF: "),
        (
            "KernelTap(10.9.0.1/24, DEVNAME t) -> Discard; KernelTap(10.9.1.1/24, DEVNAME t) -> Discard",
            "t: TUNSETIFF: Device or resource busy",
        ),
    ] {
        let output = line.between.command(TIDEGATE).args(["run", "-e", config]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(text), "{config}: {said}");
        // `check`, `flatten` and `dot` open no interface, so they succeed.
        for command in ["check", "flatten", "dot"] {
            let file = std::env::temp_dir().join(format!("tidegate-live-{}.click", std::process::id()));
            std::fs::write(&file, config).unwrap();
            let output = line.between.command(TIDEGATE).arg(command).arg(&file).output().unwrap();
            std::fs::remove_file(&file).unwrap();
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn frames_pass_by_xdp_without_a_copy() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let options = ["left.mode", "left.count", "left.rx_invalid", "to_right.count", "to_right.copied"];
    let options: Vec<&str> = options.iter().flat_map(|handler| ["-H", handler]).collect();
    let running = line.forward_by_xdp("", &options);
    line.check();
    let (good, [output, messages]) = running.stop();
    assert!(good && output.contains("left.mode:\nnative\n"), "{output}{messages}");
    // Each frame has the ordinary size, so that it fits into one slot of packet memory, and is sent from the
    // slot in which it arrived, without a copy.
    assert!(value(&output, "left.count") > 5000, "{output}");
    assert_eq!(value(&output, "to_right.count"), value(&output, "left.count"));
    assert_eq!((value(&output, "to_right.copied"), value(&output, "left.rx_invalid")), (0, 0));
}

#[test]
fn the_kernel_runs_the_program_where_it_shall() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    for space in [&line.left, &line.right] {
        let off = "-K eth0 tso off gso off".split(' ');
        if !space.command("ethtool").args(off).status().is_ok_and(|status| status.success()) {
            return println!("skipped: no ethtool here");
        }
    }
    // With the program in generic mode (`skb`), the kernel chooses the receive queue of a frame, so two
    // queues are set up.
    assert!(line.between.command("ethtool").args("-L left rx 2 tx 2".split(' ')).status().unwrap().success());
    let options = ["-H", "left.mode", "-H", "left.count", "-H", "left.queues"];
    let running = line.forward_by_xdp(", MODE skb", &options);
    assert!(line.between.ip("link show dev left").unwrap().contains("xdpgeneric"));
    line.check();
    let (good, [output, messages]) = running.stop();
    assert!(good && output.contains("left.mode:\nskb\n"), "{output}{messages}");
    // All frames of the file came through the program. How many were lost in front of a full ring, and sent
    // again by TCP, depends on how busy the machine is.
    assert!(value(&output, "left.count") > 5000, "{output}");
    assert_eq!(value(&output, "left.queues"), 2);
}

#[test]
fn xdp_without_the_driver_and_frames_that_are_too_long() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    // An MTU of 9000 is too large for AF_XDP in the driver's (native) mode.
    for (space, interface) in [(&line.left, "eth0"), (&line.between, "left")] {
        space.ip(&format!("link set {interface} mtu 9000")).unwrap();
    }
    let refused = ["run", "-e", "FromXDP(left, MODE native) -> Discard"];
    let refused = line.between.command(TIDEGATE).args(refused).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("left: attach: ") && said.contains("use MODE skb"), "{said}");
    let mut running = line.forward_by_xdp("", &["-H", "left.mode", "-H", "left.rx_dropped"]);
    let port = SocketAddr::from((RIGHT, 7001));
    assert_eq!(exchange_datagrams(&line.left, &line.right, port, &[1000]), 1);
    assert!(gets_no_reply(&line.left, &line.right, port, 5000));
    running.wait_for("frames of more than 2112 bytes are lost; where senders leave segments").unwrap();
    let (good, [output, messages]) = running.stop();
    assert!(good && output.contains("left.mode:\nskb\n"), "{output}{messages}");
    assert_eq!(value(&output, "left.rx_dropped"), 1);
}

#[test]
fn what_is_not_in_the_pool_is_copied_for_xdp() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    // ToXDP, on the second worker, gets packets of the first worker's pool and has to copy them into its own
    // pool. In each direction, one of the two ends is a packet socket, the other one AF_XDP.
    let config = "from :: FromDevice(left, PROMISC true) -> ThreadSafeQueue -> out :: ToXDP(right);
         StaticThreadSched(from 0, out 1);
         in :: FromXDP(right, PROMISC true) -> Queue -> ToDevice(left); StaticThreadSched(in 1)";
    let options = ["--threads", "2", "-H", "out.count", "-H", "out.copied", "-H", "in.count"];
    let running = run(&line.between, config, &options);
    line.check();
    let (good, [output, messages]) = running.stop();
    assert!(good && value(&output, "in.count") > 1000, "{output}{messages}");
    assert!(value(&output, "out.count") > 5000, "{output}{messages}");
    assert_eq!(value(&output, "out.copied"), value(&output, "out.count"));
}

#[test]
fn faults_of_xdp_say_what_to_do() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let running = line.forward_by_xdp("", &[]);
    // The second receive queue is added after the program has started, so no socket receives from it.
    let more = line.between.command("ethtool").args("-L left rx 2 tx 2".split(' ')).status();
    let has_more = more.is_ok_and(|status| status.success());
    let other = "left: attach: another XDP program is there; `ip -d link show left` shows it";
    for (config, text) in [
        (
            "FromXDP(left, 1, SHARED true) -> Discard",
            if has_more { other } else { "the interface has no such QUEUE" },
        ),
        ("FromXDP(eth9) -> Discard", "eth9: SIOCGIFINDEX: No such device; `ip link` shows"),
        ("Idle -> ToXDP(eth9)", "eth9: SIOCGIFINDEX: No such device"),
        (
            "FromXDP(left, SHARED true) -> Discard",
            "left: bind: Device or resource busy; another socket has this queue",
        ),
        (
            "FromXDP(left, 77, SHARED true) -> Discard",
            "left: bind: Invalid argument; the interface has no such QUEUE",
        ),
    ] {
        let output = line.between.command(TIDEGATE).args(["run", "-e", config]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(text), "{config}: {said}");
    }
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
}
