//! # IP6Print
//! Prints each IPv6 packet: addresses, payload length, next header and hop limit.
//!
//! Packets without a network header annotation, or with fewer than 40 bytes after it, pass and are not
//! printed.
//!
//! ## Usage
//! `IP6Print([LABEL, KEYWORDS])`
//!
//! ## Arguments
//! - `LABEL`: text at the start of each line.
//! - `CONTENTS`: if true, prints the bytes of the packet in hexadecimal.
//! - `NBYTES`: the maximum number of bytes to print.
//! - `ACTIVE`: if false, prints nothing.
//!
//! ## Handlers
//! - `active`: true if packets are printed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader -> IP6Print(v6) -> Discard
//! ```
//!
//! ## See also
//! IPPrint, Print

use std::fmt::Write;

use element::class::ArgInfo;
use element::effects::Field;
use element::{Base, Class, Packet, manual};
use wire::{FromBytes, ipv6};

use super::{Describe, Printer, Printing, bytes_from, hex};

/// The element class `IP6Print`.
pub static CLASS: Class = Class {
    name: "IP6Print",
    manual: manual!("ip6_print.rs"),
    args: &[
        ArgInfo::positional("LABEL", "string", ""),
        ArgInfo::keyword("CONTENTS", "bool", "false"),
        ArgInfo::keyword("NBYTES", "unsigned", "1500"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    table: &Printing::<Ip6Print>::HANDLERS,
    samples: &["", "x, CONTENTS true"],
    build: |args| {
        let print = Ip6Print {
            label: args.get("LABEL").unwrap_or_default(),
            contents: args.value("CONTENTS"),
            most: args.value::<u32>("NBYTES") as usize,
        };
        let active = args.value::<bool>("ACTIVE");
        args.finish()?;
        Ok(Box::new(Printing::new(print, active, Printer::new(None))))
    },
    ..Class::DEFAULT
};

struct Ip6Print {
    label: String,
    contents: bool,
    most: usize,
}

impl Describe for Ip6Print {
    fn seen(&self) -> Vec<Field> {
        vec![Field::Length, Field::Payload]
    }

    fn describe(&mut self, packet: &Packet, text: &mut String) -> Option<()> {
        let bytes = packet.header(Base::Network).unwrap_or_default();
        let Ok((header, _)) = ipv6::Header::ref_from_prefix(bytes) else { return None };
        if !self.label.is_empty() {
            text.push_str(&self.label);
            text.push_str(": ");
        }
        let (from, to) = (header.source_addr(), header.destination_addr());
        let (length, next, limit) = (header.payload_length.get(), header.next_header, header.hop_limit);
        // Writing to a string never fails.
        let _ = writeln!(text, "{from} -> {to} plen {length}, next {next}, hlim {limit}");
        if self.contents {
            text.push_str("  ");
            for (place, byte) in bytes_from(packet, 0, self.most).enumerate() {
                hex(text, byte);
                match place {
                    _ if place % 24 == 23 => text.push_str("\n  "),
                    _ if place % 4 == 3 => text.push(' '),
                    _ => {}
                }
            }
        }
        // Remove the line end, because the printer adds one.
        if text.ends_with('\n') {
            text.pop();
        }
        Some(())
    }
}
