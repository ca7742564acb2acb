//! # Print
//! Prints each packet: label, length, and its first bytes.
//!
//! Output goes to standard error: `label:  length | contents`, with bytes in groups of four.
//!
//! ## Usage
//! `Print([LABEL, MAXLENGTH, KEYWORDS])`
//!
//! ## Arguments
//! - `LABEL`: printed first.
//! - `MAXLENGTH`: bytes of contents; -1 for all.
//! - `CONTENTS`: `HEX`, `ASCII` or `NONE`; also true and false.
//! - `TIMESTAMP`: whether to print the time stamp.
//! - `PRINTANNO`: whether to print the annotations.
//! - `HEADROOM`: whether to print the free bytes in front of and behind the data.
//! - `ACTIVE`: whether to print at all.
//! - `LENGTH`, `NBYTES`: old names of MAXLENGTH.
//!
//! ## Handlers
//! - `active`: whether it prints.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Print(in, 14, TIMESTAMP true) -> Discard
//! ```
//!
//! ## See also
//! Discard

use std::fmt::Write;

use element::args::{Raw, parse_bool};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, Packet, manual};
use packet::MAX_PACKET;

/// The class.
pub static CLASS: Class = Class {
    name: "Print",
    manual: manual!("print.rs"),
    args: &[
        ArgInfo::positional("LABEL", "string", ""),
        ArgInfo::positional("MAXLENGTH", "int", "24"),
        ArgInfo::keyword("LENGTH", "int", "24"),
        ArgInfo::keyword("NBYTES", "int", "24"),
        ArgInfo::keyword("CONTENTS", "word", "HEX"),
        ArgInfo::keyword("TIMESTAMP", "bool", "false"),
        ArgInfo::keyword("PRINTANNO", "bool", "false"),
        ArgInfo::keyword("HEADROOM", "bool", "false"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    handlers: &[HandlerInfo::both("active")],
    samples: &["", "x, -1, CONTENTS ASCII, TIMESTAMP true, PRINTANNO true", "ACTIVE false"],
    build: |args| {
        let label = args.or("LABEL", String::new());
        let old = args.get::<i64>("LENGTH").or(args.get("NBYTES")).unwrap_or(24);
        let most = args.or("MAXLENGTH", old);
        let word = args.or("CONTENTS", Raw("HEX".into())).0.to_uppercase();
        let contents = match (word.as_str(), parse_bool(&word.to_lowercase())) {
            ("HEX", _) | (_, Some(true)) => Contents::Hex,
            ("NONE", _) | (_, Some(false)) => Contents::None,
            ("ASCII", _) => Contents::Ascii,
            _ => {
                args.error(format!("bad contents value '{word}'; should be 'NONE', 'HEX', or 'ASCII'"));
                Contents::None
            }
        };
        let print = Print {
            label,
            most: usize::try_from(most).unwrap_or(MAX_PACKET),
            contents,
            timestamp: args.or("TIMESTAMP", false),
            annotations: args.or("PRINTANNO", false),
            headroom: args.or("HEADROOM", false),
            active: args.or("ACTIVE", true),
            line: String::new(),
        };
        args.finish()?;
        Ok(Box::new(print))
    },
    ..Class::DEFAULT
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    None,
    Hex,
    Ascii,
}

struct Print {
    label: String,
    most: usize,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    active: bool,
    /// Used again for each packet.
    line: String,
}

impl Print {
    fn format(&mut self, packet: &Packet) {
        let line = &mut self.line;
        line.clear();
        line.push_str(&self.label);
        if self.timestamp {
            let separator = if line.is_empty() { "" } else { ": " };
            let _ = write!(line, "{separator}{}", packet.time());
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        let _ = write!(line, "{:4}", packet.len());
        if self.headroom {
            let _ = write!(line, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.annotations {
            line.push_str(" | ");
            packet.annotations().bytes().iter().for_each(|b| hex(line, *b));
        }
        let mut left = self.most.min(packet.len());
        if self.contents == Contents::None || left == 0 {
            return;
        }
        line.push_str(" | ");
        let mut place = 0;
        for chunk in packet.chunks() {
            for &byte in &chunk[..chunk.len().min(left)] {
                if self.contents == Contents::Hex {
                    if place > 0 && place % 4 == 0 {
                        line.push(' ');
                    }
                    hex(line, byte);
                } else {
                    if place % 8 == 0 {
                        line.push(' ');
                    }
                    line.push(if (32..=126).contains(&byte) { byte as char } else { '.' });
                }
                place += 1;
            }
            left -= chunk.len().min(left);
        }
    }
}

fn hex(line: &mut String, byte: u8) {
    for half in [byte >> 4, byte & 15] {
        line.push(char::from(b"0123456789abcdef"[usize::from(half)]));
    }
}

impl Element for Print {
    fn effects(&self) -> Effects {
        let mut seen = vec![Field::Length, Field::Payload];
        if self.annotations {
            seen.push(Field::Annotation { offset: 0, length: 48 });
        }
        if self.timestamp {
            seen.push(Field::TimeStamp);
        }
        Effects::pass().observing(&seen)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.active {
            for packet in batch.iter() {
                self.format(packet);
                cx.message(format_args!("{}\n", self.line));
            }
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.active.to_string())
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, value: &str) -> Result<(), String> {
        self.active = parse_bool(value).ok_or("expected boolean")?;
        Ok(())
    }
}
