//! Measures the effect of Reframers on a capture, by running the element itself on the trace clock.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use element::OutputStream;
use element::args::parse_seconds;
use engine::{ClockKind, Options, Sink, Worker};
use lang::args::quote;

use crate::load;

/// The results of one tried Reframer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Outcome {
    /// The SLF (packets per run of one flow) downstream of the Reframer (`slf`), and upstream of it
    /// (`slf_before`).
    pub(super) slf: f64,
    pub(super) slf_before: f64,
    /// The mean number of packets in a burst that the Reframer releases.
    pub(super) mean_burst: f64,
    /// The mean time in microseconds that packets waited in the Reframer, over all packets, also those that
    /// did not wait.
    pub(super) mean_delay_us: f64,
    /// The 99th percentile of the waiting time in microseconds. It is as exact as the Reframer's histogram,
    /// whose bounds are powers of two.
    pub(super) p99_delay_us: f64,
    /// The mean time in microseconds that a burst waited after its last packet, because no further packet
    /// joined the burst in this time.
    pub(super) in_vain_us: f64,
    /// The number of packets that the Reframer delayed; the other packets passed immediately.
    pub(super) held: u64,
    /// The number of packets for which the Reframer had no room.
    pub(super) overflows: u64,
    /// The number of ACKs that were dropped because later ACKs acknowledge the same bytes.
    pub(super) coalesced: u64,
    /// The number of segments that arrived after a segment that was sent later, and left ahead of it.
    pub(super) mended: u64,
}

/// The argument with which a Reframer never pauses, so that it holds the packets of the whole capture.
pub(super) const NO_PAUSE: &str = "MIN_BURST 0";

/// A Reframer that is to be tried.
pub(super) struct Trial {
    /// The arguments of the Reframer, in Click's syntax.
    pub(super) arguments: String,
    /// The longest time in microseconds for which the Reframer holds packets.
    pub(super) longest_us: f64,
}

/// Runs a capture through one Reframer per trial at the same time, so that the capture is read only once.
/// Returns an outcome for each trial. `progress` counts copies of packets: each packet of the capture gives
/// one copy per trial.
///
/// # Errors
///
/// If the configuration or the run fails: the message for the user.
pub(super) fn run(
    capture: &Path,
    trials: &[Trial],
    progress: &Arc<AtomicU64>,
) -> Result<Vec<Outcome>, String> {
    let mut text = format!(
        "FromDump({}) -> before :: TimestampAccum -> all :: Tee({})\n",
        quote(capture.as_os_str().as_encoded_bytes()),
        trials.len()
    );
    for (number, trial) in trials.iter().enumerate() {
        let arguments = &trial.arguments;
        text += &format!(
            "all[{number}] -> reframer{number} :: Reframer({arguments}, {NO_PAUSE}) -> after{number} :: TimestampAccum -> Discard\n"
        );
    }
    let mut loaded = load::parse(load::Texts::of("advise", text), &[], true);
    let problem = |loaded: &load::Loaded| load::rendered(&loaded.problems, &loaded.sources);
    let Some((plan, configured)) = loaded.build(None) else { return Err(problem(&loaded)) };
    let options = Options { clock: ClockKind::Trace, progress: Arc::clone(progress), ..Options::default() };
    let mut worker =
        Worker::new(plan, configured, Box::new(Silence), options).map_err(|error| error.to_string())?;
    if let Err(found) = worker.initialize() {
        worker.flush();
        loaded.problems = vec![*found];
        return Err(problem(&loaded));
    }
    worker.run();
    let each = trials.iter().enumerate();
    let outcomes = each.map(|(number, trial)| outcome(&mut worker, number, trial.longest_us)).collect();
    // The analysis, which ran before, has already reported errors of the capture.
    let _ = worker.finish();
    outcomes
}

/// A destination for the run's messages that drops them: errors of the capture, which the analysis has
/// already reported, and warnings that do not change the advice, such as about long gaps between packets.
struct Silence;

impl Sink for Silence {
    fn write(&mut self, _: OutputStream, _: std::fmt::Arguments<'_>) {}

    fn flush(&mut self) {}
}

fn outcome(worker: &mut Worker, number: usize, longest_us: f64) -> Result<Outcome, String> {
    let mut text = |element: &str, handler: &str| {
        let id = worker.plan().graph.find(element);
        worker.read(id, handler, "").map_err(|error| format!("{element}.{handler}: {error}"))
    };
    let reframer = format!("reframer{number}");
    let hold_times = text(&reframer, "hold_times")?;
    let in_vain = text(&reframer, "waited_in_vain")?;
    let mut value = |element: &str, handler: &str| {
        let value = text(element, handler)?;
        value.trim().parse::<f64>().map_err(|_| format!("{element}.{handler} is '{value}', not a number"))
    };
    let packets = value("before", "count")?;
    // The mean time by which packets are late before they reach the Reframer: the trace clock does not go
    // back, so a packet with an earlier time stamp than its predecessor is already late by the difference.
    let late = value("before", "average_time")?;
    let classes = classes(&hold_times);
    let p99_ns = percentile(&classes, packets as u64, 99);
    Ok(Outcome {
        slf: value(&reframer, "slf_out")?,
        slf_before: value(&reframer, "slf_in")?,
        mean_burst: value(&reframer, "mean_batch")?,
        mean_delay_us: ((value(&format!("after{number}"), "average_time")? - late) * 1e6).max(0.0),
        p99_delay_us: (p99_ns as f64 / 1e3).min(longest_us),
        in_vain_us: parse_seconds(in_vain.trim()).map_or(0.0, |time| time.0 as f64 / 1e3),
        held: classes.iter().filter(|(bound, _)| *bound > 1).map(|(_, count)| count).sum(),
        overflows: value(&reframer, "overflows")? as u64,
        coalesced: value(&reframer, "coalesced")? as u64,
        mended: value(&reframer, "mended")? as u64,
    })
}

/// Parses a handler's histogram of waiting times. Returns, for each class, its upper bound in nanoseconds and
/// the number of packets in it. These packets waited less than this bound, but at least the bound of the
/// preceding class.
fn classes(text: &str) -> Vec<(u64, u64)> {
    let class = |line: &str| {
        let (bound, count) = line.strip_prefix('<')?.split_once("ns ")?;
        Some((bound.parse().ok()?, count.parse().ok()?))
    };
    text.lines().filter_map(class).collect()
}

/// Returns the upper bound, in nanoseconds, of the waiting times of `percent` % of all packets, from the
/// classes of a histogram ([`classes`]). Packets that are in no class did not wait.
fn percentile(classes: &[(u64, u64)], packets: u64, percent: u64) -> u64 {
    // The number of packets that may wait longer than the returned bound.
    let mut above = packets * (100 - percent) / 100;
    for &(bound, count) in classes.iter().rev() {
        if count > above {
            // The histogram's class below 1 ns has the packets that did not wait.
            return if bound > 1 { bound } else { 0 };
        }
        above -= count;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_classes() {
        let classes = classes("<1ns 50\n<2048ns 30\n<65536ns 15\nnonsense\n");
        assert_eq!(classes, [(1, 50), (2048, 30), (65536, 15)]);
        // 95 of 100 packets are in the classes of the histogram; the other 5 did not wait.
        assert_eq!(
            [99, 85, 84, 56, 55, 54, 1].map(|p| percentile(&classes, 100, p)),
            [65536, 2048, 2048, 2048, 0, 0, 0]
        );
        // Of 100 packets, one may wait longer than the 99th percentile. Of one packet alone, none may wait
        // longer.
        assert_eq!(percentile(&[(2048, 99), (65536, 1)], 100, 99), 2048);
        assert_eq!(percentile(&[(2048, 98), (65536, 2)], 100, 99), 65536);
        assert_eq!(percentile(&[(65536, 1)], 1, 99), 65536);
        assert_eq!(percentile(&[], 0, 99), 0);
    }

    /// Two flows take turns, each with a packet every 10 us, so that the expected results can be computed
    /// by hand.
    #[test]
    fn two_flows_by_hand() {
        use wire::MacAddr;
        use wire::build::Builder;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a \"quoted\", name.pcap");
        let file = std::fs::File::create(&path).unwrap();
        let options = capture::WriterOptions { nanoseconds: true, ..capture::WriterOptions::default() };
        let mut writer = capture::Writer::new(file, options);
        for n in 0..12i64 {
            let from = (std::net::Ipv4Addr::new(10, 0, 0, 1 + (n % 2) as u8), 7).into();
            let to = (std::net::Ipv4Addr::new(10, 0, 1, 1), 7).into();
            let frame =
                Builder::udp(from, to).ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&[0; 20]).unwrap();
            writer.write(1_000_000_000 + n * 5_000, frame.len() as u32, [&frame[..]]).unwrap();
        }
        writer.flush().unwrap();
        let trials = ["DELAY 12us", "DELAY 0", "DELAY 12us, ELEPHANTS 4"];
        let trials = trials.map(|arguments| Trial { arguments: arguments.into(), longest_us: 12.0 });
        let count = Arc::new(AtomicU64::new(0));
        let outcomes = run(&path, &trials, &count).unwrap();
        let [held, not, heavy] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!((held.slf_before, held.slf, held.mean_burst), (1.0, 2.0, 2.0));
        // The first packet of each pair waits for 12 us, the second packet for 2 us. The burst waits for 2
        // us after its last packet.
        assert!((held.mean_delay_us - 7.0).abs() < 1e-3 && held.in_vain_us == 2.0, "{held:?}");
        assert_eq!((held.held, held.p99_delay_us, held.overflows), (12, 12.0, 0));
        assert_eq!((not.slf, not.mean_delay_us, not.held), (1.0, 0.0, 0));
        // The first three packets of each flow pass without waiting.
        assert_eq!((heavy.held, heavy.coalesced), (6, 0));
    }
}
