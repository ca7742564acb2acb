//! The Tidegate program, run by the benchmarks as forwarder and as generator, and its features on this
//! machine.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{Namespace, RunningProgram};

/// The arguments of DPDK's environment (EAL) for any program: no huge pages, no network cards, 512 MiB of
/// memory.
pub(super) const EAL: [&str; 4] = ["--no-huge", "--no-pci", "-m", "512"];

/// A statement that, at the end of a configuration, prints a line once all elements are initialized.
pub(crate) const READY: &str = "Script(set state ready, print \"is $state\")";

/// The text that [`READY`] prints at run time. It does not occur in the text of [`READY`], so an error
/// message that quotes the configuration is not mistaken for the printed line.
const SAID: &str = "is ready";

/// The executable file of this process. The benchmark starts the file again, as `tidegate run`, to run
/// configurations.
pub(super) struct Program {
    path: PathBuf,
    /// True if AF_XDP sockets can be opened.
    pub(super) has_xdp: bool,
    /// True if the program was built with DPDK, and DPDK can be initialized.
    pub(super) has_dpdk: bool,
}

impl Program {
    pub(super) fn new() -> Result<Program> {
        let path = std::env::current_exe()?;
        let works = |arguments: &[&str]| {
            Command::new(&path).args(arguments).output().is_ok_and(|output| output.status.success())
        };
        // The program fails if it cannot open an AF_XDP socket at the loopback interface.
        let has_xdp = works(&["run", "-q", "-e", "FromXDP(lo) -> Discard; Script(stop)"]);
        let dpdk = [&["run", "-q", "--dpdk"], &EAL[..], &["--", "-e", "Idle -> Discard"]].concat();
        let has_dpdk = works(&dpdk);
        Ok(Program { path, has_xdp, has_dpdk })
    }

    /// Returns the element that receives from an interface: FromXDP if AF_XDP is available, else
    /// FromDevice. FromDevice is worse for latency: the ring of a packet socket delivers packets up to a
    /// millisecond late, which is longer than most of the measured times.
    pub(super) fn receive(&self, interface: &str) -> String {
        let element = if self.has_xdp { "FromXDP" } else { "FromDevice" };
        format!("{element}({interface}, PROMISC true)")
    }

    /// Starts a configuration in a namespace and returns once its elements are initialized. `options` are
    /// options of `tidegate run`. The program ends when the result is dropped.
    pub(super) fn run(&self, space: &Namespace, options: &[&str], config: &str) -> Result<RunningProgram> {
        let config = format!("{config}; {READY}");
        self.start(space, &[options, &["-e", &config]].concat())
    }

    /// Like [`run`](Self::run), for a configuration in a file, which must contain [`READY`].
    pub(super) fn run_file(&self, space: &Namespace, file: &Path) -> Result<RunningProgram> {
        self.start(space, &[file.to_str().ok_or_else(|| Error::other("a path that is not text"))?])
    }

    fn start(&self, space: &Namespace, arguments: &[&str]) -> Result<RunningProgram> {
        let mut running = space.spawn(self.path()?, &[&["run", "-q"], arguments].concat())?;
        // Libraries may print other lines ahead of the awaited text.
        running.wait_until_said(SAID)?;
        Ok(running)
    }

    /// Runs a configuration with these DPDK ports to its end and returns its output.
    pub(super) fn run_to_end(&self, ports: &[&str], config: &str) -> Result<String> {
        let arguments = [&["run", "-q", "--dpdk"], &EAL[..], ports, &["--", "-e", config]].concat();
        let output = Command::new(&self.path).args(arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    /// Starts a generator that sends the frames of a capture from `eth0` repeatedly, at full rate. With
    /// AF_XDP, the generator is faster than any measured device, and 1.5 times as fast as with packet
    /// sockets.
    pub(super) fn generate(&self, space: &Namespace, frames: &Path) -> Result<RunningProgram> {
        let to = if self.has_xdp { "ToXDP" } else { "ToDevice" };
        let config = format!("InMemoryNic({}, LOOPS -1) -> {to}(eth0)", frames.display());
        space.spawn(self.path()?, &["run", "-q", "-e", &config])
    }

    pub(super) fn path(&self) -> Result<&str> {
        self.path.to_str().ok_or_else(|| Error::other("the program's path is not text"))
    }
}
