//! Slicing around a network function that is the kernel of another machine: it tracks connections, routes and
//! translates addresses. The machines at both ends use the kernel's TCP and UDP. Skipped with a message if
//! network namespaces or a program are missing.

mod detour;
mod line;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use detour::{Detour, MASQUERADE, SLICED, Way, has_version_6, is_installed, nft, set};
use lab::{Namespace, download, exchange_datagrams, hops, ping, transfer};
use line::{MEGABYTE, run, value};

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 254);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);

/// The length of a file in bytes.
const LENGTH: u64 = 20 * MEGABYTE as u64;
/// The maximum number of bytes in a packet. Files are sent in large segments.
const MOST: u64 = 65_536;

/// An element that needs complete checksums and ordinary frames.
const ORDINARY: &str = "Print(ACTIVE false)";

/// The arguments for slicing in which the network function gets a sliced TCP segment with the sequence number
/// of its first bytes, not of its last bytes.
const START: Way = Way::Sliced { slicing: ", TAIL false", table: "" };

/// The lengths of UDP payloads in bytes: up to what fits into one frame, around the threshold for slicing,
/// and beyond one frame (fragments).
const LENGTHS: [usize; 13] = [0, 1, 16, 100, 457, 458, 459, 500, 1000, 1471, 1472, 1473, 4000];

/// Makes a network whose function is a machine between client and server: its kernel follows connections,
/// checks their TCP windows, and counts the packets that it does not accept as part of a connection. `rules`
/// are further nftables rules.
fn kernel(rules: &str) -> Option<Detour> {
    let detour = Detour::new(["10.1.0.1/24", "10.2.0.1/24"], ["10.1.0.254/24", "10.2.0.254/24"])?;
    let Detour { client, function, server, .. } = &detour;
    client.ip("route add default via 10.1.0.254").unwrap();
    server.ip("route add default via 10.2.0.254").unwrap();
    set(function, "ipv4/ip_forward", "1");
    let watch = "add table inet watch; add counter inet watch invalid_seen;
        add chain inet watch seen { type filter hook prerouting priority -150; };
        add rule inet watch seen ct state invalid counter name invalid_seen;";
    if !nft(function, &format!("{watch} {rules}")) {
        return None;
    }
    set(function, "netfilter/nf_conntrack_tcp_be_liberal", "0");
    Some(detour)
}

/// Returns the number of packets that the kernel has marked as INVALID, by nftables and by conntrack.
fn invalid(function: &Namespace) -> [u64; 2] {
    let counter = ["list", "counter", "inet", "watch", "invalid_seen"];
    let output = function.command("nft").args(counter).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let packets = said.split_whitespace().skip_while(|word| *word != "packets").nth(1).unwrap();
    let file = "/proc/thread-self/net/stat/nf_conntrack";
    let table = function.enter(|| std::fs::read_to_string(file)).unwrap();
    let mut rows = table.lines().map(|line| line.split_whitespace());
    let column = rows.next().unwrap().position(|name| name == "invalid").unwrap();
    // Each core has a row, in hexadecimal.
    let count = rows.map(|mut row| u64::from_str_radix(row.nth(column).unwrap(), 16).unwrap()).sum();
    [packets.parse().unwrap(), count]
}

/// Transfers a file from the client to the server, and another file back. The client opens both connections.
fn files(detour: &Detour, mut address: SocketAddr) {
    transfer(&detour.client, &detour.server, address, LENGTH as usize, || ()).unwrap();
    // A process that another test is just starting may have inherited the socket of the first port. So the
    // second transfer uses another port.
    address.set_port(address.port() + 100);
    download(&detour.client, &detour.server, address, LENGTH as usize).unwrap();
}

/// Checks that packets with at least `least` bytes came, that most of the bytes were parked, and that all
/// packets could be joined.
fn check_counts(counts: &str, least: u64) {
    let [came, crossed, sliced, spliced] =
        ["t.bytes_in", "t.bytes_crossed", "t.sliced", "t.spliced"].map(|name| value(counts, name));
    assert!(came >= least && crossed < came / 4, "{counts}");
    assert!(sliced >= least / MOST && spliced >= least / MOST, "{counts}");
    for name in ["t.no_token", "t.changed", "t.unmarked", "t.repeated"] {
        assert_eq!(value(counts, name), 0, "{name}: {counts}");
    }
}

#[test]
fn a_translator() {
    for (way, threads) in [(Way::Whole, "1"), (SLICED, "1"), (SLICED, "4")] {
        let Some(detour) = kernel(MASQUERADE) else { return };
        let Detour { client, function, server, .. } = &detour;
        let host = detour.run(way, "Null", &["--threads", threads]);
        assert_eq!(ping(client, SERVER, 3), 3);
        files(&detour, (SERVER, 7000).into());
        let back = exchange_datagrams(client, server, (SERVER, 7001).into(), &LENGTHS);
        assert_eq!(back, LENGTHS.len(), "{way:?}, {threads} workers");
        assert_eq!(hops(client, SERVER, 5), [ROUTER, SERVER]);
        assert!(is_refused(client, (SERVER, 7777)), "{way:?}, {threads} workers");
        let (good, [counts, messages]) = host.stop();
        assert!(good, "{messages}");
        assert_eq!(invalid(function), [0, 0], "{way:?}, {threads} workers");
        if way != Way::Whole {
            check_counts(&counts, 2 * LENGTH);
        }
    }
}

/// True if the client learns that the server's port is unreachable. The server's ICMP error quotes the start
/// of the datagram, and the translator has to translate it.
fn is_refused(client: &Namespace, address: (Ipv4Addr, u16)) -> bool {
    let socket = client.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(address).unwrap();
    socket.send(&[1; 1000]).unwrap();
    let error = socket.recv(&mut [0; 16]).unwrap_err();
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

#[test]
fn a_translator_and_losses() {
    let mut counts = Vec::new();
    for way in [Way::Whole, SLICED] {
        let Some(detour) = kernel(MASQUERADE) else { return };
        // Packets are dropped between client and Slicer, so that each slice is joined with its payload again,
        // and lost packets are sent again.
        let host = detour.run(way, &format!("{ORDINARY} -> RandomSample(DROP 0.01)"), &[]);
        files(&detour, (SERVER, 7000).into());
        let (good, [handlers, messages]) = host.stop();
        assert!(good && messages.contains("sampled"), "{messages}");
        if way != Way::Whole {
            check_counts(&handlers, 2 * LENGTH);
        }
        counts.push(invalid(&detour.function));
    }
    assert!(counts[1] <= counts[0], "whole, sliced: {counts:?}");
}

/// A function usually gets a sliced segment as if it were the segment's last bytes. If it gets the segment as
/// the first bytes, the receiver's ACKs are beyond the data that the function's kernel has seen. So the
/// kernel does not translate the ACKs, and the machine that gets them knows no such connection.
#[test]
fn a_translator_that_sees_the_start_of_segments() {
    let Some(detour) = kernel(MASQUERADE) else { return };
    let host = detour.run(START, "Null", &[]);
    assert!(!is_answered(&detour.client, &detour.server, (SERVER, 7000)));
    assert!(host.stop().0);
    let [packets, all] = invalid(&detour.function);
    assert!(packets > 0 && all > 0, "{packets} {all}");
}

/// True if the client gets an answer to a single segment. Because no segment follows, the server's ACK is
/// beyond all data that a function has seen if it sees only the first bytes of segments. With many segments,
/// the function may have seen the start of a later segment, and would accept the ACK.
fn is_answered(client: &Namespace, server: &Namespace, address: (Ipv4Addr, u16)) -> bool {
    let listener = server.enter(|| TcpListener::bind(address)).unwrap();
    let mut client = client.enter(|| TcpStream::connect(address)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    }
    client.write_all(&[1; 1000]).unwrap();
    server.read_exact(&mut [0; 1000]).unwrap();
    // The write may fail, because the server's connection may have been reset by now.
    let sent = server.write_all(&[1]);
    client.read_exact(&mut [0]).and(sent).is_ok()
}

/// The function's kernel follows connections, and a filter drops packets that belong to no connection, over
/// IPv4 and IPv6.
#[test]
fn a_router_that_filters() {
    let filter = "add chain inet watch filter { type filter hook forward priority 0; };
        add rule inet watch filter ct state invalid drop;";
    for way in [Way::Whole, SLICED] {
        let Some(detour) = kernel(filter).filter(|_| has_version_6()) else { return };
        let Detour { client, function, server, .. } = &detour;
        version_6(&detour);
        let host = detour.run(way, "Null", &[]);
        for address in [SocketAddr::from((SERVER, 7000)), "[fd02::1]:7000".parse().unwrap()] {
            files(&detour, address);
            // Fragments of IPv6 are not tested: only whole datagrams.
            let lengths = LENGTHS.iter().copied().filter(|&length| address.is_ipv4() || length <= 1452);
            let lengths: Vec<usize> = lengths.collect();
            let back = exchange_datagrams(client, server, address, &lengths);
            assert_eq!(back, lengths.len(), "{way:?} {address}");
        }
        let (good, [counts, messages]) = host.stop();
        assert!(good, "{messages}");
        assert_eq!(invalid(function), [0, 0], "{way:?}");
        if way != Way::Whole {
            check_counts(&counts, 4 * LENGTH);
        }
    }
}

/// Gives the machines IPv6 addresses and routes.
fn version_6(detour: &Detour) {
    let Detour { client, function, server, .. } = detour;
    set(function, "ipv6/conf/all/forwarding", "1");
    let interfaces = [
        (client, "eth0", "fd01::1"),
        (function, "nf0", "fd01::fe"),
        (function, "nf1", "fd02::fe"),
        (server, "eth0", "fd02::1"),
    ];
    for (space, interface, address) in interfaces {
        set(space, &format!("ipv6/conf/{interface}/disable_ipv6"), "0");
        space.ip(&format!("addr add {address}/64 dev {interface} nodad")).unwrap();
    }
    client.ip("-6 route add default via fd01::fe").unwrap();
    server.ip("-6 route add default via fd02::fe").unwrap();
}

/// The function's kernel sees each sliced segment of a file as headers and a 16-byte token in place of the
/// payload, with right checksums.
#[test]
fn what_a_kernel_sees() {
    let Some(detour) = kernel(MASQUERADE) else { return };
    let look = "FromDevice(nf0, PROMISC true) -> Classifier(12/0800) -> CheckIPHeader(14)
        -> IPClassifier(tcp and ip dscp 63) -> sliced :: Counter -> CheckTCPHeader(VERBOSE true)
        -> right :: Counter -> Discard";
    let handlers = ["sliced.count", "right.count", "right.byte_count"];
    let options: Vec<&str> = handlers.iter().flat_map(|handler| ["-H", handler]).collect();
    let watcher = run(&detour.function, look, &options);
    let host = detour.run(SLICED, "Null", &[]);
    transfer(&detour.client, &detour.server, (SERVER, 7000).into(), LENGTH as usize, || ()).unwrap();
    let (good, [_, messages]) = host.stop();
    assert!(good, "{messages}");
    let (good, [counts, messages]) = watcher.stop();
    assert!(good && !messages.contains("bad"), "{messages}");
    let [sliced, right, bytes] = handlers.map(|name| value(&counts, name));
    assert_eq!(sliced, right, "{counts}");
    // Each sliced packet has its headers, with TCP time stamps, and a token of 16 bytes. On a busy machine,
    // the capture may miss some packets.
    assert!(right >= LENGTH / MOST / 2 && bytes == right * (14 + 20 + 32 + 16), "{counts}");
}

#[test]
fn iperf3_through_a_translator() {
    if !is_installed("iperf3") {
        return;
    }
    let Some(detour) = kernel(MASQUERADE) else { return };
    let host = detour.run(SLICED, "Null", &[]);
    for direction in [&[][..], &["-R"]] {
        let mut server = detour.server.spawn("iperf3", &["-s", "-1", "--forceflush"]).unwrap();
        server.wait_for("Server listening").unwrap();
        let sends = ["-c", "10.2.0.1", "-n", "20M", "-P", "4", "--connect-timeout", "20000"];
        let output = detour.client.command("iperf3").args(sends).args(direction).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(server.end().0);
    }
    let (good, [counts, messages]) = host.stop();
    assert!(good, "{messages}");
    // iperf3 may end before all packets have been sent.
    check_counts(&counts, LENGTH);
}
