//! Tests of the pcapng format, with blocks made by hand and by the pcap-file crate.

use std::borrow::Cow;
use std::io::Cursor;
use std::time::Duration;

use capture::{ErrorKind, LinkType, Reader};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{Packet, fault_of, read_all, read_good};

/// A builder of pcapng files, block by block.
pub(crate) struct Blocks {
    pub(crate) bytes: Vec<u8>,
    big_endian: bool,
}

impl Blocks {
    pub(crate) fn new(big_endian: bool) -> Self {
        let mut blocks = Blocks { bytes: Vec::new(), big_endian };
        blocks.section(big_endian);
        blocks
    }

    pub(crate) fn section(&mut self, big_endian: bool) {
        self.big_endian = big_endian;
        let version = if big_endian { 1 << 16 } else { 1 };
        self.block(0x0a0d_0d0a, &[0x1a2b_3c4d, version, u32::MAX, u32::MAX], &[]);
    }

    pub(crate) fn interface(&mut self, link: u16, snap_length: u32, options: &[(u16, &[u8])]) {
        let link = if self.big_endian { u32::from(link) << 16 } else { link.into() };
        let mut tail = Vec::new();
        for (code, value) in options {
            for half in [*code, value.len() as u16] {
                tail.extend(if self.big_endian { half.to_be_bytes() } else { half.to_le_bytes() });
            }
            tail.extend(*value);
            tail.resize(tail.len().next_multiple_of(4), 0);
        }
        tail.extend([0; 4]);
        self.block(1, &[link, snap_length], &tail);
    }

    pub(crate) fn packet(&mut self, interface: u32, ticks: u64, wire_len: u32, data: &[u8]) {
        self.block(6, &[interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, wire_len], data);
    }

    pub(crate) fn block(&mut self, kind: u32, words: &[u32], tail: &[u8]) {
        let length = (12 + words.len() * 4 + tail.len().next_multiple_of(4)) as u32;
        self.words(&[kind, length]);
        self.words(words);
        self.bytes.extend(tail);
        self.bytes.resize(self.bytes.len() + tail.len().next_multiple_of(4) - tail.len(), 0);
        self.words(&[length]);
    }

    pub(crate) fn words(&mut self, words: &[u32]) {
        for word in words {
            self.bytes.extend(if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
        }
    }

    fn long(&self, number: i64) -> [u8; 8] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }
}

#[test]
fn all_packet_blocks_in_both_byte_orders() {
    for big_endian in [false, true] {
        let mut blocks = Blocks::new(big_endian);
        blocks.block(0x8000_0001, &[1, 2, 3], b"a block of our own");
        blocks.interface(113, 4, &[(2, b"eth0"), (9, &[9])]);
        blocks.packet(0, 5_000_000_001, 60, b"one");
        blocks.block(3, &[7], b"tw2t");
        blocks.block(5, &[0, 0, 0], &[]);
        let id_drops = if big_endian { 9 } else { 9 << 16 };
        blocks.block(2, &[id_drops, 1, 2, 5, 5], b"three");
        let packets = read_good(&blocks.bytes);
        let link = LinkType::LinuxCooked;
        let expected = [
            Packet { time: 5_000_000_001, data: b"one".to_vec(), wire_len: 60, link },
            // A simple packet: the snap length is 4, so that 4 of its 7 bytes were captured.
            Packet { time: 0, data: b"tw2t".to_vec(), wire_len: 7, link },
            Packet { time: (1 << 32) + 2, data: b"three".to_vec(), wire_len: 5, link },
        ];
        assert_eq!(packets, expected);
        let reader = Reader::from_read(Cursor::new(blocks.bytes), "x").unwrap();
        assert_eq!((reader.link(), reader.snap_length(), reader.nanoseconds()), (link, 4, true));
    }
}

#[test]
fn sections_start_afresh() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, 0, &[]);
    blocks.interface(101, 0, &[]);
    blocks.packet(1, 1, 1, b"a");
    blocks.packet(0, 2, 1, b"b");
    blocks.section(true);
    blocks.interface(276, 0, &[(9, &[3])]);
    blocks.packet(0, 3, 1, b"c");
    let packets = read_good(&blocks.bytes);
    let seen: Vec<_> = packets.iter().map(|packet| (packet.time, packet.link)).collect();
    let expected =
        [(1_000, LinkType::RawIp), (2_000, LinkType::Ethernet), (3_000_000, LinkType::LinuxCookedV2)];
    assert_eq!(seen, expected);
    let mut reader = Reader::from_read(Cursor::new(blocks.bytes.clone()), "x").unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!((reader.link(), reader.nanoseconds()), (LinkType::Ethernet, false), "of the first interface");
    // The second section describes only one interface, so that a packet of interface 1 is an error.
    blocks.packet(1, 4, 1, b"d");
    let fault = fault_of(&blocks.bytes);
    assert!(matches!(fault.kind(), ErrorKind::Interface { id: 1, known: 1 }), "{fault}");
    assert_eq!(fault.packet(), Some(4));
}

#[test]
fn units_and_offsets_of_time() {
    let ticks = 3_000_000_000_123;
    for big_endian in [false, true] {
        for (resolution, offset, expected) in [
            (6, 0, 3_000_000_000_123_000),
            (9, 0, 3_000_000_000_123),
            (9, -3_000, 123),
            (9, 10, 3_010_000_000_123),
            (12, 0, 3_000_000_000),
            // 10^39 ticks per second do not fit into 128 bits.
            (39, 0, 0),
            (127, 1, 1_000_000_000),
            // Times beyond 64 bits become the nearest values that they can hold.
            (0, 0, i64::MAX),
            (0, i64::MIN, i64::MIN),
            (0x80, 0, i64::MAX),
            (0x80 | 20, 0, 2_861_022_949_336_051),
            (0xff, 7, 7_000_000_000),
        ] {
            let mut blocks = Blocks::new(big_endian);
            let offset = blocks.long(offset);
            blocks.interface(1, 0, &[(9, &[resolution]), (14, &offset)]);
            blocks.packet(0, ticks, 0, b"");
            assert_eq!(read_good(&blocks.bytes)[0].time, expected, "resolution {resolution:#x}");
        }
    }
}

#[test]
fn malformed_options_are_left_out() {
    let mut blocks = Blocks::new(false);
    // The interface has the option if_tsoffset with 2 bytes instead of 8, and then an option that is longer
    // than the block.
    blocks.block(1, &[1, 0, 14 | 2 << 16, 0, 9 | 400 << 16], &[]);
    blocks.packet(0, 1, 0, b"");
    assert_eq!(read_good(&blocks.bytes)[0].time, 1_000);
}

#[test]
fn large_unknown_blocks_are_skipped() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, 0, &[]);
    blocks.block(10, &[], &vec![1; 3_000_000]);
    blocks.packet(0, 1, 1, b"x");
    assert_eq!(read_good(&blocks.bytes).len(), 1);
    let end = blocks.bytes.len();
    let fault = fault_of(&blocks.bytes[..end - 2_000_000]);
    assert!(matches!(fault.kind(), ErrorKind::Truncated { need: 3_000_012, .. }), "{fault}");
}

#[test]
fn a_file_without_interfaces_is_empty() {
    let blocks = Blocks::new(true);
    let reader = Reader::from_read(Cursor::new(blocks.bytes.clone()), "x").unwrap();
    assert_eq!((reader.link(), reader.snap_length(), reader.nanoseconds()), (LinkType::Ethernet, 0, false));
    assert_eq!(read_good(&blocks.bytes), []);
}

#[test]
fn faults_of_blocks_are_named() {
    let with = |add: fn(&mut Blocks)| {
        let mut blocks = Blocks::new(false);
        blocks.interface(1, 0, &[]);
        blocks.packet(0, 1, 1, b"x");
        add(&mut blocks);
        let (packets, fault) = read_all(&blocks.bytes);
        assert_eq!(packets.len(), 1);
        fault.unwrap().to_string()
    };
    for (text, add) in [
        ("at least 12", (|b| b.words(&[6, 8, 8])) as fn(&mut Blocks)),
        ("multiples of 4", |b| b.words(&[6, 33, 0, 0, 0, 0, 0, 0])),
        ("differs", |b| b.words(&[6, 32, 0, 0, 0, 0, 0, 36])),
        ("larger than the block", |b| b.block(6, &[0, 0, 0, 5, 5], b"abcd")),
        ("limit is 262144", |b| b.block(6, &[0, 0, 0, 262_145, 5], b"abcd")),
        ("too short", |b| b.block(6, &[0, 0, 0, 0], &[])),
        ("too short", |b| b.block(1, &[0], &[])),
        ("cannot be that long", |b| b.block(6, &[0, 0, 0, 0, 0], &vec![0; 2_000_000])),
        ("byte-order magic", |b| b.block(0x0a0d_0d0a, &[1, 1, 0, 0], &[])),
        ("version 2.0", |b| b.block(0x0a0d_0d0a, &[0x1a2b_3c4d, 2, 0, 0], &[])),
        ("described 1", |b| b.packet(1, 0, 0, b"")),
    ] {
        let fault = with(add);
        assert!(fault.contains(text) && fault.starts_with("test: packet 2, byte 88: "), "{fault}");
    }
    let mut blocks = Blocks::new(false);
    for _ in 0..=65_536 {
        blocks.interface(1, 0, &[]);
    }
    assert!(fault_of(&blocks.bytes).to_string().contains("65536 interfaces"));
}

proptest! {
    #[test]
    fn reads_what_pcap_file_writes(
        packets in vec((0u64..1 << 62, vec(any::<u8>(), 0..200), 0u32..1_000, 0u32..2), 0..10), big_endian: bool,
    ) {
        let endianness = if big_endian { Endianness::Big } else { Endianness::Little };
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        for datalink in [DataLink::ETHERNET, DataLink::LINUX_SLL2] {
            writer.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: datalink,
                snaplen: 0,
                options: vec![InterfaceDescriptionOption::IfTsResol(9)],
            }).unwrap();
        }
        let mut expected = Vec::new();
        for (time, data, more, interface) in packets {
            let wire_len = data.len() as u32 + more;
            writer.write_pcapng_block(EnhancedPacketBlock {
                interface_id: interface,
                timestamp: Duration::from_nanos(time),
                original_len: wire_len,
                data: Cow::Borrowed(&data),
                options: vec![],
            }).unwrap();
            let link = [LinkType::Ethernet, LinkType::LinuxCookedV2][interface as usize];
            expected.push(Packet { time: time as i64, data, wire_len, link });
        }
        prop_assert_eq!(read_good(&writer.into_inner()), expected);
    }
}
