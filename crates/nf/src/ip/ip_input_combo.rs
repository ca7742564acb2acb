//! # IPInputCombo
//! Does in one step what a router does with IPv4 packets that arrive in Ethernet frames.
//!
//! The element does the work of `Paint(COLOR) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16)`: the frame
//! is painted, its Ethernet header is stripped, the IPv4 header is checked, header annotations and the
//! destination address annotation are set, and bytes after the IP packet are cut off. Bad packets are
//! dropped, and a message reports the first of them.
//!
//! ## Usage
//! `IPInputCombo(COLOR [, BADSRC, KEYWORDS])`
//!
//! ## Arguments
//! - `COLOR`: the paint annotation, 0 to 255.
//! - `BADSRC`: bad source addresses, separated by spaces.
//! - `INTERFACES`: addresses of the router with their prefixes, as in CheckIPHeader.
//! - `GOODDST`: destinations to which packets are good with any source.
//!
//! ## Handlers
//! - `drops`: bad packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> IPInputCombo(1, INTERFACES 10.0.0.1/8) -> Discard
//! ```
//!
//! ## See also
//! Paint, Strip, CheckIPHeader, GetIPAddress, IPOutputCombo

use element::class::ArgInfo;
use element::effects::{Action, PAINT};
use element::{Class, Cx, DropReason, Effects, Packet, StatePart, manual};
use packet::Annotations;
use wire::ethernet;

use super::check_ip_header::Checks;
use crate::checking::{Checker, HeaderCheck, Reasons, Speaker};
use crate::editing::constant;

/// The element class `IPInputCombo`.
pub static CLASS: Class = Class {
    name: "IPInputCombo",
    manual: manual!("ip_input_combo.rs"),
    args: &[
        ArgInfo::required("COLOR", "0-255"),
        ArgInfo::positional("BADSRC", "addresses", ""),
        ArgInfo::keyword("INTERFACES", "prefixes", ""),
        ArgInfo::keyword("GOODDST", "addresses", ""),
    ],
    table: &Checker::<IpInputCombo>::ONLY_DROPS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["7", "0, 10.0.0.1 1.2.3.4", "2, INTERFACES 10.0.0.1/8, GOODDST 10.0.1.2"],
    build: |args| {
        let colour = args.required("COLOR");
        let headers = Checks::read(args, ethernet::Header::LEN, true);
        Checker::boxed(args, &CLASS, IpInputCombo { colour, headers })
    },
    ..Class::DEFAULT
};

struct IpInputCombo {
    colour: u8,
    headers: Checks,
}

impl HeaderCheck for IpInputCombo {
    const REASONS: Reasons = &[
        ("", DropReason::TooShort),
        ("", DropReason::BadIpHeader),
        ("", DropReason::BadIpHeader),
        ("", DropReason::BadIpHeader),
        ("", DropReason::BadIpChecksum),
        ("", DropReason::BadSource),
    ];
    const MESSAGE: &'static str = "IP checksum failed";
    const SPEAKER: Speaker = Speaker::None;

    fn effects(&self) -> Effects {
        let mut effects = self.headers.effects();
        if let Some(good) = effects.cases.last_mut() {
            good.actions.push(constant(PAINT, &[self.colour]));
            good.actions.push(Action::Strip(ethernet::Header::LEN as i32));
        }
        effects
    }

    fn prepare(&mut self, cx: &mut Cx<'_>) {
        self.headers.prepare(cx);
    }

    #[inline]
    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        self.headers.check(packet)?;
        packet.annotations_mut().set_u8(Annotations::PAINT, self.colour);
        // A packet with a valid IP header at offset 14 is longer than 14 bytes, so this never fails.
        if packet.strip(ethernet::Header::LEN) { Ok(()) } else { Err(0) }
    }
}
