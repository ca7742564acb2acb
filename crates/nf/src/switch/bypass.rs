//! # Bypass
//! Sends packets along a path, or along a second path while a handler says so.
//!
//! With push ports, packets of input 0 leave by output 0 or, while ACTIVE is true and there is an output 1,
//! by output 1. Packets of input 1 always leave by output 0: the second path can end there. With pull ports,
//! packets are pulled from input 0 or, while ACTIVE is true and there is an input 1, from input 1. Output 1
//! cannot be pulled from: an element cannot be pulled from while it pulls, so the second path of a pull path
//! must begin at another element, such as a PullTee or a Queue of its own.
//!
//! ## Usage
//! `Bypass([ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `ACTIVE`: if true, packets take the second path.
//! - `INLINE`: accepted, without effect. In Click it says that connections are not changed at run time; here
//!   they never are.
//!
//! ## Handlers
//! - `active`: true while packets take the second path.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5) -> b :: Bypass -> Discard; b[1] -> Print(second) -> [1] b;
//! DriverManager(write b.active true, wait)
//! ```
//!
//! ## See also
//! Switch, PullSwitch, Null

use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Predicate, Target};
use element::{Batch, Class, Cx, Effects, Element, Handler, manual};

/// The element class `Bypass`.
pub static CLASS: Class = Class {
    name: "Bypass",
    ports: "1-2/1-2",
    processing: "a/ah",
    flow: "xy/[xy]x",
    manual: manual!("bypass.rs"),
    args: &[ArgInfo::positional("ACTIVE", "bool", "false"), ArgInfo::keyword("INLINE", "bool", "false")],
    table: &HANDLERS,
    samples: &["", "true", "true -> 2/2", "-> 1/2", "true, INLINE true -> 2/1"],
    reconfigures: true,
    build: |args| {
        let active = args.value("ACTIVE");
        args.value::<bool>("INLINE");
        let (inputs, outputs) = (args.inputs(), args.outputs());
        args.finish()?;
        Ok(Box::new(Bypass { active, inputs, outputs }))
    },
    ..Class::DEFAULT
};

struct Bypass {
    active: bool,
    inputs: usize,
    outputs: usize,
}

impl Element for Bypass {
    fn effects(&self) -> Effects {
        let second = Filter::Leaf(Predicate::Opaque { about: "the handler", reads: Vec::new() });
        let mut cases = vec![Case::new(Filter::TRUE, Target::Output(0)).on(1)];
        cases.extend((self.outputs > 1).then(|| Case::new(second, Target::Output(1)).on(0)));
        cases.push(Case::new(Filter::TRUE, Target::Output(0)).on(0));
        Effects::cases(cases).depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        let second = self.active && port == 0 && self.outputs > 1;
        cx.pass_on(usize::from(second), batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let second = self.active && port == 0 && self.inputs > 1;
        cx.pull(usize::from(second), max)
    }
}

const HANDLERS: &[Handler<Bypass>] = &[Handler::flag("active", |e| &mut e.active, "syntax error")];
