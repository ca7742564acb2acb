//! A run as a service: its messages to the service manager, and the unit for systemd.

use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

#[test]
fn the_service_manager_hears_of_the_start_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut text = [0; 256];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).trim().to_string()
    };
    let text = "InfiniteSource(LIMIT 1) -> Discard; DriverManager(wait 0.1, stop)";
    let mut run = Command::new(TIDEGATE)
        .args(["run", "-e", text])
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(hear(), "READY=1");
    assert_eq!(hear(), "STOPPING=1");
    assert!(run.wait().unwrap().success());
    // A configuration that does not start is never ready.
    let failed = Command::new(TIDEGATE)
        .args(["run", "-e", "FromDump(/nonexistent.pcap) -> Discard"])
        .env("NOTIFY_SOCKET", &path)
        .output()
        .unwrap();
    assert!(!failed.status.success());
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 256]).is_err());
}

/// Starts a run under a service manager that wants a sign every 400 ms, and returns a function that waits for
/// its next message.
fn watched(folder: &Path, text: &str) -> (Child, impl Fn() -> Option<String> + use<>) {
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let run = Command::new(TIDEGATE)
        .args(["run", "-q", "--threads", "2", "-e", text])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let hear = move || {
        let mut text = [0; 256];
        let length = socket.recv(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text[..length]).trim().to_string())
    };
    (run, hear)
}

#[test]
fn a_run_that_goes_on_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // The run sleeps most of the time, and its second worker has nothing to do.
    let text = "RatedSource(RATE 10) -> Discard; DriverManager(wait 1.5, stop)";
    let (mut run, hear) = watched(folder.path(), text);
    assert_eq!(hear().as_deref(), Some("READY=1"));
    for _ in 0..4 {
        assert_eq!(hear().as_deref(), Some("WATCHDOG=1"));
    }
    let end = std::iter::from_fn(hear).find(|message| message != "WATCHDOG=1");
    assert_eq!(end.as_deref(), Some("STOPPING=1"));
    assert!(run.wait().unwrap().success());
}

#[test]
fn a_run_that_hangs_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // The worker waits for the rest of a capture that does not come.
    let (mut run, hear) = watched(folder.path(), "FromDump(-) -> Discard");
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
    header[4..8].copy_from_slice(&[2, 0, 4, 0]);
    (header[16], header[17], header[20]) = (0xff, 0xff, 1);
    let mut input = run.stdin.take().unwrap();
    input.write_all(&header).unwrap();
    assert_eq!(hear().as_deref(), Some("READY=1"));
    assert_eq!(hear(), None);
    drop(input);
    let end = std::iter::from_fn(hear).find(|message| message != "WATCHDOG=1");
    assert_eq!(end.as_deref(), Some("STOPPING=1"));
    assert!(run.wait().unwrap().success());
}

#[test]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: systemd-analyze is not installed");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unit = std::fs::read_to_string(root.join("packaging/systemd/tidegate@.service")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("tidegate@gateway.service");
    // The program is where this build has it, and its pages are not installed.
    let unit = unit.replace("/usr/bin/tidegate", TIDEGATE).replace("Documentation=man:tidegate(1)\n", "");
    std::fs::write(&copy, unit).unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let about: Vec<&str> = told.lines().filter(|line| line.contains("tidegate@")).collect();
    assert!(about.is_empty(), "{told}");
}
