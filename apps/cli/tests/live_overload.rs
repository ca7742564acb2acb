//! A live interface that gets many times the load that a chain can process, and then half of it: packets
//! are lost only under overload, and every packet is counted. The test is a program of its own, because it
//! needs both cores for a while. Skipped with a message if network namespaces cannot be created.

mod line;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use lab::{Namespace, PATIENCE};
use line::{Control, Line, RIGHT, TIDEGATE};
use serde_json::Value;

/// The destination of datagrams.
const PORT: (Ipv4Addr, u16) = (RIGHT, 9);

/// A sender of datagrams of many flows, at a rate or as fast as possible.
struct Load {
    /// The rate in datagrams per second, which can be changed while the sender runs.
    rate: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    sender: JoinHandle<()>,
}

impl Load {
    /// A rate that no sender reaches.
    const MOST: u64 = u64::MAX;

    fn start(from: &Namespace, to: SocketAddr) -> Load {
        let sockets = from.enter(|| {
            let bind = |_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("any address");
            (0..256).map(bind).collect::<Vec<_>>()
        });
        let (rate, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (wanted, has_ended) = (Arc::clone(&rate), Arc::clone(&ends));
        let sender = spawn(move || {
            let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            let thread = thread.file_name().unwrap_or_default();
            let _ =
                Command::new("renice").args(["-n", "-10", "-p"]).arg(thread).stdout(Stdio::null()).status();
            let payload = [7; 1400];
            let mut last = Instant::now();
            let mut next = 0;
            let mut due = 0.0;
            while !has_ended.load(Ordering::Relaxed) {
                let rate = wanted.load(Ordering::Relaxed) as f64;
                // Datagrams that were due while the sender did not run are left out, so that it never sends
                // them later in a burst.
                let elapsed = std::mem::replace(&mut last, Instant::now()).elapsed().as_secs_f64();
                due = (due + rate * elapsed).min((rate * 0.01).clamp(1.0, 1000.0));
                while due >= 1.0 {
                    // An error means that the interface takes no packets now. The datagram is lost.
                    let _ = sockets[next % sockets.len()].send_to(&payload, to);
                    (next, due) = (next + 1, due - 1.0);
                }
                if rate < Load::MOST as f64 {
                    sleep(Duration::from_micros(500));
                }
            }
        });
        Load { rate, ends, sender }
    }

    fn set(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    fn stop(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.sender.join().unwrap();
    }
}

/// Returns the number of packets that an interface has sent.
fn sent(space: &Namespace, interface: &str) -> u64 {
    let shown: Value =
        serde_json::from_str(&space.ip(&format!("-s -j link show dev {interface}")).unwrap()).unwrap();
    shown[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

#[test]
fn loss_ends_with_the_overload() {
    let Some(line) = Line::new() else { return };
    line.know_each_other();
    let folder = tempfile::tempdir().unwrap();
    let [path, report] = ["control", "report.json"].map(|name| folder.path().join(name));
    // The chain flips each bit of a packet four times, which takes much longer than sending the packet.
    let work = "RandomBitErrors(1) -> ".repeat(4);
    let config = format!(
        "fl :: FromDevice(left, PROMISC true) -> way :: Switch; way[0] -> {work} done :: Counter -> Discard;
         way[1] -> done; ControlSocket(unix, {}); Script(print \"ready\")",
        path.display()
    );
    // Other processes on this machine come and go; sender and workers should have about the same share of
    // their cores all the time.
    let options =
        ["-n", "-10", TIDEGATE, "run", "-e", &config, "--threads", "2", "--json", report.to_str().unwrap()];
    let running = line.between.start("nice", &options).unwrap();
    let mut control = Control::open(&path);
    // No packets have been sent before.
    assert_eq!((sent(&line.left, "eth0"), control.number("fl.count")), (0, 0));
    let load = Load::start(&line.left, PORT.into());
    load.set(Load::MOST);
    let until = Instant::now() + PATIENCE;
    while control.number("fl.kernel_drops") == 0 {
        assert!(Instant::now() < until, "the rings are never full");
        sleep(Duration::from_millis(50));
    }
    // The packets of one second give the rate of the chain under overload.
    let start = (Instant::now(), control.number("done.count"), control.number("fl.kernel_drops"));
    sleep(Duration::from_secs(1));
    let achieved = (control.number("done.count") - start.1) as f64 / start.0.elapsed().as_secs_f64();
    let lost = control.number("fl.kernel_drops") - start.2;
    assert!(lost > 0, "{achieved} per second are no overload");
    load.set((achieved / 2.0) as u64);
    // The receiver skips waiting packets that are too old as soon as its ring is full again, because reading
    // all of them would take many seconds. The number of packets that it still reads follows from the work of
    // the chain, whatever other processes run meanwhile.
    let until = Instant::now() + PATIENCE;
    let waiting = |control: &mut Control| {
        let sent = sent(&line.left, "eth0");
        sent.saturating_sub(control.number("fl.count") + control.number("fl.kernel_drops"))
    };
    let (backlog, done) = (waiting(&mut control), control.number("done.count"));
    while waiting(&mut control) as f64 > achieved / 10.0 {
        assert!(Instant::now() < until, "the backlog of {backlog} packets never ends");
        sleep(Duration::from_millis(20));
    }
    let late = [control.number("fl.kernel_drops"), control.number("done.count")];
    let read = late[1] - done;
    assert!(read <= (backlog / 2).max(achieved as u64), "{read} read of a backlog of {backlog}");
    // At half of the measured rate, as many packets as the chain processes in a second have to pass without a
    // loss. If other processes take the cores for longer than the rings can hold packets, the next second is
    // tried.
    let [mut drops, mut done] = late;
    loop {
        while control.number("done.count") < done + achieved as u64 {
            assert!(Instant::now() < until, "the chain does nothing more");
            sleep(Duration::from_millis(20));
        }
        let later = [control.number("fl.kernel_drops"), control.number("done.count")];
        if later[0] == drops {
            break;
        }
        let often = later[0] - late[0];
        assert!(Instant::now() < until, "{often} lost at half of {achieved:.0} per second; before, {lost}");
        [drops, done] = later;
    }
    load.stop();
    // The packets that still wait now take the path without the elements that cost time.
    control.write("way.switch", "1").unwrap();
    let (until, after) = (Instant::now() + PATIENCE, sent(&line.left, "eth0"));
    while control.number("fl.count") + control.number("fl.kernel_drops") < after {
        assert!(Instant::now() < until, "some of {after} packets have not come");
        sleep(Duration::from_millis(20));
    }
    let (good, [_, messages]) = running.stop();
    assert!(good, "{messages}");
    // Each packet is counted in one place.
    let report: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let of = |name: &str| report["elements"].as_array().unwrap().iter().find(|e| e["name"] == name).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let (made, missed) = (number(&of("fl")["made"]), number(&of("fl")["missed"]));
    assert_eq!(made + missed, after, "{messages}");
    let totals = &report["totals"];
    assert_eq!(
        number(&totals["in"]),
        number(&totals["out"]) + number(&totals["held"]) + number(&totals["dropped"])
    );
    println!("{achieved:.0} per second, {lost} lost in a second, {read} read of a backlog of {backlog}");
}
