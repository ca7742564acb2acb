//! SNF's figures: compares chains of elements (the original) with their synthesized form.

mod offload;

use std::time::Duration;

pub(super) use offload::offloaded;

use super::{find, floor, series, value, word};
use crate::evaluation::plot::{Axis, Panel, Point, Series};
use crate::evaluation::table::{Cell, Table};
use crate::evaluation::{FigureResults, FigureRun, Finding};
use crate::open_loop::{Latencies, OpenLoop};
use crate::runner::measure_in_turns;
use crate::serde_params::Param;
use crate::synthesis::{Case, Kind};
use crate::{Row, Settings};

const FORMS: [&str; 2] = ["original", "synthesized"];
const KINDS: [Kind; 2] = [Kind::Routers, Kind::Translators];

/// Measures the forms of a chain alternately: the original, the synthesized form and, if there is machine
/// code, the synthesized form without it (tables only). Returns a row for each form. `more` are additional
/// parameters of the rows.
fn measure(settings: &Settings, case: &Case, more: &[(&'static str, Param)]) -> Result<Vec<Row>, String> {
    let mut contenders = case.contenders(settings.packets)?;
    contenders.iter_mut().for_each(|(params, _)| params.extend(more.iter().cloned()));
    measure_in_turns("snf", settings, case.frame, contenders)
}

/// Returns the cost of `after` in comparison to `before`, in words. If their quartiles overlap, the cost is
/// called the same.
fn compared(before: &Row, after: &Row) -> String {
    let overlap =
        |[low, high]: [f64; 2], [other_low, other_high]: [f64; 2]| low <= other_high && other_low <= high;
    let (much, little) = (before.ns_per_packet, after.ns_per_packet);
    match much > little {
        _ if overlap(before.quartiles_ns, after.quartiles_ns) => "the same within the spread".into(),
        true => format!("{:.2} times less", much / little),
        false => format!("{:.2} times as much", little / much),
    }
}

/// Measures Figures 5 and 6: the motivating chain of translator, firewall and balancer.
pub(super) fn motivating(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    run.step("as it is and synthesized")?;
    let case = Case::motivating();
    let rows = measure(&run.settings, &case, &[])?;
    let [original, synthesized] = FORMS.map(|form| find(&rows, &[("form", form)]));
    let (original, synthesized) = (original?, synthesized?);
    let [before, after] = case.operations()?;
    let names = Axis::names("form", FORMS);
    let points = rows.iter().zip(0..).map(|(row, x)| row.point(f64::from(x)));
    let cost = Panel {
        title: "Cost, source included".into(),
        x: names.clone(),
        y: Axis::linear("cost, ns per packet").less_is_better(),
        series: vec![Series::new("measured here", points), floor((0..).map(f64::from).zip(&rows))],
    };
    let shares = rows.iter().zip(0..).map(|(row, x)| {
        let share = |ns: f64| ns / original.ns_per_packet;
        let quartiles = Some(row.quartiles_ns.map(share));
        Point { x: f64::from(x), y: share(row.ns_per_packet), quartiles }
    });
    let share = Panel {
        title: "Cost as a part of the original's".into(),
        x: names.clone(),
        y: Axis::linear("cost, original = 1").less_is_better(),
        series: vec![
            Series::new("measured here", shares),
            Series::of_paper("SNF paper, cycles", [(0.0, 1.0), (1.0, 720.0 / 2206.0)]),
        ],
    };
    let counted = [before, after].into_iter().zip(0..);
    let steps = counted.map(|(n, x)| Point { x: f64::from(x), y: n as f64, quartiles: None });
    let operations = Panel {
        title: "Operations on the longest way".into(),
        x: names,
        y: Axis::linear("operations").less_is_better(),
        series: vec![
            Series::new("counted here", steps),
            Series::of_paper("SNF paper", [(0.0, 18.0), (1.0, 5.0)]),
        ],
    };
    let finding = Finding {
        paper: "18 operations become 5, and 2206 cycles become 720, which is 3.1 times less.".into(),
        here: format!(
            "{before} elements become {after} questions and operations, and {:.0} ns become {:.0}, which is {} ({:.1} \
             and {:.1} times the floor).",
            original.ns_per_packet,
            synthesized.ns_per_packet,
            compared(original, synthesized),
            original.ratio,
            synthesized.ratio
        ),
        bound: "both figures include the source of packets, and elements pass batches, so that the original chain \
                costs only a tenth of the paper's to begin with."
            .into(),
    };
    Ok(FigureResults { table: Table::of_costs(&rows), panels: vec![cost, share, operations], finding })
}

/// Measures Figure 7: one to ten functions in a row, with bursts of 32 and of 128 packets.
pub(super) fn in_a_row(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    const BURSTS: [usize; 2] = [32, 128];
    let mut rows = Vec::new();
    for kind in KINDS {
        for n in run.some(&[1, 2, 4, 6, 8, 10]) {
            run.step(&format!("{}, {n} in a row", kind.name()))?;
            let mut contenders = Vec::new();
            for burst in BURSTS {
                let case = Case::in_a_row(kind, n).of(60, burst);
                let more = ("burst", Param::Number(burst as u64));
                let both = case.contenders(run.settings.packets)?;
                contenders.extend(both.into_iter().map(|(mut params, worker)| {
                    params.push(more.clone());
                    (params, worker)
                }));
            }
            rows.extend(measure_in_turns("snf", &run.settings, 60, contenders)?);
        }
    }
    let panels = KINDS.map(|kind| {
        let of_kind: Vec<Row> =
            rows.iter().filter(|row| word(row, "chain") == kind.name()).cloned().collect();
        let mut all = series(&of_kind, |row| {
            let name = format!("{}, bursts of {}", word(row, "form"), word(row, "burst"));
            (name, row.point(value(row, "functions")))
        });
        all.push(floor(of_kind.iter().map(|row| (value(row, "functions"), row))));
        Panel {
            title: format!("{} in a row", capital(kind.name())),
            x: Axis::linear("functions"),
            y: Axis::linear("cost, ns per packet").less_is_better(),
            series: all,
        }
    });
    let times = |kind: Kind, form: &str| -> Result<f64, String> {
        let of = |n: &str| {
            let params = [("chain", kind.name()), ("form", form), ("burst", "32"), ("functions", n)];
            find(&rows, &params).map(|row| row.ratio)
        };
        Ok(of("10")? / of("1")?)
    };
    let [routers, translators] = KINDS.map(|kind| {
        Ok::<_, String>(format!(
            "ten {} cost {:.2} times as much as one, synthesized {:.2} times",
            kind.name(),
            times(kind, "original")?,
            times(kind, "synthesized")?
        ))
    });
    let finding = Finding {
        paper: "ten routers in FastClick reach less than 10 of 31.5 Gb/s, and translators fall more steeply; \
                synthesized, ten cost as much as one (translators in bursts of 32 a little more after the sixth)."
            .into(),
        here: format!("{}; {}.", routers?, translators?),
        bound: String::new(),
    };
    Ok(FigureResults { table: Table::of_costs(&rows), panels: panels.into(), finding })
}

/// Measures Figure 8: ten functions in a row over the size of frames.
pub(super) fn sizes(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    let mut rows = Vec::new();
    for kind in KINDS {
        for frame in run.some(&[60, 128, 256, 512, 1024, 1500]) {
            run.step(&format!("{} with frames of {frame} bytes", kind.name()))?;
            let case = Case::in_a_row(kind, 10).of(frame, 128);
            rows.extend(measure(&run.settings, &case, &[("frame", Param::Number(frame as u64))])?);
        }
    }
    let rate = |row: &Row| value(row, "frame") * 8.0 / row.ns_per_packet;
    let rates = Panel {
        title: "Ten functions on one core".into(),
        x: Axis::linear("bytes per frame"),
        y: Axis::linear("throughput, Gb/s").more_is_better(),
        series: series(&rows, |row| {
            let [low, high] = row.quartiles_ns.map(|ns| value(row, "frame") * 8.0 / ns);
            let point = Point { x: value(row, "frame"), y: rate(row), quartiles: Some([high, low]) };
            (format!("{}, {}", word(row, "chain"), word(row, "form")), point)
        }),
    };
    let of = |kind: Kind, form: &str, frame: &str| {
        find(&rows, &[("chain", kind.name()), ("form", form), ("frame", frame)]).map(rate)
    };
    let [routers, translators] = KINDS.map(|kind| {
        Ok::<_, String>(format!(
            "with frames of 60 bytes ten {} carry {:.1} Gb/s as they are and {:.1} synthesized",
            kind.name(),
            of(kind, "original", "60")?,
            of(kind, "synthesized", "60")?
        ))
    });
    let large = of(Kind::Translators, "synthesized", "1500")?;
    let finding = Finding {
        paper: "on eight cores SNF reaches 40 Gb/s from frames of 128 bytes on, FastClick from 800 to 1000 bytes on.".into(),
        here: format!(
            "on one core, from memory, {}; {}; with 1500 bytes ten translators synthesized carry {large:.0} Gb/s.",
            routers?, translators?
        ),
        bound: "packets come from memory instead of the paper's interfaces, so there is no line rate to reach.".into(),
    };
    Ok(FigureResults { table: Table::of_costs(&rows), panels: vec![rates], finding })
}

/// Measures Figure 10: cost and latency of the provider's chain over the number of rules and the size of
/// frames.
pub(super) fn provider(run: &FigureRun<'_>) -> Result<FigureResults, String> {
    /// The load while latency is measured, as a fraction of the highest rate of the original chain.
    const LOAD: f64 = 0.7;
    let mut rows = Vec::new();
    let columns =
        ["rules", "frame", "form", "offered_mpps", "p25_us", "median_us", "p75_us", "p99_us", "deviation_us"];
    let mut table = Table::new(&columns);
    let (mut medians, mut tails) = (Vec::new(), Vec::new());
    for rules in run.some(&[251, 713, 8550]) {
        for frame in run.some(&[64, 128, 256, 1500]) {
            run.step(&format!("{rules} rules, frames of {frame} bytes"))?;
            let case = Case::made(rules, run.settings.packets).of(frame, 128);
            let more = [("frame", Param::Number(frame as u64))];
            let measured = measure(&run.settings, &case, &more)?;
            let rate = LOAD * 1e9 / find(&measured, &[("form", "original")])?.ns_per_packet;
            rows.extend(measured);
            let latencies = latencies(run, &case, rate)?;
            for (form, latencies) in FORMS.into_iter().zip(latencies) {
                let name = format!("{rules} rules, {form}");
                let point = |y, quartiles| Point { x: frame as f64, y, quartiles };
                medians.push((name.clone(), point(latencies.median, Some(latencies.quartiles))));
                tails.push((name, point(latencies.p99, None)));
                let [lower, upper] = latencies.quartiles;
                let figures =
                    [rate / 1e6, lower, latencies.median, upper, latencies.p99, latencies.deviation];
                let first: [Cell; 3] = [rules.into(), frame.into(), form.into()];
                table.push(first.into_iter().chain(figures.map(Cell::from)));
            }
        }
    }
    let group = |points: Vec<(String, Point)>| {
        let mut all: Vec<Series> = Vec::new();
        for (name, point) in points {
            match all.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => all.push(Series::new(name, [point])),
            }
        }
        all
    };
    let mut costs = series(&rows, |row| {
        (format!("{} rules, {}", word(row, "rules"), word(row, "form")), row.point(value(row, "frame")))
    });
    costs.push(floor(rows.iter().map(|row| (value(row, "frame"), row))));
    let gain = Panel {
        title: "What synthesis gains".into(),
        x: Axis::log("bytes per frame"),
        y: Axis::log("throughput, original = 1").more_is_better(),
        series: gains(&rows),
    };
    let cost = Panel {
        title: "Cost".into(),
        x: Axis::log("bytes per frame"),
        y: Axis::linear("cost, ns per packet").less_is_better(),
        series: costs,
    };
    let panel = |title: &str, series| Panel {
        title: title.into(),
        x: Axis::log("bytes per frame"),
        y: Axis::log("latency, µs").less_is_better(),
        series,
    };
    let load = "at 70 % of the capacity of the original";
    let panels = vec![
        cost,
        gain,
        panel(&format!("Latency, median, {load}"), group(medians)),
        panel(&format!("Latency, 99th percentile, {load}"), group(tails)),
    ];
    let all = |rules: &str| -> Result<String, String> {
        let of = |form| find(&rows, &[("rules", rules), ("form", form), ("frame", "64")]);
        let (original, synthesized) = (of("original")?, of("synthesized")?);
        Ok(format!(
            "{rules} rules {:.0} ns, synthesized {:.0}, which is {}",
            original.ns_per_packet,
            synthesized.ns_per_packet,
            compared(original, synthesized)
        ))
    };
    let finding = Finding {
        paper: "no gain with 251 rules, up to 8.5 times the throughput with 8,550; 1.1 to 10 times less median latency and 2 to \
                 3.5 times less variance."
            .into(),
        here: format!("with frames of 64 bytes {}; {}.", all("251")?, all("8550")?),
        bound: "the original's classifier is compiled here, so that 8,550 rules cost it little more than 251. There \
                is less to save than in FastClick, whose classifier tests rule by rule (for the chain it takes 43 µs)."
            .into(),
    };
    let mut costs = Table::of_costs(&rows);
    // The table of the figure, and so its CSV file, has the costs and the latencies. Cells without a value
    // stay empty.
    costs.join(table, &["rules", "frame", "form"]);
    Ok(FigureResults { table: costs, panels, finding })
}

/// Returns the throughput of synthesized chains divided by the throughput of the original: a series for
/// each number of rules over the size of frames, and the paper's values.
fn gains(rows: &[Row]) -> Vec<Series> {
    let synthesized: Vec<Row> = rows.iter().filter(|row| word(row, "form") == FORMS[1]).cloned().collect();
    let mut all = series(&synthesized, |row| {
        let [rules, frame] = ["rules", "frame"].map(|name| word(row, name));
        let original = find(rows, &[("rules", &rules), ("frame", &frame), ("form", FORMS[0])]);
        let y = original.map_or(f64::NAN, |original| original.ns_per_packet / row.ns_per_packet);
        (format!("{rules} rules"), Point { x: value(row, "frame"), y, quartiles: None })
    });
    let ends = || all.iter().flat_map(|series| &series.points).map(|point| point.x);
    let ends = [ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max)];
    for (rules, gain) in [("251 rules", 1.0), ("8,550 rules, at most", 8.5)] {
        all.push(Series::of_paper(format!("SNF paper, {rules}"), ends.map(|x| (x, gain))));
    }
    all
}

/// Measures the latencies of the original and the synthesized chain alternately, with packets that arrive at
/// `rate` per second. Each result is from the run with the median latency.
fn latencies(run: &FigureRun<'_>, case: &Case, rate: f64) -> Result<[Latencies; 2], String> {
    let time = if run.is_small() { Duration::from_millis(5) } else { Duration::from_millis(300) };
    let rounds = run.settings.repeats.min(5);
    let forms = case.metered(run.settings.packets)?;
    let open = |(_, text): &(&str, String)| Ok::<_, String>((OpenLoop::of(text.clone())?, Vec::new()));
    let mut loops = forms.texts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..rounds {
        for (open_loop, all) in &mut loops {
            open_loop.drive(rate, time, &["latency"])?;
            all.push(open_loop.latencies("latency")?);
        }
    }
    let mut medians = loops.into_iter().map(|(open_loop, mut all)| {
        open_loop.finish()?;
        all.sort_by(|a, b| a.median.total_cmp(&b.median));
        Ok::<_, String>(all[all.len() / 2])
    });
    match (medians.next(), medians.next()) {
        (Some(original), Some(synthesized)) => Ok([original?, synthesized?]),
        _ => Err("no latencies".into()),
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
