//! Tests of replacing the graph under load, on several workers: no packet is lost or overtaken by a packet of
//! its flow, and each flow goes on with its state.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use element::class::{ArgInfo, Notes};
use element::effects::{State, StateAccess, wire_field};
use element::{Args, Batch, Class, Cx, Effects, Element, Invalid};
use engine::{End, Options, Plan, RebuildRequest, Rebuilt, Requests, Workers};
use wire::{MacAddr, build::Builder};

use super::hotconfig::Lines;

/// The state that the elements of one test share, in all generations of the graph.
#[derive(Default)]
struct Shared {
    /// The number of graphs that have been built so far. `enough` is the number of built graphs at which the
    /// sources end.
    built: AtomicUsize,
    enough: AtomicUsize,
    sent: AtomicU64,
    faults: Mutex<Vec<String>>,
}

static TESTS: LazyLock<Mutex<HashMap<u64, Arc<Shared>>>> = LazyLock::new(Mutex::default);

fn shared(args: &mut Args<'_>) -> Result<Arc<Shared>, Invalid> {
    let test: u64 = args.required("TEST");
    args.finish()?;
    Ok(Arc::clone(TESTS.lock().unwrap().entry(test).or_default()))
}

/// The number of flows.
const FLOWS: usize = 50;

/// A source of packets of [`FLOWS`] flows. The payload has the number of the flow and of the packet in it.
/// The source ends when as many graphs have been built as the test asks for.
static NUMBERED: Class = Class {
    name: "TestNumbered",
    ports: "0/1",
    processing: "h",
    args: &[ArgInfo::required("TEST", "unsigned")],
    notes: Notes::TASK,
    build: |args| Ok(Box::new(Numbered { shared: shared(args)?, next: [0; FLOWS] })),
    ..Class::DEFAULT
};

struct Numbered {
    shared: Arc<Shared>,
    next: [u32; FLOWS],
}

impl Element for Numbered {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("numbered packets"), ..Effects::source("numbered packet") }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch = cx.batch();
        for _ in 0..32 {
            let flow = cx.random().between(0, FLOWS as u32 - 1) as usize;
            let source = ([10, 0, 0, flow as u8], 1024 + flow as u16).into();
            let frame = Builder::udp(source, ([192, 168, 0, 1], 53).into());
            let payload = [(flow as u32).to_be_bytes(), self.next[flow].to_be_bytes()].concat();
            let bytes = frame.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&payload).unwrap();
            if cx.has_room()
                && let Some(packet) = cx.packet(&bytes)
            {
                self.next[flow] += 1;
                self.shared.sent.fetch_add(1, Ordering::Relaxed);
                batch.push(packet).unwrap();
            }
        }
        cx.emit(0, batch);
        if self.shared.built.load(Ordering::Relaxed) < self.shared.enough.load(Ordering::Relaxed) {
            cx.schedule();
        }
        true
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.next))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        self.next = *state.downcast().map_err(|_| "not the state of a source")?;
        Ok(())
    }
}

/// Checks that the packets of each flow come in order, without a gap.
static IN_ORDER: Class = Class {
    name: "TestInOrder",
    args: &[ArgInfo::required("TEST", "unsigned")],
    build: |args| Ok(Box::new(InOrder { shared: shared(args)?, next: HashMap::new() })),
    ..Class::DEFAULT
};

struct InOrder {
    shared: Arc<Shared>,
    next: HashMap<u32, u32>,
}

impl Element for InOrder {
    fn effects(&self) -> Effects {
        let key = vec![wire_field::IP_SRC, wire_field::IP_DST, wire_field::SRC_PORT, wire_field::DST_PORT];
        let access = StateAccess::EveryPacket;
        let mut effects = Effects::pass();
        effects.state.push(State { table: "next numbers", key, both_directions: false, access });
        effects
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter() {
            let data = packet.data();
            let number = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
            let (flow, number) = (number(42), number(46));
            let next = self.next.entry(flow).or_insert(0);
            if number != *next {
                let mut faults = self.shared.faults.lock().unwrap();
                faults.push(format!("flow {flow}: {number} in place of {next}"));
            }
            *next = number + 1;
        }
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(std::mem::take(&mut self.next)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        self.next = *state.downcast().map_err(|_| "not the state of a check of order")?;
        Ok(())
    }
}

/// Passes packets on, and takes 30 milliseconds for every hundredth batch.
static BUSY: Class = Class {
    name: "TestBusy",
    build: |args| {
        args.finish()?;
        Ok(Box::new(Busy { batches: 0 }))
    },
    ..Class::DEFAULT
};

struct Busy {
    batches: u32,
}

impl Element for Busy {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, _cx: &mut Cx<'_>, _batch: &mut Batch) {
        self.batches += 1;
        if self.batches.is_multiple_of(100) {
            thread::sleep(Duration::from_millis(30));
        }
    }
}

fn build(text: &str, workers: usize) -> Result<(Arc<Plan>, Vec<engine::Configured>), String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let registry = testkit::registry().with(&[&NUMBERED, &IN_ORDER, &BUSY]);
    let all =
        |problems: Vec<engine::Problem>| problems.iter().map(|p| p.render(&sources)).collect::<String>();
    let plan = Arc::new(Plan::new(graph, &registry).map_err(all)?);
    let copies = plan.configure_all(None, workers, None).map_err(all)?;
    Ok((plan, copies))
}

/// Runs the texts in turn, each after a request to read the configuration again, until `reloads` graphs have
/// been built.
fn run(test: u64, workers: usize, reloads: usize, texts: &[&str]) -> Workers {
    let shared = Arc::new(Shared::default());
    shared.enough.store(reloads, Ordering::Relaxed);
    TESTS.lock().unwrap().insert(test, Arc::clone(&shared));
    let texts: Vec<String> = texts.iter().map(|text| text.replace("TEST", &test.to_string())).collect();
    let (plan, copies) = build(&texts[0], workers).unwrap();
    let flag = Arc::<AtomicBool>::default();
    let built = Arc::clone(&shared);
    let options = Options {
        memory: 256 << 20,
        requests: Requests { reload: Arc::clone(&flag), ..Requests::default() },
        rebuild: Some(Arc::new(move |request: &RebuildRequest| {
            assert_eq!(request.value, None);
            let number = built.built.fetch_add(1, Ordering::Relaxed) + 1;
            let text = &texts[number % texts.len()];
            let (plan, copies) = build(text, workers)?;
            let tell = Box::new(|problem: &engine::Problem| problem.render(&lang::Sources::new()));
            Ok(Rebuilt { plan, copies, text: text.clone(), tell, recomposer: None })
        })),
        ..Options::default()
    };
    let lines = Lines::default();
    let mut all = Workers::new(&plan, copies, Box::new(lines.clone()), options).unwrap();
    all.initialize().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let asks = thread::spawn({
        let over = Arc::clone(&over);
        move || {
            while !over.load(Ordering::Relaxed) {
                flag.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        }
    });
    assert_eq!(all.run(), End::Idle);
    over.store(true, Ordering::Relaxed);
    asks.join().unwrap();
    let count = all.plan().graph.find("c").unwrap();
    let counted: u64 = all.read(Some(count), "count", "").unwrap().parse().unwrap();
    let silence = all.read(None, "silence", "").unwrap();
    let mut times: Vec<Vec<f64>> =
        silence.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect();
    times.sort_by(|a, b| a[0].total_cmp(&b[0]));
    assert_eq!(times.len(), workers, "{silence}");
    for (worker, values) in times.iter().enumerate() {
        assert!(values[0] == worker as f64 && values[1] >= 1.0 && values[2] > 0.0, "{silence}");
    }
    all.finish().unwrap();
    let report = all.report();
    assert!(report.balances(), "{report:?}");
    let faults = shared.faults.lock().unwrap();
    let first = &faults[..faults.len().min(10)];
    assert!(faults.is_empty(), "{} faults: {first:?}; {:?}", faults.len(), report.totals);
    let sent = shared.sent.load(Ordering::Relaxed);
    assert_eq!((counted, report.totals.packets_in, report.totals.dropped), (sent, sent, sent));
    assert_eq!(report.totals.drops["discard"], sent, "{:?}", report.totals);
    let text = lines.0.lock().unwrap().clone();
    assert!(text.contains("the configuration has been replaced"), "{text}");
    assert!(!text.contains("hot-swapping"), "{text}");
    all
}

const PLAIN: &str = "s :: TestNumbered(TEST) -> m :: MarkIPHeader(14) -> o :: TestInOrder(TEST)
    -> c :: Counter -> Discard";
/// The elements `s`, `o` and `c` of `PLAIN`, with further elements between them that have no heir in `PLAIN`.
const OTHER: &str = "s :: TestNumbered(TEST) -> MarkIPHeader(14) -> Null
    -> o :: TestInOrder(TEST) -> k :: IPClassifier(src port & 1 == 0, -); k[0] -> c :: Counter -> Discard;
    k[1] -> Null -> c";

const QUEUE: &str = "s :: TestNumbered(TEST) -> MarkIPHeader(14) -> q :: Queue(1000000) -> Unqueue
    -> o :: TestInOrder(TEST) -> c :: Counter -> Discard";

#[test]
fn flows_go_on_in_order_while_graphs_are_replaced() {
    for (test, workers) in [(1, 1), (2, 2), (3, 4)] {
        run(test, workers, 40, &[PLAIN, OTHER]);
    }
}

#[test]
fn equal_graphs_replace_each_other() {
    run(4, 3, 40, &[PLAIN]);
    run(5, 3, 40, &[OTHER]);
    run(7, 1, 40, &[QUEUE]);
}

#[test]
fn an_element_moves_to_another_worker_with_its_state() {
    let first = &format!("{PLAIN}; StaticThreadSched(o 0, c 2)");
    let second = &format!("{PLAIN}; StaticThreadSched(o 2, c 1)");
    run(6, 3, 40, &[first, second]);
}

/// The other workers change over meanwhile, and their packets wait in rings until the busy worker has changed
/// over, too.
#[test]
fn a_worker_may_be_busy_for_long() {
    let busy = PLAIN.replace("-> o ::", "-> TestBusy -> o ::");
    run(8, 3, 20, &[&busy, OTHER]);
    run(9, 2, 20, &[&busy]);
}
