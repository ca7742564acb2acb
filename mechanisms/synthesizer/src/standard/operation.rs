//! Code generation for the operation of a class: a short chain of elements.
//!
//! The values that a class writes are values of the input packet, so annotations are copied from the packet
//! before its bytes change. Then bytes are written, the time to live is decremented, and the header's
//! checksum is computed where needed. Finally headers are stripped or prepended, and header marks, packet
//! type and time stamp are set.

use std::collections::{BTreeMap, BTreeSet};

use packet::PacketKind;

use super::facts::Known;
use super::{State, Why};
use program::declare::{accounts_for_all, written};
use program::hex::digits;
use program::location::{ByteLocation, IPV4, IPV4_SUM};
use program::metadata::{INPUT, KIND, Metadata, TIME};
use program::question::Question;
use program::{ChecksumOperation, Program, TrafficClass, Write, WrittenValue};

/// An element to insert: its class and its arguments.
pub(super) type Step = (&'static str, String);

/// The maximum decrement of the time to live. A decrement by `n` is made by `n` DecIPTTL elements in a row.
const MOST_HOPS: i64 = 32;

/// The offset of the time to live from the start of the IPv4 header.
const TTL: i32 = 8;

/// The length of an Ethernet header in bytes.
const FRAME: i32 = 14;

/// The offset of the destination address annotation, which CheckIPHeader sets.
const DST_IP: u8 = packet::Annotations::DST_IP as u8;

/// The known metadata of packets that enter a region, and the metadata that elements of the chain read.
pub(super) struct MetadataFacts {
    /// The metadata bytes that any element of the chain reads; `None` if that is not known. Other metadata
    /// need not be set.
    pub(super) observed_metadata: Option<BTreeSet<Metadata>>,
    /// The metadata bytes whose values are known when packets enter the region.
    pub(super) came: BTreeMap<Metadata, u8>,
}

impl MetadataFacts {
    fn is_looked_at(&self, side: Metadata) -> bool {
        self.observed_metadata.as_ref().is_none_or(|sides| sides.contains(&side))
    }
}

/// The header marks of the packet at a point of the chain: offsets from the start of the input packet. The
/// outer `None` for the transport header means that its mark is not known.
#[derive(Clone, Copy, PartialEq)]
struct Marks {
    link: Option<i32>,
    network: Option<i32>,
    transport: Option<Option<i32>>,
}

struct Operation<'c> {
    class: &'c TrafficClass,
    known: Known,
    steps: Vec<Step>,
    marks: Marks,
    /// The offset, from the start of the input packet, at which the packet starts after the elements that
    /// have been added so far.
    start: i32,
}

/// Returns the elements for the operation of a class, in the order in which packets pass them. `known` are
/// the facts about packets of the class, `state` is their state after the questions.
///
/// # Errors
/// If no standard element performs a part of the operation; the error says which part.
pub(super) fn steps(
    class: &TrafficClass,
    program: &Program,
    known: Known,
    state: State,
    metadata: &MetadataFacts,
) -> Result<Vec<Step>, Why> {
    if class.end != state.end() {
        return Err(Why::Length);
    }
    if class.transport_checksum.is_some() {
        return Err(Why::Checksum);
    }
    if class.port.is_some() && metadata.is_looked_at(INPUT) {
        return Err(Why::Annotation);
    }
    let [link, network, transport] = program.layout;
    let mut marks = Marks { link, network, transport: Some(transport) };
    if let Some(place) = state.marked {
        marks = Marks { network: Some(place), transport: behind(&known, place), ..marks };
    }
    let mut operation = Operation { class, known, steps: Vec::new(), marks, start: 0 };
    operation.annotate(state, metadata)?;
    operation.write(program, state)?;
    operation.mark(program)?;
    if let Some(kind) = class.kind.filter(|_| metadata.is_looked_at(KIND)) {
        operation.add("SetPacketType", name_of(kind).ok_or(Why::Annotation)?);
    }
    if class.stamped && metadata.is_looked_at(TIME) {
        operation.add("SetTimestamp", "");
    }
    Ok(operation.steps)
}

/// Returns the mark of the transport header after an element has marked the IPv4 header at an offset;
/// `None` if the header may have options.
fn behind(known: &Known, place: i32) -> Option<Option<i32>> {
    known.is_plain(place).then_some(Some(place + IPV4))
}

fn name_of(kind: u8) -> Option<&'static str> {
    let names = [
        (PacketKind::Host, "HOST"),
        (PacketKind::Broadcast, "BROADCAST"),
        (PacketKind::Multicast, "MULTICAST"),
        (PacketKind::OtherHost, "OTHERHOST"),
        (PacketKind::Outgoing, "OUTGOING"),
        (PacketKind::Loopback, "LOOPBACK"),
    ];
    names.iter().find(|(other, _)| *other as u8 == kind).map(|(_, name)| *name)
}

impl Operation<'_> {
    fn add(&mut self, class: &'static str, config: impl Into<String>) {
        self.steps.push((class, config.into()));
    }

    /// Adds the elements that set annotations, for those annotations that any element reads.
    fn annotate(&mut self, state: State, metadata: &MetadataFacts) -> Result<(), Why> {
        let mut values: BTreeMap<u8, WrittenValue> = BTreeMap::new();
        for Write { place, value } in &self.class.writes {
            let ByteLocation::Annotation(first) = *place else { continue };
            match value {
                WrittenValue::Constant(bytes) => {
                    let bytes = bytes.iter().map(|byte| WrittenValue::Constant(vec![*byte]));
                    values.extend((first..=u8::MAX).zip(bytes));
                }
                WrittenValue::Copy(ByteLocation::Byte(from), length) => {
                    let bytes = (*from..)
                        .take((*length).into())
                        .map(|from| WrittenValue::Copy(ByteLocation::Byte(from), 1));
                    values.extend((first..=u8::MAX).zip(bytes));
                }
                value => {
                    values.insert(first, value.clone());
                }
            }
        }
        values.retain(|place, _| metadata.is_looked_at(*place));
        // CheckIPHeader has overwritten the destination address annotation, so its value in the input packet
        // may have to be restored.
        if let Some(destination) = state.cut.map(|header| header + IPV4 - 4) {
            for (place, from) in
                (DST_IP..DST_IP + 4).zip(destination..).filter(|(place, _)| metadata.is_looked_at(*place))
            {
                match values.get(&place) {
                    Some(WrittenValue::Copy(ByteLocation::Byte(other), 1)) if *other == from => {
                        values.remove(&place);
                    }
                    Some(_) => {}
                    None => {
                        let came = metadata.came.get(&place).ok_or(Why::Annotation)?;
                        values.insert(place, WrittenValue::Constant(vec![*came]));
                    }
                }
            }
        }
        while let Some((place, value)) = values.pop_first() {
            let next = |more: u8| values.get(&place.checked_add(more)?);
            let four = [Some(&value), next(1), next(2), next(3)];
            let is_first = place % 4 == 0;
            let step = match four {
                [
                    Some(WrittenValue::Constant(a)),
                    Some(WrittenValue::Constant(b)),
                    Some(WrittenValue::Constant(c)),
                    Some(WrittenValue::Constant(d)),
                ] if is_first => {
                    let bytes: Vec<String> = [a, b, c, d].into_iter().flatten().map(u8::to_string).collect();
                    ("SetIPAddress", format!("{}, ANNO {place}", bytes.join(".")))
                }
                [Some(WrittenValue::Constant(byte)), ..] => {
                    self.steps.extend(byte.iter().map(|byte| ("Paint", format!("{byte}, {place}"))));
                    continue;
                }
                [Some(WrittenValue::Copy(ByteLocation::Byte(from @ 0..), 1)), b, c, d] if is_first => {
                    let goes_on = |(more, value): (i32, Option<&WrittenValue>)| {
                        value == Some(&WrittenValue::Copy(ByteLocation::Byte(from + more), 1))
                    };
                    if !(1..).zip([b, c, d]).all(goes_on) {
                        return Err(Why::Annotation);
                    }
                    ("GetIPAddress", format!("{from}, ANNO {place}"))
                }
                _ => return Err(Why::Annotation),
            };
            values.retain(|other, _| *other > place + 3);
            self.steps.push(step);
        }
        Ok(())
    }

    /// Adds the elements that write bytes of the packet, and update or compute the header's checksum.
    fn write(&mut self, program: &Program, state: State) -> Result<(), Why> {
        let class = self.class;
        let front = class.front();
        let frame = self.frame(program)?;
        let mut hops = 0;
        let mut writes = Vec::new();
        for Write { place, value } in &class.writes {
            let ByteLocation::Byte(first) = *place else { continue };
            match value {
                WrittenValue::Constant(bytes) => {
                    // EtherEncap writes the bytes of the Ethernet header.
                    let covered = match &frame {
                        Some((at, _)) if *at <= first => (at + FRAME - first).clamp(0, bytes.len() as i32),
                        _ => 0,
                    };
                    let rest = &bytes[covered as usize..];
                    if !rest.is_empty() {
                        writes.push((first + covered, format!("\\<{}>", digits(rest))));
                    }
                }
                WrittenValue::Masked(ByteLocation::Byte(from), and, or) if *from == first => {
                    writes.push((first, format!("\\<{or:02x}>, \\<{:02x}>", !and)));
                }
                &WrittenValue::Plus(ByteLocation::Byte(from), 1, plus)
                    if from == first && self.is_time_to_live(from) && (-MOST_HOPS..0).contains(&plus) =>
                {
                    let question = Question::Bytes { offset: from, length: 1 };
                    if i128::from(plus) + self.known.least(&question) as i128 <= 0 {
                        return Err(Why::Write);
                    }
                    hops = -plus;
                }
                _ => return Err(Why::Write),
            }
        }
        let is_computed = self.is_computed(hops > 0, state)?;
        // Bytes ahead of the start of the packet can only be written after the packet has been extended to
        // include them, so the packet is extended first.
        let reach =
            if frame.is_some() { writes.iter().map(|(place, _)| *place).fold(0, i32::min) } else { front };
        if reach < 0 {
            self.add("Unstrip", (-reach).to_string());
            self.start = reach;
        }
        for (place, data) in writes {
            self.add("StoreData", format!("{}, {data}", place - self.start));
        }
        if let Some(header) = class.checksum.as_ref().map(ChecksumOperation::header) {
            if hops > 0 || is_computed {
                self.mark_header(header)?;
            }
            (0..hops).for_each(|_| self.add("DecIPTTL", ""));
            if is_computed {
                self.add("SetIPChecksum", "");
            }
        }
        if let Some((at, header)) = frame {
            self.move_to(at + FRAME);
            self.add("EtherEncap", header);
            self.start = at;
            self.marks.link = Some(at);
            self.marks.network = Some(at + FRAME);
        }
        self.move_to(class.start);
        Ok(())
    }

    fn move_to(&mut self, start: i32) {
        match start - self.start {
            0 => {}
            more @ 1.. => self.add("Strip", more.to_string()),
            less => self.add("Unstrip", (-less).to_string()),
        }
        self.start = start;
    }

    fn is_time_to_live(&self, place: i32) -> bool {
        self.class.checksum.as_ref().is_some_and(|checksum| place == checksum.header() + TTL)
    }

    /// True if the IPv4 checksum has to be computed after all writes. False if the checksum does not change,
    /// or if DecIPTTL elements update it because the time to live is the only change of the header. `is_kept`
    /// is true if such elements are inserted.
    fn is_computed(&self, is_kept: bool, state: State) -> Result<bool, Why> {
        let class = self.class;
        match &class.checksum {
            None => Ok(false),
            Some(ChecksumOperation::Recomputed { header }) => match self.known.is_plain(*header) {
                true => Ok(true),
                false => Err(Why::Checksum),
            },
            Some(ChecksumOperation::Updated { header, words }) => {
                if is_kept && words[..] == [header + TTL] {
                    return Ok(false);
                }
                // If the checksum was correct on input, its update gives the correct checksum, so the
                // checksum may be computed from scratch instead.
                let is_right = state.is_right && state.cut == Some(*header) && self.known.is_plain(*header);
                let sum = header + IPV4_SUM..header + IPV4_SUM + 2;
                let is_whole =
                    accounts_for_all(class, *header, words) && !written(class).any(|p| sum.contains(&p));
                if is_right && is_whole { Ok(true) } else { Err(Why::Checksum) }
            }
        }
    }

    /// Returns the offset at which the class makes a whole Ethernet header, and the arguments of EtherEncap
    /// for it. Returns `None` if the class makes none. Elements that are added later may strip the header
    /// again.
    fn frame(&self, program: &Program) -> Result<Option<(i32, String)>, Why> {
        let class = self.class;
        let at = class.headers[0].unwrap_or(program.layout[0]).unwrap_or(class.start);
        let mut header = [None; FRAME as usize];
        for Write { place, value } in &class.writes {
            let (ByteLocation::Byte(first), WrittenValue::Constant(bytes)) = (*place, value) else {
                continue;
            };
            for (place, byte) in (first..).zip(bytes) {
                let index = usize::try_from(place - at).ok();
                if let Some(there) = index.and_then(|index| header.get_mut(index)) {
                    *there = Some(*byte);
                }
            }
        }
        let whole: Option<Vec<u8>> = header.iter().copied().collect();
        let is_frame = program.is_certain && program.layout[0] == Some(0);
        match whole {
            Some(bytes) if class.framed => {
                let address = |bytes: &[u8]| {
                    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
                };
                let kind = digits(&bytes[12..]);
                let config = format!("0x{kind}, {}, {}", address(&bytes[6..12]), address(&bytes[..6]));
                Ok(Some((at, config)))
            }
            None if class.framed && !is_frame => Err(Why::Write),
            _ => Ok(None),
        }
    }

    /// Adds a MarkIPHeader for the IPv4 header at an offset, unless it is marked already.
    fn mark_header(&mut self, place: i32) -> Result<(), Why> {
        if self.marks.network == Some(place) {
            return Ok(());
        }
        let offset = u32::try_from(place - self.start).map_err(|_| Why::Marks)?;
        self.add("MarkIPHeader", offset.to_string());
        self.marks.network = Some(place);
        self.marks.transport = behind(&self.known, place);
        Ok(())
    }

    /// Adds the elements that mark headers as the class requires.
    fn mark(&mut self, program: &Program) -> Result<(), Why> {
        let [link, network, transport] =
            std::array::from_fn(|base| self.class.headers[base].unwrap_or(program.layout[base]));
        let is_link_known = program.needs_link || self.class.headers[0].is_some();
        let is_wanted = |marks: &Marks| marks.network == network && marks.transport == Some(transport);
        if !is_wanted(&self.marks) {
            // MarkIPHeader also marks the transport header, so it is needed even if the network header is
            // marked already.
            self.marks.network = None;
            self.mark_header(network.ok_or(Why::Marks)?)?;
        }
        if is_link_known && self.marks.link != link {
            let offset = link.and_then(|place| u32::try_from(place - self.start).ok()).ok_or(Why::Marks)?;
            self.add("MarkMACHeader", offset.to_string());
        }
        if is_wanted(&self.marks) { Ok(()) } else { Err(Why::Marks) }
    }
}
