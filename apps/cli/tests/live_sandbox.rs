//! Rights that a run gives up when its interfaces are open: `--sandbox strict` and `--user`. Packets still
//! pass, and a reload is possible that needs no further interface and no further file. Skipped with a message
//! if network namespaces cannot be created, or the kernel has no Landlock.

mod line;
mod reloads;

use std::fs;

use lab::{RunningProgram, ping};
use line::{Line, has_xdp};
use reloads::{FAR, Kind, Run, network, networks};

const STRICT: [&str; 2] = ["--sandbox", "strict"];

/// Returns the value of a line of `/proc/PID/status` for each thread of a run.
fn of_threads(running: &RunningProgram, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", running.id())).unwrap();
    let value = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    tasks.map(|task| value(fs::read_to_string(task.unwrap().path().join("status")).unwrap())).collect()
}

/// True if the kernel has Landlock; otherwise prints that the test is skipped.
fn has_landlock(line: &Line) -> bool {
    let run = ["run", "-q", "-e", "Idle -> Discard; Script(stop)"];
    let output = line.between.command(line::TIDEGATE).args(run).args(STRICT).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("no Landlock") {
        println!("skipped: {said}");
        return false;
    }
    assert!(said.is_empty(), "{said}");
    true
}

#[test]
fn a_run_in_the_sandbox_forwards_and_reloads() {
    let Some(line) = networks(1).filter(has_landlock) else { return };
    let xdp = has_xdp(&line);
    for (kind, threads) in [(Kind::Packet, "1"), (Kind::Packet, "2"), (Kind::Xdp, "1")] {
        if kind == Kind::Xdp && !xdp {
            continue;
        }
        let options = [&STRICT[..], &["--threads", threads]].concat();
        let run = Run::start(&line, kind, &network(kind, 0), &options);
        let pings = || {
            assert_eq!(ping(&line.left, FAR, 2), 2, "{kind:?}, {threads} workers");
        };
        pings();
        for (name, wanted) in
            [("CapEff", "0000000000000000"), ("CapPrm", "0000000000000000"), ("Seccomp", "2")]
        {
            let values = of_threads(&run.running, name);
            assert!(values.iter().all(|value| value == wanted), "{kind:?}, {name}: {values:?}");
        }
        for number in 1..4 {
            run.must_reload(&network(kind, number));
            pings();
        }
        let with = |more: &str| format!("{}; {more}", network(kind, 4));
        run.must_refuse(&with("FromDevice(lo) -> Discard"), "Operation not permitted");
        run.must_refuse(&with("Idle -> ToDump(/var/tmp/tidegate-sandbox.pcap)"), "Permission denied");
        run.must_refuse(&with("FromDump(/etc/passwd) -> Discard"), "Permission denied");
        pings();
    }
}

#[test]
fn a_run_continues_as_another_user() {
    let Some(line) = Line::new() else { return };
    let running = line.forward("Null", &["--user", "nobody", "--threads", "2"]);
    line.check();
    for (name, wanted) in
        [("Uid", "65534 65534 65534 65534"), ("CapEff", "0000000000000000"), ("Groups", "65534")]
    {
        let values = of_threads(&running, name);
        assert!(values.iter().all(|value| value == wanted), "{name}: {values:?}");
    }
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
    for (user, error) in
        [("no-such-user", "there is no user 'no-such-user'"), ("nobody:no-such-group", "no group")]
    {
        let run = ["run", "-q", "-e", "Idle -> Discard", "--user", user];
        let output = line.between.command(line::TIDEGATE).args(run).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(error), "{said}");
    }
}
