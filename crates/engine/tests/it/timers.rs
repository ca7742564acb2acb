//! Tests of timers while the driver always has tasks to run: packets that are held for microseconds leave
//! in time. Each task takes a microsecond of simulated time.

use testkit::TestRun;

/// Sends a packet every millisecond through an element, while two other sources are always busy. Returns
/// the longest time that the element held a packet, in microseconds.
fn held(element: &str) -> f64 {
    let text = format!(
        "RatedSource(LENGTH 60, RATE 1000, LIMIT 100, STOP true) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> SetTimestamp
            -> {element} -> held :: TimestampAccum -> Discard;
         InfiniteSource(BURST 1) -> Discard; InfiniteSource(BURST 1) -> Discard;"
    );
    let outcome =
        TestRun { burst: Some(1), ..TestRun::default() }.text(&text, &["held.count", "held.max"]).unwrap();
    let values: Vec<f64> =
        outcome.values.iter().map(|value| value.as_ref().unwrap().trim().parse().unwrap()).collect();
    assert!(values[0] >= 99.0, "{element}: {} packets", values[0]);
    values[1] / 1e3
}

#[test]
fn what_is_held_leaves_when_its_time_has_come() {
    for element in [
        "Reframer(64us, BYPASS none)",
        "Batcher(64us, 256)",
        "Queue -> DelayUnqueue(64us)",
        "Queue -> RatedUnqueue(1000000)",
        "Queue -> Shaper(1000000) -> Unqueue",
    ] {
        let held = held(element);
        // DelayUnqueue sets time stamps to the time at which packets are due, so the measured time counts
        // from there.
        let due = if element.starts_with("Queue") { 0.0 } else { 64.0 };
        // The tolerance of 5 µs is for one task of each source, one task that takes the packet out of the
        // queue, and one that releases it.
        assert!((due..due + 5.0).contains(&held), "{element}: {held} us");
    }
}
