//! Tests of FromIPSummaryDump and ToIPSummaryDump in running configurations.

use testkit::TestRun;

/// Runs a configuration. Returns the bytes that it writes to the file `OUT`, and its messages.
fn run(text: &str, burst: Option<usize>) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let text = text.replace("OUT", &file.display().to_string());
    let outcome =
        TestRun { burst, ..TestRun::default() }.text(&text, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances());
    (std::fs::read(&file).unwrap(), outcome.messages)
}

fn text(configuration: &str) -> String {
    let (once, messages) = run(configuration, None);
    assert_eq!(messages, "");
    assert_eq!(run(configuration, Some(32)).0, once, "another burst, another file");
    String::from_utf8(once).unwrap()
}

/// A line without end and a binary record that claims to be long are refused. Otherwise a file could be
/// read into memory as a whole.
#[test]
fn lines_and_records_have_a_bound() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config =
        format!("FromIPSummaryDump({}, STOP true) -> c :: Counter -> Discard", file.path().display());
    let banner = "!IPSummaryDump 1.3\n!data timestamp src dst\n1.5 1.0.0.1 2.0.0.2\n".as_bytes();
    let endless = vec![b'#'; 2 << 20];
    std::fs::write(file.path(), [banner, &endless, b"\n1.6 1.0.0.1 2.0.0.2\n"].concat()).unwrap();
    let outcome = TestRun::default().text(&config, &["c.count"]).unwrap();
    assert!(outcome.messages.contains("line of more than 1 MiB"), "{}", outcome.messages);
    assert_eq!(outcome.values[0].as_deref(), Ok("1"));
    let binary = [banner, b"!binary\n", &(3u32 << 20).to_be_bytes(), &endless].concat();
    std::fs::write(file.path(), binary).unwrap();
    let outcome = TestRun::default().text(&config, &[]).unwrap();
    assert!(outcome.messages.contains("record of more than 1 MiB"), "{}", outcome.messages);
}

/// A binary record that the end of the file cuts off, and a binary record without fields, are reported. The
/// packets of the line and the record before it are still emitted.
#[test]
fn cut_and_empty_records_are_told() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config =
        format!("FromIPSummaryDump({}, STOP true) -> c :: Counter -> Discard", file.path().display());
    let begin =
        b"!IPSummaryDump 1.3\n!data src dst\n1.0.0.1 2.0.0.2\n!binary\n\0\0\0\x0c\x01\0\0\x01\x02\0\0\x02";
    for (end, said) in [
        (&b""[..], ""),
        (b"\0", "ends within a binary record"),
        (b"\0\0\0\x0c", "ends within a binary record"),
        (b"\0\0\0\x0c\x01\0\0", "ends within a binary record"),
        (b"\0\0\0\x04", "empty binary record"),
    ] {
        std::fs::write(file.path(), [begin, end].concat()).unwrap();
        let outcome = TestRun::default().text(&config, &["c.count"]).unwrap();
        assert_eq!(outcome.values[0].as_deref(), Ok("2"), "{end:?}");
        match said {
            "" => assert_eq!(outcome.messages, ""),
            said => assert!(outcome.messages.contains(said), "{end:?}: {}", outcome.messages),
        }
    }
}

#[test]
fn what_is_read_is_written() {
    let written = text(
        "FromIPSummaryDump(DATA \"!data timestamp src sport dst dport proto tcp_flags payload
# a comment
1.5 1.0.0.1 80 2.0.0.2 90 T SA hello
!flowid 3.0.0.3 7 4.0.0.4 8 U
2.000000001 - - - - - - -

!proto 1
3 5.0.0.5 - - - I - -
\", STOP true) -> i :: IPClassifier(tcp, udp, -);
i[0] -> t :: ToIPSummaryDump(OUT, FIELDS timestamp ip_src \"ip dst\" sport dport proto tcp_flags payload ip_len,
    BANNER \"me \\\"x\\\"\");
i[1] -> t; i[2] -> t;",
    );
    let expected = "!IPSummaryDump 1.3\n!creator \"me \\\"x\\\"\"\n\
        !data timestamp ip_src ip_dst sport dport ip_proto tcp_flags payload ip_len\n\
        1.500000 1.0.0.1 2.0.0.2 80 90 T SA \"hello\" 45\n\
        2.000000001 3.0.0.3 4.0.0.4 7 8 U - \"\" 28\n\
        3.000000 5.0.0.5 4.0.0.4 - - I - \"\\000\\000\\000\\000\\000\\000\\000\\000\" 28\n";
    assert_eq!(written, expected);
}

#[test]
fn payloads_have_hashes_and_clicks_escapes() {
    let source = r#"FromIPSummaryDump(DATA "!data src proto payload
1.0.0.1 U \"abc\"
1.0.0.1 U -
1.0.0.1 T \"\\000\\n\\<09ff>$\"
", STOP true)"#;
    let written = text(&format!(
        "{source} -> ToIPSummaryDump(OUT, FIELDS payload payload_md5 payload_md5_hex, HEADER false)"
    ));
    let expected = r#""abc" qgauyYJ0pbR1w_tFOe_FYb 900150983cd24fb0d6963f7d28e17f72
"" u3bJz@iaYsq6aMaMSJVq_b d41d8cd98f00b204e9800998ecf8427e
"\000\n\t\377\$" "#;
    assert!(written.starts_with(expected), "{written}");
}

#[test]
fn times_may_be_negative() {
    let run = |source: &str, kind: &str| {
        let source = format!("FromIPSummaryDump(DATA \"{source}\", FIELDS timestamp, STOP true)");
        let fields = "FIELDS timestamp ntimestamp ts_sec ts_usec, HEADER false";
        text(&format!("{source} -> SetTimestampDelta(TYPE {kind}) -> ToIPSummaryDump(OUT, {fields})"))
    };
    let line = "-2.500000 -2.500000 4294967293 500000\n";
    assert_eq!(run("3\\n0.5", "RANGE"), format!("0.000000 0.000000 0 0\n{line}"));
    // Without an annotation of the first time stamp, the difference is the time stamp itself.
    assert_eq!(run("0.5\\n3", "FIRST"), "0.500000 0.500000 0 500000\n3.000000 3.000000 3 0\n");
}

/// As in Click, an element with a pull input and an output pulls by itself and pushes on.
#[test]
fn an_element_between_pull_and_push_pulls() {
    let source = "FromIPSummaryDump(DATA \"1\\n2\\n3\", FIELDS timestamp, STOP true)";
    let written = text(&format!(
        "{source} -> Queue -> ToIPSummaryDump(OUT, FIELDS timestamp, HEADER false) -> Queue -> Discard"
    ));
    assert_eq!(written, "1.000000\n2.000000\n3.000000\n");
}

/// After an error of writing, packets that an element pulls are still passed on.
#[test]
fn a_full_disk_does_not_stop_packets_between_pull_and_push() {
    let text = "InfiniteSource(LIMIT 5000) -> Queue(10000)
        -> ToIPSummaryDump(/dev/full, FIELDS timestamp ip_src) -> c :: Counter -> Discard";
    let outcome = TestRun::default().text(text, &["c.count"]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.values[0].as_deref(), Ok("5000"));
}

#[test]
fn several_packets_of_one_line() {
    let source =
        "FromIPSummaryDump(DATA \"10 8 1.0.0.1 300 3 U\", FIELDS ts first_ts src len count proto, STOP true";
    let fields = "FIELDS timestamp ip_len udp_len count, HEADER false";
    let one = text(&format!("{source}) -> ToIPSummaryDump(OUT, {fields})"));
    assert_eq!(one, "10.000000 300 280 3\n");
    let three = text(&format!("{source}, MULTIPACKET true) -> ToIPSummaryDump(OUT, {fields})"));
    assert_eq!(three, "8.000000 100 80 1\n9.000000 100 80 1\n10.000000 100 80 1\n");
    let split = "FIELDS timestamp ip_capture_len, MULTIPACKET true, HEADER false";
    let split = text(&format!("{source}) -> ToIPSummaryDump(OUT, {split})"));
    assert_eq!(split, "8.000000 28\n9.000000 28\n10.000000 28\n");
}

#[test]
fn checksums_make_packets_whole() {
    let written = text(
        "FromIPSummaryDump(DATA \"1.0.0.1 2.0.0.2 60 T\\n1.0.0.1 2.0.0.2 50 U\", FIELDS src dst len proto,
            CHECKSUM true, STOP true)
        -> CheckIPHeader -> ToIPSummaryDump(OUT, FIELDS ip_capture_len payload_len ip_sum, HEADER false)",
    );
    // The checksums are ffff minus the sum of the header's words: 0x4500 + 60 + 0x6406 + 0x0100 + 1 +
    // 0x0200 + 2, and for the other packet likewise.
    assert_eq!(written, format!("60 20 {}\n50 22 {}\n", 0xffff - 0xac45u32, 0xffff - 0xac46u32));
}

#[test]
fn bad_packets_and_binary_records() {
    let source =
        "InfiniteSource(DATA \\<45000028 00000000 40060000 01000001 02000002 0001>, LIMIT 1, STOP true)
        -> MarkIPHeader -> ";
    let bad =
        text(&format!("{source} ToIPSummaryDump(OUT, FIELDS sport dport, BAD_PACKETS true, HEADER false)"));
    assert_eq!(bad, "!bad truncated IP missing 18\n1 -\n");
    let careless = format!(
        "{source} ToIPSummaryDump(OUT, FIELDS sport dport, BAD_PACKETS true, CAREFUL_TRUNC false, HEADER false)"
    );
    assert_eq!(text(&careless), "!bad truncated TCP/UDP header\n1 -\n");
    let (binary, _) = run(&format!("{source} ToIPSummaryDump(OUT, FIELDS ip_src sport, BINARY true)"), None);
    let mut expected = b"!IPSummaryDump 1.3\n!data ip_src sport\n!binary\n".to_vec();
    expected.extend([0, 0, 0, 10, 1, 0, 0, 1, 0, 1]);
    assert_eq!(binary, expected);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in");
    expected.extend([0x80, 0, 0, 11, b'!', b'b', b'a', b'd', b' ', b'x', b'\n']);
    expected.extend([0, 0, 0, 10, 9, 0, 0, 9, 0, 2]);
    std::fs::write(&file, &expected).unwrap();
    let again = format!(
        "FromIPSummaryDump({}, STOP true) -> ToIPSummaryDump(OUT, FIELDS sport src, HEADER false)",
        file.display()
    );
    assert_eq!(text(&again), "1 1.0.0.1\n2 9.0.0.9\n");
}

#[test]
fn complaints_say_where() {
    let source = "FromIPSummaryDump(DATA \"1.2.3.4\\n!data foo\\n5\", STOP true) -> ToIPSummaryDump(OUT)";
    let messages = run(source, None).1;
    for text in [
        "<data>:1: missing banner line; is this an IP summary dump?",
        "<data>:1: no '!data' provided",
        "<data>:2: unknown content type 'foo'",
    ] {
        assert!(messages.contains(text), "{messages}");
    }
    for (text, expected) in [
        ("FromIPSummaryDump -> Discard", "FILENAME: required argument missing"),
        ("FromIPSummaryDump(x, DATA y) -> Discard", "FILENAME and DATA conflict"),
        ("FromIPSummaryDump(/does/not/exist) -> Discard", "/does/not/exist: No such file or directory"),
        ("Idle -> ToIPSummaryDump(-, FIELDS foo)", "unknown content type 'foo'"),
        ("Idle -> ToIPSummaryDump(-, FIELDS payload, BINARY true)", "cannot use field payload with BINARY"),
    ] {
        let error = TestRun::default().text(text, &[]).err().unwrap_or_default();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let nothing = "FromIPSummaryDump(/does/not/exist, ALLOW_NONEXISTENT true, STOP true) -> Discard";
    assert!(TestRun::default().text(nothing, &[]).is_ok());
}

#[test]
fn pulling_and_timing() {
    let data = "DATA \"1 1\\n3 2\\n3.5 3\", FIELDS timestamp sport, FLOWID 1.1.1.1 0 2.2.2.2 9";
    let pulled = text(&format!(
        "FromIPSummaryDump({data}) -> ToIPSummaryDump(OUT, FIELDS sport, HEADER false); \
         Script(TYPE ACTIVE, wait 9, stop)"
    ));
    assert_eq!(pulled, "1\n2\n3\n");
    let timed = text(&format!(
        "FromIPSummaryDump({data}, TIMING true) -> ToIPSummaryDump(OUT, FIELDS sport, HEADER false);
         Script(TYPE ACTIVE, wait 1, stop)"
    ));
    assert_eq!(timed, "1\n", "the second packet is due two seconds after the first");
}

#[test]
fn the_time_stamps_of_a_summary_drive_the_trace_clock() {
    let text = "f :: FromIPSummaryDump(DATA \"!data ts src count\\n1 1.1.1.1 1\\n3.5 1.1.1.2 1\\n3.5 1.1.1.3 1\\n9 1.1.1.4 1\\n\")
        -> SetTimestamp -> p :: Print(p, 0, TIMESTAMP true) -> Discard;
        Script(TYPE ACTIVE, label again, wait 2, print $(now), goto again)";
    let out = TestRun::trace().text(text, &[]).unwrap();
    let stamps: Vec<&str> = out.messages.lines().map(|line| line.split(':').nth(1).unwrap().trim()).collect();
    assert_eq!(stamps.len(), 4, "{}", out.messages);
    assert!(
        stamps[0].starts_with("1.0") && stamps[1].starts_with("3.5") && stamps[3].starts_with("9.0"),
        "{stamps:?}"
    );
    assert_eq!(out.output, "3.000000\n5.000000\n7.000000\n9.000000\n");
}
