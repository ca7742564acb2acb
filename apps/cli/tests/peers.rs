//! DPDK's look-ups give the same answers as ours, where DPDK is installed.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

#[test]
fn dpdk_finds_the_same_rules_and_routes() {
    let found = Command::new("pkg-config").args(["--exists", "libdpdk"]).status();
    if !found.is_ok_and(|status| status.success()) {
        println!("skipped: libdpdk is not installed (apt-get install libdpdk-dev)");
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
