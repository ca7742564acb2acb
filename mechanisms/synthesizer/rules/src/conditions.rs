//! Conditions of the filter language, and filters of declarations, as unions of products.
//!
//! A packet is taken to be an IPv4 packet with all bytes of its headers. So tests for IPv6 are false, and a
//! test and its negation are complements.

use std::fmt;

use classify::filter::{Condition, HeaderLayer};
use classify::{IntervalSet, Tree};
use element::Base;
use element::effects::{Field, Filter, Predicate};
use program::question::preimage;

use crate::fields::PacketField;
use crate::product::{FieldSets, TooManyProducts, bounded, meet};

/// The reason why a condition is not a union of products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnmappedCondition {
    /// There would be too many products.
    TooMany,
    /// A test of something that rules here cannot test; the text says what.
    Tests(String),
}

impl fmt::Display for UnmappedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmappedCondition::TooMany => TooManyProducts.fmt(f),
            UnmappedCondition::Tests(what) => write!(
                f,
                "it tests {what}; `tidegate rules` knows addresses, ports, protocol, fragments, ICMP type, TCP flags, \
                 TOS, TTL and length of IPv4"
            ),
        }
    }
}

impl From<TooManyProducts> for UnmappedCondition {
    fn from(_: TooManyProducts) -> UnmappedCondition {
        UnmappedCondition::TooMany
    }
}

/// Returns the packets for which a condition of the filter language holds.
///
/// # Errors
/// If the condition is not a union of products.
pub fn condition_products(condition: &Condition) -> Result<Vec<FieldSets>, UnmappedCondition> {
    products(condition, true, &|test| {
        let inside = IntervalSet::one(test.low.into(), test.high.into());
        let bits = 8 * u32::from(test.length);
        let set = if test.outside { inside.complement(bits) } else { inside };
        bytes(test.header, test.offset.into(), test.length.into(), test.mask.into(), &set)
    })
}

/// Returns the packets for which a filter of an element's declaration holds.
///
/// # Errors
/// If the filter is not a union of products.
pub fn filter_products(filter: &Filter) -> Result<Vec<FieldSets>, UnmappedCondition> {
    products(filter, true, &|predicate| {
        let Predicate::In { field: Field::Bytes { base, offset, length }, mask, set } = predicate else {
            return Err(UnmappedCondition::Tests(format!("{predicate:?}")));
        };
        let header = match base {
            Base::Mac => HeaderLayer::Mac,
            Base::Network => HeaderLayer::Network,
            Base::Transport => HeaderLayer::Transport,
            Base::Data => return Err(UnmappedCondition::Tests("bytes by their offset in the packet".into())),
        };
        let offset = u32::try_from(*offset).map_err(|_| other_bytes(header, offset))?;
        bytes(header, offset, u32::from(*length), *mask, set)
    })
}

fn other_bytes(header: HeaderLayer, offset: impl fmt::Display) -> UnmappedCondition {
    UnmappedCondition::Tests(match header {
        HeaderLayer::Mac => "the Ethernet header".into(),
        HeaderLayer::Network => format!("byte {offset} of the IP header"),
        HeaderLayer::Transport => format!("byte {offset} after the IP header"),
    })
}

/// A set of values of one field, or the same answer for all packets.
enum Tested {
    Always(bool),
    Values(PacketField, IntervalSet),
}

fn bytes(
    header: HeaderLayer,
    offset: u32,
    length: u32,
    mask: u128,
    set: &IntervalSet,
) -> Result<Tested, UnmappedCondition> {
    let own = IntervalSet::full(8 * length.min(16));
    let mask = mask & own.intervals().last().map_or(0, |last| last.1);
    if mask == 0 {
        return Ok(Tested::Always(set.contains(0)));
    }
    // The version of IP, in the upper half of the first byte, is 4.
    if (header, offset, length) == (HeaderLayer::Network, 0, 1) && mask & 0x0f == 0 {
        return Ok(Tested::Always(set.contains(0x40 & mask)));
    }
    let Some((field, after)) = PacketField::containing(header, offset, length) else {
        return Err(other_bytes(header, offset));
    };
    let set = set.intersection(&own);
    let moved = set.intervals().iter().map(|&(low, high)| (low << after, high << after | ((1 << after) - 1)));
    let values = preimage(mask << after, &moved.collect(), field.bits()).ok_or(UnmappedCondition::TooMany)?;
    Ok(Tested::Values(field, values))
}

/// Returns the packets for which a condition holds or, if `positive` is false, does not hold.
fn products<L>(
    tree: &Tree<L>,
    positive: bool,
    leaf: &impl Fn(&L) -> Result<Tested, UnmappedCondition>,
) -> Result<Vec<FieldSets>, UnmappedCondition> {
    let all = |parts: &[Tree<L>], positive| {
        parts.iter().try_fold(vec![FieldSets::ALL], |all, part| {
            // The rest of a conjunction cannot change an empty set, and may test what is not known here.
            if all.is_empty() { Ok(all) } else { Ok(meet(&all, &products(part, positive, leaf)?)?) }
        })
    };
    let any = |parts: &[Tree<L>], positive| {
        let mut any = Vec::new();
        for part in parts {
            any.extend(products(part, positive, leaf)?);
        }
        Ok(bounded(any)?)
    };
    match tree {
        Tree::Constant(value) => Ok(if *value == positive { vec![FieldSets::ALL] } else { Vec::new() }),
        Tree::Not(inner) => products(inner, !positive, leaf),
        Tree::All(parts) if positive => all(parts, true),
        Tree::All(parts) => any(parts, false),
        Tree::Any(parts) if positive => any(parts, true),
        Tree::Any(parts) => all(parts, false),
        Tree::Choose(parts) => {
            let [asked, then, otherwise] = &**parts;
            let yes = meet(&products(asked, true, leaf)?, &products(then, positive, leaf)?)?;
            let no = meet(&products(asked, false, leaf)?, &products(otherwise, positive, leaf)?)?;
            Ok(bounded(yes.into_iter().chain(no))?)
        }
        Tree::Leaf(test) => Ok(match leaf(test)? {
            Tested::Always(value) if value == positive => vec![FieldSets::ALL],
            Tested::Always(_) => Vec::new(),
            Tested::Values(field, set) => {
                let set = if positive { set } else { field.complement(&set) };
                FieldSets::of(field, set).into_iter().collect()
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phrase::whole_phrase;
    use crate::question::filter;

    fn phrases(text: &str) -> Vec<String> {
        let mut phrases: Vec<String> = filter(text).unwrap().iter().map(whole_phrase).collect();
        phrases.sort();
        phrases
    }

    #[test]
    fn expressions_become_products() {
        assert_eq!(phrases("src net 10.0.0.0/8 and dst tcp port 80"), ["tcp from 10.0.0.0/8 to any port 80"]);
        assert_eq!(phrases("dst port >= 1024"), ["{tcp, udp} from any to any port 1024-65535"]);
        assert_eq!(phrases("icmp type echo"), ["icmp from any to any icmp type echo"]);
        assert_eq!(phrases("host 10.0.0.1"), ["ip from 10.0.0.1 to any", "ip from any to 10.0.0.1"]);
        assert_eq!(phrases("not ip frag"), ["ip from any to any fragment none"]);
        assert_eq!(phrases("tcp opt syn and not tcp opt ack"), ["tcp from any to any flags syn/syn,ack",]);
        assert_eq!(phrases("ip6 host 2001:db8::1"), Vec::<String>::new(), "no IPv4 packet");
        assert_eq!(phrases("tcp ? dst port 80 : src net 10.0.0.0/8").len(), 2);
        assert_eq!(phrases("ip ttl < 3 and ip tos 16"), ["ip from any to any tos 16 ttl 0-2"]);
    }

    #[test]
    fn a_negation_is_the_complement() {
        for text in ["dst tcp port 80", "src net 10.0.0.0/8 or udp", "tcp ? dst port 80 : icmp"] {
            let (yes, no) = (filter(text).unwrap(), filter(&format!("not ({text})")).unwrap());
            assert!(meet(&yes, &no).unwrap().is_empty());
            let all = crate::product::minus(&[FieldSets::ALL], &[yes, no].concat()).unwrap();
            assert!(all.is_empty(), "{text}: {all:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(filter("ether host 0:1:2:3:4:5").unwrap_err().contains("it tests the Ethernet header"));
        assert!(filter("ip id 5").unwrap_err().contains("byte 4 of the IP header"));
        assert!(filter("tcp win > 5").unwrap_err().contains("byte 14 after the IP header"));
    }
}
