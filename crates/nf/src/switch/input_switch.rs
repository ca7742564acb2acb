//! # InputSwitch
//! Passes the packets of one input, which a handler can change, and drops the packets of all others.
//!
//! ## Usage
//! `InputSwitch([INPUT])`
//!
//! ## Arguments
//! - `OUTPUT`: the number of the input, despite its name, which is FastClick's; a negative number drops all
//!   packets.
//!
//! ## Handlers
//! - `switch`: the number of the input, or a negative number. Writing a number that is too large sets -1.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> s :: InputSwitch(1) -> Discard; InfiniteSource(LIMIT 1) -> [1] s
//! ```
//!
//! ## See also
//! Switch, PullSwitch, Suppressor

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};

/// The element class `InputSwitch`.
pub static CLASS: Class = Class {
    name: "InputSwitch",
    ports: "-/1",
    processing: "h/h",
    manual: manual!("input_switch.rs"),
    args: &[ArgInfo::positional("OUTPUT", "int", "0")],
    table: &HANDLERS,
    samples: &[" -> 1/1", "1 -> 3/1", "-1 -> 2/1"],
    reconfigures: true,
    build: |args| {
        let chosen = args.value::<i32>("OUTPUT");
        let inputs = args.inputs();
        if chosen >= inputs as i32 {
            args.error(format!("input must be < {inputs}"));
        }
        args.finish()?;
        Ok(Box::new(InputSwitch { chosen, inputs }))
    },
    ..Class::DEFAULT
};

struct InputSwitch {
    /// The number of the input whose packets pass; negative to drop all packets.
    chosen: i32,
    inputs: usize,
}

impl Element for InputSwitch {
    fn effects(&self) -> Effects {
        let closed = Filter::Leaf(Predicate::Opaque { about: "the handler", reads: Vec::new() });
        let cases = vec![
            Case::new(closed, Target::Drop(DropReason::Inactive)),
            Case::new(Filter::TRUE, Target::Output(0)),
        ];
        Effects::cases(cases).depending_on(Depends::Handler)
    }

    fn configuration(&self) -> Option<String> {
        Some(self.chosen.to_string())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        if usize::try_from(self.chosen) == Ok(port) {
            return Some(batch);
        }
        cx.drop_all(batch, DropReason::Inactive);
        None
    }
}

const HANDLERS: &[Handler<InputSwitch>] = &[Handler::argument(
    "switch",
    "OUTPUT",
    |e| e.chosen.to_string(),
    |e, cx, value| {
        let chosen = i32::parse(value, &cx.place()).map_err(|_| "InputSwitch input must be integer")?;
        e.chosen = if chosen >= e.inputs as i32 { -1 } else { chosen };
        Ok(())
    },
)];
