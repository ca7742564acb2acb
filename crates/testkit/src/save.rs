//! The generic test of what a restart keeps: compares each class with its declaration
//! ([`StatePart::on_disk`](element::StatePart::on_disk)).
//!
//! Each sample of a class gets packets and, at its handlers, entries of tables. Its state is saved, and
//! loaded into a fresh graph, with one worker and with several. The read handlers that show the saved parts
//! are compared. Then damaged bytes are loaded: if the damage is noticed, the element must have no part of
//! the state.

use std::collections::BTreeSet;

use element::{Class, Timestamp};
use engine::{ClockKind, Continued, SavedPiece, SavedRun, Workers};

use crate::elements::{collect, offer};
use crate::reload::{ENTRIES, Exceptions, guarded, is_exception, sorted};
use crate::samples::{ClassSample, all};
use crate::{Collector, TestRun, corpus, generic, workers};

/// The number of times that damaged bytes are loaded for each sample, with three kinds of damage in turn.
const DAMAGES: usize = 12;

/// The state that a sample has saved.
struct Saved {
    pieces: Vec<SavedPiece>,
    time: Timestamp,
    /// The names of the handlers that show the parts of the element's state that are saved.
    names: Vec<String>,
    /// The values of the handlers in `names`, of an element without packets and of the element when it was
    /// saved.
    values: [Vec<String>; 2],
}

/// Returns the names of those handlers of the element `e` that show parts of its state which its class
/// declares as saved.
fn handlers(class: &Class, workers: &mut Workers) -> Vec<String> {
    let id = workers.plan().graph.find("e");
    let all = workers.read(id, "handlers", "").unwrap_or_default();
    let names = all.lines().filter_map(|line| line.split_once('\t')).map(|(name, _)| name);
    let is_saved = |name: &&str| class.state.iter().any(|part| part.on_disk && part.is_shown_by(name));
    names.filter(is_saved).map(String::from).collect()
}

fn read(workers: &mut Workers, handlers: &[String]) -> Vec<String> {
    let id = workers.plan().graph.find("e");
    let value = |name: &String| sorted(&workers.read(id, name, "").unwrap_or_else(|error| error));
    handlers.iter().map(value).collect()
}

fn make(sample: &ClassSample, number: u64, run: TestRun) -> Result<Workers, String> {
    workers(&sample.text(number, 1, false), run.with(sample.classes), Box::new(Collector::default()))
}

/// Runs a sample, and saves its state.
fn save(sample: &ClassSample) -> Result<Saved, String> {
    let inputs = (0..sample.shape.0).map(|i| corpus::inputs(1 + i as u64)).collect();
    let number = offer(inputs);
    let made = make(sample, number, TestRun::default());
    let saved = made.and_then(|mut workers| {
        let handlers = handlers(sample.class, &mut workers);
        let fresh = read(&mut workers, &handlers);
        let id = workers.plan().graph.find("e");
        for (handler, value) in ENTRIES {
            // Most classes do not have the handler.
            let _ = workers.first().write(id, handler, value);
        }
        let _ = (0..64).take_while(|_| workers.first().step(32)).count();
        let now = read(&mut workers, &handlers);
        let (mut pieces, time) = (Vec::new(), workers.first().core().now);
        workers.save(|piece| {
            pieces.push(piece);
            true
        });
        workers.finish().map_err(|errors| errors.join("\n"))?;
        Ok(Saved { pieces, time, names: handlers, values: [fresh, now] })
    });
    drop(collect(number));
    saved
}

/// Loads state into a fresh graph: `pieces`, which were saved at `time`. Returns the values of the handlers
/// that show saved parts of the state, and the result of loading for each saved element.
fn load(
    sample: &ClassSample,
    (pieces, time): (&[SavedPiece], Timestamp),
    run: TestRun,
) -> Result<(Vec<String>, Vec<Continued>), String> {
    let number = offer(Vec::new());
    let made = make(sample, number, run);
    let loaded = made.and_then(|mut workers| {
        let saved = SavedRun::new(time, pieces.iter().cloned());
        workers.load(&saved);
        let handlers = handlers(sample.class, &mut workers);
        let values = read(&mut workers, &handlers);
        let continued = saved.continued(workers.plan()).into_iter().map(|(_, continued)| continued);
        let continued = continued.collect();
        workers.finish().map_err(|errors| errors.join("\n"))?;
        Ok((values, continued))
    });
    drop(collect(number));
    loaded
}

/// True if the value of a handler with several workers contains the value with one worker. An entry can be at
/// several workers, so numbers may be larger, and lines may be repeated and in another order.
fn includes(several: &str, one: &str) -> bool {
    let numbers =
        |text: &str| -> Option<Vec<u64>> { text.split_whitespace().map(|word| word.parse().ok()).collect() };
    match (numbers(one), numbers(several)) {
        (Some(one), Some(several)) => {
            one.len() == several.len() && one.iter().zip(&several).all(|(one, several)| several >= one)
        }
        _ => {
            // The last line of a list in JSON ends without a comma.
            let lines = |text: &str| -> BTreeSet<String> {
                text.lines().map(|line| line.trim_end_matches(',').into()).collect()
            };
            lines(one) == lines(several)
        }
    }
}

/// Compares the classes with their declarations, and returns all differences. `unshown` are parts of the
/// state that no sample fills. `counting` are handlers that are not compared with several workers, because
/// their values then differ.
///
/// # Errors
/// If the captures for samples cannot be written.
pub fn differences(
    classes: &[&'static Class],
    unshown: Exceptions,
    counting: Exceptions,
) -> std::io::Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    generic::prepare(folder.path())?;
    let mut found = Vec::new();
    for class in classes {
        let parts = class.state.iter().filter(|part| part.on_disk);
        if class.saved_form.is_some() != (parts.clone().count() > 0) {
            found.push(format!("{}: saved_form and on_disk do not agree", class.name));
        }
        if class.saved_form.is_none() {
            continue;
        }
        let mut is_filled = false;
        for sample in all(&[*class], folder.path()) {
            match guarded(|| check(&sample, counting)) {
                Ok((fills, differences)) => {
                    is_filled |= fills;
                    found.extend(differences.into_iter().map(|text| format!("{sample}: {text}")));
                }
                Err(error) => found.push(format!("{sample}: {error}")),
            }
        }
        for part in parts {
            match (is_filled, is_exception(unshown, class.name, part.name)) {
                (false, false) => found.push(format!("{}: no sample fills {}", class.name, part.name)),
                (true, true) => {
                    found.push(format!("{}: {} is an exception without need", class.name, part.name));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Checks one sample. Returns true if the handlers that show saved parts of the state had other values than
/// in an element without packets, and all differences.
fn check(sample: &ClassSample, counting: Exceptions) -> Result<(bool, Vec<String>), String> {
    let mut found = Vec::new();
    let Saved { pieces, time, names, values: [fresh, saved] } = save(sample)?;
    let same =
        TestRun { clock: ClockKind::Simulated { start: time, tick: Timestamp(1) }, ..TestRun::default() };
    let (values, continued) = load(sample, (&pieces, time), same)?;
    if values != saved {
        found.push(format!("was {saved:.300?} and is {values:.300?}: {continued:?}"));
    }
    if let Some(other) = continued.iter().find(|continued| !matches!(continued, Continued::Loaded(_))) {
        found.push(format!("the state is not loaded: {other:?}"));
    }
    for workers in [2, 3] {
        let run = TestRun::trace().on(workers);
        // The trace clock begins at 0, so all times are put back. Tables of neighbours save times in whole
        // milliseconds, so the times are put back by whole milliseconds.
        let whole = Timestamp(time.0 - time.0 % 1_000_000);
        let (several, continued) = load(sample, (&pieces, whole), run)?;
        // Each worker has a part of the table, which may have no room for all entries that are loaded into
        // it. The values of the handlers are not compared then.
        let refuses = |continued: &Continued| matches!(continued, Continued::Loaded(n) if n.refused > 0);
        if continued.iter().any(refuses) {
            continue;
        }
        for (name, (several, one)) in names.iter().zip(several.iter().zip(&values)) {
            let counts = is_exception(counting, sample.class.name, name);
            if !counts && !includes(several, one) {
                found.push(format!("{name} is {one:.200?}, with {workers} workers {several:.200?}"));
            }
        }
    }
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..DAMAGES {
        let damaged: Vec<SavedPiece> =
            pieces.iter().map(|piece| damage(piece, number, &mut random)).collect();
        let (values, continued) = load(sample, (&damaged, time), same)?;
        let is_damaged = continued.iter().any(|continued| matches!(continued, Continued::Damaged(_)));
        if is_damaged && values != fresh {
            found.push(format!("damaged state is loaded in part: {values:.300?}, not {fresh:.300?}"));
        }
        if number % 3 == 1 && !is_damaged && !pieces.is_empty() {
            found.push(format!("cut state is not noticed: {continued:?}"));
        }
    }
    Ok((fresh != saved, found))
}

/// Returns a piece of saved state in a damaged form: with a flipped bit, without its last byte, or with
/// random bytes. `number` selects these kinds of damage in turn.
fn damage(piece: &SavedPiece, number: usize, random: &mut fastrand::Rng) -> SavedPiece {
    let mut bytes = piece.bytes.clone();
    match number % 3 {
        0 => {
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u32(..8);
        }
        1 => _ = bytes.pop(),
        _ => bytes.iter_mut().for_each(|byte| *byte = random.u8(..)),
    }
    SavedPiece { bytes, ..piece.clone() }
}
