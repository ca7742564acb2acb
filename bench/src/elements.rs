//! Each element alone between a replay and a Discard, with a row for each class, so that outliers show.

use element::{Class, Sample};
use engine::Worker;

use crate::floor::Floor;
use crate::graph::{self, Start};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

/// The length of the frames in bytes.
const FRAME: usize = 64;
/// The number of packets that show if an element accepts a kind of packets.
const PROBE: usize = 1_000;
/// The number of packets in memory. As there are many classes, it is lower than elsewhere, but still
/// several times the size of the second cache level; there are also fewer runs than elsewhere.
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
        // Sources and information elements receive no packets.
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
    // Classes are missing if they end the run or need other elements.
    eprintln!("not measured alone: {}", missing.join(", "));
    Ok(rows)
}

/// Measures one class, with the first configuration and the kind of packets that pass most. The cost of an
/// element that rejects all packets is of no interest.
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
        let mut worker = graph::worker(PROBE, FRAME, start, &chain)?;
        // Elements that end the run or take no packets are not measured.
        if graph::drive(&mut worker, 4 * PROBE).is_ok() {
            // The quotient ignores a few packets that are still held, which say nothing about the
            // configuration.
            let passed = passed(&worker) / PROBE;
            if best.as_ref().is_none_or(|(most, ..)| passed > *most) {
                best = Some((passed, start, chain));
            }
        }
        worker.finish().map_err(|errors| errors.join("; "))?;
    }
    let (_, start, chain) = best.ok_or("takes no packets")?;
    let mut worker = graph::worker(settings.packets, FRAME, start, &chain)?;
    graph::drive(&mut worker, settings.packets)?;
    floor.measure(settings.packets);
    let mut pairs = Vec::with_capacity(settings.repeats);
    for _ in 0..settings.repeats {
        let cost = graph::drive(&mut worker, settings.per_run)?;
        pairs.push(Pair { cost, floor: floor.measure(settings.per_run) });
    }
    worker.finish().map_err(|errors| errors.join("; "))?;
    let class = ("class", Param::Word(class.name));
    Ok(Row::new("elements", &[class], &pairs))
}

/// Returns the number of packets that left by the first output.
fn passed(worker: &Worker) -> usize {
    worker.plan().graph.find("first").map_or(0, |id| worker.core().counters[id].arrived as usize)
}

/// Returns the element with its sources and sinks.
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
