//! Tests of Socket, McastSocket and ChatterSocket, which exchange data with sockets of the standard library:
//! on loopback addresses, and on Unix sockets in a temporary folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use engine::ClockKind;
use testkit::{RunResults, TestRun, worker};

/// A timeout that is longer than any of these tests takes on the slowest machine.
const LONG: Duration = Duration::from_secs(30);

/// Runs a configuration in real time, and in parallel the function `peer`. When `peer` returns, the run is
/// stopped. Returns the outcome, with the counts of the element `c`, and the result of `peer`.
fn beside<T: Send>(folder: &Path, config: &str, peer: impl FnOnce() -> T + Send) -> (RunResults, T) {
    let stop = folder.join("stop");
    let text = format!(
        "{config};\nSocket(UNIX_DGRAM, {}) -> Counter(COUNT_CALL 1 stop) -> Discard;\nScript(wait 60s, stop);",
        stop.display()
    );
    thread::scope(|scope| {
        let peer = scope.spawn(move || {
            let value = peer();
            let sender = UnixDatagram::unbound().unwrap();
            eventually(|| sender.send_to(b"stop", &stop).ok());
            value
        });
        let run = TestRun { clock: ClockKind::Real, ..TestRun::default() };
        let outcome = run.text(&text, &["c.count", "c.byte_count"]).unwrap();
        assert!(outcome.report.balances(), "{:?}", outcome.report);
        (outcome, peer.join().unwrap())
    })
}

fn eventually<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let found = (0..3000).find_map(|_| {
        let found = what();
        if found.is_none() {
            thread::sleep(Duration::from_millis(10));
        }
        found
    });
    found.expect("it comes about within 30 seconds")
}

/// Returns a loopback address that is made from this process's number, so that other programs are not
/// expected to use it, and a port that no other test of this process gets. The port is thus free until the
/// test binds it.
fn own_address() -> SocketAddrV4 {
    static NEXT: AtomicU16 = AtomicU16::new(7000);
    let [_, b, c, d] = std::process::id().to_be_bytes();
    SocketAddrV4::new(Ipv4Addr::new(127, 64 + b % 128, c, d), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

/// Sends bytes by `writer`, and reads and returns as many bytes from `stream`.
fn echo(mut stream: impl Read + Write + Send, mut writer: impl Write + Send, bytes: &[u8]) -> Vec<u8> {
    thread::scope(|scope| {
        scope.spawn(move || writer.write_all(bytes).unwrap());
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).unwrap();
        back
    })
}

#[test]
fn a_unix_server_serves_one_client_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo");
    let config = format!("s :: Socket(UNIX, {}) -> c :: Counter -> Queue(10000) -> s", path.display());
    let bytes = pattern(300_000);
    let (outcome, ()) = beside(folder.path(), &config, || {
        let first = eventually(|| UnixStream::connect(&path).ok());
        first.set_read_timeout(Some(LONG)).unwrap();
        // The server accepts the second client when the first has disconnected.
        let second = UnixStream::connect(&path).unwrap();
        second.set_read_timeout(Some(LONG)).unwrap();
        for stream in [first, second] {
            assert!(echo(&stream, &stream, &bytes) == bytes);
        }
    });
    assert_eq!(outcome.values[1], Ok("600000".into()));
    assert!(!path.exists());
    assert!(!outcome.report.totals.drops.contains_key("write error"), "{:?}", outcome.report.totals);
}

#[test]
fn a_server_replaces_a_socket_without_an_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server");
    let run = TestRun { clock: ClockKind::Real, ..TestRun::default() };
    for kind in ["UNIX", "UNIX_DGRAM"] {
        let text = format!("Socket({kind}, {}) -> Discard; Script(stop)", path.display());
        // A listener of the standard library does not remove its file.
        drop(UnixListener::bind(&path).unwrap());
        run.text(&text, &[]).unwrap();
        assert!(!path.exists());
        let owner = UnixListener::bind(&path).unwrap();
        let error = run.text(&text, &[]).unwrap_err();
        let expected =
            format!("bind: Address already in use: another process or element listens on {}", path.display());
        assert!(error.contains(&expected), "{error}");
        assert!(path.exists());
        drop(owner);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_tcp_server_cuts_the_stream_at_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let address = own_address();
    let config = format!(
        "s :: Socket(TCP, {}, {}, SNAPLEN 100, VERBOSE true) -> CheckLength(100) -> c :: Counter -> s",
        address.ip(),
        address.port()
    );
    let bytes = pattern(50_000);
    let (outcome, back) = beside(folder.path(), &config, || {
        let stream = eventually(|| TcpStream::connect(address).ok());
        stream.set_read_timeout(Some(LONG)).unwrap();
        echo(&stream, &stream, &bytes)
    });
    assert!(back == bytes);
    assert_eq!(outcome.values[1], Ok("50000".into()));
    let says = |what: &str| assert!(outcome.messages.contains(what), "{}", outcome.messages);
    says(&format!("s :: Socket: listening for connections on {address} ("));
    says("s :: Socket: opened connection ");
    says(" from 127.0.0.1:");
}

/// Sends more bytes than the system's buffers hold to a peer that reads slowly, so that packets are sent in
/// parts. Expects that all bytes arrive in order.
#[test]
fn a_client_sends_everything_to_a_slow_reader() {
    const PACKETS: usize = 20_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for path in ["", "Queue(100000) ->"] {
        let listener = listener.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            thread::sleep(Duration::from_millis(200));
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let config = format!(
            "InfiniteSource(LENGTH 1000, LIMIT {PACKETS}) -> NumberPacket(0, NET_ORDER true) -> {path}
             Socket(TCP, 127.0.0.1, {port})"
        );
        let run = TestRun { clock: ClockKind::Real, ..TestRun::default() };
        let outcome = run.text(&config, &[]).unwrap();
        assert_eq!((outcome.report.totals.out, outcome.report.totals.dropped), (PACKETS as u64, 0));
        let bytes = reader.join().unwrap();
        assert_eq!(bytes.len(), PACKETS * 1000);
        for (number, packet) in bytes.chunks(1000).enumerate() {
            assert_eq!(packet[..8], (number as u64).to_be_bytes());
        }
    }
}

#[test]
fn a_peer_that_goes_away_costs_packets_but_no_balance() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
    });
    let config = format!(
        "InfiniteSource(LENGTH 1000, LIMIT 30000) -> s :: Socket(TCP, 127.0.0.1, {port}, VERBOSE true)"
    );
    let outcome = TestRun { clock: ClockKind::Real, ..TestRun::default() }.text(&config, &[]).unwrap();
    reader.join().unwrap();
    let totals = &outcome.report.totals;
    assert!(outcome.report.balances() && totals.out + totals.dropped == 30_000, "{totals:?}");
    assert!(
        totals.drops.contains_key("write error") && totals.drops.contains_key("not connected"),
        "{totals:?}"
    );
    assert!(outcome.messages.contains("s :: Socket: closed connection "), "{}", outcome.messages);
}

#[test]
fn a_udp_server_answers_whoever_came_last() {
    let folder = tempfile::tempdir().unwrap();
    let ([address, unknown], capture) = ([(); 2].map(|()| own_address()), folder.path().join("out.pcap"));
    // No client sends to the second server. It has no peer to send to, and drops its packets.
    let config = format!(
        "s :: Socket(UDP, {}, {}, SNAPLEN 60) -> c :: Counter -> t :: Tee -> s;
         t [1] -> ToDump({}, ENCAP IP);
         InfiniteSource(LIMIT 5) -> Socket(UDP, {}, {}) -> Discard",
        address.ip(),
        address.port(),
        capture.display(),
        unknown.ip(),
        unknown.port()
    );
    let (outcome, ()) = beside(folder.path(), &config, || {
        let peers = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut buffer = [0; 200];
        for (round, peer) in [0, 1, 0, 1].into_iter().enumerate() {
            let peer = &peers[peer];
            peer.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let sent = pattern(50 + 10 * round);
            let answer = &sent[..sent.len().min(60)];
            // The server ignores the empty datagram. Datagrams that are sent before the server has started
            // are lost, so each attempt sends again. An answer may arrive after the timeout, while the next
            // answer is awaited.
            eventually(|| {
                peer.send_to(&[], address).unwrap();
                peer.send_to(&sent, address).unwrap();
                while let Ok((n, from)) = peer.recv_from(&mut buffer) {
                    assert_eq!(from, address.into());
                    if buffer[..n] == *answer {
                        return Some(());
                    }
                }
                None
            });
        }
    });
    assert_eq!(outcome.report.totals.drops.get("not connected"), Some(&5));
    let mut reader = capture::Reader::open(&capture).unwrap();
    let mut lengths = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        lengths.push((record.data.len(), record.wire_len));
    }
    lengths.dedup();
    assert_eq!(lengths, [(50, 50), (60, 60), (60, 70), (60, 80)]);
}

#[test]
fn a_udp_client_sends_where_each_packet_wants_to_go() {
    let receiver = UdpSocket::bind("127.0.0.2:0").unwrap();
    receiver.set_read_timeout(Some(LONG)).unwrap();
    let (port, own) = (receiver.local_addr().unwrap().port(), own_address());
    let config = format!(
        "InfiniteSource(DATA hello, LIMIT 2) -> SetIPAddress(127.0.0.2)
         -> Socket(UDP, 0.0.0.0, {port}, {}, {})",
        own.ip(),
        own.port()
    );
    let outcome = TestRun::default().text(&config, &[]).unwrap();
    assert_eq!(outcome.report.totals.out, 2);
    let mut buffer = [0; 100];
    for _ in 0..2 {
        let (n, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..n], from), (&b"hello"[..], own.into()));
    }
}

#[test]
fn datagrams_go_to_and_fro_on_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let [server, client] = ["server", "client"].map(|name| folder.path().join(name).display().to_string());
    let config = format!(
        "server :: Socket(UNIX_DGRAM, {server}) -> Queue(2000) -> server;
         InfiniteSource(LENGTH 100, LIMIT 1000) -> NumberPacket(0)
         -> client :: Socket(UNIX_DGRAM, {server}, {client})
         -> check :: CheckNumberPacket(0, COUNT 1000) -> c :: Counter(COUNT_CALL 1000 stop) -> Discard;
         Script(wait 60s, stop)"
    );
    let run = TestRun { clock: ClockKind::Real, ..TestRun::default() };
    let outcome = run.text(&config, &["c.count"]).unwrap();
    assert_eq!(outcome.values[0], Ok("1000".into()), "{:?}", outcome.report);
    assert!(!Path::new(&server).exists() && !Path::new(&client).exists());
}

#[test]
fn mistakes_are_reported() {
    let nobody = own_address();
    let cases = [
        (format!("Idle -> Socket(TCP, {}, {})", nobody.ip(), nobody.port()), "connect: Connection refused"),
        ("Socket(UNIX, /nowhere/at/all) -> Discard".into(), "bind: No such file or directory"),
        ("Socket(UNIX, /tmp/none, CLIENT true) -> Discard".into(), "connect: No such file or directory"),
        ("Socket(SCTP, 1.2.3.4, 5) -> Discard".into(), "unknown socket type `SCTP'"),
        ("Socket(tcp, 1.2.3.4) -> Discard".into(), "PORT: required argument missing"),
        ("Socket(tcp, 1.2.3.4, 65536) -> Discard".into(), "PORT: 65536 is too large; the most is 65535"),
        ("Socket(udp, 1.2.3.4, nonesuch) -> Discard".into(), "PORT: 'nonesuch' is not a port"),
        ("Socket(udp, 1.2.3.4, ssh, ALLOW t) -> Discard".into(), "ALLOW: route tables are not supported yet"),
        (format!("Socket(UNIX, /tmp/{}) -> Discard", "x".repeat(103)), "' too long"),
        ("Socket(UNIX, a, b, c) -> Discard".into(), "too many arguments"),
        ("McastSocket(127.0.0.1, 1) -> Discard".into(), "setsockopt(IP_ADD_MEMBERSHIP): Invalid argument"),
        ("McastSocket(239.0.0.1, 1, 203.0.113.1) -> Discard".into(), "bind: Cannot assign requested address"),
    ];
    for (text, error) in cases {
        let result = worker(&text, TestRun::default()).map(|_| ());
        assert!(result.as_ref().is_err_and(|text| text.contains(error)), "{text}: {result:?}");
    }
}

#[test]
fn a_group_hears_others_but_not_itself() {
    let folder = tempfile::tempdir().unwrap();
    let own = own_address();
    let [_, b, c, d] = own.ip().octets();
    let address = SocketAddrV4::new([239, b, c, d].into(), own.port());
    let hears = UdpSocket::bind("127.0.0.1:0").unwrap();
    hears.set_read_timeout(Some(LONG)).unwrap();
    let config = format!(
        "a :: McastSocket({group}, {port}, 127.0.0.1) -> c :: Counter -> Discard;
         b :: McastSocket({group}, {port}, 127.0.0.1) -> Print(b, TIMESTAMP false) -> Socket(UDP, 127.0.0.1, {});
         TimedSource(0.01, hello) -> a",
        hears.local_addr().unwrap().port(),
        group = address.ip(),
        port = address.port()
    );
    let (outcome, heard) = beside(folder.path(), &config, || {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let group = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        group.set_reuse_address(true).unwrap();
        group.bind(&address.into()).unwrap();
        group.join_multicast_v4(address.ip(), &[127, 0, 0, 1].into()).unwrap();
        let group = UdpSocket::from(group);
        group.set_read_timeout(Some(LONG)).unwrap();
        let mut buffer = [0; 100];
        let n = group.recv(&mut buffer).unwrap();
        socket2::SockRef::from(&sender).set_multicast_if_v4(&[127, 0, 0, 1].into()).unwrap();
        sender.send_to(b"other", address).unwrap();
        let heard = buffer[..n].to_vec();
        // Waits until the element `b` has forwarded the packet `other`. Then `a`, which is in the same group,
        // has received it as well, and the run can be stopped.
        while hears.recv(&mut buffer).unwrap() != 5 || buffer[..5] != *b"other" {}
        heard
    });
    assert_eq!(heard, b"hello");
    assert_eq!(outcome.values[0], Ok("1".into()), "one packet of another, none of its own");
    assert!(outcome.messages.contains("b:    5 | 68656c6c 6f"), "{}", outcome.messages);
}

/// Connects to a chatter socket, and reads its first line.
fn listen_to(path: &Path) -> BufReader<UnixStream> {
    let stream = eventually(|| UnixStream::connect(path).ok());
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(line_of(&mut reader), "Click::ChatterSocket/1.0\r\n");
    reader
}

fn line_of(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

#[test]
fn listeners_hear_the_messages_of_their_channel() {
    let folder = tempfile::tempdir().unwrap();
    let [chatter, other, packets] = ["chatter", "other", "packets"].map(|name| folder.path().join(name));
    let config = format!(
        "ChatterSocket(UNIX, {}); ChatterSocket(unix, FILENAME {}, CHANNEL other, GREETING false);
         Socket(UNIX_DGRAM, {}) -> Print(got) -> CheckIPHeader(VERBOSE true) -> IPPrint(ip, CHANNEL other)
            -> c :: Counter -> Discard",
        chatter.display(),
        other.display(),
        packets.display()
    );
    let header: [u8; 20] = [69, 0, 0, 20, 0, 0, 0, 0, 9, 99, 174, 133, 1, 0, 0, 1, 2, 0, 0, 2];
    let (outcome, ()) = beside(folder.path(), &config, || {
        let mut early = listen_to(&chatter);
        let mut quiet = BufReader::new(eventually(|| UnixStream::connect(&other).ok()));
        quiet.get_ref().set_read_timeout(Some(LONG)).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.send_to(&header, &packets).unwrap();
        assert!(line_of(&mut early).starts_with("got:   20 | 45000014 00000000"));
        // A later listener hears only what comes later; what listeners say does not matter.
        let mut late = listen_to(&chatter);
        late.get_ref().write_all(b"hello\n").unwrap();
        sender.send_to(b"bad", &packets).unwrap();
        for reader in [&mut early, &mut late] {
            assert_eq!(line_of(reader), "got:    3 | 626164\n");
            assert!(line_of(reader).ends_with("tiny packet\n"));
        }
        drop(late);
        sender.send_to(&header, &packets).unwrap();
        assert!(line_of(&mut early).starts_with("got:   20"));
        // The channel has only the packets that were printed to it.
        for _ in 0..2 {
            assert!(line_of(&mut quiet).starts_with("ip: "));
        }
    });
    assert!(
        outcome.messages.contains("got:   20") && !outcome.messages.contains("ip: "),
        "{}",
        outcome.messages
    );
    assert!(!chatter.exists() && !other.exists());
}

/// Packets print more text than is kept for listeners, while one of them does not read. The others hear all
/// of it, and the slow listener is disconnected.
#[test]
fn a_slow_listener_is_disconnected_and_delays_nothing() {
    const PACKETS: usize = 1500;
    let folder = tempfile::tempdir().unwrap();
    let [chatter, packets] = ["chatter", "packets"].map(|name| folder.path().join(name));
    let config = format!(
        "ChatterSocket(UNIX, {}); Socket(UNIX_DGRAM, {}) -> Print(got, MAXLENGTH 2000) -> c :: Counter -> Discard",
        chatter.display(),
        packets.display()
    );
    let (outcome, heard) = beside(folder.path(), &config, || {
        let mut slow = listen_to(&chatter);
        let mut quick = listen_to(&chatter);
        let sender = UnixDatagram::unbound().unwrap();
        let mut heard = 0;
        for _ in 0..PACKETS {
            sender.send_to(&[7; 1000], &packets).unwrap();
            heard += usize::from(line_of(&mut quick).starts_with("got: 1000 |"));
        }
        // The end comes before the run ends, which waits for this function.
        let mut rest = Vec::new();
        slow.read_to_end(&mut rest).unwrap();
        assert!(rest.len() < PACKETS * 2000, "{}", rest.len());
        heard
    });
    assert_eq!((heard, &outcome.values[0]), (PACKETS, &Ok(PACKETS.to_string())));
}
