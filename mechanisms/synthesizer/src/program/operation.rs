//! What is done to packets of a class: everything that is read first, then each write once, then the checksums.

use element::effects::Header;
use element::{Base, Packet, Timestamp};
use packet::{Annotations, PacketKind};
use wire::LinkType;
use wire::checksum::{Delta, Sum as OnesSum};

use super::question::Sum;
use super::run::value;
use super::{Checksum, Class, TransportChecksum, Value, Write};
use crate::compose::packet::{IPV4, IPV4_SUM, Place};
use crate::verify::run::kind_of;

/// The bytes that values other than constants may take in one class.
const MOST_MOVED: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Operation {
    start: i32,
    front: i32,
    end: Option<Sum>,
    headers: Vec<(Base, Option<i32>)>,
    kind: Option<PacketKind>,
    port: Option<u8>,
    framed: bool,
    stamped: bool,
    writes: Vec<Write>,
    annotations: Vec<Write>,
    /// Whether a value is made from what came in.
    moves: bool,
    checksum: Option<Checksum>,
    transport_checksum: Option<TransportChecksum>,
    /// Bytes that the packet has to have in its first slot.
    needs: usize,
}

impl Operation {
    /// Compiles the operation of a class. `is_read` says of an annotation byte whether anybody looks at it, `leased` where a
    /// byte of the values that a flow on lease gets is to be found.
    ///
    /// # Errors
    /// What no packet can have done to it.
    pub(super) fn new(
        class: &Class,
        is_read: &dyn Fn(u8) -> bool,
        leased: &dyn Fn(u16, u8) -> Option<u8>,
    ) -> Result<Operation, String> {
        let mut operation = Operation {
            start: class.start,
            front: class.front(),
            port: class.port,
            framed: class.framed,
            stamped: class.stamped,
            ..Operation::default()
        };
        operation.end.clone_from(&class.end);
        operation.checksum.clone_from(&class.checksum);
        operation.transport_checksum.clone_from(&class.transport_checksum);
        for (base, header) in [Base::Mac, Base::Network, Base::Transport].into_iter().zip(class.headers) {
            operation.headers.extend(header.map(|place| (base, place.map(|place| place - class.start))));
        }
        if let Some(kind) = class.kind {
            operation.kind = Some(kind_of(kind));
        }
        let reach = |place: Place, length: usize| match place {
            Place::Byte(place) => i64::from(place) + length as i64,
            Place::Annotation(_) | Place::Leased(..) => 0,
        };
        let mut needs = i64::from(class.start);
        let mut moved = 0;
        for write in &class.writes {
            let Some(write) = &found(write, leased) else {
                // Packets of such flows are left to the elements.
                return Ok(Operation { needs: usize::MAX, ..Operation::default() });
            };
            needs = needs.max(reach(write.place, write.value.length()));
            let from = match &write.value {
                Value::Constant(_) => None,
                Value::Copy(from, length) | Value::Plus(from, length, _) => {
                    Some((*from, usize::from(*length)))
                }
                Value::Masked(from, ..) => Some((*from, 1)),
            };
            if let Some((from, length)) = from {
                needs = needs.max(reach(from, length));
                moved += length;
                if matches!(from, Place::Byte(place) if place < 0) {
                    return Err("it reads in front of the packet".into());
                }
            }
            match write.place {
                Place::Byte(_) => operation.writes.push(write.clone()),
                Place::Annotation(place) => {
                    let places = place..place.saturating_add(write.value.length() as u8);
                    if usize::from(places.end) > Annotations::SIZE {
                        return Err("it writes behind the annotations".into());
                    }
                    match &write.value {
                        // Of constants only what somebody looks at is written.
                        Value::Constant(bytes) => {
                            let read = places.zip(bytes).filter(|(place, _)| is_read(*place));
                            for (place, byte) in read {
                                add_byte(&mut operation.annotations, place, *byte);
                            }
                        }
                        _ if places.into_iter().any(is_read) => operation.annotations.push(write.clone()),
                        _ => {}
                    }
                }
                Place::Leased(..) => return Err("it writes what is not in the packet".into()),
            }
        }
        operation.moves = moved > 0;
        if moved > MOST_MOVED {
            return Err("it moves too many bytes".into());
        }
        if let Some(Checksum::Updated { header, .. } | Checksum::Recomputed { header }) = &class.checksum {
            if *header < class.front() {
                return Err("it sums up what is not in the packet".into());
            }
            needs = needs.max(i64::from(header + IPV4));
        }
        if let Some(Checksum::Updated { header, words }) = &class.checksum
            && (words.len() > Words::default().len()
                || words.iter().any(|word| {
                    *word < 0 || !(0..IPV4).contains(&(word - header)) || (word - header) % 2 != 0
                }))
        {
            return Err("it sums up what is not in the header".into());
        }
        if let Some(sum) = &class.transport_checksum {
            let places = sum.words.iter().copied().chain([sum.place()]);
            if sum.words.len() > Words::default().len() || places.clone().any(|place| place < 0) {
                return Err("it sums up what is not in the packet".into());
            }
            let last = places.max().unwrap_or_default();
            needs = needs.max(i64::from(last) + 2);
        }
        operation.needs = usize::try_from(needs).unwrap_or(0);
        Ok(operation)
    }

    #[inline]
    pub(super) fn carry_out(&self, packet: &mut Packet, now: Timestamp, leased: &[u8]) -> bool {
        let Operation { start, front, writes, annotations, checksum, transport_checksum, .. } = self;
        let (start, front) = (*start, *front);
        if packet.data().len() < self.needs || packet.headroom() < front.unsigned_abs() as usize {
            return false;
        }
        // What is read is what came in: first all of it, then writes.
        let mut moved = [0; MOST_MOVED];
        let mut used = 0;
        if self.moves {
            for write in writes.iter().chain(annotations) {
                used += gather(&write.value, packet, leased, &mut moved[used..]);
            }
        }
        let old = match checksum {
            Some(Checksum::Updated { words, .. }) => words_of(packet, words, 0),
            _ => Words::default(),
        };
        let old_transport = match transport_checksum {
            Some(sum) => words_of(packet, &sum.words, 0),
            None => Words::default(),
        };
        let end = self.end.as_ref().map(|sum| value(sum, packet));
        // What lies in front of the packet afterwards is written before it is taken off.
        let is_longer = packet.unstrip(front.unsigned_abs() as usize);
        debug_assert!(is_longer, "that there is room was asked before");
        let data = packet.data_mut();
        let mut used = 0;
        for Write { place, value } in writes {
            let Place::Byte(place) = place else { continue };
            let place = (place - front) as usize;
            let to = &mut data[place..place + value.length()];
            match value {
                Value::Constant(bytes) => put(to, bytes),
                value => {
                    put(to, &moved[used..used + value.length()]);
                    used += value.length();
                }
            }
        }
        match checksum {
            Some(Checksum::Updated { header, words }) => {
                let new = words_of(packet, words, front);
                let change = change(&old, &new, words.len());
                let place = (header + IPV4_SUM - front) as usize;
                let sum = &mut packet.data_mut()[place..place + 2];
                let old = u16::from_be_bytes([sum[0], sum[1]]);
                let new = if change.is_nothing() { old } else { change.apply(old) };
                sum.copy_from_slice(&new.to_be_bytes());
            }
            Some(Checksum::Recomputed { header }) => {
                let first = (header - front) as usize;
                let place = first + IPV4_SUM as usize;
                let data = packet.data_mut();
                data[place..place + 2].fill(0);
                let sum = OnesSum::new().bytes(&data[first..first + IPV4 as usize]).checksum().to_be_bytes();
                data[place..place + 2].copy_from_slice(&sum);
            }
            None => {}
        }
        if let Some(sum) = transport_checksum {
            let new = words_of(packet, &sum.words, front);
            let change = change(&old_transport, &new, sum.words.len());
            let place = (sum.place() - front) as usize;
            let bytes = &mut packet.data_mut()[place..place + 2];
            let old = u16::from_be_bytes([bytes[0], bytes[1]]);
            // Of an update by nothing, not even the other zero is left.
            let new = match sum.protocol {
                _ if change.is_nothing() => old,
                Header::Udp => change.apply_udp(old),
                _ => change.apply(old),
            };
            bytes.copy_from_slice(&new.to_be_bytes());
        }
        let is_shorter = packet.strip((start - front) as usize);
        debug_assert!(is_shorter, "that there are so many bytes was asked before");
        if let Some(end) = end {
            packet.truncate(usize::try_from(end - i64::from(start)).unwrap_or(0));
        }
        for (base, place) in &self.headers {
            packet.set_offset(*base, place.map(|place| place as isize));
        }
        if let Some(kind) = self.kind {
            packet.set_kind(kind);
        }
        if let Some(port) = self.port {
            packet.set_port(port);
        }
        if self.framed {
            packet.set_link(LinkType::Ethernet.number());
        }
        if self.stamped {
            packet.set_time(now);
        }
        for Write { place, value } in annotations {
            let Place::Annotation(place) = place else { continue };
            let place = usize::from(*place);
            let to = &mut packet.annotations_mut().bytes_mut()[place..place + value.length()];
            match value {
                Value::Constant(bytes) => put(to, bytes),
                value => {
                    put(to, &moved[used..used + value.length()]);
                    used += value.length();
                }
            }
        }
        true
    }
}

/// A write with the place at which values of a flow on lease are found, if there is room for them.
fn found(write: &Write, leased: &dyn Fn(u16, u8) -> Option<u8>) -> Option<Write> {
    let find = |place: Place, length: u8| match place {
        Place::Leased(step, offset) => {
            let first = leased(step, offset)?;
            let mut more = 1..length;
            // All of them, side by side.
            let next =
                |more: u8| leased(step, offset.checked_add(more)?).filter(|next| *next == first + more);
            more.all(|more| next(more).is_some()).then_some(Place::Leased(0, first))
        }
        other => Some(other),
    };
    let value = match &write.value {
        Value::Constant(bytes) => Value::Constant(bytes.clone()),
        Value::Copy(from, length) => Value::Copy(find(*from, *length)?, *length),
        Value::Plus(from, length, plus) => Value::Plus(find(*from, *length)?, *length, *plus),
        Value::Masked(from, and, or) => Value::Masked(find(*from, 1)?, *and, *or),
    };
    Some(Write { place: write.place, value })
}

/// Adds a constant byte to writes of annotations, behind the last one if it follows that.
fn add_byte(writes: &mut Vec<Write>, place: u8, byte: u8) {
    if let Some(Write { place: Place::Annotation(first), value: Value::Constant(bytes) }) = writes.last_mut()
        && usize::from(*first) + bytes.len() == usize::from(place)
    {
        return bytes.push(byte);
    }
    writes.push(Write { place: Place::Annotation(place), value: Value::Constant(vec![byte]) });
}

/// Copies a few bytes; both have one length. A call to copy them would cost more than they do.
#[inline(always)]
fn put(to: &mut [u8], from: &[u8]) {
    match (to, from) {
        ([to], [from]) => *to = *from,
        (to, from) if from.len() == 4 && to.len() == 4 => {
            if let Some(bytes) = from.first_chunk::<4>() {
                to.copy_from_slice(bytes);
            }
        }
        (to, from) if (8..=16).contains(&from.len()) && to.len() == from.len() => {
            let behind = from.len() - 8;
            let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>()) else { return };
            to[..8].copy_from_slice(first);
            to[behind..].copy_from_slice(last);
        }
        (to, from) => to.copy_from_slice(from),
    }
}

/// Puts what a value is made from into `to`; constants need no room there.
#[inline]
fn gather(value: &Value, packet: &Packet, leased: &[u8], to: &mut [u8]) -> usize {
    match value {
        Value::Constant(_) => 0,
        Value::Copy(from, length) => {
            let length = usize::from(*length);
            put(&mut to[..length], bytes_at(packet, leased, *from, length));
            length
        }
        Value::Plus(from, length, plus) => {
            let length = usize::from(*length);
            if length == 1 {
                to[0] = bytes_at(packet, leased, *from, 1)[0].wrapping_add(*plus as u8);
                return 1;
            }
            let mut number = [0; 8];
            number[8 - length..].copy_from_slice(bytes_at(packet, leased, *from, length));
            let sum = u64::from_be_bytes(number).wrapping_add(*plus as u64).to_be_bytes();
            to[..length].copy_from_slice(&sum[8 - length..]);
            length
        }
        Value::Masked(from, and, or) => {
            to[0] = bytes_at(packet, leased, *from, 1)[0] & and | or;
            1
        }
    }
}

/// Bytes of a packet that has them, or of what is leased.
#[inline]
fn bytes_at<'p>(packet: &'p Packet, leased: &'p [u8], place: Place, length: usize) -> &'p [u8] {
    match place {
        Place::Byte(place) => &packet.data()[place as usize..place as usize + length],
        Place::Annotation(place) => {
            &packet.annotations().bytes()[usize::from(place)..usize::from(place) + length]
        }
        Place::Leased(_, place) => &leased[usize::from(place)..usize::from(place) + length],
    }
}

/// Words of a header, as many as it can have.
type Words = [u16; IPV4 as usize / 2];

/// How a checksum over some words changes.
#[inline]
fn change(old: &Words, new: &Words, words: usize) -> Delta {
    let pairs = old.iter().zip(new).take(words);
    pairs.fold(Delta::default(), |sum, (old, new)| sum + Delta::u16(*old, *new))
}

/// The words that a checksum has to account for.
#[inline]
fn words_of(packet: &Packet, words: &[i32], start: i32) -> Words {
    let data = packet.data();
    let mut values = Words::default();
    for (value, word) in values.iter_mut().zip(words) {
        let place = (word - start) as usize;
        *value = u16::from_be_bytes([data[place], data[place + 1]]);
    }
    values
}
