//! # StringMatcher
//! Separates packets that contain one of several texts.
//!
//! A packet that contains a text, anywhere and case-sensitive, goes to output 1, or
//! is dropped without such an output. All other packets go to output 0.
//!
//! ## Usage
//! `StringMatcher(STRING, ...)`
//!
//! ## Arguments
//! - `STRING`: a text to look for.
//!
//! ## Handlers
//! - `matches`: the number of packets that contained a text.
//! - `reset_count`: resets `matches`.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA "GET /secret HTTP/1.0", LIMIT 1)
//!   -> m :: StringMatcher(secret, "pass word") -> Discard;
//! m[1] -> Print(found) -> Discard
//! ```
//!
//! ## See also
//! Search, Classifier

use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use element::args::{ArgType, Bytes};
use element::class::ArgInfo;
use element::effects::Field;
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, manual};
use packet::MAX_PACKET;

use crate::editing::{otherwise, refused};

/// The element class `StringMatcher`.
pub static CLASS: Class = Class {
    name: "StringMatcher",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("string_matcher.rs"),
    args: &[ArgInfo::rest("STRING", "bytes")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["matches"])],
    samples: &["abc, \\<0800> -> 1/2", "\\<45>", ""],
    reconfigures: true,
    build: |args| {
        let mut texts = Vec::new();
        args.each_of_rest(|args, place, text| match Bytes::parse(text, &args.place()) {
            Ok(Bytes(text)) if text.is_empty() => args.error(format!("Pattern #{place} has zero length")),
            Ok(Bytes(text)) if text.len() > MAX_PACKET => args.error(format!("Pattern #{place} is too long")),
            Ok(Bytes(text)) => texts.push(text),
            Err(reason) => args.error(reason),
        });
        args.finish()?;
        let matcher = NFA::builder().match_kind(MatchKind::Standard).build(&texts);
        let matcher = matcher.map_err(|error| args.error(format!("the patterns are too many: {error}")));
        args.finish()?;
        let Ok(matcher) = matcher else { return Err(element::Invalid) };
        Ok(Box::new(StringMatcher { matcher, matches: 0 }))
    },
    ..Class::DEFAULT
};

struct StringMatcher {
    /// The automaton that finds all texts at once.
    matcher: NFA,
    matches: u64,
}

/// True if the packet contains a text of the automaton, also one that lies in several slots.
fn contains(matcher: &NFA, packet: &Packet) -> bool {
    // The start of a search without an anchor always exists in this automaton.
    let Ok(mut state) = matcher.start_state(Anchored::No) else { return false };
    packet.chunks().flatten().any(|&byte| {
        state = matcher.next_state(Anchored::No, state, byte);
        matcher.is_match(state)
    })
}

impl Element for StringMatcher {
    fn effects(&self) -> Effects {
        let reads = [Field::Payload, Field::Length];
        let matching = refused("contains a text", &reads, DropReason::Denied).shown();
        Effects::cases(vec![matching, otherwise(Vec::new())])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let StringMatcher { matcher, matches } = self;
        batch.sift(
            |packet| if contains(matcher, packet) { Err(()) } else { Ok(()) },
            |packet, ()| {
                *matches += 1;
                cx.emit_one(1, packet, DropReason::Denied);
            },
        );
    }

    element::keeps!(matches);
}

const HANDLERS: &[Handler<StringMatcher>] =
    &[Handler::count("matches", |e| e.matches), Handler::act("reset_count", |e| e.matches = 0)];
