//! Symbolic packets that meet at an input: their comparison, and their merging into one packet.

use std::collections::BTreeSet;
use std::rc::Rc;

use element::Base;
use element::effects::Field;

use program::metadata::Metadata;

use super::diagrams::{Bit, Byte, Diagrams};
use super::offsets::IPV4_HEADER;
use super::packet::PacketModel;
use super::sums::{ChecksumHistory, SumKey};
use super::word::Word;

impl PacketModel {
    /// Returns the parts that have to be equal before two packets can be compared byte by byte: start,
    /// headers, lowest own offset, and the functions that made the packet.
    fn layout(&self) -> (i32, [Option<i32>; 3], i32, Option<u32>, Option<u32>) {
        (self.start, self.headers, self.lowest_own, self.version, self.lost)
    }

    /// True if the packets `a` and `b` are equal in everything that an element could read, for all input
    /// packets of the condition.
    pub fn are_same(d: &Diagrams, condition: &Bit, a: &PacketModel, b: &PacketModel) -> bool {
        if a == b {
            return true;
        }
        let same =
            |x: &[Bit], y: &[Bit]| x == y || d.differences(x, y).all(|bit| !d.overlap(condition, &bit));
        if a.layout() != b.layout() || !same(a.end.bits(), b.end.bits()) {
            return false;
        }
        let sides: BTreeSet<Metadata> = a.side.keys().chain(b.side.keys()).copied().collect();
        let sums: BTreeSet<SumKey> = a.sums.keys().chain(b.sums.keys()).copied().collect();
        // [`ChecksumHistory::differences`] compares checksums, because their bits have no diagram.
        let is_plain = |place: &i32| !sums.iter().any(|key| key.field().contains(place));
        let places: BTreeSet<i32> = a.written().chain(b.written()).filter(is_plain).collect();
        let equal_sum = |key: &SumKey| {
            ChecksumHistory::differences(d, *key, a, b)
                .iter()
                .all(|different| !d.overlap(condition, different))
        };
        sides.into_iter().all(|side| same(&a.side(d, side), &b.side(d, side)))
            && places.into_iter().all(|place| same(&a.compared(d, place), &b.compared(d, place)))
            && sums.iter().all(equal_sum)
    }

    /// True if the fields `reads` have equal values in both packets, for all input packets of the
    /// condition. A function of these fields then has equal values, too. If `in_header` is true, bytes of
    /// the network header count only as far as the header reaches.
    pub fn look_the_same(
        d: &Diagrams,
        condition: &Bit,
        [a, b]: [&PacketModel; 2],
        reads: &[Field],
        in_header: bool,
    ) -> bool {
        if a == b {
            return true;
        }
        if a.lost.is_some() || b.lost.is_some() || reads.contains(&Field::Payload) {
            return PacketModel::are_same(d, condition, a, b);
        }
        reads.iter().all(|field| match *field {
            // A function may read a part of the field if the packet ends in it, so each byte is compared
            // separately.
            Field::Bytes { base, offset, length } => (0..i32::from(length)).all(|more| {
                let place = |packet: &PacketModel| Some(packet.place(base)?.saturating_add(offset + more));
                let options = in_header && base == Base::Network && offset + more >= IPV4_HEADER;
                match (place(a), place(b)) {
                    (Some(x), Some(y)) if options => {
                        PacketModel::show_the_same_option(d, condition, [(a, x), (b, y)])
                    }
                    (x, y) => PacketModel::show_the_same_byte(d, condition, [(a, x), (b, y)]),
                }
            }),
            _ => {
                let (x, y) = (a.field(d, field), b.field(d, field));
                let same = |x: &Bit, y: &Bit| x == y || !d.overlap(condition, &d.xor(x, y));
                same(&x.there, &y.there) && x.bits.iter().zip(&y.bits).all(|(x, y)| same(x, y))
            }
        })
    }

    /// True if the IP header's byte at the given offset (for each packet) is equal in both packets, for all
    /// input packets for which the header reaches to the byte. False if the headers are not marked, or if the
    /// header of only one packet reaches to the byte.
    fn show_the_same_option(d: &Diagrams, condition: &Bit, seen: [(&PacketModel, i32); 2]) -> bool {
        let [(a, x), (b, y)] = seen;
        let [Some(left), Some(right)] = [a.headers[1], b.headers[1]] else { return false };
        let [reaches, other] = [a.header_reaches(d, left, x), b.header_reaches(d, right, y)];
        let within = d.and(condition, &reaches);
        if d.overlap(condition, &d.xor(&reaches, &other)) {
            return false;
        }
        let [bits, others] = [a.header_byte(d, left, x), b.header_byte(d, right, y)];
        let [ends, ends_too] = [a.reaches(d, x + 1), b.reaches(d, y + 1)];
        bits == others && ends == ends_too
            || !d.overlap(&within, &d.xor(&ends, &ends_too))
                && d.differences(&bits, &others).all(|bit| !d.overlap(&d.and(&within, &ends), &bit))
    }

    fn show_the_same_byte(d: &Diagrams, condition: &Bit, seen: [(&PacketModel, Option<i32>); 2]) -> bool {
        let there = |(packet, place): (&PacketModel, Option<i32>)| match place {
            Some(place) => packet.reaches(d, place.saturating_add(1)),
            None => d.no(),
        };
        let (x, y) = (there(seen[0]), there(seen[1]));
        if x != y && d.overlap(condition, &d.xor(&x, &y)) {
            return false;
        }
        let [(a, Some(left)), (b, Some(right))] = seen else { return true };
        let within = d.and(condition, &x);
        let mut sums = a.sums.keys().chain(b.sums.keys());
        let differences = match sums.find(|key| left == right && key.field().contains(&left)) {
            _ if d.is_never(&within) => Vec::new(),
            // [`ChecksumHistory::differences`] compares checksums, because their bits have no diagram.
            Some(key) => ChecksumHistory::differences(d, *key, a, b),
            None => d.differences(&a.byte(d, left), &b.byte(d, right)).collect(),
        };
        differences.iter().all(|different| !d.overlap(&within, different))
    }

    /// Merges two packets with mutually exclusive conditions into one, each bit of which depends on the
    /// condition. Returns `None` if their layouts differ. If their checksums have different histories, or
    /// only one packet maintains them, the merged packet can only have them as ordinary bytes. `releases`
    /// permits this loss; without it, the result is then `None`.
    pub fn merge(
        d: &Diagrams,
        [condition, other]: [&Bit; 2],
        a: &PacketModel,
        b: &PacketModel,
        releases: bool,
    ) -> Option<PacketModel> {
        if a == b {
            return Some(a.clone());
        }
        let same_sums = || a.sums.keys().eq(b.sums.keys());
        if a.layout() != b.layout() || !releases && !same_sums() {
            return None;
        }
        // Only input packets that satisfy either of the two conditions occur. So a simpler diagram, which
        // equals `condition` for these input packets, selects the value of each bit.
        let condition = &d.within(condition, &d.or(condition, other));
        let (mut a, mut b) = (a.clone(), b.clone());
        let mut merged = PacketModel { end: Word::choose(d, condition, &a.end, &b.end), ..a.clone() };
        let keys: Vec<SumKey> = a.sums.keys().chain(b.sums.keys()).copied().collect();
        merged.sums.clear();
        for key in keys {
            match ChecksumHistory::merge(d, condition, key, &a, &b) {
                Some(sum) => {
                    merged.sums.insert(key, sum);
                }
                None if !releases => return None,
                None => {
                    a.release(d, key);
                    b.release(d, key);
                }
            }
        }
        let choose =
            |a: Byte, b: Byte| -> Byte { std::array::from_fn(|i| d.choose(condition, &a[i], &b[i])) };
        merged.bytes = Rc::default();
        for place in a.written().chain(b.written()) {
            if !merged.bytes.contains_key(&place) && !merged.sums.keys().any(|k| k.field().contains(&place)) {
                Rc::make_mut(&mut merged.bytes)
                    .insert(place, choose(a.compared(d, place), b.compared(d, place)));
            }
        }
        let sides: Vec<Metadata> = a.side.keys().chain(b.side.keys()).copied().collect();
        for side in sides {
            Rc::make_mut(&mut merged.side).insert(side, choose(a.side(d, side), b.side(d, side)));
        }
        Some(merged)
    }
}
