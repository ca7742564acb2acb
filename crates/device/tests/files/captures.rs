//! Tests of FromDump and ToDump with files: compression, windows, the trace clock, counts, and bytes after
//! compressed data.

use std::io::Write;

use testkit::TestRun;

/// Writes a capture of ten packets, one per second. Returns its path, and the folder, which is removed when
/// it is dropped.
fn capture(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name).display().to_string();
    let text = format!("TimedSource(1, LIMIT 10, STOP true) -> c :: Counter -> ToDump({path}, SNAPLEN 0)");
    let out = TestRun::default().text(&text, &["c.count"]).unwrap();
    assert_eq!(out.values, [Ok("10".into())], "{}", out.messages);
    (folder, path)
}

fn count(source: &str) -> String {
    let text = format!("f :: {source} -> c :: Counter -> Discard");
    let out = TestRun::trace().text(&text, &["c.count"]).unwrap();
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
fn positions_in_a_capture_are_shown_and_chosen() {
    for name in ["ten.pcap", "ten.pcap.gz"] {
        let (_folder, path) = capture(name);
        let text = format!("f :: FromDump({path}, BURST 1) -> Discard");
        let out = TestRun::trace().text(&text, &["f.packet_filepos", "f.filepos"]).unwrap();
        let [last, end]: [u64; 2] =
            std::array::from_fn(|place| out.values[place].clone().unwrap().parse().unwrap());
        let each = end - last;
        assert_eq!(end, 24 + 10 * each);
        for (position, expected) in [(0, 10), (24, 10), (25, 9), (24 + 3 * each, 7), (end, 0), (end + 1, 0)] {
            assert_eq!(count(&format!("FromDump({path}, FILEPOS {position})")), expected.to_string());
        }
        // A script goes back after the end of the file, and forward again before a packet is sent.
        let text = format!(
            "f :: FromDump({path}) -> c :: Counter -> Discard; t :: FromDump({path}, TIMING true) -> d :: Counter -> Discard;
             DriverManager(wait 4.5s, write t.filepos $(t.filepos), print \"$(c.count) $(d.count)\", wait 1s,
                 write f.filepos {}, write t.filepos {last}, wait 20s, print \"$(c.count) $(d.count) $(t.filepos)\", stop)",
            24 + 3 * each
        );
        let out = TestRun::default().text(&text, &[]).unwrap();
        assert_eq!(out.output, format!("10 5\n17 7 {end}\n"), "{name}");
        assert!(out.report.balances());
    }
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
    // Nothing takes packets out of the queue. They stay there, even if timers of a script make time go on.
    let text = format!(
        "FromDump({path}) -> q :: Queue -> Unqueue(ACTIVE false) -> c :: Counter -> Discard;
         Script(label again, wait 1, goto again)"
    );
    let out = TestRun::trace().text(&text, &["q.length", "c.count"]).unwrap();
    assert_eq!(out.values, [Ok("10".into()), Ok("0".into())]);
}

#[test]
fn sources_stop_with_the_captures() {
    let (_folder, path) = capture("ten.pcap");
    for endless in [
        "Queue -> Unqueue(ACTIVE false) -> Discard; TimedSource(1) -> c :: Counter -> Discard",
        "Discard; TimedSource(0.1) -> Queue -> DelayUnqueue(1) -> c :: Counter -> Discard",
    ] {
        let out = TestRun::trace().text(&format!("FromDump({path}) -> {endless}"), &["c.count"]).unwrap();
        let count: u64 = out.values[0].clone().unwrap().parse().unwrap();
        assert!((5..200).contains(&count), "{count}");
    }
}

#[test]
fn counted_packets_are_in_the_file() {
    let (_folder, path) = capture("ten.pcap");
    // The script reads the count and the size of the file about half a second after the first packet, before
    // any other event has caused packets to be written.
    let text = format!(
        "TimedSource(0.1, \"1234\") -> out :: ToDump({path}, SNAPLEN 0);
         look :: FromIPSummaryDump({path}, ACTIVE false) -> Discard;
         Script(wait 0.55, print $(out.count), print $(look.filesize), stop)"
    );
    let outcome = TestRun::default().text(&text, &[]).unwrap();
    let numbers: Vec<u64> = outcome.output.lines().map(|line| line.parse().unwrap()).collect();
    let &[count, size] = &numbers[..] else { panic!("{}", outcome.output) };
    assert!(count > 0);
    assert_eq!(size, 24 + count * (16 + 4));
}

/// Runs a source on a file that consists of `file` and the bytes `rest`. In `source`, `%` is replaced by
/// the path. Returns the number of packets, the errors and the messages.
fn with_rest(file: &[u8], rest: &[u8], source: &str) -> (String, Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.gz").display().to_string();
    std::fs::write(&path, [file, rest].concat()).unwrap();
    let text = format!("{} -> c :: Counter -> Discard", source.replace('%', &path));
    let outcome = TestRun::trace().text(&text, &["c.count"]).unwrap();
    (outcome.values[0].clone().unwrap(), outcome.errors, outcome.messages)
}

#[test]
fn what_lies_behind_compressed_data_is_no_damage() {
    let (folder, path) = capture("ten.pcap.gz");
    let captured = std::fs::read(path).unwrap();
    let mut summary = capture::create(&format!("{}/s.gz", folder.path().display())).unwrap();
    summary.write_all("1.1.1.1\n".repeat(10).as_bytes()).unwrap();
    drop(summary);
    let summary = std::fs::read(folder.path().join("s.gz")).unwrap();
    for (file, source) in [
        (&captured, "FromDump(%)"),
        (&captured, "InMemoryNic(%, LOOPS 1)"),
        (&summary, "FromIPSummaryDump(%, FIELDS ip_src)"),
    ] {
        let (count, errors, messages) = with_rest(file, &[0; 512], source);
        assert_eq!((count.as_str(), errors, messages.as_str()), ("10", vec![], ""), "{source}");
        let (count, errors, messages) = with_rest(file, b"abc", source);
        assert_eq!((count.as_str(), errors), ("10", vec![]), "{source}");
        assert!(messages.contains("warning: bytes after the end of the gzip data"), "{source}: {messages}");
    }
    for (file, source) in [(&captured, "FromDump(%)"), (&summary, "FromIPSummaryDump(%, FIELDS ip_src)")] {
        let (_, errors, _) = with_rest(&file[..file.len() - 9], b"", source);
        assert!(errors[0].contains("only the packets before the fault were read"), "{source}: {errors:?}");
    }
}
