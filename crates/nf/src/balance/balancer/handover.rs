//! The handover of connections to the balancer that replaces a balancer in a reload.
//!
//! The table of connections, which names servers by their slots, goes over as a whole, in a time that does
//! not depend on the number of connections. Connections are taken one by one if CAPACITY has changed, if only
//! one of the two balancers has a board, or if there are not enough slots for the new servers.

use element::Timestamp;
use flow::Inserted;

use super::{Balancer, Board, Connection, Flows, Phase, Place, Server, Settings, shown};
use crate::balance::choice::Turns;
use crate::balance::slots::Slots;

/// The state that a balancer hands to the balancer that replaces it when the configuration changes.
pub(super) struct Kept<P> {
    servers: Vec<Server<P>>,
    slots: Slots,
    turns: Turns,
    settings: Settings,
    flows: Flows,
    connections: Vec<Connection>,
    board: Option<Board>,
    overflows: u64,
    full: Option<Timestamp>,
}

impl<P: Place> Balancer<P> {
    /// Returns the state with which another balancer continues. This balancer goes on without connections.
    pub(super) fn take_state(&mut self) -> Option<Kept<P>> {
        let flows = self.spare.take().or_else(|| Flows::new(1).ok())?;
        Some(Kept {
            servers: self.servers.clone(),
            slots: self.slots.clone(),
            turns: self.choice.turns(),
            settings: self.settings,
            flows: std::mem::replace(&mut self.flows, flows),
            connections: std::mem::take(&mut self.connections),
            board: self.board.take(),
            overflows: self.overflows,
            full: self.full,
        })
    }

    /// Takes over servers, connections and counters of the balancer that this balancer replaces. Connections
    /// to servers that no longer exist end at once or with their next packet. Returns what this balancer has
    /// no use for.
    pub(super) fn put_state(&mut self, mut kept: Kept<P>) -> Kept<P> {
        (self.overflows, self.full) = (kept.overflows, kept.full);
        // If the argument NSERVER is the same, servers stay active or inactive as handlers have made them.
        let stays = kept.settings.active == self.settings.active;
        let mut numbers = Vec::with_capacity(kept.servers.len());
        for (old, Server { place, is_active, load }) in kept.servers.iter().enumerate() {
            // A server often has the same number as before, so this number is tried first.
            let is_same = self.servers.get(old).is_some_and(|server| server.place == *place);
            let number = if is_same { Some(old) } else { self.places().position(|known| known == place) };
            if let Some(server) = number.and_then(|number| self.servers.get_mut(number)) {
                server.load = *load;
                if stays {
                    server.is_active = *is_active;
                }
            }
            numbers.push(number.map(|number| number as u16));
        }
        self.update_choice();
        self.choice.continue_turns(&kept.turns, &numbers);
        let fits =
            kept.settings.capacity == self.settings.capacity && kept.board.is_some() == self.board.is_some();
        match kept.slots.renumbered(&numbers, self.servers.len() as u16).filter(|_| fits) {
            Some(slots) => {
                self.slots = slots;
                std::mem::swap(&mut self.flows, &mut kept.flows);
                std::mem::swap(&mut self.connections, &mut kept.connections);
                std::mem::swap(&mut self.board, &mut kept.board);
            }
            None => self.take_each(&kept, &numbers),
        }
        kept
    }

    /// Takes over the connections of another balancer one by one, as far as there is room. `numbers` has, for
    /// each server of that balancer, the server's number in this balancer.
    fn take_each(&mut self, kept: &Kept<P>, numbers: &[Option<u16>]) {
        self.servers.iter_mut().for_each(|server| server.load.connections = 0);
        for connection in &kept.connections {
            let table = &kept.flows.table;
            let Some((key, seen)) =
                connection.id.and_then(|id| Some((*table.key(id)?, table.last_seen(id)?)))
            else {
                continue;
            };
            // The boards differ, so the time of a connection's last packet is the later of the time in the
            // table and the time on the old board, which includes packets at other workers.
            let board = kept.board.as_ref().filter(|_| connection.phase == Phase::Open);
            let seen = board.and_then(|board| board.last_seen(&key)).map_or(seen, |there| seen.max(there));
            let number = kept.slots.server(connection.slot).and_then(|old| numbers.get(usize::from(old)));
            let Some(slot) = number.copied().flatten().and_then(|number| self.slots.slot(number)) else {
                continue;
            };
            let hash = self.flows.hash(&key);
            let Ok(Inserted::New(id)) = self.flows.table.insert(&key, hash, seen) else { continue };
            self.remember(Connection { id: Some(id), slot, ..*connection }, id);
            if let Some(board) = &mut self.board {
                board.show(&key, &shown(slot, connection.phase), seen);
            }
        }
    }
}
