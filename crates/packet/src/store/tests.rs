//! Tests of the store.

use std::num::NonZeroU64;

use super::*;
use crate::slot::{Base, SLOT_STRIDE};

/// The settings that most tests start from: annotations are restored.
const WRITTEN: Restore = Restore { annotations: true, ..Restore::NOTHING };

fn pool() -> Pool {
    Pool::new(if cfg!(miri) { 64 * SLOT_STRIDE } else { 64 << 20 }).unwrap()
}

fn lend(store: &mut Store, number: usize, pool: &mut Pool) -> Option<Packet> {
    let mut batch = Batch::new();
    assert!(store.lend_into(number..number + 1, pool, &mut batch) == batch.len());
    batch.pop()
}

#[test]
fn annotations_are_those_that_were_stored_however_often_they_are_written() {
    let mut pool = pool();
    pool.use_annotations(true);
    let mut store = Store::new(WRITTEN);
    let mut packet = pool.packet(b"packet").unwrap();
    packet.annotations_mut().set_u8(3, 7);
    assert!(store.insert(packet, &mut pool));
    // Each array element is the number of times that one borrower writes to the annotations.
    for writes in [1, 0, 2, 0, 0, 1] {
        let mut packet = lend(&mut store, 0, &mut pool).unwrap();
        assert_eq!(packet.annotations().u8(3), 7);
        (0..writes).for_each(|value| packet.annotations_mut().set_u8(3, value));
        pool.free(packet);
    }
    // After `release` the slot is in the pool. The next packet in it must not get the annotations of
    // the stored packet.
    assert_eq!(store.release(&mut pool), 1);
    let packet = pool.packet(b"fresh").unwrap();
    assert_eq!(packet.annotations(), &Annotations::CLEAR);
    pool.free(packet);
}

/// Two packets may have the same annotation area, and differ in the other annotations: offloads and parked
/// payloads.
#[test]
fn offloads_and_parked_payloads_are_those_of_each_packet() {
    let mut pool = pool();
    pool.use_annotations(true);
    for restore in [WRITTEN, Restore { copies: true, ..WRITTEN }] {
        let mut store = Store::new(restore);
        for number in 0..4u16 {
            let mut packet = pool.packet(b"packet").unwrap();
            packet.annotations_mut().virtio.gso_size = number / 2;
            packet.annotations_mut().parked = u32::from(number % 2);
            assert!(store.insert(packet, &mut pool));
        }
        for round in 0..3 {
            for number in 0..4u16 {
                let mut packet = lend(&mut store, usize::from(number), &mut pool).unwrap();
                let found = (packet.annotations().virtio.gso_size, packet.annotations().parked);
                assert_eq!(found, (number / 2, u32::from(number % 2)), "packet {number} in round {round}");
                packet.annotations_mut().virtio.gso_size = 9;
                packet.annotations_mut().parked = 9;
                pool.free(packet);
            }
        }
        assert_eq!(store.release(&mut pool), 4);
    }
}

/// The flow of a stored packet may have ended before the packet is lent.
#[test]
fn flow_marks_and_runs_are_not_stored() {
    let mut pool = pool();
    let mark = |lower: u64| NonZeroU64::new(7 << 32 | lower);
    let mut store = Store::new(WRITTEN);
    for length in [6, 5000] {
        let mut packet = pool.packet(&vec![1; length]).unwrap();
        packet.set_flow_mark(mark(5));
        packet.set_run(5);
        assert!(store.insert(packet, &mut pool));
    }
    for _ in 0..3 {
        for number in 0..2 {
            let mut packet = lend(&mut store, number, &mut pool).unwrap();
            assert_eq!((packet.flow_mark(), packet.run()), (None, 0), "packet {number}");
            packet.set_flow_mark(mark(9));
            packet.set_run(9);
            pool.free(packet);
        }
    }
    assert_eq!(store.release(&mut pool), 2);
}

#[test]
fn a_loan_is_put_back_as_it_was() {
    for restore in [
        Restore { bytes: 64, copies: false, ..WRITTEN },
        Restore { bytes: usize::MAX, copies: false, ..WRITTEN },
    ] {
        let mut pool = pool();
        let mut store = Store::new(restore);
        let mut packet = pool.packet(&[1; 100]).unwrap();
        packet.set_offset(Base::Network, Some(14));
        packet.annotations_mut().set_u32(20, 5);
        assert!(store.insert(packet, &mut pool));
        for _ in 0..3 {
            let mut loan = lend(&mut store, 0, &mut pool).unwrap();
            assert_eq!(loan.data(), &[1; 100]);
            assert_eq!(loan.annotations().u32(20), 5);
            assert_eq!(loan.offset(Base::Network), Some(14));
            loan.data_mut()[3] = 9;
            loan.annotations_mut().set_u32(20, 6);
            assert!(loan.strip(10));
            loan.truncate(20);
            pool.free(loan);
        }
        assert_eq!(store.release(&mut pool), 1);
        assert_eq!(pool.stats().in_use, 0);
    }
}

#[test]
fn packets_of_any_lengths_are_put_back() {
    let mut pool = pool();
    // Longer packets after shorter packets make the number of saved pieces grow. Packets of more than 128
    // bytes are restored as a whole.
    for lengths in [&[20, 40, 33, 64][..], &[64, 100, 128, 5], &[100, 40, 129, 300, 10]] {
        let mut store = Store::new(Restore { bytes: usize::MAX, copies: false, ..WRITTEN });
        for (number, &length) in (1..).zip(lengths) {
            let mut packet = pool.packet(&vec![number; length]).unwrap();
            // The first two packets have the same annotations, later packets have others.
            packet.annotations_mut().set_u32(20, if number > 2 { number.into() } else { 7 });
            assert!(store.insert(packet, &mut pool));
            for (number, &length) in (1..=number).zip(lengths) {
                let mut loan = lend(&mut store, usize::from(number) - 1, &mut pool).unwrap();
                assert_eq!(loan.data(), &vec![number; length], "{lengths:?}");
                assert_eq!(loan.annotations().u32(20), if number > 2 { number.into() } else { 7 });
                loan.data_mut().fill(0xff);
                loan.annotations_mut().set_u32(20, 0xff);
                pool.free(loan);
            }
        }
        assert_eq!(store.release(&mut pool), lengths.len());
    }
}

#[test]
fn as_much_is_put_back_as_the_place_of_the_transport_header_asks_for() {
    let marked = Some(ReachFromTransport { bytes: 24, transport_bytes: 18 });
    let mut pool = pool();
    let mut store = Store::new(Restore { bytes: 92, marked, ..Restore::NOTHING });
    // Each case has the offset of the transport header and the expected number of bytes that elements may
    // write: without IP options, with the longest options, and without a transport header annotation.
    let all = [(Some(34), 52), (Some(74), 92), (None, 24)];
    for (transport, _) in all {
        let mut packet = pool.packet(&[1; 128]).unwrap();
        packet.set_offset(Base::Transport, transport);
        assert!(store.insert(packet, &mut pool));
    }
    for _ in 0..3 {
        for (number, (_, reach)) in all.into_iter().enumerate() {
            let mut loan = lend(&mut store, number, &mut pool).unwrap();
            assert_eq!(loan.data()[..reach], [1; 128][..reach]);
            loan.data_mut()[..reach].fill(2);
            pool.free(loan);
        }
    }
}

#[test]
fn what_is_out_is_lent_as_a_copy_or_not_at_all() {
    let mut pool = pool();
    let mut store = Store::new(Restore { bytes: 0, copies: true, ..WRITTEN });
    let mut packet = pool.packet(&[1, 2, 3, 4]).unwrap();
    packet.set_offset(Base::Mac, Some(0));
    assert!(packet.strip(2));
    assert!(store.insert(packet, &mut pool));
    let first = lend(&mut store, 0, &mut pool).unwrap();
    let second = lend(&mut store, 0, &mut pool).unwrap();
    assert_eq!(first.data(), second.data());
    assert_eq!(first.offset(Base::Mac), second.offset(Base::Mac));
    pool.free(first);
    pool.free(second);

    let mut lean = Store::new(Restore { bytes: 64, copies: false, ..WRITTEN });
    let packet = pool.packet(&[5; 10]).unwrap();
    assert!(lean.insert(packet, &mut pool));
    let out = lend(&mut lean, 0, &mut pool).unwrap();
    assert!(lend(&mut lean, 0, &mut pool).is_none());
    drop(lean);
    pool.free(out);
    drop(store);
}

#[test]
fn large_packets_are_copied() {
    let mut pool = pool();
    let mut store = Store::new(Restore { bytes: 0, copies: false, ..WRITTEN });
    let packet = pool.packet(&[3; 9_000]).unwrap();
    assert!(store.insert(packet, &mut pool));
    let loan = lend(&mut store, 0, &mut pool).unwrap();
    assert_eq!(loan.len(), 9_000);
    pool.free(loan);
    assert_eq!(store.release(&mut pool), 1);
    let packet = pool.packet(&[0; 9_000]).unwrap();
    pool.free(packet);
    assert!(lend(&mut store, 0, &mut pool).is_none());
}

#[test]
fn long_packets_with_little_headroom_are_copied_whole() {
    let mut pool = pool();
    let mut store = Store::new(Restore { bytes: 0, copies: true, ..WRITTEN });
    let mut packet = pool.packet(&[7; crate::slot::SLOT_CAPACITY]).unwrap();
    assert!(packet.unstrip(14));
    packet.data_mut().fill(8);
    assert!(store.insert(packet, &mut pool));
    let first = lend(&mut store, 0, &mut pool).unwrap();
    let second = lend(&mut store, 0, &mut pool).unwrap();
    assert_eq!((second.len(), second.is_large()), (crate::slot::SLOT_CAPACITY + 14, false));
    assert_eq!(first.data(), second.data());
    pool.free(first);
    pool.free(second);
}

#[test]
fn stripped_bytes_are_put_back_too() {
    for copies in [false, true] {
        let mut pool = pool();
        let mut store = Store::new(Restore { bytes: 64, copies, ..WRITTEN });
        let mut packet = pool.packet(&[1; 30]).unwrap();
        assert!(packet.strip(14));
        assert!(store.insert(packet, &mut pool));
        let mut out = Vec::new();
        for _ in 0..if copies { 3 } else { 1 } {
            let mut loan = lend(&mut store, 0, &mut pool).unwrap();
            assert!(loan.unstrip(14));
            assert_eq!(loan.data(), &[1; 30]);
            loan.data_mut().fill(9);
            out.push(loan);
        }
        out.into_iter().for_each(|loan| pool.free(loan));
        let mut again = lend(&mut store, 0, &mut pool).unwrap();
        assert!(again.unstrip(14));
        assert_eq!(again.data(), &[1; 30]);
        pool.free(again);
    }
}

#[test]
fn a_loan_is_not_stored_twice() {
    let mut pool = pool();
    let (mut a, mut b) = (
        Store::new(Restore { bytes: 0, copies: false, ..WRITTEN }),
        Store::new(Restore { bytes: 0, copies: false, ..WRITTEN }),
    );
    let packet = pool.packet(&[1; 10]).unwrap();
    assert!(a.insert(packet, &mut pool));
    let loan = lend(&mut a, 0, &mut pool).unwrap();
    assert!(b.insert(loan, &mut pool));
    assert_eq!((a.release(&mut pool), b.release(&mut pool)), (1, 1));
    assert_eq!(pool.stats().in_use, 0);
}

#[test]
fn slots_that_are_out_at_the_end_come_home() {
    let mut pool = pool();
    let mut store = Store::new(Restore { bytes: 0, copies: false, ..WRITTEN });
    let packet = pool.packet(&[1; 10]).unwrap();
    assert!(store.insert(packet, &mut pool));
    let loan = lend(&mut store, 0, &mut pool).unwrap();
    assert_eq!(store.release(&mut pool), 1);
    pool.free(loan);
    assert_eq!(pool.stats().in_use, 0);
}

/// Each loan of a stored packet has the stored destination annotation, whether the previous borrower set
/// another destination in the metadata, wrote it to the annotations, or did neither.
#[test]
fn the_destination_is_restored() {
    let mut pool = Pool::new(64 << 20).unwrap();
    let restore = Restore { annotations: true, annotations_read: true, copies: true, ..Restore::NOTHING };
    let mut store = Store::new(restore);
    for number in 0..40u8 {
        let mut packet = pool.packet(&[number; 60]).unwrap();
        packet.set_destination([10, 0, 0, number]);
        assert!(store.insert(packet, &mut pool));
    }
    let mut batch = Batch::new();
    for round in 0..4u8 {
        assert_eq!(store.lend_into(0..40, &mut pool, &mut batch), 40);
        for (number, mut packet) in (0..).zip(batch.drain()) {
            assert_eq!(
                (packet.destination(), packet.data()[0]),
                ([10, 0, 0, number], number),
                "round {round}"
            );
            if round % 2 == 0 {
                packet.set_destination([1, 2, 3, round]);
            }
            if (round + number) % 3 == 0 {
                assert_eq!(packet.annotations().array4(Annotations::DST_IP), packet.destination());
            }
            pool.free(packet);
        }
    }
    // A copy is lent as long as the slot itself is on loan.
    for _ in 0..2 {
        assert_eq!(store.lend_into(3..4, &mut pool, &mut batch), 1);
    }
    for mut packet in batch.drain() {
        assert_eq!(packet.destination(), [10, 0, 0, 3]);
        packet.set_destination([0; 4]);
        pool.free(packet);
    }
    store.release(&mut pool);
}
