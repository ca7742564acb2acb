//! # Cable
//! Passes packets from one interface of a network function to another, as sending and receiving them would.
//!
//! The element replaces two interfaces of network functions that a chain joins. Packets leave it as they
//! leave FromDevice: with the current time as time stamp, with the packet type of their Ethernet
//! destination (broadcast, multicast, else for this host), with the MAC header annotation at their start,
//! and with no other annotation. Their bytes are unchanged. No packet is dropped or held.
//!
//! ## Usage
//! `Cable([FROM, TO])`
//!
//! ## Arguments
//! - `FROM`: the interface that sends; for display only, never opened.
//! - `TO`: the interface that receives; for display only, never opened.
//!
//! ## Handlers
//! - `count`: packets that have crossed.
//! - `reset_counts`: sets the count to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(7) -> Cable(eth1, eth2) -> PaintSwitch -> Discard
//! ```
//!
//! ## See also
//! FromDevice, ToDevice

use classify::IntervalSet;
use element::class::ArgInfo;
use element::effects::{Action, Case, Counting, Field, Filter, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, Effects, Element, Handler, StatePart, Tally, manual};
use packet::{Annotations, PacketKind};
use wire::LinkType;

/// The element class `Cable`.
pub static CLASS: Class = Class {
    name: "Cable",
    manual: manual!("cable.rs"),
    args: &[ArgInfo::positional("FROM", "interface", ""), ArgInfo::positional("TO", "interface", "")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count"])],
    samples: &["", "eth1, eth2"],
    build: |args| {
        for name in ["FROM", "TO"] {
            args.get::<String>(name);
        }
        args.finish()?;
        Ok(Box::new(Cable { count: 0, annotations: true }))
    },
    ..Class::DEFAULT
};

struct Cable {
    count: u64,
    /// True if any element of the graph reads annotations, so that annotations have to be cleared.
    annotations: bool,
}

/// Returns the case that makes a packet look as if it had just been received from a device, with the packet
/// type `kind`. `when` is the condition of the case.
fn received(when: Filter, kind: PacketKind) -> Case {
    let set = |field, bytes: &[u8]| Action::Set(field, Value::Constant(bytes.to_vec()));
    Case::new(when, Target::Output(0))
        .with(set(Field::Annotation { offset: 0, length: Annotations::SIZE as u8 }, &[0; Annotations::SIZE]))
        .with(set(Field::HeaderOffset(Base::Mac), &[0]))
        .with(set(Field::HeaderOffset(Base::Network), &[]))
        .with(set(Field::HeaderOffset(Base::Transport), &[]))
        .with(set(Field::Kind, &[kind as u8]))
        .with(set(Field::InputPort, &[0]))
        .with(Action::Set(Field::TimeStamp, Value::Now))
}

impl Element for Cable {
    fn effects(&self) -> Effects {
        /// The bit of a 48-bit Ethernet address that is set in group addresses (multicast and broadcast).
        const GROUP: u128 = 1 << 40;
        let destination = || Field::Bytes { base: Base::Data, offset: 0, length: 6 };
        let to_all = Predicate::equals(destination(), (1 << 48) - 1);
        let to_group = Filter::Leaf(Predicate::In {
            field: destination(),
            mask: GROUP,
            set: IntervalSet::one(GROUP, GROUP),
        });
        Effects::cases(vec![
            received(to_all, PacketKind::Broadcast),
            received(to_group, PacketKind::Multicast),
            received(Filter::TRUE, PacketKind::Host),
        ])
        .counting(Counting::Tallied)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.annotations = cx.graph().facts().annotation_read(0, Annotations::SIZE);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        self.count += batch.len() as u64;
        for packet in batch.iter_mut() {
            packet.set_kind(PacketKind::of_frame(packet.data()));
            packet.set_time(now);
            packet.set_port(0);
            packet.set_link(LinkType::Ethernet.number());
            packet.set_offset(Base::Mac, Some(0));
            packet.set_offset(Base::Network, None);
            packet.set_offset(Base::Transport, None);
            if self.annotations {
                packet.annotations_mut().bytes_mut().fill(0);
            }
        }
    }

    fn tally(&mut self, tally: &Tally) {
        self.count += tally.packets;
    }

    element::keeps!(count);
}

const HANDLERS: &[Handler<Cable>] =
    &[Handler::count("count", |e| e.count), Handler::act("reset_counts", |e| e.count = 0)];
