//! Boards: where a worker shows the state of its flows to the others, for elements whose flows are spread over workers.
//!
//! An element keeps its flows in a table of its own, as ever, and shows what packets of a flow have to know on its board.
//! Packets of flows of another worker are handled by what that one's board says; where it says nothing, or a packet would
//! change something, they are sent home ([`element::Cx::send_home`]).

use std::any::Any;

use element::{Args, Invalid, Timestamp};
use flow::{CoreStates, Key, KeyHasher, Opened, Plain, StateId};

/// Flows that each worker's board has room for; those of further ones stay at the worker that they belong to. Memory is
/// touched only as it is needed.
const CAPACITY: usize = 1 << 21;

/// Flows that are looked for together.
pub(crate) const WINDOW: usize = 32;

/// One worker's board, which it writes, and its view of all others.
pub(crate) struct Board<K: Key, V: Plain> {
    states: CoreStates<K, V>,
    hasher: KeyHasher,
}

/// What another worker says of a flow of its.
pub(crate) type Seen<V> = Option<(StateId, V)>;

impl<K: Key + Any + Send + Sync, V: Plain + Any + Send + Sync> Board<K, V> {
    /// That of an element being made, if its flows are spread.
    ///
    /// # Errors
    /// If there is no memory for it, which `args` has been told.
    pub(crate) fn of(args: &mut Args<'_>) -> Result<Option<Board<K, V>>, Invalid> {
        if !args.setup.is_spread() {
            return Ok(None);
        }
        match args.setup.flow_states(args.id(), CAPACITY) {
            Ok((states, hasher)) => Ok(Some(Board { states, hasher })),
            Err(error) => {
                args.error(format!(
                    "what other workers have to know of flows: {error}; or use `--steering rss`"
                ));
                Err(Invalid)
            }
        }
    }
}

impl<K: Key, V: Plain> Board<K, V> {
    /// What others say of flows of theirs: at most [`WINDOW`], element by element.
    pub(crate) fn look(&self, owners: &[usize], keys: &[K], seen: &mut [Seen<V>; WINDOW]) {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.states.get_batch(owners, keys, &hashes, seen);
    }

    /// Notes that a packet of a flow of another worker has come.
    #[inline]
    pub(crate) fn note(&self, id: StateId, now: Timestamp) {
        self.states.see(id, now);
    }

    /// True if a packet of a flow of another worker is known to have come in the slice of time that it is now. Slices
    /// are of 2 to the power of `slice` nanoseconds, or of a tick if that is longer.
    #[inline]
    pub(crate) fn is_fresh(&self, id: StateId, now: Timestamp, slice: u32) -> bool {
        let slice = slice.max(flow::TICK.0.ilog2());
        // Stamps are the ends of ticks, which lie within slices.
        let is_in = |last: Timestamp| ((last.0 - 1) ^ now.0) >> slice == 0;
        is_in(self.states.noted(id)) || is_in(self.states.noted_by_any(id))
    }

    /// Notes that a packet of a flow of this worker has come, if the flow is shown.
    pub(crate) fn touch(&self, key: &K, now: Timestamp) {
        if let Some(id) = self.own(key) {
            self.states.see(id, now);
        }
    }

    /// Shows a flow of this worker, or that it has changed. Without room, all its packets come to this worker.
    pub(crate) fn show(&mut self, key: &K, value: &V, now: Timestamp) {
        let hash = self.hasher.hash(key);
        if let Ok(Opened::Present(id)) = self.states.insert_local(key, hash, value, now) {
            self.states.update_local(id, value);
        }
    }

    /// Shows that a flow of this worker has changed, if it is shown.
    pub(crate) fn change(&mut self, key: &K, value: &V) {
        if let Some(id) = self.own(key) {
            self.states.update_local(id, value);
        }
    }

    /// Shows a flow of this worker no more.
    pub(crate) fn hide(&mut self, key: &K) {
        if let Some(id) = self.own(key) {
            self.states.remove_local(id);
        }
    }

    /// When any worker has last seen a packet of a flow of this one, as far as its board knows.
    pub(crate) fn last_seen(&self, key: &K) -> Option<Timestamp> {
        self.states.last_seen(self.own(key)?)
    }

    fn own(&self, key: &K) -> Option<StateId> {
        self.states.get_local(key, self.hasher.hash(key)).map(|(id, _)| id)
    }
}
