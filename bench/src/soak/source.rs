//! The source that sends the frames of a flood, and that records the memory of the process while it sends.

use std::time::{Duration, Instant};

use element::class::{ArgInfo, Notes};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet};
use trace::flood::Flood;

/// The percentages of the time with a full table after which memory is measured.
pub(super) const PARTS: [u32; 3] = [10, 50, 100];
/// The seed of all floods, so that each run sends the same frames.
const SEED: u64 = 7;

/// The class of a source that sends the frames of flood number KIND as fast as they are taken: first FILL
/// frames to fill the table, then further frames for MILLISECONDS. At the start, it touches the memory of
/// UNDER_WAY packets.
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
    table: &HANDLERS,
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
    /// The number of frames to send before the time with a full table, which is measured, begins.
    fill: u64,
    time: Duration,
    sent: u64,
    /// The number of frames that had been sent when the time with a full table began.
    begun: u64,
    started: Option<Instant>,
    /// The resident memory in bytes: at the start, and after each percentage in `PARTS`.
    resident: Vec<u64>,
    /// The packets whose memory is touched at the start; empty afterwards.
    pool: Vec<Packet>,
}

impl Element for Source {
    fn effects(&self) -> Effects {
        Effects::source("flood")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // Touches the memory of packets before the first measurement, so that this memory does not count as
        // memory of the table.
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
        // If elements hold packets, the source waits until the pool has room.
        while batch.len() < cx.burst() && cx.has_room() {
            let Some(packet) = cx.packet(&self.kind.frame(SEED, self.sent)) else { break };
            self.sent += 1;
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        // If no packet is available because elements hold all of them, the table cannot become fuller. So the
        // measured time begins, as if `fill` frames had been sent.
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
}

const HANDLERS: &[Handler<Source>] = &[
    // The handler reports the number of frames sent, the number of frames sent in the measured time, and the
    // recorded amounts of resident memory in bytes.
    Handler::get("seen", |e| {
        let memory: Vec<String> = e.resident.iter().map(u64::to_string).collect();
        format!("{} {} {}", e.sent, e.sent - e.begun, memory.join(" "))
    }),
];

/// Returns the resident memory of this process in bytes; 0 if the system does not report it.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
