//! The reasons for which a mechanism cannot work with an element, according to the element's declaration.
//!
//! Each public function returns a reason as a phrase, such as "reads the payload", that messages show after
//! the element's name and a colon. `None` means that there is no obstacle.

use crate::effects::{
    Action, Case, Checksum, Counting, Depends, Effects, Emit, Field, Filter, HeaderKind, Hold, Number, Order,
    Predicate, Sliced, StateAccess, Target, Value,
};
use packet::{Annotations, Base};
use wire::ip_protocol;
use wire::layers::FLOW_HEADERS;

/// The number of bytes from the packet's start that stay with a sliced packet, whose payload is parked; all
/// further bytes count as payload.
const HEADERS: i64 = 128;

/// Returns the reason for which the element cannot become part of a synthesized program, which is one
/// classification of packets and one write per field. Handlers are no obstacle: as long as no handler is
/// written, packets do not depend on them. Counts that only users read are no obstacle either if a tally can
/// update them ([`Counting::Tallied`]).
pub fn to_synthesis(effects: &Effects) -> Option<String> {
    if let Some(why) = effects.opaque {
        return Some(format!("opaque ({why})"));
    }
    if effects.calls {
        return Some("calls handlers".into());
    }
    for what in &effects.depends {
        return Some(match what {
            Depends::Time => "depends on time".into(),
            Depends::Random => "depends on chance".into(),
            Depends::Counter => "depends on the packets before".into(),
            Depends::Worker => "depends on the worker".into(),
            Depends::Handler => continue,
        });
    }
    if effects.support.sliced != Sliced::default() {
        return Some("parks payloads".into());
    }
    // The cases describe ordinary packets, and not what the element does to a large segment. Also, if a
    // program replaced the element, segments would no longer be merged upstream of it.
    if effects.support.offloads.is_some()
        && effects.cases.iter().any(|case| matches!(case.to, Target::Output(_)))
    {
        return Some("does what was left to devices".into());
    }
    let turned = effects.depends.contains(&Depends::Handler);
    let held = match effects.hold {
        Hold::None => None,
        Hold::Fifo { .. } => Some("queue"),
        Hold::Delay => Some("holds packets for a time"),
        Hold::PerFlow => Some("holds packets by flow"),
        Hold::Replay => Some("replays packets"),
    };
    if let Some(held) = held {
        return Some(held.into());
    }
    if let Some(state) = effects.state.iter().find(|state| state.access == StateAccess::EveryPacket) {
        return Some(every_packet(state.table));
    }
    if effects.emits.iter().any(Emit::is_copy) || effects.cases.iter().any(|c| c.to == Target::AllOutputs) {
        return Some("copies packets".into());
    }
    if let Some(emit) = effects.emits.first() {
        return Some(format!("makes packets of its own ({})", emit.name));
    }
    let undeclared = effects.cases.iter().find_map(|case| decided_inside(&case.when));
    if let Some(about) = undeclared {
        return Some(format!("decides by itself ({about})"));
    }
    let chooses = effects.cases.iter().any(|case| case.to == Target::SomeOutput);
    let how = if turned { "is switched by handlers" } else { "chooses an output by itself" };
    let shows = "shows what only packets themselves can tell";
    match effects.counts {
        _ if chooses => Some(how.into()),
        Counting::Own => Some(shows.into()),
        Counting::None | Counting::Tallied => None,
    }
}

/// Returns the reason for which packets without their payload cannot pass the element like whole packets: it
/// reads or writes the payload, the length or the DSCP (NFSlicer paper, "shallow" network functions). The
/// slicer corrects the headers of a sliced packet: they agree with its length, and the checksum of the IP
/// header is right.
///
/// `start` is the offset, from the IP header, of the start of packets that come to the element: -14 for
/// Ethernet.
pub fn to_slicing(effects: &Effects, start: i32) -> Option<String> {
    to_shortening(effects, Place { start, keeps_dscp: false, knows_length: false })
}

/// Returns the reason for which the element must not be between the element that parks payloads and the
/// element that joins them ([`Support::sliced`](crate::effects::Support::sliced)). Unlike in
/// [`to_slicing`], the extra length annotation gives the length of the whole packet to elements that read
/// it, and the DSCP is unchanged if `marks` is false.
pub fn to_sliced(effects: &Effects, start: i32, marks: bool) -> Option<String> {
    let extra = Annotations::EXTRA_LENGTH as u8..Annotations::EXTRA_LENGTH as u8 + 4;
    let is_extra =
        |field: &Field| matches!(field, Field::Annotation { offset, .. } if extra.contains(offset));
    let knows_length = effects.support.whole_length || effects.reads().iter().any(is_extra);
    to_shortening(effects, Place { start, keeps_dscp: !marks, knows_length })
}

fn to_shortening(effects: &Effects, at: Place) -> Option<String> {
    if let Some(why) = effects.opaque {
        return Some(format!("opaque ({why})"));
    }
    if let Some(why) = effects.cases.iter().flat_map(|case| &case.actions).find_map(hides) {
        return Some(why.into());
    }
    let read = |part: &str| format!("reads the {part}");
    if let Some(part) = effects.cases.iter().find_map(|case| at.deep_filter(&case.when)) {
        return Some(read(part));
    }
    let keys = effects.state.iter().flat_map(|state| &state.key);
    let emitted = effects.emits.iter().flat_map(|emit| &emit.reads);
    if let Some(part) = keys.chain(emitted).find_map(|field| at.deep_field(field)) {
        return Some(read(part));
    }
    effects.cases.iter().find_map(|case| at.deep_change(case))
}

/// Returns the reason for which packets can no longer be recognized or changed after an action: they become
/// encrypted or compressed, or a checksum of another protocol protects them. The payload can then not be
/// joined again.
fn hides(action: &Action) -> Option<&'static str> {
    let Action::Set(Field::Bytes { base, offset, length }, Value::Constant(bytes)) = action else {
        return None;
    };
    let value = |at: i32, n: usize| {
        let start = usize::try_from(at - offset).ok().filter(|start| start + n <= usize::from(*length))?;
        bytes.get(start..start + n)
    };
    match base {
        // The protocol field of IPv4 is at offset 9. Elements write IPv6 headers from offset 6 on, where the
        // next-header field is.
        Base::Network => match *value(if *offset == 6 { 6 } else { 9 }, 1)? {
            [ip_protocol::ESP] => Some("hides packets in ESP"),
            [ip_protocol::AH] => Some("protects packets by AH"),
            [IP_COMPRESSION] => Some("compresses packets"),
            _ => None,
        },
        Base::Mac | Base::Data => {
            (value(12, 2) == Some(&[0x88, 0xe5])).then_some("protects packets by MACsec")
        }
        Base::Transport => None,
    }
}

/// The IP protocol number of payload compression (RFC 3173).
const IP_COMPRESSION: u8 = 108;

/// Returns the reason for which packets of one flow cannot be spread over workers: the element has state that
/// each packet may write (Sprayer paper, Section 3), or that only one worker can read, or its declaration is
/// not complete.
pub fn to_spraying(effects: &Effects) -> Option<String> {
    // No obstacle: the element finds the state of a flow at any worker, or it restores the order of packets,
    // so that it does not matter which workers had them before.
    if effects.finds_state || effects.order == Order::Restores {
        return None;
    }
    if let Some(why) = effects.opaque {
        return Some(format!("opaque ({why})"));
    }
    effects.state.iter().find_map(|state| match state.access {
        StateAccess::EveryPacket => Some(every_packet(state.table)),
        StateAccess::Connection => Some(format!("finds '{}' of its own worker only", state.table)),
        StateAccess::Read | StateAccess::Soft | StateAccess::Shared => None,
    })
}

/// Returns the reason for which frames that leave some work to a device must not come to the element. Such a
/// frame represents many segments, or has a partial checksum. An element that reads payload or lengths,
/// shows packets to users, or updates transport checksums would treat such frames wrongly.
///
/// `start` is the offset from the IP header at which the frames start, as in [`to_slicing`].
pub fn to_offloads(effects: &Effects, start: i32) -> Option<String> {
    let at = Place { start, keeps_dscp: false, knows_length: false };
    if let Some(why) = to_other_lengths(effects, at) {
        return Some(why);
    }
    for case in &effects.cases {
        if let Checksum::Updated(headers) | Checksum::Recomputed(headers) = &case.checksum
            && headers.iter().any(|header| header.base() == Base::Transport)
        {
            return Some("changes transport checksums".into());
        }
        for action in &case.actions {
            match action {
                Action::Strip(_) | Action::Start(_) => return Some("moves the start".into()),
                Action::Set(field, _) if !at.is_header(field, true) => {
                    return Some("writes what a transport checksum covers".into());
                }
                _ => {}
            }
        }
    }
    let reads = effects.reads();
    // The whole IPv4 header (60 bytes) is read only to check its own checksum, which is never left to a
    // device.
    let is_ip = |field: &&Field| matches!(field, Field::Bytes { length: 60, .. });
    let strange = reads.iter().filter(|field| !is_ip(field)).any(|field| !at.is_header(field, false));
    strange.then(|| "reads more than addresses and ports".into())
}

/// Returns the reason for which packets that represent several shorter packets on the wire must not come to
/// the element.
fn to_other_lengths(effects: &Effects, at: Place) -> Option<String> {
    if let Some(why) = to_shortening(effects, at) {
        return Some(why);
    }
    let is_sent = || effects.cases.iter().any(|case| case.to == Target::Send);
    let why = match () {
        () if effects.hold == Hold::Replay => "replays packets",
        () if effects.observes.contains(&Field::Payload) => "shows the payload",
        () if effects.support.offloads.is_none() && is_sent() => "sends packets as they are",
        () => return None,
    };
    Some(why.into())
}

/// Returns the reason for which packets that represent many segments must not come to the element, although
/// all their checksums are complete. Such an element reads values that differ between the segments, above
/// all lengths and payload, or sends packets to an interface, for which they are too long.
pub fn to_large_segments(effects: &Effects, start: i32) -> Option<String> {
    let at = Place { start, keeps_dscp: true, knows_length: false };
    if let Some(why) = to_other_lengths(effects, at) {
        return Some(why);
    }
    let decides = |case: &Case| at.decides_by_segment(&case.when);
    if effects.cases.iter().any(decides) {
        return Some("tells segments of a flow apart".into());
    }
    let is_ip = |field: &&Field| matches!(field, Field::Bytes { length: 60, .. });
    let kept = |field: &&Field| !is_ip(field) && !at.is_header(field, false) && !at.is_checksum(field);
    let (reads, writes) = (effects.reads(), effects.writes());
    if reads.iter().chain(&writes).any(|field| kept(&field)) {
        return Some("reads or writes more than addresses, ports and flags".into());
    }
    None
}

/// Returns the effect of the element on the order of packets, or its need for packets in order, as a phrase.
/// `None` if it just keeps the order.
pub fn to_order(effects: &Effects) -> Option<&'static str> {
    match effects.order {
        Order::Keeps => None,
        Order::KeepsPerFlow => Some("keeps the order of each flow only"),
        Order::MayReorder => Some("may reorder packets"),
        Order::Restores => Some("puts flows in order"),
        Order::NeedsFlowOrder => Some("relies on flows that arrive in order"),
    }
}

fn every_packet(table: &str) -> String {
    format!("keeps state that each packet may change ({table})")
}

/// Returns the subject of a decision in a filter that only the element itself can take
/// ([`Predicate::Opaque`]); `None` if there is no such decision.
fn decided_inside(filter: &Filter) -> Option<&'static str> {
    filter.leaves().find_map(|leaf| match leaf {
        Predicate::Opaque { about, .. } => Some(*about),
        _ => None,
    })
}

/// The properties of the packets that come to the element whose declaration is checked.
#[derive(Clone, Copy)]
struct Place {
    /// The offset, from the IP header, of the packets' start: -14 for Ethernet.
    start: i32,
    /// True if the packets have their own DSCP, false if it marks them as sliced.
    keeps_dscp: bool,
    /// True if the element gets the length of whole packets, although the packets are shorter.
    knows_length: bool,
}

impl Place {
    /// Returns the name of the part of the packet in which a field lies, if slicing changes that part:
    /// payload, length, DSCP or sequence number. `None` for all other fields.
    fn deep_field(self, field: &Field) -> Option<&'static str> {
        self.deep_bits(field, u128::MAX)
    }

    fn deep_bits(self, field: &Field, mask: u128) -> Option<&'static str> {
        match *field {
            Field::Payload => Some("payload"),
            Field::Length => (!self.knows_length).then_some("length"),
            Field::Bytes { base, offset, length } => {
                // An element that reads some bytes from a header's start parses headers, and a sliced packet
                // has all of its headers.
                let walks = offset == 0 && length <= FLOW_HEADERS;
                if i64::from(offset) + i64::from(length) > HEADERS && !walks {
                    return Some("payload");
                }
                let network = match base {
                    Base::Network => offset,
                    Base::Mac => offset - 14,
                    Base::Data => offset + self.start,
                    // Offsets 4 and 5 of the transport header hold the length in UDP, offsets 4 to 7 the
                    // sequence number in TCP.
                    Base::Transport => {
                        let end = offset + i32::from(length);
                        return match (offset.max(4) < end.min(8), end <= 6) {
                            (true, true) => Some("length"),
                            (true, false) => Some("sequence number"),
                            _ => None,
                        };
                    }
                };
                let end = network + i32::from(length);
                let reads = |byte: i32, bits: u128| {
                    let shift = u32::try_from(8 * (end - 1 - byte)).unwrap_or(u32::MAX);
                    // A mask has 128 bits. For fields that are wider, all bits count as read.
                    let counts = mask == u128::MAX || mask & bits.checked_shl(shift).unwrap_or(0) != 0;
                    (network..end).contains(&byte) && counts
                };
                // The addresses of an IPv6 header end after offset 24. Fields at their offsets and of their
                // lengths are taken as addresses.
                let is_address = matches!((network, length), (8 | 24, 16) | (8, 32));
                if reads(1, 0xfc) && !self.keeps_dscp {
                    Some("DSCP")
                } else if reads(2, 0xff) || reads(3, 0xff) {
                    (!self.knows_length).then_some("length")
                } else if network > 0 && end > 24 && !is_address {
                    // These bytes are after the ports of UDP over IPv4, so they count as payload.
                    Some("payload")
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// True if a field counts as a header field. Every field that is not bytes counts, even the length. Bytes
    /// that the element reads count if they are in the link header or in the first 24 bytes from the start of
    /// the IP header, or if they are addresses of IPv6, ports, or the header length or flags of TCP. Some of
    /// these fields differ between the segments that a large segment represents: the total length, the
    /// identification and the header checksum of IPv4, and the TCP flags CWR, PSH and FIN. Bytes that the
    /// element writes (`written`) count if they are in the link header or among the bytes 0 to 3, 6 to 8, 10
    /// and 11 of the IP header. Over IPv4, no transport checksum covers these bytes.
    fn is_header(self, field: &Field, written: bool) -> bool {
        let Field::Bytes { base, offset, length } = *field else { return true };
        let network = match base {
            Base::Network => offset,
            Base::Mac => offset - 14,
            Base::Data => offset + self.start,
            Base::Transport => {
                let end = offset + i32::from(length);
                return !written && ((0..=4).contains(&end) || offset >= 12 && end <= 14);
            }
        };
        let end = network + i32::from(length);
        if written {
            // Transport checksums cover the addresses and, in IPv4 at offset 9, the protocol. The time to
            // live and the header checksum of IPv4, and the hop limit of IPv6, may be written.
            return end <= 4 || network >= 6 && end <= 12 && !(network..end).contains(&9);
        }
        // Bytes after offset 24 may be the length and the checksum of UDP. Fields at the offsets and of the
        // lengths of IPv6 addresses are taken as addresses.
        end <= 24 || matches!((network, length), (8 | 24, 16) | (8, 32))
    }

    /// True if a field is a transport checksum. It is complete and right in a large segment, too.
    fn is_checksum(self, field: &Field) -> bool {
        matches!(field, Field::Bytes { base: Base::Transport, offset: 6 | 16, length: 2 })
    }

    /// True if a filter reads flags of TCP that only the first or the last of the merged segments has: CWR,
    /// PSH, FIN.
    fn decides_by_segment(self, filter: &Filter) -> bool {
        filter.leaves().any(|leaf| {
            let Predicate::In { field: Field::Bytes { base: Base::Transport, offset, length }, mask, .. } =
                leaf
            else {
                return false;
            };
            let flags = 13 - offset;
            let shift = 8 * (i32::from(*length) - 1 - flags);
            let bits = u32::try_from(shift).ok().and_then(|shift| 0x89u128.checked_shl(shift)).unwrap_or(0);
            (0..i32::from(*length)).contains(&flags) && mask & bits != 0
        })
    }

    fn deep_filter(self, filter: &Filter) -> Option<&'static str> {
        filter.leaves().find_map(|leaf| match leaf {
            Predicate::Present(_) | Predicate::State { .. } => None,
            Predicate::In { field, mask, .. } => self.deep_bits(field, *mask),
            Predicate::RightChecksum { header: HeaderKind::Ipv4, .. } => None,
            Predicate::RightChecksum { .. } => Some("payload"),
            Predicate::AtMost(a, b) => self.deep_comparison(a, b),
            Predicate::Opaque { reads, .. } => reads.iter().find_map(|field| self.deep_field(field)),
        })
    }

    /// Returns the name of the part of the packet that a comparison reads, if slicing may change the result.
    /// A comparison of two lengths has the same result for a sliced packet, because both lengths shrink. A
    /// comparison of one length with a number that is larger than the headers may have another result.
    fn deep_comparison(self, a: &Number, b: &Number) -> Option<&'static str> {
        let is_length = |field: &&Field| self.deep_field(field) == Some("length");
        let lengths = a.variables().chain(b.variables()).filter(is_length).count();
        let others = a
            .variables()
            .chain(b.variables())
            .find_map(|f| self.deep_field(f).filter(|part| *part != "length"));
        let far = (a.constant - b.constant).abs() > HEADERS;
        others.or((lengths == 1 && far).then_some("length"))
    }

    fn deep_change(self, case: &Case) -> Option<String> {
        // Values are read from the packet as it came in; writes are relative to the packet's start as the
        // actions so far have moved it.
        let mut written = self;
        for action in &case.actions {
            let (field, value) = match action {
                Action::Set(field, value) => (field, value),
                Action::Resize(_) => return Some("changes the length".into()),
                Action::Strip(n) if i64::from(*n) > HEADERS => return Some("removes payload".into()),
                Action::Strip(n) => {
                    written.start = written.start.saturating_add(*n);
                    continue;
                }
                Action::Start(_) => continue,
            };
            let mask = match value {
                Value::Bits { mask, .. } => mask.iter().fold(0, |all, &byte| all << 8 | u128::from(byte)),
                _ => u128::MAX,
            };
            match (field, value) {
                // No obstacle: the element sets the length to the length that the headers give, or adds or
                // removes bytes at the front.
                (Field::Length, Value::Number(_) | Value::Plus(Field::Length, _)) => continue,
                (Field::Length, _) => return Some("changes the length".into()),
                // No obstacle: the element writes the new length of the packet into headers that it adds at
                // the front.
                (Field::Bytes { .. }, Value::Number(number))
                    if number.variables().any(|f| *f == Field::Length) =>
                {
                    continue;
                }
                _ => {}
            }
            if let Some(part) = written.deep_bits(field, mask) {
                return Some(format!("writes the {part}"));
            }
            let reads = match value {
                Value::Copy(from) | Value::Plus(from, _) => self.deep_field(from),
                Value::Number(number) | Value::Native(number) => {
                    number.variables().find_map(|field| self.deep_field(field))
                }
                Value::Pure { reads, .. } | Value::Choose { key: reads, .. } => {
                    reads.iter().find_map(|field| self.deep_field(field))
                }
                Value::Constant(_) | Value::Bits { .. } | Value::Now => None,
            };
            if let Some(part) = reads {
                return Some(format!("reads the {part}"));
            }
        }
        match &case.checksum {
            Checksum::Recomputed(headers)
                if headers.iter().any(|header| header.extent() == Field::Payload) =>
            {
                Some("reads the payload".into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::{State, Support, wire_field};
    use classify::IntervalSet;

    fn cases(filter: Filter) -> Effects {
        Effects::cases(vec![Case::new(filter, Target::Output(0))])
    }

    #[test]
    fn what_is_declared_can_be_composed() {
        assert_eq!(to_synthesis(&cases(Predicate::equals(wire_field::IP_TTL, 1))), None);
        assert_eq!(to_synthesis(&Effects::pass().depending_on(Depends::Handler)), None);
        let counting = |counts| Effects { counts, ..Effects::pass() };
        assert_eq!(to_synthesis(&counting(Counting::Tallied)), None);
        let own = to_synthesis(&counting(Counting::Own));
        assert_eq!(own.as_deref(), Some("shows what only packets themselves can tell"));
        let random = Effects::pass().depending_on(Depends::Random);
        assert_eq!(to_synthesis(&random).as_deref(), Some("depends on chance"));
        let inside = Filter::Leaf(Predicate::Opaque { about: "a list of names", reads: Vec::new() });
        let told = to_synthesis(&cases(Filter::Not(Box::new(inside))));
        assert_eq!(told.as_deref(), Some("decides by itself (a list of names)"));
        let device =
            Effects { support: Support { offloads: Some(-14), ..Support::default() }, ..Effects::pass() };
        assert_eq!(to_synthesis(&device).as_deref(), Some("does what was left to devices"));
        let sends = Effects {
            support: Support { offloads: Some(-14), ..Support::default() },
            ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)])
        };
        assert_eq!(to_synthesis(&sends), None);
    }

    #[test]
    fn headers_are_shallow() {
        let shallow = [
            Predicate::equals(wire_field::IP_DST, 1),
            // The mask selects the lower two bits of the byte, which are ECN.
            Filter::Leaf(Predicate::In { field: wire_field::IP_TOS, mask: 3, set: IntervalSet::one(3, 3) }),
            Filter::Leaf(Predicate::RightChecksum {
                header: HeaderKind::Ipv4,
                base: Base::Network,
                offset: 0,
            }),
            Predicate::at_most(Number::of(wire_field::IP_LENGTH), Number::of(Field::Length)),
            Predicate::at_most(Number::constant(34), Number::of(Field::Length)),
            Predicate::reaches(Base::Transport, 0, 4),
        ];
        for filter in shallow {
            assert_eq!(to_slicing(&cases(filter.clone()), -14), None, "{filter:?}");
        }
    }

    #[test]
    fn what_hides_packets_is_deep() {
        let writing = |field, value: &[u8]| {
            let case = Case::new(Filter::TRUE, Target::Output(0));
            Effects::cases(vec![case.with(Action::Set(field, Value::Constant(value.to_vec())))])
        };
        let six = Field::Bytes { base: Base::Network, offset: 6, length: 18 };
        let mut header = [50; 18];
        for (field, value, told) in [
            (wire_field::IP_PROTOCOL, &[50][..], Some("hides packets in ESP")),
            (wire_field::IP_PROTOCOL, &[51], Some("protects packets by AH")),
            (wire_field::IP_PROTOCOL, &[108], Some("compresses packets")),
            (wire_field::IP_PROTOCOL, &[4], None),
            (six.clone(), &header.clone(), Some("hides packets in ESP")),
            (wire_field::ETHER_TYPE, &[0x88, 0xe5], Some("protects packets by MACsec")),
            (wire_field::ETHER_TYPE, &[0x88, 0x47], None),
        ] {
            let effects = writing(field.clone(), value);
            for why in [to_slicing(&effects, 0), to_sliced(&effects, 0, true)] {
                assert_eq!(why.as_deref(), told, "{field:?}");
            }
        }
        header[0] = 41;
        let other = to_slicing(&writing(six, &header), 0);
        assert!(other.is_none_or(|why| !why.contains("ESP")));
    }

    #[test]
    fn what_slicing_changes_is_deep() {
        let deep = [
            (Predicate::equals(wire_field::IP_TOS, 0), "reads the DSCP"),
            (
                Filter::Leaf(Predicate::In {
                    field: wire_field::IP_VERSION_IHL,
                    mask: 15,
                    set: IntervalSet::one(5, 5),
                }),
                "",
            ),
            (
                Predicate::equals(Field::Bytes { base: Base::Data, offset: 14, length: 2 }, 0),
                "reads the DSCP",
            ),
            (Predicate::equals(wire_field::IP_LENGTH, 40), "reads the length"),
            (Predicate::at_most(Number::constant(1000), Number::of(Field::Length)), "reads the length"),
            (Predicate::reaches(Base::Data, 200, 1), "reads the payload"),
            (
                Filter::Leaf(Predicate::RightChecksum {
                    header: HeaderKind::Tcp,
                    base: Base::Transport,
                    offset: 0,
                }),
                "reads the payload",
            ),
        ];
        for (filter, told) in deep {
            assert_eq!(to_slicing(&cases(filter.clone()), -14).unwrap_or_default(), told, "{filter:?}");
        }
        let pass = || Case::new(Filter::TRUE, Target::Output(0));
        let dscp = Value::Bits { mask: vec![0xfc], value: vec![0] };
        let marks = Effects::cases(vec![pass().with(Action::Set(wire_field::IP_TOS, dscp))]);
        assert_eq!(to_slicing(&marks, -14).as_deref(), Some("writes the DSCP"));
        // An element that adds a tag at the front makes room for it first, so that it writes no byte of the
        // old header.
        let front = || {
            Action::Set(
                Field::Bytes { base: Base::Data, offset: 0, length: 18 },
                Value::Constant(vec![0; 18]),
            )
        };
        let tag = |strip| {
            Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(strip).with(front())])
        };
        let reading =
            |base, offset, length| cases(Predicate::equals(Field::Bytes { base, offset, length }, 1));
        let deep = |base, offset, length| to_slicing(&reading(base, offset, length), -14);
        assert_eq!(deep(Base::Data, 42, 1).as_deref(), Some("reads the payload"));
        assert_eq!(deep(Base::Data, 34, 4), None, "ports");
        assert_eq!(deep(Base::Network, 24, 16), None, "an address of IPv6");
        assert_eq!(deep(Base::Transport, 4, 2).as_deref(), Some("reads the length"));
        assert_eq!(deep(Base::Transport, 4, 4).as_deref(), Some("reads the sequence number"));
        assert_eq!(deep(Base::Transport, 13, 1), None, "flags");
        assert_eq!(to_slicing(&tag(Action::Strip(-4)), -14), None);
        assert_eq!(to_slicing(&tag(Action::Strip(0)), -14).as_deref(), Some("writes the DSCP"));
        let cut = Effects::cases(vec![pass().with(Action::Resize(vec![Field::Length]))]);
        assert_eq!(to_slicing(&cut, -14).as_deref(), Some("changes the length"));
    }

    #[test]
    fn offloads_pass_where_nobody_looks_at_what_is_left_to_do() {
        let reads = |field| cases(Predicate::equals(field, 1));
        let set = |field: Field| {
            let length = match field {
                Field::Bytes { length, .. } => length.into(),
                _ => 1,
            };
            let action = Action::Set(field, Value::Constant(vec![0; length]));
            Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(action)])
        };
        let ttl = Case::new(Filter::TRUE, Target::Output(0))
            .with(Action::Set(wire_field::IP_TTL, Value::Plus(wire_field::IP_TTL, -1)))
            .updating(&[HeaderKind::Ipv4]);
        let device = Effects {
            support: Support { offloads: Some(-14), ..Support::default() },
            ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)])
        };
        let pass = [
            Effects::pass().observing(&[Field::Length]),
            reads(wire_field::IP_SRC),
            reads(wire_field::DST_PORT),
            reads(Field::Bytes { base: Base::Data, offset: 12, length: 2 }),
            reads(Field::Bytes { base: Base::Transport, offset: 13, length: 1 }),
            reads(Field::Bytes { base: Base::Network, offset: 24, length: 16 }),
            cases(Filter::Leaf(Predicate::RightChecksum {
                header: HeaderKind::Ipv4,
                base: Base::Network,
                offset: 0,
            })),
            cases(Predicate::at_most(Number::of(wire_field::IP_LENGTH), Number::of(Field::Length))),
            set(wire_field::ETHER_DST),
            Effects::cases(vec![ttl]),
            device,
        ];
        for effects in pass {
            assert_eq!(to_offloads(&effects, -14), None, "{effects:?}");
        }
        let strip = Case::new(Filter::TRUE, Target::Output(0)).with(Action::Strip(14));
        let ports = Case::new(Filter::TRUE, Target::Output(0))
            .with(Action::Set(wire_field::SRC_PORT, Value::Constant(vec![0, 1])))
            .updating(&[HeaderKind::Udp]);
        let stop = [
            (Effects::pass().observing(&[Field::Payload]), "shows the payload"),
            (
                reads(Field::Bytes { base: Base::Transport, offset: 16, length: 2 }),
                "reads more than addresses and ports",
            ),
            (reads(Field::Bytes { base: Base::Data, offset: 40, length: 2 }), "reads the payload"),
            (reads(wire_field::IP_LENGTH), "reads the length"),
            (set(wire_field::IP_DST), "writes what a transport checksum covers"),
            (set(wire_field::IP_PROTOCOL), "writes what a transport checksum covers"),
            (set(wire_field::DST_PORT), "writes what a transport checksum covers"),
            (Effects::cases(vec![ports]), "changes transport checksums"),
            (Effects::cases(vec![strip]), "moves the start"),
            (Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]), "sends packets as they are"),
            (Effects { hold: Hold::Replay, ..Effects::pass() }, "replays packets"),
        ];
        for (effects, told) in stop {
            assert_eq!(to_offloads(&effects, -14).as_deref(), Some(told), "{effects:?}");
        }
        // In packets that start with IP, offset 16 is the destination address; in Ethernet frames, it is the
        // length.
        let place = reads(Field::Bytes { base: Base::Data, offset: 16, length: 4 });
        assert_eq!(to_offloads(&place, 0), None);
        assert_eq!(to_offloads(&place, -14).as_deref(), Some("reads the length"));
    }

    #[test]
    fn state_of_each_packet_stays_on_one_core() {
        let with = |access| {
            let state = State { table: "seen", key: Vec::new(), both_directions: false, access };
            Effects { state: vec![state], ..Effects::pass() }
        };
        assert!(to_spraying(&with(StateAccess::Connection)).is_some());
        assert_eq!(to_spraying(&Effects { finds_state: true, ..with(StateAccess::Connection) }), None);
        assert_eq!(to_spraying(&with(StateAccess::Soft)), None);
        assert!(to_spraying(&with(StateAccess::EveryPacket)).is_some());
    }
}
