//! Tests a flood of packets of unknown connections with spreading: once the flood is detected, such packets
//! go directly to the workers that own their connections.

use element::Timestamp;
use sprayer::SpreadSettings;
use testkit::TestRun;
use testkit::elements::{TestPacket, offer};
use wire::build::Builder;
use wire::tcp::flags::{ACK, SYN};

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 80);
const CLIENT: ([u8; 4], u16) = ([198, 51, 100, 7], 4000);

fn segment(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: u8, time: i64) -> TestPacket {
    let bytes = Builder::tcp(from.into(), to.into(), flags).build(b"").unwrap();
    let time = Timestamp::from_secs(1_000_000_000) + Timestamp(time);
    TestPacket { bytes, time, annotations: [0; 48], headers: [Some(0), Some(0), Some(20)] }
}

/// Sends 60,000 packets of unknown connections through a firewall, interleaved with 12,000 packets of a
/// known connection. Returns the number of packets handed over between workers per packet of an unknown
/// connection, and the number of packets that each worker has processed.
fn flood(text: &str, workers: usize) -> (f64, Vec<u64>) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut outside = Vec::new();
    for number in 0..60_000 {
        let stranger = ([11, random.u8(..), random.u8(..), random.u8(..)], random.u16(1024..));
        outside.push(segment(stranger, SERVER, ACK, 1_000_000 + number / 32));
        if number % 5 == 0 {
            outside.push(segment(CLIENT, SERVER, ACK, 1_000_000 + number / 32));
        }
    }
    let exchange = offer(vec![vec![segment(SERVER, CLIENT, SYN, 0)], outside]);
    let text = text.replace("EXCHANGE", &exchange.to_string());
    let how = TestRun::trace().on(workers).spread(|| SpreadSettings::default().spreading());
    let outcome = how.text(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.report.totals.drops.get("discard"), Some(&12_001), "{:?}", outcome.report.totals);
    let handed: u64 = outcome.report.workers.iter().map(|worker| worker.handed).sum();
    (handed as f64 / 60_000.0, outcome.report.workers.iter().map(|worker| worker.dropped).collect())
}

const FIREWALL: &str = "TestSource(EXCHANGE, 0) -> CheckIPHeader -> [0] wall :: IPRewriter(keep 0 1, drop);
    TestSource(EXCHANGE, 1) -> CheckIPHeader -> [1] wall; wall[0] -> Discard; wall[1] -> Discard";

#[test]
fn packets_of_unknown_connections_go_to_their_worker_at_once() {
    for workers in [2, 4] {
        let (handed, done) = flood(FIREWALL, workers);
        // A packet of an unknown connection is handed over once if its owner is another worker, as for
        // (workers - 1) / workers of all packets. The packets of the known connection, a fifth as many, are
        // handed over at the same rate, because they are spread. The margin of 12 % is for the first packets
        // of the flood: they are handed over twice, before the flood is detected.
        let once = 1.2 * (workers - 1) as f64 / workers as f64;
        assert!(handed < once * 1.12, "{workers} workers: {handed}");
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        assert!(most - least < 2_000, "the known connection is spread: {done:?}");
    }
}

#[test]
fn what_changes_addresses_in_front_of_state_hides_what_is_known() {
    // Addresses change ahead of the firewall, so a look-up of the original headers finds nothing. So all
    // packets are spread as usual, and then sent to their owners.
    let text = FIREWALL.replace(
        "CheckIPHeader -> [1] wall",
        "CheckIPHeader -> SetTCPChecksum -> SetIPAddress(192.0.2.1) -> StoreIPAddress(16) -> [1] wall",
    );
    let (handed, done) = flood(&text, 2);
    assert!(handed > 1.0, "{handed}");
    assert!(done.iter().max().unwrap() - done.iter().min().unwrap() < 2_000, "{done:?}");
}
