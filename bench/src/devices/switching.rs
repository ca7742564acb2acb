//! Open vSwitch between two interfaces of one machine, alone or with software downstream of it (Reframer,
//! Figure 3; SNF, Figure 11).

use std::io::{Error, Result};
use std::path::Path;
use std::time::Duration;

use lab::{Namespace, Net, RunningProgram, openvswitch};

use super::{Program, numbers};

/// The offset in a frame at which a packet number is written, after a TCP header.
const NUMBER: usize = 54;

/// A testbed for switches with flow tables.
pub(crate) struct Switching {
    program: Program,
}

/// A running switch, with the software downstream of it that continues the processing, if there is any.
pub(crate) struct Switch<'s> {
    program: &'s Program,
    host: Namespace,
    // The following fields are dropped in this order, so that the programs end before their namespaces are
    // removed.
    _software: Option<RunningProgram>,
    _switch: [RunningProgram; 2],
    _folder: tempfile::TempDir,
    _net: Net,
}

/// The results of packets that passed a switch and came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// The thousands of packets per second that came back.
    pub(crate) kpps: f64,
    /// The 25th, 50th, 75th and 99th percentile of the latency in microseconds; NaN if packets were sent at
    /// full rate.
    pub(crate) micros: [f64; 4],
}

impl Switching {
    pub(crate) fn new() -> Result<Switching> {
        Ok(Switching { program: Program::new()? })
    }

    /// Starts a switch with a datapath ([`openvswitch::bridge`]) and the flow table in the file `flows`. Port
    /// 1 is connected to the sender. Port 2 is connected to the software, if any, and otherwise back to the
    /// sender. The software is a configuration in a file that contains [`super::READY`]; it receives from
    /// `nf0` and sends to `nf1`, which leads back to the sender.
    pub(crate) fn set_up(&self, datapath: &str, flows: &Path, software: Option<&Path>) -> Result<Switch<'_>> {
        let mut net = Net::new()?;
        let [host, switch, beyond] = ["host", "switch", "beyond"].map(|name| net.space(name));
        let (host, switch, beyond) = (host?, switch?, beyond?);
        net.cable([(&host, "there", ""), (&switch, "in", "")])?;
        match software {
            None => net.cable([(&switch, "out", ""), (&host, "back", "")])?,
            Some(_) => {
                net.cable([(&switch, "out", ""), (&beyond, "nf0", "")])?;
                net.cable([(&beyond, "nf1", ""), (&host, "back", "")])?;
            }
        }
        let folder = tempfile::tempdir()?;
        let running = openvswitch::bridge(&switch, &["in", "out"], folder.path(), datapath)?;
        openvswitch::load(&switch, folder.path(), flows)?;
        let software = software.map(|file| self.program.run_file(&beyond, file)).transpose()?;
        Ok(Switch {
            program: &self.program,
            host,
            _software: software,
            _switch: running,
            _folder: folder,
            _net: net,
        })
    }

    /// Returns the element that receives from an interface; see [`Program::receive`].
    pub(crate) fn receive(&self, interface: &str) -> String {
        self.program.receive(interface)
    }

    /// Runs `tidegate synthesize` on a configuration file, with additional options, and returns its output.
    pub(crate) fn synthesize(&self, config: &Path, options: &[&str]) -> Result<String> {
        let output = std::process::Command::new(self.program.path()?)
            .args(["synthesize", "--all", "--seconds", "0", "--unproven"])
            .args(options)
            .arg(config)
            .output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    }
}

impl Switch<'_> {
    /// Sends the packets of a capture repeatedly for `time`, at `rate` packets per second, or at full rate
    /// if None. Latency is measured only with a rate. An error if no packet comes back.
    pub(crate) fn drive(&self, capture: &Path, rate: Option<u64>, time: Duration) -> Result<Passed> {
        let (rate, front, meter, values) = match rate {
            None => (0, String::new(), String::new(), ""),
            Some(rate) => (
                rate,
                format!("NumberPacket({NUMBER}) -> r :: RecordTimestamp(OFFSET {NUMBER}, DYNAMIC true) ->"),
                format!("d :: TimestampDiff(r, OFFSET {NUMBER}, VERBOSE false) ->"),
                "$(d.perc25) $(d.median) $(d.perc75) $(d.perc99)",
            ),
        };
        let config = format!(
            "InMemoryNic({}, LOOPS -1, RATE {rate}) -> {front} ToDevice(there);
             {} -> came :: Counter -> {meter} Discard;
             Script(wait 0.1s, write came.reset, wait {}s, print \"measured $(came.count) {values}\", stop)",
            capture.display(),
            self.program.receive("back"),
            time.as_secs_f64()
        );
        let mut running = self.program.run(&self.host, &[], &config)?;
        let numbers = numbers(&running.wait_for("measured")?, "measured")?;
        let (came, micros) = match numbers[..] {
            [came] => (came, [f64::NAN; 4]),
            [came, a, b, c, d] => (came, [a, b, c, d]),
            _ => return Err(Error::other("no figures")),
        };
        if came == 0.0 {
            return Err(Error::other("nothing came through the switch"));
        }
        Ok(Passed { kpps: came / time.as_secs_f64() / 1e3, micros })
    }
}
