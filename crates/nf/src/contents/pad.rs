//! # Pad
//! Makes short packets longer, with zeros or random bytes at their end.
//!
//! Without a length, each packet is extended by the number of bytes in its extra length annotation. The
//! annotation is set to zero, with or without a length.
//!
//! ## Usage
//! `Pad([LENGTH, KEYWORDS])`
//!
//! ## Arguments
//! - `LENGTH`: the minimum length; 0 to use the annotation.
//! - `ZERO`: accepted, without effect; new bytes are zeros in any case, unless they are random.
//! - `RANDOM`: if true, new bytes are random.
//! - `MAXLENGTH`: the length beyond which packets are not extended; 0 for no limit.
//! - `VERBOSE`: if true, reports packets that MAXLENGTH keeps from becoming longer.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA "short", LIMIT 1) -> Pad(60) -> Discard
//! ```
//!
//! ## See also
//! Truncate, Resize

use element::class::ArgInfo;
use element::effects::{Action, Depends, EXTRA_LENGTH, Field};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use packet::{Annotations, MAX_PACKET};

use crate::editing::{append_zeros, constant, otherwise, pure};

/// The element class `Pad`.
pub static CLASS: Class = Class {
    name: "Pad",
    manual: manual!("pad.rs"),
    args: &[
        ArgInfo::positional("LENGTH", "unsigned", "0"),
        ArgInfo::keyword("ZERO", "bool", "true"),
        ArgInfo::keyword("RANDOM", "bool", "false"),
        ArgInfo::keyword("MAXLENGTH", "unsigned", "0"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
    ],
    samples: &["60", "4000", "200, RANDOM true, MAXLENGTH 100", "LENGTH 0, MAXLENGTH 3000"],
    reconfigures: true,
    build: |args| {
        let length = args.value::<u32>("LENGTH") as usize;
        args.value::<bool>("ZERO");
        let random = args.value::<bool>("RANDOM");
        let most = args.value::<u32>("MAXLENGTH") as usize;
        let verbose = args.value::<bool>("VERBOSE");
        if length > MAX_PACKET {
            args.too_large("LENGTH", MAX_PACKET);
        }
        args.finish()?;
        Ok(Box::new(Pad { length, random, most, verbose }))
    },
    ..Class::DEFAULT
};

struct Pad {
    length: usize,
    random: bool,
    most: usize,
    verbose: bool,
}

impl Pad {
    /// Returns the number of bytes to add to a packet; with VERBOSE, prints a message if MAXLENGTH reduces
    /// it.
    fn missing(&self, cx: &mut Cx<'_>, packet: &Packet) -> usize {
        let length = packet.len();
        let wanted = match self.length {
            0 => packet.annotations().u32(Annotations::EXTRA_LENGTH) as usize,
            least => least.saturating_sub(length),
        };
        if self.most == 0 || wanted == 0 || length + wanted <= self.most {
            return wanted;
        }
        let allowed = self.most.saturating_sub(length);
        if self.verbose {
            let most = self.most;
            cx.messages().message(format_args!(
                "Tried a too long Pad: {length} + {wanted} > {most} -> adding only {allowed} bytes\n"
            ));
        }
        allowed
    }

    fn pad(&self, cx: &mut Cx<'_>, mut packet: Packet, annotate: bool) -> Option<Packet> {
        let mut missing = self.missing(cx, &packet);
        if annotate {
            packet.annotations_mut().set_u32(Annotations::EXTRA_LENGTH, 0);
        }
        if missing == 0 {
            return Some(packet);
        }
        if packet.len() + missing > MAX_PACKET {
            cx.drop(packet, DropReason::TooLong);
            return None;
        }
        if !self.random {
            return append_zeros(cx, packet, missing);
        }
        let mut noise = [0; 64];
        while missing > 0 {
            let step = missing.min(noise.len());
            cx.random().fill(&mut noise[..step]);
            packet = cx.append(packet, &noise[..step])?;
            missing -= step;
        }
        Some(packet)
    }
}

impl Element for Pad {
    fn effects(&self) -> Effects {
        let mut reads = vec![Field::Length];
        reads.extend((self.length == 0).then_some(EXTRA_LENGTH));
        let effects = Effects::cases(vec![otherwise(vec![
            Action::Resize(reads.clone()),
            pure(Field::Payload, "padding", &reads),
            constant(EXTRA_LENGTH, &[0; 4]),
        ])]);
        if self.random { effects.depending_on(Depends::Random) } else { effects }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        // Clearing the annotation is left out if no element reads it.
        let annotate = cx.graph().facts().annotation_read(Annotations::EXTRA_LENGTH, 4);
        batch.replace_each(|packet| self.pad(cx, packet, annotate));
    }
}
