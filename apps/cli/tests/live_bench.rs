//! `bench devices`, `bench connections`, `bench reordering` and `bench boundary` when they run for the
//! shortest time: checks the rows of their results, and for `bench devices` also that no namespaces remain.
//! Skipped with a message without ethtool, or if network namespaces cannot be created.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Net, PATIENCE};
use serde_json::Value;

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");
const ARGUMENTS: [&str; 5] = ["bench", "devices", "--small", "--json", "-"];

/// A lock that lets one benchmark run at a time, because two benchmarks would compete for cores.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if the benchmarks can run here; otherwise a message is printed.
fn is_possible() -> bool {
    let has_ethtool = Command::new("ethtool").arg("--version").output().is_ok();
    if !has_ethtool {
        println!("skipped: no ethtool here");
    }
    has_ethtool && Net::or_skip().is_some()
}

/// Returns the namespaces that a process has created.
fn namespaces_of(process: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/var/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("tg{process}x"))).collect()
}

/// Returns the rows in the JSON output of a benchmark.
fn rows(json: &[u8]) -> Vec<Value> {
    let written: Value = serde_json::from_slice(json).unwrap();
    written["rows"].as_array().unwrap().clone()
}

/// Returns the rows of a benchmark that runs for the shortest time, and its messages.
fn rows_of(benchmark: &str) -> (Vec<Value>, String) {
    let output =
        Command::new(TIDEGATE).args(["bench", benchmark, "--small", "--json", "-"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    (rows(&output.stdout), said)
}

#[test]
fn every_device_has_its_rows() {
    if !is_possible() {
        return;
    }
    let _alone = alone();
    let child = Command::new(TIDEGATE).args(ARGUMENTS).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let process = child.id();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(namespaces_of(process), Vec::<String>::new());
    let rows = rows(&output.stdout);
    let expected = [
        ("cable", "passed", 1),
        ("bridge", "passed", 1),
        ("FromDevice", "passed", 1),
        ("FromDevice", "passed", 2),
        ("FromDevice", "cut", 1),
        ("FromDevice", "cut", 2),
        ("KernelTap", "passed", 1),
    ];
    for (device, offloads, workers) in expected {
        let of = |traffic: &str| {
            let is_it = |row: &&Value| {
                let params = &row["params"];
                params["device"] == device
                    && params["offloads"] == offloads
                    && params["workers"] == workers
                    && params["traffic"] == traffic
            };
            rows.iter()
                .find(is_it)
                .unwrap_or_else(|| panic!("no {traffic} of {device}, {offloads}, {workers}: {said}"))
        };
        for gbps in [&of("tcp")["gbps"][0], &of("tcp")["gbps"][1]] {
            assert!(gbps.as_f64() > Some(0.0), "{device}, {offloads}, {workers}: {rows:?}");
        }
        assert!(of("udp")["offered_mpps"].as_f64() > Some(0.0), "{rows:?}");
    }
    for row in &rows {
        let positive =
            ["ns_per_packet", "floor_ns", "ratio", "mpps"].map(|key| row[key].as_f64() > Some(0.0));
        assert!(row["name"] == "devices" && positive == [true; 4], "{row}");
    }
}

#[test]
fn connections_have_rows_for_each_steering() {
    if !is_possible() {
        return;
    }
    let _alone = alone();
    let (rows, said) = rows_of("connections");
    let count = |steering: &str, order: &str| {
        let is_it = |row: &&Value| row["params"]["steering"] == steering && row["params"]["order"] == order;
        rows.iter().filter(is_it).count()
    };
    let counts =
        [("rss", "none"), ("spray", "none"), ("spray", "keep"), ("auto", "none")].map(|(s, o)| count(s, o));
    assert_eq!(counts, [10, 5, 5, 5], "{said}");
    for row in &rows {
        let [rate, again, behind_gap] = [0, 1, 2].map(|i| row["tcp"][i].as_f64().unwrap());
        assert!(rate > 0.0 && again >= 0.0 && behind_gap >= 0.0, "{row}");
    }
}

#[test]
fn reordering_has_rows_for_each_receiver() {
    if !is_possible() {
        return;
    }
    let _alone = alone();
    let (rows, said) = rows_of("reordering");
    // The benchmark uses the congestion controls that the kernel offers, so their names are taken from its
    // rows.
    let controls: BTreeSet<&str> =
        rows.iter().map(|row| row["params"]["control"].as_str().unwrap()).collect();
    assert!(!controls.is_empty(), "{said}");
    for control in controls {
        for receiver in ["plain", "gro", "gro-125us", "juggler"] {
            for delay in [0, 500] {
                let is_it = |row: &&Value| {
                    let params = &row["params"];
                    params["control"] == control
                        && params["receiver"] == receiver
                        && params["delay_us"] == delay
                };
                let row = rows.iter().find(is_it);
                let row = row.unwrap_or_else(|| panic!("no {control} {receiver} {delay}: {said}"));
                let of = |key: &str| row["receiving"][key].as_f64().unwrap();
                assert!(of("gbps") > 0.0 && of("delivered") > 0.0 && of("acks") > 0.0, "{row}");
                let is_reordered = delay > 0 && receiver != "juggler";
                assert!(!is_reordered || of("behind_gap") > 0.0, "{row}");
            }
        }
    }
}

#[test]
fn a_boundary_has_rows_for_whole_and_sliced_packets() {
    if !is_possible() {
        return;
    }
    let _alone = alone();
    // On a busy machine the network function may get so little processor time that no packet is sliced in the
    // measurement for a row. Then the benchmark is run again.
    let mut tries = 3;
    loop {
        let (rows, said) = rows_of("boundary");
        tries -= 1;
        let mut was_starved = false;
        for function in ["l2", "nat"] {
            for frame in [60, 1514] {
                for packets in ["whole", "sliced"] {
                    let is_it = |row: &&Value| {
                        let params = &row["params"];
                        params["function"] == function
                            && params["frame"] == frame
                            && params["packets"] == packets
                    };
                    let row = rows.iter().find(is_it);
                    let row = row.unwrap_or_else(|| panic!("no {function} {frame} {packets}: {said}"));
                    let bytes = row["crossing"]["bytes"].as_f64().unwrap();
                    let is_short = packets == "sliced" && frame == 1514;
                    if is_short && bytes == 1514.0 && tries > 0 {
                        was_starved = true;
                        continue;
                    }
                    assert!(if is_short { bytes < 1514.0 } else { bytes == f64::from(frame) }, "{row}");
                }
            }
        }
        if !was_starved {
            return;
        }
    }
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if !is_possible() {
        return;
    }
    let _alone = alone();
    let child = Command::new(TIDEGATE).args(ARGUMENTS).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let process = child.id();
    let until = Instant::now() + PATIENCE;
    while !namespaces_of(process).iter().any(|name| name.ends_with("right")) {
        assert!(child.try_wait().unwrap().is_none() && Instant::now() < until, "it has made no machines");
        sleep(Duration::from_millis(5));
    }
    let asked = Command::new("kill").args(["-INT", &process.to_string()]).status();
    assert!(asked.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("interrupted"), "{said}");
    assert_eq!(namespaces_of(process), Vec::<String>::new());
}

#[test]
fn without_tools_it_says_so_and_has_no_rows() {
    let output = Command::new(TIDEGATE).args(ARGUMENTS).env("PATH", "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("no rows without root, ip and ethtool"), "{said}");
    assert_eq!(rows(&output.stdout), Vec::<Value>::new());
}
