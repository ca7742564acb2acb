//! Checksums of symbolic packets: their computation and update, their correctness, their comparison.
//!
//! A checksum is correct if it was correct at its origin and accounts for the header's present content.

use std::collections::{BTreeMap, BTreeSet};

use super::diagrams::{Bit, Diagrams, Term};
use super::packet::PacketModel;
use super::sums::{ChecksumHistory, ICMP, IPV4, Origin, SumKey, UDP};

impl SumKey {
    /// Returns the condition that the checksum covers the word at `place`. For an IP header this depends on
    /// the header's length field.
    fn covers(self, d: &Diagrams, packet: &PacketModel, place: i32) -> Bit {
        if self.kind == IPV4 { packet.header_reaches(d, self.at, place) } else { d.yes() }
    }

    /// True if an element has changed the length field of an IP header, so that the checksum covers other
    /// words than in the input packet.
    fn reaches_elsewhere(self, d: &Diagrams, packet: &PacketModel) -> bool {
        self.kind == IPV4 && packet.byte(d, self.at)[4..] != packet.unwritten(d, self.at)[4..]
    }

    /// Returns a term (an uninterpreted function with its arguments). Its arguments are all content of the
    /// packet on which the correctness of this checksum may depend.
    fn content(self, d: &Diagrams, packet: &PacketModel) -> Term {
        let is_part = |place: i32| match self.kind {
            IPV4 => (self.at..self.at + 60).contains(&place),
            _ => place >= self.at || (self.network..self.network + 60).contains(&place),
        };
        let mut content = packet.changes(d, self.at, &is_part);
        content.numbers.extend(self.numbers());
        if self.kind != IPV4 {
            content.bits.extend_from_slice(packet.end.bits());
        }
        content
    }
}

/// Returns the 16 bits of the word at the offset `place`, for packets whose header is long enough to contain
/// the word. For other packets the result has no meaning.
fn word(d: &Diagrams, key: SumKey, packet: &PacketModel, place: i32) -> Vec<Bit> {
    match key.kind {
        IPV4 => (place..place + 2).flat_map(|place| packet.header_byte(d, key.at, place)).collect(),
        _ => packet.bits(d, place, 2),
    }
}

fn first(d: &Diagrams, packet: &PacketModel, place: i32) -> Vec<Bit> {
    (place..place + 2).flat_map(|place| packet.unwritten(d, place)).collect()
}

/// Returns the condition that two words add the same to a sum: they are equal, or both are a representation
/// of zero, 0000 or ffff (RFC 1071).
fn congruent(d: &Diagrams, a: &[Bit], b: &[Bit]) -> Bit {
    let is_zero = |word: &[Bit]| {
        let ones = d.all(word);
        let zeros = word.iter().fold(d.yes(), |all, bit| d.and_not(&all, bit));
        d.or(&ones, &zeros)
    };
    d.or(&d.equal(a, b), &d.and(&is_zero(a), &is_zero(b)))
}

/// A 16-bit word for which two checksums account with different values, or whose value in the packet differs
/// from the value that a checksum accounts for.
struct Wrong {
    place: i32,
    now: Vec<Bit>,
    accounted: Vec<Bit>,
}

/// Removes from `wrong` the words that the checksum covers in every packet and whose values have only changed
/// places, such as swapped addresses, because the sum is then unchanged.
fn cancel_moved(key: SumKey, wrong: &mut Vec<Wrong>) {
    let mut place = 0;
    while place < wrong.len() {
        let here = &wrong[place];
        let from = wrong.iter().position(|other| {
            other.place != here.place
                && key.always_covers(other.place)
                && key.always_covers(here.place)
                && other.accounted == here.now
        });
        // The word that is now at the offset of entry `place` is the word that the checksum accounts for at
        // the offset of entry `from`, so the two cancel out. The other words of the two entries become the
        // new entry `from`: the word that is now at its offset, and the word that the checksum accounts for
        // at the offset of entry `place`.
        match from {
            Some(from) => {
                wrong[from].accounted = std::mem::take(&mut wrong[place].accounted);
                wrong.remove(place);
                wrong.retain(|word| word.now != word.accounted);
                place = 0;
            }
            None => place += 1,
        }
    }
}

impl ChecksumHistory {
    /// Returns the history of a checksum: the recorded history if elements maintain the checksum, otherwise a
    /// history with its origin alone.
    fn found(d: &Diagrams, packet: &PacketModel, key: SumKey) -> ChecksumHistory {
        if let Some(sum) = packet.sums.get(&key) {
            return sum.clone();
        }
        // The field is not a field of the input packet if an element wrote it, also as a part of another
        // checksum, or if a function made all bytes.
        let is_other = |other: &SumKey| other.field().any(|place| key.field().contains(&place));
        let written = key.field().any(|place| packet.is_written(place))
            || packet.sums.keys().any(is_other)
            || !packet.is_original();
        let origin =
            if written { Origin::Written(packet.bits(d, key.field().start, 2)) } else { Origin::Input };
        ChecksumHistory { origin, accounted: BTreeMap::new(), single_zero: d.no() }
    }

    /// Makes a checksum that is computed over the packet as it is now.
    pub fn computed(d: &Diagrams, packet: &PacketModel, key: SumKey) -> ChecksumHistory {
        let mut accounted = BTreeMap::new();
        for place in packet.written_beside(key).filter_map(|place| key.word_of(place)) {
            let now = word(d, key, packet, place);
            if now != first(d, packet, place) {
                accounted.insert(place, now);
            }
        }
        // The computed ICMP checksum is ffff for all-zero data, and 0000 for other data with a sum of zero.
        // So zero has two representations.
        let single_zero = if key.kind == ICMP { d.no() } else { d.yes() };
        ChecksumHistory { origin: Origin::Computed(packet.version()), accounted, single_zero }
    }

    /// Makes the checksum that results if the checksum of `before` is updated for the writes at `places`,
    /// which lead to the packet `now`.
    pub fn updated(
        d: &Diagrams,
        before: &PacketModel,
        now: &PacketModel,
        key: SumKey,
        places: &[i32],
    ) -> ChecksumHistory {
        let mut sum = ChecksumHistory::found(d, before, key);
        let words = places.iter().filter_map(|&place| key.word_of(place));
        let words: BTreeMap<i32, Vec<Bit>> =
            words.map(|place| (place, word(d, key, before, place))).collect();
        if words.iter().any(|(place, old)| !sum.accounts_for(d, before, *place, old)) {
            // The checksum did not account for the old value of a word, so the checksum stays wrong after the
            // update. Its present value becomes the origin of a new history.
            let origin = Origin::Written(sum.bits(d, key));
            sum = ChecksumHistory { origin, accounted: BTreeMap::new(), single_zero: sum.single_zero };
        }
        sum.single_zero = d.yes();
        for place in places.iter().filter_map(|&place| key.word_of(place)) {
            let value = word(d, key, now, place);
            if let Origin::Written(_) = sum.origin {
                let old = match sum.accounted.get(&place) {
                    Some(accounted) => accounted[16..].to_vec(),
                    None => word(d, key, before, place),
                };
                let unchanged = old == value;
                sum.accounted.insert(place, [value, old].concat());
                if unchanged {
                    sum.accounted.remove(&place);
                }
            } else if value == first(d, now, place) {
                sum.accounted.remove(&place);
            } else {
                sum.accounted.insert(place, value);
            }
        }
        sum
    }

    /// True if the checksum accounts for the value `word` of the 16-bit word at the offset `place`.
    fn accounts_for(&self, d: &Diagrams, packet: &PacketModel, place: i32, word: &[Bit]) -> bool {
        match self.accounted.get(&place) {
            Some(accounted) => accounted[..16] == *word,
            None => matches!(self.origin, Origin::Written(_)) || first(d, packet, place) == word,
        }
    }

    /// Returns the condition that the checksum of a packet is correct. Whether the checksum of the input
    /// packet is correct is a variable.
    pub fn right(d: &Diagrams, packet: &PacketModel, key: SumKey) -> Bit {
        let sum = ChecksumHistory::found(d, packet, key);
        let place = Term { name: "right checksum".into(), numbers: key.numbers(), bits: Vec::new() };
        let at_origin = match (&sum.origin, packet.is_original()) {
            (Origin::Computed(version), _) if *version == packet.version() => d.yes(),
            (Origin::Input, true) => d.value(place.clone(), 1)[0].clone(),
            _ => d.no(),
        };
        // Collects the words whose value in the packet differs from the value that the checksum accounts
        // for.
        let words = packet.written_beside(key).filter_map(|place| key.word_of(place));
        let places: BTreeSet<i32> = words.chain(sum.accounted.keys().copied()).collect();
        let mut pending: Vec<Wrong> = Vec::new();
        for place in places {
            let accounted = match sum.accounted.get(&place) {
                Some(accounted) => accounted[..16].to_vec(),
                None if matches!(sum.origin, Origin::Written(_)) => word(d, key, packet, place),
                None => first(d, packet, place),
            };
            let now = word(d, key, packet, place);
            if now != accounted {
                pending.push(Wrong { place, now, accounted });
            }
        }
        cancel_moved(key, &mut pending);
        let outside = pending.iter().map(|word| d.not(&key.covers(d, packet, word.place)));
        let unharmed = d.all(&outside.collect::<Vec<_>>());
        let mut right = d.and(&at_origin, &unharmed);
        // If one word of an IP header is wrong, and not the first (with the header's length), the checksum is
        // wrong, except for the two zeros. In three other cases it may be right by chance, which is an
        // uninterpreted function of the content: several words are wrong, the origin is unknown, or other
        // words than at the origin may be covered.
        let is_exact = match &pending[..] {
            [] => true,
            [Wrong { place, now, accounted }] => {
                right = d.or(&right, &d.and(&at_origin, &congruent(d, now, accounted)));
                key.kind == IPV4 && *place != key.at
            }
            // Several wrong words may cancel out, other than by having changed places. The model does not
            // decide this.
            _ => false,
        };
        let was_right_or_not = match sum.origin {
            Origin::Computed(version) => version == packet.version(),
            // A checksum of the input packet has to cover the same words now as in the input packet.
            Origin::Input => packet.is_original() && !key.reaches_elsewhere(d, packet),
            Origin::Written(_) => false,
        };
        let mut open = if was_right_or_not { d.not(&unharmed) } else { d.yes() };
        if is_exact {
            open = d.and_not(&open, &at_origin);
        }
        if d.is_never(&open) {
            return right;
        }
        let mut by_chance = key.content(d, packet);
        by_chance.name = "right checksum by chance".into();
        d.or(&right, &d.and(&open, &d.value(by_chance, 1)[0]))
    }

    /// Returns the conditions under which two checksums differ, at least one per bit that may differ. If the
    /// checksums are equal, no packet satisfies any of these conditions. Everything else in the headers of
    /// both packets is assumed to be equal.
    pub fn differences(d: &Diagrams, key: SumKey, a: &PacketModel, b: &PacketModel) -> Vec<Bit> {
        let (left, right) = (ChecksumHistory::found(d, a, key), ChecksumHistory::found(d, b, key));
        if left.single_zero != right.single_zero && key.kind != UDP {
            d.note_one_zero();
        }
        let written = |sum: &ChecksumHistory| matches!(sum.origin, Origin::Written(_));
        let from_elsewhere = match [a, b].map(|packet| packet.version()) {
            [None, None] => !a.is_original() || !b.is_original(),
            // Unwritten bytes that the same function made are equal in both packets. The histories of the
            // checksums can then be compared if their origins are equal. Otherwise, the bits of the checksums
            // are compared.
            versions => versions[0] != versions[1] || left.origin != right.origin,
        };
        if written(&left) || written(&right) || from_elsewhere {
            return d.differences(&left.bits(d, key), &right.bits(d, key)).collect();
        }
        let places: BTreeSet<i32> = left.accounted.keys().chain(right.accounted.keys()).copied().collect();
        let mut unequal = Vec::new();
        for place in places {
            let of = |sum: &ChecksumHistory, packet| {
                sum.accounted.get(&place).cloned().unwrap_or_else(|| first(d, packet, place))
            };
            let (x, y) = (of(&left, a), of(&right, b));
            if x != y {
                unequal.push(Wrong { place, now: x, accounted: y });
            }
        }
        cancel_moved(key, &mut unequal);
        let mut different = Vec::new();
        for Wrong { place, now, accounted } in unequal {
            let covered = match key.reaches_elsewhere(d, a) || key.reaches_elsewhere(d, b) {
                true => d.yes(),
                false => d.or(&key.covers(d, a, place), &key.covers(d, b, place)),
            };
            different.extend(d.differences(&now, &accounted).map(|bit| d.and(&covered, &bit)));
        }
        if left.origin != right.origin {
            // A correct checksum of the input packet equals a computed checksum, except that a zero may be
            // 0000 in one and ffff in the other.
            d.note_one_zero();
            let place = Term { name: "right checksum".into(), numbers: key.numbers(), bits: Vec::new() };
            different.push(d.not(&d.value(place, 1)[0]));
        }
        different
    }

    /// Returns the checksum of a merged packet: the history `a` for the input packets of `condition`, and `b`
    /// for the others. `None` if the two histories differ, and their origins differ as well or are ordinary
    /// data.
    pub(super) fn merge(
        d: &Diagrams,
        condition: &Bit,
        key: SumKey,
        a: &PacketModel,
        b: &PacketModel,
    ) -> Option<ChecksumHistory> {
        let (left, right) = (ChecksumHistory::found(d, a, key), ChecksumHistory::found(d, b, key));
        if left == right {
            return Some(left);
        }
        if left.origin != right.origin || matches!(left.origin, Origin::Written(_)) {
            return None;
        }
        let mut accounted = BTreeMap::new();
        for &place in left.accounted.keys().chain(right.accounted.keys()) {
            let of = |sum: &ChecksumHistory, packet| {
                sum.accounted.get(&place).cloned().unwrap_or_else(|| first(d, packet, place))
            };
            let (x, y) = (of(&left, a), of(&right, b));
            accounted.insert(place, x.iter().zip(&y).map(|(x, y)| d.choose(condition, x, y)).collect());
        }
        let single_zero = d.choose(condition, &left.single_zero, &right.single_zero);
        Some(ChecksumHistory { origin: left.origin, accounted, single_zero })
    }
}
