//! Benchmarks of rule sets: `classify` measures look-ups alone, `firewall` an IPFilter in a chain.
//!
//! The headers that are looked up match rules that are drawn uniformly ([`headers`]).

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use classify::filter::{Condition, HeaderSlices, Matcher, classbench};
use fastrand::Rng;

use crate::floor::Floor;
use crate::frames::Start;
use crate::headers::{Start24, headers, headers_of_flows};
use crate::runner::{measure_worker, worker_of};
use crate::serde_params::Param;
use crate::{Pair, Row, Settings, source};

/// The number of random headers that are looked up, unless the run is small (`--small`).
const COUNT: usize = 1 << 16;
/// The numbers of rules of the generated rule sets, which are used without `--rules`.
const MADE: [usize; 2] = [1_000, 10_000];

/// Measures the benchmark `classify`: the cost of look-ups of the first matching rule, without packets.
/// Returns a row for each rule set.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    each_set(settings, |rules| {
        let conditions = conditions(rules)?;
        let started = Instant::now();
        let matcher = Matcher::new(&conditions);
        let built = started.elapsed();
        let count = if settings.repeats > 1 { COUNT } else { settings.packets.min(COUNT) };
        let headers = headers(&conditions, count);
        let look_up = |tell: &mut dyn FnMut(Option<usize>)| {
            for group in headers.chunks(32) {
                let all = group.iter().map(|bytes| HeaderSlices {
                    mac: &[],
                    network: &bytes[..20],
                    transport: &bytes[20..],
                });
                matcher.first_of_each(all, None, &mut *tell);
            }
        };
        if let Some(path) = &settings.asked {
            write_asked(path, &headers, look_up)?;
        }
        let mut floor = Floor::new(settings.packets, 64).map_err(|error| error.to_string())?;
        let rounds = settings.per_run.div_ceil(headers.len());
        let measured = || {
            let mut sum = 0;
            let started = Instant::now();
            (0..rounds).for_each(|_| look_up(&mut |rule| sum += rule.unwrap_or(rules.len())));
            black_box(sum);
            started.elapsed().as_nanos() as f64 / (rounds * headers.len()) as f64
        };
        measured();
        let pairs: Vec<Pair> = (0..settings.repeats)
            .map(|_| Pair { cost: measured(), floor: floor.measure(settings.per_run) })
            .collect();
        let params = [
            ("rules", Param::Number(rules.len() as u64)),
            ("kib", Param::Number(matcher.size() as u64 >> 10)),
            ("built_ms", Param::Number(built.as_millis() as u64)),
        ];
        let row = Row::new("classify", &params, &pairs);
        Ok(Row { excludes_floor: true, unit: "look-up", ..row })
    })
}

/// Measures the benchmark `firewall`: an IPFilter whose rules alternately permit and deny. Returns a row
/// for each frame length and rule set.
pub(crate) fn run_firewall(settings: &Settings) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for frame in [64, 1024] {
        rows.extend(firewall(settings, frame)?);
    }
    Ok(rows)
}

/// Measures the firewall with each rule set and frames of `frame` bytes.
fn firewall(settings: &Settings, frame: usize) -> Result<Vec<Row>, String> {
    each_set(settings, |rules| {
        let folder = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
        let file = folder.with_extension("rules");
        std::fs::write(&file, rules.join("\n")).map_err(|error| format!("{}: {error}", file.display()))?;
        let texts = alternating(rules);
        let frames = format!("BenchmarkHeaders({}, {}, {frame})", settings.packets, file.display());
        let chain = format!("CheckIPHeader(14) -> IPFilter({texts} deny all) -> Discard");
        let worker = worker_of(&frames, Start::Frame, &chain);
        // The source element has read the file while it was configured.
        let _ = std::fs::remove_file(&file);
        let params = [("frame", Param::Number(frame as u64)), ("rules", Param::Number(rules.len() as u64))];
        measure_worker("firewall", settings, frame, worker?, &params)
    })
}

/// Calls `measure` for each rule set and returns the rows: for the rule set of `--rules`, or else for each
/// generated rule set.
fn each_set(
    settings: &Settings,
    measure: impl Fn(&[String]) -> Result<Row, String>,
) -> Result<Vec<Row>, String> {
    match &settings.rules {
        Some(path) => Ok(vec![measure(&read(path)?)?]),
        None => MADE.iter().map(|&count| measure(&made(count))).collect(),
    }
}

/// Reads rules in ClassBench's form from a file: the lines that begin with `@`. A file without such lines
/// is an error.
pub(crate) fn read(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with('@'));
    let rules: Vec<String> = lines.map(String::from).collect();
    if rules.is_empty() {
        let example = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF";
        return Err(format!("{}: no rules in ClassBench's form, as '{example}'", path.display()));
    }
    Ok(rules)
}

/// Returns the arguments (action and pattern) of the IPFilter with the most rules in a configuration file.
/// An error if the configuration is invalid or has no IPFilter.
pub(crate) fn largest_filter(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut sources = lang::Sources::new();
    let id = sources.add(path.display().to_string(), text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    if let Some(problem) = diagnostics.iter().find(|problem| problem.severity == lang::Severity::Error) {
        return Err(problem.render(&sources));
    }
    let filters = graph.elements.iter().filter(|element| element.class == "IPFilter");
    let lists = filters.map(|element| lang::args::split(&element.config));
    let largest = lists.max_by_key(Vec::len).ok_or_else(|| format!("{}: no IPFilter", path.display()))?;
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(largest.iter().map(|arg| one_line(&arg.text)).collect())
}

/// Returns the arguments of an IPFilter that alternately permits and denies packets that match these rules.
/// If all rules had the same action, the compiler could merge them into one.
pub(crate) fn alternating(rules: &[String]) -> String {
    let actions = ["allow", "deny"].into_iter().cycle();
    rules.iter().zip(actions).map(|(rule, action)| format!("{action} {rule}, ")).collect()
}

/// Returns the arguments of an IPFilter in a chain, such that most packets reach the elements downstream: a
/// rule that contains `0.0.0.0/0` permits; of the other rules, those with an even index permit.
pub(crate) fn mostly_permitting(rules: &[String]) -> String {
    let actions = ["allow", "deny"].into_iter().cycle();
    let action = |rule: &str, action| if rule.contains("0.0.0.0/0") { "allow" } else { action };
    rules.iter().zip(actions).map(|(rule, other)| format!("{} {rule}, ", action(rule, other))).collect()
}

/// Generates `count` rules in ClassBench's form: pairs of prefixes, many of them short, and services. They
/// imitate no particular network. The same count gives the same rules.
pub(crate) fn made(count: usize) -> Vec<String> {
    let mut random = Rng::with_seed(1);
    let prefix = |random: &mut Rng| match random.u8(..8) {
        0 => "0.0.0.0/0".to_string(),
        kind => {
            let length = [8, 16, 20, 24, 24, 28, 32][usize::from(kind - 1)];
            // Prefixes have only 32 different first octets, so that many of them overlap.
            let address = random.u32(..32) << 24 | random.u32(..) & 0x00ff_ffff & u32::MAX << (32 - length);
            format!("{}/{length}", std::net::Ipv4Addr::from_bits(address))
        }
    };
    let ports = |random: &mut Rng| match random.u8(..4) {
        0 => "0 : 65535".to_string(),
        1 => "1024 : 65535".to_string(),
        _ => {
            let port = [22, 25, 53, 80, 123, 443, 3306, 8080][random.usize(..8)];
            format!("{port} : {port}")
        }
    };
    let rule = |_| {
        let (source, destination) = (prefix(&mut random), prefix(&mut random));
        let protocol = ["0x06/0xFF", "0x06/0xFF", "0x11/0xFF", "0x00/0x00"][random.usize(..4)];
        format!("@{source} {destination} 0 : 65535 {} {protocol}", ports(&mut random))
    };
    (0..count).map(rule).collect()
}

fn conditions(rules: &[String]) -> Result<Vec<Condition>, String> {
    let read = |(rule, line): (&String, usize)| {
        classbench(rule).map_err(|issue| format!("rule {line}, byte {}: {}", issue.span.start, issue.text))
    };
    rules.iter().zip(1..).map(read).collect()
}

/// Writes a capture of `packets` frames of `frame` bytes. For each rule there is one flow, whose frames match
/// the rule and may match other rules, too. The flow of each frame is chosen at random.
pub(crate) fn write_capture(
    file: &Path,
    rules: &[String],
    packets: usize,
    frame: usize,
) -> Result<(), String> {
    let conditions = conditions(rules)?;
    let frames = headers_of_flows(&conditions, packets, rules.len()).into_iter();
    let write = |file| source::write_frames(&file, frames.map(|header| source::frame_of(&header, frame)));
    std::fs::File::create(file).and_then(write).map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes a line for each header: source, destination, source port, destination port, protocol, and the
/// rule that was found for it, as numbers. Rules are counted from 1; 0 means that no rule matches.
fn write_asked(
    path: &Path,
    headers: &[Start24],
    look_up: impl Fn(&mut dyn FnMut(Option<usize>)),
) -> Result<(), String> {
    let mut text = String::new();
    let mut rest = headers.iter();
    look_up(&mut |rule| {
        let Some(bytes) = rest.next() else { return };
        let number = |at: usize, length: usize| {
            bytes[at..at + length].iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
        };
        let rule = rule.map_or(0, |rule| rule + 1);
        let [source, destination] = [number(12, 4), number(16, 4)];
        let [source_port, destination_port] = [number(20, 2), number(22, 2)];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{source} {destination} {source_port} {destination_port} {} {rule}", bytes[9]);
    });
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_filter_of_a_configuration_is_taken() {
        let file = tempfile::Builder::new().suffix(".click").tempfile().unwrap();
        let text = "elementclass F { $net | input -> IPFilter(allow src net $net && tcp, // one
            deny dst port 80   or dst port 81, drop all) -> output }
            Idle -> IPFilter(allow all) -> F(10.0.0.0/8) -> Discard";
        std::fs::write(file.path(), text).unwrap();
        let rules = largest_filter(file.path()).unwrap();
        assert_eq!(rules, ["allow src net 10.0.0.0/8 && tcp", "deny dst port 80 or dst port 81", "drop all"]);
        std::fs::write(file.path(), "Idle -> Discard").unwrap();
        assert!(largest_filter(file.path()).unwrap_err().contains("no IPFilter"));
    }
}
