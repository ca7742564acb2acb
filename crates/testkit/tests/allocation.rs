//! Tests that elements allocate no memory after warm-up, except elements that make text from packets.

use testkit::elements::{TestPacket, offer};
use testkit::samples::all;
use testkit::{TestRun, corpus, worker};

/// The number of times that the corpus passes before allocations are counted. Batches, queues and tables
/// reach their final size meanwhile. A hash table grows a last time when removals have left it no slot that
/// is marked free.
const WARM_UP: usize = 12;
const COUNTED: usize = 6;

#[test]
fn no_element_allocates_per_batch() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("capture.pcap")).unwrap();
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    for _ in 0..WARM_UP + COUNTED {
        for input in corpus::inputs(3) {
            writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
        }
    }
    writer.flush().unwrap();
    let classes: Vec<_> = testkit::classes().collect();
    let mut failures = Vec::new();
    for sample in all(&classes, folder.path()) {
        let inputs: Vec<Vec<TestPacket>> = (0..sample.shape.0).map(|i| corpus::inputs(i as u64)).collect();
        let packets = corpus::inputs(0).len();
        let number = offer(inputs);
        let text = sample.text(number, WARM_UP + COUNTED, false);
        let mut worker = worker(&text, TestRun::default()).unwrap_or_else(|e| panic!("{sample}: {e}"));
        let made = |worker: &engine::Worker| worker.core().counters.iter().map(|c| c.made).sum::<u64>();
        while made(&worker) < (packets * WARM_UP) as u64 && worker.step(1) {}
        // Counts the allocations in all remaining steps of the worker.
        let info = allocation_counter::measure(|| while worker.step(1) {});
        if info.count_total > 0 && !is_exempt(&sample.config, sample.class.name) {
            failures.push(format!("{sample}: {} allocations", info.count_total));
        }
        let _ = worker.finish();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn new_flows_do_not_allocate() {
    let ends = "0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2";
    for source in [
        format!("FastUDPFlows(0, 5000, 60, {ends}, 10, 3)"),
        format!("FastTCPFlows(0, 5000, 60, {ends}, 10, 3)"),
        "FastUDPSource(0, 5000, 60, 0:1:2:3:4:5, 10.0.0.1, 9, 6:7:8:9:a:b, 10.0.0.2, 9, true, 2)".into(),
    ] {
        let mut worker = worker(&format!("s :: {source} -> Discard"), TestRun::default()).unwrap();
        let source = worker.plan().graph.find("s").unwrap();
        let made = |worker: &engine::Worker| worker.core().counters[source].made;
        while made(&worker) < 1000 && worker.step(1) {}
        let info = allocation_counter::measure(|| while made(&worker) < 4000 && worker.step(1) {});
        assert_eq!((info.count_total, made(&worker) >= 4000), (0, true));
        let _ = worker.finish();
    }
}

#[test]
fn tunnels_do_not_allocate() {
    let text = "s :: FastUDPFlows(0, 5000, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 3)
            -> MarkIPHeader(14) -> Strip(14) -> GetIPAddress(16)
            -> rt :: RadixIPsecLookup(10.9.0.9 0, 0/0 10.9.0.9 1 7 0123456789abcdef fedcba9876543210 1 32);
        rt[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> rt;
        rt[0] -> StripIPHeader -> IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap -> c :: Counter
            -> Discard";
    let mut worker = worker(text, TestRun::default()).unwrap();
    let [source, end] = ["s", "c"].map(|name| worker.plan().graph.find(name).unwrap());
    let made = |worker: &engine::Worker| worker.core().counters[source].made;
    while made(&worker) < 1000 && worker.step(1) {}
    let info = allocation_counter::measure(|| while made(&worker) < 4000 && worker.step(1) {});
    assert_eq!(info.count_total, 0);
    assert_eq!(worker.core().counters[end].arrived, made(&worker));
    let _ = worker.finish();
}

/// True for elements that make text from packets, which may allocate: the tests' collector of messages
/// grows with each line, scripts are interpreted, and checksum elements report bad packets, as in Click.
fn is_exempt(config: &str, class: &str) -> bool {
    let by_class = ["Script", "CheckCRC32", "SetTCPChecksum"].contains(&class) || class.ends_with("Print");
    by_class || config.contains("VERBOSE true")
}
