//! Reloads while packets flow over interfaces of each kind: a firewall, a NAT and a router forward TCP, UDP
//! and pings, and no packet is lost or overtaken. The interfaces stay open. Reloads that cannot succeed
//! change nothing. Skipped with a message if network namespaces cannot be created.

mod line;
mod reloads;

use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lab::{DatagramStream, ping};
use line::{Line, has_xdp, run};
use reloads::{FAR, Kind, Run, flows_pass, network, networks};

/// Returns a lock with which one test runs at a time: each uses several processors, and removing namespaces
/// makes the kernel wait.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the configurations of network functions `times` times while flows pass through them, with each
/// kind of interface: packet sockets, AF_XDP, TAP.
fn flows_pass_with_each_kind(times: usize) {
    let _alone = alone();
    // With one queue, two workers share it.
    for (workers, queues) in [(1, 1), (2, 2), (2, 1)] {
        let Some(line) = networks(queues) else { return };
        let xdp = has_xdp(&line);
        for kind in [Kind::Packet, Kind::Xdp, Kind::Tap] {
            let is_other = queues == workers || kind == Kind::Xdp;
            if is_other && (kind != Kind::Xdp || xdp) {
                flows_pass(&line, kind, workers, times);
            }
        }
    }
}

#[test]
fn flows_pass_while_network_functions_are_replaced() {
    flows_pass_with_each_kind(20);
}

#[test]
#[ignore = "takes minutes; bench/nightly runs it"]
fn flows_pass_while_network_functions_are_replaced_often() {
    flows_pass_with_each_kind(500);
}

/// True if an XDP program is attached to an interface of the machine in the middle.
fn has_program(line: &Line, interface: &str) -> bool {
    line.between.ip(&format!("-d link show dev {interface}")).unwrap().contains("prog/xdp")
}

#[test]
fn interfaces_are_closed_and_opened_with_their_elements() {
    let _alone = alone();
    for (workers, queues) in [("1", 1), ("2", 2), ("2", 1)] {
        let Some(line) = networks(queues).filter(has_xdp) else { return };
        let whole = network(Kind::Xdp, 0);
        let one = "a :: FromXDP(left, PROMISC true) -> Discard";
        let run = Run::start(&line, Kind::Xdp, one, &["--threads", workers]);
        let before = run.open();
        for _ in 0..5 {
            run.must_reload(&whole);
            assert!(has_program(&line, "left") && has_program(&line, "right"), "{workers}");
            assert_eq!(ping(&line.left, FAR, 2), 2, "{workers}");
            run.must_reload(one);
            assert!(has_program(&line, "left") && !has_program(&line, "right"), "{workers}");
            run.wait_until_closed(before);
        }
        run.must_reload("Idle -> Discard");
        assert!(!has_program(&line, "left"));
        run.must_reload(&whole);
        assert_eq!(ping(&line.left, FAR, 2), 2, "{workers}");
        let (good, [_, messages]) = run.running.stop();
        assert!(good && !messages.contains("panicked") && !messages.contains("unaccounted"), "{messages}");
        assert!(!has_program(&line, "left") && !has_program(&line, "right"), "{workers}");
    }
}

#[test]
fn queues_are_kept_one_by_one() {
    let _alone = alone();
    let Some(line) = networks(2).filter(has_xdp) else { return };
    let queue = |number: usize| format!("q{number} :: FromXDP(left, {number}) -> Discard;");
    let both = queue(0) + &queue(1);
    let source = |ring: usize| {
        format!("RatedSource(LENGTH 60, RATE 1000) -> Queue -> to{ring} :: ToXDP(right, 0, RING {ring})")
    };
    for workers in ["1", "2"] {
        let run = Run::start(&line, Kind::Xdp, &(both.clone() + &source(512)), &["--threads", workers]);
        let before = reloads::identity(&line, Kind::Xdp);
        // In a reload, a ToXDP keeps its open queue even if it gets another name, and its interface has no
        // FromXDP.
        let other = source(512).replace("to512", "other");
        run.must_reload(&(both.clone() + &other));
        run.must_refuse(&(both.clone() + &source(256)), "right: the running configuration sends by queue 0");
        run.must_reload(&(queue(0) + &other));
        assert_eq!(reloads::identity(&line, Kind::Xdp), before, "{workers}");
        run.must_refuse(&(both.clone() + &other), "left: the running configuration receives from it");
        run.must_reload("Idle -> Discard");
        assert!(!has_program(&line, "left"));
        run.must_reload(&(both.clone() + &source(256)));
        let (good, [_, messages]) = run.running.stop();
        assert!(good && !messages.contains("panicked") && !messages.contains("unaccounted"), "{messages}");
    }
}

#[test]
fn what_cannot_be_installed_changes_nothing() {
    let _alone = alone();
    let Some(line) = networks(1) else { return };
    let xdp = has_xdp(&line);
    // Another program receives from the interface `other`, so that a configuration that uses it cannot be
    // installed.
    line.net.cable([(&line.right, "eth1", "10.9.0.1/24"), (&line.between, "other", "")]).unwrap();
    let other = run(&line.between, "FromDevice(other) -> Discard", &[]);
    let claimed = format!("other: another tidegate (process {}) receives from it", other.id());
    for (kind, threads) in [(Kind::Packet, "1"), (Kind::Packet, "2"), (Kind::Xdp, "1"), (Kind::Xdp, "2")] {
        if kind == Kind::Xdp && !xdp {
            continue;
        }
        let right = network(kind, 0);
        let running = Run::start(&line, kind, &right, &["--threads", threads]);
        let stream = DatagramStream::start(&line.left, &line.right, (FAR, 9).into(), 32);
        stream.wait_for(50);
        let before = running.open();
        let more = |text: &str| format!("{right}; {text}");
        for (text, error) in [
            (more("FromDevice(eth9) -> Discard"), "eth9: SIOCGIFINDEX: No such device"),
            (more("FromXDP(eth9) -> Discard"), "eth9: SIOCGIFINDEX: No such device"),
            (more("Idle -> ToDevice(eth9)"), "eth9: SIOCGIFINDEX: No such device"),
            (more("FromDevice(other) -> Discard"), &*claimed),
            (more("FromXDP(other) -> Discard"), &*claimed),
        ] {
            running.must_refuse(&text, error);
            stream.wait_for(20);
        }
        let changes: &[(&str, &str)] = match kind {
            Kind::Xdp => &[
                ("FromXDP(left,", "FromXDP(left, RING 1024,"),
                ("FromXDP(left,", "FromXDP(left, MODE skb,"),
                ("FromXDP(left,", "FromXDP(left, QUEUE 0,"),
            ],
            _ => &[],
        };
        for (from, to) in changes {
            running.must_refuse(&right.replace(from, to), "left: the running configuration receives from it");
            stream.wait_for(20);
        }
        running.must_reload(&network(kind, 1));
        stream.wait_for(50);
        assert_eq!(stream.stop()[1..], [0, 0], "{kind:?} {threads}");
        running.wait_until_closed(before);
        let (good, [_, messages]) = running.running.stop();
        assert!(good && !messages.contains("panicked"), "{messages}");
    }
    other.stop();
}

#[test]
fn a_tap_cannot_change_its_address_and_is_otherwise_kept() {
    let _alone = alone();
    let Some(line) = networks(1) else { return };
    let running = Run::start(&line, Kind::Tap, "KernelTun(10.9.0.1/24, DEVNAME tun7) -> Discard", &[]);
    let index = || line.between.ip("link show dev tun7").unwrap().split(':').next().map(String::from);
    let before = index();
    let changed = "KernelTun(10.9.1.1/24, DEVNAME tun7) -> Discard";
    running.must_refuse(changed, "tun7: the running configuration has it with another type, address");
    running.must_reload("other :: KernelTun(10.9.0.1/24, DEVNAME tun7) -> Null -> Discard");
    assert_eq!(index(), before);
    running.must_reload("Idle -> Discard");
    assert!((0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !line.between.has("tun7")
    }));
    running.must_reload(changed);
    assert!(line.between.has("tun7"));
    let (good, [_, messages]) = running.running.stop();
    assert!(good, "{messages}");
}

/// A program that is killed while it reloads leaves nothing at the interfaces, and can be started again.
#[test]
fn a_program_that_is_killed_while_it_reloads_can_start_again() {
    let _alone = alone();
    let Some(line) = networks(1) else { return };
    let xdp = has_xdp(&line);
    for kind in [Kind::Packet, Kind::Xdp, Kind::Tap].into_iter().filter(|&kind| kind != Kind::Xdp || xdp) {
        for pause in [0, 3, 9] {
            let running = Run::start(&line, kind, &network(kind, 0), &["--threads", "2"]);
            let mut reload = running.command(&network(kind, 1)).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(pause));
            running.running.signal("KILL");
            reload.wait().unwrap();
            assert!(!running.running.end().0);
            assert!(!has_program(&line, "left") && !has_program(&line, "right"));
            assert!(!line.between.has("tap7"));
        }
        if kind != Kind::Tap {
            let running = Run::start(&line, kind, &network(kind, 0), &["--threads", "2"]);
            assert_eq!(ping(&line.left, FAR, 2), 2, "{kind:?}");
            assert!(running.running.stop().0);
        }
    }
}
