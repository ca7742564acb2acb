//! The papers' evaluations: for each figure a run of our own, its table, its plot and a sentence.
//!
//! Cost is measured as in all benchmarks, beside the floor of the same run, and what is compared takes turns. A
//! figure of the paper is told in the paper's units; where machines differ, ratios are what can be compared.

mod figures;
pub(crate) mod open_loop;
pub mod plot;
pub mod results;
pub mod table;
mod trace_time;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::floor::Floor;
use crate::{Row, Settings, quartiles};
pub use figures::ALL;
pub(crate) use open_loop::CLASSES;
use plot::{Panel, Point};
use table::Table;

/// One figure of a paper, or several that come of one run.
pub struct Figure {
    /// The name on the command line and of files.
    pub name: &'static str,
    /// Paper and number.
    pub paper: &'static str,
    /// What is measured.
    pub about: &'static str,
    /// What has to be there.
    pub needs: &'static [Need],
    /// Measures it.
    pub run: fn(&Run<'_>) -> Result<Outcome, String>,
}

/// Something that a figure cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Network namespaces, which only root can make.
    Namespaces,
    /// TCP with the congestion control of all experiments: figures that depend on it say so.
    Tcp,
    /// A program.
    Program(&'static str),
    /// Open vSwitch.
    OpenVSwitch,
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Need::Namespaces => f.write_str("network namespaces (root)"),
            Need::Tcp => write!(f, "TCP's congestion control {}", lab::CONTROL),
            Need::Program(program) => f.write_str(program),
            Need::OpenVSwitch => f.write_str("Open vSwitch"),
        }
    }
}

impl Need {
    /// Why it cannot be had.
    fn lack(self) -> Option<String> {
        match self {
            Need::Namespaces => match crate::devices::is_possible() {
                Ok(()) => None,
                Err(error) => Some(format!("network namespaces ({error})")),
            },
            Need::Tcp => (!lab::has_control(lab::CONTROL))
                .then(|| format!("the congestion control {} (tcp(7))", lab::CONTROL)),
            Need::OpenVSwitch => (!lab::openvswitch::is_installed()).then(|| "Open vSwitch".to_string()),
            Need::Program(program) => match Command::new(program).arg("--version").output() {
                Ok(_) => None,
                Err(_) => Some(program.to_string()),
            },
        }
    }
}

impl Figure {
    /// True if the figure is about Reframer's chain, whose load can be a capture.
    pub fn takes_trace(&self) -> bool {
        let number = self.name.strip_prefix("reframer-").and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| (11..=18).contains(&number))
    }

    /// What has to be there for the figure, in words; empty for nothing.
    pub fn needs(&self) -> String {
        self.needs.iter().map(Need::to_string).collect::<Vec<_>>().join(", ")
    }

    /// What a figure lacks here, if it lacks anything.
    pub fn lacks(&self) -> Option<String> {
        let lacks: Vec<String> = self.needs.iter().filter_map(|need| need.lack()).collect();
        (!lacks.is_empty()).then(|| format!("needs {}", lacks.join(" and ")))
    }
}

/// Figures of the papers that are not there, and why.
pub const MISSING: &[(&str, &str)] = &[
    ("Reframer, Figures 17 and 21", "a SmartNIC on which Reframer runs; there is none"),
    ("NFSlicer, Figure 9", "a model of a switch's memory, not a measurement"),
    (
        "NFSlicer, Figures 11 to 14",
        "counters of DDIO, the last-level cache and the memory bus of the paper's processor; virtual machines have none of them",
    ),
];

/// What a figure is measured with.
pub struct Run<'r> {
    /// How much.
    pub settings: Settings,
    /// A capture to take in the place of traffic that is made, where a figure has any.
    pub trace: Option<PathBuf>,
    /// Hears what is measured next, and says whether to go on.
    progress: &'r dyn Fn(&str) -> bool,
    /// What the floor has cost before each step.
    floors: RefCell<Floors>,
}

/// The floor, measured now and then beside a figure that may have none of its own.
#[derive(Default)]
struct Floors {
    floor: Option<Floor>,
    ns: Vec<f64>,
}

impl Floors {
    /// More packets than caches hold.
    const PACKETS: usize = 20_000;
    /// Packets of one measurement: a millisecond.
    const PER_RUN: usize = 100_000;
    /// Measurements at a time.
    const REPEATS: usize = 5;

    fn measure(&mut self) -> Result<(), String> {
        let floor = match &mut self.floor {
            Some(floor) => floor,
            none => {
                let mut floor = Floor::new(Floors::PACKETS, 64).map_err(|error| error.to_string())?;
                // Touches all memory.
                floor.measure(Floors::PER_RUN);
                none.insert(floor)
            }
        };
        self.ns.extend((0..Floors::REPEATS).map(|_| floor.measure(Floors::PER_RUN)));
        Ok(())
    }
}

/// What [`Run::step`] says where somebody has asked to stop.
pub const INTERRUPTED: &str = "interrupted";

impl<'r> Run<'r> {
    /// With a capture, if there is one, and somebody who hears what is measured next and says whether to go on.
    pub fn new(settings: Settings, trace: Option<PathBuf>, progress: &'r dyn Fn(&str) -> bool) -> Run<'r> {
        Run { settings, trace, progress, floors: RefCell::default() }
    }

    /// Says what is measured next, and measures the floor.
    ///
    /// # Errors
    /// [`INTERRUPTED`] if it is not to be measured any more.
    pub fn step(&self, what: &str) -> Result<(), String> {
        if !(self.progress)(what) {
            return Err(INTERRUPTED.into());
        }
        if self.is_small() { Ok(()) } else { self.floors.borrow_mut().measure() }
    }

    /// The quartiles of what the floor has cost before each step and at the end, in nanoseconds; None where it is only to see
    /// that the figure comes about.
    ///
    /// # Errors
    /// There is no memory for the floor.
    pub fn floor_quartiles(&self) -> Result<Option<[f64; 2]>, String> {
        if self.is_small() {
            return Ok(None);
        }
        let mut floors = self.floors.borrow_mut();
        floors.measure()?;
        Ok(Some(quartiles(floors.ns.clone())))
    }

    /// Whether this is only to see that it works.
    pub fn is_small(&self) -> bool {
        self.settings.repeats == 1
    }

    /// All of these, or the first and the last where it is only to see that it works.
    pub fn some<T: Clone>(&self, all: &[T]) -> Vec<T> {
        match (self.is_small(), all) {
            (true, [first, .., last]) => vec![first.clone(), last.clone()],
            _ => all.to_vec(),
        }
    }
}

/// How much is measured for an evaluation.
impl Settings {
    /// All figures in less than two hours.
    pub const EVALUATION: Settings =
        Settings { repeats: 7, per_run: 1_000_000, window: Duration::from_secs(1), ..Settings::USUAL };
    /// Just enough to see that each figure comes about.
    pub const GLANCE: Settings =
        Settings { repeats: 1, packets: 2_000, per_run: 4_000, rounds: 1, ..Settings::SMALL };
}

/// What came of a figure.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All that was measured.
    pub table: Table,
    /// What is to be seen.
    pub panels: Vec<Panel>,
    /// What is to be said.
    pub finding: Finding,
}

/// One sentence about both.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// What the paper reports,
    pub paper: String,
    /// what was measured here,
    pub here: String,
    /// and where that is less, what bounds it.
    pub bound: String,
}

impl Row {
    /// As a point of a plot: nanoseconds per packet, with quartiles.
    fn point(&self, x: f64) -> Point {
        Point { x, y: self.ns_per_packet, quartiles: Some(self.quartiles_ns) }
    }
}
