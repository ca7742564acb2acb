//! Handlers of Ethernet switches.

use engine::Worker;
use tidegate_testkit::{Run, worker};

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
    let mut worker = worker(text, Run::default()).unwrap();
    let all = "weight: 2\t0: 011\nweight: 2\t1: 101\nweight: 2\t2: 110\n";
    assert_eq!(read(&mut worker, "port_forwarding"), all);
    // One rule that is wrong keeps all from counting.
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
    let mut worker = worker(text, Run::default()).unwrap();
    assert_eq!(read(&mut worker, "timeout"), "60");
    for value in ["x", "-1", ""] {
        let told = write(&mut worker, "timeout", value);
        assert_eq!(told, Err("expected timeout (integer)".into()), "{value}");
    }
    write(&mut worker, "timeout", "1.5").unwrap();
    assert_eq!(read(&mut worker, "timeout"), "2");
}
