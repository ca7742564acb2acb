//! `--state FILE` between two machines: a restart while datagrams pass.

mod line;

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use line::{LEFT, Line, RIGHT, run};

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Restarts a translator with saved state while datagrams pass through it, and checks that flows keep their
/// ports. Prints the time for which no datagrams passed.
#[test]
fn a_restart_under_traffic_keeps_the_ports() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let config = format!(
        "FromDevice(left, PROMISC true) -> from_left :: Classifier(12/0800 23/11, -)
            -> MarkIPHeader(14) -> nat :: IPRewriter(pattern {LEFT} 40000-50000? - - 0 1, drop)
            -> right :: Queue -> ToDevice(right); from_left [1] -> right;
         FromDevice(right, PROMISC true) -> from_right :: Classifier(12/0800 23/11, -)
            -> MarkIPHeader(14) -> [1] nat [1] -> left :: Queue -> ToDevice(left); from_right [1] -> left"
    );
    for threads in [["1", "1"], ["2", "2"], ["1", "2"]] {
        let begin =
            |threads: &str| run(&line.between, &config, &["--threads", threads, "--state", shown(&state)]);
        let server = line.right.enter(|| UdpSocket::bind((RIGHT, 9000)).unwrap());
        let client = line.left.enter(|| UdpSocket::bind((LEFT, 9001)).unwrap());
        client.connect((RIGHT, 9000)).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let ends = AtomicBool::new(false);
        let ends = &ends;
        let (ports, gap) = scope(|scope| {
            let echo = scope.spawn(move || {
                let mut ports = BTreeSet::new();
                let mut bytes = [0; 64];
                while !ends.load(Ordering::Relaxed) {
                    if let Ok((length, from)) = server.recv_from(&mut bytes) {
                        ports.insert(from.port());
                        let _ = server.send_to(&bytes[..length], from);
                    }
                }
                ports
            });
            let asking = scope.spawn(move || {
                let (mut gap, mut last, mut bytes) = (Duration::ZERO, None, [0; 64]);
                while !ends.load(Ordering::Relaxed) {
                    // While nothing forwards, datagrams are lost.
                    let _ = client.send(b"hello");
                    if client.recv(&mut bytes).is_ok() {
                        let now = Instant::now();
                        gap = last.map_or(gap, |last| gap.max(now - last));
                        last = Some(now);
                    }
                }
                gap
            });
            let first = begin(threads[0]);
            sleep(Duration::from_millis(300));
            let (good, [_, errors]) = first.stop();
            assert!(good, "{errors}");
            let second = begin(threads[1]);
            sleep(Duration::from_millis(300));
            let (good, [_, errors]) = second.stop();
            assert!(good && errors.contains("state: continues with 1 entr") || threads[1] == "2", "{errors}");
            ends.store(true, Ordering::Relaxed);
            (echo.join().unwrap(), asking.join().unwrap())
        });
        assert_eq!(ports.len(), 1, "the sender's port has changed: {ports:?}");
        println!("workers {threads:?}: no datagram for {:.1} ms", gap.as_secs_f64() * 1e3);
        fs::remove_file(&state).unwrap();
    }
}
