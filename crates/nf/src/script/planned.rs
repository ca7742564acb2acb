//! The handler calls that are visible in a script's text before it runs. With this list, the engine can
//! check that the handlers exist before anything runs.
//!
//! Calls whose handler name has a `$` reference, a quote or a backslash are left out. Calls of the functions
//! that only the script's own text can call (`cat`, `catq`, `kill`) are left out, too.

use element::PlannedCall;

use super::MOST_TEXT;
use super::expand::{Mode, Source, expand};
use super::functions::PRIVATE;
use super::program::{Instruction, Kind, Program, first_word};

/// Returns the handler calls in a script's own instructions, in the order of the text. A call is marked as
/// certain only if the script makes it in every run.
pub(super) fn calls(program: &Program, kind: &Kind) -> Vec<PlannedCall> {
    let mut calls = Vec::new();
    // Until an instruction jumps, waits or ends, each instruction is certain to be executed.
    let mut is_certain = matches!(kind, Kind::Active | Kind::Driver);
    for (instruction, &argument) in program.instructions.iter().zip(&program.arguments) {
        let (texts, call): (Vec<&str>, Option<(&str, bool)>) = match instruction {
            Instruction::Set { text, .. }
            | Instruction::Return { text, .. }
            | Instruction::Error { text, .. } => (vec![text], None),
            Instruction::Init { text, .. } => (vec![text], None),
            Instruction::Print(print) if print.is_handler => (vec![&print.text], Some((&print.text, false))),
            Instruction::Print(print) => (vec![&print.text], None),
            Instruction::Read { call, .. } => (vec![call], Some((call, false))),
            Instruction::Write { call, .. } => (vec![call], Some((call, true))),
            Instruction::WaitTime(text) | Instruction::Goto { condition: text, .. } => (vec![text], None),
            _ => (Vec::new(), None),
        };
        let is_init = matches!(instruction, Instruction::Init { .. });
        let mut add = |text: &str, writes: bool| {
            let (name, _) = first_word(text);
            let handler = name.rsplit_once('.').map_or(name, |(_, handler)| handler);
            let is_own = PRIVATE.iter().any(|(own, _)| *own == handler);
            if !name.is_empty() && !name.contains(['$', '"', '\'', '\\']) && !is_own {
                let is_certain = is_certain || is_init;
                calls.push(PlannedCall { text: text.to_owned(), writes, is_certain, argument });
            }
        };
        call.into_iter().for_each(|(text, writes)| add(text, writes));
        for text in texts {
            let mut found = Found { calls: Vec::new(), depth: 0 };
            expand(text, Mode::Plain, MOST_TEXT, &mut found);
            found.calls.iter().for_each(|text| add(text, false));
        }
        let goes_on = matches!(
            instruction,
            Instruction::Set { .. }
                | Instruction::Init { .. }
                | Instruction::Print(_)
                | Instruction::Read { .. }
                | Instruction::Write { .. }
                | Instruction::Label(_)
        );
        is_certain &= goes_on;
    }
    calls
}

/// A source of values for references that records the handler calls in `$(...)`. It gives no values, so that
/// no reference is replaced.
struct Found {
    calls: Vec<String>,
    depth: usize,
}

/// The maximum nesting of `$(...)` in which calls are searched for.
const DEEPEST: usize = 32;

impl Source for Found {
    fn variable(&mut self, _: &str) -> Option<String> {
        None
    }

    fn handler(&mut self, text: &str) -> Option<String> {
        self.calls.push(text.to_owned());
        None
    }

    fn enter(&mut self) -> bool {
        let fits = self.depth < DEEPEST;
        self.depth += usize::from(fits);
        fits
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn too_long(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(texts: &[&str], kind: &Kind) -> Vec<(String, bool, bool, usize)> {
        let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
        let program = Program::parse(&texts, kind).unwrap_or_default();
        let calls = calls(&program, kind).into_iter();
        calls.map(|call| (call.text, call.writes, call.is_certain, call.argument)).collect()
    }

    fn call(text: &str, writes: bool, is_certain: bool, argument: usize) -> (String, bool, bool, usize) {
        (text.into(), writes, is_certain, argument)
    }

    #[test]
    fn calls_are_certain_until_something_may_keep_the_script_from_them() {
        let texts = [
            "",
            "set x $(a.count)",
            "print \"$(add 1 $(b.count)) '$(not.this)' $(not $y.count)\"",
            "print c.count",
            "write d.reset 1",
            "label here",
            "read e.config",
            "goto here $(f.active)",
            "write g.reset",
            "init z $(h.count)",
            "print $(cat file)",
            "print $x.count",
        ];
        assert_eq!(
            seen(&texts, &Kind::Active),
            [
                call("a.count", false, true, 1),
                call("b.count", false, true, 2),
                call("add 1 $(b.count)", false, true, 2),
                call("not.this", false, true, 2),
                call("not $y.count", false, true, 2),
                call("c.count", false, true, 3),
                call("d.reset 1", true, true, 4),
                call("e.config", false, true, 6),
                call("f.active", false, true, 7),
                call("g.reset", true, false, 8),
                call("h.count", false, true, 9),
            ]
        );
        assert_eq!(seen(&["print a.b", "wait 1s", "print a.b"], &Kind::Passive).len(), 2);
        assert!(seen(&["print a.b"], &Kind::Passive).iter().all(|call| !call.2));
        let waits = seen(&["print a.b", "wait 1s", "print a.b"], &Kind::Active);
        assert_eq!(waits.iter().map(|call| call.2).collect::<Vec<_>>(), [true, false]);
    }
}
