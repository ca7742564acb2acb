//! # SetIPECN
//! Sets the explicit congestion notification bits of IPv4 headers, and updates the checksum.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `SetIPECN(ECN)`
//!
//! ## Arguments
//! - `ECN`: 0 to 3; or `no` or `-` (0), `ect1` or `ECT(1)` (1), `ect2` or `ECT(0)` (2), `ce` or `CE` (3).
//!
//! ## Handlers
//! - `ecn`: the value, as it was written.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> SetIPECN(ect1) -> Discard
//! ```
//!
//! ## See also
//! SetIPDSCP, MarkIPCE

use element::args::Raw;
use element::class::{ArgInfo, HandlerInfo};
use element::effects::Depends;
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::service_type;
use crate::editing::each;

/// The class.
pub static CLASS: Class = Class {
    name: "SetIPECN",
    manual: manual!("set_ip_ecn.rs"),
    args: &[ArgInfo::required("ECN", "0-3 or a name")],
    handlers: &[HandlerInfo::both("ecn")],
    samples: &["ce", "1"],
    reconfigures: true,
    build: |args| {
        let Raw(text) = args.required("ECN");
        args.finish()?;
        let ecn = parse(&text);
        if ecn.is_none() {
            args.error(BAD);
        }
        args.finish()?;
        Ok(Box::new(SetIpEcn { ecn: ecn.unwrap_or_default(), text }))
    },
    ..Class::DEFAULT
};

const BAD: &str = "bad ECN argument";

struct SetIpEcn {
    ecn: u8,
    text: String,
}

fn parse(text: &str) -> Option<u8> {
    match text.trim() {
        "0" | "no" | "-" => Some(0),
        "1" | "ect1" | "ECT(1)" => Some(1),
        "2" | "ect2" | "ECT(0)" => Some(2),
        "3" | "ce" | "CE" => Some(3),
        _ => None,
    }
}

impl Element for SetIpEcn {
    fn effects(&self) -> Effects {
        service_type::effects(3, self.ecn).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let ecn = self.ecn;
        each(cx, batch, |packet| service_type::change(packet, |tos| tos & !3 | ecn));
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.text.clone())
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, value: &str) -> Result<(), String> {
        self.ecn = parse(value).ok_or(BAD)?;
        self.text = value.trim().to_string();
        Ok(())
    }
}
