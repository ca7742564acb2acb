//! A model check of [`CoreStates`]: loom tries, one after the other, the interleavings with at most two
//! preemptions of two cores that access one entry.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p tidegate-flow --test states --target-dir target/loom`
#![cfg(loom)]

use std::net::Ipv4Addr;

use flow::{AddressKey, CoreStates};
use loom::thread;
use packet::Timestamp;

type States = CoreStates<AddressKey, [u64; 2]>;

const NOW: Timestamp = Timestamp::from_secs(1);

fn key(n: u32) -> AddressKey {
    AddressKey::new(Ipv4Addr::from_bits(n).into(), 0)
}

/// Returns a state that contains its flow, the number of the change, and their complement, so that a reader
/// notices a mixed state.
fn state(n: u32, change: u64) -> [u64; 2] {
    [u64::from(n) << 32 | change, !(u64::from(n) << 32 | change)]
}

/// Reads the state of a flow and returns the number of the change. Checks that the state is not a mixture
/// of two changes and belongs to this flow.
fn read(states: &States, n: u32) -> Option<u64> {
    let (_, [word, check]) = states.get(0, &key(n), n)?;
    assert_eq!((word, word >> 32), (!check, u64::from(n)), "half of a change, or another flow's state");
    Some(word & 0xffff_ffff)
}

fn model(writes: fn(&mut States), reads: fn(&States)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let mut cores = States::new(2, 1).unwrap();
        let reader = cores.pop().unwrap();
        let mut writer = cores.pop().unwrap();
        let other = thread::spawn(move || reads(&reader));
        writes(&mut writer);
        other.join().unwrap();
    });
}

#[test]
fn a_flow_comes_and_changes() {
    model(
        |writer| {
            let id = writer.insert_local(&key(1), 1, &state(1, 1), NOW).unwrap().id();
            assert!(writer.update_local(id, &state(1, 2)));
        },
        |reader| {
            let first = read(reader, 1);
            // A reader never finds an older state than before. While a change is in progress it may find
            // nothing.
            if let (Some(first), Some(second)) = (first, read(reader, 1)) {
                assert!(first <= second);
            }
        },
    );
}

#[test]
fn a_place_goes_from_one_flow_to_another() {
    model(
        |writer| {
            let id = writer.insert_local(&key(1), 1, &state(1, 1), NOW).unwrap().id();
            assert_eq!(writer.remove_local(id), Some(state(1, 1)));
            writer.insert_local(&key(2), 2, &state(2, 1), NOW).unwrap();
        },
        |reader| {
            read(reader, 1);
            read(reader, 2);
        },
    );
}

#[test]
fn stamps_of_one_core_are_seen_by_the_other() {
    model(
        |writer| {
            let id = writer.insert_local(&key(1), 1, &state(1, 1), NOW).unwrap().id();
            let seen = writer.last_seen(id).unwrap();
            assert!(seen >= NOW && seen <= Timestamp::from_secs(10));
        },
        |reader| {
            if let Some((id, _)) = reader.get(0, &key(1), 1) {
                reader.see(id, Timestamp::from_secs(9));
            }
        },
    );
}
