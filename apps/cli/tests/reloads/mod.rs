//! Runs whose configuration is replaced while packets flow, for interfaces of each kind.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use lab::{Counted, DatagramStream, Namespace, RunningProgram, ping, transfer};

use crate::line::{Line, MEGABYTE, TIDEGATE};

/// The address of the machine on the far side of the router, at which TCP, UDP and pings arrive.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 2);

/// The kind of the interfaces: packet sockets, AF_XDP, a TAP to the machine itself on the left side, ports of
/// DPDK whose other ends are TAPs, or ports of DPDK that are packet sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Packet,
    Xdp,
    Tap,
    Dpdk,
    DpdkSockets,
}

impl Kind {
    /// Returns the arguments of `run` for the ports of DPDK.
    fn ports(self) -> &'static [&'static str] {
        match self {
            Kind::Dpdk => &["--vdev=net_tap0,iface=tgl", "--vdev=net_tap1,iface=tgr"],
            Kind::DpdkSockets => &["--vdev=net_af_packet0,iface=left", "--vdev=net_af_packet1,iface=right"],
            Kind::Packet | Kind::Xdp | Kind::Tap => &[],
        }
    }
}

/// A running instance whose configuration file a test changes.
pub(crate) struct Run {
    pub(crate) running: RunningProgram,
    folder: tempfile::TempDir,
}

impl Run {
    /// Starts the configuration in `text` at the machine in the middle.
    pub(crate) fn start(line: &Line, kind: Kind, text: &str, options: &[&str]) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let [file, socket] = ["router.click", "control"].map(|name| folder.path().join(name));
        fs::write(&file, ready(text)).unwrap();
        let dpdk = match kind.ports() {
            [] => Vec::new(),
            ports => [&["--dpdk", "--no-huge", "--no-pci"], ports, &["--"]].concat(),
        };
        let arguments = ["--control", socket.to_str().unwrap(), file.to_str().unwrap()];
        let arguments = [&["run"], &dpdk[..], &arguments, options].concat();
        let mut running = line.between.spawn(TIDEGATE, &arguments).unwrap();
        running.wait_until_said("ready").unwrap();
        Run { running, folder }
    }

    /// Returns the command that reloads the configuration in `text`.
    pub(crate) fn command(&self, text: &str) -> Command {
        fs::write(self.folder.path().join("router.click"), ready(text)).unwrap();
        let mut command = Command::new(TIDEGATE);
        command.arg("reload").arg(self.folder.path().join("control"));
        command
    }

    /// Reloads the configuration in `text`.
    pub(crate) fn reload(&self, text: &str) -> Output {
        self.command(text).output().unwrap()
    }

    /// Reloads a configuration that has to be accepted.
    pub(crate) fn must_reload(&self, text: &str) {
        let output = self.reload(text);
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
    }

    /// Reloads a configuration that has to be refused, with this error.
    pub(crate) fn must_refuse(&self, text: &str, error: &str) {
        let output = self.reload(text);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(error), "{said}\n{text}");
    }

    /// Returns the number of file descriptors of the process, and the number of its memory mappings of
    /// sockets' rings.
    pub(crate) fn open(&self) -> (usize, usize) {
        let id = self.running.id();
        let files = fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        (files, maps.lines().filter(|line| line.contains("socket:")).count())
    }

    /// Waits until the process has no more file descriptors and memory mappings of rings than before: an old
    /// graph is freed in the background after a reload.
    pub(crate) fn wait_until_closed(&self, before: (usize, usize)) {
        let is_so = (0..2000).any(|_| {
            sleep(Duration::from_millis(5));
            let now = self.open();
            now.0 <= before.0 && now.1 <= before.1
        });
        assert!(is_so, "{:?} are open, before {before:?}", self.open());
    }
}

/// Adds a script to a configuration that prints `ready` once the run has begun.
fn ready(text: &str) -> String {
    format!("{text}; Script(print \"ready\")")
}

/// Returns a firewall, a NAT and a router between two networks. Successive values of `number` give different
/// rules and routes, and different names of the elements that have the interfaces.
pub(crate) fn network(kind: Kind, number: usize) -> String {
    let name = number % 2;
    let device = |side: &str| match kind {
        Kind::Xdp => {
            format!("{side}_in{name} :: FromXDP({side}, PROMISC true); {side}_out{name} :: ToXDP({side});")
        }
        Kind::Tap if side == "left" => format!(
            "left_in{name} :: KernelTap(10.1.0.2/24, ETHER 2:0:0:0:0:1, DEVNAME tap7);
             left_out{name} :: Queue(10000) -> left_in{name};"
        ),
        Kind::Dpdk | Kind::DpdkSockets => {
            let port = if side == "left" { 0 } else { 1 };
            format!("{side}_in{name} :: FromDPDKDevice({port}); {side}_out{name} :: ToDPDKDevice({port});")
        }
        _ => format!(
            "{side}_in{name} :: FromDevice({side}, PROMISC true);
             {side}_out{name} :: Queue(10000) -> ToDevice({side});"
        ),
    };
    let more = "-> Null ".repeat(number % 3);
    format!(
        "{} {}
         {} -> near :: Classifier(12/0800, -) {more}-> Strip(14) -> CheckIPHeader
             -> IPFilter(deny src host 192.0.2.{}, allow src net 10.1.0.0/24, deny all)
             -> inside :: IPClassifier(tcp or udp, icmp, -);
         {} -> far :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader
             -> IPFilter(deny src host 192.0.2.{}, allow all) -> outside :: IPClassifier(tcp or udp, icmp, -);
         near[1] -> Discard; far[1] -> Discard; inside[2] -> Discard; outside[2] -> Discard;
         nat :: IPRewriter(pattern 10.2.0.9 1024-65535 - - 0 1, drop);
         pings :: ICMPPingRewriter(pattern 10.2.0.9 1024-65535 - - 0 1, drop);
         inside[0] -> [0] nat; inside[1] -> [0] pings; outside[0] -> [1] nat; outside[1] -> [1] pings;
         routes :: RadixIPLookup(10.1.0.0/24 0, 10.2.0.0/24 1, 192.168.{}.0/24 1);
         nat[0] -> routes; nat[1] -> routes; pings[0] -> routes; pings[1] -> routes;
         routes[0] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:99, 2:0:0:0:0:1) -> left_out{name};
         routes[1] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:99, 2:0:0:0:0:2) -> right_out{name}",
        device("left"),
        device("right"),
        format_args!("left_in{name}"),
        number % 250 + 1,
        format_args!("right_in{name}"),
        number % 250 + 1,
        number % 250,
    )
}

/// The hosts at both ends of [`network`]: the last byte of the link address, the IP address with its prefix
/// length, and the addresses of the router in the host's network.
const ENDS: [(u8, &str, &[&str]); 2] =
    [(1, "10.1.0.2/24", &["10.1.0.1"]), (2, "10.2.0.2/24", &["10.2.0.1", "10.2.0.9"])];

/// Creates the machines, with `queues` queues at each end of the cables, and gives the machines at both ends
/// their addresses and routes for [`network`].
pub(crate) fn networks(queues: usize) -> Option<Line> {
    let line = Line::with_queues(queues, queues)?;
    for (space, end) in [(&line.left, ENDS[0]), (&line.right, ENDS[1])] {
        space.ip("addr flush dev eth0").unwrap();
        join(space, "eth0", end);
    }
    [&line.left, &line.between, &line.right].into_iter().for_each(limit);
    Some(line)
}

/// Limits the TCP windows of a machine to 64 KiB. TCP increases its rate until packets are lost, which would
/// be packets of other flows as well. So the window is less than the interfaces' rings can hold.
pub(crate) fn limit(space: &Namespace) {
    let set = "for name in rmem wmem; do echo 4096 65536 65536 > /proc/sys/net/ipv4/tcp_$name; done";
    assert!(space.command("sh").args(["-c", set]).status().unwrap().success());
}

/// Sets up an interface as that of an end host in [`ENDS`]: link address, IP address, and routes through the
/// router.
fn join(space: &Namespace, interface: &str, (own, address, routers): (u8, &str, &[&str])) {
    space.ip(&format!("link set {interface} address 2:0:0:0:0:{own}")).unwrap();
    space.ip(&format!("addr add {address} dev {interface}")).unwrap();
    space.ip(&format!("link set {interface} up")).unwrap();
    settle(space, interface, routers);
}

/// Moves the TAPs at the other ends of DPDK's ports to the machines on both sides, and gives them addresses
/// and routes.
pub(crate) fn take_taps(line: &Line) {
    for (tap, space, end) in [("tgl", &line.left, ENDS[0]), ("tgr", &line.right, ENDS[1])] {
        line.between.ip(&format!("link set {tap} netns {}", space.name())).unwrap();
        join(space, tap, end);
    }
}

/// Makes the router the gateway to 10.0.0.0/8, and enters the link address of each router address as a fixed
/// neighbour, so that no ARP is needed.
fn settle(space: &Namespace, interface: &str, routers: &[&str]) {
    for router in routers {
        space.ip(&format!("neigh replace {router} lladdr 2:0:0:0:0:99 dev {interface}")).unwrap();
    }
    space.ip(&format!("route replace 10.0.0.0/8 via {} dev {interface}", routers[0])).unwrap();
}

/// Returns a text that changes when the interfaces of the middle machine are opened again: the numbers of
/// their XDP programs, or the number of the TAP. Other kinds of interfaces give an empty text.
pub(crate) fn identity(line: &Line, kind: Kind) -> String {
    let shown = |interface: &str| line.between.ip(&format!("-d link show dev {interface}")).unwrap();
    match kind {
        Kind::Packet | Kind::Dpdk | Kind::DpdkSockets => String::new(),
        Kind::Xdp => ["left", "right"]
            .map(|interface| {
                let text = shown(interface);
                text.split("prog/xdp id ")
                    .nth(1)
                    .and_then(|id| id.split(' ').next())
                    .unwrap_or("none")
                    .to_string()
            })
            .join(" "),
        Kind::Tap => shown("tap7").split(':').next().unwrap_or_default().into(),
    }
}

/// Returns the times in the output of `tidegate reload`, in microseconds: for each worker, the time for which
/// it stood still.
fn silences(output: &Output, workers: usize) -> Vec<f64> {
    let text = String::from_utf8_lossy(&output.stdout);
    let time = |line: &str| line.strip_suffix(" us")?.split(' ').next_back()?.parse().ok();
    let times: Vec<f64> = text.lines().filter_map(time).collect();
    assert_eq!(times.len(), workers, "{text}");
    times
}

/// Reloads `times` configurations while TCP, UDP and pings go through the network functions, and checks that
/// everything arrives and no file descriptors or rings of old graphs stay open. Prints how long the workers
/// stood still.
pub(crate) fn flows_pass(line: &Line, kind: Kind, workers: usize, times: usize) {
    let threads = workers.to_string();
    let run = Run::start(line, kind, &network(kind, 0), &["--threads", &threads]);
    let client = if kind == Kind::Tap { &line.between } else { &line.left };
    match kind {
        Kind::Tap => settle(client, "tap7", &["10.1.0.1"]),
        Kind::Dpdk => take_taps(line),
        Kind::Packet | Kind::Xdp | Kind::DpdkSockets => {}
    }
    assert_eq!(ping(client, FAR, 1), 1);
    // The first reloads allocate resources that later reloads use again, so the numbers to compare are read
    // after them.
    run.must_reload(&network(kind, 1));
    run.must_reload(&network(kind, 2));
    sleep(Duration::from_millis(100));
    let (before, own) = (run.open(), identity(line, kind));
    let stream = DatagramStream::start(client, &line.right, (FAR, 9).into(), 32);
    let has_ended = AtomicBool::new(false);
    let (mut transfers, mut pings, mut still) = (0, 0, Vec::new());
    scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) || transfers == 0 {
                let address = SocketAddr::from((FAR, 7000));
                transfer(client, &line.right, address, 4 * MEGABYTE, || ()).unwrap();
                transfers += 1;
            }
        });
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) || pings == 0 {
                assert_eq!(ping(client, FAR, 1), 1, "{kind:?} {workers}");
                pings += 1;
            }
        });
        for number in 3..3 + times {
            stream.wait_for(50);
            let output = run.reload(&network(kind, number));
            if !output.status.success() {
                has_ended.store(true, Ordering::Relaxed);
            }
            assert!(
                output.status.success(),
                "{kind:?} {number}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            still.extend(silences(&output, workers));
        }
        has_ended.store(true, Ordering::Relaxed);
    });
    stream.wait_for(100);
    let counted = stream.end();
    run.wait_until_closed(before);
    assert_eq!(identity(line, kind), own, "{kind:?} {workers}: the interface was opened again");
    let (good, [output, messages]) = run.running.stop();
    assert!(good && !messages.contains("panicked"), "{kind:?} {workers}: {output}{messages}");
    still.sort_by(f64::total_cmp);
    let at = |part: f64| still[((still.len() - 1) as f64 * part) as usize];
    println!(
        "{kind:?}, {workers} workers, {times} reloads: silence {:.1} / {:.1} / {:.1} us (median, 99 %, most)",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let Counted { missing, doubled, overtaken, .. } = counted;
    assert_eq!(
        (missing, doubled, overtaken),
        (0, 0, 0),
        "{kind:?} {workers}: {counted:?} {output}{messages}"
    );
}
