//! Tests of a start with several workers that fails: elements are closed only when no worker runs them any
//! more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use element::class::{Notes, Task};
use element::{Class, Cx, Effects, Element, Registry};
use engine::{ClockKind, Options, Plan, StandardStreams, Workers};

/// The number of runs of the poller. `RUNNING` is true during a run, `MEANWHILE` is true if an element was
/// closed during a run, and `CLOSED` is the number of elements closed.
static RUNS: AtomicUsize = AtomicUsize::new(0);
static RUNNING: AtomicBool = AtomicBool::new(false);
static MEANWHILE: AtomicBool = AtomicBool::new(false);
static CLOSED: AtomicUsize = AtomicUsize::new(0);

/// An element whose copies share state between workers, such as the queues of a network card.
struct Poller;

impl Element for Poller {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        RUNNING.store(true, Ordering::SeqCst);
        RUNS.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(20));
        RUNNING.store(false, Ordering::SeqCst);
        cx.schedule();
        true
    }

    fn close(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        CLOSED.fetch_add(1, Ordering::SeqCst);
        MEANWHILE.fetch_or(RUNNING.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(())
    }
}

/// An element whose copy on worker 0, which starts last, fails while the other worker is already running.
struct Failing;

impl Element for Failing {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.worker().0 > 0 {
            return Ok(());
        }
        for _ in 0..1000 {
            if RUNS.load(Ordering::SeqCst) > 1 {
                return Err("this fails".into());
            }
            sleep(Duration::from_millis(10));
        }
        Err("the other worker never begins".into())
    }
}

const NOTES: Notes = Notes { has_queues: true, is_live: true, ..Notes::NONE };

static POLLER: Class = Class {
    name: "Poller",
    ports: "0/1",
    processing: "h",
    notes: Notes { task: Task::Always, ..NOTES },
    build: |_| Ok(Box::new(Poller)),
    ..Class::DEFAULT
};

static FAILING: Class = Class {
    name: "Failing",
    ports: "1/0",
    processing: "h",
    notes: NOTES,
    build: |_| Ok(Box::new(Failing)),
    ..Class::DEFAULT
};

#[test]
fn nothing_is_closed_that_a_worker_still_uses() {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", "Poller -> Failing");
    let (graph, _) = lang::parse(&mut sources, id, &lang::Options::default());
    let registry = Registry::new().with(&[&POLLER, &FAILING]);
    let plan = Arc::new(Plan::new(graph, &registry).unwrap_or_else(|_| panic!()));
    let copies = plan.configure_all(Some(32), 2, None).unwrap_or_else(|_| panic!());
    let options = Options { clock: ClockKind::Real, memory: 256 << 20, ..Options::default() };
    let mut workers = Workers::new(&plan, copies, Box::new(StandardStreams::default()), options).unwrap();
    let problem = workers.initialize().unwrap_err();
    assert_eq!(problem.diagnostic.message, "this fails");
    assert_eq!(CLOSED.load(Ordering::SeqCst), 2, "both copies are closed");
    assert!(!MEANWHILE.load(Ordering::SeqCst), "closed while another worker used it");
}
