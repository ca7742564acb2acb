//! The evaluations of the five papers: for each figure, a measurement with this program, its table, its
//! plots and a conclusion.
//!
//! Cost is measured as in all benchmarks, with the floor of the same run. Variants that are compared are
//! measured alternately, in rounds, so that disturbances of the machine affect all of them. As machines
//! differ, only ratios can be compared with the values of a paper.

mod figures;
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
use plot::{Panel, Point};
use table::Table;

/// A figure of a paper, or several figures that are measured together.
pub struct Figure {
    /// The name on the command line and of the result files.
    pub name: &'static str,
    /// The paper and the numbers of its figures.
    pub paper: &'static str,
    /// The measured quantity, as text for lists and reports.
    pub about: &'static str,
    /// The requirements on the machine.
    pub needs: &'static [Need],
    /// Measures the figure and returns its results.
    pub run: fn(&FigureRun<'_>) -> Result<FigureResults, String>,
}

/// A requirement of a figure on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Network namespaces, which only root can create.
    Namespaces,
    /// The TCP congestion control `lab::CONTROL`, which all experiments with TCP use unless they compare
    /// several. Reports name it for figures with this requirement.
    Tcp,
    /// An executable program with this name.
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
    /// Returns the part of the requirement that this machine does not meet, as text; None if it meets it.
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
    /// True if the user can give a capture as the traffic of the figure (reframer-11 to reframer-18).
    pub fn takes_trace(&self) -> bool {
        let number = self.name.strip_prefix("reframer-").and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| (11..=18).contains(&number))
    }

    /// Returns the requirements of the figure as text; empty if there are none.
    pub fn needs(&self) -> String {
        self.needs.iter().map(Need::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Returns the requirements that this machine does not meet, as text; None if the figure can be
    /// measured.
    pub fn lacks(&self) -> Option<String> {
        let lacks: Vec<String> = self.needs.iter().filter_map(|need| need.lack()).collect();
        (!lacks.is_empty()).then(|| format!("needs {}", lacks.join(" and ")))
    }
}

/// The figures of the papers that are not measured, with the reasons.
pub const MISSING: &[(&str, &str)] = &[
    ("Reframer, Figures 17 and 21", "a SmartNIC on which Reframer runs; there is none"),
    ("NFSlicer, Figure 9", "a model of a switch's memory, not a measurement"),
    (
        "NFSlicer, Figures 11 to 14",
        "counters of DDIO, the last-level cache and the memory bus of the paper's processor, which virtual machines \
         do not have",
    ),
];

/// The settings and the state of a run of one figure.
pub struct FigureRun<'r> {
    /// The amount of measurement.
    pub settings: Settings,
    /// A capture given by the user, for figures that would otherwise generate traffic.
    pub trace: Option<PathBuf>,
    /// The callback that receives the name of the next measurement and returns false to stop.
    progress: &'r dyn Fn(&str) -> bool,
    /// The costs of the floor, measured at each [`step`](Self::step) of the figure and at its end. Empty in a
    /// small run.
    floors: RefCell<Floors>,
}

/// The costs of the floor (the sources and sinks of benchmarks alone) in nanoseconds per packet. They are
/// measured between the steps of a figure, to detect that the machine was busy, also for figures whose own
/// results are not compared with the floor.
#[derive(Default)]
struct Floors {
    floor: Option<Floor>,
    ns: Vec<f64>,
}

impl Floors {
    /// The number of packets in memory.
    const PACKETS: usize = 20_000;
    /// The number of packets of one measurement, which takes about a millisecond.
    const PER_RUN: usize = 100_000;
    /// The number of measurements in each call of [`measure`](Self::measure).
    const REPEATS: usize = 5;

    fn measure(&mut self) -> Result<(), String> {
        let floor = match &mut self.floor {
            Some(floor) => floor,
            none => {
                let mut floor = Floor::new(Floors::PACKETS, 64).map_err(|error| error.to_string())?;
                // The first run touches all memory and is not counted.
                floor.measure(Floors::PER_RUN);
                none.insert(floor)
            }
        };
        self.ns.extend((0..Floors::REPEATS).map(|_| floor.measure(Floors::PER_RUN)));
        Ok(())
    }
}

/// The error of [`FigureRun::step`] when the user has asked to stop.
pub const INTERRUPTED: &str = "interrupted";

impl<'r> FigureRun<'r> {
    /// Creates the state for a run, with an optional capture. `progress` receives the name of the next
    /// measurement and returns true to continue, false to stop.
    pub fn new(
        settings: Settings,
        trace: Option<PathBuf>,
        progress: &'r dyn Fn(&str) -> bool,
    ) -> FigureRun<'r> {
        FigureRun { settings, trace, progress, floors: RefCell::default() }
    }

    /// Shows the name `what` of the next measurement to the user, and measures the floor (not in a small
    /// run).
    ///
    /// # Errors
    /// [`INTERRUPTED`] if the user asked to stop, or a message if the floor cannot be measured.
    pub fn step(&self, what: &str) -> Result<(), String> {
        if !(self.progress)(what) {
            return Err(INTERRUPTED.into());
        }
        if self.is_small() { Ok(()) } else { self.floors.borrow_mut().measure() }
    }

    /// Measures the floor again and returns the quartiles of all its costs, in nanoseconds per packet. None
    /// in a small run.
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

    /// True if the run is small: it only shows that the figure can be made, and its values mean nothing.
    pub fn is_small(&self) -> bool {
        self.settings.repeats == 1
    }

    /// Returns all values; in a small run only the first and the last.
    pub fn some<T: Clone>(&self, all: &[T]) -> Vec<T> {
        match (self.is_small(), all) {
            (true, [first, .., last]) => vec![first.clone(), last.clone()],
            _ => all.to_vec(),
        }
    }
}

/// The amounts of measurement for evaluations.
impl Settings {
    /// The usual amount of measurement, with which all figures together take less than two hours.
    pub const EVALUATION: Settings =
        Settings { repeats: 7, per_run: 1_000_000, window: Duration::from_secs(1), ..Settings::USUAL };
    /// The amount of measurement of a small run: the least that produces each figure.
    pub const GLANCE: Settings =
        Settings { repeats: 1, packets: 2_000, per_run: 4_000, rounds: 1, ..Settings::SMALL };
}

/// The results of a figure.
#[derive(Clone, Debug)]
pub struct FigureResults {
    /// The table of all measured values.
    pub table: Table,
    /// The plots, each with one coordinate system.
    pub panels: Vec<Panel>,
    /// The conclusion, in comparison with the paper.
    pub finding: Finding,
}

/// The conclusion from a figure, in sentences.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// The result that the paper reports.
    pub paper: String,
    /// The result that was measured here.
    pub here: String,
    /// The reason for a difference from the paper's result; empty if there is nothing to explain.
    pub bound: String,
}

impl Row {
    /// Returns a point of a plot at `x`: the median of nanoseconds per packet, with quartiles.
    fn point(&self, x: f64) -> Point {
        Point { x, y: self.ns_per_packet, quartiles: Some(self.quartiles_ns) }
    }
}
