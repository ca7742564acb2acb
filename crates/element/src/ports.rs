//! Click's port count codes (`1/1-2`, `-/=`) and processing codes (`a/ah`).
//!
//! A port count code gives the numbers of ports that a class allows, inputs before the slash. Each side is a
//! number, a range `1-2`, or an open range `1-` or `-`. On the right side of the slash, `=` means the number
//! of inputs, and `=+` and `=++` mean one or two more. Without a slash both sides are the same. A processing
//! code has one letter per port, of which the last letter applies to all further ports: `a` agnostic, `h`
//! push, `l` pull.

use std::fmt;

/// The way in which packets pass a port (Click).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processing {
    /// The upstream element starts the transfer.
    Push,
    /// The downstream element starts the transfer.
    Pull,
    /// Push or pull, as the connected port requires. Agnostic ports of one element between which packets
    /// flow are all push or all pull.
    Agnostic,
}

impl fmt::Display for Processing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Processing::Push => "push",
            Processing::Pull => "pull",
            Processing::Agnostic => "agnostic",
        })
    }
}

/// The numbers of inputs, or of outputs, that a port count code allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The smallest allowed number of ports.
    pub least: usize,
    /// The largest allowed number of ports; `usize::MAX` if there is no limit.
    pub most: usize,
}

impl PortRange {
    fn parse(code: &str) -> Option<PortRange> {
        match code.split_once('-') {
            None => {
                let n = code.parse().ok()?;
                Some(PortRange { least: n, most: n })
            }
            Some((least, most)) => Some(PortRange {
                least: if least.is_empty() { 0 } else { least.parse().ok()? },
                most: if most.is_empty() { usize::MAX } else { most.parse().ok()? },
            }),
        }
    }

    /// True if the code allows `n` ports.
    pub fn contains(&self, n: usize) -> bool {
        (self.least..=self.most).contains(&n)
    }
}

/// The numbers of inputs and of outputs that the port count code `code` allows for an element with `inputs`
/// inputs. `None` if the code is not well formed, which is a mistake in the class that a test over all
/// classes finds.
pub fn ranges(code: &str, inputs: usize) -> Option<(PortRange, PortRange)> {
    let (left, right) = code.split_once('/').unwrap_or((code, code));
    let input_range = PortRange::parse(left)?;
    let output_range = match right.strip_prefix('=') {
        Some(plus) if plus.bytes().all(|b| b == b'+') => {
            let n = inputs.max(input_range.least) + plus.len();
            PortRange { least: n, most: n }
        }
        Some(_) => return None,
        None => PortRange::parse(right)?,
    };
    Some((input_range, output_range))
}

/// The processing of one input (or output) according to the processing code `code` of a class. `None` if the
/// code is not well formed.
pub fn processing(code: &str, output: bool, port: usize) -> Option<Processing> {
    let (left, right) = code.split_once('/').unwrap_or((code, code));
    let letters = if output { right } else { left }.as_bytes();
    match letters.get(port).or(letters.last())? {
        b'a' => Some(Processing::Agnostic),
        b'h' => Some(Processing::Push),
        b'l' => Some(Processing::Pull),
        _ => None,
    }
}

/// True if packets can go from `input` to `output` according to Click's flow code `code`. The code has one
/// item per port, inputs before the slash: a letter, a set `[ab]` or `[^ab]`, or `#` for the port of the
/// same number. The last item applies to all further ports. Packets flow between two ports if their items
/// have a letter in common. `[^#]` means all ports with other numbers. Without a slash both sides are the
/// same. If the item of one of the ports is not well formed, no packet flows between them; later items are
/// not read.
pub fn flows(code: &str, input: usize, output: usize) -> bool {
    let (left, right) = code.split_once('/').unwrap_or((code, code));
    match (flow_set(left, input), flow_set(right, output)) {
        (None, _) | (_, None) => false,
        (Some(Flow::Other), _) | (_, Some(Flow::Other)) => input != output,
        (Some(Flow::Same), _) | (_, Some(Flow::Same)) => input == output,
        (Some(Flow::Letters(from)), Some(Flow::Letters(to))) => from & to != 0,
    }
}

/// The item of a flow code that belongs to one port.
enum Flow {
    /// A set of letters, one bit per letter.
    Letters(u64),
    /// `#`: the port of the same number.
    Same,
    /// `[^#]`: all ports with other numbers.
    Other,
}

/// Parses the item of a flow code that belongs to `port`. `code` is one side of the flow code.
fn flow_set(code: &str, port: usize) -> Option<Flow> {
    let mut chars = code.chars();
    let mut last = None;
    for _ in 0..=port {
        last = match chars.next() {
            None => return last,
            Some('#') => Some(Flow::Same),
            Some('[') => {
                let (mut set, mut negated, mut first, mut same) = (0, false, true, false);
                loop {
                    match chars.next()? {
                        ']' => break,
                        '^' if first => negated = true,
                        '#' => same = true,
                        c => set |= letter(c),
                    }
                    first = false;
                }
                Some(match (same, negated) {
                    (true, true) => Flow::Other,
                    (true, false) => Flow::Same,
                    (false, true) => Flow::Letters(!set),
                    (false, false) => Flow::Letters(set),
                })
            }
            Some(c) => Some(Flow::Letters(letter(c))),
        };
    }
    last
}

fn letter(c: char) -> u64 {
    match c {
        'a'..='z' => 1 << (c as u32 - 'a' as u32),
        'A'..='Z' => 1 << (26 + c as u32 - 'A' as u32),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_counts() {
        let fixed = |n| PortRange { least: n, most: n };
        assert_eq!(ranges("1/1-2", 1), Some((fixed(1), PortRange { least: 1, most: 2 })));
        assert_eq!(ranges("1", 1), Some((fixed(1), fixed(1))));
        let open = PortRange { least: 0, most: usize::MAX };
        assert_eq!(ranges("-/=", 3), Some((open, fixed(3))));
        assert_eq!(ranges("1-/=+", 3).unwrap().1, fixed(4));
        assert_eq!(ranges("1/x", 1), None);
        assert_eq!(ranges("1/=x", 1), None);
    }

    #[test]
    fn flow_codes() {
        assert!(flows("x", 0, 3));
        assert!(!flows("x/y", 0, 0));
        assert!(flows("#/#", 2, 2) && !flows("#/#", 2, 1));
        assert!(flows("xy/x[xy]", 1, 1) && !flows("xy/x[xy]", 1, 0));
        assert!(flows("xy/[^x]", 1, 0) && !flows("xy/[^x]", 0, 0));
        assert!(!flows("x/[a", 0, 0));
        assert!(flows("#/[^#]", 0, 2) && !flows("#/[^#]", 1, 1) && flows("#/[#]", 1, 1));
    }

    #[test]
    fn processing_codes() {
        assert_eq!(processing("a/ah", false, 0), Some(Processing::Agnostic));
        assert_eq!(processing("a/ah", true, 1), Some(Processing::Push));
        assert_eq!(processing("a/ah", true, 7), Some(Processing::Push));
        assert_eq!(processing("h/l", true, 0), Some(Processing::Pull));
        assert_eq!(processing("x", true, 0), None);
    }
}
