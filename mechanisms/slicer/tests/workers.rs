//! Tests several workers: a network function that translates addresses brings packets back to another
//! worker than the worker that has their payload.

mod frames;

use std::path::Path;

use frames::{L3, datagram, segment};
use testkit::TestRun;
use testkit::elements::{Seen, collect, offer};
use wire::tcp::flags::ACK;

/// Returns `count` packets of many flows. Every fifth is too short to be sliced.
fn packets(count: usize) -> Vec<Vec<u8>> {
    let frame = |number: usize| match number % 5 {
        0 => datagram(number, 100, 0),
        1 => segment(number, 1200, 0, ACK),
        _ => datagram(number, 600 + number % 800, 0),
    };
    (0..count)
        .map(frame)
        .map(|mut frame| {
            // Changes the source port, so that there are many flows. UDP then has no checksum, TCP a wrong
            // one.
            let flow = frame.len() as u16 % 251;
            frame[L3 + 20..L3 + 22].copy_from_slice(&(3000 + flow).to_be_bytes());
            if frame[L3 + 9] == 17 {
                frame[L3 + 26..L3 + 28].fill(0);
            }
            frame
        })
        .collect()
}

fn write(file: &Path, frames: &[Vec<u8>]) {
    let packets: Vec<_> =
        frames.iter().enumerate().map(|(n, frame)| (n as i64 * 1000, frame.clone())).collect();
    testkit::timed::write_capture(file, &packets);
}

/// Sends a capture through `before`, a translator and `after`, on `workers` workers. Returns the packets
/// that leave, the values of handlers, and the number of packets that were handed over to another worker.
fn translated(workers: usize, capture: &Path, before: &str, after: &str) -> (Vec<Vec<u8>>, Vec<String>, u64) {
    let number = offer(Vec::new());
    // All translated packets return to the first worker, as from an interface with one queue.
    let text = format!(
        "t :: PayloadTable(ENTRIES 4096);
         nic :: InMemoryNic({}, LOOPS 1, STEERING rss) {before}
            -> MarkIPHeader(14) -> rw :: IPRewriter(pattern 9.8.7.6 1024-65535 - - 0 0)
            -> TestFirst {after} -> TestSink({number}, 0)",
        capture.display()
    );
    let handlers = ["t.sliced", "t.spliced", "t.late", "t.no_token", "t.waiting"];
    let outcome = TestRun::trace().on(workers).text(&text, &handlers).unwrap_or_else(|text| panic!("{text}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let seen = collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect();
    let handed = outcome.report.workers.iter().map(|worker| worker.handed).sum();
    (seen, outcome.values.into_iter().map(Result::unwrap).collect(), handed)
}

#[test]
fn payloads_are_found_at_whichever_worker_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    write(&capture, &packets(2000));
    for workers in [1, 4] {
        let (mut whole, _, before) = translated(workers, &capture, "", "");
        let (mut seen, values, handed) = translated(workers, &capture, "-> Slice(t)", "-> Splice(t)");
        // With four workers, about three of four packets return at another worker than that of their
        // payload.
        assert!(workers == 1 || handed - before > 1000, "{before} {handed}");
        assert_eq!(values, ["1600", "1600", "0", "0", "0"]);
        whole.sort_unstable();
        seen.sort_unstable();
        assert!(whole == seen, "{workers}: {} {}", whole.len(), seen.len());
    }
}
