//! Tests of files that elements write while packets come.

use testkit::TestRun;

/// Elements that write to the file `%` for each packet.
const WRITERS: [&str; 7] = [
    "ToDump(%)",
    "ToDump(%.gz)",
    "ToIPSummaryDump(%)",
    "ToIPSummaryDump(%, BINARY true)",
    "IPPrint(OUTFILE %) -> Discard",
    "FlowCounter(FILE %, TIMEOUT 0.1) -> Discard",
    "AggregateIPFlows(TRACEINFO %, UDP_TIMEOUT 0, REAP 0) -> Discard",
];

/// Sends `packets` packets, one per second, to a writer. Returns the size of its file in bytes a second
/// after the last packet, while the run goes on.
fn size(writer: &str, packets: usize) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").display().to_string();
    let name = if writer.contains(".gz") { format!("{file}.gz") } else { file.clone() };
    let writer = writer.replace('%', &file);
    let text = format!(
        "TimedSource(1, LIMIT {packets}) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> {writer};
         look :: FromIPSummaryDump({name}, ALLOW_NONEXISTENT true, ACTIVE false) -> Discard;
         Script(wait {}, print $(look.filesize), stop)",
        packets as f64 + 1.5
    );
    let outcome = TestRun::default().text(&text, &[]).unwrap();
    assert_eq!(outcome.errors, [""; 0], "{writer}");
    outcome.output.trim().parse().unwrap_or_else(|_| panic!("{writer}: {}", outcome.output))
}

#[test]
fn what_is_written_on_a_live_run_is_in_the_file_within_a_second() {
    for writer in WRITERS {
        let (none, some) = (size(writer, 0), size(writer, 3));
        assert!(some > none, "{writer}: {none} bytes without packets, {some} with some");
    }
}

/// All writes go to `/dev/full`, a disk without any room. The run, or its start, has to report the error.
#[test]
fn a_full_disk_is_an_error_of_the_run() {
    for writer in WRITERS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file").display().to_string();
        for name in [file.clone(), format!("{file}.gz")] {
            std::os::unix::fs::symlink("/dev/full", name).unwrap();
        }
        let writer = writer.replace('%', &file);
        for packets in [1, 20_000] {
            let text = format!(
                "InfiniteSource(LIMIT {packets}, STOP true) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> {writer}"
            );
            match TestRun::default().text(&text, &[]) {
                Ok(outcome) => {
                    assert!(outcome.report.balances());
                    let errors = outcome.errors.join(" ");
                    assert!(errors.contains("No space left"), "{writer}, {packets}: {errors}");
                }
                // An element that writes a file header reports the error when it starts.
                Err(error) => assert!(error.contains("No space left"), "{writer}, {packets}: {error}"),
            }
        }
    }
}

/// A full disk does not stop packets that an element writes and passes on.
#[test]
fn packets_pass_elements_that_cannot_write_them() {
    for writer in WRITERS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file").display().to_string();
        for name in [file.clone(), format!("{file}.gz")] {
            std::os::unix::fs::symlink("/dev/full", name).unwrap();
        }
        let writer = writer.replace('%', &file).replace(" -> Discard", "");
        let text = format!(
            "InfiniteSource(LIMIT 20000, STOP true) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> {writer}
             -> c :: Counter -> Discard"
        );
        let outcome = TestRun::default().text(&text, &["c.count"]).unwrap();
        assert_eq!(outcome.values, [Ok("20000".to_string())], "{writer}");
        assert!(outcome.errors.join(" ").contains("No space left"), "{writer}: {:?}", outcome.errors);
    }
}
