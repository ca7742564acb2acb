//! Execution of a script's instructions.
//!
//! A script is *activated* by an event: its timer, a handler, a packet, a signal of the operating system,
//! or a request to stop. It then executes instructions until it blocks or ends. A blocking instruction
//! waits for steps: the timer, the handler `step` and a request to stop give steps to the script.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use element::Cx;
use element::Severity;
use element::args::{parse_bool, parse_seconds};
use lang::args::unquote;

use super::Script;
use super::errors::{describe, in_context};
use super::expand::Mode;
use super::program::{Destination, Instruction, Kind, Print};

/// The maximum number of jumps in an activation, and of executions of the script within itself, together. A
/// script that exceeds it is ended, because it may be endless.
const MOST_JUMPS: u32 = 1000;
/// The maximum nesting of `$(...)` and of executions of a script within itself, together. Each level uses
/// stack space, and scripts that call other scripts multiply it.
const DEEPEST: u32 = 32;
/// The error text for calls that are nested too deeply.
pub(super) const TOO_DEEP: &str = "calls nested too deeply";
/// The status of a write handler that failed, for `$?`: C's `-EINVAL`, as in Click.
const FAILURE: i32 = -22;

/// The token of the timer, which ends waits for a time and starts scripts of type ACTIVE.
pub(super) const TIMER: u32 = 0;

/// The outcome of an activation: the reason for which execution has stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An instruction blocks: it waits for a step or for its time.
    Blocked,
    /// The script has ended with `end` or after its last instruction, or had ended before the event that
    /// activated it.
    End,
    /// The script has ended with `exit`; a packet is dropped.
    Exit,
    /// The script has ended with `stop`: the driver is asked to stop.
    Stop,
    /// The script has ended with this value.
    Return(String),
    /// The script has ended with this error text.
    Failed(String),
    /// The script was ended because it exceeded `MOST_JUMPS`.
    TooManyJumps,
}

/// The handler call for which a script runs. Its parts are the values of predefined variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    /// The parameter (of a read handler) or the value (of a write handler) in the call: the variable `$args`.
    pub(super) args: String,
    /// The handler's name: `$0`.
    pub(super) handler: String,
    /// True if the handler was called as a write handler: `$write`.
    pub(super) write: bool,
}

/// The state of an activation: the execution of instructions after an event, until the script blocks or ends.
/// Each event begins an activation with counts of zero. A handler of the script that the script's own text
/// calls does not: its work belongs to the activation that makes the call.
#[derive(Default)]
pub(super) struct Activation {
    /// True while instructions are being executed.
    pub(super) active: bool,
    /// True while the script is executed within itself, because its text calls its own handler. An
    /// instruction that waits then ends the inner execution.
    nested: bool,
    /// The number of jumps, and of executions of the script within itself.
    jumps: u32,
    /// The current nesting of `$(...)` and of executions of the script within itself.
    depth: u32,
    /// The number of errors that have been reported in this activation.
    errors: u64,
    /// True if the driver runs the script, because it is asked to stop. As in Click, errors then have no line
    /// ahead of them that names the script.
    run_by_driver: bool,
}

impl Script {
    /// Executes instructions after an event that gives the script `steps` steps, until the script blocks or
    /// ends.
    pub(super) fn activate(&mut self, cx: &mut Cx<'_>, steps: u64) -> Outcome {
        self.activate_as(cx, steps, false)
    }

    /// Executes instructions as [`activate`](Self::activate) does, for the driver if `run_by_driver` is true.
    pub(super) fn activate_as(&mut self, cx: &mut Cx<'_>, steps: u64, run_by_driver: bool) -> Outcome {
        self.activation = Activation { active: true, run_by_driver, ..Activation::default() };
        self.steps = steps;
        if self.fresh && self.steps > 0 {
            (self.fresh, self.steps) = (false, self.steps - 1);
        }
        let outcome = self.execute(cx);
        self.steps = 0;
        self.activation.active = false;
        if outcome != Outcome::Blocked {
            self.at = self.program.instructions.len();
            cx.clear_timer(TIMER);
        }
        outcome
    }

    /// Executes the script from the instruction with index `place` on. If an instruction was waiting, the
    /// wait ends.
    pub(super) fn start_at(&mut self, cx: &mut Cx<'_>, place: usize) -> Outcome {
        cx.clear_timer(TIMER);
        (self.at, self.waited, self.fresh) = (place, 0, false);
        self.activate(cx, 0)
    }

    /// Executes the script from its first instruction while an outer execution of the same script is under
    /// way, and then restores the position of the outer execution. An instruction that waits ends the inner
    /// execution.
    pub(super) fn run_within(&mut self, cx: &mut Cx<'_>) -> Outcome {
        self.activation.jumps += 1;
        if !self.deeper() {
            return Outcome::Failed(TOO_DEEP.into());
        }
        let place = std::mem::take(&mut self.at);
        let waited = std::mem::take(&mut self.waited);
        let steps = std::mem::take(&mut self.steps);
        let nested = std::mem::replace(&mut self.activation.nested, true);
        let outcome = self.execute(cx);
        (self.at, self.waited, self.steps, self.activation.nested) = (place, waited, steps, nested);
        self.back();
        outcome
    }

    /// Enters one level of nested calls. Returns false, and enters nothing, if there are too many levels.
    pub(super) fn deeper(&mut self) -> bool {
        let fits = self.activation.depth < DEEPEST;
        self.activation.depth += u32::from(fits);
        fits
    }

    /// Leaves a level of nested calls that `deeper` has entered.
    pub(super) fn back(&mut self) {
        self.activation.depth -= 1;
    }

    fn execute(&mut self, cx: &mut Cx<'_>) -> Outcome {
        let program = Arc::clone(&self.program);
        while let Some(instruction) = program.instructions.get(self.at) {
            if self.activation.jumps >= MOST_JUMPS {
                return Outcome::TooManyJumps;
            }
            if let Some(outcome) = self.execute_one(cx, instruction) {
                return outcome;
            }
        }
        Outcome::End
    }

    /// Executes one instruction. Returns the outcome, or `None` if execution continues.
    fn execute_one(&mut self, cx: &mut Cx<'_>, instruction: &Instruction) -> Option<Outcome> {
        // An instruction that waits blocks the script until it has used enough steps. After that, or if the
        // time to wait is invalid, execution continues with the next instruction.
        match instruction {
            Instruction::WaitSteps(wanted) => {
                let used = self.steps.min(wanted - self.waited);
                self.steps -= used;
                self.waited += used;
                if self.waited < *wanted {
                    return Some(Outcome::Blocked);
                }
                self.waited = 0;
            }
            Instruction::WaitTime(text) => {
                if self.steps == 0 && self.wait(cx, text) {
                    return Some(Outcome::Blocked);
                }
                self.steps = self.steps.saturating_sub(1);
                cx.clear_timer(TIMER);
            }
            _ => {}
        }
        self.at += 1;
        match instruction {
            Instruction::Set { variable, text, unquote } => self.assign(cx, variable, text, *unquote),
            Instruction::Print(print) => self.print(cx, print),
            Instruction::Read { call, unquote } => {
                let call = self.expand(cx, call, Mode::Plain);
                if let Some((name, answer)) = self.read(cx, &call, *unquote) {
                    cx.messages().message(format_args!("{name}:\n{answer}\n"));
                }
            }
            Instruction::Write { call, unquote } => {
                if let Some(success) = self.write(cx, call, *unquote) {
                    self.write_status = if success { 0 } else { FAILURE };
                }
            }
            Instruction::Goto { label, condition } => {
                let condition = self.expand(cx, condition, Mode::Plain);
                match (condition.trim(), parse_bool(&condition)) {
                    ("", _) | (_, Some(true)) => self.jump(self.program.target(label)),
                    (_, Some(false)) => {}
                    (text, None) => self.report(cx, &format!("bad condition '{text}'")),
                }
            }
            Instruction::Loop => self.jump(Some(0)),
            Instruction::Return { text, unquote } => {
                self.assign(cx, "_", text, *unquote);
                return Some(Outcome::Return(self.variables.get("_").cloned().unwrap_or_default()));
            }
            Instruction::Error { text, unquote } => {
                return Some(Outcome::Failed(self.evaluate(cx, text, *unquote)));
            }
            Instruction::End => return Some(Outcome::End),
            Instruction::Exit => return Some(Outcome::Exit),
            Instruction::Stop => return Some(Outcome::Stop),
            Instruction::Init { .. }
            | Instruction::WaitSteps(_)
            | Instruction::WaitTime(_)
            | Instruction::Label(_) => {}
        }
        None
    }

    /// Continues at the instruction with the index `place`, and counts the jump.
    pub(super) fn jump(&mut self, place: Option<usize>) {
        self.activation.jumps += 1;
        self.waited = 0;
        // The labels of `goto` were looked up when the script was parsed, so `place` is not `None`.
        self.at = place.unwrap_or(self.program.instructions.len());
    }

    /// Begins a wait for the time in `text`, and sets the timer. Returns false if the time is invalid,
    /// which is reported; the script then does not wait.
    fn wait(&mut self, cx: &mut Cx<'_>, text: &str) -> bool {
        let text = self.expand(cx, text, Mode::Plain);
        let Some(time) = parse_seconds(&text) else {
            self.report(cx, "syntax error at 'wait'");
            return false;
        };
        // If the script runs for a packet or within itself, a wait ends this execution of the script, so no
        // timer is needed.
        if self.kind != Kind::Packet && !self.activation.nested {
            // Timers of other elements that are due at the same time run first, because a script usually
            // looks at what they have done: `wait 1s` sees all five packets of TimedSource(0.2), as in Click.
            cx.set_coarse_timer(TIMER, cx.now() + time);
        }
        true
    }

    fn assign(&mut self, cx: &mut Cx<'_>, variable: &str, text: &str, unquoted: bool) {
        let value = self.evaluate(cx, text, unquoted);
        self.variables.insert(variable.to_owned(), value);
    }

    fn evaluate(&mut self, cx: &mut Cx<'_>, text: &str, unquoted: bool) -> String {
        let value = self.expand(cx, text, Mode::Plain);
        if unquoted { unquote(&value) } else { value }
    }

    /// Executes the `init` and `export` instructions, before all others, when the element is initialized.
    pub(super) fn initialize_variables(&mut self, cx: &mut Cx<'_>) {
        self.activation = Activation { active: true, ..Activation::default() };
        let program = Arc::clone(&self.program);
        for instruction in &program.instructions {
            if let Instruction::Init { variable, text, unquote, .. } = instruction {
                self.assign(cx, variable, text, *unquote);
            }
        }
        self.activation.active = false;
    }

    fn print(&mut self, cx: &mut Cx<'_>, print: &Print) {
        let file = match &print.to {
            Destination::Output => None,
            Destination::File { name, append } => {
                let mut options = OpenOptions::new();
                let file = options.create(true).write(true).append(*append).truncate(!*append).open(name);
                match file {
                    Ok(file) => Some((name, file)),
                    Err(error) => return self.report(cx, &format!("{name}: {}", describe(&error))),
                }
            }
        };
        let errors = self.activation.errors;
        let mut text = if print.is_handler {
            let call = self.expand(cx, &print.text, Mode::Plain);
            self.read(cx, &call, print.unquote).map(|(_, answer)| answer).unwrap_or_default()
        } else {
            unquote(&self.expand(cx, &print.text, Mode::Quoted))
        };
        if print.newline && self.activation.errors == errors && !text.ends_with('\n') {
            text.push('\n');
        }
        match file {
            None => cx.messages().print(format_args!("{text}")),
            Some((name, mut file)) => {
                if let Err(error) = file.write_all(text.as_bytes()) {
                    self.report(cx, &format!("{name}: {}", describe(&error)));
                }
            }
        }
    }

    /// Reports an error during execution. Before the first error of an activation, a line names the script,
    /// unless the driver runs the script.
    pub(super) fn report(&mut self, cx: &mut Cx<'_>, text: &str) {
        let indent = if self.activation.run_by_driver { "" } else { "  " };
        let context = format!("While executing '{}':", cx.declaration());
        let is_first = self.activation.errors == 0 && !self.activation.run_by_driver;
        self.activation.errors += 1;
        for line in in_context(&context, indent, text).lines().skip(usize::from(!is_first)) {
            cx.messages().remark(Severity::Error, format_args!("{line}"));
        }
    }

    /// Reports the outcome of an activation (a run of the script) that has no caller, if the outcome is too
    /// many jumps or an error with a text.
    pub(super) fn report_end(&mut self, cx: &mut Cx<'_>, outcome: &Outcome) {
        match outcome {
            Outcome::Failed(text) if !text.is_empty() => self.report(cx, text),
            Outcome::TooManyJumps => {
                cx.messages().tell(Severity::Error, format_args!("too many jumps, giving up"));
            }
            _ => {}
        }
    }
}
