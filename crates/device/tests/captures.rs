//! FromDump and ToDump with files.

use testkit::Run;

/// A capture of ten packets, one a second, in a folder that lives as long as the result.
fn capture(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name).display().to_string();
    let text = format!("TimedSource(1, LIMIT 10, STOP true) -> c :: Counter -> ToDump({path}, SNAPLEN 0)");
    let out = Run::default().text(&text, &["c.count"]).unwrap();
    assert_eq!(out.values, [Ok("10".into())], "{}", out.messages);
    (folder, path)
}

fn count(source: &str) -> String {
    let text = format!("f :: {source} -> c :: Counter -> Discard");
    let out = Run::trace().text(&text, &["c.count"]).unwrap();
    assert_eq!(out.report.totals.held, 0);
    out.values[0].clone().unwrap()
}

#[test]
fn a_compressed_capture_can_be_read_again() {
    let (_folder, path) = capture("ten.pcap.gz");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    assert_eq!(count(&format!("FromDump({path})")), "10");
}

#[test]
fn a_window_can_be_extended_without_losing_the_packet_that_ended_it() {
    let (_folder, path) = capture("ten.pcap");
    assert_eq!(count(&format!("FromDump({path}, END_AFTER 3)")), "3");
    assert_eq!(count(&format!("FromDump({path}, START_AFTER 2, INTERVAL 3)")), "3");
    assert_eq!(count(&format!("FromDump({path}, END_AFTER 3, END_CALL f.extend_interval 2)")), "10");
}

#[test]
fn time_goes_on_behind_a_capture_while_packets_are_on_their_way() {
    let (_folder, path) = capture("ten.pcap");
    assert_eq!(count(&format!("FromDump({path}) -> Queue -> DelayUnqueue(30)")), "10");
    // What nobody takes stays, however often timers run elsewhere.
    let text = format!(
        "FromDump({path}) -> q :: Queue -> Unqueue(ACTIVE false) -> c :: Counter -> Discard;
         Script(label again, wait 1, goto again)"
    );
    let out = Run::trace().text(&text, &["q.length", "c.count"]).unwrap();
    assert_eq!(out.values, [Ok("10".into()), Ok("0".into())]);
}

#[test]
fn sources_stop_with_the_captures() {
    let (_folder, path) = capture("ten.pcap");
    for endless in [
        "Queue -> Unqueue(ACTIVE false) -> Discard; TimedSource(1) -> c :: Counter -> Discard",
        "Discard; TimedSource(0.1) -> Queue -> DelayUnqueue(1) -> c :: Counter -> Discard",
    ] {
        let out = Run::trace().text(&format!("FromDump({path}) -> {endless}"), &["c.count"]).unwrap();
        let count: u64 = out.values[0].clone().unwrap().parse().unwrap();
        assert!((5..200).contains(&count), "{count}");
    }
}
