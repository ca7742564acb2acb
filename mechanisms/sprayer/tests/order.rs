//! Tests of `keeps_order`: several workers send the same packets in the same order as one worker.

use std::sync::Arc;

use element::Timestamp;
use element::steering::Spreading;
use sprayer::{Classes, Policy, SpreadSettings};
use testkit::TestRun;
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, SYN};

const CONNECTIONS: u16 = 40;
const SEGMENTS: u32 = 50;

const KEEP: SpreadSettings = SpreadSettings {
    policy: Policy::Spray,
    workers_per_flow: 0,
    classes: Classes { udp_ports: Vec::new(), quic_ports: Vec::new() },
    keeps_order: true,
};
const SPRAY: fn() -> Arc<dyn Spreading> = || KEEP.spreading();
const FLOWLETS: fn() -> Arc<dyn Spreading> =
    || SpreadSettings { policy: Policy::Flowlets(Timestamp(1000)), ..KEEP }.spreading();
const AUTO: fn() -> Arc<dyn Spreading> = || SpreadSettings { policy: Policy::Auto, ..KEEP }.spreading();

/// Returns a capture of 40 connections, whose segments take turns and have different payloads.
fn capture() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    for n in 0..SEGMENTS {
        for connection in 0..CONNECTIONS {
            let flags = match n {
                0 => SYN,
                n if n == SEGMENTS - 1 => FIN | ACK,
                _ => ACK,
            };
            let from = ([10, 1, 0, connection as u8], 1024 + connection);
            let payload = [n.to_be_bytes().to_vec(), vec![connection as u8; 700]].concat();
            let builder = Builder::tcp(from.into(), ([10, 9, 0, 1], 80).into(), flags);
            let packet = builder.build(&payload).unwrap();
            let time = Timestamp::from_secs(1_763_800_000) + Timestamp(i64::from(n) * 1000);
            writer.write(time.0, packet.len() as u32, [&packet[..]]).unwrap();
        }
    }
    writer.flush().unwrap();
    file
}

/// Returns the packets that leave a chain, in order. Asserts that none left late.
fn leaves(how: TestRun, input: &std::path::Path, chain: &str) -> Vec<Vec<u8>> {
    let output = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let text = format!(
        "out :: ToDump({}, SNAPLEN 0, ENCAP IP); FromDump({}) -> CheckIPHeader -> {chain} out",
        output.path().display(),
        input.display()
    );
    let outcome = how.text(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let late: u64 = outcome.report.workers.iter().map(|worker| worker.late).sum();
    assert_eq!(late, 0, "{chain}");
    let mut reader = capture::Reader::open(output.path()).unwrap();
    std::iter::from_fn(|| reader.next().unwrap().map(|record| record.data.to_vec())).collect()
}

#[test]
fn the_same_packets_leave_in_the_same_order() {
    let input = capture();
    let balancer = "FlowIPLoadBalancer(VIP 10.9.0.1, DST 10.7.0.1, DST 10.7.0.2, LB_MODE hash_agg)";
    let chains = [
        "Null ->".to_string(),
        // Makes three copies of each packet, which reach the same sink through different outputs of Tee.
        "t :: Tee(3); t[1] -> out; t[2] -> out; t[0] ->".into(),
        // Makes fragments between source and sink; the fragments must also leave in order.
        "IPFragmenter(300) ->".into(),
        // Every other packet of each connection goes through an element that runs on one worker.
        "c :: Classifier(43/00%01, -); c[0] -> x :: Counter -> out; StaticThreadSched(x 0); c[1] ->".into(),
        // Dropped packets must not hold up later packets.
        "IPFilter(drop src port 1024 or src port 1030, allow all) ->".into(),
        // Packets of unknown connections go to the worker that owns them. After the load balancer has changed
        // their addresses, they go to the worker that owns the new flow.
        format!("{balancer} -> FlowCounter -> {balancer} ->"),
    ];
    for chain in &chains {
        let mut alone = leaves(TestRun::trace(), input.path(), chain);
        if chain.contains("Tee") {
            // A single worker would send the copies that Tee makes batch by batch. With several workers and
            // order kept, the copies of each packet leave together.
            let packets = leaves(TestRun::trace(), input.path(), "Null ->");
            alone = packets.into_iter().flat_map(|packet| [packet.clone(), packet.clone(), packet]).collect();
        }
        assert!(alone.len() >= usize::from(CONNECTIONS - 2) * SEGMENTS as usize);
        for policy in [SPRAY, FLOWLETS, AUTO] {
            for how in
                [TestRun::trace().on(2), TestRun::trace().on(4), TestRun::real().on(2), TestRun::real().on(4)]
            {
                let together = leaves(how.spread(policy), input.path(), chain);
                let first = alone.iter().zip(&together).position(|(a, b)| a != b);
                assert!(alone.len() == together.len() && first.is_none(), "{chain} at {first:?}");
            }
        }
    }
}

/// Returns a capture of four connections in rotation, with real sequence numbers.
fn numbered() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    for n in 0..500u32 {
        for connection in 0..4u8 {
            let from = ([10, 1, 0, connection], 1024);
            let builder =
                Builder::tcp(from.into(), ([10, 9, 0, 1], 80).into(), if n == 0 { SYN } else { ACK });
            let sequence = if n == 0 { 999 } else { 1000 + (n - 1) * 4 };
            // The payload is the number of the segment, so that payloads and checksums differ.
            let packet = builder
                .sequence(sequence, 1)
                .build(if n == 0 { vec![] } else { n.to_be_bytes().to_vec() }.as_slice());
            let packet = packet.unwrap();
            // Data follows a millisecond after the SYN, when the connection is known everywhere.
            let after = if n == 0 { 0 } else { 1_000_000 + i64::from(n) * 1000 };
            let time = Timestamp::from_secs(1_763_800_000) + Timestamp(after);
            writer.write(time.0, packet.len() as u32, [&packet[..]]).unwrap();
        }
    }
    writer.flush().unwrap();
    file
}

#[test]
fn a_juggler_behind_workers_restores_the_order_of_connections() {
    const LOOSE: fn() -> Arc<dyn Spreading> = || SpreadSettings { keeps_order: false, ..KEEP }.spreading();
    let input = numbered();
    // Runs a chain on a number of workers without order. Returns the sequence numbers of each connection,
    // in the order in which they leave.
    let numbers = |workers: usize, chain: &str| {
        let mut numbers = vec![Vec::new(); 4];
        for packet in leaves(TestRun::trace().on(workers).spread(LOOSE), input.path(), chain) {
            let number = u32::from_be_bytes(*packet[24..].first_chunk().unwrap());
            numbers[usize::from(packet[15])].push(number);
        }
        numbers
    };
    let is_sorted = |numbers: &Vec<Vec<u32>>| numbers.iter().all(|numbers| numbers.is_sorted());
    // Varies the processing time from packet to packet, so that workers differ in speed.
    let uneven = "RandomPath(0us, 7us, 31us) ->";
    for workers in [2, 4] {
        let after = numbers(workers, &format!("{uneven} Juggler(MERGE false, OFO_TIMEOUT 100ms) ->"));
        assert!(after.iter().all(|numbers| numbers.len() == 500), "{workers}");
        assert!(is_sorted(&after), "{workers}: {after:?}");
    }
    assert!(!is_sorted(&numbers(4, uneven)), "nothing was to be put in order");
}
