//! # Segment
//! Cuts large segments into packets that fit the wire, and completes checksums.
//!
//! Senders on the same machine, and interfaces that merge packets on receive, hand over segments of up to 64
//! KiB and leave checksums to a device; Juggler makes large segments, too. Large segments reach this element
//! if all elements downstream of their source can handle them. The element makes ordinary packets of them:
//! each with its own lengths, identification, sequence number, flags and checksums. The packets of which
//! Juggler has made a large segment get the transport checksums again with which they arrived, even if these
//! were wrong, and their data is neither read nor copied. If an element downstream of the Juggler may have
//! made checksums wrong, the element computes all checksums instead. If only the checksum of a packet is left
//! to a device, the element completes it. All other packets pass. Dropped are large segments whose headers
//! cannot be parsed, large segments with a wrong checksum that have been copied or have grown by longer
//! headers than there is room for, and parts for which the packet pool has no slot.
//!
//! Interfaces that cannot take large segments need no Segment upstream: if such an interface is in the
//! graph, no large segments are made.
//!
//! ## Usage
//! `Segment`
//!
//! ## Arguments
//! None.
//!
//! ## Handlers
//! - `count`: the number of large segments that were cut.
//! - `segments`: the number of packets that resulted.
//! - `completed`: the number of packets that were not cut and whose checksum was completed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> Segment -> Discard
//! ```
//!
//! ## See also
//! Juggler, FromDevice, KernelTap

use element::effects::Support;
use element::offload::{Cutter, complete, is_large_segment, is_partial};
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, manual};

use crate::outgoing::add;

/// The element class `Segment`.
pub static CLASS: Class = Class {
    name: "Segment",
    processing: "h/h",
    manual: manual!("segment.rs"),
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count", "segments", "completed"])],
    samples: &[""],
    build: |args| {
        args.finish()?;
        Ok(Box::<Segment>::default())
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct Segment {
    cutter: Cutter,
    /// True if packets with unfinished checksums or segmentation may arrive; otherwise batches pass
    /// unexamined.
    is_asked: bool,
    count: u64,
    segments: u64,
    completed: u64,
}

impl Element for Segment {
    fn effects(&self) -> Effects {
        let support = Support {
            offloads: Some(-14),
            finishes_offloads: true,
            restores_checksums: true,
            ..Support::default()
        };
        Effects { support, ..Effects::pass() }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.is_asked = cx.graph().receives_offloads();
        self.cutter.restores = cx.graph().restores_checksums();
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        if !self.is_asked {
            return Some(batch);
        }
        let mut out = cx.batch();
        for mut packet in batch.drain() {
            if is_large_segment(&packet) {
                self.count += 1;
                let segments = &mut self.segments;
                self.cutter.cut(cx, packet, |cx, segment| {
                    *segments += 1;
                    add(cx, &mut out, segment);
                });
                continue;
            }
            if is_partial(&packet) {
                self.completed += 1;
                complete(&mut packet);
            }
            add(cx, &mut out, packet);
        }
        cx.recycle(batch);
        Some(out)
    }

    element::keeps!(count, segments, completed);
}

const HANDLERS: &[Handler<Segment>] = &[
    Handler::count("count", |e| e.count),
    Handler::count("segments", |e| e.segments),
    Handler::count("completed", |e| e.completed),
];
