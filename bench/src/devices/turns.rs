//! A testbed in which the packets of many TCP connections arrive at the receiver in runs of a given length,
//! one connection after the other (Reframer, section 2.2).

use std::io::Result;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use lab::Connections;

use super::kernel::{count, soft_interrupts};
use super::{Line, PORT, Program, RIGHT, SEGMENT, merge, numbers};

/// The source ports of the 128 connections.
const PORTS: Range<u16> = 9000..9128;
/// The size in bytes of a full frame, without check sequence.
const FRAME: usize = 1514;

/// A testbed: a sender, a link of 400 Mb/s with a queue per connection, and a receiver. The receiver is
/// faster than the link, so that each connection always has packets in its queue, and the scheduler
/// determines the length of runs.
pub(crate) struct Turns {
    program: Program,
}

/// The results of a measurement: mainly the work of the receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// The gigabits of data per second of all connections together.
    pub(crate) gbps: f64,
    /// The SLF of the packets on the link.
    pub(crate) slf: f64,
    /// The segments that the interface delivered to TCP, per thousand packets. Merged segments count as
    /// one.
    pub(crate) delivered: f64,
    /// The processor microseconds per packet: of the receiving threads, and of the whole machine in soft
    /// interrupts.
    pub(crate) micros: [f64; 2],
}

impl Turns {
    /// The microseconds for which the receiver's interface waits for more packets, if it merges packets
    /// (GRO).
    const HOLD: u64 = 125;

    pub(crate) fn new() -> Result<Turns> {
        Ok(Turns { program: Program::new()? })
    }

    /// Lets all connections send for `time`, in runs of `slf` packets. The receiver's interface merges
    /// packets (GRO) if `merges`.
    pub(crate) fn measure(&self, slf: usize, merges: bool, time: Duration) -> Result<Taken> {
        let line = Line::of_ordinary_frames()?;
        let Line { left: sender, between, right: receiver, .. } = &line;
        match merges {
            true => merge(&line, Self::HOLD)?,
            false => drop(receiver.ethtool("-K eth0 gro off")?),
        }
        let patterns: String = PORTS.map(|port| format!("34/{port:04x} 36/{PORT:04x}, ")).collect();
        let queues: String =
            (0..=PORTS.len()).map(|n| format!("flow[{n}] -> Queue(64) -> [{n}] turns;")).collect();
        let [left, right] = ["left", "right"].map(|interface| self.program.receive(interface));
        let config = format!(
            "turns :: DRRSched({}) -> LinkUnqueue(0us, 400Mbps) -> seen :: Reframer(0us, BYPASS none, CAPACITY 100000)
                 -> Queue(2000) -> ToDevice(right);
             {left} -> flow :: Classifier({patterns} -);
             {queues}
             {right} -> Queue(2000) -> ToDevice(left);
             Script(wait {}s, print \"slf $(seen.slf_in)\")",
            slf * FRAME,
            time.as_secs_f64()
        );
        let mut running = self.program.run(between, &["--busy-poll"], &config)?;
        let counts = || -> Result<[f64; 3]> {
            let packets = receiver.counts("eth0")?.received as f64;
            Ok([packets, count(receiver, "snmp", "Tcp", "InSegs")? as f64, soft_interrupts()?])
        };
        let before = counts()?;
        let flows = Connections { first_port: Some(PORTS.start), ..Connections::new(PORTS.len() as u16) };
        let all = lab::flows(sender, receiver, SocketAddr::from((RIGHT, PORT)), &flows, time)?;
        let after = counts()?;
        let [packets, segments, seconds] = [0, 1, 2].map(|n| after[n] - before[n]);
        let rate: f64 = all.iter().map(|one| one.rate).sum();
        let busy: f64 = all.iter().map(|one| one.busy).sum();
        let per_second = rate / 8.0 / SEGMENT;
        Ok(Taken {
            gbps: rate / 1e9,
            slf: numbers(&running.wait_for("slf ")?, "slf")?.first().copied().unwrap_or(f64::NAN),
            delivered: 1000.0 * segments / packets,
            micros: [1e6 * busy / per_second, 1e6 * seconds / packets],
        })
    }
}
