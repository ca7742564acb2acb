//! A fuzz target that sends packets through a fixed chain of elements.

use element::Timestamp;
use engine::End;
use testkit::TestRun;
use testkit::elements::{Seen, TestPacket, collect, offer};
use wire::{checksum, ipv4};

/// The maximum number of packets that are cut from one input.
const MOST_PACKETS: usize = 64;

/// The path of packets through a router, with a sink or a Discard at each side output, so that every packet
/// is accounted for. `%` is replaced by the number of the exchange of packets. Sink 0 receives the routed
/// packets.
const CHAIN: &str = "
    TestSource(%, 0) -> all :: Counter -> c :: Classifier(12/0800, 12/0806 20/0001, 12/86dd, -);
    c[0] -> Strip(14) -> ip :: CheckIPHeader(INTERFACES 10.0.0.1/24 192.168.0.1/16)
        -> Paint(1) -> ttl :: DecIPTTL -> Unstrip(14) -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2)
        -> q :: Queue(8) -> Unqueue(BURST 4) -> TestSink(%, 0);
    ip[1] -> t :: Tee(3);
    t[0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> TestSink(%, 1);
    t[1] -> MarkIPHeader(0) -> DecIPTTL(MULTICAST false) -> TestSink(%, 2);
    t[2] -> Strip(3000) -> Unstrip(200) -> Print(short, -1) -> Discard;
    ttl[1] -> Paint(255) -> p :: PaintSwitch; p[0] -> TestSink(%, 3); p[1] -> TestSink(%, 4);
    q[1] -> TestSink(%, 5);
    c[1] -> AverageCounter -> SetTimestamp -> TestSink(%, 6);
    c[2] -> Null -> six :: CheckIPHeader(14, VERBOSE true) -> Discard; six[1] -> TestSink(%, 7);
    c[3] -> MarkIPHeader(14) -> DecIPTTL -> TestSink(%, 8);
";

/// Sends packets through a fixed chain. Checks that no packet is lost and that routed packets are valid.
///
/// The first byte of the input decides the burst: 1 to 64 packets. Each packet follows as its length (16
/// bits, little-endian) and its bytes. If the bytes of the last packet are incomplete, zeros are added.
pub fn packets(data: &[u8]) {
    run(data).iter().filter(|packet| packet.sink == 0).for_each(check_routed);
}

/// Runs the packets of an input through the chain. Returns the packets that reach sinks, and checks all
/// counts.
fn run(data: &[u8]) -> Vec<Seen> {
    let Some((&first, data)) = data.split_first() else { return Vec::new() };
    let burst = 1 + usize::from(first) % 64;
    let inputs = inputs(data);
    let given = inputs.len() as u64;
    let number = offer(vec![inputs]);
    let text = CHAIN.replace('%', &number.to_string());
    let run = TestRun { burst: Some(burst), ..TestRun::default() };
    let outcome = run.text(&text, &["all.count"]);
    let seen = collect(number);
    let outcome = outcome.expect("the chain is right");
    assert_eq!((outcome.end, &outcome.errors), (End::Idle, &vec![]));
    assert_eq!(outcome.values, [Ok(given.to_string())]);
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    assert_eq!(outcome.report.totals.held, 0);
    seen
}

/// Cuts an input into packets, at most [`MOST_PACKETS`]; [`packets`] describes the format.
pub(crate) fn inputs(mut data: &[u8]) -> Vec<TestPacket> {
    let mut inputs = Vec::new();
    while let Some((&length, rest)) = data.split_first_chunk()
        && inputs.len() < MOST_PACKETS
    {
        let length = usize::from(u16::from_le_bytes(length));
        let (now, later) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        let mut bytes = now.to_vec();
        bytes.resize(length, 0);
        let time = Timestamp(inputs.len() as i64 * 1_000);
        inputs.push(TestPacket { bytes, time, annotations: [0; 48], headers: [None; 3] });
        data = later;
    }
    inputs
}

/// Checks that a routed packet has a valid IPv4 header with a time to live of at least one, and no bytes
/// after its end.
fn check_routed(packet: &Seen) {
    assert_eq!(packet.bytes[..12], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
    let ip = &packet.bytes[14..];
    let parsed = ipv4::parse(ip).expect("the header was checked");
    assert!(checksum::ipv4_valid(&ip[..parsed.header.header_len()]));
    assert!(parsed.header.ttl >= 1);
    assert_eq!(usize::from(parsed.header.total_length.get()), ip.len());
    assert_eq!(packet.headers[1], Some(14));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_seeds_reach_every_sink() {
        let sinks =
            crate::seeds::of("packets").into_iter().flat_map(|seed| run(&seed)).map(|packet| packet.sink);
        assert_eq!(sinks.collect::<BTreeSet<usize>>(), (0..9).collect());
    }

    #[test]
    fn the_last_packet_is_filled_up() {
        let lengths = |data| inputs(data).iter().map(|input| input.bytes.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&[2, 0, 7, 7, 0, 0, 0xff, 0xff, 7]), [2, 0, 0xffff]);
        assert!(lengths(&[1]).is_empty());
    }
}
