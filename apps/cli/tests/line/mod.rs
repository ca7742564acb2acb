//! A machine between two others, connected by cables on this machine, with the kernel's own TCP, UDP and
//! ping at both ends and all offloads that these have. Constructors return `None`, with a message, if
//! network namespaces cannot be created.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;

use lab::{Namespace, Net, PATIENCE, RunningProgram, exchange_datagrams, ping, transfer};

pub(crate) const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");
pub(crate) const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub(crate) const MEGABYTE: usize = 1 << 20;

/// Three machines in a row, `left` - `between` - `right`. The interfaces of `between` are named after the
/// machines at their other ends.
pub(crate) struct Line {
    pub(crate) left: Namespace,
    pub(crate) between: Namespace,
    pub(crate) right: Namespace,
    // This field is last so that it is dropped last, when all programs in the namespaces have ended.
    pub(crate) net: Net,
}

impl Line {
    /// Creates the three machines, with a cable from the middle one to each of the others. Returns `None`,
    /// with a message, if network namespaces cannot be created.
    pub(crate) fn new() -> Option<Line> {
        let line = Line::without_cables()?;
        line.net.cable([(&line.left, "eth0", "10.77.0.1/24"), (&line.between, "left", "")]).unwrap();
        line.net.cable([(&line.right, "eth0", "10.77.0.2/24"), (&line.between, "right", "")]).unwrap();
        Some(line)
    }

    pub(crate) fn without_cables() -> Option<Line> {
        let mut net = Net::or_skip()?;
        let [left, between, right] = ["left", "between", "right"].map(|name| net.space(name).unwrap());
        Some(Line { left, between, right, net })
    }

    /// Creates the machines as [`new`](Line::new) does, with `queues` queues at each end of both cables.
    pub(crate) fn wide(queues: usize) -> Option<Line> {
        Line::with_queues(queues, queues)
    }

    /// Creates the machines as [`new`](Line::new) does, with this number of queues at each end of the left
    /// and of the right cable.
    pub(crate) fn with_queues(left: usize, right: usize) -> Option<Line> {
        let line = Line::new()?;
        for (space, name, address, queues) in
            [(&line.left, "left", "10.77.0.1/24", left), (&line.right, "right", "10.77.0.2/24", right)]
        {
            space.ip("link del eth0").unwrap();
            line.net.wide_cable([(space, "eth0", address), (&line.between, name, "")], queues).unwrap();
        }
        Some(line)
    }

    /// Gives the machines at both ends fixed entries with each other's link address, so that they send
    /// without ARP.
    pub(crate) fn know_each_other(&self) {
        for (space, own, other, address) in [(&self.left, 1, 2, RIGHT), (&self.right, 2, 1, LEFT)] {
            space.ip(&format!("link set eth0 address 2:0:0:0:0:{own}")).unwrap();
            space.ip(&format!("neigh replace {address} lladdr 2:0:0:0:0:{other} dev eth0")).unwrap();
        }
    }

    /// Runs a configuration that forwards both directions by AF_XDP, with `arguments` as further arguments of
    /// FromXDP.
    pub(crate) fn forward_by_xdp(&self, arguments: &str, options: &[&str]) -> RunningProgram {
        let config = format!(
            "left :: FromXDP(left, PROMISC true{arguments}) -> to_right :: ToXDP(right);
             right :: FromXDP(right, PROMISC true{arguments}) -> to_left :: ToXDP(left)"
        );
        run(&self.between, &config, options)
    }

    /// Forwards both directions between the interfaces, each direction through the elements of `chain`.
    pub(crate) fn forward(&self, chain: &str, options: &[&str]) -> RunningProgram {
        let both = ["left", "right"].map(|from| {
            let to = if from == "left" { "right" } else { "left" };
            format!(
                "FromDevice({from}, PROMISC true) -> {chain} -> {from} :: Counter -> Queue -> ToDevice({to});"
            )
        });
        run(&self.between, &both.concat(), options)
    }

    /// Takes an interface of one machine down while a file is in transit from left to right, as if its cable
    /// were pulled out, and up again. `meanwhile` runs in between.
    pub(crate) fn pull_while_sending(
        &self,
        space: &Namespace,
        interface: &str,
        meanwhile: impl FnOnce() + Send,
    ) {
        let pull = || {
            space.ip(&format!("link set {interface} down")).unwrap();
            meanwhile();
            space.ip(&format!("link set {interface} up")).unwrap();
        };
        transfer(&self.left, &self.right, SocketAddr::from((RIGHT, 7000)), 8 * MEGABYTE, pull).unwrap();
    }

    /// Sends a file in each direction, pings and datagrams, including fragments, and checks that all of it
    /// arrives.
    pub(crate) fn check(&self) {
        self.check_with(&[0, 1, 100, 1472, 1473, 9000]);
    }

    /// Sends the traffic of [`check`](Line::check), with datagrams of these lengths.
    pub(crate) fn check_with(&self, lengths: &[usize]) {
        assert_eq!(ping(&self.left, RIGHT, 3), 3);
        for (from, to, address) in [(&self.left, &self.right, RIGHT), (&self.right, &self.left, LEFT)] {
            transfer(from, to, SocketAddr::from((address, 7000)), 8 * MEGABYTE, || ()).unwrap();
            let back = exchange_datagrams(from, to, SocketAddr::from((address, 7001)), lengths);
            assert_eq!(back, lengths.len());
        }
    }
}

/// Starts a configuration on a machine, and returns when its elements run.
pub(crate) fn run(space: &Namespace, config: &str, options: &[&str]) -> RunningProgram {
    let config = format!("{config}; Script(print \"ready\")");
    let mut running = space.spawn(TIDEGATE, &[&["run", "-e", &config], options].concat()).unwrap();
    // The text `ready` may come on standard error: with `--json -`, standard output has only the report.
    running.wait_until_said("ready").unwrap();
    running
}

/// Starts a configuration that prints `enough` as soon as the value of the handler `handler` is at least
/// `least`.
pub(crate) fn run_until(
    space: &Namespace,
    config: &str,
    handler: &str,
    least: u64,
    options: &[&str],
) -> RunningProgram {
    let config = format!("{config}; {}", when(handler, least, "print \"enough\""));
    run(space, &config, options)
}

/// Sends `count` packets of the source element `source` by an interface, and returns when all of them are
/// sent.
pub(crate) fn send(space: &Namespace, interface: &str, source: &str, count: u64) {
    let config = format!(
        "{source} -> Queue(100000) -> d :: ToDevice({interface}); {}",
        when("d.count", count, "stop")
    );
    let output = space.command(TIDEGATE).args(["run", "-q", "-e", &config]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a script that executes the instruction `what` as soon as a handler's value is at least `least`.
pub(crate) fn when(handler: &str, least: u64, what: &str) -> String {
    format!("Script(label again, wait 1ms, goto again $(lt $({handler}) {least}), {what})")
}

/// Returns the value of a handler from the output at the end of a run, in which it follows the handler's
/// name.
pub(crate) fn value(output: &str, name: &str) -> u64 {
    let mut lines = output.lines().skip_while(|line| *line != format!("{name}:"));
    // If only one handler was printed, its value has no name.
    let only = output.lines().find(|line| !output.contains(':') && line.parse::<u64>().is_ok());
    let value = lines.nth(1).or(only).unwrap_or_else(|| panic!("no {name} in {output}"));
    value.parse().unwrap()
}

pub(crate) const COUNTS: [&str; 4] = ["-H", "left.count", "-H", "right.count"];

/// A client of a ControlSocket over a Unix socket.
pub(crate) struct Control(BufReader<UnixStream>);

impl Control {
    pub(crate) fn open(path: &Path) -> Control {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut control = Control(BufReader::new(stream));
        assert!(control.line().starts_with("Click::ControlSocket"));
        control
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "it has closed");
        line
    }

    /// Returns the lines of the server's answer. In the last line, a space follows the status number.
    fn answer(&mut self) -> String {
        let mut answer = String::new();
        loop {
            let line = self.line();
            answer += &line;
            if line.as_bytes().get(3) == Some(&b' ') {
                return answer;
            }
        }
    }

    /// Writes a handler. The error is the answer of the server.
    pub(crate) fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let text = format!("WRITEDATA {handler} {}\n{value}", value.len());
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
        let answer = self.answer();
        if answer.starts_with("200") { Ok(()) } else { Err(answer) }
    }

    /// Returns the numeric value of a handler.
    pub(crate) fn number(&mut self, handler: &str) -> u64 {
        self.0.get_mut().write_all(format!("READ {handler}\n").as_bytes()).unwrap();
        let answer = self.answer();
        let length = self.line();
        let length = length.trim().strip_prefix("DATA ").and_then(|length| length.parse().ok());
        let mut value = vec![0; length.unwrap_or_else(|| panic!("{answer}"))];
        self.0.read_exact(&mut value).unwrap();
        String::from_utf8(value).unwrap().trim().parse().unwrap()
    }
}

/// True if the kernel has AF_XDP sockets; otherwise a message is printed.
pub(crate) fn has_xdp(line: &Line) -> bool {
    let config = "FromXDP(lo) -> Discard; Script(stop)";
    let output = line.right.command(TIDEGATE).args(["run", "-e", config]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let missing = ["AF_XDP socket: ", "BPF_"].iter().any(|step| said.contains(step));
    if missing {
        println!("skipped: {said}");
    }
    !missing
}
