//! Tests of timers next to tasks that never finish, one microsecond each: packets held for microseconds
//! leave in time.

use testkit::Run;

/// Returns the longest time that a packet was held, in microseconds, next to a busy source; one packet
/// comes every millisecond.
fn held(element: &str) -> f64 {
    let text = format!(
        "RatedSource(LENGTH 60, RATE 1000, LIMIT 100, STOP true) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> SetTimestamp
            -> {element} -> held :: TimestampAccum -> Discard;
         InfiniteSource(BURST 1) -> Discard; InfiniteSource(BURST 1) -> Discard;"
    );
    let outcome = Run { burst: Some(1), ..Run::default() }.text(&text, &["held.count", "held.max"]).unwrap();
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
        // DelayUnqueue sets time stamps to the time at which packets are due.
        let due = if element.starts_with("Queue") { 0.0 } else { 64.0 };
        // A task of each source, one that takes the packet out of the queue, and one that releases it.
        assert!((due..due + 5.0).contains(&held), "{element}: {held} us");
    }
}
