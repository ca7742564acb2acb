//! Tests on live interfaces: network namespaces, virtual cables between them, and programs and real connections inside.
//!
//! Everything has a name of its own and is gone when the [`Net`] is, also after a panic. Nothing waits for ever.
//! [`Net::new`] gives none, with a message, where the machine or the user does not allow it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use wire::checksum;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long a transfer may stand still before it has failed: longer than the pauses that TCP makes after losses.
const STANDSTILL: Duration = Duration::from_secs(8);

/// Sockets below transport protocols (SOCK_RAW, socket(2)).
const RAW: i32 = 3;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Network namespaces and what connects them.
#[derive(Debug)]
pub struct Net {
    prefix: String,
    spaces: Vec<Space>,
}

/// A network namespace: a machine of its own as far as the network goes.
#[derive(Clone, Debug)]
pub struct Space {
    name: String,
}

impl Net {
    /// An empty net. `None`, with a message, if there can be none here.
    pub fn new() -> Option<Net> {
        let prefix = format!("tg{}x{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut net = Net { prefix, spaces: Vec::new() };
        match net.try_space("probe") {
            Ok(_) => Some(net),
            Err(reason) => {
                println!("skipped: no network namespaces here: {}", reason.trim());
                None
            }
        }
    }

    fn try_space(&mut self, name: &str) -> Result<Space, String> {
        let space = Space { name: format!("{}{name}", self.prefix) };
        let made = Command::new("ip").args(["netns", "add", &space.name]).output();
        let made = made.map_err(|error| format!("ip: {error}"))?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        self.spaces.push(space.clone());
        space.try_ip("link set lo up")?;
        // Interfaces without addresses are to be silent.
        space.enter(|| std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").ok());
        Ok(space)
    }

    /// A new namespace.
    pub fn space(&mut self, name: &str) -> Space {
        self.try_space(name).unwrap_or_else(|reason| panic!("{name}: {reason}"))
    }

    /// A cable between interfaces of two namespaces, which are up and have addresses unless these are empty.
    pub fn cable(&self, ends: [(&Space, &str, &str); 2]) {
        self.cable_of(ends, "");
    }

    /// The same with so many queues at both ends.
    pub fn wide_cable(&self, ends: [(&Space, &str, &str); 2], queues: usize) {
        self.cable_of(ends, &format!(" numrxqueues {queues} numtxqueues {queues}"));
    }

    fn cable_of(&self, [a, b]: [(&Space, &str, &str); 2], queues: &str) {
        let ends = format!("link add {}{queues} type veth peer name {} netns {}{queues}", a.1, b.1, b.0.name);
        a.0.ip(&ends);
        for (space, interface, address) in [a, b] {
            if !address.is_empty() {
                space.ip(&format!("addr add {address} dev {interface}"));
            }
            space.ip(&format!("link set {interface} up"));
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = Command::new("ip").args(["netns", "del", &space.name]).status();
        }
    }
}

impl Space {
    /// What it is called on this machine, for `ip`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command to be run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    fn try_ip(&self, arguments: &str) -> Result<String, String> {
        let output = Command::new("ip").args(["-n", &self.name]).args(arguments.split(' ')).output();
        let Output { status, stdout, stderr } = output.map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
            false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&stderr))),
        }
    }

    /// Runs `ip` on the namespace; what it says.
    pub fn ip(&self, arguments: &str) -> String {
        self.try_ip(arguments).unwrap_or_else(|reason| panic!("{}: {reason}", self.name))
    }

    /// Whether there is an interface.
    pub fn has(&self, interface: &str) -> bool {
        self.try_ip(&format!("link show dev {interface}")).is_ok()
    }

    /// Runs something on a thread inside the namespace; sockets that it makes stay there.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            let file = File::open(format!("/var/run/netns/{}", self.name)).expect("a namespace has a file");
            setns(file, CloneFlags::CLONE_NEWNET).expect("a thread may enter a namespace");
            work()
        };
        thread::scope(|scope| {
            scope.spawn(inside).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts a program inside and waits until it has written a line to its standard output.
    pub fn start(&self, program: &str, arguments: &[&str]) -> Running {
        let mut command = self.command(program);
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{program}: {error}"));
        let (sender, lines) = mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for (number, stream) in streams.into_iter().enumerate() {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send((number, line)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut running = Running { child, lines, said: [String::new(), String::new()] };
        // Warnings may come before.
        let until = Instant::now() + PATIENCE;
        while running.said[0].is_empty() {
            if running.hear(until).is_none() {
                panic!("{program} never wrote a line, but: {}", running.said[1]);
            }
        }
        running
    }
}

/// A program that runs; it does not outlive the test.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: mpsc::Receiver<(usize, String)>,
    said: [String; 2],
}

impl Running {
    /// Waits for a line that has a text in it.
    pub fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.hear(until).is_some_and(|line| line.contains(text)) {
            if Instant::now() >= until {
                panic!("never said '{text}', but: {}{}", self.said[0], self.said[1]);
            }
        }
    }

    /// Waits until a text has been said, if it has not been already.
    pub fn wait_until_said(&mut self, text: &str) {
        if !self.said.iter().any(|said| said.contains(text)) {
            self.wait_for(text);
        }
    }

    /// The next line of either stream.
    fn hear(&mut self, until: Instant) -> Option<String> {
        let left = until.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok((stream, line)) => {
                self.said[stream] += &line;
                self.said[stream] += "\n";
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = self.child.wait();
                panic!("it has ended ({status:?}) after: {}{}", self.said[0], self.said[1])
            }
        }
    }

    /// The process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal: `TERM`, `KILL`, ...
    pub fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(
            Command::new("kill").args([&format!("-{name}"), &process]).status().is_ok_and(|s| s.success())
        );
    }

    /// Waits for its end: whether it was a good one, and what it wrote to its two streams.
    pub fn end(mut self) -> (bool, [String; 2]) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                _ if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                other => panic!("it does not end ({other:?}): {}{}", self.said[0], self.said[1]),
            }
        };
        // What it has said last is on its way.
        while let Ok((stream, line)) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.said[stream] += &(line + "\n");
        }
        (status.success(), std::mem::take(&mut self.said))
    }

    /// Asks it to end, as an interrupt would.
    pub fn stop(self) -> (bool, [String; 2]) {
        self.signal("TERM");
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that look random.
fn bytes(n: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(n as u64);
    (0..n.div_ceil(8)).flat_map(|_| random.u64(..).to_le_bytes()).take(n).collect()
}

/// Sends so many bytes over TCP from one namespace to an address in another one, and says whether they arrived as they
/// were sent. `meanwhile` runs when a part of them has arrived.
///
/// # Errors
/// What went wrong, also if it takes too long.
pub fn transfer(
    from: &Space,
    to: &Space,
    address: SocketAddr,
    n: usize,
    meanwhile: impl FnOnce() + Send,
) -> Result<(), Error> {
    let listener = to.enter(|| TcpListener::bind(address))?;
    listener.set_nonblocking(true)?;
    let expected = bytes(n);
    thread::scope(|scope| {
        let sender = scope.spawn(|| -> Result<(), Error> {
            let mut stream = from.enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
            stream.set_write_timeout(Some(STANDSTILL))?;
            stream.set_read_timeout(Some(STANDSTILL))?;
            stream.write_all(&expected)?;
            stream.shutdown(Shutdown::Write)?;
            // The other side has everything.
            stream.read_exact(&mut [0])
        });
        let mut received = Vec::with_capacity(n);
        let mut stream = accept(&listener)?;
        stream.set_read_timeout(Some(STANDSTILL))?;
        let mut part = vec![0; n / 4];
        stream.read_exact(&mut part)?;
        received.append(&mut part);
        meanwhile();
        stream.read_to_end(&mut received)?;
        stream.write_all(&[1])?;
        sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        match received == expected {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")),
        }
    })
}

fn accept(listener: &TcpListener) -> Result<TcpStream, Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock || Instant::now() > until => {
                return Err(error);
            }
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Sends datagrams of these lengths, one after the other, and says how many came back from the other side as they were.
pub fn exchange_datagrams(from: &Space, to: &Space, address: SocketAddr, lengths: &[usize]) -> usize {
    let limit = Some(Duration::from_secs(2));
    let there = to.enter(|| UdpSocket::bind(address)).expect("an address of the namespace");
    let here = from.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("any address");
    let set = [here.set_read_timeout(limit), there.set_read_timeout(limit), here.connect(address)];
    assert!(set.iter().all(Result::is_ok));
    let mut buffer = vec![0; 1 << 16];
    let mut arrive = |length: usize| -> Result<bool, Error> {
        let sent = bytes(length);
        here.send(&sent)?;
        let (n, back) = there.recv_from(&mut buffer)?;
        there.send_to(&buffer[..n], back)?;
        let n = here.recv(&mut buffer)?;
        Ok(buffer[..n] == sent)
    };
    lengths.iter().filter(|&&length| arrive(length).unwrap_or(false)).count()
}

/// Numbered datagrams that come at a steady pace, 5,000 a second, and are sent whether anybody takes them or not.
#[derive(Debug)]
pub struct Stream {
    sender: thread::JoinHandle<()>,
    receiver: thread::JoinHandle<Vec<u32>>,
    stop: Arc<AtomicBool>,
}

impl Stream {
    /// Starts to send them to an address, from as many ports as flows.
    pub fn start(from: &Space, to: &Space, address: SocketAddr, flows: usize) -> Stream {
        let sockets = from.enter(|| {
            let bind = |_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("any address");
            (0..flows).map(bind).collect::<Vec<_>>()
        });
        let receiver = to.enter(|| UdpSocket::bind(address)).expect("an address of the namespace");
        let set = SockRef::from(&receiver).set_recv_buffer_size(8 << 20);
        assert!(set.is_ok() && receiver.set_read_timeout(Some(Duration::from_secs(1))).is_ok());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = [Arc::clone(&stop), Arc::clone(&stop)];
        let [sender_stops, receiver_stops] = stopped;
        let sender = thread::spawn(move || {
            let start = Instant::now();
            let mut number = 0u32;
            while !sender_stops.load(Ordering::Relaxed) {
                while f64::from(number) < start.elapsed().as_secs_f64() * 5_000.0 {
                    // While the interface takes nothing there is nothing to be done.
                    let _ = sockets[number as usize % flows].send_to(&number.to_be_bytes(), address);
                    number += 1;
                }
                thread::sleep(Duration::from_micros(500));
            }
        });
        let receiver = thread::spawn(move || {
            let mut numbers = Vec::new();
            let mut buffer = [0; 4];
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(_) => numbers.push(u32::from_be_bytes(buffer)),
                    Err(_) if receiver_stops.load(Ordering::Relaxed) => return numbers,
                    Err(_) => {}
                }
            }
        });
        Stream { sender, receiver, stop }
    }

    /// Ends it: how many have arrived, how many between the first and the last one have not, and how many came again.
    pub fn stop(self) -> [usize; 3] {
        self.stop.store(true, Ordering::Relaxed);
        let results = (self.sender.join(), self.receiver.join());
        let (Ok(()), Ok(numbers)) = results else { panic!("a stream has come to grief") };
        let all: BTreeSet<u32> = numbers.iter().copied().collect();
        let range = all.last().zip(all.first()).map_or(0, |(last, first)| (last - first + 1) as usize);
        [numbers.len(), range - all.len(), numbers.len() - all.len()]
    }
}

/// Pings an address, and says how many of so many echo requests were answered.
pub fn ping(from: &Space, to: Ipv4Addr, n: u16) -> usize {
    let socket = from.enter(|| Socket::new(Domain::IPV4, Type::from(RAW), Some(Protocol::ICMPV4)));
    let mut socket = socket.expect("whoever may make namespaces may make such sockets");
    let target = SocketAddr::from((to, 0)).into();
    assert!(socket.set_read_timeout(Some(Duration::from_secs(2))).is_ok());
    let identifier = std::process::id() as u16;
    let mut answered = |sequence: u16| -> bool {
        let mut request = [[8, 0], [0, 0], identifier.to_be_bytes(), sequence.to_be_bytes()].concat();
        request.extend_from_slice(&[0xab; 48]);
        let filled = checksum::fill_icmp(&mut request).is_ok();
        if !filled || socket.send_to(&request, &target).is_err() {
            return false;
        }
        let mut buffer = [0; 256];
        loop {
            let Ok(n) = socket.read(&mut buffer) else { return false };
            // Behind an IP header without options; replies to others come here too.
            let reply = buffer[..n].get(20..).unwrap_or_default();
            if reply.first() == Some(&0) && reply.get(4..) == request.get(4..) {
                return checksum::icmp_valid(reply);
            }
        }
    };
    (0..n).filter(|&sequence| answered(sequence)).count()
}

/// The way to an address, as `traceroute` finds it: whose ICMP errors come back for datagrams that may go one hop, two, and
/// so on, up to the address itself, whose port is unreachable; at most `most` of them.
pub fn hops(from: &Space, to: Ipv4Addr, most: u32) -> Vec<Ipv4Addr> {
    let errors = from.enter(|| Socket::new(Domain::IPV4, Type::from(RAW), Some(Protocol::ICMPV4)));
    let mut errors = errors.expect("whoever may make namespaces may make such sockets");
    assert!(errors.set_read_timeout(Some(Duration::from_secs(2))).is_ok());
    let sender = from.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("any address");
    let mut found = Vec::new();
    let mut buffer = [0; 256];
    for ttl in 1..=most {
        let port = 33434 + ttl as u16;
        if sender.set_ttl(ttl).is_err() || sender.send_to(&[0; 32], (to, port)).is_err() {
            break;
        }
        // An IP header without options, the ICMP header, and the datagram's own headers: the answer to this one has its port.
        let answer = loop {
            let Ok(n) = errors.read(&mut buffer) else { return found };
            let Some(icmp) = buffer[..n].get(20..) else { continue };
            if icmp.get(30..32) == Some(&port.to_be_bytes()) {
                break (Ipv4Addr::new(buffer[12], buffer[13], buffer[14], buffer[15]), icmp[0]);
            }
        };
        found.push(answer.0);
        if answer.1 == wire::icmp::kind::UNREACHABLE {
            break;
        }
    }
    found
}
