//! The benchmark `reload`: how long each worker stands still while the graph is replaced under load.
//!
//! A simulated link offers half of the packets per second that the workers take at full load. The graph is
//! replaced again and again, by two configurations in turn that differ in one route or rule. The *silence* of
//! a worker is the time from the start of its last batch in the old graph to the start of its first batch in
//! the new one. The *gap* of a worker is the longest time between the starts of two of its batches, from the
//! request to replace the graph until 3 ms after all workers run the new graph. The time for which the thread
//! waited for a processor is not counted in either of them.

mod link;

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::{End, Options, Problem, RebuildRequest, Rebuilt, Requests, Workers};
use serde::Serialize;

use crate::runner::{Silence as NoOutput, configured, registry};
use crate::serde_params::Param;
use crate::soak::resident;
use crate::{Pair, Row, Settings, classify, quantile, routing};
use link::{Silence, Watch};

/// The results of reloads under load.
#[derive(Clone, Debug, Serialize)]
pub struct Reloaded {
    /// The number of reloads.
    pub reloads: usize,
    /// The packets per second that were offered to all workers together, in millions.
    pub offered_mpps: f64,
    /// The number of packets that were lost, because the ring of the link was full, while the graph was
    /// replaced again and again.
    pub missed: u64,
    /// The silence of a worker (the time without a batch when its graph is replaced) in microseconds: the
    /// median, the 99th percentile and the maximum over all workers and reloads.
    pub silence_us: [f64; 3],
    /// The 99th percentile of the silence in microseconds, including the time for which the thread waited for
    /// a processor.
    pub with_waiting_us: f64,
    /// The gap (the longest time between two batches of a worker around a reload) in microseconds: the
    /// median, the 99th percentile and the maximum.
    pub gap_us: [f64; 3],
    /// The median time from the request for a reload until all workers run the new graph, in milliseconds.
    pub took_ms: f64,
    /// The resident memory in bytes, after the first tenth of the reloads and at the end.
    pub resident: [u64; 2],
    /// The number of open files, after the first tenth of the reloads and at the end.
    pub files: [u64; 2],
}

/// A case of the benchmark: two variants of a configuration, which replace each other again and again.
struct Case {
    name: &'static str,
    flows: usize,
    reloads: usize,
    /// The elements downstream of the link, for each variant.
    chains: [String; 2],
}

/// The time for which rates are measured, and for which packets pass before.
const MEASURE: Duration = Duration::from_millis(300);

/// The time after which a reload that has not ended counts as failed.
const LONGEST: Duration = Duration::from_secs(60);

/// The pause between two reloads.
const PAUSE: Duration = Duration::from_millis(3);

/// Returns the cases: a small router, and a chain of router, firewall, translator and statistics with many
/// rules and sessions. The numbers of rules, flows and reloads are divided by `part` (above 1 in a small
/// run).
fn cases(part: usize) -> [Case; 2] {
    let router = |more: &str| {
        format!(
            "CheckIPHeader(14) -> rt :: RadixIPLookup({more} {}0/0 10.0.0.1 0);
            rt[1], rt[2], rt[3] => Discard, Discard, Discard; rt -> DecIPTTL",
            routing::routes(20, 1)
        )
    };
    let rules = classify::mostly_permitting(&classify::made((10_000 / part).max(10)));
    let large = |more: &str| {
        format!(
            "{} -> fw :: IPFilter({more} {rules} allow all)
            -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> stats :: FlowCounter -> Discard",
            router("")
        )
    };
    [
        Case {
            name: "router",
            flows: 1_000,
            reloads: 1_000 / part,
            chains: ["", "172.16.0.0/16 0,"].map(|route| format!("{} -> Discard", router(route))),
        },
        Case {
            name: "10,000 rules and 100,000 sessions",
            flows: 100_000 / part,
            reloads: 100 / part,
            chains: ["", "deny src host 172.16.0.1,"].map(large),
        },
    ]
}

/// Measures each case on one worker and on two workers.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let part = if settings.repeats == 1 { 50 } else { 1 };
    let mut rows = Vec::new();
    for case in cases(part) {
        for workers in [1, 2] {
            settings.progress.tell(&format!("reload: {}, {workers} workers", case.name));
            let reloaded = measure(&case, workers)?;
            let params = [("graph", Param::Word(case.name)), ("threads", Param::Number(workers as u64))];
            let cost = 1e3 * workers as f64 / reloaded.offered_mpps;
            let row = Row::new("reload", &params, &[Pair { cost, floor: cost }]);
            rows.push(Row { excludes_floor: true, reloaded: Some(reloaded), ..row });
        }
    }
    Ok(rows)
}

/// Replaces the graph of a case again and again while packets pass, on `workers` workers.
fn measure(case: &Case, workers: usize) -> Result<Reloaded, String> {
    let (number, watch) = Watch::new(case.flows, workers);
    let texts: Vec<String> =
        case.chains.iter().map(|chain| format!("link :: BenchmarkLink({number}) -> {chain}")).collect();
    let result = replaced(case.reloads, &texts, workers, &watch);
    Watch::forget(number);
    result
}

fn replaced(
    reloads: usize,
    texts: &[String],
    workers: usize,
    watch: &Arc<Watch>,
) -> Result<Reloaded, String> {
    let build = |text: &str| configured(text.to_string(), workers, None, &registry().with(&[&link::LINK]));
    let (plan, copies) = build(&texts[0])?;
    let (wanted, interrupt) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let all = texts.to_vec();
    let turn = std::sync::atomic::AtomicUsize::new(1);
    let options = Options {
        busy_poll: true,
        requests: Requests { reload: Arc::clone(&wanted), ..Requests::default() },
        interrupt: Arc::clone(&interrupt),
        rebuild: Some(Arc::new(move |_: &RebuildRequest| {
            let text = &all[turn.fetch_add(1, Ordering::Relaxed) % all.len()];
            let (plan, copies) = configured(text.clone(), workers, None, &registry().with(&[&link::LINK]))?;
            let tell = Box::new(|problem: &Problem| problem.diagnostic.message.clone());
            Ok(Rebuilt { plan, copies, text: text.clone(), tell, recomposer: None })
        })),
        ..Options::default()
    };
    let mut run = Workers::new(&plan, copies, Box::new(NoOutput), options)?;
    run.initialize().map_err(|problem| problem.diagnostic.message)?;
    let control = thread::spawn({
        let watch = Arc::clone(watch);
        move || {
            let result = reload_often(reloads, &watch, &wanted);
            interrupt.store(true, Ordering::Relaxed);
            result
        }
    });
    let end = run.run();
    let result = control.join().map_err(|_| "the control of the benchmark has failed")?;
    run.finish().map_err(|errors| errors.join("; "))?;
    match end {
        End::Interrupted => result,
        _ => Err("the run stopped by itself".into()),
    }
}

/// Measures the rate that the workers take at full load, offers half of it, and has the graph replaced
/// `reloads` times. Returns the results.
fn reload_often(reloads: usize, watch: &Watch, wanted: &AtomicBool) -> Result<Reloaded, String> {
    // While this pause lasts, packets of all flows pass, so that elements know all flows and all memory has
    // been used.
    thread::sleep(MEASURE);
    let (start, (before, _)) = (Instant::now(), watch.counts());
    thread::sleep(MEASURE);
    let carried = (watch.counts().0 - before) as f64 / start.elapsed().as_secs_f64();
    let offered = carried / 2.0;
    watch.set_rate((offered / watch.seats.len() as f64) as u64);
    thread::sleep(MEASURE);
    let (_, missed) = watch.counts();
    let use_now = || (resident(), open_files());
    let (mut first, mut gaps, mut times) = (use_now(), Vec::new(), Vec::new());
    for number in 0..reloads {
        if number == reloads / 10 {
            first = use_now();
        }
        watch.seats.iter().for_each(|seat| _ = seat.take_gap());
        let start = Instant::now();
        wanted.store(true, Ordering::Relaxed);
        while watch.seats.iter().any(|seat| seat.reloads() <= number) {
            if start.elapsed() > LONGEST {
                return Err(format!("reload {} has not ended", number + 1));
            }
            thread::sleep(Duration::from_micros(200));
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
        thread::sleep(PAUSE);
        gaps.extend(watch.seats.iter().map(|seat| seat.take_gap().as_secs_f64() * 1e6));
    }
    let last = use_now();
    let silences: Vec<Silence> = watch.seats.iter().flat_map(link::Seat::take_silences).collect();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let net = silences.iter().map(|silence| micros(silence.passed - silence.waited)).collect();
    let gross = silences.iter().map(|silence| micros(silence.passed)).collect();
    Ok(Reloaded {
        reloads,
        offered_mpps: offered / 1e6,
        missed: watch.counts().1 - missed,
        silence_us: figures(net),
        with_waiting_us: quantile(gross, 0.99),
        gap_us: figures(gaps),
        took_ms: quantile(times, 0.5),
        resident: [first.0, last.0],
        files: [first.1, last.1],
    })
}

/// Returns the median, the 99th percentile and the maximum of values.
fn figures(values: Vec<f64>) -> [f64; 3] {
    [0.5, 0.99, 1.0].map(|part| quantile(values.clone(), part))
}

/// Returns the number of open files of this process; 0 if the system does not report it.
fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64)
}

/// Formats the rows of this benchmark as a table. Empty if there are no rows.
pub(crate) fn table(rows: &[&Row]) -> String {
    let mut text = String::new();
    if rows.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "{:34} {:>7} {:>7} {:>6} {:>6}  {:24} {:24} {:>7}  {:11}  files",
        "graph",
        "workers",
        "reloads",
        "Mpps",
        "missed",
        "silence us 50/99/100 %",
        "gap us 50/99/100 %",
        "took ms",
        "MiB"
    );
    for row in rows {
        let Some(reloaded) = &row.reloaded else { continue };
        let param = |name| row.params.get(name).map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(
            text,
            "{:34} {:>7} {:>7} {:>6.2} {:>6}  {:24} {:24} {:>7.1}  {:11}  {}-{}",
            param("graph"),
            param("threads"),
            reloaded.reloads,
            reloaded.offered_mpps,
            reloaded.missed,
            Times(reloaded.silence_us).to_string(),
            Times(reloaded.gap_us).to_string(),
            reloaded.took_ms,
            format!("{}-{}", reloaded.resident[0] >> 20, reloaded.resident[1] >> 20),
            reloaded.files[0],
            reloaded.files[1],
        );
    }
    text + "Silence: from the last batch of the old graph to the first of the new one, of each worker. Gap: the \
        longest time between two batches during a reload. Both without the time for which the thread waited for a \
        processor.\n"
}

/// Times in microseconds, for a column of the table.
struct Times([f64; 3]);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p99, most] = self.0;
        write!(f, "{median:.1} / {p99:.1} / {most:.1}")
    }
}
