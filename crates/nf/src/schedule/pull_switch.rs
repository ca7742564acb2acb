//! # PullSwitch
//! Pulls from one input, which a handler chooses.
//!
//! Elements that pull from PullSwitch sleep while the chosen input has no packets.
//!
//! ## Usage
//! `PullSwitch([INPUT])`
//!
//! ## Arguments
//! - `INPUT`: the input; a negative number, or an input that does not exist, for no input.
//!
//! ## Handlers
//! - `switch`: the input, or -1 for no input.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> s :: PullSwitch -> Discard; InfiniteSource(LIMIT 5) -> Queue -> [1]
//! s; DriverManager(pause, write s.switch 1, pause)
//! ```
//!
//! ## See also
//! SimplePullSwitch, StaticPullSwitch, PrioSched, RoundRobinSched, StrideSched, Switch

use element::args::ArgType;
use element::class::{ArgInfo, Notes};
use element::effects::{Case, Depends, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Signal, manual};

/// The element class `PullSwitch`.
pub static CLASS: Class = Class {
    name: "PullSwitch",
    ports: "-/1",
    processing: "l/l",
    manual: manual!("pull_switch.rs"),
    args: &[ArgInfo::positional("INPUT", "int", "0")],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    samples: &[" -> 2/1", "1 -> 2/1", "-1 -> 1/1"],
    reconfigures: true,
    build: |args| {
        let chosen = args.value::<i32>("INPUT");
        args.finish()?;
        Ok(Box::new(PullSwitch::new(chosen, args.inputs(), true)))
    },
    ..Class::DEFAULT
};

/// Returns the effects of a switch that pulls from input `chosen` only. Packets of other inputs stay upstream
/// until the end of the run, and are then dropped; so they are declared as dropped for the reason `Stop`.
pub(super) fn pulls_from(chosen: Option<usize>) -> Effects {
    let passes = chosen.map(|input| Case::new(Filter::TRUE, Target::Output(0)).on(input));
    let stays = Case::new(Filter::TRUE, Target::Drop(DropReason::Stop));
    Effects::cases(passes.into_iter().chain([stays]).collect())
}

/// The element of the classes PullSwitch and SimplePullSwitch.
pub(super) struct PullSwitch {
    chosen: Option<usize>,
    inputs: usize,
    /// True for PullSwitch: it has a signal of its own, which is on if the chosen input may have packets.
    /// False for SimplePullSwitch: elements that pull see the signals of all inputs.
    signals: bool,
}

impl PullSwitch {
    pub(super) fn new(chosen: i32, inputs: usize, signals: bool) -> PullSwitch {
        let mut switch = PullSwitch { chosen: None, inputs, signals };
        switch.choose(chosen);
        switch
    }

    fn choose(&mut self, input: i32) {
        self.chosen = usize::try_from(input).ok().filter(|&n| n < self.inputs);
    }

    /// Returns the number of the chosen input as text; -1 if packets are pulled from no input.
    fn shown(&self) -> String {
        self.chosen.map_or("-1".into(), |input| input.to_string())
    }

    fn tell(&self, cx: &mut Cx<'_>) {
        if self.signals {
            cx.set_signal(Signal::Packets, self.chosen.is_some_and(|input| cx.may_pull(input)));
        }
    }
}

impl Element for PullSwitch {
    fn effects(&self) -> Effects {
        pulls_from(self.chosen).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.tell(cx);
        Ok(())
    }

    fn configuration(&self) -> Option<String> {
        Some(self.shown())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let batch = match self.chosen {
            Some(input) => cx.pull(input, max),
            None => cx.batch(),
        };
        if batch.is_empty() {
            self.tell(cx);
        }
        batch
    }
}

pub(super) const HANDLERS: &[Handler<PullSwitch>] =
    &[Handler::argument("switch", "INPUT", PullSwitch::shown, |e, cx, value| {
        let input = i32::parse(value, &cx.place()).map_err(|_| "syntax error")?;
        e.choose(input);
        e.tell(cx);
        Ok(())
    })];
