//! The program itself, as forwarder and as generator, and what it can do here.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{Running, Space};

/// DPDK's arguments for any program: ordinary memory, and no cards.
pub(super) const EAL: [&str; 4] = ["--no-huge", "--no-pci", "-m", "512"];

/// What a configuration has to do when its elements are at work.
pub(crate) const READY: &str = "Script(set state ready, print \"is $state\")";

/// What it says then; an error that shows the configuration does not.
const SAID: &str = "is ready";

/// This program.
pub(super) struct Program {
    path: PathBuf,
    /// Whether there can be sockets for AF_XDP.
    pub(super) has_xdp: bool,
    /// Whether it has been built with DPDK.
    pub(super) has_dpdk: bool,
}

impl Program {
    pub(super) fn new() -> Result<Program> {
        let path = std::env::current_exe()?;
        let works = |arguments: &[&str]| {
            Command::new(&path).args(arguments).output().is_ok_and(|output| output.status.success())
        };
        // It says that it cannot, and why, where it cannot.
        let has_xdp = works(&["run", "-q", "-e", "FromXDP(lo) -> Discard; Script(stop)"]);
        let dpdk = [&["run", "-q", "--dpdk"], &EAL[..], &["--", "-e", "Idle -> Discard"]].concat();
        let has_dpdk = works(&dpdk);
        Ok(Program { path, has_xdp, has_dpdk })
    }

    /// What receives from an interface: AF_XDP where it can be had, since the ring of packet sockets hands packets over after up to a
    /// millisecond, which is longer than most of what is measured.
    pub(super) fn receive(&self, interface: &str) -> String {
        let element = if self.has_xdp { "FromXDP" } else { "FromDevice" };
        format!("{element}({interface}, PROMISC true)")
    }

    /// Runs a configuration, from when its elements are at work.
    pub(super) fn run(&self, space: &Space, options: &[&str], config: &str) -> Result<Running> {
        let config = format!("{config}; {READY}");
        self.start(space, &[options, &["-e", &config]].concat())
    }

    /// The same with a configuration in a file, which says [`READY`].
    pub(super) fn run_file(&self, space: &Space, file: &Path) -> Result<Running> {
        self.start(space, &[file.to_str().ok_or_else(|| Error::other("a path that is not text"))?])
    }

    fn start(&self, space: &Space, arguments: &[&str]) -> Result<Running> {
        let mut running = space.spawn(self.path()?, &[&["run", "-q"], arguments].concat())?;
        // Libraries may have something to say before.
        running.wait_until_said(SAID)?;
        Ok(running)
    }

    /// Runs a configuration to its end, with ports of DPDK; what it prints.
    pub(super) fn run_to_end(&self, ports: &[&str], config: &str) -> Result<String> {
        let arguments = [&["run", "-q", "--dpdk"], &EAL[..], ports, &["--", "-e", config]].concat();
        let output = Command::new(&self.path).args(arguments).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }

    /// Sends the frames of a capture over and over, as fast as it goes. By AF_XDP that is faster than any device here
    /// forwards, and half as fast again as by packet sockets.
    pub(super) fn generate(&self, space: &Space, frames: &Path) -> Result<Running> {
        let to = if self.has_xdp { "ToXDP" } else { "ToDevice" };
        let config = format!("InMemoryNic({}, LOOPS -1) -> {to}(eth0)", frames.display());
        space.spawn(self.path()?, &["run", "-q", "-e", &config])
    }

    pub(super) fn path(&self) -> Result<&str> {
        self.path.to_str().ok_or_else(|| Error::other("the program's path is not text"))
    }
}
