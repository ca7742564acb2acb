//! Runs of a configuration, and the differences between two runs.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use engine::ElementReport;
use lang::Graph;
use wire::{Layers, LinkType};

use super::ends::{Came, Given, Traffic};
use super::programs::worker;

/// The result of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// The packets of each sink, in order of arrival.
    pub(super) came: Vec<Vec<Came>>,
    /// The report of each element.
    reports: BTreeMap<String, ElementReport>,
    /// The value of each handler, by element and handler.
    handlers: BTreeMap<(String, String), String>,
    /// The number of packets that sources have sent.
    read: u64,
    /// The most packets in a burst.
    burst: usize,
}

impl Ran {
    /// True if sources have sent as many packets as in another run. The numbers differ if an element has
    /// stopped the driver.
    pub(super) fn has_read_what(&self, other: &Ran) -> bool {
        self.read == other.read
    }

    /// True if a queue or a table was full.
    pub(super) fn overflows(&self) -> bool {
        self.reports.values().any(|report| report.drops.keys().any(|reason| reason.contains("full")))
    }
}

/// The reason why a configuration did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// An element could not be initialised.
    Start(String),
    /// The configuration panicked.
    Panic(String),
}

/// Handlers that show the position of an element in the configuration, or the state of the machine. The
/// smoothed rates of Counter are left out elsewhere, because a Counter takes many packets at once for
/// evenly spaced packets. The mean size of batches is left out as well: batches differ with programs, and
/// may do so.
const OTHERS: [&str; 7] = ["name", "ports", "signal", "handlers", "scheduled", "home_thread", "mean_batch"];

/// Runs packets through a configuration. `make` creates its graph for the exchange with a number.
///
/// # Errors
/// If it cannot be started, or panics.
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
                // Outdated addresses are removed when the next batch arrives.
                "EtherSwitch" | "ListenEtherSwitch" => name == "count",
                _ => false,
            };
            for (name, _) in named.filter(|(name, flags)| flags.contains('r') && !OTHERS.contains(name)) {
                // Batches differ with programs, and may do so.
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
        // Held packets end here.
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

/// An aspect in which two runs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Aspect {
    /// The configuration cannot be initialised.
    Start,
    /// The configuration panics.
    Panic,
    /// The bytes of packets, or the sink that they reach.
    Bytes,
    /// The annotations that a sink observes.
    Annotations,
    /// The timestamps.
    Time,
    /// The order of packets of one flow at one output.
    FlowOrder,
    /// The order of all packets at one output.
    Order,
    /// The elements that drop packets, and the reasons.
    Drops,
    /// The number of packets that have reached an element.
    Counts,
    /// The value of a handler.
    Handlers,
}

/// A difference, in words.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    /// The aspect.
    pub(super) aspect: Aspect,
    /// The values with and without programs.
    pub(super) what: String,
}

/// Compares a run of the original configuration with another run. Every aspect is compared; the order of
/// packets only if the packets are equal.
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

/// Returns pairs of packets at an output that programs have exchanged: of two packets, the packet that
/// arrived later, and left later without programs, leaves first. Programs may restore the order of arrival
/// that elements have changed, because an element sends all packets of a batch for one output before all
/// packets for the next output. For the same reason, copies of one packet are not compared in bursts: their
/// element sends all copies of a batch first, and programs make larger batches.
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
    // The arrival of packets with a new timestamp is not known, and copies cannot be distinguished.
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

/// True if two values of a handler are equal. For handlers whose lines are in the order of the first
/// packet, the order of lines is ignored.
fn same_lines(handler: &str, a: &str, b: &str) -> bool {
    if !["drops_by_reason", "mappings"].contains(&handler) {
        return a == b;
    }
    let [mut a, mut b] = [a, b].map(|text| text.lines().collect::<Vec<_>>());
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

/// Describes a packet that is in `b` and not in `a`, and a packet that is in `a` and not in `b`; None if
/// both are equal.
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

/// Returns the flow of a packet, in one direction of a connection, from the packet as it was sent and as it
/// came out: elements may have overwritten the fields by which other elements distinguish flows.
fn flow(came: &Came, given: &[Arc<Vec<Given>>]) -> Option<String> {
    let mut sources = given.iter().flat_map(|given| given.iter());
    let origin = sources.find(|given| given.time == came.time);
    let bytes = origin.map_or(&came.bytes, |origin| &origin.bytes);
    let tuple = Layers::locate(bytes, LinkType::Ethernet).five_tuple(bytes)?;
    let last = Layers::locate(&came.bytes, LinkType::Ethernet).five_tuple(&came.bytes);
    // The link type is included, because elements that distinguish flows may read VLAN tags.
    Some(format!("{:?} {tuple:?} {last:?}", bytes.get(12..14)))
}

/// Formats bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    program::hex::digits(bytes)
}
