//! Fuzz targets for the reader and writer of capture files.

use std::io::Cursor;

use capture::{LinkType, MAX_CAPTURED, Reader, Writer, WriterOptions};

/// The maximum number of packets that are read from one input, because a few compressed bytes can contain
/// millions of records.
const MOST_PACKETS: usize = 4_096;

/// The maximum number of packet bytes that are read from one input, because a few compressed bytes can
/// contain very many.
const MOST_BYTES: usize = 4 << 20;

/// A packet of a capture, with a copy of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    time: i64,
    wire_len: u32,
    data: Vec<u8>,
}

/// Reads any bytes as a capture file: pcap or pcapng, plain or compressed with gzip or zstd.
pub fn capture(data: &[u8]) {
    read(data);
}

/// Reads any bytes as a capture file, writes its packets and reads them back. Checks that they are equal up
/// to the limits of the format, with time stamps in microseconds and nanoseconds, and with a snap length.
pub fn capture_round_trip(data: &[u8]) {
    let Some((link, packets)) = read(data) else { return };
    for (nanoseconds, snap_length) in [(true, 0), (false, 0), (true, 20)] {
        let options = WriterOptions { nanoseconds, snap_length, link };
        let expected: Vec<Packet> = packets.iter().map(|packet| as_written(packet, options)).collect();
        let file = write(options, &packets);
        assert_eq!(read(&file), Some((link, expected)));
    }
}

/// Returns the packet that is read back after `packet` was written with these options: with the time brought
/// into the range of pcap and rounded down, and the bytes cut to the snap length.
fn as_written(packet: &Packet, options: WriterOptions) -> Packet {
    let latest = i64::from(u32::MAX) * 1_000_000_000 + 999_999_999;
    let time = packet.time.clamp(0, latest);
    let kept = match options.snap_length {
        0 => packet.data.len(),
        length => packet.data.len().min(length as usize),
    };
    Packet {
        time: if options.nanoseconds { time } else { time - time % 1_000 },
        wire_len: packet.wire_len,
        data: packet.data[..kept].to_vec(),
    }
}

fn write(options: WriterOptions, packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, options);
    for packet in packets {
        // The bytes are given in two pieces, as for packets of several slots.
        let (front, back) = packet.data.split_at(packet.data.len() / 2);
        writer.write(packet.time, packet.wire_len, [front, back]).expect("a vector takes everything");
    }
    writer.flush().expect("a vector takes everything");
    drop(writer);
    file
}

/// Reads the link type and the packets up to the first error or limit; `None` if the file header is
/// invalid.
fn read(file: &[u8]) -> Option<(LinkType, Vec<Packet>)> {
    let mut reader = match Reader::from_read(Cursor::new(file.to_vec()), "fuzz") {
        Ok(reader) => reader,
        Err(error) => {
            assert_eq!(error.packet(), None);
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let (mut packets, mut bytes) = (Vec::new(), 0);
    while packets.len() < MOST_PACKETS && bytes < MOST_BYTES {
        match reader.next() {
            Ok(Some(record)) => {
                assert_eq!(record.number, packets.len() as u64 + 1);
                assert!(record.data.len() <= MAX_CAPTURED && record.data.len() <= record.wire_len as usize);
                bytes += record.data.len();
                let (time, wire_len) = (record.time, record.wire_len);
                packets.push(Packet { time, wire_len, data: record.data.to_vec() });
            }
            Ok(None) => {
                assert!(matches!(reader.next(), Ok(None)), "the end is not the end");
                break;
            }
            Err(error) => {
                assert_eq!(error.packet(), Some(packets.len() as u64 + 1));
                assert!(!error.to_string().is_empty());
                assert!(matches!(reader.next(), Ok(None)), "a fault is not the end");
                break;
            }
        }
    }
    reader.snap_length();
    reader.nanoseconds();
    Some((reader.link(), packets))
}
