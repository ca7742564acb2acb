//! # DRRSched
//! Pulls from its inputs by deficit round robin, so that each input gets the same share of bytes.
//!
//! Each turn adds a quantum of bytes to an input's credit, and each packet takes its length from the
//! credit. The input keeps unused credit for as long as it has packets (Shreedhar and Varghese, SIGCOMM
//! 1995). A packet that is longer than its input's credit waits in the element for the next turns.
//!
//! ## Usage
//! `DRRSched([QUANTUM])`
//!
//! ## Arguments
//! - `QUANTUM`: the bytes that each turn adds to an input's credit.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> d :: DRRSched -> Discard;
//! InfiniteSource(LIMIT 5, LENGTH 700) -> Queue -> [1] d
//! ```
//!
//! ## See also
//! PrioSched, StrideSched, RoundRobinSched

use element::class::{ArgInfo, Notes};
use element::effects::{Case, Field, Filter, Hold, Support, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, Signal, manual};

use super::{collect, pull_one};

/// The element class `DRRSched`.
pub static CLASS: Class = Class {
    name: "DRRSched",
    ports: "-/1",
    processing: "l/l",
    manual: manual!("drr_sched.rs"),
    args: &[ArgInfo::positional("QUANTUM", "unsigned", "500")],
    notes: Notes { signals_packets: true, ..Notes::NONE },
    samples: &[" -> 1/1", "3000 -> 3/1"],
    build: |args| {
        let quantum = args.value::<u32>("QUANTUM");
        args.finish()?;
        if quantum == 0 {
            args.error("QUANTUM must be > 0");
        }
        args.finish()?;
        let inputs = (0..args.inputs()).map(|_| Input::default()).collect();
        Ok(Box::new(DrrSched { quantum: u64::from(quantum), inputs, next: 0 }))
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct Input {
    /// A packet that was pulled from the input, is longer than the input's credit, and waits until there is
    /// enough credit.
    head: Option<Packet>,
    /// The number of bytes that the input may still send in its current turn.
    credit: u64,
}

struct DrrSched {
    quantum: u64,
    inputs: Vec<Input>,
    /// The index of the input from which packets are pulled now, until its credit is used up.
    next: usize,
}

impl DrrSched {
    /// Returns the next packet, starting with the input whose turn it is. An input without a packet, or with
    /// a packet that is longer than its credit, ends its turn, and the next input gets a quantum. Returns
    /// `None` when all inputs have had a turn. The packet signal of the scheduler, which keeps elements that
    /// pull awake, then stays on only if a packet waits for credit or an input signals packets.
    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let mut active = false;
        for _ in 0..self.inputs.len() {
            let input = &mut self.inputs[self.next];
            let packet = match input.head.take() {
                Some(packet) => Some(packet),
                None if cx.may_pull(self.next) => {
                    active = true;
                    pull_one(cx, self.next)
                }
                None => None,
            };
            active |= packet.is_some();
            match packet {
                None => input.credit = 0,
                Some(packet) if cx.lengths().of(&packet) as u64 <= input.credit => {
                    input.credit -= cx.lengths().of(&packet) as u64;
                    cx.set_signal(Signal::Packets, true);
                    return Some(packet);
                }
                waiting => input.head = waiting,
            }
            self.next = (self.next + 1) % self.inputs.len();
            self.inputs[self.next].credit += self.quantum;
        }
        cx.set_signal(Signal::Packets, active);
        None
    }
}

impl Element for DrrSched {
    fn effects(&self) -> Effects {
        Effects {
            hold: Hold::Fifo { may_drop: false },
            support: Support { whole_length: true, ..Support::default() },
            ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Hold(0))])
        }
        .observing(&[Field::Length])
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        collect(cx, max, |cx| self.next_packet(cx))
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        for packet in self.inputs.iter_mut().filter_map(|input| input.head.take()) {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.inputs.iter().filter(|input| input.head.is_some()).count()
    }
}
