//! The benchmark `lpm`: look-ups of routes, without packets.

use std::fmt::Write;
use std::hint::black_box;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Instant;

use classify::prefixes::{Address, Prefix, PrefixEntry, PrefixTable};
use fastrand::Rng;

use crate::floor::Floor;
use crate::serde_params::Param;
use crate::{Pair, Row, Settings};

/// The number of random addresses that are looked up, unless the run is small.
const COUNT: usize = 1 << 20;
/// The number of generated prefixes, which are used without `--routes`.
const MADE: u32 = 100_000;

/// Measures look-ups in the prefixes of `--routes`, with a row for each version of IP, or in generated
/// prefixes. The look-up returns the index of the longest matching prefix. Of eight addresses, seven lie in a
/// prefix that is drawn uniformly, and one is random.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    let (four, six) = match &settings.routes {
        Some(path) => read(path)?,
        None => (made(), Vec::new()),
    };
    let mut rows = Vec::new();
    if !four.is_empty() {
        rows.push(measure(settings, 4, &four, |address| u64::from(address).to_string())?);
    }
    if !six.is_empty() {
        let settings = Settings { asked: None, ..settings.clone() };
        rows.push(measure(&settings, 6, &six, |_: u128| String::new())?);
    }
    Ok(rows)
}

fn measure<A: Address>(
    settings: &Settings,
    version: u64,
    prefixes: &[Prefix<A>],
    show: impl Fn(A) -> String,
) -> Result<Row, String> {
    let started = Instant::now();
    let mut table = PrefixTable::new();
    for (&prefix, value) in prefixes.iter().zip(0..) {
        table.insert(prefix, PrefixEntry { value, note: 0 });
    }
    let built = started.elapsed();
    let mut random = Rng::with_seed(1);
    let count = if settings.repeats > 1 { COUNT } else { settings.packets.min(COUNT) };
    let address = |number: usize| {
        let prefix = prefixes[random.usize(..prefixes.len())];
        let (first, last) = (prefix.first().to_bits(), prefix.last().to_bits());
        let inside = first | random.u128(..) & (first ^ last);
        A::from_bits(if number.is_multiple_of(8) { random.u128(..) } else { inside })
    };
    let addresses: Vec<A> = (0..count).map(address).collect();
    let mut values = vec![None; 32];
    if let Some(path) = &settings.asked {
        let mut text = String::new();
        for group in addresses.chunks(32) {
            table.lookup_batch(group, &mut values);
            for (&address, value) in group.iter().zip(&values) {
                let value = value.map_or(-1, i64::from);
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{} {value}", show(address));
            }
        }
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut floor = Floor::new(settings.packets, 64).map_err(|error| error.to_string())?;
    let rounds = settings.per_run.div_ceil(addresses.len());
    let mut measured = || {
        let mut sum = 0;
        let started = Instant::now();
        for group in (0..rounds).flat_map(|_| addresses.chunks(32)) {
            table.lookup_batch(group, &mut values);
            sum += values.iter().flatten().map(|&value| u64::from(value)).sum::<u64>();
        }
        black_box(sum);
        started.elapsed().as_nanos() as f64 / (rounds * addresses.len()) as f64
    };
    measured();
    let pairs: Vec<Pair> = (0..settings.repeats)
        .map(|_| Pair { cost: measured(), floor: floor.measure(settings.per_run) })
        .collect();
    let params = [
        ("ip", Param::Number(version)),
        ("routes", Param::Number(table.len() as u64)),
        ("built_ms", Param::Number(built.as_millis() as u64)),
    ];
    Ok(Row { excludes_floor: true, unit: "look-up", ..Row::new("lpm", &params, &pairs) })
}

/// The IPv4 and the IPv6 prefixes of a file. The first word of each line is a prefix; the rest of the line
/// is ignored.
type Prefixes = (Vec<Prefix<u32>>, Vec<Prefix<u128>>);

fn read(path: &Path) -> Result<Prefixes, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = std::fs::read(path).map_err(failed)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).map_err(failed)?;
        bytes = plain;
    }
    let text = String::from_utf8_lossy(&bytes);
    let (mut four, mut six) = (Vec::new(), Vec::new());
    for (line, number) in text.lines().zip(1..) {
        let Some(word) = line.split_whitespace().next() else { continue };
        let parts = word.split_once('/').and_then(|(a, n)| Some((a, n.parse::<u8>().ok()?)));
        match parts {
            Some((address, length @ 0..=32)) if let Ok(address) = address.parse::<Ipv4Addr>() => {
                four.push(Prefix::new(address.to_bits(), length));
            }
            Some((address, length @ 0..=128)) if let Ok(address) = address.parse::<Ipv6Addr>() => {
                six.push(Prefix::new(address.to_bits(), length));
            }
            _ => return Err(format!("{}:{number}: '{word}' is no prefix, as 192.0.2.0/24", path.display())),
        }
    }
    Ok((four, six))
}

/// Generates IPv4 prefixes of 16 to 28 bits, spread over the whole address space.
fn made() -> Vec<Prefix<u32>> {
    (0..MADE).map(|number| Prefix::new(number.wrapping_mul(0x9e37_79b1), (16 + number % 13) as u8)).collect()
}
