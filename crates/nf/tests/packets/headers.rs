//! Tests of elements that check, edit and build headers: the bytes that they write, and messages, counts,
//! errors and handlers in Click's words.

use testkit::elements::{TestPacket, collect, offer};
use testkit::{TestRun, in_clicks_words};

/// An IPv4 packet with TCP, in hexadecimal. The header's checksum is correct, the segment's is not.
const TCP: &str =
    "\\<45000028 00010000 400666cd 0a000001 0a000002 00500050 00000000 00000000 50020000 00000000>";

fn values(config: &str, handlers: &[&str]) -> (String, Vec<Result<String, String>>) {
    let outcome = TestRun::default().text(config, handlers).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances());
    (outcome.messages, outcome.values)
}

fn ok(text: &str) -> Result<String, String> {
    Ok(text.to_string())
}

/// Makes an IPv6 packet with an extension header before UDP. The checksum is over the final destination
/// `last`, as in RFC 8200, section 8.1.
fn routed(header: &[u8], destination: &str, last: &str) -> Vec<u8> {
    let [from, to] = ["2001:db8::1", destination].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap());
    let last: std::net::Ipv6Addr = last.parse().unwrap();
    let mut datagram = vec![0, 1, 0, 2, 0, 11, 0, 0, b'a', b'b', b'c'];
    let pseudo = wire::checksum::PseudoHeader::V6 { source: from, destination: last };
    wire::checksum::fill_udp(&pseudo, &mut datagram).unwrap();
    let mut packet = vec![0x60, 0, 0, 0, 0, (header.len() + datagram.len()) as u8, 43, 64];
    packet.extend(from.octets().into_iter().chain(to.octets()));
    packet.extend_from_slice(header);
    packet.extend(datagram);
    packet
}

/// Makes a routing header of type `kind` with these addresses, and `left` segments left.
fn route(kind: u8, left: u8, addresses: &[&str]) -> Vec<u8> {
    let mut header = vec![17, 2 * addresses.len() as u8, kind, left, 0, 0, 0, 0];
    for text in addresses {
        header.extend(text.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    header
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_all_ones() {
    let (header, ports) = ([10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 10], [0, 1, 0, 2, 0, 10]);
    // The payload is the complement of the sum of all other bytes, so that the datagram adds up to all ones
    // and its computed checksum is zero.
    let sum = wire::checksum::Sum::new().bytes(&header).bytes(&ports).checksum();
    let payload = sum.to_be_bytes();
    let mut packet = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend(ports.iter().chain(&[0, 0]).chain(&payload));
    for (bytes, element) in
        [(&payload[..], "UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)"), (&packet, "MarkIPHeader -> SetUDPChecksum")]
    {
        let number = offer(vec![vec![input(bytes)]]);
        values(&format!("TestSource({number}, 0) -> {element} -> TestSink({number}, 0)"), &[]);
        let seen = collect(number);
        assert_eq!(seen[0].bytes[26..], [0xff, 0xff, payload[0], payload[1]], "{element}");
    }
}

#[test]
fn rfc8200_8_1_checksums_are_about_the_final_destination() {
    const END: &str = "2001:db8::99";
    const STOP: &str = "2001:db8::2";
    let elsewhere = "2001:db8::55";
    let mut compressed = vec![17, 1, 3, 2, 0xef, 0, 0, 0];
    // The compressed addresses of RFC 6554: the first without its first 14 bytes, the last without 15, then
    // five bytes of padding.
    compressed[5] = 5 << 4;
    compressed.extend([0, 0x55, 0x99, 0, 0, 0, 0, 0]);
    let ends = [
        (route(0, 2, &[elsewhere, END]), END),
        (route(2, 1, &[END]), END),
        // The first address in the segment list of a segment routing header is the final destination (RFC
        // 8754).
        (route(4, 2, &[END, elsewhere, STOP]), END),
        (compressed, END),
        (route(4, 0, &[STOP, elsewhere]), STOP),
        (route(2, 0, &[elsewhere]), STOP),
        // With no segments left, the packet has arrived, whatever the type of the routing header.
        (route(77, 0, &[elsewhere]), STOP),
    ];
    for (header, last) in ends {
        let right = routed(&header, STOP, last);
        let mut wrong = right.clone();
        let at = right.len() - 5;
        wrong[at..at + 2].copy_from_slice(&[0x12, 0x34]);
        for sent in [&right, &wrong] {
            let number = offer(vec![vec![input(sent)]]);
            let text = format!(
                "TestSource({number}, 0) -> CheckIP6Header(PROCESS_EH true) -> SetTransportChecksumIP6
                    -> TestSink({number}, 0)"
            );
            values(&text, &[]);
            let seen = collect(number);
            assert_eq!(seen.len(), 1);
            assert_eq!(seen[0].bytes, right, "{header:?}");
        }
    }
    // With segments left in a routing header of unknown type, the final destination is unknown, and the
    // packet is dropped.
    let number = offer(vec![vec![input(&routed(&route(77, 1, &[END]), STOP, END))]]);
    let text = format!(
        "TestSource({number}, 0) -> CheckIP6Header(PROCESS_EH true) -> SetTransportChecksumIP6 -> TestSink({number}, 0)"
    );
    values(&text, &[]);
    assert!(collect(number).is_empty());
}

#[test]
fn rfc6275_6_3_checksums_are_about_the_home_address() {
    let home = "2001:db8::77".parse::<std::net::Ipv6Addr>().unwrap();
    // Padding before the Home Address option aligns its address.
    let mut options = vec![17, 2, 1, 2, 0, 0, 0xc9, 16];
    options.extend(home.octets());
    let mut packet = routed(&options, "2001:db8::2", "2001:db8::2");
    packet[6] = 60;
    let datagram = packet.len() - 11;
    let pseudo =
        wire::checksum::PseudoHeader::V6 { source: home, destination: "2001:db8::2".parse().unwrap() };
    let mut wrong = packet.clone();
    wire::checksum::fill_udp(&pseudo, &mut packet[datagram..]).unwrap();
    assert_ne!(packet, wrong);
    wrong[datagram + 6] ^= 1;
    let number = offer(vec![vec![input(&wrong)]]);
    let text = format!(
        "TestSource({number}, 0) -> CheckIP6Header(PROCESS_EH true) -> SetTransportChecksumIP6 -> TestSink({number}, 0)"
    );
    values(&text, &[]);
    assert_eq!(collect(number).into_iter().map(|seen| seen.bytes).collect::<Vec<_>>(), [packet]);
}

/// IP6Mirror swaps the addresses. The checksum has to be correct afterwards if it was before, whatever
/// addresses it covers.
#[test]
fn a_mirrored_packet_has_the_checksum_of_its_final_destination() {
    const FROM: &str = "2001:db8::1";
    const STOP: &str = "2001:db8::2";
    const END: &str = "2001:db8::99";
    const HOME: &str = "2001:db8::77";
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap();
    let home = [&[17, 2, 1, 2, 0, 0, 0xc9, 16][..], &address(HOME).octets()].concat();
    // Puts a destination options header, which contains only padding, before `header`, an extension header of
    // type `kind`.
    let behind = |mut header: Vec<u8>, kind: u8| {
        header.splice(0..0, [kind, 0, 1, 4, 0, 0, 0, 0]);
        header
    };
    // Adds a fragment header after the routing header: the first fragment of a datagram.
    let fragment = |mut header: Vec<u8>| {
        header[0] = 44;
        [header, vec![17, 0, 0, 1, 0, 0, 0, 9]].concat()
    };
    // Each case has: the type of the first extension header, and the offset, from the end of the IPv6 header,
    // of the field that names the protocol; the extension headers; source and destination in the
    // pseudo-header before and after.
    for ((kind, last), header, before, after) in [
        ((43, 0), route(0, 2, &["2001:db8::55", END]), (FROM, END), (STOP, END)),
        ((43, 0), route(4, 1, &[END, STOP]), (FROM, END), (STOP, END)),
        ((43, 0), route(4, 0, &[END, STOP]), (FROM, STOP), (STOP, FROM)),
        ((60, 0), home, (HOME, STOP), (HOME, FROM)),
        ((60, 8), behind(route(0, 1, &[END]), 43), (FROM, END), (STOP, END)),
        ((43, 24), fragment(route(0, 1, &[END])), (FROM, END), (STOP, END)),
        // The routing header has the unknown type 9, so the final destination is unknown too, and the
        // addresses in the pseudo-header stay as they were.
        ((43, 0), route(9, 1, &[END]), (FROM, END), (FROM, END)),
    ] {
        for protocol in [6, 17, 58] {
            let packet = |(source, destination): (&str, &str), addresses: [&str; 2]| {
                let mut segment = vec![1; 21];
                segment[6..8].copy_from_slice(&[0, 0]);
                segment[4..6].copy_from_slice(&[0, 21]);
                let at = [(6, 16), (17, 6), (58, 2)].iter().find(|(of, _)| *of == protocol).unwrap().1;
                segment[at..at + 2].fill(0);
                let (source, destination) = (address(source), address(destination));
                let pseudo = wire::checksum::PseudoHeader::V6 { source, destination };
                let sum = pseudo.sum(protocol, segment.len()).bytes(&segment).checksum();
                segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
                let mut packet = vec![0x60, 0, 0, 0, 0, (header.len() + segment.len()) as u8, kind, 64];
                packet.extend(addresses.into_iter().flat_map(|text| address(text).octets()));
                packet.extend(&header);
                packet[40 + last] = protocol;
                packet.extend(segment);
                packet
            };
            let number = offer(vec![vec![input(&packet(before, [FROM, STOP]))]]);
            values(
                &format!("TestSource({number}, 0) -> MarkIP6Header -> IP6Mirror -> TestSink({number}, 0)"),
                &[],
            );
            let seen: Vec<_> = collect(number).into_iter().map(|seen| seen.bytes).collect();
            assert_eq!(seen, [packet(after, [STOP, FROM])], "{header:?} {protocol}");
        }
    }
}

#[test]
fn an_atomic_fragment_gets_its_checksum() {
    let mut packet = routed(&[17, 0, 0, 0, 0, 0, 0, 9], "2001:db8::2", "2001:db8::2");
    packet[6] = 44;
    let number = offer(vec![vec![input(&packet)]]);
    let text = format!(
        "TestSource({number}, 0) -> CheckIP6Header(PROCESS_EH true) -> SetTransportChecksumIP6 -> TestSink({number}, 0)"
    );
    values(&text, &[]);
    assert_eq!(collect(number).into_iter().map(|seen| seen.bytes).collect::<Vec<_>>(), [packet]);
}

fn input(bytes: &[u8]) -> TestPacket {
    TestPacket {
        bytes: bytes.to_vec(),
        time: element::Timestamp(1),
        annotations: [0; 48],
        headers: [None; 3],
    }
}

#[test]
fn bad_packets_are_counted_by_reason_where_details_are_wanted() {
    let config = |arguments: &str| {
        format!(
            "InfiniteSource(DATA {TCP}, LIMIT 3, STOP true) -> MarkIPHeader -> c :: CheckTCPHeader({arguments}) -> Discard"
        )
    };
    let (messages, read) = values(&config(""), &["c.count", "c.drops", "c.drop_details"]);
    assert_eq!(messages, "c :: CheckTCPHeader: TCP header check failed: bad TCP checksum\n");
    assert_eq!(read[..2], [ok("0"), ok("3")]);
    assert!(read[2].is_err());
    let (messages, read) = values(&config("VERBOSE true, DETAILS true"), &["c.drop_details"]);
    assert_eq!(messages.lines().count(), 3);
    assert_eq!(read, [ok("0\tnot TCP\n0\tbad packet length\n3\tbad TCP checksum\n")]);
    let (messages, read) = values(&config("CHECKSUM false"), &["c.count"]);
    assert_eq!((messages.as_str(), read), ("", vec![ok("3")]));
    let wrong_protocol = config("").replace("CheckTCPHeader", "CheckUDPHeader");
    assert_eq!(values(&wrong_protocol, &[]).0, "UDP header check failed: not UDP\n");
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    for (element, error) in [
        ("SetIPDSCP(64)", "diffserv code point out of range"),
        ("SetIPECN(maybe)", "bad ECN argument"),
        ("GetIPAddress(16, IP src)", "set one of OFFSET, IP"),
        ("GetIPAddress(IP both)", "bad IP"),
        ("SetPacketType(nobody)", "unrecognized packet type 'nobody'"),
        ("StoreIPAddress(1.2.3.4, here)", "type mismatch: OFFSET requires integer"),
        ("StoreIP6Address(::1, here)", "type mismatch: OFFSET requires integer"),
        ("SetIP6ECN(4)", "bad ECN argument"),
        ("SetIP6FlowLabel(1048576)", "flow label out of range"),
        ("SetIP6Hlim(256)", "HLIM: 256 is too large; the most is 255"),
        ("IP6Encap(300, ::1, ::2)", "bad IP protocol"),
        ("IP6Encap(4, ::1, x)", "DST argument should be IP address or 'DST_ANNO'"),
        ("StoreEtherAddress(OFFSET src)", "must specify exactly one of ADDR/ANNO"),
        ("CheckIP6Header(nonsense)", "expects IP6ADDRESS -a "),
        ("StripEtherVLANHeader(4096)", "bad NATIVE_VLAN"),
        ("VLANEncap(7, ETHERTYPE 70000)", "ETHERTYPE: 70000 is too large; the most is 65535"),
        ("IPEncap(300, 1.1.1.1, 2.2.2.2)", "bad IP protocol"),
        ("IPEncap(4, 1.1.1.1, x)", "DST argument should be IP address or 'DST_ANNO'"),
        ("IPEncap(4, 1.1.1.1, 2.2.2.2, TOS 1, DSCP 1)", "cannot set both TOS and DSCP"),
        ("IPEncap(4, 1.1.1.1, 2.2.2.2, ECT true, CE true)", "can set at most one ECN option"),
        ("UDPIPEncap(1.1.1.1, 1, x, 2)", "bad DST"),
        ("ICMPIPEncap(1.1.1.1, 2.2.2.2, nothing)", "invalid TYPE"),
        ("ICMPIPEncap(1.1.1.1, 2.2.2.2, echo, net)", "invalid CODE"),
        ("ICMPError(1.1.1.1, echo)", "ICMP type 8 is not an error type"),
        ("IPFragmenter(7)", "MTU must be at least 8"),
        ("StoreData(0, a, bc)", "MASK must be no longer than DATA"),
        ("Search(\"\")", "Cannot search for an empty string!"),
        ("Align(3, 1)", "MODULUS must be 2, 4, or 8"),
        ("Align(4, 4)", "OFFSET must be smaller than MODULUS"),
        ("SetIPAddress", "IPADDR: required argument missing"),
    ] {
        let text = format!("InfiniteSource(LIMIT 0) -> {element} -> Discard");
        let reason =
            TestRun::default().text(&text, &[]).err().unwrap_or_else(|| panic!("{element} is accepted"));
        assert!(reason.contains(error), "{element}: {reason}");
    }
    for (element, error) in [
        ("SetIP6Hlim(256)", "HLIM: out of range, bound 255"),
        ("SetIP6FlowLabel(x)", "FLOW: invalid number"),
        ("SetIPDSCP(x)", "DSCP: invalid number"),
        ("VLANEncap(7, ETHERTYPE 70000)", "ETHERTYPE: out of range, bound 65535"),
        ("VLANEncap(VLAN_PCP 8)", "VLAN_PCP: out of range, bound 7"),
        ("SetVLANAnno(ANNO)", "VLAN_TCI: invalid number"),
        ("MarkIPHeader(300000)", "OFFSET: out of range, bound 262144"),
        ("StoreIPAddress(1.2.3, 4)", "ADDR: parse error"),
    ] {
        let reason = in_clicks_words(&format!("InfiniteSource(LIMIT 0) -> {element} -> Discard"));
        assert!(reason.contains(error), "{element}: {reason}");
    }
}

#[test]
fn a_pulled_ping_source_stops_the_driver() {
    let config =
        "ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 2, STOP true) -> Unqueue -> c :: Counter -> Discard;
        other :: InfiniteSource(LIMIT 1000000) -> Discard";
    let (_, read) = values(config, &["c.count", "other.count"]);
    assert_eq!(read[0], ok("2"));
    assert_ne!(read[1], ok("1000000"));
}
