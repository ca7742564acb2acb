//! Signals of the operating system: what ends a run, and what scripts hear of.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// A program whose signals can be sent, and that does not outlive the test.
struct Program(Child);

impl Program {
    fn start(options: &[&str], stdout: Stdio) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        Program(
            command.args(options).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn().unwrap(),
        )
    }

    /// `N` stands for the process number.
    fn shell(&self, text: &str) {
        let text = text.replace('N', &self.0.id().to_string());
        assert!(Command::new("sh").args(["-c", &text]).status().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_signals_at_once_are_one() {
    for _ in 0..20 {
        let options =
            ["run", "-h", "c.count", "-e", "Script(print \"ready\"); Idle -> c :: Counter -> Discard"];
        let mut program = Program::start(&options, Stdio::piped());
        let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let start = Instant::now();
        program.shell("kill -TERM N; sleep 0.001; kill -TERM N 2>/dev/null || true");
        if start.elapsed() < Duration::from_millis(100) {
            assert_eq!(lines.next().as_deref(), Some("0"), "the report is there");
            assert!(program.0.wait().unwrap().success());
            return;
        }
        // Others are busy here.
    }
}

#[test]
fn a_later_signal_ends_a_program_that_is_stuck() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Nobody opens the other end.
    let config = format!("Idle -> ToDump({pipe})");
    let mut program = Program::start(&["run", "-e", &config], Stdio::null());
    for _ in 0..300 {
        if let Some(status) = program.0.try_wait().unwrap() {
            return assert_eq!(status.signal(), Some(15));
        }
        program.shell("kill -TERM N");
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it does not hear of any signal");
}
