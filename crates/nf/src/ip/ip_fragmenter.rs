//! # IPFragmenter
//! Splits IPv4 packets that are longer than a limit into fragments (RFC 791).
//!
//! The first fragment keeps the bytes that precede the IP header; the other fragments start with their IP
//! header, which has only the options with the "copied" flag. Packets that are too long but must not be
//! fragmented, whose header leaves no room for 8 bytes of payload, or whose header is cut off, leave by
//! output 1, or are dropped. The network header annotation must be set.
//!
//! ## Usage
//! `IPFragmenter(MTU [, HONOR_DF, VERBOSE, KEYWORDS])`
//!
//! ## Arguments
//! - `MTU`: the length in bytes of the longest packet that leaves by output 0, from the IP header on.
//! - `HONOR_DF`: if true, packets with "don't fragment" are not fragmented; if false, their fragments get a
//!   random identification.
//! - `VERBOSE`: true to report every packet that is not fragmented, not only the first five.
//! - `HEADROOM`: accepted; packets always have headroom.
//!
//! ## Handlers
//! - `drops`: packets that were too long and left by output 1, or were dropped for lack of an output 1.
//! - `fragments`: fragments made.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> IPFragmenter(576) -> Discard
//! ```
//!
//! ## See also
//! IPReassembler, CheckLength, ICMPError

use element::class::ArgInfo;
use element::effects::{
    Action, Case, Checksum, Depends, Emit, Field, Filter, HeaderKind, Number, Predicate, Support, Target,
    Value, wire_field,
};
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, Severity, StatePart, manual,
};
use wire::ipv4::{DONT_FRAGMENT, FRAGMENT_OFFSET, MORE_FRAGMENTS, option};
use wire::{IntoBytes, checksum, ipv4};

use super::fragmenting::{Choice, Fragmenting, Marks};
use crate::editing::{
    annotation, aside, ipv4, ipv4_header_length, ipv4_total, ipv4_with_options, length_from, otherwise, pure,
    rest_from, within,
};

/// The element class `IPFragmenter`.
pub static CLASS: Class = Class {
    name: "IPFragmenter",
    ports: "1/1-2",
    processing: "h",
    manual: manual!("ip_fragmenter.rs"),
    args: &[
        ArgInfo::required("MTU", "unsigned"),
        ArgInfo::positional("HONOR_DF", "bool", "true"),
        ArgInfo::positional("VERBOSE", "bool", "false"),
        ArgInfo::keyword("HEADROOM", "unsigned", ""),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops", "fragments"])],
    samples: &["576", "100, false -> 1/2", "60 -> 1/2"],
    build: |args| {
        let mtu: u32 = args.required("MTU");
        let honors = args.value::<bool>("HONOR_DF");
        let verbose = args.value::<bool>("VERBOSE");
        args.get::<u32>("HEADROOM");
        args.finish()?;
        if mtu < 8 {
            args.error("MTU must be at least 8");
        }
        args.finish()?;
        let [payload, fragment] = [(); 2].map(|()| Vec::with_capacity(u16::MAX.into()));
        Ok(Box::new(IpFragmenter { mtu, honors, verbose, drops: 0, fragments: 0, payload, fragment }))
    },
    ..Class::DEFAULT
};

struct IpFragmenter {
    mtu: u32,
    honors: bool,
    verbose: bool,
    drops: u64,
    fragments: u64,
    /// A buffer for the payload of the packet that is being split.
    payload: Vec<u8>,
    /// A buffer for the fragment that is being written.
    fragment: Vec<u8>,
}

/// The numbers that are needed to split a packet, in bytes.
struct Plan {
    header_length: usize,
    /// The number of payload bytes in the first fragment; a multiple of 8.
    first: usize,
    /// The number of payload bytes in the packet that is split.
    payload: usize,
}

/// Appends the options that every fragment has (those with the "copied" flag, the upper bit of the kind),
/// padded to a multiple of four bytes. Malformed options are left out.
fn copy_options(options: &[u8], to: &mut Vec<u8>) {
    for option in ipv4::options(options).flatten().filter(|option| option.kind & 0x80 != 0) {
        to.extend_from_slice(&[option.kind, option.data.len() as u8 + 2]);
        to.extend_from_slice(option.data);
    }
    to.resize(to.len().next_multiple_of(4), option::END);
}

/// Returns the length of a first fragment from its IP header on: the largest length up to the MTU for which
/// the payload is a multiple of eight bytes.
fn first_total(mtu: u32) -> Number {
    let words = i64::from(mtu / 4);
    // The header is a multiple of four bytes, the payload of eight. So the length depends on the lowest bit
    // of the header length in words.
    let (least, odd) = if words % 2 == 0 { (words, -4) } else { (words - 1, 4) };
    Number::constant(4 * least).plus(odd, wire_field::IP_VERSION_IHL, 1)
}

impl Fragmenting for IpFragmenter {
    type Plan = Plan;

    fn choose(&self, packet: &Packet) -> Result<Choice<Plan>, DropReason> {
        let (ip, options) = ipv4_with_options(packet).ok_or(DropReason::NoHeader)?;
        let available = length_from(packet, Base::Network).ok_or(DropReason::NoHeader)?;
        let mtu = self.mtu as usize;
        let header_length = ip.header_len();
        let total = usize::from(ip.total_length.get()).min(available);
        // Bytes after the IP packet's total length are link padding, and do not count.
        if available <= mtu || total <= mtu {
            return Ok(Choice::Pass);
        }
        let first = mtu.saturating_sub(header_length) & !7;
        let whole_header = header_length == ipv4::Header::LEN + options.len();
        // A datagram ends at 65535 bytes at most (RFC 791). Later parts would begin at offset 0 again.
        let is_too_long = ip.fragment_offset() + usize::from(ip.total_length.get()) > usize::from(u16::MAX);
        if first < 8 || !whole_header || is_too_long || self.honors && ip.dont_fragment() {
            return Ok(Choice::Refuse);
        }
        Ok(Choice::Split(Plan { header_length, first, payload: total - header_length }))
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.drops += 1;
        if (self.verbose || self.drops <= 5)
            && let Some((ip, _)) = ipv4_with_options(&packet)
        {
            let (mtu, from, to) = (self.mtu, ip.source_addr(), ip.destination_addr());
            cx.messages().remark(
                Severity::Note,
                format_args!("IPFragmenter({mtu}) DF {from} {to} len={}", packet.len()),
            );
        }
        cx.emit_one(1, packet, DropReason::TooLong);
    }

    fn split(&mut self, cx: &mut Cx<'_>, mut packet: Packet, plan: &Plan) {
        let Plan { header_length, first, payload } = *plan;
        // The offset is negative if the IP header and more bytes have been stripped.
        let start = packet.offset(Base::Network).map(|network| network + header_length as isize);
        let Some(Ok(start)) = start.map(usize::try_from) else {
            return cx.drop(packet, DropReason::NoHeader);
        };
        self.payload.resize(payload, 0);
        packet.read_at(start, &mut self.payload);
        self.fragment.clear();
        self.fragment.resize(ipv4::Header::LEN, 0);
        copy_options(ipv4_with_options(&packet).map_or(&[], |(_, options)| options), &mut self.fragment);
        let later_header = self.fragment.len();

        // The same identifier as in Click, which writes the number in the machine's byte order.
        let new_id = (cx.random().bits() as u16).swap_bytes();
        let Ok(ip) = ipv4(&mut packet) else { return cx.drop(packet, DropReason::NoHeader) };
        if ip.dont_fragment() {
            ip.id.set(new_id);
            ip.fragment.set(ip.fragment.get() & !DONT_FRAGMENT);
        }
        let whole = *ip;
        ip.total_length.set((header_length + first) as u16);
        ip.fragment.set(whole.fragment.get() | MORE_FRAGMENTS);
        if let Some(header) =
            packet.header_mut(Base::Network).and_then(|bytes| bytes.get_mut(..header_length))
        {
            let _ = checksum::fill_ipv4(header);
        }
        packet.truncate(start + first);
        let marks = Marks::of(&packet);
        self.fragments += 1;
        cx.emit_one(0, packet, DropReason::NoOutput);

        let room = ((self.mtu as usize).saturating_sub(later_header) & !7).max(8);
        let mut offset = first;
        for part in self.payload[first..].chunks(room) {
            self.fragment.truncate(later_header);
            self.fragment.extend_from_slice(part);
            let mut ip = whole;
            ip.version_ihl = 0x40 | (later_header / 4) as u8;
            ip.total_length.set(self.fragment.len() as u16);
            let old = whole.fragment.get();
            let place = (old & FRAGMENT_OFFSET).wrapping_add((offset / 8) as u16) & FRAGMENT_OFFSET;
            offset += part.len();
            let more = if offset < payload { MORE_FRAGMENTS } else { 0 };
            ip.fragment.set(old & !FRAGMENT_OFFSET | more | place);
            self.fragment[..ipv4::Header::LEN].copy_from_slice(ip.as_bytes());
            let _ = checksum::fill_ipv4(&mut self.fragment[..later_header]);
            self.fragments += u64::from(marks.send(cx, &self.fragment, later_header));
        }
    }
}

impl Element for IpFragmenter {
    fn effects(&self) -> Effects {
        let rest = || rest_from(Base::Network);
        let header_length = || ipv4_header_length(Base::Network, 0);
        let mtu = || Number::constant(self.mtu.into());
        let lost = |when| Case::new(when, Target::Drop(DropReason::NoHeader));
        let short = [rest(), ipv4_total(Base::Network, 0)].map(|length| Predicate::at_most(length, mtu()));
        let passes = Case::new(Filter::Any(short.to_vec()), Target::Output(0));
        let whole = within(wire_field::IP_VERSION_IHL, 0x0f, 5, 15);
        let whole = whole.and([Predicate::at_most(header_length(), rest())]);
        // The sum is opaque: the diagrams of proofs would be large, and no other element compares it.
        let is_too_long = Filter::Leaf(Predicate::Opaque {
            about: "ends after byte 65535 of the datagram",
            reads: vec![wire_field::IP_LENGTH, wire_field::IP_FRAGMENT],
        });
        let mut refusals =
            vec![Predicate::at_most(mtu().plus_constant(-7), header_length()), whole.not(), is_too_long];
        if self.honors {
            refusals.push(within(wire_field::IP_FRAGMENT, 0x4000, 0x4000, 0x4000));
        }
        // This element has to count refused packets (handler `drops`) and to report them. So other elements
        // must not drop the refused packets in its place.
        let refused = aside(Filter::Any(refusals), DropReason::TooLong).shown();
        let payload = header_length().plus(1, Field::HeaderOffset(Base::Network), u128::MAX);
        let stripped = Predicate::at_most(Number::constant(0), payload).not();
        let reads = [Field::Length, HeaderKind::Ipv4.extent(), Field::HeaderOffset(Base::Network)];
        // The exact length is declared. If another fragmenter follows, the synthesizer then knows which
        // packets exceed its limit.
        let first_total = || first_total(self.mtu);
        let length = first_total().plus(1, Field::HeaderOffset(Base::Network), u128::MAX);
        let flags = Value::Bits {
            mask: (MORE_FRAGMENTS | DONT_FRAGMENT).to_be_bytes().to_vec(),
            value: MORE_FRAGMENTS.to_be_bytes().to_vec(),
        };
        let mut first = otherwise(vec![
            Action::Set(wire_field::IP_LENGTH, Value::Number(first_total())),
            Action::Set(wire_field::IP_FRAGMENT, flags),
            Action::Set(Field::Length, Value::Number(length)),
        ]);
        if !self.honors {
            first = first.with(pure(wire_field::IP_ID, "random identification", &reads));
        }
        first.checksum = Checksum::Recomputed(vec![HeaderKind::Ipv4]);
        let missing = lost(Predicate::present(HeaderKind::Ipv4).not());
        let mut cases = vec![missing, passes, refused, lost(stripped)];
        let later = Emit {
            name: "later fragment",
            input: None,
            reads: vec![Field::Payload, Field::TimeStamp, Field::Kind, annotation(0, 48)],
            output: Some(0),
            starts: Some(HeaderKind::Ipv4),
            when: Filter::Any(cases.iter().map(|case| case.when.clone()).collect()).not(),
        };
        cases.push(first);
        let effects = Effects {
            emits: vec![later],
            support: Support { keeps_to_header: true, ..Support::default() },
            ..Effects::cases(cases)
        };
        if self.honors { effects } else { effects.depending_on(Depends::Random) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.fragment(cx, batch)
    }

    element::keeps!(drops, fragments);
}

const HANDLERS: &[Handler<IpFragmenter>] =
    &[Handler::count("drops", |e| e.drops), Handler::count("fragments", |e| e.fragments)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fragments_are_as_long_as_declared() {
        for mtu in 68..1600u32 {
            let total = first_total(mtu);
            for words in 5..=15u32 {
                let header = 4 * words;
                let told: i64 = total
                    .terms
                    .iter()
                    .map(|(factor, _, mask)| factor * (i64::from(words) & *mask as i64))
                    .sum();
                let room = mtu.saturating_sub(header) & !7;
                if room >= 8 {
                    assert_eq!(total.constant + told, i64::from(header + room), "{mtu} {header}");
                }
            }
        }
    }

    #[test]
    fn later_fragments_have_the_options_that_are_to_be_copied() {
        let copied = |options: &[u8]| {
            let mut bytes = Vec::new();
            copy_options(options, &mut bytes);
            bytes
        };
        assert_eq!(copied(&[]), []);
        assert_eq!(copied(&[1, 7, 7, 4, 1, 2, 3, 4]), [], "routes are recorded in the first one");
        assert_eq!(copied(&[148, 4, 0, 0, 7, 3, 4, 0]), [148, 4, 0, 0]);
        assert_eq!(copied(&[1, 131, 7, 4, 9, 9, 9, 9]), [131, 7, 4, 9, 9, 9, 9, 0]);
        assert_eq!(copied(&[131, 1, 148, 4]), [], "nothing behind a bad length");
    }
}
