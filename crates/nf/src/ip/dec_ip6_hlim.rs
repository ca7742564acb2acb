//! # DecIP6HLIM
//! Decrements the IPv6 hop limit.
//!
//! Packets whose hop limit is 0 or 1 leave by output 1 unchanged, or are dropped. The network header
//! annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `DecIP6HLIM`
//!
//! ## Handlers
//! - `drops`: packets that expired.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> DecIP6HLIM -> Discard
//! ```
//!
//! ## See also
//! DecIPTTL, CheckIP6Header

use classify::IntervalSet;
use element::effects::{Action, Counting, Filter, HeaderKind, Predicate, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, Tally, manual};

use super::ip6_mirror::ipv6;
use crate::editing::{aside, bytes, needs, otherwise};

/// The element class `DecIP6HLIM`.
pub static CLASS: Class = Class {
    name: "DecIP6HLIM",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("dec_ip6_hlim.rs"),
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["", " -> 1/2"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(DecIp6Hlim { expired: 0 }))
    },
    ..Class::DEFAULT
};

/// The index of the case for expired packets in the declaration.
const EXPIRED: usize = 1;

struct DecIp6Hlim {
    expired: u64,
}

impl Element for DecIp6Hlim {
    fn effects(&self) -> Effects {
        let limit = bytes(Base::Network, 7, 1);
        let expired =
            Filter::Leaf(Predicate::In { field: limit.clone(), mask: 0xff, set: IntervalSet::one(0, 1) });
        let decrement = Action::Set(limit.clone(), Value::Plus(limit, -1));
        let expires = aside(expired, DropReason::TtlExpired);
        let cases = vec![needs(HeaderKind::Ipv6), expires, otherwise(vec![decrement])];
        Effects::cases(cases).counting(Counting::Tallied)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let expired = &mut self.expired;
        batch.sift(
            |packet| {
                let ip = ipv6(packet)?;
                if ip.hop_limit <= 1 {
                    return Err(DropReason::TtlExpired);
                }
                ip.hop_limit -= 1;
                Ok(())
            },
            |packet, reason| match reason {
                DropReason::TtlExpired => {
                    *expired += 1;
                    cx.emit_one(1, packet, reason);
                }
                _ => cx.drop(packet, reason),
            },
        );
    }

    fn tally(&mut self, tally: &Tally) {
        if tally.case == EXPIRED {
            self.expired += tally.packets;
        }
    }

    element::keeps!(expired);
}

const HANDLERS: &[Handler<DecIp6Hlim>] = &[Handler::count("drops", |e| e.expired)];
