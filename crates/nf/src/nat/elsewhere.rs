//! Translation of packets whose flow belongs to another worker, if packets of one flow reach several
//! workers.
//!
//! Workers can read each other's mappings on a board. A plain packet (see
//! [`super::flavour::PlainSpaces::key`]) is translated at the worker at which it arrived if the board has all
//! the data for that, if the mapping has had a packet in the current time slice, and if the packet neither
//! gives new information about its mapping nor has SYN, FIN or RST. Other packets are sent to the worker that
//! owns their flow.

use std::iter;

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
    /// that owns the packet's flow, `keys` has the key of the flow (`NONE` for a packet that is not plain),
    /// and `outputs` has the packet's output, or `None` if the packet must go to the owner.
    packets: Vec<Packet>,
    owners: Vec<usize>,
    keys: Vec<Ipv4FlowKey>,
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
        let ForeignFlows { packets, owners, keys, outputs } = self;
        // Memory is only allocated in the first call, because the buffers then have room for a whole batch.
        packets.reserve(BATCH_CAPACITY);
        owners.reserve(BATCH_CAPACITY);
        keys.reserve(BATCH_CAPACITY);
        outputs.reserve(BATCH_CAPACITY);
        let (me, _) = cx.worker();
        let spaces = desk.flavour.plain_spaces(owner);
        // Consecutive plain packets with the same key belong to one flow, whose owner is computed once.
        let mut before = (Ipv4FlowKey::NONE, me);
        batch.sift(
            |packet| {
                let key = spaces.key(packet).unwrap_or(Ipv4FlowKey::NONE);
                if key != before.0 || key == Ipv4FlowKey::NONE {
                    before = (key, cx.workers().owner_of(packet));
                }
                if before.1 == me { Ok(()) } else { Err(before) }
            },
            |mut packet, (key, owner)| {
                // The packet leaves its run (consecutive packets of one flow). The owner may change mappings
                // meanwhile, so packets of one run may get different mappings.
                packet.set_run(0);
                packets.push(packet);
                owners.push(owner);
                keys.push(key);
            },
        );
        let windows = packets.chunks_mut(WINDOW).zip(owners.chunks(WINDOW)).zip(keys.chunks(WINDOW));
        for ((mut packets, owners), keys) in windows {
            // Consecutive packets of one flow are looked up once.
            let flows = || keys.chunk_by(|one, other| one == other);
            let (mut firsts, mut first_owners, mut count) = ([Ipv4FlowKey::NONE; WINDOW], [me; WINDOW], 0);
            let mut start = 0;
            for flow in flows() {
                (firsts[count], first_owners[count]) = (keys[start], owners[start]);
                start += flow.len();
                count += 1;
            }
            let mut seen = [None; WINDOW];
            board.look(&first_owners[..count], &firsts[..count], &mut seen);
            for (flow, seen) in flows().zip(seen) {
                let run = packets.split_off_mut(..flow.len()).unwrap_or_default();
                if cx.graph().uses_flow_marks() {
                    // The packet's flow mark names a flow in another worker's table, so elements downstream
                    // at this worker must not use it.
                    run.iter_mut().for_each(|packet| packet.set_flow_mark(None));
                }
                let first = outputs.len();
                // If the mapping has had no packet in the current time slice, it may have expired. Only its
                // owner can decide that, so the packets go to the owner.
                if let Some((id, value)) = seen
                    && board.is_fresh(id, cx.now(), slice)
                {
                    desk.change_elsewhere(run, &Packed(value), is_read, outputs);
                    if outputs[first..].iter().any(Option::is_some) {
                        board.note(id, cx.now());
                    }
                }
                outputs.resize(first + run.len(), None);
            }
        }
        keys.clear();
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
    /// Rewrites packets of one flow by the mapping of another worker, and adds the number of each packet's
    /// output to `outputs`. A packet that the mapping's owner must handle stays unchanged, and has `None` in
    /// place of the output. This is the case if the packet would change the mapping's state or has SYN, FIN
    /// or RST. If data are needed that are not on the board (sequence number shifts, annotations),
    /// no packet is rewritten, and none need be added.
    fn change_elsewhere(
        &self,
        packets: &mut [Packet],
        packed: &Packed,
        is_read: bool,
        outputs: &mut Vec<Option<u16>>,
    ) {
        let change = packed.unpacked();
        let needs_more = self.sets_aggregate || self.reply_annotation.is_some_and(|_| change.is_reply);
        if change.state.is_shifted() || needs_more {
            return;
        }
        let (rewriting, first) = (Rewriting::of(packed), outputs.len());
        let is_run = packets.len() > 1;
        let mut rest = &mut *packets;
        while !rest.is_empty() {
            let done = if is_run { self.flavour.apply_to_run(rest, &rewriting, change.state) } else { 0 };
            outputs.extend(iter::repeat_n(Some(change.output), done));
            rest = &mut rest[done..];
            let Some((packet, others)) = rest.split_first_mut() else { break };
            let told = self.flavour.tells(packet);
            let is_known =
                told.is_some_and(|told| change.state.after(told) == change.state && !told.opens_or_closes());
            if is_known {
                self.flavour.apply_plain(packet, &rewriting);
            }
            outputs.push(is_known.then_some(change.output));
            rest = others;
        }
        let address = self.flavour.next_hop(&change).filter(|_| self.sets_next_hop && is_read);
        if let Some(address) = address {
            let changed = packets.iter_mut().zip(&outputs[first..]).filter(|(_, output)| output.is_some());
            changed.for_each(|(packet, _)| set_next_hop(packet, address));
        }
    }
}
