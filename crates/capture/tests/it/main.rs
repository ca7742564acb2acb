//! Tests that read and write capture files of every kind: made here, made or read by another
//! implementation, damaged, and real.

mod classic;
mod compressed;
mod corpus;
mod damage;
mod pcapng;
mod writer;

use std::io::{Cursor, Read, Write};

use capture::{Error, LinkType, Reader, Record};

/// A packet like [`Record`], which owns its data so that it can be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packet {
    time: i64,
    data: Vec<u8>,
    wire_len: u32,
    link: LinkType,
}

impl Packet {
    fn new(time: i64, data: &[u8]) -> Self {
        Packet { time, data: data.to_vec(), wire_len: data.len() as u32, link: LinkType::Ethernet }
    }
}

impl From<Record<'_>> for Packet {
    fn from(record: Record<'_>) -> Self {
        let Record { time, data, wire_len, link, .. } = record;
        Packet { time, data: data.to_vec(), wire_len, link }
    }
}

/// Reads all packets up to the end or an error, and returns the packets and the error. Checks that the reader
/// returns no packet after the end or the error.
fn drain(mut reader: Reader) -> (Vec<Packet>, Option<Error>) {
    let mut packets = Vec::new();
    let fault = loop {
        match reader.next() {
            Ok(Some(record)) => {
                packets.push(Packet::from(record));
                assert_eq!(record.number, packets.len() as u64);
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(matches!(reader.next(), Ok(None)));
    (packets, fault)
}

/// Reads all packets of a file, and returns them with the error at which it ends, if any.
fn read_all(file: &[u8]) -> (Vec<Packet>, Option<Error>) {
    match Reader::from_read(Cursor::new(file.to_vec()), "test") {
        Ok(reader) => drain(reader),
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// Reads all packets of a file that must have no error.
fn read_good(file: &[u8]) -> Vec<Packet> {
    let (packets, fault) = read_all(file);
    if let Some(fault) = fault {
        panic!("{fault}");
    }
    packets
}

/// Returns the error at which a file ends; panics if there is none.
fn fault_of(file: &[u8]) -> Error {
    read_all(file).1.expect("the file has a fault")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A stream that returns at most `step` bytes per read.
struct Trickle {
    bytes: Cursor<Vec<u8>>,
    step: usize,
}

impl Read for Trickle {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        let step = self.step.min(target.len());
        self.bytes.read(&mut target[..step])
    }
}
