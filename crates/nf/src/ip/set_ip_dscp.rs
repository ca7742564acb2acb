//! # SetIPDSCP
//! Sets the differentiated services code point of IPv4 headers, and updates the checksum.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIPDSCP(DSCP)`
//!
//! ## Arguments
//! - `DSCP`: 0 to 63. The ECN bits stay.
//!
//! ## Handlers
//! - `dscp`: the code point, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> SetIPDSCP(46) -> Discard
//! ```
//!
//! ## See also
//! SetIPECN, MarkIPCE

use element::args::{Arg, Place, Raw};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::Depends;
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::service_type;
use crate::editing::each;

/// The class.
pub static CLASS: Class = Class {
    name: "SetIPDSCP",
    manual: manual!("set_ip_dscp.rs"),
    args: &[ArgInfo::required("DSCP", "0-63")],
    handlers: &[HandlerInfo::both("dscp")],
    samples: &["46"],
    reconfigures: true,
    build: |args| {
        let Raw(text) = args.required("DSCP");
        args.finish()?;
        let parsed = parse(&text, &args.place());
        if let Err(reason) = &parsed {
            args.error(reason.clone());
        }
        args.finish()?;
        Ok(Box::new(SetIpDscp { bits: parsed.unwrap_or_default(), text }))
    },
    ..Class::DEFAULT
};

struct SetIpDscp {
    /// The code point in its place in the byte.
    bits: u8,
    text: String,
}

/// A code point, shifted to its place.
fn parse(text: &str, place: &Place<'_>) -> Result<u8, String> {
    match u32::parse(text, place).map_err(|reason| format!("DSCP: {reason}"))? {
        dscp @ 0..=63 => Ok((dscp as u8) << 2),
        _ => Err("diffserv code point out of range".into()),
    }
}

impl Element for SetIpDscp {
    fn effects(&self) -> Effects {
        service_type::effects("set DSCP").depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let bits = self.bits;
        each(cx, batch, |packet| service_type::change(packet, |tos| bits | tos & 3));
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.text.clone())
    }

    fn write(&mut self, cx: &mut Cx<'_>, _name: &str, value: &str) -> Result<(), String> {
        self.bits = parse(value, &cx.place())?;
        self.text = value.trim().to_string();
        Ok(())
    }
}
