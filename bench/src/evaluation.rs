//! The papers' evaluations: for each figure a run of our own, its table, its plot and a sentence.
//!
//! Cost is measured as in all benchmarks, with the floor of the same run, and compared variants are
//! measured in turns. A figure is given in the paper's units; if machines differ, only ratios can be
//! compared.

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

/// A figure of a paper, or several figures of a single run.
pub struct Figure {
    /// The name on the command line and of files.
    pub name: &'static str,
    /// The paper and the number of the figure.
    pub paper: &'static str,
    /// The measured quantity.
    pub about: &'static str,
    /// The requirements of the figure.
    pub needs: &'static [Need],
    /// Measures the figure.
    pub run: fn(&Run<'_>) -> Result<Outcome, String>,
}

/// A requirement of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Network namespaces, which only root can create.
    Namespaces,
    /// TCP with the congestion control of all experiments. Figures that depend on it name it.
    Tcp,
    /// A program with this name, which can be executed.
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
    /// Returns the reason why the requirement is not met; None if it is met.
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

    /// Returns the requirements of the figure as text; empty if there are none.
    pub fn needs(&self) -> String {
        self.needs.iter().map(Need::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns the requirements that this machine does not meet, as text; None if it meets all of them.
    pub fn lacks(&self) -> Option<String> {
        let lacks: Vec<String> = self.needs.iter().filter_map(|need| need.lack()).collect();
        (!lacks.is_empty()).then(|| format!("needs {}", lacks.join(" and ")))
    }
}

/// The figures of the papers that are not reproduced, with the reasons.
pub const MISSING: &[(&str, &str)] = &[
    ("Reframer, Figures 17 and 21", "a SmartNIC on which Reframer runs; there is none"),
    ("NFSlicer, Figure 9", "a model of a switch's memory, not a measurement"),
    (
        "NFSlicer, Figures 11 to 14",
        "counters of DDIO, the last-level cache and the memory bus of the paper's processor, which virtual machines \
         do not have",
    ),
];

/// The settings and the progress of a run of figures.
pub struct Run<'r> {
    /// The amount of measurement.
    pub settings: Settings,
    /// A capture to use in place of generated traffic, for figures that use any.
    pub trace: Option<PathBuf>,
    /// A callback that receives the name of the next measurement and returns true to continue.
    progress: &'r dyn Fn(&str) -> bool,
    /// The costs of the floor before each step.
    floors: RefCell<Floors>,
}

/// Measurements of the floor at intervals, for figures that may have no floor of their own.
#[derive(Default)]
struct Floors {
    floor: Option<Floor>,
    ns: Vec<f64>,
}

impl Floors {
    /// The number of packets in memory; more than the caches hold.
    const PACKETS: usize = 20_000;
    /// The packets of one measurement, which takes a millisecond.
    const PER_RUN: usize = 100_000;
    /// The number of measurements at a time.
    const REPEATS: usize = 5;

    fn measure(&mut self) -> Result<(), String> {
        let floor = match &mut self.floor {
            Some(floor) => floor,
            none => {
                let mut floor = Floor::new(Floors::PACKETS, 64).map_err(|error| error.to_string())?;
                // The first run touches all memory.
                floor.measure(Floors::PER_RUN);
                none.insert(floor)
            }
        };
        self.ns.extend((0..Floors::REPEATS).map(|_| floor.measure(Floors::PER_RUN)));
        Ok(())
    }
}

/// The error of [`Run::step`] if the user has asked to stop.
pub const INTERRUPTED: &str = "interrupted";

impl<'r> Run<'r> {
    /// Creates a run with an optional capture. `progress` receives the name of the next measurement and
    /// returns true to continue.
    pub fn new(settings: Settings, trace: Option<PathBuf>, progress: &'r dyn Fn(&str) -> bool) -> Run<'r> {
        Run { settings, trace, progress, floors: RefCell::default() }
    }

    /// Announces the next measurement, and measures the floor.
    ///
    /// # Errors
    /// [`INTERRUPTED`] if `progress` returns false.
    pub fn step(&self, what: &str) -> Result<(), String> {
        if !(self.progress)(what) {
            return Err(INTERRUPTED.into());
        }
        if self.is_small() { Ok(()) } else { self.floors.borrow_mut().measure() }
    }

    /// Measures the floor again and returns the quartiles of all its costs in nanoseconds; None in a small
    /// run, which only shows that the figure can be made.
    ///
    /// # Errors
    /// If the floor's memory cannot be allocated.
    pub fn floor_quartiles(&self) -> Result<Option<[f64; 2]>, String> {
        if self.is_small() {
            return Ok(None);
        }
        let mut floors = self.floors.borrow_mut();
        floors.measure()?;
        Ok(Some(quartiles(floors.ns.clone())))
    }

    /// True if the run only shows that everything works.
    pub fn is_small(&self) -> bool {
        self.settings.repeats == 1
    }

    /// Returns all of the values; in a small run, only the first and the last.
    pub fn some<T: Clone>(&self, all: &[T]) -> Vec<T> {
        match (self.is_small(), all) {
            (true, [first, .., last]) => vec![first.clone(), last.clone()],
            _ => all.to_vec(),
        }
    }
}

/// The amounts of measurement for an evaluation.
impl Settings {
    /// All figures in less than two hours.
    pub const EVALUATION: Settings =
        Settings { repeats: 7, per_run: 1_000_000, window: Duration::from_secs(1), ..Settings::USUAL };
    /// The least amount that produces each figure.
    pub const GLANCE: Settings =
        Settings { repeats: 1, packets: 2_000, per_run: 4_000, rounds: 1, ..Settings::SMALL };
}

/// The results of a figure.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All measured values.
    pub table: Table,
    /// The plots.
    pub panels: Vec<Panel>,
    /// The conclusion.
    pub finding: Finding,
}

/// A sentence about the table and the plots.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// The result that the paper reports.
    pub paper: String,
    /// The result that was measured here.
    pub here: String,
    /// The reason why the result is lower here, if it is.
    pub bound: String,
}

impl Row {
    /// Returns the row as a point of a plot: nanoseconds per packet, with quartiles.
    fn point(&self, x: f64) -> Point {
        Point { x, y: self.ns_per_packet, quartiles: Some(self.quartiles_ns) }
    }
}
