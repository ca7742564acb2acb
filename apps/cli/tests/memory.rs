//! Checks that a requested amount of memory is compared with the limits at the start, and that the memory
//! of tables is bounded.

use std::process::{Command, Output};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

fn tidegate(args: &[&str]) -> (Option<i32>, String) {
    status(Command::new(TIDEGATE).args(args).output().unwrap())
}

fn status(output: Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs the program in a shell that limits its address space to `kib` KiB.
fn limited(kib: u64, args: &str) -> (Option<i32>, String) {
    let line = format!("ulimit -v {kib}; exec \"$0\" {args}");
    status(Command::new("sh").args(["-c", &line, TIDEGATE]).output().unwrap())
}

#[test]
fn more_memory_than_the_machine_has_is_refused() {
    let idle = "Idle -> Discard";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), idle).unwrap();
    let file = file.path().to_str().unwrap();
    for (args, code) in [
        (&["run", "--memory", "1000000G", "-e", idle][..], 2),
        (&["check", "--memory", "1000000G", "-e", idle], 2),
        (&["synthesize", "--memory", "1000000G", "-e", idle], 2),
        (&["verify", "--memory", "1000000G", file, file], 2),
        // The exit status of `click` is 1, as for other wrong usage of Click's driver.
        (&["click", "--memory", "1000000G", "-e", idle], 1),
    ] {
        let (status, told) = tidegate(args);
        assert_eq!(status, Some(code), "{args:?}: {told}");
        assert!(told.contains("1000000G is more than the ") && told.contains("give less"), "{told}");
    }
    for args in
        [&["run", "-q", "--memory", "100M", "-e", idle][..], &["click", "-q", "--memory=100M", "-e", idle]]
    {
        assert_eq!(tidegate(args).0, Some(0), "{args:?}");
    }
}

#[test]
fn address_space_that_is_limited_counts() {
    let (status, told) = limited(1 << 20, "run --memory 2G -e 'Idle -> Discard'");
    assert!(status == Some(2) && told.contains("the process may have (ulimit -v)"), "{told}");
    // The default size for packets is so small that the program still fits into the limited address space.
    let run = "run -q -e 'InfiniteSource(LIMIT 5, STOP true) -> Discard'";
    assert_eq!(limited(1 << 20, run), (Some(0), String::new()));
}

#[test]
fn tables_end_no_process_where_memory_ends() {
    // With too little memory, the tables cannot be allocated at the start. The run then ends with an error
    // (status 1), and the process is not killed.
    let mut outcomes = Vec::new();
    for kib in [110_000, 150_000, 200_000, 300_000] {
        for element in
            ["IPRewriter(keep 0 0)", "AggregateIPFlows", "FlowCounter", "IPRateMonitor(PACKETS, 1, 1)"]
        {
            let text = format!(
                "FastUDPFlows(0, 300000, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 10.9.9.9, 300000, 1)
                -> MarkIPHeader(14) -> {element} -> Discard"
            );
            let (status, told) = limited(kib, &format!("run -q --memory 66M -e '{text}'"));
            assert!(matches!(status, Some(0 | 1)), "{kib} KiB, {element}: {status:?} {told}");
            outcomes.push(status);
        }
    }
    assert!(outcomes.contains(&Some(0)), "{outcomes:?}");
}

#[test]
fn no_table_grows_under_floods() {
    let args = ["bench", "soak", "--minutes", "0.05", "--capacity", "500", "--json", "-"];
    let output = Command::new(TIDEGATE).args(args).output().unwrap();
    let (told, json) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let rows: serde_json::Value =
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {told}{json}"));
    let rows = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len(), bench::soak::CASES.len());
    for row in rows {
        let soak = &row["soak"];
        assert_eq!(soak["grows"], false, "{row}");
        assert!(soak["packets"].as_u64().unwrap() >= 20_000, "{row}");
        if let (Some(entries), Some(capacity)) = (soak["entries"].as_u64(), soak["capacity"].as_u64()) {
            // Each worker has its own table.
            let workers = row["params"]["threads"].as_u64().unwrap();
            assert!((1..=workers * capacity).contains(&entries), "{row}");
        }
    }
    assert_eq!(output.status.code(), Some(0), "{told}");
}
