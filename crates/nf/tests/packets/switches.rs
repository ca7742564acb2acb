//! Tests of Ethernet switches: handlers, time-outs and capacities.

use engine::Worker;
use testkit::timed::write_capture;
use testkit::{TestRun, worker};

fn read(worker: &mut Worker, name: &str) -> String {
    let id = worker.plan().graph.find("s");
    worker.read(id, name, "").unwrap()
}

fn write(worker: &mut Worker, name: &str, value: &str) -> Result<(), String> {
    let id = worker.plan().graph.find("s");
    worker.write(id, name, value)
}

#[test]
fn ways_are_closed_and_opened() {
    let text =
        "s :: EtherSwitch; Idle -> s -> Discard; Idle -> [1] s [1] -> Discard; Idle -> [2] s [2] -> Discard";
    let mut worker = worker(text, TestRun::default()).unwrap();
    let all = "weight: 2\t0: 011\nweight: 2\t1: 101\nweight: 2\t2: 110\n";
    assert_eq!(read(&mut worker, "port_forwarding"), all);
    // If one port pair in a list that is written to `remove_port_forwarding` is invalid, none of the pairs
    // takes effect.
    for value in ["3 0", "0 3", "0 1, 1 x", "x", "0 -1", "-1 0", "0 1, 9"] {
        let told = write(&mut worker, "remove_port_forwarding", value);
        assert_eq!(told, Err("invalid port forwarding".into()), "{value}");
        assert_eq!(read(&mut worker, "port_forwarding"), all, "{value}");
    }
    write(&mut worker, "remove_port_forwarding", "0 1 2, 2 0, 1").unwrap();
    let closed = "weight: 0\t0: 000\nweight: 2\t1: 101\nweight: 1\t2: 010\n";
    assert_eq!(read(&mut worker, "port_forwarding"), closed);
    write(&mut worker, "reset_port_forwarding", "").unwrap();
    assert_eq!(read(&mut worker, "port_forwarding"), all);
}

#[test]
fn timeouts_are_whole_seconds() {
    let text = "s :: EtherSwitch(TIMEOUT 1m); Idle -> s -> Discard; Idle -> [1] s [1] -> Discard";
    let mut worker = worker(text, TestRun::default()).unwrap();
    assert_eq!(read(&mut worker, "timeout"), "60");
    for value in ["x", "-1", ""] {
        let told = write(&mut worker, "timeout", value);
        assert_eq!(told, Err("expected timeout (integer)".into()), "{value}");
    }
    write(&mut worker, "timeout", "1.5").unwrap();
    assert_eq!(read(&mut worker, "timeout"), "2");
}

/// Sends one frame of each of `hosts` hosts, `gap` nanoseconds apart, to an unknown host. Returns the
/// values of the switch's handlers at the end.
fn after_frames(switch: &str, hosts: u32, gap: i64, handlers: &[&str]) -> Vec<String> {
    let frame = |host: u32| [&[2, 1, 0, 0, 0, 0, 2, 0][..], &host.to_be_bytes(), &[8, 0], &[0; 46]].concat();
    let frames: Vec<_> = (0..hosts).map(|host| (i64::from(host) * gap, frame(host))).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.pcap");
    write_capture(&file, &frames);
    let text = format!(
        "FromDump(\"{}\", STOP true) -> s :: {switch} -> Discard; Idle -> [1] s [1] -> Discard",
        file.display()
    );
    let outcome = TestRun::trace().text(&text, handlers).unwrap();
    outcome.values.into_iter().map(Result::unwrap).collect()
}

/// 200,000 hosts come in ten hours, 333 per minute. With a time-out of a minute, the table shows only the
/// hosts of the last minute.
#[test]
fn hosts_that_nobody_sends_to_are_forgotten() {
    let values = after_frames("EtherSwitch(TIMEOUT 60)", 200_000, 180_000_000, &["s.table", "s.count"]);
    assert_eq!(values[0].lines().count(), 334);
    let count: usize = values[1].parse().unwrap();
    assert!((334..700).contains(&count), "{count}");
}

#[test]
fn no_more_hosts_are_noted_than_there_is_room_for() {
    let handlers = ["s.count", "s.unlearnt", "s.table"];
    let values = after_frames("EtherSwitch(CAPACITY 100)", 1_000, 1, &handlers);
    assert_eq!((&values[0][..], &values[1][..], values[2].lines().count()), ("100", "900", 100));
    // With a time-out, expired entries make room, so that each host is learnt.
    let values = after_frames("EtherSwitch(CAPACITY 100, TIMEOUT 1)", 1_000, 20_000_000, &handlers);
    assert_eq!((&values[1][..], values[2].lines().count()), ("0", 50));
    assert_eq!(after_frames("EtherSwitch", 300_000, 1, &handlers)[0], "262144");
}

#[test]
fn capacities_that_are_not_possible_are_refused() {
    for capacity in ["0", "4294967295"] {
        let text =
            format!("Idle -> s :: EtherSwitch(CAPACITY {capacity}) -> Discard; Idle -> [1] s [1] -> Discard");
        let told = worker(&text, TestRun::default()).err().unwrap_or_default();
        assert!(told.contains("CAPACITY: a flow table of"), "{told}");
    }
}
