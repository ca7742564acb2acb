//! The source of a flood, which looks at the memory of the process while it sends.

use std::time::{Duration, Instant};

use element::class::{ArgInfo, HandlerInfo, Notes};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet};
use trace::flood::Flood;

/// Parts of the time at whose ends memory is looked at, in percent.
pub(super) const PARTS: [u32; 3] = [10, 50, 100];
/// All floods are of this seed.
const SEED: u64 = 7;

/// Sends frames of a flood as fast as they are taken: so many to fill the table, and then for so long.
pub(crate) static FLOOD: Class = Class {
    name: "BenchmarkFlood",
    ports: "0/1",
    processing: "h/h",
    args: &[
        ArgInfo::required("KIND", "unsigned"),
        ArgInfo::required("FILL", "unsigned"),
        ArgInfo::required("MILLISECONDS", "unsigned"),
        ArgInfo::required("UNDER_WAY", "unsigned"),
    ],
    handlers: &[HandlerInfo::read("seen")],
    notes: Notes::TASK,
    build: |args| {
        let kind: usize = args.required("KIND");
        let (fill, milliseconds) = (args.required("FILL"), args.required("MILLISECONDS"));
        let under_way = args.required("UNDER_WAY");
        args.finish()?;
        let kind = Flood::ALL.get(kind).copied().unwrap_or(Flood::Udp);
        let time = Duration::from_millis(milliseconds);
        Ok(Box::new(Source {
            kind,
            fill,
            time,
            sent: 0,
            begun: 0,
            started: None,
            resident: Vec::with_capacity(4),
            pool: Vec::with_capacity(under_way),
        }))
    },
    ..Class::DEFAULT
};

struct Source {
    kind: Flood,
    /// Frames before time counts.
    fill: u64,
    time: Duration,
    sent: u64,
    /// Those that were sent when time began to count.
    begun: u64,
    started: Option<Instant>,
    /// Bytes of memory at the start and at the end of each part.
    resident: Vec<u64>,
    /// Those that memory has been touched for at the start.
    pool: Vec<Packet>,
}

impl Element for Source {
    fn effects(&self) -> Effects {
        Effects::source("flood")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // Packets of the pool that are under way are no part of the table.
        for _ in 0..self.pool.capacity() {
            let Some(packet) = cx.packet(&self.kind.frame(SEED, 0)) else { break };
            self.pool.push(packet);
        }
        for packet in self.pool.drain(..) {
            cx.drop(packet, DropReason::Discard);
        }
        self.resident.push(resident());
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch: Batch = cx.batch();
        // Where packets are held, the source waits for room.
        while batch.len() < cx.burst() && cx.has_room() {
            let Some(packet) = cx.packet(&self.kind.frame(SEED, self.sent)) else { break };
            self.sent += 1;
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        // Where all packets are held, the table has what it can have.
        let is_starved = batch.is_empty();
        cx.emit(0, batch);
        cx.schedule();
        if self.sent < self.fill && !is_starved && self.started.is_none() {
            return true;
        }
        let (sent, begun) = (self.sent, &mut self.begun);
        let passed = self.started.get_or_insert_with(|| {
            *begun = sent;
            Instant::now()
        });
        let passed = passed.elapsed();
        while let Some(&part) = PARTS.get(self.resident.len() - 1)
            && passed >= self.time * part / 100
        {
            self.resident.push(resident());
        }
        if self.resident.len() > PARTS.len() {
            cx.unschedule();
            cx.stop();
        }
        true
    }

    /// Frames sent, those of them in the time that counts, and memory.
    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        let memory: Vec<String> = self.resident.iter().map(u64::to_string).collect();
        Ok(format!("{} {} {}", self.sent, self.sent - self.begun, memory.join(" ")))
    }
}

/// Memory of this process in bytes, where Linux tells.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
