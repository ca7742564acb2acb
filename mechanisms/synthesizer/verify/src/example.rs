//! Example packets: from a condition on the input packets, as a decision diagram, to the bytes of one
//! packet that satisfies it, which can be displayed and run.

use element::effects::HeaderKind;
use packet::Annotations;
use wire::checksum;

use crate::model::diagrams::{Assignment as Choices, Bit, Diagrams, Symbol, Term};
use crate::model::offsets::{ETHERNET, behind_ipv4, byte_region_of, in_byte_region, real, start_of};
use program::metadata::{KIND, TIME};

const EXTRA_LENGTH: u8 = Annotations::EXTRA_LENGTH as u8;

/// A packet as it enters a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The bytes of the packet, from its first byte as it enters the chain.
    pub bytes: Vec<u8>,
    /// The packet type as a number: to this host (0), broadcast (1), multicast (2), to another host (3),
    /// outgoing (4).
    pub kind: u8,
    /// The annotation bytes that are not zero, each as index and value.
    pub annotations: Vec<(u8, u8)>,
    /// The names of the uninterpreted functions on whose values the condition also depends. These values
    /// are known only at run time, so a run of the example need not satisfy the condition.
    pub depends: Vec<String>,
}

/// Returns the condition that the byte of the input packet at offset `place` has the given value.
fn equals(d: &Diagrams, place: i32, value: u8) -> Bit {
    let bits = d.input(place);
    bits.iter().enumerate().fold(d.yes(), |all, (i, bit)| match value >> (7 - i) & 1 {
        1 => d.and(&all, bit),
        _ => d.and_not(&all, bit),
    })
}

/// Returns conditions that a usual packet satisfies, in order of importance. They are wishes for an example:
/// it satisfies as many of them as the condition that it is made for permits.
fn usual(d: &Diagrams) -> Vec<Bit> {
    let equals = |place: i32, value: u8| equals(d, place, value);
    let all = |bytes: &[(i32, u8)]| {
        bytes.iter().fold(d.yes(), |all, &(place, value)| d.and(&all, &equals(place, value)))
    };
    let length = |value: u32| {
        (0..18).fold(d.yes(), |all, bit| {
            let symbol = d.symbol(Symbol::Length(bit));
            if value >> bit & 1 == 1 { d.and(&all, &symbol) } else { d.and_not(&all, &symbol) }
        })
    };
    let none =
        |side: u8| (0..8).fold(d.yes(), |none, bit| d.and_not(&none, &d.symbol(Symbol::Metadata(side, bit))));
    let transport = behind_ipv4(d, ETHERNET);
    let behind_ip = |wish: Bit| d.or(&d.not(&equals(14, 0x45)), &wish);
    let tcp = |at: i32| d.or(&d.not(&equals(23, 6)), &equals(at + 12, 0x50));
    let of_type = |low: u8, then: &[(i32, u8)]| {
        d.or(&d.not(&all(&[(12, if low == 0xdd { 0x86 } else { 8 }), (13, low)])), &all(then))
    };
    let ipv6 = |then: &[(i32, u8)]| of_type(0xdd, then);
    // Returns the bytes of the IPv6 address 2001:db8::`last` with their offsets, from offset `at` on. Other
    // wishes in the list below have only the last bytes of the address, for conditions that exclude its
    // prefix.
    let address = |at: i32, last: u8| {
        let mut bytes = vec![(at, 0x20), (at + 1, 0x01), (at + 2, 0x0d), (at + 3, 0xb8)];
        bytes.extend((at + 4..at + 15).map(|place| (place, 0)).chain([(at + 15, last)]));
        bytes
    };
    vec![
        // The wishes for a valid packet come first, because invalid packets take unusual paths through a
        // chain. With a fixed length, bytes after the end do not matter.
        length(60),
        all(&[(12, 8), (13, 0)]),
        // Packets of other Ethernet types get a header without payload: an ARP request, or IPv6 with "no
        // next header", from 2001:db8::1 to 2001:db8::2.
        of_type(0x06, &[(15, 1), (16, 8), (17, 0), (18, 6), (19, 4), (21, 1)]),
        ipv6(&[(14, 0x60), (15, 0), (16, 0), (17, 0)]),
        ipv6(&[(20, 59)]),
        ipv6(&[(18, 0), (19, 6)]),
        ipv6(&[(21, 64)]),
        ipv6(&address(22, 1)),
        ipv6(&address(22, 1)[4..]),
        ipv6(&address(22, 1)[8..]),
        ipv6(&address(38, 2)),
        ipv6(&address(38, 2)[8..]),
        all(&[(14, 0x45)]),
        all(&[(16, 0), (17, 46)]),
        all(&[(20, 0), (21, 0)]),
        none(KIND),
        (EXTRA_LENGTH..EXTRA_LENGTH + 4).fold(d.yes(), |all, side| d.and(&all, &none(side))),
        all(&[(22, 64)]),
        equals(23, 17),
        behind_ip(d.and(&tcp(transport), &tcp(34))),
        all(&[(26, 10), (27, 0), (28, 0), (29, 1)]),
        all(&[(30, 10), (31, 0), (32, 0), (33, 2)]),
        behind_ip(all(&[(transport, 0x04), (transport + 1, 0xd2), (34, 0x04), (35, 0xd2)])),
        behind_ip(all(&[(transport + 2, 0), (transport + 3, 80), (36, 0), (37, 80)])),
    ]
}

/// Returns the conjunction of `condition` with as many of `wishes` as are compatible with it; earlier wishes
/// take precedence. Tries the conjunction of all wishes at once before that: it usually succeeds, and is
/// fast, because wishes make a diagram small.
fn narrow(d: &Diagrams, condition: &Bit, wishes: &[Bit]) -> Bit {
    let all = d.and(condition, &d.all(wishes));
    if !d.is_never(&all) {
        return all;
    }
    if wishes.len() < 2 {
        return condition.clone();
    }
    let (first, second) = wishes.split_at(wishes.len() / 2);
    narrow(d, &narrow(d, condition, first), second)
}

impl Example {
    /// Returns a packet that satisfies the condition and, as far as possible, has the properties of a usual
    /// packet. `None` if no packet satisfies the condition, or if memory or time ran out.
    pub fn find(d: &Diagrams, condition: &Bit) -> Option<Example> {
        let mut narrowed = narrow(d, condition, &usual(d));
        // The wishes for an example include UDP. If the condition excludes UDP, TCP, ICMP and GRE are tried.
        for protocol in [6, 1, 47] {
            narrowed = narrow(d, &narrowed, &[equals(d, 23, protocol)]);
        }
        let choices = d.example(&narrowed)?;
        Some(Example::from_choices(d, &choices))
    }

    fn from_choices(d: &Diagrams, choices: &Choices) -> Example {
        let chosen = |symbol: Symbol| choices.get(&symbol).copied().unwrap_or(false);
        let length = (0..18).fold(0, |length, bit| length | usize::from(chosen(Symbol::Length(bit))) << bit);
        let mut bytes = vec![0; length];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte =
                (0..8).fold(0, |byte, bit| byte | u8::from(chosen(Symbol::Input(place as i32, bit))) << bit);
        }
        let side = |side: u8| {
            (0..8).fold(0, |byte, bit| byte | u8::from(chosen(Symbol::Metadata(side, bit))) << bit)
        };
        let annotations =
            (0..TIME).map(|place| (place, side(place))).filter(|(_, byte)| *byte != 0).collect();
        // Collects the bytes in byte regions. Their offset in the frame depends on bytes ahead of the region,
        // for example on a header length, so they are set after all other bytes.
        let mut regional: Vec<(i32, u8, bool)> = Vec::new();
        for (symbol, &value) in choices {
            if let &Symbol::Input(place, bit) = symbol
                && in_byte_region(place)
            {
                regional.push((place, bit, value));
            }
        }
        regional.sort_unstable();
        // The start of a region does not depend on its own bytes, so it is computed once per region.
        let mut start: Option<(usize, Option<usize>)> = None;
        for (place, bit, value) in regional {
            let Some((region, offset)) = byte_region_of(place) else { continue };
            let at = match start {
                Some((known, at)) if known == region => at,
                _ => place_of(d, &bytes, choices, start_of(region)),
            };
            start = Some((region, at));
            let place = at.and_then(|at| at.checked_add_signed(offset as isize));
            if let Some(byte) = place.and_then(|place| bytes.get_mut(place)) {
                *byte = *byte & !(1 << bit) | u8::from(value) << bit;
            }
        }
        let mut depends = Vec::new();
        for (symbol, &value) in choices {
            let &Symbol::Term(number, _) = symbol else { continue };
            let term = d.term_of(number);
            if term.name == "right checksum" {
                set_checksum(d, &mut bytes, &term, value, choices);
            } else if !depends.contains(&term.name) {
                depends.push(term.name);
            }
        }
        // If the condition does not depend on the IPv4 checksum, a header without options gets a correct one.
        if bytes.get(12..15) == Some(&[8, 0, 0x45]) && !decided(choices, 24..26) {
            let asked = choices
                .keys()
                .any(|symbol| matches!(symbol, Symbol::Term(n, _) if d.term_of(*n).name == "right checksum"));
            if let (false, Some(header)) = (asked, bytes.get_mut(14..34)) {
                let _ = checksum::fill_ipv4(header);
            }
        }
        depends.sort();
        Example { bytes, kind: side(KIND), annotations, depends }
    }
}

/// Returns the index in `bytes` of the offset `place`, which may be in a byte region. The index may be past
/// the end of `bytes`. `None` if the byte lies ahead of the packet's start.
fn place_of(d: &Diagrams, bytes: &[u8], choices: &Choices, place: i32) -> Option<usize> {
    let value = |symbol: &Symbol| match *symbol {
        Symbol::Input(place, bit) => match usize::try_from(place).ok().and_then(|place| bytes.get(place)) {
            Some(byte) => byte >> bit & 1 == 1,
            None => choices.get(symbol).copied().unwrap_or(false),
        },
        _ => choices.get(symbol).copied().unwrap_or(false),
    };
    let real = real(d, place);
    // The values of all variables are computed once for all bits of the offset, because there are many
    // variables.
    let values = d.values(&value);
    let number = real.bits().iter().rev().fold(0i64, |n, bit| n << 1 | i64::from(d.is_true(bit, &values)));
    usize::try_from(number).ok()
}

/// True if the assignment `choices` determines any bit of the bytes at `places`.
fn decided(choices: &Choices, mut places: std::ops::Range<i32>) -> bool {
    places.any(|place| (0..8).any(|bit| choices.contains_key(&Symbol::Input(place, bit))))
}

/// Makes the given checksum of the IPv4 header at index `at` correct by setting the header's identification,
/// and not the checksum, because the assignment `choices` determines the checksum. Does nothing if `choices`
/// determines the identification, too.
fn fit_identification(bytes: &mut [u8], at: usize, choices: &Choices) {
    let field = at + 4..at + 6;
    if decided(choices, field.start as i32..field.end as i32) {
        return;
    }
    bytes[field.clone()].fill(0);
    let length = usize::from(bytes[at] & 15) * 4;
    let rest = checksum::Sum::new().bytes(bytes.get(at..at + length).unwrap_or_default());
    bytes[field].copy_from_slice(&rest.checksum().to_be_bytes());
}

/// Sets the checksum field that `term` identifies: to the correct checksum if `right` is true, else to a
/// wrong one. If `choices` determines the field's value, the value stays, and an IPv4 checksum is made
/// correct by the identification.
fn set_checksum(d: &Diagrams, bytes: &mut [u8], term: &Term, right: bool, choices: &Choices) {
    let [kind, at, network] = term.numbers[..] else { return };
    let place = |place: i64| place_of(d, bytes, choices, place as i32);
    let (Some(at), Some(network)) = (place(at), place(network)) else { return };
    let Some((header, offset)) =
        [(HeaderKind::Ipv4, 10), (HeaderKind::Tcp, 16), (HeaderKind::Udp, 6), (HeaderKind::Icmp, 2)]
            .get(kind as usize)
            .copied()
    else {
        return;
    };
    let field = at + offset..at + offset + 2;
    if bytes.len() < field.end {
        return;
    }
    if decided(choices, field.start as i32..field.end as i32) {
        if right && header == HeaderKind::Ipv4 {
            fit_identification(bytes, at, choices);
        }
        return;
    }
    bytes[field.clone()].fill(0);
    let total = |bytes: &[u8]| match bytes.get(network + 2..network + 4) {
        Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    let sum = match header {
        HeaderKind::Ipv4 => {
            let length = usize::from(bytes[at] & 15) * 4;
            let header = bytes.get(at..at + length).unwrap_or_default();
            checksum::Sum::new().bytes(header)
        }
        header => {
            let end = (network + total(bytes)).min(bytes.len()).max(at);
            let mut sum = checksum::Sum::new().bytes(&bytes[at..end]);
            if header != HeaderKind::Icmp {
                let protocol = u16::from(bytes.get(network + 9).copied().unwrap_or_default());
                let length = match header {
                    HeaderKind::Udp => u16::from_be_bytes([bytes[at + 4], bytes[at + 5]]),
                    _ => (end - at) as u16,
                };
                sum = sum.bytes(bytes.get(network + 12..network + 20).unwrap_or_default());
                sum = sum.bytes(&protocol.to_be_bytes()).bytes(&length.to_be_bytes());
            }
            sum
        }
    };
    let mut value = sum.checksum();
    if !right {
        value ^= 0x0101;
    }
    bytes[field].copy_from_slice(&value.to_be_bytes());
}
