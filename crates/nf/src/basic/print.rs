//! # Print
//! Prints each packet: label, length, and its first bytes.
//!
//! Output goes to standard error: `label:  length | contents`, with bytes in groups of four.
//!
//! ## Usage
//! `Print([LABEL, MAXLENGTH, KEYWORDS])`
//!
//! ## Arguments
//! - `LABEL`: text at the start of each line.
//! - `MAXLENGTH`: the number of bytes of contents to print; -1 for all.
//! - `CONTENTS`: `HEX`, `ASCII` or `NONE`; also true and false.
//! - `TIMESTAMP`: if true, prints the time stamp.
//! - `PRINTANNO`: if true, prints the annotations.
//! - `HEADROOM`: if true, prints the numbers of free bytes before and after the data.
//! - `CPU`: if true, prints `(0)` after the label, where Click prints the number of the processor.
//! - `ACTIVE`: if false, prints nothing.
//! - `LENGTH`, `NBYTES`: deprecated names of MAXLENGTH.
//!
//! ## Handlers
//! - `active`: true if packets are printed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Print(in, 14, TIMESTAMP true) -> Discard
//! ```
//!
//! ## See also
//! Discard

use std::fmt::Write;

use element::args::Raw;
use element::class::ArgInfo;
use element::effects::Field;
use element::{Class, Packet, manual};

use crate::printers::{Contents, Describe, Layout, Printer, Printing, at_most, bytes_from, dump, hex};

/// The element class `Print`.
pub static CLASS: Class = Class {
    name: "Print",
    manual: manual!("print.rs"),
    args: &[
        ArgInfo::positional("LABEL", "string", ""),
        ArgInfo::positional("MAXLENGTH", "int", "24"),
        ArgInfo::keyword("LENGTH", "int", "").computed("MAXLENGTH"),
        ArgInfo::keyword("NBYTES", "int", "").computed("MAXLENGTH"),
        ArgInfo::keyword("CONTENTS", "word", "HEX"),
        ArgInfo::keyword("TIMESTAMP", "bool", "false"),
        ArgInfo::keyword("PRINTANNO", "bool", "false"),
        ArgInfo::keyword("HEADROOM", "bool", "false"),
        ArgInfo::keyword("CPU", "bool", "false"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    table: &Printing::<Print>::HANDLERS,
    samples: &["", "x, -1, CONTENTS ASCII, TIMESTAMP true, PRINTANNO true", "ACTIVE false"],
    reconfigures: true,
    build: |args| {
        let label = args.get("LABEL").unwrap_or_default();
        let mut older: Option<i64> = None;
        for name in ["LENGTH", "NBYTES"] {
            if let Some(given) = args.get(name) {
                args.warn(format!("{name}: argument deprecated"));
                older = Some(given);
            }
        }
        let most = args.value("MAXLENGTH");
        let most = older.filter(|_| !args.was_given("MAXLENGTH")).unwrap_or(most);
        let Raw(word) = args.value("CONTENTS");
        let contents = Contents::from_word(args, &word);
        let print = Print {
            label,
            most: at_most(most),
            contents,
            timestamp: args.value("TIMESTAMP"),
            annotations: args.value("PRINTANNO"),
            headroom: args.value("HEADROOM"),
            worker: args.value("CPU"),
        };
        let active = args.value::<bool>("ACTIVE");
        args.finish()?;
        Ok(Box::new(Printing::new(print, active, Printer::new(None))))
    },
    ..Class::DEFAULT
};

struct Print {
    label: String,
    most: usize,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    /// True if `(0)` is printed after the label, where Click prints the number of the processor.
    worker: bool,
}

impl Describe for Print {
    fn seen(&self) -> Vec<Field> {
        let mut seen = vec![Field::Length, Field::Payload];
        if self.annotations {
            seen.push(Field::Annotation { offset: 0, length: 48 });
        }
        if self.timestamp {
            seen.push(Field::TimeStamp);
        }
        seen
    }

    fn describe(&mut self, packet: &Packet, line: &mut String) -> Option<()> {
        line.push_str(&self.label);
        if self.worker {
            // The number of the processor is printed as 0 for every worker.
            line.push_str("(0)");
        }
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
        let most = self.most.min(packet.len());
        if self.contents == Contents::None || most == 0 {
            return Some(());
        }
        line.push_str(" | ");
        let layout = match self.contents {
            Contents::Ascii => Layout { group: 8, line: None, leads: true },
            _ => Layout { group: 4, line: None, leads: false },
        };
        dump(line, bytes_from(packet, 0, most), self.contents, layout);
        Some(())
    }
}
