//! Comparisons with DPDK, if it is installed: its look-ups give the same answers, and it merges packets
//! that Tidegate has made.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

fn has_dpdk() -> bool {
    let found = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        println!("skipped: libdpdk is not installed (apt-get install libdpdk-dev)");
    }
    is_there
}

#[test]
fn dpdk_merges_the_packets_of_the_benchmark() {
    if !has_dpdk() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers/merge");
    let mut command = Command::new(script);
    let output =
        command.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate")).args(["-n", "1", "-s"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let merged = |start: [&str; 4]| {
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        let line = text.lines().map(words).find(|words| words.len() == 6 && words[..4] == start);
        line.unwrap_or_else(|| panic!("no {start:?}: {text}"))[5].parse::<f64>().unwrap()
    };
    for flows in ["1", "256"] {
        assert_eq!(merged([flows, "0", "1514", "none"]), 1.0);
        let [in_order, late] = ["0", "50"].map(|late| merged([flows, late, "1514", "burst"]));
        assert!(in_order > 3.0 && in_order > late && late > 1.0, "{in_order} {late}");
    }
}

#[test]
fn dpdk_finds_the_same_rules_and_routes() {
    if !has_dpdk() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [rules, routes] = ["rules", "routes"].map(|name| folder.path().join(name));
    let (mut rule_lines, mut route_lines) = (String::new(), String::new());
    for i in 0..400u32 {
        let [a, b] = [i % 13, i / 13];
        let (length, port) = (12 + i % 21, 20 + i % 7 * 1000);
        writeln!(rule_lines, "@10.{a}.{b}.0/{length} 0.0.0.0/0 0 : 65535 {port} : 30000 0x06/0xFF").unwrap();
        writeln!(rule_lines, "@0.0.0.0/0 172.16.{b}.{a}/{length} {port} : {port} 0 : 65535 0x00/0x00")
            .unwrap();
        writeln!(route_lines, "10.{a}.{b}.0/{length}").unwrap();
    }
    std::fs::write(&rules, rule_lines).unwrap();
    std::fs::write(&routes, route_lines).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers/compare");
    let output = Command::new(script)
        .env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"))
        .args(["-n", "1", "-s"])
        .args([&rules, &routes])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let wrong: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(wrong, ["0", "0"], "{text}");
}
