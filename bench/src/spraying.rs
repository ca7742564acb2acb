//! One large connection, and several, on one worker and on two: a translator and so many cycles of work per packet, with each
//! connection at one worker, spread by the interface, by software, and only where that pays (Sprayer, figures 6a and 7a).
//!
//! Packets come from an InMemoryNic, so that no generator is in the way. The function is the paper's: an entry for each
//! connection, which each packet looks up, a header that is rewritten, and work. Payloads vary, so that checksums do.

use element::class::ArgInfo;
use element::{Batch, Class, Cx, Effects, Element};
use sprayer::{Policy, Settings as Spray};
use wire::build::Builder;
use wire::tcp::flags::{ACK, SYN};

use crate::floor::Floor;
use crate::serde_params::Param;
use crate::workers::once;
use crate::{Pair, Row, Settings, median};

/// Elements of this benchmark.
pub(crate) static CLASSES: &[&Class] = &[&WORK];

/// Cycles of work per packet with one connection, and numbers of connections with the most work.
const CYCLES: [u64; 4] = [0, 1_000, 3_000, 10_000];
const CONNECTIONS: [u16; 4] = [2, 4, 16, 64];
/// Work of all packets of a run, in cycles, beside what each takes itself.
const MOST_CYCLES: u64 = 200_000_000;
const EACH: u64 = 300;

/// How packets come to workers.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    threads: usize,
    /// How the interface gives them to its queues.
    queues: &'static str,
    spreading: Option<Policy>,
}

const WAYS: [Way; 5] = [
    Way { name: "rss", threads: 1, queues: "rss", spreading: None },
    Way { name: "rss", threads: 2, queues: "rss", spreading: None },
    Way { name: "spray, by the interface", threads: 2, queues: "spray", spreading: Some(Policy::Spray) },
    Way { name: "spray, by software", threads: 2, queues: "rss", spreading: Some(Policy::Spray) },
    Way { name: "auto", threads: 2, queues: "rss", spreading: Some(Policy::Auto) },
];

pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let with_work = CYCLES.map(|cycles| (cycles, 1));
    let with_flows = CONNECTIONS.map(|connections| (CYCLES[CYCLES.len() - 1], connections));
    let mut floor = Floor::new(settings.packets, FRAME).map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    for (cycles, connections) in with_work.into_iter().chain(with_flows) {
        let file = tempfile::NamedTempFile::with_suffix(".pcap").map_err(|e| e.to_string())?;
        let packets = settings.packets.min(20_000);
        write(file.as_file(), packets, connections)?;
        let most = (settings.per_run as u64).min(MOST_CYCLES / (cycles + EACH));
        let loops = most.div_ceil(packets as u64);
        let mut pairs = WAYS.map(|_| Vec::new());
        for _ in 0..settings.repeats {
            let beside = floor.measure(settings.per_run / 4);
            for (way, pairs) in WAYS.iter().zip(&mut pairs) {
                let text = format!(
                    "nic :: InMemoryNic({}, LOOPS {loops}, STEERING {}) -> MarkIPHeader(14)
                    -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop)
                    -> BenchmarkWork({cycles}) -> Discard; Idle -> [1] nat[1] -> Discard",
                    file.path().display(),
                    way.queues
                );
                let spreading = way.spreading.map(|policy| Spray { policy, ..Spray::default() }.spreading());
                let cost = once(&text, way.threads, spreading.as_ref())?;
                pairs.push(Pair { cost, floor: beside });
            }
        }
        let [one, ..] = &pairs;
        let times = |pairs: &Vec<Pair>| median(one.iter().zip(pairs).map(|(a, b)| a.cost / b.cost).collect());
        for (way, pairs) in WAYS.iter().zip(&pairs) {
            let params = [
                ("steering", Param::Word(way.name)),
                ("threads", Param::Number(way.threads as u64)),
                ("cycles", Param::Number(cycles)),
                ("flows", Param::Number(connections.into())),
            ];
            let speedup = (way.threads > 1).then(|| times(pairs));
            rows.push(Row { speedup, ..Row::new("sprayer", &params, pairs) });
        }
    }
    Ok(rows)
}

/// Bytes of a frame.
const FRAME: usize = 64;

/// A capture of connections: one segment of each opens it, and all others carry something else each.
fn write(file: &std::fs::File, packets: usize, connections: u16) -> Result<(), String> {
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    let mut random = fastrand::Rng::with_seed(6);
    for number in 0..packets {
        let connection = (number % usize::from(connections)) as u16;
        let flags = if number < usize::from(connections) { SYN } else { ACK };
        let from = ([10, 0, (connection >> 8) as u8, connection as u8], 2000 + connection * 7);
        let frame = Builder::tcp(from.into(), ([10, 9, 0, 1], 443).into(), flags)
            .ethernet(wire::MacAddr([2; 6]), wire::MacAddr([4; 6]))
            .build(&random.u64(..).to_le_bytes());
        let frame = frame.map_err(|e| e.to_string())?;
        writer.write(number as i64, frame.len() as u32, [&frame[..]]).map_err(|e| e.to_string())?;
    }
    writer.flush().map_err(|e| e.to_string())
}

/// Works for so many cycles per packet.
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
