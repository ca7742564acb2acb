//! Tests of the writer: its files are read back by this crate's reader and by the pcap-file crate.

use std::io::{self, Write};

use capture::{LinkType, MAX_CAPTURED, Reader, Writer, WriterOptions};
use pcap_file::pcap::PcapReader;
use pcap_file::{DataLink, TsResolution};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{Packet, read_good};

pub(crate) fn write(options: WriterOptions, packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, options);
    for packet in packets {
        writer.write(packet.time, packet.wire_len, [&packet.data[..]]).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    file
}

proptest! {
    #[test]
    fn round_trip_of_every_variant(
        packets in vec((0..=u32::MAX as i64 * 1_000_000_000, vec(any::<u8>(), 0..300), 0u32..1_000, 0usize..300), 0..12),
        nanoseconds: bool, snap_length in 0u32..300, link in prop::sample::select(vec![0u16, 1, 101, 108, 113, 276, 147]),
    ) {
        let options = WriterOptions { nanoseconds, snap_length, link: LinkType::from_number(link) };
        let limit = if snap_length == 0 { MAX_CAPTURED } else { snap_length as usize };
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, options);
        let mut expected = Vec::new();
        for (time, data, more, cut) in packets {
            let wire_len = data.len() as u32 + more;
            let (head, tail) = data.split_at(cut.min(data.len()));
            writer.write(time, wire_len, [head, tail]).unwrap();
            expected.push(Packet {
                time: if nanoseconds { time } else { time - time % 1_000 },
                data: data[..data.len().min(limit)].to_vec(),
                wire_len,
                link: options.link,
            });
        }
        prop_assert_eq!(writer.clamped(), 0);
        drop(writer);
        prop_assert_eq!(&read_good(&file), &expected);

        let reader = Reader::from_read(io::Cursor::new(file.clone()), "x").unwrap();
        prop_assert_eq!((reader.nanoseconds(), reader.snap_length() as usize), (nanoseconds, limit));

        let mut oracle = PcapReader::new(&file[..]).unwrap();
        let resolution = if nanoseconds { TsResolution::NanoSecond } else { TsResolution::MicroSecond };
        prop_assert_eq!(oracle.header().ts_resolution, resolution);
        prop_assert_eq!(oracle.header().datalink, DataLink::from(u32::from(link)));
        let unit = if nanoseconds { 1 } else { 1_000 };
        for packet in &expected {
            // Raw packets are read, because `next_packet` of pcap-file rejects wire lengths above the snap
            // length, although these are normal in captures with a snap length.
            let read = oracle.next_raw_packet().unwrap().unwrap();
            let time = i64::from(read.ts_sec) * 1_000_000_000 + i64::from(read.ts_frac) * unit;
            prop_assert_eq!((time, read.orig_len, &read.data[..]), (packet.time, packet.wire_len, &packet.data[..]));
        }
        prop_assert!(oracle.next_raw_packet().is_none());
    }

    #[test]
    fn any_time_and_length_are_written(time: i64, wire_len: u32, nanoseconds: bool) {
        let options = WriterOptions { nanoseconds, ..WriterOptions::default() };
        let packets = read_good(&write(options, &[Packet { wire_len, ..Packet::new(time, b"abc") }]));
        let largest = u32::MAX as i64 * 1_000_000_000 + 999_999_999;
        let unit = if nanoseconds { 1 } else { 1_000 };
        let clamped = time.clamp(0, largest);
        prop_assert_eq!(packets[0].time, clamped - clamped % unit);
        prop_assert_eq!(packets[0].wire_len, wire_len.max(3));
    }
}

#[test]
fn the_header_is_the_same_on_every_machine() {
    let file = write(WriterOptions { nanoseconds: true, snap_length: 96, link: LinkType::RawIp }, &[]);
    let expected = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0, 0, 0, 101, 0, 0, 0];
    assert_eq!(file, expected);
}

#[test]
fn times_out_of_range_are_counted() {
    let mut writer = Writer::new(Vec::new(), WriterOptions::default());
    for time in
        [-1, 0, u32::MAX as i64 * 1_000_000_000, (u32::MAX as i64 + 1) * 1_000_000_000, i64::MIN, i64::MAX]
    {
        writer.write(time, 0, []).unwrap();
    }
    assert_eq!(writer.clamped(), 4);
}

#[test]
fn the_largest_packet_is_cut_at_the_limit() {
    let data = vec![1; MAX_CAPTURED];
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, WriterOptions::default());
    writer.write(0, 0, [&data[..], &[2, 3]]).unwrap();
    drop(writer);
    let packets = read_good(&file);
    assert_eq!((packets[0].data.len(), packets[0].wire_len), (MAX_CAPTURED, MAX_CAPTURED as u32 + 2));
}

/// A stream that takes `room` bytes, then fails.
struct Full {
    room: usize,
    taken: Vec<u8>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let take = bytes.len().min(self.room);
        self.room -= take;
        self.taken.extend(&bytes[..take]);
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_written_twice() {
    let mut full = Full { room: 30, taken: Vec::new() };
    let mut writer = Writer::new(&mut full, WriterOptions::default());
    writer.write(0, 4, [&b"abcd"[..]]).unwrap();
    assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    drop(writer);
    assert_eq!(full.taken.len(), 30);

    let mut full = Full { room: 1_000, taken: Vec::new() };
    let mut writer = Writer::new(&mut full, WriterOptions::default());
    let results: Vec<_> = (0..10).map(|_| writer.write(0, 0, [&[0; 100_000][..]])).collect();
    assert!(results.iter().any(Result::is_err), "an error does not wait for the end");
}
