//! The benchmark `devices`: packets per second, and one TCP flow, through each kind of device, compared
//! with the kernel's bridge, Open vSwitch and testpmd.
//!
//! Two machines, which are network namespaces, are connected by a third namespace that forwards. Generator,
//! forwarder and receiver share the cores of one real machine, so only the comparison of rows has a meaning.
//! The floor is a cable in place of the third namespace. In each round, all devices are measured once, one
//! after the other; figures are medians over the rounds.
//!
//! Submodules contain further benchmarks between namespaces.

mod between;
mod boundary;
mod calls;
mod connections;
mod guarantee;
mod http;
mod kernel;
mod program;
mod reordering;
mod switching;
mod turns;

use std::cell::Cell;
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{InterfaceCounts, Namespace, Net};

use crate::serde_params::Param;
use crate::{Pair, Row, Settings, median, source};
use between::Device;
use program::Program;

/// The addresses of the left and the right machine.
const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 7000;

/// The size in bytes of the frames whose rate is measured.
const FRAME: usize = 64;

/// The number of flows of the frames for devices with several workers. Other devices get one flow.
const FLOWS: usize = 64;

/// The bytes of data in a full TCP segment with timestamps.
const SEGMENT: f64 = 1448.0;
/// The time that the start of traffic may take on a busy machine, in addition to the time of three
/// measurements ([`Settings::window`]).
const SLOW: Duration = Duration::from_secs(20);

pub use boundary::Crossing;
pub(crate) use boundary::{Load, Probed, Probing, run as run_boundary};
pub(crate) use calls::Calling;
pub(crate) use connections::run as run_connections;
pub(crate) use guarantee::Guarantee;
pub(crate) use http::{Served, Web};
pub(crate) use program::READY;
pub use reordering::Receiving;
pub(crate) use reordering::{Front, Reordering, run as run_reordering};
pub(crate) use switching::{Passed, Switching};
pub(crate) use turns::{Taken, Turns};

/// Measures all devices. Each device has a row for TCP and a row for packets per second, except DPDK's null
/// port, which has no row for TCP. A device that cannot be measured is reported and has no rows. Prints a
/// message and returns no rows if network namespaces, `ip` or `ethtool` cannot be used.
pub(crate) fn run(settings: &Settings) -> std::result::Result<Vec<Row>, String> {
    let interrupt = Interrupt::new().map_err(|error| error.to_string())?;
    if let Err(error) = is_possible() {
        eprintln!("devices: {error}; no rows without root, ip and ethtool");
        return Ok(Vec::new());
    }
    measure_all(settings, interrupt).map_err(|error| error.to_string())
}

pub(crate) fn is_possible() -> Result<()> {
    let ethtool = Command::new("ethtool").arg("--version").output();
    ethtool.map_err(|error| Error::other(format!("ethtool: {error}")))?;
    Net::new().map(drop)
}

fn measure_all(settings: &Settings, interrupt: Interrupt) -> Result<Vec<Row>> {
    let bench = Bench::new(settings.window, interrupt)?;
    let mut devices: Vec<(Device, Vec<Sample>)> =
        bench.program.devices().into_iter().map(|device| (device, Vec::new())).collect();
    let start = Instant::now();
    for round in 1..=settings.rounds as u32 {
        let mut failed = Vec::new();
        for (i, (device, samples)) in devices.iter_mut().enumerate() {
            match bench.measure(device) {
                Ok(sample) => samples.push(sample),
                Err(_) if bench.interrupt.is_asked() => return Err(ErrorKind::Interrupted.into()),
                Err(error) => {
                    eprintln!("devices: no row for {}: {error}", device.describe());
                    failed.push(i);
                }
            }
        }
        for i in failed.into_iter().rev() {
            devices.remove(i);
        }
        // Ends the benchmark if another round (of all devices), of average length, would exceed the time
        // limit.
        if start.elapsed() / round * (round + 1) > settings.time {
            break;
        }
    }
    Ok(rows(&devices))
}

/// Returns the number of packets that the sending machine (on the left) has tried to send since its interface
/// was created: packets that were sent or refused.
fn offered([left, _]: [InterfaceCounts; 2]) -> u64 {
    left.sent + left.refused
}

/// The results of measuring one device in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// The bits of TCP data per second: from left to right, and from right to left.
    tcp: Option<[f64; 2]>,
    /// The packets per second: forwarded, and offered by the sender if that is known.
    packets: Option<(f64, Option<f64>)>,
}

fn rows(devices: &[(Device, Vec<Sample>)]) -> Vec<Row> {
    let floor: &[Sample] = match devices.iter().find(|(device, _)| device.is_cable()) {
        Some((_, samples)) => samples,
        None => &[],
    };
    let (mut tcp_rows, mut packet_rows) = (Vec::new(), Vec::new());
    for (device, samples) in devices {
        let pairs = |cost: fn(&Sample) -> Option<f64>| -> Vec<Pair> {
            let both = samples.iter().zip(floor).filter_map(|(sample, floor)| cost(sample).zip(cost(floor)));
            both.map(|(cost, floor)| Pair { cost, floor }).collect()
        };
        let tcp = pairs(|sample| sample.tcp.map(|[there, back]| 2e9 * 8.0 * SEGMENT / (there + back)));
        if !tcp.is_empty() {
            let direction =
                |i: usize| median(samples.iter().filter_map(|sample| Some(sample.tcp?[i] / 1e9)).collect());
            let row = Row::new("devices", &device.params(&[("traffic", Param::Word("tcp"))]), &tcp);
            tcp_rows.push(Row { unit: "segment", gbps: Some([0, 1].map(direction)), ..row });
        }
        let packets = pairs(|sample| sample.packets.map(|(forwarded, _)| 1e9 / forwarded));
        if !packets.is_empty() {
            let offered: Vec<f64> =
                samples.iter().filter_map(|sample| Some(sample.packets?.1? / 1e6)).collect();
            let params = [
                ("traffic", Param::Word("udp")),
                ("frame", Param::Number(FRAME as u64)),
                ("flows", Param::Number(device.flows() as u64)),
            ];
            let row = Row::new("devices", &device.params(&params), &packets);
            packet_rows.push(Row { offered_mpps: (!offered.is_empty()).then(|| median(offered)), ..row });
        }
    }
    tcp_rows.append(&mut packet_rows);
    tcp_rows
}

/// Three namespaces: the left and the right machine, and the namespace between them, which forwards.
struct Line {
    left: Namespace,
    between: Namespace,
    right: Namespace,
    net: Net,
}

impl Line {
    /// Creates the namespaces and connects both machines to the middle with cables. The interfaces in the
    /// middle are named `left` and `right`. The machines send frames of at most the MTU, with complete
    /// checksums, because segmentation and checksum offloads are disabled.
    fn of_ordinary_frames() -> Result<Line> {
        let mut net = Net::new()?;
        let [left, between, right] = ["left", "between", "right"].map(|name| net.space(name));
        let (left, between, right) = (left?, between?, right?);
        net.cable([(&left, "eth0", &format!("{LEFT}/24")), (&between, "left", "")])?;
        net.cable([(&right, "eth0", &format!("{RIGHT}/24")), (&between, "right", "")])?;
        for end in [&left, &right] {
            end.ethtool("-K eth0 tx off tso off gso off")?;
        }
        Ok(Line { left, between, right, net })
    }
}

/// Makes the receiver's interface merge packets that arrive in order (GRO). With `micros` above 0, the
/// interface waits that many microseconds for more packets before it passes on merged packets, like an
/// interface with interrupt moderation (the kernel's documentation of NAPI).
fn merge(line: &Line, micros: u64) -> Result<()> {
    // A virtual cable uses GRO only if its other end has segmentation offload disabled, so that it does not
    // send large segments whole.
    line.between.ethtool("-K right tso off")?;
    line.right.ethtool("-K eth0 gro on")?;
    if micros == 0 {
        return Ok(());
    }
    let settings = [("napi_defer_hard_irqs", 2), ("gro_flush_timeout", 1000 * micros)];
    let lines = settings.map(|(name, value)| format!("echo {value} > /sys/class/net/eth0/{name}"));
    let output = line.right.command("sh").args(["-ec", &lines.join("\n")]).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Returns the numbers that follow a word in a line; an error if anything else follows.
fn numbers(line: &str, word: &str) -> Result<Vec<f64>> {
    let words = line.split_whitespace().skip_while(|other| !other.ends_with(word)).skip(1);
    let numbers: std::result::Result<Vec<f64>, _> = words.map(str::parse).collect();
    numbers.map_err(|_| Error::other(format!("no figures: {line}")))
}

/// The resources that the measurements of all devices share.
struct Bench {
    program: Program,
    /// Captures of the frames to send: with one flow, and with [`FLOWS`] flows.
    frames: [PathBuf; 2],
    folder: tempfile::TempDir,
    window: Duration,
    interrupt: Interrupt,
    /// The number of folders created so far; the next number is the name of the next folder.
    count: Cell<u32>,
}

impl Bench {
    fn new(window: Duration, interrupt: Interrupt) -> Result<Bench> {
        let folder = tempfile::tempdir()?;
        let frames = [1, FLOWS].map(|flows| folder.path().join(format!("{flows}.pcap")));
        for (file, flows) in frames.iter().zip([1, FLOWS]) {
            source::write_capture(&std::fs::File::create(file)?, 4096, flows, FRAME)?;
        }
        Ok(Bench { program: Program::new()?, frames, folder, window, interrupt, count: Cell::new(0) })
    }

    /// Sets up a device, measures TCP in both directions and packets per second, and removes the device
    /// again. For DPDK's null port, only packets per second are measured.
    fn measure(&self, device: &Device) -> Result<Sample> {
        if let Some(packets) = device.measure_alone(self)? {
            return Ok(Sample { tcp: None, packets: Some((packets, None)) });
        }
        let mut net = Net::new()?;
        let [left, between, right] = ["left", "between", "right"].map(|name| net.space(name));
        let line = Line { left: left?, between: between?, right: right?, net };
        // `_running` is dropped before `line`, so that the programs end before their namespaces are
        // removed.
        let _running = device.set_up(self, &line)?;
        self.wait_until_it_forwards(&line)?;
        let there = self.flow(&line.left, &line.right, RIGHT)?;
        let back = self.flow(&line.right, &line.left, LEFT)?;
        let packets = self.packets(device, &line)?;
        Ok(Sample { tcp: Some([there, back]), packets: Some(packets) })
    }

    fn wait_until_it_forwards(&self, line: &Line) -> Result<()> {
        for _ in 0..5 {
            self.interrupt.check()?;
            if lab::ping(&line.left, RIGHT, 1) == 1 {
                return Ok(());
            }
        }
        Err(Error::other("no ping gets through"))
    }

    fn flow(&self, from: &Namespace, to: &Namespace, address: Ipv4Addr) -> Result<f64> {
        self.interrupt.check()?;
        lab::flow(from, to, SocketAddr::from((address, PORT)), self.window)
    }

    /// Measures packets per second while the generator sends at full rate: the packets that arrive on the
    /// right machine, and the packets that the left machine has tried to send.
    fn packets(&self, device: &Device, line: &Line) -> Result<(f64, Option<f64>)> {
        // Switches have already learned at which port the receiver's link address is. After this change, no
        // machine has the address to which frames are sent, so that the receiving kernel drops the frames at
        // once.
        line.right.ip("link set eth0 address 2:0:0:0:0:3")?;
        let frames = &self.frames[usize::from(device.flows() > 1)];
        let _generator = self.program.generate(&line.left, frames)?;
        let counts = || -> Result<[InterfaceCounts; 2]> {
            Ok([line.left.counts("eth0")?, line.right.counts("eth0")?])
        };
        // On a busy machine, it may take long until the generator and the device are scheduled.
        let (launch, first) = (Instant::now(), counts()?);
        let is_too_late = || launch.elapsed() > 3 * self.window + SLOW;
        while offered(counts()?) == offered(first) {
            self.interrupt.pause(self.window / 4)?;
            if is_too_late() {
                return Err(Error::other("the generator sends nothing"));
            }
        }
        self.interrupt.pause(self.window / 4)?;
        let (start, before) = (Instant::now(), counts()?);
        loop {
            self.interrupt.pause(self.window)?;
            let (passed, after) = (start.elapsed().as_secs_f64(), counts()?);
            let (offered, forwarded) =
                (offered(after) - offered(before), after[1].received - before[1].received);
            if forwarded > 0 && offered > 0 {
                return Ok((forwarded as f64 / passed, Some(offered as f64 / passed)));
            }
            if is_too_late() {
                return Err(Error::other(format!("none of {offered} packets came through")));
            }
        }
    }

    /// Creates an empty folder for the files of a device.
    fn folder(&self) -> Result<PathBuf> {
        self.count.set(self.count.get() + 1);
        let folder = self.folder.path().join(self.count.get().to_string());
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }
}

/// A listener for signals that end the program (Ctrl-C, termination, hang-up). While it exists, a signal
/// only sets a flag, so that namespaces and programs are removed before the program ends.
struct Interrupt {
    flags: &'static Flags,
}

/// Two flags: `asked`, which signals set, and `over`, which is true while no listener exists, so that signals
/// end the program at once. Signal handlers are registered once and serve all measurements, which run one
/// after the other.
struct Flags {
    asked: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Flags {
    fn register() -> Result<Flags> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        use signal_hook::flag;
        let [asked, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_default(signal, Arc::clone(&over))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Flags { asked, over })
    }
}

impl Interrupt {
    fn new() -> Result<Interrupt> {
        static FLAGS: Mutex<Option<&Flags>> = Mutex::new(None);
        let mut flags = FLAGS.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = match *flags {
            Some(flags) => flags,
            None => *flags.insert(Box::leak(Box::new(Flags::register()?))),
        };
        flags.over.store(false, Ordering::Relaxed);
        Ok(Interrupt { flags })
    }

    fn is_asked(&self) -> bool {
        self.flags.asked.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<()> {
        if self.is_asked() { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
    }

    fn pause(&self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(Duration::from_millis(100)));
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        // Without a listener, a signal ends the program at once.
        self.flags.over.store(true, Ordering::Relaxed);
    }
}
