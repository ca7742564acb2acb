//! `tidegate top --once` on running programs.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use lab::RunningProgram;

/// A source, a queue that overflows, and a counter.
const CONFIG: &str = "s :: RatedSource(RATE 2000, LIMIT -1) -> c :: Counter -> q :: Queue(3) -> Idle;";

/// Starts a run with a control socket, and waits until it forwards packets.
fn start(socket: &Path, args: &[&str]) -> RunningProgram {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "--memory", "256M", "--control"]).arg(socket).args(args).args(["-e", CONFIG]);
    let mut program = RunningProgram::new(command.stdin(Stdio::null())).unwrap();
    program.wait_for("overflow").unwrap();
    program
}

fn top(socket: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["top", socket]).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Returns the words of the first line of a text that begins with these words.
fn words<'a>(text: &'a str, start: &[&str]) -> Vec<&'a str> {
    let words = |line: &'a str| line.split_whitespace().collect::<Vec<_>>();
    let found = text.lines().map(words).find(|words| words.starts_with(start));
    found.unwrap_or_else(|| panic!("no line {start:?} in\n{text}"))
}

#[test]
fn a_snapshot_has_all_tables() {
    let folder = tempfile::tempdir().unwrap();
    for threads in ["1", "3"] {
        let socket = folder.path().join(threads);
        let program = start(&socket, &["--threads", threads]);
        let output = top(&socket.display().to_string(), &["--once", "--interval", "500ms", "--sort", "name"]);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("in "), "{text}");
        let queue = words(&text, &["q", "Queue"]);
        let rate = |text: &str| match text.strip_suffix('k') {
            Some(thousands) => thousands.parse::<f64>().unwrap() * 1000.0,
            None => text.parse().unwrap(),
        };
        // The queue is full, so it drops what comes in; the counter passes everything on.
        assert_eq!((queue[5], queue[3]), ("3", "0"), "{text}");
        assert!(rate(queue[2]) > 0.0 && rate(queue[7]) > 0.0, "{text}");
        let counter = words(&text, &["c", "Counter"]);
        assert!(rate(counter[2]) > 0.0 && rate(counter[3]) > 0.0 && counter[6] == "0", "{text}");
        assert!(words(&text, &["q", "Queue", "queue", "full"])[4].parse::<u64>().unwrap() > 0);
        let workers = text.split("\nWorkers\n").nth(1).unwrap();
        assert_eq!(workers.lines().count(), 1 + threads.parse::<usize>().unwrap(), "{text}");
        assert!(!text.contains("Interfaces"), "there are no interfaces: {text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        drop(program);
    }
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gw");
    let error = |output: Output| {
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let name = socket.display().to_string();
    assert!(error(top(&name, &["--once"])).contains("No such file"));
    let _program = start(&socket, &[]);
    assert!(error(top(&name, &[])).contains("--once"));
    // Something else than a control socket listens.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answer = std::thread::spawn(move || {
        use std::io::Write;
        other.accept().unwrap().0.write_all(b"220 mail\r\n").unwrap();
    });
    assert!(error(top(&address, &["--once"])).contains("no control socket answers there"));
    answer.join().unwrap();
}
