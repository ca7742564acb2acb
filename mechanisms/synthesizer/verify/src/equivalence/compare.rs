//! The comparison of the packets that arrive at corresponding exits of two chains: for which input packets
//! they differ, and in which part. An empty list of differences is a proof that the exits receive equal
//! packets. Each difference is a [`Candidate`], from which the caller can make an example packet.

use std::collections::BTreeSet;

use element::effects::Field;

use crate::model::arrival::Arrival;
use crate::model::diagrams::{Bit, Diagrams, Symbol};
use crate::model::offsets::{byte_region_of, in_byte_region};
use crate::model::packet::PacketModel;
use crate::model::sums::ChecksumHistory;

/// A difference between the results of two chains in the symbolic model. A run of an example packet must
/// confirm it.
pub struct Candidate {
    /// The condition on the input packets for which the results differ; at least one input packet satisfies
    /// it.
    pub condition: Bit,
    /// The part of the arriving packets that differs, as text for messages: `"length"`, `"byte 22"`.
    pub what: String,
}

/// True if an input packet exists for which at least two of the arrivals have a packet (copies that a Tee
/// upstream has made, for example).
fn has_copies(d: &Diagrams, arrivals: &[Arrival]) -> bool {
    arrivals
        .iter()
        .enumerate()
        .any(|(i, a)| arrivals[..i].iter().any(|b| d.overlap(&a.condition, &b.condition)))
}

/// The maximum number of sets into which [`regions`] partitions the input packets. If there are more, all
/// packets count as different.
const MOST_REGIONS: usize = 1000;

/// Partitions the input packets into disjoint conditions. For each of `arrivals`, the input packets of one
/// condition either all lead to a packet there, or none of them does. Returns `None` if there are more than
/// [`MOST_REGIONS`] conditions.
fn regions<'a>(d: &Diagrams, arrivals: impl Iterator<Item = &'a Arrival>) -> Option<Vec<Bit>> {
    let mut regions = vec![d.yes()];
    for arrival in arrivals {
        let split = |region: &Bit| [d.and(region, &arrival.condition), d.and_not(region, &arrival.condition)];
        regions = regions.iter().flat_map(split).filter(|region| !d.is_never(region)).collect();
        if regions.len() > MOST_REGIONS {
            return None;
        }
    }
    Some(regions)
}

/// Compares the packets that arrive in each of two `chains` for the input packets in `region`. Several
/// packets (copies) may arrive for one input packet. Copies are matched as multisets: their order is not
/// compared. Returns no differences if all copies have a match. If exactly one copy in each chain has no
/// match, returns the differences between these two copies; otherwise, a single difference named "copies".
fn copies(d: &Diagrams, region: &Bit, chains: [&[Arrival]; 2], observed: &[Field]) -> Vec<Candidate> {
    let [a, mut left] = chains.map(|arrivals| {
        arrivals.iter().filter(|arrival| d.overlap(region, &arrival.condition)).collect::<Vec<_>>()
    });
    let differ = |x: &Arrival, y: &Arrival| packets(d, region, &x.packet, &y.packet, observed);
    let mut rest: Vec<&Arrival> = Vec::new();
    for arrival in a {
        // Each packet of the second chain matches at most one packet of the first.
        match left.iter().position(|other| differ(arrival, other).is_empty()) {
            Some(place) => {
                left.swap_remove(place);
            }
            None => rest.push(arrival),
        }
    }
    match (&rest[..], &left[..]) {
        ([], []) => Vec::new(),
        ([mine], [theirs]) => differ(mine, theirs),
        _ => vec![Candidate { condition: region.clone(), what: "copies".into() }],
    }
}

fn any(d: &Diagrams, arrivals: &[Arrival]) -> Bit {
    arrivals.iter().fold(d.no(), |any, arrival| d.or(&any, &arrival.condition))
}

/// Returns the differences between the packets that arrive at one exit in the first chain (`a`) and in the
/// second (`b`); none if they are equal for every input packet. `observed` has the fields that the exit
/// reads. Metadata is compared only if it is among these fields; header marks, length and bytes are always
/// compared.
pub fn arrivals(d: &Diagrams, a: &[Arrival], b: &[Arrival], observed: &[Field]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let (from_a, from_b) = (any(d, a), any(d, b));
    for (condition, what) in [
        (d.and_not(&from_a, &from_b), "comes only from the first"),
        (d.and_not(&from_b, &from_a), "comes only from the second"),
    ] {
        if !d.is_never(&condition) {
            candidates.push(Candidate { condition, what: what.into() });
        }
    }
    if !candidates.is_empty() {
        // A packet that arrives in one chain only is a sufficient difference. Differences in the contents of
        // packets are not computed in this case, because their diagrams may be far larger.
        return candidates;
    }
    if has_copies(d, a) || has_copies(d, b) {
        let Some(regions) = regions(d, a.iter().chain(b)) else {
            candidates.push(Candidate { condition: d.or(&from_a, &from_b), what: "copies".into() });
            return candidates;
        };
        for region in regions {
            candidates.extend(copies(d, &region, [a, b], observed));
        }
        return candidates;
    }
    for left in a {
        for right in b {
            let both = d.and(&left.condition, &right.condition);
            if !d.is_never(&both) {
                candidates.extend(packets(d, &both, &left.packet, &right.packet, observed));
            }
        }
    }
    candidates
}

/// The number of bytes after the last written byte that are still compared if the unwritten bytes of two
/// packets do not correspond: the packets start at different offsets of the frame, or uninterpreted functions
/// made these bytes. If the starts differ, bytes beyond this number count as different.
const SHIFTED: i32 = 8;

/// Returns the name that messages use for the byte at offset `place`, in the frame or in a byte region.
fn name(packet: &PacketModel, place: i32) -> String {
    match byte_region_of(place) {
        None => format!("byte {}", place - packet.start),
        Some((_, offset)) => format!("byte {offset} after the IP header"),
    }
}

/// Returns the differences between the packets `a` and `b`, each with the condition on the input packets
/// for which they differ. Only input packets that satisfy `condition` count.
fn packets(
    d: &Diagrams,
    condition: &Bit,
    a: &PacketModel,
    b: &PacketModel,
    observed: &[Field],
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let mut add = |difference: &Bit, what: &dyn Fn() -> String| {
        let condition = d.and(condition, difference);
        if !d.is_never(&condition) {
            candidates.push(Candidate { condition, what: what() });
        }
    };
    if a.lost.is_some() || b.lost.is_some() {
        // Of at least one of the packets, only the uninterpreted function that made it is known. If one
        // function made both packets from equal arguments, the packets are equal. Otherwise it is unknown if
        // they are equal: the condition of the difference is then a new variable, so that the counterexample
        // depends on the function.
        if a.lost != b.lost {
            let unequal = d.symbol(Symbol::Term(a.lost.or(b.lost).unwrap_or_default(), u32::MAX));
            add(&unequal, &|| "the result of an opaque element".into());
        }
        return candidates;
    }
    if a.headers != b.headers {
        // With different header marks, the exit would read headers at different offsets.
        add(&d.yes(), &|| "where headers are marked".into());
    }
    let lengths = (a.length(d), b.length(d));
    for difference in d.differences(lengths.0.bits(), lengths.1.bits()) {
        add(&difference, &|| "length".into());
    }
    let sums: BTreeSet<_> = a.sums.keys().chain(b.sums.keys()).copied().collect();
    let aligned = a.start == b.start && a.is_original() == b.is_original();
    // Bytes are compared only for input packets for which both results are long enough to have them.
    let within =
        |offset: i32| d.and(&a.reaches(d, a.start + offset + 1), &b.reaches(d, b.start + offset + 1));
    if aligned {
        for &key in &sums {
            // [`ChecksumHistory::differences`] compares checksums, because their bits have no diagram.
            let offset = key.field().start - a.start;
            if offset < 0 && !in_byte_region(a.start) {
                continue;
            }
            let within = within(offset + 1);
            for difference in ChecksumHistory::differences(d, key, a, b) {
                add(&d.and(&within, &difference), &|| format!("checksum {}", name(a, key.field().start)));
            }
        }
    }
    let mut places: BTreeSet<i32> = a.written().map(|place| place - a.start).collect();
    places.extend(b.written().map(|place| place - b.start));
    if !aligned || !a.is_original() {
        // The unwritten bytes of the two packets either come from different functions, and then differ in the
        // first byte, or from different offsets of the frame. In the second case only bytes up to `last` are
        // compared. All packets with more bytes become candidates, and a run decides.
        let last = places.iter().copied().filter(|&offset| !in_byte_region(a.start + offset)).max();
        let last = last.unwrap_or(0).max(0) + SHIFTED;
        places.extend(0..=last);
        if a.start != b.start {
            add(&within(last + 1), &|| "bytes that stand elsewhere".into());
        }
    }
    for offset in places {
        let (left, right) = (a.start + offset, b.start + offset);
        if offset < 0 && !in_byte_region(a.start)
            || aligned && sums.iter().any(|key| key.field().contains(&left))
        {
            continue;
        }
        let (x, y) = if aligned {
            (a.compared(d, left), b.compared(d, right))
        } else {
            (a.byte(d, left), b.byte(d, right))
        };
        if x != y {
            let within = within(offset);
            for difference in d.differences(&x, &y) {
                add(&d.and(&within, &difference), &|| name(a, left));
            }
        }
    }
    for field in observed {
        if matches!(field, Field::Annotation { .. } | Field::TimeStamp | Field::Kind | Field::InputPort) {
            let (x, y) = (a.field(d, field).bits, b.field(d, field).bits);
            for difference in d.differences(&x, &y) {
                add(&difference, &|| format!("{field:?}"));
            }
        }
    }
    candidates
}
