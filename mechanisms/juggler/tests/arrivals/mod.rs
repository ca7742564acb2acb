//! Runs configurations on packets that arrive at given times, and records the times at which the packets
//! leave.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;

use element::Timestamp;
use testkit::elements::{Seen, collect, offer};
use testkit::{RunResults, TestRun};
use wire::MacAddr;
use wire::build::Builder;

/// The time from which the times of packets count, in nanoseconds since 1970.
const START: i64 = 1_000_000_000_000_000_000;

/// A packet: its time in nanoseconds after [`START`], and its bytes.
pub(crate) type Timed = (i64, Vec<u8>);

/// Returns a UDP frame of `length` bytes of a flow (source port), with `number` in the first eight bytes of
/// its payload.
pub(crate) fn numbered(flow: u16, number: u64, length: usize) -> Vec<u8> {
    let end = |port| SocketAddr::from(([10, 0, 0, 1], port));
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(length - 42, 0);
    frame(Builder::udp(end(flow), end(9)), &payload)
}

/// Returns the number in a frame that [`numbered`] made.
pub(crate) fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(*frame[42..].first_chunk().unwrap())
}

/// Returns a TCP segment of a flow (source port) with `length` bytes of data.
pub(crate) fn tcp(flow: u16, flags: u8, sequence: u32, length: usize) -> Vec<u8> {
    let (a, b) = (SocketAddr::from(([10, 0, 0, 1], flow)), SocketAddr::from(([10, 0, 0, 2], 80)));
    frame(Builder::tcp(a, b, flags).sequence(sequence, 1), &vec![0; length])
}

fn frame(builder: Builder, payload: &[u8]) -> Vec<u8> {
    builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(payload).unwrap()
}

/// The outcome of a run, and for each sink its packets with the times at which they arrived there.
pub(crate) type Ran = (RunResults, Vec<Vec<Timed>>);

/// Sends packets at their times to `in`, and records the packets that are pushed into `[0]out`, `[1]out`
/// and so on. `text` is the configuration in between; `script` are the arguments of a Script that runs
/// meanwhile.
pub(crate) fn through(text: &str, outputs: usize, packets: &[Timed], script: &str, handlers: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.pcap");
    let options = capture::WriterOptions { nanoseconds: true, ..Default::default() };
    let mut writer = capture::Writer::new(std::fs::File::create(&file).unwrap(), options);
    for (time, bytes) in packets {
        writer.write(START + time, bytes.len() as u32, [&bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
    let number = offer(Vec::new());
    let sinks: String =
        (0..outputs).map(|n| format!("input[{n}] -> SetTimestamp -> TestSink({number}, {n});\n")).collect();
    let text = format!(
        "elementclass Out {{ {sinks} }}
         in :: FromDump(\"{}\", STOP false); out :: Out;
         {text};
         Script({script})",
        file.display()
    );
    let outcome = TestRun::trace().text(&text, handlers).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let mut seen = vec![Vec::new(); outputs];
    for Seen { sink, time: Timestamp(time), bytes, .. } in collect(number) {
        seen[sink].push((time - START, bytes));
    }
    (outcome, seen)
}

/// Returns the handler values of a run, which must be without errors.
pub(crate) fn values(outcome: &RunResults) -> Vec<&str> {
    outcome.values.iter().map(|value| value.as_deref().unwrap()).collect()
}
