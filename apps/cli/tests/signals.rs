//! Signals of the operating system: signals that end a run, and signals that scripts handle.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn scripts_hear_of_signals_and_others_end_the_run() {
    let config = "Script(TYPE SIGNAL INT USR1, print \"heard\", end);
        Script(TYPE SIGNAL USR2, print \"once\", exit);
        Script(TYPE SIGNAL HUP, print \"begins\", wait 1ms, print \"ends\", end);
        Script(print \"ready\");
        Idle -> c :: Counter -> Discard";
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "-h", "c.count", "-e", config])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let process = child.id().to_string();
    // If something is wrong, the test fails instead of waiting for ever.
    let watchdog = process.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(60));
        let _ = Command::new("kill").args(["-KILL", &watchdog]).status();
    });
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut send = |signal: &str, answer: &str| {
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
        for line in answer.lines() {
            assert_eq!(lines.next().as_deref(), Some(line), "after {signal}");
        }
    };
    send("-0", "ready");
    // A script that waits is ready for the next signal when it has ended. The answer to another signal shows
    // that it has.
    send("-HUP", "begins\nends");
    send("-USR1", "heard");
    send("-HUP", "begins\nends");
    send("-INT", "heard");
    send("-USR1", "heard");
    send("-USR2", "once");
    send("-INT", "heard");
    send("-TERM", "0");
    assert!(child.wait().unwrap().success());
}

/// The number of SIGTERM.
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

    /// Runs a shell command in which `N` is replaced by the process number.
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
        // The machine was busy, so the two SIGTERM signals may have come more than 250 ms apart, which does
        // not count as one interrupt. The test tries again.
    }
}

#[test]
fn a_later_signal_ends_a_program_that_is_stuck() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = format!("InfiniteSource(LENGTH 1000) -> ToDump({pipe})");
    let mut program = Program::start(&["run", "-e", &config], Stdio::null());
    // The reader never reads the output.
    let _reader = std::fs::File::open(&pipe).unwrap();
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

/// Returns the number of packets in a capture.
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
        // If the program printed the counter's value at its end, that is the final count of packets.
        count = counts.last().unwrap_or(count);
        match signal {
            "KILL" => assert!(packets(&path) >= count, "{signal}"),
            _ => assert_eq!(packets(&path), count, "{signal}"),
        }
    }
}

/// Starts a program that prints `ready` on standard output, and returns the lines that it writes to
/// standard error.
fn with_messages(arguments: &[&str]) -> (Program, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let command = command.args(arguments).stdin(Stdio::null());
    let mut program = Program(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let messages = BufReader::new(program.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    (program, messages)
}

#[test]
fn requests_are_served_and_the_run_goes_on() {
    let config = "InfiniteSource(LIMIT 10) -> c :: Counter -> Discard; Idle -> Discard;
        Script(wait 100ms, print \"ready\", wait 1000s);";
    for threads in ["1", "3"] {
        let (mut program, mut messages) = with_messages(&["run", "--threads", threads, "-e", config]);
        program.shell("kill -HUP N");
        let told = messages.next().unwrap();
        assert!(told.starts_with("SIGHUP: the configuration stays as it is"), "{told}");
        program.shell("kill -USR2 N");
        assert_eq!(
            messages.next().as_deref(),
            Some("SIGUSR2: nothing waits for this signal; the run goes on")
        );
        for _ in 0..2 {
            program.shell("kill -USR1 N");
            let table: Vec<String> =
                messages.by_ref().take_while(|line| !line.contains("packets in")).collect();
            let counts =
                |line: &String| line.split_whitespace().take(3).map(String::from).collect::<Vec<_>>();
            let rows: Vec<_> = table.iter().map(counts).collect();
            assert!(rows.contains(&["all", "10", "0"].map(String::from).to_vec()), "{table:?}");
            let workers = rows.iter().filter(|row| row[0] == "worker").count();
            assert_eq!(workers, if threads == "1" { 0 } else { 3 }, "{table:?}");
        }
        program.shell("kill -TERM N");
        assert_eq!(program.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn scripts_hear_of_signals_in_the_place_of_requests() {
    for worker in ["0", "1"] {
        let config = format!(
            "s :: Script(TYPE SIGNAL HUP USR1 USR2 INT, print \"heard\"); Script(print \"ready\", wait 1000s);
             StaticThreadSched(s {worker})"
        );
        let (mut program, messages) = with_messages(&["run", "-q", "--threads", "2", "-e", &config]);
        program.shell("for s in HUP USR1 USR2 INT; do kill -$s N; sleep 0.3; done; kill -TERM N");
        assert_eq!(program.0.wait().unwrap().code(), Some(0));
        let told: Vec<String> = messages.collect();
        assert!(told.iter().all(|line| !line.contains("SIG")), "{told:?}");
    }
}

/// After the last script that waits for a signal has ended, the run itself reacts to the signal again.
#[test]
fn requests_are_served_again_when_no_script_waits() {
    let config = "Script(TYPE SIGNAL HUP USR1 USR2, exit); Script(print \"ready\", wait 1000s);";
    for threads in ["1", "2"] {
        let (mut program, mut messages) = with_messages(&["run", "-q", "--threads", threads, "-e", config]);
        program.shell("kill -HUP N; sleep 0.3; kill -HUP N");
        let told = messages.next().unwrap_or_default();
        assert!(told.starts_with("SIGHUP: the configuration stays as it is"), "{told}");
        program.shell("kill -TERM N");
        assert_eq!(program.0.wait().unwrap().code(), Some(0));
    }
}

/// Opening a pipe waits for a writer. The program has not registered its signal handlers yet, so a signal
/// ends it.
#[test]
fn signals_end_what_has_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = format!("FromDump({}) -> Discard", pipe.display());
    let mut program = Program::start(&["run", "-e", &config], Stdio::null());
    std::thread::sleep(Duration::from_millis(300));
    program.shell("kill -TERM N");
    assert_eq!(program.0.wait().unwrap().signal(), Some(TERM));
}
