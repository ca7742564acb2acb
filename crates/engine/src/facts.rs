//! What the declarations of all elements of a graph say together.

use element::effects::{Action, Case, Effects, Field, Header, Hold, Number, Value};
use element::{Base, ElementId, Facts};
use packet::Restore;

/// The longest IPv4 header.
const IP_HEADER: i64 = 60;
/// Behind every byte that a packet can have.
const ANYWHERE: i64 = u32::MAX as i64;

/// Where each output of each element leads.
type Forward = [Vec<Vec<(ElementId, usize)>>];

/// Combines the declarations of a graph.
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
    // What is only written is seen by nobody.
    let annotations_used = annotations_read.contains(&true);
    let holds = |e: &Effects| !matches!(e.hold, Hold::None | Hold::Replay) || e.opaque.is_some();
    let restore = Restore {
        bytes: written_bytes(effects),
        copies: effects.iter().any(holds),
        annotations: annotations_read.iter().zip(annotations_written).any(|(&read, written)| read && written),
        in_front: grows_in_front(effects, forward),
    };
    Facts { annotations_read, annotations_used, restore }
}

/// Whether a replayed packet may get bytes in front of those that it was replayed with.
fn grows_in_front(effects: &[Effects], forward: &Forward) -> bool {
    // The least distance from where a packet started to where it starts when it comes to an element.
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
        // Where paths meet, and in circles, only what comes earlier than seen so far has to be followed.
        let mut next: Vec<ElementId> = forward[id].iter().flatten().map(|&(to, _)| to).collect();
        next.retain(|&to| starts[to].is_none_or(|seen| start < seen));
        for to in next {
            starts[to] = Some(start);
            open.push((to, start));
        }
    }
    false
}

/// The largest value that a number can have; `None` where that is not known.
fn largest(number: &Number) -> Option<i64> {
    number.terms.iter().try_fold(number.constant, |sum, (factor, field, mask)| {
        let bytes = match field {
            Field::Bytes { length, .. } => u32::from(*length),
            Field::Annotation { length, .. } => u32::from(*length),
            _ => return None,
        };
        let bits = mask.count_ones().min(8 * bytes);
        // Wider fields are no header lengths.
        let most = if bits <= 16 { (1i64 << bits) - 1 } else { return None };
        sum.checked_add(factor.checked_mul(most)?.max(0))
    })
}

/// How far behind the start of a packet a header may begin, if this is what its annotation is set to.
fn farthest(value: &Value) -> i64 {
    let known = match value {
        Value::Constant(bytes) => Some(bytes.iter().fold(0i64, |n, &byte| n << 8 | i64::from(byte))),
        Value::Number(number) => largest(number),
        _ => None,
    };
    // Somewhere: whoever writes there may write anywhere.
    known.unwrap_or(ANYWHERE)
}

/// How far from the start of a packet, as it was when a source made it, any element may write.
fn written_bytes(effects: &[Effects]) -> usize {
    let mut stripped = 0i64;
    // A header annotation is set only by somebody who declares it; others find it unset and do not write.
    let (mut mac, mut network, mut transport) = (0i64, 0i64, 0i64);
    for effect in effects {
        for action in effect.cases.iter().flat_map(|c| &c.actions) {
            match action {
                Action::Strip(n) => stripped += i64::from(*n).max(0),
                // Somewhere behind.
                Action::Start(_) | Action::Set(Field::HeaderOffset(Base::Data), _) => stripped = ANYWHERE,
                Action::Set(Field::HeaderOffset(Base::Mac), value) => mac = mac.max(farthest(value)),
                Action::Set(Field::HeaderOffset(Base::Network), value) => {
                    network = network.max(farthest(value));
                }
                Action::Set(Field::HeaderOffset(Base::Transport), value) => {
                    transport = transport.max(farthest(value));
                }
                _ => {}
            }
        }
        // Packets that an element makes have their headers marked.
        if effect.emits.iter().any(|emit| emit.starts == Some(Header::Ipv4)) {
            transport = transport.max(IP_HEADER);
        }
    }
    let mut most = 0i64;
    for effect in effects {
        if effect.opaque.is_some() {
            return usize::MAX;
        }
        for field in effect.writes() {
            let end = match field {
                Field::Bytes { base, offset, length } => {
                    let start = match base {
                        Base::Data => stripped,
                        Base::Mac => stripped + mac,
                        Base::Network => stripped + network,
                        Base::Transport => stripped + transport,
                    };
                    start + i64::from(offset) + i64::from(length)
                }
                Field::Payload => return usize::MAX,
                _ => 0,
            };
            most = most.max(end);
        }
    }
    most.max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::effects::{Filter, PAINT, Target, wire_field};

    /// Of elements that are not connected.
    fn gathered(effects: &[Effects]) -> Facts {
        gather(effects, &vec![Vec::new(); effects.len()])
    }

    fn writing(field: Field) -> Effects {
        let action = Action::Set(field, Value::Constant(vec![0]));
        Effects::cases(vec![Case::new(Filter::Any, Target::Output(0)).with(action)])
    }

    #[test]
    fn what_nobody_writes_is_not_restored() {
        let facts = gathered(&[Effects::pass()]);
        assert_eq!(facts.restore, Restore::NOTHING);
        assert!(!facts.annotations_used);
    }

    #[test]
    fn writes_are_bounded_by_the_headers_before_them() {
        let ttl = writing(wire_field::IP_TTL);
        assert_eq!(gathered(std::slice::from_ref(&ttl)).restore.bytes, 9);
        let case = || Case::new(Filter::Any, Target::Output(0));
        let strip = Effects::cases(vec![case().with(Action::Strip(50))]);
        assert_eq!(gathered(&[ttl.clone(), strip]).restore.bytes, 59);
        let offset = Action::Set(Field::HeaderOffset(Base::Network), Value::Constant(vec![0, 14]));
        assert_eq!(gathered(&[ttl.clone(), Effects::cases(vec![case().with(offset)])]).restore.bytes, 23);
        let unknown = Value::Pure { name: "somewhere", reads: Vec::new() };
        let unknown = Action::Set(Field::HeaderOffset(Base::Network), unknown);
        assert!(gathered(&[ttl, Effects::cases(vec![case().with(unknown)])]).restore.bytes > 128);
        assert_eq!(gathered(&[writing(Field::Payload)]).restore.bytes, usize::MAX);
    }

    #[test]
    fn writes_behind_transport_headers_reach_as_far_as_those_may_lie() {
        let bytes_with = |value| {
            let action = Action::Set(Field::HeaderOffset(Base::Transport), value);
            let case = Case::new(Filter::Any, Target::Output(0)).with(action);
            gathered(&[writing(wire_field::SRC_PORT), Effects::cases(vec![case])]).restore.bytes
        };
        assert_eq!(bytes_with(Value::Constant(vec![34])), 36);
        assert_eq!(bytes_with(Value::Constant(Vec::new())), 2, "unset");
        let header_length = Number::constant(14).plus(4, wire_field::IP_VERSION_IHL, 0x0f);
        assert_eq!(bytes_with(Value::Number(header_length)), 14 + 60 + 2);
        let many =
            Number::constant(8).plus(2, Field::Bytes { base: Base::Data, offset: 4, length: 1 }, u128::MAX);
        assert_eq!(bytes_with(Value::Number(many)), 8 + 510 + 2, "addresses of ARP");
        // Behind IPv6 extension headers, for example.
        assert!(bytes_with(Value::Pure { name: "somewhere", reads: Vec::new() }) > 1 << 20);
        assert!(bytes_with(Value::Number(Number::of(Field::Length))) > 1 << 20);
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
        // Other bytes of the area.
        let other = Field::Annotation { offset: 0, length: 4 };
        assert!(!gathered(&[writing(other), looks]).restore.annotations);
    }

    #[test]
    fn a_field_that_only_changes_itself_is_read_by_nobody() {
        let more = |read| Action::Set(PAINT, Value::Pure { name: "more", reads: vec![read] });
        let effects = |action| Effects::cases(vec![Case::new(Filter::Any, Target::Output(0)).with(action)]);
        assert!(!gathered(&[effects(more(PAINT))]).annotations_used);
        assert!(gathered(&[effects(more(Field::Annotation { offset: 17, length: 1 }))]).annotations_used);
    }

    #[test]
    fn headers_are_put_in_front_where_less_was_stripped() {
        let strip =
            |n| Effects::cases(vec![Case::new(Filter::Any, Target::Output(0)).with(Action::Strip(n))]);
        let replay = Effects { hold: Hold::Replay, ..Effects::pass() };
        let in_front = |chain: &[Effects], back: Option<usize>| {
            let mut forward: Vec<_> = (1..=chain.len()).map(|next| vec![vec![(next, 0)]]).collect();
            forward[chain.len() - 1] = vec![back.map(|to| (to, 0)).into_iter().collect()];
            gather(chain, &forward).restore.in_front
        };
        assert!(in_front(&[replay.clone(), strip(-14)], None));
        assert!(!in_front(&[replay.clone(), strip(14), strip(-14)], None));
        assert!(in_front(&[replay.clone(), strip(14), strip(-18)], None));
        assert!(!in_front(&[strip(-14), replay.clone(), Effects::pass()], None));
        // In circles it grows; stripping in circles ends.
        assert!(in_front(&[replay.clone(), strip(14), strip(-1)], Some(2)));
        assert!(!in_front(&[replay, strip(14), strip(1)], Some(1)));
    }
}
