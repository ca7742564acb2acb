//! Parsing of the arguments of a Script into its type and its instructions.

use lang::args::{split_spaces, unquote};
use nix::sys::signal::Signal;

use element::Args;
use element::args::{Raw, parse_integer};

/// The type of a script (argument TYPE), which determines when the script runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runs when the configuration starts.
    Active,
    /// Runs when its handler `run` is called.
    Passive,
    /// Runs for each packet and chooses its output.
    Packet,
    /// Runs when a handler is called that scripts of other types do not have.
    Proxy,
    /// Runs when the driver is about to stop.
    Driver,
    /// Runs when the process receives one of these signals.
    Signal(Vec<i32>),
}

impl Kind {
    /// Parses TYPE. A script without TYPE is of type `without_ports`; with ports, it is of type PACKET if
    /// `without_ports` is ACTIVE. Errors are reported to `args`; the result is then not used.
    pub(super) fn read(args: &mut Args<'_>, without_ports: Kind) -> Kind {
        let ports = args.inputs() + args.outputs() > 0;
        let kind = match args.get::<Raw>("TYPE") {
            None if ports && without_ports == Kind::Active => Kind::Packet,
            None => without_ports,
            Some(Raw(text)) => Kind::parse(&unquote(&text)).unwrap_or_else(|reason| {
                args.error(reason);
                Kind::Passive
            }),
        };
        if kind == Kind::Packet && args.inputs() == 0 {
            args.error("PACKET script must have inputs");
        } else if kind != Kind::Packet && ports {
            args.error("ports allowed only on PACKET scripts");
        }
        kind
    }

    fn parse(text: &str) -> Result<Kind, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["ACTIVE"] => Ok(Kind::Active),
            ["PASSIVE"] => Ok(Kind::Passive),
            ["PACKET" | "PUSH"] => Ok(Kind::Packet),
            ["PROXY"] => Ok(Kind::Proxy),
            ["DRIVER"] => Ok(Kind::Driver),
            ["SIGNAL", ref signals @ ..] => {
                let numbers: Option<Vec<i32>> = signals.iter().map(|word| signal_number(word)).collect();
                let numbers = numbers.filter(|all| !all.is_empty());
                numbers.map(Kind::Signal).ok_or_else(|| "bad signal number".into())
            }
            _ => Err("bad TYPE".into()),
        }
    }
}

/// Returns the number of a signal (signal(7)), from its name without `SIG`, or from a number from 0 to 31.
pub(super) fn signal_number(word: &str) -> Option<i32> {
    const NAMES: &[(&str, Signal)] = &[
        ("ABRT", Signal::SIGABRT),
        ("ALRM", Signal::SIGALRM),
        ("HUP", Signal::SIGHUP),
        ("INT", Signal::SIGINT),
        ("IO", Signal::SIGIO),
        ("PIPE", Signal::SIGPIPE),
        ("QUIT", Signal::SIGQUIT),
        ("TERM", Signal::SIGTERM),
        ("TSTP", Signal::SIGTSTP),
        ("USR1", Signal::SIGUSR1),
        ("USR2", Signal::SIGUSR2),
    ];
    let named = NAMES.iter().find(|(name, _)| *name == word).map(|&(_, signal)| signal as i32);
    let number = || parse_integer(word).ok().and_then(|n| i32::try_from(n).ok());
    named.or_else(number).filter(|n| (0..32).contains(n))
}

/// An instruction of a script. Texts are as configured, before expansion. If `unquote` is true, a layer of
/// quotes is removed after expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Assigns the expanded text to the variable.
    Set {
        variable: String,
        text: String,
        unquote: bool,
    },
    /// Assigns the variable when the element is initialized. If `exported` is true, the variable is also a
    /// read handler.
    Init {
        variable: String,
        text: String,
        unquote: bool,
        exported: bool,
    },
    /// Writes text, or the answer of a handler, to standard output or a file.
    Print(Print),
    /// Calls a read handler, and writes its name and its answer to standard error.
    Read {
        call: String,
        unquote: bool,
    },
    /// Calls a write handler.
    Write {
        call: String,
        unquote: bool,
    },
    /// Blocks until events have given the script this number of steps. Examples of such events are writes to
    /// the handler `step` and, in a script of type DRIVER, requests to stop.
    WaitSteps(u64),
    /// Blocks for a time or for one step, whichever comes first.
    WaitTime(String),
    /// Defines a label for the instruction that follows.
    Label(String),
    /// Jumps to a label, if the condition is empty or true.
    Goto {
        label: String,
        condition: String,
    },
    /// Jumps to the first instruction.
    Loop,
    /// Ends the script with a value, which is the answer of the handler that runs the script.
    Return {
        text: String,
        unquote: bool,
    },
    /// Ends the script with an error, which the handler that runs the script returns or which is reported.
    Error {
        text: String,
        unquote: bool,
    },
    End,
    Exit,
    Stop,
}

/// The contents and destination of a print instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Print {
    pub(super) to: Destination,
    /// The text, before expansion.
    pub(super) text: String,
    /// True if the text names a read handler.
    pub(super) is_handler: bool,
    /// True if a layer of quotes is removed from the handler's parameters.
    pub(super) unquote: bool,
    /// True if a line end is added to a text without one.
    pub(super) newline: bool,
}

/// The destination of printed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Output,
    File { name: String, append: bool },
}

/// The instructions of a script, in the order of execution: the script's own instructions, an instruction
/// that ends the script (`end` or `stop`), and the instructions of [`BUILT_IN`].
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    /// For each of the script's own instructions, the index of the argument that contains the instruction.
    pub(super) arguments: Vec<usize>,
}

/// The labels that every script has besides `begin` and `loop`, and their instructions, which follow all
/// other instructions.
const BUILT_IN: [(&str, Instruction); 5] = [
    ("exit", Instruction::Exit),
    ("end", Instruction::End),
    ("stop", Instruction::Stop),
    ("error", Instruction::Error { text: String::new(), unquote: false }),
    ("errorq", Instruction::Error { text: String::new(), unquote: true }),
];

impl Program {
    /// Parses instructions, one per argument.
    ///
    /// # Errors
    /// If there are syntax errors or unknown labels; all errors are returned, with the numbers of their
    /// arguments.
    pub(super) fn parse(arguments: &[String], kind: &Kind) -> Result<Program, Vec<(usize, String)>> {
        let (mut instructions, mut errors) = (Vec::new(), Vec::new());
        let mut numbers = Vec::new();
        for (number, argument) in arguments.iter().map(|argument| argument.trim()).enumerate() {
            if argument.is_empty() {
                continue;
            }
            let (word, text) = first_word(argument);
            match Instruction::parse(word, text) {
                Some(instruction) => {
                    instructions.push(instruction);
                    numbers.push(number);
                }
                None => errors.push((number, format!("syntax error at '{word}'"))),
            }
        }
        if *kind == Kind::Driver && instructions.is_empty() {
            instructions.push(Instruction::WaitSteps(1));
        }
        instructions.push(if *kind == Kind::Driver { Instruction::Stop } else { Instruction::End });
        instructions.extend(BUILT_IN.map(|(_, instruction)| instruction));
        let program = Program { instructions, arguments: numbers };
        for (instruction, number) in program.instructions.iter().zip(&program.arguments) {
            if let Instruction::Goto { label, .. } = instruction
                && program.target(label).is_none()
            {
                errors.push((*number, format!("no such label '{label}'")));
            }
        }
        if errors.is_empty() { Ok(program) } else { Err(errors) }
    }

    /// Returns the index of the instruction at a label; `None` if there is no such label. The script's own
    /// labels take precedence over built-in labels.
    pub(super) fn target(&self, label: &str) -> Option<usize> {
        let is_here = |i: &Instruction| matches!(i, Instruction::Label(name) if name == label);
        let built_in = || {
            let place = BUILT_IN.iter().position(|(name, _)| *name == label)?;
            Some(self.instructions.len() - BUILT_IN.len() + place)
        };
        let begin = || ["begin", "loop"].contains(&label).then_some(0);
        self.instructions.iter().position(is_here).or_else(begin).or_else(built_in)
    }

    /// Returns the names of the variables that are read handlers (instruction `export`).
    pub(super) fn exported(&self) -> impl Iterator<Item = &str> {
        self.instructions.iter().filter_map(|instruction| match instruction {
            Instruction::Init { variable, exported: true, .. } => Some(variable.as_str()),
            _ => None,
        })
    }

    /// True if an instruction sets the variable `name`. As in Click, the variable is empty before that.
    pub(super) fn assigns(&self, name: &str) -> bool {
        self.instructions.iter().any(|instruction| match instruction {
            Instruction::Init { variable, .. } | Instruction::Set { variable, .. } => variable == name,
            _ => false,
        })
    }

    /// True if the first instruction waits for steps or a time.
    pub(super) fn begins_with_wait(&self) -> bool {
        matches!(self.instructions.first(), Some(Instruction::WaitSteps(_) | Instruction::WaitTime(_)))
    }
}

impl Instruction {
    /// Parses an instruction from its first word and the text after it. Returns `None` for unknown words
    /// and for invalid texts.
    fn parse(word: &str, text: &str) -> Option<Instruction> {
        let unquote = word.ends_with('q');
        let some_text = || (!text.is_empty()).then(|| text.to_owned());
        let nothing = |instruction| text.is_empty().then_some(instruction);
        Some(match word {
            "set" | "setq" => {
                let (variable, text) = variable_and_text(text)?;
                Instruction::Set { variable, text: Some(text).filter(|text| !text.is_empty())?, unquote }
            }
            "init" | "initq" | "export" | "exportq" => {
                let (variable, text) = variable_and_text(text)?;
                Instruction::Init { variable, text, unquote, exported: word.starts_with("export") }
            }
            "print" | "printq" | "printn" | "printnq" => Instruction::Print(Print::parse(word, text)?),
            "save" | "append" => Instruction::Print(Print::of_handler(text, word == "append")?),
            "read" | "readq" => Instruction::Read { call: some_text()?, unquote },
            "write" | "writeq" => Instruction::Write { call: some_text()?, unquote },
            "wait" if !text.is_empty() => Instruction::WaitTime(text.to_owned()),
            "wait_time" | "wait_for" => Instruction::WaitTime(some_text()?),
            "wait" | "pause" | "wait_step" | "wait_stop" if text.is_empty() => Instruction::WaitSteps(1),
            "pause" | "wait_step" | "wait_stop" => {
                Instruction::WaitSteps(parse_integer(text).ok().and_then(|n| u64::try_from(n).ok())?)
            }
            "label" => Instruction::Label(one_word(text)?),
            "goto" => {
                let (label, condition) = first_word(text);
                let label = one_word(label)?;
                Instruction::Goto { label, condition: condition.to_owned() }
            }
            "loop" => nothing(Instruction::Loop)?,
            "return" | "returnq" => Instruction::Return { text: text.to_owned(), unquote },
            "error" | "errorq" => Instruction::Error { text: text.to_owned(), unquote },
            "end" => nothing(Instruction::End)?,
            "exit" => nothing(Instruction::Exit)?,
            "stop" => nothing(Instruction::Stop)?,
            _ => return None,
        })
    }
}

impl Print {
    fn parse(word: &str, text: &str) -> Option<Print> {
        let (to, text) = match text.strip_prefix('>') {
            None => (Destination::Output, text),
            Some(rest) => {
                let (append, rest) = rest.strip_prefix('>').map_or((false, rest), |rest| (true, rest));
                let (name, text) = first_word(rest);
                (Destination::parse(&one_word(name)?, append), text)
            }
        };
        let is_handler =
            text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '@' || first == '_');
        let (unquote, newline) = (word.ends_with('q'), !word.starts_with("printn"));
        Some(Print { to, text: text.to_owned(), is_handler, unquote, newline })
    }

    /// Parses the text of `save` and `append`: a handler, and a file, which is standard output if it is not
    /// given. Returns `None` for any other number of words.
    fn of_handler(text: &str, append: bool) -> Option<Print> {
        let words = split_spaces(text);
        let (handler, file) = match &words[..] {
            [handler] => (handler, "-"),
            [handler, file] => (handler, file.text.as_str()),
            _ => return None,
        };
        let to = Destination::parse(file, append);
        Some(Print { to, text: handler.text.clone(), is_handler: true, unquote: false, newline: true })
    }
}

impl Destination {
    fn parse(name: &str, append: bool) -> Destination {
        match name {
            "-" => Destination::Output,
            name => Destination::File { name: name.to_owned(), append },
        }
    }
}

/// Returns the first word of a text, and the text after it without the space between the two.
pub(super) fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

fn one_word(text: &str) -> Option<String> {
    (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| text.to_owned())
}

/// Parses the name of a variable, without a dollar sign, and the text after it. Returns `None` if the name
/// is empty or has quotes, a dollar sign or a backslash.
fn variable_and_text(text: &str) -> Option<(String, String)> {
    let (variable, text) = first_word(text);
    let named = !variable.is_empty() && !variable.contains(['$', '"', '\'', '\\']);
    named.then(|| (variable.to_owned(), text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(texts: &[&str]) -> Result<Vec<Instruction>, Vec<String>> {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        let program = Program::parse(&texts, &Kind::Active);
        let program =
            program.map_err(|errors| errors.into_iter().map(|(_, text)| text).collect::<Vec<_>>())?;
        Ok(program.instructions[..program.instructions.len() - BUILT_IN.len()].to_vec())
    }

    fn one(text: &str) -> Instruction {
        parse(&[text, "label here"]).unwrap().swap_remove(0)
    }

    fn print(to: Destination, text: &str, is_handler: bool, unquote: bool, newline: bool) -> Instruction {
        Instruction::Print(Print { to, text: text.into(), is_handler, unquote, newline })
    }

    fn file(name: &str, append: bool) -> Destination {
        Destination::File { name: name.into(), append }
    }

    #[test]
    fn instructions() {
        let set = |text: &str, unquote| Instruction::Set { variable: "x".into(), text: text.into(), unquote };
        let init = |text: &str, unquote, exported| Instruction::Init {
            variable: "x".into(),
            text: text.into(),
            unquote,
            exported,
        };
        let goto = |condition: &str| Instruction::Goto { label: "here".into(), condition: condition.into() };
        let out = Destination::Output;
        let cases: &[(&str, Instruction)] = &[
            ("set x $y  z", set("$y  z", false)),
            ("setq x \"a\"", set("\"a\"", true)),
            ("init x", init("", false, false)),
            ("initq x 1", init("1", true, false)),
            ("export x", init("", false, true)),
            ("exportq x 1", init("1", true, true)),
            ("print", print(out.clone(), "", false, false, true)),
            ("print c.count", print(out.clone(), "c.count", true, false, true)),
            ("printq @c.count 1", print(out.clone(), "@c.count 1", true, true, true)),
            ("printn $x", print(out.clone(), "$x", false, false, false)),
            ("printnq _x", print(out.clone(), "_x", true, true, false)),
            ("print >f c.count", print(file("f", false), "c.count", true, false, true)),
            ("print >> f \"a\"", print(file("f", true), "\"a\"", false, false, true)),
            ("print > - x", print(out.clone(), "x", true, false, true)),
            ("save c.count", print(out.clone(), "c.count", true, false, true)),
            ("save c.count f", print(file("f", false), "c.count", true, false, true)),
            ("append c.count f", print(file("f", true), "c.count", true, false, true)),
            ("read c.count", Instruction::Read { call: "c.count".into(), unquote: false }),
            ("readq c.count 1", Instruction::Read { call: "c.count 1".into(), unquote: true }),
            ("write c.reset", Instruction::Write { call: "c.reset".into(), unquote: false }),
            ("writeq c.reset 1", Instruction::Write { call: "c.reset 1".into(), unquote: true }),
            ("wait", Instruction::WaitSteps(1)),
            ("pause", Instruction::WaitSteps(1)),
            ("pause 3", Instruction::WaitSteps(3)),
            ("wait_step 0x10", Instruction::WaitSteps(16)),
            ("wait_stop 2", Instruction::WaitSteps(2)),
            ("wait 1s", Instruction::WaitTime("1s".into())),
            ("wait_time $t", Instruction::WaitTime("$t".into())),
            ("wait_for 10 ms", Instruction::WaitTime("10 ms".into())),
            ("label here", Instruction::Label("here".into())),
            ("goto here", goto("")),
            ("goto here $(lt $x 5)", goto("$(lt $x 5)")),
            ("loop", Instruction::Loop),
            ("return", Instruction::Return { text: String::new(), unquote: false }),
            ("returnq \"a\"", Instruction::Return { text: "\"a\"".into(), unquote: true }),
            ("error bad thing", Instruction::Error { text: "bad thing".into(), unquote: false }),
            ("errorq", Instruction::Error { text: String::new(), unquote: true }),
            ("end", Instruction::End),
            ("exit", Instruction::Exit),
            ("stop", Instruction::Stop),
        ];
        for (text, expected) in cases {
            assert_eq!(one(text), *expected, "{text}");
        }
    }

    #[test]
    fn all_mistakes_are_reported() {
        let bad = [
            "sett x 1",
            "set x",
            "set",
            "set $x 1",
            "init",
            "print >",
            "save",
            "save a b c",
            "read",
            "write",
            "pause x",
            "pause -1",
            "wait_time",
            "label",
            "label a b",
            "goto",
            "loop 1",
            "end 1",
            "exit 1",
            "stop 1",
        ];
        let expected = bad.map(|text| format!("syntax error at '{}'", first_word(text).0));
        assert_eq!(parse(&bad), Err(expected.to_vec()));
        assert_eq!(parse(&["goto nowhere", "goto end"]), Err(vec!["no such label 'nowhere'".into()]));
    }

    #[test]
    fn scripts_end_by_themselves() {
        assert_eq!(parse(&["", " "]), Ok(vec![Instruction::End]));
        let driver = Program::parse(&[], &Kind::Driver).unwrap();
        assert_eq!(driver.instructions[..2], [Instruction::WaitSteps(1), Instruction::Stop]);
        assert_eq!(driver.instructions.len(), 2 + BUILT_IN.len());
    }

    #[test]
    fn labels_hide_the_ones_that_every_script_has() {
        let texts = ["stop", "label end", "goto end"].map(String::from);
        let program = Program::parse(&texts, &Kind::Active).unwrap();
        assert_eq!((program.target("end"), program.target("begin")), (Some(1), Some(0)));
        let exit = program.target("exit").and_then(|place| program.instructions.get(place));
        assert_eq!(exit, Some(&Instruction::Exit));
        assert_eq!(program.target("x"), None);
    }

    #[test]
    fn types() {
        assert_eq!(Kind::parse("PUSH"), Ok(Kind::Packet));
        assert_eq!(Kind::parse("SIGNAL INT 10 USR2"), Ok(Kind::Signal(vec![2, 10, 12])));
        for text in ["SIGNAL", "SIGNAL SIGINT", "SIGNAL 32", "SIGNAL -1"] {
            assert_eq!(Kind::parse(text), Err("bad signal number".into()), "{text}");
        }
        for text in ["", "active", "ACTIVE now"] {
            assert_eq!(Kind::parse(text), Err("bad TYPE".into()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(texts in proptest::collection::vec("(goto|print|set|wait|label|)[ >a$\"é-]{0,12}", 0..4)) {
            let _ = Program::parse(&texts, &Kind::Active);
        }
    }
}
