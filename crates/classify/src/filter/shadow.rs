//! Finds conditions of a list that can never be the first to hold, because for each packet for which they
//! hold, an earlier condition holds, too. Elements warn the user about such rules.

use crate::cuts::{Area, Range};

use super::Condition;
use super::space::{Space, V4, V6, areas, asks_for_version};

/// The largest number of comparisons of boxes for one list of conditions, which take a fraction of a
/// second. If it is reached, the remaining conditions are not compared; see [`Shadows::compared`].
const COMPARISONS: u64 = 1 << 27;

/// The result of [`shadows`]: the conditions that are hidden by earlier conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shadows {
    /// The index of each condition that was found to be hidden, in ascending order. Each index comes with the
    /// indexes of the earlier conditions, also in ascending order, that together hold for all packets for
    /// which the hidden condition holds.
    pub hidden: Vec<(usize, Vec<usize>)>,
    /// The number of conditions from the start of the list that were compared with all earlier conditions.
    /// Conditions after them may be hidden without being in the list `hidden`.
    pub compared: usize,
}

/// Finds hidden conditions. A condition is divided into boxes over addresses, ports and protocol. It counts
/// as hidden if each of its boxes is inside one box of an earlier condition that holds everywhere in its box.
/// So some hidden conditions are not found, for example if only several earlier boxes cover a box together,
/// or if a condition hides another one by tests of other fields. Packets are assumed to have complete IP
/// headers.
pub fn shadows(conditions: &[Condition]) -> Shadows {
    let mut left = COMPARISONS;
    let four = hidden::<V4, 6>(conditions, &mut left);
    let six = match conditions.iter().any(asks_for_version) {
        true => hidden::<V6, 11>(conditions, &mut left),
        false => vec![Some(Vec::new()); four.len()],
    };
    // A condition is hidden only if earlier conditions hide it both for IPv4 and for IPv6. The list of each
    // version ends with the last condition that was compared for this version, so the conditions in the
    // shorter list were compared for both versions.
    let compared = four.len().min(six.len());
    let both = four.into_iter().zip(six).enumerate();
    let hidden = both.filter_map(|(number, (four, six))| {
        let mut by = four?;
        by.extend(six?);
        by.sort_unstable();
        by.dedup();
        (!by.is_empty()).then_some((number, by))
    });
    Shadows { hidden: hidden.collect(), compared }
}

fn contains<const D: usize>(outer: &[Range; D], inner: &[Range; D]) -> bool {
    outer.iter().zip(inner).all(|(outer, inner)| outer.0 <= inner.0 && inner.1 <= outer.1)
}

/// Returns, for each condition that was compared, the indexes of earlier conditions that together contain its
/// boxes. The element of a condition is `None` if it is not hidden, and an empty list if the condition holds
/// for no packet of the space `S`. `left` is the number of comparisons that may still be made.
fn hidden<S: Space<D>, const D: usize>(conditions: &[Condition], left: &mut u64) -> Vec<Option<Vec<usize>>> {
    let mut earlier: Vec<Area<D>> = Vec::new();
    let mut by = Vec::new();
    for (number, condition) in conditions.iter().enumerate() {
        let own = areas::<S, D>(condition, number as u32);
        let comparisons = (own.len() * earlier.len()) as u64;
        if comparisons > *left {
            break;
        }
        *left -= comparisons;
        let hider = |area: &Area<D>| earlier.iter().find(|earlier| contains(&earlier.ranges, &area.ranges));
        by.push(own.iter().map(|area| hider(area).map(|hider| hider.rule as usize)).collect());
        // A hidden condition need not be compared with later conditions: each condition that it hides is also
        // hidden by the conditions that hide it.
        if by.last() == Some(&None) {
            earlier.extend(own.into_iter().filter(|area| area.exact));
        }
    }
    by
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::condition_of;
    use super::*;

    fn found(texts: &[&str]) -> Vec<(usize, Vec<usize>)> {
        let conditions: Vec<_> = texts.iter().map(|text| condition_of(text)).collect();
        let found = shadows(&conditions);
        assert_eq!(found.compared, texts.len());
        found.hidden
    }

    #[test]
    fn what_an_earlier_rule_takes_is_hidden() {
        assert_eq!(
            found(&["src net 10.0.0.0/8", "src host 10.1.2.3 and tcp", "src host 11.0.0.1"]),
            [(1, vec![0])]
        );
        assert_eq!(found(&["tcp dst port 80", "udp dst port 80", "dst port 80"]), [(2, vec![0, 1])]);
        assert_eq!(found(&["tcp dst port < 100", "tcp", "dst tcp port 7 or dst tcp port 8"]), [(2, vec![0])]);
        assert_eq!(found(&["tcp", "udp", "src port 5 and (tcp or udp)"]), [(2, vec![0, 1])]);
        // A condition that tests other fields, such as the TTL, need not hold everywhere in its box. So it
        // hides no other condition.
        assert_eq!(found(&["ip ttl > 5", "ip ttl > 6"]), []);
        assert_eq!(found(&["tcp", "ip ttl > 6 and tcp", "-", "icmp"]), [(1, vec![0]), (3, vec![2])]);
        // A condition counts as hidden only if it is hidden for both IP versions.
        assert_eq!(found(&["ip6 tcp", "tcp", "ip6 tcp dst port 7"]), [(2, vec![0])]);
    }

    proptest! {
        #[test]
        fn hidden_rules_are_never_first(seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let net = |random: &mut fastrand::Rng| format!("10.{}.0.0/{}", random.u8(..3), random.u8(7..17));
            let mut rule = || {
                let first = net(&mut random);
                let low = random.u16(1..6);
                match random.u8(..5) {
                    0 => format!("src net {first}"),
                    1 => format!("dst net {first} and tcp dst port > {low}"),
                    2 => format!("not src net {first} and udp"),
                    3 => format!("src net {first} or dst net {}", net(&mut random)),
                    _ => format!("tcp src port {low} and src net {first}"),
                }
            };
            let texts: Vec<_> = (0..12).map(|_| rule()).collect();
            let conditions: Vec<_> = texts.iter().map(|text| condition_of(text)).collect();
            let found = shadows(&conditions);
            for _ in 0..400 {
                let mut network = [0; 20];
                network[0] = 0x45;
                network[9] = [6, 17][random.usize(..2)];
                network[12..16].copy_from_slice(&[10, random.u8(..4), random.u8(..2), 1]);
                network[16..20].copy_from_slice(&[10, random.u8(..4), random.u8(..2), 1]);
                let transport = [0, random.u8(..12), 0, random.u8(..12), 0, 0, 0, 0];
                let headers = super::super::HeaderSlices { mac: &[], network: &network, transport: &transport };
                let first = conditions.iter().position(|condition| condition.holds(&|test: &super::super::Test| test.holds(&headers)));
                prop_assert!(!found.hidden.iter().any(|(hidden, _)| Some(*hidden) == first), "{:?} {:?}", texts, found);
            }
        }
    }
}
