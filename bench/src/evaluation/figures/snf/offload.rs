//! SNF's Figure 11: Open vSwitch finds the class of each packet, and the software downstream of it continues
//! from the class.

use std::path::PathBuf;
use std::time::Duration;

use crate::devices::{Passed, READY, Switching};
use crate::evaluation::figures::panels;
use crate::evaluation::plot::{Axis, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::synthesis::Case;
use crate::{classify, median};

/// The numbers of rules in the firewall of the measured chains.
const RULES: [usize; 3] = [251, 713, 8550];
/// The flow table of a switch that does not classify packets for the software: all four rules forward to the
/// software.
const FOUR: &str = "priority=4,tcp,in_port=1,actions=output:2\n\
                    priority=3,udp,in_port=1,actions=output:2\n\
                    priority=2,icmp,in_port=1,actions=output:2\n\
                    priority=1,in_port=1,actions=output:2\n";
/// The packets per second at which latency is measured.
const RATE: u64 = 20_000;
/// The number of packets in each capture, unless the run is small.
const PACKETS: usize = 40_000;

/// A configuration to be measured: a switch with a flow table, and the software downstream of the switch.
struct Setting {
    name: String,
    flows: PathBuf,
    software: PathBuf,
    /// The number of rules for which the traffic is generated.
    rules: usize,
}

/// The folder for the files of switches, chains and traffic.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Writes a configuration that runs the provider's chain between two interfaces, with a number of rules
    /// that all permit. Returns its path.
    fn chain(&self, receive: &str, rules: usize) -> Result<PathBuf, String> {
        let patterns = classify::made(rules);
        let permissions: Vec<String> = patterns.iter().map(|pattern| format!("allow {pattern}")).collect();
        let case = Case::provider(&permissions, &patterns, rules);
        let text = format!("{receive} -> {} -> Queue(4000) -> ToDevice(nf1); {READY}", case.chain);
        self.write(&format!("{rules}.click"), &text)
    }

    fn capture(&self, rules: usize, frame: usize) -> PathBuf {
        self.path(&format!("{rules}-{frame}.pcap"))
    }
}

/// Returns all configurations of the figure. For each number of rules in [`RULES`] there are two
/// configurations: the switch classifies packets by these rules, and the software either only forwards, or
/// does the rest of the chain's work. Two further configurations have a switch with four rules that do not
/// classify: the software only forwards, or has the whole synthesized chain.
fn settings(run: &FigureRun<'_>, switching: &Switching, files: &Files) -> Result<Vec<Setting>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let receive = switching.receive("nf0");
    let forward = format!("{receive} -> VLANDecap -> Queue(4000) -> ToDevice(nf1); {READY}");
    let forward = files.write("forward", &forward)?;
    let ports = ["--switch-ports", "1:2"];
    let mut all = Vec::new();
    for rules in run.some(&RULES) {
        run.step(&format!("what the switch does of {rules} rules"))?;
        let chain = files.chain(&receive, rules)?;
        let options = [&["--emit", "openflow"], &ports[..]].concat();
        let flows = switching.synthesize(&chain, &options).map_err(failed)?;
        let flows = files.write(&format!("{rules}.flows"), &flows)?;
        let options = [&["--emit", "click", "--behind-switch"], &ports[..]].concat();
        let behind = switching.synthesize(&chain, &options).map_err(failed)?;
        let behind = files.write(&format!("{rules}.software"), &behind)?;
        for (name, software) in [("forwarded", forward.clone()), ("chain", behind)] {
            all.push(Setting {
                name: format!("{rules} rules, {name}"),
                flows: flows.clone(),
                software,
                rules,
            });
        }
    }
    let rules = RULES[0];
    let chain = switching.synthesize(&files.chain(&receive, rules)?, &["--emit", "click"]).map_err(failed)?;
    let chain = files.write("alone", &chain)?;
    let flows = files.write("four", FOUR)?;
    for (name, software) in [("forwarded", forward), ("chain", chain)] {
        all.push(Setting { name: format!("four rules, {name}"), flows: flows.clone(), software, rules });
    }
    Ok(all)
}

/// Measures throughput at full load and latency at a low load, for each size of frames.
fn measure(
    switching: &Switching,
    files: &Files,
    setting: &Setting,
    frames: &[usize],
    time: Duration,
) -> std::io::Result<Vec<[Passed; 2]>> {
    let switch = switching.set_up("netdev", &setting.flows, Some(&setting.software))?;
    let of = |frame: &usize| {
        let capture = files.capture(setting.rules, *frame);
        // The first packet of each flow is classified on the slow path, so all packets are sent once before
        // the measurement.
        switch.drive(&capture, Some(RATE), time)?;
        Ok([switch.drive(&capture, None, time)?, switch.drive(&capture, Some(RATE), time)?])
    };
    frames.iter().map(of).collect()
}

pub(in super::super) fn offloaded(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let failed = |error: std::io::Error| error.to_string();
    let switching = Switching::new().map_err(failed)?;
    let files = Files { folder: tempfile::tempdir().map_err(failed)? };
    let frames = run.some(&[64, 128, 256, 1500]);
    let settings = settings(run, &switching, &files)?;
    let packets = if run.is_small() { 4_000 } else { PACKETS };
    for rules in RULES {
        for frame in &frames {
            classify::write_capture(&files.capture(rules, *frame), &classify::made(rules), packets, *frame)?;
        }
    }
    let time = Duration::from_millis(if run.is_small() { 100 } else { 500 });
    let mut all: Vec<Vec<Vec<[Passed; 2]>>> = settings.iter().map(|_| Vec::new()).collect();
    for round in 1..=run.settings.rounds {
        for (setting, all) in settings.iter().zip(&mut all) {
            run.step(&format!("{} ({round} of {})", setting.name, run.settings.rounds))?;
            let once = || measure(&switching, &files, setting, &frames, time);
            match once().or_else(|_| once()) {
                Ok(passed) => all.push(passed),
                Err(error) => eprintln!("snf-11: {}: {error}", setting.name),
            }
        }
    }
    let columns =
        ["switch_and_software", "frame", "kpps", "gbps", "p25_us", "median_us", "p75_us", "p99_us", "rounds"];
    let mut table = Table::new(&columns);
    let mut series: [Vec<Series>; 2] = [Vec::new(), Vec::new()];
    for (setting, rounds) in settings.iter().zip(&all) {
        let mut points = [Vec::new(), Vec::new()];
        for (n, frame) in frames.iter().enumerate() {
            let of = |what: &dyn Fn(&[Passed; 2]) -> f64| {
                median(rounds.iter().map(|passed| what(&passed[n])).collect())
            };
            let kpps = of(&|[full, _]| full.kpps);
            let micros = [0, 1, 2, 3].map(|part| of(&|[_, slow]| slow.micros[part]));
            let gbps = kpps * *frame as f64 * 8.0 / 1e6;
            let first: [Cell; 2] = [setting.name.clone().into(), (*frame).into()];
            let figures = [kpps, gbps].into_iter().chain(micros).map(Cell::from);
            table.push(first.into_iter().chain(figures).chain([rounds.len().into()]));
            let x = *frame as f64;
            points[0].push(Point { x, y: kpps, quartiles: None });
            points[1].push(Point { x, y: micros[1], quartiles: Some([micros[0], micros[2]]) });
        }
        series
            .iter_mut()
            .zip(points)
            .for_each(|(series, points)| series.push(Series::new(setting.name.clone(), points)));
    }
    let smallest = |name: &str| {
        let series = series[0].iter().find(|series| series.name == name);
        series.and_then(|series| series.points.first()).map_or(f64::NAN, |point| point.y)
    };
    let of_rules = |rules: usize| {
        let of = |software: &str| smallest(&format!("{rules} rules, {software}"));
        format!("{:.0} with {rules} rules and the chain ({:.0} forwarded)", of("chain"), of("forwarded"))
    };
    let finding = Finding {
        paper: "20 Gb/s with frames of 64 bytes and the line rate from 256 on, whatever the number of rules; the \
                chain is almost as fast as forwarding, so that the switch is the bound."
            .into(),
        here: format!(
            "thousands of packets of 64 bytes per second: {}, {}; {:.0} with four rules ({:.0} forwarded).",
            of_rules(RULES[0]),
            of_rules(RULES[2]),
            smallest("four rules, chain"),
            smallest("four rules, forwarded")
        ),
        bound: "the switch is Open vSwitch in user space on packet sockets, which shares two cores with the sender, the chain and the receiver.".into(),
    };
    let titles = [
        ("Throughput", Axis::linear("throughput, thousand packets/s").more_is_better()),
        ("Latency, median and quartiles", Axis::log("latency, µs").less_is_better()),
    ];
    Ok(FigureResults { table, panels: panels(&Axis::log("bytes per frame"), titles, series), finding })
}
