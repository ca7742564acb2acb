//! The board of a store: a copy of all its keys with their values, which other workers read. It exists in
//! translators of TCP and UDP if packets of one flow reach several workers.

use element::Timestamp;
use flow::{FlowId, Ipv4FlowKey};

use super::{Session, Store};
use crate::boards;
use crate::nat::change::{Change, set_state};
use crate::nat::state::State;

/// The table by which other workers read the mappings of a store. Its keys and values (packed [`Change`]s)
/// are those of the store's flow table.
pub(in crate::nat) type Board = boards::Board<Ipv4FlowKey, [u32; 6]>;

impl Store {
    /// Makes all mappings that are added from now on visible to other workers, by copying them to `board`.
    pub(in crate::nat) fn use_board(&mut self, board: Board) {
        self.board = Some(board);
    }

    /// Returns the board, the table by which workers read each other's mappings; `None` if this store has
    /// none.
    pub(in crate::nat) fn board(&self) -> Option<&Board> {
        self.board.as_ref()
    }

    /// Copies a key of the current table with its value to the board, if there is one.
    pub(super) fn show(&mut self, id: FlowId, now: Timestamp) {
        let Store { board: Some(board), table, .. } = self else { return };
        if let Some(key) = table.key(id) {
            board.show(&key.ends(), key.value(), now);
        }
    }

    /// Removes a key from the board, if there is one.
    pub(super) fn hide(&mut self, ends: &Ipv4FlowKey) {
        if let Some(board) = &mut self.board {
            board.hide(ends);
        }
    }

    /// Returns the time of the last packet of a mapping that the board has recorded, in nanoseconds; the
    /// minimum if the board does not have the mapping. The time is rounded up, and includes packets that
    /// other workers have handled.
    pub(super) fn seen_elsewhere(&self, session: &Session) -> i64 {
        let Some(board) = &self.board else { return i64::MIN };
        let table = self.table_of(session);
        let keys = session.keys.iter().filter_map(|id| table.key((*id)?));
        keys.filter_map(|key| board.last_seen(&key.ends())).max().map_or(i64::MIN, |time| time.0)
    }

    /// Replaces the state of a key, in the table with number `era` and on the board. Ends the flow's lease,
    /// because the lease was given for the old state.
    pub(super) fn change_state(&mut self, era: u8, id: FlowId, change: impl FnOnce(State) -> State) {
        self.end_lease(id);
        let Some(value) = self.table_mut(era).value_mut(id) else { return };
        set_state(value, change(Change::unpacked(value).state));
        let value = *value;
        if self.board.is_some()
            && let Some(ends) = self.table_mut(era).key(id).map(|key| key.ends())
            && let Some(board) = &mut self.board
        {
            board.change(&ends, &value);
        }
    }
}
