//! # CTXDispatcher
//! Sends each packet to the output of the first rule that it matches.
//!
//! A rule is a pattern, and optionally an output, or `drop`. A pattern is a list of clauses, which must all
//! hold:
//!
//! - `OFFSET/VALUE[/MASK]`: the bytes at this offset have this value; the offset is in decimal, value and
//!   mask are in hexadecimal. A value that is zero under the mask means any value. As in FastClick, `ip+`
//!   ahead of the offset has no effect; it gives a warning.
//! - `ip proto PROTOCOL`, `src host ADDRESS`, `dst host ADDRESS`, `src port NUMBER`, `dst port NUMBER`:
//!   fields of a packet that starts with an IPv4 header of 20 bytes.
//! - `agg`, `thread`: any packet.
//!
//! `-` stands for all packets. A rule without output has the output after the outputs of the rules before
//! it, beginning with 0. If there is no such output, packets of the rule leave by the last output, or are
//! dropped if the rule is `-`. Packets of a rule whose output does not exist are dropped, with a warning at
//! the start. If the last rule is not `-`, packets that match no rule leave by the last output if no rule has
//! it; otherwise they are dropped. Suffixes that say how FastClick stores flows (`!`, `:ARRAY`, `:HASH-N`)
//! are ignored.
//!
//! In FastClick, a CTXManager upstream classifies the packets, and a link `~>` to several elements chooses by
//! their classes. Here, offsets always count from the start of the packet at this element. A link `~>` is the
//! same as `->`, and `~ip>` the same as `-> IPIn ->`; FlowContextDispatcher, which FastClick puts at each of
//! these links, is another name of this class.
//!
//! ## Usage
//! `CTXDispatcher(RULE, ...)`
//!
//! ## Arguments
//! - `RULE`: a pattern, and optionally the output of packets that match it.
//!
//! ## Handlers
//! - `program`: the compiled decision tree. Its results are the numbers of rules.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CTXManager -> c :: CTXDispatcher(12/0806 20/0001, 12/0800 1, - drop);
//! c[0] -> Discard; c[1] -> Discard
//! ```
//!
//! ## See also
//! Classifier, IPClassifier, CTXManager

use classify::pattern::PatternProgram;
use element::class::ArgInfo;
use element::effects::{Case, Counting, Filter, Target, Written};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, manual};

use super::rules::{ALL, Rule, To};
use crate::ethernet::classifier::clauses_of;
use crate::sorting::{Fate, Sorter};

/// The element class `CTXDispatcher`.
pub static CLASS: Class = Class {
    name: "CTXDispatcher",
    aliases: &["FlowContextDispatcher", "FlowDispatcher"],
    ports: "1/-",
    processing: "h",
    manual: manual!("ctx_dispatcher.rs"),
    args: &[ArgInfo::rest("RULE", "rule")],
    table: &HANDLERS,
    samples: &[
        "12/0800, 12/0806 20/01 1, - drop -> 1/2",
        "ip proto tcp && dst port 80, ip proto udp -> 1/3",
        "-> 1/1",
    ],
    build: |args| {
        let (mut rules, mut all) = (Vec::new(), None);
        args.each_of_rest(|args, place, text| match Rule::parse(text) {
            Ok(rule) => {
                if rule.counts_from_ip {
                    args.warn("'ip+' has no effect: the offset counts from the start of the packet");
                }
                if let Some(all) = all {
                    args.error(format!(
                        "matches no packets, because argument {} matches all; remove it or give it a pattern",
                        all + 1
                    ));
                }
                all = all.or((rule.pattern == ALL).then_some(place));
                rules.push(rule);
            }
            Err(error) => args.error(error),
        });
        args.finish()?;
        let outputs = args.outputs();
        if rules.is_empty() && outputs != 1 {
            args.error_as(
                "there are no rules; give rules, or connect exactly one output",
                "Invalid rule set. There is no rule and not a single output.",
            );
            return Err(Invalid);
        }
        let written = rules.len();
        for (place, rule) in rules.iter().enumerate() {
            if let To::Output(output) = rule.to
                && output >= outputs
            {
                args.warn_in(
                    place,
                    format!("output {output} does not exist: packets of the rule are dropped"),
                );
            }
        }
        let (patterns, fates) = table(rules, outputs);
        match PatternProgram::compile(&patterns) {
            Ok(program) => {
                Ok(Box::new(CtxDispatcher { program, fates, rules: written, sorter: Sorter::new(outputs) }))
            }
            Err(errors) => {
                errors.into_iter().for_each(|(_, text)| args.error(text));
                Err(Invalid)
            }
        }
    },
    ..Class::DEFAULT
};

/// Returns the patterns of the rules, with the fate of the packets that match each. A last pattern stands for
/// all other packets. `outputs` is the number of outputs.
fn table(rules: Vec<Rule>, outputs: usize) -> (Vec<String>, Vec<Fate>) {
    let mut next = 0;
    let (mut patterns, mut fates) = (Vec::new(), Vec::new());
    for Rule { pattern, to, .. } in rules {
        let output = match to {
            To::Drop => None,
            To::Output(output) => {
                next = next.max(output.saturating_add(1));
                Some(output)
            }
            To::Next => {
                let output = next;
                next = next.saturating_add(1);
                if output >= outputs && pattern != ALL { outputs.checked_sub(1) } else { Some(output) }
            }
        };
        let output = output.filter(|&output| output < outputs);
        patterns.push(pattern);
        fates.push(output.map_or(Fate::Drop(DropReason::NoMatch), Fate::Output));
    }
    let is_empty = patterns.is_empty();
    if patterns.last().is_none_or(|last| last != ALL) {
        let rest = outputs.checked_sub(1).filter(|_| next < outputs || is_empty);
        patterns.push(ALL.to_string());
        fates.push(rest.map_or(Fate::Drop(DropReason::NoMatch), Fate::Output));
    }
    (patterns, fates)
}

struct CtxDispatcher {
    program: PatternProgram,
    /// The fate of the packets that match each pattern of the program.
    fates: Vec<Fate>,
    /// The number of rules in the arguments; a further pattern stands for all other packets.
    rules: usize,
    sorter: Sorter,
}

impl Element for CtxDispatcher {
    fn effects(&self) -> Effects {
        let case = |(number, fate): (usize, &Fate)| {
            let to = match *fate {
                Fate::Output(output) => Target::Output(output),
                Fate::Drop(reason) => Target::Drop(reason),
            };
            let case = Case::new(Filter::All(clauses_of(&self.program, number)), to);
            match number < self.rules {
                true => case.written(Written { argument: number, line: None }),
                false => case,
            }
        };
        Effects::cases(self.fates.iter().enumerate().map(case).collect()).counting(Counting::Tallied)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let CtxDispatcher { program, fates, sorter, .. } = self;
        sorter.send_by(
            cx,
            batch,
            |_, packet| program.decide(packet.data()),
            |decision| {
                let fate = decision.pattern().and_then(|pattern| fates.get(pattern));
                fate.copied().unwrap_or(Fate::Drop(DropReason::NoMatch))
            },
        )
    }
}

const HANDLERS: &[Handler<CtxDispatcher>] = &[Handler::get("program", |e| e.program.to_string())];
