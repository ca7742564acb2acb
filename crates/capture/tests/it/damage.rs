//! Tests of files that are cut short or damaged: no panic occurs. Of a file that is cut short, the packets
//! before the cut are returned, and then an error, unless the cut is between two records or blocks.

use std::io::Cursor;

use capture::{ErrorKind, Reader, WriterOptions};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::pcapng::Blocks;
use crate::writer::write;
use crate::{Packet, fault_of, gzip, read_all, read_good, zstd};

fn packets() -> Vec<Packet> {
    (0..5u8).map(|number| Packet::new(i64::from(number) * 1_000_000, &[number; 9][..number.into()])).collect()
}

fn classic() -> Vec<u8> {
    write(WriterOptions::default(), &packets())
}

fn pcapng() -> Vec<u8> {
    let mut blocks = Blocks::new(true);
    blocks.interface(1, 0, &[(2, b"eth0")]);
    for packet in packets() {
        blocks.packet(0, packet.time as u64 / 1_000, packet.wire_len, &packet.data);
        blocks.block(0x0bad, &[], b"unknown");
    }
    blocks.section(false);
    blocks.interface(1, 0, &[]);
    blocks.bytes
}

/// Blocks that are no packets stand between the packets of the pcapng file.
#[test]
fn every_packet_is_reached_by_its_position() {
    for file in [classic(), pcapng()] {
        let open = || Reader::from_read(Cursor::new(file.clone()), "x").unwrap();
        let (mut reader, mut positions) = (open(), Vec::new());
        while let Some(record) = reader.next().unwrap() {
            positions.push(record.position);
        }
        assert_eq!(positions.len(), packets().len());
        for (place, &position) in positions.iter().enumerate() {
            for (from, number) in [(position, place + 1), (position + 1, place + 2)] {
                let mut reader = open();
                reader.skip_to(from).unwrap();
                let found = reader.next().unwrap().map(|record| record.number as usize);
                assert_eq!(found, Some(number).filter(|&number| number <= positions.len()), "{from}");
            }
        }
    }
}

#[test]
fn every_prefix_gives_its_packets_and_an_end() {
    for file in [classic(), pcapng()] {
        let whole = read_good(&file);
        assert_eq!(whole, packets());
        let mut boundaries = 0;
        for cut in 0..file.len() {
            let (read, fault) = read_all(&file[..cut]);
            assert_eq!(read[..], whole[..read.len()]);
            match fault {
                None => boundaries += 1,
                Some(fault) => {
                    let fits = match fault.kind() {
                        ErrorKind::Empty => cut == 0,
                        ErrorKind::Truncated { need, have } => {
                            have < need && fault.offset() + have == cut as u64
                        }
                        _ => false,
                    };
                    assert!(fits, "{cut}: {fault}");
                    let packet = fault.packet().unwrap_or(1);
                    assert_eq!(packet, read.len() as u64 + 1, "{fault}");
                }
            }
        }
        // A cut exactly between two records or blocks cannot be detected, so that it gives no error; the file
        // has this many boundaries.
        assert_eq!(boundaries, if file[0] == 0x0a { 13 } else { 5 });
    }
}

#[test]
fn every_prefix_of_a_compressed_file_ends_with_an_error() {
    for file in [gzip(&classic()), gzip(&pcapng()), zstd(&classic()), zstd(&pcapng())] {
        let whole = read_good(&file);
        for cut in 1..file.len() {
            let (read, fault) = read_all(&file[..cut]);
            assert_eq!(read[..], whole[..read.len()]);
            assert!(fault.is_some(), "cut at {cut}");
        }
    }
}

#[test]
fn headers_that_are_no_headers() {
    let text = |file: &[u8]| fault_of(file).to_string();
    assert_eq!(text(b""), "test: empty file");
    assert!(text(b"\xd0\xcf\x11\xe0 and more").contains("bad magic number d0 cf 11 e0"));
    assert!(text(b"\xd0\xcf").contains("24 bytes are needed and 2 are there"));
    assert!(text(&classic()[..23]).contains("file header, byte 0: the file ends here, 24 bytes"));
    let mut file = classic();
    file[4] = 3;
    assert!(matches!(fault_of(&file).kind(), ErrorKind::Version { major: 3, minor: 4 }));
}

#[test]
fn a_missing_file_is_named() {
    let error = Reader::open("no/such/file.pcap").unwrap_err();
    assert!(error.to_string().starts_with("no/such/file.pcap: No such file or directory"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_record_beyond_the_limit_ends_the_file() {
    let mut file = classic();
    let end = file.len() as u64;
    for word in [0, 0, 262_145u32, 262_145] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0; 300_000]);
    let (read, fault) = read_all(&file);
    let fault = fault.unwrap();
    assert_eq!(read, packets());
    assert_eq!((fault.packet(), fault.offset()), (Some(6), end));
    assert!(matches!(fault.kind(), ErrorKind::TooLong { captured: 262_145 }), "{fault}");
    // With one captured byte less, the record has the largest length that is allowed.
    file.truncate(end as usize);
    for word in [0, 0, 262_144u32, 262_144] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0; 262_144]);
    assert_eq!(read_good(&file).last().unwrap().data.len(), 262_144);
}

#[test]
fn a_stream_that_fails_is_reported_after_its_packets() {
    struct Failing(std::io::Cursor<Vec<u8>>);
    impl std::io::Read for Failing {
        fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(target)? {
                0 => Err(std::io::Error::other("the cable is out")),
                read => Ok(read),
            }
        }
    }
    let (read, fault) =
        crate::drain(Reader::from_read(Failing(std::io::Cursor::new(classic())), "x").unwrap());
    assert_eq!(read, packets());
    let fault = fault.unwrap();
    assert!(
        matches!(fault.kind(), ErrorKind::Read(_)) && fault.to_string().contains("the cable is out"),
        "{fault}"
    );
}

fn damaged(file: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(0xff), any::<u8>()];
    (vec((any::<prop::sample::Index>(), byte), 1..6), 0usize..40).prop_map(move |(changes, cut)| {
        let mut file = file.clone();
        for (place, value) in changes {
            *place.get_mut(&mut file) = value;
        }
        file.truncate(file.len() - cut.min(file.len()));
        file
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn damaged_files_never_panic(
        a in damaged(classic()), b in damaged(pcapng()), c in damaged(gzip(&pcapng())), d in damaged(zstd(&pcapng())),
        e in damaged([zstd(&classic()), zstd(&classic())].concat()),
    ) {
        for file in [a, b, c, d, e] {
            let (read, _) = read_all(&file);
            prop_assert!(read.iter().all(|packet| packet.data.len() <= packet.wire_len as usize));
        }
    }

    #[test]
    fn any_bytes_behind_any_magic_never_panic(
        magic in prop::sample::select(vec![
            vec![], vec![0xd4, 0xc3, 0xb2, 0xa1], vec![0xa1, 0xb2, 0x3c, 0x4d], vec![0x0a, 0x0d, 0x0d, 0x0a],
            vec![0x1f, 0x8b, 8, 0], vec![0x28, 0xb5, 0x2f, 0xfd],
        ]),
        bytes in vec(prop_oneof![Just(0u8), 0u8..16, any::<u8>()], 0..200),
    ) {
        let _ = read_all(&[magic, bytes].concat());
    }
}
