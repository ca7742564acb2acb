//! Derives facts about a graph from the declared effects of all its elements together. Among them are
//! annotations that are read, work that may be left for devices, and bytes that a replay has to restore.

use std::collections::BTreeSet;

use element::effects::{Action, Case, EXTRA_LENGTH, Effects, Field, HeaderKind, Hold, Number, Value};
use element::obstacles::{to_large_segments, to_offloads};
use element::{Base, ElementId, Facts};
use packet::{ReachFromTransport, Restore};

use crate::packet_starts::{ETHERNET, FAR, Forward, moved, moves, starts_of_packets};
use crate::{checksums, flow_marks, runs};

/// The length of the longest IPv4 header, in bytes.
const IP_HEADER: i64 = 60;
/// An offset beyond every byte of a packet, for offsets that are not known.
const ANYWHERE: i64 = u32::MAX as i64;

/// Derives all facts about a graph. `effects` are the declared effects, by element.
pub(crate) fn gather(effects: &[Effects], forward: &Forward) -> Facts {
    let (mut annotations_read, mut annotations_written) = ([false; 48], [false; 48]);
    let mark = |bytes: &mut [bool; 48], field: &Field| {
        if let Field::Annotation { offset, length } = *field {
            let range = offset as usize..(offset as usize + length as usize).min(48);
            bytes[range].fill(true);
        }
    };
    for effect in effects {
        for field in effect.reads_for_others().iter().chain(&effect.observes) {
            mark(&mut annotations_read, field);
        }
        for field in &effect.writes() {
            mark(&mut annotations_written, field);
        }
        if effect.opaque.is_some() {
            annotations_read.fill(true);
            annotations_written.fill(true);
        }
    }
    let tells_lengths = effects.iter().any(|effect| effect.support.sliced.parks.is_some())
        && effects.iter().any(|effect| effect.support.whole_length);
    if tells_lengths {
        mark(&mut annotations_read, &EXTRA_LENGTH);
    }
    let offloads = offloads(effects, forward);
    // Work left for a device is described next to the annotations, and is cleared with them. So annotations
    // count as used if they are read, or if work may be left. An annotation that is only written has no
    // effect.
    let large_segments = large_segments(effects, forward);
    let (emits, receives_offloads) =
        emitted_offloads(effects, forward, |id| offloads[id] || large_segments[id]);
    let left = emits.contains(&true);
    let has_some = |may: Vec<bool>| -> Vec<bool> {
        (0..effects.len()).map(|id| may[id] && (emits[id] || receives_offloads[id])).collect()
    };
    let (offloads, large_segments) = (has_some(offloads), has_some(large_segments));
    let annotations_used = annotations_read.contains(&true) || left;
    let holds = |e: &Effects| !matches!(e.hold, Hold::None | Hold::Replay) || e.opaque.is_some();
    let restore = Restore {
        bytes: written_bytes(effects, forward),
        copies: effects.iter().any(holds),
        // The description of work left for a device is restored together with the annotations.
        annotations: receives_offloads.contains(&true)
            || annotations_read.iter().zip(annotations_written).any(|(&read, written)| read && written),
        annotations_read: receives_offloads.contains(&true) || annotations_read.contains(&true),
        headers_added: grows_in_front(effects, forward),
        marked: behind_marks(effects, forward),
    };
    let flow_marks = flow_marks::used(effects, forward);
    let restored_checksums = checksums::restored(effects, forward, &receives_offloads);
    Facts {
        annotations_seen: annotations_seen(effects, forward, tells_lengths),
        annotations_read,
        annotations_used,
        restore,
        offloads,
        large_segments,
        receives_offloads,
        tells_lengths,
        flow_marks,
        runs: runs::known(effects, forward),
        right_checksums: checksums::known(effects, forward),
        restored_checksums,
    }
}

/// Returns, by element and output, a mask of the annotation bytes that elements downstream of the output
/// read: bit N is set for byte N.
fn annotations_seen(effects: &[Effects], forward: &Forward, tells_lengths: bool) -> Vec<Vec<u64>> {
    let looks_at = |effects: &Effects| {
        if effects.opaque.is_some() {
            return u64::MAX;
        }
        let lengths = (tells_lengths && effects.support.whole_length).then_some(EXTRA_LENGTH);
        effects.reads().iter().chain(&effects.observes).chain(&lengths).fold(0, |seen, field| match *field {
            Field::Annotation { offset, length } => {
                (offset..offset.saturating_add(length)).fold(seen, |seen, byte| seen | 1 << (byte & 63))
            }
            _ => seen,
        })
    };
    let mut seen: Vec<u64> = effects.iter().map(looks_at).collect();
    let behind =
        |seen: &[u64], to: &[(ElementId, usize)]| to.iter().fold(0, |all, &(next, _)| all | seen[next]);
    // Propagates the bytes upstream, and repeats this until nothing changes, because there may be circles.
    let mut is_new = true;
    while std::mem::take(&mut is_new) {
        for (id, outputs) in forward.iter().enumerate().rev() {
            let all = outputs.iter().fold(seen[id], |all, to| all | behind(&seen, to));
            is_new |= all != seen[id];
            seen[id] = all;
        }
    }
    forward.iter().map(|outputs| outputs.iter().map(|to| behind(&seen, to)).collect()).collect()
}

/// Returns, for each element, true if it may emit frames with work left for a device: partial checksums or
/// segmentation.
fn offloads(effects: &[Effects], forward: &Forward) -> Vec<bool> {
    let may = |source: ElementId| {
        let start = effects[source].support.offloads?;
        let next: Vec<ElementId> = forward[source].iter().flatten().map(|&(to, _)| to).collect();
        Some(!next.is_empty() && take_offloads(effects, forward, next, start))
    };
    (0..effects.len()).map(|source| may(source).unwrap_or(false)).collect()
}

/// Returns, for each element, true if it may emit packets that hold many segments, with all checksums
/// complete.
fn large_segments(effects: &[Effects], forward: &Forward) -> Vec<bool> {
    let starts = starts_of_packets(effects, forward);
    let may = |source: ElementId| {
        let start = effects[source].support.offloads?;
        let next: Vec<ElementId> = forward[source].iter().flatten().map(|&(to, _)| to).collect();
        // The offsets from the IP header at which the packets that come to the element may start; for a
        // source, the offset that it declares.
        let here = if starts[source].is_empty() { BTreeSet::from([start]) } else { starts[source].clone() };
        let takes = |&start: &i32| take_large_segments(effects, forward, next.clone(), start);
        Some(!next.is_empty() && here.iter().all(takes))
    };
    (0..effects.len()).map(|source| may(source).unwrap_or(false)).collect()
}

/// Returns for each element, first, true if it emits packets with work left for a device; second, true if it
/// can handle such packets and may get some. `may` is true for elements whose outputs accept such packets. An
/// element that joins parked payloads emits some only if some have come to an element that parks for it.
fn emitted_offloads(
    effects: &[Effects],
    forward: &Forward,
    may: impl Fn(ElementId) -> bool,
) -> (Vec<bool>, Vec<bool>) {
    let sliced = |id: ElementId| effects[id].support.sliced;
    let makes =
        |id: ElementId| may(id) && !effects[id].support.finishes_offloads && sliced(id).joins.is_none();
    let mut emits: Vec<bool> = (0..effects.len()).map(makes).collect();
    loop {
        let receives = receives_offloads(effects, forward, |id| emits[id]);
        let is_parked = |table: ElementId| {
            let parks = |id: ElementId| sliced(id).parks.is_some_and(|(_, to)| to == table);
            (0..effects.len()).any(|id| receives[id] && parks(id))
        };
        let joins = |id: ElementId| sliced(id).joins.is_some_and(|(_, table)| is_parked(table));
        let more: Vec<ElementId> =
            (0..effects.len()).filter(|&id| !emits[id] && may(id) && joins(id)).collect();
        if more.is_empty() {
            return (emits, receives);
        }
        more.into_iter().for_each(|id| emits[id] = true);
    }
}

/// Returns, for each element, true if it can handle packets with work left for a device and may get such
/// packets. They come from elements for which `leaves` is true.
fn receives_offloads(
    effects: &[Effects],
    forward: &Forward,
    leaves: impl Fn(ElementId) -> bool,
) -> Vec<bool> {
    let mut seen = vec![false; effects.len()];
    let behind = |id: ElementId| forward[id].iter().flatten().map(|&(to, _)| to);
    let mut open: Vec<ElementId> = (0..effects.len()).filter(|&id| leaves(id)).flat_map(behind).collect();
    while let Some(id) = open.pop() {
        if !std::mem::replace(&mut seen[id], true) && effects[id].support.offloads.is_none() {
            open.extend(behind(id));
        }
    }
    seen.iter().zip(effects).map(|(&seen, effects)| seen && effects.support.offloads.is_some()).collect()
}

/// The effects of all elements, where a stand-in is replaced by the elements that it acts for. A stand-in
/// decides by the same fields as these elements, though in another order, so its own effects do not count.
struct Asked<'e> {
    effects: &'e [Effects],
    /// For each element, the possible starts of the packets that come to the element, as offsets in bytes
    /// from the IP header of the packet (see `starts_of_packets`). Empty if the graph has no stand-in, which
    /// is an element with other elements in `Effects::replaces`.
    starts: Vec<BTreeSet<i32>>,
}

impl<'e> Asked<'e> {
    fn new(effects: &'e [Effects], forward: &Forward) -> Asked<'e> {
        let is_needed = effects.iter().any(|effects| !effects.replaces.is_empty());
        let starts = if is_needed { starts_of_packets(effects, forward) } else { Vec::new() };
        Asked { effects, starts }
    }

    /// True if `holds` is true for the effects of an element and packets that start at `start`. For a
    /// stand-in, true if `holds` is true for any element that it acts for, and packets as they come to that
    /// element.
    fn any(&self, id: ElementId, start: i32, holds: impl Fn(&Effects, i32) -> bool) -> bool {
        let stood_for = &self.effects[id].replaces;
        if stood_for.is_empty() {
            return holds(&self.effects[id], start);
        }
        stood_for.iter().any(|&id| {
            let ethernet = self.starts[id].is_empty().then_some(ETHERNET);
            self.starts[id].iter().copied().chain(ethernet).any(|start| holds(&self.effects[id], start))
        })
    }
}

/// True if the given elements may get packets that hold many segments and start at `start`. Neither the
/// elements nor any element downstream, up to a device, may do what such packets do not allow
/// (`to_large_segments`). Also, the start of the packets must be known on the way. The device finds the
/// headers again, so packets may have another start there.
pub(crate) fn take_large_segments(
    effects: &[Effects],
    forward: &Forward,
    elements: Vec<ElementId>,
    start: i32,
) -> bool {
    let asked = Asked::new(effects, forward);
    let mut seen = BTreeSet::new();
    let mut open: Vec<(ElementId, i32)> = elements.into_iter().map(|id| (id, start)).collect();
    while let Some((id, start)) = open.pop() {
        if effects[id].support.offloads.is_some() || !seen.insert((id, start)) {
            continue;
        }
        if start.abs() > FAR
            || asked.any(id, start, |effects, start| to_large_segments(effects, start).is_some())
        {
            return false;
        }
        for (output, next) in forward[id].iter().enumerate().filter(|(_, next)| !next.is_empty()) {
            for moved in moves(&effects[id], output) {
                let Some(moved) = moved else { return false };
                open.extend(next.iter().map(|&(to, _)| (to, start.saturating_add(moved))));
            }
        }
    }
    true
}

/// True if the given elements may get frames with work left for a device, which start at `start` (see
/// [`Support::offloads`](element::effects::Support::offloads)). Neither the elements nor any element
/// downstream, up to a device, may do what such frames do not allow (`to_offloads`). Each device must take
/// frames with this start.
pub(crate) fn take_offloads(
    effects: &[Effects],
    forward: &Forward,
    elements: Vec<ElementId>,
    start: i32,
) -> bool {
    let asked = Asked::new(effects, forward);
    let mut seen = vec![false; effects.len()];
    let mut open = elements;
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        match effects[id].support.offloads {
            // The path ends at a device, which must take frames that start at the same offset.
            Some(there) if there == start => {}
            Some(_) => return false,
            None if asked.any(id, start, |effects, start| to_offloads(effects, start).is_some()) => {
                return false;
            }
            None => open.extend(forward[id].iter().flatten().map(|&(to, _)| to)),
        }
    }
    true
}

/// True if elements downstream of a replay may prepend more bytes than were stripped before. A replayed
/// packet then starts ahead of the first byte that it had when it was stored.
fn grows_in_front(effects: &[Effects], forward: &Forward) -> bool {
    // By element: the least number of bytes that are stripped on the way from a replay to the element. `None`
    // if no packets of a replay come to the element.
    let mut starts: Vec<Option<i64>> = vec![None; effects.len()];
    let mut open: Vec<(ElementId, i64)> = Vec::new();
    open.extend((0..effects.len()).filter(|&id| effects[id].hold == Hold::Replay).map(|id| (id, 0)));
    while let Some((id, start)) = open.pop() {
        let step = |case: &Case| -> i64 {
            let strips = case.actions.iter().map(|action| match action {
                Action::Strip(n) => i64::from(*n),
                _ => 0,
            });
            strips.sum()
        };
        let start = start + effects[id].cases.iter().map(step).min().unwrap_or(0);
        if start < 0 {
            return true;
        }
        // Where paths meet, and in circles, a path goes on only if it strips fewer bytes than the paths
        // before.
        let mut next: Vec<ElementId> = forward[id].iter().flatten().map(|&(to, _)| to).collect();
        next.retain(|&to| starts[to].is_none_or(|seen| start < seen));
        for to in next {
            starts[to] = Some(start);
            open.push((to, start));
        }
    }
    false
}

/// Returns the largest value that a declared number can have, or `None` if that is not known.
fn largest(number: &Number) -> Option<i64> {
    number.terms.iter().try_fold(number.constant, |sum, (factor, field, mask)| {
        let bytes = match field {
            Field::Bytes { length, .. } => u32::from(*length),
            Field::Annotation { length, .. } => u32::from(*length),
            _ => return None,
        };
        let bits = mask.count_ones().min(8 * bytes);
        // A field of which more than 16 bits count is not a header length, so it is unbounded.
        let most = if bits <= 16 { (1i64 << bits) - 1 } else { return None };
        sum.checked_add(factor.checked_mul(most)?.max(0))
    })
}

/// Returns the largest offset, in bytes from the start of a packet, that a header may have if its
/// annotation is set to `value`.
fn farthest(value: &Value) -> i64 {
    let known = match value {
        // The four bytes are a signed offset: a header may start ahead of the packet's start.
        Value::Constant(bytes) => Some(bytes.iter().fold(0i32, |n, &byte| n << 8 | i32::from(byte)).into()),
        Value::Number(number) => largest(number),
        _ => None,
    };
    // The offset is unknown, so a write relative to this header may be anywhere.
    known.unwrap_or(ANYWHERE)
}

/// Returns, for each element, true if packets from a replay come to it.
fn replayed(effects: &[Effects], forward: &Forward) -> Vec<bool> {
    let mut reached = vec![false; effects.len()];
    let mut open: Vec<ElementId> =
        (0..effects.len()).filter(|&id| effects[id].hold == Hold::Replay).collect();
    while let Some(id) = open.pop() {
        for &(to, _) in forward[id].iter().flatten() {
            if !std::mem::replace(&mut reached[to], true) {
                open.push(to);
            }
        }
    }
    reached
}

/// Returns the range of bytes that any element may write, for a replay that finds transport headers by the
/// packets' annotations. `None` if an element downstream of a replay sets these annotations: the headers
/// may then be at other offsets than when the packets were stored. Also `None` if an element may write
/// anywhere.
fn behind_marks(effects: &[Effects], forward: &Forward) -> Option<ReachFromTransport> {
    let marks = |effect: &Effects| {
        let mut actions = effect.cases.iter().flat_map(|case| &case.actions);
        let is_mark =
            |action: &Action| matches!(action, Action::Set(Field::HeaderOffset(Base::Transport), _));
        effect.opaque.is_some() || actions.any(is_mark)
    };
    if effects.iter().zip(replayed(effects, forward)).any(|(effect, reached)| reached && marks(effect)) {
        return None;
    }
    let written = written(effects, &Starts::new(effects, forward))?;
    Some(ReachFromTransport { bytes: written.bytes, transport_bytes: written.behind_transport })
}

/// Returns the number of bytes, from the start of a packet at its source, that elements may write.
/// `usize::MAX` if an element may write anywhere.
fn written_bytes(effects: &[Effects], forward: &Forward) -> usize {
    let starts = Starts::new(effects, forward);
    let Some(written) = written(effects, &starts) else { return usize::MAX };
    match written.behind_transport {
        0 => written.bytes,
        behind => written.bytes.max(starts.transport as usize + behind),
    }
}

/// The largest offsets, in bytes from the start of a packet at its source, at which the packet and its
/// headers may start.
struct Starts {
    /// The offset of the packet's start, by element.
    packet: Vec<i64>,
    mac: i64,
    network: i64,
    transport: i64,
}

impl Starts {
    fn new(effects: &[Effects], forward: &Forward) -> Starts {
        let packet = farthest_starts(effects, forward);
        // A header annotation is set only by an element that declares it. Without the annotation, elements
        // that write relative to it do not write.
        let mut starts = Starts { packet, mac: 0, network: 0, transport: 0 };
        for (id, effect) in effects.iter().enumerate() {
            for action in effect.cases.iter().flat_map(|case| &case.actions) {
                let (place, value) = match action {
                    Action::Set(Field::HeaderOffset(Base::Mac), value) => (&mut starts.mac, value),
                    Action::Set(Field::HeaderOffset(Base::Network), value) => (&mut starts.network, value),
                    Action::Set(Field::HeaderOffset(Base::Transport), value) => {
                        (&mut starts.transport, value)
                    }
                    _ => continue,
                };
                *place = (starts.packet[id] + farthest(value)).max(*place);
            }
            // A packet that an element makes has its headers marked if the packet is declared to start with
            // an IPv4 header. The transport header of such a packet is at most `IP_HEADER` bytes after the
            // start of the packet.
            if effect.emits.iter().any(|emit| emit.starts == Some(HeaderKind::Ipv4)) {
                starts.transport = starts.transport.max(IP_HEADER);
            }
        }
        starts
    }
}

/// Returns, for each element, the largest offset from the start of a packet at its source at which the
/// packet may start at this element. Where paths meet, the path that strips most counts.
fn farthest_starts(effects: &[Effects], forward: &Forward) -> Vec<i64> {
    let mut starts: Vec<Option<i64>> = vec![None; effects.len()];
    let mut is_source = vec![true; effects.len()];
    forward.iter().flatten().flatten().for_each(|&(to, _)| is_source[to] = false);
    let mut open: Vec<(ElementId, i64)> =
        (0..effects.len()).filter(|&id| is_source[id]).map(|id| (id, 0)).collect();
    while let Some((id, start)) = open.pop() {
        let at = |moved: Option<i32>| match moved.map(|moved| start + i64::from(moved)) {
            // Beyond `FAR`, a circle is assumed, which strips without limit.
            Some(start) if start <= i64::from(FAR) => start,
            _ => ANYWHERE,
        };
        // An element that both strips and writes may write before or after it strips, so the start that is
        // farther on counts.
        let within =
            effects[id].cases.iter().map(|case| at(moved(case))).chain([start]).max().unwrap_or(start);
        if starts[id].is_some_and(|seen| seen >= within) {
            continue;
        }
        starts[id] = Some(within);
        for (output, next) in forward[id].iter().enumerate() {
            let start = moves(&effects[id], output).into_iter().map(at).max().unwrap_or(start);
            open.extend(next.iter().map(|&(to, _)| (to, start)));
        }
    }
    starts.into_iter().map(|start| start.unwrap_or(0)).collect()
}

/// The ranges of bytes that elements may write.
#[derive(Default)]
struct Written {
    /// The number of bytes, from the start of a packet at its source, that elements may write, without writes
    /// relative to the transport header.
    bytes: usize,
    /// The number of bytes, from the start of the transport header, that elements may write relative to it.
    behind_transport: usize,
}

/// Returns the ranges of bytes that elements may write. `None` if an element may write anywhere.
fn written(effects: &[Effects], starts: &Starts) -> Option<Written> {
    let mut written = Written::default();
    for (id, effect) in effects.iter().enumerate() {
        if effect.opaque.is_some() {
            return None;
        }
        for field in effect.writes() {
            let (base, offset, length) = match field {
                Field::Bytes { base, offset, length } => (base, offset, length),
                Field::Payload => return None,
                _ => continue,
            };
            let end = i64::from(offset) + i64::from(length);
            let (most, start) = match base {
                Base::Data => (&mut written.bytes, starts.packet[id]),
                Base::Mac => (&mut written.bytes, starts.mac),
                Base::Network => (&mut written.bytes, starts.network),
                Base::Transport => (&mut written.behind_transport, 0),
            };
            *most = (*most).max((start + end).max(0) as usize);
        }
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::effects::{Filter, PAINT, Predicate, Sliced, Support, Target, wire_field};

    /// Derives the facts about elements that are not connected.
    fn gathered(effects: &[Effects]) -> Facts {
        gather(effects, &vec![Vec::new(); effects.len()])
    }

    fn writing(field: Field) -> Effects {
        let action = Action::Set(field, Value::Constant(vec![0]));
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(action)])
    }

    #[test]
    fn annotations_are_seen_behind_an_output_if_somebody_there_looks_at_them() {
        let looks = |offset| Effects::pass().observing(&[Field::Annotation { offset, length: 2 }]);
        let unknown = Effects { opaque: Some("nothing is known"), ..Effects::default() };
        // Element 1 leads back to itself through element 2, and on to elements 3 and 4.
        let effects = [Effects::pass(), Effects::pass(), looks(4), looks(9), unknown];
        let forward = [
            vec![vec![(1, 0)]],
            vec![vec![(2, 0)], vec![(3, 0)], vec![(4, 0)], Vec::new()],
            vec![vec![(1, 0)]],
            vec![Vec::new()],
            vec![Vec::new()],
        ];
        let seen = gather(&effects, &forward).annotations_seen;
        assert_eq!(seen[0], [u64::MAX]);
        assert_eq!(seen[1], [u64::MAX, 3 << 9, u64::MAX, 0]);
        let seen =
            gather(&effects[..4], &[&forward[..1], &[forward[1][..2].to_vec()], &forward[2..4]].concat());
        assert_eq!(
            seen.annotations_seen,
            [vec![3 << 4 | 3 << 9], vec![3 << 4 | 3 << 9, 3 << 9], vec![3 << 4 | 3 << 9], vec![0]]
        );
    }

    #[test]
    fn what_nobody_writes_is_not_restored() {
        let facts = gathered(&[Effects::pass()]);
        assert_eq!(Restore { marked: None, ..facts.restore }, Restore::NOTHING);
        assert_eq!(facts.restore.marked, Some(ReachFromTransport { bytes: 0, transport_bytes: 0 }));
        assert!(!facts.annotations_used);
    }

    #[test]
    fn writes_are_bounded_by_the_headers_before_them() {
        let ttl = writing(wire_field::IP_TTL);
        assert_eq!(gathered(std::slice::from_ref(&ttl)).restore.bytes, 9);
        let case = || Case::new(Filter::TRUE, Target::Output(0));
        // Stripped bytes that are added back do not move later writes. Where paths meet, the path that
        // strips more counts.
        let strip = |n| Effects::cases(vec![case().with(Action::Strip(n))]);
        let written = |chain: &[Effects], more: &[(usize, usize)]| {
            let mut forward: Vec<_> = (1..=chain.len()).map(|next| vec![vec![(next, 0)]]).collect();
            forward[chain.len() - 1] = Vec::new();
            more.iter().for_each(|&(from, to)| forward[from][0].push((to, 0)));
            gather(chain, &forward).restore.bytes
        };
        let first = writing(Field::Bytes { base: Base::Data, offset: 0, length: 4 });
        assert_eq!(written(&[strip(50), first.clone()], &[]), 54);
        assert_eq!(written(&[strip(14), strip(-14), strip(14), strip(-14), first.clone()], &[]), 4);
        assert_eq!(written(&[strip(14), strip(20), strip(-14), first.clone()], &[(0, 2)]), 24);
        assert_eq!(written(&[strip(14), first.clone(), strip(-10)], &[]), 18);
        assert!(written(&[strip(0), strip(1), first.clone()], &[(1, 1)]) > 1 << 20, "a circle");
        // An element that strips 8 bytes and writes the first 4 may write after it strips. So 12 bytes count
        // as written.
        let both = case().with(Action::Strip(8)).with(first.cases[0].actions[0].clone());
        assert_eq!(written(&[Effects::cases(vec![both])], &[]), 12);
        let offset = Action::Set(Field::HeaderOffset(Base::Network), Value::Constant(vec![0, 14]));
        assert_eq!(gathered(&[ttl.clone(), Effects::cases(vec![case().with(offset)])]).restore.bytes, 23);
        // A header annotation keeps its offset from the packet's start at its source, even if bytes are
        // stripped or added ahead of the header after the annotation was set.
        let mark = Effects::cases(vec![
            case().with(Action::Set(Field::HeaderOffset(Base::Network), Value::Constant(vec![0, 14]))),
        ]);
        assert_eq!(written(&[strip(14), mark, strip(14), ttl.clone()], &[]), 14 + 23);
        // A MAC header that was stripped is ahead of the packet's start.
        let stripped =
            Action::Set(Field::HeaderOffset(Base::Mac), Value::Constant(vec![0xff, 0xff, 0xff, 0xf2]));
        let mac = writing(Field::Bytes { base: Base::Mac, offset: 0, length: 6 });
        let stripped = Effects::cases(vec![case().with(stripped)]);
        assert_eq!(written(&[strip(14), stripped, mac], &[]), 6);
        let unknown = Value::Pure { name: "somewhere", reads: Vec::new() };
        let unknown = Action::Set(Field::HeaderOffset(Base::Network), unknown);
        assert!(gathered(&[ttl, Effects::cases(vec![case().with(unknown)])]).restore.bytes > 128);
        assert_eq!(gathered(&[writing(Field::Payload)]).restore.bytes, usize::MAX);
    }

    #[test]
    fn writes_behind_transport_headers_reach_as_far_as_those_may_lie() {
        let bytes_with = |value| {
            let action = Action::Set(Field::HeaderOffset(Base::Transport), value);
            let case = Case::new(Filter::TRUE, Target::Output(0)).with(action);
            gathered(&[writing(wire_field::SRC_PORT), Effects::cases(vec![case])]).restore.bytes
        };
        assert_eq!(bytes_with(Value::Constant(vec![34])), 36);
        assert_eq!(bytes_with(Value::Constant(Vec::new())), 2, "unset");
        let header_length = Number::constant(14).plus(4, wire_field::IP_VERSION_IHL, 0x0f);
        assert_eq!(bytes_with(Value::Number(header_length)), 14 + 60 + 2);
        let many =
            Number::constant(8).plus(2, Field::Bytes { base: Base::Data, offset: 4, length: 1 }, u128::MAX);
        assert_eq!(bytes_with(Value::Number(many)), 8 + 510 + 2, "addresses of ARP");
        // The offset of the transport header is unbounded, for example after IPv6 extension headers.
        assert!(bytes_with(Value::Pure { name: "somewhere", reads: Vec::new() }) > 1 << 20);
        assert!(bytes_with(Value::Number(Number::of(Field::Length))) > 1 << 20);
    }

    #[test]
    fn packets_tell_where_their_transport_headers_are_unless_they_are_marked_later() {
        let mark = Action::Set(Field::HeaderOffset(Base::Transport), Value::Constant(vec![74]));
        let mark = Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(mark)]);
        let replay = Effects { hold: Hold::Replay, ..Effects::pass() };
        let ports = writing(wire_field::DST_PORT);
        let chain = |chain: &[&Effects]| {
            let mut forward: Vec<_> = (1..chain.len()).map(|next| vec![vec![(next, 0)]]).collect();
            forward.push(Vec::new());
            let chain: Vec<Effects> = chain.iter().map(|&effects| effects.clone()).collect();
            gather(&chain, &forward).restore
        };
        let ttl = writing(wire_field::IP_TTL);
        let restore = chain(&[&mark, &replay, &ports, &ttl]);
        assert_eq!(
            (restore.bytes, restore.marked),
            (78, Some(ReachFromTransport { bytes: 9, transport_bytes: 4 }))
        );
        let restore = chain(&[&replay, &mark, &ports, &ttl]);
        assert_eq!((restore.bytes, restore.marked), (78, None));
        assert_eq!(chain(&[&replay, &writing(Field::Payload)]).marked, None);
    }

    #[test]
    fn offloads_pass_from_device_to_device() {
        let source = Effects {
            support: Support { offloads: Some(-14), ..Support::default() },
            ..Effects::source("received packet")
        };
        let send = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]);
        let sink = |start| Effects {
            support: Support { offloads: Some(start), ..Support::default() },
            ..send.clone()
        };
        let chain = |between: Effects, end: Effects| {
            let forward = [vec![vec![(1, 0)]], vec![vec![(2, 0)]], Vec::new()];
            let facts = gather(&[source.clone(), between, end], &forward);
            assert_eq!(facts.annotations_used, facts.offloads[0] || facts.large_segments[0]);
            facts.offloads[0]
        };
        assert!(chain(Effects::pass(), sink(-14)));
        assert!(!chain(Effects::pass(), sink(0)), "those would start with IP");
        assert!(!chain(Effects::pass(), send.clone()));
        assert!(!chain(writing(Field::Payload), sink(-14)));
        assert!(!gathered(std::slice::from_ref(&source)).offloads[0], "nobody to go to");
    }

    #[test]
    fn parked_offloads_are_in_use_only_if_some_come() {
        let with = |support: Support, effects: Effects| Effects { support, ..effects };
        let offloads = Support { offloads: Some(-14), ..Support::default() };
        let sink = || with(offloads.clone(), Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]));
        let park = with(
            Support {
                finishes_offloads: true,
                sliced: Sliced { parks: Some((0, 2)), ..Sliced::default() },
                ..offloads.clone()
            },
            Effects::pass(),
        );
        let join = with(
            Support { sliced: Sliced { joins: Some((0, 2)), ..Sliced::default() }, ..offloads.clone() },
            Effects::pass(),
        );
        let facts = |source: Effects, end: Effects| {
            let forward = [vec![vec![(1, 0)]], vec![vec![(2, 0)]], vec![vec![(3, 0)]], Vec::new()];
            let facts = gather(&[source, park.clone(), join.clone(), end], &forward);
            assert_eq!(facts.annotations_used, facts.uses_offloads());
            (facts.receives_offloads, facts.offloads)
        };
        let source = || Effects::source("received packet");
        let device = || with(offloads.clone(), source());
        assert_eq!(facts(source(), sink()), (vec![false; 4], vec![false; 4]), "no device");
        // The element that parks gets them and may send large segments on; the one that joins emits them.
        assert_eq!(facts(device(), sink()), (vec![false, true, false, true], vec![true, true, true, false]));
        let send = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]);
        assert_eq!(facts(device(), send).1, [true, true, false, false], "joined packets have to be cut");
    }

    #[test]
    fn whoever_stands_for_others_takes_what_they_take() {
        let source = Effects {
            support: Support { offloads: Some(-14), ..Support::default() },
            ..Effects::source("received packet")
        };
        let send = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]);
        let sink = Effects { support: Support { offloads: Some(-14), ..Support::default() }, ..send };
        // Element 1, the stand-in, looks at the payload. Packets that it does not handle itself go to element
        // 2, which it acts for.
        let deep = Field::Bytes { base: Base::Data, offset: 100, length: 1 };
        let by_payload = Case::new(Predicate::equals(deep, 7), Target::Output(1));
        let stand_in = |replaces: Vec<ElementId>| Effects {
            replaces,
            ..Effects::cases(vec![by_payload.clone(), Case::new(Filter::TRUE, Target::Output(0))])
        };
        let facts = |replaces: Vec<ElementId>, element: Effects| {
            let forward =
                [vec![vec![(1, 0)]], vec![vec![(3, 0)], vec![(2, 0)]], vec![vec![(3, 0)]], Vec::new()];
            let facts = gather(&[source.clone(), stand_in(replaces), element, sink.clone()], &forward);
            (facts.large_segments[0], facts.offloads[0])
        };
        assert_eq!(facts(vec![2], Effects::pass()), (true, true));
        assert_eq!(facts(Vec::new(), Effects::pass()), (false, false));
        assert_eq!(facts(vec![2], writing(Field::Payload)), (false, false));
    }

    #[test]
    fn annotations_count_when_somebody_reads_them() {
        let facts = gathered(&[writing(PAINT)]);
        assert!(!facts.annotations_used && !facts.annotation_read(16, 1));
        let facts = gathered(&[Effects::pass().observing(&[PAINT])]);
        assert!(facts.annotations_used && facts.annotation_read(16, 1));
    }

    #[test]
    fn annotations_are_put_back_only_where_they_are_written_and_read() {
        let looks = Effects::pass().observing(&[PAINT]);
        assert!(!gathered(std::slice::from_ref(&looks)).restore.annotations);
        assert!(!gathered(&[writing(PAINT)]).restore.annotations);
        assert!(gathered(&[writing(PAINT), looks.clone()]).restore.annotations);
        // Only the written bytes that are also read have to be restored for a replay: here, other annotation
        // bytes are written than are read.
        let other = Field::Annotation { offset: 0, length: 4 };
        assert!(!gathered(&[writing(other), looks]).restore.annotations);
    }

    #[test]
    fn a_field_that_only_changes_itself_is_read_by_nobody() {
        let more = |read| Action::Set(PAINT, Value::Pure { name: "more", reads: vec![read] });
        let effects = |action| Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(action)]);
        assert!(!gathered(&[effects(more(PAINT))]).annotations_used);
        assert!(gathered(&[effects(more(Field::Annotation { offset: 17, length: 1 }))]).annotations_used);
    }

    #[test]
    fn headers_are_put_in_front_where_less_was_stripped() {
        let strip =
            |n| Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(Action::Strip(n))]);
        let replay = Effects { hold: Hold::Replay, ..Effects::pass() };
        let in_front = |chain: &[Effects], back: Option<usize>| {
            let mut forward: Vec<_> = (1..=chain.len()).map(|next| vec![vec![(next, 0)]]).collect();
            forward[chain.len() - 1] = vec![back.map(|to| (to, 0)).into_iter().collect()];
            gather(chain, &forward).restore.headers_added
        };
        assert!(in_front(&[replay.clone(), strip(-14)], None));
        assert!(!in_front(&[replay.clone(), strip(14), strip(-14)], None));
        assert!(in_front(&[replay.clone(), strip(14), strip(-18)], None));
        assert!(!in_front(&[strip(-14), replay.clone(), Effects::pass()], None));
        // A header that is added in a circle grows without limit. Stripping in a circle adds nothing.
        assert!(in_front(&[replay.clone(), strip(14), strip(-1)], Some(2)));
        assert!(!in_front(&[replay, strip(14), strip(1)], Some(1)));
    }
}
