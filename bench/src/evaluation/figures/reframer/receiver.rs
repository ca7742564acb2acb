//! Reframer's Figures 1 and 2: the cost of the kernel's TCP over the length of the runs in which packets
//! arrive.

use std::time::Duration;

use super::SLF;
use crate::devices::{Taken, Turns};
use crate::evaluation::figures::{first, panels, relative};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::{median, quartiles};

const VARIANTS: [(&str, bool); 2] = [("without GRO", false), ("with GRO", true)];

pub(in super::super) fn receiver(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let turns = Turns::new().map_err(|error| error.to_string())?;
    let time = if run.is_small() { Duration::from_millis(300) } else { Duration::from_secs(3) };
    let lengths = run.some(&SLF);
    let mut taken: Vec<[Vec<Taken>; 2]> = lengths.iter().map(|_| Default::default()).collect();
    for round in 1..=run.settings.rounds {
        for (slf, taken) in lengths.iter().zip(&mut taken) {
            for ((name, merges), taken) in VARIANTS.iter().zip(taken) {
                run.step(&format!("SLF {slf}, {name} ({round} of {})", run.settings.rounds))?;
                let once = || turns.measure(*slf, *merges, time);
                match once().or_else(|_| once()) {
                    Ok(one) => taken.push(one),
                    Err(error) => eprintln!("reframer-1: SLF {slf}, {name}: {error}"),
                }
            }
        }
    }
    let columns = [
        "slf",
        "receiver",
        "slf_measured",
        "gbps",
        "delivered_per_1000",
        "receiver_us_per_packet",
        "soft_interrupts_us_per_packet",
        "rounds",
    ];
    let mut table = Table::new(&columns);
    let mut all: [Vec<Series>; 3] =
        std::array::from_fn(|_| VARIANTS.map(|(name, _)| Series::new(name, [])).into());
    let figures: [fn(&Taken) -> f64; 5] =
        [|one| one.slf, |one| one.gbps, |one| one.delivered, |one| one.micros[0], |one| one.micros[1]];
    for (slf, taken) in lengths.iter().zip(&taken) {
        for (way, (taken, (name, _))) in taken.iter().zip(VARIANTS).enumerate() {
            let values = |of: fn(&Taken) -> f64| taken.iter().map(of).collect::<Vec<f64>>();
            let cells: [Cell; 2] = [(*slf).into(), name.into()];
            let medians = figures.map(|of| Cell::from(median(values(of))));
            table.push(cells.into_iter().chain(medians).chain([taken.len().into()]));
            for (panel, of) in [3, 4, 2].into_iter().enumerate() {
                let values = values(figures[of]);
                let point =
                    Point { x: *slf as f64, y: median(values.clone()), quartiles: Some(quartiles(values)) };
                all[panel][way].points.push(point);
            }
        }
    }
    let ends = |panel: usize, way: usize| {
        let points = &all[panel][way].points;
        [points.first(), points.last()].map(|point| point.map_or(f64::NAN, |point| point.y))
    };
    let told = |way: usize| {
        let ([a, b], [c, d], [e, f]) = (ends(0, way), ends(1, way), ends(2, way));
        format!(
            "{a:.2} to {b:.2} µs of the receiving threads, {c:.2} to {d:.2} µs in soft interrupts, {e:.0} to {f:.0} segments of 1000 packets"
        )
    };
    let finding = Finding {
        paper: "from an SLF of 1 to 16 a packet takes 69 % fewer cycles with LRO (10,000 to 3,000) and 53 % fewer without; instructions follow."
            .into(),
        here: format!("from an SLF of 1 to 32 a packet takes {} with GRO; {} without.", told(1), told(0)),
        bound: "virtual machines count neither cycles nor instructions, so processor time replaces them; soft \
                interrupts are those of the whole machine, including the sender's ACKs, and are counted in ticks; the \
                rate is 0.4 Gb/s where the paper sends 8."
            .into(),
    };
    let titles = [
        ("Receiving threads", Axis::linear("time of processors, µs per packet").less_is_better()),
        (
            "The whole machine in soft interrupts",
            Axis::linear("time of processors, µs per packet").less_is_better(),
        ),
        ("Segments delivered to TCP", Axis::linear("segments, of 1000 packets").less_is_better()),
    ];
    let mut shares = relative(&all[0], first);
    for (name, share) in [("without LRO", 0.47), ("with LRO", 0.31)] {
        shares.push(Series::of_paper(format!("Reframer paper, cycles {name}"), [(1.0, 1.0), (16.0, share)]));
    }
    let x = Axis::log("packets of a flow in a row (SLF)");
    let mut panels = panels(&x, titles, all);
    let share = Panel {
        title: "Receiving threads, as a part of what they take at SLF 1".into(),
        x,
        y: Axis::linear("time of processors, SLF 1 = 1").less_is_better(),
        series: shares,
    };
    panels.insert(1, share);
    Ok(FigureResults { table, panels, finding })
}
