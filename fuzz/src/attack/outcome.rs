//! Runs of a configuration, and the comparison of two runs.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use engine::ElementReport;
use lang::Graph;
use wire::{Layers, LinkType};

use super::ends::{Came, Given, Traffic};
use super::programs::worker;

/// The result of a run of a configuration.
#[derive(Debug)]
pub(super) struct Ran {
    /// For each sink, by number: the packets that arrived, in order.
    pub(super) came: Vec<Vec<Came>>,
    /// By name of the element: the counts of packets in, out, held and dropped.
    reports: BTreeMap<String, ElementReport>,
    /// By name of the element and of the handler: the value of the handler at the end.
    handlers: BTreeMap<(String, String), String>,
    /// The number of packets that all sources have sent.
    read: u64,
    /// The maximum number of packets in a burst.
    burst: usize,
}

impl Ran {
    /// True if the sources have sent as many packets in this run as in the other. Fewer are sent if an
    /// element stops the driver.
    pub(super) fn has_read_what(&self, other: &Ran) -> bool {
        self.read == other.read
    }

    /// True if a queue or a table was full, so that packets were dropped.
    pub(super) fn overflows(&self) -> bool {
        self.reports.values().any(|report| report.drops.keys().any(|reason| reason.contains("full")))
    }
}

/// The reason why a configuration did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The configuration is invalid, or an element could not be initialized.
    Start(String),
    /// The configuration panicked, with this message.
    Panic(String),
}

/// Handlers that are not compared. They show the position of an element in the configuration, the threads of
/// packets, the state of the machine, or the mean size of batches, which may differ with programs. Other
/// handlers that depend on batches, such as the smoothed rates of Counter, are left out in [`run`].
const OTHERS: [&str; 11] = [
    "name",
    "ports",
    "signal",
    "handlers",
    "scheduled",
    "home_thread",
    "passing_threads",
    "spawning_threads",
    "mt_safe",
    "is_fullpush",
    "mean_batch",
];

/// Runs packets through a configuration with at most `burst` packets in a burst. `make` returns its graph
/// for the exchange with the given number.
///
/// # Errors
/// If the configuration cannot be started, or panics.
pub(super) fn run(
    make: &dyn Fn(u64) -> Graph,
    given: &[Arc<Vec<Given>>],
    burst: usize,
) -> Result<Ran, Broken> {
    let traffic = Traffic::offer(given);
    let graph = make(traffic.number());
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut worker = worker(&graph, burst)?;
        worker.initialize().map_err(|problem| format!("{problem:?}"))?;
        worker.run();
        let mut handlers = BTreeMap::new();
        for (id, element) in graph.elements.iter().enumerate() {
            if !element.name.starts_with('e') {
                continue;
            }
            let all = worker.read(Some(id), "handlers", "")?;
            let named = all.lines().filter_map(|line| line.split_once('\t'));
            let smoothed = |name: &str| element.class == "Counter" && name.ends_with("rate");
            let is_of_batches = |name: &str| match &element.class[..] {
                "BatchStats" => true,
                "Juggler" => name == "lengths",
                // These elements remove expired addresses when a batch arrives, so their count depends on
                // batches.
                "EtherSwitch" | "ListenEtherSwitch" => name == "count",
                _ => false,
            };
            for (name, _) in named.filter(|(name, flags)| flags.contains('r') && !OTHERS.contains(name)) {
                // Values that depend on the size of batches may differ with programs.
                if smoothed(name) || is_of_batches(name) {
                    continue;
                }
                let value = worker.read(Some(id), name, "").unwrap_or_else(|error| error);
                handlers.insert((element.name.clone(), name.to_string()), value);
            }
        }
        let reports = worker.report().elements;
        let read =
            reports.iter().filter(|report| report.name.starts_with("in")).map(|report| report.made).sum();
        let reports = reports.into_iter().filter(|report| report.name.starts_with('e'));
        let reports = reports.map(|report| (report.name.clone(), report)).collect();
        // Packets that elements still hold leave at this point.
        let _ = worker.finish();
        Ok::<_, String>((reports, handlers, read))
    }));
    match ran {
        Ok(Ok((reports, handlers, read))) => {
            Ok(Ran { came: traffic.collect(), reports, handlers, read, burst })
        }
        Ok(Err(problem)) => Err(Broken::Start(problem)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            Err(Broken::Panic(text.unwrap_or_default()))
        }
    }
}

/// An aspect in which the runs of two configurations may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Aspect {
    /// The configuration or its synthesized form cannot be initialized.
    Start,
    /// The configuration or its synthesized form panics.
    Panic,
    /// The bytes of packets, their number, or the sink at which they arrive.
    Bytes,
    /// The annotations that a sink observes, of packets with equal bytes.
    Annotations,
    /// The time stamps of packets that are equal otherwise.
    Time,
    /// The order of packets of one flow at one sink.
    FlowOrder,
    /// The order of packets of different flows at one sink.
    Order,
    /// The elements that drop packets, the drop reasons, or the numbers of dropped packets.
    Drops,
    /// The packets in, out and held that an element has counted.
    Counts,
    /// The value of a handler of an element.
    Handlers,
}

/// A difference between two runs in one aspect.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub(super) aspect: Aspect,
    /// The values in both runs, as text.
    pub(super) what: String,
}

/// Compares the run `plain` of the original configuration with the run `other` of a synthesized form.
/// Returns at most one difference per aspect. At a sink, the next aspect (bytes, annotations, time stamps,
/// order) is compared only if the previous one is equal. `given` has the packets that were sent.
pub(super) fn differences(plain: &Ran, other: &Ran, given: &[Arc<Vec<Given>>]) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    let mut add = |aspect, what: String| {
        if !found.iter().any(|difference| difference.aspect == aspect) {
            found.push(Difference { aspect, what });
        }
    };
    let none = Vec::new();
    for sink in 0..plain.came.len().max(other.came.len()) {
        let [a, b] = [plain, other].map(|ran| ran.came.get(sink).unwrap_or(&none));
        if a == b {
            continue;
        }
        if let Some(what) = apart(a, b, |came| came.bytes.clone()) {
            add(Aspect::Bytes, format!("at output {sink}: {what}"));
        } else if let Some(what) = apart(a, b, |came| (came.bytes.clone(), came.annotations.clone())) {
            add(Aspect::Annotations, format!("at output {sink}: {what}"));
        } else if let Some(what) =
            apart(a, b, |came| (came.bytes.clone(), came.annotations.clone(), came.time.0))
        {
            add(Aspect::Time, format!("at output {sink}: {what}"));
        } else {
            for (aspect, what) in changed_places(a, b, given, plain.burst) {
                add(aspect, format!("at output {sink}: {what}"));
            }
        }
    }
    for (name, report) in &plain.reports {
        let Some(with) = other.reports.get(name).filter(|with| *with != report) else { continue };
        if with.drops != report.drops {
            add(Aspect::Drops, format!("{name} drops {:?}, not {:?}", with.drops, report.drops));
        } else {
            add(Aspect::Counts, format!("{with:?}, not {report:?}"));
        }
    }
    for ((element, handler), value) in &plain.handlers {
        let with = other.handlers.get(&(element.clone(), handler.clone()));
        if with.is_none_or(|with| !same_lines(handler, value, with)) {
            add(Aspect::Handlers, format!("{element}.{handler} says {with:?}, not {value:?}"));
        }
    }
    found
}

/// Returns the pairs of packets at one sink that programs have exchanged. These are pairs in which one
/// packet arrived at the configuration after the other, left after it without programs, and leaves before
/// it with programs.
///
/// A pair that programs put into its order of arrival is not reported. Elements may have changed that
/// order, because an element sends all packets of a batch for one output before those for the next. For the
/// same reason, copies of one packet are not compared in bursts: their element sends all copies of a batch
/// first, and programs make larger batches.
fn changed_places(
    plain: &[Came],
    other: &[Came],
    given: &[Arc<Vec<Given>>],
    burst: usize,
) -> Vec<(Aspect, String)> {
    let mut places: BTreeMap<&Came, Vec<usize>> = BTreeMap::new();
    for (place, came) in plain.iter().enumerate().rev() {
        places.entry(came).or_default().push(place);
    }
    let place = |came| places.get_mut(came).and_then(Vec::pop).unwrap_or_default();
    let before: Vec<usize> = other.iter().map(place).collect();
    // If a packet got a new time stamp, its arrival is not known. Copies with equal time stamps cannot be
    // distinguished.
    let is_known = |came: &Came| {
        let mut sources = given.iter().flat_map(|given| given.iter());
        let is_copy = |other: &&Came| if burst == 1 { *other == came } else { other.time == came.time };
        let copies = other.iter().filter(is_copy).count();
        copies == 1 && sources.any(|given| given.time == came.time)
    };
    let mut found = Vec::new();
    for (second, behind) in other.iter().enumerate() {
        for (first, ahead) in other[..second].iter().enumerate() {
            if before[first] < before[second]
                || ahead.time <= behind.time
                || !is_known(ahead)
                || !is_known(behind)
            {
                continue;
            }
            let [one, two] = [ahead, behind].map(|came| flow(came, given));
            let is_one = one.is_some() && one == two;
            let what = format!(
                "{} at {} in front of {} at {}",
                hex(&ahead.bytes),
                ahead.time,
                hex(&behind.bytes),
                behind.time
            );
            found.push((if is_one { Aspect::FlowOrder } else { Aspect::Order }, what));
        }
    }
    found
}

/// True if two values of the handler with this name are equal. For some handlers, whose lines are in order
/// of first packets, the order of lines is ignored.
fn same_lines(handler: &str, a: &str, b: &str) -> bool {
    if !["drops_by_reason", "mappings"].contains(&handler) {
        return a == b;
    }
    let [mut a, mut b] = [a, b].map(|text| text.lines().collect::<Vec<_>>());
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

/// Compares two lists of packets, as multisets, by `key`. Describes a packet that only `b` has and a packet
/// that only `a` has; `None` if the lists are equal.
fn apart<K: Ord>(a: &[Came], b: &[Came], key: impl Fn(&Came) -> K) -> Option<String> {
    let mut counts: BTreeMap<K, (i64, &Came)> = BTreeMap::new();
    for (all, change) in [(b, 1), (a, -1)] {
        for came in all {
            counts.entry(key(came)).or_insert((0, came)).0 += change;
        }
    }
    let tell = |sign: i64| {
        let came = counts
            .values()
            .filter(|(count, _)| count * sign > 0)
            .map(|(_, came)| *came)
            .min_by_key(|c| c.time);
        came.map_or("nothing".to_string(), |came| {
            format!("{} at {} {}", hex(&came.bytes), came.time, hex(&came.annotations))
        })
    };
    counts.values().any(|(count, _)| *count != 0).then(|| format!("{} instead of {}", tell(1), tell(-1)))
}

/// Returns a text that is equal for packets of one flow in one direction; `None` without a five-tuple. It
/// has the five-tuple of the packet as it was sent and as it arrived, because an element may overwrite
/// fields by which another element distinguishes flows.
fn flow(came: &Came, given: &[Arc<Vec<Given>>]) -> Option<String> {
    let mut sources = given.iter().flat_map(|given| given.iter());
    let origin = sources.find(|given| given.time == came.time);
    let bytes = origin.map_or(&came.bytes, |origin| &origin.bytes);
    let tuple = Layers::locate(bytes, LinkType::Ethernet).five_tuple(bytes)?;
    let last = Layers::locate(&came.bytes, LinkType::Ethernet).five_tuple(&came.bytes);
    // The Ethernet type is part of the text, because elements that distinguish flows may read VLAN tags.
    Some(format!("{:?} {tuple:?} {last:?}", bytes.get(12..14)))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    program::hex::digits(bytes)
}
