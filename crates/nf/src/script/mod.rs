//! # Script
//! Runs a small program: sets variables, calls handlers, waits, and stops the driver.
//!
//! Each argument is an instruction; they are executed one after the other. Texts in instructions may contain
//! variables and the answers of handlers (see *Substitution*). Script has ports only if it decides where packets
//! go (type PACKET).
//!
//! ## Usage
//! `Script(INSTRUCTION, ..., [TYPE type])`
//!
//! ## Arguments
//! - `INSTRUCTION`: see *Instructions*; empty ones are skipped. Behind the last one stands an `end`, or a `stop`
//!   in scripts of type DRIVER.
//! - `TYPE`: when the script runs. ACTIVE: at once (default without ports). PASSIVE: when the handler `run` is
//!   called. PACKET or PUSH: for each packet (default with ports): `$input` is the number of its input, and the
//!   value that the script returns is the number of its output. PROXY: when any handler of any name is called;
//!   `$0` is the name. DRIVER: when the driver is about to stop (see DriverManager). SIGNAL and names or numbers
//!   of signals (`SIGNAL INT USR1`): when the process gets one of them, which then does nothing else. A script
//!   that ends with `end` waits for the signal again, others only once.
//!
//! ## Instructions
//! Those that are shown with `[q]` have a second form that removes a layer of quotes from the text after
//! substitution.
//! - `set[q] V TEXT`: assigns the variable V.
//! - `init[q] V [TEXT]`: assigns V once, before the script runs, and does nothing later.
//! - `export[q] V [TEXT]`: like `init`, and makes V a read handler.
//! - `print[q] [>FILE | >>FILE] [TEXT | HANDLER]`: writes a line to standard output, or to a file that is emptied
//!   (`>`) or made longer (`>>`); the file `-` is standard output. What begins with a letter, `@` or `_` is a
//!   read handler with its parameters; of any other text one layer of quotes is removed.
//! - `printn[q]`: the same without a new line.
//! - `save HANDLER [FILE]`, `append HANDLER [FILE]`: the same as `print >FILE HANDLER`, `print >>FILE HANDLER`.
//! - `read[q] HANDLER [PARAMETERS]`: writes the handler's full name and its answer to standard error.
//! - `write[q] HANDLER [VALUE]`: calls a write handler; afterwards `$?` is 0, or negative if it failed. The handler
//!   `hotconfig` takes the text of a configuration only where it stands in the instruction as it is: a client may have
//!   set what `$` stands for.
//! - `wait TIME`, `wait_time TIME`, `wait_for TIME`: waits for a time or for a step, whichever comes first.
//! - `pause [N]`, `wait_step [N]`, `wait_stop [N]`, `wait`: waits for N steps (1). In a script of type DRIVER
//!   each request to stop is a step.
//! - `label L`: names this place.
//! - `goto L [CONDITION]`: goes on at label L, if there is no condition or it is true. The labels `begin`, `loop`
//!   (the first instruction), `end`, `exit`, `stop` and `error` need not be declared.
//! - `loop`: goes on at the first instruction.
//! - `end`: ends the script; a packet leaves by output 0.
//! - `exit`: ends the script; a packet is dropped.
//! - `stop`: ends the script as `end` does, and asks the driver to stop.
//! - `return[q] [VALUE]`: ends the script with a value, which the handler `run` answers.
//! - `error[q] [TEXT]`: ends the script with an error.
//!
//! A script that jumps 1000 times without waiting is ended.
//!
//! ## Substitution
//! - `$V`, `${V}`: a variable. All variables belong to the element and live as long as it does.
//! - `$(HANDLER [PARAMETERS])`: the answer of a read handler; variables and handlers in it are replaced first.
//!   The script's own handlers, functions among them, need no element name.
//! - `$args`, `$1`, `$2`, `$#`: what the handler `run` was given: all of it, its words, their number.
//! - `$0`, `$write`: the name of the handler that was called, and whether it was called to write.
//! - `$?`: the status of the last `write`.
//! - `$$`: the process.
//!
//! Nothing is replaced in single quotes, and what is not known stays as it is. A script cannot be called by
//! another element while it is being executed.
//!
//! ## Handlers
//! - `run`: runs the script from the first instruction; the answer is what it returns.
//! - `step`: steps past the instruction that waits, or past as many as the value says.
//! - `goto`: goes on at a label.
//! - `get`: the value of a variable.
//! - `set`: assigns a variable: its name and its value.
//! - `shift`: takes the first word off a variable, by default off `args`, and answers it.
//! - `add`, `sub`, `mul`: of a list of numbers; integers (64 bits) as long as all of them are.
//! - `div`: a quotient with fraction.
//! - `idiv`: a quotient without its fraction.
//! - `mod`: the remainder of two integers, with the sign of the first.
//! - `rem`: the same also for numbers with fractions.
//! - `min`, `max`, `avg`: of a list of numbers; the average of integers is rounded.
//! - `count`, `popcount`: how many numbers there are, and how many that are not 0.
//! - `gt_vec`: how many numbers behind the first one are greater than it.
//! - `neg`, `abs`, `ceil`: of one number.
//! - `eq`, `ne`, `gt`, `ge`, `lt`, `le`: compares two words, as numbers if they are, else byte by byte.
//! - `not`: of a truth value.
//! - `and`, `or`, `nand`, `nor`: of a list of truth values; what cannot change the result is not looked at.
//! - `if`: the second word if the first one is true, else the third one.
//! - `in`: whether the first word is among the others.
//! - `first`: the first word.
//! - `sprintf`: words in the format that the first word gives: C's `d i o u x X s %` with flags, width and
//!   precision.
//! - `random`: a random number up to 2147483647, below N, or from N1 to N2.
//! - `now`, `now_steady`: the time.
//! - `readable`, `writable`: whether all the handlers named exist.
//! - `length`: how many bytes the parameter has.
//! - `unquote`: the parameter without a layer of quotes.
//! - `htons`, `htonl`, `ntohs`, `ntohl`: changes the byte order of an integer.
//!
//! The script's own text can also call `cat FILE` (the contents), `catq FILE` (in quotes) and
//! `kill SIGNAL PROCESS ...`.
//!
//! ## Example
//! ```click
//! src :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;
//! Script(wait 1ms, print "seen $(c.count), twice that is $(mul 2 $(c.count))", stop)
//! ```
//!
//! ## See also
//! DriverManager

// - `driver_manager`: the other class, which differs in its default type only
// - `program`: from arguments to a type and instructions
// - `run`: executing instructions
// - `calls`: handler calls out of a script's text, and the handlers that a script answers
// - `expand`: substitution of variables and handlers in text
// - `planned`: the handler calls that can be seen in a script's text
// - `functions`, `number`, `sprintf`: what the functions calculate

pub mod driver_manager;

mod calls;
mod expand;
mod functions;
pub(crate) mod number;
mod planned;
mod program;
mod run;
mod sprintf;

use std::collections::BTreeMap;
use std::sync::Arc;

use element::class::{ArgInfo, Notes};
use element::effects::{Case, Depends, Filter, Target};
use element::{Access, Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, PlannedCall, manual};

use calls::HANDLERS;
use program::{Kind, Program};
use run::{Activation, Frame, Outcome, TIMER};

/// The class.
pub static CLASS: Class = Class {
    name: "Script",
    manual: manual!("mod.rs"),
    samples: &["TYPE PASSIVE, return $(add 1 2)", "return $input -> 1/2", "TYPE PROXY, returnq $0"],
    build: |args| build(args, Kind::Active),
    ..TEMPLATE
};

/// Longest text that a script can make, in bytes: variables may be defined in terms of themselves.
const MOST_TEXT: usize = 16 << 20;

/// What Script and DriverManager have in common.
const TEMPLATE: Class = Class {
    ports: "-/-",
    processing: "ah/ah",
    args: &[ArgInfo::rest("INSTRUCTION", "instruction"), ArgInfo::keyword("TYPE", "type", "")],
    handlers: HANDLERS,
    notes: Notes { manages_driver: true, ..Notes::NONE },
    ..Class::DEFAULT
};

/// Known to other elements of a script that manages the driver.
struct ManagesDriver;

/// Makes a script whose type is `without_ports` unless it has ports or says otherwise.
fn build(args: &mut Args<'_>, without_ports: Kind) -> Result<Box<dyn Element>, Invalid> {
    let kind = Kind::read(args, without_ports);
    let (numbers, texts): (Vec<_>, Vec<_>) = args.numbered_rest().into_iter().unzip();
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
    }))
}

/// A script and how far it has come.
struct Script {
    kind: Kind,
    program: Arc<Program>,
    variables: BTreeMap<String, String>,
    /// The next instruction, or the one that blocks. Behind all of them when the script has ended.
    at: usize,
    /// Whether it has not begun: the first step then takes it to the first blocking instruction.
    fresh: bool,
    /// Steps that blocking instructions have not used up yet.
    steps: u64,
    /// Steps that the blocking instruction has used up so far.
    waited: u64,
    /// Status of the last write instruction: `$?`.
    write_status: i32,
    frame: Frame,
    activation: Activation,
}

impl Script {
    /// Executes instructions after an event that nobody waits for the outcome of.
    fn step_alone(&mut self, cx: &mut Cx<'_>, steps: u64) {
        let outcome = self.activate(cx, steps);
        self.report_end(cx, &outcome);
        if outcome == Outcome::Stop {
            cx.stop();
        }
    }

    /// Runs the script for a packet: its output, or why it is dropped.
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
            Outcome::Blocked | Outcome::Failed(_) | Outcome::GaveUp => Err(DropReason::NoOutput),
        }
    }
}

impl Element for Script {
    fn effects(&self) -> Effects {
        if self.kind != Kind::Packet {
            return Effects::none();
        }
        let effects = Effects::cases(vec![Case::new(Filter::Any, Target::SomeOutput)]);
        let opaque = Some("a script chooses the output of each packet and may call any handler");
        Effects { opaque, ..effects }.depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.initialize_variables(cx);
        match (&self.kind, self.fresh) {
            (Kind::Active, true) => cx.set_timer(TIMER, cx.now()),
            // The first thing that the driver does is then to ask, before any task runs.
            (Kind::Driver, true) => cx.stop(),
            // Up to the first instruction, which blocks.
            (Kind::Active | Kind::Driver, false) => self.step_alone(cx, 0),
            (Kind::Signal(numbers), _) => {
                for &number in numbers {
                    cx.on_os_signal(number, true).map_err(|_| "bad signal number")?;
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
            // It waits for the signal again.
            Outcome::End => {}
            Outcome::Stop => cx.stop(),
            // What waited for the signal once can stop waiting.
            _ => drop(cx.on_os_signal(number, false)),
        }
    }

    fn stop_requested(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.kind != Kind::Driver {
            return true;
        }
        let outcome = self.activate(cx, 1);
        self.report_end(cx, &outcome);
        outcome != Outcome::Blocked
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            match self.choose_output(cx, port) {
                Ok(output) if cx.output_is_push(output) => cx.emit_one(output, packet, DropReason::NoOutput),
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
                // As many as were pulled at most, so there is room.
                Ok(0) => drop(stays.push(packet)),
                Ok(output) => cx.emit_one(output, packet, DropReason::NoOutput),
                Err(reason) => cx.drop(packet, reason),
            }
        }
        cx.recycle(batch);
        stays
    }

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Result<String, String> {
        self.read_own(cx, name, param)
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        self.write_own(cx, name, value)
    }

    fn own_handlers(&self) -> Vec<(String, Access)> {
        self.further_handlers()
    }

    fn planned_calls(&self) -> Vec<PlannedCall> {
        planned::calls(&self.program, &self.kind)
    }
}
