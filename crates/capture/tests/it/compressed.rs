//! Tests of gzip and zstd files, with one or several members or frames.

use std::io::Cursor;

use capture::{ErrorKind, Reader, WriterOptions};

use crate::writer::write;
use crate::{Packet, Trickle, drain, fault_of, gzip, read_all, read_good, zstd};

/// Makes packets of 100 bytes, in which every third byte is random, so that they compress to some degree.
fn packets(count: usize) -> Vec<Packet> {
    let mut state = 1u32;
    (0..count)
        .map(|number| {
            let data: Vec<u8> = (0..100)
                .map(|place| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if place % 3 == 0 { (state >> 24) as u8 } else { place }
                })
                .collect();
            Packet::new(number as i64 * 1_000, &data)
        })
        .collect()
}

#[test]
fn compressed_files_read_like_plain_ones() {
    let packets = packets(10_000);
    let file = write(WriterOptions::default(), &packets);
    assert!(file.len() > 1 << 20, "more than one buffer");
    for compressed in [gzip(&file), zstd(&file)] {
        assert!(compressed.len() < file.len());
        assert!(read_good(&compressed) == packets);
    }
}

#[test]
fn several_members_and_frames_make_one_file() {
    let packets = packets(50);
    let file = write(WriterOptions::default(), &packets);
    let (a, b) = file.split_at(1_000);
    let (b, c) = b.split_at(1);
    let members = [gzip(a), gzip(b), gzip(&[]), gzip(c)].concat();
    assert_eq!(read_good(&members), packets);
    let skippable = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0], &b"abc"[..]].concat();
    let frames = [&skippable[..], &zstd(a), &zstd(b), &skippable, &zstd(&[]), &zstd(c), &skippable].concat();
    assert_eq!(read_good(&frames), packets);
    // Reading in pieces of 7 bytes gives the same packets.
    for file in [members, frames] {
        let (read, fault) =
            drain(Reader::from_read(Trickle { bytes: Cursor::new(file), step: 7 }, "x").unwrap());
        assert!(fault.is_none() && read == packets);
    }
}

#[test]
fn what_comes_before_the_damage_is_delivered() {
    let packets = packets(10_000);
    let file = write(WriterOptions::default(), &packets);
    for (format, compressed) in [("gzip", gzip(&file)), ("zstd", zstd(&file))] {
        let mut last = 0;
        for eighth in 1..8 {
            let (read, fault) = read_all(&compressed[..compressed.len() * eighth / 8]);
            let fault = fault.unwrap();
            assert!(matches!(fault.kind(), ErrorKind::Decompress { .. }), "{fault}");
            let text = fault.to_string();
            assert!(text.contains(format) && text.contains("of the decompressed data"), "{text}");
            assert!(read[..] == packets[..read.len()]);
            // The zstd decoder returns no bytes of a block that is cut. A block has up to 128 KiB, and a
            // packet 116 bytes in the file. 400 more packets are subtracted as a margin.
            let expected = (10_000 * eighth / 8).saturating_sub(128 * 1024 / 116 + 400);
            assert!(read.len() >= expected.max(last), "{format} {eighth}/8: {} packets", read.len());
            last = read.len();
        }
    }
}

#[test]
fn checksums_are_verified() {
    let packets = packets(10);
    let file = write(WriterOptions::default(), &packets);
    for mut compressed in [gzip(&file), zstd(&file)] {
        // gzip ends with 4 bytes of checksum and 4 of length, zstd with its checksum: one bit of the
        // checksum is changed.
        let place = if compressed[0] == 0x1f { compressed.len() - 6 } else { compressed.len() - 2 };
        compressed[place] ^= 1;
        let (read, fault) = read_all(&compressed);
        assert_eq!(read, packets, "all of it has been read before the checksum is");
        assert!(matches!(fault.unwrap().kind(), ErrorKind::Decompress { .. }));
    }
}

#[test]
fn garbage_behind_a_magic_number() {
    for start in [&[0x1f, 0x8b][..], &[0x28, 0xb5, 0x2f, 0xfd], &[0x50, 0x2a, 0x4d, 0x18]] {
        let fault = fault_of(&[start, &[0xa5; 300]].concat());
        assert!(matches!(fault.kind(), ErrorKind::Decompress { .. }), "{fault}");
        assert_eq!((fault.packet(), fault.offset()), (None, 0));
    }
    // A frame whose window is larger than the limit: 2 GiB.
    let fault = fault_of(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 1, 0, 0]);
    assert!(matches!(fault.kind(), ErrorKind::Decompress { format: "zstd", .. }), "{fault}");
}

#[test]
fn nothing_compressed_is_empty() {
    for file in [gzip(&[]), zstd(&[])] {
        assert!(matches!(fault_of(&file).kind(), ErrorKind::Empty));
    }
}

#[test]
fn zeros_behind_the_end_are_padding() {
    let packets = packets(50);
    let file = write(WriterOptions::default(), &packets);
    let (a, b) = file.split_at(1_000);
    let zeros = [0; 70_001];
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    let members = [&gzip(a), &zeros[..], &gzip(b), &zeros].concat();
    let frames = [&zstd(a), &zeros[..], &skippable, &zeros, &zstd(b), &zeros].concat();
    for file in [members, frames] {
        for step in [7, 1 << 20] {
            let bytes = Cursor::new(file.clone());
            let mut reader = Reader::from_read(Trickle { bytes, step }, "x").unwrap();
            let read = std::iter::from_fn(|| reader.next().unwrap().map(Packet::from)).collect::<Vec<_>>();
            assert!(read == packets);
            assert_eq!(reader.warning(), None);
        }
    }
}

#[test]
fn other_bytes_behind_the_end_are_ignored_with_a_warning() {
    let packets = packets(50);
    let file = write(WriterOptions::default(), &packets);
    for (format, compressed) in [("gzip", gzip(&file)), ("zstd", zstd(&file))] {
        for rest in [&b"abc"[..], b"\0\0\0a", b"(", b"\0\x1f", &[0xff; 100_000]] {
            let bytes = Cursor::new([&compressed[..], rest].concat());
            let mut reader = Reader::from_read(bytes, "name").unwrap();
            assert_eq!(reader.warning(), None, "the end has not been read");
            let read = std::iter::from_fn(|| reader.next().unwrap().map(Packet::from)).collect::<Vec<_>>();
            assert!(read == packets, "{format}");
            let warning = reader.warning().unwrap();
            assert!(warning.starts_with("name: warning: ") && warning.contains(format), "{warning}");
            assert!(reader.next().unwrap().is_none());
        }
    }
}

#[test]
fn summary_dumps_end_as_captures_do() {
    use std::io::Read;
    for (rest, warns) in [(&b""[..], false), (&[0; 512], false), (b"more", true)] {
        for compressed in [gzip(b"!data ts\n1\n"), zstd(b"!data ts\n1\n")] {
            let file = [&compressed[..], rest].concat();
            let mut dump = capture::summary::Dump::open(Box::new(Cursor::new(file))).unwrap();
            let mut text = String::new();
            dump.read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), dump.warning("x").is_some()), ("!data ts\n1\n", warns));
        }
    }
}

/// Each prefix of a compressed file must give an error. A member or frame ends in the middle of a packet, so
/// that a file that is cut between two members or frames has an incomplete packet, too.
#[test]
fn a_file_that_is_cut_anywhere_is_not_taken_for_whole() {
    let packets = packets(50);
    let file = write(WriterOptions::default(), &packets);
    let (a, b) = file.split_at(1_000);
    let (b, c) = b.split_at(1_000);
    let zeros = [0; 5];
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7];
    let members = [&gzip(a), &gzip(&[]), &zeros[..], &gzip(b), &gzip(c)].concat();
    let frames =
        [&skippable[..], &zstd(a), &zstd(&[]), &zeros, &zstd(b), &skippable, &zeros, &zstd(c)].concat();
    for file in [members, frames] {
        assert_eq!(read_good(&file), packets);
        for length in 1..file.len() {
            match Reader::from_read(Cursor::new(file[..length].to_vec()), "x") {
                Ok(reader) => {
                    let (read, fault) = drain(reader);
                    assert!(read[..] == packets[..read.len()], "{length}");
                    assert!(fault.is_some(), "{} packets of {length} bytes of {}", read.len(), file.len());
                }
                Err(fault) => assert!(!fault.to_string().is_empty()),
            }
        }
    }
}
