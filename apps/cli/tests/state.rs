//! `--state FILE`: a run continues with the state of the run before it, whatever ended the earlier run.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wire::build::Builder;
use wire::ethernet::MacAddr;

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(TIDEGATE).arg("run").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Datagrams, each from an address to another.
type Datagrams = [(SocketAddr, SocketAddr)];

/// Returns a capture of datagrams, one per second from the second `start` on.
fn capture(start: u32, datagrams: &Datagrams) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend_from_slice(&word.to_ne_bytes());
    }
    for (&(from, to), second) in datagrams.iter().zip(start..) {
        let frame =
            Builder::udp(from, to).ethernet(MacAddr([4; 6]), MacAddr([2; 6])).build(&[7; 18]).unwrap();
        let length = frame.len() as u32;
        for word in [second, 0, length, length] {
            file.extend_from_slice(&word.to_ne_bytes());
        }
        file.extend_from_slice(&frame);
    }
    file
}

const START: u32 = 1_700_000_000;
const HOSTS: u16 = 40;

fn inside(host: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1000 + host))
}

fn outside() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], 53))
}

/// Returns the outside address and port of each host, from the translator's table.
fn mapped((table, errors): &(String, String)) -> Vec<SocketAddr> {
    let port = |host: u16| -> u16 {
        let flow = format!("(10.0.0.1, {}, 198.51.100.7, 53) => (192.0.2.1, ", inside(host).port());
        let rest = table.split(&flow).nth(1).unwrap_or_else(|| panic!("no {flow} in {table}{errors}"));
        rest.split(',').next().unwrap().parse().unwrap()
    };
    (0..HOSTS).map(|host| SocketAddr::from(([192, 0, 2, 1], port(host)))).collect()
}

/// A test of an address translator, which gets its packets from inside and its packets from outside from one
/// capture each.
struct Nat {
    folder: tempfile::TempDir,
}

impl Nat {
    fn new() -> Nat {
        Nat { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the translator with captures of datagrams from inside and from outside, one datagram per second,
    /// from the second `start` on. Returns the output and the messages.
    fn run(
        &self,
        start: u32,
        [from_inside, from_outside]: [&Datagrams; 2],
        options: &[&str],
    ) -> (String, String) {
        // Each capture begins with a datagram that has no mapping. It sets the trace clock to `start`.
        let stranger = |number| SocketAddr::from(([203, 0, 113, number], 9));
        for (name, datagrams) in [("in.pcap", from_inside), ("out.pcap", from_outside)] {
            let all = [&[(stranger(1), stranger(2))], datagrams].concat();
            fs::write(self.path(name), capture(start, &all)).unwrap();
        }
        self.run_again(options)
    }

    /// Runs the translator with the captures that are in the folder already.
    fn run_again(&self, options: &[&str]) -> (String, String) {
        let (inside, outside) = (self.path("in.pcap"), self.path("out.pcap"));
        let config = format!(
            "FromDump({}) -> MarkIPHeader(14) -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop)
                -> Discard;
             FromDump({}) -> MarkIPHeader(14) -> [1] nat [1] -> back :: Counter -> Discard",
            shown(&inside),
            shown(&outside)
        );
        let state = self.path("state");
        let handlers =
            ["-H", "nat.udp_table", "-H", "back.count", "--clock", "trace", "--state", shown(&state)];
        let output = tidegate(&[&["-e", &config], &handlers[..], options].concat());
        let (output, errors, good) = (text(&output.stdout), text(&output.stderr), output.status.success());
        assert!(good, "{errors}");
        (output, errors)
    }
}

/// The value of a handler in the output of a run.
fn count(output: &str) -> u64 {
    output.split("back.count:\n").nth(1).unwrap().trim().parse().unwrap()
}

#[test]
fn mappings_survive_whatever_the_number_of_workers() {
    let nat = Nat::new();
    let flows: Vec<_> = (0..HOSTS).map(|host| (inside(host), outside())).collect();
    let first = nat.run(START, [&flows, &[]], &["--threads", "1"]);
    let outer = mapped(&first);
    assert!(!first.1.contains("state:"), "{}", first.1);
    let replies: Vec<_> = outer.iter().map(|&host| (outside(), host)).collect();
    // Runs that get only replies and runs that get only requests follow each other, on different numbers of
    // workers. Each run continues with all mappings.
    let mut start = START + 60;
    for threads in ["1", "2", "3", "4", "2", "1"] {
        let options = ["--threads", threads];
        let said = nat.run(start, [&[], &replies], &options);
        assert_eq!((mapped(&said), count(&said.0)), (outer.clone(), HOSTS.into()), "{threads}: {}", said.1);
        assert!(said.1.contains("state: continues with"), "{}", said.1);
        let said = nat.run(start + 60, [&flows, &[]], &options);
        assert_eq!(mapped(&said), outer, "{threads}: {}", said.1);
        start += 120;
    }
    // After an hour, no mapping is left.
    let (output, errors) = nat.run(start + 3600, [&[], &replies], &[]);
    assert_eq!(count(&output), 0, "{output}");
    assert!(
        errors.contains("state: continues with 0 entries") && errors.contains("more had ended"),
        "{errors}"
    );
}

#[test]
fn a_wrong_file_is_reported_and_ignored() {
    let nat = Nat::new();
    let flows = [(inside(0), outside())];
    nat.run(START, [&flows, &[]], &[]);
    let state = nat.path("state");
    let whole = fs::read(&state).unwrap();
    for (damaged, said) in [
        (whole[..whole.len() - 1].to_vec(), "it is cut"),
        ([&whole[..whole.len() / 2], &[0xff], &whole[whole.len() / 2 + 1..]].concat(), "a checksum is wrong"),
        (Vec::new(), "it is empty"),
        ([&whole[..16], &[9, 0, 0, 0], &whole[20..]].concat(), "version 9"),
    ] {
        fs::write(&state, damaged).unwrap();
        let (output, errors) = nat.run(START, [&[], &[]], &[]);
        assert!(errors.contains(said) && errors.contains("state: it "), "{said}: {errors}");
        assert!(
            errors.contains("the run starts without saved state") && !output.contains("10.0.0.1"),
            "{errors}"
        );
        // The run has replaced the damaged file by a state file, which the next run reads.
        assert!(!nat.run(START, [&[], &[]], &[]).1.contains("state: it "));
    }
    // A run whose captures are empty does not know the time, so it leaves the state file unchanged.
    nat.run(START, [&flows, &[]], &[]);
    let whole = fs::read(&state).unwrap();
    for name in ["in.pcap", "out.pcap"] {
        fs::write(nat.path(name), capture(START, &[])).unwrap();
    }
    nat.run_again(&[]);
    assert!(fs::read(&state).unwrap() == whole);
    // A file that is no state file is not overwritten.
    for text in ["my only copy of a long text", "short"] {
        fs::write(&state, text).unwrap();
        let (_, errors) = nat.run(START, [&flows, &[]], &[]);
        assert!(errors.contains("state: it is not a state file; the run starts without"), "{errors}");
        assert_eq!(fs::read_to_string(&state).unwrap(), text);
    }
}

#[test]
fn elements_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let run = |flows: &str, nat: &str| {
        let config = format!(
            "FastUDPFlows(0, 300, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 192.0.2.9, 100, 3, STOP true)
                -> MarkIPHeader(14) -> {flows} -> {nat} -> Discard"
        );
        text(&tidegate(&["-e", &config, "--state", shown(&state)]).stderr)
    };
    run("f :: FlowCounter", "nat :: IPRewriter(keep 0 0)");
    let errors = run("g :: FlowCounter", "nat :: IPRewriter(keep 0 0, CAPACITY 10)");
    assert!(
        errors.contains("f :: FlowCounter: there is no such element; its saved state is ignored"),
        "{errors}"
    );
    let refused = errors.lines().find(|line| line.contains("nat :: IPRewriter: ")).unwrap();
    assert!(refused.contains("entries are ignored, because they do not fit"), "{errors}");
    assert!(errors.contains("continues with 10 entries of 1 element"), "{errors}");
}

#[test]
fn a_file_that_cannot_be_written_stays_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let config = |limit: u32| {
        format!(
            "FastUDPFlows(1000, {limit}, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 192.0.2.9, 5000, 3, STOP true)
                -> MarkIPHeader(14) -> nat :: IPRewriter(keep 0 0) -> c :: Counter -> Discard"
        )
    };
    let run = |state: &Path, limit: u32| {
        let options = ["--state", shown(state), "--state-interval", "50ms", "-H", "c.count", "-q"];
        let output = tidegate(&[&["-e", &config(limit)], &options[..]].concat());
        assert_eq!(text(&output.stdout).trim(), limit.to_string());
        (output.status.success(), text(&output.stderr))
    };
    // The folder of the state file does not exist.
    let (good, errors) = run(&folder.path().join("none/state"), 300);
    assert!(!good && errors.contains("none/state: the state cannot be saved: No such file"), "{errors}");
    // The same failure is reported once while the run goes on, and once at the end.
    assert_eq!(errors.matches("cannot be saved").count(), 2, "{errors}");
    assert!(errors.contains("the run goes on"), "{errors}");
    // A folder has the name `state.new`, under which the new state file would be written before it is
    // renamed.
    let state = folder.path().join("state");
    assert_eq!(run(&state, 300), (true, String::new()));
    let old = fs::read(&state).unwrap();
    let taken = folder.path().join("state.new");
    fs::create_dir(&taken).unwrap();
    let (good, errors) = run(&state, 300);
    assert!(!good && errors.contains("cannot be saved: Is a directory"), "{errors}");
    assert!(fs::read(&state).unwrap() == old);
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let script = format!(
        "mount -t tmpfs -o size=256k none {folder} || exit 77
         start() {{ {TIDEGATE} run -q --state {state} --state-interval 20ms -e \\
            \"FastUDPFlows($1, $2, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 192.0.2.9, $2, 1, STOP true) \\
                -> MarkIPHeader(14) -> nat :: IPRewriter(keep 0 0) -> Discard\"; }}
         start 1000 100 && start 20000 10000
         {TIDEGATE} run -q --state {state} -e 'Idle -> nat :: IPRewriter(keep 0 0) -> Discard; Script(stop)' \\
            -H nat.nmappings
         ls {folder}",
        folder = shown(folder.path()),
        state = shown(&state),
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    if output.status.code() == Some(77) || text(&output.stderr).contains("Operation not permitted") {
        return println!("skipped: no file system can be mounted here");
    }
    let errors = text(&output.stderr);
    assert!(errors.contains("the state cannot be saved: No space left on device"), "{errors}");
    let out = text(&output.stdout);
    let (mappings, files) = out.split_once('\n').unwrap();
    assert!(mappings.parse::<u32>().unwrap() >= 100, "{out}{errors}");
    assert_eq!(files, "state\nstate.lock\n", "{errors}");
}

#[test]
fn two_runs_do_not_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let other = ["-e", "Idle -> Discard; Script(stop)", "--state", shown(&state)];
    let mut first = Command::new(TIDEGATE)
        .args(["run", "-e", "Idle -> Discard; Script(wait 100s)", "--state", shown(&state)])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lock = folder.path().join("state.lock");
    let refused = (0..1000).any(|_| {
        sleep(Duration::from_millis(5));
        // The second run starts only when the lock file exists, so that it cannot take the lock before the
        // first run.
        lock.exists() && {
            let output = tidegate(&other);
            assert!(
                output.status.success() || text(&output.stderr).contains("another run uses this state file")
            );
            !output.status.success()
        }
    });
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(refused);
    assert!(tidegate(&other).status.success(), "the lock ends with its run");
}

/// Kills a run many times (80, or `TIDEGATE_KILLS`) while it writes its file again and again. The next run
/// always finds a complete file, which has at least as many entries as the file before.
#[test]
fn a_killed_run_leaves_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let (mut random, mut entries, mut unfinished) = (fastrand::Rng::with_seed(1), 0u64, 0);
    let config = "FastUDPFlows(50000, -1, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 192.0.2.9, 400, 9)
        -> MarkIPHeader(14) -> nat :: IPRewriter(keep 0 0, UDP_TIMEOUT 1000s) -> Discard";
    let kills: u64 = std::env::var("TIDEGATE_KILLS").map_or(80, |text| text.parse().unwrap());
    for round in 0..kills {
        let mut child = Command::new(TIDEGATE)
            .args(["run", "-e", config, "--state", shown(&state), "--state-interval", "1ms"])
            .args(["--seed", &round.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The time of the file before this run's first save, or after the save if that was faster.
        let begun = modified(&state);
        let new = folder.path().join("state.new");
        let until = Instant::now() + Duration::from_secs(60);
        while modified(&state) == begun && Instant::now() < until {
            sleep(Duration::from_micros(200));
        }
        sleep(Duration::from_micros(random.u64(..20_000)));
        child.kill().unwrap();
        let said = text(&child.wait_with_output().unwrap().stderr);
        unfinished += u32::from(new.exists());
        if round > 0 {
            let found = said.split("continues with ").nth(1).and_then(|rest| rest.split(' ').next());
            let found: u64 = found.unwrap_or_else(|| panic!("round {round}: {said}")).parse().unwrap();
            assert!(found >= entries && found > 0, "round {round}: {found} after {entries}: {said}");
            entries = found;
        }
    }
    println!(
        "{unfinished} of {kills} runs were killed while they wrote; the last file has {entries} entries"
    );
    assert!(unfinished > 0, "no run was killed while it wrote");
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
