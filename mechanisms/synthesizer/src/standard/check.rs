//! Questions about an IPv4 header that CheckIPHeader answers at once.

use program::question::{Question, Sum};
use program::{Next, Program};

/// Consecutive questions about an IPv4 header.
pub(super) struct Check {
    /// The offset of the header.
    pub(super) header: i32,
    /// The successor of a failed check.
    pub(super) failing: Next,
    /// The successor if all checks pass.
    pub(super) behind: Next,
    /// True if the checksum is checked.
    pub(super) is_right: bool,
    /// True if the packet is checked to have as many bytes as the header's total length.
    pub(super) is_within: bool,
    /// True if the total length is checked to include the header.
    pub(super) is_covering: bool,
}

impl Check {
    /// Collects checks from a node on, as long as failed checks have one successor. `None` if the node asks
    /// something else.
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

/// Returns the sum that is zero or more if the packet has as many bytes as the header's total length.
pub(super) fn within(header: i32) -> Sum {
    let total = Sum::of(Question::Bytes { offset: header + 2, length: 2 });
    Sum::of(Question::Length).plus_constant(-i64::from(header)).plus(-1, &total)
}

/// Returns the sum that is zero or more if the total length includes the header.
pub(super) fn covering(header: i32) -> Sum {
    let words = Sum { constant: 0, terms: vec![(1, Question::Bytes { offset: header, length: 1 }, 0x0f)] };
    Sum::of(Question::Bytes { offset: header + 2, length: 2 }).plus(-4, &words)
}
