//! Packets of connections that belong to other workers, where packets of one connection are spread: they go to the server
//! that the other worker has chosen.

use element::five_tuple::five_tuple;
use element::{Batch, Cx, DropReason, Packet};
use flow::FiveTupleKey;
use wire::tcp::flags;

use super::balancer::tcp_flags;
use crate::boards::{self, WINDOW};

/// A board of connections: the server's number, and [`CLOSING`] where the connection is not open.
pub(super) type Board = boards::Board<FiveTupleKey, u64>;

/// Marks a connection that is closed in one direction or both: its worker counts how long it stays.
pub(super) const CLOSING: u64 = 1 << 16;

/// What becomes of a packet.
#[derive(Clone, Copy)]
enum Way {
    /// Its connection belongs to this worker.
    Own,
    /// To that server.
    Server(u16),
    /// To the worker that its connection belongs to.
    Home,
}

/// Takes care of them.
#[derive(Default)]
pub(super) struct Elsewhere {
    ways: Vec<Way>,
    /// Of what is left of the batch: servers of packets whose connections belong to other workers.
    servers: Vec<Option<u16>>,
}

impl Elsewhere {
    /// Looks at the packets of a batch, and sends home those that it cannot be known of here where they go.
    pub(super) fn handle(&mut self, cx: &mut Cx<'_>, board: &Board, input: usize, batch: &mut Batch) {
        let Elsewhere { ways, servers } = self;
        ways.clear();
        servers.clear();
        let (me, _) = cx.worker();
        for packets in batch.chunks_mut(WINDOW) {
            let (mut keys, mut seen) = ([FiveTupleKey::NONE; WINDOW], [None; WINDOW]);
            let mut owners = [me; WINDOW];
            for ((packet, key), owner) in packets.iter().zip(&mut keys).zip(&mut owners) {
                *owner = cx.owner_of(packet);
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
            // No more packets than came in one batch, so they fit into one.
            |packet, ()| _ = home.push(packet).map_err(|packet| cx.drop(packet, DropReason::NoBuffer)),
        );
        cx.send_home(input, home);
    }

    /// The server of the packet at a place of the batch, if another worker has chosen it.
    #[inline]
    pub(super) fn server(&self, place: usize) -> Option<u16> {
        self.servers.get(place).copied().flatten()
    }
}

fn opens_or_closes(packet: &Packet) -> bool {
    let seen = five_tuple(packet).map_or(0, |tuple| tcp_flags(packet, &tuple));
    seen & (flags::SYN | flags::FIN | flags::RST) != 0
}
