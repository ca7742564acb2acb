//! # Classifier
//! Sends each packet to the output of the first byte pattern that it matches.
//!
//! There is one pattern per output. A pattern is a list of clauses `[!]offset/value[%mask]` that must all hold,
//! with offset in decimal, value and mask in hexadecimal and `?` for a half byte that does not matter; `-`
//! matches everything. Packets that match nothing are dropped.
//!
//! ## Usage
//! `Classifier(PATTERN, ...)`
//!
//! ## Arguments
//! - `PATTERN`: one for each output.
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
//! CheckIPHeader

use classify::pattern::Program;
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Case, Field, Filter, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "Classifier",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("classifier.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern")],
    handlers: &[HandlerInfo::read("program")],
    samples: &["12/0800", "12/0800, 12/0806 20/0001, - -> 1/3", "!0/01%01, 23/06 !20/??20 -> 1/2"],
    build: |args| {
        let patterns = args.rest();
        args.finish()?;
        if patterns.len() != args.outputs() {
            args.error(format!("need {} arguments, one per output port", args.outputs()));
        }
        let program = match Program::compile(&patterns) {
            Ok(program) => program,
            Err(errors) => {
                errors.into_iter().for_each(|e| args.error(e));
                return Err(element::Invalid);
            }
        };
        args.finish()?;
        for output in program.unmatched() {
            args.warn(format!("output {output} matches no packets"));
        }
        let outputs = args.outputs();
        Ok(Box::new(Classifier { program, sorted: (0..outputs).map(|_| None).collect() }))
    },
    ..Class::DEFAULT
};

struct Classifier {
    program: Program,
    /// One batch per output while a batch is being sorted.
    sorted: Vec<Option<Batch>>,
}

impl Element for Classifier {
    fn effects(&self) -> Effects {
        let reads = self.program.bytes().map(|(offset, length)| Field::Bytes {
            base: Base::Data,
            offset: offset as i32,
            length: length as u16,
        });
        let reads: Vec<Field> = reads.chain([Field::Length]).collect();
        let mut cases: Vec<Case> = (0..self.sorted.len())
            .map(|n| {
                Case::new(Filter::Opaque { about: "byte pattern", reads: reads.clone() }, Target::Output(n))
            })
            .collect();
        cases.push(Case::new(Filter::Any, Target::Drop(DropReason::NoMatch)));
        Effects::cases(cases)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        // Most batches go to one output as a whole: they pass on without moving a packet.
        let Some(first) = batch.first() else { return Some(batch) };
        let decision = self.program.decide(first.data());
        if batch[1..].iter().all(|packet| self.program.decide(packet.data()) == decision) {
            match decision.pattern() {
                Some(0) => return Some(batch),
                Some(output) => cx.emit(output, batch),
                None => cx.drop_all(batch, DropReason::NoMatch),
            }
            return None;
        }
        for packet in batch.drain() {
            match self.program.matches(packet.data()) {
                None => cx.drop(packet, DropReason::NoMatch),
                Some(output) => {
                    let sorted = self.sorted[output].get_or_insert_with(|| cx.batch());
                    if let Err(packet) = sorted.push(packet) {
                        cx.emit_one(output, packet, DropReason::NoOutput);
                    }
                }
            }
        }
        cx.recycle(batch);
        for (output, sorted) in self.sorted.iter_mut().enumerate() {
            if let Some(sorted) = sorted.take() {
                cx.emit(output, sorted);
            }
        }
        None
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.program.to_string())
    }
}
