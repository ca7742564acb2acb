//! The control socket of a running program.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A driver that runs until it is told to stop, and a connection to it.
fn start(folder: &std::path::Path, config: &str) -> (Child, BufReader<UnixStream>) {
    let path = folder.join("control");
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["click", "-u", &path.display().to_string(), "-h", "c.count", "-e", config])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The socket appears as soon as the program has started; ten seconds are for slow machines.
    let stream = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        UnixStream::connect(&path).ok()
    });
    let stream = stream.expect("the socket appears");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(line(&mut stream), "Click::ControlSocket/1.3");
    (child, stream)
}

fn line(stream: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

fn ask(stream: &mut BufReader<UnixStream>, command: &str) -> String {
    stream.get_mut().write_all(command.as_bytes()).unwrap();
    line(stream)
}

fn data(stream: &mut BufReader<UnixStream>) -> String {
    let length: usize = line(stream).strip_prefix("DATA ").unwrap().parse().unwrap();
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_client_reads_writes_and_stops_a_running_driver() {
    let folder = tempfile::tempdir().unwrap();
    let (child, mut stream) =
        start(folder.path(), "s :: InfiniteSource(ACTIVE false, LIMIT 7) -> c :: Counter -> Discard");
    assert_eq!(ask(&mut stream, "READ c.count\r\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(&mut stream), "0");
    assert_eq!(ask(&mut stream, "READ list\n"), "200 Read handler 'list' OK");
    assert_eq!(data(&mut stream), "4\ns\nc\nDiscard@3\nclick_driver@@ControlSocket\n");
    assert_eq!(ask(&mut stream, "WRITE s.active true\n"), "200 Write handler 's.active' OK");
    let count = (0..1000).find(|_| {
        std::thread::sleep(Duration::from_millis(5));
        ask(&mut stream, "READ c.count\n");
        data(&mut stream) == "7"
    });
    assert!(count.is_some());
    assert_eq!(ask(&mut stream, "WRITE stop\n"), "200 Write handler 'stop' OK");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n");
    assert!(!folder.path().join("control").exists());
}

#[test]
fn garbage_and_rude_clients_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, mut stream) = start(folder.path(), "Idle -> c :: Counter -> Discard");
    let path = folder.path().join("control");
    for n in 0..100u32 {
        let mut rude = UnixStream::connect(&path).unwrap();
        let garbage: Vec<u8> =
            (0..2_000u32).map(|i| (i.wrapping_mul(2_654_435_761 + n) >> 13) as u8).collect();
        // It may have been thrown out already; it never looks at what it gets.
        let _ = rude.write_all(&garbage);
        let _ = rude.write_all(b"READDATA c.count 1000000\nshort");
    }
    assert_eq!(ask(&mut stream, "READ c.count\n"), "200 Read handler 'c.count' OK");
    assert_eq!(data(&mut stream), "0");
    assert_eq!(ask(&mut stream, "WRITE stop\n"), "200 Write handler 'stop' OK");
    assert!(child.wait().unwrap().success());
}
