//! The cost model: the costs and savings of a program, in instructions per packet.
//!
//! The numbers are measured (`bench/instructions`, programs as tables). They are averages over many
//! elements and programs, and only have to decide which of two alternatives costs less. docs/synthesizer.md
//! has the measurements.

use super::{Passed, Program, TrafficClass};

/// The instructions that an element spends on a packet that arrives in a batch.
pub const ELEMENT: i64 = 37;

/// The instructions that a program saves per bypassed translator, in addition to [`ELEMENT`]: the
/// translator's look-up of the flow and its writes of addresses and ports, less the instructions of the
/// program for the same work.
const TRANSLATOR: i64 = 130;

/// The instructions that a program spends on a packet: on the questions that find the packet's class, and on
/// the operation of that class.
pub const PROGRAM: i64 = 480;

/// The instructions for finding the flow of a packet in the program's flow cache, and recording that the
/// flow was seen.
pub const FLOW: i64 = 250;

/// The instructions of an element for a look-up in a list of rules. A program saves the look-up for packets
/// of flows for which it has cached the matching rule.
pub const LOOK_UP: i64 = 250;

/// The additional instructions for a packet for which a program itself evaluates a list of rules: the
/// questions after the list in the decision graph are then asked packet by packet, and not for the whole
/// batch.
pub const LOOKED_UP: i64 = 350;

/// Returns the instructions that a program saves for a packet of a class, without the costs of finding its
/// flow and of look-ups in lists. The result is negative if the program costs more than the bypassed
/// elements.
pub fn saved(program: &Program, class: &TrafficClass) -> i64 {
    let translators = class.path.iter().filter(|passed| is_step(program, passed)).count();
    ELEMENT * class.path.len() as i64 + TRANSLATOR * translators as i64 - PROGRAM
}

/// True if a program costs less than its elements for packets of the class with the longest path. If several
/// classes have the longest path, the class that saves most counts. The matching rules of all lists are
/// assumed to be cached. False if the program has no classes.
pub fn pays(program: &Program) -> bool {
    let lists = program.lists.len() as i64;
    let of_class = |class: &TrafficClass| {
        let knows_flows = lists > 0 || class.path.iter().any(|passed| is_step(program, passed));
        let flow = if knows_flows { LOOK_UP * lists - FLOW } else { 0 };
        (class.path.len(), saved(program, class) + flow)
    };
    program.classes.iter().map(of_class).max().is_some_and(|(_, saved)| saved > 0)
}

/// True if a bypassed element is one of the program's steps: the element would lease flows of packets that
/// arrive at the input `passed.input` and match the case `passed.case`.
pub fn is_step(program: &Program, passed: &Passed) -> bool {
    let here = (passed.element, passed.input, passed.case);
    program.steps.iter().any(|step| (step.element, step.input, step.case) == here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exit, Next, Step};

    fn class(path: usize) -> TrafficClass {
        let passed = |element| Passed { element, input: 0, case: 0, start: 0, cut: false };
        TrafficClass {
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
