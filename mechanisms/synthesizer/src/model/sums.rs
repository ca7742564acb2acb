//! Checksums, as what they account for rather than as sums.
//!
//! A decision diagram of a sum over a header would be larger than any memory. What matters is how the checksum came
//! about: it is the one that came in, or was computed over what the header held at some time, and since then it
//! has been updated for some words or not. Two checksums with the same origin that account for the same words are
//! equal (the two representations of zero are taken for one, RFC 1624), and a checksum is right if it was right at
//! its origin and accounts for what the header holds now.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use element::effects::Header;

use super::diagrams::{Bit, Diagrams, Term};
use super::packet::Packet;

/// Which checksum: of which header, where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SumKey {
    kind: u8,
    /// Where its header starts.
    at: i32,
    /// Where the IP header with the addresses starts, for those that cover them.
    network: i32,
}

/// Where a checksum comes from.
#[derive(Clone, PartialEq, Eq)]
enum Origin {
    /// It came in with the packet.
    Input,
    /// It was computed, where all bytes that nobody wrote came from this function if there is one.
    Computed(Option<u32>),
    /// These bits were written into its place.
    Written(Vec<Bit>),
}

/// A checksum.
#[derive(Clone, PartialEq, Eq)]
pub struct Sum {
    origin: Origin,
    /// By place: what it accounts for, where that is not what stood there when the packet came in (for written
    /// ones: not what stood there first, which comes behind it).
    accounted: BTreeMap<i32, Vec<Bit>>,
    /// Where there is one way to write zero, as it was computed or updated, whatever changed: 0000 (RFC 1624, section 4), in UDP
    /// ffff. What came in may be either.
    settled: Bit,
}

const IPV4: u8 = 0;
const TCP: u8 = 1;
const UDP: u8 = 2;
const ICMP: u8 = 3;

impl SumKey {
    /// The checksum of a header that starts `at` a place behind an IP header that starts at `network`.
    pub fn new(header: Header, at: i32, network: i32) -> SumKey {
        let (kind, network) = match header {
            Header::Tcp => (TCP, network),
            Header::Udp => (UDP, network),
            Header::Icmpv6 => (ICMP, network),
            Header::Icmp => (ICMP, at),
            _ => (IPV4, at),
        };
        SumKey { kind, at, network }
    }

    /// Its two bytes.
    pub fn field(self) -> Range<i32> {
        let offset = match self.kind {
            IPV4 => 10,
            TCP => 16,
            UDP => 6,
            _ => 2,
        };
        self.at + offset..self.at + offset + 2
    }

    /// The word of the header, or of the addresses that it covers too, that a byte is part of.
    fn word_of(self, place: i32) -> Option<i32> {
        let in_header = place >= self.at && (self.kind != IPV4 || place < self.at + 60);
        // The pseudo-header has the addresses, the protocol, and the length, which follows from those of the IP header.
        // The time to live, which shares its word with the protocol, does not count.
        let behind = place - self.network;
        let in_pseudo = self.kind != IPV4 && matches!(behind, 0 | 2 | 3 | 9 | 12..20);
        let word = if in_header { place - (place - self.at) % 2 } else { place - behind % 2 };
        ((in_header || in_pseudo) && !self.field().contains(&place)).then_some(word)
    }

    /// Where the checksum covers a word of the packet: IP headers are as long as they say.
    fn covers(self, d: &Diagrams, packet: &Packet, place: i32) -> Bit {
        if self.kind == IPV4 { packet.header_reaches(d, self.at, place) } else { d.yes() }
    }

    /// Whether an IP header says another length than it did when it came in.
    fn reaches_elsewhere(self, d: &Diagrams, packet: &Packet) -> bool {
        self.kind == IPV4 && packet.byte(d, self.at)[4..] != packet.unwritten(d, self.at)[4..]
    }

    /// Whether the checksum covers a word whatever the packet is, and covers the same words whatever that word is.
    fn always_covers(self, place: i32) -> bool {
        let behind = place - self.at;
        match self.kind {
            IPV4 => (2..20).contains(&behind),
            // The first words of the header; not UDP's length, nor what is in the IP header but the addresses.
            TCP => (0..20).contains(&behind) || (12..20).contains(&(place - self.network)),
            UDP => (0..4).contains(&behind) || (12..20).contains(&(place - self.network)),
            _ => false,
        }
    }

    /// All that it may depend on whether the checksum of a packet is right.
    fn content(self, d: &Diagrams, packet: &Packet) -> Term {
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

    fn numbers(self) -> Vec<i64> {
        vec![self.kind.into(), self.at.into(), self.network.into()]
    }
}

/// A word that a checksum covers, for packets in which it does.
fn word(d: &Diagrams, key: SumKey, packet: &Packet, place: i32) -> Vec<Bit> {
    match key.kind {
        IPV4 => (place..place + 2).flat_map(|place| packet.header_byte(d, key.at, place)).collect(),
        _ => packet.bits(d, place, 2),
    }
}

fn first(d: &Diagrams, packet: &Packet, place: i32) -> Vec<Bit> {
    (place..place + 2).flat_map(|place| packet.unwritten(d, place)).collect()
}

/// Where two words count the same in a sum: 0000 and ffff are both zero there (RFC 1071).
fn congruent(d: &Diagrams, a: &[Bit], b: &[Bit]) -> Bit {
    let is_zero = |word: &[Bit]| {
        let ones = d.all(word);
        let zeros = word.iter().fold(d.yes(), |all, bit| d.and_not(&all, bit));
        d.or(&ones, &zeros)
    };
    d.or(&d.equal(a, b), &d.and(&is_zero(a), &is_zero(b)))
}

/// A word that holds something else than a checksum, or than another one, accounts for.
struct Wrong {
    place: i32,
    now: Vec<Bit>,
    accounted: Vec<Bit>,
}

/// Leaves out words that only changed places, which a sum does not see: mirrored addresses.
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
        // The word that moved here is accounted for where it was: there this place's own one is left.
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

impl Sum {
    /// The one that stands in a packet before anybody keeps it.
    fn found(d: &Diagrams, packet: &Packet, key: SumKey) -> Sum {
        if let Some(sum) = packet.sums.get(&key) {
            return sum.clone();
        }
        // What stands there did not come in where somebody wrote it, nor where all bytes come from a function.
        let is_other = |other: &SumKey| other.field().any(|place| key.field().contains(&place));
        let written = key.field().any(|place| packet.is_written(place))
            || packet.sums.keys().any(is_other)
            || !packet.is_original();
        let origin =
            if written { Origin::Written(packet.bits(d, key.field().start, 2)) } else { Origin::Input };
        Sum { origin, accounted: BTreeMap::new(), settled: d.no() }
    }

    /// One computed over a header as it is.
    pub fn computed(d: &Diagrams, packet: &Packet, key: SumKey) -> Sum {
        let mut accounted = BTreeMap::new();
        for place in packet.written_beside(key).filter_map(|place| key.word_of(place)) {
            let now = word(d, key, packet, place);
            if now != first(d, packet, place) {
                accounted.insert(place, now);
            }
        }
        // Of data that are all zero it is ffff.
        let settled = if key.kind == ICMP { d.no() } else { d.yes() };
        Sum { origin: Origin::Computed(packet.version()), accounted, settled }
    }

    /// The one of `before`, updated for what was written at these places since.
    pub fn updated(d: &Diagrams, before: &Packet, now: &Packet, key: SumKey, places: &[i32]) -> Sum {
        let mut sum = Sum::found(d, before, key);
        let words = places.iter().filter_map(|&place| key.word_of(place));
        let words: BTreeMap<i32, Vec<Bit>> =
            words.map(|place| (place, word(d, key, before, place))).collect();
        if words.iter().any(|(place, old)| !sum.accounts_for(d, before, *place, old)) {
            // The difference goes on top of what is wrong already.
            let origin = Origin::Written(sum.bits(d, key));
            sum = Sum { origin, accounted: BTreeMap::new(), settled: sum.settled };
        }
        sum.settled = d.yes();
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

    /// Whether it accounts for a word of a packet as it is.
    fn accounts_for(&self, d: &Diagrams, packet: &Packet, place: i32, word: &[Bit]) -> bool {
        match self.accounted.get(&place) {
            Some(accounted) => accounted[..16] == *word,
            None => matches!(self.origin, Origin::Written(_)) || first(d, packet, place) == word,
        }
    }

    /// Its value, as a function of where it comes from and what it accounts for.
    pub fn bits(&self, d: &Diagrams, key: SumKey) -> Vec<Bit> {
        let found = match &self.origin {
            Origin::Input => key.field().flat_map(|place| d.input(place)).collect(),
            Origin::Written(bits) => bits.clone(),
            Origin::Computed(_) => Vec::new(),
        };
        let is_found = self.accounted.is_empty() && !found.is_empty();
        let mut numbers = key.numbers();
        numbers.push(match self.origin {
            Origin::Computed(version) => 1 + version.map_or(-1, i64::from),
            _ => -1,
        });
        numbers.extend(self.accounted.keys().map(|&place| i64::from(place)));
        let bits = found.iter().cloned().chain(self.accounted.values().flatten().cloned()).collect();
        let term = Term { name: "checksum".into(), numbers, bits };
        if is_found {
            // An update makes 0000 of ffff, even where nothing changes.
            let is_other_zero = if key.kind == UDP { d.no() } else { d.and(&self.settled, &d.all(&found)) };
            return found.iter().map(|bit| d.and_not(bit, &is_other_zero)).collect();
        }
        // The same one, settled or not, is taken for the same.
        let settled = Term { name: "settled".into(), numbers: Vec::new(), bits: vec![self.settled.clone()] };
        d.note_settled(d.term(term.clone()), d.term(settled));
        d.value(term, 16)
    }

    /// Where the checksum of a packet is right.
    pub fn right(d: &Diagrams, packet: &Packet, key: SumKey) -> Bit {
        let sum = Sum::found(d, packet, key);
        let place = Term { name: "right checksum".into(), numbers: key.numbers(), bits: Vec::new() };
        let at_origin = match (&sum.origin, packet.is_original()) {
            (Origin::Computed(version), _) if *version == packet.version() => d.yes(),
            (Origin::Input, true) => d.value(place.clone(), 1)[0].clone(),
            _ => d.no(),
        };
        // Words that hold something else than the checksum accounts for.
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
        // With one wrong word in the fixed part of an IP header the sum is wrong, but for the two zeros. With more, from an
        // origin that is not known, or where what it covers may have changed, it may be right.
        let is_exact = match &pending[..] {
            [] => true,
            [Wrong { place, now, accounted }] => {
                right = d.or(&right, &d.and(&at_origin, &congruent(d, now, accounted)));
                key.kind == IPV4 && *place != key.at
            }
            // How several words make up for each other otherwise is not followed.
            _ => false,
        };
        let was_right_or_not = match sum.origin {
            Origin::Computed(version) => version == packet.version(),
            // What it covers is what it did when it came in.
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

    /// Where two checksums of the same header are different, for packets whose headers are equal otherwise, in parts.
    pub fn differences(d: &Diagrams, key: SumKey, a: &Packet, b: &Packet) -> Vec<Bit> {
        let (left, right) = (Sum::found(d, a, key), Sum::found(d, b, key));
        if left.settled != right.settled && key.kind != UDP {
            d.note_one_zero();
        }
        let written = |sum: &Sum| matches!(sum.origin, Origin::Written(_));
        let from_elsewhere = match [a, b].map(|packet| packet.version()) {
            [None, None] => !a.is_original() || !b.is_original(),
            // Bytes that nobody wrote are the same in both then.
            versions => versions[0] != versions[1] || left.origin != right.origin,
        };
        if written(&left) || written(&right) || from_elsewhere {
            return d.differences(&left.bits(d, key), &right.bits(d, key)).collect();
        }
        let places: BTreeSet<i32> = left.accounted.keys().chain(right.accounted.keys()).copied().collect();
        let mut unequal = Vec::new();
        for place in places {
            let of = |sum: &Sum, packet| {
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
            // The one that came in and a computed one are equal where the first was right.
            d.note_one_zero();
            let place = Term { name: "right checksum".into(), numbers: key.numbers(), bits: Vec::new() };
            different.push(d.not(&d.value(place, 1)[0]));
        }
        different
    }

    /// One for both conditions; `None` if they come from different origins.
    pub(super) fn merge(d: &Diagrams, condition: &Bit, key: SumKey, a: &Packet, b: &Packet) -> Option<Sum> {
        let (left, right) = (Sum::found(d, a, key), Sum::found(d, b, key));
        if left == right {
            return Some(left);
        }
        if left.origin != right.origin || matches!(left.origin, Origin::Written(_)) {
            return None;
        }
        let mut accounted = BTreeMap::new();
        for &place in left.accounted.keys().chain(right.accounted.keys()) {
            let of = |sum: &Sum, packet| {
                sum.accounted.get(&place).cloned().unwrap_or_else(|| first(d, packet, place))
            };
            let (x, y) = (of(&left, a), of(&right, b));
            accounted.insert(place, x.iter().zip(&y).map(|(x, y)| d.choose(condition, x, y)).collect());
        }
        let settled = d.choose(condition, &left.settled, &right.settled);
        Some(Sum { origin: left.origin, accounted, settled })
    }
}
