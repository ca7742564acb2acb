//! What a store shows to translators on other workers, where packets of one flow are spread: all its keys, and what packets
//! that have them are to become.

use std::sync::{Mutex, PoisonError};

use element::Timestamp;
use flow::{CoreStates, EndsKey, FlowId, KeyHasher, Opened, StateId};

use super::{Session, Store};
use crate::nat::change::{Change, set_state};
use crate::nat::state::State;

/// Keys that each worker's board has room for; flows of further ones stay at the worker that they belong to. Memory is
/// touched only as it is needed.
const CAPACITY: usize = 1 << 21;

/// A key's value, as a table has it.
type Value = [u32; 6];

/// The boards of all workers, until each has taken its own.
pub(in crate::nat) struct Boards {
    ends: Mutex<Vec<Option<CoreStates<EndsKey, Value>>>>,
    hasher: KeyHasher,
}

impl Boards {
    /// For so many workers. Without memory for them there are none, and all flows stay where they belong.
    pub(in crate::nat) fn new(workers: usize) -> Boards {
        let ends = CoreStates::new(workers, CAPACITY).unwrap_or_default();
        let ends = Mutex::new(ends.into_iter().map(Some).collect());
        // Whoever wants keys to collide does not know it.
        Boards { ends, hasher: KeyHasher::new(fastrand::u64(..)) }
    }

    /// One worker's.
    pub(in crate::nat) fn take(&self, worker: usize) -> Option<Board> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let states = ends.get_mut(worker)?.take()?;
        Some(Board { states, hasher: self.hasher.clone() })
    }
}

/// One worker's board, which it writes, and its view of all others.
pub(in crate::nat) struct Board {
    states: CoreStates<EndsKey, Value>,
    hasher: KeyHasher,
}

/// What packets of a flow of another worker are to become.
pub(in crate::nat) type Seen = Option<(StateId, Value)>;

impl Board {
    /// What other workers say of keys of theirs.
    pub(in crate::nat) fn look(&self, owners: &[usize], keys: &[EndsKey], seen: &mut [Seen]) {
        let mut hashes = [0; super::WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.states.get_batch(owners, keys, &hashes, seen);
    }

    /// Notes that a packet of a flow of another worker has come.
    pub(in crate::nat) fn note(&self, id: StateId, now: Timestamp) {
        self.states.see(id, now);
    }

    fn own(&self, key: &EndsKey) -> Option<StateId> {
        self.states.get_local(key, self.hasher.hash(key)).map(|(id, _)| id)
    }
}

impl Store {
    /// Shows a key of the table, with its value, to other workers.
    pub(super) fn show(&mut self, id: FlowId, now: Timestamp) {
        let Some(board) = &mut self.board else { return };
        let Some(key) = self.table.key(id) else { return };
        let (ends, value) = (key.ends(), *key.value());
        let hash = board.hasher.hash(&ends);
        // Without room there the flow's packets all come to this worker.
        if let Ok(Opened::Present(id)) = board.states.insert_local(&ends, hash, &value, now) {
            board.states.update_local(id, &value);
        }
    }

    /// Takes a key away from there.
    pub(super) fn hide(&mut self, ends: &EndsKey) {
        if let Some(board) = &mut self.board
            && let Some(id) = board.own(ends)
        {
            board.states.remove_local(id);
        }
    }

    /// When another worker has last seen packets of a mapping; no time if it shows it to nobody.
    pub(super) fn seen_elsewhere(&self, session: &Session) -> i64 {
        let Some(board) = &self.board else { return i64::MIN };
        let table = self.table_of(session);
        let keys = session.keys.iter().filter_map(|id| table.key((*id)?));
        let seen = keys.filter_map(|key| board.states.last_seen(board.own(&key.ends())?));
        seen.max().map_or(i64::MIN, |time| time.0)
    }

    /// Notes another state of a key.
    pub(super) fn change_state(&mut self, era: u8, id: FlowId, change: impl FnOnce(State) -> State) {
        let Some(value) = self.table_mut(era).value_mut(id) else { return };
        set_state(value, change(Change::unpacked(value).state));
        let value = *value;
        let Some(ends) = self.table_mut(era).key(id).map(|key| key.ends()) else { return };
        if let Some(board) = &mut self.board
            && let Some(id) = board.own(&ends)
        {
            board.states.update_local(id, &value);
        }
    }
}
