//! Machines on this one, for tests and benchmarks on live interfaces: network namespaces, virtual cables between them, and
//! programs and real connections inside.
//!
//! Everything has a name of its own and is gone when the [`Net`] is, also after a panic. Nothing waits for ever. It needs
//! root and `ip` (iproute2).

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
pub use flows::{Flows, Received, flow, flows};
pub use program::Running;
pub use stream::Stream;
pub use traffic::{download, exchange_datagrams, hops, is_silent, is_unheard, ping, transfer};

/// The congestion control of connections, unless an experiment chooses another one: kernels differ in their defaults, and what
/// comes of an experiment depends on it.
pub const CONTROL: &str = "cubic";

/// How long anything may take, on the busiest machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

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

/// What an interface has counted (proc_net(5), `/proc/net/dev`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that were to be sent and were dropped.
    pub refused: u64,
}

/// True if the kernel has a congestion control (tcp(7)).
pub fn has_control(control: &str) -> bool {
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    all.is_ok_and(|all| all.split_whitespace().any(|one| one == control))
}

impl Net {
    /// An empty net.
    ///
    /// # Errors
    /// Why there can be none on this machine, or for this user.
    pub fn new() -> Result<Net> {
        let prefix = format!("tg{}x{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut net = Net { prefix, spaces: Vec::new() };
        match net.space("probe") {
            Ok(_) => Ok(net),
            Err(error) => Err(Error::other(format!("no network namespaces here: {error}"))),
        }
    }

    /// The same for a test, which skips, with a message, where there can be none.
    pub fn or_skip() -> Option<Net> {
        Net::new().inspect_err(|error| println!("skipped: {error}")).ok()
    }

    /// A new namespace.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn space(&mut self, name: &str) -> Result<Space> {
        let space = Space { name: format!("{}{name}", self.prefix) };
        said(Command::new("ip").args(["netns", "add", &space.name]))?;
        self.spaces.push(space.clone());
        space.ip("link set lo up")?;
        // Interfaces without addresses are to be silent, and whoever does not answer at once is asked for longer.
        let settings = [("ipv6/conf/default/disable_ipv6", "1"), ("ipv4/neigh/default/mcast_solicit", "20")];
        space.enter(|| {
            for (name, value) in settings {
                let _ = fs::write(format!("/proc/sys/net/{name}"), value);
            }
        });
        Ok(space)
    }

    /// A cable between interfaces of two namespaces, which are up and have addresses unless these are empty.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn cable(&self, ends: [(&Space, &str, &str); 2]) -> Result<()> {
        self.cable_of(ends, "")
    }

    /// The same with so many queues at both ends.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn wide_cable(&self, ends: [(&Space, &str, &str); 2], queues: usize) -> Result<()> {
        self.cable_of(ends, &format!(" numrxqueues {queues} numtxqueues {queues}"))
    }

    fn cable_of(&self, [a, b]: [(&Space, &str, &str); 2], queues: &str) -> Result<()> {
        let ends = format!("link add {}{queues} type veth peer name {} netns {}{queues}", a.1, b.1, b.0.name);
        a.0.ip(&ends)?;
        for (space, interface, address) in [a, b] {
            if !address.is_empty() {
                space.ip(&format!("addr add {address} dev {interface}"))?;
            }
            space.ip(&format!("link set {interface} up"))?;
        }
        // The kernel has yet to notice that somebody is at the other end; what is sent before is lost.
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

    /// Runs `ip` on the namespace; what it says.
    ///
    /// # Errors
    /// What it says if it fails.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        said(Command::new("ip").args(["-n", &self.name]).args(arguments.split(' ')))
    }

    /// Runs `ethtool` inside; what it says.
    ///
    /// # Errors
    /// What it says if it fails, or that it is not there.
    pub fn ethtool(&self, arguments: &str) -> Result<String> {
        said(self.command("ethtool").args(arguments.split(' ')))
    }

    /// Whether there is an interface.
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

    /// What an interface has counted.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn counts(&self, interface: &str) -> Result<Counts> {
        let table = self.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        counts(&table, interface)
            .ok_or_else(|| Error::other(format!("{}: no interface {interface}", self.name)))
    }

    /// Runs something on a thread inside the namespace; sockets that it makes stay there.
    ///
    /// # Panics
    /// The namespace is not there, or the work itself panics.
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

    /// Starts a program inside.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, program: &str, arguments: &[&str]) -> Result<Running> {
        Running::new(self.command(program).args(arguments))
    }

    /// Starts a program inside and waits until it has written a line to its standard output.
    ///
    /// # Errors
    /// It cannot be started, or writes none; with what it has said instead.
    pub fn start(&self, program: &str, arguments: &[&str]) -> Result<Running> {
        let mut running = self.spawn(program, arguments)?;
        running.wait_for_output()?;
        Ok(running)
    }
}

/// What a command prints.
fn said(command: &mut Command) -> Result<String> {
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

/// An interface's line of `/proc/net/dev`.
fn counts(table: &str, interface: &str) -> Option<Counts> {
    let (_, line) =
        table.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == interface)?;
    let fields: Vec<u64> =
        line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    // Eight of what is received: bytes, packets and so on; then the same of what is sent.
    Some(Counts { received: *fields.get(1)?, sent: *fields.get(9)?, refused: *fields.get(11)? })
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
        assert_eq!(counts(table, "eth0"), Some(Counts { received: 64, sent: 2000, refused: 17 }));
        assert_eq!(counts(table, "eth"), None);
        assert_eq!(counts("eth0: 1 2 three", "eth0"), None);
    }

    #[test]
    fn what_a_command_says_is_its_result_or_its_error() {
        assert_eq!(said(Command::new("echo").arg("a word")).unwrap(), "a word\n");
        let error = said(Command::new("ls").arg("/no/such/file")).unwrap_err().to_string();
        assert!(error.starts_with("ls /no/such/file: "), "{error}");
        assert!(
            said(&mut Command::new("no-such-program"))
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
