//! Tests of the classic format, with files made by hand and by the pcap-file crate.

use std::borrow::Cow;
use std::time::Duration;

use capture::{LinkType, Reader};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{Packet, Trickle, drain, read_good};

/// Makes a file with this byte order, magic number and link type. `fill` adds the words of each record
/// header and the data of each record.
fn file(
    big_endian: bool,
    magic: u32,
    link: u32,
    fill: impl Fn(&mut dyn FnMut(&[u32]), &mut Vec<Vec<u8>>),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let version = if big_endian { 2 << 16 | 4 } else { 2 | 4 << 16 };
    let put = |bytes: &mut Vec<u8>, words: &[u32]| {
        for word in words {
            bytes.extend(if big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
        }
    };
    put(&mut bytes, &[magic, version, 0, 0, 65_535, link]);
    let mut data = Vec::new();
    let mut headers = Vec::new();
    fill(&mut |words| headers.push(words.to_vec()), &mut data);
    for (header, data) in headers.iter().zip(data) {
        put(&mut bytes, header);
        bytes.extend(data);
    }
    bytes
}

#[test]
fn every_magic_number_in_both_byte_orders() {
    for big_endian in [false, true] {
        for (magic, extra, nanoseconds) in
            [(0xa1b2_c3d4, &[][..], false), (0xa1b2_3c4d, &[], true), (0xa1b2_cd34, &[7, 8], false)]
        {
            let bytes = file(big_endian, magic, 101, |record, data| {
                record(&[&[1, 2, 3, 60], extra].concat());
                data.push(b"abc".to_vec());
                record(&[&[0, 999, 0, 0], extra].concat());
                data.push(vec![]);
            });
            let reader = Reader::from_read(std::io::Cursor::new(bytes.clone()), "x").unwrap();
            assert_eq!((reader.link(), reader.snap_length()), (LinkType::RawIp, 65_535));
            assert_eq!(reader.nanoseconds(), nanoseconds);
            let unit = if nanoseconds { 1 } else { 1_000 };
            let packets = read_good(&bytes);
            assert_eq!(packets.len(), 2);
            assert_eq!((packets[0].time, packets[0].wire_len), (1_000_000_000 + 2 * unit, 60));
            assert_eq!((&packets[0].data[..], packets[0].link), (&b"abc"[..], LinkType::RawIp));
            assert_eq!(
                (packets[1].time, packets[1].data.len()),
                (999 * unit, 0),
                "time goes back: as it stands"
            );
        }
    }
}

#[test]
fn link_types_and_their_flags() {
    for (number, link) in [
        (0, LinkType::Null),
        (1, LinkType::Ethernet),
        (12, LinkType::RawIp),
        (108, LinkType::Loop),
        (113, LinkType::LinuxCooked),
        (276, LinkType::LinuxCookedV2),
        (147, LinkType::Other(147)),
        // Link type 1 (Ethernet) in the lower 16 bits. The upper 16 bits say that data end with a frame check
        // sequence of 4 bytes.
        (0x2400_0001, LinkType::Ethernet),
    ] {
        let reader =
            Reader::from_read(std::io::Cursor::new(file(false, 0xa1b2_c3d4, number, |_, _| {})), "x")
                .unwrap();
        assert_eq!(reader.link(), link);
    }
}

#[test]
fn captured_bytes_beyond_the_snap_length_and_the_wire_length() {
    let bytes = file(false, 0xa1b2_c3d4, 1, |record, data| {
        record(&[0, 0, 100_000, 10]);
        data.push(vec![7; 100_000]);
    });
    let packets = read_good(&bytes);
    assert_eq!((packets[0].data.len(), packets[0].wire_len), (100_000, 100_000));
}

fn any_packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0u32.., 0i64..1_000_000_000, vec(any::<u8>(), 0..200), 0u32..2_000).prop_map(
        |(seconds, nanoseconds, data, more)| Packet {
            time: i64::from(seconds) * 1_000_000_000 + nanoseconds,
            wire_len: data.len() as u32 + more,
            data,
            link: LinkType::Ethernet,
        },
    );
    vec(packet, 0..12)
}

proptest! {
    #[test]
    fn reads_what_pcap_file_writes(packets in any_packets(), big_endian: bool, nanoseconds: bool, step in 1usize..100) {
        let header = PcapHeader {
            endianness: if big_endian { Endianness::Big } else { Endianness::Little },
            ts_resolution: if nanoseconds { TsResolution::NanoSecond } else { TsResolution::MicroSecond },
            datalink: DataLink::ETHERNET,
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for packet in &packets {
            writer.write_packet(&PcapPacket {
                timestamp: Duration::from_nanos(packet.time as u64),
                orig_len: packet.wire_len,
                data: Cow::Borrowed(&packet.data),
            }).unwrap();
        }
        let bytes = writer.into_writer();
        let mut expected = packets;
        if !nanoseconds {
            expected.iter_mut().for_each(|packet| packet.time -= packet.time % 1_000);
        }
        prop_assert_eq!(&read_good(&bytes), &expected);
        // Reading in small pieces gives the same packets.
        let trickle = Trickle { bytes: std::io::Cursor::new(bytes), step };
        let (packets, fault) = drain(Reader::from_read(trickle, "trickle").unwrap());
        prop_assert!(fault.is_none());
        prop_assert_eq!(packets, expected);
    }
}
