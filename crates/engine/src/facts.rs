//! What the declarations of all elements of a graph say together.

use element::effects::{Action, Effects, Field, Hold, Value};
use element::{Base, Facts};
use packet::Restore;

/// The longest IPv4 header.
const IP_HEADER: i64 = 60;

/// Combines declarations.
pub(crate) fn gather(effects: &[Effects]) -> Facts {
    let mut annotations_read = [false; 48];
    for effect in effects {
        for field in effect.reads().iter().chain(&effect.observes) {
            if let Field::Annotation { offset, length } = *field {
                let range = offset as usize..(offset as usize + length as usize).min(48);
                annotations_read[range].fill(true);
            }
        }
        if effect.opaque.is_some() {
            annotations_read.fill(true);
        }
    }
    // What is only written is seen by nobody.
    let annotations_used = annotations_read.contains(&true);
    let holds = |e: &Effects| !matches!(e.hold, Hold::None | Hold::Replay) || e.opaque.is_some();
    let restore = Restore { bytes: written_bytes(effects), copies: effects.iter().any(holds) };
    Facts { annotations_read, annotations_used, restore }
}

/// How far from the start of a packet, as it was when a source made it, any element may write.
fn written_bytes(effects: &[Effects]) -> usize {
    let mut stripped = 0i64;
    // A header annotation is set only by somebody who declares it; others find it unset and do not write.
    let mut network = 0i64;
    for effect in effects {
        for action in effect.cases.iter().flat_map(|c| &c.actions) {
            match action {
                Action::Strip(n) => stripped += i64::from(*n).max(0),
                // Somewhere behind.
                Action::Start(_) | Action::Set(Field::HeaderOffset(Base::Data), _) => {
                    stripped = i64::from(u32::MAX)
                }
                Action::Set(Field::HeaderOffset(Base::Network), Value::Constant(bytes)) => {
                    let offset = bytes.iter().fold(0i64, |n, &b| n << 8 | i64::from(b));
                    network = network.max(offset);
                }
                // Somewhere: whoever writes there may write anywhere.
                Action::Set(Field::HeaderOffset(Base::Network), _) => network = i64::from(u32::MAX),
                _ => {}
            }
        }
    }
    let network = network + stripped;
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
                        Base::Mac => stripped,
                        Base::Network => network,
                        Base::Transport => network + IP_HEADER,
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
    use element::effects::{Case, Filter, PAINT, Target, wire_field};

    fn writing(field: Field) -> Effects {
        let action = Action::Set(field, Value::Constant(vec![0]));
        Effects::cases(vec![Case::new(Filter::Any, Target::Output(0)).with(action)])
    }

    #[test]
    fn what_nobody_writes_is_not_restored() {
        let facts = gather(&[Effects::pass()]);
        assert_eq!(facts.restore, Restore { bytes: 0, copies: false });
        assert!(!facts.annotations_used);
    }

    #[test]
    fn writes_are_bounded_by_the_headers_before_them() {
        let ttl = writing(wire_field::IP_TTL);
        assert_eq!(gather(std::slice::from_ref(&ttl)).restore.bytes, 9);
        let case = || Case::new(Filter::Any, Target::Output(0));
        let strip = Effects::cases(vec![case().with(Action::Strip(50))]);
        assert_eq!(gather(&[ttl.clone(), strip]).restore.bytes, 59);
        let offset = Action::Set(Field::HeaderOffset(Base::Network), Value::Constant(vec![0, 14]));
        assert_eq!(gather(&[ttl.clone(), Effects::cases(vec![case().with(offset)])]).restore.bytes, 23);
        let unknown = Value::Pure { name: "somewhere", reads: Vec::new() };
        let unknown = Action::Set(Field::HeaderOffset(Base::Network), unknown);
        assert!(gather(&[ttl, Effects::cases(vec![case().with(unknown)])]).restore.bytes > 128);
        assert_eq!(gather(&[writing(Field::Payload)]).restore.bytes, usize::MAX);
    }

    #[test]
    fn annotations_count_when_somebody_reads_them() {
        let facts = gather(&[writing(PAINT)]);
        assert!(!facts.annotations_used && !facts.annotation_read(16, 1));
        let facts = gather(&[Effects::pass().observing(&[PAINT])]);
        assert!(facts.annotations_used && facts.annotation_read(16, 1));
    }
}
