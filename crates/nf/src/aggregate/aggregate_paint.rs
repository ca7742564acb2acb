//! # AggregatePaint
//! Sets the aggregate annotation to the paint annotation, or its lower bits.
//!
//! ## Usage
//! `AggregatePaint([BITS, KEYWORDS])`
//!
//! ## Arguments
//! - `BITS`: the number of lower bits, 1 to 8.
//! - `INCREMENTAL`: if true, shifts the packet's aggregate left by BITS and adds the lower bits of the paint.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Paint(3) -> AggregatePaint(2) -> AggregateCounter -> Discard
//! ```
//!
//! ## See also
//! Paint, AggregateIP, AggregateCounter

use element::class::ArgInfo;
use element::effects::{Filter, PAINT};
use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::Annotations;

use super::{Source, annotate, combined};

/// The element class `AggregatePaint`.
pub static CLASS: Class = Class {
    name: "AggregatePaint",
    manual: manual!("aggregate_paint.rs"),
    args: &[ArgInfo::positional("BITS", "1-8", "8"), ArgInfo::keyword("INCREMENTAL", "bool", "false")],
    samples: &["", "1, INCREMENTAL true"],
    build: |args| {
        let bits = args.value::<u32>("BITS");
        let incremental = args.value::<bool>("INCREMENTAL");
        if !(1..=8).contains(&bits) {
            args.error("bad number of bits");
        }
        args.finish()?;
        Ok(Box::new(AggregatePaint { bits, incremental }))
    },
    ..Class::DEFAULT
};

struct AggregatePaint {
    bits: u32,
    incremental: bool,
}

impl Element for AggregatePaint {
    fn effects(&self) -> Effects {
        let source = Source { name: "paint", reads: vec![PAINT] };
        Effects::cases(vec![source.case(Filter::TRUE, self.incremental)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (bits, incremental) = (self.bits, self.incremental);
        annotate(cx, batch, |packet| {
            let paint = packet.annotations().u8(Annotations::PAINT);
            Ok(combined(packet, bits, u32::from(paint) & ((1 << bits) - 1), incremental))
        });
    }
}
