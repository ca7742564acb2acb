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

/// The number of the signal.
const TERM: i32 = 15;

/// A program that signals can be sent to, and that does not outlive the test.
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
            ["click", "-h", "c.count", "-e", "Script(print \"ready\"); Idle -> c :: Counter -> Discard"];
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
    let is_ready = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", program.0.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() >> (TERM - 1) & 1 == 1
    };
    while !is_ready() {
        std::thread::sleep(Duration::from_millis(10));
    }
    for sent in 0..300 {
        if let Some(status) = program.0.try_wait().unwrap() {
            return assert!(sent > 1 && status.signal() == Some(TERM), "after {sent}: {status}");
        }
        program.shell("kill -TERM N");
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it does not hear of any signal");
}

/// The number of packets in a capture.
fn packets(path: &str) -> u64 {
    let mut reader = capture::Reader::open(path).unwrap();
    std::iter::from_fn(|| reader.next().unwrap().map(|_| ())).count() as u64
}

#[test]
fn packets_that_were_counted_are_in_the_file_whatever_ends_the_program() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, number) in [("KILL", 9), ("TERM", TERM), ("INT", 2)] {
        let path = folder.path().join(signal).display().to_string();
        let config = format!(
            "TimedSource(0.001) -> out :: ToDump({path}); Script(wait 0.02, print $(out.count), loop)"
        );
        let mut program = Program::start(&["click", "-h", "out.count", "-e", &config], Stdio::piped());
        let lines = BufReader::new(program.0.stdout.take().unwrap()).lines();
        let mut counts = lines.map(|line| line.unwrap().parse::<u64>().unwrap());
        let mut count = counts.find(|&count| count > 0).unwrap();
        program.shell(&format!("kill -{number} N"));
        program.0.wait().unwrap();
        // With the report, if there is one.
        count = counts.last().unwrap_or(count);
        match signal {
            "KILL" => assert!(packets(&path) >= count, "{signal}"),
            _ => assert_eq!(packets(&path), count, "{signal}"),
        }
    }
}
