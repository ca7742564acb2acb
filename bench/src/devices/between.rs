//! The devices (elements, drivers, switches) that connect the two machines in the benchmark `devices`, and
//! their set-up.

use std::io::{Error, Result};
use std::process::{Command, Stdio};

use lab::{RunningProgram, openvswitch};

use super::program::{EAL, Program};
use super::{Bench, FLOWS, Line};
use crate::serde_params::Param;

/// A device to be measured.
pub(super) struct Device {
    /// The name of the device: of an element, of a driver of DPDK, or of a datapath such as the kernel's
    /// bridge.
    name: &'static str,
    /// The name of the program that forwards by this device.
    by: &'static str,
    /// The treatment of large segments and incomplete checksums, which senders leave to their interface.
    offloads: Offloads,
    workers: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Offloads {
    /// Large segments are forwarded unchanged.
    Passed,
    /// The forwarding program divides large segments into ordinary frames.
    Cut,
    /// Senders make ordinary frames with complete checksums themselves.
    Off,
}

enum Kind {
    Cable,
    Bridge,
    OpenVswitch,
    /// A configuration of Tidegate between the existing interfaces `left` and `right`.
    Tidegate(String),
    /// A configuration of Tidegate that creates the TAP interfaces `left` and `right` itself.
    Taps(String),
    /// Two ports of DPDK: the arguments that create them, and true if they are TAP interfaces.
    Dpdk(&'static str, bool),
    /// The null port of DPDK, which supplies and consumes packets without limit. It is measured alone, not
    /// between two machines.
    Null,
}

const TESTPMD: &str = "testpmd";
const TESTPMD_PROGRAM: &str = "dpdk-testpmd";
/// The beginning of a line that testpmd prints once a second while it forwards.
const RATE: &str = "Rx-pps:";

/// Returns a configuration that forwards from `left` to `right` and back. `from` and `to` are the receiving
/// and the sending element, with `$` in place of the interface.
fn both(from: &str, to: &str) -> String {
    format!(
        "{0} -> {1}; {2} -> {3}",
        from.replace('$', "left"),
        to.replace('$', "right"),
        from.replace('$', "right"),
        to.replace('$', "left")
    )
}

impl Program {
    /// Returns all devices that can be measured on this machine.
    pub(super) fn devices(&self) -> Vec<Device> {
        use Offloads::{Cut, Off, Passed};
        let kernel = |name, kind| Device { name, by: "kernel", offloads: Passed, workers: 1, kind };
        let mut all = vec![kernel("cable", Kind::Cable), kernel("bridge", Kind::Bridge)];
        // In its default settings, Open vSwitch in user space does not complete checksums and does not
        // accept large segments.
        let switch = |name, offloads| Device {
            name,
            by: "openvswitch",
            offloads,
            workers: 1,
            kind: Kind::OpenVswitch,
        };
        if openvswitch::is_installed() {
            if openvswitch::is_in_kernel() {
                all.push(switch("system", Passed));
            }
            all.push(switch("netdev", Off));
        }
        let ours = |name, offloads, workers, config| Device {
            name,
            by: "tidegate",
            offloads,
            workers,
            kind: Kind::Tidegate(config),
        };
        for (offloads, chain) in [(Passed, "Queue"), (Cut, "Truncate(1514) -> Queue")] {
            for workers in [1, 2] {
                let config = both(&format!("FromDevice($, PROMISC true) -> {chain}"), "ToDevice($)");
                all.push(ours("FromDevice", offloads, workers, config));
            }
        }
        if self.has_xdp {
            for (name, mode) in [("FromXDP native", "native"), ("FromXDP skb", "skb")] {
                let config = both(&format!("FromXDP($, PROMISC true, MODE {mode})"), "ToXDP($)");
                all.push(ours(name, Off, 1, config));
            }
        }
        let taps = "left :: KernelTap(10.77.1.1/24, TAP true, DEVNAME left) -> right :: KernelTap(10.77.2.1/24, TAP true, \
                    DEVNAME right) -> left";
        let taps = Kind::Taps(taps.into());
        all.push(Device { name: "KernelTap", by: "tidegate", offloads: Passed, workers: 1, kind: taps });
        if self.has_dpdk {
            all.extend(dpdk_devices());
        }
        all
    }
}

fn dpdk_devices() -> Vec<Device> {
    let ports = [
        ("net_af_packet", "--vdev=net_af_packet0,iface=left --vdev=net_af_packet1,iface=right", false),
        ("net_af_xdp", "--vdev=net_af_xdp0,iface=left --vdev=net_af_xdp1,iface=right", false),
        ("net_tap", "--vdev=net_tap0,iface=left --vdev=net_tap1,iface=right", true),
    ];
    let has_testpmd = Command::new(TESTPMD_PROGRAM).arg("--version").output().is_ok();
    let mut all = Vec::new();
    for by in ["tidegate", TESTPMD] {
        if by == TESTPMD && !has_testpmd {
            continue;
        }
        let device = |name, kind| Device { name, by, offloads: Offloads::Off, workers: 1, kind };
        for (name, arguments, taps) in ports {
            // Without huge pages, testpmd's packet pool has gaps, with which the AF_XDP driver does not work.
            if by != TESTPMD || name != "net_af_xdp" {
                all.push(device(name, Kind::Dpdk(arguments, taps)));
            }
        }
        all.push(device("net_null", Kind::Null));
    }
    all
}

impl Device {
    pub(super) fn is_cable(&self) -> bool {
        matches!(self.kind, Kind::Cable)
    }

    /// Returns the number of flows of the packets whose rate is measured.
    pub(super) fn flows(&self) -> usize {
        if self.workers > 1 { FLOWS } else { 1 }
    }

    /// Returns the parameters of the device as text, for messages.
    pub(super) fn describe(&self) -> String {
        let params = self.params(&[]);
        params.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns the parameters that identify the device in result rows, followed by `more`.
    pub(super) fn params(&self, more: &[(&'static str, Param)]) -> Vec<(&'static str, Param)> {
        let offloads = match self.offloads {
            Offloads::Passed => "passed",
            Offloads::Cut => "cut",
            Offloads::Off => "off",
        };
        let mut params = vec![
            ("device", Param::Word(self.name)),
            ("by", Param::Word(self.by)),
            ("offloads", Param::Word(offloads)),
            ("workers", Param::Number(self.workers as u64)),
        ];
        params.extend_from_slice(more);
        params
    }

    /// Connects the machines by the device, and configures their interfaces `eth0`. The device forwards as
    /// long as the returned programs run.
    pub(super) fn set_up(&self, bench: &Bench, line: &Line) -> Result<Vec<RunningProgram>> {
        let Line { left, between, right, net } = line;
        let (mut running, threads) = (Vec::new(), self.workers.to_string());
        let makes_taps = matches!(self.kind, Kind::Taps(_) | Kind::Dpdk(_, true));
        if self.is_cable() {
            net.cable([(left, "eth0", ""), (right, "eth0", "")])?;
        } else if !makes_taps {
            for (space, name) in [(left, "left"), (right, "right")] {
                net.cable([(space, "eth0", ""), (between, name, "")])?;
                // The interface gets a single queue for received and a single queue for sent packets. An
                // interface that has only one of each rejects the command, so errors are ignored.
                let _ = between.ethtool(&format!("-L {name} rx 1 tx 1"));
            }
        }
        match &self.kind {
            Kind::Cable | Kind::Null => {}
            Kind::Bridge => {
                between.ip("link add bridge type bridge")?;
                for port in ["left", "right"] {
                    between.ip(&format!("link set {port} master bridge"))?;
                }
                between.ip("link set bridge up")?;
            }
            Kind::OpenVswitch => {
                running.extend(openvswitch::bridge(
                    between,
                    &["left", "right"],
                    &bench.folder()?,
                    self.name,
                )?);
            }
            Kind::Tidegate(config) | Kind::Taps(config) => {
                running.push(bench.program.run(between, &["--threads", &threads], config)?);
            }
            Kind::Dpdk(arguments, _) if self.by == TESTPMD => {
                let mut program = testpmd(between.command(TESTPMD_PROGRAM), arguments)?;
                program.wait_for(RATE)?;
                running.push(program);
            }
            Kind::Dpdk(arguments, _) => {
                let ports = arguments.split(' ').collect::<Vec<_>>();
                let options = [&["--dpdk"], &EAL[..], &ports, &["--"]].concat();
                let config = "FromDPDKDevice(0) -> ToDPDKDevice(1); FromDPDKDevice(1) -> ToDPDKDevice(0)";
                running.push(bench.program.run(between, &options, config)?);
            }
        }
        for (space, name, address, last) in
            [(left, "left", super::LEFT, 1), (right, "right", super::RIGHT, 2)]
        {
            if makes_taps {
                between.ip(&format!("link set {name} netns {} name eth0", space.name()))?;
                space.ip("link set eth0 up")?;
            }
            space.ip(&format!("link set eth0 address 2:0:0:0:0:{last}"))?;
            space.ip(&format!("addr add {address}/24 dev eth0"))?;
            if self.offloads == Offloads::Off {
                space.ethtool("-K eth0 tx off tso off gso off")?;
            }
        }
        Ok(running)
    }

    /// Measures the packets per second of DPDK's null port; None for all other devices.
    pub(super) fn measure_alone(&self, bench: &Bench) -> Result<Option<f64>> {
        if !matches!(self.kind, Kind::Null) {
            return Ok(None);
        }
        let port = "--vdev=net_null0";
        bench.interrupt.check()?;
        if self.by == TESTPMD {
            return null_by_testpmd(port).map(Some);
        }
        let config = format!(
            "FromDPDKDevice(0) -> c :: Counter -> ToDPDKDevice(0);
             Script(wait 0.2s, write c.reset, wait {}s, print $(c.count), stop)",
            bench.window.as_secs_f64()
        );
        let said = bench.program.run_to_end(&[port], &config)?;
        let count: f64 = said.trim().parse().map_err(|_| Error::other(format!("no count: {said}")))?;
        Ok(Some(count / bench.window.as_secs_f64()))
    }
}

/// Starts testpmd, which forwards between its two ports.
fn testpmd(mut command: Command, ports: &str) -> Result<RunningProgram> {
    command.args(EAL).arg("--no-shconf").args(ports.split(' '));
    command.args(["--", "--forward-mode=io", "--auto-start", "--total-num-mbufs=16384", "--stats-period=1"]);
    // testpmd runs until it reads from its standard input, which stays open and empty.
    RunningProgram::new(command.stdin(Stdio::piped()))
}

fn null_by_testpmd(port: &str) -> Result<f64> {
    let mut running = testpmd(Command::new(TESTPMD_PROGRAM), port)?;
    let mut line = String::new();
    // testpmd prints a rate once a second. The first two rates are skipped, because the first one covers only
    // a part of a second.
    for _ in 0..3 {
        line = running.wait_for(RATE)?;
    }
    let rate = line.split_whitespace().nth(1).and_then(|rate| rate.parse().ok());
    rate.ok_or_else(|| Error::other(format!("no rate: {line}")))
}
