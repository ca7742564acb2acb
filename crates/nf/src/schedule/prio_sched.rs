//! # PrioSched
//! Pulls from the first input that has a packet.
//!
//! Input 0 thus has the highest priority. PrioSched does not pull from inputs whose signal says that they
//! are empty.
//!
//! ## Usage
//! `PrioSched`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> p :: PrioSched -> Discard; InfiniteSource(LIMIT 5) -> Queue -> [1] p
//! ```
//!
//! ## See also
//! RoundRobinSched, StrideSched, DRRSched, Queue

use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::BATCH_CAPACITY;

/// The element class `PrioSched`.
pub static CLASS: Class = Class {
    name: "PrioSched",
    aliases: &["SimplePrioSched"],
    ports: "-/1",
    processing: "l/l",
    manual: manual!("prio_sched.rs"),
    samples: &[" -> 1/1", " -> 3/1"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(PrioSched { inputs: args.inputs() }))
    },
    ..Class::DEFAULT
};

struct PrioSched {
    inputs: usize,
}

impl Element for PrioSched {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let max = max.min(BATCH_CAPACITY);
        let mut all = cx.batch();
        for input in 0..self.inputs {
            // Pull from an input until it is empty, because a pull may return fewer packets than the input
            // has.
            while all.len() < max && cx.may_pull(input) {
                let mut batch = cx.pull(input, max - all.len());
                let empty = batch.is_empty();
                all.append(&mut batch);
                cx.recycle(batch);
                if empty {
                    break;
                }
            }
        }
        all
    }
}
