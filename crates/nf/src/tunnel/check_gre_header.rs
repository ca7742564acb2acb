//! # CheckGREHeader
//! Checks the GRE header (RFC 2784, RFC 2890) of each packet.
//!
//! Packets pass that have room for the header, version 0, no reserved bits set in the first six bits, such as
//! that of source routes (RFC 1701), and what the keywords ask for. Other packets go to output 1, or are
//! dropped. A message reports the first of them.
//!
//! ## Usage
//! `CheckGREHeader([KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the header from the start of the packet.
//! - `CHECKSUM`: if true, the header must have a checksum, and it must be right.
//! - `KEY`: the key that the header must have; 0 for any header.
//! - `SEQUENCE`: if true, the header must have a sequence number that is larger than that of all packets
//!   before, modulo 2^32. The first may be 0.
//! - `STRIP`: if true, as many bytes as the header has are removed from the start of packets that pass.
//! - `VERBOSE`: if true, a message reports each packet that does not pass.
//! - `DETAILS`: if true, there is a handler `drop_details`: the packets that did not pass, by fault.
//!
//! ## Handlers
//! - `drops`: the number of packets that did not pass.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GREEncap(0x0800, KEY 7) -> CheckGREHeader(KEY 7, STRIP true) -> Discard
//! ```
//!
//! ## See also
//! GREEncap, StripGREHeader

use std::fmt::Write;

use element::class::ArgInfo;
use element::effects::{Case, Counting, Depends, Field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, manual};

use super::gre;
use crate::editing::{otherwise, pure, refused};
use crate::stripping::move_start;

/// The element class `CheckGREHeader`.
pub static CLASS: Class = Class {
    name: "CheckGREHeader",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_gre_header.rs"),
    args: &[
        ArgInfo::keyword("OFFSET", "unsigned", "0"),
        ArgInfo::keyword("CHECKSUM", "bool", "false"),
        ArgInfo::keyword("KEY", "unsigned", "0"),
        ArgInfo::keyword("SEQUENCE", "bool", "false"),
        ArgInfo::keyword("STRIP", "bool", "false"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
        ArgInfo::keyword("DETAILS", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops", "drop_details"]), StatePart::kept("sequence number", &[])],
    samples: &["", "CHECKSUM true, KEY 9, SEQUENCE true, STRIP true -> 1/2", "OFFSET 3, DETAILS true"],
    build: |args| {
        let element = CheckGreHeader {
            offset: args.value::<u32>("OFFSET") as usize,
            checksum: args.value("CHECKSUM"),
            key: args.value("KEY"),
            sequence: args.value("SEQUENCE"),
            strip: args.value("STRIP"),
            verbose: args.value("VERBOSE"),
            details: args.value("DETAILS"),
            // The number before 0, with which numbers begin (RFC 2890, section 2.2).
            last: u32::MAX,
            faults: [0; FAULTS.len()],
        };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

/// The faults of a header, in the order in which they are looked for; in Click's words, but for the reserved
/// bits, which Click does not check.
const FAULTS: [&str; 7] = [
    "tiny packet",
    "bad GRE version",
    "reserved bits set",
    "bad GRE header length",
    "bad GRE checksum",
    "invalid key",
    "out of sequence",
];

struct CheckGreHeader {
    offset: usize,
    checksum: bool,
    key: u32,
    sequence: bool,
    strip: bool,
    verbose: bool,
    details: bool,
    /// The largest sequence number that has passed.
    last: u32,
    /// The number of packets with each fault.
    faults: [u64; FAULTS.len()],
}

impl CheckGreHeader {
    /// Checks the header of a packet. Returns its length.
    ///
    /// # Errors
    /// The index of the fault in [`FAULTS`].
    fn check(&mut self, packet: &Packet) -> Result<usize, usize> {
        let mut header = [0; gre::LONGEST];
        let room = packet.read_at(self.offset, &mut header);
        let [flags, version, ..] = header;
        let length = gre::length(flags);
        let (key, sequence) = gre::offsets(flags);
        let option = |flag: u8, place: usize| {
            let bytes = header.get(place..).and_then(|bytes| bytes.first_chunk());
            bytes.filter(|_| flags & flag != 0).map(|&bytes| u32::from_be_bytes(bytes))
        };
        let sequence = option(gre::SEQUENCE, sequence);
        if room < gre::LEN {
            return Err(0);
        }
        if version & gre::VERSION != 0 {
            return Err(1);
        }
        if flags & gre::RESERVED != 0 {
            return Err(2);
        }
        if room < length {
            return Err(3);
        }
        if self.checksum && (flags & gre::CHECKSUM == 0 || gre::checksum(packet, self.offset) != 0) {
            return Err(4);
        }
        if self.key != 0 && option(gre::KEY, key) != Some(self.key) {
            return Err(5);
        }
        if self.sequence {
            let newer = |&number: &u32| number.wrapping_sub(self.last) as i32 > 0;
            self.last = sequence.filter(newer).ok_or(6usize)?;
        }
        Ok(length)
    }

    fn report(&mut self, cx: &mut Cx<'_>, fault: usize) {
        let is_first = self.faults.iter().all(|&count| count == 0);
        if let Some((count, text)) = self.faults.get_mut(fault).zip(FAULTS.get(fault)) {
            *count += 1;
            if is_first || self.verbose {
                cx.messages().message(format_args!("GRE header check failed: {text}\n"));
            }
        }
    }
}

impl Element for CheckGreHeader {
    fn effects(&self) -> Effects {
        let reads = gre::reads(self.offset);
        let bad = Case { is_shown: true, ..refused("GRE header", &reads, DropReason::BadNetworkHeader) };
        let mut actions = Vec::new();
        if self.strip {
            actions.push(pure(Field::HeaderOffset(Base::Data), "after the header", &reads));
            actions.push(pure(Field::Length, "without the header", &reads));
        }
        let effects = Effects::cases(vec![bad, otherwise(actions)]).counting(Counting::Tallied);
        if !self.sequence {
            return effects;
        }
        effects.depending_on(Depends::Counter).sharing("sequence number")
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let strip = self.strip;
        let check = |packet: &mut Packet| {
            let length = self.check(packet).map_err(Some)?;
            if strip { move_start(packet, length as isize).map_err(|_| None) } else { Ok(()) }
        };
        let mut faults = [None; packet::BATCH_CAPACITY];
        let mut count = 0;
        batch.sift(check, |packet, fault| {
            if let (Some(place), Some(fault)) = (faults.get_mut(count), fault) {
                *place = Some(fault);
                count += 1;
            }
            cx.emit_one(1, packet, DropReason::BadNetworkHeader);
        });
        for fault in faults.into_iter().flatten() {
            self.report(cx, fault);
        }
    }

    element::keeps!(last, faults);
}

const HANDLERS: &[Handler<CheckGreHeader>] = &[
    Handler::count("drops", |e| e.faults.iter().sum()),
    Handler::<CheckGreHeader>::get("drop_details", |e| {
        let mut text = String::new();
        for (count, fault) in e.faults.iter().zip(FAULTS) {
            let _ = writeln!(text, "{count}\t{fault}");
        }
        text
    })
    .only_if(|e| e.details)
    .tabled(),
];
