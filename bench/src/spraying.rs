//! The benchmark `sprayer`: one large connection, and several connections, on one worker and on two.
//!
//! Each connection is assigned to one worker, or its packets are spread over the workers: by the interface,
//! by software, or only if that makes the workers more equally busy (`auto`) (Sprayer, figures 6a and 7a).
//! The measured costs are the input of a simulation of more workers (figures 6a to 9).
//!
//! Packets come from an InMemoryNic, so that no generator takes processor time. The network function is the
//! paper's: an IPRewriter, which looks up the connection of each packet and rewrites its header, and a number
//! of cycles of work per packet. Payloads differ, so that checksums differ.

mod costs;
mod figures;
mod ring;
mod simulation;
mod tables;
mod traffic;

use element::class::ArgInfo;
use element::{Batch, Class, Cx, Effects, Element};
use sprayer::{Policy, SpreadSettings as Spray};

use crate::floor::Floor;
use crate::serde_params::Param;
use crate::workers::once;
use crate::{Pair, Row, Settings, median};
pub(crate) use figures::Part;
use figures::{Figures, Place};
pub(crate) use tables::{is_one_of, tables};
use traffic::FRAME;

/// The classes of elements that this benchmark adds.
pub(crate) static CLASSES: &[&Class] = &[&WORK];

/// The amounts of work per packet, in processor cycles, that are measured with one connection (`CYCLES`), and
/// the numbers of connections that are measured with the largest amount of work (`CONNECTIONS`).
const CYCLES: [u64; 4] = [0, 1_000, 3_000, 10_000];
const CONNECTIONS: [u16; 4] = [2, 4, 16, 64];
/// The most processor cycles for all packets of a run together (`MOST_CYCLES`), and the cycles that a packet
/// is assumed to take apart from its work (`EACH`). They limit the number of packets of a run.
const MOST_CYCLES: u64 = 200_000_000;
const EACH: u64 = 300;

/// A way to assign packets to workers: by the interface's queues, and then by a policy that spreads packets,
/// if any.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    threads: usize,
    /// The argument STEERING of the interface: how it assigns packets to the queues of the workers.
    queues: &'static str,
    spreading: Option<Policy>,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "rss", threads: 1, queues: "rss", spreading: None },
    Variant { name: "rss", threads: 2, queues: "rss", spreading: None },
    Variant { name: "spray, by the interface", threads: 2, queues: "spray", spreading: Some(Policy::Spray) },
    Variant { name: "spray, by software", threads: 2, queues: "rss", spreading: Some(Policy::Spray) },
    Variant { name: "auto", threads: 2, queues: "rss", spreading: Some(Policy::Auto) },
];

/// The parameters of a measurement: the work per packet in cycles, and the number of connections.
#[derive(Clone, Copy)]
struct Case {
    cycles: u64,
    connections: u16,
    /// The number of packets in memory (`packets`), and the number of times that a run replays them
    /// (`loops`).
    packets: usize,
    loops: u64,
}

impl Case {
    fn new(settings: &Settings, cycles: u64, connections: u16) -> Case {
        let packets = settings.packets.min(20_000);
        let most = (settings.per_run as u64).min(MOST_CYCLES / (cycles + EACH));
        Case { cycles, connections, packets, loops: most.div_ceil(packets as u64) }
    }
}

/// Measures the costs that the simulation needs. Then simulates one connection whose packets are spread over
/// a part of the workers, and one connection that is spread burst by burst.
pub(crate) fn parts(settings: &Settings) -> Result<Vec<Part>, String> {
    let mut floor = Floor::new(settings.packets, FRAME).map_err(|e| e.to_string())?;
    let most = CYCLES[CYCLES.len() - 1];
    let mut alone = |cycles| -> Result<Row, String> {
        let rows = measured(Case::new(settings, cycles, 1), settings, &mut floor)?;
        rows.into_iter().next().ok_or_else(|| "nothing measured".into())
    };
    let (idle, busy) = (alone(0)?, alone(most)?);
    let cycle = (busy.ns_per_packet - idle.ns_per_packet).max(0.0) / most as f64;
    let (_, [_, handing]) = ring::run(settings, &mut floor)?;
    let costs = costs::measure(settings, handing)?;
    Ok(Figures::new(settings, costs, cycle, idle.floor_ns)?.parts())
}

pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let with_work = CYCLES.map(|cycles| (cycles, 1));
    let with_flows = CONNECTIONS.map(|connections| (CYCLES[CYCLES.len() - 1], connections));
    let mut floor = Floor::new(settings.packets, FRAME).map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    for (cycles, connections) in with_work.into_iter().chain(with_flows) {
        let case = Case::new(settings, cycles, connections);
        rows.extend(measured(case, settings, &mut floor)?);
        cases.push(case);
    }
    // The cost of a packet on one worker, by the index of the case. The first case has 0 cycles of work, so a
    // difference to it is the time of the work.
    let alone = |case: usize| rows[case * VARIANTS.len()].ns_per_packet;
    let work: Vec<f64> = (0..cases.len()).map(|case| (alone(case) - alone(0)).max(0.0)).collect();
    let cycle = work[CYCLES.len() - 1] / CYCLES[CYCLES.len() - 1] as f64;
    let (ring, [_, handing]) = ring::run(settings, &mut floor)?;
    let costs = costs::measure(settings, handing)?;
    let mut figures = Figures::new(settings, costs, cycle, rows[0].floor_ns)?;
    for (case, work) in cases.iter().zip(work) {
        let place = Place { workers: 2, cycles: case.cycles, connections: case.connections };
        rows.extend(figures.compared(place, case.packets * case.loops as usize, work));
    }
    rows.extend(figures.rows());
    rows.extend(figures.cost_rows());
    rows.extend(ring);
    Ok(rows)
}

/// Measures one case with each variant, alternately in rounds. Returns a row for each variant.
fn measured(case: Case, settings: &Settings, floor: &mut Floor) -> Result<Vec<Row>, String> {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").map_err(|e| e.to_string())?;
    traffic::write(file.as_file(), case.packets, case.connections)?;
    let mut pairs = VARIANTS.map(|_| Vec::new());
    for _ in 0..settings.repeats {
        let beside = floor.measure(settings.per_run / 4);
        for (way, pairs) in VARIANTS.iter().zip(&mut pairs) {
            let text = traffic::configuration(file.path(), case.loops, way.queues, case.cycles);
            let spreading = way.spreading.map(|policy| Spray { policy, ..Spray::default() }.spreading());
            let cost = once(CLASSES, &text, way.threads, spreading.as_ref())?;
            pairs.push(Pair { cost, floor: beside });
        }
    }
    let [one, ..] = &pairs;
    let times = |pairs: &Vec<Pair>| median(one.iter().zip(pairs).map(|(a, b)| a.cost / b.cost).collect());
    let row = |(way, pairs): (&Variant, &Vec<Pair>)| {
        let params = [
            ("steering", Param::Word(way.name)),
            ("threads", Param::Number(way.threads as u64)),
            ("cycles", Param::Number(case.cycles)),
            ("flows", Param::Number(case.connections.into())),
        ];
        let speedup = (way.threads > 1).then(|| times(pairs));
        Row { speedup, ..Row::new("sprayer", &params, pairs) }
    };
    Ok(VARIANTS.iter().zip(&pairs).map(row).collect())
}

/// The class of an element that waits for CYCLES processor cycles per packet.
static WORK: Class = Class {
    name: "BenchmarkWork",
    args: &[ArgInfo::required("CYCLES", "unsigned")],
    build: |args| {
        let cycles = args.required("CYCLES");
        args.finish()?;
        Ok(Box::new(Work { cycles }))
    },
    ..Class::DEFAULT
};

struct Work {
    cycles: u64,
}

impl Element for Work {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        for _ in batch.iter() {
            let start = cx.cycles();
            while cx.cycles().wrapping_sub(start) < self.cycles {
                std::hint::spin_loop();
            }
        }
    }
}
