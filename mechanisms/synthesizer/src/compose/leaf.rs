//! Exit states: the states of symbolic packets where paths leave a region, without duplicates, and the
//! operations that change input packets to these states. Each exit state that the finished decision graph
//! leads to becomes a class of the program.

use std::collections::HashMap;

use element::DropReason;

use super::packet::{Summed, SymbolicPacket};

use program::chain::Port;
use program::location::{ByteLocation, ByteValue, IPV4_SUM};
use program::question::{AnswerSum, Question};
use program::{ChecksumOperation, TransportChecksum, Write, WrittenValue};

/// An element on a path, which packets bypass, and the facts that the element's counters need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathElement {
    /// The index of the element in the chain.
    pub node: usize,
    /// The input at which packets would arrive.
    pub input: usize,
    /// The case that applies: an index in the `cases` of the element's declaration.
    pub case: usize,
    /// The offset from the start of the input packet at which the packet would start if it came to the
    /// element.
    pub start: i32,
    /// True if the packet would come to the element already cut to its final end; false if it would still
    /// have the end of the input packet.
    pub cut: bool,
}

/// The destination of packets that leave a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// The packets go to this input of an element. The element is downstream of the region, or it is in the
    /// region and the packets are handed over to it.
    Port(Port),
    /// The packets are dropped for this reason: at the last element of the path, or at an element whose rules
    /// are evaluated as a list.
    Drop(DropReason),
}

/// An exit state: the state of packets where a path leaves a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExitState {
    /// The symbolic packet at the end of the path.
    pub packet: SymbolicPacket,
    /// The destination of the packets.
    pub to: Destination,
    /// The elements that packets on the path bypass, in order.
    pub path: Vec<PathElement>,
}

/// The exit states of a region, without duplicates, with consecutive numbers.
#[derive(Default)]
pub struct ExitStates {
    all: Vec<ExitState>,
    numbers: HashMap<ExitState, u32>,
}

impl ExitStates {
    /// Returns the number of an exit state. A new state gets the next number.
    pub fn add(&mut self, leaf: ExitState) -> u32 {
        let next = self.all.len() as u32;
        *self.numbers.entry(leaf).or_insert_with_key(|leaf| {
            self.all.push(leaf.clone());
            next
        })
    }

    /// Returns the number of different exit states.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there are no exit states.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Iterates over all exit states in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &ExitState> {
        self.all.iter()
    }

    /// Returns the exit state with this number, which must exist.
    pub fn get(&self, number: u32) -> &ExitState {
        &self.all[number as usize]
    }
}

/// Returns the offset, from the start of the input packet, at which a symbolic packet ends; `None` if it ends
/// where the input packet ends.
pub fn end(packet: &SymbolicPacket) -> Option<AnswerSum> {
    (packet.end != AnswerSum::of(Question::Length)).then(|| packet.end.clone())
}

/// Returns the writes that turn the input packet `incoming` into `packet`. Consecutive constants are one
/// write, and so are up to 64 copies of consecutive bytes.
pub fn writes(packet: &SymbolicPacket, incoming: &SymbolicPacket) -> Vec<Write> {
    let bytes = packet.bytes.iter().map(|(place, byte)| (ByteLocation::Byte(*place), byte));
    // An annotation that already has its value in the input packet needs no write. Annotations that a
    // stateful element writes are listed even then: in the equivalence proof, packets pass the element,
    // which writes them.
    let is_new = |(place, byte): &(&u8, &ByteValue)| {
        incoming.annotations.get(place) != Some(byte) || packet.rewritten.contains(place)
    };
    let annotations = packet.annotations.iter().filter(is_new);
    let annotations = annotations.map(|(place, byte)| (ByteLocation::Annotation(*place), byte));
    let mut writes: Vec<Write> = Vec::new();
    let mut skip = 0;
    for (place, byte) in bytes.chain(annotations) {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let is_next = writes.last().is_some_and(|last| last.place.after(last.value.length() as i32) == place);
        match (byte, writes.last_mut().map(|write| &mut write.value)) {
            (ByteValue::Constant(byte), Some(WrittenValue::Constant(bytes))) if is_next => bytes.push(*byte),
            (ByteValue::Constant(byte), _) => {
                writes.push(Write { place, value: WrittenValue::Constant(vec![*byte]) })
            }
            (ByteValue::Came(from), Some(WrittenValue::Copy(first, length)))
                if is_next && first.after((*length).into()) == *from && *length < 64 =>
            {
                *length += 1;
            }
            (ByteValue::Came(from), _) => writes.push(Write { place, value: WrittenValue::Copy(*from, 1) }),
            (ByteValue::Masked { place: from, and, or }, _) => {
                writes.push(Write { place, value: WrittenValue::Masked(*from, *and, *or) });
            }
            (ByteValue::Plus { place: from, length, plus, .. }, _) => {
                skip = usize::from(*length) - 1;
                writes.push(Write { place, value: WrittenValue::Plus(*from, *length, *plus) });
            }
        }
    }
    writes
}

/// Returns the operation on the IPv4 checksum; `None` if the program neither updates nor computes it.
pub fn checksum(packet: &SymbolicPacket) -> Option<ChecksumOperation> {
    match &packet.summed {
        Summed::Not => None,
        Summed::Recomputed(header) => Some(ChecksumOperation::Recomputed { header: *header }),
        Summed::Updated(header, places) => {
            let written = places.iter().filter(|place| packet.bytes.contains_key(place));
            let mut words: Vec<i32> = written.map(|place| header + (place - header) / 2 * 2).collect();
            words.retain(|word| *word != header + IPV4_SUM);
            words.dedup();
            // An update is needed even if no word changes: it may turn the checksum ffff into 0000, as the
            // elements do.
            Some(ChecksumOperation::Updated { header: *header, words })
        }
    }
}

/// Returns the operation on the checksum of the TCP or UDP header; `None` if the program does not update
/// it.
pub fn transport_checksum(packet: &SymbolicPacket) -> Option<TransportChecksum> {
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
