//! Runs every command on damaged configurations and captures, with limits of memory and processor time. Each
//! run must end by itself or when it is asked to, with an exit status, and never by a signal or a panic.
//!
//! `TIDEGATE_MUTATIONS=30000 cargo test --release -p tidegate --test mutations` tries 30,000 damaged files;
//! `TIDEGATE_SEED` sets the seed of the first one.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

/// The limits of each run: the address space in KiB (`MEMORY`), and the processor time in seconds
/// (`SECONDS`).
const MEMORY: u64 = 8 << 20;
const SECONDS: u64 = 120;
/// The seconds after which a run is asked to end, and the seconds from that request until it is killed.
const PATIENCE: [&str; 2] = ["3", "60"];
/// The number of runs, unless the environment variable `TIDEGATE_MUTATIONS` gives another number.
const RUNS: u64 = 300;
/// Texts of configurations that use resources outside the test's folder, or wait for them.
const OUTSIDE: [&str; 10] = [
    "Device",
    "XDP",
    "KernelTap",
    "KernelTun",
    "Host",
    "Socket",
    "ChangeUID",
    "KernelFilter",
    "Script(TYPE SIGNAL",
    "/dev",
];
/// Numbers at the edges of types, and texts that are no numbers.
const EXTREMES: [&str; 12] = [
    "0",
    "-1",
    "255",
    "256",
    "65536",
    "4294967296",
    "18446744073709551616",
    "1e308",
    "nan",
    "9223372036854775807s",
    "0x",
    "",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Returns the files below a folder that have this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path, extension),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|own| own == extension))
        .collect();
    found.sort();
    found
}

/// Returns the shipped configurations that contain none of the texts in [`OUTSIDE`].
fn configurations() -> Vec<String> {
    let texts = files(&root().join("configs"), "click")
        .into_iter()
        .map(|file| std::fs::read_to_string(file).unwrap());
    let keeps_inside = |text: &String| !OUTSIDE.iter().any(|word| text.contains(word));
    let texts: Vec<String> = texts.filter(keeps_inside).collect();
    assert!(texts.len() > 10, "the configurations were not found");
    texts
}

/// Damages a text: removes, doubles or replaces pieces, changes numbers, or inserts characters.
fn damaged_text(random: &mut Rng, texts: &[String]) -> String {
    let mut text: Vec<char> = random.choice(texts).unwrap().chars().collect();
    for _ in 0..random.usize(1..=2) {
        let from = random.usize(0..=text.len());
        let to = (from + random.usize(0..24)).min(text.len());
        match random.u32(0..12) {
            0 => drop(text.drain(from..to)),
            1 => {
                let piece = text[from..to].to_vec();
                text.splice(from..from, piece);
            }
            2 => {
                let other: Vec<char> = random.choice(texts).unwrap().chars().collect();
                let at = random.usize(0..=other.len());
                let piece = other[at..(at + 40).min(other.len())].to_vec();
                text.splice(from..to, piece);
            }
            3 => text.splice(from..to, random.choice(EXTREMES).unwrap().chars()).for_each(drop),
            // Half of the damages replace the next number in the text by an extreme value.
            4..=9 => {
                let is_digit = |place: &usize| text[*place].is_ascii_digit();
                if let Some(start) = (from..text.len()).find(is_digit) {
                    let end = (start..text.len()).find(|place| !is_digit(place)).unwrap_or(text.len());
                    text.splice(start..end, random.choice(EXTREMES).unwrap().chars());
                }
            }
            _ => text.insert(
                from,
                random.choice(['(', ')', '[', ']', ',', ';', '"', '$', '\\', '\0', '{', '|', '>']).unwrap(),
            ),
        }
    }
    text.into_iter().collect()
}

/// Damages a capture: flips bits, replaces words, cuts off the end, or repeats pieces at other places.
fn damaged_capture(random: &mut Rng, capture: &[u8]) -> Vec<u8> {
    let mut bytes = capture.to_vec();
    for _ in 0..random.usize(1..=8) {
        // At least half of the damages start in the first 128 bytes, where the header of the file is.
        let end = if random.bool() { bytes.len().min(128) } else { bytes.len() };
        let place = random.usize(0..end.max(1));
        match random.u32(0..4) {
            0 => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << random.u32(0..8)),
            1 => {
                let word = random.choice([0u32, u32::MAX, 1 << 31, 0x7fff_ffff, 65_535]).unwrap();
                for (byte, new) in bytes.iter_mut().skip(place & !3).zip(word.to_le_bytes()) {
                    *byte = new;
                }
            }
            2 => bytes.truncate(place.max(1)),
            _ => {
                let piece = bytes[place..(place + 64).min(bytes.len())].to_vec();
                let at = random.usize(0..=bytes.len());
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Runs the program in a folder, with limits of memory and processor time. With `patience`, the program is
/// asked to end after [`PATIENCE`].
fn limited(folder: &Path, arguments: &[&str], patience: bool) -> Output {
    let script = format!("ulimit -v {MEMORY} && ulimit -t {SECONDS} && ulimit -c 0 && exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]);
    if patience {
        command.args(["timeout", "-s", "TERM", "-k", PATIENCE[1], PATIENCE[0]]);
    }
    command.arg(env!("CARGO_BIN_EXE_tidegate")).args(arguments).current_dir(folder);
    command.env("TIDEGATE_PROOFS", folder).stdin(std::process::Stdio::null()).output().unwrap()
}

/// Returns the fault of a run: a signal, a panic, or no end in time. `None` if it ended well or with an
/// error.
fn fault(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let end = match (output.status.signal(), output.status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        // `sh` and `timeout` report a signal as a status above 124, and Rust reports a panic as 101. The
        // status 124 means that `timeout` asked the program to end, and that it ended.
        (_, Some(code @ 125..)) => format!("exit status {code}"),
        (_, Some(101)) => "a panic".into(),
        _ if said.contains("panicked at") => "a panic of a thread".into(),
        _ => return None,
    };
    let tail: Vec<&str> = said.lines().rev().take(3).collect();
    Some(format!("{end}: {}", tail.into_iter().rev().collect::<Vec<_>>().join(" | ")))
}

/// Damages a file, runs a command on it (both chosen by the seed), and returns true if it succeeded, or ended
/// when it was asked to.
///
/// # Errors
/// If the run has a fault.
fn attempt(seed: u64, texts: &[String], capture: &[u8]) -> Result<bool, String> {
    let mut random = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("configs"), folder.path().join("configs")).unwrap();
    let is_text = random.bool();
    let (arguments, name): (Vec<&str>, &str) = if is_text {
        std::fs::write(folder.path().join("x.click"), damaged_text(&mut random, texts)).unwrap();
        let commands: [&[&str]; 8] = [
            &["run", "x.click", "-q", "--clock", "trace", "--memory", "64M"],
            &["run", "x.click", "-q", "--memory", "64M", "--threads", "2"],
            &["run", "x.click", "-q", "--clock", "trace", "--memory", "64M", "--synthesize"],
            &["click", "-q", "x.click"],
            &["check", "x.click", "--seconds", "2"],
            &["flatten", "x.click"],
            &["synthesize", "x.click", "--seconds", "1"],
            &["verify", "x.click", "x.click", "--seconds", "1"],
        ];
        (random.choice(commands).unwrap().to_vec(), "x.click")
    } else {
        std::fs::write(folder.path().join("x.pcap"), damaged_capture(&mut random, capture)).unwrap();
        let commands: [&[&str]; 5] = [
            &["analyze", "x.pcap", "--json"],
            &["analyze", "x.pcap", "--html", "x.html"],
            &["advise", "x.pcap", "--json"],
            &["multiply", "x.pcap", "--windows", "4", "--length", "1ms", "-o", "y.pcap"],
            &["run", "configs/quickstart.click", "-q", "--clock", "trace", "--memory", "64M", "IN=x.pcap"],
        ];
        (random.choice(commands).unwrap().to_vec(), "x.pcap")
    };
    // Only `run` and `click` are asked to end, because sources without an end would keep them running.
    let patience = matches!(arguments[0], "run" | "click");
    let output = limited(folder.path(), &arguments, patience);
    let Some(fault) = fault(&output) else { return Ok(matches!(output.status.code(), Some(0 | 124))) };
    let kept = std::env::temp_dir().join(format!("tidegate-mutation-{seed}-{name}"));
    let _ = std::fs::copy(folder.path().join(name), &kept);
    Err(format!(
        "TIDEGATE_SEED={seed} TIDEGATE_MUTATIONS=1: tidegate {}: {fault}; the file is {}",
        arguments.join(" "),
        kept.display()
    ))
}

#[test]
fn damaged_files_end_no_command_badly() {
    let (first, runs) = (from_environment("TIDEGATE_SEED", 1), from_environment("TIDEGATE_MUTATIONS", RUNS));
    let texts = configurations();
    let capture = std::fs::read(root().join("configs/data/quickstart.pcap")).unwrap();
    let (next, successes) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        let mut failures = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed - first >= runs {
                return failures;
            }
            match attempt(seed, &texts, &capture) {
                Ok(is_success) => drop(successes.fetch_add(is_success.into(), Ordering::Relaxed)),
                Err(failure) => failures.push(failure),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} of {runs}:\n{}", failures.len(), failures.join("\n"));
    println!("{} of {runs} ended well", successes.load(Ordering::Relaxed));
    // At least a tenth of the runs succeed: not all damaged files are refused immediately.
    let successes = successes.into_inner();
    assert!(successes >= runs / 10, "only {successes} of {runs} ended well");
}

/// `fault` notices a command that ends by a signal, a panic or a bad exit status.
#[test]
fn bad_ends_are_noticed() {
    let ends = |script: &str| fault(&Command::new("sh").args(["-c", script]).output().unwrap());
    assert_eq!(ends("exit 0").or(ends("exit 1")).or(ends("exit 4")).or(ends("exit 124")), None);
    for script in
        ["kill -ABRT $$", "exit 101", "exit 134", "exit 137", "echo thread panicked at x >&2; exit 1"]
    {
        assert!(ends(script).is_some(), "{script}");
    }
}
