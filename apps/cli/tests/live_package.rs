//! The Debian package in a fresh system with systemd: the NAT gateway of docs/service.md between two hosts, a
//! reload, a run that hangs, a reboot, an upgrade, and the removal. Skipped with a message if network
//! namespaces cannot be created, or if cargo-deb, mmdebstrap or systemd-nspawn is not installed.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Namespace, Net, PATIENCE, RunningProgram, gets_no_echo_reply, hops, ping, transfer};

const HOST: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 10);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 1);
const OUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

const CONFIG: &str = "/etc/tidegate/gateway.click";
const UNIT: &str = "tidegate@gateway";
const CALLS: &str = "landlock_create_ruleset landlock_add_rule landlock_restrict_self";

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// If the command fails: its output.
fn run(command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&stdout).into_owned();
    match status.success() {
        true => Ok(said),
        false => Err(format!("{command:?}: {said}{}", String::from_utf8_lossy(&stderr))),
    }
}

/// Waits until `is_so` returns true.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(50));
    }
}

/// Makes the package of the program under test with the script of the repository. Returns its file.
fn package(folder: &Path) -> PathBuf {
    let target = folder.join("target");
    fs::create_dir_all(target.join("release")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_tidegate"), target.join("release/tidegate")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/build-deb");
    run(Command::new(script).arg("--no-build").env("CARGO_TARGET_DIR", &target)).unwrap();
    let files = fs::read_dir(target.join("debian")).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb")).expect("a package")
}

/// A machine that is a container with systemd, whose interfaces are those of a namespace.
struct Machine<'a> {
    root: &'a Path,
    space: &'a Namespace,
    nspawn: RunningProgram,
}

impl<'a> Machine<'a> {
    /// Boots the system in the folder `root`, and waits until all services have been started.
    fn boot(root: &'a Path, space: &'a Namespace) -> Machine<'a> {
        let network = format!("--network-namespace-path=/run/netns/{}", space.name());
        let mut command = Command::new("systemd-nspawn");
        command.args(["--quiet", "--register=no", "--keep-unit", "--console=pipe", "--boot", &network]);
        // A container has fewer rights than a machine; these are those that the unit asks for.
        command.args([
            "--capability=CAP_NET_ADMIN,CAP_BPF,CAP_IPC_LOCK",
            &format!("--system-call-filter={CALLS}"),
        ]);
        let nspawn = RunningProgram::new(command.arg("-D").arg(root)).unwrap();
        let machine = Machine { root, space, nspawn };
        machine.wait_for("multi-user.target");
        machine
    }

    fn wait_for(&self, unit: &str) {
        wait_until(unit, || self.run(&["systemctl", "is-active", unit]).is_ok());
    }

    /// Runs a command in the machine.
    fn run(&self, command: &[&str]) -> Result<String, String> {
        // The first process of the machine is the child of systemd-nspawn.
        let children = format!("/proc/{0}/task/{0}/children", self.nspawn.id());
        let children = fs::read_to_string(children).unwrap_or_default();
        let init = children.split_whitespace().next().ok_or("it has no process yet")?;
        let spaces = ["--target", init, "--mount", "--uts", "--ipc", "--net", "--pid", "--"];
        run(Command::new("nsenter").args(spaces).args(command))
    }

    /// Returns the process id of the service's program in the machine.
    fn program(&self) -> String {
        self.run(&["systemctl", "show", "--property=MainPID", "--value", UNIT]).unwrap().trim().to_string()
    }

    /// Shuts the machine down, and boots it again.
    fn reboot(self) -> Machine<'a> {
        let Machine { root, space, nspawn } = self;
        nspawn.signal("TERM");
        nspawn.end();
        Machine::boot(root, space)
    }
}

#[test]
fn the_gateway_of_the_documentation() {
    let Some(mut net) = Net::or_skip() else { return };
    for (program, option) in
        [("cargo-deb", "--version"), ("mmdebstrap", "--version"), ("systemd-nspawn", "--version")]
    {
        if Command::new(program).arg(option).output().is_err() {
            println!("skipped: {program} is not installed");
            return;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let package = package(folder.path());

    let [inside, gateway, outside] = ["inside", "gateway", "outside"].map(|name| net.space(name).unwrap());
    net.cable([(&inside, "eth0", &format!("{HOST}/24")), (&gateway, "lan0", "")]).unwrap();
    net.cable([(&outside, "eth0", &format!("{SERVER}/24")), (&gateway, "wan0", "")]).unwrap();
    inside.ip(&format!("route add default via {GATEWAY}")).unwrap();

    let root = folder.path().join("root");
    let options = ["--quiet", "--variant=minbase", "--include=systemd,systemd-sysv", "bookworm"];
    if let Err(error) = run(Command::new("mmdebstrap").args(options).arg(&root)) {
        // Its packages come from a mirror, which a machine without a network cannot reach.
        println!("skipped: {error}");
        return;
    }
    fs::copy(&package, root.join("srv/tidegate.deb")).unwrap();
    run(Command::new("chroot").arg(&root).args(["dpkg", "--install", "/srv/tidegate.deb"])).unwrap();
    let machine = Machine::boot(&root, &gateway);

    // The steps of docs/service.md.
    machine.run(&["cp", "/usr/share/doc/tidegate/examples/nat-gateway.click", CONFIG]).unwrap();
    let options = "OPTIONS=FORWARD_PORT=80 FORWARD_TO=8080";
    fs::write(root.join("etc/default/tidegate-gateway"), options).unwrap();
    machine.run(&["tidegate", "check", "--quiet", CONFIG]).unwrap();
    machine.run(&["systemctl", "enable", "--now", UNIT]).unwrap();
    let passes = || {
        assert_eq!(ping(&inside, SERVER, 3), 3);
        transfer(&inside, &outside, SocketAddr::from((SERVER, 7000)), 1 << 20, || ()).unwrap();
    };
    passes();
    assert_eq!(ping(&inside, GATEWAY, 1), 1);
    assert_eq!(ping(&outside, OUTER, 1), 1);
    assert_eq!(hops(&inside, SERVER, 5), [GATEWAY, SERVER]);
    let listener = inside.enter(|| TcpListener::bind((HOST, 8080)).unwrap());
    outside.enter(|| TcpStream::connect((OUTER, 80)).unwrap());
    assert_eq!(listener.accept().unwrap().1.ip(), SERVER);
    outside.ip(&format!("route add 192.168.1.0/24 via {OUTER}")).unwrap();
    assert!(gets_no_echo_reply(&outside, HOST), "hosts outside cannot address hosts inside");

    // A file with errors changes nothing and is reported. Another one is taken over.
    let file = root.join(&CONFIG[1..]);
    let text = fs::read_to_string(&file).unwrap();
    let before = machine.program();
    fs::write(&file, text.clone() + "NoSuchElement -> Discard;").unwrap();
    assert!(machine.run(&["systemctl", "reload", UNIT]).is_err());
    let journal = ["journalctl", "--unit", UNIT, "--output=cat", "--priority=err"];
    let journal = machine.run(&journal).unwrap();
    assert!(journal.contains("NoSuchElement"), "{journal}");
    fs::write(&file, text + "Idle -> added :: Counter -> Discard;").unwrap();
    machine.run(&["systemctl", "reload", UNIT]).unwrap();
    let top = ["tidegate", "top", "--once", "/run/tidegate-gateway/control"];
    assert!(machine.run(&top).unwrap().contains("added"));
    assert_eq!(machine.program(), before, "a reload keeps the process");
    passes();

    // A mapping survives a reboot: a datagram to the outer port still reaches the host inside.
    let server = outside.enter(|| UdpSocket::bind((SERVER, 9000)).unwrap());
    let host = inside.enter(|| UdpSocket::bind((HOST, 9001)).unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    host.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 16];
    host.send_to(b"before", (SERVER, 9000)).unwrap();
    let (_, outer) = server.recv_from(&mut bytes).unwrap();
    assert_eq!(outer.ip(), OUTER);
    let machine = machine.reboot();
    machine.wait_for(UNIT);
    server.send_to(b"after", outer).unwrap();
    assert_eq!(host.recv(&mut bytes).unwrap(), 5);
    passes();

    // A program that hangs is replaced.
    let before = machine.program();
    machine.run(&["sh", "-c", &format!("kill -STOP {before}")]).unwrap();
    wait_until("the watchdog", || !["0", &before].contains(&machine.program().as_str()));
    machine.wait_for(UNIT);
    passes();

    // With fewer rights, packets pass, and a reload is still possible.
    fs::write(root.join("etc/default/tidegate-gateway"), "OPTIONS=--sandbox strict\n").unwrap();
    machine.run(&["systemctl", "restart", UNIT]).unwrap();
    let status = machine.run(&["cat", &format!("/proc/{}/status", machine.program())]).unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    machine.run(&["systemctl", "reload", UNIT]).unwrap();
    passes();

    // An upgrade continues with the service, but does not end one that could not start again. A removal
    // leaves nothing but the user's files.
    let before = machine.program();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.clone() + "NoSuchElement -> Discard;").unwrap();
    let said = machine.run(&["dpkg", "--install", "/srv/tidegate.deb"]).unwrap();
    assert!(said.contains("runs on with the old program") && machine.program() == before, "{said}");
    fs::write(&file, text).unwrap();
    machine.run(&["dpkg", "--install", "/srv/tidegate.deb"]).unwrap();
    machine.wait_for(UNIT);
    assert_ne!(machine.program(), before, "the new program runs");
    passes();
    machine.run(&["dpkg", "--purge", "tidegate"]).unwrap();
    assert!(gets_no_echo_reply(&inside, SERVER), "the service has ended");
    let left =
        machine.run(&["find", "/", "-xdev", "-name", "*tidegate*", "-not", "-path", "/proc/*"]).unwrap();
    let mut left: Vec<&str> = left.lines().filter(|path| !path.starts_with("/var/log")).collect();
    left.sort_unstable();
    assert_eq!(left, ["/etc/default/tidegate-gateway", "/etc/tidegate", "/srv/tidegate.deb"]);
}
