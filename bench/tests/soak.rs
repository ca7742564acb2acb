//! Tests of `bench::soak` on tables under floods: a table without a bound is detected, and each element class
//! with a bounded table has a case of the benchmark, or a reason to have none.

use std::collections::HashMap;

use bench::soak::{CASES, FloodCase, measure};
use element::class::ArgInfo;
use element::manual::Page;
use element::{Batch, Class, Cx, Effects, Element, Handler};

/// The class of an element that adds an entry for each packet and never removes one.
static LEAK: Class = Class {
    name: "Leak",
    args: &[ArgInfo::keyword("CAPACITY", "unsigned", "100")],
    table: &HANDLERS,
    build: |args| {
        args.value::<u32>("CAPACITY");
        args.finish()?;
        Ok(Box::new(Leak(HashMap::new())))
    },
    ..Class::DEFAULT
};

struct Leak(HashMap<u64, [u64; 32]>);

impl Element for Leak {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("it is a test"), ..Effects::pass() }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for _ in batch.iter() {
            let number = self.0.len() as u64;
            self.0.insert(number, [number; 32]);
        }
    }
}

const HANDLERS: &[Handler<Leak>] = &[Handler::get("count", |e| e.0.len().to_string())];

#[test]
fn a_table_without_a_bound_is_found() {
    let chain = "-> e :: Leak($bound) -> Discard";
    let leak = FloodCase {
        class: "Leak",
        bound: "CAPACITY",
        entries: "e.count",
        chain,
        bytes: 0,
        workers: 1,
        ..CASES[0]
    };
    let soaked = measure(&leak, 500, None, &[&LEAK]).unwrap();
    assert!(soaked.grows && soaked.verdict() == "grows", "{soaked:?}");
    assert_eq!(soaked.entries, Some(soaked.packets));
}

#[test]
fn a_bound_that_is_no_argument_is_refused() {
    let wrong = FloodCase { bound: "NONSENSE", ..CASES[0] };
    assert!(measure(&wrong, 1, Some(10), &[]).is_err());
}

/// Classes that have an argument that bounds their state, but no case of the benchmark `soak`, and the
/// reasons.
const LEFT_OUT: &[(&str, &str)] = &[
    ("SFMaker", "is a Reframer with FastClick's arguments"),
    ("FlowIPNAT", "has the table of IPRewriter"),
    ("FlowNAPTLoadBalancer", "has the table of IPRewriter"),
    ("FlowIPManager", "keeps nothing: elements downstream have tables of their own"),
    ("PayloadTable", "is filled by Slice; Slicer has one"),
    ("PriorityMarker", "keeps connections in a table of fixed size, of which none grows"),
    ("RandomPath", "holds packets in one array, as FlowDelay does"),
    ("StrictPriority", "holds packets in queues"),
    ("Pipeliner", "holds packets in a queue"),
    ("TimeSortedSched", "holds so many packets of each input"),
];

fn is_bound(argument: &str) -> bool {
    let word = argument.rsplit('_').next().unwrap_or_default();
    ["CAPACITY", "HIMEM", "MEMORY", "ENTRIES", "FLOWS", "BUFFER"].contains(&word)
}

fn classes() -> impl Iterator<Item = &'static Class> {
    let groups = [nf::CLASSES, device::CLASSES, reframer::CLASSES, juggler::CLASSES, slicer::CLASSES];
    // Sources have no inputs, so that no flood of packets can reach them.
    let is_source = |class: &Class| class.ports.starts_with("0/") && class.ports != "0/0";
    groups.into_iter().flatten().copied().filter(move |class| !is_source(class))
}

#[test]
fn each_class_with_a_bound_has_a_flood_or_a_reason() {
    let has_flood = |name| CASES.iter().any(|case| case.class == name);
    let has_reason = |name| LEFT_OUT.iter().any(|&(class, _)| class == name);
    // Queues hold packets, whose memory is in the packet pool and so is bounded.
    let is_queue = |class: &Class| class.name.ends_with("Queue");
    let forgotten: Vec<_> = classes()
        .filter(|class| class.args.iter().any(|arg| is_bound(arg.name)) && !is_queue(class))
        .filter(|class| has_flood(class.name) == has_reason(class.name))
        .map(|class| class.name)
        .collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}

/// Checks that docs/memory.md has a row with the default bound for the class of each case, and that the
/// class's manual page describes the argument that sets the bound.
#[test]
fn documents_say_what_is_there_by_default() {
    let document = include_str!("../../docs/memory.md");
    for case in CASES {
        let class = classes().find(|class| class.name == case.class).unwrap();
        let default = class.arg(case.bound).unwrap().default.text().unwrap();
        let row = format!("| {} | {} | {default} |", case.class, case.bound);
        assert!(document.contains(&row), "docs/memory.md has no row\n{row}");
        let arguments = Page::parse(class.manual).items("Arguments");
        let said =
            arguments.iter().find(|(name, _)| name.contains(case.bound)).map(|(_, text)| text.as_str());
        let said = said.unwrap_or_default();
        let says = ["bytes", "slot", "as for PayloadTable", "as in EtherSwitch"];
        assert!(says.iter().any(|words| said.contains(words)), "{} {}: {said}", case.class, case.bound);
    }
}
