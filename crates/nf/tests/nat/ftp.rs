//! Tests of FTP in active mode through a translator: FTPPortMapper rewrites the commands of the control
//! connection, and TCPRewriter adapts sequence numbers.

use proptest::prelude::*;

use super::*;

const CONFIG: &str = "in -> side :: IPClassifier(dst host 192.0.2.1, -);
    side[1] -> map :: FTPPortMapper(rw, rw, 0) -> [0] rw :: TCPRewriter(pattern 192.0.2.1 40000-50000# - - 0 1, drop);
    side[0] -> [1] rw;";

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [2, 0, 0, 2];

fn numbered(from: SocketAddr, to: SocketAddr, flags: u8, (seq, ack): (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut packet = tcp(from, to, flags, payload);
    packet[24..28].copy_from_slice(&seq.to_be_bytes());
    packet[28..32].copy_from_slice(&ack.to_be_bytes());
    refill(&mut packet);
    packet
}

/// Makes an acknowledgement with a selective acknowledgement (SACK) of one block.
fn selective(from: SocketAddr, to: SocketAddr, seq: u32, ack: u32, (left, right): (u32, u32)) -> Vec<u8> {
    let mut packet = numbered(from, to, ACK, (seq, ack), b"");
    packet.extend([1, 1, 5, 10]);
    packet.extend(left.to_be_bytes());
    packet.extend(right.to_be_bytes());
    packet[32] = 8 << 4;
    packet[3] += 12;
    refill(&mut packet);
    packet
}

fn numbers(packet: &[u8]) -> (u32, u32) {
    let at = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
    (at(24), at(28))
}

fn client() -> SocketAddr {
    end(CLIENT, 6587)
}

fn server() -> SocketAddr {
    end(SERVER, 21)
}

#[test]
fn a_command_gets_the_address_of_its_data_connection() {
    for (line, expected) in [
        ("PORT 10,0,0,1,3,9\r\n", "PORT 192,0,2,1,156,65\r\n"),
        ("port   10,0,0,1,3,9\n", "port   192,0,2,1,156,65\n"),
        ("EPRT |1|10.0.0.1|777|\r\n", "EPRT |1|192.0.2.1|40001|\r\n"),
    ] {
        let packets = [
            (0, numbered(client(), server(), SYN, (99, 0), b"")),
            (1, numbered(client(), server(), ACK, (100, 7), line.as_bytes())),
            (2, numbered(client(), server(), ACK, (100 + line.len() as u32, 7), b"LIST\r\n")),
            // The server opens the data connection to the announced port, and the client answers.
            (3, numbered(end(SERVER, 20), end(OUTER, 40001), SYN, (1, 0), b"")),
            (4, numbered(end(CLIENT, 777), end(SERVER, 20), SYN | ACK, (5, 2), b"")),
        ];
        let (outcome, seen) = run(CONFIG, 2, &packets, &["map.commands", "rw.table"]);
        assert_eq!(value(&outcome, 0), "1");
        let bytes = |n: usize| &seen[n].bytes[..];
        assert!(seen.iter().all(|seen| is_sound(&seen.bytes)));
        assert_eq!(std::str::from_utf8(&bytes(1)[40..]).unwrap(), expected);
        let longer = expected.len() as u32 - line.len() as u32;
        assert_eq!((numbers(bytes(1)).0, numbers(bytes(2)).0), (100, 100 + expected.len() as u32));
        assert_eq!(ends(bytes(3)), (end(SERVER, 20), end(CLIENT, 777)));
        assert_eq!(ends(bytes(4)), (end(OUTER, 40001), end(SERVER, 20)));
        assert!(value(&outcome, 1).contains(&format!(" seq +{longer} [*0 1]")), "{}", value(&outcome, 1));
    }
}

#[test]
fn what_is_no_whole_command_of_the_client_passes_as_it_is() {
    for line in [
        "PORT 10,0,0,1,3",
        "PORT 10,0,0,1,3,9",
        "PORT 10,0,0,1,3,256\r\n",
        "PORT 10,0,0,1,3,9,1\r\n",
        "PORT 10,0,0,1,+3,9\r\n",
        "PORT 10,0,0,7,3,9\r\n",
        "PORT\r\n",
        "EPRT |2|::1|777|\r\n",
        "EPRT |1|10.0.0.1|777\r\n",
        "EPRT |\r\n",
        // RFC 2428 permits only printable ASCII characters as delimiters.
        "EPRT \u{e9}1\u{e9}10.0.0.1\u{e9}777\u{e9}\r\n",
        "EPRT \t1\t10.0.0.1\t777\t\r\n",
        "EPRT \r\n",
        "NOOP\r\nPORT 10,0,0,1,3,9\r\n",
        "\u{00e4}\r\n",
    ] {
        let packets = [
            (0, numbered(client(), server(), SYN, (99, 0), b"")),
            (1, numbered(client(), server(), ACK, (100, 7), line.as_bytes())),
        ];
        let (outcome, seen) = run(CONFIG, 2, &packets, &["map.commands", "rw.size"]);
        assert_eq!((value(&outcome, 0), value(&outcome, 1)), ("0", "1"), "{line:?}");
        assert_eq!(&seen[1].bytes[40..], line.as_bytes());
    }
}

#[test]
fn a_connection_on_the_same_ports_starts_with_its_own_numbers() {
    let line = b"PORT 10,0,0,1,3,9\r\n";
    let packets = [
        (0, numbered(client(), server(), SYN, (99, 0), b"")),
        (1, numbered(client(), server(), ACK, (100, 7), line)),
        (2, numbered(client(), server(), SYN, (5000, 0), b"")),
        (3, numbered(server(), end(OUTER, 40000), SYN | ACK, (6, 5001), b"")),
        (4, numbered(client(), server(), ACK, (5001, 7), b"NOOP\r\n")),
        (5, numbered(server(), end(OUTER, 40000), ACK, (7, 5007), b"")),
    ];
    let (outcome, seen) = run(CONFIG, 2, &packets, &["rw.table"]);
    let all = [2, 3, 4, 5].map(|n| numbers(&seen[n].bytes));
    assert_eq!(all, [(5000, 0), (6, 5001), (5001, 7), (7, 5007)]);
    assert!(!value(&outcome, 0).contains("seq"));
}

/// Anyone can forge a SYN, so a SYN alone must not end an existing connection (RFC 5961, section 4). After a
/// forged SYN, the sequence numbers of the connection must still be shifted.
#[test]
fn a_syn_that_begins_nothing_leaves_numbers_moved() {
    let line = b"PORT 10,0,0,1,3,9\r\n";
    let (length, longer) = (line.len() as u32, "192,0,2,1,156,65".len() as u32 - "10,0,0,1,3,9".len() as u32);
    let outer = || end(OUTER, 40000);
    for (forged, answer) in [
        // The connection's own SYN, and SYN with ACK, arrive a second time.
        (numbered(client(), server(), SYN, (99, 0), b""), None),
        (numbered(server(), outer(), SYN | ACK, (6, 100), b""), None),
        // An attacker forges a SYN, or a SYN with ACK, with sequence numbers of its choice, as if from the
        // client or from the server.
        (numbered(client(), server(), SYN, (77_777, 0), b""), Some((7, 100 + length + longer))),
        (numbered(server(), outer(), SYN, (77_777, 0), b""), None),
        (numbered(server(), outer(), SYN | ACK, (77_777, 88_888), b""), None),
    ] {
        let mut packets = vec![
            (0, numbered(client(), server(), SYN, (99, 0), b"")),
            (1, numbered(client(), server(), ACK, (100, 7), line)),
            (2, forged),
        ];
        // An endpoint with an existing connection answers a SYN with an acknowledgment that has its current
        // sequence numbers; then the connection goes on.
        packets.extend(answer.map(|numbers| (3, numbered(server(), outer(), ACK, numbers, b""))));
        packets.push((4, numbered(client(), server(), ACK, (100 + length, 7), b"LIST\r\n")));
        packets.push((5, numbered(server(), outer(), ACK, (7, 106 + length + longer), b"")));
        let (_, seen) = run(CONFIG, 2, &packets, &[]);
        assert!(seen.iter().all(|seen| is_sound(&seen.bytes)));
        let last: Vec<_> = seen[3..].iter().map(|seen| numbers(&seen.bytes)).collect();
        let expected = [(100 + length + longer, 7), (7, 106 + length)];
        assert_eq!(&last[last.len() - 2..], expected, "{:?}", packets[2]);
        if answer.is_some() {
            assert_eq!(last[0], (7, 100 + length));
        }
    }
}

#[test]
fn a_port_that_is_announced_again_gets_a_mapping_that_holds() {
    let config = CONFIG.replace("0 1, drop", "0 1, drop, TCP_NODATA_TIMEOUT 5, TCP_DONE_TIMEOUT 2");
    let line = b"PORT 10,0,0,1,3,9\r\n";
    let port =
        |n: u32, at: i64| (at, numbered(client(), server(), ACK, (100 + n * line.len() as u32, 7), line));
    let opens = |at: i64, to: u16| (at, numbered(end(SERVER, 20), end(OUTER, to), SYN, (1, 0), b""));
    let open = (0, numbered(client(), server(), SYN, (99, 0), b""));
    let goes_on = |at: i64| (at, numbered(client(), server(), ACK, (100 + line.len() as u32, 7), b""));
    // The mapping that the first command made for the announced port has expired when the command comes
    // again. So the second command must make a new mapping.
    let packets =
        [open.clone(), port(0, 1), goes_on(4_000), goes_on(8_000), port(1, 9_000), opens(10_500, 40002)];
    let (_, seen) = run(&config, 2, &packets, &[]);
    assert_eq!(ends(&seen.last().unwrap().bytes).1, end(CLIENT, 777), "{seen:?}");
    // The command comes again before its mapping expires. It must restart the time-out of the mapping, which
    // then expires later.
    let packets = [open.clone(), port(0, 4_000), port(1, 8_500), opens(12_000, 40001), opens(18_000, 40001)];
    let (_, seen) = run(&config, 2, &packets, &[]);
    assert_eq!(seen.len(), 4, "the last one comes too late");
    assert_eq!(ends(&seen[3].bytes).1, end(CLIENT, 777));
    // The first mapping was used for a data transfer that is over (both sides have sent FIN). The second
    // command must make a new mapping, with the time-out of a new mapping.
    let closes = [
        opens(100, 40001),
        (101, numbered(end(SERVER, 20), end(OUTER, 40001), FIN | ACK, (2, 2), b"")),
        (102, numbered(end(CLIENT, 777), end(SERVER, 20), FIN | ACK, (2, 3), b"")),
    ];
    let last = [goes_on(4_000), port(1, 7_900), opens(10_500, 40002)];
    let packets = [&[open, port(0, 1)][..], &closes, &last].concat();
    let (_, seen) = run(&config, 2, &packets, &[]);
    assert_eq!(ends(&seen.last().unwrap().bytes).1, end(CLIENT, 777), "{seen:?}");
}

#[test]
fn mappers_say_what_is_wrong() {
    for (arguments, error) in [
        ("rw, rw, 2", "DATA_REWRITER_INPUT out of range"),
        ("udp, rw, 0", "CONTROL_REWRITER: type mismatch, expected TCPRewriter"),
        ("rw, in, 0", "DATA_REWRITER: type mismatch, expected IPRewriterBase"),
    ] {
        let config = CONFIG.replace("(rw, rw, 0)", &format!("({arguments})"));
        let text = format!(
            "in :: Idle; {config} rw [0] -> Discard; rw [1] -> Discard;
             Idle -> udp :: UDPRewriter(drop) -> Discard"
        );
        let message = TestRun::trace().text(&text, &[]).err().unwrap().to_string();
        assert!(message.contains(error), "{message}");
    }
}

/// Generates a random line that the client sends, and the command in it as text: PORT or EPRT with any port;
/// an empty text if the line is no such command.
fn line() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        (1u16..=65_535).prop_map(|port| {
            let numbers =
                |address: &str, port: u16| format!("PORT {address},{},{}\r\n", port >> 8, port & 255);
            (numbers("10,0,0,1", port), format!("PORT {port}"))
        }),
        (1u16..=65_535).prop_map(|port| (format!("EPRT |1|10.0.0.1|{port}|\r\n"), format!("EPRT {port}"))),
        "[A-Z]{4} [a-z]{0,20}".prop_map(|text| (format!("{text}\r\n"), String::new())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn both_sides_see_one_stream_each(
        lines in proptest::collection::vec(line(), 1..12),
        first in prop_oneof![any::<u32>(), Just(u32::MAX - 30)],
        again in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
    ) {
        // The client sends line by line, and then repeats random parts of the stream.
        let sent: Vec<u8> = lines.iter().flat_map(|(line, _)| line.bytes()).collect();
        let start = first.wrapping_add(1);
        let segment = |from: usize, to: usize| {
            numbered(client(), server(), ACK, (start.wrapping_add(from as u32), 7), &sent[from..to])
        };
        let mut packets = vec![(0, numbered(client(), server(), SYN, (first, 0), b""))];
        let mut cuts = vec![0];
        for (line, _) in &lines {
            let from = *cuts.last().unwrap();
            packets.push((packets.len() as i64, segment(from, from + line.len())));
            cuts.push(from + line.len());
        }
        for (a, b) in &again {
            let (a, b) = (a.index(sent.len() + 1), b.index(sent.len() + 1));
            if a != b {
                packets.push((packets.len() as i64, segment(a.min(b), a.max(b))));
            }
        }
        let (_, seen) = run(CONFIG, 2, &packets, &[]);
        prop_assert_eq!(seen.len(), packets.len());
        // Collects the bytes that the server receives at their sequence numbers. Bytes that arrive again must
        // be equal to the first ones, and no byte may be missing.
        let mut got: Vec<Option<u8>> = Vec::new();
        let mut ends_there = vec![0];
        for (n, seen) in seen.iter().enumerate().skip(1) {
            let bytes = &seen.bytes;
            prop_assert!(is_sound(bytes));
            let at = numbers(bytes).0.wrapping_sub(start) as usize;
            let payload = &bytes[40..];
            got.resize(got.len().max(at + payload.len()), None);
            for (place, &byte) in got[at..].iter_mut().zip(payload) {
                prop_assert!(place.is_none_or(|old| old == byte), "two streams: {:?}", n);
                *place = Some(byte);
            }
            if n <= lines.len() {
                prop_assert_eq!(at, *ends_there.last().unwrap());
                ends_there.push(at + payload.len());
            }
        }
        let text = String::from_utf8(got.into_iter().map(|byte| byte.unwrap()).collect()).unwrap();
        for (got, (line, command)) in text.split_inclusive("\r\n").zip(&lines) {
            if command.is_empty() {
                prop_assert_eq!(got, line);
            } else {
                let ours = got.starts_with("PORT 192,0,2,1,") || got.starts_with("EPRT |1|192.0.2.1|");
                prop_assert!(ours, "{}", got);
            }
        }
        prop_assert_eq!(text.split_inclusive("\r\n").count(), lines.len());
        // The server acknowledges the start of each line, and selectively (SACK) the line itself. The client
        // must receive acknowledgments in its own sequence numbers.
        let mut all = packets.clone();
        for pair in ends_there.windows(2) {
            let number = |at: usize| start.wrapping_add(at as u32);
            let outer = ends(&seen[0].bytes).0;
            all.push((1000, selective(server(), outer, 7, number(pair[0]), (number(pair[0]), number(pair[1])))));
        }
        let (_, seen) = run(CONFIG, 2, &all, &[]);
        for (n, pair) in cuts.windows(2).enumerate() {
            let bytes = &seen[packets.len() + n].bytes;
            let (left, right) = (start.wrapping_add(pair[0] as u32), start.wrapping_add(pair[1] as u32));
            prop_assert!(is_sound(bytes));
            prop_assert_eq!(numbers(bytes), (7, left));
            prop_assert_eq!(&bytes[44..52], [left.to_be_bytes(), right.to_be_bytes()].concat());
        }
    }
}
