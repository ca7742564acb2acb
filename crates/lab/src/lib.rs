//! Simulated machines for tests and benchmarks with real interfaces: network namespaces, virtual cables
//! between them, and programs and connections in the namespaces.
//!
//! A [`Net`] holds the namespaces of one test. Their names are unique on the machine, and they are deleted
//! when the [`Net`] is dropped, also after a panic. Waits for interfaces, traffic and the output of programs
//! have time limits. The crate needs root privileges and `ip` (iproute2).

mod calls;
mod flows;
pub mod openvswitch;
mod program;
mod stream;
mod traffic;

use std::fs::{self, File};
use std::io::{Error, Result};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

pub use calls::{Answered, Calls, calls};
pub use flows::{Connections, Received, flow, flows};
pub use program::RunningProgram;
pub use stream::{Counted, DatagramStream};
pub use traffic::{download, exchange_datagrams, gets_no_echo_reply, gets_no_reply, hops, ping, transfer};

/// The congestion control of TCP connections, unless an experiment chooses another. The lab sets it
/// explicitly, because the defaults of kernels differ and results depend on it.
pub const CONTROL: &str = "cubic";

/// The time limit of waits that have no shorter limit, such as the wait for the output of a program in a
/// namespace. The limit is long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The network namespaces of a test and the cables between them. When the `Net` is dropped, the namespaces
/// and the cables are deleted.
#[derive(Debug)]
pub struct Net {
    prefix: String,
    spaces: Vec<Namespace>,
}

/// A network namespace, which acts as a separate machine with interfaces, addresses and routes of its own.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
}

/// The packet counters of an interface since the interface was made (`/proc/net/dev`, proc_net(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// The number of packets that the interface received.
    pub received: u64,
    /// The number of packets that the interface sent.
    pub sent: u64,
    /// The number of packets that the interface should have sent but dropped.
    pub refused: u64,
}

/// True if the kernel supports this congestion control now (tcp(7), `tcp_available_congestion_control`).
pub fn has_control(control: &str) -> bool {
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    all.is_ok_and(|all| all.split_whitespace().any(|one| one == control))
}

impl Net {
    /// Makes a net for a test, which adds namespaces by [`space`](Self::space). To check that namespaces are
    /// possible, makes a first one, which tests do not use.
    ///
    /// # Errors
    /// If this machine does not support network namespaces, the user has no permission to make them, or `ip`
    /// is not installed.
    pub fn new() -> Result<Net> {
        let prefix = format!("tg{}x{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut net = Net { prefix, spaces: Vec::new() };
        match net.space("probe") {
            Ok(_) => Ok(net),
            Err(error) => Err(Error::other(format!("no network namespaces here: {error}"))),
        }
    }

    /// Makes a net like [`new`](Self::new). If that fails, prints that the test is skipped, with the error,
    /// and returns `None`.
    pub fn or_skip() -> Option<Net> {
        Net::new().inspect_err(|error| println!("skipped: {error}")).ok()
    }

    /// Makes a namespace, whose interfaces have no IPv6. The name of the namespace on the machine is `name`
    /// with a unique prefix.
    ///
    /// # Errors
    /// The error message of `ip`.
    pub fn space(&mut self, name: &str) -> Result<Namespace> {
        let space = Namespace { name: format!("{}{name}", self.prefix) };
        output_of(Command::new("ip").args(["netns", "add", &space.name]))?;
        self.spaces.push(space.clone());
        space.ip("link set lo up")?;
        // Without IPv6, interfaces send nothing unasked. ARP sends up to 20 requests, because a busy machine
        // may not answer at once.
        let settings = [("ipv6/conf/default/disable_ipv6", "1"), ("ipv4/neigh/default/mcast_solicit", "20")];
        space.enter(|| {
            for (name, value) in settings {
                let _ = fs::write(format!("/proc/sys/net/{name}"), value);
            }
        });
        Ok(space)
    }

    /// Connects two namespaces by a virtual cable (a pair of veth interfaces). Each end is a namespace, the
    /// name of the interface to make there, and the interface's address with prefix length. An empty string
    /// means no address. When the call returns, both interfaces are up and packets pass.
    ///
    /// # Errors
    /// The error message of `ip`; or that an interface is not up within [`PATIENCE`].
    pub fn cable(&self, ends: [(&Namespace, &str, &str); 2]) -> Result<()> {
        self.cable_of(ends, "")
    }

    /// Connects two namespaces like [`cable`](Self::cable), by interfaces with `queues` receive queues and
    /// `queues` transmit queues each.
    ///
    /// # Errors
    /// The errors of [`cable`](Self::cable).
    pub fn wide_cable(&self, ends: [(&Namespace, &str, &str); 2], queues: usize) -> Result<()> {
        self.cable_of(ends, &format!(" numrxqueues {queues} numtxqueues {queues}"))
    }

    fn cable_of(&self, [a, b]: [(&Namespace, &str, &str); 2], queues: &str) -> Result<()> {
        let ends = format!("link add {}{queues} type veth peer name {} netns {}{queues}", a.1, b.1, b.0.name);
        a.0.ip(&ends)?;
        for (space, interface, address) in [a, b] {
            if !address.is_empty() {
                space.ip(&format!("addr add {address} dev {interface}"))?;
            }
            space.ip(&format!("link set {interface} up"))?;
        }
        // The kernel notices after a delay that the other end is up. Packets that are sent before are lost.
        a.0.wait_until_up(a.1)?;
        b.0.wait_until_up(b.1)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = Command::new("ip").args(["netns", "del", &space.name]).status();
        }
    }
}

impl Namespace {
    /// Returns the name of the namespace on this machine, by which `ip netns` finds it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that runs `program` in the namespace when it is started, without standard input.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Runs `ip` with arguments, separated by single spaces, in the namespace, and returns its standard
    /// output.
    ///
    /// # Errors
    /// The error message of `ip`, from its standard error.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        output_of(Command::new("ip").args(["-n", &self.name]).args(arguments.split(' ')))
    }

    /// Runs `ethtool` with arguments, separated by single spaces, in the namespace, and returns its
    /// standard output.
    ///
    /// # Errors
    /// The error message of `ethtool`, or that it is not installed.
    pub fn ethtool(&self, arguments: &str) -> Result<String> {
        output_of(self.command("ethtool").args(arguments.split(' ')))
    }

    /// True if the namespace has an interface with this name.
    pub fn has(&self, interface: &str) -> bool {
        self.ip(&format!("link show dev {interface}")).is_ok()
    }

    fn wait_until_up(&self, interface: &str) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.ip(&format!("link show dev {interface}"))?.contains(" state UP ") {
            if Instant::now() > until {
                return Err(Error::other(format!("{}: {interface} does not come up", self.name)));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns the packet counters of an interface of the namespace.
    ///
    /// # Errors
    /// If the namespace has no interface with this name, or its counters cannot be read.
    pub fn counts(&self, interface: &str) -> Result<InterfaceCounts> {
        let table = self.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        counts(&table, interface)
            .ok_or_else(|| Error::other(format!("{}: no interface {interface}", self.name)))
    }

    /// Runs `work` on a thread inside the namespace and returns its result. Sockets that `work` makes
    /// belong to the namespace, also when they are used elsewhere later.
    ///
    /// # Panics
    /// If this process cannot enter the namespace, for example because the namespace was deleted, or if
    /// `work` panics.
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

    /// Starts a program in the namespace and returns at once.
    ///
    /// # Errors
    /// If `ip`, which starts the program, cannot be started. If the program is not installed, this call
    /// succeeds, and `ip` ends with an error message.
    pub fn spawn(&self, program: &str, arguments: &[&str]) -> Result<RunningProgram> {
        RunningProgram::new(self.command(program).args(arguments))
    }

    /// Starts a program in the namespace and waits until it has written a line to its standard output,
    /// which shows that it is ready.
    ///
    /// # Errors
    /// If the program cannot be started, ends, or writes no line within [`PATIENCE`]. If it was started, the
    /// error contains its output on standard error.
    pub fn start(&self, program: &str, arguments: &[&str]) -> Result<RunningProgram> {
        let mut running = self.spawn(program, arguments)?;
        running.wait_for_output()?;
        Ok(running)
    }
}

/// Runs a command and returns its standard output. If the command fails, the error contains its name, its
/// arguments and its standard error.
fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Error::new(error.kind(), format!("{name}: {error}")))?;
    let Output { status, stdout, stderr } = output;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&stderr);
    Err(Error::other(format!("{name} {}: {}", arguments.join(" "), said.trim())))
}

/// Returns the counters of an interface from the text of `/proc/net/dev`; `None` if the interface is not in
/// it, or its line cannot be read.
fn counts(table: &str, interface: &str) -> Option<InterfaceCounts> {
    let (_, line) =
        table.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == interface)?;
    let fields: Vec<u64> =
        line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    // A line has eight fields for received data (bytes, packets and so on), followed by eight fields for
    // sent data.
    Some(InterfaceCounts { received: *fields.get(1)?, sent: *fields.get(9)?, refused: *fields.get(11)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_the_name_of_the_interface() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls\n\
             \x20   lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n\
             \x20 eth0: 4096      64    0    3    0     0          0         0   128000    2000    0   17    0     0       0          0\n";
        assert_eq!(counts(table, "eth0"), Some(InterfaceCounts { received: 64, sent: 2000, refused: 17 }));
        assert_eq!(counts(table, "eth"), None);
        assert_eq!(counts("eth0: 1 2 three", "eth0"), None);
    }

    #[test]
    fn what_a_command_says_is_its_result_or_its_error() {
        assert_eq!(output_of(Command::new("echo").arg("a word")).unwrap(), "a word\n");
        let error = output_of(Command::new("ls").arg("/no/such/file")).unwrap_err().to_string();
        assert!(error.starts_with("ls /no/such/file: "), "{error}");
        assert!(
            output_of(&mut Command::new("no-such-program"))
                .unwrap_err()
                .to_string()
                .starts_with("no-such-program")
        );
    }

    #[test]
    fn a_net_goes_with_everything_in_it() {
        let Some(mut net) = Net::or_skip() else { return };
        let [a, b] = ["a", "b"].map(|name| net.space(name).unwrap());
        net.cable([(&a, "eth0", "10.9.0.1/24"), (&b, "eth0", "")]).unwrap();
        assert!(a.has("eth0") && !a.has("eth1") && b.counts("eth0").is_ok() && b.counts("eth1").is_err());
        assert!(b.ip("link set eth1 up").is_err());
        let ended = b.start("sh", &["-c", "echo a warning >&2; exit 3"]).unwrap_err().to_string();
        assert!(ended.contains("a warning"), "{ended}");
        let running = a.start("sh", &["-c", "echo begun; sleep 60"]).unwrap();
        let file = format!("/var/run/netns/{}", a.name());
        assert!(fs::exists(&file).unwrap());
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _both = (running, net);
            panic!("as a test does");
        }));
        assert!(result.is_err() && !fs::exists(&file).unwrap());
    }
}
