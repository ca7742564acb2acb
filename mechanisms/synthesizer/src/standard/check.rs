//! The tests of an IPv4 header that one CheckIPHeader does at once: of its checksum, and of its lengths.

use program::question::{AnswerSum, Question};
use program::{Next, Program};

/// Consecutive questions about one IPv4 header whose negative answers have the same successor.
pub(super) struct Check {
    /// The offset of the IPv4 header from the start of the input packet.
    pub(super) header: i32,
    /// The successor for packets that fail any check.
    pub(super) failing: Next,
    /// The successor for packets that pass all checks, downstream of the last question.
    pub(super) behind: Next,
    /// True if one of the questions is about the header's checksum.
    pub(super) is_right: bool,
    /// True if one of the questions is whether the packet has all bytes up to the header's total length.
    pub(super) is_within: bool,
    /// True if one of the questions is whether the total length includes the header.
    pub(super) is_covering: bool,
}

impl Check {
    /// Collects the questions from a node on, as long as negative answers have the same successor. Returns
    /// `None` if the question at the node is another one.
    pub(super) fn new(program: &Program, number: u32) -> Option<Check> {
        let first = program.nodes.get(number as usize)?;
        let header = match &first.question {
            Question::RightChecksum { offset } => *offset,
            Question::AtLeastZero(sum) => {
                let total = sum.terms.iter().find_map(|(_, question, _)| match question {
                    Question::Bytes { offset, length: 2 } => Some(*offset),
                    _ => None,
                });
                total?.checked_sub(2)?
            }
            _ => return None,
        };
        if header < 0 {
            return None;
        }
        let mut check = Check {
            header,
            failing: first.next(0),
            behind: Next::Node(number),
            is_right: false,
            is_within: false,
            is_covering: false,
        };
        while let Next::Node(number) = check.behind {
            let node = program.nodes.get(number as usize)?;
            let asked = match &node.question {
                Question::RightChecksum { offset } if *offset == header => &mut check.is_right,
                Question::AtLeastZero(sum) if *sum == within(header) => &mut check.is_within,
                Question::AtLeastZero(sum) if *sum == covering(header) => &mut check.is_covering,
                _ => break,
            };
            if node.next(0) != check.failing {
                break;
            }
            *asked = true;
            check.behind = node.next(1);
        }
        (check.behind != Next::Node(number)).then_some(check)
    }
}

/// Returns the sum that is zero or more if the packet has all bytes up to the total length of the IPv4
/// header at this offset.
pub(super) fn within(header: i32) -> AnswerSum {
    let total = AnswerSum::of(Question::Bytes { offset: header + 2, length: 2 });
    AnswerSum::of(Question::Length).plus_constant(-i64::from(header)).plus_times(-1, &total)
}

/// Returns the sum that is zero or more if the total length of the IPv4 header at this offset includes the
/// header.
pub(super) fn covering(header: i32) -> AnswerSum {
    let words =
        AnswerSum { constant: 0, terms: vec![(1, Question::Bytes { offset: header, length: 1 }, 0x0f)] };
    AnswerSum::of(Question::Bytes { offset: header + 2, length: 2 }).plus_times(-4, &words)
}
