//! Interfaces by AF_XDP on several workers: queues for each worker, or fewer queues, which workers then
//! share; connections that are spread; errors at one queue; reloads; and all ways in which a run can end.
//! Skipped with a message if network namespaces cannot be created.

mod line;

use std::net::Ipv4Addr;
use std::path::Path;

use lab::{DatagramStream, RunningProgram, ping};
use line::{Control, Line, RIGHT, TIDEGATE, has_xdp, run, send, value, when};
use serde_json::Value;

/// The destination of streams.
const PORT: (Ipv4Addr, u16) = (RIGHT, 9);

/// Returns the number with this key in the report of each worker, after a check that the totals of packets
/// are consistent.
fn of_workers(report: &Path, name: &str) -> Vec<u64> {
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let totals = &report["totals"];
    let number = |name: &str| totals[name].as_u64().unwrap();
    assert_eq!(number("in"), number("out") + number("held") + number("dropped"), "{report}");
    let workers = report["workers"].as_array().unwrap();
    workers.iter().map(|worker| worker[name].as_u64().unwrap()).collect()
}

/// True if an XDP program is attached to the interface `left`.
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
    options.extend(handlers.iter().flat_map(|handler| ["-H", handler]));
    let running = line.forward_by_xdp("", &options);
    line.check();
    // With 64 flows, some flows arrive at each of the two queues.
    let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 64);
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
fn an_interface_that_takes_no_secret_key_is_named_and_served() {
    for (keyword, is_asked) in [("", true), (", RSS_KEY own", false), (", QUEUE 0", false)] {
        // Virtual cables have no hash key that could be set.
        let Some(line) = Line::wide(2).filter(has_xdp) else { return };
        let config = format!("left :: FromXDP(left{keyword}) -> Discard");
        let options = ["--threads", "2", "-H", "left.count", "-H", "left.rss_key"];
        let running = run(&line.between, &config, &options);
        let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 64);
        // The test program forwards nothing to the machine on the right, so it cannot wait for arrivals.
        std::thread::sleep(std::time::Duration::from_millis(200));
        stream.stop();
        let (good, [output, messages]) = running.stop();
        let what = format!("{keyword}: {output}{messages}");
        assert!(good && output.contains("left.rss_key:\nown\n"), "{what}");
        // With `QUEUE 0`, FromXDP may get nothing, because the interface may give all packets to its other
        // queue.
        assert!(value(&output, "left.count") > 0 || keyword.contains("QUEUE"), "{what}");
        let told = "left: spreads packets over its queues by its own key, which may be publicly known";
        let reason = "the interface does not accept a secret key (Operation not supported)";
        assert_eq!(messages.matches(told).count(), usize::from(is_asked), "{what}");
        assert_eq!(messages.contains(reason), is_asked, "{what}");
    }
}

#[test]
fn workers_without_a_queue_to_send_by_have_those_of_others() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    // The interface has one queue, which all workers share: each worker gets the flows that it owns from it.
    let config =
        "left :: FromXDP(left, PROMISC true) -> MarkIPHeader(14) -> FlowCounter -> to_right :: ToXDP(right);
         right :: FromXDP(right, PROMISC true) -> MarkIPHeader(14) -> FlowCounter -> to_left :: ToXDP(left)";
    let handlers = ["left.queues", "left.count", "to_right.count", "to_right.copied"];
    let mut options = vec!["--threads", "2", "--json", report.to_str().unwrap()];
    options.extend(handlers.iter().flat_map(|handler| ["-H", handler]));
    let running = run(&line.between, config, &options);
    line.check();
    let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 64);
    stream.wait_for(2000);
    let [arrived, missing, doubled] = stream.stop();
    let (good, [output, messages]) = running.stop();
    assert!(good && (missing, doubled) == (0, 0) && arrived > 100, "{arrived} {missing} {output}{messages}");
    assert_eq!(value(&output, "left.queues"), 1, "{output}");
    assert_eq!(value(&output, "to_right.count"), value(&output, "left.count"), "{output}{messages}");
    // Packets are sent from the slots in which they arrived, without copies.
    assert_eq!(value(&output, "to_right.copied"), 0, "{output}");
    // The kernel gives each flow to its worker. Only to be sent, packets go to another worker: from the
    // second worker to the first, which alone has a queue to send by.
    let (came, handed) = (of_workers(&report, "in"), of_workers(&report, "handed"));
    assert!(came.iter().all(|&packets| packets > 500), "{came:?}");
    assert!(handed[1] > 500 && handed[0] < came[0] / 10, "{handed:?}");
}

/// Runs a configuration on `workers` workers, with the report in a file.
fn start(line: &Line, workers: usize, config: &str, more: &[&str], report: &Path) -> RunningProgram {
    let workers = workers.to_string();
    let options =
        ["--threads", &workers, "--json", report.to_str().unwrap(), "-H", "left.count", "-H", "left.queues"];
    let options = [&options[..], &["-H", "left.kernel_drops", "-H", "left.mode"], more].concat();
    run(&line.between, config, &options)
}

#[test]
fn a_queue_of_all_workers_gives_flows_to_the_worker_that_they_belong_to() {
    for (workers, mode) in [(1, "native"), (2, "native"), (4, "native"), (2, "skb"), (4, "skb")] {
        // Each worker has a queue for sending.
        let Some(line) = Line::with_queues(1, workers).filter(has_xdp) else { return };
        line.know_each_other();
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let config = format!(
            "left :: FromXDP(left, PROMISC true, MODE {mode}) -> MarkIPHeader(14) -> FlowCounter -> to :: ToXDP(right)"
        );
        let running = start(&line, workers, &config, &["-H", "to.count"], &report);
        let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 64);
        stream.wait_for(4000);
        let [arrived, missing, doubled] = stream.stop();
        let (good, [output, messages]) = running.stop();
        let what = format!("{workers} {mode}: {arrived} {missing} {output}{messages}");
        assert!(good && (missing, doubled) == (0, 0) && arrived >= 4000, "{what}");
        assert!(
            output.contains(&format!("left.mode:\n{mode}\n")) && value(&output, "left.queues") == 1,
            "{what}"
        );
        assert_eq!(value(&output, "to.count"), value(&output, "left.count"), "{what}");
        assert_eq!(value(&output, "left.kernel_drops"), 0, "{what}");
        if workers == 1 {
            continue;
        }
        let (came, handed) = (of_workers(&report, "in"), of_workers(&report, "handed"));
        assert!(came.len() == workers && came.iter().all(|&packets| packets > 100), "{came:?}: {what}");
        assert!(handed.iter().all(|&packets| packets == 0), "{handed:?}: {what}");
    }
}

/// Fifty TCP connections, one after the other, of a hundred packets each.
const CONNECTIONS: &str =
    "FastTCPFlows(5000, 5000, 100, 2:0:0:0:0:1, 10.77.0.1, 2:0:0:0:0:2, 10.77.0.2, 1, 100)";

#[test]
fn a_queue_of_all_workers_spreads_connections() {
    // Packets that open or close a connection go to the worker that owns the connection's state.
    let config = |mode: &str| {
        format!(
            "left :: FromXDP(left, PROMISC true, MODE {mode}) -> MarkIPHeader(14)
                 -> opens :: IPClassifier(tcp opt syn or tcp opt fin or tcp opt rst, -);
             opens[0] -> FlowCounter -> connections :: Counter -> Discard;
             opens[1] -> others :: Counter -> Discard"
        )
    };
    for (workers, queues, mode, more) in [
        (2, 1, "native", ""),
        (4, 1, "native", ""),
        (4, 1, "skb", ""),
        (2, 2, "native", ""),
        (4, 1, "native", "--spray-cores 2"),
    ] {
        let Some(line) = Line::with_queues(queues, 1).filter(has_xdp) else { return };
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let more: Vec<_> = more.split_whitespace().collect();
        let options =
            [&["--steering", "spray", "-H", "connections.count", "-H", "others.count"], &more[..]].concat();
        let running = start(&line, workers, &config(mode), &options, &report);
        send(&line.left, "eth0", CONNECTIONS, 5000);
        let (good, [output, messages]) = running.stop();
        let what = format!("{workers} {queues} {mode} {more:?}: {output}{messages}");
        let (came, handed) = (of_workers(&report, "in"), of_workers(&report, "handed"));
        assert!(good && handed.iter().all(|&packets| packets == 0), "{handed:?}: {what}");
        assert_eq!(value(&output, "left.queues"), queues as u64, "{what}");
        // The sender may be faster than the cable, so some packets may be lost ahead of the interface `left`.
        let [all, drops] = ["left.count", "left.kernel_drops"].map(|name| value(&output, name));
        assert!(all > 1000 && all + drops <= 5010, "{what}");
        let [opens, others] = ["connections.count", "others.count"].map(|name| value(&output, name));
        assert!(opens > 0 && opens + others == all, "{what}");
        assert!(came.iter().all(|&packets| packets > all / workers as u64 / 3), "{came:?}: {what}");
    }
}

#[test]
fn order_is_kept_by_software() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let config =
        "left :: FromXDP(left, PROMISC true) -> MarkIPHeader(14) -> FlowCounter -> to_right :: ToXDP(right);
         right :: FromXDP(right, PROMISC true) -> MarkIPHeader(14) -> FlowCounter -> to_left :: ToXDP(left)";
    for steering in ["spray", "flowlet", "auto"] {
        let options = ["--threads", "2", "--steering", steering, "--order", "keep"];
        let running = run(&line.between, config, &options);
        line.check();
        let (good, [_, messages]) = running.stop();
        assert!(good, "{steering}: {messages}");
    }
}

#[test]
fn slots_of_guests_come_home() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    // The memory for packets (136M) is the minimum: about 28,000 slots for each worker. All packets arrive at
    // the first worker.
    let config = "left :: FromXDP(left, PROMISC true, RING 512) -> MarkIPHeader(14) -> FlowCounter -> to :: ToXDP(right)";
    let running = start(&line, 2, config, &["--memory", "136M", "-H", "to.count"], &report);
    let flood = "FastUDPFlows(0, 200000, 100, 2:0:0:0:0:1, 10.77.0.1, 2:0:0:0:0:2, 10.77.0.2, 64, 1000)";
    send(&line.left, "eth0", flood, 200_000);
    // Packets of the first sender (the flood) may still fill the rings, so that some packets of the stream
    // are lost.
    let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 64);
    stream.wait_for(2000);
    let [arrived, _, doubled] = stream.stop();
    let (good, [output, messages]) = running.stop();
    assert!(good && doubled == 0 && arrived >= 2000, "{arrived} {output}{messages}");
    assert!(value(&output, "left.count") > 30_000, "more than there are slots: {output}{messages}");
}

#[test]
fn an_owner_that_sleeps_is_woken_for_its_guest() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let config = "left :: FromXDP(left, PROMISC true, RING 64) -> c :: Counter -> Discard";
    // The traffic is one flow. Only the first worker gives the kernel free slots, 64 at a time, and has to be
    // woken for that when the second worker receives. The key of the run decides which worker receives the
    // flow, so runs are repeated until it is the second worker.
    let flow = "RatedSource(LENGTH 50, RATE 10000, LIMIT 5000) -> UDPIPEncap(10.77.0.1, 1000, 10.77.0.2, 9)
         -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)";
    let is_of_the_second = (0..30).any(|_| {
        let running = start(&line, 2, config, &["-H", "c.count"], &report);
        send(&line.left, "eth0", flow, 5000);
        let (good, [output, messages]) = running.stop();
        let came = of_workers(&report, "in");
        assert!(
            good && came[0].max(came[1]) > 1000 && came[0].min(came[1]) < 100,
            "{came:?} {output}{messages}"
        );
        came[1] > came[0]
    });
    assert!(is_of_the_second);
}

#[test]
fn guests_go_in_the_middle_of_it() {
    for workers in [2, 4] {
        let Some(line) = Line::new().filter(has_xdp) else { return };
        line.know_each_other();
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let config = "left :: FromXDP(left, PROMISC true, GONE stop) -> MarkIPHeader(14) -> FlowCounter -> ToXDP(right)";
        // After each way in which a run can end, the next run can use the interface's queue. The last run
        // ends because the cable is removed.
        for ends in ["stop", "kill", "stop", "unplug"] {
            let running = start(&line, workers, config, &[], &report);
            assert!(has_program(&line));
            let stream = DatagramStream::start(&line.left, &line.right, PORT.into(), 64);
            stream.wait_for(500);
            match ends {
                "kill" => running.signal("KILL"),
                "stop" => running.signal("TERM"),
                _ => drop(line.left.ip("link del eth0").unwrap()),
            }
            let (good, [output, messages]) = running.end();
            assert_eq!(good, ends == "stop", "{ends}: {messages}");
            let was_removed = messages.contains("left: the interface was removed (GONE stop)");
            assert_eq!(was_removed, ends == "unplug", "{messages}");
            stream.stop();
            if ends != "kill" {
                // Every packet that the interface counted appears in the report, even packets that were still
                // in rings when the run ended.
                let came = of_workers(&report, "in");
                assert!(came.iter().sum::<u64>() >= value(&output, "left.count"), "{came:?} {output}");
            }
            assert!(ends == "unplug" || !has_program(&line));
        }
    }
}

#[test]
fn what_another_worker_makes_is_sent_too() {
    let Some(line) = Line::wide(2).filter(has_xdp) else { return };
    for (queue, copied) in [("", 0), (", 0", 500), (", 1", 0)] {
        // Without StaticThreadSched, a source runs on the first worker.
        let config = format!(
            "s :: RatedSource(LENGTH 100, RATE 5000, LIMIT 500) -> to :: ToXDP(right{queue});
             StaticThreadSched(s 1); {}",
            when("to.count", 500, "stop")
        );
        let options = ["--threads", "2", "-H", "to.count", "-H", "to.copied"];
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
    // The receiving elements, and so all queues of the interfaces, are at the second worker. The first worker
    // has to send through these queues.
    let config = "left :: FromXDP(left, PROMISC true) -> Null -> to_right :: ToXDP(right);
         right :: FromXDP(right, PROMISC true) -> Null -> to_left :: ToXDP(left); StaticThreadSched(left 1, right 1)";
    let options = ["--threads", "2", "-H", "left.queues", "-H", "left.count", "-H", "to_right.count"];
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
    // Without an assignment, all workers share each queue. With an assignment to threads, each worker has its
    // own queue.
    for (threads, assigned) in
        [("1", ""), ("2", ""), ("2", "; StaticThreadSched(b 1)"), ("2", "; StaticThreadSched(a 1, b 0)")]
    {
        let options = ["--threads", threads, "--steering", "spray", "-H", "a.queues", "-H", "b.queues"];
        let running = run(&line.between, &format!("{config}{assigned}"), &options);
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
        // The failed start had opened another queue of the interface before the error. It has been closed, so
        // this run can open all queues.
        let running = run(&line.between, "FromXDP(left) -> Discard", &["--threads", "2"]);
        assert!(has_program(&line) && running.stop().0);
    }
    // Here the start fails at the first worker, while the second worker already uses its share of the queues.
    let late = "FromXDP(left, 0) -> Discard; Idle -> ToDump(/no/such/folder/file)";
    let output = line.between.command(TIDEGATE).args(["run", "--threads", "2", "-e", late]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("/no/such/folder/file"), "{said}");
    assert!(!has_program(&line) && !said.contains("panicked"), "{said}");
    let running = run(&line.between, "FromXDP(left) -> Discard", &["--threads", "2"]);
    assert!(has_program(&line) && running.stop().0);
    let one = "FromXDP(left) -> Discard; FromXDP(left, MODE skb) -> Discard";
    let output = line.between.command(TIDEGATE).args(["run", "-e", one]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("MODE: conflicts with another FromXDP on left; give both the same MODE"), "{said}");
}

#[test]
fn a_configuration_in_the_place_of_another_one_has_its_program() {
    let Some(line) = Line::new().filter(has_xdp) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control");
    let config = "left :: FromXDP(left, PROMISC true) -> ToXDP(right);
         right :: FromXDP(right, PROMISC true) -> ToXDP(left)";
    let ready = format!("{config}; Script(print \"ready\")");
    let socket = path.display().to_string();
    let mut running =
        line.between.start(TIDEGATE, &["click", "--allow-config", "-u", &socket, "-e", &ready]).unwrap();
    let mut control = Control::open(&path);
    // The new configuration needs the same queues as the running one, so its elements take the open queues
    // over.
    control.write("hotconfig", config).unwrap();
    assert!(has_program(&line));
    let other = config.replace("PROMISC true", "PROMISC true, RING 1024");
    let refused = control.write("hotconfig", &other).unwrap_err();
    assert!(refused.contains("a reload cannot change their QUEUE, MODE, RING"), "{refused}");
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
