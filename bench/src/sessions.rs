//! Sessions of an IPRewriter that are created, expire, and are created again, to measure their memory and
//! to check that all ports are released.

use std::time::Instant;

use element::class::{Notes, Task};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Timestamp};
use engine::{ClockKind, Options, Worker};

use crate::runner::running_with;
use crate::soak::resident;
use crate::source;

/// The number of ports that the IPRewriter may use. With as many flows to one server, each port is used
/// once.
const PORTS: usize = 65_535 - 1024 + 1;

const CHAIN: &str =
    "-> MarkIPHeader(14) -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, UDP_TIMEOUT 600,
    REAP_INTERVAL 60) -> Discard";

/// The state of the IPRewriter after a phase of the measurement.
#[derive(Clone, Debug)]
pub struct SessionPhase {
    /// The name of the phase, such as "created" or "expired".
    pub name: &'static str,
    /// The number of sessions after the phase.
    pub sessions: usize,
    /// The number of flows so far for which no session could be created.
    pub failures: usize,
    /// The wall-clock duration of the phase in seconds.
    pub seconds: f64,
    /// The resident memory of the process in MiB; 0 if the system does not report it.
    pub resident: usize,
}

/// Opens 64,512 flows to each of `servers` servers, one for each port that the IPRewriter may use; lets all
/// sessions expire; and repeats both phases. Returns the state at the start and after each phase.
///
/// # Errors
/// If the worker cannot be created or driven.
pub fn measure_sessions(servers: usize) -> Result<Vec<SessionPhase>, String> {
    let start = Timestamp::from_secs(1_000_000_000);
    let clock = ClockKind::Simulated { start, tick: Timestamp(1_000_000) };
    let text = format!("flows :: BenchmarkFlows({servers}) {CHAIN}");
    let mut worker = running_with(&[&FLOWS], text, Options { clock, ..Options::default() })?;
    let mut phases = vec![phase(&mut worker, "start", Instant::now())?];
    for names in [["created", "expired"], ["created again", "expired again"]] {
        let since = Instant::now();
        call(&mut worker, "flows.again")?;
        while worker.step(256) {}
        phases.push(phase(&mut worker, names[0], since)?);
        let since = Instant::now();
        // The simulated clock advances with each reading, so steps of the worker without packets let time
        // pass until all sessions expire.
        for _ in 0..700_000 {
            worker.step(1);
        }
        phases.push(phase(&mut worker, names[1], since)?);
    }
    worker.finish().map_err(|errors| errors.join("; "))?;
    Ok(phases)
}

fn phase(worker: &mut Worker, name: &'static str, since: Instant) -> Result<SessionPhase, String> {
    let nat = worker.plan().graph.find("nat");
    let mut number = |handler| {
        let text = worker.read(nat, handler, "")?;
        text.trim().parse().map_err(|_| format!("{handler}: {text}"))
    };
    let (sessions, failures) = (number("size")?, number("mapping_failures")?);
    let resident = (resident() >> 20) as usize;
    Ok(SessionPhase { name, sessions, failures, seconds: since.elapsed().as_secs_f64(), resident })
}

fn call(worker: &mut Worker, handler: &str) -> Result<(), String> {
    let (element, handler) = handler.split_once('.').ok_or("no handler")?;
    let id = worker.plan().graph.find(element);
    worker.write(id, handler, "")
}

/// The class of a source that, on each write to handler `again`, sends one packet of each flow: 64,512
/// flows to each of SERVERS servers.
pub(crate) static FLOWS: Class = Class {
    name: "BenchmarkFlows",
    ports: "0/1",
    processing: "h/h",
    args: &[element::class::ArgInfo::required("SERVERS", "unsigned")],
    table: &HANDLERS,
    notes: Notes { task: Task::WherePushing, ..Notes::NONE },
    build: |args| {
        let servers = args.required("SERVERS");
        args.finish()?;
        Ok(Box::new(Flows { servers, next: usize::MAX, frame: source::frame(0, 1, 64) }))
    },
    ..Class::DEFAULT
};

struct Flows {
    servers: usize,
    next: usize,
    frame: Vec<u8>,
}

impl Flows {
    fn fill(&mut self, cx: &mut Cx<'_>) -> Batch {
        let mut batch = cx.batch();
        while self.next < self.servers * PORTS && batch.len() < cx.burst() {
            // Consecutive flows have different servers. The source port is outside of the IPRewriter's
            // range of ports, so that no flow can keep its port.
            let (server, host) = (self.next % self.servers, self.next / self.servers);
            self.next += 1;
            let bytes = &mut self.frame;
            bytes[26..30].copy_from_slice(&(0x0a00_0000 + host as u32).to_be_bytes());
            bytes[30..34].copy_from_slice(&(0x0b00_0000 + server as u32).to_be_bytes());
            bytes[34..36].copy_from_slice(&7u16.to_be_bytes());
            if let Some(packet) = cx.packet(bytes)
                && let Err(packet) = batch.push(packet)
            {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        batch
    }
}

impl Element for Flows {
    fn effects(&self) -> Effects {
        Effects::source("frame")
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let batch = self.fill(cx);
        let worked = !batch.is_empty();
        if worked {
            cx.emit(0, batch);
            cx.schedule();
        }
        worked
    }
}

const HANDLERS: &[Handler<Flows>] = &[Handler::set("again", |e, cx, _| {
    e.next = 0;
    cx.schedule();
    Ok(())
})];
