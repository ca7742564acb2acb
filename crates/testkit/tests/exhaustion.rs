//! Tests that no element ends the process when memory runs out while packets come. State that cannot be
//! stored is refused, and every packet is counted.
//!
//! Each element that keeps state gets floods of packets while the process can only allocate little more
//! memory. The element runs in a separate process ([`child`]), because a process that aborts has to be
//! detected ([`parent`]).

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use element::effects::Hold;
use element::{Class, Timestamp};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use packet::Annotations;
use testkit::elements::{TestPacket, collect, offer};
use testkit::samples::{ClassSample, all};
use testkit::{TestRun, classes, workers};
use trace::flood::Flood;

/// The number of packets for each input: 1,500 of each of twelve kinds of flood, in turn.
const PACKETS: u64 = 12 * 1500;
/// The numbers of bytes that can still be allocated when the first packet comes; each sample runs with all
/// of them.
const ROOM: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// The maximum number of allocations by which the test uses up all memory except the bytes of an entry of
/// [`ROOM`].
const PIECES: usize = 1 << 20;
/// The environment variable with the index of the first sample that a child process runs. It then runs
/// every second one.
const FROM: &str = "TIDEGATE_EXHAUSTION_FROM";
const PROCESSES: usize = 2;

/// True if the argument with this name limits the state of an element.
fn is_bound(name: &str) -> bool {
    let words = ["CAPACITY", "HIMEM", "MEMORY", "ENTRIES", "FLOWS", "MAX_OPEN", "MAX_HELD", "BUFFER"];
    words.iter().any(|word| name.contains(word))
}

/// Returns the reason why a sample is not tested; `None` if it is tested.
fn left_out(sample: &ClassSample) -> Option<&'static str> {
    if sample.shape.0 == 0 {
        return Some("no packets come to it");
    }
    let Ok(effects) = sample.effects() else { return Some("not without others beside it") };
    let keeps = !effects.state.is_empty()
        || effects.hold != Hold::None
        || sample.class.args.iter().any(|arg| is_bound(arg.name));
    (!keeps).then_some("keeps nothing, by its declaration")
}

/// Returns all samples of all classes. Each sample with a bound is also returned without it, to test the
/// default bound.
fn samples() -> Vec<ClassSample> {
    let folder = std::env::temp_dir();
    let classes: Vec<&'static Class> = classes().collect();
    let mut samples = all(&classes, &folder);
    let unbound = |sample: &ClassSample| {
        let args = lang::args::split(&sample.config);
        let rest: Vec<_> = args
            .iter()
            .map(|arg| arg.text.as_str())
            .filter(|text| !text.split_whitespace().next().is_some_and(is_bound))
            .collect();
        (rest.len() < args.len()).then(|| {
            let config = lang::args::join(rest);
            ClassSample::new(element::Sample { config, ..element::Sample::clone(sample) })
        })
    };
    samples.extend(samples.clone().iter().filter_map(unbound));
    samples
}

/// Returns the packets for one input: three quarters with an Ethernet header, a quarter without.
fn flood(input: usize) -> Vec<TestPacket> {
    let packet = |n: u64| {
        let kinds = Flood::ALL.len() as u64;
        let (kind, number) = (Flood::ALL[(n % kinds) as usize], n / kinds);
        let mut bytes = kind.frame(input as u64, number);
        let is_cut = number % 4 == 3;
        let length = if bytes[12] == 8 { 20 } else { 40 };
        let mut headers = [Some(0), Some(14), Some(14 + length)];
        if is_cut {
            bytes.drain(..14);
            headers = [Some(-14), Some(0), Some(length)];
        }
        let mut annotations = [0; Annotations::SIZE];
        annotations.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&(n as u32).to_be_bytes()));
        match kind.receiver(input as u64, number) {
            std::net::IpAddr::V4(address) => annotations[..4].copy_from_slice(&address.octets()),
            std::net::IpAddr::V6(address) => annotations[..16].copy_from_slice(&address.octets()),
        }
        annotations[Annotations::PAINT] = 0;
        annotations[Annotations::AGGREGATE..][..4].copy_from_slice(&(n as u32).to_ne_bytes());
        TestPacket { bytes, time: Timestamp(1_000_000_000 + 1000 * n as i64), annotations, headers }
    };
    (0..PACKETS).map(packet).collect()
}

/// Allocates all memory that the process can get, except `room` bytes. Returns the allocations, which the
/// caller drops.
fn take_all_but(room: usize) -> Vec<Vec<u8>> {
    let mut taken = Vec::with_capacity(PIECES);
    let left: Vec<u8> = Vec::with_capacity(room);
    // From here on, the process gets no more address space than it has.
    setrlimit(Resource::RLIMIT_AS, 0, RLIM_INFINITY).unwrap();
    for size in [1 << 20, 1 << 16, 1 << 12, 1 << 8, 1 << 5] {
        while taken.len() < PIECES {
            let mut piece = Vec::new();
            if piece.try_reserve_exact(size).is_err() {
                break;
            }
            taken.push(piece);
        }
    }
    drop(left);
    taken
}

struct Silence;

impl engine::Sink for Silence {
    fn write(&mut self, _stream: element::OutputStream, _text: std::fmt::Arguments<'_>) {}

    fn flush(&mut self) {}
}

/// Runs a sample on `inputs` with `room` bytes of free memory. `Err` says that a packet is not accounted
/// for, or that the element reports an error.
fn run(sample: &ClassSample, room: usize, inputs: &[Vec<TestPacket>]) -> Result<(), String> {
    let number = offer(inputs.to_vec());
    let mut workers = workers(&sample.text(number, 1, false), TestRun::default(), Box::new(Silence))?;
    let taken = take_all_but(room);
    workers.run();
    let errors = workers.finish().err();
    setrlimit(Resource::RLIMIT_AS, RLIM_INFINITY, RLIM_INFINITY).unwrap();
    drop(taken);
    let report = workers.report();
    collect(number);
    if !report.balances() {
        return Err(format!("{report:?}"));
    }
    errors.map_or(Ok(()), |errors| Err(errors.join("; ")))
}

/// Does nothing unless it runs in a child process of [`parent`]. In the child process, it runs some of the
/// samples, and prints the index of each before it runs.
#[test]
fn child() {
    let Some(from) = std::env::var(FROM).ok().and_then(|from| from.parse::<usize>().ok()) else { return };
    let inputs: Vec<_> = (0..4).map(flood).collect();
    for (place, sample) in samples().iter().enumerate().skip(from).step_by(PROCESSES) {
        if left_out(sample).is_some() {
            continue;
        }
        for room in ROOM {
            println!("\n@{place}");
            let inputs: Vec<_> = (0..sample.shape.0).map(|i| inputs[i % inputs.len()].clone()).collect();
            if let Err(reason) = run(sample, room, &inputs) {
                println!("\n!{sample}, {room} bytes: {}", reason.replace('\n', " "));
            }
        }
    }
    println!("\n@{}", usize::MAX);
}

/// Runs every second sample from `first` on in a child process. If a sample ends the process, the failure
/// is recorded, and another process runs the remaining samples.
fn parent(first: usize, samples: &[ClassSample], failures: &Mutex<Vec<String>>) {
    let mut from = first;
    while from < samples.len() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads", "1"]);
        // With memory arenas per thread, the address space that these have reserved would remain available.
        command
            .env(FROM, from.to_string())
            .env("MALLOC_ARENA_MAX", "1")
            .env("RUST_BACKTRACE", "0")
            .stderr(Stdio::piped());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let wrong = text.lines().filter_map(|line| line.strip_prefix('!')).map(str::to_string);
        let mut failures = failures.lock().unwrap();
        failures.extend(wrong);
        let last = text.lines().rev().find_map(|line| line.strip_prefix('@')?.parse::<usize>().ok());
        let Some(last) = last else { panic!("{text}{}", String::from_utf8_lossy(&output.stderr)) };
        if last < usize::MAX {
            let told = String::from_utf8_lossy(&output.stderr);
            let told = told.lines().find(|line| line.contains("memory allocation")).unwrap_or_default();
            let end = output.status.signal().map_or("a panic".into(), |signal| format!("signal {signal}"));
            failures.push(format!("{}: ends with {end}: {told}", samples[last]));
        }
        from = last.saturating_add(PROCESSES);
    }
}

#[test]
fn no_element_ends_the_process_where_memory_ends() {
    let samples = samples();
    for sample in &samples {
        if let Some(reason) = left_out(sample) {
            println!("left out: {sample}: {reason}");
        }
    }
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for first in 0..PROCESSES {
            let (samples, failures) = (&samples, &failures);
            scope.spawn(move || parent(first, samples, failures));
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
