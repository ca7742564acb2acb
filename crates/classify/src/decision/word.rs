//! Tests of aligned 32-bit words of a packet, as Click's classifiers have them.

use std::fmt;

use super::{Graph, Next, Test};

/// A test of one word of a packet: the word under `mask` equals `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordTest {
    /// The offset of the word in bytes, a multiple of four. It counts from the start of the packet; in the
    /// listing of a filter, the link-layer header has offset 2, the IP header 256 and the transport header
    /// 512.
    pub(crate) offset: u32,
    pub(crate) mask: u32,
    pub(crate) value: u32,
    /// True if the test holds for a packet too short to have the bytes under the mask; otherwise it fails
    /// for such a packet.
    pub(crate) short: bool,
}

/// A [`WordTest`] that is prepared for evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) test: WordTest,
    /// The mask and the value of `test` in network byte order, so that they compare with a word as loaded
    /// from memory.
    mask: u32,
    value: u32,
    /// The smallest length of a packet, in bytes, that has all bytes under the mask.
    needs: u32,
}

impl Word {
    pub(crate) fn new(test: WordTest) -> Word {
        Word { test, mask: test.mask.to_be(), value: test.value.to_be(), needs: test.needs() }
    }

    #[inline]
    pub(crate) fn holds(&self, data: &[u8]) -> bool {
        let offset = self.test.offset as usize;
        if let Some(word) = data.get(offset..offset + 4) {
            // The slice has four bytes, so this compiles to one load.
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            return word & self.mask == self.value;
        }
        self.holds_at_end(data)
    }

    /// Evaluates the test where fewer than four bytes of the word are in the packet. It fails if bytes
    /// under the mask are missing.
    #[cold]
    fn holds_at_end(&self, data: &[u8]) -> bool {
        if data.len() < self.needs as usize {
            return false;
        }
        let mut word = [0; 4];
        let rest = data.get(self.test.offset as usize..).unwrap_or_default();
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        u32::from_be_bytes(word) & self.test.mask == self.test.value
    }
}

impl WordTest {
    /// Returns the smallest length of a packet, in bytes, that has all bytes under the mask.
    pub(crate) fn needs(self) -> u32 {
        self.offset + 4 - self.mask.trailing_zeros().min(31) / 8
    }
}

impl Test for WordTest {
    fn implied_by(self, fact: WordTest, held: bool) -> Option<bool> {
        // If one of the two tests is `short` (it holds for packets that lack the bytes), masks and values
        // alone imply nothing. Only an equal test certainly has the same outcome.
        if self.short || fact.short {
            return (self == fact).then_some(held);
        }
        if self.offset != fact.offset {
            return None;
        }
        let common = self.mask & fact.mask;
        let agree = (self.value ^ fact.value) & common == 0;
        match held {
            true if !agree => Some(false),
            true if common == self.mask => Some(true),
            // This test compares all bits that `fact` compares, with the same values. So it fails if `fact`
            // failed.
            false if agree && common == fact.mask => Some(false),
            _ => None,
        }
    }
}

impl Graph<Word> {
    /// Returns the smallest length of a packet, in bytes, that has the bytes of all tests; 0 if there are no
    /// tests.
    pub(crate) fn safe_length(&self) -> usize {
        self.steps.iter().map(|s| s.test.needs as usize).max().unwrap_or(0)
    }
}

/// Formats the graph as Click lists it: one line per step, or one line with the result if there are no steps;
/// then the length that all tests need, and an alignment offset of 0.
impl fmt::Display for Graph<Word> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |next: Next| match (next.as_step(), next) {
            (Some(n), _) => format!("step {n}"),
            (None, Next::FAIL) => "[X]".to_string(),
            (None, Next(n)) => format!("[{}]", n - Next::RESULTS),
        };
        match (self.start.as_step(), self.start.as_result()) {
            (None, Some(result)) => writeln!(f, "all->[{result}]")?,
            (None, None) => writeln!(f, "all->[2147483647]")?,
            (Some(_), _) => {
                for (i, step) in self.steps.iter().enumerate() {
                    let WordTest { offset, mask, value, short } = step.test.test;
                    let (yes, no) = (show(step.yes), show(step.no));
                    let short = if short { "  short->yes" } else { "" };
                    writeln!(f, "{i:2} {offset:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}{short}")?;
                }
            }
        }
        writeln!(f, "safe length {}\nalignment offset 0", self.safe_length())
    }
}
