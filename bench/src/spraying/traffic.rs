//! The traffic of the benchmark `sprayer`, which is TCP connections, and the configuration that it passes.

use std::fs::File;
use std::path::Path;

use wire::build::Builder;
use wire::tcp::flags::{ACK, SYN};

/// The size of a frame in bytes.
pub(super) const FRAME: usize = 64;

/// Returns a TCP segment of the connection with the number `connection`. Its payload is the 8 bytes of the
/// number `payload`.
pub(super) fn segment(connection: u16, flags: u8, payload: u64) -> Result<Vec<u8>, String> {
    let from = ([10, 0, (connection >> 8) as u8, connection as u8], 2000 + connection * 7);
    Builder::tcp(from.into(), ([10, 9, 0, 1], 443).into(), flags)
        .ethernet(wire::MacAddr([2; 6]), wire::MacAddr([4; 6]))
        .build(&payload.to_le_bytes())
        .map_err(|error| error.to_string())
}

/// Writes a capture of `packets` segments of all connections in turn. The first segment of each connection
/// is a SYN. Payloads are random, so that checksums differ.
pub(super) fn write(file: &File, packets: usize, connections: u16) -> Result<(), String> {
    let mut writer = capture::Writer::new(file, capture::WriterOptions::default());
    let mut random = fastrand::Rng::with_seed(6);
    for number in 0..packets {
        let connection = (number % usize::from(connections)) as u16;
        let flags = if number < usize::from(connections) { SYN } else { ACK };
        let frame = segment(connection, flags, random.u64(..))?;
        writer.write(number as i64, frame.len() as u32, [&frame[..]]).map_err(|e| e.to_string())?;
    }
    writer.flush().map_err(|e| e.to_string())
}

/// Returns a configuration of the network function in the Sprayer paper: an IPRewriter, which looks up each
/// packet's connection and rewrites its header, and an element that takes `cycles` processor cycles per
/// packet. A simulated interface, whose argument STEERING is `queues`, replays the capture `loops` times.
pub(super) fn configuration(capture: &Path, loops: u64, queues: &str, cycles: u64) -> String {
    format!(
        "nic :: InMemoryNic({}, LOOPS {loops}, STEERING {queues}) -> MarkIPHeader(14)
        -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop)
        -> BenchmarkWork({cycles}) -> Discard; Idle -> [1] nat[1] -> Discard",
        capture.display()
    )
}

/// Returns a configuration that only receives the packets: the part of [`configuration`] upstream of the
/// spreading.
pub(super) fn source(capture: &Path, loops: u64, queues: &str) -> String {
    format!("nic :: InMemoryNic({}, LOOPS {loops}, STEERING {queues}) -> Discard", capture.display())
}
