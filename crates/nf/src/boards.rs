//! Boards: each worker shows the state of its flows to the other workers, for elements whose flows are
//! spread over workers.
//!
//! An element keeps its flows in its own table, and copies to its board what other workers need to know
//! about a flow. A worker handles packets of another worker's flow by the entry on that worker's board. If
//! the flow has no entry, or a packet would change the state, the packet is sent to the flow's home
//! ([`element::Cx::send_home`]).

use std::any::Any;

use element::{Args, Invalid, Timestamp};
use flow::{CoreStates, Key, KeyHasher, Opened, Plain, StateId};

/// The number of flows that each worker's board has room for; packets of further flows are processed by the
/// flow's home only. Pages of memory are first touched when they are needed.
const CAPACITY: usize = 1 << 21;

/// The maximum number of flows in one look-up.
pub(crate) const WINDOW: usize = 32;

/// The board of one worker, which only this worker writes, and read access to the boards of all others.
pub(crate) struct Board<K: Key, V: Plain> {
    states: CoreStates<K, V>,
    hasher: KeyHasher,
}

/// The id and state of a flow on another worker's board; `None` if the board does not have the flow.
pub(crate) type Seen<V> = Option<(StateId, V)>;

impl<K: Key + Any + Send + Sync, V: Plain + Any + Send + Sync> Board<K, V> {
    /// Returns the board of an element that is being made, or `None` if flows are not spread over workers.
    ///
    /// # Errors
    /// If there is no memory for the board; the error has then been reported to `args`.
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
    /// Looks up flows of other workers: sets `seen[i]` to what the board of worker `owners[i]` says about
    /// `keys[i]`, for at most [`WINDOW`] flows.
    pub(crate) fn look(&self, owners: &[usize], keys: &[K], seen: &mut [Seen<V>; WINDOW]) {
        let mut hashes = [0; WINDOW];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hasher.hash(key);
        }
        self.states.get_batch(owners, keys, &hashes, seen);
    }

    /// Notes that a packet of another worker's flow has arrived.
    #[inline]
    pub(crate) fn note(&self, id: StateId, now: Timestamp) {
        self.states.see(id, now);
    }

    /// True if some worker has already noted a packet of this flow, which belongs to another worker, in the
    /// current slice of time. A slice is 2 to the power of `slice` nanoseconds long, but at least one tick.
    #[inline]
    pub(crate) fn is_fresh(&self, id: StateId, now: Timestamp, slice: u32) -> bool {
        let slice = slice.max(flow::TICK.0.ilog2());
        // A stamp is the end of its tick; one nanosecond before, it is inside of the tick, and a tick is
        // inside of one slice.
        let is_in = |last: Timestamp| ((last.0 - 1) ^ now.0) >> slice == 0;
        is_in(self.states.last_seen_here(id)) || is_in(self.states.last_seen_by_any(id))
    }

    /// Notes that a packet of a flow of this worker has arrived, if the flow is shown.
    pub(crate) fn touch(&self, key: &K, now: Timestamp) {
        if let Some(id) = self.own(key) {
            self.states.see(id, now);
        }
    }

    /// Shows a flow of this worker, or its new state. If the board is full, all packets of the flow are
    /// sent to this worker.
    pub(crate) fn show(&mut self, key: &K, value: &V, now: Timestamp) {
        let hash = self.hasher.hash(key);
        if let Ok(Opened::Present(id)) = self.states.insert_local(key, hash, value, now) {
            self.states.update_local(id, value);
        }
    }

    /// Updates the state of a flow of this worker, if the flow is shown.
    pub(crate) fn change(&mut self, key: &K, value: &V) {
        if let Some(id) = self.own(key) {
            self.states.update_local(id, value);
        }
    }

    /// Removes a flow of this worker from the board.
    pub(crate) fn hide(&mut self, key: &K) {
        if let Some(id) = self.own(key) {
            self.states.remove_local(id);
        }
    }

    /// Returns the latest time at which any worker has seen a packet of a flow of this worker; `None` if
    /// the flow is not shown.
    pub(crate) fn last_seen(&self, key: &K) -> Option<Timestamp> {
        self.states.last_seen(self.own(key)?)
    }

    fn own(&self, key: &K) -> Option<StateId> {
        self.states.get_local(key, self.hasher.hash(key)).map(|(id, _)| id)
    }
}
