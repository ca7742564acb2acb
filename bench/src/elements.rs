//! The benchmark `elements`: measures each element class alone, between a replay from memory and a Discard,
//! to find unusually expensive classes. Each class has a row.

use element::{Class, Sample};
use engine::Worker;

use crate::floor::Floor;
use crate::frames::Start;
use crate::runner;
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

/// The length of frames in bytes.
const FRAME: usize = 64;
/// The number of packets in memory of the runs that find a suitable kind of packets for an element.
const PROBE: usize = 1_000;
/// Upper limits for the settings of the benchmark (packets in memory, repeats, packets per run), lower than
/// in other benchmarks because there are many classes. The packets in memory still take several times the
/// size of the second-level cache.
const PACKETS: usize = 40_000;
const REPEATS: usize = 5;
const PER_RUN: usize = 400_000;

pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let settings = Settings {
        repeats: settings.repeats.min(REPEATS),
        packets: settings.packets.min(PACKETS),
        per_run: settings.per_run.min(PER_RUN),
        ..settings.clone()
    };
    let mut floor = Floor::new(settings.packets, FRAME).map_err(|error| error.to_string())?;
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for class in nf::CLASSES {
        // Classes without inputs, such as sources and information elements, cannot be measured.
        let mut samples = Sample::all(class);
        samples.retain(|sample| sample.shape.0 > 0 && !sample.config.contains('$'));
        if samples.is_empty() {
            continue;
        }
        match measure(class, &samples, &settings, &mut floor) {
            Ok(row) => rows.push(row),
            Err(_) => missing.push(class.name),
        }
    }
    // Classes are not measured if they stop the driver or need other elements.
    eprintln!("not measured alone: {}", missing.join(", "));
    Ok(rows)
}

/// Measures one class. All combinations of its samples (arguments for tests) and kinds of packets are tried.
/// The measured combination is the one with which most packets leave by the first output, because the cost of
/// an element that rejects packets is of no interest.
fn measure(
    class: &'static Class,
    samples: &[Sample],
    settings: &Settings,
    floor: &mut Floor,
) -> Result<Row, String> {
    let mut best: Option<(usize, Start, String)> = None;
    let starts = [Start::Ethernet, Start::Ip, Start::Tcp, Start::Ip6];
    for (chain, start) in
        samples.iter().map(chain).flat_map(|chain| starts.map(|start| (chain.clone(), start)))
    {
        let mut worker = runner::worker(PROBE, FRAME, start, &chain)?;
        // A combination of sample and packets with which the element stops the driver is not used.
        if runner::drive(&mut worker, 4 * PROBE).is_ok() {
            // The integer quotient ignores a few packets that the element still holds, so that they do not
            // decide which combination is measured.
            let passed = passed(&worker) / PROBE;
            if best.as_ref().is_none_or(|(most, ..)| passed > *most) {
                best = Some((passed, start, chain));
            }
        }
        worker.finish().map_err(|errors| errors.join("; "))?;
    }
    let (_, start, chain) = best.ok_or("takes no packets")?;
    let mut worker = runner::worker(settings.packets, FRAME, start, &chain)?;
    runner::drive(&mut worker, settings.packets)?;
    floor.measure(settings.packets);
    let mut pairs = Vec::with_capacity(settings.repeats);
    for _ in 0..settings.repeats {
        let cost = runner::drive(&mut worker, settings.per_run)?;
        pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
    }
    worker.finish().map_err(|errors| errors.join("; "))?;
    let class = ("class", Param::Word(class.name));
    Ok(Row::new("elements", &[class], &pairs))
}

/// Returns the number of packets that left the measured element by output 0, which leads to the Discard
/// `first`.
fn passed(worker: &Worker) -> usize {
    worker.plan().graph.find("first").map_or(0, |id| worker.core().counters[id].arrived as usize)
}

/// Returns a chain with the element of a sample: its first input is connected to the replay, its outputs to
/// Discards, and other inputs to Idle elements.
fn chain(sample: &Sample) -> String {
    let mut text = format!("[0] e :: {}({})", sample.class.name, sample.config);
    if sample.pulls(false, 0) {
        text = format!("Queue(1024) -> {text}");
    }
    for input in 1..sample.shape.0 {
        text += &format!("; Idle -> [{input}] e");
    }
    for output in 0..sample.shape.1 {
        let name = if output == 0 { "first" } else { "other" };
        let sink = match (sample.pulls(true, output), name) {
            (true, "first") => "Unqueue(32) -> first :: Discard",
            (true, _) => "Unqueue(32) -> Discard",
            (false, "first") => "first :: Discard",
            (false, _) => "Discard",
        };
        text += &format!("; e [{output}] -> {sink}");
    }
    text
}
