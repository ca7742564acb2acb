//! The text form of programs: printer and parser. The text is the list of arguments of the element
//! `Synthesized`, one line each:
//!
//! - `LAYOUT - 14 34`: the offsets of the marked link, network and transport header, `-` for no mark; a
//!   leading `?` (`?- 14 34`) if the mark of the link header does not matter; a leading `ANY` (`ANY - 14 34`)
//!   if all packets have this layout
//! - `OTHERWISE 1`: the output for packets with another layout, and for packets that are left to the elements
//! - `PASSING a b c`: the names of the replaced elements, to which other lines refer by index
//! - `MACHINE_CODE later`: the time at which machine code is made, `never`, `later` or `now`
//! - `USE always`: the program processes all packets and leases flows regardless of cost; the default is
//!   `USE paying`
//! - `START n0`: the first question (`n`) or class (`c`)
//! - `n0 length 33:c0 *:n1`: a question, with the last answer of each range and where it leads; `*` is the
//!   largest answer
//! - `l0 of 2 0 at 14 34`: a list of rules: element and input, and the offsets of the network and transport
//!   header; `end 14+1*16/2` is the offset of the packet's end at the list
//! - `r 0 17 &2 n9/1=6 t2/2=80`: a rule of the list above it: outcome, case of the declaration, and the
//!   condition in prefix notation
//! - `s0 of 3.0.5 behind - at 14; mark - 14 34; out 0`: a step: element, input and case; the previous step
//!   or `-`; the operation on the packet until it arrives at the element
//! - `c0 at 14; end 14+1*16/2; mark - 14 -; type 0; from 0; frame; stamp; put 0 0001..; add 22 22/1 -1; copy
//!   5/2 7; mask 15 0f 10; copy 26 step0.0/4; sum 14 22 26; tcp 34 26 28 36; out 0; via 0.0.1@14`: a class,
//!   with the fields of [`TrafficClass`] that are set: start, end, header marks, packet type, input port,
//!   Ethernet frame, new time stamp; four kinds of writes; the updates of the IPv4 checksum (header, and
//!   words or `all`) and of a TCP or UDP checksum; the output (or `drop` and the reason, with `_` for
//!   spaces); and the bypassed elements (element, input, case, start, and `e` for a packet that is already
//!   cut)

use classify::Tree;
use std::fmt::Write as _;

use classify::filter::{Condition, HeaderLayer, Test};
use element::DropReason;
use element::effects::HeaderKind as Protocol;

use super::question::{AnswerSum, LeasedProperty, Question};
use super::{
    ChecksumOperation, Exit, Next, Node, OrderedRules, Passed, Program, Rule, Step, TrafficClass,
    TransportChecksum, Write, WrittenValue,
};
use crate::location::ByteLocation;
use crate::machine_code::MachineCode;

/// The maximum nesting depth of conditions that the parser accepts, so that its recursion is bounded.
const DEEPEST: usize = 200;

/// The maximum distance in bytes of an offset from the start of a packet that the parser accepts. The
/// distance is far beyond the end of any slot, and small enough that sums of offsets cannot overflow.
const FARTHEST: i32 = 1 << 16;

/// Returns the text of a program: its lines with commas between them, as the arguments of an element in a
/// configuration. [`read`] parses it.
pub fn write(program: &Program) -> String {
    let mut lines: Vec<String> = Vec::new();
    let certain = if program.is_certain { "ANY " } else { "" };
    let any_link = if program.needs_link || program.is_certain { "" } else { "?" };
    lines.push(format!("LAYOUT {certain}{any_link}{}", marks(program.layout.map(Some))));
    lines.push(format!("OTHERWISE {}", program.otherwise));
    if !program.elements.is_empty() {
        lines.push(format!("PASSING {}", program.elements.join(" ")));
    }
    if program.machine_code != MachineCode::default() {
        lines.push(format!("MACHINE_CODE {}", program.machine_code));
    }
    if program.always {
        lines.push("USE always".into());
    }
    lines.push(format!("START {}", next(program.start)));
    for (number, node) in program.nodes.iter().enumerate() {
        let mut line = format!("n{number} {}", node.question);
        let most = node.question.all().intervals().last().map_or(0, |interval| interval.1);
        for (last, to) in &node.parts {
            let _ = match *last == most {
                true => write!(line, " *:{}", next(*to)),
                false => write!(line, " {last}:{}", next(*to)),
            };
        }
        lines.push(line);
    }
    for (number, list) in program.lists.iter().enumerate() {
        let [network, transport] = list.headers;
        let end = list.end.as_ref().map(|end| format!(" end {end}")).unwrap_or_default();
        lines.push(format!("l{number} of {} {} at {network} {transport}{end}", list.element, list.input));
        for rule in &list.rules {
            let mut line = format!("r {} {}", rule.outcome, rule.case);
            condition(&mut line, &rule.condition);
            lines.push(line);
        }
    }
    for (number, step) in program.steps.iter().enumerate() {
        let Step { element, input, case, after, before } = step;
        let after = after.map_or("-".to_string(), |after| after.to_string());
        lines.push(format!("s{number} of {element}.{input}.{case} behind {after} {}", of_class(before)));
    }
    lines.extend(
        program.classes.iter().enumerate().map(|(number, class)| format!("c{number} {}", of_class(class))),
    );
    lines.join(",\n    ")
}

fn next(next: Next) -> String {
    match next {
        Next::Node(number) => format!("n{number}"),
        Next::Class(number) => format!("c{number}"),
    }
}

/// Formats header marks of the link, network and transport header: offsets, `-` for headers without a mark,
/// `=` for marks that do not change.
fn marks(headers: [Option<Option<i32>>; 3]) -> String {
    let word = |header: Option<Option<i32>>| match header {
        None => "=".to_string(),
        Some(None) => "-".to_string(),
        Some(Some(place)) => place.to_string(),
    };
    headers.map(word).join(" ")
}

fn condition(line: &mut String, tree: &Condition) {
    // Writing to a string cannot fail.
    let _ = match tree {
        Tree::Constant(true) => write!(line, " yes"),
        Tree::Constant(false) => write!(line, " no"),
        Tree::Not(_) => write!(line, " !"),
        Tree::All(parts) => write!(line, " &{}", parts.len()),
        Tree::Any(parts) => write!(line, " |{}", parts.len()),
        Tree::Choose(_) => write!(line, " ?"),
        Tree::Leaf(test) => {
            let header = match test.header {
                HeaderLayer::Mac => 'm',
                HeaderLayer::Network => 'n',
                HeaderLayer::Transport => 't',
            };
            let Test { offset, length, mask, low, high, outside, .. } = test;
            let relation = if *outside { "!=" } else { "=" };
            let _ = write!(line, " {header}{offset}/{length}");
            if u64::from(*mask) != (1u64 << (8 * length)) - 1 {
                let _ = write!(line, "&{mask:x}");
            }
            match low == high {
                true => write!(line, "{relation}{low}"),
                false => write!(line, "{relation}{low}-{high}"),
            }
        }
    };
    match tree {
        Tree::Not(inner) => condition(line, inner),
        Tree::All(parts) | Tree::Any(parts) => parts.iter().for_each(|part| condition(line, part)),
        Tree::Choose(parts) => parts.iter().for_each(|part| condition(line, part)),
        Tree::Constant(_) | Tree::Leaf(_) => {}
    }
}

fn place(place: ByteLocation) -> String {
    match place {
        ByteLocation::Byte(offset) => offset.to_string(),
        ByteLocation::Annotation(offset) => format!("anno{offset}"),
        ByteLocation::Leased(step, offset) => format!("step{step}.{offset}"),
    }
}

/// Formats the operation of a class, its exit and its path, without the name of the class.
pub fn of_class(class: &TrafficClass) -> String {
    let mut parts = vec![format!("at {}", class.start)];
    if let Some(end) = &class.end {
        parts.push(format!("end {end}"));
    }
    if class.headers != [None; 3] {
        parts.push(format!("mark {}", marks(class.headers)));
    }
    if let Some(kind) = class.kind {
        parts.push(format!("type {kind}"));
    }
    if let Some(port) = class.port {
        parts.push(format!("from {port}"));
    }
    if class.framed {
        parts.push("frame".into());
    }
    if class.stamped {
        parts.push("stamp".into());
    }
    for write in &class.writes {
        let to = place(write.place);
        parts.push(match &write.value {
            WrittenValue::Constant(bytes) => format!("put {to} {}", crate::hex::digits(bytes)),
            WrittenValue::Copy(from, length) => format!("copy {to} {}/{length}", place(*from)),
            WrittenValue::Plus(from, length, plus) => format!("add {to} {}/{length} {plus}", place(*from)),
            WrittenValue::Masked(from, and, or) => format!("mask {to} {} {and:02x} {or:02x}", place(*from)),
        });
    }
    match &class.checksum {
        None => {}
        Some(ChecksumOperation::Recomputed { header }) => parts.push(format!("sum {header} all")),
        Some(ChecksumOperation::Updated { header, words }) => {
            let words: Vec<String> = words.iter().map(i32::to_string).collect();
            parts.push(format!("sum {header} {}", words.join(" ")));
        }
    }
    if let Some(TransportChecksum { protocol, header, words }) = &class.transport_checksum {
        let words: Vec<String> = words.iter().map(i32::to_string).collect();
        let protocol = if *protocol == Protocol::Tcp { "tcp" } else { "udp" };
        parts.push(format!("{protocol} {header} {}", words.join(" ")));
    }
    parts.push(match class.exit {
        Exit::Output(output) => format!("out {output}"),
        Exit::Drop(reason) => format!("drop {}", reason.as_str().replace(' ', "_")),
    });
    if !class.path.is_empty() {
        let passed = |passed: &Passed| {
            let Passed { element, input, case, start, cut } = passed;
            format!("{element}.{input}.{case}@{start}{}", if *cut { "e" } else { "" })
        };
        parts.push(format!("via {}", class.path.iter().map(passed).collect::<Vec<_>>().join(" ")));
    }
    parts.join("; ")
}

/// Parses a program from the arguments of its element, which has `outputs` outputs.
///
/// # Errors
/// If an argument is not a line of a program, or if the program is inconsistent (`sound`). The text names the
/// problem, and its place: the argument, the name of the argument's line, or the element that has the list of
/// rules.
pub fn read(arguments: &[String], outputs: usize) -> Result<Program, String> {
    let mut program = Program { outputs, ..Program::default() };
    for argument in arguments {
        let mut words = argument.split_whitespace();
        let first = words.next().unwrap_or_default();
        let line = line(&mut program, first, &mut words);
        let is_wrong = line.is_none() || words.next().is_some();
        if is_wrong && first == "MACHINE_CODE" {
            return Err(format!("'{argument}': it is `never`, `later` or `now`"));
        }
        if is_wrong && first == "USE" {
            return Err(format!("'{argument}': it is `paying` or `always`"));
        }
        if is_wrong {
            return Err(format!("'{argument}': not a line of a program"));
        }
    }
    sound(&program)?;
    Ok(program)
}

type Words<'w> = std::str::SplitWhitespace<'w>;

fn line(program: &mut Program, first: &str, words: &mut Words<'_>) -> Option<()> {
    match first {
        "LAYOUT" => {
            let mut rest = words.clone();
            program.is_certain = rest.next() == Some("ANY");
            if program.is_certain {
                words.next();
            }
            let rest = words.by_ref().collect::<Vec<_>>().join(" ");
            program.needs_link = !rest.starts_with('?');
            let mut rest = rest.trim_start_matches('?').split_whitespace();
            let [link, network, transport] = read_marks(&mut rest)?;
            program.layout = [link?, network?, transport?];
            if rest.next().is_some() {
                return None;
            }
        }
        "OTHERWISE" => program.otherwise = words.next()?.parse().ok()?,
        "PASSING" => program.elements = words.by_ref().map(String::from).collect(),
        "MACHINE_CODE" => {
            let when = words.next()?;
            program.machine_code =
                MachineCode::ALL.into_iter().find(|machine_code| machine_code.to_string() == when)?;
        }
        "USE" => {
            program.always = match words.next()? {
                "always" => true,
                "paying" => false,
                _ => return None,
            }
        }
        "START" => program.start = read_next(words.next()?)?,
        "r" => {
            let (outcome, case) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let condition = read_condition(words, 0)?;
            program.lists.last_mut()?.rules.push(Rule { condition, outcome, case });
        }
        _ => {
            let (kind, number) = first.split_at_checked(1)?;
            let number: usize = number.parse().ok()?;
            match kind {
                "n" if number == program.nodes.len() => program.nodes.push(read_node(words)?),
                "c" if number == program.classes.len() => program.classes.push(read_class(words)?),
                "l" if number == program.lists.len() => program.lists.push(read_list(words)?),
                "s" if number == program.steps.len() => program.steps.push(read_step(words)?),
                _ => return None,
            }
        }
    }
    Some(())
}

fn read_next(word: &str) -> Option<Next> {
    let (kind, number) = word.split_at_checked(1)?;
    let number = number.parse().ok()?;
    match kind {
        "n" => Some(Next::Node(number)),
        "c" => Some(Next::Class(number)),
        _ => None,
    }
}

fn read_marks(words: &mut Words<'_>) -> Option<[Option<Option<i32>>; 3]> {
    let mut mark = || {
        Some(match words.next()? {
            "=" => None,
            "-" => Some(None),
            place => Some(Some(read_offset(place)?)),
        })
    };
    Some([mark()?, mark()?, mark()?])
}

fn read_node(words: &mut Words<'_>) -> Option<Node> {
    let question = read_question(words.next()?)?;
    let most = question.all().intervals().last()?.1;
    let mut parts: Vec<(u128, Next)> = Vec::new();
    for word in words {
        let (last, to) = word.split_once(':')?;
        let last = if last == "*" { most } else { last.parse().ok()? };
        if parts.last().is_some_and(|(before, _)| *before >= last) {
            return None;
        }
        parts.push((last, read_next(to)?));
    }
    (parts.last()?.0 == most).then_some(Node { question, parts })
}

fn slash(word: &str) -> Option<(&str, u8)> {
    let (first, length) = word.split_once('/')?;
    Some((first, length.parse().ok()?))
}

fn read_question(word: &str) -> Option<Question> {
    Some(match word {
        "length" => Question::Length,
        "type" => Question::Kind,
        _ if word.starts_with("0<=") => Question::AtLeastZero(read_sum(&word[3..])?),
        _ if word.starts_with("ipsum") => Question::RightChecksum { offset: read_offset(&word[5..])? },
        _ if word.starts_with("list") => Question::List(word[4..].parse().ok()?),
        _ if word.starts_with("step") && !word.contains('.') => {
            Question::Leased { step: word[4..].parse().ok()?, what: LeasedProperty::Output }
        }
        _ => {
            let (first, length) = slash(word)?;
            if !(1..=16).contains(&length) {
                return None;
            }
            match read_place(first)? {
                ByteLocation::Byte(offset) => Question::Bytes { offset, length },
                ByteLocation::Annotation(offset) => Question::Annotation { offset, length },
                ByteLocation::Leased(step, offset) => {
                    Question::Leased { step, what: LeasedProperty::Bytes { offset, length } }
                }
            }
        }
    })
}

fn read_place(word: &str) -> Option<ByteLocation> {
    if let Some(offset) = word.strip_prefix("anno") {
        return offset.parse().ok().filter(|offset| *offset < 48).map(ByteLocation::Annotation);
    }
    match word.strip_prefix("step") {
        Some(place) => {
            let (step, offset) = place.split_once('.')?;
            Some(ByteLocation::Leased(step.parse().ok()?, offset.parse().ok()?))
        }
        None => read_offset(word).map(ByteLocation::Byte),
    }
}

/// Parses an offset from the start of a packet; `None` if the text is no number, or if the offset is farther
/// away than [`FARTHEST`] bytes.
fn read_offset(word: &str) -> Option<i32> {
    word.parse().ok().filter(|offset| (-FARTHEST..=FARTHEST).contains(offset))
}

/// Parses a sum of a constant and terms; `None` if the text is no such sum. A term is `factor*question&mask`:
/// an answer, masked and multiplied. The question is most often `offset/length`, the bytes at an offset as a
/// number. `14+1*16/2-4*14/1&0xf` is 14, plus the two bytes at 16, minus four times the low four bits of the
/// byte at 14.
fn read_sum(text: &str) -> Option<AnswerSum> {
    let mut pieces: Vec<&str> = Vec::new();
    let mut from = 0;
    for (at, sign) in text.char_indices() {
        // In a sum, a sign after a hexadecimal digit (or after the `h` of `length`) begins a new term. A sign
        // after any other character belongs to the number that follows.
        let is_border = at > from
            && matches!(sign, '+' | '-')
            && text[..at].ends_with(|c: char| c.is_ascii_hexdigit() || c == 'h');
        if is_border {
            pieces.push(&text[from..at]);
            from = at;
        }
    }
    pieces.push(&text[from..]);
    let mut sum = AnswerSum::constant(pieces.first()?.parse().ok()?);
    for piece in &pieces[1..] {
        let (factor, rest) = piece.split_once('*')?;
        let (question, mask) = match rest.split_once('&') {
            Some((question, mask)) => (question, crate::hex::number(mask.strip_prefix("0x")?)?),
            None => (rest, u128::MAX),
        };
        let question = read_question(question)?;
        if matches!(question, Question::AtLeastZero(_) | Question::List(_)) {
            return None;
        }
        let term = AnswerSum { constant: 0, terms: vec![(1, question, mask)] };
        sum = sum.plus_times(factor.strip_prefix('+').unwrap_or(factor).parse().ok()?, &term);
    }
    Some(sum)
}

fn read_list(words: &mut Words<'_>) -> Option<OrderedRules> {
    (words.next()? == "of").then_some(())?;
    let (element, input) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next()? == "at").then_some(())?;
    let headers = [read_offset(words.next()?)?, read_offset(words.next()?)?];
    let end = match words.next() {
        None => None,
        Some("end") => Some(read_sum(words.next()?)?),
        Some(_) => return None,
    };
    Some(OrderedRules { element, input, headers, end, rules: Vec::new() })
}

fn read_step(words: &mut Words<'_>) -> Option<Step> {
    (words.next()? == "of").then_some(())?;
    let (element, input, case) = read_way(words.next()?)?;
    (words.next()? == "behind").then_some(())?;
    let after = match words.next()? {
        "-" => None,
        after => Some(after.parse().ok()?),
    };
    Some(Step { element, input, case, after, before: read_class(words)? })
}

/// Parses an element, its input and the case of its declaration, as in `3.0.5`.
fn read_way(word: &str) -> Option<(u32, usize, usize)> {
    let (element, rest) = word.split_once('.')?;
    let (input, case) = rest.split_once('.')?;
    Some((element.parse().ok()?, input.parse().ok()?, case.parse().ok()?))
}

fn read_condition(words: &mut Words<'_>, depth: usize) -> Option<Condition> {
    if depth > DEEPEST {
        return None;
    }
    let word = words.next()?;
    let mut parts = |n: usize| (0..n).map(|_| read_condition(words, depth + 1)).collect::<Option<Vec<_>>>();
    Some(match word {
        "yes" => Tree::Constant(true),
        "no" => Tree::Constant(false),
        "!" => Tree::Not(Box::new(parts(1)?.pop()?)),
        "?" => Tree::Choose(Box::new(<[Condition; 3]>::try_from(parts(3)?).ok()?)),
        _ => match word.split_at_checked(1)? {
            ("&", n) => Tree::All(parts(n.parse().ok()?)?),
            ("|", n) => Tree::Any(parts(n.parse().ok()?)?),
            (header, test) => Tree::Leaf(read_test(header, test)?),
        },
    })
}

fn read_test(header: &str, text: &str) -> Option<Test> {
    let header = match header {
        "m" => HeaderLayer::Mac,
        "n" => HeaderLayer::Network,
        "t" => HeaderLayer::Transport,
        _ => return None,
    };
    let (field, values) = text.split_once('=')?;
    let (field, outside) = match field.strip_suffix('!') {
        Some(field) => (field, true),
        None => (field, false),
    };
    let (field, mask) = match field.split_once('&') {
        Some((field, mask)) => (field, Some(crate::hex::number(mask)?.try_into().ok()?)),
        None => (field, None),
    };
    let (offset, length) = slash(field)?;
    if !(1..=4).contains(&length) {
        return None;
    }
    let mask = mask.unwrap_or(u32::MAX >> (32 - 8 * u32::from(length)));
    let (low, high) = match values.split_once('-') {
        Some((low, high)) => (low.parse().ok()?, high.parse().ok()?),
        None => (values.parse().ok()?, values.parse().ok()?),
    };
    Some(Test { header, offset: offset.parse().ok()?, length, mask, low, high, outside })
}

fn read_class(words: &mut Words<'_>) -> Option<TrafficClass> {
    let text = words.by_ref().collect::<Vec<_>>().join(" ");
    let mut class = TrafficClass {
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
        exit: Exit::Drop(DropReason::Unsuitable),
        path: Vec::new(),
    };
    for part in text.split(';') {
        let mut words = part.split_whitespace();
        read_part(&mut class, &mut words)?;
        if words.next().is_some() {
            return None;
        }
    }
    Some(class)
}

fn read_reason(word: &str) -> Option<DropReason> {
    let name = word.replace('_', " ");
    DropReason::ALL.iter().find(|reason| reason.as_str() == name).copied()
}

fn read_part(class: &mut TrafficClass, words: &mut Words<'_>) -> Option<()> {
    match words.next()? {
        "at" => class.start = read_offset(words.next()?)?,
        "end" => class.end = Some(read_sum(words.next()?)?),
        "mark" => class.headers = read_marks(words)?,
        "type" => class.kind = Some(words.next()?.parse().ok()?),
        "from" => class.port = Some(words.next()?.parse().ok()?),
        "frame" => class.framed = true,
        "stamp" => class.stamped = true,
        "put" => {
            let place = read_place(words.next()?)?;
            let bytes = crate::hex::bytes(words.next()?).filter(|bytes| !bytes.is_empty())?;
            class.writes.push(Write { place, value: WrittenValue::Constant(bytes) });
        }
        word @ ("copy" | "add") => {
            let place = read_place(words.next()?)?;
            let (from, length) = slash(words.next()?)?;
            let from = read_place(from)?;
            let most = if word == "add" { 8 } else { 64 };
            if !(1..=most).contains(&length) {
                return None;
            }
            let value = match word {
                "copy" => WrittenValue::Copy(from, length),
                _ => WrittenValue::Plus(from, length, words.next()?.parse().ok()?),
            };
            class.writes.push(Write { place, value });
        }
        "mask" => {
            let place = read_place(words.next()?)?;
            let from = read_place(words.next()?)?;
            let mut bits = || u8::try_from(crate::hex::number(words.next()?)?).ok();
            class.writes.push(Write { place, value: WrittenValue::Masked(from, bits()?, bits()?) });
        }
        "sum" => {
            let header = read_offset(words.next()?)?;
            let words: Vec<&str> = words.by_ref().collect();
            class.checksum = Some(match words[..] {
                ["all"] => ChecksumOperation::Recomputed { header },
                _ => {
                    let words = words.iter().map(|word| read_offset(word)).collect::<Option<Vec<i32>>>()?;
                    ChecksumOperation::Updated { header, words }
                }
            });
        }
        word @ ("tcp" | "udp") => {
            let protocol = if word == "tcp" { Protocol::Tcp } else { Protocol::Udp };
            let header = read_offset(words.next()?)?;
            let words = words.by_ref().map(read_offset).collect::<Option<Vec<i32>>>()?;
            class.transport_checksum = Some(TransportChecksum { protocol, header, words });
        }
        "out" => class.exit = Exit::Output(words.next()?.parse().ok()?),
        "drop" => class.exit = Exit::Drop(read_reason(words.next()?)?),
        "via" => {
            for word in words.by_ref() {
                let (way, start) = word.split_once('@')?;
                let (start, cut) = match start.strip_suffix('e') {
                    Some(start) => (start, true),
                    None => (start, false),
                };
                let (element, input, case) = read_way(way)?;
                class.path.push(Passed { element, input, case, start: read_offset(start)?, cut });
            }
        }
        _ => return None,
    }
    Some(())
}

/// Returns the index of a step that a question refers to and that does not exist in a program with `steps`
/// steps; `None` if the question refers to no missing step.
fn missing_step(question: &Question, steps: usize) -> Option<u16> {
    match question {
        Question::Leased { step, .. } => Some(*step).filter(|step| usize::from(*step) >= steps),
        Question::AtLeastZero(sum) => missing_in_sum(sum, steps),
        _ => None,
    }
}

fn missing_in_sum(sum: &AnswerSum, steps: usize) -> Option<u16> {
    sum.variables().find_map(|question| missing_step(question, steps))
}

/// Returns the index of a step that the end or a write of a class refers to and that does not exist in a
/// program with `steps` steps; `None` if there is no such step.
fn missing_in_class(class: &TrafficClass, steps: usize) -> Option<u16> {
    let places = class.writes.iter().flat_map(|write| {
        [Some(write.place), write.value.from().map(|(place, _)| place)].into_iter().flatten()
    });
    let written = places.filter_map(|place| match place {
        ByteLocation::Leased(step, _) => Some(step),
        ByteLocation::Byte(_) | ByteLocation::Annotation(_) => None,
    });
    let end = class.end.as_ref().and_then(|end| missing_in_sum(end, steps));
    end.or_else(|| written.into_iter().find(|step| usize::from(*step) >= steps))
}

/// Checks that the nodes, classes, outputs, lists, steps and elements exist that a program refers to. Also
/// checks that nodes only lead to nodes with a higher index, that the previous step of a step has a lower
/// index, and that each list has rules. Operations before steps are checked for missing steps only. The error
/// names the line of the program's text, or the element that has the list.
fn sound(program: &Program) -> Result<(), String> {
    let (nodes, classes) = (program.nodes.len(), program.classes.len());
    let leads = |from: Option<usize>, next: Next| match next {
        Next::Class(class) => (class as usize) < classes,
        Next::Node(node) => (node as usize) < nodes && from.is_none_or(|from| from < node as usize),
    };
    if !leads(None, program.start) {
        return Err(format!("START {}: no question or class has this name", next(program.start)));
    }
    for (number, node) in program.nodes.iter().enumerate() {
        for (_, to) in &node.parts {
            if !leads(Some(number), *to) {
                return Err(format!(
                    "n{number}: {} must be a class or a question with a higher number",
                    next(*to)
                ));
            }
        }
        if let Question::List(list) = &node.question
            && *list as usize >= program.lists.len()
        {
            return Err(format!("n{number}: there is no list {list}"));
        }
        if let Some(step) = missing_step(&node.question, program.steps.len()) {
            return Err(format!("n{number}: there is no step {step}"));
        }
    }
    for (number, step) in program.steps.iter().enumerate() {
        if step.after.is_some_and(|after| usize::from(after) >= number) {
            return Err(format!("s{number}: its previous step must have a lower number"));
        }
        if step.element as usize >= program.elements.len() {
            return Err(format!("s{number}: its element has no name"));
        }
        if let Some(step) = missing_in_class(&step.before, program.steps.len()) {
            return Err(format!("s{number}: there is no step {step}"));
        }
    }
    for (number, class) in program.classes.iter().enumerate() {
        let output = match class.exit {
            Exit::Output(output) => output,
            Exit::Drop(_) => 0,
        };
        if output >= program.outputs && matches!(class.exit, Exit::Output(_)) {
            return Err(format!("c{number}: there is no output {output}"));
        }
        if class.path.iter().any(|passed| passed.element as usize >= program.elements.len()) {
            return Err(format!("c{number}: it passes an element without a name"));
        }
        if let Some(step) = missing_in_class(class, program.steps.len()) {
            return Err(format!("c{number}: there is no step {step}"));
        }
    }
    if program.otherwise >= program.outputs {
        return Err(format!("OTHERWISE {}: there is no such output", program.otherwise));
    }
    for (number, list) in program.lists.iter().enumerate() {
        if let Some(step) = list.end.as_ref().and_then(|end| missing_in_sum(end, program.steps.len())) {
            return Err(format!("l{number}: there is no step {step}"));
        }
    }
    let elements = program.elements.len();
    match program.lists.iter().find(|list| list.element as usize >= elements || list.rules.is_empty()) {
        Some(list) => Err(format!("a list of element {} without a name or without rules", list.element)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_far_from_any_packet_is_refused() {
        let read = |class: &str| {
            let lines = ["LAYOUT ANY 0 - -", "PASSING a", "START c0", class].map(String::from);
            super::read(&lines, 1)
        };
        assert!(read("c0 at 14; put 0 01020304; sum 14 22; out 0").is_ok());
        assert!(read("c0 at 14; out 0; via 0.0.0@14e 0.0.0@-14").is_ok());
        for class in [
            "c0 at 0; out 0; via 0.0.0@-2147483648",
            "c0 at 0; put 0 01; out 0; via 0.0.0@65537",
            "c0 at 0; put 2147483644 01020304; out 0",
            "c0 at 2147483647; out 0",
            "c0 at 0; put 0 01; sum 2147483640 22; out 0",
            "c0 at 0; put 0 01; sum 14 -2147483648; out 0",
            "c0 at 0; put 34 01; tcp 34 2147483647; out 0",
        ] {
            assert!(read(class).is_err(), "{class}");
        }
        let asks = |question: &str| {
            let node = format!("n0 {question} 0:c0 *:c0");
            let lines = ["LAYOUT ANY 0 - -", "START n0", &node, "c0 at 0; out 0"].map(String::from);
            super::read(&lines, 1)
        };
        assert!(asks("ipsum14").is_ok());
        for question in ["ipsum2147483647", "ipsum-2147483648", "0<=1+1*ipsum2147483647", "70000/1"] {
            assert!(asks(question).is_err(), "{question}");
        }
    }

    #[test]
    fn words_that_only_resemble_a_line_are_refused() {
        let read = |class: &str| {
            let lines = ["LAYOUT ANY 0 - -", "PASSING a", "START c0", class].map(String::from);
            super::read(&lines, 1)
        };
        assert!(read("c0 at 0; put 0 0f; mask 1 1 0f f0; out 0; via 0.0.0@0e").is_ok());
        for class in [
            "c0 at 0; put 0 +f; out 0",
            "c0 at 0; mask 1 1 +f 10; out 0",
            "c0 at 0; mask 1 1 0f +0; out 0",
            "c0 at 0; end 14+1*16/2&0x+f; out 0",
            "c0 at 0; out 0; via 0.0.0.0@0",
            "c0 at 0; out 0; via 0.0.0@0ee",
        ] {
            assert!(read(class).is_err(), "{class}");
        }
    }

    #[test]
    fn steps_that_do_not_exist_are_refused() {
        let read = |lines: &[&str]| {
            let first = ["LAYOUT ANY 0 - -", "PASSING a", "s0 of 0.0.0 behind - at 0; out 0"];
            let lines: Vec<String> = first.iter().chain(lines).map(|line| line.to_string()).collect();
            super::read(&lines, 1)
        };
        assert_eq!(read(&["START c0", "c0 at 0; copy 0 step0.0/4; out 0"]).map(|_| ()), Ok(()));
        for (part, why) in [
            ("copy 0 step1.0/4", "c0: there is no step 1"),
            ("add 0 step1.0/4 1", "c0: there is no step 1"),
            ("mask 0 step1.0 0f 10", "c0: there is no step 1"),
            ("put step1.0 01", "c0: there is no step 1"),
            ("end 0+1*step1.0/2", "c0: there is no step 1"),
        ] {
            let class = format!("c0 at 0; {part}; out 0");
            assert_eq!(read(&["START c0", &class]).unwrap_err(), why, "{part}");
        }
        let node = ["START n0", "n0 0<=1+1*step1 0:c0 *:c0", "c0 at 0; out 0"];
        assert_eq!(read(&node).unwrap_err(), "n0: there is no step 1");
        let list = ["l0 of 0 0 at 0 20 end 0+1*step1.0/2", "r 0 0 yes", "START c0", "c0 at 0; out 0"];
        assert_eq!(read(&list).unwrap_err(), "l0: there is no step 1");
        let step = ["s1 of 0.0.0 behind 0 at 0; copy 0 step2.0/4; out 0", "START c0", "c0 at 0; out 0"];
        assert_eq!(read(&step).unwrap_err(), "s1: there is no step 2");
    }

    #[test]
    fn when_there_is_machine_code_comes_back_or_is_explained() {
        let read = |when: &str| {
            let lines = ["LAYOUT ANY 0 - -", when, "START c0", "c0 at 0; out 0"].map(String::from);
            super::read(&lines, 1)
        };
        for machine_code in super::MachineCode::ALL {
            let program = read(&format!("MACHINE_CODE {machine_code}")).unwrap();
            assert_eq!(program.machine_code, machine_code);
            let is_default = machine_code == super::MachineCode::default();
            assert_eq!(super::write(&program).contains("MACHINE_CODE"), !is_default);
        }
        for when in ["MACHINE_CODE soon", "MACHINE_CODE", "MACHINE_CODE now now"] {
            assert!(read(when).unwrap_err().contains("`never`, `later` or `now`"), "{when}");
        }
    }
}
