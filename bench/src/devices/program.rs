//! The program itself, as forwarder and as generator, and its features on this machine.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{Running, Space};

/// The arguments of DPDK for any program: ordinary memory, and no cards.
pub(super) const EAL: [&str; 4] = ["--no-huge", "--no-pci", "-m", "512"];

/// The statement of a configuration that reports that its elements are running.
pub(crate) const READY: &str = "Script(set state ready, print \"is $state\")";

/// The text that [`READY`] prints. The text does not occur in the configuration, so that an error that
/// quotes the configuration is not taken for it.
const SAID: &str = "is ready";

/// The tidegate program itself.
pub(super) struct Program {
    path: PathBuf,
    /// True if sockets for AF_XDP can be opened.
    pub(super) has_xdp: bool,
    /// True if the program has been built with DPDK.
    pub(super) has_dpdk: bool,
}

impl Program {
    pub(super) fn new() -> Result<Program> {
        let path = std::env::current_exe()?;
        let works = |arguments: &[&str]| {
            Command::new(&path).args(arguments).output().is_ok_and(|output| output.status.success())
        };
        // The program prints an error if it cannot open the socket.
        let has_xdp = works(&["run", "-q", "-e", "FromXDP(lo) -> Discard; Script(stop)"]);
        let dpdk = [&["run", "-q", "--dpdk"], &EAL[..], &["--", "-e", "Idle -> Discard"]].concat();
        let has_dpdk = works(&dpdk);
        Ok(Program { path, has_xdp, has_dpdk })
    }

    /// Returns the element that receives from an interface: FromXDP if AF_XDP is available, else
    /// FromDevice. The ring of packet sockets delivers packets up to a millisecond late, which is longer
    /// than most of the measured times.
    pub(super) fn receive(&self, interface: &str) -> String {
        let element = if self.has_xdp { "FromXDP" } else { "FromDevice" };
        format!("{element}({interface}, PROMISC true)")
    }

    /// Runs a configuration and returns after its elements have started.
    pub(super) fn run(&self, space: &Space, options: &[&str], config: &str) -> Result<Running> {
        let config = format!("{config}; {READY}");
        self.start(space, &[options, &["-e", &config]].concat())
    }

    /// Runs a configuration in a file, which contains [`READY`].
    pub(super) fn run_file(&self, space: &Space, file: &Path) -> Result<Running> {
        self.start(space, &[file.to_str().ok_or_else(|| Error::other("a path that is not text"))?])
    }

    fn start(&self, space: &Space, arguments: &[&str]) -> Result<Running> {
        let mut running = space.spawn(self.path()?, &[&["run", "-q"], arguments].concat())?;
        // Libraries may print lines before the program does.
        running.wait_until_said(SAID)?;
        Ok(running)
    }

    /// Runs a configuration with ports of DPDK to its end and returns the output.
    pub(super) fn run_to_end(&self, ports: &[&str], config: &str) -> Result<String> {
        let arguments = [&["run", "-q", "--dpdk"], &EAL[..], ports, &["--", "-e", config]].concat();
        let output = Command::new(&self.path).args(arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    /// Sends the frames of a capture repeatedly at full rate. With AF_XDP, the generator is faster than any
    /// device forwards here, and 1.5 times as fast as with packet sockets.
    pub(super) fn generate(&self, space: &Space, frames: &Path) -> Result<Running> {
        let to = if self.has_xdp { "ToXDP" } else { "ToDevice" };
        let config = format!("InMemoryNic({}, LOOPS -1) -> {to}(eth0)", frames.display());
        space.spawn(self.path()?, &["run", "-q", "-e", &config])
    }

    pub(super) fn path(&self) -> Result<&str> {
        self.path.to_str().ok_or_else(|| Error::other("the program's path is not text"))
    }
}
