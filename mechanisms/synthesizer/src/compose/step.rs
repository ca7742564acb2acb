//! The transfer function of a case of a declaration: it applies the case to a symbolic packet (the
//! composition of operations in Algorithm 1 of the SNF paper).

use std::collections::BTreeSet;

use classify::IntervalSet;
use element::Base;
use element::effects::{Action, Case, Checksum, Field, HeaderKind, Predicate, Value as Set};
use packet::HEADROOM;

use super::formula::{AnswerTest, Formula, PathCondition};
use super::packet::{InputExpression, Summed, SymbolicPacket, TransportSummed};
use program::location::{ByteLocation, ByteValue, IPV4, IPV4_SUM};

/// The reason why a case cannot be applied to a symbolic packet.
pub enum Stop {
    /// The case can be applied only if this condition holds. The caller may fork the path by the condition,
    /// and apply the case where it holds.
    Needs(Formula),
    /// Only the element itself can process the packets.
    Alone,
}

/// Returns the symbolic packet after the actions of a case, for packets that meet the path condition `known`.
/// If `step` is given, values that the element chooses become leased values of that step.
pub fn carry_out(
    before: &SymbolicPacket,
    case: &Case,
    known: &PathCondition,
    step: Option<u16>,
) -> Result<SymbolicPacket, Stop> {
    let mut packet = before.clone();
    let mut written: Vec<i32> = Vec::new();
    let mut chosen = step.map(|step| ByteLocation::Leased(step, 0));
    for action in &case.actions {
        act(before, &mut packet, action, known, &mut chosen, &mut written)?;
    }
    // Refuses a packet that would start with bytes before the input packet that no element has written,
    // because their values are unknown. Also refuses a packet with a sum of which a part was overwritten,
    // because it cannot be expressed.
    if (packet.start.min(0)..0).any(|place| !packet.bytes.contains_key(&place)) || !packet.is_whole() {
        return Err(Stop::Alone);
    }
    sum_up(before, &mut packet, &case.checksum, &written, known)?;
    Ok(packet)
}

fn act(
    before: &SymbolicPacket,
    packet: &mut SymbolicPacket,
    action: &Action,
    known: &PathCondition,
    chosen: &mut Option<ByteLocation>,
    written: &mut Vec<i32>,
) -> Result<(), Stop> {
    match action {
        Action::Strip(n) => {
            let start = packet.start.checked_add(*n).ok_or(Stop::Alone)?;
            if start < -(HEADROOM as i32) {
                return Err(Stop::Alone);
            }
            if *n > 0 {
                holds(packet.reaches(start), known)?;
            }
            packet.start = start;
            Ok(())
        }
        Action::Start(number) => {
            let offset = place(before, number, known)?;
            packet.start = packet.start.checked_add(offset).ok_or(Stop::Alone)?;
            let is_inside = packet.start >= -(HEADROOM as i32);
            if is_inside { holds(packet.reaches(packet.start), known) } else { Err(Stop::Alone) }
        }
        Action::Set(Field::HeaderOffset(base), value) => {
            let place = match value {
                Set::Constant(bytes) if bytes.is_empty() => None,
                Set::Constant(bytes) => {
                    let offset = bytes.iter().fold(0i32, |n, &byte| n << 8 | i32::from(byte));
                    Some(packet.start + offset)
                }
                Set::Number(number) => Some(packet.start.saturating_add(place(before, number, known)?)),
                Set::Copy(Field::HeaderOffset(other)) => {
                    // Declarations give the offset of a header relative to the packet's start before the
                    // case.
                    before.place(*other).map(|place| place - before.start + packet.start)
                }
                _ => return Err(Stop::Alone),
            };
            packet.framed |= *base == Base::Mac && place == Some(packet.start);
            packet.mark(*base, place);
            Ok(())
        }
        Action::Set(Field::Length, value) => {
            let length = match value {
                Set::Number(number) => {
                    let (sum, there) = before.number(number).ok_or(Stop::Alone)?;
                    holds(there, known)?;
                    sum
                }
                Set::Plus(Field::Length, more) => {
                    before.end.clone().plus_constant(more.saturating_sub(before.start.into()))
                }
                _ => return Err(Stop::Alone),
            };
            let end = known.substitute(&length.plus_constant(packet.start.into()));
            // The counters of bypassed elements can compute packet lengths only from the end of the input
            // packet or the final end, so a path cannot cut packets twice to different ends.
            let was_cut = super::leaf::end(packet).is_some();
            if was_cut && packet.end != end {
                return Err(Stop::Alone);
            }
            // The new bytes of a packet that grows would be unknown, so the packet must not grow.
            holds(AnswerTest::at_least_zero(packet.end.clone().plus_times(-1, &end)), known)?;
            packet.end = end;
            Ok(())
        }
        Action::Set(Field::Kind, Set::Constant(bytes)) => {
            packet.kind = Some(*bytes.last().ok_or(Stop::Alone)?);
            Ok(())
        }
        Action::Set(Field::InputPort, Set::Constant(bytes)) => {
            packet.port = Some(*bytes.last().ok_or(Stop::Alone)?);
            Ok(())
        }
        Action::Set(Field::TimeStamp, Set::Now) => {
            packet.stamped = true;
            Ok(())
        }
        Action::Set(field @ (Field::Bytes { .. } | Field::Annotation { .. }), value) => {
            let (first, length) = packet.whereabouts(field).ok_or(Stop::Alone)?;
            let bytes = match (value, chosen) {
                (Set::Choose { .. }, Some(next)) => {
                    let here = *next;
                    *next = here.after(length.into());
                    (0..length).map(|more| ByteValue::Came(here.after(more.into()))).collect()
                }
                _ => value_of(before, packet, first, length, value, known)?,
            };
            if let ByteLocation::Byte(place) = first {
                written.extend((0..i32::from(length)).map(|more| place.saturating_add(more)));
            }
            packet.write(first, bytes);
            Ok(())
        }
        Action::Set(..) | Action::Resize(_) => Err(Stop::Alone),
    }
}

/// Returns `Ok` if a condition holds for all packets that meet the path condition `known`. Otherwise returns
/// the reason to stop: the remaining condition if it can be asked, else that only the element itself can
/// process the packets.
fn holds(condition: Formula, known: &PathCondition) -> Result<(), Stop> {
    match known.remaining(&condition) {
        Formula::Constant(true) => Ok(()),
        Formula::Constant(false) | Formula::Leaf(AnswerTest::Unknown) => Err(Stop::Alone),
        other => Err(Stop::Needs(other)),
    }
}

/// Returns the value of a number of a declaration that has to be constant, as a distance in bytes. If the
/// number depends on the length of an IPv4 header, returns as the error the condition that the header has no
/// options, by which the caller forks the path.
fn place(
    packet: &SymbolicPacket,
    number: &element::effects::Number,
    known: &PathCondition,
) -> Result<i32, Stop> {
    let (sum, there) = packet.number(number).ok_or(Stop::Alone)?;
    holds(there, known)?;
    let sum = known.substitute(&sum);
    if let Some(offset) = sum.known() {
        return i32::try_from(offset).map_err(|_| Stop::Alone);
    }
    let [(4, question, 0x0f)] = &sum.terms[..] else { return Err(Stop::Alone) };
    let usual = (0..=0x0f).map(|high| (high << 4 | 5, high << 4 | 5)).collect();
    match known.remaining(&AnswerTest::is(question.clone(), usual)) {
        Formula::Constant(_) | Formula::Leaf(AnswerTest::Unknown) => Err(Stop::Alone),
        other => Err(Stop::Needs(other)),
    }
}

/// Returns the new value of a field, byte by byte. `before` is the packet before the case, `packet` the
/// packet after the earlier actions of the case.
fn value_of(
    before: &SymbolicPacket,
    packet: &SymbolicPacket,
    first: ByteLocation,
    length: u8,
    value: &Set,
    known: &PathCondition,
) -> Result<Vec<ByteValue>, Stop> {
    let constant = |bytes: &[u8]| bytes.iter().map(|byte| ByteValue::Constant(*byte)).collect::<Vec<_>>();
    let from = |field: &Field, plus: i64| {
        let (place, width) =
            before.whereabouts(field).filter(|(_, width)| *width == length).ok_or(Stop::Alone)?;
        moved(before.value(place, width), plus).ok_or(Stop::Alone)
    };
    match value {
        Set::Constant(bytes) if bytes.len() == usize::from(length) => Ok(constant(bytes)),
        Set::Copy(field) => from(field, 0),
        Set::Plus(field, plus) => from(field, *plus),
        Set::Number(number) => {
            let (sum, there) = before.number(number).ok_or(Stop::Alone)?;
            holds(there, known)?;
            let value = known.substitute(&sum).known().ok_or(Stop::Alone)?;
            let bytes = (value as i128 as u128).to_be_bytes();
            Ok(constant(&bytes[16 - usize::from(length.min(16))..]))
        }
        Set::Bits { mask, value } if mask.len() == usize::from(length) && value.len() == mask.len() => {
            let masks = mask.iter().zip(value);
            let byte = |(more, (mask, value)): (usize, (&u8, &u8))| {
                let place = first.after(more as i32);
                let (and, or) = (!mask, mask & value);
                Ok(match packet.value(place, 1) {
                    _ if *mask == 0xff => ByteValue::Constant(*value),
                    InputExpression::Constant(old) => ByteValue::Constant(old[0] & and | or),
                    InputExpression::Came(place, 1, 0) if *mask == 0 => ByteValue::Came(place),
                    InputExpression::Came(place, 1, 0) => ByteValue::Masked { place, and, or },
                    InputExpression::Masked(place, old_and, old_or) => {
                        ByteValue::Masked { place, and: old_and & and, or: old_or & and | or }
                    }
                    _ => return Err(Stop::Alone),
                })
            };
            masks.enumerate().map(byte).collect()
        }
        _ => Err(Stop::Alone),
    }
}

/// Returns a value plus a constant, byte by byte. The sum wraps around at the width of the field. Returns
/// `None` if it cannot be expressed.
fn moved(value: InputExpression, plus: i64) -> Option<Vec<ByteValue>> {
    Some(match value {
        InputExpression::Constant(bytes) if plus == 0 => bytes.into_iter().map(ByteValue::Constant).collect(),
        InputExpression::Constant(bytes) => {
            let number = super::packet::big_endian(&bytes).wrapping_add(plus as i128 as u128);
            let digits = number.to_be_bytes();
            digits[16 - bytes.len().min(16)..].iter().map(|byte| ByteValue::Constant(*byte)).collect()
        }
        InputExpression::Came(place, length, old) => match old.checked_add(plus)? {
            0 => (0..i32::from(length)).map(|more| ByteValue::Came(place.after(more))).collect(),
            plus if length <= 8 => {
                (0..length).map(|index| ByteValue::Plus { place, length, plus, index }).collect()
            }
            _ => return None,
        },
        InputExpression::Masked(place, and, or) if plus == 0 => vec![ByteValue::Masked { place, and, or }],
        InputExpression::Masked(..) | InputExpression::Mixed => return None,
    })
}

/// Records which checksums a case updates or computes, and refuses cases after which a single update could
/// not give the right checksum.
///
/// A program updates a checksum once, at the end, by the difference between the input words and the final
/// words. So each written byte of the checksum's header must have been written with an update. The elements'
/// updates do not account for a byte that was written without an update, even if another element writes the
/// byte again with an update. An element that overwrites a whole checksum ends the record of updates.
fn sum_up(
    before: &SymbolicPacket,
    packet: &mut SymbolicPacket,
    checksum: &Checksum,
    written: &[i32],
    known: &PathCondition,
) -> Result<(), Stop> {
    let network = packet.headers[1];
    let (headers, afresh): (&[HeaderKind], _) = match checksum {
        Checksum::Untouched => (&[], false),
        Checksum::Updated(headers) => (headers, false),
        Checksum::Recomputed(headers) => (headers, true),
    };
    let transport = |header: &&HeaderKind| matches!(header, HeaderKind::Tcp | HeaderKind::Udp) && !afresh;
    sum_up_transport(before, packet, headers.iter().find(transport).copied(), written)?;
    let is_of_network = headers.iter().any(|header| !transport(&header));
    if let Some(kept) = packet.summed.header().filter(|kept| !is_of_network || Some(*kept) != network) {
        end_where_overwritten(packet, kept, written)?;
    }
    for header in headers.iter().filter(|header| !transport(header)) {
        let (HeaderKind::Ipv4, Some(start)) = (header, network) else { return Err(Stop::Alone) };
        let is_sum = |place: &i32| (start + IPV4_SUM..start + IPV4_SUM + 2).contains(place);
        if written.iter().any(is_sum) || packet.summed.header().is_some_and(|other| other != start) {
            return Err(Stop::Alone);
        }
        // Bytes before the start of the input packet are only known if the program writes them.
        if (start.min(0)..0).any(|place| !packet.bytes.contains_key(&place)) {
            return Err(Stop::Alone);
        }
        if afresh {
            let ihl = Field::Bytes { base: Base::Network, offset: 0, length: 1 };
            let plain = Predicate::In { field: ihl, mask: 0x0f, set: IntervalSet::one(5, 5) };
            let plain = packet.condition(&plain.into());
            holds(Formula::all([plain, packet.reaches(start + IPV4)]), known)?;
            packet.bytes.retain(|place, _| !is_sum(place));
            packet.summed = Summed::Recomputed(start);
            continue;
        }
        let mut accounted = match &packet.summed {
            Summed::Recomputed(_) => continue,
            Summed::Updated(_, places) => places.clone(),
            Summed::Not => Default::default(),
        };
        if before.bytes.range(start..start + IPV4).any(|(place, _)| !accounted.contains(place)) {
            return Err(Stop::Alone);
        }
        accounted.extend(written.iter().filter(|place| (start..start + IPV4).contains(*place)));
        packet.summed = Summed::Updated(start, accounted);
    }
    Ok(())
}

/// Forgets the updates of a header's checksum if the case overwrites the whole checksum field. Otherwise
/// refuses a case that writes to the header, because the checksum would not account for the write.
fn end_where_overwritten(packet: &mut SymbolicPacket, header: i32, written: &[i32]) -> Result<(), Stop> {
    if [0, 1].iter().all(|byte| written.contains(&(header + IPV4_SUM + byte))) {
        packet.summed = Summed::Not;
        return Ok(());
    }
    let is_hit = written.iter().any(|place| (header..header + IPV4).contains(place));
    if is_hit { Err(Stop::Alone) } else { Ok(()) }
}

/// Records the update of a TCP or UDP checksum by a case, if `updated` names the protocol. Refuses cases
/// after which a single update could not give the right checksum.
fn sum_up_transport(
    before: &SymbolicPacket,
    packet: &mut SymbolicPacket,
    updated: Option<HeaderKind>,
    written: &[i32],
) -> Result<(), Stop> {
    if let Some(protocol) = updated {
        let [_, Some(network), Some(transport)] = packet.headers else { return Err(Stop::Alone) };
        let fresh = TransportSummed { protocol, network, transport, places: BTreeSet::new() };
        let mut summed = packet.transport_summed.take().unwrap_or_else(|| fresh.clone());
        if (summed.protocol, summed.network, summed.transport) != (protocol, network, transport) {
            return Err(Stop::Alone);
        }
        // The runtime cannot update a checksum in a header that starts before the input packet.
        if network < 0 || transport < 0 {
            return Err(Stop::Alone);
        }
        let is_odd = |place: &i32| summed.covers(*place) && !summed.places.contains(place);
        if before.bytes.keys().any(is_odd) {
            return Err(Stop::Alone);
        }
        let covered = written.iter().copied().filter(|place| summed.covers(*place)).collect::<Vec<_>>();
        summed.places.extend(covered);
        packet.transport_summed = Some(summed);
    }
    let Some(summed) = &packet.transport_summed else { return Ok(()) };
    let sum = summed.place()..summed.place() + 2;
    // Refuses covered bytes that were written without an update, even if they were overwritten later. Also
    // refuses writes to the checksum field of other kinds than an update.
    let is_odd = |place: &i32| summed.covers(*place) && !summed.places.contains(place);
    let is_wrong = |place: &i32| sum.contains(place) || summed.covers(*place) && updated.is_none();
    if packet.bytes.keys().any(is_odd) || written.iter().any(is_wrong) {
        return Err(Stop::Alone);
    }
    Ok(())
}
