//! Packets whose connection belongs to another worker, if packets of one connection reach several workers.
//!
//! Workers can read each other's connections on a board. A packet goes to the server on the board, unless
//! it opens or closes a connection, or its connection is not open or not on the board. Such a packet is
//! sent to the worker that owns the connection.

use element::five_tuple::five_tuple;
use element::{Batch, Cx, DropReason, Packet};
use flow::FiveTupleKey;
use wire::tcp::flags;

use super::headers::tcp_flags;
use crate::boards::{self, WINDOW};

/// A board of connections by flow. The value is the slot of the server (the number by which connections and
/// boards refer to it), with the bit [`CLOSING`] if the connection is not open.
pub(super) type Board = boards::Board<FiveTupleKey, u64>;

/// The bit for a connection that one or both sides have closed. All its packets go to the worker that owns
/// the connection, which restarts the shorter time-out.
pub(super) const CLOSING: u64 = 1 << 16;

/// The decision about a packet: to balance it at this worker, to send it to the server that another worker
/// has chosen, or to send it to another worker.
#[derive(Clone, Copy)]
enum Way {
    /// The packet's connection belongs to this worker, which balances the packet.
    Own,
    /// The packet goes to the server with this slot, which the worker that owns the connection has chosen.
    Slot(u16),
    /// The packet is sent to the worker that owns its connection.
    Home,
}

/// The decisions about the packets of the current batch, made before the batch is balanced.
#[derive(Default)]
pub(super) struct ForeignFlows {
    ways: Vec<Way>,
    /// At the index of each packet that is left in the batch: the slot of the server that another worker has
    /// chosen, or `None` if the connection belongs to this worker.
    slots: Vec<Option<u16>>,
}

impl ForeignFlows {
    /// Decides about each packet of a batch. Packets that must be handled by the workers that own their
    /// connections are taken out of the batch and sent to these workers. `is_slot` returns true for the slots
    /// of the balancer's servers.
    pub(super) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        board: &Board,
        is_slot: impl Fn(u16) -> bool,
        input: usize,
        batch: &mut Batch,
    ) {
        let ForeignFlows { ways, slots } = self;
        ways.clear();
        slots.clear();
        let (me, _) = cx.worker();
        for packets in batch.chunks_mut(WINDOW) {
            let (mut keys, mut seen) = ([FiveTupleKey::NONE; WINDOW], [None; WINDOW]);
            let mut owners = [me; WINDOW];
            for ((packet, key), owner) in packets.iter().zip(&mut keys).zip(&mut owners) {
                *owner = cx.workers().owner_of(packet);
                if let Some(tuple) = five_tuple(packet).filter(|_| *owner != me) {
                    *key = FiveTupleKey::new(&tuple, 0);
                }
            }
            board.look(&owners[..packets.len()], &keys[..packets.len()], &mut seen);
            for ((packet, owner), seen) in packets.iter().zip(owners).zip(seen) {
                ways.push(match seen {
                    _ if owner == me => Way::Own,
                    // During a reload, a worker that already runs the new configuration may have servers on
                    // its board that this worker does not know.
                    Some((id, shown))
                        if shown & CLOSING == 0 && is_slot(shown as u16) && !opens_or_closes(packet) =>
                    {
                        board.note(id, cx.now());
                        Way::Slot(shown as u16)
                    }
                    _ => Way::Home,
                });
            }
        }
        let mut home = cx.batch();
        let mut next = ways.iter();
        batch.sift(
            |_| {
                slots.push(match next.next() {
                    Some(Way::Home) => return Err(()),
                    Some(Way::Slot(slot)) => Some(*slot),
                    Some(Way::Own) | None => None,
                });
                Ok(())
            },
            // This cannot fail: the packets come from one batch, so they fit into one.
            |packet, ()| _ = home.push(packet).map_err(|packet| cx.drop(packet, DropReason::NoBuffer)),
        );
        cx.send_home(input, home);
    }

    /// Returns the slot of the server of the packet at this index of the batch if another worker has chosen
    /// it; otherwise `None`.
    #[inline]
    pub(super) fn slot(&self, place: usize) -> Option<u16> {
        self.slots.get(place).copied().flatten()
    }
}

fn opens_or_closes(packet: &Packet) -> bool {
    let seen = five_tuple(packet).map_or(0, |tuple| tcp_flags(packet, &tuple));
    seen & (flags::SYN | flags::FIN | flags::RST) != 0
}
