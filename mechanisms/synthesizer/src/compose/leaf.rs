//! Exit states: the classes, without duplicates, and the operations that they require.

use std::collections::HashMap;

use element::DropReason;

use super::packet::{Packet, Summed};

use program::chain::Port;
use program::location::{Byte, IPV4_SUM, Location};
use program::question::{Question, Sum};
use program::{Checksum, TransportChecksum, Value, Write};

/// An element on the path of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Passed {
    /// The element.
    pub node: usize,
    /// The input.
    pub input: usize,
    /// The case of the element's declaration.
    pub case: usize,
    /// The offset of the packet's start on arrival.
    pub start: i32,
    /// True if the packet already had its final end on arrival, and not the end of the input packet.
    pub cut: bool,
}

/// The destination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// An input of an element.
    Port(Port),
    /// No destination: the last element of the path drops the packets.
    Drop(DropReason),
}

/// An exit state: a class under construction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExitState {
    /// The symbolic packet at the exit.
    pub packet: Packet,
    /// The destination.
    pub to: To,
    /// The elements on the path.
    pub path: Vec<Passed>,
}

/// A set of exit states, without duplicates.
#[derive(Default)]
pub struct ExitStates {
    all: Vec<ExitState>,
    numbers: HashMap<ExitState, u32>,
}

impl ExitStates {
    /// Returns the number of an exit state, and adds the state if it is new.
    pub fn add(&mut self, leaf: ExitState) -> u32 {
        let next = self.all.len() as u32;
        *self.numbers.entry(leaf).or_insert_with_key(|leaf| {
            self.all.push(leaf.clone());
            next
        })
    }

    /// Returns the number of exit states.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Iterates over all exit states.
    pub fn iter(&self) -> impl Iterator<Item = &ExitState> {
        self.all.iter()
    }

    /// Returns the exit state with this number.
    pub fn get(&self, number: u32) -> &ExitState {
        &self.all[number as usize]
    }
}

/// Returns the end of a packet, if it differs from the end of the input packet.
pub fn end(packet: &Packet) -> Option<Sum> {
    (packet.end != Sum::of(Question::Length)).then(|| packet.end.clone())
}

/// Returns the writes that turn the input packet into this packet.
pub fn writes(packet: &Packet, incoming: &Packet) -> Vec<Write> {
    let bytes = packet.bytes.iter().map(|(place, byte)| (Location::Byte(*place), byte));
    // Annotations that the source sets already have their values. Annotations that a stateful element
    // writes are nevertheless listed: the equivalence proof passes packets through the element.
    let is_new = |(place, byte): &(&u8, &Byte)| {
        incoming.annotations.get(place) != Some(byte) || packet.rewritten.contains(place)
    };
    let annotations = packet.annotations.iter().filter(is_new);
    let annotations = annotations.map(|(place, byte)| (Location::Annotation(*place), byte));
    let mut writes: Vec<Write> = Vec::new();
    let mut skip = 0;
    for (place, byte) in bytes.chain(annotations) {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let is_next =
            writes.last().is_some_and(|last| last.place.behind(last.value.length() as i32) == place);
        match (byte, writes.last_mut().map(|write| &mut write.value)) {
            (Byte::Constant(byte), Some(Value::Constant(bytes))) if is_next => bytes.push(*byte),
            (Byte::Constant(byte), _) => writes.push(Write { place, value: Value::Constant(vec![*byte]) }),
            (Byte::Came(from), Some(Value::Copy(first, length)))
                if is_next && first.behind((*length).into()) == *from && *length < 64 =>
            {
                *length += 1;
            }
            (Byte::Came(from), _) => writes.push(Write { place, value: Value::Copy(*from, 1) }),
            (Byte::Masked { place: from, and, or }, _) => {
                writes.push(Write { place, value: Value::Masked(*from, *and, *or) });
            }
            (Byte::Plus { place: from, length, plus, .. }, _) => {
                skip = usize::from(*length) - 1;
                writes.push(Write { place, value: Value::Plus(*from, *length, *plus) });
            }
        }
    }
    writes
}

/// Returns the operation on the IPv4 checksum.
pub fn checksum(packet: &Packet) -> Option<Checksum> {
    match &packet.summed {
        Summed::Not => None,
        Summed::Recomputed(header) => Some(Checksum::Recomputed { header: *header }),
        Summed::Updated(header, places) => {
            let written = places.iter().filter(|place| packet.bytes.contains_key(place));
            let mut words: Vec<i32> = written.map(|place| header + (place - header) / 2 * 2).collect();
            words.retain(|word| *word != header + IPV4_SUM);
            words.dedup();
            // An update without changes may still turn ffff into 0000.
            Some(Checksum::Updated { header: *header, words })
        }
    }
}

/// Returns the operation on the checksum of the transport header.
pub fn transport_checksum(packet: &Packet) -> Option<TransportChecksum> {
    let summed = packet.transport_summed.as_ref()?;
    let written = summed.places.iter().filter(|place| packet.bytes.contains_key(place));
    let mut words: Vec<i32> = written
        .map(|&place| {
            let start = if place < summed.transport { summed.network } else { summed.transport };
            start + (place - start) / 2 * 2
        })
        .collect();
    words.dedup();
    let (protocol, header) = (summed.protocol, summed.transport);
    Some(TransportChecksum { protocol, header, words })
}
