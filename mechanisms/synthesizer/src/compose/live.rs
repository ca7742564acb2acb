//! Which annotations anybody looks at further on: what is only written need not be.

use element::effects::Field;

use crate::model::chain::{Chain, Node};
use crate::model::step::remembers;

/// By element: annotation bytes that it or one behind it looks at, a bit each.
pub struct Live(Vec<u64>);

impl Live {
    /// Follows packets through a chain, to all that they may come to.
    pub fn new(chain: &Chain) -> Live {
        let mut live: Vec<u64> = chain.nodes.iter().map(reads).collect();
        // Who looks at a byte is told to all in front, again and again because there may be circles.
        let mut is_new = true;
        while std::mem::take(&mut is_new) {
            for (node, element) in chain.nodes.iter().enumerate().rev() {
                let behind =
                    element.forward.iter().flatten().fold(live[node], |all, &(next, _)| all | live[next]);
                is_new |= behind != live[node];
                live[node] = behind;
            }
        }
        Live(live)
    }

    /// Whether a byte is looked at by an element, or behind it.
    pub fn is_seen(&self, node: usize, byte: u8) -> bool {
        self.0.get(node).is_none_or(|live| live.checked_shr(byte.into()).is_none_or(|live| live & 1 == 1))
    }
}

/// What an element itself looks at.
fn reads(node: &Node) -> u64 {
    let effects = &node.effects;
    // What an element that remembers packets does follows from all of them, as far as anybody knows.
    if effects.opaque.is_some() || remembers(effects) {
        return u64::MAX;
    }
    node.looks_at().iter().fold(0, |bytes, field| match *field {
        Field::Annotation { offset, length } => {
            (offset..offset.saturating_add(length)).fold(bytes, |bytes, byte| bytes | 1 << (byte & 63))
        }
        _ => bytes,
    })
}

#[cfg(test)]
mod tests {
    use element::Effects;
    use element::class::Class;
    use element::effects::{Case, Filter, Target};

    use super::*;

    static CLASS: Class = Class { name: "A", ..Class::DEFAULT };

    #[test]
    fn who_looks_is_told_to_all_in_front() {
        let mut sources = lang::Sources::new();
        let text = "a :: A; b :: A; c :: A; d :: A; a -> b; b [0] -> c -> b; b [1] -> d;";
        let source = sources.add("test", text);
        let (graph, problems) = lang::parse(&mut sources, source, &lang::Options::default());
        assert!(problems.is_empty(), "{problems:?}");
        let passing = Effects::cases(vec![Case::new(Filter::Any, Target::Output(0))]);
        let looks = |offset| passing.clone().observing(&[Field::Annotation { offset, length: 2 }]);
        let effects = [passing.clone(), passing.clone(), looks(4), looks(9)];
        let effects: Vec<_> = effects.iter().map(|effects| Some((&CLASS, effects))).collect();
        let live = Live::new(&Chain::new(&graph, &effects));
        let seen = |node: usize| (0..48).filter(|byte| live.is_seen(node, *byte)).collect::<Vec<u8>>();
        // Packets go round from the third to the second one.
        for node in 0..3 {
            assert_eq!(seen(node), [4, 5, 9, 10]);
        }
        assert_eq!(seen(3), [9, 10]);
    }
}
