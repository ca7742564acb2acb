//! Marks the packets of large flows by a code point in the IP header (DSCP), as an operator would mark them,
//! so that a Reframer can recognise them (Reframer, section 5.3).

use std::collections::HashMap;
use std::path::Path;

use capture::{Reader, Writer, WriterOptions};
use wire::checksum;

/// The code point 1, shifted to its position in the DS field.
const CODE_POINT: u8 = 1 << 2;
const IP: usize = 14;

/// The bytes that identify a flow over IPv4: protocol, addresses and ports.
type Flow = [u8; 13];

fn flow(frame: &[u8]) -> Option<Flow> {
    let header = frame.get(IP..IP + 20).filter(|header| header[0] == 0x45)?;
    let mut flow = [0; 13];
    flow[0] = header[9];
    flow[1..9].copy_from_slice(&header[12..20]);
    flow[9..].copy_from_slice(frame.get(IP + 20..IP + 24)?);
    Some(flow)
}

/// Writes a copy of a capture in which packets of flows with at least `large` packets are marked. Other
/// packets get a DS field of 0. Only IPv4 packets without options change. Reads the capture twice.
pub(super) fn mark_large(capture: &Path, large: u32, output: &Path) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", capture.display());
    let mut packets: HashMap<Flow, u32> = HashMap::new();
    let mut reader = Reader::open(capture).map_err(|error| told(&error))?;
    while let Some(record) = reader.next().map_err(|error| told(&error))? {
        if let Some(flow) = flow(record.data) {
            *packets.entry(flow).or_default() += 1;
        }
    }
    let mut reader = Reader::open(capture).map_err(|error| told(&error))?;
    let file = std::fs::File::create(output).map_err(|error| told(&error))?;
    let options = WriterOptions { nanoseconds: true, ..WriterOptions::default() };
    let mut writer = Writer::new(std::io::BufWriter::new(file), options);
    let mut frame = Vec::new();
    while let Some(record) = reader.next().map_err(|error| told(&error))? {
        frame.clear();
        frame.extend_from_slice(record.data);
        if let Some(flow) = flow(&frame) {
            let is_large = packets.get(&flow).is_some_and(|&packets| packets >= large);
            frame[IP + 1] = if is_large { CODE_POINT } else { 0 };
            // The result is ignored: filling in the checksum cannot fail, because the header is complete and
            // has 20 bytes.
            let _ = checksum::fill_ipv4(&mut frame[IP..IP + 20]);
        }
        writer.write(record.time, record.wire_len, [&frame[..]]).map_err(|error| told(&error))?;
    }
    writer.flush().map_err(|error| told(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source;

    #[test]
    fn packets_of_large_flows_are_marked() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let mut writer = Writer::new(std::fs::File::create(&from).unwrap(), WriterOptions::default());
        // One flow has 120 packets, another flow has one.
        for number in (0..120).map(|_| 1).chain([2]) {
            let frame = source::frame(number, 1 << 20, 100);
            writer.write(0, frame.len() as u32, [&frame[..]]).unwrap();
        }
        writer.flush().unwrap();
        mark_large(&from, 100, &to).unwrap();
        let mut reader = Reader::open(&to).unwrap();
        let mut marks = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            assert!(checksum::ipv4_valid(&record.data[14..34]));
            marks.push(record.data[15]);
        }
        assert_eq!((marks.len(), marks[0], marks[119], marks[120]), (121, 4, 4, 0));
    }
}
