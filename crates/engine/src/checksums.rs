//! Finds out which elements can rely on the bit for verified transport checksums
//! ([`element::Packet::has_right_checksum`]), and of which elements all large segments are cut again.
//!
//! Devices set the bit of a packet if an interface or the kernel has verified its transport checksum. The bit
//! is right at an element downstream if no element between may change what the checksum covers, or put
//! another network header in front. Elements that hold packets end its use, too: after a reload, packets may
//! come from an element that has changed them in the old graph.

use std::collections::BTreeSet;

use element::effects::{Action, Case, Checksum, Effects, Emit, Field, HeaderKind, Hold, Target, Value};
use element::{Base, ElementId};

use crate::packet_starts::{Forward, starts_of_packets};

/// Returns, for each element that trusts the bit for verified checksums, true if the bit is right in the
/// packets that come to the element; false for other elements. Returns an empty vector if no element trusts
/// the bit.
pub(crate) fn known(effects: &[Effects], forward: &Forward) -> Vec<bool> {
    let trusts = |id: ElementId| effects[id].support.trusts_checksums;
    if !(0..effects.len()).any(trusts) {
        return Vec::new();
    }
    let starts = starts_of_packets(effects, forward);
    let mut receives = vec![false; effects.len()];
    forward.iter().flatten().flatten().for_each(|&(to, _)| receives[to] = true);
    let sets = |id: ElementId| effects[id].support.sets_checksum_bit;
    let ends = |id: ElementId| receives[id] && !sets(id) && !keeps(&effects[id], &starts[id]);
    let mut is_wrong = vec![false; effects.len()];
    let mut open: Vec<ElementId> = (0..effects.len()).filter(|&id| ends(id)).collect();
    while let Some(id) = open.pop() {
        for &(to, _) in forward[id].iter().flatten() {
            if !std::mem::replace(&mut is_wrong[to], true) && !sets(to) {
                open.push(to);
            }
        }
    }
    (0..effects.len()).map(|id| trusts(id) && !is_wrong[id]).collect()
}

/// True if a transport checksum that is right when a packet comes to the element is also right when the
/// packet leaves. `starts` are the offsets from the IP header at which the packets may start.
fn keeps(effects: &Effects, starts: &BTreeSet<i32>) -> bool {
    let is_held = |case: &Case| matches!(case.to, Target::Hold(_));
    let holds = effects.hold != Hold::None || effects.opaque.is_some() || effects.cases.iter().any(is_held);
    // The bit is not set in packets that an element makes, unless it is a device. They might be made of
    // packets that came in.
    let is_new = |emit: &Emit| emit.is_copy() || emit.reads.is_empty();
    !holds && effects.emits.iter().all(is_new) && effects.cases.iter().all(|case| keeps_in(case, starts))
}

fn keeps_in(case: &Case, starts: &BTreeSet<i32>) -> bool {
    // An element that keeps the checksum of the IPv4 header right changes no IPv6 packets.
    let is_ipv4 = match &case.checksum {
        Checksum::Untouched => false,
        Checksum::Updated(headers) | Checksum::Recomputed(headers) => headers.contains(&HeaderKind::Ipv4),
    };
    let mut stripped = 0;
    let mut keeps = |action: &Action| match action {
        // Elements that ask check that the packet holds all bytes that its IP header announces. So the
        // transport segment is the same as before if the packet was cut or has grown.
        Action::Set(Field::Length, Value::Number(number)) if number.variables().next().is_some() => true,
        Action::Set(field, _) => !is_covered(field, stripped, starts, is_ipv4),
        // So few bytes may be a link header, but no IP header.
        Action::Strip(n) => {
            stripped += n;
            *n >= -LINK_HEADER
        }
        Action::Start(_) | Action::Resize(_) => false,
    };
    case.actions.iter().all(&mut keeps)
}

/// The length of an Ethernet header in bytes.
const LINK_HEADER: i32 = 14;

/// True if a transport checksum covers a field or part of it, or if the field decides where the transport
/// header is found. `stripped` bytes have been stripped from packets that started at `starts`. `is_ipv4` is
/// true if all packets are IPv4.
fn is_covered(field: &Field, stripped: i32, starts: &BTreeSet<i32>, is_ipv4: bool) -> bool {
    // Of the network header, no transport checksum covers the type of service and the hop limit of IPv6 and,
    // of IPv4, the time to live and the checksum.
    const FREE: [(i32, i32); 2] = [(1, 2), (7, 8)];
    const FREE_IPV4: [(i32, i32); 2] = [(7, 9), (10, 12)];
    let free = || FREE.iter().chain(FREE_IPV4.iter().filter(|_| is_ipv4));
    let in_network = |from: i32, to: i32| to > 0 && !free().any(|&(start, end)| start <= from && to <= end);
    match *field {
        Field::Bytes { base, offset, length } => {
            let end = offset + i32::from(length);
            match base {
                Base::Network => in_network(offset, end),
                Base::Mac => end > LINK_HEADER,
                Base::Data => starts.iter().any(|start| {
                    let here = start + stripped;
                    in_network(here + offset, here + end)
                }),
                Base::Transport => true,
            }
        }
        Field::Payload | Field::Length | Field::HeaderOffset(Base::Data) => true,
        _ => false,
    }
}

/// Returns, for each element that makes large segments, true if all that it may emit come to elements that
/// restore the checksums of their segments, or are dropped, and if some come to such an element; for each
/// element that restores checksums, true if it can do so; false for other elements. Returns an empty vector
/// if no element restores checksums. `receives` is true for elements to which large segments may come.
pub(crate) fn restored(effects: &[Effects], forward: &Forward, receives: &[bool]) -> Vec<bool> {
    let restores = |id: ElementId| effects[id].support.restores_checksums;
    if !(0..effects.len()).any(restores) {
        return Vec::new();
    }
    let mut back = vec![Vec::new(); effects.len()];
    for (id, outputs) in forward.iter().enumerate() {
        outputs.iter().flatten().for_each(|&(to, _)| back[to].push(id));
    }
    let onward: Vec<Vec<ElementId>> =
        forward.iter().map(|outputs| outputs.iter().flatten().map(|&(to, _)| to).collect()).collect();
    let makes = |id: ElementId| effects[id].support.offloads.is_some();
    let starts = starts_of_packets(effects, forward);
    let spoils = |id: ElementId| {
        let Effects { cases, opaque, support, .. } = &effects[id];
        let keeps = opaque.is_none() && cases.iter().all(|case| keeps_in(case, &starts[id]));
        // Where payloads are joined, the headers may come from elements that have made the checksum wrong.
        support.sliced.joins.is_some() || !makes(id) && !keeps
    };
    // What an element spoils ends where large segments are made of other packets.
    let is_spoilt = reached(&onward, spoils, |id| !restores(id) && (!makes(id) || receives[id]));
    let can_restore = |id: ElementId| restores(id) && !is_spoilt[id];
    let is_end = |id: ElementId| !can_restore(id) && (makes(id) || is_exit(&effects[id]));
    let is_between = |id: ElementId| !makes(id) && !is_exit(&effects[id]);
    let comes_to_end = reached(&back, is_end, is_between);
    let comes_to_cutter = reached(&back, can_restore, is_between);
    let is_restored = |id: ElementId| match restores(id) {
        true => can_restore(id),
        false => makes(id) && comes_to_cutter[id] && !comes_to_end[id],
    };
    (0..effects.len()).map(is_restored).collect()
}

/// Returns, for each element, true if it is reached by `next` from an element for which `is_start` is true.
/// The search goes on from elements for which `goes_on` is true, and from all starts.
fn reached(
    next: &[Vec<ElementId>],
    is_start: impl Fn(ElementId) -> bool,
    goes_on: impl Fn(ElementId) -> bool,
) -> Vec<bool> {
    let mut reached = vec![false; next.len()];
    let mut open: Vec<ElementId> = (0..next.len()).filter(|&id| is_start(id)).collect();
    while let Some(id) = open.pop() {
        for &to in &next[id] {
            if !std::mem::replace(&mut reached[to], true) && goes_on(to) {
                open.push(to);
            }
        }
    }
    reached
}

/// True if packets leave the graph at an element, or if it copies packets: the copy of a large segment does
/// not have the headers of its segments.
fn is_exit(effects: &Effects) -> bool {
    let is_exit = |case: &Case| matches!(case.to, Target::Send | Target::AllOutputs);
    effects.opaque.is_some() || effects.cases.iter().any(is_exit) || effects.emits.iter().any(Emit::is_copy)
}

#[cfg(test)]
mod tests {
    use element::effects::{Filter, Number, Support, wire_field};

    use super::*;

    fn with(support: Support) -> Effects {
        Effects { support, ..Effects::pass() }
    }

    fn trusts() -> Effects {
        with(Support { trusts_checksums: true, ..Support::default() })
    }

    fn case() -> Case {
        Case::new(Filter::TRUE, Target::Output(0))
    }

    fn setting(field: Field) -> Case {
        case().with(Action::Set(field, Value::Constant(vec![0])))
    }

    /// True if the bit is trusted downstream of the element `between`.
    fn is_trusted_behind(between: Effects) -> bool {
        let chain = [Effects::source("received packet"), between, Effects::pass(), trusts()];
        let forward = [vec![vec![(1, 0)]], vec![vec![(2, 0)]], vec![vec![(3, 0)]], vec![]];
        let known = known(&chain, &forward);
        assert!(!known[0] && !known[1] && !known[2]);
        known[3]
    }

    #[test]
    fn the_bit_is_trusted_until_a_checksum_may_become_wrong() {
        let bytes = |base, offset, length| Field::Bytes { base, offset, length };
        let both = [HeaderKind::Ipv4, HeaderKind::Tcp, HeaderKind::Udp];
        let length = Number::of(bytes(Base::Network, 2, 2));
        for keeps in [
            Effects::pass(),
            // A device that also sends.
            Effects {
                cases: vec![Case::new(Filter::TRUE, Target::Send)],
                ..Effects::source("received packet")
            },
            Effects::cases(vec![case().with(Action::Strip(14))]),
            // An Ethernet header is prepended and written.
            Effects::cases(vec![setting(bytes(Base::Data, 0, 14))]),
            Effects::cases(vec![
                case()
                    .with(Action::Strip(14))
                    .with(Action::Strip(-14))
                    .with(Action::Set(bytes(Base::Data, 0, 14), Value::Constant(vec![0; 14]))),
            ]),
            Effects::cases(vec![setting(wire_field::IP_TTL).updating(&[HeaderKind::Ipv4])]),
            // The type of service of IPv4, and the hop limit of IPv6.
            Effects::cases(vec![setting(bytes(Base::Network, 1, 1)), setting(bytes(Base::Network, 7, 1))]),
            Effects::cases(vec![setting(Field::HeaderOffset(Base::Network)), setting(Field::TimeStamp)]),
            // Padding is cut off.
            Effects::cases(vec![case().with(Action::Set(Field::Length, Value::Number(length)))]),
            // An element that sets the bit itself.
            Effects { hold: Hold::Replay, ..with(Support { sets_checksum_bit: true, ..Support::default() }) },
        ] {
            assert!(is_trusted_behind(keeps.clone()), "{keeps:?}");
        }
        for ends in [
            Effects::cases(vec![setting(wire_field::IP_SRC)]),
            // A translator, whose packets may be of either protocol.
            Effects::cases(vec![case(), setting(wire_field::IP_SRC).updating(&both)]),
            // In IPv6, bytes of the source address.
            Effects::cases(vec![setting(bytes(Base::Network, 8, 1))]),
            Effects::cases(vec![setting(bytes(Base::Data, 24, 2))]),
            Effects::cases(vec![setting(wire_field::DST_PORT)]),
            Effects::cases(vec![setting(bytes(Base::Transport, 16, 2))]),
            Effects::cases(vec![setting(bytes(Base::Mac, 12, 4))]),
            Effects::cases(vec![setting(bytes(Base::Data, 12, 4))]),
            Effects::cases(vec![
                case()
                    .with(Action::Strip(14))
                    .with(Action::Set(bytes(Base::Data, 0, 14), Value::Constant(vec![0; 14]))),
            ]),
            Effects::cases(vec![setting(Field::Payload)]),
            Effects::cases(vec![setting(Field::Length)]),
            Effects::cases(vec![case().with(Action::Strip(-20))]),
            Effects::cases(vec![case().with(Action::Resize(Vec::new()))]),
            Effects { hold: Hold::Delay, ..Effects::pass() },
            Effects { opaque: Some("unknown"), ..Effects::pass() },
            Effects {
                emits: vec![Emit { reads: vec![Field::Payload], name: "answer", ..Emit::copies(None) }],
                ..Effects::pass()
            },
        ] {
            assert!(!is_trusted_behind(ends.clone()), "{ends:?}");
        }
        // No element trusts the bit.
        assert!(known(&[Effects::pass()], &[vec![]]).is_empty());
        // The bit has to be right on all paths.
        let all = [Effects::pass(), Effects::cases(vec![setting(wire_field::IP_SRC)]), trusts()];
        let forward = [vec![vec![(1, 0)], vec![(2, 0)]], vec![vec![(2, 0)]], vec![]];
        assert_eq!(known(&all, &forward), [false; 3]);
    }

    #[test]
    fn large_segments_are_restored_if_all_of_them_are_cut() {
        let offloads = || with(Support { offloads: Some(-14), ..Support::default() });
        let cuts = || with(Support { offloads: Some(-14), restores_checksums: true, ..Support::default() });
        let is_restored = |behind: &[Effects], forward: &Forward| {
            let all: Vec<Effects> = [offloads()].into_iter().chain(behind.iter().cloned()).collect();
            let mut receives = vec![true; all.len()];
            receives[0] = false;
            restored(&all, forward, &receives).first() == Some(&true)
        };
        let to = |id| vec![vec![(id, 0)]];
        let drops = Effects::drop(element::DropReason::Discard);
        assert!(is_restored(&[Effects::pass(), cuts(), offloads()], &[to(1), to(2), to(3), vec![]]));
        let both = [vec![vec![(1, 0)], vec![(2, 0)]], vec![], vec![]];
        assert!(is_restored(&[drops.clone(), cuts()], &both));
        assert!(!is_restored(&[offloads(), cuts()], &both));
        // Without an element that cuts, the large segment is what arrives.
        assert!(!is_restored(&[drops], &[to(1), vec![]]));
        assert!(restored(&[offloads()], &[vec![]], &[false]).is_empty());
        // An element that makes checksums wrong cannot be told from damage; one in front does no harm.
        let changes = || Effects::cases(vec![setting(wire_field::IP_SRC)]);
        let chain = [to(1), to(2), vec![]];
        assert!(!is_restored(&[changes(), cuts()], &chain));
        assert_eq!(restored(&[offloads(), changes(), cuts()], &chain, &[false, true, true]), [false; 3]);
        assert_eq!(
            restored(&[changes(), offloads(), cuts()], &chain, &[false, false, true]),
            [false, true, true]
        );
        let waits = Effects::cases(vec![Case::new(Filter::TRUE, Target::Hold(0))]);
        assert!(is_restored(&[waits, cuts()], &chain));
        let copies = Effects { emits: vec![Emit::copies(None)], ..Effects::pass() };
        assert!(!is_restored(&[copies, cuts()], &[to(1), to(2), vec![]]));
    }
}
