//! The benchmark `soak`: memory under floods. Each element with a table receives packets, each of which
//! creates a new entry, until the table is full and for some time afterwards. After the table is full, memory
//! must not grow.
//!
//! Each case runs in a process of its own, which is this program with other arguments. So the resident memory
//! contains the tables of a single case.

mod cases;
mod source;

use std::fmt::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use element::Class;
use element::steering::Spreading;
use engine::{Options, Workers};
use serde::{Deserialize, Serialize};
use sprayer::SpreadSettings as Spray;

use crate::runner::{Silence, configured, registry};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};
pub use cases::{CASES, FloodCase};
pub(crate) use source::{FLOOD, resident};

/// The number of frames, per entry that the table can have, that are sent to fill the table before memory is
/// measured. More than one is needed, because a table that has just become full still grows: its queues of
/// entries to evict contain outdated entries, up to half of the number of valid entries.
const FILL: u64 = 3;
/// The number of further frames, per entry that the table can have, that are sent before memory is measured.
/// After them, lists of events have wrapped around once, and all of their memory has been used. `MOST_ROUND`
/// limits the number of these frames for large tables.
const ROUND: u64 = 8;
const MOST_ROUND: u64 = 600_000;
/// The smallest number of frames before memory is measured, so that batches and queues have reached their
/// final size.
const WARM_UP: u64 = 20_000;
/// The size in bytes of a small entry. With it, a number of entries is converted to a bound in bytes, and
/// back.
const SMALL_ENTRY: u64 = 64;
/// The smallest bound, in bytes, that the benchmark gives a table whose bound is in bytes. It is above the
/// smallest bounds that the elements accept or use.
const LEAST: u64 = 128 << 10;
/// The memory in bytes for the packets of each worker. It may be used completely, if one worker sends more
/// than another worker takes.
const POOL: usize = 192 << 20;
/// The size in bytes of a packet's slot in the pool.
const PACKET: usize = 2368;
/// The number of packets whose memory is touched before the first measurement, so that this memory does not
/// count as memory of the table.
const UNDER_WAY: usize = 4096;
/// The growth of memory that is tolerated: `SLACK` bytes, for pages that the allocator touches for the first
/// time, and 1/`SLACK_PART` of the memory of the table.
const SLACK: u64 = 1 << 20;
const SLACK_PART: u64 = 32;

/// The result of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Soaked {
    /// The name of the argument that bounds the table.
    pub bound: String,
    /// The value of the argument that bounds the table; 0 if it is a default that is no number.
    pub capacity: u64,
    /// The number of frames sent.
    pub packets: u64,
    /// The number of frames sent after the table was full, and the seconds in which they were sent.
    pub counted: (u64, f64),
    /// The number of entries at the end; None if no handler reports the number.
    pub entries: Option<u64>,
    /// The resident memory in bytes: at the start, and after 10, 50 and 100 percent of the time with a full
    /// table.
    pub resident: [u64; 4],
    /// The memory of the table divided by its entries, in bytes; None if the number of entries is unknown.
    pub bytes_per_entry: Option<f64>,
    /// True if memory grew by more than the tolerated growth while the table was full.
    pub grows: bool,
}

impl Soaked {
    /// Returns the result in a word, "grows" or "bounded".
    pub fn verdict(&self) -> &'static str {
        if self.grows { "grows" } else { "bounded" }
    }

    /// Returns the memory of the table in bytes: the growth of the process from the start to the end.
    pub fn memory(&self) -> u64 {
        self.resident[3].saturating_sub(self.resident[0])
    }
}

/// True if memory grew by more than the tolerated growth between 10 and 100 percent of the time with a full
/// table.
fn grows([start, first, _, last]: [u64; 4]) -> bool {
    last > first + SLACK + first.saturating_sub(start) / SLACK_PART
}

/// Returns the default of the argument `bound` of a class; 0 if it is not a number.
pub fn default_of(class: &Class, bound: &str) -> u64 {
    class.arg(bound).and_then(|arg| arg.default.text()?.parse().ok()).unwrap_or(0)
}

/// Returns the value for the argument that bounds the table of a case, so that the table has up to `entries`
/// entries.
fn bound_of(case: &FloodCase, entries: u64) -> u64 {
    match case.bytes {
        0 => entries,
        bytes => (entries * SMALL_ENTRY).max(LEAST) / bytes,
    }
}

/// The assumed number of entries of a table whose default size is `auto`. The real number is not known,
/// because it depends on the memory for packets.
const AUTOMATIC: u64 = 1 << 20;

/// Runs a case in this process, for `milliseconds` milliseconds with a full table. The table has the
/// default size of its class, or `capacity` entries if given. `classes` are added to the known classes.
///
/// # Errors
/// If the configuration of the case is invalid or does not run to its end.
pub fn measure(
    case: &FloodCase,
    milliseconds: u64,
    capacity: Option<u64>,
    classes: &[&'static Class],
) -> Result<Soaked, String> {
    let registry = registry().with(&[&FLOOD]).with(classes);
    let class = registry.get(case.class).ok_or_else(|| format!("no class {}", case.class))?;
    let most = capacity.map_or(default_of(class, case.bound), |entries| bound_of(case, entries));
    let entries = match (most, case.bytes) {
        (0, _) => AUTOMATIC,
        (most, 0) => most,
        (most, bytes) => most * bytes / SMALL_ENTRY,
    };
    let fill = (entries * FILL + (entries * ROUND).min(MOST_ROUND)).max(WARM_UP);
    let text = text(case, fill, milliseconds, capacity.map(|_| most));
    let options = Options { memory: case.workers * POOL, ..Options::default() };
    let (plan, copies) = configured(text, case.workers, spreading(case).as_ref(), &registry)?;
    let mut workers = Workers::new(&plan, copies, Box::new(Silence), options)?;
    workers.initialize().map_err(|problem| problem.diagnostic.message)?;
    workers.run();
    let seen = workers.read(plan.graph.find("flood"), "seen", "")?;
    let mut told = None;
    if let Some((element, handler)) = case.entries.split_once('.') {
        let text = workers.read(plan.graph.find(element), handler, "")?;
        told = text.split_whitespace().next().and_then(|word| word.parse().ok());
    }
    workers.finish().map_err(|errors| errors.join("; "))?;
    let figures: Vec<u64> = seen.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let [packets, counted, resident @ ..] = &figures[..] else { return Err("the flood says nothing".into()) };
    let resident: [u64; 4] = resident.try_into().map_err(|_| "the flood has not run to its end")?;
    let mut soaked = Soaked {
        bound: case.bound.into(),
        capacity: most,
        packets: *packets,
        counted: (*counted, milliseconds as f64 / 1000.0),
        entries: told,
        resident,
        bytes_per_entry: None,
        grows: grows(resident),
    };
    let entries = told.or((most > 0 && case.bytes == 0).then_some(most)).filter(|&entries| entries > 0);
    soaked.bytes_per_entry = entries.map(|entries| soaked.memory() as f64 / entries as f64);
    Ok(soaked)
}

/// Returns the text of the configuration of a case. The flood sends `fill` frames before the measurement
/// begins.
fn text(case: &FloodCase, fill: u64, milliseconds: u64, capacity: Option<u64>) -> String {
    let bound = capacity.map_or(String::new(), |capacity| format!(", {} {capacity}", case.bound));
    let kind = trace::flood::Flood::ALL.iter().position(|&flood| flood == case.flood).unwrap_or(0);
    let chain = case.chain.replace("$bound", &bound).replace("(, ", "(");
    let under_way = if case.workers > 1 { POOL / PACKET } else { UNDER_WAY };
    format!("flood :: BenchmarkFlood({kind}, {fill}, {milliseconds}, {under_way}) {chain}")
}

/// Returns the policy that spreads packets of one flow over a case's workers; None for a single worker.
pub(crate) fn spreading(case: &FloodCase) -> Option<Arc<dyn Spreading>> {
    (case.workers > 1).then(|| Spray::default().spreading())
}

/// Measures all cases, each in a process of its own. The time is divided equally among the cases.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let milliseconds = (settings.soak.as_millis() as u64 / CASES.len() as u64).max(1);
    let mut rows = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        settings.progress.tell(&format!("soak: {}, {} of {}", case.class, number + 1, CASES.len()));
        let mut command = Command::new(&program);
        command.args(["bench", "soak", "--case", &number.to_string()]);
        command.args(["--milliseconds", &milliseconds.to_string()]);
        if let Some(capacity) = settings.capacity {
            command.args(["--capacity", &capacity.to_string()]);
        }
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("{} under {}: {}: {said}", case.class, case.flood.name(), output.status));
        }
        let soaked = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {said}"))?;
        rows.push(row(case, soaked));
    }
    Ok(rows)
}

/// Measures the case with index `number` in [`CASES`] and returns the result as JSON. This is the work of
/// each process that the benchmark starts.
///
/// # Errors
/// The errors of [`measure`]; also if there is no such case.
pub fn one(number: usize, milliseconds: u64, capacity: Option<u64>) -> Result<String, String> {
    let case = CASES.get(number).ok_or("no such case")?;
    let soaked = measure(case, milliseconds, capacity, &[])?;
    serde_json::to_string(&soaked).map_err(|error| error.to_string())
}

fn row(case: &FloodCase, soaked: Soaked) -> Row {
    let params = [
        ("class", Param::Word(case.class)),
        ("flood", Param::Word(case.flood.name())),
        ("threads", Param::Number(case.workers as u64)),
    ];
    let (packets, seconds) = soaked.counted;
    let cost = seconds * 1e9 / packets.max(1) as f64;
    // There is no floor to compare with, because generating the frame of a flood costs more than most
    // elements.
    let row = Row::new("soak", &params, &[Pair { cost, floor: cost }]);
    Row { excludes_floor: true, soak: Some(soaked), ..row }
}

/// Formats the rows of this benchmark as a table. Empty if there are no rows.
pub(crate) fn table(rows: &[&Row]) -> String {
    let mut text = String::new();
    if rows.is_empty() {
        return text;
    }
    let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let _ = writeln!(
        text,
        "{:22} {:16} {:>7} {:>11} {:>10} {:>10} {:>8} {:>8} {:>8} {:>7}  verdict",
        "class", "flood", "workers", "packets", "entries", "capacity", "10 %", "50 %", "100 %", "B/entry"
    );
    for row in rows {
        let Some(soaked) = &row.soak else { continue };
        let param = |name| row.params.get(name).map(ToString::to_string).unwrap_or_default();
        let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
        let [_, first, half, last] = soaked.resident.map(mebibytes);
        let _ = writeln!(
            text,
            "{:22} {:16} {:>7} {:>11} {:>10} {:>10} {first:>8} {half:>8} {last:>8} {:>7}  {}",
            param("class"),
            param("flood"),
            param("threads"),
            soaked.packets,
            number(soaked.entries),
            number(Some(soaked.capacity).filter(|&capacity| capacity > 0)),
            number(soaked.bytes_per_entry.map(|bytes| bytes.round() as u64)),
            soaked.verdict(),
        );
    }
    text + "Resident memory is in MiB, of a process for each row.\n"
}
