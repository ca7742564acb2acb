//! # TimeSortedSched
//! Merges its inputs by time stamp.
//!
//! Each pull gives the packet with the earliest time stamp among the next packets of all inputs. The
//! packets of each input are expected to be in the order of their time stamps.
//!
//! ## Usage
//! `TimeSortedSched([KEYWORDS])`
//!
//! ## Arguments
//! - `STOP`: if true, stops the driver when no packets wait in the element and no input signals packets.
//! - `BUFFER`: the number of packets of each input that wait in the element; with more than one, packets
//!   that are slightly out of order are put in order.
//!
//! ## Handlers
//! - `well_ordered`: true if all packets with time stamps have left in their order so far.
//!
//! ## Example
//! ```click
//! t :: TimeSortedSched(STOP true) -> Discard; InfiniteSource(LIMIT 5) -> Queue -> t;
//! InfiniteSource(LIMIT 5) -> Queue -> [1] t
//! ```
//!
//! ## See also
//! RoundRobinSched

use element::class::{ArgInfo, Notes};
use element::effects::{Case, Field, Filter, Hold, Order, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, Signal, Timestamp, manual};

use super::{collect, pull_one};

/// The element class `TimeSortedSched`.
pub static CLASS: Class = Class {
    name: "TimeSortedSched",
    ports: "-/1",
    processing: "l/l",
    manual: manual!("time_sorted_sched.rs"),
    args: &[ArgInfo::keyword("STOP", "bool", "false"), ArgInfo::keyword("BUFFER", "int", "1")],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    samples: &[" -> 1/1", "BUFFER 4, STOP true -> 3/1"],
    build: |args| {
        let stop = args.value::<bool>("STOP");
        let buffer = args.value::<i32>("BUFFER");
        if buffer <= 0 {
            args.error("BUFFER must be at least 1");
        }
        args.finish()?;
        let (inputs, buffer) = (args.inputs(), buffer as usize);
        Ok(Box::new(TimeSortedSched {
            // Reserve memory for at most 4096 packets; the heap grows if more packets wait.
            heap: Vec::with_capacity(inputs.saturating_mul(buffer).min(4096)),
            space: vec![buffer; inputs],
            open: (0..inputs).collect(),
            buffer,
            last: Timestamp::ZERO,
            stop,
            well_ordered: true,
        }))
    },
    ..Class::DEFAULT
};

struct TimeSortedSched {
    /// The waiting packets with the indices of their inputs: a binary heap, in which the packet with the
    /// earliest time stamp is first.
    heap: Vec<(Packet, usize)>,
    /// For each input, the number of packets that may still be pulled from it: BUFFER less the number of its
    /// packets that wait in the element.
    space: Vec<usize>,
    /// The indices of the inputs with `space` above 0, in no particular order.
    open: Vec<usize>,
    buffer: usize,
    last: Timestamp,
    stop: bool,
    well_ordered: bool,
}

impl TimeSortedSched {
    fn is_earlier(&self, a: usize, b: usize) -> bool {
        self.heap[a].0.time() < self.heap[b].0.time()
    }

    fn insert(&mut self, packet: Packet, input: usize) {
        self.heap.push((packet, input));
        let mut at = self.heap.len() - 1;
        while at > 0 && self.is_earlier(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn remove_first(&mut self) -> Option<(Packet, usize)> {
        if self.heap.is_empty() {
            return None;
        }
        let first = self.heap.swap_remove(0);
        let mut at = 0;
        loop {
            let mut earliest = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_earlier(child, earliest) {
                    earliest = child;
                }
            }
            if earliest == at {
                return Some(first);
            }
            self.heap.swap(at, earliest);
            at = earliest;
        }
    }

    /// Pulls from each input that has fewer than BUFFER packets waiting in the element, until it has BUFFER
    /// or gives no packet. Returns true if any of these inputs signals that it has packets.
    fn fill(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut active = false;
        for place in (0..self.open.len()).rev() {
            let input = self.open[place];
            if !cx.may_pull(input) {
                continue;
            }
            active = true;
            // If no memory can be reserved for another packet, further packets stay upstream.
            while self.heap.try_reserve(1).is_ok()
                && let Some(packet) = pull_one(cx, input)
            {
                self.insert(packet, input);
                self.space[input] -= 1;
                if self.space[input] == 0 {
                    self.open.swap_remove(place);
                    break;
                }
            }
        }
        active
    }

    fn next_packet(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let active = self.fill(cx);
        cx.set_signal(Signal::Packets, active || !self.heap.is_empty());
        let Some((packet, input)) = self.remove_first() else {
            if self.stop && !active {
                cx.stop();
            }
            return None;
        };
        if packet.time().is_set() {
            self.well_ordered &= !self.last.is_set() || packet.time() >= self.last;
            self.last = packet.time();
        }
        self.space[input] += 1;
        if self.space[input] == 1 {
            self.open.push(input);
        }
        Some(packet)
    }
}

impl Element for TimeSortedSched {
    fn effects(&self) -> Effects {
        let by_time =
            Filter::Leaf(Predicate::Opaque { about: "merged by time", reads: vec![Field::TimeStamp] });
        let order = if self.buffer > 1 { Order::MayReorder } else { Order::Keeps };
        Effects {
            hold: Hold::Fifo { may_drop: false },
            order,
            ..Effects::cases(vec![
                Case::new(by_time, Target::Hold(0)),
                Case::new(Filter::TRUE, Target::Hold(0)),
            ])
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        collect(cx, max, |cx| self.next_packet(cx))
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        while let Some((packet, _)) = self.heap.pop() {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.heap.len()
    }
}

const HANDLERS: &[Handler<TimeSortedSched>] =
    &[Handler::<TimeSortedSched>::get("well_ordered", |e| e.well_ordered.to_string()).least()];
