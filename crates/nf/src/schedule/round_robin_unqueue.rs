//! # RoundRobinUnqueue
//! Pulls packets from its inputs in turn, and pushes them to the output of the same number.
//!
//! ## Usage
//! `RoundRobinUnqueue([BURST])`
//!
//! ## Arguments
//! - `BURST`: the maximum number of packets pulled from an input in its turn; 0 for all that are available.
//!
//! ## Handlers
//! - `packets`: the number of packets pulled.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5) -> Queue -> u :: RoundRobinUnqueue -> Discard;
//! InfiniteSource(LIMIT 5) -> Queue -> [1] u [1] -> Discard
//! ```
//!
//! ## See also
//! Unqueue, RoundRobinSched

use element::class::{ArgInfo, Notes};
use element::{Class, Cx, Effects, Element, Handler, StatePart, manual};
use packet::BATCH_CAPACITY;

/// The element class `RoundRobinUnqueue`.
pub static CLASS: Class = Class {
    name: "RoundRobinUnqueue",
    ports: "-/=",
    processing: "l/h",
    flow: "#/#",
    manual: manual!("round_robin_unqueue.rs"),
    notes: Notes::TASK,
    args: &[ArgInfo::positional("BURST", "unsigned", "1")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["packets"])],
    samples: &["-> 1/1", "3 -> 2/2", "0 -> 2/2"],
    reconfigures: true,
    build: |args| {
        let burst = args.value::<u32>("BURST") as usize;
        let ports = args.inputs();
        args.finish()?;
        Ok(Box::new(RoundRobinUnqueue { burst, ports, next: 0, empty: 0, packets: 0 }))
    },
    ..Class::DEFAULT
};

struct RoundRobinUnqueue {
    burst: usize,
    ports: usize,
    /// The input whose turn it is.
    next: usize,
    /// The number of inputs in a row that had no packets.
    empty: usize,
    packets: u64,
}

impl RoundRobinUnqueue {
    /// Moves up to BURST packets from an input to its output. Returns true if there were any.
    fn take(&mut self, cx: &mut Cx<'_>, input: usize) -> bool {
        let mut left = if self.burst == 0 { usize::MAX } else { self.burst };
        let mut worked = false;
        while left > 0 {
            let batch = cx.pull(input, left.min(BATCH_CAPACITY));
            let n = batch.len();
            cx.emit(input, batch);
            worked |= n > 0;
            self.packets += n as u64;
            left -= n.min(left);
            if n == 0 {
                break;
            }
        }
        worked
    }
}

impl Element for RoundRobinUnqueue {
    fn effects(&self) -> Effects {
        Effects::port_by_port(self.ports)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.ports > 0 {
            cx.schedule();
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let input = self.next;
        self.next = (self.next + 1) % self.ports;
        self.empty = if self.take(cx, input) { 0 } else { (self.empty + 1).min(self.ports) };
        if (0..self.ports).any(|port| cx.may_pull(port)) {
            cx.schedule();
        }
        // The engine takes a run without work as a sign that no input has packets. So the run counts as work
        // until all inputs in a row were empty.
        self.empty < self.ports
    }

    element::keeps!(packets);
}

const HANDLERS: &[Handler<RoundRobinUnqueue>] = &[Handler::count("packets", |e| e.packets)];
