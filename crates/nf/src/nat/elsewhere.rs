//! Translation of packets whose flow belongs to another worker, if packets of one flow reach several
//! workers.
//!
//! Workers can read each other's mappings on a board. A plain packet (see
//! [`super::flavour::PlainSpaces::key`]) is translated at the worker at which it arrived if the board has all
//! the data for that, if the mapping has had a packet in the current time slice, and if the packet neither
//! gives new information about its mapping nor has SYN, FIN or RST. Other packets are sent to the worker that
//! owns their flow.

use element::{Batch, Cx, DropReason, Packet};
use flow::Ipv4FlowKey;
use packet::BATCH_CAPACITY;

use super::change::Packed;
use super::desk::Translation;
use super::flavour::set_next_hop;
use super::plain::Rewriting;
use super::store::Board;
use crate::boards::WINDOW;

/// Buffers for packets of a batch whose flows belong to other workers.
#[derive(Default)]
pub(super) struct ForeignFlows {
    /// Packets of a batch whose flows belong to other workers. At the same index, `owners` has the worker
    /// that owns the packet's flow, and `outputs` has the packet's output, or `None` if the packet must go to
    /// the owner.
    packets: Vec<Packet>,
    owners: Vec<usize>,
    outputs: Vec<Option<u16>>,
}

/// The parts of a translator with which packets of other workers' flows are translated.
#[derive(Clone, Copy)]
pub(super) struct Translator<'a> {
    pub(super) desk: &'a Translation,
    /// The number of the translator among the translators that share its store.
    pub(super) owner: u16,
    /// True if an element reads the destination annotation, so that it must be set.
    pub(super) is_read: bool,
    /// The binary logarithm of the length of a time slice in nanoseconds. A mapping that had a packet in the
    /// current slice is fresh, that is, certainly not expired: see [`super::store::Store::slice`].
    pub(super) slice: u32,
}

impl ForeignFlows {
    /// Takes the packets of other workers' flows out of a batch. Translates and emits packets by mappings on
    /// the board; sends the other packets to the workers that own their flows.
    pub(super) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        board: &Board,
        Translator { desk, owner, is_read, slice }: Translator<'_>,
        input: usize,
        batch: &mut Batch,
    ) {
        let ForeignFlows { packets, owners, outputs } = self;
        // Memory is only allocated in the first call, because the buffers then have room for a whole batch.
        packets.reserve(BATCH_CAPACITY);
        owners.reserve(BATCH_CAPACITY);
        outputs.reserve(BATCH_CAPACITY);
        let (me, _) = cx.worker();
        batch.sift(
            |packet| match cx.workers().owner_of(packet) {
                owner if owner == me => Ok(()),
                owner => Err(owner),
            },
            |mut packet, owner| {
                // The packet leaves its run (consecutive packets of one flow). The packets are looked up one
                // by one, and the owner may change mappings meanwhile, so packets of one run may get
                // different mappings.
                packet.set_run(0);
                packets.push(packet);
                owners.push(owner);
            },
        );
        let spaces = desk.flavour.plain_spaces(owner);
        for (packets, owners) in packets.chunks_mut(WINDOW).zip(owners.chunks(WINDOW)) {
            let (mut keys, mut seen) = ([Ipv4FlowKey::NONE; WINDOW], [None; WINDOW]);
            for (key, packet) in keys.iter_mut().zip(&mut *packets) {
                *key = spaces.key(packet).unwrap_or(Ipv4FlowKey::NONE);
            }
            board.look(owners, &keys[..packets.len()], &mut seen);
            for (packet, seen) in packets.iter_mut().zip(seen) {
                if cx.graph().uses_flow_marks() {
                    // The packet's flow mark names a flow in another worker's table, so elements downstream
                    // at this worker must not use it.
                    packet.set_flow_mark(None);
                }
                outputs.push(seen.and_then(|(id, value)| {
                    let change = Packed(value);
                    // If the mapping has had no packet in the current time slice, it may have expired. Only
                    // its owner can decide that, so the packet goes to the owner.
                    if !board.is_fresh(id, cx.now(), slice) {
                        return None;
                    }
                    let output = desk.change_elsewhere(packet, &change, is_read)?;
                    board.note(id, cx.now());
                    Some(output)
                }));
            }
        }
        owners.clear();
        let mut home = cx.batch();
        for (packet, output) in packets.drain(..).zip(outputs.drain(..)) {
            match output {
                Some(output) => cx.emit_one(output.into(), packet, DropReason::NoOutput),
                // Pushing cannot fail: the packets come from one batch, so they fit into one batch.
                None => _ = home.push(packet).map_err(|packet| cx.drop(packet, DropReason::NoBuffer)),
            }
        }
        cx.send_home(input, home);
    }
}

impl Translation {
    /// Rewrites a packet by the mapping of another worker, and returns the number of its output. Returns
    /// `None`, with the packet unchanged, if the mapping's owner must handle the packet. This is the case if
    /// the packet would change the mapping's state or has SYN, FIN or RST. It is also the case if data are
    /// needed that are not on the board (sequence number shifts, the reply annotation).
    fn change_elsewhere(&self, packet: &mut Packet, packed: &Packed, is_read: bool) -> Option<u16> {
        let (told, change) = (self.flavour.tells(packet)?, packed.unpacked());
        let is_known = change.state.after(told) == change.state && !told.opens_or_closes();
        if !is_known || change.state.is_shifted() || self.reply_annotation.is_some_and(|_| change.is_reply) {
            return None;
        }
        self.flavour.apply_plain(packet, &Rewriting::of(packed));
        if self.sets_next_hop
            && is_read
            && let Some(address) = self.flavour.next_hop(&change)
        {
            set_next_hop(packet, address);
        }
        Some(change.output)
    }
}
