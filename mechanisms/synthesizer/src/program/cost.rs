//! The cost model: the costs and savings of a program, in instructions per packet.
//!
//! The numbers are measured (`bench/instructions`, programs as tables). They are averages over many
//! elements and programs, and only have to decide which of two alternatives costs less. docs/synthesizer.md
//! has the measurements.

use super::{Class, Passed, Program};

/// An element that a packet passes with others of its batch.
pub(crate) const ELEMENT: i64 = 37;

/// More for a translator, which finds the packet's flow and writes addresses and ports: what is left of that for a program that
/// has found the flow itself.
const TRANSLATOR: i64 = 130;

/// A program: finding the class of a packet, and one operation.
pub(crate) const PROGRAM: i64 = 480;

/// Finding the flow of a packet, and noting that it was seen.
pub(crate) const FLOW: i64 = 250;

/// Looking a packet up in a list of rules, which a program spares if it knows the packet's flow.
pub(crate) const LOOK_UP: i64 = 250;

/// More for a packet that a program has to look up: what is behind the list is asked question by question.
pub(crate) const LOOKED_UP: i64 = 350;

/// Instructions that a program saves for a packet of a class, the packet's flow aside. Below zero if it costs more.
pub(crate) fn saved(program: &Program, class: &Class) -> i64 {
    let translators = class.path.iter().filter(|passed| is_step(program, passed)).count();
    ELEMENT * class.path.len() as i64 + TRANSLATOR * translators as i64 - PROGRAM
}

/// True if a program costs less than its elements for the packets that it takes past the most of them.
pub(crate) fn pays(program: &Program) -> bool {
    let lists = program.lists.len() as i64;
    let of_class = |class: &Class| {
        let knows_flows = lists > 0 || class.path.iter().any(|passed| is_step(program, passed));
        let flow = if knows_flows { LOOK_UP * lists - FLOW } else { 0 };
        (class.path.len(), saved(program, class) + flow)
    };
    program.classes.iter().map(of_class).max().is_some_and(|(_, saved)| saved > 0)
}

/// True if a flow's packets are leased from the element that they pass here.
pub(crate) fn is_step(program: &Program, passed: &Passed) -> bool {
    let here = (passed.element, passed.input, passed.case);
    program.steps.iter().any(|step| (step.element, step.input, step.case) == here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Exit, Next, Step};

    fn class(path: usize) -> Class {
        let passed = |element| Passed { element, input: 0, case: 0, start: 0, cut: false };
        Class {
            start: 0,
            end: None,
            headers: [None; 3],
            kind: None,
            port: None,
            framed: false,
            stamped: false,
            writes: Vec::new(),
            checksum: None,
            transport_checksum: None,
            exit: Exit::Output(0),
            path: (0..path as u32).map(passed).collect(),
        }
    }

    #[test]
    fn long_ways_pay_and_translators_need_longer_ones() {
        let program = |path: usize| Program {
            start: Next::Class(0),
            classes: vec![class(path), class(2)],
            ..Program::default()
        };
        assert!(!pays(&program(4)) && !pays(&program(12)) && pays(&program(14)));
        assert!(!pays(&Program::default()));
        let step = Step { element: 0, input: 0, case: 0, after: None, before: class(0) };
        let with_translator = |path| Program { steps: vec![step.clone()], ..program(path) };
        assert!(!pays(&with_translator(14)) && pays(&with_translator(20)));
    }
}
