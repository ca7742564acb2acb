//! Runs of one element over packets that arrive at given times. The times at which packets leave are
//! recorded.

use std::net::SocketAddr;
use std::path::Path;

use element::Timestamp;
use wire::MacAddr;
use wire::build::Builder;

use crate::elements::{Seen, collect, offer};
use crate::{RunResults, TestRun};

/// The time stamp, in nanoseconds since the epoch, of packets whose time in [`write_capture`] is 0.
pub const START: i64 = 1_000_000_000_000_000_000;

/// Builds a packet in an Ethernet frame with fixed addresses.
pub fn frame(builder: Builder, payload: &[u8]) -> Vec<u8> {
    builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(payload).unwrap()
}

/// Makes a UDP packet in a frame. `flow` is the source port; the payload has flow and `number` as one byte
/// each.
pub fn udp(flow: u16, number: u8) -> Vec<u8> {
    let end = |port| SocketAddr::from(([10, 0, 0, 1], port));
    frame(Builder::udp(end(flow), end(9)), &[flow as u8, number])
}

/// Returns the builder of a TCP segment between two fixed IPv4 addresses, with `flow` as source port.
pub fn tcp(flow: u16, flags: u8, sequence: u32, acknowledgment: u32) -> Builder {
    let (a, b) = (SocketAddr::from(([10, 0, 0, 1], flow)), SocketAddr::from(([10, 0, 0, 2], 80)));
    Builder::tcp(a, b, flags).sequence(sequence, acknowledgment)
}

/// Writes packets to a capture file. Their times are nanoseconds after [`START`].
pub fn write_capture(file: &Path, packets: &[(i64, Vec<u8>)]) {
    let options = capture::WriterOptions { nanoseconds: true, ..Default::default() };
    let mut writer = capture::Writer::new(std::fs::File::create(file).unwrap(), options);
    for (time, bytes) in packets {
        writer.write(START + time, bytes.len() as u32, [&bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
}

/// Sends packets through `element`, which is named `e`, at their times in nanoseconds after [`START`].
/// Returns the results, and the packets that left with the times at which they did. `handlers` are read at
/// the end.
pub fn through(
    element: &str,
    packets: &[(i64, Vec<u8>)],
    handlers: &[&str],
) -> (RunResults, Vec<(i64, Vec<u8>)>) {
    through_while(element, packets, "", handlers)
}

/// Does the same as [`through`], while a Script with the arguments `script` runs.
pub fn through_while(
    element: &str,
    packets: &[(i64, Vec<u8>)],
    script: &str,
    handlers: &[&str],
) -> (RunResults, Vec<(i64, Vec<u8>)>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.pcap");
    write_capture(&file, packets);
    let number = offer(Vec::new());
    let text = format!(
        "FromDump(\"{}\", STOP true) -> e :: {element} -> SetTimestamp -> TestSink({number}, 0);
         Script({script})",
        file.display()
    );
    let outcome = TestRun::trace().text(&text, handlers).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let seen =
        collect(number).into_iter().map(|Seen { time: Timestamp(time), bytes, .. }| (time - START, bytes));
    (outcome, seen.collect())
}
