//! Interfaces by AF_XDP on several workers: queues for all of them or fewer, errors at one of them, other configurations in
//! the place of a running one, and ends of all kinds. Skipped with a message where there can be no network namespaces.

mod line;

use std::net::Ipv4Addr;
use std::path::Path;

use lab::{Stream, ping};
use line::{Control, Line, RIGHT, TIDEGATE, has_xdp, run, value, when};
use serde_json::Value;

/// Where streams go to.
const PORT: (Ipv4Addr, u16) = (RIGHT, 9);

/// The numbers of this name of each worker in a report.
fn of_workers(report: &Path, name: &str) -> Vec<u64> {
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let totals = &report["totals"];
    let number = |name: &str| totals[name].as_u64().unwrap();
    assert_eq!(number("in"), number("out") + number("held") + number("dropped"), "{report}");
    let workers = report["workers"].as_array().unwrap();
    workers.iter().map(|worker| worker[name].as_u64().unwrap()).collect()
}

/// Whether a program is at the interface `left`.
fn has_program(line: &Line) -> bool {
    line.between.ip("-d link show dev left").unwrap().contains("xdp")
}

#[test]
fn each_worker_has_its_queues() {
    let Some(line) = Line::wide(2).filter(has_xdp) else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let handlers = ["left.mode", "left.queues", "left.count", "to_right.count", "to_right.copied"];
    let mut options = vec!["--threads", "2", "--json", report.to_str().unwrap()];
    options.extend(handlers.iter().flat_map(|handler| ["-h", handler]));
    let running = line.forward_by_xdp("", &options);
    line.check();
    // So many flows that some of them come by each queue.
    let stream = Stream::start(&line.left, &line.right, PORT.into(), 64);
    stream.wait_for(2000);
    let [arrived, missing, doubled] = stream.stop();
    let (good, [output, messages]) = running.stop();
    assert!(good && (missing, doubled) == (0, 0) && arrived > 100, "{arrived} {missing} {output}{messages}");
    assert!(output.contains("left.mode:\nnative\n") && value(&output, "left.queues") == 2, "{output}");
    assert_eq!(value(&output, "to_right.count"), value(&output, "left.count"), "{output}{messages}");
    assert_eq!(value(&output, "to_right.copied"), 0, "each sends from where it has received: {output}");
    let came = of_workers(&report, "in");
    assert!(came.len() == 2 && came.iter().all(|&packets| packets > 50), "{came:?}");
    assert_eq!(of_workers(&report, "handed"), [0, 0]);
}

#[test]
fn workers_without_a_queue_send_by_others() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    // One queue, from which flows go to the workers that they belong to.
    let config =
        "left :: FromXDP(left, PROMISC true) -> MarkIPHeader(14) -> FlowCounter -> to_right :: ToXDP(right);
         right :: FromXDP(right, PROMISC true) -> MarkIPHeader(14) -> FlowCounter -> to_left :: ToXDP(left)";
    let handlers = ["left.queues", "left.count", "to_right.count", "to_right.copied"];
    let mut options = vec!["--threads", "2", "--json", report.to_str().unwrap()];
    options.extend(handlers.iter().flat_map(|handler| ["-h", handler]));
    let running = run(&line.between, config, &options);
    line.check();
    let stream = Stream::start(&line.left, &line.right, PORT.into(), 64);
    stream.wait_for(2000);
    let [arrived, missing, doubled] = stream.stop();
    let (good, [output, messages]) = running.stop();
    assert!(good && (missing, doubled) == (0, 0) && arrived > 100, "{arrived} {missing} {output}{messages}");
    assert_eq!(value(&output, "left.queues"), 1, "{output}");
    assert_eq!(value(&output, "to_right.count"), value(&output, "left.count"), "{output}{messages}");
    // They come back to where their slots are.
    assert_eq!(value(&output, "to_right.copied"), 0, "{output}");
    let (came, handed) = (of_workers(&report, "in"), of_workers(&report, "handed"));
    assert!(came[0] > 1000 && came[1] == 0, "{came:?}");
    assert!(handed[0] > 50 && handed[0] == handed[1], "there and back again: {handed:?}");
}

#[test]
fn what_another_worker_makes_is_sent_too() {
    let Some(line) = Line::wide(2).filter(has_xdp) else { return };
    for (queue, copied) in [("", 0), (", 0", 500), (", 1", 0)] {
        // Without StaticThreadSched a source is at the first worker.
        let config = format!(
            "s :: RatedSource(LENGTH 100, RATE 5000, LIMIT 500) -> to :: ToXDP(right{queue});
             StaticThreadSched(s 1); {}",
            when("to.count", 500, "stop")
        );
        let options = ["--threads", "2", "-h", "to.count", "-h", "to.copied"];
        let (good, [output, messages]) = run(&line.between, &config, &options).end();
        assert!(good, "{messages}");
        let row = messages.lines().find(|line| line.starts_with("to :: ToXDP")).unwrap_or_default();
        let numbers: Vec<_> = row.split_whitespace().skip(3).take(2).collect();
        assert_eq!(numbers, ["500", "500"], "{queue}: {messages}");
        assert_eq!(value(&output, "to.copied"), copied, "{queue}: {output}");
    }
}

#[test]
fn an_element_may_be_at_one_worker() {
    let Some(line) = Line::wide(2).filter(has_xdp) else { return };
    // All queues are at the second one, and the first one has to send by them.
    let config = "left :: FromXDP(left, PROMISC true) -> Null -> to_right :: ToXDP(right);
         right :: FromXDP(right, PROMISC true) -> Null -> to_left :: ToXDP(left); StaticThreadSched(left 1, right 1)";
    let options = ["--threads", "2", "-h", "left.queues", "-h", "left.count", "-h", "to_right.count"];
    let running = run(&line.between, config, &options);
    line.check();
    let (good, [output, messages]) = running.stop();
    assert!(good && value(&output, "left.queues") == 2, "{output}{messages}");
    assert_eq!(value(&output, "to_right.count"), value(&output, "left.count"), "{output}{messages}");
}

#[test]
fn queues_of_an_interface_may_have_elements_of_their_own() {
    let Some(line) = Line::wide(2).filter(has_xdp) else { return };
    let config = "a :: FromXDP(left, 0, PROMISC true) -> ToXDP(right, 0); b :: FromXDP(left, 1, PROMISC true) -> ToXDP(right, 1);
         FromXDP(right, 0, PROMISC true) -> ToXDP(left, 0); FromXDP(right, 1, PROMISC true) -> ToXDP(left, 1)";
    for threads in ["1", "2"] {
        let options = ["--threads", threads, "-h", "a.queues", "-h", "b.queues"];
        let running = run(&line.between, config, &options);
        line.check();
        let (good, [output, messages]) = running.stop();
        assert!(good, "{messages}");
        assert_eq!((value(&output, "a.queues"), value(&output, "b.queues")), (1, 1), "{output}");
    }
}

#[test]
fn no_program_of_workers_is_left_behind() {
    let Some(line) = Line::wide(2).filter(has_xdp) else { return };
    for signal in ["TERM", "KILL"] {
        let running = line.forward_by_xdp("", &["--threads", "2"]);
        assert!(has_program(&line));
        running.signal(signal);
        let (good, [_, messages]) = running.end();
        assert_eq!(good, signal == "TERM", "{messages}");
        assert!(!has_program(&line), "{signal}");
    }
}

#[test]
fn an_error_at_one_worker_leaves_nothing_attached() {
    let Some(line) = Line::wide(2).filter(has_xdp) else { return };
    for queue in [0, 1] {
        let other = format!("FromDevice(lo) -> Discard; Idle -> ToXDP(left, {queue})");
        let other = run(&line.between, &other, &[]);
        let refused = ["run", "--threads", "2", "-e", "FromXDP(left) -> Discard; Script(wait 9s, stop)"];
        let output = line.between.command(TIDEGATE).args(refused).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let text = "left: bind: Device or resource busy; another socket has this queue";
        assert!(output.status.code() == Some(1) && said.contains(text), "{queue}: {said}");
        assert!(!has_program(&line), "{queue}");
        let (good, [_, messages]) = other.stop();
        assert!(good, "{messages}");
        // What it has opened is free again.
        let running = run(&line.between, "FromXDP(left) -> Discard", &["--threads", "2"]);
        assert!(has_program(&line) && running.stop().0);
    }
    let one = "FromXDP(left) -> Discard; FromXDP(left, MODE skb) -> Discard";
    let output = line.between.command(TIDEGATE).args(["run", "-e", one]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("MODE: another FromXDP(left) has another"), "{said}");
}

#[test]
fn a_configuration_in_the_place_of_another_one_has_its_own_program() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let config = "left :: FromXDP(left, PROMISC true) -> ToXDP(right);
         right :: FromXDP(right, PROMISC true) -> ToXDP(left)";
    let ready = format!("{config}; Script(print \"ready\")");
    let socket = path.display().to_string();
    let mut running = line.between.start(TIDEGATE, &["click", "-R", "-u", &socket, "-e", &ready]).unwrap();
    let mut control = Control::open(&path);
    // Both want the queues; the one at work has them.
    assert!(control.write("hotconfig", config).unwrap_err().contains("another socket has this queue"));
    assert!(has_program(&line));
    assert_eq!(ping(&line.left, RIGHT, 3), 3);
    control.write("hotconfig", "Idle -> Discard; Script(print \"other\")").unwrap();
    running.wait_until_said("other").unwrap();
    assert!(!has_program(&line));
    control.write("hotconfig", &ready.replace("ready", "again")).unwrap();
    running.wait_until_said("again").unwrap();
    assert_eq!(ping(&line.left, RIGHT, 3), 3);
    let (_, [_, messages]) = running.stop();
    assert!(!has_program(&line), "{messages}");
}
