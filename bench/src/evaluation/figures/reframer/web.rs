//! Reframer's Figure 19: a web server, with a Reframer upstream of it and of its clients.

use std::time::Duration;

use crate::devices::{Served, Web};
use crate::evaluation::figures::panels;
use crate::evaluation::plot::{Axis, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::{median, quartiles};

/// The variants: the name, and the elements in the path of the packets, each followed by an arrow.
const VARIANTS: [(&str, &str); 3] = [
    ("nothing", ""),
    ("Reframer", "Reframer(128us, CAPACITY 100000, REORDER true) ->"),
    ("Reframer with COMPRESS", "Reframer(128us, CAPACITY 100000, REORDER true, COMPRESS true) ->"),
];

pub(in super::super) fn web(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let web = Web::new().map_err(|error| error.to_string())?;
    let connections = if run.is_small() { vec![16] } else { vec![64, 256, 1024, 4096] };
    // Returns the time of a measurement for a number of connections. On the machine whose figures the
    // documentation has, it is so long that each connection fetches a file, and so short that all
    // measurements take about ten minutes.
    let time = |connections: usize| {
        Duration::from_secs(if run.is_small() { 2 } else { (connections as u64 / 40).max(8) })
    };
    let rounds = |connections: usize| (768 / connections).clamp(1, run.settings.rounds.min(3));
    let mut served: Vec<Vec<Vec<Served>>> =
        connections.iter().map(|_| VARIANTS.map(|_| Vec::new()).into()).collect();
    for round in 1..=run.settings.rounds {
        let cases =
            connections.iter().zip(&mut served).filter(|(connections, _)| round <= rounds(**connections));
        for (connections, served) in cases {
            for ((name, elements), served) in VARIANTS.iter().zip(served) {
                run.step(&format!(
                    "{connections} connections, {name} ({round} of {})",
                    rounds(*connections)
                ))?;
                let once = || web.serve(elements, *connections, time(*connections));
                match once().or_else(|_| once()) {
                    Ok(one) => served.push(one),
                    Err(error) => eprintln!("reframer-19: {connections} connections, {name}: {error}"),
                }
            }
        }
    }
    let mut table = Table::new(&[
        "connections",
        "way",
        "gbps",
        "median_s",
        "p99_s",
        "slf_before",
        "slf_behind",
        "rounds",
    ]);
    let mut all: [Vec<Series>; 3] =
        std::array::from_fn(|_| VARIANTS.map(|(name, _)| Series::new(name, [])).into());
    let gbps = |served: &Served| served.gbps;
    let of = |served: &[Served], what: &dyn Fn(&Served) -> f64| median(served.iter().map(what).collect());
    for (connections, served) in connections.iter().zip(&served) {
        for (way, (served, (name, _))) in served.iter().zip(VARIANTS).enumerate() {
            let figures = [
                of(served, &gbps),
                of(served, &|served| served.median),
                of(served, &|served| served.p99),
                of(served, &|served| served.slf[0]),
                of(served, &|served| served.slf[1]),
                served.len() as f64,
            ];
            let cells: [Cell; 2] = [(*connections).into(), name.into()];
            table.push(cells.into_iter().chain(figures.map(Cell::from)));
            let spread = |what: &dyn Fn(&Served) -> f64| Some(quartiles(served.iter().map(what).collect()));
            let point = |y, quartiles| Point { x: *connections as f64, y, quartiles };
            all[0][way].points.push(point(figures[0], spread(&gbps)));
            all[1][way].points.push(point(figures[1], spread(&|served| served.median)));
            all[2][way].points.push(point(figures[4], None));
        }
    }
    // Returns throughput, fetch time and SLF of all variants as text, for the number of connections with the
    // index `number`.
    let told = |number: usize| {
        let of =
            |panel: usize, way: usize| all[panel][way].points.get(number).map_or(f64::NAN, |point| point.y);
        let each = |panel: usize, digits: usize| {
            let [nothing, reframer, compress] = std::array::from_fn(|way| of(panel, way));
            format!("{nothing:.digits$}, {reframer:.digits$} and {compress:.digits$}")
        };
        let connections = connections.get(number).copied().unwrap_or_default();
        format!(
            "with {connections} connections {} Gb/s, half of the files take {} s, SLF towards the server {}",
            each(0, 2),
            each(1, 2),
            each(2, 1)
        )
    };
    let finding = Finding {
        paper: "throughput rises by 20 %, flows take 3.1 s instead of 3.4, SLF rises from 1.25 to 14; a quarter of \
                the gain is from coalesced ACKs, which do not change the duration of flows."
            .into(),
        here: format!(
            "without a Reframer, with Reframer and with COMPRESS: {}; {}.",
            told(0),
            told(connections.len().saturating_sub(1))
        ),
        bound: "server, clients, network and Reframer share two cores, where the paper has 16 cores for the server and six for Reframer alone."
            .into(),
    };
    // The number of clients in the paper's measurement.
    const CLIENTS: f64 = 2048.0;
    for (way, seconds, slf) in [("nothing", 3.4, 1.25), ("Reframer", 3.1, 14.0)] {
        let of_paper = |y: f64| Series::of_paper(format!("Reframer paper, {way}"), [(CLIENTS, y)]);
        all[1].push(of_paper(seconds));
        all[2].push(of_paper(slf));
    }
    let titles = [
        ("Throughput", Axis::linear("throughput, Gb/s").more_is_better()),
        ("Time of a file, median", Axis::log("time of a file, s").less_is_better()),
        (
            "Packets of a flow in a row, towards the server",
            Axis::linear("packets of a flow in a row (SLF)").more_is_better(),
        ),
    ];
    Ok(FigureResults { table, panels: panels(&Axis::log("connections"), titles, all), finding })
}
