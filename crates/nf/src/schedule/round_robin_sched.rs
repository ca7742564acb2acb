//! # RoundRobinSched
//! Pulls from its inputs in turn, and skips inputs without packets.
//!
//! The search for the next packet starts at the input after the input that gave the last packet.
//! RoundRobinSched does not pull from inputs whose signal says that they are empty.
//!
//! ## Usage
//! `RoundRobinSched([MAX])`
//!
//! ## Arguments
//! - `MAX`: the number of inputs to use, counted from the first.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> rr :: RoundRobinSched -> Discard; InfiniteSource(LIMIT 5) -> Queue
//! -> [1] rr
//! ```
//!
//! ## See also
//! RoundRobinMultiSched, PrioSched, StrideSched, DRRSched, RoundRobinSwitch

use element::class::ArgInfo;
use element::{Args, Batch, Class, Cx, Effects, Element, Invalid, Packet, manual};

use super::{collect, pull_one};

/// The element class `RoundRobinSched`.
pub static CLASS: Class = Class {
    name: "RoundRobinSched",
    aliases: &["SimpleRoundRobinSched"],
    ports: "-/1",
    processing: "l/l",
    manual: manual!("round_robin_sched.rs"),
    args: &[ArgInfo::positional("MAX", "unsigned", "").computed("the number of inputs")],
    samples: &[" -> 1/1", " -> 3/1", "2 -> 3/1"],
    build: |args| build(args, 1),
    ..Class::DEFAULT
};

/// Makes a scheduler that pulls up to `turn` packets from an input before it continues with the next input.
/// The argument MAX is parsed here.
pub(super) fn build(args: &mut Args<'_>, turn: u32) -> Result<Box<dyn Element>, Invalid> {
    let inputs = args.get("MAX").unwrap_or(args.inputs()).min(args.inputs());
    args.finish()?;
    Ok(Box::new(RoundRobinSched { inputs, turn, next: 0, taken: 0 }))
}

struct RoundRobinSched {
    inputs: usize,
    turn: u32,
    /// The index of the input at which the search for the next packet starts.
    next: usize,
    /// The number of packets that the input `next` has given in its current turn.
    taken: u32,
}

impl RoundRobinSched {
    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        for _ in 0..self.inputs {
            let input = self.next;
            let packet = if cx.may_pull(input) { pull_one(cx, input) } else { None };
            self.taken += u32::from(packet.is_some());
            if packet.is_none() || self.taken >= self.turn {
                (self.next, self.taken) = ((input + 1) % self.inputs, 0);
            }
            if packet.is_some() {
                return packet;
            }
        }
        None
    }
}

impl Element for RoundRobinSched {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        collect(cx, max, |cx| self.next_packet(cx))
    }
}
