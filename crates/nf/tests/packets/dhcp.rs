//! Tests of DHCPRelay: what servers and clients get, messages that are refused, and messages of any bytes.

use std::net::SocketAddr;

use element::Timestamp;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun};
use wire::build::Builder;
use wire::dhcp::{self, AGENT, END, Header, REPLY, REQUEST};
use wire::{FromBytes, IntoBytes};

const RELAY: [u8; 4] = [10, 0, 0, 1];
/// The option of the agent that the relay of [`relay`] adds.
const OWN: [u8; 10] = [AGENT, 8, 1, 3, b'l', b'a', b'n', 2, 1, b'x'];

/// Runs packets, each with its input, through a relay with two servers. Returns the packets that leave, with
/// the output as the sink, and the handlers `requests`, `replies` and `refused`.
fn relay(packets: [Vec<Vec<u8>>; 2]) -> (Vec<Seen>, [String; 3]) {
    let time = Timestamp::from_secs(1);
    let packet = |bytes| TestPacket { bytes, time, annotations: [0; 48], headers: [None; 3] };
    let number = offer(packets.map(|packets| packets.into_iter().map(packet).collect()).to_vec());
    let text = format!(
        "TestSource({number}, 0) -> MarkIPHeader -> [0] r :: DHCPRelay(10.0.0.1, 10.1.0.1, 10.1.0.2, CIRCUIT_ID lan,
            REMOTE_ID x, MAX_HOPS 4);
        TestSource({number}, 1) -> MarkIPHeader -> [1] r;
        r[0] -> TestSink({number}, 0); r[1] -> TestSink({number}, 1); r[2] -> TestSink({number}, 2)"
    );
    let outcome = TestRun::default().text(&text, &["r.requests", "r.replies", "r.refused"]);
    let RunResults { report, values, .. } = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.balances(), "{report:?}");
    (collect(number), [0, 1, 2].map(|n| values[n].clone().unwrap()))
}

/// A message with these options.
fn message(op: u8, gateway: [u8; 4], hops: u8, options: &[u8]) -> Vec<u8> {
    let mut header = Header::read_from_bytes(&[0; Header::LEN]).unwrap();
    (header.op, header.hardware, header.hardware_length, header.hops) = (op, 1, 6, hops);
    header.gateway.set(u32::from_be_bytes(gateway));
    header.hardware_address[..6].copy_from_slice(&[2, 0, 0, 0, 0, 5]);
    header.cookie = dhcp::COOKIE;
    [header.as_bytes(), options].concat()
}

fn datagram(from: ([u8; 4], u16), to: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
    Builder::udp(SocketAddr::from(from), SocketAddr::from(to)).build(payload).unwrap()
}

fn from_client(message: &[u8]) -> Vec<u8> {
    datagram(([0; 4], 68), ([255; 4], 67), message)
}

fn from_server(message: &[u8]) -> Vec<u8> {
    datagram(([10, 1, 0, 1], 67), (RELAY, 67), message)
}

/// Returns source, destination, ports and payload of a packet, whose checksums must be right.
fn read(packet: &[u8]) -> (SocketAddr, SocketAddr, Vec<u8>) {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let Some(NetSlice::Ipv4(ip)) = sliced.net else { panic!("{packet:?}") };
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("{packet:?}") };
    let header = ip.header();
    assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum());
    let sum = udp.to_header().calc_checksum_ipv4(&header.to_header(), udp.payload()).unwrap();
    assert_eq!(sum, udp.checksum());
    let end = |address, port| SocketAddr::from((address, port));
    let ends = (end(header.source(), udp.source_port()), end(header.destination(), udp.destination_port()));
    (ends.0, ends.1, udp.payload().to_vec())
}

#[test]
fn a_request_goes_to_each_server() {
    let options = [53, 1, 1, 0, 61, 2, 7, 7, END, 0, 0];
    let (seen, counts) = relay([vec![from_client(&message(REQUEST, [0; 4], 0, &options))], vec![]]);
    assert_eq!(counts, ["1", "0", "0"].map(String::from));
    assert_eq!(seen.len(), 2);
    for (seen, server) in seen.iter().zip([[10, 1, 0, 1], [10, 1, 0, 2]]) {
        assert_eq!(seen.sink, 0);
        let (source, destination, payload) = read(&seen.bytes);
        assert_eq!((source, destination), ((RELAY, 67).into(), (server, 67).into()));
        let expected = message(REQUEST, RELAY, 1, &[&options[..8], &OWN, &[END]].concat());
        // A short message is filled up.
        assert_eq!(payload.len(), 300);
        assert_eq!(payload[..expected.len()], expected);
        assert!(payload[expected.len()..].iter().all(|&byte| byte == 0));
        assert_eq!(seen.annotations[..4], server);
    }
}

#[test]
fn a_request_of_another_relay_keeps_its_gateway() {
    let options = [53, 1, 1, AGENT, 2, 1, 0, END];
    let request = message(REQUEST, [10, 9, 0, 1], 4, &options);
    let to_relay = datagram(([10, 9, 0, 1], 67), (RELAY, 67), &request);
    let (seen, counts) = relay([vec![to_relay], vec![]]);
    assert_eq!(counts, ["1", "0", "0"].map(String::from));
    let (_, _, payload) = read(&seen[0].bytes);
    assert_eq!(payload, message(REQUEST, [10, 9, 0, 1], 5, &options));
}

#[test]
fn a_reply_is_broadcast_without_the_option_of_the_agent() {
    let options = [&[53, 1, 2], &OWN[..], &[51, 4, 0, 0, 1, 0], &OWN, &[END, 0]].concat();
    let (seen, counts) = relay([vec![], vec![from_server(&message(REPLY, RELAY, 1, &options))]]);
    assert_eq!(counts, ["0", "1", "0"].map(String::from));
    assert_eq!((seen.len(), seen[0].sink), (1, 1));
    let (source, destination, payload) = read(&seen[0].bytes);
    assert_eq!((source, destination), ((RELAY, 67).into(), ([255; 4], 68).into()));
    let zeros = vec![0; 2 * OWN.len() + 1];
    let expected = [&[53, 1, 2, 51, 4, 0, 0, 1, 0, END], &zeros[..]].concat();
    assert_eq!(payload, message(REPLY, RELAY, 1, &expected));
}

#[test]
fn messages_that_pretend_are_refused() {
    let plain = [53, 1, 1, END];
    let mut damaged = from_client(&message(REQUEST, [0; 4], 0, &plain));
    *damaged.last_mut().unwrap() ^= 1;
    let refused = vec![
        from_client(&message(REQUEST, RELAY, 1, &plain)),
        from_client(&message(REQUEST, [0; 4], 0, &[AGENT, 1, 0, END])),
        from_client(&message(REQUEST, [0; 4], 5, &plain)),
        from_client(&message(REQUEST, [0; 4], 0, &[53, 9, 1])),
        damaged,
    ];
    let count = refused.len();
    let (seen, counts) = relay([refused, vec![]]);
    assert_eq!((seen.len(), &counts[2]), (0, &count.to_string()));
}

#[test]
fn other_packets_go_aside() {
    let request = message(REQUEST, [0; 4], 0, &[53, 1, 1, END]);
    let reply = message(REPLY, [10, 0, 0, 9], 0, &[53, 1, 2, END]);
    let mut part = from_client(&request);
    part[6] = 0x20;
    let at_clients = vec![
        from_server(&message(REPLY, RELAY, 0, &[END])),
        datagram(([0; 4], 68), ([255; 4], 69), &request),
        from_client(&request[..200]),
        // A client renews its address, and another relay's request passes.
        datagram(([10, 0, 0, 9], 68), ([203, 0, 113, 9], 67), &request),
        datagram(([10, 0, 0, 9], 67), ([203, 0, 113, 9], 67), &message(REQUEST, [10, 0, 0, 9], 1, &[END])),
        part,
        vec![0x45; 10],
    ];
    let at_servers = vec![from_client(&request), from_server(&reply)];
    let mut all: Vec<Vec<u8>> = at_clients.iter().chain(&at_servers).cloned().collect();
    let (seen, counts) = relay([at_clients, at_servers]);
    assert_eq!(counts, ["0", "0", "0"].map(String::from));
    assert!(seen.iter().all(|seen| seen.sink == 2));
    let mut bytes: Vec<_> = seen.into_iter().map(|seen| seen.bytes).collect();
    bytes.sort();
    all.sort();
    assert_eq!(bytes, all);
}

#[test]
fn bytes_that_pad_a_frame_are_no_part_of_a_message() {
    let request = message(REQUEST, [0; 4], 0, &[53, 1, 1, END]);
    let mut padded = from_client(&request);
    padded.extend([9; 30]);
    let (seen, _) = relay([vec![from_client(&request), padded], vec![]]);
    // The copies for the first server leave first.
    assert_eq!(seen.len(), 4);
    assert!(seen[0].bytes == seen[1].bytes && seen[2].bytes == seen[3].bytes);
}

#[test]
fn a_long_message_keeps_its_length() {
    // With the option, the packet would be longer than 1500 bytes.
    let options = [&[0; 1500 - 28 - 240 - 1][..], &[END]].concat();
    let request = message(REQUEST, [0; 4], 0, &options);
    let (seen, _) = relay([vec![from_client(&request)], vec![]]);
    assert_eq!(read(&seen[0].bytes).2, message(REQUEST, RELAY, 1, &options));
}

#[test]
fn without_a_third_output_other_packets_are_dropped() {
    let time = Timestamp::from_secs(1);
    let bytes = datagram(([0; 4], 68), ([255; 4], 69), b"other");
    let number = offer(vec![vec![TestPacket { bytes, time, annotations: [0; 48], headers: [None; 3] }]]);
    let text = format!(
        "TestSource({number}, 0) -> MarkIPHeader -> [0] r :: DHCPRelay(10.0.0.1, 10.1.0.1) -> Discard;
        Idle -> [1] r; r[1] -> Discard"
    );
    let outcome = TestRun::default().text(&text, &["r.refused"]).unwrap();
    assert!(outcome.report.balances() && outcome.values[0].as_deref() == Ok("0"));
    assert_eq!(outcome.report.totals.drops.get("no match"), Some(&1));
}

#[test]
fn mistakes_are_told() {
    let error = |config: &str| {
        let text = format!("Idle -> [0] r :: DHCPRelay({config}) -> Discard; Idle -> [1] r; r[1] -> Discard");
        TestRun::default().text(&text, &[]).err().unwrap_or_default()
    };
    assert!(error("0.0.0.0, 10.1.0.1").contains("ADDR: 0.0.0.0 is not the address of a host"));
    assert!(error("10.0.0.1, 224.0.0.1").contains("SERVER: 224.0.0.1 is not the address of a host"));
    assert!(error("10.0.0.1").contains("at least one SERVER"));
    assert!(error("10.0.0.1, 10.1.0.1, MAX_HOPS 17").contains("MAX_HOPS"));
    assert!(error(&format!("10.0.0.1, 10.1.0.1, CIRCUIT_ID {}", "x".repeat(254))).contains("253 bytes"));
    assert_eq!(error(&format!("10.0.0.1, 10.1.0.1, CIRCUIT_ID {}", "x".repeat(253))), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the bytes of a message, what is relayed has right lengths and checksums.
    #[test]
    fn relayed_messages_are_sound(
        op in 0u8..4, gateway in prop::sample::select(vec![[0; 4], RELAY, [9; 4]]), hops in 0u8..6,
        options in prop::collection::vec(prop_oneof![any::<u8>(), Just(END), Just(AGENT), 0u8..4], 0..400),
        cut in 0usize..40,
    ) {
        let message = message(op, gateway, hops, &options);
        let mut packets = [from_client(&message), from_server(&message)];
        for packet in &mut packets {
            packet.truncate(packet.len() - cut.min(packet.len()));
        }
        let (seen, _) = relay(packets.map(|packet| vec![packet]));
        for seen in seen.iter().filter(|seen| seen.sink != 2) {
            let (_, _, payload) = read(&seen.bytes);
            let (header, options) = dhcp::parse(&payload).unwrap();
            let is_reply = seen.sink == 1;
            prop_assert_eq!(header.op, if is_reply { REPLY } else { REQUEST });
            prop_assert!(header.gateway.get() != 0);
            prop_assert!(!is_reply || dhcp::find(options, AGENT).is_none());
        }
    }
}
