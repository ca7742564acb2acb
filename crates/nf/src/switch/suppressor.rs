//! # Suppressor
//! Passes packets from each input to the output of the same number, and drops the packets of inputs that are
//! suppressed.
//!
//! In a pull path, packets of a suppressed input are not pulled. Each input has a handler (`active0`,
//! `active1` and so on), which reads or sets if its packets pass. At the start, the packets of all inputs
//! pass.
//!
//! ## Usage
//! `Suppressor([IGNORED, ...])`
//!
//! ## Arguments
//! - `IGNORED`: any text is accepted, without effect, as in Click.
//!
//! ## Handlers
//! - `reset`: lets the packets of all inputs pass.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: Suppressor -> Discard; DriverManager(write s.active0 false, wait)
//! ```
//!
//! ## See also
//! Switch, PullSwitch, RandomSample

use element::args::parse_bool;
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};

/// The element class `Suppressor`.
pub static CLASS: Class = Class {
    name: "Suppressor",
    ports: "-/=",
    flow: "#/#",
    manual: manual!("suppressor.rs"),
    args: &[ArgInfo::rest("IGNORED", "any text")],
    table: &HANDLERS,
    samples: &["-> 1/1", "-> 3/3", "active0 false -> 1/1"],
    build: |args| {
        args.each_of_rest(|_, _, _| ());
        args.finish()?;
        Ok(Box::new(Suppressor { passes: vec![true; args.inputs()] }))
    },
    ..Class::DEFAULT
};

struct Suppressor {
    /// For each input: true if its packets pass.
    passes: Vec<bool>,
}

impl Suppressor {
    fn passes(&self, port: usize) -> bool {
        self.passes.get(port).copied().unwrap_or_default()
    }
}

impl Element for Suppressor {
    fn effects(&self) -> Effects {
        let suppressed = Filter::Leaf(Predicate::Opaque { about: "the handlers", reads: Vec::new() });
        let cases = (0..self.passes.len()).flat_map(|port| {
            [
                Case::new(suppressed.clone(), Target::Drop(DropReason::Inactive)).on(port),
                Case::new(Filter::TRUE, Target::Output(port)).on(port),
            ]
        });
        Effects::cases(cases.collect()).depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        if self.passes(port) {
            return cx.pass_on(port, batch);
        }
        cx.drop_all(batch, DropReason::Inactive);
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        if self.passes(port) { cx.pull(port, max) } else { cx.batch() }
    }
}

const HANDLERS: &[Handler<Suppressor>] = &[
    Handler::numbered(
        "active",
        |e| e.passes.len(),
        |e, _, port| e.passes(port).to_string(),
        |e, _, port, value| {
            let passes = parse_bool(value).ok_or("type mismatch")?;
            e.passes.get_mut(port).into_iter().for_each(|one| *one = passes);
            Ok(())
        },
    ),
    Handler::act("reset", |e| e.passes.fill(true)),
];
