//! # LimitTTL
//! Lowers the time to live of IPv4 packets to a limit.
//!
//! The element that `docs/effects.md` develops step by step. It is not part of the product; the generic
//! tests run over it.
//!
//! ## Usage
//! `LimitTTL(MAX)`
//!
//! ## Arguments
//! - `MAX`: the highest time to live of packets that leave.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader -> LimitTTL(32) -> Discard
//! ```
//!
//! ## See also
//! DecIPTTL, MarkIPHeader

use element::class::ArgInfo;
use element::effects::{Action, Case, Filter, HeaderKind, Number, Predicate, Target, Value, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::checksum::Delta;
use wire::{FromBytes, ipv4};

/// The element class `LimitTTL`.
pub static CLASS: Class = Class {
    name: "LimitTTL",
    manual: manual!("example.rs"),
    args: &[ArgInfo::required("MAX", "0-255")],
    samples: &["32", "1"],
    build: |args| {
        let element = LimitTtl { most: args.required("MAX") };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct LimitTtl {
    most: u8,
}

impl LimitTtl {
    fn limit(&self, packet: &mut Packet) -> Result<(), DropReason> {
        let header = packet.header_chunk_mut::<20>(Base::Network).ok_or(DropReason::NoHeader)?;
        let ip = ipv4::Header::mut_from_bytes(header).map_err(|_| DropReason::NoHeader)?;
        if ip.ttl > self.most {
            let word = |ttl| u16::from_be_bytes([ttl, ip.protocol]);
            let change = Delta::u16(word(ip.ttl), word(self.most));
            ip.checksum.set(change.apply(ip.checksum.get()));
            ip.ttl = self.most;
        }
        Ok(())
    }
}

impl Element for LimitTtl {
    fn effects(&self) -> Effects {
        let ttl = wire_field::IP_TTL;
        let is_low = Predicate::at_most(Number::of(ttl.clone()), Number::constant(self.most.into()));
        Effects::cases(vec![
            Case::new(Predicate::present(HeaderKind::Ipv4).not(), Target::Drop(DropReason::NoHeader)),
            Case::new(is_low, Target::Output(0)),
            Case::new(Filter::TRUE, Target::Output(0))
                .with(Action::Set(ttl, Value::Constant(vec![self.most])))
                .updating(&[HeaderKind::Ipv4]),
        ])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.sift(|packet| self.limit(packet), |packet, reason| cx.drop(packet, reason));
    }
}

#[cfg(test)]
mod tests {
    /// The code in the document is the code that is compiled and tested here.
    #[test]
    fn the_document_quotes_this_file() {
        let document = include_str!("../../../docs/effects.md");
        let source: Vec<&str> = include_str!("example.rs").lines().map(str::trim).collect();
        let blocks: Vec<&str> = document.split("```rust\n").skip(1).collect();
        assert!(blocks.len() >= 4, "the document has {} blocks", blocks.len());
        for block in blocks {
            let lines: Vec<&str> = block.lines().take_while(|line| *line != "```").map(str::trim).collect();
            assert!(source.windows(lines.len()).any(|window| window == lines), "not here: {lines:#?}");
        }
    }
}
