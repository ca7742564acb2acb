//! The generic test of what a reload keeps: compares each class with its declaration
//! ([`Class::state`](element::Class::state)).
//!
//! Each sample of a class gets packets and, at its handlers, entries of tables. Then a graph with the same
//! element replaces the graph. The read handlers of the old and the new element are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use element::class::Task;
use element::{Class, OnReload, StatePart};

use crate::elements::{arrived, collect, offer};
use crate::samples::{ClassSample, all};
use crate::{TestRun, corpus, generic, worker};

/// The handlers that the engine answers for every element.
const OF_ENGINE: &[&str] = &[
    "name",
    "class",
    "config",
    "ports",
    "handlers",
    "counts",
    "drops_by_reason",
    "scheduled",
    "tickets",
    "home_thread",
    "passing_threads",
    "spawning_threads",
    "mt_safe",
    "is_fullpush",
    "signal",
];

/// Values that are written to handlers of elements before they get packets: entries of their tables.
pub(crate) const ENTRIES: &[(&str, &str)] = &[
    ("insert", "10.0.0.2 02:00:00:00:00:02"),
    ("add_server", "10.9.9.9"),
    ("add", "10.9.0.0/16 0"),
    ("remove_server", "1"),
];

/// The moment of the reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The reload takes place after at most 64 steps of the driver. In these, packets come but timers do not
    /// expire, so that elements hold packets.
    Early,
    /// The reload takes place at the same time as with [`Early`](Self::Early), but the sinks do not pull, so
    /// that queues are full.
    Stuck,
    /// After 1.1 seconds of simulated time.
    Late,
}

/// The results of a reload of one sample.
struct Reloaded {
    /// The values of each handler: of an element without packets, before the reload, and after it.
    values: BTreeMap<String, [String; 3]>,
    /// The number of packets that were held and are neither held by the new element nor came out.
    missing: usize,
}

/// Returns the text of a configuration with the sample's element between test sources and sinks. If `moment`
/// is [`Moment::Stuck`], no sink pulls.
fn text(sample: &ClassSample, number: u64, moment: Moment) -> String {
    let text = sample.text(number, 1, true);
    let stuck = |line: &str| match line.split_once("-> TestPullSink(") {
        Some((start, _)) if moment == Moment::Stuck => format!("{start}-> Idle;\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(stuck).collect()
}

/// Runs `sample` until `moment`, and replaces its graph by the graph of `heir`.
fn reload(sample: &ClassSample, heir: &ClassSample, moment: Moment) -> Result<Reloaded, String> {
    let inputs = (0..sample.shape.0).map(|i| corpus::inputs(1 + i as u64)).collect();
    let (number, nothing) = (offer(inputs), offer(Vec::new()));
    let result = run(sample, heir, moment, [number, nothing]);
    [number, nothing].into_iter().for_each(|number| drop(collect(number)));
    result
}

fn run(
    sample: &ClassSample,
    heir: &ClassSample,
    moment: Moment,
    exchanges: [u64; 2],
) -> Result<Reloaded, String> {
    let [number, nothing] = exchanges;
    let end = if moment == Moment::Late { "Script(wait 1100ms, stop);\n" } else { "" };
    let first = format!("{}{end}", text(sample, number, moment));
    // The second graph stops the driver, so that only the reload takes place.
    let second = format!("{}TestStop;\n", text(heir, nothing, moment));
    let mut worker = worker(&first, TestRun::default().with(sample.classes))?;
    let id = worker.plan().graph.find("e").ok_or("no element")?;
    let of_class: BTreeSet<&str> = sample.class.each_handler().map(|handler| handler.name).collect();
    let names = worker.read(Some(id), "handlers", "")?;
    let names: Vec<String> = names
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(name, flags)| flags.contains('r') && (of_class.contains(name) || !OF_ENGINE.contains(name)))
        .map(|(name, _)| name.to_string())
        .collect();
    let read = |worker: &mut engine::Worker| -> Vec<String> {
        let id = worker.plan().graph.find("e");
        names.iter().map(|name| sorted(&worker.read(id, name, "").unwrap_or_else(|error| error))).collect()
    };
    let held = |worker: &mut engine::Worker| {
        let report = worker.report();
        report.elements.iter().find(|e| e.name == "e").map_or(0, |e| e.held as usize)
    };
    let fresh = read(&mut worker);
    for (handler, value) in ENTRIES {
        // Most classes do not have the handler.
        let _ = worker.write(Some(id), handler, value);
    }
    match moment {
        Moment::Late => drop(worker.run()),
        _ => drop((0..64).take_while(|_| worker.step(32)).count()),
    }
    let before = read(&mut worker);
    let came_out = || arrived(number) + arrived(nothing);
    let (old, out) = (held(&mut worker), came_out());
    worker.write(None, "hotconfig", &second)?;
    worker.run();
    let missing = old.saturating_sub(held(&mut worker) + came_out() - out);
    let after = read(&mut worker);
    if !worker.report().balances() {
        return Err(format!("packets are not accounted for: {:?}", worker.report()));
    }
    let values =
        fresh.into_iter().zip(before).zip(after).map(|((fresh, before), after)| [fresh, before, after]);
    let values = names.into_iter().zip(values).collect();
    worker.finish().map_err(|errors| errors.join("\n"))?;
    match worker.report().balances() {
        true => Ok(Reloaded { values, missing }),
        false => Err(format!("packets are not accounted for at the end: {:?}", worker.report())),
    }
}

/// Returns the lines of a handler's value in sorted order, so that tables with the same rows in another order
/// compare as equal.
pub(crate) fn sorted(value: &str) -> String {
    let mut lines: Vec<&str> = value.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Returns the moments at which a sample is replaced.
fn moments(sample: &ClassSample) -> Vec<Moment> {
    let is_source = sample.shape.0 == 0 && sample.class.notes.task != Task::Never;
    let pulled = (0..sample.shape.1).any(|output| sample.pulls(true, output));
    let mut moments = vec![Moment::Early];
    moments.extend(pulled.then_some(Moment::Stuck));
    moments.extend((!is_source).then_some(Moment::Late));
    moments
}

/// Runs `work`, and returns a panic as an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Exceptions of the comparison of an element class with its declaration. Each has a class (`*` for all
/// classes), a handler or a part of the class's state, and the reason.
pub type Exceptions = &'static [(&'static str, &'static str, &'static str)];

pub(crate) fn is_exception(exceptions: Exceptions, class: &str, what: &str) -> bool {
    exceptions.iter().any(|&(of, name, _)| (of == "*" || of == class) && name == what)
}

/// Compares the classes with their declarations, and returns all differences. `own` has the classes of
/// another crate that the samples may need. `varying` are handlers whose value differs at each reading.
/// `unshown` are parts of the state that no sample fills.
///
/// # Errors
/// If the captures for samples cannot be written.
pub fn differences(
    classes: &[&'static Class],
    own: &'static [&'static Class],
    varying: Exceptions,
    unshown: Exceptions,
) -> std::io::Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    generic::prepare(folder.path())?;
    let mut found = Vec::new();
    for class in classes {
        let samples: Vec<ClassSample> =
            all(&[*class], folder.path()).into_iter().map(|sample| sample.with(own)).collect();
        let (mut kept, mut lost, mut known) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut tables = BTreeSet::new();
        for sample in &samples {
            tables.extend(
                sample.effects().into_iter().flat_map(|effects| effects.state).map(|state| state.table),
            );
            for moment in moments(sample) {
                let reloaded = match guarded(|| reload(sample, sample, moment)) {
                    Ok(reloaded) => reloaded,
                    Err(error) => {
                        found.push(format!("{sample}, {moment:?}: {error}"));
                        continue;
                    }
                };
                if reloaded.missing > 0 {
                    found
                        .push(format!("{sample}, {moment:?}: {} held packets are missing", reloaded.missing));
                }
                for (handler, [fresh, before, after]) in reloaded.values {
                    known.insert(handler.clone());
                    if is_exception(varying, class.name, &handler) {
                        continue;
                    }
                    let part = class.state.iter().find(|part| part.is_shown_by(&handler));
                    if before == after {
                        if before != fresh {
                            if part.is_none() {
                                found
                                    .push(format!("{}: {handler} is kept, but no part names it", class.name));
                            }
                            kept.insert(handler);
                        }
                    } else if part.is_none_or(|part| part.fate == OnReload::Kept) {
                        let of =
                            part.map_or("no part".to_string(), |part| format!("the kept part {}", part.name));
                        found.push(format!(
                            "{sample}, {moment:?}: {handler} ({of}) was {before:.60?} and is {after:.60?}"
                        ));
                    } else {
                        lost.insert(handler);
                    }
                }
            }
        }
        for [one, other] in pairs(&samples) {
            if let Err(error) = guarded(|| reload(one, other, Moment::Early)) {
                found.push(format!("{one} becomes {other}: {error}"));
            }
        }
        found.extend(unconfirmed(class, &known, &kept, &lost, unshown));
        let is_declared = |table: &&str| class.state.iter().any(|part| part.has_table(table));
        let undeclared = tables.into_iter().filter(|table| !is_declared(table));
        found.extend(undeclared.map(|table| format!("{}: no part has the table '{table}'", class.name)));
    }
    found.dedup();
    Ok(found)
}

/// Returns, for each sample of a class, the pair of it and the next sample (after the last, the first) that
/// has the same ports but other arguments.
fn pairs(samples: &[ClassSample]) -> impl Iterator<Item = [&ClassSample; 2]> {
    let other = |(at, one): (usize, &ClassSample)| {
        let mut later = samples[at + 1..].iter().chain(&samples[..at]);
        let same = |other: &&ClassSample| {
            other.shape == one.shape && other.pull == one.pull && other.config != one.config
        };
        later.find(same).map(|other| (at, other))
    };
    samples.iter().enumerate().filter_map(other).map(|(at, other)| [&samples[at], other])
}

/// Returns a message for each part of the class's state that has handlers, but of which no sample shows that
/// a reload does with it as declared. Also for each exception in `unshown` that is not needed, because a
/// sample does show it, and for each declared handler that no element has. `known` are all handlers; `kept`
/// are the handlers with a value that a reload kept, `lost` those with a value that it lost.
fn unconfirmed(
    class: &Class,
    known: &BTreeSet<String>,
    kept: &BTreeSet<String>,
    lost: &BTreeSet<String>,
    unshown: Exceptions,
) -> Vec<String> {
    let mut found = Vec::new();
    // Elements that need an interface or another element have no samples (arguments for the generic tests).
    // Such elements have tests of their own.
    let parts = class.state.iter().filter(|part| !class.samples.is_empty() && !part.handlers.is_empty());
    for part in parts {
        let StatePart { name, handlers, fate, .. } = part;
        let seen = if *fate == OnReload::Kept { kept } else { lost };
        let is_confirmed = seen.iter().any(|handler| part.is_shown_by(handler));
        match (is_confirmed, is_exception(unshown, class.name, name)) {
            (false, false) => found.push(format!("{}: no sample confirms the part {name}", class.name)),
            (true, true) => found.push(format!("{}: {name} is an exception without need", class.name)),
            _ => {}
        }
        for handler in handlers.iter() {
            let only = StatePart::kept(name, std::slice::from_ref(handler));
            if !known.iter().any(|known| only.is_shown_by(known)) {
                found.push(format!("{}: there is no handler {handler}", class.name));
            }
        }
    }
    found
}
