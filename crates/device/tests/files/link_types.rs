//! Tests of ToDump with packets of several link types: which packets are written to the file, and which are
//! left out.

use std::path::Path;

use capture::{LinkType, Reader, Writer, WriterOptions};
use testkit::{RunResults, TestRun};

const IP: [u8; 28] = [
    0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 8, 0, 0, //
];

/// Returns a packet of this link type: the same IP packet after a header of the link type.
fn frame(link: LinkType) -> Vec<u8> {
    let header: &[u8] = match link {
        LinkType::Ethernet => &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0],
        LinkType::LinuxCooked => &[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0, 8, 0],
        _ => &[],
    };
    [header, &IP].concat()
}

/// Writes a capture of two packets of this link type, and returns its path.
fn capture(folder: &Path, name: &str, link: LinkType) -> String {
    let path = folder.join(name).display().to_string();
    let file = capture::create(&path).unwrap();
    let mut writer = Writer::new(file, WriterOptions { link, ..WriterOptions::default() });
    for second in 1..=2 {
        writer.write(second * 1_000_000_000, 0, [&frame(link)[..]]).unwrap();
    }
    writer.flush().unwrap();
    path
}

/// Runs a configuration with an element `out` that writes to `$OUT`. In the text, `$ETHER`, `$IP`, `$SLL`
/// and `$MIXED` are replaced by the paths of captures. Returns the outcome, and the link type and packets
/// of the written file.
fn run(text: &str) -> (RunResults, LinkType, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = text.to_string();
    for (name, link) in
        [("$ETHER", LinkType::Ethernet), ("$IP", LinkType::RawIp), ("$SLL", LinkType::LinuxCooked)]
    {
        text = text.replace(name, &capture(folder.path(), &name[1..], link));
    }
    let mixed = folder.path().join("mixed");
    std::fs::write(&mixed, pcapng()).unwrap();
    let out = folder.path().join("out").display().to_string();
    let text = text.replace("$MIXED", &mixed.display().to_string()).replace("$OUT", &out);
    let outcome = TestRun::trace().text(&text, &["out.count"]).unwrap();
    let mut reader = Reader::open(&out).unwrap();
    let link = reader.link();
    let packets = std::iter::from_fn(|| reader.next().unwrap().map(|record| record.data.to_vec())).collect();
    (outcome, link, packets)
}

/// Returns a pcapng file with an Ethernet and a raw IP interface, and one packet of each.
fn pcapng() -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len().next_multiple_of(4)) as u32;
        file.extend([kind.to_le_bytes(), length.to_le_bytes()].concat());
        file.extend(body);
        file.resize(file.len().next_multiple_of(4), 0);
        file.extend(length.to_le_bytes());
    };
    block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    for link in [1, 101] {
        block(1, &[link, 0, 0, 0, 0, 0, 0, 0]);
    }
    for (interface, link) in [(0, LinkType::Ethernet), (1, LinkType::RawIp)] {
        let frame = frame(link);
        let length = frame.len() as u32;
        let words = [interface, 0, 1_000_000, length, length].map(u32::to_le_bytes).concat();
        block(6, &[words, frame].concat());
    }
    file
}

/// Returns the number of packets that were dropped because of their link type.
fn dropped(outcome: &RunResults) -> u64 {
    outcome.report.totals.drops.get("another link type").copied().unwrap_or(0)
}

#[test]
fn packets_of_another_link_type_are_left_out_and_the_run_says_so() {
    for (sources, link, left_out) in [
        ("FromDump($MIXED) -> out", LinkType::Ethernet, 1),
        ("FromDump($ETHER) -> out; FromDump($IP) -> out", LinkType::Ethernet, 2),
        ("FromDump($IP) -> out; FromDump($ETHER) -> out", LinkType::RawIp, 2),
        ("FromDump($SLL) -> out; FromDump($ETHER) -> out", LinkType::LinuxCooked, 2),
        (
            "FromDump($ETHER, FORCE_IP true) -> out; FromDump($IP, FORCE_IP true) -> out",
            LinkType::Ethernet,
            2,
        ),
    ] {
        let (outcome, file, packets) = run(&format!("out :: ToDump($OUT); {sources}"));
        assert_eq!((file, dropped(&outcome)), (link, left_out), "{sources}");
        assert!(!packets.is_empty() && packets.iter().all(|packet| *packet == frame(link)), "{sources}");
        assert_eq!(outcome.values, [Ok(packets.len().to_string())], "{sources}");
        assert!(outcome.errors[0].contains("another link header"), "{sources}: {:?}", outcome.errors);
        assert!(outcome.messages.contains("are left out"), "{sources}: {}", outcome.messages);
    }
}

#[test]
fn packets_that_are_left_out_pass_where_packets_pass() {
    let text = "out :: ToDump($OUT) -> passed :: Counter -> Discard; FromDump($MIXED) -> out;
        Idle -> d :: Discard";
    let (outcome, _, packets) = run(text);
    assert_eq!((packets.len(), dropped(&outcome)), (1, 0));
    assert_eq!(outcome.report.totals.drops.get("discard"), Some(&2));
    assert!(outcome.errors[0].contains("1 packets with another link header"), "{:?}", outcome.errors);
}

#[test]
fn packets_whose_link_header_is_another_now_are_written() {
    for (text, link, count) in [
        ("FromDump($ETHER) -> Strip(14) -> out :: ToDump($OUT, ENCAP IP)", LinkType::RawIp, 2),
        ("FromDump($SLL) -> Strip(16) -> out :: ToDump($OUT, ENCAP IP)", LinkType::RawIp, 2),
        (
            "FromDump($IP) -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1) -> out :: ToDump($OUT)",
            LinkType::Ethernet,
            2,
        ),
        // With ENCAP, packets from sources of all link types are written.
        (
            "out :: ToDump($OUT, ENCAP IP); FromDump($ETHER) -> Strip(14) -> out; FromDump($IP) -> out;
             FromDump($SLL) -> Strip(16) -> out",
            LinkType::RawIp,
            6,
        ),
        (
            "out :: ToDump($OUT); FromDump($ETHER) -> out;
             FromDump($IP) -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1) -> out",
            LinkType::Ethernet,
            4,
        ),
        // Packets that elements make are taken for packets of the file's link type.
        (
            "out :: ToDump($OUT); FromDump($IP) -> out;
             TimedSource(0.1, LIMIT 3) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> out",
            LinkType::RawIp,
            5,
        ),
    ] {
        let (outcome, file, packets) = run(text);
        assert_eq!((file, packets.len(), dropped(&outcome)), (link, count, 0), "{text}");
        assert_eq!(outcome.errors, [""; 0], "{text}");
    }
}

/// Writes a capture with one packet of `bytes`, of which `on_wire` were on the wire, and returns its path.
fn capture_of(folder: &Path, link: LinkType, bytes: &[u8], on_wire: u32) -> String {
    let path = folder.join("one").display().to_string();
    let file = capture::create(&path).unwrap();
    let mut writer = Writer::new(file, WriterOptions { link, ..WriterOptions::default() });
    writer.write(1_000_000_000, on_wire, [bytes]).unwrap();
    writer.flush().unwrap();
    path
}

#[test]
fn ip_is_forced_behind_headers_of_captures_or_the_run_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let ppp = [&[0xff, 3, 0, 0x21][..], &IP].concat();
    let path = capture_of(folder.path(), LinkType::Other(9), &ppp, 0);
    let text = format!(
        "FromDump({path}, FORCE_IP true, STOP true) -> c :: IPClassifier(src udp port 1, -);
         c[0] -> yes :: Counter -> Discard; c[1] -> Discard"
    );
    let outcome = TestRun::trace().text(&text, &["yes.count"]).unwrap();
    assert_eq!(outcome.values, [Ok("1".into())]);
    let path = capture_of(folder.path(), LinkType::Other(147), &ppp, 0);
    let text = format!("FromDump({path}, FORCE_IP true) -> Discard");
    let error = TestRun::trace().text(&text, &[]).unwrap_err().to_string();
    assert!(error.contains("unknown link type 147; can't force IP packets"), "{error}");
}

#[test]
fn packets_get_their_length_on_the_wire_or_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = frame(LinkType::Ethernet);
    // The header says 628 bytes, of which the capture has 28, and its checksum is right.
    whole[16..18].copy_from_slice(&628u16.to_be_bytes());
    whole[24..26].copy_from_slice(&0x6477u16.to_be_bytes());
    // Returns the length of the packet, and the number of packets that CheckIPHeader passes.
    let run = |captured: &[u8], link, on_wire, arguments: &str| {
        let path = capture_of(folder.path(), link, captured, on_wire);
        let start = if link == LinkType::RawIp { 0 } else { 14 };
        let text = format!(
            "FromDump({path}, STOP true{arguments}) -> all :: Counter -> CheckIPHeader({start}) -> good :: Counter -> Discard"
        );
        let outcome = TestRun::trace().text(&text, &["all.byte_count", "good.count"]);
        outcome.map(|outcome| outcome.values.into_iter().map(Result::unwrap).collect::<Vec<_>>().join(" "))
    };
    for (arguments, expected) in [
        ("", "42 0"),
        (", FORCE_LEN -1", "42 0"),
        (", FORCE_LEN 0", "642 1"),
        (", FORCE_LEN 60", "60 1"),
        (", FORCE_LEN 9000", "9000 1"),
    ] {
        assert_eq!(run(&whole, LinkType::Ethernet, 642, arguments).unwrap(), expected, "{arguments}");
    }
    assert_eq!(run(&whole[14..], LinkType::RawIp, 628, ", FORCE_LEN 0").unwrap(), "628 1");
    assert_eq!(run(&whole[14..], LinkType::RawIp, 628, ", FORCE_LEN 60").unwrap(), "46 1");
    for length in [59, 9001, -2] {
        let error = run(&whole, LinkType::Ethernet, 642, &format!(", FORCE_LEN {length}")).unwrap_err();
        assert!(error.to_string().contains("FORCE_LEN requires a valid frame size"), "{error}");
    }
}
