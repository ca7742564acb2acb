//! Signals of the operating system: what ends a run, and what scripts hear of.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn scripts_hear_of_signals_and_others_end_the_run() {
    let config = "Script(TYPE SIGNAL INT USR1, print \"heard\", end);
        Script(TYPE SIGNAL USR2, print \"once\", exit);
        Script(print \"ready\");
        Idle -> c :: Counter -> Discard";
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "-h", "c.count", "-e", config])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let process = child.id().to_string();
    // If something is wrong the test fails; it does not wait for ever.
    let watchdog = process.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(60));
        let _ = Command::new("kill").args(["-KILL", &watchdog]).status();
    });
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut send = |signal: &str, answer: &str| {
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
        assert_eq!(lines.next().as_deref(), Some(answer), "after {signal}");
    };
    send("-0", "ready");
    send("-INT", "heard");
    send("-USR1", "heard");
    send("-USR2", "once");
    send("-INT", "heard");
    send("-TERM", "0");
    assert!(child.wait().unwrap().success());
}
