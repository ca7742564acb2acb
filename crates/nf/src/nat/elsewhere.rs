//! Handling of packets whose flow belongs to another worker, where the packets of one flow reach several
//! workers.
//!
//! The mappings of other workers can be read here. A packet that tells nothing new about its mapping is
//! translated at once; all others go to the worker to which the mapping belongs.

use element::{Batch, Cx, DropReason, Packet};
use flow::Ipv4FlowKey;
use packet::BATCH_CAPACITY;

use super::change::Change;
use super::desk::Translation;
use super::flavour::set_next_hop;
use super::store::Board;
use crate::boards::WINDOW;

/// The buffers for packets of other workers' flows.
#[derive(Default)]
pub(super) struct ForeignFlows {
    /// The packets of a batch; in `owners`, the workers to which they belong; in `outputs`, their outputs,
    /// or `None` for packets that go home.
    packets: Vec<Packet>,
    owners: Vec<usize>,
    outputs: Vec<Option<u16>>,
}

/// The translator that handles the packets.
#[derive(Clone, Copy)]
pub(super) struct Translator<'a> {
    pub(super) desk: &'a Translation,
    /// The number of the translator in its store.
    pub(super) owner: u16,
    /// True if an element reads the destination annotation.
    pub(super) is_read: bool,
    /// See [`super::store::Store::slice`].
    pub(super) slice: u32,
}

impl ForeignFlows {
    /// Removes the packets of other workers' flows from a batch, and translates them or sends them home.
    pub(super) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        board: &Board,
        Translator { desk, owner, is_read, slice }: Translator<'_>,
        input: usize,
        batch: &mut Batch,
    ) {
        let ForeignFlows { packets, owners, outputs } = self;
        // Allocates only in the first call.
        packets.reserve(BATCH_CAPACITY);
        owners.reserve(BATCH_CAPACITY);
        outputs.reserve(BATCH_CAPACITY);
        let (me, _) = cx.worker();
        batch.sift(
            |packet| match cx.workers().owner_of(packet) {
                owner if owner == me => Ok(()),
                owner => Err(owner),
            },
            |packet, owner| {
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
                    // The flow's number is only valid at another worker.
                    packet.set_flow_mark(None);
                }
                outputs.push(seen.and_then(|(id, value)| {
                    let change = Change::unpacked(&value);
                    // If the mapping is not fresh, only its worker knows whether it has expired.
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
                // These are at most the packets of one batch, so they fit into one batch.
                None => _ = home.push(packet).map_err(|packet| cx.drop(packet, DropReason::NoBuffer)),
            }
        }
        cx.send_home(input, home);
    }
}

impl Translation {
    /// Rewrites a packet by the mapping of another worker, and returns the output. Returns `None` and
    /// leaves the packet as it is if the packet needs the mapping's worker: because it tells something new
    /// about the mapping, or needs more than its key's value.
    fn change_elsewhere(&self, packet: &mut Packet, change: &Change, is_read: bool) -> Option<u16> {
        let told = self.flavour.tells(packet)?;
        let is_known = change.state.after(told) == change.state && !told.opens_or_closes();
        if !is_known || change.state.is_shifted() || self.reply_annotation.is_some_and(|_| change.is_reply) {
            return None;
        }
        self.flavour.apply_plain(packet, change);
        if self.sets_next_hop
            && is_read
            && let Some(address) = self.flavour.next_hop(change)
        {
            set_next_hop(packet, address);
        }
        Some(change.output)
    }
}
