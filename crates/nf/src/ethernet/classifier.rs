//! # Classifier
//! Sends each packet to the output of the first byte pattern that it matches.
//!
//! There is one pattern per output. A pattern is a list of clauses `[!]offset/value[%mask]`, which must all
//! hold. The offset is in decimal, value and mask are in hexadecimal, with `?` for a half byte that is
//! ignored; `-` matches all packets. Packets that match no pattern are dropped.
//!
//! The handlers `pattern0`, `pattern1` and so on read and write the patterns while packets flow.
//!
//! ## Usage
//! `Classifier(PATTERN, ...)`
//!
//! ## Arguments
//! - `PATTERN`: the pattern of one output.
//!
//! ## Handlers
//! - `program`: the compiled decision tree.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> c :: Classifier(12/0800, 12/0806 20/0001, -);
//! c[0] -> Discard; c[1] -> Discard; c[2] -> Discard
//! ```
//!
//! ## See also
//! IPClassifier, IPFilter, CheckIPHeader

use classify::IntervalSet;
use classify::pattern::{BytesTest, Decision, PatternProgram};
use element::class::ArgInfo;
use element::effects::{Case, Counting, Depends, Filter, Predicate, Target, Written};
use element::{Base, Batch, Class, Complaint, Cx, DropReason, Effects, Element, Handler, manual};

use crate::editing::bytes;
use crate::patterns;
use crate::sorting::{Fate, Sorter};

/// The element class `Classifier`.
pub static CLASS: Class = Class {
    name: "Classifier",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("classifier.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern")],
    table: &HANDLERS,
    samples: &["12/0800", "12/0800, 12/0806 20/0001, - -> 1/3", "!0/01%01, 23/06 !20/??20 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let (numbers, patterns): (Vec<_>, Vec<_>) = args.rest().into_iter().unzip();
        args.finish()?;
        let outputs = args.outputs();
        // If the number of patterns is wrong, Click reports no errors in them. They are reported here, but
        // not with Click's words.
        let goes_on = patterns::check_count(args, (patterns.len(), "pattern"), (outputs, "output"));
        let program = match PatternProgram::compile(&patterns) {
            Ok(program) => program,
            Err(errors) => {
                for (pattern, text) in errors {
                    let complaint = Complaint::from(text);
                    let complaint = if goes_on { complaint } else { complaint.without_clicks_words() };
                    args.error_in(numbers[pattern], complaint);
                }
                return Err(element::Invalid);
            }
        };
        args.finish()?;
        for output in program.unmatched() {
            args.warn(format!("output {output} matches no packets"));
        }
        Ok(Box::new(Classifier { patterns, program, sorter: Sorter::new(outputs) }))
    },
    ..Class::DEFAULT
};

struct Classifier {
    /// The texts of the patterns, for the handlers that show them.
    patterns: Vec<String>,
    program: PatternProgram,
    sorter: Sorter,
}

/// Returns the output, or the drop, for packets for which the decision tree has this result.
fn fate(decision: Decision) -> Fate {
    decision.pattern().map_or(Fate::Drop(DropReason::NoMatch), Fate::Output)
}

fn filter_of(test: BytesTest) -> Filter {
    let BytesTest { offset, length, mask, value } = test;
    let set = IntervalSet::one(value.into(), value.into());
    Filter::Leaf(Predicate::In { field: bytes(Base::Data, offset as usize, length), mask: mask.into(), set })
}

/// Returns the clauses of a pattern of `program`, all of which must hold.
pub(crate) fn clauses_of(program: &PatternProgram, pattern: usize) -> Vec<Filter> {
    let clauses = program.clauses(pattern).map(|(negated, tests)| {
        let all = Filter::All(tests.into_iter().map(filter_of).collect());
        if negated { all.not() } else { all }
    });
    clauses.collect()
}

impl Element for Classifier {
    fn effects(&self) -> Effects {
        let pattern = |n| {
            let case = Case::new(Filter::All(clauses_of(&self.program, n)), Target::Output(n));
            case.written(Written { argument: n, line: None })
        };
        let mut cases: Vec<Case> = (0..self.patterns.len()).map(pattern).collect();
        cases.push(Case::new(Filter::TRUE, Target::Drop(DropReason::NoMatch)));
        Effects::cases(cases).depending_on(Depends::Handler).counting(Counting::Tallied)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let program = &self.program;
        self.sorter.send_by(cx, batch, |_, packet| program.decide(packet.data()), fate)
    }
}

const HANDLERS: &[Handler<Classifier>] = &[
    Handler::get("program", |e| e.program.to_string()),
    Handler::numbered(
        "pattern",
        |e| e.patterns.len(),
        |e, _, number| e.patterns[number].clone(),
        |e, _, number, value| {
            let patterns = patterns::replaced(&e.patterns, number, value);
            e.program = PatternProgram::compile(&patterns).map_err(|errors| {
                let texts: Vec<String> = errors.into_iter().map(|(_, text)| text).collect();
                texts.join("\n")
            })?;
            e.patterns = patterns;
            Ok(())
        },
    ),
];
