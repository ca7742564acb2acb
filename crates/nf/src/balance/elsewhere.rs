//! The handling of packets whose connection belongs to another worker, where the packets of one connection
//! reach several workers: they go to the server that the other worker has chosen.

use element::five_tuple::five_tuple;
use element::{Batch, Cx, DropReason, Packet};
use flow::FiveTupleKey;
use wire::tcp::flags;

use super::headers::tcp_flags;
use crate::boards::{self, WINDOW};

/// A board of connections: the server's number, and [`CLOSING`] if the connection is not open.
pub(super) type Board = boards::Board<FiveTupleKey, u64>;

/// The flag of a connection that is closed in one direction or both. Its own worker counts the time until
/// it expires.
pub(super) const CLOSING: u64 = 1 << 16;

/// The destination of a packet.
#[derive(Clone, Copy)]
enum Way {
    /// Handled here: the connection belongs to this worker.
    Own,
    /// The server that the connection's worker has chosen.
    Server(u16),
    /// The worker to which the connection belongs.
    Home,
}

/// The destinations of a batch's packets whose connections belong to other workers.
#[derive(Default)]
pub(super) struct ForeignFlows {
    ways: Vec<Way>,
    /// For each packet that remains in the batch, the server if the connection belongs to another worker.
    servers: Vec<Option<u16>>,
}

impl ForeignFlows {
    /// Looks up the packets of a batch, and sends packets home whose server cannot be known at this worker.
    pub(super) fn handle(&mut self, cx: &mut Cx<'_>, board: &Board, input: usize, batch: &mut Batch) {
        let ForeignFlows { ways, servers } = self;
        ways.clear();
        servers.clear();
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
                    Some((id, shown)) if shown & CLOSING == 0 && !opens_or_closes(packet) => {
                        board.note(id, cx.now());
                        Way::Server(shown as u16)
                    }
                    _ => Way::Home,
                });
            }
        }
        let mut home = cx.batch();
        let mut next = ways.iter();
        batch.sift(
            |_| {
                servers.push(match next.next() {
                    Some(Way::Home) => return Err(()),
                    Some(Way::Server(server)) => Some(*server),
                    Some(Way::Own) | None => None,
                });
                Ok(())
            },
            // These are at most the packets of one batch, so they fit into one batch.
            |packet, ()| _ = home.push(packet).map_err(|packet| cx.drop(packet, DropReason::NoBuffer)),
        );
        cx.send_home(input, home);
    }

    /// Returns the server of the packet at an index of the batch, if another worker has chosen it.
    #[inline]
    pub(super) fn server(&self, place: usize) -> Option<u16> {
        self.servers.get(place).copied().flatten()
    }
}

fn opens_or_closes(packet: &Packet) -> bool {
    let seen = five_tuple(packet).map_or(0, |tuple| tcp_flags(packet, &tuple));
    seen & (flags::SYN | flags::FIN | flags::RST) != 0
}
