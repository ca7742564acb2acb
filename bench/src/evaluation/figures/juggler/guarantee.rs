//! Juggler's Figures 1 and 18: a bandwidth guarantee for one connection on a link that it shares with seven
//! other connections.

use crate::devices::Guarantee;
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::Table;
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::{median, quartiles};

/// The variants of the receiver: the name, and true if a Juggler restores the order upstream of it.
const VARIANTS: [(&str, bool); 2] = [("the kernel alone", false), ("Juggler", true)];
/// The number of intervals (of 50 ms) whose rates are measured before the guarantee begins, and after it has
/// begun.
const INTERVALS: [usize; 2] = [4, 20];

/// Measures Figure 18: the throughput of one connection over its guaranteed bandwidth.
pub(in super::super) fn guarantees(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const TARGETS: [u64; 3] = [250, 500, 750];
    let guarantee = Guarantee::new().map_err(|error| error.to_string())?;
    let (targets, runs) = (run.some(&TARGETS), runs(run, 30));
    let mut all: Vec<Vec<Vec<f64>>> = targets.iter().map(|_| vec![Vec::new(); VARIANTS.len()]).collect();
    for number in 1..=runs {
        for (target, all) in targets.iter().zip(&mut all) {
            for ((name, has_juggler), all) in VARIANTS.iter().zip(all) {
                run.step(&format!("{target} Mb/s guaranteed, {name} ({number} of {runs})"))?;
                match guarantee.measure(*target, *has_juggler, INTERVALS) {
                    Ok(rates) => {
                        // Averages the rates of the second half of the intervals with the guarantee, in which
                        // the rate has settled.
                        let settled = &rates[rates.len() - INTERVALS[1] / 2..];
                        all.push(settled.iter().sum::<f64>() / settled.len() as f64);
                    }
                    Err(error) => eprintln!("juggler-18: {target} Mb/s, {name}: {error}"),
                }
            }
        }
    }
    something(all.iter().flatten())?;
    let mut table =
        Table::new(&["guaranteed_gbps", "receiver", "mean_gbps", "deviation_gbps", "median_gbps", "runs"]);
    let mut series = VARIANTS.map(|(name, _)| Series::new(name, []));
    let mut told = Vec::new();
    for (target, all) in targets.iter().zip(&all) {
        let wanted = *target as f64 / 1000.0;
        for ((name, _), (rates, series)) in VARIANTS.iter().zip(all.iter().zip(&mut series)) {
            let [mean, deviation] = moments(rates);
            table.push([
                wanted.into(),
                (*name).into(),
                mean.into(),
                deviation.into(),
                median(rates.clone()).into(),
                rates.len().into(),
            ]);
            series.points.push(Point {
                x: wanted,
                y: median(rates.clone()),
                quartiles: Some(quartiles(rates.clone())),
            });
        }
        let [alone, juggler] = [0, 1].map(|way| moments(&all[way]));
        told.push(format!(
            "of {wanted:.2} Gb/s {:.2} (deviation {:.2}), with the kernel alone {:.2} ({:.2})",
            juggler[0], juggler[1], alone[0], alone[1]
        ));
    }
    let ideal = targets.iter().map(|target| *target as f64 / 1000.0).map(|x| (x, x));
    let mut series = Vec::from(series);
    series.push(Series::guide("as guaranteed", ideal));
    let finding = Finding {
        paper: "with Juggler the guarantee is met up to 25 of 40 Gb/s; the kernel alone stays far below, and varies.".into(),
        here: format!("the connection gets {}.", told.join("; ")),
        bound: "a link of 1 Gb/s. This kernel's TCP tolerates more reordering than the paper's (RACK-TLP, RFC 8985).".into(),
    };
    let panel = Panel {
        title: "One of eight connections".into(),
        x: Axis::linear("guaranteed, Gb/s"),
        y: Axis::linear("throughput, Gb/s").more_is_better(),
        series,
    };
    Ok(FigureResults { table, panels: vec![panel], finding })
}

/// Measures Figure 1: how the rate of one connection rises when half of the link is guaranteed to it.
pub(in super::super) fn step(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const TARGET: u64 = 500;
    let guarantee = Guarantee::new().map_err(|error| error.to_string())?;
    let runs = runs(run, 10);
    let mut all: Vec<Vec<Vec<f64>>> = vec![Vec::new(); VARIANTS.len()];
    for number in 1..=runs {
        for ((name, has_juggler), all) in VARIANTS.iter().zip(&mut all) {
            run.step(&format!("{name} ({number} of {runs})"))?;
            match guarantee.measure(TARGET, *has_juggler, INTERVALS) {
                Ok(rates) => all.push(rates),
                Err(error) => eprintln!("juggler-1: {name}: {error}"),
            }
        }
    }
    something(all.iter())?;
    let mut table =
        Table::new(&["ms", "receiver", "median_gbps", "lower_quartile_gbps", "upper_quartile_gbps"]);
    let mut series = Vec::new();
    let milliseconds = Guarantee::INTERVAL.as_secs_f64() * 1000.0;
    for ((name, _), all) in VARIANTS.iter().zip(&all) {
        let point = |interval: usize| {
            let rates: Vec<f64> = all.iter().map(|rates| rates[interval]).collect();
            let x = (interval as f64 + 0.5 - INTERVALS[0] as f64) * milliseconds;
            Point { x, y: median(rates.clone()), quartiles: Some(quartiles(rates)) }
        };
        let points: Vec<Point> = (0..INTERVALS[0] + INTERVALS[1]).map(point).collect();
        for point in &points {
            let [lower, upper] = point.quartiles.unwrap_or([f64::NAN; 2]);
            table.push([point.x.into(), (*name).into(), point.y.into(), lower.into(), upper.into()]);
        }
        series.push(Series::new(*name, points));
    }
    let reached = series.iter().zip(VARIANTS).map(|(series, (name, _))| {
        let wanted = 0.9 * TARGET as f64 / 1000.0;
        let first = series.points.iter().find(|point| point.x > 0.0 && point.y >= wanted);
        let settled: Vec<f64> =
            series.points[series.points.len() / 2..].iter().map(|point| point.y).collect();
        let when = first.map_or("never".to_string(), |point| format!("after {:.0} ms", point.x));
        format!("{name} {when}, and then stays at {:.2} Gb/s", median(settled))
    });
    let finding = Finding {
        paper: "with Juggler the flow quickly gets its guaranteed bandwidth; with the kernel alone the bandwidth \
                varies widely.".into(),
        here: format!(
            "one of eight connections is guaranteed half of the link. It reaches nine tenths of the guarantee: {}.",
            reached.collect::<Vec<_>>().join("; ")
        ),
        bound: "a link of 1 Gb/s; intervals of 50 ms.".into(),
    };
    let panel = Panel {
        title: "One of eight connections is guaranteed 0.5 Gb/s from 0 on".into(),
        x: Axis::linear("time, ms"),
        y: Axis::linear("throughput, Gb/s").more_is_better(),
        series,
    };
    Ok(FigureResults { table, panels: vec![panel], finding })
}

fn runs(run: &FigureRun<'_>, usual: usize) -> usize {
    if run.is_small() { 1 } else { usual }
}

/// Returns an error if one of the measurements has no values.
fn something<'a, T: 'a>(mut all: impl Iterator<Item = &'a Vec<T>>) -> Result<(), String> {
    if all.any(Vec::is_empty) { Err("nothing could be measured".into()) } else { Ok(()) }
}

/// Returns the mean and the standard deviation of a sample.
fn moments(values: &[f64]) -> [f64; 2] {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    [mean, (squares / values.len().saturating_sub(1).max(1) as f64).sqrt()]
}
