//! Tests of putting programs in again after elements have changed: what workers do if a program does not fit,
//! and which changes count.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use element::args::{ElementRef, Raw};
use element::class::ArgInfo;
use element::{Batch, Call, Class, Cx, Effects, Element, ElementId, Handler};
use engine::{ClockKind, Declarations, Options, Plan, Programs, Recomposer, Workers};

use crate::hotconfig::Lines;
use crate::stand_ins::write_capture;

/// The class `TestProgram(FAILS_AT, ELEMENT)`: passes packets on to the element that it acts for. Its
/// initialisation fails at the worker FAILS_AT; -1 is no worker. The handler `outdated` counts the elements
/// that have changed.
static PROGRAM: Class = Class {
    name: "TestProgram",
    args: &[ArgInfo::required("FAILS_AT", "int"), ArgInfo::required("ELEMENT", "element")],
    table: &OF_PROGRAM,
    build: |args| {
        let fails_at: i32 = args.required("FAILS_AT");
        let ElementRef(acts_for) = args.required("ELEMENT");
        args.finish()?;
        Ok(Box::new(Program { fails_at, acts_for, outdated: 0 }))
    },
    ..Class::DEFAULT
};

struct Program {
    fails_at: i32,
    acts_for: ElementId,
    outdated: u64,
}

impl Element for Program {
    fn effects(&self) -> Effects {
        Effects { replaces: vec![self.acts_for], ..Effects::pass() }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        match i32::try_from(cx.worker().0) == Ok(self.fails_at) {
            true => Err("no room".into()),
            false => Ok(()),
        }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, _batch: &mut Batch) {}

    fn outdated(&mut self, _element: ElementId) {
        self.outdated += 1;
    }
}

const OF_PROGRAM: &[Handler<Program>] = &[Handler::count("outdated", |e| e.outdated)];

/// The class `TestPoker(CALL, BESIDE)`: writes a handler while it processes its first batch, and uses the
/// state of the element BESIDE. The handler `refused` counts calls that were refused.
static POKER: Class = Class {
    name: "TestPoker",
    args: &[ArgInfo::required("CALL", "handler"), ArgInfo::required("BESIDE", "element")],
    table: &OF_POKER,
    build: |args| {
        let Raw(text) = args.required("CALL");
        let ElementRef(beside) = args.required("BESIDE");
        args.finish()?;
        Ok(Box::new(Poker { text: Some(text), beside, refused: 0 }))
    },
    ..Class::DEFAULT
};

struct Poker {
    text: Option<String>,
    beside: ElementId,
    refused: u64,
}

impl Element for Poker {
    fn effects(&self) -> Effects {
        Effects { beside: vec![self.beside], ..Effects::pass() }.calling(true)
    }

    fn process(&mut self, cx: &mut Cx<'_>, _batch: &mut Batch) {
        if let Some(text) = self.text.take() {
            let call = Call::parse(&text, cx, |_| None).unwrap();
            self.refused += u64::from(cx.handlers().write(&call).is_err());
        }
    }
}

const OF_POKER: &[Handler<Poker>] = &[Handler::count("refused", |e| e.refused), Handler::act("poke", |_| ())];

/// The results of a run.
struct Outcome {
    /// The values of the handlers.
    values: Vec<String>,
    messages: String,
    /// The number of compositions.
    compositions: usize,
}

/// Runs packets of a capture through the elements `text` under the trace clock. Each composition gives the
/// program `s` the next one of `programs` as arguments; further compositions give it the last one.
fn run(workers: usize, text: &str, programs: &'static [&'static str], handlers: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    write_capture(&input);
    let (plan, copies) = build(&text.replace("INPUT", &shown(&input)), workers);
    let compositions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&compositions);
    let compose = move |_: &Declarations| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        let program = programs[number.min(programs.len() - 1)].to_string();
        Programs::from([("s".to_string(), Ok(program))])
    };
    let options = Options {
        clock: ClockKind::Trace,
        memory: workers * (64 << 20),
        recomposer: Some(Arc::new(Recomposer::new(Box::new(compose)))),
        ..Options::default()
    };
    let lines = Lines(Arc::new(Mutex::default()));
    let mut all = Workers::new(&plan, copies, Box::new(lines.clone()), options).unwrap();
    all.initialize().unwrap();
    all.run();
    let mut read = |name: &&str| {
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return all.read(None, "worker", name).unwrap();
        }
        let (element, handler) = name.split_once('.').unwrap();
        let id = all.plan().graph.find(element).unwrap();
        all.read(Some(id), handler, "").unwrap()
    };
    let values = handlers.iter().map(&mut read).collect();
    all.finish().unwrap();
    assert!(all.report().balances());
    let messages = lines.0.lock().unwrap().clone();
    Outcome { values, messages, compositions: compositions.load(Ordering::Relaxed) }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn build(text: &str, workers: usize) -> (Arc<Plan>, Vec<engine::Configured>) {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, diagnostics) = lang::parse(&mut sources, id, &lang::Options::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let registry = testkit::registry().with(&[&PROGRAM, &POKER]);
    let all =
        |problems: Vec<engine::Problem>| problems.iter().map(|p| p.render(&sources)).collect::<String>();
    let plan = Arc::new(Plan::new(graph, &registry).map_err(all).unwrap());
    let copies = plan.configure_all(None, workers, None).map_err(all).unwrap();
    (plan, copies)
}

const SOURCE: &str = "FromDump(INPUT, STOP true) -> MarkIPHeader(14) -> s :: TestProgram(-1, f)";

#[test]
fn a_program_that_does_not_fit_at_one_worker_is_reported() {
    let text = format!(
        "{SOURCE} -> f :: IPFilter(allow all) -> Discard; Script(wait 100ms, write f.config allow udp)"
    );
    let outdated = ["0 s.outdated", "1 s.outdated"];
    for (worker, expected) in [(0, ["1", "0"]), (1, ["0", "1"])] {
        let programs: &[&str] = if worker == 0 { &["0, f"] } else { &["1, f"] };
        let Outcome { values, messages, .. } = run(2, &text, programs, &outdated);
        assert_eq!(values, expected);
        let said = format!(
            "s: not put in at worker {worker}, where packets go through the elements until one of them changes \
             again: no room\n"
        );
        assert_eq!(messages, said);
    }
    // If the program fits at no worker, packets of all workers go through the elements.
    let Outcome { values, messages, .. } = run(1, &text, &["0, f"], &["s.outdated"]);
    assert_eq!(values, ["1"]);
    let said = "s: packets go through the elements until one of them changes again: no room\n";
    assert_eq!(messages, said);
    let Outcome { values, messages, .. } = run(2, &text, &["-1, f"], &outdated);
    assert_eq!((values.concat(), messages), ("00".to_string(), String::new()));
}

/// The second change, of `f`, makes a new composition, but the program that acts only for `g` is not
/// outdated. At worker 1, where the new program fails, this earlier program goes on.
#[test]
fn a_worker_that_keeps_an_earlier_program_is_reported() {
    let text = format!(
        "{SOURCE} -> f :: IPFilter(allow all) -> g :: Counter -> Discard;
         Script(wait 100ms, write f.config allow udp, wait 100ms, write f.config allow all)"
    );
    let handlers = ["0 s.outdated", "1 s.outdated", "0 s.config", "1 s.config"];
    let Outcome { values, messages, compositions } = run(2, &text, &["-1, g", "1, f"], &handlers);
    assert_eq!(values, ["0", "0", "1, f", "-1, g"]);
    assert_eq!(compositions, 2);
    let said = "s: not put in at worker 1, where an earlier program goes on until an element changes again: no room\n";
    assert_eq!(messages, said);
}

#[test]
fn a_call_that_is_refused_changes_nothing() {
    let text = SOURCE.replace(", f)", ", p)") + " -> p :: TestPoker(p.poke, h) -> h :: Counter -> Discard";
    let Outcome { values, compositions, .. } = run(1, &text, &["-1, p"], &["p.refused", "s.outdated"]);
    assert_eq!((values.concat().as_str(), compositions), ("10", 0));
}

/// The element is being called when it may have changed, so it has to be asked for its effects later,
/// although no further handler is written that would cause this.
#[test]
fn an_element_that_was_being_called_is_asked_later() {
    let text = SOURCE.replace(", f)", ", p)") + " -> p :: TestPoker(h.reset, h) -> h :: Counter -> Discard";
    for workers in [1, 2] {
        let handlers = ["p.refused", "s.outdated"];
        let Outcome { values, messages, compositions } = run(workers, &text, &["-1, p"], &handlers);
        assert_eq!((values.concat().as_str(), messages.as_str()), ("00", ""), "{workers}");
        assert!(compositions > 0);
    }
}
