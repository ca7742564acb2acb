//! Connections of a load balancer as bytes, for a restart. A connection is saved with the destination of its
//! server, because the numbers of servers follow from the configuration.

use std::collections::HashMap;

use element::{Cx, Damaged, Loaded, SavedState, StateReader, StateWriter, Timestamp};
use flow::{FiveTupleKey, Inserted};
use wire::FiveTuple;

use super::{Balancer, Connection, Phase, Place, shown};
use crate::saved_flows::{Home, LOOKS};

/// The version of the form in which balancers save connections.
pub(in crate::balance) const FORM: Option<u16> = Some(1);

/// A connection of an earlier run.
struct Saved {
    flow: FiveTuple,
    server: String,
    phase: Phase,
    seen: Timestamp,
}

impl Saved {
    fn load(reader: &mut StateReader<'_>) -> Result<Saved, Damaged> {
        let (flow, server) = (reader.five_tuple()?, reader.text()?.to_string());
        let phase = match reader.u8()? {
            0 => Phase::Open,
            1 => Phase::ClientClosed,
            2 => Phase::ServerClosed,
            3 => Phase::Over,
            _ => return Err(Damaged("a connection is in an unknown phase")),
        };
        Ok(Saved { flow, server, phase, seen: reader.time()? })
    }
}

impl<P: Place> Balancer<P> {
    /// Writes a piece of the connections, from the index `from` on. Returns the index of the next piece;
    /// `None` after the last.
    pub(super) fn save(&self, from: u64, out: &mut StateWriter) -> Option<u64> {
        let start = from as usize;
        let mut next = start;
        for connection in self.connections.iter().skip(start).take(LOOKS) {
            if out.is_full() {
                break;
            }
            next += 1;
            let Some(id) = connection.id else { continue };
            let server = self.slots.server(connection.slot);
            let (Some(key), Some(seen), Some(place)) = (
                self.flows.table.key(id),
                self.flows.table.last_seen(id),
                server.and_then(|server| self.place(server)),
            ) else {
                continue;
            };
            let board = self.board.as_ref().filter(|_| connection.phase == Phase::Open);
            let elsewhere = board.and_then(|board| board.last_seen(key));
            out.five_tuple(&key.tuple());
            out.text(&place.to_string());
            out.u8(match connection.phase {
                Phase::Open => 0,
                Phase::ClientClosed => 1,
                Phase::ServerClosed => 2,
                Phase::Over => 3,
            });
            out.time(elsewhere.map_or(seen, |elsewhere| seen.max(elsewhere)));
        }
        (next < self.connections.len()).then_some(next as u64)
    }

    /// Adds the connections of an earlier run that belong to this worker. Connections to servers that no
    /// longer exist, and connections for which there is no room, are refused.
    ///
    /// # Errors
    /// If the bytes are not connections of a balancer. Then the balancer stays as it is.
    pub(super) fn load(&mut self, cx: &Cx<'_>, state: &SavedState<'_>) -> Result<Loaded, Damaged> {
        let servers: HashMap<String, u16> =
            self.places().zip(0..).map(|(place, number)| (place.to_string(), number)).collect();
        let (mut loaded, now) = (Loaded::default(), cx.now());
        state.each(Saved::load, |Saved { flow, server, phase, seen }| {
            let home = Home::of(cx, &flow);
            if home == Home::Elsewhere {
                return;
            }
            if now - seen >= self.settings.timeout {
                loaded.ended += 1;
                return;
            }
            let Some(slot) = servers.get(&server).and_then(|&server| self.slots.slot(server)) else {
                loaded.refused += 1;
                return;
            };
            let key = FiveTupleKey::new(&flow, 0);
            match self.flows.table.insert(&key, self.flows.hash(&key), seen) {
                Ok(Inserted::New(id)) => {
                    self.remember(Connection { id: Some(id), slot, phase }, id);
                    if let Some(board) = &mut self.board {
                        board.show(&key, &shown(slot, phase), seen);
                    }
                    loaded.taken += 1;
                    loaded.shared += u64::from(home == Home::Anywhere);
                }
                // The connection was written twice.
                Ok(Inserted::Present(_)) => {}
                Err(_) => loaded.refused += 1,
            }
        })?;
        Ok(loaded)
    }
}
