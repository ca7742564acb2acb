//! Tests that handlers of elements at several workers show the values of all workers.
//!
//! Each element gets the same packets at two workers. If the workers' copies then have different values for
//! a handler, the handler must not show the value of one copy only.

use std::iter;
use std::sync::Arc;

use element::steering::{Dispatch, Spread, Spreading, WorkerLoad};
use element::{Packet, Timestamp};
use testkit::elements::{TestPacket, collect, offer};
use testkit::samples::{ClassSample, all};
use testkit::{TestRun, corpus};

/// Handlers that show the value of one worker and not of all workers, by class. Most are means, shares and
/// times of this worker's packets. The handler `worker` shows the values of each worker.
const OF_ONE: &[(&str, &[&str])] = &[
    ("TimeRange", &["first", "last", "range", "interval"]),
    ("ARPQuerier", &["stats"]),
    ("IPFilter", &["cache_hits_ratio", "cache_misses_ratio"]),
    ("BatchStats", &["median", "average"]),
    ("BurstStats", &["most_seen", "most_seen_freq", "nval", "median", "average", "avg"]),
    ("CycleCountAccum", &["cycles_pp"]),
    ("TimestampAccum", &["average_time", "min", "max"]),
    ("Batcher", &["mean_batch"]),
    ("FlowCounter", &["average", "median"]),
    ("Reframer", &["mean_batch", "slf_in", "slf_out", "waited_in_vain"]),
    (
        "SFMaker",
        &[
            "useless_wait_avg",
            "bursts_avg",
            "packets_avg",
            "superframe_flows_avg",
            "superframe_size_avg",
            "compress_avg",
        ],
    ),
    ("Juggler", &["merged"]),
    ("Slicer", &["ratio"]),
];

/// A spreading that sends the first three packets, and then every third packet, to the second worker, and all
/// others to the first, so that the workers get different numbers of packets.
struct Turns(usize);

impl Spread for Turns {
    fn worker_of(&mut self, _packet: &Packet, _now: Timestamp, _owner: &dyn Dispatch) -> usize {
        self.0 += 1;
        usize::from(self.0 < 3 || self.0.is_multiple_of(3))
    }

    fn may_stay(&self, _packet: &Packet) -> bool {
        true
    }
}

struct InTurn;

impl Spreading for InTurn {
    fn spread(&self, _worker: usize, _loads: &Arc<[WorkerLoad]>) -> Box<dyn Spread> {
        Box::new(Turns(0))
    }
}

/// Returns the handlers that show the value of one worker although the workers have different values.
fn of_one_worker(sample: &ClassSample) -> Result<Vec<String>, String> {
    let names = sample.handlers()?.into_iter();
    let read = names.filter(|(name, flags)| {
        flags.contains('r') && !["name", "class", "config", "ports", "handlers", "signal"].contains(&&**name)
    });
    let names: Vec<String> = read.map(|(name, _)| name).collect();
    let questions = names
        .iter()
        .flat_map(|name| [format!("e.{name}"), format!("worker 0 e.{name}"), format!("worker 1 e.{name}")]);
    let questions: Vec<String> =
        questions.chain(["worker 0 e.counts", "worker 1 e.counts"].map(str::to_string)).collect();
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    let inputs: Vec<Vec<TestPacket>> = (0..sample.shape.0).map(|i| corpus::inputs(1 + i as u64)).collect();
    let number = offer(inputs);
    let how = TestRun::trace().on(2).spread(|| Arc::new(InTurn));
    let outcome = how.text(&sample.text(number, 1, false), &questions);
    collect(number);
    let values: Vec<String> = outcome?.values.into_iter().map(|value| value.unwrap_or_default()).collect();
    // An element that works at one worker only has nothing to merge.
    let is_idle = |counts: &String| counts.starts_with("in 0\n");
    if values[values.len() - 2..].iter().any(is_idle) {
        return Ok(Vec::new());
    }
    let differs = names.iter().zip(values.chunks(3)).filter(|(_, values)| {
        let [merged, first, second] = values else { return false };
        // If one worker has no count, the sum is the count of the other worker.
        let counts = has_count_beside(first, second) && has_count_beside(second, first);
        first != second && (merged == first || merged == second) && counts
    });
    Ok(differs.map(|(name, values)| format!("{name} {values:?}")).collect())
}

/// True if a word of a value has a digit other than 0, and the word at the same position in another value
/// differs or is missing.
fn has_count_beside(value: &str, other: &str) -> bool {
    let words = value.split_whitespace().zip(other.split_whitespace().map(Some).chain(iter::repeat(None)));
    let mut own = words.filter(|(word, other)| Some(*word) != *other);
    own.any(|(word, _)| word.contains(|digit: char| ('1'..='9').contains(&digit)))
}

#[test]
fn handlers_show_the_values_of_all_workers() {
    let folder = tempfile::tempdir().unwrap();
    testkit::generic::prepare(folder.path()).unwrap();
    let classes: Vec<_> = testkit::classes().collect();
    let mut failures = Vec::new();
    for sample in all(&classes, folder.path()).into_iter().filter(|sample| sample.shape.0 > 0) {
        let found = of_one_worker(&sample).unwrap_or_else(|error| vec![error]);
        let known =
            OF_ONE.iter().filter(|(class, _)| *class == sample.class.name).flat_map(|(_, names)| *names);
        let is_known = |found: &String| known.clone().any(|name| found.split(' ').next() == Some(name));
        failures
            .extend(found.iter().filter(|found| !is_known(found)).map(|found| format!("{sample}: {found}")));
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}

/// Returns the values of a sample's handlers in a run on several workers without packets, each after the
/// handler's name.
fn without_packets(sample: &ClassSample, workers: usize) -> Result<Vec<String>, String> {
    let names = sample.handlers()?.into_iter().filter(|(_, flags)| flags.contains('r'));
    let names: Vec<String> = names.map(|(name, _)| name).collect();
    let questions: Vec<String> = names.iter().map(|name| format!("e.{name}")).collect();
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    let number = offer(vec![Vec::new(); sample.shape.0]);
    let outcome = TestRun::trace().on(workers).text(&sample.text(number, 1, false), &questions);
    collect(number);
    let values = outcome?.values.into_iter().map(Result::unwrap_or_default);
    Ok(names.iter().zip(values).map(|(name, value)| format!("{name} = {value}")).collect())
}

/// Handlers whose values depend on the number of workers, by class: memory and sources that each worker has,
/// and a port that the kernel chooses.
const BY_WORKERS: &[(&str, &[&str])] =
    &[("IPRateMonitor", &["mem"]), ("InMemoryNic", &["count", "counts"]), ("ControlSocket", &["port"])];

/// The handlers of all elements that name workers.
const NAMING_WORKERS: [&str; 3] = ["passing_threads", "spawning_threads", "is_fullpush"];

/// Each read handler, except those in [`BY_WORKERS`] and [`NAMING_WORKERS`], shows the same with three
/// workers as with one, in runs without packets. For example, a capacity that several copies share is still
/// the configured capacity.
#[test]
fn settings_do_not_depend_on_the_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    testkit::generic::prepare(folder.path()).unwrap();
    let classes: Vec<_> = testkit::classes().collect();
    let mut failures = Vec::new();
    for sample in all(&classes, folder.path()) {
        match (without_packets(&sample, 1), without_packets(&sample, 3)) {
            (Ok(one), Ok(three)) => {
                let known = BY_WORKERS.iter().filter(|(class, _)| *class == sample.class.name);
                let known = known.flat_map(|(_, names)| names.iter().copied());
                let known: Vec<&str> = known.chain(NAMING_WORKERS).collect();
                let differ = one.iter().zip(&three).filter(|(a, b)| a != b);
                let differ =
                    differ.filter(|(a, _)| !known.contains(&a.split(' ').next().unwrap_or_default()));
                failures.extend(differ.map(|(a, b)| format!("{sample}: {a}, {b}")));
            }
            (one, three) => failures
                .extend([one, three].into_iter().filter_map(Result::err).map(|e| format!("{sample}: {e}"))),
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}
