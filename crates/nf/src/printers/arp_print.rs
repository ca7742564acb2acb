//! # ARPPrint
//! Prints each ARP packet in the style of tcpdump.
//!
//! The network header annotation must be at the ARP header. Packets without the annotation pass and are not
//! printed, and neither are packets whose protocol addresses are not IPv4 addresses or whose hardware
//! addresses have no bytes.
//!
//! ## Usage
//! `ARPPrint([LABEL, KEYWORDS])`
//!
//! ## Arguments
//! - `LABEL`: text at the start of each line.
//! - `TIMESTAMP`: if true, prints the time stamp.
//! - `ETHER`: if true, prints the addresses of the Ethernet header, which is assumed to be at the start of
//!   the packet if the MAC header annotation is not set.
//! - `ACTIVE`: if false, prints nothing.
//! - `OUTFILE`: a file to which text is written instead of standard error, on a live run within a second.
//!
//! ## Handlers
//! - `active`: true if packets are printed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> ARPPrint(arp) -> Discard
//! ```
//!
//! ## See also
//! IPPrint, Print

use std::fmt::Write;
use std::net::Ipv4Addr;

use element::class::ArgInfo;
use element::effects::Field;
use element::{Base, Class, Packet, manual};

use super::{Describe, Printer, Printing};

/// The element class `ARPPrint`.
pub static CLASS: Class = Class {
    name: "ARPPrint",
    manual: manual!("arp_print.rs"),
    args: &[
        ArgInfo::positional("LABEL", "string", ""),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("ETHER", "bool", "false"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("OUTFILE", "file", ""),
    ],
    table: &Printing::<ArpPrint>::HANDLERS,
    samples: &["", "x, ETHER true, OUTFILE $OUTPUT"],
    build: |args| {
        let print = ArpPrint {
            label: args.get("LABEL").unwrap_or_default(),
            timestamp: args.value("TIMESTAMP"),
            ether: args.value("ETHER"),
        };
        let active = args.value::<bool>("ACTIVE");
        let printer = Printer::new(args.get("OUTFILE"));
        args.finish()?;
        Ok(Box::new(Printing::new(print, active, printer)))
    },
    ..Class::DEFAULT
};

struct ArpPrint {
    label: String,
    timestamp: bool,
    ether: bool,
}

/// A hardware address, printed as six bytes in Click's notation: `00-01-02-AB-04-05`.
struct Hardware<'a>(&'a [u8]);

impl std::fmt::Display for Hardware<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Like Click, print six bytes, the length of an Ethernet address, whatever length the ARP header
        // gives; missing bytes are zero.
        for place in 0..6 {
            let dash = if place > 0 { "-" } else { "" };
            write!(f, "{dash}{:02X}", self.0.get(place).unwrap_or(&0))?;
        }
        Ok(())
    }
}

/// Appends the source and destination of the Ethernet header at `base`, as `SOURCE > DESTINATION: `. Appends
/// nothing if a header annotation is not set, if the network header is less than 14 bytes after `base`, or if
/// the packet's first slot has fewer than 14 bytes there.
pub(super) fn ethernet(text: &mut String, packet: &Packet, base: Base) {
    let length = packet.offset(Base::Network).zip(packet.offset(base)).map(|(network, mac)| network - mac);
    let header = packet.header(base).and_then(|mac| mac.first_chunk::<14>());
    if let Some(header) = header.filter(|_| length >= Some(14)) {
        let (to, from) = (&header[..6], &header[6..12]);
        // Writing to a string never fails.
        let _ = write!(text, "{} > {}: ", Hardware(from), Hardware(to));
    }
}

/// Appends the description of an ARP message in the style of tcpdump. `arp` is the message as far as it
/// lies in the packet's first slot, and `length` is the number of bytes from its start to the end of the
/// packet. Returns `None` if the protocol addresses are not IPv4 addresses, or if hardware addresses have
/// no bytes.
fn describe(text: &mut String, arp: &[u8], length: usize) -> Option<()> {
    let Some(&[h0, h1, p0, p1, hln, pln, o0, o1]) = arp.first_chunk() else {
        let _ = write!(text, "truncated-arp ({length})");
        return Some(());
    };
    let protocol = u16::from_be_bytes([p0, p1]);
    if !matches!(protocol, 0x0800 | 0x1000) || pln != 4 || hln == 0 {
        return None;
    }
    let hln = usize::from(hln);
    let hardware = |at: usize| Hardware(arp.get(at..(at + hln).min(arp.len())).unwrap_or_default());
    let address = |at: usize| {
        let bytes = arp.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
        Ipv4Addr::from_octets(bytes.copied().unwrap_or_default())
    };
    let (sha, spa) = (hardware(8), address(8 + hln));
    let (tha, tpa) = (hardware(12 + hln), address(12 + 2 * hln));
    if protocol == 0x1000 {
        text.push_str("trailer-");
    }
    let _ = match u16::from_be_bytes([o0, o1]) {
        1 if tha.0.iter().any(|&byte| byte != 0) => write!(text, "arp who-has {tpa} ({tha}) tell {spa}"),
        1 => write!(text, "arp who-has {tpa} tell {spa}"),
        2 => write!(text, "arp reply {spa} is-at {sha}"),
        3 => write!(text, "rarp who-is {tha} tell {sha}"),
        4 => write!(text, "rarp reply {tha} at {tpa}"),
        8 => write!(text, "invarp who-is {tha} tell {sha}"),
        9 => write!(text, "invarp reply {tha} at {tpa}"),
        other => write!(text, "arp-#{other}"),
    };
    let kind = u16::from_be_bytes([h0, h1]);
    if kind != 1 {
        let _ = write!(text, "hardware #{kind}");
    }
    Some(())
}

impl Describe for ArpPrint {
    fn seen(&self) -> Vec<Field> {
        vec![Field::Length, Field::Payload, Field::TimeStamp]
    }

    fn describe(&mut self, packet: &Packet, text: &mut String) -> Option<()> {
        let offset = packet.offset(Base::Network)?;
        let arp = packet.header(Base::Network).unwrap_or_default();
        if !self.label.is_empty() {
            let _ = write!(text, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(text, "{}: ", packet.time());
        }
        if self.ether {
            let marked = packet.offset(Base::Mac).is_some();
            ethernet(text, packet, if marked { Base::Mac } else { Base::Data });
        }
        describe(text, arp, packet.len().saturating_add_signed(-offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(operation: u16, target: [u8; 6]) -> String {
        let mut arp = vec![0, 1, 8, 0, 6, 4];
        arp.extend(operation.to_be_bytes());
        arp.extend([0, 1, 2, 0xab, 4, 5, 10, 0, 0, 1]);
        arp.extend(target);
        arp.extend([10, 0, 0, 2]);
        let mut text = String::new();
        describe(&mut text, &arp, arp.len()).unwrap();
        text
    }

    #[test]
    fn messages() {
        let target = [2, 0, 0, 0, 0, 9];
        assert_eq!(described(1, [0; 6]), "arp who-has 10.0.0.2 tell 10.0.0.1");
        assert_eq!(described(1, target), "arp who-has 10.0.0.2 (02-00-00-00-00-09) tell 10.0.0.1");
        assert_eq!(described(2, target), "arp reply 10.0.0.1 is-at 00-01-02-AB-04-05");
        assert_eq!(described(3, target), "rarp who-is 02-00-00-00-00-09 tell 00-01-02-AB-04-05");
        assert_eq!(described(4, target), "rarp reply 02-00-00-00-00-09 at 10.0.0.2");
        assert_eq!(described(9, target), "invarp reply 02-00-00-00-00-09 at 10.0.0.2");
        assert_eq!(described(77, target), "arp-#77");
    }

    #[test]
    fn what_is_no_arp_for_ipv4() {
        let mut text = String::new();
        assert_eq!(describe(&mut text, &[0, 1, 8], 3), Some(()));
        assert_eq!(text, "truncated-arp (3)");
        assert_eq!(describe(&mut text, &[0, 1, 0x86, 0xdd, 6, 16, 0, 1], 8), None);
        assert_eq!(describe(&mut text, &[0, 1, 8, 0, 0, 4, 0, 1], 8), None);
        text.clear();
        // If a message ends before its addresses, the addresses are shown as zero.
        describe(&mut text, &[0, 6, 0x10, 0, 6, 4, 0, 1], 8).unwrap();
        assert_eq!(text, "trailer-arp who-has 0.0.0.0 tell 0.0.0.0hardware #6");
    }
}
