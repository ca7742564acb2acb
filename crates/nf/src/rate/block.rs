//! # Block
//! Sends packets of senders whose rate is above a threshold to output 1.
//!
//! The rate is the FWD_RATE annotation, which IPRateMonitor sets to the number of packets or bytes per second
//! from the packet's source address.
//!
//! ## Usage
//! `Block(THRESH)`
//!
//! ## Arguments
//! - `THRESH`: packets with a rate up to this number leave by output 0; 0 for all packets.
//!
//! ## Handlers
//! - `thresh`: the threshold.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> b :: Block(500) -> Discard; b[1] -> Print(fast) -> Discard
//! ```
//!
//! ## See also
//! IPRateMonitor, Meter, RatedSplitter

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element, Handler, Packet, manual};
use packet::Annotations;

use crate::aggregate::AGGREGATE;
use crate::editing::when;
use crate::sorting::{Fate, Sorter};

/// The element class `Block`.
pub static CLASS: Class = Class {
    name: "Block",
    ports: "1/2",
    processing: "h/h",
    manual: manual!("block.rs"),
    args: &[ArgInfo::required("THRESH", "int")],
    table: &HANDLERS,
    samples: &["500", "0"],
    reconfigures: true,
    build: |args| {
        let threshold = args.required("THRESH");
        args.finish()?;
        Ok(Box::new(Block { threshold, sorter: Sorter::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

struct Block {
    threshold: i32,
    sorter: Sorter,
}

impl Element for Block {
    fn effects(&self) -> Effects {
        let fast = when("rate above the threshold", &[AGGREGATE], Target::Output(1));
        Effects::cases(vec![fast, Case::new(Filter::TRUE, Target::Output(0))]).depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let threshold = self.threshold;
        let is_fast = |packet: &Packet| {
            threshold != 0 && packet.annotations().u32(Annotations::AGGREGATE) as i32 > threshold
        };
        self.sorter.send_by(cx, batch, |_, packet| is_fast(packet), |fast| Fate::Output(fast.into()))
    }
}

const HANDLERS: &[Handler<Block>] = &[Handler::data(
    "thresh",
    |e| e.threshold.to_string(),
    |e, cx, value| {
        e.threshold = i32::parse(value, &cx.place()).map_err(|_| "not an integer")?;
        Ok(())
    },
)];
