//! # Script
//! Runs a small program: sets variables, calls handlers, waits, and stops the driver.
//!
//! Each argument is an instruction; instructions are executed one after another. Texts in instructions may
//! contain variables and the answers of handlers (see *Substitution*). Script has ports only if it decides
//! where packets go (type PACKET).
//!
//! ## Usage
//! `Script(INSTRUCTION, ..., [TYPE type])`
//!
//! ## Arguments
//! - `INSTRUCTION`: see *Instructions*; empty instructions are skipped. The last instruction is followed by
//!   an implicit `end`, or by `stop` in scripts of type DRIVER.
//! - `TYPE`: when the script runs. ACTIVE (the type without ports, if TYPE is not given): at the start.
//!   PASSIVE: when the handler `run` is called. PACKET or PUSH (the type with ports, if TYPE is not given):
//!   for each packet; `$input` is the number of the packet's input, and the value that the script returns is
//!   the number of its output. PROXY: when a handler is called that scripts of other types do not have; `$0`
//!   is its name. DRIVER: when the driver is about to stop (see DriverManager). SIGNAL and names or numbers
//!   of signals (`SIGNAL INT USR1`): when the process receives one of these signals, which then has no other
//!   effect. A script that ends with `end` or `stop` waits for the signal again. A script that ends
//!   otherwise, or waits, no longer waits for that signal, which then has its usual effect: most signals end
//!   the process.
//!
//! ## Instructions
//! Instructions that are shown with `[q]` have a second form, such as `setq`, that removes a layer of quotes
//! from the text after substitution. Some instructions wait for *steps*. Each write to the handler `step`
//! gives the script one or more steps. In a script of type DRIVER, each request to stop is a step.
//! - `set[q] V TEXT`: assigns the variable V.
//! - `init[q] V [TEXT]`: assigns V once, before the script runs, and has no effect later.
//! - `export[q] V [TEXT]`: like `init`, and makes V a read handler.
//! - `print[q] [>FILE | >>FILE] [TEXT | HANDLER]`: writes a line to standard output, or to a file that is
//!   overwritten (`>`) or appended to (`>>`); the file `-` is standard output. A text that begins with a
//!   letter, `@` or `_` is a read handler with its parameters; from any other text one layer of quotes is
//!   removed.
//! - `printn[q]`: like `print`, without a line end.
//! - `save HANDLER [FILE]`, `append HANDLER [FILE]`: like `print >FILE HANDLER`, `print >>FILE HANDLER`.
//! - `read[q] HANDLER [PARAMETERS]`: writes the handler's full name and its answer to standard error.
//! - `write[q] HANDLER [VALUE]`: calls a write handler; afterwards `$?` is 0, or negative if the call failed.
//!   If there is no such handler, an error is reported, and `$?` does not change. The handler `hotconfig`
//!   takes the text of a configuration only from an instruction without substitution, because a client may
//!   have set the value of a variable.
//! - `wait TIME`, `wait_time TIME`, `wait_for TIME`: waits for a time or for a step, whichever comes first.
//! - `pause [N]`, `wait_step [N]`, `wait_stop [N]`, `wait`: waits for N steps, or for one step without N.
//! - `label L`: defines the label L at this instruction.
//! - `goto L [CONDITION]`: continues at label L, if there is no condition or the condition is true. The
//!   labels `begin`, `loop` (the first instruction), `end`, `exit`, `stop` and `error` need not be
//!   declared.
//! - `loop`: continues at the first instruction.
//! - `end`: ends the script; a packet leaves by output 0.
//! - `exit`: ends the script; a packet is dropped.
//! - `stop`: ends the script as `end` does, and asks the driver to stop.
//! - `return[q] [VALUE]`: ends the script with a value, which is the answer of the handler `run`.
//! - `error[q] [TEXT]`: ends the script with an error.
//!
//! A script that jumps 1000 times without waiting is ended.
//!
//! ## Substitution
//! - `$V`, `${V}`: a variable. All variables belong to the element and exist as long as the element.
//! - `$(HANDLER [PARAMETERS])`: the answer of a read handler; variables and handlers in it are replaced
//!   first. The script's own handlers, including functions, need no element name.
//! - `$args`, `$1`, `$2`, `$#`: the parameter of the handler `run`: all of it, its words, the number of its
//!   words.
//! - `$0`, `$write`: the name of the handler that was called, and true if it was called as a write handler.
//! - `$?`: the status of the last `write`.
//! - `$$`: the number of the process.
//!
//! After a client has called the script with text, a write in whose text something was replaced can create
//! files only where the client may create them; after a read with parameters, nowhere.
//!
//! Nothing is replaced in single quotes, and unknown references do not change. Other elements cannot call a
//! script while it is being executed.
//!
//! ## Handlers
//! - `run`: runs the script from the first instruction; the answer is the value that it returns.
//! - `step`: gives the script a step, or as many steps as the value says.
//! - `goto`: continues the script at a label.
//! - `get`: returns the value of a variable.
//! - `set`: assigns a variable; the value to write is the variable's name and its new value.
//! - `shift`: removes the first word of a variable, by default `args`, and returns that word.
//! - `add`, `sub`, `mul`: sum, difference and product of a list of numbers; 64-bit integers as long as all
//!   numbers are integers.
//! - `div`: the quotient, with its fraction.
//! - `idiv`: the quotient without its fraction.
//! - `mod`: the remainder of two integers, with the sign of the first.
//! - `rem`: like `mod`, also for numbers with fractions.
//! - `min`, `max`, `avg`: minimum, maximum and mean of a list of numbers; the average of integers is
//!   rounded.
//! - `count`, `popcount`: the number of numbers, and the number of those other than 0.
//! - `gt_vec`: the number of numbers after the first that are greater than the first.
//! - `neg`, `abs`, `ceil`, `floor`, `round`: negation, absolute value, and the integer above, below or
//!   nearest to one number.
//! - `eq`, `ne`, `gt`, `ge`, `lt`, `le`: compares two words, as numbers if both are numbers, otherwise byte
//!   by byte.
//! - `not`: the negation of a truth value.
//! - `and`, `or`, `nand`, `nor`: logic over a list of truth values; values that cannot change the result
//!   are not evaluated.
//! - `if`: the second word if the first is true, otherwise the third.
//! - `in`: true if the first word is among the others.
//! - `first`: the first word.
//! - `sprintf`: words in the format that the first word gives: C's `d i o u x X s %` with flags, width and
//!   precision.
//! - `random`: a random integer: from 0 to 2147483647 without words, from 0 to N - 1 for one word, from N1
//!   to N2 for two words.
//! - `now`, `now_steady`: the current time in seconds.
//! - `readable`, `writable`: true if all the named handlers exist.
//! - `length`: the length of the parameter in bytes.
//! - `unquote`: the parameter without a layer of quotes.
//! - `htons`, `htonl`, `ntohs`, `ntohl`: converts the byte order of an integer.
//!
//! The script's own text can also call `cat FILE` (the contents of a file), `catq FILE` (the contents in
//! quotes) and `kill SIGNAL PROCESS ...`.
//!
//! ## Example
//! ```click
//! src :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;
//! Script(wait 1ms, print "seen $(c.count), twice that is $(mul 2 $(c.count))", stop)
//! ```
//!
//! ## See also
//! DriverManager

// - `driver_manager`: the class DriverManager, which differs from Script only in the default type of scripts
// - `program`: parsing of arguments into a type and instructions
// - `run`: execution of instructions
// - `calls`: handler calls from a script's text, and the handlers of a script
// - `expand`: substitution of variables and handlers in text
// - `planned`: the handler calls that are visible in a script's text
// - `functions`, `number`, `sprintf`: the functions that compute answers from a parameter, such as `add`

pub mod driver_manager;

mod calls;
mod errors;
mod expand;
mod functions;
pub(crate) mod number;
mod planned;
mod program;
pub mod progress_bar;
mod run;
mod sprintf;

use std::collections::BTreeMap;
use std::sync::Arc;

use element::class::{ArgInfo, Notes};
use element::effects::{Case, Depends, Filter, Target};
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, FileScope, Invalid, PlannedCall, StatePart, manual,
};

use calls::TABLES;
use program::{Kind, Program};
use run::{Activation, Frame, Outcome, TIMER};

/// The element class `Script`.
pub static CLASS: Class = Class {
    name: "Script",
    manual: manual!("mod.rs"),
    state: &[StatePart::lost("variables", "a script starts again", &["run"])],
    samples: &["TYPE PASSIVE, return $(add 1 2)", "return $input -> 1/2", "TYPE PROXY, returnq $0"],
    build: |args| build(args, Kind::Active),
    ..TEMPLATE
};

/// The maximum length in bytes of a text that a script makes. A limit is needed because variables may be
/// defined in terms of themselves.
const MOST_TEXT: usize = 16 << 20;

/// The properties that the classes Script and DriverManager share.
const TEMPLATE: Class = Class {
    ports: "-/-",
    processing: "ah/ah",
    args: &[ArgInfo::rest("INSTRUCTION", "instruction"), ArgInfo::keyword("TYPE", "type", "")],
    table: &TABLES,
    notes: Notes { manages_driver: true, runs_script: true, ..Notes::NONE },
    ..Class::DEFAULT
};

/// The service that a script of type DRIVER publishes, so that a second script of that type can be reported
/// as an error.
struct ManagesDriver;

/// Parses the arguments and makes a script. The type of a script without TYPE is `without_ports`, except that
/// a Script with ports is of type PACKET.
fn build(args: &mut Args<'_>, without_ports: Kind) -> Result<Box<dyn Element>, Invalid> {
    let kind = Kind::read(args, without_ports);
    let (numbers, texts): (Vec<_>, Vec<_>) = args.rest().into_iter().unzip();
    if kind == Kind::Driver {
        let elements = 0..args.setup.elements.len();
        if elements.into_iter().any(|id| args.setup.service::<ManagesDriver>(id).is_some()) {
            args.error("router has more than one driver script");
        }
        args.setup.publish(args.id(), Arc::new(ManagesDriver));
    }
    let program = Program::parse(&texts, &kind).unwrap_or_else(|errors| {
        errors.into_iter().for_each(|(text, error)| args.error_in(numbers[text], error));
        Program::default()
    });
    let program =
        Program { arguments: program.arguments.iter().map(|text| numbers[*text]).collect(), ..program };
    args.finish()?;
    Ok(Box::new(Script {
        kind,
        fresh: !program.begins_with_wait(),
        program: Arc::new(program),
        variables: BTreeMap::new(),
        at: 0,
        steps: 0,
        waited: 0,
        write_status: 0,
        frame: Frame::default(),
        activation: Activation::default(),
        files: FileScope::Anywhere,
    }))
}

/// The element of the classes Script and DriverManager: a script and the state of its execution.
struct Script {
    kind: Kind,
    program: Arc<Program>,
    variables: BTreeMap<String, String>,
    /// The index of the next instruction, or of the instruction that blocks. The number of instructions
    /// when the script has ended.
    at: usize,
    /// True if the script has not started, and its first instruction does not wait. The first step then
    /// only starts the script.
    fresh: bool,
    /// The number of steps (writes to the handler `step`, or requests to stop) that the current event has
    /// given to the script, and that instructions which wait for steps have not used yet.
    steps: u64,
    /// The number of steps that the current blocking instruction has used.
    waited: u64,
    /// The status of the last `write` instruction (`$?`): 0, or negative if the call failed.
    write_status: i32,
    /// The handler call for which the script runs, or ran last.
    frame: Frame,
    activation: Activation,
    /// The part of the file system in which a write that was composed with values of variables or handlers
    /// may create files: everywhere, until a handler call by a client has brought text.
    files: FileScope,
}

impl Script {
    /// Executes instructions after an event that gives `steps` steps, such as a timer, and that has no
    /// caller for the outcome. Errors are reported as messages.
    fn step_alone(&mut self, cx: &mut Cx<'_>, steps: u64) {
        let outcome = self.activate(cx, steps);
        self.report_end(cx, &outcome);
        if outcome == Outcome::Stop {
            cx.stop();
        }
        if let (Kind::Signal(numbers), Outcome::End) = (&self.kind, &outcome) {
            // The numbers were accepted when the script was initialized.
            numbers.iter().for_each(|&number| drop(cx.files().on_os_signal(number, true)));
        }
    }

    /// Runs the script for a packet that has arrived on `input`. Returns the number of the packet's output,
    /// or the reason to drop it.
    fn choose_output(&mut self, cx: &mut Cx<'_>, input: usize) -> Result<usize, DropReason> {
        self.variables.insert("input".into(), input.to_string());
        let outcome = self.start_at(cx, 0);
        self.report_end(cx, &outcome);
        match outcome {
            Outcome::End => Ok(0),
            Outcome::Stop => {
                cx.stop();
                Ok(0)
            }
            Outcome::Exit => Err(DropReason::Discard),
            Outcome::Return(value) => value.trim().parse().map_err(|_| DropReason::NoOutput),
            Outcome::Blocked | Outcome::Failed(_) | Outcome::TooManyJumps => Err(DropReason::NoOutput),
        }
    }
}

impl Element for Script {
    fn effects(&self) -> Effects {
        if self.kind != Kind::Packet {
            return Effects::none();
        }
        let effects = Effects::cases(vec![Case::new(Filter::TRUE, Target::SomeOutput)]);
        let opaque = Some("a script chooses the output of each packet and may call any handler");
        Effects { opaque, ..effects }.depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.initialize_variables(cx);
        match (&self.kind, self.fresh) {
            (Kind::Active, true) => cx.set_timer(TIMER, cx.now()),
            // The element requests to stop before any task runs. The driver then asks the script first if it
            // may stop, and this starts the script.
            (Kind::Driver, true) => cx.stop(),
            // The first instruction waits. It is executed when the element is initialized, so that a wait for
            // a time is counted from the start of the run.
            (Kind::Active | Kind::Driver, false) => self.step_alone(cx, 0),
            (Kind::Signal(numbers), _) => {
                for &number in numbers {
                    cx.files().on_os_signal(number, true).map_err(|_| "bad signal number")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.step_alone(cx, 1);
    }

    fn os_signal(&mut self, cx: &mut Cx<'_>, number: i32) {
        let outcome = self.start_at(cx, 0);
        self.report_end(cx, &outcome);
        match outcome {
            // The script ended with `end`: it continues to wait for the signal, and runs again when the
            // signal comes again.
            Outcome::End => {}
            Outcome::Stop => cx.stop(),
            // The script did not end with `end` or `stop`: it no longer waits for the signal, which then has
            // its usual effect. If it waits for a time, `step_alone` waits for its signals again afterwards.
            _ => drop(cx.files().on_os_signal(number, false)),
        }
    }

    fn stop_requested(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.kind != Kind::Driver {
            return true;
        }
        let outcome = self.activate_as(cx, 1, true);
        self.report_end(cx, &outcome);
        outcome != Outcome::Blocked
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            match self.choose_output(cx, port) {
                Ok(output) if cx.graph().output_is_push(output) => {
                    cx.emit_one(output, packet, DropReason::NoOutput)
                }
                Ok(_) => cx.drop(packet, DropReason::NoOutput),
                Err(reason) => cx.drop(packet, reason),
            }
        }
        cx.recycle(batch);
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let mut batch = cx.pull(0, max);
        let mut stays = cx.batch();
        for packet in batch.drain() {
            match self.choose_output(cx, 0) {
                // `stays` has the packets for output 0. It gets at most the packets of one pulled batch, so
                // it is never full.
                Ok(0) => drop(stays.push(packet)),
                Ok(output) => cx.emit_one(output, packet, DropReason::NoOutput),
                Err(reason) => cx.drop(packet, reason),
            }
        }
        cx.recycle(batch);
        stays
    }

    fn planned_calls(&self) -> Vec<PlannedCall> {
        planned::calls(&self.program, &self.kind)
    }
}
