//! Handler calls from a script's text, and the handlers of a script.
//!
//! An element is taken out of the graph while it runs, so the engine cannot call a handler of the running
//! script. Calls from a script's text to the script itself are therefore handled here.

use element::{Access, Call, CallOrigin, Cx, FileScope, Handler, Random, Rights};
use lang::args::{split_spaces, unquote};

use super::errors::in_context;
use super::expand::{Mode, Source, expand};
use super::functions::{self, PRIVATE, PUBLIC};
use super::number::parse_int;
use super::program::{Kind, first_word};
use super::run::{Frame, Outcome, TOO_DEEP};
use super::{CLASS, MOST_TEXT, Script};

/// The tables of handlers of the classes Script and DriverManager.
pub(super) const TABLES: [&[Handler<Script>]; 3] = [OWN, FUNCTIONS, FURTHER];

/// The handlers of Script whose answers depend on more than their parameter: on the script, the clock, random
/// numbers or handlers of other elements.
const OWN: &[Handler<Script>] = &[
    Handler::<Script>::read_param("run", |e, cx, args| e.run(cx, "run", args, false))
        .and_set(|e, cx, args| e.run(cx, "run", args, true).map(|_| ())),
    Handler::set("step", |e, cx, text| {
        let steps = match text.trim() {
            "" | "router" => Some(1),
            // A negative number is no step.
            number => parse_int(number).map(|n| u64::try_from(n).unwrap_or_default()),
        };
        e.step(cx, steps.ok_or("syntax error")?)
    }),
    Handler::set("goto", |e, cx, label| {
        let place = e.program.target(label.trim()).ok_or("jump to nonexistent label")?;
        if e.activation.active {
            e.jump(Some(place));
            return Ok(());
        }
        let outcome = e.start_at(cx, place);
        e.conclude(cx, outcome).map(|_| ())
    }),
    Handler::read_param("get", |e, _, text| {
        let variable = variable_name(text, None)?;
        e.variable(&variable).ok_or_else(|| format!("undefined variable '{variable}'"))
    }),
    Handler::set("set", |e, cx, text| {
        let (variable, value) = first_word(text);
        let variable = variable_name(variable, None)?;
        e.note_caller(cx, true);
        e.variables.insert(variable, value.to_owned());
        Ok(())
    }),
    Handler::read_param("shift", |e, _, text| e.shift(text)),
    Handler::read_param("random", |_, cx, text| random(cx.random(), text)),
    Handler::read("now", |_, cx, _| Ok(cx.now().to_string())),
    Handler::read("now_steady", |_, cx, _| Ok(cx.now().to_string())),
    Handler::read_param("readable", |e, cx, text| Ok(e.all_exist(cx, text, false).to_string())),
    Handler::read_param("writable", |e, cx, text| Ok(e.all_exist(cx, text, true).to_string())),
];

/// The handlers of Script whose answers depend on their parameter alone, such as arithmetic.
const FUNCTIONS: &[Handler<Script>] = &{
    let mut all = [const { Handler::function("", |_| Ok(String::new())) }; PUBLIC.len()];
    let mut i = 0;
    while i < all.len() {
        let (name, function) = PUBLIC[i];
        all[i] = Handler::function(name, function);
        i += 1;
    }
    all
};

/// The handlers that depend on the configuration: the exported variables and, for a script of type PROXY,
/// handlers of any other name, which run the script.
const FURTHER: &[Handler<Script>] = &[
    Handler::named(
        |e| e.program.exported().map(str::to_owned).collect(),
        |e, _, number| {
            let variable = e.program.exported().nth(number);
            variable.and_then(|name| e.variables.get(name)).cloned().unwrap_or_default()
        },
    ),
    Handler::any(
        |e| e.kind == Kind::Proxy,
        |e, cx, name, args| e.run(cx, name, args, false),
        |e, cx, name, args| e.run(cx, name, args, true).map(|_| ()),
    ),
];

/// The error text of a script that ends with `error` without a text. As in Click, other scripts do not report
/// it.
const WITHOUT_TEXT: &str = "the script ended with an error";

impl Script {
    /// Returns `text` with its references replaced by the values of variables and the answers of handlers.
    pub(super) fn expand(&mut self, cx: &mut Cx<'_>, text: &str, mode: Mode) -> String {
        expand(text, mode, MOST_TEXT, &mut References { script: self, cx })
    }

    /// Calls a read handler for a reference in the text of an instruction. `text` is the handler with its
    /// parameters. Returns its answer, which is empty after an error of the handler, or `None` if there is no
    /// such handler. Errors are reported, as in Click without the call.
    fn refer(&mut self, cx: &mut Cx<'_>, text: &str) -> Option<String> {
        let call = self.find(cx, text, false, false)?;
        Some(self.answer(cx, &call).unwrap_or_else(|reason| {
            if reason != WITHOUT_TEXT {
                self.report(cx, &reason);
            }
            String::new()
        }))
    }

    fn answer(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<String, String> {
        match self.own_access(cx, call) {
            Some(access) => self.read_self(cx, call, access),
            None => cx.handlers().read(call),
        }
    }

    /// Calls a read handler for an instruction of the script. `text` is the handler with its parameters, from
    /// which a layer of quotes is removed if `unquoted` is true. Returns the handler's full name and its
    /// answer, or `None` if there is no such handler. The answer is empty after an error of the handler.
    /// Errors are reported.
    pub(super) fn read(&mut self, cx: &mut Cx<'_>, text: &str, unquoted: bool) -> Option<(String, String)> {
        // The quotes may be around the handler as well as around its parameter.
        let whole = if unquoted { unquote(text) } else { text.to_owned() };
        let call = self.find(cx, &whole, false, false)?;
        let answer = self.answer(cx, &call).unwrap_or_else(|reason| {
            self.report_call(cx, &call, &reason);
            String::new()
        });
        Some((full_name(cx, &call), answer))
    }

    /// Calls a write handler for an instruction of the script. `instruction` is the handler with its value,
    /// before substitution; if `unquoted` is true, a layer of quotes is removed from the value. Returns
    /// true if the call succeeded, and false if it failed. Returns `None` if the text cannot be parsed as a
    /// call, or there is no such handler. Errors are reported.
    pub(super) fn write(&mut self, cx: &mut Cx<'_>, instruction: &str, unquoted: bool) -> Option<bool> {
        let text = self.expand(cx, instruction, Mode::Plain);
        let mut call = self.find(cx, &text, unquoted, true)?;
        // If anything was substituted, the value may contain text from a client's handler call, also from an
        // earlier call. The write then gets the rights of an unknown client, and may create the files that
        // the client may create.
        if text != instruction {
            call.rights = Rights { files: self.files.clone(), origin: CallOrigin::Anybody };
        }
        let result = match self.own_access(cx, &call) {
            Some(_) => CLASS.write(self, cx, &call.handler, &call.value),
            None => cx.handlers().write(&call),
        };
        if let Err(reason) = &result {
            self.report_call(cx, &call, reason);
        }
        Some(result.is_ok())
    }

    /// Returns the call in a text, if its handler exists for writing (`write` is true) or reading.
    /// Otherwise reports an error and returns `None`.
    fn find(&mut self, cx: &mut Cx<'_>, text: &str, unquoted: bool, write: bool) -> Option<Call> {
        let reason = match self.parse(cx, text) {
            Ok(mut call) if self.exists(cx, &call, write) => {
                if unquoted {
                    call.value = unquote(&call.value);
                }
                return Some(call);
            }
            Ok(call) => {
                let kind = if write { "write" } else { "read" };
                format!("no '{}' {kind} handler", full_name(cx, &call))
            }
            Err(reason) => reason,
        };
        self.report(cx, &reason);
        None
    }

    /// Parses the text of a handler call: a handler, and its parameters or value. A handler name without an
    /// element means the script's own handler, if the script has one of this name; otherwise a handler of the
    /// router.
    fn parse(&self, cx: &Cx<'_>, text: &str) -> Result<Call, String> {
        let own = |name: &str| {
            let call = Call::new(Some(cx.id()), name, "");
            (self.exists(cx, &call, false) || self.exists(cx, &call, true)).then_some(cx.id())
        };
        // The call has the rights of the configuration, which contains the script, and not the rights of
        // the script's caller.
        Call::parse(text, cx, own).map(|call| Call { rights: Rights::default(), ..call })
    }

    fn exists(&self, cx: &Cx<'_>, call: &Call, write: bool) -> bool {
        match self.own_access(cx, call) {
            Some(access) if write => access.write,
            Some(access) => access.read,
            None => cx.graph().has_handler(call, write),
        }
    }

    fn report_call(&mut self, cx: &mut Cx<'_>, call: &Call, reason: &str) {
        if reason == WITHOUT_TEXT {
            return;
        }
        let name = full_name(cx, call);
        let space = if call.value.is_empty() { "" } else { " " };
        let value = call.value.replace('\n', " ");
        self.report(cx, &in_context(&format!("While calling '{name}{space}{value}':"), "  ", reason));
    }

    /// Returns the access that the script's own text has to a handler of the script. Returns `None` for
    /// handlers of other elements, for handlers that the engine answers in place of the script, and for names
    /// that the script does not list, such as the other handlers of a script of type PROXY.
    fn own_access(&self, cx: &Cx<'_>, call: &Call) -> Option<Access> {
        if call.element != Some(cx.id()) {
            return None;
        }
        let name = call.handler.as_str();
        let listed = CLASS.each_handler().find(|handler| handler.name == name).map(|handler| handler.access);
        let private = || PRIVATE.iter().any(|(known, _)| *known == name).then_some(Access::READ_PARAM);
        let exported = || self.program.exported().any(|known| known == name).then_some(Access::READ);
        listed.or_else(private).or_else(exported)
    }

    /// Answers a call that the script's own text makes to a read handler of the same script. Unlike other
    /// callers, the script's text may also call the functions in [`PRIVATE`], which access files and
    /// processes.
    fn read_self(&mut self, cx: &mut Cx<'_>, call: &Call, access: Access) -> Result<String, String> {
        if !access.param && !call.value.is_empty() {
            return Err(format!("read handler '{}' does not take parameters", full_name(cx, call)));
        }
        let private = functions::evaluate(PRIVATE, &call.handler, &call.value);
        private.unwrap_or_else(|| CLASS.read(self, cx, &call.handler, &call.value))
    }

    /// Notes the files that the caller of a handler may create, because the call brings text that the script
    /// may use in names of files. A read does not tell who calls, so its text names no files.
    fn note_caller(&mut self, cx: &Cx<'_>, write: bool) {
        // Calls by the script itself bring text of the script.
        if self.activation.active {
            return;
        }
        match cx.rights() {
            _ if !write => self.files = FileScope::Nowhere,
            Rights { origin: CallOrigin::Configuration, .. } => {}
            Rights { files, .. } => self.files = files.clone(),
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, steps: u64) -> Result<(), String> {
        if self.activation.active {
            // The handler `step` was called while the script is being executed. The steps are kept for the
            // next instructions that wait for steps.
            self.steps = self.steps.saturating_add(steps);
            return Ok(());
        }
        if steps == 0 {
            return Ok(());
        }
        let outcome = self.activate(cx, steps);
        self.conclude(cx, outcome).map(|_| ())
    }

    /// Runs the script from its first instruction for a call of `handler` with the parameter or value
    /// `args`, and returns the answer. A script that is being executed is run within itself, and then
    /// continues.
    fn run(&mut self, cx: &mut Cx<'_>, handler: &str, args: &str, write: bool) -> Result<String, String> {
        if !args.is_empty() || handler != "run" {
            self.note_caller(cx, write);
        }
        let frame = Frame { args: args.to_owned(), handler: handler.to_owned(), write };
        let outer = std::mem::replace(&mut self.frame, frame);
        let outcome = if self.activation.active {
            let outcome = self.run_within(cx);
            self.frame = outer;
            outcome
        } else {
            self.start_at(cx, 0)
        };
        self.conclude(cx, outcome)
    }

    /// Converts the outcome of an execution of the script to the answer of the handler call that started it.
    /// If the script ended with `stop`, also asks the driver to stop.
    fn conclude(&mut self, cx: &mut Cx<'_>, outcome: Outcome) -> Result<String, String> {
        match outcome {
            Outcome::Blocked | Outcome::End | Outcome::Exit => Ok(String::new()),
            Outcome::Stop => {
                cx.stop();
                Ok(String::new())
            }
            Outcome::Return(value) => Ok(value),
            Outcome::Failed(text) if text.is_empty() => Err(WITHOUT_TEXT.into()),
            Outcome::Failed(text) => Err(text),
            Outcome::TooManyJumps => Err(format!("{}: too many jumps, giving up", cx.declaration())),
        }
    }

    /// Returns the value of a variable; `None` if there is none. Variables that the script has assigned
    /// take precedence over predefined variables such as `$args`.
    fn variable(&self, name: &str) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        let words = || split_spaces(&self.frame.args);
        match name {
            "?" => Some(self.write_status.to_string()),
            "args" => Some(self.frame.args.clone()),
            "$" => Some(std::process::id().to_string()),
            "0" => Some(self.frame.handler.clone()),
            "#" => Some(words().len().to_string()),
            "write" => Some(self.frame.write.to_string()),
            _ => {
                let number = name.parse::<usize>().ok().filter(|_| !name.starts_with(['0', '+']));
                let Some(number) = number else { return self.program.assigns(name).then(String::new) };
                Some(words().get(number - 1).map(|word| word.text.clone()).unwrap_or_default())
            }
        }
    }

    /// Removes the first word from the variable that `text` names (`args` if empty), and returns that word.
    /// Returns an empty text if the variable has no words.
    fn shift(&mut self, text: &str) -> Result<String, String> {
        let variable = variable_name(text, Some("args"))?;
        let value = match variable.as_str() {
            // As in Click, these are the arguments of the call, also if a variable of this name is set.
            "args" => &mut self.frame.args,
            _ => match self.variables.get_mut(&variable) {
                Some(value) => value,
                None if self.program.assigns(&variable) => return Ok(String::new()),
                None => return Err(format!("undefined variable '{variable}'")),
            },
        };
        let words = split_spaces(value);
        let first = words.first().map(|word| word.text.clone()).unwrap_or_default();
        let rest = words.get(1).map_or(value.len(), |word| word.range.start);
        value.drain(..rest.min(value.len()));
        Ok(first)
    }

    fn all_exist(&self, cx: &Cx<'_>, text: &str, write: bool) -> bool {
        let exists = |word: &str| self.parse(cx, word).is_ok_and(|call| self.exists(cx, &call, write));
        split_spaces(text).iter().all(|word| exists(&word.text))
    }
}

/// The source of values for references in a script's text: the script's variables, and read handlers.
struct References<'a, 'cx> {
    script: &'a mut Script,
    cx: &'a mut Cx<'cx>,
}

impl Source for References<'_, '_> {
    fn variable(&mut self, name: &str) -> Option<String> {
        self.script.variable(name)
    }

    fn handler(&mut self, text: &str) -> Option<String> {
        self.script.refer(self.cx, text)
    }

    fn enter(&mut self) -> bool {
        let fits = self.script.deeper();
        if !fits {
            self.script.report(self.cx, TOO_DEEP);
        }
        fits
    }

    fn leave(&mut self) {
        self.script.back();
    }

    fn too_long(&mut self) {
        self.script.report(self.cx, &format!("text longer than {MOST_TEXT} bytes"));
    }
}

/// Returns the full name of a call's handler: `element.handler`, or only the handler's name if it is a
/// handler of the router.
fn full_name(cx: &Cx<'_>, call: &Call) -> String {
    match call.element {
        Some(element) => format!("{}.{}", cx.graph().name_of(element), call.handler),
        None => call.handler.clone(),
    }
}

/// Returns the only word of a handler's parameter, as the name of a variable; returns `default` if there is
/// no word.
///
/// # Errors
/// If there are several words, or no word and no default.
fn variable_name(text: &str, default: Option<&str>) -> Result<String, String> {
    let words = split_spaces(text);
    match (&words[..], default) {
        ([word], _) => Ok(word.text.clone()),
        ([], Some(default)) => Ok(default.to_owned()),
        ([], None) => Err("no variable".into()),
        _ => Err("too many arguments".into()),
    }
}

/// Returns a random number within bounds that `text` gives, both included. For no words, the bounds are 0
/// and 2^31 - 1; for one word, 0 and N - 1; for two words, N1 and N2.
fn random(random: &mut Random, text: &str) -> Result<String, String> {
    let words = split_spaces(text);
    let numbers: Option<Vec<i64>> = words.iter().map(|word| parse_int(&word.text)).collect();
    let (least, most) = match numbers.as_deref() {
        Some([]) => (0, i64::from(i32::MAX)),
        Some([n]) => (0, n.saturating_sub(1)),
        Some([least, most]) => (*least, *most),
        Some(_) => return Err("too many arguments".into()),
        None => return Err("bad N".into()),
    };
    if least > most {
        return Err("bad N".into());
    }
    let range = most.wrapping_sub(least).cast_unsigned();
    Ok(match (u32::try_from(range), &words[..]) {
        (_, []) => random.bits().into(),
        (Ok(range), _) => least + i64::from(random.between(0, range)),
        (Err(_), _) if range == u64::MAX => random.u64().cast_signed(),
        (Err(_), _) => least.wrapping_add((random.u64() % (range + 1)).cast_signed()),
    }
    .to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_stay_in_their_range() {
        let mut rng = Random::new(1);
        let mut check = |text: &str, least: i64, most: i64| {
            let all: Vec<i64> = (0..200).map(|_| random(&mut rng, text).unwrap().parse().unwrap()).collect();
            assert!(all.iter().all(|n| (least..=most).contains(n)), "{text}: {all:?}");
            assert!(
                most.wrapping_sub(least).cast_unsigned() > 10
                    || (all.contains(&least) && all.contains(&most)),
                "{text}: {all:?}"
            );
        };
        check("", 0, i64::from(i32::MAX));
        check("3", 0, 2);
        check("-2 2", -2, 2);
        check("7 7", 7, 7);
        check("-5 5000000000", -5, 5_000_000_000);
        check("-1 9223372036854775807", -1, i64::MAX);
        check("-9223372036854775808 9223372036854775807", i64::MIN, i64::MAX);
        for (text, reason) in
            [("0", "bad N"), ("2 1", "bad N"), ("x", "bad N"), ("1 2 3", "too many arguments")]
        {
            assert_eq!(random(&mut rng, text), Err(reason.into()), "{text}");
        }
    }
}
