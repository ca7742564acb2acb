//! Questions about an IPv4 header that CheckIPHeader asks all at once.

use crate::program::question::{Question, Sum};
use crate::program::{Next, Program};

/// Questions about an IPv4 header, one behind the other.
pub(super) struct Check {
    /// Where it starts.
    pub(super) header: i32,
    /// Where a wrong answer leads.
    pub(super) failing: Next,
    /// Where right ones do.
    pub(super) behind: Next,
    /// Whether the checksum is asked for.
    pub(super) is_right: bool,
    /// Whether the packet has as many bytes as the header says.
    pub(super) is_within: bool,
    /// Whether the header says that there are as many as it has itself.
    pub(super) is_covering: bool,
}

impl Check {
    /// From a node on, as long as wrong answers lead to one place. `None` if it asks something else.
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

/// What is zero or more if the packet has as many bytes as the header says.
pub(super) fn within(header: i32) -> Sum {
    let total = Sum::of(Question::Bytes { offset: header + 2, length: 2 });
    Sum::of(Question::Length).plus_constant(-i64::from(header)).plus(-1, &total)
}

/// What is zero or more if the header says that there are as many bytes as it has itself.
pub(super) fn covering(header: i32) -> Sum {
    let words = Sum { constant: 0, terms: vec![(1, Question::Bytes { offset: header, length: 1 }, 0x0f)] };
    Sum::of(Question::Bytes { offset: header + 2, length: 2 }).plus(-4, &words)
}
