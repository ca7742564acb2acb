//! # AggregateLength
//! Sets the aggregate annotation to the packet's length.
//!
//! The extra length annotation is added.
//!
//! ## Usage
//! `AggregateLength([KEYWORDS])`
//!
//! ## Arguments
//! - `IP`: if true, the length is counted from the IP header on. Packets without a network header
//!   annotation then go to output 1, or are dropped.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> AggregateCounter -> Discard
//! ```
//!
//! ## See also
//! AggregateIP, AggregateCounter

use element::class::ArgInfo;
use element::effects::{EXTRA_LENGTH, Field, Filter, Predicate};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};
use packet::Annotations;

use super::{Source, annotate};
use crate::editing::aside;

/// The element class `AggregateLength`.
pub static CLASS: Class = Class {
    name: "AggregateLength",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("aggregate_length.rs"),
    args: &[ArgInfo::keyword("IP", "bool", "false")],
    samples: &["", "IP true -> 1/2"],
    build: |args| {
        let ip = args.value::<bool>("IP");
        args.finish()?;
        Ok(Box::new(AggregateLength { ip }))
    },
    ..Class::DEFAULT
};

struct AggregateLength {
    ip: bool,
}

impl Element for AggregateLength {
    fn effects(&self) -> Effects {
        let mut reads = vec![Field::Length, EXTRA_LENGTH];
        let mut cases = Vec::new();
        if self.ip {
            let network = Field::HeaderOffset(Base::Network);
            let about = "no network header annotation";
            reads.push(network.clone());
            let missing = Filter::Leaf(Predicate::Opaque { about, reads: vec![network, Field::Length] });
            cases.push(aside(missing, DropReason::NoHeader));
        }
        cases.push(Source { name: "length", reads }.case(Filter::TRUE, false));
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let ip = self.ip;
        annotate(cx, batch, |packet| {
            let before = match ip {
                true => packet.offset(Base::Network).ok_or(DropReason::NoHeader)?,
                false => 0,
            };
            let length = packet.len().saturating_add_signed(-before) as u32;
            Ok(length.wrapping_add(packet.annotations().u32(Annotations::EXTRA_LENGTH)))
        });
    }
}
