//! Each element alone between a replay and a Discard, one row per class, so that an outlier shows.

use element::{Class, Sample};
use engine::Worker;

use crate::floor::Floor;
use crate::graph::{self, Start};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

/// Length of the frames.
const FRAME: usize = 64;
/// Packets that show whether an element gets what it is made for.
const PROBE: usize = 1_000;
/// There are many classes, so fewer packets in memory (still several times what the second cache level holds) and
/// fewer runs than elsewhere.
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
        // Sources and information get no packets.
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
    // Those that end the run, or need others beside them.
    eprintln!("not measured alone: {}", missing.join(", "));
    Ok(rows)
}

/// One class, with the first configuration and the kind of packets of which it lets most pass: what an element
/// costs that rejects everything is of no interest.
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
        // An element that ends the run or takes no packets is not measured.
        if graph::drive(&mut worker, 4 * PROBE).is_ok() {
            // A few packets more or less, which wait somewhere, do not tell configurations apart.
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

/// Packets that came out of the first output.
fn passed(worker: &Worker) -> usize {
    worker.plan().graph.find("first").map_or(0, |id| worker.core().counters[id].arrived as usize)
}

/// The element between what gives it packets and what takes them.
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
