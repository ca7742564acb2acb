//! Packets of flows that belong to other workers, where packets of one flow are spread.
//!
//! Their mappings can be read here. Packets that tell nothing new about their mapping are translated on the spot; all others go
//! to the worker that the mapping belongs to.

use element::{Batch, Cx, DropReason, Packet};
use flow::EndsKey;
use packet::BATCH_CAPACITY;

use super::change::Change;
use super::desk::Desk;
use super::flavour::set_next_hop;
use super::store::Board;
use crate::boards::WINDOW;

/// Takes care of them.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Packets of a batch, whom they belong to, and the outputs they go to, or none where they go home.
    packets: Vec<Packet>,
    owners: Vec<usize>,
    outputs: Vec<Option<u16>>,
}

/// The translator that deals with them.
#[derive(Clone, Copy)]
pub(super) struct Translator<'a> {
    pub(super) desk: &'a Desk,
    /// Its number in its store.
    pub(super) owner: u16,
    /// True if anybody looks at the destination annotation.
    pub(super) is_read: bool,
    /// See [`super::store::Store::slice`].
    pub(super) slice: u32,
}

impl Elsewhere {
    /// Takes the packets of other workers' flows out of a batch, and does with them what is to be done.
    pub(super) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        board: &Board,
        Translator { desk, owner, is_read, slice }: Translator<'_>,
        input: usize,
        batch: &mut Batch,
    ) {
        let Elsewhere { packets, owners, outputs } = self;
        // Once.
        packets.reserve(BATCH_CAPACITY);
        owners.reserve(BATCH_CAPACITY);
        outputs.reserve(BATCH_CAPACITY);
        let (me, _) = cx.worker();
        batch.sift(
            |packet| match cx.owner_of(packet) {
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
            let (mut keys, mut seen) = ([EndsKey::NONE; WINDOW], [None; WINDOW]);
            for (key, packet) in keys.iter_mut().zip(&mut *packets) {
                *key = spaces.key(packet).unwrap_or(EndsKey::NONE);
            }
            board.look(owners, &keys[..packets.len()], &mut seen);
            for (packet, seen) in packets.iter_mut().zip(seen) {
                if cx.uses_flow_marks() {
                    // Its flow's number is that of another worker.
                    packet.set_flow_mark(None);
                }
                outputs.push(seen.and_then(|(id, value)| {
                    let change = Change::unpacked(&value);
                    // Its worker knows whether the mapping is over.
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
                // No more packets than came in one batch, so they fit into one.
                None => _ = home.push(packet).map_err(|packet| cx.drop(packet, DropReason::NoBuffer)),
            }
        }
        cx.send_home(input, home);
    }
}

impl Desk {
    /// Makes of a packet what the mapping of another worker says; the output that it goes to. `None`, and nothing done, where
    /// that takes the worker: the packet tells something new about the mapping, or needs more than its key's value.
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
