//! # Switch
//! Sends all packets to one output, which a handler can change.
//!
//! ## Usage
//! `Switch([OUTPUT])`
//!
//! ## Arguments
//! - `OUTPUT`: the number of the output; a negative number drops all packets.
//!
//! ## Handlers
//! - `switch`: the number of the output, or a negative number. Writing a number that is too large sets -1.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: Switch(1); s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! StaticSwitch, PullSwitch, RoundRobinSwitch, StrideSwitch, HashSwitch, RandomSwitch

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Case, Counting, Depends, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};

/// The element class `Switch`.
pub static CLASS: Class = Class {
    name: "Switch",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("switch.rs"),
    args: &[ArgInfo::positional("OUTPUT", "int", "0")],
    table: &HANDLERS,
    samples: &[" -> 1/1", "1 -> 1/3", "-1 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let chosen = args.value::<i32>("OUTPUT");
        if chosen >= args.outputs() as i32 {
            args.error(format!("output must be < {}", args.outputs()));
        }
        args.finish()?;
        Ok(Box::new(Switch { chosen, outputs: args.outputs(), fixed: false }))
    },
    ..Class::DEFAULT
};

/// The element of the classes Switch and StaticSwitch.
pub(super) struct Switch {
    /// The number of the output for all packets; negative to drop them.
    pub(super) chosen: i32,
    pub(super) outputs: usize,
    /// True if no handler can change the output (StaticSwitch).
    pub(super) fixed: bool,
}

impl Element for Switch {
    fn effects(&self) -> Effects {
        if !self.fixed {
            let chosen = Case::new(Filter::TRUE, Target::SomeOutput);
            return Effects::cases(vec![chosen]).depending_on(Depends::Handler);
        }
        match usize::try_from(self.chosen) {
            Ok(output) => Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(output))]),
            Err(_) => Effects::drop(DropReason::NoOutput),
        }
        .counting(Counting::Tallied)
    }

    fn configuration(&self) -> Option<String> {
        (!self.fixed).then(|| self.chosen.to_string())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        match usize::try_from(self.chosen) {
            Ok(0) => return Some(batch),
            Ok(output) => cx.emit(output, batch),
            Err(_) => cx.drop_all(batch, DropReason::NoOutput),
        }
        None
    }
}

const HANDLERS: &[Handler<Switch>] = &[Handler::argument(
    "switch",
    "OUTPUT",
    |e| e.chosen.to_string(),
    |e, cx, value| {
        let chosen = i32::parse(value, &cx.place()).map_err(|_| "Switch output must be integer")?;
        e.chosen = if chosen >= e.outputs as i32 { -1 } else { chosen };
        Ok(())
    },
)];
