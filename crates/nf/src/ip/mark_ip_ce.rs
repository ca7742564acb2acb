//! # MarkIPCE
//! Marks IPv4 packets as having experienced congestion: sets the ECN bits to 3 (RFC 3168), and updates the
//! checksum.
//!
//! Packets whose sender does not support ECN (bits 0) are dropped. The network header annotation must be
//! set; packets without it are dropped.
//!
//! ## Usage
//! `MarkIPCE([FORCE])`
//!
//! ## Arguments
//! - `FORCE`: if true, packets whose sender does not support ECN are marked too.
//!
//! ## Handlers
//! - `drops`: packets whose sender does not support ECN.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> MarkIPCE(true) -> Discard
//! ```
//!
//! ## See also
//! SetIPECN, RED

use element::class::ArgInfo;
use element::effects::{Case, Filter, HeaderKind, Predicate, Target, wire_field};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, manual};

use super::service_type;
use crate::editing::ipv4;

/// The element class `MarkIPCE`.
pub static CLASS: Class = Class {
    name: "MarkIPCE",
    manual: manual!("mark_ip_ce.rs"),
    args: &[ArgInfo::positional("FORCE", "bool", "false")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["", "true"],
    build: |args| {
        let force = args.value::<bool>("FORCE");
        args.finish()?;
        Ok(Box::new(MarkIpCe { force, drops: 0 }))
    },
    ..Class::DEFAULT
};

struct MarkIpCe {
    force: bool,
    drops: u64,
}

impl Element for MarkIpCe {
    fn effects(&self) -> Effects {
        let mut effects = service_type::effects(3, 3);
        let marked = |ecn| {
            let set = classify::IntervalSet::one(ecn, ecn);
            Filter::All(vec![
                Predicate::present(HeaderKind::Ipv4),
                Filter::Leaf(Predicate::In { field: wire_field::IP_TOS, mask: 3, set }),
            ])
        };
        // A packet that is marked already must not be changed: an update of its checksum by a difference of
        // zero could change it from all ones to zero.
        effects.cases.insert(0, Case::new(marked(3), Target::Output(0)));
        if !self.force {
            effects.cases.insert(0, Case::new(marked(0), Target::Drop(DropReason::Unsuitable)));
        }
        effects
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Self { force, drops } = self;
        batch.sift(
            |packet| {
                let ip = ipv4(packet)?;
                match ip.ecn() {
                    0 if !*force => return Err(DropReason::Unsuitable),
                    3 => {}
                    _ => {
                        service_type::set(ip, ip.tos | 3);
                        service_type::unset_run_unless_ipv4(packet);
                    }
                }
                Ok(())
            },
            |packet, reason| {
                *drops += u64::from(reason == DropReason::Unsuitable);
                cx.drop(packet, reason);
            },
        );
    }

    element::keeps!(drops);
}

const HANDLERS: &[Handler<MarkIpCe>] = &[Handler::count("drops", |e| e.drops)];
