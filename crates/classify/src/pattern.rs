//! Click's byte patterns, such as `12/0800 33/02%12 !20/1?`. In a list of patterns, the first that matches
//! a packet decides.
//!
//! A pattern is a list of clauses that must all hold. A clause is `[!]offset/value[%mask]`: the offset in
//! bytes is decimal, value and mask are hexadecimal. `?` is half a byte with any value, and `!` negates the
//! clause. The pattern `-` matches every packet. A packet that lacks a byte that a clause compares does not
//! match the clause, so it matches the negated clause. Bytes without mask bits are not compared; a clause
//! without mask bits matches every packet, and if negated, no packet.
//!
//! Patterns are compiled into a decision graph over aligned 32-bit words. Tests whose outcome follows from
//! earlier tests are skipped.

use std::fmt;

use crate::Tree;
use crate::decision::{Graph, Next, Word, WordTest};

/// The result of [`PatternProgram::decide`]: the number of a pattern, or that no pattern matches. Two
/// decisions of one program are equal if and only if their patterns are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision(Next);

impl Decision {
    /// Returns the number of the pattern that matches; `None` if no pattern does.
    #[inline]
    pub fn pattern(self) -> Option<usize> {
        self.0.as_result()
    }
}

/// A list of compiled patterns.
#[derive(Clone, Debug)]
pub struct PatternProgram {
    graph: Graph<Word>,
    patterns: Vec<Vec<Clause>>,
}

/// A clause as tests of aligned words. It holds if all tests hold or, if `negated`, if at least one test
/// fails.
#[derive(Clone, Debug)]
struct Clause {
    negated: bool,
    tests: Vec<WordTest>,
}

/// A test of up to four bytes of a packet: as a big-endian number under `mask` they equal `value`. It fails
/// if the packet lacks any of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesTest {
    /// The offset of the first byte in the packet.
    pub offset: u32,
    /// The number of bytes, one to four.
    pub length: u16,
    /// The mask of the bits that are compared, in the lowest `length` bytes.
    pub mask: u32,
    /// The value that the bits under the mask must have.
    pub value: u32,
}

impl PatternProgram {
    /// Compiles a list of patterns. The number of a pattern is its index in the list.
    ///
    /// # Errors
    /// If patterns have errors: the errors of all patterns, each with the number of its pattern and a text in
    /// Click's words.
    pub fn compile<S: AsRef<str>>(patterns: &[S]) -> Result<PatternProgram, Vec<(usize, String)>> {
        let mut errors = Vec::new();
        let mut parsed = Vec::new();
        for (number, text) in patterns.iter().enumerate() {
            match parse_pattern(text.as_ref()) {
                Ok(clauses) => parsed.push(clauses),
                Err(reasons) => {
                    errors.extend(reasons.iter().map(|r| (number, format!("pattern {number}: {r}"))));
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let conditions: Vec<Tree<WordTest>> = parsed.iter().map(|clauses| condition(clauses)).collect();
        let graph = Graph::of(conditions.iter().enumerate().map(|(n, tree)| (tree, Next::result(n))));
        Ok(PatternProgram { graph: graph.map(Word::new), patterns: parsed })
    }

    /// Returns the number of the first pattern that matches the packet, whose bytes are `data`; `None` if
    /// no pattern matches.
    #[inline]
    pub fn matches(&self, data: &[u8]) -> Option<usize> {
        self.decide(data).pattern()
    }

    /// Finds the first pattern that matches, as [`matches`](Self::matches) does, and returns it as a
    /// [`Decision`]. Comparing two decisions takes one comparison less than comparing two numbers.
    #[inline]
    pub fn decide(&self, data: &[u8]) -> Decision {
        // A program with a single test, such as for one Ethernet type, needs no loop.
        if let [only] = &self.graph.steps[..] {
            return Decision(if only.test.holds(data) { only.yes } else { only.no });
        }
        let mut next = self.graph.start;
        // A target that is not the index of a step is a result. The bounds check of `get` thus also ends
        // the loop.
        while let Some(step) = self.graph.steps.get(next.0 as usize) {
            next = if step.test.holds(data) { step.yes } else { step.no };
        }
        Decision(next)
    }

    /// Returns the numbers of patterns that are the first match of no packet: patterns ahead of them in the
    /// list match the same packets, or the pattern contradicts itself. Some such patterns may be missed.
    pub fn unmatched(&self) -> Vec<usize> {
        self.graph.unused(self.patterns.len())
    }

    /// Returns the clauses of a pattern, all of which must hold; there are no clauses for a pattern that
    /// matches every packet, such as `-`, and for a number that no pattern has. Each clause is a flag and a
    /// list of tests. If the flag is `false`, all tests must hold; if it is `true` (negated), at least one
    /// test must fail.
    pub fn clauses(&self, pattern: usize) -> impl Iterator<Item = (bool, Vec<BytesTest>)> {
        let bytes = |test: &WordTest| {
            // The length ends with the last byte under the mask: later bytes of the word may be missing in
            // the packet.
            let length = test.needs() - test.offset;
            let (mask, value) = (test.mask >> (32 - 8 * length), test.value >> (32 - 8 * length));
            BytesTest { offset: test.offset, length: length as u16, mask, value }
        };
        let clauses = self.patterns.get(pattern).map(Vec::as_slice).unwrap_or_default();
        clauses.iter().map(move |clause| (clause.negated, clause.tests.iter().map(bytes).collect()))
    }

    /// Returns the length in bytes from which on a packet has the bytes of all tests.
    pub fn safe_length(&self) -> usize {
        self.graph.safe_length()
    }
}

/// Returns the condition that all clauses hold.
fn condition(clauses: &[Clause]) -> Tree<WordTest> {
    Tree::all(clauses.iter().map(|clause| {
        let all = Tree::All(clause.tests.iter().copied().map(Tree::Leaf).collect());
        if clause.negated { all.not() } else { all }
    }))
}

/// Parses one pattern into clauses, or returns its errors in Click's words. After an error of syntax, no
/// further errors are reported, because the text after it is not read.
fn parse_pattern(text: &str) -> Result<Vec<Clause>, Vec<String>> {
    if text.trim() == "-" {
        return Ok(Vec::new());
    }
    let mut clauses = Vec::new();
    let mut errors = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let mut negated = false;
        while let Some(inner) = rest.strip_prefix('!') {
            negated = !negated;
            rest = inner.trim_start();
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            errors.push("expected a digit".to_string());
            break;
        }
        let offset: Option<u32> = rest[..digits].parse().ok().filter(|&o| o <= 1 << 20);
        let Some(after) = rest[digits..].strip_prefix('/') else {
            errors.push("expected '/'".to_string());
            break;
        };
        let is_value = |c: char| c.is_ascii_hexdigit() || c == '?';
        let value = &after[..after.len() - after.trim_start_matches(is_value).len()];
        rest = &after[value.len()..];
        let mut mask = "";
        let masked = rest.strip_prefix('%');
        if let Some(after) = masked {
            mask = &after[..after.len() - after.trim_start_matches(is_value).len()];
            rest = &after[mask.len()..];
        }
        rest = rest.trim_start();
        if offset.is_none() {
            errors.push("offset too large".to_string());
        } else if value.len() < 2 {
            errors.push("value has less than 2 hex digits".to_string());
        } else if value.len() % 2 == 1 {
            errors.push("value has odd number of hex digits".to_string());
        } else if masked.is_some() && mask.len() > value.len() {
            errors.push("mask has too many hex digits".to_string());
        } else if masked.is_some() && mask.len() < value.len() {
            errors.push("mask has too few hex digits".to_string());
        } else {
            let tests = words(offset.unwrap_or(0), value, masked.map(|_| mask));
            clauses.push(Clause { negated, tests });
        }
    }
    if errors.is_empty() { Ok(simplify(clauses)) } else { Err(errors) }
}

/// Splits a clause into tests of aligned words. Bytes without mask bits are not tested, and words without
/// mask bits have no test.
fn words(offset: u32, value: &str, mask: Option<&str>) -> Vec<WordTest> {
    let nibble = |c: Option<u8>, otherwise: u8| match c {
        Some(b'?') | None => otherwise,
        Some(c) => (c as char).to_digit(16).unwrap_or(0) as u8,
    };
    let value = value.as_bytes();
    let mut tests: Vec<WordTest> = Vec::new();
    for i in 0..value.len() / 2 {
        let (mut byte, mut bits) = (0, 0);
        for half in 0..2 {
            let v = value[2 * i + half];
            let m = match mask {
                Some(mask) => nibble(mask.as_bytes().get(2 * i + half).copied(), 0),
                None => 0xf,
            };
            let m = if v == b'?' { 0 } else { m };
            byte = byte << 4 | nibble(Some(v), 0) & m;
            bits = bits << 4 | m;
        }
        let place = offset + i as u32;
        let (word, shift) = (place & !3, 24 - 8 * (place & 3));
        if tests.last().is_none_or(|t| t.offset != word) {
            tests.push(WordTest { offset: word, mask: 0, value: 0, short: false });
        }
        if let Some(test) = tests.last_mut() {
            test.mask |= u32::from(bits) << shift;
            test.value |= u32::from(byte) << shift;
        }
    }
    tests.retain(|t| t.mask != 0);
    tests
}

/// Merges the tests of clauses that are not negated, if they are of the same word and do not contradict each
/// other. Sorts these tests by offset. Negated clauses follow.
fn simplify(clauses: Vec<Clause>) -> Vec<Clause> {
    let (negated, plain): (Vec<_>, Vec<_>) = clauses.into_iter().partition(|c| c.negated);
    let mut tests: Vec<WordTest> = Vec::new();
    for test in plain.into_iter().flat_map(|c| c.tests) {
        match tests
            .iter_mut()
            .find(|t| t.offset == test.offset && (t.value ^ test.value) & t.mask & test.mask == 0)
        {
            Some(same) => {
                same.mask |= test.mask;
                same.value |= test.value;
            }
            None => tests.push(test),
        }
    }
    tests.sort_by_key(|t| t.offset);
    let mut simple: Vec<Clause> = Vec::new();
    if !tests.is_empty() {
        simple.push(Clause { negated: false, tests });
    }
    // A negated clause without tests, such as `!0/??`, never holds. Such a clause is replaced by two tests
    // that contradict each other.
    simple.extend(negated.into_iter().map(|mut clause| {
        if clause.tests.is_empty() {
            let never = WordTest { offset: 0, mask: 0xff00_0000, value: 0, short: false };
            clause = Clause { negated: false, tests: vec![never, WordTest { value: 0x0100_0000, ..never }] };
        }
        clause
    }));
    simple
}

/// Formats the decision graph as Click lists it.
impl fmt::Display for PatternProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(patterns: &[&str], data: &[u8]) -> Option<usize> {
        PatternProgram::compile(patterns).unwrap().matches(data)
    }

    #[test]
    fn ethernet_types() {
        let patterns = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"];
        let mut frame = [0; 60];
        (frame[12], frame[13]) = (8, 6);
        frame[21] = 2;
        assert_eq!(first(&patterns, &frame), Some(1));
        frame[13] = 0;
        assert_eq!(first(&patterns, &frame), Some(2));
        assert_eq!(first(&patterns, &frame[..13]), Some(3));
        assert_eq!(first(&patterns[..3], &frame[..13]), None);
        assert_eq!(first(&["12/08"], &frame[..13]), Some(0));
    }

    #[test]
    fn negation_wildcards_and_short_packets() {
        assert_eq!(first(&["!0/12"], &[0x13]), Some(0));
        assert_eq!(first(&["!0/12"], &[]), Some(0), "what is not there is not 12");
        assert_eq!(first(&["0/1?"], &[0x1f]), Some(0));
        assert_eq!(first(&["0/??"], &[]), Some(0));
        assert_eq!(first(&["!0/??", "-"], &[1, 2, 3, 4]), Some(1));
        assert_eq!(first(&["0/ff%0f"], &[0x3f]), Some(0));
        assert_eq!(first(&["! 2/010203040506"], &[0, 0, 1, 2, 3, 4, 5, 6]), None);
    }

    #[test]
    fn errors_name_the_pattern() {
        let reasons = PatternProgram::compile(&[
            "12/0800",
            "12",
            "1/2",
            "1/234",
            "1/22%2",
            "1/22%222",
            "x",
            "9999999999/11",
        ]);
        let reasons: Vec<(usize, String)> = reasons.unwrap_err();
        assert_eq!(reasons.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            reasons.into_iter().map(|(_, text)| text).collect::<Vec<_>>(),
            [
                "pattern 1: expected '/'",
                "pattern 2: value has less than 2 hex digits",
                "pattern 3: value has odd number of hex digits",
                "pattern 4: mask has too few hex digits",
                "pattern 5: mask has too many hex digits",
                "pattern 6: expected a digit",
                "pattern 7: offset too large",
            ]
        );
    }

    #[test]
    fn the_listing_is_clicks() {
        let program = PatternProgram::compile(&["12/0800", "-"]).unwrap();
        assert_eq!(
            program.to_string(),
            " 0  12/08000000%ffff0000  yes->[0]  no->[1]\nsafe length 14\nalignment offset 0\n"
        );
        assert_eq!(PatternProgram::compile(&["-", "12/0800"]).unwrap().unmatched(), [1]);
        assert!(PatternProgram::compile(&["-"]).unwrap().to_string().starts_with("all->[0]\n"));
    }

    /// Evaluates patterns one by one from their text, without compilation, and returns the first that
    /// matches. Tests compare the compiled program's results with this one.
    fn reference(patterns: &[String], data: &[u8]) -> Option<usize> {
        patterns.iter().position(|pattern| {
            pattern == "-"
                || pattern.split_whitespace().all(|clause| {
                    let (negated, clause) = match clause.strip_prefix('!') {
                        Some(rest) => (true, rest),
                        None => (false, clause),
                    };
                    let (offset, rest) = clause.split_once('/').unwrap();
                    let (value, mask) = rest.split_once('%').unwrap_or((rest, ""));
                    let offset: usize = offset.parse().unwrap();
                    let hex = |s: &str, i: usize| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap();
                    let holds = (0..value.len() / 2).all(|i| {
                        let m = if mask.is_empty() { 0xff } else { hex(mask, i) };
                        m == 0 || data.get(offset + i).is_some_and(|b| b & m == hex(value, i) & m)
                    });
                    holds != negated
                })
        })
    }

    fn clause() -> impl Strategy<Value = String> {
        // The offsets and values are few, so that clauses often imply or contradict each other.
        let bytes = |n| prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], n);
        (any::<bool>(), 0usize..7, (1usize..6).prop_flat_map(move |n| (bytes(n), bytes(n))), any::<bool>())
            .prop_map(|(negated, offset, (value, mask), masked)| {
                let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<String>();
                let mask = if masked { format!("%{}", hex(&mask)) } else { String::new() };
                format!("{}{offset}/{}{mask}", if negated { "!" } else { "" }, hex(&value))
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn agrees_with_a_straightforward_evaluator(
            patterns in prop::collection::vec(prop_oneof![
                9 => prop::collection::vec(clause(), 1..4).prop_map(|c| c.join(" ")),
                1 => Just("-".to_string()),
            ], 1..6),
            packets in prop::collection::vec(
                prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 0..14), 20),
        ) {
            let program = PatternProgram::compile(&patterns).unwrap();
            for data in packets {
                prop_assert_eq!(program.matches(&data), reference(&patterns, &data), "{}", program);
            }
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f/%!? x-]{0,20}") {
            let _ = PatternProgram::compile(&[text]);
        }
    }
}
