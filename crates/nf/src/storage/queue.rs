//! # Queue
//! Stores packets between a push path and a pull path, first in, first out.
//!
//! A packet that finds the queue full goes to output 1, or is dropped. Elements that pull from the queue sleep
//! while it is empty, and sources that push into it can see when it is full.
//!
//! ## Usage
//! `Queue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY`: most packets.
//! - `BLOCKING`, `NOUSELESS`: accepted for FastClick's sake, without effect.
//!
//! ## Handlers
//! - `length`: packets in the queue.
//! - `highwater_length`: most packets that were ever in it.
//! - `capacity`: most packets. Writing a smaller number drops the youngest packets that do not fit.
//! - `drops`: packets that found it full.
//! - `reset_counts`: sets drops to zero and the high water mark to the length.
//! - `reset`: empties the queue.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> q :: Queue(50) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Unqueue

use std::any::Any;
use std::collections::VecDeque;

use element::args::Arg;
use element::class::{ArgInfo, HandlerInfo, Notes};
use element::effects::{Case, Filter, Hold, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, Signal, manual};
use packet::BATCH_CAPACITY;

/// The class.
pub static CLASS: Class = Class {
    name: "Queue",
    aliases: &["FullNoteQueue", "ThreadSafeQueue"],
    ports: "1/1-2",
    processing: "h/lh",
    manual: manual!("queue.rs"),
    args: &[
        ArgInfo::positional("CAPACITY", "unsigned", "1000"),
        ArgInfo::keyword("BLOCKING", "bool", "false"),
        ArgInfo::keyword("NOUSELESS", "bool", "false"),
    ],
    handlers: &[
        HandlerInfo::read("length"),
        HandlerInfo::read("highwater_length"),
        HandlerInfo::both("capacity"),
        HandlerInfo::read("drops"),
        HandlerInfo::write("reset_counts"),
        HandlerInfo::write("reset"),
    ],
    notes: Notes { signals_packets: true, signals_room: true, ..Notes::NONE },
    samples: &["", "3 -> 1/2", "0"],
    build: |args| {
        let capacity = args.or("CAPACITY", 1000u32) as usize;
        args.or("BLOCKING", false);
        args.or("NOUSELESS", false);
        args.finish()?;
        Ok(Box::new(Queue { packets: VecDeque::new(), capacity, highwater: 0, drops: 0, fruitless: 0 }))
    },
    ..Class::DEFAULT
};

/// Pulls in vain after which the queue says that it is empty; saying so at once would send pullers to sleep and
/// wake them again for every short gap.
const PATIENCE: u32 = 10;

struct Queue {
    packets: VecDeque<Packet>,
    capacity: usize,
    highwater: usize,
    drops: u64,
    /// Pulls in vain since the last packet.
    fruitless: u32,
}

impl Queue {
    #[cold]
    fn overflow(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.drops == 0 && self.capacity > 0 {
            let declaration = cx.declaration();
            cx.message(format_args!("{declaration}: overflow\n"));
        }
        self.drops += 1;
        cx.emit_one(1, packet, DropReason::QueueFull);
    }

    /// Empties the queue down to a length, youngest packets first.
    fn shorten(&mut self, cx: &mut Cx<'_>, length: usize, reason: DropReason) {
        while self.packets.len() > length {
            let Some(packet) = self.packets.pop_back() else { return };
            cx.drop(packet, reason);
        }
    }
}

impl Element for Queue {
    fn effects(&self) -> Effects {
        let full = Filter::Opaque { about: "queue full", reads: Vec::new() };
        Effects {
            hold: Hold::Fifo { may_drop: true },
            ..Effects::cases(vec![
                Case::new(full, Target::Output(1)),
                Case::new(Filter::Any, Target::Hold(0)),
            ])
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            if self.packets.len() < self.capacity {
                self.packets.push_back(packet);
            } else {
                self.overflow(cx, packet);
            }
        }
        cx.recycle(batch);
        self.highwater = self.highwater.max(self.packets.len());
        if !self.packets.is_empty() {
            self.fruitless = 0;
            cx.set_signal(Signal::Packets, true);
        }
        if self.packets.len() >= self.capacity {
            cx.set_signal(Signal::Room, false);
        }
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let mut batch = cx.batch();
        let n = max.min(self.packets.len()).min(BATCH_CAPACITY);
        for packet in self.packets.drain(..n) {
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::QueueFull);
            }
        }
        if n > 0 {
            self.fruitless = 0;
            cx.set_signal(Signal::Room, true);
        } else {
            self.fruitless += 1;
            if self.fruitless == PATIENCE {
                cx.set_signal(Signal::Packets, false);
            }
        }
        batch
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.shorten(cx, 0, DropReason::Stop);
    }

    fn held(&self) -> usize {
        self.packets.len()
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(match name {
            "length" => self.packets.len().to_string(),
            "highwater_length" => self.highwater.to_string(),
            "capacity" => self.capacity.to_string(),
            _ => self.drops.to_string(),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        match name {
            "capacity" => {
                let capacity = u32::parse(value, &cx.place()).map_err(|e| format!("CAPACITY: {e}"))?;
                self.capacity = capacity as usize;
                self.shorten(cx, self.capacity, DropReason::Reset);
                cx.set_signal(Signal::Room, self.packets.len() < self.capacity);
            }
            "reset" => {
                while let Some(packet) = self.packets.pop_front() {
                    cx.emit_one(1, packet, DropReason::Reset);
                }
                cx.set_signal(Signal::Room, self.capacity > 0);
            }
            _ => (self.drops, self.highwater) = (0, self.packets.len()),
        }
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(std::mem::take(&mut self.packets)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let mut packets: VecDeque<Packet> = *state.downcast().map_err(|_| "not the state of a Queue")?;
        let lost = packets.len().saturating_sub(self.capacity.saturating_sub(self.packets.len()));
        for packet in packets.drain(packets.len() - lost..) {
            cx.drop(packet, DropReason::QueueFull);
        }
        packets.append(&mut self.packets);
        self.packets = packets;
        cx.set_signal(Signal::Packets, true);
        Ok(())
    }
}
