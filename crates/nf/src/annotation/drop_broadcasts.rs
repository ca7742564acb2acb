//! # DropBroadcasts
//! Sends packets that arrived as link-level broadcast or multicast to output 1, or drops them.
//!
//! DropBroadcasts reads the packet type annotation, which devices and HostEtherFilter set. It prints a
//! message about the first broadcast or multicast packet.
//!
//! ## Usage
//! `DropBroadcasts`
//!
//! ## Handlers
//! - `drops`: the number of broadcast and multicast packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetPacketType(BROADCAST) -> DropBroadcasts -> Discard
//! ```
//!
//! ## See also
//! HostEtherFilter, SetPacketType

use classify::IntervalSet;
use element::effects::{Field, Filter, Predicate};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Severity, StatePart, manual};
use packet::PacketKind;

use crate::editing::{aside, otherwise};

/// The element class `DropBroadcasts`.
pub static CLASS: Class = Class {
    name: "DropBroadcasts",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("drop_broadcasts.rs"),
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["", " -> 1/2"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(DropBroadcasts { drops: 0 }))
    },
    ..Class::DEFAULT
};

struct DropBroadcasts {
    drops: u64,
}

impl Element for DropBroadcasts {
    fn effects(&self) -> Effects {
        let set = IntervalSet::one(PacketKind::Broadcast as u128, PacketKind::Multicast as u128);
        let group = Filter::Leaf(Predicate::In { field: Field::Kind, mask: u128::MAX, set });
        Effects::cases(vec![aside(group, DropReason::Denied).shown(), otherwise(Vec::new())])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let drops = &mut self.drops;
        batch.sift(
            |packet| match packet.kind() {
                PacketKind::Broadcast | PacketKind::Multicast => Err(DropReason::Denied),
                _ => Ok(()),
            },
            |packet, reason| {
                *drops += 1;
                if *drops == 1 {
                    cx.messages().remark(Severity::Warning, format_args!("DropBroadcasts: dropped a packet"));
                }
                cx.emit_one(1, packet, reason);
            },
        );
    }

    element::keeps!(drops);
}

const HANDLERS: &[Handler<DropBroadcasts>] = &[Handler::count("drops", |e| e.drops)];
